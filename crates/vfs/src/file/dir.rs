//! Names: looking up, listing, linking, removing, moving.

use super::acl::{Ruling, check_mode};
use super::core::{Created, File, Resolved, check_is_dir};
use crate::acl::access::{self, Access};
use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, EntryRef, EntrySink, Lookup, NameFilter, SyncScope};
use crate::error::{FsError, FsResult, Wait};
use crate::model::attrs::STICKY;
use crate::model::attrs::{Attrs, Change, FileType};
use crate::model::caller::Caller;
use crate::model::name::Name;
use crate::volume::case_index::{Fold, Known, NameChange};
use crate::volume::change_notify::Action;
use std::ops::ControlFlow;

/// Entries that a look-up by another spelling looks at in a directory.
const FOLDED_ENTRIES_MAX: usize = 1 << 20;

/// What a listing starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The directory's attributes, from before the entries.
    pub dir: Attrs,
    /// Whether the last entry was reached.
    pub at_end: bool,
}

/// A directory in which a caller may look names up.
pub struct OpenDir<'f> {
    dir: &'f File,
    /// The directory's attributes when that was authorized.
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
            _ => node.lookup(Name::new(name)?, blocking)?,
        };
        Ok(Resolved { file: self.dir.beside(found.node), attrs: found.attrs })
    }
}

impl Resolved {
    /// As [`File::open_dir`], by the attributes that the name has led to just now.
    pub fn open_dir(&self, caller: &Caller, blocking: Blocking) -> FsResult<OpenDir<'_>> {
        self.file.opened_dir(self.attrs, caller, blocking)
    }
}

/// Whether what has a name by now is what is to go.
type IsMeant<'m> = &'m dyn Fn(&Attrs) -> bool;

impl File {
    /// Authorizes `caller` to look names up in this directory.
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

    /// Lists the entries of this directory after `cookie` into `sink`.
    pub fn read_dir(
        &self,
        caller: &Caller,
        cookie: u64,
        plus: bool,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<Listing> {
        let (dir, plus) = self.authorize_listing(caller, plus)?;
        let at_end = self.node.read_dir(cookie, plus, &mut |entry| match entry.name {
            name if name == Name::STREAMS.bytes() => ControlFlow::Continue(()),
            _ => sink(entry),
        })?;
        Ok(Listing { dir, at_end })
    }

    /// The same of the entries alone whose names are `wanted`.
    pub fn read_dir_of(
        &self,
        caller: &Caller,
        (cookie, plus): (u64, bool),
        wanted: NameFilter<'_>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<Listing> {
        let (dir, plus) = self.authorize_listing(caller, plus)?;
        let is_wanted = |name: &[u8]| name != Name::STREAMS.bytes() && wanted(name);
        let at_end = self.node.read_dir_of(cookie, plus, &is_wanted, sink)?;
        Ok(Listing { dir, at_end })
    }

    /// The directory's attributes for a caller who may list it, and whether that is `plus` the attributes of entries.
    fn authorize_listing(&self, caller: &Caller, plus: bool) -> FsResult<(Attrs, bool)> {
        let attrs = self.node.attrs(Blocking::Allowed)?;
        check_is_dir(&attrs)?;
        self.check(&attrs, caller, Access::READ, Blocking::Allowed)?;
        // Attributes of entries are what a look-up would give: without `x` on the directory there are none.
        let plus = plus && self.check(&attrs, caller, Access::EXECUTE, Blocking::Allowed).is_ok();
        Ok((attrs, plus))
    }

    /// The name in this directory that is like `name` to `fold`, as it is stored. Who may not list the directory finds none.
    pub fn find_ignoring_case(&self, caller: &Caller, name: &[u8], fold: Fold) -> FsResult<Option<Vec<u8>>> {
        let attrs = self.node.attrs(Blocking::Allowed)?;
        check_is_dir(&attrs)?;
        if self.check(&attrs, caller, Access::READ, Blocking::Allowed).is_err() {
            return Ok(None);
        }
        let (indexes, key) = (self.volume().names(), self.key());
        let mut gathering = match indexes.find(&key, attrs.change, name, fold) {
            Known::Stored(stored) => return Ok(stored),
            Known::Unknown(gathering) => gathering,
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
            gathering = gathering.take().and_then(|gathering| gathering.with(entry.name, folded.as_deref()));
            looked_at += 1;
            let is_done = found.is_some() && gathering.is_none() || looked_at == FOLDED_ENTRIES_MAX;
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(gathering) = gathering.filter(|_| matches!(listed, Ok(true))) {
            gathering.keep();
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
        // A type never changes. What there is to say against the target is said after what there is against the caller.
        let target_type = target.node.attrs(Blocking::Allowed).map(|attrs| attrs.file_type);
        self.check_claims_for_link(ruling, caller, target)?;
        let made = self.node.link(name, &target.node, &|attrs| {
            ruling.check_add(attrs, caller, false)?;
            if target_type? == FileType::Directory { Err(FsError::IsDirectory) } else { Ok(()) }
        })?;
        self.names_changed(caller, pending);
        self.tell_added(name.bytes(), false, &made.dir);
        Ok(self.created(made))
    }

    /// Gives `target` a name in this directory that the file of this number has, in one step: that file has it, or `target` does.
    /// [`FsError::Wait(Wait::Recall)`] if something else has the name by now, or nothing.
    pub fn link_over(
        &self,
        caller: &Caller,
        target: &Self,
        (name, replaced): (&[u8], u64),
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
        let change = volume.link_over(&target.node, (&self.node, name), &authorize, pending)?;
        self.names_changed(caller, pending);
        self.index_changed(&change, Vec::new);
        volume.remove_streams_of_gone(overwritten);
        volume.watches().removed(volume.root(), &self.node, name.bytes(), child);
        volume.watches().names_changed(volume.root(), &self.node, &[(Action::Added, name.bytes())], false);
        Ok(change)
    }

    /// Whether `caller` may give `target` a further name in this directory now, and nobody who keeps it open has to be asked first.
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
        self.take_out((ruling, caller), name, (false, None), pending)
    }

    /// Removes the name of what was seen with these attributes. [`FsError::Stale`] if it is something else by now, or has changed.
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
        self.take_out((ruling, caller), name, (is_dir, Some(&is_seen)), pending)
    }

    /// Removes a name of the file of this number that has another one, `to` in `to_dir`: if it goes with its last open, it goes by
    /// that. [`FsError::Stale`] if this is something else by now, or the only name.
    pub fn remove_one_name(
        &self,
        caller: &Caller,
        (name, file_id): (&[u8], u64),
        (to_dir, to): (&Self, &[u8]),
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let ruling = self.ruling(caller, Some(name))?;
        let old = self.old_name(ruling, caller, name)?;
        let has_another = |now: &Attrs| now.file_id == file_id && now.links > 1;
        let removed = self.take_out((ruling, caller), old, (false, Some(&has_another)), pending)?;
        self.update_links_of(Name::new(name)?, to_dir, Name::new(to)?);
        Ok(removed)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, caller: &Caller, name: &[u8], pending: &mut PendingSync) -> FsResult<Change> {
        let ruling = self.ruling(caller, Some(name))?;
        let name = match self.old_name(ruling, caller, name) {
            // It holds this directory at least (RFC 1813 §3.3.13 wants this error).
            Err(FsError::Invalid) if name == b".." => return Err(FsError::Exists),
            named => named?,
        };
        self.take_out((ruling, caller), name, (true, None), pending)
    }

    fn take_out(
        &self,
        (ruling, caller): (Ruling<'_>, &Caller),
        name: Name<'_>,
        (is_dir, is_meant): (bool, Option<IsMeant<'_>>),
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_claims_for_unlink(ruling, caller, name)?;
        let (volume, child) = (self.volume(), self.volume().watches().child(&self.node, name));
        let named = volume.may_have_streams(&self.node, name);
        let authorize = |entry: &EntryRef<'_>| {
            ruling.check_removal(entry, caller)?;
            let Some(is_meant) = is_meant else { return Ok(()) };
            if is_meant(&(entry.object)()?) { Ok(()) } else { Err(FsError::Stale) }
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

    /// Moves `from` in this directory to `to` in `to_dir`, replacing what has that name. The changes are of the two
    /// directories, which must have been reached by the same export ([`FsError::CrossVolume`]).
    pub fn rename(
        &self,
        caller: &Caller,
        from: &[u8],
        to_dir: &Self,
        to: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<(Change, Change)> {
        self.move_entry(caller, (from, None), to_dir, to, pending)
    }

    /// The same for the file of this number alone: [`FsError::NotFound`] if something else has the name by now.
    pub fn rename_file(
        &self,
        caller: &Caller,
        (from, file_id): (&[u8], u64),
        to_dir: &Self,
        to: &[u8],
        pending: &mut PendingSync,
    ) -> FsResult<(Change, Change)> {
        self.move_entry(caller, (from, Some(file_id)), to_dir, to, pending)
    }

    fn move_entry(
        &self,
        caller: &Caller,
        (from, file_id): (&[u8], Option<u64>),
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
        let across = self.key() != to_dir.key();
        let moved_dir = self.moved_dir((from_ruling, caller), from_name, across);
        let check_moved = |attrs: &Attrs| match &moved_dir {
            None => access::check(attrs, None, caller, Access::WRITE),
            Some(Some(found)) if found.attrs.file_id == attrs.file_id => {
                check_mode(&found.node, attrs, caller, Access::WRITE)
            }
            // Something else has the name by now: that is to be asked about first.
            Some(_) => Err(FsError::Wait(Wait::Recall)),
        };
        let authorize = |from: &EntryRef<'_>, to: &EntryRef<'_>| {
            if let Some(file_id) = file_id
                && (from.object)()?.file_id != file_id
            {
                return Err(FsError::NotFound);
            }
            match from_ruling {
                Ruling::Mode(_) => {
                    check_move(caller, (from_ruling, from), (to_ruling, to), across, &check_moved)
                }
                Ruling::Lists { .. } => check_listed_move(caller, (from_ruling, from), (to_ruling, to)),
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
        watches.renamed(root, (&self.node, from), (&to_dir.node, to), moved, replaced);
        Ok(changes)
    }

    /// What has a name that is to go to another directory, where a list of POSIX can say who may move it.
    fn moved_dir(
        &self,
        (ruling, caller): (Ruling<'_>, &Caller),
        name: Name<'_>,
        across: bool,
    ) -> Option<Option<Lookup>> {
        let can_matter = across && matches!(ruling, Ruling::Mode(_)) && !caller.is_root();
        let looks = can_matter && self.volume().capabilities().acls;
        // Where nothing is found, the verb itself says what is wrong.
        looks.then(|| self.node.lookup(name, Blocking::Allowed).ok())
    }

    /// After names in this directory have changed: those that are found by other spellings.
    pub(super) fn index_changed(&self, change: &Change, what: impl FnOnce() -> Vec<NameChange>) {
        self.volume().names().changed(&self.key(), change, what);
    }

    /// After names in this directory have changed: the flush, and those who keep a listing.
    pub(super) fn names_changed(&self, caller: &Caller, pending: &mut PendingSync) {
        self.require_sync(pending, SyncScope::All);
        self.notify_listing_changed(caller.listing);
    }

    /// The name of an entry to be changed in this directory. A bad one is told only to those who may change the directory.
    fn old_name<'n>(&self, ruling: Ruling<'_>, caller: &Caller, name: &'n [u8]) -> FsResult<Name<'n>> {
        Name::new(name).or_else(|bad| {
            self.check_place(ruling, caller)?;
            Err(bad)
        })
    }

    /// As [`File::old_name`], for an entry to be made: `.` and `..` exist, always (RFC 1813 §3.3.9).
    pub(super) fn new_name<'n>(
        &self,
        ruling: Ruling<'_>,
        caller: &Caller,
        name: &'n [u8],
    ) -> FsResult<Name<'n>> {
        match self.old_name(ruling, caller, name) {
            Err(FsError::Invalid) if matches!(name, b"." | b"..") => Err(FsError::Exists),
            named => named,
        }
    }

    /// Checks that `caller` may change the entries of this directory as it is now.
    pub(super) fn check_place(&self, ruling: Ruling<'_>, caller: &Caller) -> FsResult<()> {
        ruling.check_change(&self.node.attrs(Blocking::Allowed)?, caller)
    }
}

/// By mode bits: whether a name may be given up and another taken, in another directory if `across`. `check_moved` asks about a
/// directory that is moved there.
fn check_move(
    caller: &Caller,
    (from_ruling, from): (Ruling<'_>, &EntryRef<'_>),
    (to_ruling, to): (Ruling<'_>, &EntryRef<'_>),
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

/// By lists: the same (MS-FSA §2.1.5.15.11).
fn check_listed_move(
    caller: &Caller,
    (from_ruling, from): (Ruling<'_>, &EntryRef<'_>),
    (to_ruling, to): (Ruling<'_>, &EntryRef<'_>),
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
