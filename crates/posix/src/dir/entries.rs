//! Names: removing, renaming, linking. Directories are locked in the order of their keys.

use crate::error::refused;
use crate::node::Node;
use crate::node::attr::proc_path;
use crate::node::charging::Leaving;
use rustix::fs::{AtFlags, CWD, linkat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::any::Any;
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use vfs::{
    Attrs, AuthorizeLink, AuthorizeRemove, AuthorizeRename, Blocking, Change, CreatedEntry, EntryRef,
    FileType, FsError, FsResult, Lookup, Name, NodeRef,
};

impl Node {
    /// Removes `name`, which is a directory's or not as `dir` says, if `authorize` allows it.
    pub(crate) fn take_name(
        &self,
        name: Name<'_>,
        dir: bool,
        authorize: AuthorizeRemove<'_>,
    ) -> FsResult<Change> {
        let mut held = self.lock_change();
        let before = self.attrs_now()?;
        let seen = Cell::default();
        authorize(&EntryRef { dir: &before, object: &|| self.see(name, &seen) })?;
        self.as_dir()?;
        let victim = self.mount.victim(self.fd(), name.bytes(), seen.take())?;
        let relisting = self.mount.relist(self, before.size);
        let flags = if dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(self.fd(), name.bytes(), flags).map_err(|errno| match errno {
            // Some file systems say that entries exist rather than that the directory is not empty.
            Errno::EXIST => FsError::NotEmpty,
            _ => refused(errno),
        })?;
        unlinked(victim);
        let after = held.attrs_after(&before)?;
        relisting.end(after.size);
        Ok(Change { before, after })
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
        let lock_target = || (!same).then(|| target.lock_change());
        let (mut held, mut to_held) = if self.key <= target.key {
            (self.lock_change(), lock_target())
        } else {
            let to_held = lock_target();
            (self.lock_change(), to_held)
        };

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
        let into = (!same).then(|| self.mount.relist(target, to_before.size));
        let relisting = (self.mount.relist(self, before.size), into);
        let moved = self.mount.index.as_ref().and_then(|_| self.mount.key_at(self.fd(), from.bytes()).ok());
        renameat(self.fd(), from.bytes(), target.fd(), to.bytes()).map_err(|errno| match errno {
            Errno::EXIST => FsError::NotEmpty,
            // Something is mounted on one of the names, so what it shows is of another volume.
            Errno::BUSY => FsError::CrossVolume,
            Errno::NOENT => target.or_stale(FsError::NotFound),
            _ => refused(errno),
        })?;
        if statat(self.fd(), from.bytes(), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            // Two names of one file: rename(2) does nothing and says so to nobody.
            return Ok((Change { before, after: before }, Change { before: to_before, after: to_before }));
        }
        unlinked(victim);
        if let Some(moved) = moved {
            self.mount.record(&moved, &target.key, to.bytes());
        }
        let after = held.attrs_after(&before)?;
        let to_after = to_held.as_mut().map_or(Ok(after), |held| held.attrs_after(&to_before))?;
        let (from, into) = relisting;
        from.end(after.size);
        into.into_iter().for_each(|into| into.end(to_after.size));
        Ok((Change { before, after }, Change { before: to_before, after: to_after }))
    }

    /// Gives `target` the further name `name` here, if `authorize` allows it.
    pub(crate) fn add_name(
        &self,
        name: Name<'_>,
        target: &NodeRef,
        authorize: AuthorizeLink<'_>,
    ) -> FsResult<CreatedEntry> {
        let mut held = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let directory = self.as_dir()?;
        let file = self.sibling(target)?;
        if file.kind == FileType::Directory {
            // EPERM, as link(2) says.
            return Err(FsError::NotOwner);
        }
        let newborn = self.mount.further_name(self.fd(), name.bytes())?;
        let relisting = self.mount.relist(self, before.size);
        link_open(file.fd(), self.fd(), name.bytes()).map_err(|errno| {
            // The last name of the file, or the directory, may have gone away just now.
            file.or_stale(self.or_stale(refused(errno)))
        })?;
        newborn.keep();
        file.ahead.advance();
        file.note_change();
        self.mount.record(&file.key, &self.key, name.bytes());
        if !self.mount.new_inodes_follow_dir
            && let Some(file) = self.mount.table.find(&file.key)
        {
            directory.remember(&file);
        }
        let attrs = file.attrs_now()?;
        let dir = Change { before, after: held.attrs_after(&before)? };
        relisting.end(dir.after.size);
        Ok(CreatedEntry { found: Lookup { node: Arc::clone(target), attrs }, dir })
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
fn unlinked(victim: Leaving<'_>) {
    let Leaving { node, pending } = victim;
    if let Some(node) = node {
        node.on_unlinked();
    }
    drop(pending);
}
