//! Snapshots over SMB: `~snapshot`, opens by time, previous versions.

mod attacks;
mod enumeration;
mod identity;
mod limits;
mod open;
mod rights;

use crate::durable::{Context, create};
use crate::rig::{Client, Disks, NOW, Opening, Reply, Rig};
use smb_wire::create::{CreateDisposition, CreateOptions, CreateResponse, OplockLevel};
use smb_wire::snapshots::TimewarpToken;
use smb_wire::types::AccessMask;
use smb_wire::{Encode, FileId, FileTime, NtStatus};
use vfs::{Backend, Snapshot, Time, ViewId, Volume};

/// Opens an existing file to read.
pub(super) const READS: Opening = Opening {
    access: AccessMask::GENERIC_READ,
    share: smb_wire::create::ShareAccess(7),
    disposition: CreateDisposition::OPEN,
    options: CreateOptions(0),
    attributes: smb_wire::types::FileAttributes::NORMAL,
};

/// Makes a snapshot of the share's volume and adds it to the list. Its number is its time in seconds after [`NOW`].
pub(super) fn snapshot(disks: &Disks, volume: &Volume, view: u32, name: &str) {
    disks.docs().snapshots().unwrap().create(ViewId(view)).unwrap();
    add(volume, view, name);
}

/// Adds a snapshot to the list only.
pub(super) fn add(volume: &Volume, view: u32, name: &str) {
    let created = Time { seconds: NOW.seconds + i64::from(view), nanos: 0 };
    let mut all: Vec<_> = volume.snapshots().iter().cloned().collect();
    all.push(Snapshot { view: ViewId(view), name: name.to_owned(), created });
    volume.set_snapshots(all);
}

/// A share with `doc`, `dir\file` and the stream `doc:s`, "old" in the snapshot `one` and "newer" now, and `young`, which
/// is newer.
pub(super) struct Past {
    pub(super) disks: Disks,
    pub(super) rig: Rig,
    pub(super) client: Client,
}

impl Past {
    pub(super) fn new() -> Self {
        let disks = Disks::default();
        let rig = Rig::over(&disks);
        let mut client = rig.alice();
        let dir = client.open("dir", Opening::dir());
        client.close(dir);
        for path in ["doc", "dir\\file", "doc:s"] {
            client.put(path, b"old");
        }
        snapshot(&disks, &rig.volume, 1, "one");
        for path in ["doc", "dir\\file", "young"] {
            client.put(path, b"newer");
        }
        // The overwrite of the file has removed the stream.
        client.put("doc:s", b"newer");
        Self { disks, rig, client }
    }

    pub(super) fn snapshot(&self, view: u32, name: &str) {
        snapshot(&self.disks, &self.rig.volume, view, name);
    }

    /// CREATE of a path at the time of a snapshot.
    pub(super) fn create_at(&mut self, view: u32, path: &str, opening: Opening) -> Reply {
        create(&mut self.client, path, opening, OplockLevel::NONE, &[at(view)])
    }

    #[track_caller]
    pub(super) fn open_at(&mut self, view: u32, path: &str, opening: Opening) -> FileId {
        self.create_at(view, path, opening).body::<CreateResponse<'_>>().file_id
    }

    /// The content of a file at the time of a snapshot.
    #[track_caller]
    pub(super) fn get_at(&mut self, view: u32, path: &str) -> Vec<u8> {
        let file = self.open_at(view, path, READS);
        let data = self.client.data(file, 0, 100);
        self.client.close(file);
        data
    }

    #[track_caller]
    pub(super) fn read(&mut self, path: &str) -> Result<Vec<u8>, NtStatus> {
        let reply = self.client.create(path, READS);
        if reply.status().is_error() {
            return Err(reply.status());
        }
        let file = reply.body::<CreateResponse<'_>>().file_id;
        let data = self.client.data(file, 0, 100);
        self.client.close(file);
        Ok(data)
    }
}

/// The context that opens a file at the time of a snapshot.
pub(super) fn at(view: u32) -> Context {
    at_time(FileTime::from_unix(NOW.seconds + i64::from(view), 0))
}

pub(super) fn at_time(timestamp: FileTime) -> Context {
    (TimewarpToken::NAME, TimewarpToken { timestamp }.to_bytes())
}
