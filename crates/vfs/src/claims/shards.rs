//! [`Claims`]: the claims of a volume between threads.

use super::{
    By, Conflict, Effect, Grace, Holder, HolderId, Io, LeaseKey, LockOwner, Request, Span, Stream, Table,
    Timeouts, Verdict,
};
use crate::qos::Nanos;
use crate::{FileKey, FsError, FsResult};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

const SHARDS: u64 = 64;
const NEVER: u64 = u64::MAX;

/// All claims of a volume. Effects go to the holders that are attached, after every lock is gone; what they leave to the
/// volume, [`Effect::Remove`], is returned.
pub struct Claims {
    /// Files on which something is held: the one thing that callers without state look at.
    held: AtomicUsize,
    shards: Box<[Shard]>,
    grace: Grace,
    holders: RwLock<HashMap<HolderId, Arc<dyn Holder>>>,
    next_holder: AtomicU64,
    /// What [`Claims::dispatch`] has left for [`Claims::expire`].
    left: Mutex<Vec<Effect>>,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shard {
    held: AtomicUsize,
    deadline: AtomicU64,
    table: Mutex<Table>,
}

impl Claims {
    /// An empty table.
    pub fn new(timeouts: Timeouts, grace: Grace) -> Self {
        let shard = |index| Shard {
            held: AtomicUsize::new(0),
            deadline: AtomicU64::new(NEVER),
            table: Mutex::new(Table::new(timeouts, index, SHARDS)),
        };
        Self {
            held: AtomicUsize::new(0),
            shards: (0..SHARDS).map(shard).collect(),
            grace,
            holders: RwLock::default(),
            next_holder: AtomicU64::new(1),
            left: Mutex::default(),
        }
    }

    /// Makes a holder known.
    pub fn attach(&self, holder: Arc<dyn Holder>) -> HolderId {
        let id = HolderId(self.next_holder.fetch_add(1, Relaxed));
        self.holders.write().unwrap_or_else(PoisonError::into_inner).insert(id, holder);
        id
    }

    /// Answers a request.
    pub fn apply(&self, now: Nanos, file: &FileKey, request: &Request) -> (Verdict, Vec<Effect>) {
        let Some(reclaims) = request.new_claim() else { return self.apply_to_shard(now, file, request) };
        // Held, so that what is reclaimed is there before the grace period ends.
        let in_grace = self.grace.hold();
        match (in_grace.is_some(), reclaims) {
            (true, false) => (Verdict::Refused(Conflict::Grace), Vec::new()),
            (false, true) => (Verdict::Refused(Conflict::NoGrace), Vec::new()),
            _ => self.apply_to_shard(now, file, request),
        }
    }

    /// Answers a request, and tells those whom it concerns.
    pub fn request(&self, now: Nanos, file: &FileKey, request: &Request) -> Verdict {
        let (verdict, effects) = self.apply(now, file, request);
        // An open that gave way may have been the last one of a file to be deleted.
        self.dispatch(effects);
        verdict
    }

    /// A read, write or change of attributes by a caller without state: one load where nothing is held.
    #[inline]
    pub fn io(&self, now: impl FnOnce() -> Nanos, file: &FileKey, io: Io) -> FsResult<()> {
        if self.is_empty() { Ok(()) } else { self.ask(now(), file, &Request::Io(io)) }
    }

    /// A name of `file` is about to go.
    #[inline]
    pub fn unlink(&self, by: By, now: impl FnOnce() -> Nanos, file: &FileKey) -> FsResult<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.ask(now(), file, &Request::Unlink { by, waits: false })
    }

    /// Names in `directory` have changed; the holder of `except` knows it already.
    #[inline]
    pub fn listing_changed(
        &self,
        now: impl FnOnce() -> Nanos,
        directory: &FileKey,
        except: Option<LeaseKey>,
    ) -> FsResult<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.ask(now(), directory, &Request::ListingChanged { except })
    }

    /// Whether nothing is held in the volume.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.load(Relaxed) == 0
    }

    /// Whether nothing is held on this file, as far as its shard tells without a lock.
    pub fn is_unheld(&self, file: &FileKey) -> bool {
        self.shard(file).held.load(Relaxed) == 0
    }

    /// See [`Table::ranges_of`].
    pub fn ranges_of(&self, file: &FileKey, owner: LockOwner) -> usize {
        lock(&self.shard(file).table).ranges_of(file, owner)
    }

    /// See [`Table::is_split_by`].
    pub fn is_split_by(&self, file: &FileKey, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        lock(&self.shard(file).table).is_split_by(file, owner, stream, span)
    }

    /// Delivers effects to their holders. What is the volume's to do is done when it expires claims.
    pub fn dispatch(&self, effects: Vec<Effect>) {
        let left = self.deliver(effects);
        if !left.is_empty() {
            lock(&self.left).extend(left);
        }
    }

    /// Delivers effects to their holders; what is left is the volume's to do.
    #[must_use = "names have to be removed"]
    pub fn deliver(&self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut left = Vec::new();
        for effect in effects {
            let Some(id) = effect.holder() else {
                left.push(effect);
                continue;
            };
            let holders = self.holders.read().unwrap_or_else(PoisonError::into_inner);
            let holder = holders.get(&id).cloned();
            drop(holders);
            if let Some(holder) = holder {
                holder.deliver(effect);
            }
        }
        left
    }

    /// Enforces every deadline up to `now`.
    pub fn expire(&self, now: Nanos) -> Vec<Effect> {
        self.grace.expire(now);
        let due = self.shards.iter().filter(|shard| shard.deadline.load(Relaxed) <= now.0);
        let mut effects = std::mem::take(&mut *lock(&self.left));
        effects.extend(due.flat_map(|shard| self.change(shard, |table| table.expire(now))));
        effects
    }

    /// When [`Claims::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if !lock(&self.left).is_empty() {
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
            lock(&shard.table).renew(holder);
        }
    }

    /// Ends all that a holder has, and the holder. Its own tickets come back canceled; the caller delivers them.
    pub fn drop_holder(&self, now: Nanos, holder: HolderId) -> Vec<Effect> {
        self.holders.write().unwrap_or_else(PoisonError::into_inner).remove(&holder);
        let each = |shard| self.change(shard, |table| table.drop_holder(now, holder));
        self.shards.iter().flat_map(each).collect()
    }

    #[cold]
    fn ask(&self, now: Nanos, file: &FileKey, request: &Request) -> FsResult<()> {
        if self.is_unheld(file) {
            return Ok(());
        }
        match self.request(now, file, request) {
            Verdict::Granted(_) => Ok(()),
            Verdict::Refused(Conflict::Share | Conflict::Range { .. }) => Err(FsError::Locked),
            Verdict::Refused(_) | Verdict::Wait(_) => Err(FsError::Delay),
        }
    }

    fn apply_to_shard(&self, now: Nanos, file: &FileKey, request: &Request) -> (Verdict, Vec<Effect>) {
        self.change(self.shard(file), |table| table.apply(now, file, request))
    }

    fn shard(&self, file: &FileKey) -> &Shard {
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % SHARDS).unwrap_or_default();
        &self.shards[index]
    }

    fn change<R>(&self, shard: &Shard, act: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = lock(&shard.table);
        let before = table.len();
        let answer = act(&mut table);
        let after = table.len();
        // Under the lock, so that the counts never miss what is held.
        shard.held.store(after, Relaxed);
        self.held.fetch_add(after.wrapping_sub(before), Relaxed);
        shard.deadline.store(table.next_deadline().map_or(NEVER, |deadline| deadline.0), Relaxed);
        answer
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
