//! Opens (MS-SMB2 §3.3.1.10).

pub(crate) mod channel_sequence;
pub(crate) mod directory_cursor;
pub(crate) mod durability;
pub(crate) mod entry_path;
pub(crate) mod lock_sequences;
mod notify;
pub(crate) mod open_table;
pub(crate) mod watch;

use super::caching::leases::{LeaseGuard, OpenCaching};
use super::tree::DiskShare;
use crate::metadata::file_info::FileInfo;
use crate::metadata::identity;
use crate::metadata::names::Naming;
use channel_sequence::ChannelSequence;
use directory_cursor::DirectoryCursor;
use durability::Durability;
pub(crate) use entry_path::EntryPath;
use lock_sequences::LockSequences;
use smb_wire::classes::file::Mode;
use smb_wire::oplock::LeaseKey;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use vfs::acl::Rights;
use vfs::claims::{self, LockOwner, OpenId, OpenRequest, Request};
use vfs::sync::Mutex;
use vfs::{
    Access, Attrs, Blocking, Change, File, FileType, FsError, FsResult, OpenFile, PendingSync, SetAttrs,
    SetTime, Wait,
};
use watch::DirectoryWatch;

/// The rights to write data.
const WRITE_DATA: AccessMask = AccessMask(AccessMask::WRITE_DATA.0 | AccessMask::APPEND_DATA.0);

/// `Open`: a file opened by a client, with its claim on the file.
pub(crate) struct Open {
    pub(crate) id: FileId,
    pub(crate) disk: Arc<DiskShare>,
    pub(crate) file: File,
    pub(crate) file_type: FileType,
    /// The type of the file that contains this stream; otherwise `file_type`.
    pub(crate) base_type: FileType,
    pub(crate) naming: Naming,
    /// The file's data; none for other types than regular files.
    open_file: Option<OpenFile<'static>>,
    /// `Open.GrantedAccess`.
    pub(crate) granted: AccessMask,
    claim: OpenId,
    mode: AtomicU32,
    entry_path: Mutex<EntryPath>,
    pub(crate) cursors: Cursors,
    pub(crate) times: UserSetTimes,
    pub(crate) sequences: Sequences,
    caching: CachingState,
    durability: Durability,
    closing: ClosingState,
}

/// Positions from which requests continue.
#[derive(Default)]
pub(crate) struct Cursors {
    position: AtomicU64,
    directory: Mutex<DirectoryCursor>,
    /// `Open.NextEaEntry`.
    pub(crate) next_ea_entry: AtomicU64,
    /// `Open.NextQuotaEntry`: the lowest uid of the next list of quotas.
    pub(crate) next_quota: AtomicU64,
    /// The watch of the directory, once a request has begun it.
    watch: OnceLock<Arc<DirectoryWatch>>,
}

/// Times that the client has set, and that writes leave alone.
#[derive(Default)]
pub(crate) struct UserSetTimes {
    /// `Open.UserSetModificationTime` (MS-FSA §2.1.1.6).
    pub(crate) modified: AtomicBool,
    /// `Open.UserSetChangeTime`: the change of attributes leaves the time alone.
    pub(crate) changed: AtomicBool,
}

/// Sequence numbers by which requests of a lost connection are recognized.
pub(crate) struct Sequences {
    pub(crate) channel: ChannelSequence,
    pub(crate) locks: LockSequences,
}

struct CachingState {
    /// The lease or oplock of the open.
    current: Mutex<Option<OpenCaching>>,
    /// `ParentLeaseKey` (MS-SMB2 §2.2.13.2.10): the directory's lease, whose holder knows what this open changes there.
    parent_lease: Option<claims::LeaseKey>,
}

#[derive(Default)]
struct ClosingState {
    deletes_on_close: AtomicBool,
    /// Whether data were written: the directory's listing shows that when the open is closed.
    has_written: AtomicBool,
    is_closed: AtomicBool,
}

/// The parts of a new [`Open`].
pub(crate) struct NewOpen {
    pub(crate) id: FileId,
    pub(crate) disk: Arc<DiskShare>,
    pub(crate) file: File,
    pub(crate) file_type: FileType,
    pub(crate) base_type: FileType,
    pub(crate) naming: Naming,
    pub(crate) opened: Option<OpenFile<'static>>,
    pub(crate) granted: AccessMask,
    pub(crate) mode: Mode,
    pub(crate) claim: OpenId,
    pub(crate) entry_path: EntryPath,
    pub(crate) channel_sequence: u16,
    pub(crate) caching: Option<OpenCaching>,
    pub(crate) parent_lease: Option<claims::LeaseKey>,
}

impl Open {
    pub(crate) fn new(new: NewOpen) -> Self {
        let NewOpen {
            id,
            disk,
            file,
            file_type,
            base_type,
            naming,
            opened,
            granted,
            mode,
            claim,
            entry_path,
            channel_sequence,
            caching,
            parent_lease,
        } = new;
        Self {
            id,
            disk,
            file,
            file_type,
            base_type,
            naming,
            open_file: opened,
            granted,
            claim,
            mode: AtomicU32::new(mode.0),
            entry_path: Mutex::new(entry_path),
            cursors: Cursors::default(),
            times: UserSetTimes::default(),
            sequences: Sequences {
                channel: ChannelSequence::new(channel_sequence),
                locks: LockSequences::default(),
            },
            caching: CachingState { current: Mutex::new(caching), parent_lease },
            durability: Durability::default(),
            closing: ClosingState::default(),
        }
    }

    pub(crate) fn parent_lease(&self) -> Option<claims::LeaseKey> {
        self.caching.parent_lease
    }

    /// The file's data, if the open has all of `access`. An open of a snapshot may have the right to write, but nobody
    /// writes there.
    pub(crate) fn data(&self, access: Access) -> Result<&OpenFile<'static>, NtStatus> {
        match &self.open_file {
            Some(opened) if opened.allows(access) => Ok(opened),
            Some(_) if access.has(Access::WRITE) && self.granted.intersects(WRITE_DATA) => {
                self.check_writable()?;
                Err(NtStatus::ACCESS_DENIED)
            }
            Some(_) => Err(NtStatus::ACCESS_DENIED),
            None => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }

    /// The file's data, with any access.
    pub(crate) fn opened(&self) -> Option<&OpenFile<'static>> {
        self.open_file.as_ref()
    }

    /// The mode (MS-FSCC §2.4.26).
    pub(crate) fn mode(&self) -> Mode {
        Mode(self.mode.load(Ordering::Relaxed))
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.0, Ordering::Relaxed);
    }

    /// Whether every write must be durable before its reply leaves.
    pub(crate) fn writes_through(&self) -> bool {
        // The client of a persistent open does not learn of a restart, and repeats no writes.
        self.mode().contains(Mode::WRITE_THROUGH) || self.is_persistent()
    }

    /// The end of the last transfer, or the position that the client has set (MS-FSCC §2.4.35). No transfer begins
    /// there.
    pub(crate) fn position(&self) -> u64 {
        self.cursors.position.load(Ordering::Relaxed)
    }

    pub(crate) fn set_position(&self, position: u64) {
        self.cursors.position.store(position, Ordering::Relaxed);
    }

    /// `STATUS_ACCESS_DENIED` unless one of `rights` was granted.
    pub(crate) fn check(&self, rights: AccessMask) -> Result<(), NtStatus> {
        if self.granted.intersects(rights) { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
    }

    /// `STATUS_MEDIA_WRITE_PROTECTED` in a read-only export and in a snapshot.
    pub(crate) fn check_writable(&self) -> Result<(), NtStatus> {
        self.disk.check_writable(&self.file)
    }

    /// The number of the file, which has `attrs`.
    pub(crate) fn file_number(&self, attrs: &Attrs) -> u64 {
        identity::file_id(&self.file, attrs)
    }

    /// The serial number by which clients distinguish volumes.
    pub(crate) fn serial_number(&self) -> u32 {
        identity::serial_number(self.disk.export.volume.id(), self.file.key().view())
    }

    /// The id in the table of claims.
    pub(crate) fn claim(&self) -> OpenId {
        self.claim
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.caching.current.lock().as_ref().is_some_and(OpenCaching::is_lease)
    }

    pub(crate) fn lease_key(&self) -> Option<LeaseKey> {
        self.caching.current.lock().as_ref().and_then(OpenCaching::lease).map(LeaseGuard::key)
    }

    /// Whether its lease is of version 2.
    pub(crate) fn has_epoch(&self) -> bool {
        self.caching.current.lock().as_ref().and_then(OpenCaching::lease).is_some_and(LeaseGuard::has_epoch)
    }

    /// Takes the lease or oplock, to be attached to another tree connect.
    pub(crate) fn take_caching(&self) -> Option<OpenCaching> {
        self.caching.current.lock().take()
    }

    /// The owner of the open's byte ranges.
    pub(crate) fn lock_owner(&self) -> LockOwner {
        // The volatile half of the file id changes on a reconnect; the claim does not.
        LockOwner { holder: self.disk.holder, owner: self.claim.0 }
    }

    /// The request of an additional open for the same client, without caching.
    pub(crate) fn auxiliary_request(&self, file: &File, access: claims::Access) -> OpenRequest {
        OpenRequest {
            holder: self.disk.holder,
            stream: file.stream(),
            access,
            truncates: false,
            is_mandatory: true,
            is_advisory: false,
            lease: None,
            reclaims: false,
            waits: false,
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(crate) fn entry_path(&self) -> MutexGuard<'_, EntryPath> {
        self.entry_path.lock()
    }

    pub(crate) fn cursor(&self) -> MutexGuard<'_, DirectoryCursor> {
        self.cursors.directory.lock()
    }

    pub(crate) fn file_info(&self, attrs: &Attrs) -> FsResult<FileInfo> {
        Ok(self.file_info_with(attrs, &self.file.extra_attrs(attrs, Blocking::Allowed)?))
    }

    pub(crate) fn file_info_with(&self, attrs: &Attrs, record: &vfs::ExtraAttrs) -> FileInfo {
        FileInfo::with_base(self.base_type, attrs, record)
    }

    /// Restores the time of the last write after a write, if the client has set it. Without the right to do so, or
    /// behind a lease of another client, the time stays changed: the write itself has succeeded.
    pub(crate) fn restore_modified(&self, change: &Change, pending: &mut PendingSync) -> FsResult<()> {
        if !self.times.modified.load(Ordering::Relaxed) || change.before.modified == change.after.modified {
            return Ok(());
        }
        let modified = Some(SetTime::To(change.before.modified));
        let set = SetAttrs { modified, ..SetAttrs::default() };
        match self.set_times(&set, pending) {
            Err(FsError::NotOwner | FsError::Access | FsError::Wait(Wait::Recall)) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Sets times and a mode. On Windows, the right to write attributes suffices to set times (MS-FSA §2.1.5.15.2); on
    /// Unix, only the owner may set them.
    pub(crate) fn set_times(&self, set: &SetAttrs, pending: &mut PendingSync) -> FsResult<Change> {
        let rights = match self.naming {
            Naming::Windows => Rights(self.granted.0),
            Naming::Posix => Rights::default(),
        };
        self.file.set_attrs_by_claim(&self.disk.caller, rights, set, pending)
    }

    /// Closes the claim, once. A file to be deleted then is deleted when claims expire.
    pub(crate) fn close(&self) {
        self.release();
        if let Some(record) = self.record() {
            record.end(&self.file, self.mode().contains(Mode::DELETE_ON_CLOSE));
        }
    }

    fn release(&self) {
        if !self.closing.is_closed.swap(true, Ordering::SeqCst) {
            self.notify_deleting();
            if self.closing.has_written.load(Ordering::Relaxed) {
                self.notify_listing_changed();
            }
            self.file.claim(&Request::CloseListed { open: self.claim, listing: self.caching.parent_lease });
            self.notify_stream_removed();
            let caching = self.caching.current.lock().take();
            drop(caching);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A persistent open keeps its record, from which it is restored.
        self.release();
    }
}
