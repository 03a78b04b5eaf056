//! [`Table`]: the claims on many files, as a state machine.

use super::entries::Blocked;
use super::file::FileClaims;
use super::step::{Step, granted};
use super::{
    Access, Conflict, Effect, Granted, HolderId, HolderUsers, Io, Link, LockOwner, OpenId, Request,
    Requester, Span, Stream, Timeouts, Verdict,
};
use crate::file_key::{FileKey, KeyHasher};
use crate::qos::Nanos;
use crate::small_map::SmallSet;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

/// Below this number, former holders of a file are not searched for.
const KNOWN_MIN: usize = 16;

/// Numbers of files with claims, by kind of claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    pub files: usize,
    pub blocks_read: usize,
    pub blocks_getattr: usize,
    /// Claims that delay taking the end of a file from its attributes.
    pub blocks_eof: usize,
    pub blocks_change: usize,
    /// Files of which the data or a stream is to be deleted on close.
    pub deletes: usize,
}

/// The claims on many files. Time is an argument; messages to holders are return values.
#[derive(Debug)]
pub struct Table {
    timeouts: Timeouts,
    files: HashMap<FileKey, FileClaims, BuildHasherDefault<KeyHasher>>,
    counts: ClaimCounts,
    deadlines: BTreeSet<(Nanos, FileKey)>,
    holders: HashMap<HolderId, SmallSet<FileKey>>,
    lapsed: HashSet<HolderId>,
    users: Arc<HolderUsers>,
    next_id: u64,
    id_step: u64,
}

impl Table {
    /// A table that numbers opens and tickets from `first` in steps of `id_step`, so that several share one series.
    pub fn new(timeouts: Timeouts, first: u64, id_step: u64) -> Self {
        Self {
            timeouts,
            files: HashMap::default(),
            counts: ClaimCounts::default(),
            deadlines: BTreeSet::new(),
            holders: HashMap::new(),
            lapsed: HashSet::new(),
            users: Arc::default(),
            next_id: first,
            id_step,
        }
    }

    #[must_use]
    pub fn of_users(self, users: Arc<HolderUsers>) -> Self {
        Self { users, ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn counts(&self) -> ClaimCounts {
        ClaimCounts { files: self.files.len(), ..self.counts }
    }

    pub fn ranges_of(&self, file: &FileKey, owner: LockOwner) -> usize {
        self.files.get(file).map_or(0, |claims| claims.ranges_of(owner))
    }

    /// The byte ranges that end with an open of a file, and whether each is exclusive.
    pub fn ranges_with(&self, file: &FileKey, open: OpenId) -> Vec<(Span, bool)> {
        self.files.get(file).map_or_else(Vec::new, |claims| claims.ranges_with(open))
    }

    /// Whether unlocking these bytes splits a range of an owner.
    pub fn is_split_by(&self, file: &FileKey, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        self.files.get(file).is_some_and(|claims| claims.is_split_by(owner, stream, span))
    }

    /// Whether a connected client may hold written data of a file under a write delegation.
    pub fn has_write_delegation(&self, file: &FileKey) -> bool {
        self.files.get(file).is_some_and(|claims| !claims.write_delegations(Stream::default()).is_empty())
    }

    /// Returns the holder of a write delegation that has not been recalled.
    pub fn delegated_writer(&self, file: &FileKey) -> Option<HolderId> {
        let lease = self.files.get(file)?.leases.iter().find(|lease| lease.delegates_writing())?;
        (!self.lapsed.contains(&lease.holder)).then_some(lease.holder)
    }

    /// Returns the current grant of an open of a file; `None` if there is no such open.
    pub fn granted_of(&self, file: &FileKey, open: OpenId) -> Option<Granted> {
        self.files.get(file)?.granted_of(open)
    }

    /// Returns access and share mode of an open of a file; `None` if there is no such open.
    pub fn access_of(&self, file: &FileKey, open: OpenId) -> Option<Access> {
        self.files.get(file)?.access_of(open)
    }

    /// Whether the last close deletes a stream, by itself or with its file, regardless of which open decided that.
    pub fn is_deleted(&self, file: &FileKey, stream: Stream) -> bool {
        self.files.get(file).is_some_and(|claims| claims.is_deleted(stream))
    }

    /// Whether a close by others deletes a stream while the requester has no open of it.
    pub fn is_pending_deletion(&self, file: &FileKey, stream: Stream, by: Requester) -> bool {
        let is_pending =
            |claims: &FileClaims| claims.is_pending_deletion(stream, claims.actor(by).unwrap_or_default());
        self.files.get(file).is_some_and(is_pending)
    }

    /// The name to delete with the last open of a stream or file; `None` if no deletion is decided.
    pub fn deletion_of(&self, file: &FileKey, stream: Stream) -> Option<Link> {
        self.files.get(file)?.deletion_of(stream)
    }

    pub fn apply(&mut self, now: Nanos, file: &FileKey, request: &Request) -> (Verdict, Vec<Effect>) {
        if !self.files.contains_key(file) && request.claim_origin().is_none() {
            return (without_claims(request), Vec::new());
        }
        self.visit(now, file, |claims, step| claims.apply(step, request))
    }

    /// Ends up to `most` ranges of an open that is to be closed, if it has more, so that others have a turn before the
    /// rest. Returns whether it did.
    pub(super) fn thin_out(
        &mut self,
        now: Nanos,
        file: &FileKey,
        open: OpenId,
        most: usize,
        effects: &mut Vec<Effect>,
    ) -> bool {
        // A look, which is all that most need.
        if self.files.get(file).is_none_or(|claims| claims.ranges.with(open).nth(most).is_none()) {
            return false;
        }
        let (is_more, more) = self.visit(now, file, |claims, _| claims.thin_out(open, most));
        effects.extend(more);
        is_more
    }

    /// Reports the end of an [`Effect::Remove`], successful or not: the file can be opened again if it still exists.
    pub fn removed(&mut self, now: Nanos, file: &FileKey, stream: Stream) -> Vec<Effect> {
        if !self.files.contains_key(file) {
            return Vec::new();
        }
        self.visit(now, file, |claims, _| claims.removed(stream)).1
    }

    /// Whether the volume has yet to remove a name of this file or of one of its streams.
    pub fn is_removing(&self, file: &FileKey) -> bool {
        self.files.get(file).is_some_and(|claims| claims.deletions.iter().any(|gone| gone.is_begun))
    }

    pub fn expire(&mut self, now: Nanos) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(&(deadline, file)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            let ((), more) = self.visit(now, &file, FileClaims::expire);
            effects.extend(more);
        }
        effects
    }

    pub fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Expires the lease of a holder on its state: from now on its claims yield to any conflict (courtesy, RFC 8881
    /// §8.4.2.4).
    pub fn lapse(&mut self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        if !self.holders.contains_key(&holder) {
            return Vec::new();
        }
        self.lapsed.insert(holder);
        // Requests that wait for its claims are resumed.
        self.visit_all(now, holder, |claims, _| {
            claims.is_released = true;
            claims.line.all_released();
        })
    }

    /// Marks a holder as connected; claims without a conflict in the meantime are still its own.
    pub fn renew(&mut self, holder: HolderId) {
        self.lapsed.remove(&holder);
    }

    /// Repeats the unanswered recalls of a holder.
    pub fn resend_recalls(&mut self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.visit_all(now, holder, |claims, step| claims.resend_recalls(step, holder))
    }

    pub fn drop_holder(&mut self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        let mut effects = Vec::new();
        while !self.drop_some(now, holder, usize::MAX, &mut effects) {}
        effects
    }

    /// Ends up to a limit of a holder's claims, and about as many files; returns whether none are left.
    pub(super) fn drop_some(
        &mut self,
        now: Nanos,
        holder: HolderId,
        most: usize,
        effects: &mut Vec<Effect>,
    ) -> bool {
        for _ in 0..most {
            let Some(file) = self.holders.get(&holder).and_then(|files| files.first().copied()) else {
                self.holders.remove(&holder);
                self.lapsed.remove(&holder);
                return true;
            };
            let (is_done, more) =
                self.visit(now, &file, |claims, step| claims.drop_holder(step, holder, most));
            effects.extend(more);
            if !is_done {
                return false;
            }
            if let Some(claims) = self.files.get_mut(&file) {
                claims.known.remove(&holder);
            }
            self.forget(&file, [holder]);
        }
        false
    }

    fn visit_all(
        &mut self,
        now: Nanos,
        holder: HolderId,
        mut act: impl FnMut(&mut FileClaims, &mut Step<'_>),
    ) -> Vec<Effect> {
        let files: Vec<FileKey> =
            self.holders.get(&holder).into_iter().flat_map(SmallSet::iter).copied().collect();
        files.iter().flat_map(|file| self.visit(now, file, &mut act).1).collect()
    }

    fn visit<R>(
        &mut self,
        now: Nanos,
        file: &FileKey,
        act: impl FnOnce(&mut FileClaims, &mut Step<'_>) -> R,
    ) -> (R, Vec<Effect>) {
        let claims = self.files.entry(*file).or_default();
        let mut step = Step {
            now,
            file: *file,
            lapsed: &self.lapsed,
            users: &self.users,
            timeouts: self.timeouts,
            next_id: &mut self.next_id,
            id_step: self.id_step,
            touched: Vec::new(),
            effects: Vec::new(),
        };
        let answer = act(claims, &mut step);
        claims.resume_waiting(&mut step);
        let Step { touched, effects, .. } = step;
        let deadline = claims.next_deadline();
        if deadline != claims.armed {
            claims.armed.map(|armed| self.deadlines.remove(&(armed, *file)));
            deadline.map(|deadline| self.deadlines.insert((deadline, *file)));
            claims.armed = deadline;
        }
        let blocked = claims.blocked();
        let before = std::mem::replace(&mut claims.counted, blocked);
        self.counts.count(before, blocked);
        self.index(file, &touched);
        (answer, effects)
    }

    /// Indexes files by holder, and forgets files without claims.
    fn index(&mut self, file: &FileKey, touched: &[HolderId]) {
        let Some(claims) = self.files.get_mut(file) else { return };
        for &holder in touched {
            if self.holders.entry(holder).or_default().insert(*file) {
                claims.known.insert(holder);
            }
        }
        if !claims.is_empty() && claims.known.len() <= KNOWN_MIN + 2 * claims.len() {
            return;
        }
        let known = std::mem::take(&mut claims.known);
        if claims.is_empty() {
            self.files.remove(file);
            return self.forget(file, known);
        }
        let holders = claims.holders();
        let (kept, gone): (SmallSet<_>, SmallSet<_>) =
            known.into_iter().partition(|holder| holders.contains(holder));
        claims.known = kept;
        self.forget(file, gone);
    }

    fn forget(&mut self, file: &FileKey, holders: impl IntoIterator<Item = HolderId>) {
        for holder in holders {
            let Some(files) = self.holders.get_mut(&holder) else { continue };
            files.remove(file);
            if files.is_empty() {
                self.holders.remove(&holder);
                self.lapsed.remove(&holder);
            }
        }
    }
}

impl ClaimCounts {
    fn count(&mut self, before: Blocked, after: Blocked) {
        let counted =
            |count: usize, before: bool, after: bool| count + usize::from(after) - usize::from(before);
        self.blocks_read = counted(self.blocks_read, before.read, after.read);
        self.blocks_getattr = counted(self.blocks_getattr, before.getattr, after.getattr);
        self.blocks_eof = counted(self.blocks_eof, before.eof, after.eof);
        self.blocks_change = counted(self.blocks_change, before.change, after.change);
        self.deletes = counted(self.deletes, before.deletes, after.deletes);
    }
}

fn without_claims(request: &Request) -> Verdict {
    match request {
        Request::Io(Io { by: Requester::Anonymous | Requester::Holder(_), .. })
        | Request::Unlink { by: Requester::Anonymous | Requester::Holder(_), .. }
        | Request::TestLock(_)
        | Request::Unlock { enforced: false, .. }
        | Request::Relink { .. }
        | Request::ListingChanged { .. } => granted(),
        _ => Verdict::Refused(Conflict::NotHeld),
    }
}

#[cfg(test)]
impl Table {
    pub(super) fn claims(&self, file: &FileKey) -> Option<&FileClaims> {
        self.files.get(file)
    }

    pub(super) fn assert_tidy(&self) {
        assert!(self.files.values().all(|claims| !claims.is_empty()));
        let armed = self.files.values().filter(|claims| claims.armed.is_some()).count();
        assert_eq!(self.deadlines.len(), armed);
        let blocking = |blocked: fn(Blocked) -> bool| {
            self.files.values().filter(|claims| blocked(claims.blocked())).count()
        };
        assert_eq!(self.counts.blocks_read, blocking(|blocked| blocked.read));
        assert_eq!(self.counts.blocks_getattr, blocking(|blocked| blocked.getattr));
        assert_eq!(self.counts.blocks_eof, blocking(|blocked| blocked.eof));
        assert_eq!(self.counts.blocks_change, blocking(|blocked| blocked.change));
        assert_eq!(self.counts.deletes, blocking(|blocked| blocked.deletes));
        for (holder, files) in &self.holders {
            assert!(files.iter().all(|file| self.files[file].known.contains(holder)));
        }
        for (file, claims) in &self.files {
            claims.opens.assert_sound();
            claims.ranges.assert_sound();
            claims.line.assert_sound();
            assert_eq!(claims.armed, claims.next_deadline());
            let holders = claims.opens.iter().map(|open| open.holder);
            let holders = holders.chain(claims.ranges.holders());
            let mut holders = holders.chain(claims.leases.iter().map(|lease| lease.holder));
            assert!(holders.all(|holder| self.holders[&holder].contains(file)));
        }
        assert!(self.lapsed.iter().all(|holder| self.holders.contains_key(holder)));
        assert!(!self.files.is_empty() || self.holders.is_empty());
    }
}
