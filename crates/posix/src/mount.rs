//! The tree that is served: where files are opened, found by key, and by name without leaving the file system.

use crate::error::refused;
use crate::key::{self, Form};
use crate::node::{Node, Rights};
use crate::sys::{self, Handle};
use crate::table::Table;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, openat, openat2, statx};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{FileKey, FileType, Found, FsError, FsResult, Pace};

/// Flags of every descriptor that is no `O_PATH`: opening never waits, follows a link or takes a terminal.
const OPEN_SAFELY: OFlags =
    OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Flags of a descriptor that only names a file: opening has no effect on it, whatever it is.
const OPEN_PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How keys are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// From the kernel's handle.
    Handle,
    /// From inode number and birth time: the file system makes no handles.
    Inode,
}

/// One served tree and what all its nodes share.
pub(crate) struct Mount {
    /// The root, open for reading: the kernel refuses to open by handle at an `O_PATH`.
    pub(crate) root: OwnedFd,
    /// Device and inode number of the root.
    pub(crate) root_id: (u64, u64),
    pub(crate) root_key: FileKey,
    /// The mount that the root lies on, as name_to_handle_at numbers it. Held by `root`, so never given to another.
    mount_id: i32,
    key_source: KeySource,
    /// The file system is memory: reading never waits for a disk.
    pub(crate) memory: bool,
    pub(crate) table: Table,
    /// The kernel has no openat2, or a sandbox hides it.
    no_openat2: AtomicBool,
    /// The file system refuses `RWF_NOWAIT`.
    pub(crate) no_nowait: AtomicBool,
    /// The kernel has no cachestat.
    pub(crate) no_cachestat: AtomicBool,
}

impl Mount {
    /// The tree below `root`.
    pub(crate) fn new(root: OwnedFd, nodes_max: usize) -> FsResult<Self> {
        const TMPFS_MAGIC: u32 = 0x0102_1994;
        const RAMFS_MAGIC: u32 = 0x8584_58f6;
        let stat = fstat(&root).map_err(refused)?;
        let kind = rustix::fs::fstatfs(&root).map_err(refused)?.f_type;
        let (handle, mount_id) = match sys::name_to_handle(root.as_fd(), b"") {
            Ok((handle, mount_id)) => (key::of_handle(&handle), mount_id),
            Err(_) => (None, 0),
        };
        let (key_source, root_key) = match handle {
            Some(key) => (KeySource::Handle, key),
            None => (KeySource::Inode, inode_key(root.as_fd(), b"")?),
        };
        Ok(Self {
            root_id: (stat.st_dev, stat.st_ino),
            root,
            root_key,
            mount_id,
            key_source,
            memory: [TMPFS_MAGIC, RAMFS_MAGIC].iter().any(|&magic| i64::from(magic) == kind),
            table: Table::new(nodes_max),
            no_openat2: AtomicBool::new(false),
            no_nowait: AtomicBool::new(false),
            no_cachestat: AtomicBool::new(false),
        })
    }

    /// Whether a file with this `stat` lies in the file system of the root.
    pub(crate) fn holds(&self, stat: &Stat) -> bool {
        stat.st_dev == self.root_id.0
    }

    /// The node of `key`.
    pub(crate) fn node(self: &Arc<Self>, key: &FileKey, pace: Pace) -> FsResult<Arc<Node>> {
        if let Some(node) = self.table.find(key) {
            return Ok(node);
        }
        let form = key::form(key)?;
        if pace == Pace::Now {
            return Err(FsError::WouldWait);
        }
        let fd = match (form, self.key_source) {
            (Form::Handle(handle), KeySource::Handle) => self.open_handle(&handle, OPEN_PATH)?,
            _ => return Err(FsError::Stale),
        };
        // The same file under other bytes would be a second node: only the kernel's own spelling counts.
        if self.key_at(fd.as_fd(), b"")? != *key {
            return Err(FsError::BadHandle);
        }
        Ok(self.adopt_as(fd, *key)?.0)
    }

    /// The object of `name` in the directory open as `dir`.
    pub(crate) fn child(
        self: &Arc<Self>,
        dir: BorrowedFd<'_>,
        name: &[u8],
        pace: Pace,
    ) -> FsResult<(Arc<Node>, Stat)> {
        if pace == Pace::Wait && self.key_source == KeySource::Handle {
            // Two system calls for a known file. Refusals are left to the opening below, which says them exactly.
            if let Ok(key) = self.key_at(dir, name)
                && let Some(node) = self.table.find(&key)
                && let Ok(stat) = node.stat()
            {
                return Ok((node, stat));
            }
        }
        self.adopt(self.open_name(dir, name, pace)?)
    }

    /// The node, if it is in the table, of `name` in `dir`.
    pub(crate) fn known(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Option<Arc<Node>> {
        self.table.find(&self.key_at(dir, name).ok()?)
    }

    /// The key of `name` in `dir`, of `dir` itself if the name is empty. [`FsError::CrossVolume`] for what is mounted
    /// on top of the name.
    pub(crate) fn key_at(&self, dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<FileKey> {
        if self.key_source == KeySource::Inode {
            return inode_key(dir, name);
        }
        let (handle, mount_id) = sys::name_to_handle(dir, name).map_err(refused)?;
        if mount_id != self.mount_id {
            return Err(FsError::CrossVolume);
        }
        key::of_handle(&handle).ok_or(FsError::NotSupported)
    }

    /// The node of what `fd` (an `O_PATH`) names, and its state.
    pub(crate) fn adopt(self: &Arc<Self>, fd: OwnedFd) -> FsResult<(Arc<Node>, Stat)> {
        let key = self.key_at(fd.as_fd(), b"")?;
        if let Some(node) = self.table.find(&key)
            && let Ok(stat) = node.stat()
        {
            return Ok((node, stat));
        }
        self.adopt_as(fd, key)
    }

    fn adopt_as(self: &Arc<Self>, fd: OwnedFd, key: FileKey) -> FsResult<(Arc<Node>, Stat)> {
        let stat = fstat(&fd).map_err(refused)?;
        if !self.holds(&stat) || stat.st_nlink == 0 {
            return Err(FsError::Stale);
        }
        let node = Node::new(Arc::clone(self), key, fd, Rights::Path, &stat)?;
        Ok((self.table.insert(node), stat))
    }

    /// Opens the data of `node`: a directory for reading, a regular file for reading, and writing if `write`.
    ///
    /// Nothing else has data that a server may touch: opening a device or FIFO has effects.
    pub(crate) fn open_data(&self, node: &Node, write: bool) -> FsResult<OwnedFd> {
        let flags = OPEN_SAFELY
            | match node.kind {
                FileType::Directory => OFlags::DIRECTORY,
                FileType::Regular if write => OFlags::RDWR,
                FileType::Regular => OFlags::RDONLY,
                _ => return Err(FsError::Invalid),
            };
        if let Form::Handle(handle) = key::form(&node.key)? {
            return self.open_handle(&handle, flags);
        }
        // The link in /proc leads to the open file itself, wherever its name has gone.
        let path = format!("/proc/self/fd/{}", node.fd().as_raw_fd());
        openat(CWD, path, flags.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(refused)
    }

    fn open_handle(&self, handle: &Handle, flags: OFlags) -> FsResult<OwnedFd> {
        let flags = i32::try_from(flags.bits()).map_err(|_| FsError::Invalid)?;
        sys::open_by_handle(self.root.as_fd(), handle, flags).map_err(|errno| match errno {
            Errno::NOENT => FsError::Stale,
            Errno::INVAL => FsError::BadHandle,
            _ => refused(errno),
        })
    }

    /// Names what `name` in `dir` is, without opening it; [`FsError::CrossVolume`] if it is mounted on.
    pub(crate) fn open_name(&self, dir: BorrowedFd<'_>, name: &[u8], pace: Pace) -> FsResult<OwnedFd> {
        let cached = if pace == Pace::Now { ResolveFlags::CACHED } else { ResolveFlags::empty() };
        if !self.no_openat2.load(Ordering::Relaxed) {
            match openat2(dir, name, OPEN_PATH, Mode::empty(), ResolveFlags::NO_XDEV | cached) {
                Ok(fd) => return Ok(fd),
                Err(Errno::AGAIN) if pace == Pace::Now => return Err(FsError::WouldWait),
                // O_PATH needs no right to the file, so EPERM can only come from a sandbox.
                Err(Errno::NOSYS | Errno::PERM) => self.no_openat2.store(true, Ordering::Relaxed),
                Err(errno) => return Err(refused(errno)),
            }
        }
        if pace == Pace::Now {
            return Err(FsError::WouldWait);
        }
        let fd = openat(dir, name, OPEN_PATH, Mode::empty()).map_err(refused)?;
        let stat = fstat(&fd).map_err(refused)?;
        // With handles the mount is compared when the key is made.
        if self.holds(&stat) { Ok(fd) } else { Err(FsError::CrossVolume) }
    }

    /// The directory that holds the directory open as `dir`, if it lies below the root.
    pub(crate) fn parent(self: &Arc<Self>, dir: BorrowedFd<'_>) -> FsResult<(Arc<Node>, Stat)> {
        /// More levels than PATH_MAX lets anybody name.
        const LEVELS_MAX: u32 = 4096;
        let parent = open_dotdot(dir)?;
        let stat = fstat(&parent).map_err(refused)?;
        let mut id = (stat.st_dev, stat.st_ino);
        let mut above = None;
        for _ in 0..LEVELS_MAX {
            if id == self.root_id {
                return self.adopt(parent);
            }
            let next = open_dotdot(above.as_ref().unwrap_or(&parent).as_fd())?;
            let stat = fstat(&next).map_err(refused)?;
            let next_id = (stat.st_dev, stat.st_ino);
            if next_id == id || !self.holds(&stat) {
                break;
            }
            (above, id) = (Some(next), next_id);
        }
        // The directory was moved out of the tree by somebody else.
        Err(FsError::Stale)
    }
}

/// What a found node is to the model.
pub(crate) fn found((node, stat): (Arc<Node>, Stat)) -> FsResult<Found> {
    Ok(Found { attrs: node.attrs_from(&stat)?, node })
}

fn open_dotdot(dir: BorrowedFd<'_>) -> FsResult<OwnedFd> {
    openat(dir, "..", OPEN_PATH | OFlags::DIRECTORY, Mode::empty()).map_err(refused)
}

/// The key of a file whose file system makes no handles: the birth time tells apart the files that had its number.
fn inode_key(dir: BorrowedFd<'_>, name: &[u8]) -> FsResult<FileKey> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let state = statx(dir, name, flags, StatxFlags::INO | StatxFlags::BTIME).map_err(refused)?;
    let born = if state.stx_mask & StatxFlags::BTIME.bits() == 0 {
        (0, 0)
    } else {
        (state.stx_btime.tv_sec, state.stx_btime.tv_nsec)
    };
    key::of_inode(state.stx_ino, born.0, born.1)
}
