//! The fixture of the cases, and helpers for them.

use crate::UncheckedNode;
use crate::conformance::expect::{attrs, eq, holds, list};
use crate::conformance::rig::{Failure, Outcome, name};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::backend::charge;
use vfs::{
    Attrs, Backend, Blocking, Capacity, FileType, FsError, FsResult, Name, NewInode, NodeRef, Provisioner,
    Root, Usage, VolumeId, XattrName,
};

pub use vfs::backend::charge::BLOCK_BYTES;
/// The charge of a file without contents with one name.
pub(super) const FILE_BYTES: u64 = charge::INODE_BYTES + charge::NAME_BYTES;

/// The volume of the cases that need only one.
pub(super) const ID: VolumeId = VolumeId(0x0123_4567_89ab_cdef);
pub(super) const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charging {
    /// By its size, rounded up to blocks: holes too.
    Sizes,
    /// The blocks that were written.
    Blocks,
    /// By the written blocks, the blocks that index them, and blocks that the file system keeps ready. Known only
    /// roughly, and released a little after a removal.
    Kernel,
}

/// The end of a provisioner before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything is closed.
    Orderly,
    /// The process is killed; the storage stays.
    Killed,
}

/// Ends a provisioner with its one open volume and returns its successor. The caller passes the last references.
pub type Again = Arc<dyn Fn(Arc<dyn Provisioner>, Arc<dyn Backend>, End) -> Arc<dyn Provisioner>>;

/// The fixture of one case: a provisioner without volumes.
pub struct Fixture {
    pub provisioner: Arc<dyn Provisioner>,
    pub charging: Charging,
    /// Owner and group that it can give to new files.
    pub ids: (u32, u32),
    pub again: Again,
    /// Does what the process does about once a second.
    pub sweep: Arc<dyn Fn()>,
}

#[derive(Clone, Copy)]
pub struct Case {
    /// Family and promise.
    pub name: &'static str,
    pub run: fn(Fixture) -> Outcome,
}

impl Fixture {
    pub(super) fn new_inode(&self) -> NewInode {
        NewInode { mode: 0o644, uid: self.ids.0, gid: self.ids.1, times: None, size: 0 }
    }

    pub(super) fn root(&self) -> Root {
        Root { mode: 0o755, uid: self.ids.0, gid: self.ids.1 }
    }

    pub(super) fn volume(&self, bytes: u64, files: u64) -> Outcome<Arc<dyn Backend>> {
        self.provisioner.make(ID, &self.root(), Capacity { bytes, files })?;
        Ok(self.provisioner.open(ID)?)
    }

    pub(super) fn file(&self, dir: &NodeRef, text: &str) -> FsResult<NodeRef> {
        Ok(dir.create_unchecked(name(text), &self.new_inode())?.found.node)
    }

    /// Waits until the open volumes are counted.
    pub(super) fn counted(&self) -> Outcome {
        let patience = Instant::now() + Duration::from_secs(60);
        while self.provisioner.counting().volumes > 0 {
            holds("a count ends", Instant::now() < patience)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits for the effect of a sweep.
    pub(super) fn settle(&self, is_settled: &dyn Fn() -> Outcome<bool>) -> Outcome {
        let patience = Instant::now() + Duration::from_secs(60);
        while !is_settled()? {
            holds("it settles", Instant::now() < patience)?;
            (self.sweep)();
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(super) fn is_exact(&self) -> bool {
        self.charging != Charging::Kernel
    }

    pub(super) fn usage(&self) -> Outcome<Usage> {
        Ok(self.provisioner.usage(ID)?)
    }

    /// Returns the charge of the volume's objects besides their contents.
    pub(super) fn overhead(&self) -> Outcome<u64> {
        overhead(&self.provisioner.open(ID)?.root())
    }

    /// Checks that usage is `bytes` of contents plus the objects' charges: exact, or roughly where the kernel counts.
    #[track_caller]
    pub(super) fn check_usage(&self, what: &str, bytes: u64, files: u64) -> Outcome {
        if self.is_exact() {
            let held = self.provisioner.snapshot_bytes(ID)?.unwrap_or(0);
            let used = Usage { bytes: bytes + self.overhead()? + held, files };
            return eq(what, self.provisioner.usage(ID)?, used);
        }
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let usage = self.provisioner.usage(ID)?;
            // As much again may be kept ready for a file that grows.
            if usage.files == files && usage.bytes >= bytes && usage.bytes <= 2 * bytes + MIB / 2 {
                return Ok(());
            }
            if Instant::now() > patience {
                let want = format!("about {bytes} bytes and {files} files");
                return Err(Failure::new(format!("{what}: got {usage:?}, want {want}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the same storage after an end. `volume` must be the only reference to its backend.
    pub(super) fn after(self, volume: Arc<dyn Backend>, end: End) -> Self {
        let Self { provisioner, charging, ids, again, sweep } = self;
        let provisioner = again(provisioner, volume, end);
        Self { provisioner, charging, ids, again, sweep }
    }
}

/// Walks over the objects below a root with the backend's own operations and returns their charge besides the contents
/// of regular files.
pub(super) fn overhead(root: &NodeRef) -> Outcome<u64> {
    let mut bytes = FILE_BYTES + charge::directory(attrs(root)?.size) - charge::ROOT_BYTES + xattrs(root)?;
    let (mut waiting, mut seen) = (vec![Arc::clone(root)], HashSet::new());
    while let Some(dir) = waiting.pop() {
        for listed in list(&dir, 0, false, 1000)? {
            if matches!(&listed.name[..], b"." | b"..") {
                continue;
            }
            let found =
                dir.lookup(Name::new(&listed.name).map_err(|_| FsError::Invalid)?, Blocking::Allowed)?;
            let Attrs { file_type, size, file_id, .. } = found.attrs;
            bytes += charge::NAME_BYTES;
            if !seen.insert(file_id) {
                continue;
            }
            bytes += charge::INODE_BYTES;
            bytes += match file_type {
                FileType::Directory => charge::directory(size) + xattrs(&found.node)?,
                FileType::Regular => xattrs(&found.node)?,
                FileType::Symlink => charge::symlink(size),
                _ => 0,
            };
            if file_type == FileType::Directory {
                waiting.push(found.node);
            }
        }
    }
    Ok(bytes)
}

/// Returns the charge of extended attributes: those in the list, and the service's own.
fn xattrs(node: &NodeRef) -> Outcome<u64> {
    let Some(carried) = node.xattrs() else { return Ok(0) };
    let (mut names, mut charge) = (Vec::new(), charge::Xattrs::default());
    carried.list(0, &mut |name, _| {
        names.push(name.bytes().to_vec());
        ControlFlow::Continue(())
    })?;
    for name in names {
        let value = carried.get(XattrName::new(&name).map_err(|_| FsError::Invalid)?)?;
        charge.add(name.len(), value.len());
    }
    for own in [XattrName::EXTRA_ATTRS, XattrName::ACL, XattrName::OWNER, XattrName::COUNTER] {
        if let Ok(value) = carried.get(own) {
            charge.add(own.bytes().len(), value.len());
        }
    }
    Ok(charge.bytes())
}

/// Appends blocks to `file` until the volume is full; returns their number.
pub(super) fn append_until_full(file: &NodeRef) -> Outcome<u64> {
    let block = [7; 4096];
    let mut blocks = attrs(file)?.size / BLOCK_BYTES;
    let first = blocks;
    loop {
        match file.write(blocks * BLOCK_BYTES, &block, KEEP_SET_ID) {
            Ok(_) => blocks += 1,
            Err(FsError::NoSpace) => return Ok(blocks - first),
            Err(error) => return Err(error.into()),
        }
        holds("a volume is full at some time", blocks < 1 << 20)?;
    }
}
