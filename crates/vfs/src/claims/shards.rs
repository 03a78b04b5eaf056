//! [`Claims`]: the claims of a volume between threads.

use super::delivery;
use super::request::ClaimOrigin;
use super::{
    Access, ClaimCounts, Conflict, Effect, Grace, Granted, Holder, HolderId, HolderUsers, Io, IoKind,
    LeaseKey, Link, LockOwner, OpenId, Request, Requester, Span, Stream, Table, Timeouts, Verdict,
};
use crate::qos::Nanos;
use crate::sync::{Condvar, Mutex, RwLock};
use crate::{FileKey, FsError, FsResult, Wait};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const SHARDS: usize = 64;
const NEVER: u64 = u64::MAX;
const ENDED_PER_STEP_MAX: usize = 256;
/// The interval of checks for a removal by another thread.
const REMOVAL_POLL: Duration = Duration::from_millis(10);

/// All claims of a volume. Effects go to the attached holders without any lock; effects for the volume,
/// [`Effect::Remove`], are returned.
pub struct Claims {
    /// Totals over all shards, so that most calls read nothing else.
    counts: Counters,
    shards: Box<[Shard]>,
    grace: Grace,
    holders: RwLock<HashMap<HolderId, Arc<dyn Holder>>>,
    users: Arc<HolderUsers>,
    next_holder: AtomicU64,
    /// Effects that [`Claims::dispatch`] leaves for [`Claims::expire`].
    deferred_effects: Mutex<Vec<Effect>>,
}

/// Aligned to its own cache lines.
#[repr(align(128))]
struct Shard {
    counts: Counters,
    deadline: AtomicU64,
    table: Mutex<Table>,
    /// Signaled when a name was removed.
    removed: Condvar,
}

/// [`ClaimCounts`] that can be read without a lock.
#[derive(Default)]
struct Counters {
    files: AtomicUsize,
    blocks_read: AtomicUsize,
    blocks_getattr: AtomicUsize,
    blocks_eof: AtomicUsize,
    blocks_change: AtomicUsize,
    deletes: AtomicUsize,
}

impl Counters {
    fn add(&self, before: ClaimCounts, after: ClaimCounts) {
        let Counters { files, blocks_read, blocks_getattr, blocks_eof, blocks_change, deletes } = self;
        for (counter, before, after) in [
            (files, before.files, after.files),
            (blocks_read, before.blocks_read, after.blocks_read),
            (blocks_getattr, before.blocks_getattr, after.blocks_getattr),
            (blocks_eof, before.blocks_eof, after.blocks_eof),
            (blocks_change, before.blocks_change, after.blocks_change),
            (deletes, before.deletes, after.deletes),
        ] {
            if before != after {
                counter.fetch_add(after.wrapping_sub(before), Relaxed);
            }
        }
    }

    /// Whether any claim can stop this.
    #[inline]
    fn blocks(&self, kind: IoKind) -> bool {
        let counter = match kind {
            IoKind::Read => &self.blocks_read,
            IoKind::ReadAttrs => &self.blocks_getattr,
            IoKind::ReadEnd => &self.blocks_eof,
            IoKind::Write | IoKind::Replace | IoKind::SetAttrs => &self.blocks_change,
        };
        counter.load(Relaxed) > 0
    }

    #[inline]
    fn blocks_change(&self) -> bool {
        self.blocks_change.load(Relaxed) > 0
    }
}

impl Claims {
    pub fn new(timeouts: Timeouts, grace: Grace) -> Self {
        let users = Arc::new(HolderUsers::default());
        let table = |first| Table::new(timeouts, first, SHARDS as u64).of_users(Arc::clone(&users));
        let shard = |index: usize| Shard {
            counts: Counters::default(),
            deadline: AtomicU64::new(NEVER),
            table: Mutex::new(table(index as u64)),
            removed: Condvar::new(),
        };
        Self {
            counts: Counters::default(),
            shards: (0..SHARDS).map(shard).collect(),
            grace,
            holders: RwLock::default(),
            users,
            next_holder: AtomicU64::new(1),
            deferred_effects: Mutex::default(),
        }
    }

    pub fn attach(&self, holder: Arc<dyn Holder>) -> HolderId {
        let id = HolderId(self.next_holder.fetch_add(1, Relaxed));
        self.holders.write().insert(id, holder);
        id
    }

    /// Attaches one of several holders of a user.
    pub fn attach_for(&self, holder: Arc<dyn Holder>, user: u32) -> HolderId {
        let id = self.attach(holder);
        self.users.add(id, user);
        id
    }

    pub fn apply(&self, now: Nanos, file: &FileKey, request: &Request) -> (Verdict, Vec<Effect>) {
        let Some(making) = request.claim_origin() else { return self.apply_to_shard(now, file, request) };
        // The guard makes reclaims finish before the grace period ends.
        match (self.grace.hold(), making) {
            (Some(_), ClaimOrigin::New) => (Verdict::Refused(Conflict::Grace), Vec::new()),
            (None, ClaimOrigin::Reclaimed) => (Verdict::Refused(Conflict::NoGrace), Vec::new()),
            (None, ClaimOrigin::New) | (_, ClaimOrigin::Restored) => self.apply_to_shard(now, file, request),
            (Some(mut in_grace), ClaimOrigin::Reclaimed) => {
                let answer = self.apply_to_shard(now, file, request);
                if matches!(answer.0, Verdict::Granted(_)) {
                    in_grace.note_reclaim(now);
                }
                answer
            }
        }
    }

    /// Applies a request and delivers its effects.
    pub fn request(&self, now: Nanos, file: &FileKey, request: &Request) -> Verdict {
        let (verdict, effects) = self.apply(now, file, request);
        // An open that gave way may have been the last one of a file to be deleted.
        self.dispatch(effects);
        verdict
    }

    /// Checks a read, write or change of attributes that does not wait: one atomic load where no claim can stop it. A
    /// closed open stops nothing here: its holder has been notified.
    #[inline]
    pub fn io(&self, now: impl FnOnce() -> Nanos, file: &FileKey, io: Io) -> FsResult<()> {
        if !self.may_block(io.kind, file) {
            return Ok(());
        }
        self.check(now(), file, &Request::Io(io))
    }

    /// Whether any claim in the volume can stop or delay this.
    #[inline]
    pub fn blocks(&self, kind: IoKind) -> bool {
        self.counts.blocks(kind)
    }

    /// Checks the removal of a name of `file`.
    #[inline]
    pub fn unlink(&self, by: Requester, now: impl FnOnce() -> Nanos, file: &FileKey) -> FsResult<()> {
        self.check_change(now, file, || Request::Unlink { by, waits: false })
    }

    /// Breaks cached listings of `directory` after its names changed, except that of `except`.
    #[inline]
    pub fn listing_changed(
        &self,
        now: impl FnOnce() -> Nanos,
        directory: &FileKey,
        except: Option<LeaseKey>,
    ) -> FsResult<()> {
        self.check_change(now, directory, || Request::ListingChanged { except })
    }

    /// Whether any file of the volume is to be deleted on close.
    #[inline]
    pub fn has_deletions(&self) -> bool {
        self.counts.deletes.load(Relaxed) > 0
    }

    /// See [`Table::is_deleted`]. Costs one load without deletions in the volume.
    /// Costs two loads and a hash without deletions in the shard.
    #[inline]
    pub fn is_deleted(&self, file: &FileKey, stream: Stream) -> bool {
        self.has_deletions_of(file) && self.shard(file).table.lock().is_deleted(file, stream)
    }

    pub fn is_pending_deletion(&self, file: &FileKey, stream: Stream, by: Requester) -> bool {
        self.has_deletions_of(file) && self.shard(file).table.lock().is_pending_deletion(file, stream, by)
    }

    pub fn deletion_of(&self, file: &FileKey, stream: Stream) -> Option<Link> {
        if !self.has_deletions_of(file) {
            return None;
        }
        self.shard(file).table.lock().deletion_of(file, stream)
    }

    #[inline]
    fn has_deletions_of(&self, file: &FileKey) -> bool {
        self.has_deletions() && self.shard(file).counts.deletes.load(Relaxed) > 0
    }

    /// Updates pending deletions after a rename.
    pub(crate) fn relink(
        &self,
        now: impl FnOnce() -> Nanos,
        file: &FileKey,
        from: (FileKey, &[u8]),
        to: (FileKey, &[u8]),
    ) {
        let link = |(parent, name): (FileKey, &[u8])| Link { parent, name: name.into(), listing: None };
        self.request(now(), file, &Request::Relink { from: link(from), to: link(to) });
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.counts.files.load(Relaxed) == 0
    }

    pub fn delegated_writer(&self, file: &FileKey) -> Option<HolderId> {
        let may_be = self.may_block(IoKind::ReadAttrs, file);
        if may_be { self.shard(file).table.lock().delegated_writer(file) } else { None }
    }

    #[inline]
    pub fn has_write_delegation(&self, file: &FileKey) -> bool {
        self.may_block(IoKind::ReadEnd, file) && self.shard(file).table.lock().has_write_delegation(file)
    }

    /// Whether any claim in the shard of a file can stop or delay this.
    #[inline]
    fn may_block(&self, kind: IoKind, file: &FileKey) -> bool {
        self.blocks(kind) && self.shard(file).counts.blocks(kind)
    }

    pub fn granted_of(&self, file: &FileKey, open: OpenId) -> Option<Granted> {
        self.shard(file).table.lock().granted_of(file, open)
    }

    pub fn access_of(&self, file: &FileKey, open: OpenId) -> Option<Access> {
        self.shard(file).table.lock().access_of(file, open)
    }

    pub fn ranges_of(&self, file: &FileKey, owner: LockOwner) -> usize {
        self.shard(file).table.lock().ranges_of(file, owner)
    }

    pub fn ranges_with(&self, file: &FileKey, open: OpenId) -> Vec<(Span, bool)> {
        self.shard(file).table.lock().ranges_with(file, open)
    }

    pub fn is_split_by(&self, file: &FileKey, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        self.shard(file).table.lock().is_split_by(file, owner, stream, span)
    }

    /// Delivers effects to their holders. Effects for the volume wait for [`Claims::expire`].
    pub fn dispatch(&self, effects: Vec<Effect>) {
        let deferred = self.deliver_effects(effects);
        if !deferred.is_empty() {
            self.deferred_effects.lock().extend(deferred);
        }
    }

    /// Delivers effects to their holders and returns those for the volume. If a holder calls this while it receives an
    /// effect, delivery follows after that.
    #[must_use = "names have to be removed"]
    pub fn deliver_effects(&self, effects: Vec<Effect>) -> Vec<Effect> {
        if effects.is_empty() {
            return effects;
        }
        let (mut left, mut due) = (Vec::new(), VecDeque::new());
        let holders = self.holders.read();
        for effect in effects {
            match effect.holder() {
                None => left.push(effect),
                Some(id) => due.extend(holders.get(&id).map(|holder| (Arc::clone(holder), effect))),
            }
        }
        drop(holders);
        delivery::deliver(due);
        left
    }

    /// Enforces every deadline up to `now`; returns effects for the volume.
    pub fn expire(&self, now: Nanos) -> Vec<Effect> {
        self.grace.expire(now);
        let due = self.shards.iter().filter(|shard| shard.deadline.load(Relaxed) <= now.0);
        let mut effects = std::mem::take(&mut *self.deferred_effects.lock());
        effects.extend(due.flat_map(|shard| self.change(shard, |table| table.expire(now))));
        effects
    }

    /// See [`Table::removed`].
    pub fn removed(&self, now: Nanos, file: &FileKey, stream: Stream) {
        let shard = self.shard(file);
        self.dispatch(self.change(shard, |table| table.removed(now, file, stream)));
        shard.removed.notify_all();
    }

    /// Waits up to 10 ms while a name of `file` is being removed. Returns `false` immediately if none is: one atomic
    /// load where nothing is to be deleted. [`Claims::expire`] returns the removals that no thread has begun.
    pub fn wait_for_removal(&self, file: &FileKey) -> bool {
        if !self.has_deletions() {
            return false;
        }
        let shard = self.shard(file);
        let table = shard.table.lock();
        let is_removing = table.is_removing(file);
        if is_removing {
            drop(shard.removed.wait_timeout(table, REMOVAL_POLL));
        }
        is_removing
    }

    pub fn next_deadline(&self) -> Option<Nanos> {
        if !self.deferred_effects.lock().is_empty() {
            return Some(Nanos::default());
        }
        let shards = self.shards.iter().map(|shard| shard.deadline.load(Relaxed)).min().unwrap_or(NEVER);
        let grace = self.grace.deadline();
        let shards = (shards != NEVER).then_some(Nanos(shards));
        shards.into_iter().chain(grace).min()
    }

    /// Whether only claims from before a restart can be made.
    pub fn is_in_grace(&self) -> bool {
        self.grace.is_active()
    }

    /// See [`Table::lapse`].
    pub fn lapse(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.shards.iter().flat_map(|shard| self.change(shard, |table| table.lapse(now, holder))).collect()
    }

    pub fn renew(&self, holder: HolderId) {
        for shard in &self.shards {
            shard.table.lock().renew(holder);
        }
    }

    pub fn resend_recalls(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.shards
            .iter()
            .flat_map(|shard| self.change(shard, |table| table.resend_recalls(now, holder)))
            .collect()
    }

    /// Ends a holder and all its claims. Returns its own tickets as canceled, undelivered.
    pub fn drop_holder(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.holders.write().remove(&holder);
        let effects = self.end_claims(now, holder);
        self.users.remove(holder);
        effects
    }

    /// Ends a holder and all its claims, and delivers the effects to all holders, this one included.
    pub fn end_holder(&self, now: Nanos, holder: HolderId) {
        self.dispatch(self.end_claims(now, holder));
        self.holders.write().remove(&holder);
        self.users.remove(holder);
    }

    /// Ends all claims of a holder, releasing the lock between steps.
    fn end_claims(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        let mut effects = Vec::new();
        for shard in &self.shards {
            while !self.change(shard, |table| table.drop_some(now, holder, ENDED_PER_STEP_MAX, &mut effects))
            {
            }
        }
        effects
    }

    #[inline]
    fn check_change(
        &self,
        now: impl FnOnce() -> Nanos,
        file: &FileKey,
        request: impl FnOnce() -> Request,
    ) -> FsResult<()> {
        let may_block = self.counts.blocks_change() && self.shard(file).counts.blocks_change();
        if may_block { self.check(now(), file, &request()) } else { Ok(()) }
    }

    #[cold]
    fn check(&self, now: Nanos, file: &FileKey, request: &Request) -> FsResult<()> {
        match self.request(now, file, request) {
            Verdict::Granted(_) => Ok(()),
            Verdict::Refused(Conflict::DeletePending) => Err(FsError::DeletePending),
            Verdict::Refused(Conflict::Share | Conflict::Absent | Conflict::Range { .. }) => {
                Err(FsError::Locked)
            }
            Verdict::Refused(_) | Verdict::Wait(_) => Err(FsError::Wait(Wait::Recall)),
        }
    }

    fn apply_to_shard(&self, now: Nanos, file: &FileKey, request: &Request) -> (Verdict, Vec<Effect>) {
        let shard = self.shard(file);
        let (Request::Close(open) | Request::CloseListed { open, .. }) = *request else {
            return self.change(shard, |table| table.apply(now, file, request));
        };
        // One open may have thousands of ranges.
        let mut effects = Vec::new();
        loop {
            let close = |table: &mut Table| {
                let is_more = table.thin_out(now, file, open, ENDED_PER_STEP_MAX, &mut effects);
                (!is_more).then(|| table.apply(now, file, request))
            };
            if let Some((verdict, more)) = self.change(shard, close) {
                effects.extend(more);
                return (verdict, effects);
            }
        }
    }

    fn shard(&self, file: &FileKey) -> &Shard {
        &self.shards[file.shard::<SHARDS>()]
    }

    fn change<R>(&self, shard: &Shard, act: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = shard.table.lock();
        let before = table.counts();
        let answer = act(&mut table);
        let after = table.counts();
        // Counted under the lock, so that the counts never miss a claim.
        shard.counts.add(before, after);
        self.counts.add(before, after);
        shard.deadline.store(table.next_deadline().map_or(NEVER, |deadline| deadline.0), Relaxed);
        answer
    }
}
