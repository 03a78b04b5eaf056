//! [`Claims`]: the claims of a volume between threads.

use super::delivery;
use super::request::Making;
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
/// Claims that end before others have their turn.
const ENDED_AT_ONCE_MAX: usize = 256;
/// How long somebody waits for a removal before looking again.
const MOMENT: Duration = Duration::from_millis(10);

/// All claims of a volume. Effects go to the holders that are attached, after every lock is gone; what they leave to the
/// volume, [`Effect::Remove`], is returned.
pub struct Claims {
    /// Of all shards: the one thing that most calls look at.
    counts: Counters,
    shards: Box<[Shard]>,
    grace: Grace,
    holders: RwLock<HashMap<HolderId, Arc<dyn Holder>>>,
    users: Arc<HolderUsers>,
    next_holder: AtomicU64,
    /// What [`Claims::dispatch`] has left for [`Claims::expire`].
    left: Mutex<Vec<Effect>>,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shard {
    counts: Counters,
    deadline: AtomicU64,
    table: Mutex<Table>,
    /// A name that had to go has gone.
    removed: Condvar,
}

/// [`Counts`] as they are read without a lock.
#[derive(Default)]
struct Counters {
    held: AtomicUsize,
    bind_reads: AtomicUsize,
    bind_looks: AtomicUsize,
    bind_ends: AtomicUsize,
    bind_changes: AtomicUsize,
    deletes: AtomicUsize,
}

impl Counters {
    fn add(&self, before: ClaimCounts, after: ClaimCounts) {
        let Counters { held, bind_reads, bind_looks, bind_ends, bind_changes, deletes } = self;
        for (counter, before, after) in [
            (held, before.files, after.files),
            (bind_reads, before.blocks_read, after.blocks_read),
            (bind_looks, before.blocks_getattr, after.blocks_getattr),
            (bind_ends, before.blocks_eof, after.blocks_eof),
            (bind_changes, before.blocks_change, after.blocks_change),
            (deletes, before.deletes, after.deletes),
        ] {
            if before != after {
                counter.fetch_add(after.wrapping_sub(before), Relaxed);
            }
        }
    }

    /// Whether anything that is held can stop this.
    #[inline]
    fn bind(&self, kind: IoKind) -> bool {
        let counter = match kind {
            IoKind::Read => &self.bind_reads,
            IoKind::ReadAttrs => &self.bind_looks,
            IoKind::ReadEnd => &self.bind_ends,
            IoKind::Write | IoKind::Replace | IoKind::SetAttrs => &self.bind_changes,
        };
        counter.load(Relaxed) > 0
    }

    #[inline]
    fn bind_changes(&self) -> bool {
        self.bind_changes.load(Relaxed) > 0
    }
}

impl Claims {
    /// An empty table.
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
            left: Mutex::default(),
        }
    }

    /// Makes a holder known.
    pub fn attach(&self, holder: Arc<dyn Holder>) -> HolderId {
        let id = HolderId(self.next_holder.fetch_add(1, Relaxed));
        self.holders.write().insert(id, holder);
        id
    }

    /// The same of one of several that are this user's.
    pub fn attach_for(&self, holder: Arc<dyn Holder>, user: u32) -> HolderId {
        let id = self.attach(holder);
        self.users.add(id, user);
        id
    }

    /// Answers a request.
    pub fn apply(&self, now: Nanos, file: &FileKey, request: &Request) -> (Verdict, Vec<Effect>) {
        let Some(making) = request.makes() else { return self.apply_to_shard(now, file, request) };
        // Held, so that what is reclaimed is there before the grace period ends.
        match (self.grace.hold(), making) {
            (Some(_), Making::New) => (Verdict::Refused(Conflict::Grace), Vec::new()),
            (None, Making::Reclaimed) => (Verdict::Refused(Conflict::NoGrace), Vec::new()),
            (None, Making::New) | (_, Making::Restored) => self.apply_to_shard(now, file, request),
            (Some(mut in_grace), Making::Reclaimed) => {
                let answer = self.apply_to_shard(now, file, request);
                if matches!(answer.0, Verdict::Granted(_)) {
                    in_grace.note_reclaim(now);
                }
                answer
            }
        }
    }

    /// Answers a request, and tells those whom it concerns.
    pub fn request(&self, now: Nanos, file: &FileKey, request: &Request) -> Verdict {
        let (verdict, effects) = self.apply(now, file, request);
        // An open that gave way may have been the last one of a file to be deleted.
        self.dispatch(effects);
        verdict
    }

    /// A read, write or change of attributes that does not wait: one load where nothing that is held can stop it. An open
    /// that is gone stops nothing here: its holder was told.
    #[inline]
    pub fn io(&self, now: impl FnOnce() -> Nanos, file: &FileKey, io: Io) -> FsResult<()> {
        if !self.may_bind(io.kind, file) {
            return Ok(());
        }
        self.check(now(), file, &Request::Io(io))
    }

    /// Whether anything that is held in the volume can stop this or make it wait.
    #[inline]
    pub fn bind(&self, kind: IoKind) -> bool {
        self.counts.bind(kind)
    }

    /// A name of `file` is about to go.
    #[inline]
    pub fn unlink(&self, by: Requester, now: impl FnOnce() -> Nanos, file: &FileKey) -> FsResult<()> {
        self.check_change(now, file, || Request::Unlink { by, waits: false })
    }

    /// Names in `directory` have changed; the holder of `except` knows it already.
    #[inline]
    pub fn listing_changed(
        &self,
        now: impl FnOnce() -> Nanos,
        directory: &FileKey,
        except: Option<LeaseKey>,
    ) -> FsResult<()> {
        self.check_change(now, directory, || Request::ListingChanged { except })
    }

    /// Whether anything in the volume goes with an open.
    #[inline]
    pub fn has_deletions(&self) -> bool {
        self.counts.deletes.load(Relaxed) > 0
    }

    /// See [`Table::is_deleted`]. One load where nothing in the volume goes with an open, a hash and a second load where nothing in
    /// the shard does.
    #[inline]
    pub fn is_deleted(&self, file: &FileKey, stream: Stream) -> bool {
        self.has_deletions_of(file) && self.shard(file).table.lock().is_deleted(file, stream)
    }

    /// See [`Table::is_pending_deletion`].
    pub fn is_pending_deletion(&self, file: &FileKey, stream: Stream, by: Requester) -> bool {
        self.has_deletions_of(file) && self.shard(file).table.lock().is_going(file, stream, by)
    }

    /// See [`Table::deletion_of`].
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

    /// The name of a file, or of a stream of it, is another one now.
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

    /// Whether nothing is held in the volume.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.counts.held.load(Relaxed) == 0
    }

    /// See [`Table::writer`].
    pub fn delegated_writer(&self, file: &FileKey) -> Option<HolderId> {
        let may_be = self.may_bind(IoKind::ReadAttrs, file);
        if may_be { self.shard(file).table.lock().writer(file) } else { None }
    }

    /// See [`Table::has_write_delegation`].
    #[inline]
    pub fn has_write_delegation(&self, file: &FileKey) -> bool {
        self.may_bind(IoKind::ReadEnd, file) && self.shard(file).table.lock().is_written_unseen(file)
    }

    /// Whether anything in the shard of a file can stop this or make it wait.
    #[inline]
    fn may_bind(&self, kind: IoKind, file: &FileKey) -> bool {
        self.bind(kind) && self.shard(file).counts.bind(kind)
    }

    /// See [`Table::granted_of`].
    pub fn granted_of(&self, file: &FileKey, open: OpenId) -> Option<Granted> {
        self.shard(file).table.lock().granted_of(file, open)
    }

    /// See [`Table::access_of`].
    pub fn access_of(&self, file: &FileKey, open: OpenId) -> Option<Access> {
        self.shard(file).table.lock().access_of(file, open)
    }

    /// See [`Table::ranges_of`].
    pub fn ranges_of(&self, file: &FileKey, owner: LockOwner) -> usize {
        self.shard(file).table.lock().ranges_of(file, owner)
    }

    /// See [`Table::ranges_with`].
    pub fn ranges_with(&self, file: &FileKey, open: OpenId) -> Vec<(Span, bool)> {
        self.shard(file).table.lock().ranges_with(file, open)
    }

    /// See [`Table::is_split_by`].
    pub fn is_split_by(&self, file: &FileKey, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        self.shard(file).table.lock().is_split_by(file, owner, stream, span)
    }

    /// Delivers effects to their holders. What is the volume's to do is done when it expires claims.
    pub fn dispatch(&self, effects: Vec<Effect>) {
        let left = self.deliver_effects(effects);
        if !left.is_empty() {
            self.left.lock().extend(left);
        }
    }

    /// Delivers effects to their holders; what is left is the volume's to do. Where a holder calls this that takes an effect, they are
    /// delivered after it has.
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

    /// Enforces every deadline up to `now`.
    pub fn expire(&self, now: Nanos) -> Vec<Effect> {
        self.grace.expire(now);
        let due = self.shards.iter().filter(|shard| shard.deadline.load(Relaxed) <= now.0);
        let mut effects = std::mem::take(&mut *self.left.lock());
        effects.extend(due.flat_map(|shard| self.change(shard, |table| table.expire(now))));
        effects
    }

    /// See [`Table::removed`].
    pub fn removed(&self, now: Nanos, file: &FileKey, stream: Stream) {
        let shard = self.shard(file);
        self.dispatch(self.change(shard, |table| table.removed(now, file, stream)));
        shard.removed.notify_all();
    }

    /// Waits for a moment while a name of `file` is being removed; `false` at once if none is, which is one load where nothing is to be
    /// deleted. What nobody has begun to remove yet, [`Claims::expire`] returns.
    pub fn wait_for_removal(&self, file: &FileKey) -> bool {
        if !self.has_deletions() {
            return false;
        }
        let shard = self.shard(file);
        let table = shard.table.lock();
        let is_removing = table.is_removing(file);
        if is_removing {
            drop(shard.removed.wait_timeout(table, MOMENT));
        }
        is_removing
    }

    /// When [`Claims::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if !self.left.lock().is_empty() {
            return Some(Nanos::default());
        }
        let shards = self.shards.iter().map(|shard| shard.deadline.load(Relaxed)).min().unwrap_or(NEVER);
        let grace = self.grace.deadline();
        let shards = (shards != NEVER).then_some(Nanos(shards));
        shards.into_iter().chain(grace).min()
    }

    /// Whether only what was held before a restart can be claimed.
    pub fn is_in_grace(&self) -> bool {
        self.grace.is_active()
    }

    /// See [`Table::lapse`].
    pub fn lapse(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.shards.iter().flat_map(|shard| self.change(shard, |table| table.lapse(now, holder))).collect()
    }

    /// See [`Table::renew`].
    pub fn renew(&self, holder: HolderId) {
        for shard in &self.shards {
            shard.table.lock().renew(holder);
        }
    }

    /// See [`Table::remind`].
    pub fn resend_recalls(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.shards.iter().flat_map(|shard| self.change(shard, |table| table.remind(now, holder))).collect()
    }

    /// Ends all that a holder has, and the holder. Its own tickets come back canceled; nobody delivers them.
    pub fn drop_holder(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.holders.write().remove(&holder);
        let effects = self.end_claims(now, holder);
        self.users.remove(holder);
        effects
    }

    /// Ends all that a holder has, and the holder, and delivers the effects, also to the holder.
    pub fn end_holder(&self, now: Nanos, holder: HolderId) {
        self.dispatch(self.end_claims(now, holder));
        self.holders.write().remove(&holder);
        self.users.remove(holder);
    }

    /// Ends all that a holder has, in steps between which others have their turn.
    fn end_claims(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        let mut effects = Vec::new();
        for shard in &self.shards {
            while !self.change(shard, |table| table.drop_some(now, holder, ENDED_AT_ONCE_MAX, &mut effects)) {
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
        let may_bind = self.counts.bind_changes() && self.shard(file).counts.bind_changes();
        if may_bind { self.check(now(), file, &request()) } else { Ok(()) }
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
                let is_more = table.thin_out(now, file, open, ENDED_AT_ONCE_MAX, &mut effects);
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
        // Under the lock, so that the counts never miss what is held.
        shard.counts.add(before, after);
        self.counts.add(before, after);
        shard.deadline.store(table.next_deadline().map_or(NEVER, |deadline| deadline.0), Relaxed);
        answer
    }
}
