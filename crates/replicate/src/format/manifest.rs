//! Manifests: the last object of a backup, which names and hashes all others.

use super::bytes::{Reader, Writer};
use super::names::{BackupId, Hash, PackId};
use super::pack::PackInfo;
use vfs::{FileKey, Time};

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub id: BackupId,
    /// The volume, as the caller names it.
    pub volume: String,
    /// The snapshot, as the caller names it.
    pub snapshot: String,
    /// The time of the snapshot.
    pub taken: Time,
    pub finished: Time,
    /// The backup that this one was compared with.
    pub previous: Option<BackupId>,
    /// No deletion before this time.
    pub locked_until: Option<Time>,
    pub totals: Totals,
    /// The file that is the root.
    pub(crate) root: FileKey,
    pub(crate) leaves: Vec<Part>,
    pub(crate) packs: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files of all types, each once; streams count too.
    pub files: u64,
    /// Sizes of regular files and streams.
    pub bytes: u64,
    /// Bytes of packs that this backup added.
    pub sent_bytes: u64,
    /// Names that a backup cannot contain: mount points, and names of this service's own.
    pub skipped: u64,
}

/// An object with a part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) object: String,
    /// The hash of the whole object.
    pub(crate) hash: Hash,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.raw(&self.id.0);
        writer.bytes(self.volume.as_bytes());
        writer.bytes(self.snapshot.as_bytes());
        writer.time(self.taken);
        writer.time(self.finished);
        writer.bytes(self.previous.as_ref().map_or(&[][..], |id| &id.0));
        writer.u8(self.locked_until.is_some().into());
        writer.time(self.locked_until.unwrap_or_default());
        let totals = self.totals;
        for count in [totals.files, totals.bytes, totals.sent_bytes, totals.skipped] {
            writer.int(count);
        }
        writer.bytes(self.root.bytes());
        for parts in [&self.leaves, &self.packs] {
            writer.len(parts.len());
            for part in parts {
                writer.bytes(part.object.as_bytes());
                writer.raw(&part.hash.0);
            }
        }
        writer.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let id = BackupId(reader.array()?);
        let (volume, snapshot) = (reader.text()?, reader.text()?);
        let (taken, finished) = (reader.time()?, reader.time()?);
        let previous = match reader.bytes()? {
            [] => None,
            id => Some(BackupId(id.try_into().ok()?)),
        };
        let (is_locked, until) = (reader.u8()?, reader.time()?);
        let totals = Totals {
            files: reader.int()?,
            bytes: reader.int()?,
            sent_bytes: reader.int()?,
            skipped: reader.int()?,
        };
        let root = FileKey::new(reader.bytes()?).ok()?;
        let mut parts = || {
            let mut parts = Vec::new();
            for _ in 0..reader.len()? {
                parts.push(Part { object: reader.text()?, hash: Hash(reader.array()?) });
            }
            Some(parts)
        };
        let (leaves, packs) = (parts()?, parts()?);
        let locked_until = (is_locked == 1).then_some(until);
        reader.end(Self {
            id,
            volume,
            snapshot,
            taken,
            finished,
            previous,
            locked_until,
            totals,
            root,
            leaves,
            packs,
        })
    }
}

pub(crate) fn write_pack(writer: &mut Writer, id: &PackId, info: &PackInfo) {
    writer.raw(&id.0);
    writer.int(info.size);
    writer.raw(&info.hash.0);
}

pub(crate) fn read_pack(reader: &mut Reader<'_>) -> Option<(PackId, PackInfo)> {
    let id = PackId(reader.array()?);
    Some((id, PackInfo { size: reader.int()?, hash: Hash(reader.array()?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_comes_back() {
        let part = |object: &str| Part { object: object.to_owned(), hash: Hash([3; 32]) };
        let manifest = Manifest {
            id: BackupId([1; 8]),
            volume: "v1".to_owned(),
            snapshot: "daily".to_owned(),
            taken: Time { seconds: 5, nanos: 1 },
            finished: Time { seconds: 6, nanos: 2 },
            previous: Some(BackupId([2; 8])),
            locked_until: Some(Time { seconds: 7, nanos: 0 }),
            totals: Totals { files: 1, bytes: 2, sent_bytes: 3, skipped: 4 },
            root: FileKey::new(b"root").unwrap(),
            leaves: vec![part("a"), part("b")],
            packs: vec![part("c")],
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Some(manifest));
        for len in 0..bytes.len() {
            assert_eq!(Manifest::decode(&bytes[..len]), None);
        }
    }
}
