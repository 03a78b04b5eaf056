//! Names: looking up, listing, linking, removing, moving.

use super::acl::{Ruling, check_mode};
use super::core::{Created, File, Resolved, check_is_dir};
use crate::acl::access::{self, Access};
use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, Entry, EntryRef, EntrySink, Lookup, NameFilter, SyncScope};
use crate::error::{FsError, FsResult, Wait};
use crate::model::attrs::STICKY;
use crate::model::attrs::{Attrs, Change, FileType};
use crate::model::caller::Caller;
use crate::model::name::Name;
use crate::volume::case_index::{CaseLookup, Fold, NameChange};
use crate::volume::change_notify::Action;
use crate::volume::change_notify::NameInDir;
use std::ops::ControlFlow;

/// Entries of a directory that a lookup regardless of case scans.
const FOLDED_ENTRIES_MAX: usize = 1 << 20;

/// The directory of a listing, and whether the end was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The directory's attributes, from before the entries.
    pub dir: Attrs,
    pub at_end: bool,
}

/// A directory in which a caller may look up names.
pub struct OpenDir<'f> {
    dir: &'f File,
    /// The directory's attributes at the authorization.
    pub attrs: Attrs,
}

impl OpenDir<'_> {
    /// The file of a name. `.` is the directory, `..` its parent; the root's parent is the root, so no name leads out of a
    /// volume.
    pub fn lookup(&self, name: &[u8], blocking: Blocking) -> FsResult<Resolved> {
        let node = &self.dir.node;
        let found = match name {
            b"." => return Ok(Resolved { file: self.dir.clone(), attrs: node.attrs(blocking)? }),
            b".." if blocking == Blocking::Never => return Err(FsError::Wait(Wait::Storage)),
            b".." => node.parent()?,
            _ if name == Name::SNAPSHOTS.bytes() && self.attrs.is_live() => {
                self.dir.volume().lookup_snapshots(node, blocking)?
            }
            _ => node.lookup(Name::new(name)?, blocking)?,
        };
        Ok(Resolved { file: self.dir.beside(found.node), attrs: found.attrs })
    }
}

impl Resolved {
    /// Opens a directory by the attributes that the lookup of its name returned.
    pub fn open_dir(&self, caller: &Caller, blocking: Blocking) -> FsResult<OpenDir<'_>> {
        self.file.opened_dir(self.attrs, caller, blocking)
    }
}

/// Whether the object of a name is still the one to remove.
type IsExpected<'m> = &'m dyn Fn(&Attrs) -> bool;

impl File {
    /// Authorizes `caller` to look up names in this directory.
    #[inline]
    pub fn open_dir(&self, caller: &Caller, blocking: Blocking) -> FsResult<OpenDir<'_>> {
        self.opened_dir(self.node.attrs(blocking)?, caller, blocking)
    }

    #[inline]
    fn opened_dir(&self, attrs: Attrs, caller: &Caller, blocking: Blocking) -> FsResult<OpenDir<'_>> {
        check_is_dir(&attrs)?;
        self.check(&attrs, caller, Access::EXECUTE, blocking)?;
        Ok(OpenDir { dir: self, attrs })
    }

    /// The target of a symbolic link. It is returned, never followed: its meaning is the client's.
    pub fn read_link(&self) -> FsResult<(Attrs, Vec<u8>)> {
        let attrs = self.node.attrs(Blocking::Allowed)?;
        Ok((attrs, self.node.read_link()?))
    }

    pub fn read_dir(
        &self,
        caller: &Caller,
        cookie: u64,
        plus: bool,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<Listing> {
        let (dir, plus) = self.authorize_listing(caller, plus)?;
        let Some(cookie) = self.list_snapshots(cookie, plus, sink)? else {
            return Ok(Listing { dir, at_end: false });
        };
        let at_end = self.node.read_dir(cookie, plus, &mut |entry| match entry.name {
            name if name == Name::STREAMS.bytes() => ControlFlow::Continue(()),
            _ => sink(entry),
        })?;
        Ok(Listing { dir, at_end })
    }

    /// Lists the directory of snapshots as the first entry, where listings contain it. Returns the cookie to go on with;
    /// `None` if `sink` had enough.
    fn list_snapshots(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<Option<u64>> {
        /// The cookie after the entry. Storages count from 0, or spread their cookies over all 63 bits.
        const COOKIE: u64 = 0x7fff_ffff_506c_696d;
        let volume = self.volume();
        match cookie {
            COOKIE => return Ok(Some(0)),
            0 if volume.lists_snapshots() && self.is_root() => {}
            _ => return Ok(Some(cookie)),
        }
        let Ok(Lookup { node, attrs }) = volume.lookup_snapshots(&self.node, Blocking::Allowed) else {
            return Ok(Some(0));
        };
        if attrs.is_live() {
            // A file of the same name: the storage lists it.
            return Ok(Some(0));
        }
        let (name, key) = (Name::SNAPSHOTS.bytes(), node.key());
        let object = plus.then_some((&key, &attrs));
        let entry = Entry { name, file_id: attrs.file_id, cookie: COOKIE, object };
        Ok(sink(&entry).is_continue().then_some(0))
    }

    /// Lists only the entries whose names are `wanted`.
    pub fn read_dir_of(
        &self,
        caller: &Caller,
        cookie: u64,
        plus: bool,
        wanted: NameFilter<'_>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<Listing> {
        let (dir, plus) = self.authorize_listing(caller, plus)?;
        let is_wanted = |name: &[u8]| name != Name::STREAMS.bytes() && wanted(name);
        let at_end = self.node.read_dir_of(cookie, plus, &is_wanted, sink)?;
        Ok(Listing { dir, at_end })
    }

    /// Returns the directory's attributes for a caller that may list it, and whether the listing includes the
    /// attributes of entries.
    fn authorize_listing(&self, caller: &Caller, plus: bool) -> FsResult<(Attrs, bool)> {
        let attrs = self.node.attrs(Blocking::Allowed)?;
        check_is_dir(&attrs)?;
        self.check(&attrs, caller, Access::READ, Blocking::Allowed)?;
        // A listing shows the same attributes as lookups: without `x` on the directory there are none.
        let plus = plus && self.check(&attrs, caller, Access::EXECUTE, Blocking::Allowed).is_ok();
        Ok((attrs, plus))
    }

    /// Returns the stored name in this directory that equals `name` under `fold`. A caller without the right to list
    /// the directory finds none.
    pub fn find_ignoring_case(&self, caller: &Caller, name: &[u8], fold: Fold) -> FsResult<Option<Vec<u8>>> {
        let attrs = self.node.attrs(Blocking::Allowed)?;
        check_is_dir(&attrs)?;
        if self.check(&attrs, caller, Access::READ, Blocking::Allowed).is_err() {
            return Ok(None);
        }
        let (indexes, key) = (self.volume().case_indexes(), self.key());
        let mut build = match indexes.find(&key, attrs.change, name, fold) {
            CaseLookup::Stored(stored) => return Ok(stored),
            CaseLookup::NotIndexed(build) => build,
        };
        let wanted = fold(name);
        let (mut looked_at, mut found) = (0, None);
        let listed = self.node.read_dir(0, false, &mut |entry| {
            if entry.name == Name::STREAMS.bytes() {
                return ControlFlow::Continue(());
            }
            let folded = fold(entry.name);
            if found.is_none() && folded == wanted {
                found = Some(entry.name.to_vec());
            }
            // More names than are kept are not gathered any further.
            build = build.take().and_then(|build| build.with(entry.name, folded.as_deref()));
            looked_at += 1;
            let is_done = found.is_some() && build.is_none() || looked_at == FOLDED_ENTRIES_MAX;
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(build) = build.filter(|_| matches!(listed, Ok(true))) {
            build.finish();
        }
        listed.map(|_| found)
    }

    /// Gives `target` a further name in this directory. It must have been reached by the same export
    /// ([`FsError::CrossVolume`]).
    pub fn link(
        &self,
        caller: &Caller,
        target: &Self,
        name: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        self.check_same_export(target)?;
        let ruling = self.ruling(caller, None)?;
        let name = self.new_name(ruling, caller, name)?;
        // A type never changes. Errors of the caller's rights precede errors of the target.
        let target_type = target.node.attrs(Blocking::Allowed).map(|attrs| attrs.file_type);
        self.check_claims_for_link(ruling, caller, target)?;
        let made = self.node.link(name, &target.node, &|attrs| {
            ruling.check_add(attrs, caller, false)?;
            if target_type? == FileType::Directory { Err(FsError::IsDirectory) } else { Ok(()) }
        })?;
        self.names_changed(caller, pending);
        self.notify_added(name.bytes(), false, &made.dir);
        Ok(self.created(made))
    }

    /// Replaces the file of this number by a link to `target` in one step: the name always exists.
    /// `FsError::Wait(Wait::Recall)` if another object, or none, has the name by now.
    pub fn link_over(
        &self,
        caller: &Caller,
        target: &Self,
        name: &[u8],
        replaced: u64,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.authorize_link(caller, target)?;
        let ruling = self.ruling(caller, Some(name))?;
        let name = self.old_name(ruling, caller, name)?;
        if target.node.attrs(Blocking::Allowed)?.file_type == FileType::Directory {
            return Err(FsError::IsDirectory);
        }
        self.check_claims_for_unlink(ruling, caller, name)?;
        let (volume, child) = (self.volume(), self.volume().watches().child(&self.node, name));
        let overwritten = volume.may_have_streams(&self.node, name);
        let authorize = |_: &EntryRef<'_>, to: &EntryRef<'_>| {
            ruling.check_add(to.dir, caller, false)?;
            match (to.object)() {
                Ok(object) if object.file_id == replaced => ruling.check_removal(to, caller),
                Ok(_) | Err(FsError::NotFound) => Err(FsError::Wait(Wait::Recall)),
                Err(error) => Err(error),
            }
        };
        let change = volume.link_over(&target.node, &self.node, name, &authorize, pending)?;
        self.names_changed(caller, pending);
        self.index_changed(&change, Vec::new);
        volume.remove_streams_of_gone(overwritten);
        volume.watches().removed(volume.root(), &self.node, name.bytes(), child);
        volume.watches().names_changed(volume.root(), &self.node, &[(Action::Added, name.bytes())], false);
        Ok(change)
    }

    /// Whether `caller` may link `target` in this directory now, without a recall of claims.
    pub fn authorize_link(&self, caller: &Caller, target: &Self) -> FsResult<()> {
        self.check_same_export(target)?;
        let ruling = self.ruling(caller, None)?;
        ruling.check_add(&self.node.attrs(Blocking::Allowed)?, caller, false)?;
        if target.node.attrs(Blocking::Allowed)?.links == 0 {
            return Err(FsError::NotFound);
        }
        self.check_claims_for_link(ruling, caller, target)
    }

    /// Whether `caller` may take the name of `object`, which has `attrs`, out of this directory now.
    pub fn authorize_removal(
        &self,
        caller: &Caller,
        object: &Self,
        attrs: &Attrs,
        blocking: Blocking,
    ) -> FsResult<()> {
        let dir = self.node.attrs(blocking)?;
        let ruling = self.ruling_of(caller, &dir, Some((object, attrs)), blocking)?;
        ruling.check_removal(&EntryRef { dir: &dir, object: &|| Ok(*attrs) }, caller)
    }

    /// Removes the name of anything but a directory.
    pub fn remove(&self, caller: &Caller, name: &[u8], pending: &mut PendingSync) -> FsResult<Change> {
        let ruling = self.ruling(caller, Some(name))?;
        let name = self.old_name(ruling, caller, name)?;
        self.unlink_entry(ruling, caller, name, false, None, pending)
    }

    /// Removes the object that was seen with these attributes. [`FsError::Stale`] if it has changed or another object
    /// has the name.
    pub fn remove_as_seen(
        &self,
        caller: &Caller,
        name: &[u8],
        seen: &Attrs,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let ruling = self.ruling(caller, Some(name))?;
        let name = self.old_name(ruling, caller, name)?;
        let is_dir = seen.file_type == FileType::Directory;
        let is_seen = |now: &Attrs| (now.file_id, now.change) == (seen.file_id, seen.change);
        self.unlink_entry(ruling, caller, name, is_dir, Some(&is_seen), pending)
    }

    /// Removes a name of the file of this number that has another one, `to` in `to_dir`. A pending deletion moves to
    /// that name. [`FsError::Stale`] if another object has the name by now, or if it is the only name.
    pub fn remove_one_name(
        &self,
        caller: &Caller,
        name: &[u8],
        file_id: u64,
        to_dir: &Self,
        to: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let ruling = self.ruling(caller, Some(name))?;
        let old = self.old_name(ruling, caller, name)?;
        let has_another = |now: &Attrs| now.file_id == file_id && now.links > 1;
        let removed = self.unlink_entry(ruling, caller, old, false, Some(&has_another), pending)?;
        self.update_links_of(Name::new(name)?, to_dir, Name::new(to)?);
        Ok(removed)
    }

    pub fn remove_dir(&self, caller: &Caller, name: &[u8], pending: &mut PendingSync) -> FsResult<Change> {
        let ruling = self.ruling(caller, Some(name))?;
        let name = match self.old_name(ruling, caller, name) {
            // The directory contains at least this one (RFC 1813 §3.3.13 requires this error).
            Err(FsError::Invalid) if name == b".." => return Err(FsError::Exists),
            named => named?,
        };
        self.unlink_entry(ruling, caller, name, true, None, pending)
    }

    fn unlink_entry(
        &self,
        ruling: Ruling<'_>,
        caller: &Caller,
        name: Name<'_>,
        is_dir: bool,
        is_expected: Option<IsExpected<'_>>,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_claims_for_unlink(ruling, caller, name)?;
        let (volume, child) = (self.volume(), self.volume().watches().child(&self.node, name));
        let named = volume.may_have_streams(&self.node, name);
        let authorize = |entry: &EntryRef<'_>| {
            ruling.check_removal(entry, caller)?;
            let Some(is_expected) = is_expected else { return Ok(()) };
            if is_expected(&(entry.object)()?) { Ok(()) } else { Err(FsError::Stale) }
        };
        let change = match is_dir {
            true => self.node.remove_dir(name, &authorize)?,
            false => self.node.remove(name, &authorize)?,
        };
        self.names_changed(caller, pending);
        self.index_changed(&change, || vec![NameChange::Removed(name.bytes().into())]);
        volume.remove_streams_of_gone(named);
        volume.watches().removed(volume.root(), &self.node, name.bytes(), child);
        Ok(change)
    }

    /// Moves `from` in this directory to `to` in `to_dir`, replacing the object of that name. Returns the changes of
    /// the two directories, which must have been reached by the same export ([`FsError::CrossVolume`]).
    pub fn rename(
        &self,
        caller: &Caller,
        from: &[u8],
        to_dir: &Self,
        to: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<(Change, Change)> {
        self.rename_entry(caller, from, None, to_dir, to, pending)
    }

    /// Renames only the file of this number: [`FsError::NotFound`] if another object has the name by now.
    pub fn rename_file(
        &self,
        caller: &Caller,
        from: &[u8],
        file_id: u64,
        to_dir: &Self,
        to: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<(Change, Change)> {
        self.rename_entry(caller, from, Some(file_id), to_dir, to, pending)
    }

    fn rename_entry(
        &self,
        caller: &Caller,
        from: &[u8],
        file_id: Option<u64>,
        to_dir: &Self,
        to: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<(Change, Change)> {
        self.check_same_export(to_dir)?;
        let (from_ruling, to_ruling) = (self.ruling(caller, Some(from))?, to_dir.ruling(caller, Some(to))?);
        let from_name = self.old_name(from_ruling, caller, from)?;
        let to_name = Name::new(to).or_else(|bad| {
            self.check_place(from_ruling, caller)?;
            to_dir.check_place(to_ruling, caller)?;
            Err(bad)
        })?;
        to_dir.check_not_snapshots(to_ruling, caller, to_name)?;
        let across = self.key() != to_dir.key();
        let moved_dir = self.moved_dir(from_ruling, caller, from_name, across);
        let check_moved = |attrs: &Attrs| match &moved_dir {
            None => access::check(attrs, None, caller, Access::WRITE),
            Some(Some(found)) if found.attrs.file_id == attrs.file_id => {
                check_mode(&found.node, attrs, caller, Access::WRITE)
            }
            // Another object has the name by now: it must be looked up first.
            Some(_) => Err(FsError::Wait(Wait::Recall)),
        };
        let authorize = |from: &EntryRef<'_>, to: &EntryRef<'_>| {
            if let Some(file_id) = file_id
                && (from.object)()?.file_id != file_id
            {
                return Err(FsError::NotFound);
            }
            match from_ruling {
                Ruling::Mode(_) => check_move(caller, from_ruling, from, to_ruling, to, across, &check_moved),
                Ruling::Lists { .. } => check_listed_move(caller, from_ruling, from, to_ruling, to),
            }
        };
        self.check_claims_for_unlink(from_ruling, caller, from_name)?;
        to_dir.check_claims_for_unlink(to_ruling, caller, to_name)?;
        let (root, watches) = (self.volume().root(), self.volume().watches());
        let [moved, replaced] =
            [(self, from_name), (to_dir, to_name)].map(|(dir, name)| watches.child(&dir.node, name));
        let overwritten = self.volume().may_have_streams(&to_dir.node, to_name);
        let changes = self.node.rename(from_name, &to_dir.node, to_name, &authorize)?;
        self.names_changed(caller, pending);
        to_dir.names_changed(caller, pending);
        if changes.0.before.change == changes.0.after.change {
            // Two names of one file: rename(2) leaves both.
            return Ok(changes);
        }
        self.update_links_of(from_name, to_dir, to_name);
        let (gone, new) = (NameChange::Removed(from.into()), NameChange::Added(to.into()));
        if across {
            self.index_changed(&changes.0, || vec![gone]);
            to_dir.index_changed(&changes.1, || vec![new]);
        } else {
            self.index_changed(&changes.0, || vec![gone, new]);
        }
        self.volume().remove_streams_of_gone(overwritten);
        let (from, to) =
            (NameInDir { dir: &self.node, name: from }, NameInDir { dir: &to_dir.node, name: to });
        watches.renamed(root, from, to, moved, replaced);
        Ok(changes)
    }

    /// Looks up an object that is to be moved to another directory, where its POSIX ACL can decide who may move it.
    fn moved_dir(
        &self,
        ruling: Ruling<'_>,
        caller: &Caller,
        name: Name<'_>,
        across: bool,
    ) -> Option<Option<Lookup>> {
        let can_matter = across && matches!(ruling, Ruling::Mode(_)) && !caller.is_root();
        let looks = can_matter && self.volume().capabilities().acls;
        // If the lookup fails, the operation itself reports the error.
        looks.then(|| self.node.lookup(name, Blocking::Allowed).ok())
    }

    /// Updates the case index after names in this directory have changed.
    pub(super) fn index_changed(&self, change: &Change, what: impl FnOnce() -> Vec<NameChange>) {
        self.volume().case_indexes().changed(&self.key(), change, what);
    }

    /// Schedules the flush after a change of names in this directory, and breaks cached listings.
    pub(super) fn names_changed(&self, caller: &Caller, pending: &mut PendingSync) {
        self.require_sync(pending, SyncScope::All);
        self.notify_listing_changed(caller.listing);
    }

    /// Returns the name of an existing entry that is to be changed. Only a caller that may change the directory learns
    /// that a name is invalid.
    fn old_name<'n>(&self, ruling: Ruling<'_>, caller: &Caller, name: &'n [u8]) -> FsResult<Name<'n>> {
        Name::new(name).or_else(|bad| {
            self.check_place(ruling, caller)?;
            Err(bad)
        })
    }

    /// [`File::old_name`] for an entry to be made: `.` and `..` always exist (RFC 1813 §3.3.9), and so does the directory
    /// of snapshots.
    pub(super) fn new_name<'n>(
        &self,
        ruling: Ruling<'_>,
        caller: &Caller,
        name: &'n [u8],
    ) -> FsResult<Name<'n>> {
        match self.old_name(ruling, caller, name) {
            Err(FsError::Invalid) if matches!(name, b"." | b"..") => Err(FsError::Exists),
            Ok(name) => self.check_not_snapshots(ruling, caller, name).map(|()| name),
            refused => refused,
        }
    }

    /// [`FsError::Exists`] for the name of the directory of snapshots, where there are any.
    fn check_not_snapshots(&self, ruling: Ruling<'_>, caller: &Caller, name: Name<'_>) -> FsResult<()> {
        if name != Name::SNAPSHOTS || !self.volume().has_snapshot_directories() {
            return Ok(());
        }
        self.check_place(ruling, caller)?;
        Err(FsError::Exists)
    }

    /// Checks that `caller` may change the entries of this directory as it is now.
    pub(super) fn check_place(&self, ruling: Ruling<'_>, caller: &Caller) -> FsResult<()> {
        ruling.check_change(&self.node.attrs(Blocking::Allowed)?, caller)
    }
}

/// Checks by mode bits that one name may be removed and another one made. `check_moved` checks a directory that is
/// moved to another one.
fn check_move(
    caller: &Caller,
    from_ruling: Ruling<'_>,
    from: &EntryRef<'_>,
    to_ruling: Ruling<'_>,
    to: &EntryRef<'_>,
    across: bool,
    check_moved: &dyn Fn(&Attrs) -> FsResult<()>,
) -> FsResult<()> {
    from_ruling.check_change(from.dir, caller)?;
    to_ruling.check_change(to.dir, caller)?;
    if across || is_sticky(from.dir) {
        let moved = (from.object)()?;
        access::check_sticky(from.dir, &moved, caller)?;
        if across && moved.file_type == FileType::Directory {
            // Its `..` changes, which is a write to the directory itself.
            check_moved(&moved)?;
        }
    }
    if !is_sticky(to.dir) {
        return Ok(());
    }
    match (to.object)() {
        Ok(replaced) => access::check_sticky(to.dir, &replaced, caller),
        Err(FsError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks the same by access control lists (MS-FSA §2.1.5.15.11).
fn check_listed_move(
    caller: &Caller,
    from_ruling: Ruling<'_>,
    from: &EntryRef<'_>,
    to_ruling: Ruling<'_>,
    to: &EntryRef<'_>,
) -> FsResult<()> {
    from_ruling.check_removal(from, caller)?;
    let is_dir = (from.object)()?.file_type == FileType::Directory;
    to_ruling.check_add(to.dir, caller, is_dir)?;
    match (to.object)() {
        Ok(_) => to_ruling.check_removal(to, caller),
        Err(FsError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_sticky(dir: &Attrs) -> bool {
    dir.mode & STICKY != 0
}
