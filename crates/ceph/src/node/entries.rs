//! Removes, renames and links names. Directories are locked in the order of their keys.

use super::{Node, c_name};
use crate::error::refused;
use crate::ffi::LIVE;
use crate::stat::inode_of;
use rustix::io::Errno;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    Attrs, AuthorizeLink, AuthorizeRemove, AuthorizeRename, Change, CreatedEntry, EntryRef, FileType,
    FsError, FsResult, Lookup, Name, NodeRef,
};

impl Node {
    /// Removes `name` if `authorize` allows it. `dir` says whether it must be a directory.
    pub(super) fn unlink_entry(
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
        let victim = seen.take().map_or_else(|| self.child(name).map(|(node, _)| node), Ok)?;
        match (dir, victim.kind == FileType::Directory) {
            (false, true) => return Err(FsError::IsDirectory),
            (true, false) => return Err(FsError::NotDirectory),
            _ => {}
        }
        victim.count_before_change();
        let pending = self.tree.limit.counts().begin_removal()?;
        let entries_charge = self.begin_entry_change(before.size)?;
        let (inode, name) = (self.inode()?, c_name(name)?);
        let removed = if dir { inode.remove_dir(&name) } else { inode.unlink(&name) };
        removed.map_err(refused)?;
        self.tree.cluster.note_change();
        victim.on_unlinked(pending.owners.is_some());
        let after = guard.attrs_after(&before)?;
        entries_charge.finish(after.size);
        Ok(Change { before, after })
    }

    pub(super) fn rename_entry(
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
        let moved = moving.take().map_or_else(|| self.child(from).map(|(node, _)| node), Ok)?;
        let victim = match replaced.take().map_or_else(|| target.child(to).map(|(node, _)| node), Ok) {
            Ok(victim) => Some(victim),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        if victim.as_ref().is_some_and(|victim| victim.key == moved.key) {
            // Two names of one file: rename(2) succeeds without any effect. The engine would remove one.
            return Ok((Change { before, after: before }, Change { before: to_before, after: to_before }));
        }
        self.check_replaceable(target, &moved, victim.as_deref())?;
        let has_other_names = match &victim {
            Some(victim) if victim.kind != FileType::Directory => victim.stat_any()?.stat.links > 1,
            _ => false,
        };
        moved.count_before_change();
        victim.iter().for_each(|victim| victim.count_before_change());
        let pending = self.tree.limit.counts().begin_removal()?;
        let to_charge = (!same).then(|| target.begin_entry_change(to_before.size)).transpose()?;
        let entries_charge = (self.begin_entry_change(before.size)?, to_charge);
        let (inode, to_inode) = (self.inode()?, target.inode()?);
        let renamed = match has_other_names {
            true => self.rename_by_spare(from, target, to),
            false => inode.rename(&c_name(from)?, &to_inode, &c_name(to)?).map_err(rename_refused),
        };
        renamed.map_err(|error| if error == FsError::NotFound { target.or_stale(error) } else { error })?;
        self.tree.cluster.note_change();
        moved.counter_offset.advance();
        if let Some(victim) = victim {
            victim.on_unlinked(pending.owners.is_some());
        }
        if !same && !has_other_names {
            // The reply has the state of the other directory only.
            inode.refresh_dir().map_err(refused)?;
        }
        let after = guard.attrs_after(&before)?;
        let to_after = to_guard.as_mut().map_or(Ok(after), |guard| guard.attrs_after(&to_before))?;
        let (from_charge, to_charge) = entries_charge;
        from_charge.finish(after.size);
        to_charge.into_iter().for_each(|to_charge| to_charge.finish(to_after.size));
        Ok((Change { before, after }, Change { before: to_before, after: to_after }))
    }

    /// Renames over a file that has other names. The client that does it forgets those: it would take them for missing.
    fn rename_by_spare(&self, from: Name<'_>, target: &Self, to: Name<'_>) -> FsResult<()> {
        let spare = self.tree.cluster.spare()?;
        let [dir, to_dir] =
            [self, target].map(|dir| spare.inode_of(inode_of(&dir.key)?, LIVE).map_err(refused));
        let (dir, to_dir) = (dir?, to_dir?);
        dir.rename(&c_name(from)?, &to_dir, &c_name(to)?).map_err(rename_refused)?;
        // A flush by the other client does not cover it.
        dir.sync(false).and_then(|()| to_dir.sync(false)).map_err(refused)
    }

    pub(super) fn link_entry(
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
        if file.kind == FileType::Directory {
            // EPERM, as link(2) returns.
            return Err(FsError::NotOwner);
        }
        let (dir, c_name) = (self.inode()?, c_name(name)?);
        // Locked, so that the file does not lose its last name meanwhile: its space would be refunded.
        let _locked = file.lock_change();
        if file.is_nameless.load(Ordering::SeqCst) {
            return Err(FsError::Stale);
        }
        let charge = self.tree.charge_link(&dir, &c_name)?;
        let entries_charge = self.begin_entry_change(before.size)?;
        file.inode()?.link(&dir, &c_name).map_err(|errno| file.or_stale(self.or_stale(refused(errno))))?;
        self.tree.cluster.note_change();
        charge.commit();
        file.counter_offset.advance();
        if let Some(file) = self.tree.table.find(&file.key) {
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
        let (node, stat) = self.child(name)?;
        let attrs = stat.attrs()?;
        seen.set(Some(node));
        Ok(attrs)
    }

    /// Whether rename(2) may put `moved`, of this directory, in place of `victim` in `target`, with the errors of Linux. The
    /// engine does not answer if the victim is an ancestor.
    fn check_replaceable(&self, target: &Self, moved: &Self, victim: Option<&Self>) -> FsResult<()> {
        let is_dir = |node: &Self| node.kind == FileType::Directory;
        // No entry of the one directory can be above it.
        let crosses = !std::ptr::eq(self, target);
        if crosses && is_dir(moved) && (std::ptr::eq(moved, target) || target.is_below(moved)?) {
            return Err(FsError::Invalid);
        }
        let Some(victim) = victim else { return Ok(()) };
        match (is_dir(moved), is_dir(victim)) {
            (_, true) if crosses && (std::ptr::eq(victim, self) || self.is_below(victim)?) => {
                Err(FsError::NotEmpty)
            }
            (true, false) => Err(FsError::NotDirectory),
            (false, true) => Err(FsError::IsDirectory),
            (true, true) if victim.stat()?.stat.size > 0 => Err(FsError::NotEmpty),
            _ => Ok(()),
        }
    }

    /// Whether this directory is somewhere below `other`.
    fn is_below(&self, other: &Self) -> FsResult<bool> {
        let mut above = vfs::Node::parent(self)?.node;
        loop {
            if above.key() == other.key {
                return Ok(true);
            }
            if self.tree.is_root(&above.key()) {
                return Ok(false);
            }
            above = above.parent()?.node;
        }
    }
}

fn rename_refused(errno: Errno) -> FsError {
    match errno {
        Errno::EXIST => FsError::NotEmpty,
        _ => refused(errno),
    }
}
