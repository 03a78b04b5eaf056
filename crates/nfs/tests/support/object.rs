//! A file with the state that the backend reports, in the types of RFC 1813.

use nfs::handle::{Handle, HandleSigner};
use nfs_wire::v3::{DirOpArgs, Fattr, FileHandle, FileType, NfsTime, PostOpAttr, SpecData, WccAttr, WccData};
use vfs::{Attrs, Blocking, Name, NewInode, NodeRef, VolumeId};
use vfs_testing::UncheckedNode;

pub struct Object {
    pub volume: VolumeId,
    pub node: NodeRef,
    handle: Handle,
}

impl Object {
    pub fn new(signer: &HandleSigner, volume: VolumeId, node: NodeRef) -> Self {
        Self { volume, handle: signer.sign(volume.into(), &node.key()), node }
    }

    pub fn fh(&self) -> FileHandle<'_> {
        FileHandle(self.handle.bytes())
    }

    pub fn bytes(&self) -> &[u8] {
        self.handle.bytes()
    }

    pub fn at<'a>(&'a self, name: &'a [u8]) -> DirOpArgs<'a> {
        DirOpArgs { dir: self.fh(), name }
    }

    pub fn attrs(&self) -> Attrs {
        self.node.attrs(Blocking::Allowed).unwrap()
    }

    pub fn fattr(&self) -> Fattr {
        fattr(self.volume, &self.attrs())
    }

    pub fn post(&self) -> PostOpAttr {
        Some(self.fattr())
    }

    /// The expected `wcc_data` of a change after `before`.
    pub fn wcc(&self, before: &Attrs) -> WccData {
        let before = WccAttr { size: before.size, mtime: time(before.modified), ctime: time(before.changed) };
        WccData { before: Some(before), after: self.post() }
    }

    /// The expected `wcc_data` of a failed call: attributes after it, and none from before.
    pub fn wcc_failed(&self) -> WccData {
        WccData { before: None, after: self.post() }
    }

    pub fn contents(&self) -> Vec<u8> {
        let size = usize::try_from(self.attrs().size).unwrap();
        let data = self.node.read_vec(0, size, Blocking::Allowed).unwrap();
        assert_eq!(data.len(), size);
        data
    }
}

pub fn fattr(volume: VolumeId, attrs: &Attrs) -> Fattr {
    let ftype = match attrs.file_type {
        vfs::FileType::Regular => FileType::Regular,
        vfs::FileType::Directory => FileType::Directory,
        vfs::FileType::Symlink => FileType::Symlink,
        vfs::FileType::Block => FileType::BlockDevice,
        vfs::FileType::Character => FileType::CharDevice,
        vfs::FileType::Fifo => FileType::Fifo,
        vfs::FileType::Socket => FileType::Socket,
    };
    Fattr {
        ftype,
        mode: attrs.mode,
        nlink: attrs.links,
        uid: attrs.uid,
        gid: attrs.gid,
        size: attrs.size,
        used: attrs.used,
        rdev: SpecData { specdata1: attrs.device.major, specdata2: attrs.device.minor },
        fsid: volume.0,
        fileid: attrs.file_id,
        atime: time(attrs.accessed),
        mtime: time(attrs.modified),
        ctime: time(attrs.changed),
    }
}

pub fn time(time: vfs::Time) -> NfsTime {
    NfsTime { seconds: u32::try_from(time.seconds).unwrap(), nseconds: time.nanos }
}

pub fn name(name: &str) -> Name<'_> {
    Name::new(name.as_bytes()).unwrap()
}

/// A new inode of Alice.
pub fn new_inode(mode: u32) -> NewInode {
    NewInode { mode, uid: 1000, gid: 100, times: None, size: 0 }
}
