//! Checks of the claims on a file, for the operations on files.
//!
//! Data and attributes are checked inside the closures that authorize a change, under the backend's lock of the file:
//! nothing happens between the check and the change. So a [`crate::claims::Holder`] only records an effect; it must not
//! call the backend. A change that began before a claim was granted may still be under way. So the grant of a caching
//! right acquires the file's lock once ([`File::pass_changes`]) before the client hears of it.

use super::acl::Ruling;
use super::core::File;
use super::open_file::check_regular;
use crate::acl::access::Access;
use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, SyncScope};
use crate::claims::{
    Claims, Granted, HolderId, Io, IoKind, LeaseKey, Link, LockOwner, OpenId, Request, Requester, Rights,
    Span, Verdict,
};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, Change, SetAttrs, SetTime, Time};
use crate::model::caller::Caller;
use crate::model::name::Name;
use std::cell::Cell;

impl File {
    /// Checks the claims of others before data or attributes are read or changed. `FsError::Wait(Wait::Recall)` during
    /// a recall; [`FsError::Locked`] on a conflict that no recall resolves. One atomic load without claims.
    #[inline]
    pub(super) fn check_claims(
        &self,
        by: Requester,
        kind: IoKind,
        span: impl FnOnce() -> Span,
    ) -> FsResult<()> {
        match self.volume().active_claims().filter(|claims| claims.blocks(kind)) {
            None => Ok(()),
            Some(claims) => {
                self.ask(claims, Io { by, stream: self.stream(), kind, span: span(), waits: false })
            }
        }
    }

    #[cold]
    fn ask(&self, claims: &Claims, io: Io) -> FsResult<()> {
        claims.io(|| self.volume().now(), &self.key(), io)
    }

    /// Checks claims before attributes are set; a new size changes data, as `kind` says.
    pub(super) fn check_claims_for_setattr(
        &self,
        by: Requester,
        kind: IoKind,
        attrs: &Attrs,
        set: &SetAttrs,
    ) -> FsResult<()> {
        if let Some(size) = set.size {
            self.check_claims(by, kind, || Span::to_end(size.min(attrs.size)))?;
        }
        self.check_claims(by, IoKind::SetAttrs, || Span::ALL)
    }

    /// Recalls write caches before size, times or change counter of this file are returned.
    #[inline]
    pub fn recall_writers(&self, by: Requester) -> FsResult<()> {
        self.check_claims(by, IoKind::ReadAttrs, || Span::ALL)
    }

    /// Recalls write caches for a reader that takes the end of the file from the attributes and reads no further.
    #[inline]
    pub fn recall_writers_for_eof(&self, by: Requester) -> FsResult<()> {
        self.check_claims(by, IoKind::ReadEnd, || Span::ALL)
    }

    /// Whether a client may hold written data of this file under a write delegation.
    #[inline]
    pub fn has_write_delegation(&self) -> bool {
        self.volume().active_claims().is_some_and(|claims| claims.has_write_delegation(&self.key()))
    }

    /// Returns the holder of a write delegation that has not been recalled.
    pub fn delegated_writer(&self) -> Option<HolderId> {
        self.volume().active_claims()?.delegated_writer(&self.key())
    }

    /// Adopts times that a client with a delegation reports: only later ones than the file has, and none later than
    /// `now`. Returns whether they include the time of modification. Checks no claims.
    pub fn adopt_times(
        &self,
        accessed: Option<Time>,
        modified: Option<Time>,
        now: Time,
        pending: Option<&mut PendingSync>,
    ) -> FsResult<bool> {
        let later = |time: Option<Time>, has: Time| {
            time.map(|time| time.min(now)).filter(|time| *time > has).map(SetTime::To)
        };
        let is_modified = Cell::new(false);
        let authorize = |attrs: &Attrs| {
            let accessed = later(accessed, attrs.accessed);
            let modified = later(modified, attrs.modified);
            is_modified.set(modified.is_some());
            let set = SetAttrs { accessed, modified, ..SetAttrs::default() };
            if set.is_empty() { Err(FsError::GuardMismatch) } else { Ok(set) }
        };
        match self.node.change_attrs(&authorize) {
            Err(FsError::GuardMismatch) => return Ok(false),
            changed => _ = changed?,
        }
        if let Some(pending) = pending {
            self.require_sync(pending, SyncScope::All);
        }
        Ok(is_modified.get())
    }

    /// Advances times and change counter for a write that a client has cached. Checks no claims.
    pub fn touch_modified(&self) -> FsResult<Change> {
        self.node.set_attrs(&SetAttrs { modified: Some(SetTime::Now), ..SetAttrs::default() })
    }

    /// Checks claims before a name in this directory is removed or changed. A missing name has no claims; one that
    /// `caller` may not change stays.
    pub(super) fn check_claims_for_unlink(
        &self,
        ruling: Ruling<'_>,
        caller: &Caller,
        name: Name<'_>,
    ) -> FsResult<()> {
        let Some(claims) = self.volume().active_claims() else { return Ok(()) };
        // The operation itself reports the error.
        if self.check_place(ruling, caller).is_err() {
            return Ok(());
        }
        let Ok(found) = self.node.lookup(name, Blocking::Allowed) else { return Ok(()) };
        claims.unlink(caller.by, || self.volume().now(), &found.node.key())
    }

    /// Checks the claims on `target` before `caller` links it in this directory.
    pub(super) fn check_claims_for_link(
        &self,
        ruling: Ruling<'_>,
        caller: &Caller,
        target: &Self,
    ) -> FsResult<()> {
        let Some(claims) = self.volume().active_claims() else { return Ok(()) };
        if self.check_place(ruling, caller).is_err() {
            return Ok(());
        }
        claims.unlink(caller.by, || self.volume().now(), &target.key())
    }

    /// Updates delete-on-close links after `from` in this directory became `to` in `to_dir`.
    pub(super) fn update_links_of(&self, from: Name<'_>, to_dir: &Self, to: Name<'_>) {
        let Some(claims) = self.volume().active_claims().filter(|claims| claims.has_deletions()) else {
            return;
        };
        let Ok(moved) = to_dir.node.lookup(to, Blocking::Allowed) else { return };
        let [from, to] = [(self.key(), from.bytes()), (to_dir.key(), to.bytes())];
        claims.relink(|| self.volume().now(), &moved.node.key(), from, to);
    }

    pub(super) fn update_stream_links(&self, from: &[u8], to: &[u8]) {
        if let Some(claims) = self.volume().active_claims().filter(|claims| claims.has_deletions()) {
            let key = self.key();
            claims.relink(|| self.volume().now(), &key, (key, from), (key, to));
        }
    }

    /// Breaks cached listings of this directory, except that of `except`. Does not wait for the holders.
    #[inline]
    pub fn notify_listing_changed(&self, except: Option<LeaseKey>) {
        if let Some(claims) = self.volume().active_claims() {
            // It is never refused: the names have changed already.
            let _ = claims.listing_changed(|| self.volume().now(), &self.key(), except);
        }
    }

    /// Whether `caller` may lock bytes of this file: an exclusive lock needs the right to write, a shared one the right
    /// to read.
    pub fn authorize_lock(&self, caller: &Caller, is_exclusive: bool, blocking: Blocking) -> FsResult<()> {
        self.authorize_data(caller, if is_exclusive { Access::WRITE } else { Access::READ }, blocking)
    }

    /// Whether `caller` may read or write the data of this file by its mode or list. Claims do not matter.
    pub fn authorize_data(&self, caller: &Caller, access: Access, blocking: Blocking) -> FsResult<()> {
        if access.has(Access::WRITE) {
            self.check_writable(caller)?;
        }
        let attrs = self.attrs(blocking)?;
        check_regular(&attrs)?;
        self.check_data(&attrs, caller, access, blocking)
    }

    /// Whether `caller` may deny others this access while it has the file open. As in Linux' server, denying reads
    /// needs the right to write. A read-only export allows no denial.
    pub fn authorize_deny(&self, caller: &Caller, deny: Rights, blocking: Blocking) -> FsResult<()> {
        if deny.is_none() {
            return Ok(());
        }
        self.check_writable(caller)?;
        let denies_reading = deny.intersects(Rights::READ);
        if denies_reading { self.authorize_data(caller, Access::WRITE, blocking) } else { Ok(()) }
    }

    /// Requests a claim on this file, or its end.
    pub fn claim(&self, request: &Request) -> Verdict {
        let volume = self.volume();
        volume.claims().request(volume.now(), &self.key(), request)
    }

    /// Returns the grant of an open of this file as it is now; `None` if there is no such open.
    pub fn granted_of(&self, open: OpenId) -> Option<Granted> {
        self.volume().active_claims()?.granted_of(&self.key(), open)
    }

    /// Returns the access and share mode of an open of this file; `None` if there is no such open.
    pub fn access_of(&self, open: OpenId) -> Option<crate::claims::Access> {
        self.volume().active_claims()?.access_of(&self.key(), open)
    }

    /// Whether the last close deletes this file or stream, regardless of which open decided that.
    /// A file's deletion includes its streams. One atomic load without deletions in the volume.
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.volume().active_claims().is_some_and(|claims| claims.is_deleted(&self.key(), self.stream()))
    }

    /// Whether a close by others deletes this file or stream while the requester has no open of it.
    pub(super) fn is_pending_deletion(&self, by: Requester) -> bool {
        self.volume()
            .active_claims()
            .is_some_and(|claims| claims.is_pending_deletion(&self.key(), self.stream(), by))
    }

    /// The name to delete with the last open; `None` if no deletion is decided.
    pub fn deletion(&self) -> Option<Link> {
        self.volume().active_claims()?.deletion_of(&self.key(), self.stream())
    }

    pub fn holds_ranges(&self, owner: LockOwner) -> bool {
        self.volume().active_claims().is_some_and(|claims| claims.ranges_of(&self.key(), owner) > 0)
    }

    /// The byte ranges of an open of this file, and whether each is exclusive.
    pub fn ranges_with(&self, open: OpenId) -> Vec<(Span, bool)> {
        self.volume().active_claims().map_or_else(Vec::new, |claims| claims.ranges_with(&self.key(), open))
    }

    /// Waits for changes of this file in progress: all later changes see the current claims.
    pub fn pass_changes(&self) -> FsResult<Attrs> {
        if !self.is_live() {
            // Nobody changes it.
            return self.attrs(Blocking::Allowed);
        }
        // A change that is refused takes the lock, and changes nothing.
        match self.data().change_attrs(&|_| Err(FsError::GuardMismatch)) {
            Err(FsError::GuardMismatch) | Ok(_) => self.attrs(Blocking::Allowed),
            Err(error) => Err(error),
        }
    }
}
