//! Removes, renames and links names. Directories are locked in the order of their keys.

use crate::error::refused;
use crate::node::Node;
use crate::node::preserve::Space;
use crate::sys::proc_path;
use rustix::fs::{AtFlags, CWD, linkat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::any::Any;
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    Attrs, AuthorizeLink, AuthorizeRemove, AuthorizeRename, Blocking, Change, CreatedEntry, EntryRef,
    FileType, FsError, FsResult, Lookup, Name, NodeRef,
};

impl Node {
    /// Removes `name` if `authorize` allows it. `dir` says whether it must be a directory.
    pub(crate) fn unlink_entry(
        &self,
        name: Name<'_>,
        dir: bool,
        authorize: AuthorizeRemove<'_>,
    ) -> FsResult<Change> {
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        let seen = Cell::default();
        authorize(&EntryRef { dir: &before, object: &|| self.lookup_attrs(name, &seen) })?;
        self.as_dir()?;
        let mut unlink = self.mount.begin_unlink(self.fd(), name.bytes(), seen.take())?;
        if let Some(preserving) = self.preserving(Space::Exceeded) {
            unlink.preserve(&preserving, self, &before, name.bytes())?;
        }
        let entries_charge = self.begin_entry_change(before.size)?;
        let flags = if dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(self.fd(), name.bytes(), flags).map_err(|errno| match errno {
            // Some file systems return EEXIST for a directory that is not empty.
            Errno::EXIST => FsError::NotEmpty,
            _ => refused(errno),
        })?;
        unlink.finish();
        let after = guard.attrs_after(&before)?;
        entries_charge.finish(after.size);
        Ok(Change { before, after })
    }

    pub(crate) fn rename_entry(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        let target = self.as_same_tree(to_dir)?;
        let same = std::ptr::eq(self, target);
        let lock_target = || (!same).then(|| target.lock_change());
        let (mut guard, mut to_guard) = if self.key <= target.key {
            (self.lock_change(), lock_target())
        } else {
            let to_guard = lock_target();
            (self.lock_change(), to_guard)
        };

        let before = self.attrs_now()?;
        let to_before = if same { before } else { target.attrs_now()? };
        let (moving, replaced) = (Cell::default(), Cell::default());
        authorize(
            &EntryRef { dir: &before, object: &|| self.lookup_attrs(from, &moving) },
            &EntryRef { dir: &to_before, object: &|| target.lookup_attrs(to, &replaced) },
        )?;
        self.as_dir()?;
        target.as_dir()?;
        let mut unlink = self.mount.begin_unlink(target.fd(), to.bytes(), replaced.take())?;
        if let Some(preserving) = self.preserving(Space::Exceeded) {
            let (moved, _) = self.mount.child(self, from.bytes(), Blocking::Allowed)?;
            preserving.old_name(self, &before, from.bytes(), &moved)?;
            unlink.preserve(&preserving, target, &to_before, to.bytes())?;
        }
        let to_charge = (!same).then(|| target.begin_entry_change(to_before.size)).transpose()?;
        let entries_charge = (self.begin_entry_change(before.size)?, to_charge);
        let moved_key =
            self.mount.index.as_ref().and_then(|_| self.mount.key_at(self.fd(), from.bytes()).ok());
        renameat(self.fd(), from.bytes(), target.fd(), to.bytes()).map_err(|errno| match errno {
            Errno::EXIST => FsError::NotEmpty,
            // A mount point: the mounted file system belongs to another volume.
            Errno::BUSY => FsError::CrossVolume,
            Errno::NOENT => target.or_stale(FsError::NotFound),
            _ => refused(errno),
        })?;
        if statat(self.fd(), from.bytes(), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            // Two names of one file: rename(2) succeeds without any effect.
            return Ok((Change { before, after: before }, Change { before: to_before, after: to_before }));
        }
        unlink.finish();
        if let Some(moved_key) = moved_key {
            self.mount.record(&moved_key, &target.key, to.bytes());
        }
        let after = guard.attrs_after(&before)?;
        let to_after = to_guard.as_mut().map_or(Ok(after), |guard| guard.attrs_after(&to_before))?;
        let (from, to_charge) = entries_charge;
        from.finish(after.size);
        to_charge.into_iter().for_each(|to_charge| to_charge.finish(to_after.size));
        Ok((Change { before, after }, Change { before: to_before, after: to_after }))
    }

    pub(crate) fn link_entry(
        &self,
        name: Name<'_>,
        target: &NodeRef,
        authorize: AuthorizeLink<'_>,
    ) -> FsResult<CreatedEntry> {
        let mut guard = self.lock_change();
        let before = self.attrs_now()?;
        authorize(&before)?;
        let directory = self.as_dir()?;
        let file = self.as_same_tree(target)?;
        if file.retained.load(Ordering::Acquire) {
            // Only a snapshot has it.
            return Err(FsError::Stale);
        }
        if file.kind == FileType::Directory {
            // EPERM, as link(2) returns.
            return Err(FsError::NotOwner);
        }
        if let Some(preserving) = self.preserving(Space::Needed) {
            preserving.new_name(self, &before, name.bytes())?;
            file.wait_for_change();
            preserving.attrs(file, &file.attrs_now()?)?;
        }
        let link_charge = self.mount.charge_link(self.fd(), name.bytes())?;
        let entries_charge = self.begin_entry_change(before.size)?;
        link_open(file.fd(), self.fd(), name.bytes()).map_err(|errno| {
            // The last name of the file, or the directory, may have been removed meanwhile.
            file.or_stale(self.or_stale(refused(errno)))
        })?;
        link_charge.commit();
        file.counter_offset.advance();
        file.note_change();
        self.mount.record(&file.key, &self.key, name.bytes());
        if !self.mount.new_inodes_follow_dir
            && let Some(file) = self.mount.table.find(&file.key)
        {
            directory.unflushed.lock().add(&file);
        }
        let attrs = file.attrs_now()?;
        let dir = Change { before, after: guard.attrs_after(&before)? };
        entries_charge.finish(dir.after.size);
        Ok(CreatedEntry { found: Lookup { node: Arc::clone(target), attrs }, dir })
    }

    /// Attributes of `name` here. Stores its node in `seen`.
    fn lookup_attrs(&self, name: Name<'_>, seen: &Cell<Option<Arc<Self>>>) -> FsResult<Attrs> {
        self.as_dir()?;
        let (node, stat) = self.mount.child(self, name.bytes(), Blocking::Allowed)?;
        let attrs = node.attrs_from(&stat)?;
        seen.set(Some(node));
        Ok(attrs)
    }

    fn as_same_tree<'a>(&self, other: &'a NodeRef) -> FsResult<&'a Self> {
        let other: &dyn Any = &**other;
        let node = other.downcast_ref::<Self>().ok_or(FsError::CrossVolume)?;
        if Arc::ptr_eq(&self.mount, &node.mount) { Ok(node) } else { Err(FsError::CrossVolume) }
    }
}

pub(crate) fn link_open(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match linkat(file, "", dir, name, AtFlags::EMPTY_PATH) {
        // Linking a bare descriptor needs CAP_DAC_READ_SEARCH before Linux 6.10. The link in /proc leads to the file
        // itself; a symbolic link is not followed further.
        Err(Errno::NOENT | Errno::PERM) => linkat(CWD, proc_path(file), dir, name, AtFlags::SYMLINK_FOLLOW),
        done => done,
    }
}
