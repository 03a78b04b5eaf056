//! The record of an open, as XDR (RFC 4506).

use super::{CreateParams, OpenRecord};
use crate::limits::{PATH_NAMES_MAX, PERSISTENT_RANGES_MAX};
use crate::metadata::names::Naming;
use crate::state::caching::breaks::{caching_of_state, state_of};
use crate::state::open::lock_sequences::ENTRIES;
use crate::state::open::{EntryPath, Open};
use smb_wire::NtStatus;
use smb_wire::oplock::LeaseState;
use vfs::claims::{Caching, Link, Span};
use vfs::{FileKey, KEY_BYTES_MAX, ViewId};
use xdr::{Decode, Encode, Malformed, Reader, Xdr};

/// Bytes of a file's key, a limit of vfs.
const KEY_MAX: u32 = 40;
/// Bytes of a stored name, and of the path of a share.
const NAME_MAX: u32 = 4096;
/// Names in a path.
const PATH_MAX: u32 = 256;
const GROUPS_MAX: u32 = 65_536;
const RANGES_MAX: u32 = 4096;

const _: () = assert!(KEY_BYTES_MAX <= 40 && PATH_NAMES_MAX <= 256 && PERSISTENT_RANGES_MAX <= 4096);

#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub(super) struct Record<'a> {
    pub(super) create_guid: [u8; 16],
    pub(super) client_guid: [u8; 16],
    /// The user who logged in.
    pub(super) uid: u32,
    pub(super) timeout_ms: u32,
    pub(super) instance: Option<InstanceRecord>,
    /// The user's credential in the share.
    pub(super) caller: CallerRecord,
    pub(super) volume: u64,
    #[xdr(max = NAME_MAX)]
    pub(super) share: &'a [u8],
    #[xdr(max = KEY_MAX)]
    pub(super) file: &'a [u8],
    #[xdr(max = KEY_MAX)]
    pub(super) dir: &'a [u8],
    #[xdr(max = PATH_MAX)]
    pub(super) path: Vec<NameRecord<'a>>,
    /// Whether the open has POSIX names.
    pub(super) is_posix: bool,
    pub(super) granted: u32,
    pub(super) share_access: u32,
    pub(super) mode: u32,
    pub(super) action: u32,
    /// Whether the file is deleted with its last open.
    pub(super) is_deleted: bool,
    pub(super) cache: Option<CacheRecord>,
    #[xdr(max = RANGES_MAX)]
    pub(super) ranges: Vec<RangeRecord>,
    /// `Open.LockSequenceArray`, with 255 for empty entries.
    pub(super) lock_sequences: [u8; ENTRIES],
}

/// `AppInstanceId` and `AppInstanceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub(super) struct InstanceRecord {
    pub(super) id: [u8; 16],
    pub(super) high: u64,
    pub(super) low: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub(super) struct CallerRecord {
    pub(super) uid: u32,
    pub(super) gid: u32,
    #[xdr(max = GROUPS_MAX)]
    pub(super) groups: Vec<u32>,
    pub(super) read_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub(super) struct NameRecord<'a>(#[xdr(max = NAME_MAX)] pub(super) &'a [u8]);

/// The caching of the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub(super) struct CacheRecord {
    /// None for an oplock.
    pub(super) lease: Option<LeaseRecord>,
    /// `LeaseState`.
    pub(super) want: u32,
    pub(super) epoch: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub(super) struct LeaseRecord {
    pub(super) key: [u8; 16],
    /// Whether the lease is of version 2.
    pub(super) has_epoch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub(super) struct RangeRecord {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) is_exclusive: bool,
}

/// Updates the record of an open, if there is one.
pub(crate) fn save(open: &Open) -> Result<(), NtStatus> {
    open.record().map_or(Ok(()), |open_record| save_as(open, open_record))
}

/// Writes the first record of an open.
pub(crate) fn save_as(open: &Open, open_record: &OpenRecord) -> Result<(), NtStatus> {
    open_record.write(|created| {
        let sources = Sources::of(open).ok_or(NtStatus::NOT_SUPPORTED)?;
        let record = Record::of(open, created, &sources).ok_or(NtStatus::FILE_CLOSED)?;
        if record.ranges.len() > PERSISTENT_RANGES_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        Ok((record.to_bytes(), record.is_deleted))
    })
}

/// Values that a record borrows.
pub(super) struct Sources {
    entry_path: EntryPath,
    dir: FileKey,
    file: FileKey,
}

impl Sources {
    /// None for the root of a share, and for a stream.
    pub(super) fn of(open: &Open) -> Option<Self> {
        let entry_path = open.entry_path().clone();
        let (dir, _) = entry_path.entry.as_ref().filter(|_| entry_path.stream.is_none())?;
        let (dir, file) = (dir.key(), open.file.key());
        // A record has the backend's part of keys alone. Only live files change, so no other open needs one.
        (file.view() == ViewId::LIVE).then_some(Self { entry_path, dir, file })
    }
}

impl<'a> Record<'a> {
    /// The record of an open's current state; none if its claim is lost.
    pub(super) fn of(open: &'a Open, created: &CreateParams, sources: &'a Sources) -> Option<Self> {
        let Sources { entry_path, dir, file } = sources;
        let export = &open.disk.export;
        let caller = &open.disk.caller;
        let granted = open.file.granted_of(open.claim())?;
        let lease = open.lease_key().map(|key| LeaseRecord { key: key.0, has_epoch: open.has_epoch() });
        let cache = (!created.want.is_none()).then(|| CacheRecord {
            lease,
            want: state_of(created.want).0,
            epoch: u32::from(granted.epoch),
        });
        let range = |(span, is_exclusive): (Span, bool)| RangeRecord {
            start: span.start(),
            length: span.len(),
            is_exclusive,
        };
        let instance = open.app_instance().map(|instance| {
            let (high, low) = instance.version;
            InstanceRecord { id: instance.id.0, high, low }
        });
        let mut record = Self {
            create_guid: created.create_guid.0,
            client_guid: created.client_guid.0,
            uid: created.uid,
            timeout_ms: created.timeout_ms,
            instance,
            caller: CallerRecord {
                uid: caller.uid,
                gid: caller.gid,
                groups: caller.groups().to_vec(),
                read_only: caller.read_only,
            },
            volume: export.volume.id().0,
            share: export.path.as_bytes(),
            file: file.bytes(),
            dir: dir.bytes(),
            path: entry_path.path.iter().map(|name| NameRecord(name)).collect(),
            is_posix: open.naming == Naming::Posix,
            granted: open.granted.0,
            share_access: created.share_access.0,
            mode: open.mode().0,
            action: created.action.0,
            is_deleted: false,
            cache,
            ranges: open.file.ranges_with(open.claim()).into_iter().map(range).collect(),
            lock_sequences: open.sequences.locks.to_bytes(),
        };
        record.is_deleted = record.is_deleted_by(open.file.deletion().as_ref());
        Some(record)
    }

    /// Whether a deletion removes the name in the record.
    pub(super) fn is_deleted_by(&self, deletion: Option<&Link>) -> bool {
        // A deletion by another name of the file leaves this one.
        deletion.is_some_and(|link| link.parent.bytes() == self.dir && *link.name == *self.name())
    }

    /// Decodes a complete record.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let record = Self::decode(&mut r)?;
        if r.remaining() > 0 || record.path.is_empty() {
            return Err(Malformed("a record of an open"));
        }
        Ok(record)
    }

    pub(super) fn lock_spans(&self) -> Result<Vec<(Span, bool)>, NtStatus> {
        let span = |range: &RangeRecord| {
            let span = Span::new(range.start, range.length).ok_or(NtStatus::INVALID_LOCK_RANGE)?;
            Ok((span, range.is_exclusive))
        };
        self.ranges.iter().map(span).collect()
    }

    /// The last name of the path.
    pub(super) fn name(&self) -> &'a [u8] {
        self.path.last().map_or(&[], |name| name.0)
    }
}

impl CacheRecord {
    pub(super) fn want(&self) -> Caching {
        caching_of_state(LeaseState(self.want))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_survives_encoding_and_rejects_truncation() {
        let record = Record {
            create_guid: [1; 16],
            client_guid: [2; 16],
            uid: 3,
            timeout_ms: 4,
            instance: Some(InstanceRecord { id: [5; 16], high: 6, low: 7 }),
            caller: CallerRecord { uid: 8, gid: 9, groups: vec![10, 11], read_only: true },
            volume: 12,
            share: b"/files",
            file: b"key",
            dir: b"dir",
            path: vec![NameRecord(b"dir"), NameRecord(b"name")],
            is_posix: false,
            granted: 13,
            share_access: 7,
            mode: 0,
            action: 2,
            is_deleted: true,
            cache: Some(CacheRecord {
                lease: Some(LeaseRecord { key: [14; 16], has_epoch: true }),
                want: 7,
                epoch: 15,
            }),
            ranges: vec![RangeRecord { start: 16, length: 17, is_exclusive: true }],
            lock_sequences: [255; ENTRIES],
        };
        let bytes = record.to_bytes();
        assert_eq!(Record::read(&bytes).unwrap(), record);
        assert_eq!(record.name(), b"name");
        for length in 0..bytes.len() {
            assert!(Record::read(&bytes[..length]).is_err(), "{length}");
        }
        assert!(Record::read(&[&bytes[..], &[0; 4]].concat()).is_err(), "nothing follows");
        let nameless = Record { path: Vec::new(), ..record };
        assert!(Record::read(&nameless.to_bytes()).is_err());
    }
}
