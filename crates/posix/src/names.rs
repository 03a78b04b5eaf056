//! Names: removing, renaming, linking. Directories are locked in the order of their keys.

use crate::attr::proc_path;
use crate::error::refused;
use crate::node::Node;
use rustix::fs::{AtFlags, CWD, linkat, renameat, unlinkat};
use rustix::io::Errno;
use std::any::Any;
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use vfs::{
    Attrs, AuthorizeLink, AuthorizeRemove, AuthorizeRename, Blocking, Change, EntryRef, FileType, Found,
    FsError, FsResult, Made, Name, NodeRef,
};

impl Node {
    /// Removes `name`, which is a directory's or not as `dir` says, if `authorize` allows it.
    pub(crate) fn take_name(
        &self,
        name: Name<'_>,
        dir: bool,
        authorize: AuthorizeRemove<'_>,
    ) -> FsResult<Change> {
        let _held = self.lock_change();
        let before = self.attrs_now()?;
        let seen = Cell::default();
        authorize(&EntryRef { dir: &before, object: &|| self.see(name, &seen) })?;
        self.as_dir()?;
        let victim = self.mount.victim(self.fd(), name.bytes(), seen.take())?;
        let flags = if dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(self.fd(), name.bytes(), flags).map_err(|errno| match errno {
            // Some file systems say that entries exist rather than that the directory is not empty.
            Errno::EXIST => FsError::NotEmpty,
            _ => refused(errno),
        })?;
        unlinked(victim);
        Ok(Change { before, after: self.attrs_after()? })
    }

    /// Moves `from` to `to` in `to_dir`, as rename(2), if `authorize` allows it.
    pub(crate) fn move_name(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        let target = self.sibling(to_dir)?;
        let same = std::ptr::eq(self, target);
        let (first, second) = if self.key <= target.key { (self, target) } else { (target, self) };
        let _first = first.lock_change();
        let _second = (!same).then(|| second.lock_change());

        let before = self.attrs_now()?;
        let to_before = if same { before } else { target.attrs_now()? };
        let (moving, replaced) = (Cell::default(), Cell::default());
        authorize(
            &EntryRef { dir: &before, object: &|| self.see(from, &moving) },
            &EntryRef { dir: &to_before, object: &|| target.see(to, &replaced) },
        )?;
        self.as_dir()?;
        target.as_dir()?;
        let victim = self.mount.victim(target.fd(), to.bytes(), replaced.take())?;
        let moved = self.mount.index.as_ref().and_then(|_| self.mount.key_at(self.fd(), from.bytes()).ok());
        renameat(self.fd(), from.bytes(), target.fd(), to.bytes()).map_err(|errno| match errno {
            Errno::EXIST => FsError::NotEmpty,
            // Something is mounted on one of the names, so what it shows is of another volume.
            Errno::BUSY => FsError::CrossVolume,
            Errno::NOENT => target.or_stale(FsError::NotFound),
            _ => refused(errno),
        })?;
        unlinked(victim);
        if let Some(moved) = moved {
            self.mount.record(&moved, &target.key, to.bytes());
        }
        let after = self.attrs_after()?;
        let to_after = if same { after } else { target.attrs_after()? };
        Ok((Change { before, after }, Change { before: to_before, after: to_after }))
    }

    /// Gives `target` the further name `name` here, if `authorize` allows it.
    pub(crate) fn add_name(
        &self,
        name: Name<'_>,
        target: &NodeRef,
        authorize: AuthorizeLink<'_>,
    ) -> FsResult<Made> {
        let _held = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let listing = self.as_dir()?;
        let file = self.sibling(target)?;
        if file.kind == FileType::Directory {
            // EPERM, as link(2) says.
            return Err(FsError::NotOwner);
        }
        self.mount.check_counted()?;
        link_open(file.fd(), self.fd(), name.bytes()).map_err(|errno| {
            // The last name of the file, or the directory, may have gone away just now.
            file.or_stale(self.or_stale(refused(errno)))
        })?;
        file.note_change();
        self.mount.record(&file.key, &self.key, name.bytes());
        if !self.mount.new_inodes_follow_dir
            && let Some(file) = self.mount.table.find(&file.key)
        {
            listing.remember(&file);
        }
        let attrs = file.attrs_now()?;
        let dir = Change { before, after: self.attrs_after()? };
        Ok(Made { found: Found { node: Arc::clone(target), attrs }, dir })
    }

    /// The attributes of what has `name` here; its node is left in `seen`.
    fn see(&self, name: Name<'_>, seen: &Cell<Option<Arc<Self>>>) -> FsResult<Attrs> {
        self.as_dir()?;
        let (node, stat) = self.mount.child(self, name.bytes(), Blocking::Allowed)?;
        let attrs = node.attrs_from(&stat)?;
        seen.set(Some(node));
        Ok(attrs)
    }

    /// `other` as a node of the same tree.
    fn sibling<'a>(&self, other: &'a NodeRef) -> FsResult<&'a Self> {
        let other: &dyn Any = &**other;
        let node = other.downcast_ref::<Self>().ok_or(FsError::CrossVolume)?;
        if Arc::ptr_eq(&self.mount, &node.mount) { Ok(node) } else { Err(FsError::CrossVolume) }
    }
}

/// Gives what `file` has open the name `name` in `dir`.
pub(crate) fn link_open(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match linkat(file, "", dir, name, AtFlags::EMPTY_PATH) {
        // Linking a bare descriptor needs CAP_DAC_READ_SEARCH before Linux 6.10. The link in /proc leads to the file
        // itself; if that is a symbolic link, it is not followed further.
        Err(Errno::NOENT | Errno::PERM) => linkat(CWD, proc_path(file), dir, name, AtFlags::SYMLINK_FOLLOW),
        done => done,
    }
}

/// Lets go of a node whose name went away.
fn unlinked(victim: Option<Arc<Node>>) {
    if let Some(victim) = victim {
        victim.on_unlinked();
    }
}
