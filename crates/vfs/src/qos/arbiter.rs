//! The [`Scheduler`] between threads: one lock for each pool, taken only where something is limited.

use super::{
    Client, Decision, Demand, Limits, Nanos, Pacer, PoolLimits, Release, Scheduler, Throttled, Transferred,
    VolumeLimits,
};
use crate::panics;
use crate::sync::Mutex;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

/// A deferred call in the queue.
pub trait Waiter: Send {
    /// Resumes the call. Called once, on any thread, with no lock held; must not block.
    fn pass(self: Box<Self>);

    /// Whether the call was abandoned. Called under a lock: must only read.
    fn is_gone(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueResult {
    /// The call may pass now; the waiter has been dropped.
    Passed,
    /// Queued; the waiter will be resumed.
    Queued,
    /// Too many calls wait; the waiter has been dropped.
    Full,
}

/// Schedules the calls of a pool.
pub struct Arbiter {
    state: Mutex<State>,
    pacer: Arc<Pacer>,
    own: Weak<Self>,
}

struct State {
    scheduler: Scheduler<Box<dyn Waiter>>,
    limits: PoolLimits,
    /// The gates of the volumes: whether the volume is limited, and where its gate looks.
    gates: HashMap<usize, (bool, Arc<Flag>)>,
    /// The next visit of the pacer.
    scheduled: Option<Nanos>,
}

pub struct Gate {
    /// Whether anything is limited here: unlimited calls check only this.
    is_limited: Arc<Flag>,
    slot: ArcSwap<PoolSlot>,
    /// The volume's limits, for moves to another pool. Locked while limits change.
    limits: Mutex<VolumeLimits>,
}

/// Gates of this process where something is limited.
static LIMITED: AtomicUsize = AtomicUsize::new(0);

/// Whether anything in this process is limited. If not, no call need look for its gate.
#[inline]
pub fn is_anything_limited() -> bool {
    LIMITED.load(Ordering::Relaxed) > 0
}

struct Flag {
    is_set: AtomicBool,
    /// Whether it is one of [`LIMITED`].
    is_counted: bool,
}

impl Flag {
    fn new(is_counted: bool) -> Arc<Self> {
        Arc::new(Self { is_set: AtomicBool::new(false), is_counted })
    }

    fn set(&self, is_limited: bool) {
        match (self.is_set.swap(is_limited, Ordering::Relaxed), is_limited) {
            _ if !self.is_counted => {}
            (false, true) => _ = LIMITED.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = LIMITED.fetch_sub(1, Ordering::Relaxed),
            (true, true) | (false, false) => {}
        }
    }
}

struct PoolSlot {
    arbiter: Arc<Arbiter>,
    volume: usize,
}

impl Arbiter {
    pub fn new(limits: &PoolLimits, pacer: &Arc<Pacer>) -> Arc<Self> {
        let scheduler = Scheduler::new(limits, pacer.now());
        let state = State { scheduler, limits: *limits, gates: HashMap::new(), scheduled: None };
        Arc::new_cyclic(|own| Self { state: Mutex::new(state), pacer: Arc::clone(pacer), own: own.clone() })
    }

    pub fn set_limits(&self, limits: &PoolLimits) {
        let now = self.pacer.now();
        let mut state = self.lock();
        if state.limits == *limits {
            return;
        }
        state.limits = *limits;
        state.scheduler.set_limits(limits, now);
        state.gates.keys().for_each(|&volume| state.update_gate(volume));
        self.release(state, now);
    }

    /// The gate of a further volume.
    pub fn gate(self: &Arc<Self>, limits: VolumeLimits) -> Arc<Gate> {
        self.gate_with(limits, Flag::new(true))
    }

    fn gate_with(self: &Arc<Self>, limits: VolumeLimits, is_limited: Arc<Flag>) -> Arc<Gate> {
        let volume = self.add(&limits, &is_limited, self.pacer.now());
        let slot = ArcSwap::from_pointee(PoolSlot { arbiter: Arc::clone(self), volume });
        Arc::new(Gate { is_limited, slot, limits: Mutex::new(limits) })
    }

    fn add(&self, limits: &VolumeLimits, is_limited: &Arc<Flag>, now: Nanos) -> usize {
        let mut state = self.lock();
        let volume = state.scheduler.add(limits, now);
        state.gates.insert(volume, (!limits.is_none(), Arc::clone(is_limited)));
        state.update_gate(volume);
        volume
    }

    /// Releases the demands that may pass, and sets the timer for the rest.
    pub(super) fn run(&self, now: Nanos) {
        let mut state = self.lock();
        if state.scheduled.is_some_and(|scheduled| scheduled <= now) {
            state.scheduled = None;
        }
        self.release(state, now);
    }

    /// Releases demands; returns whether `own` was among them, which is not resumed.
    fn release_but(&self, mut state: MutexGuard<'_, State>, now: Nanos, own: Option<u64>) -> bool {
        let Release { passed, abandoned: gone, next } =
            state.scheduler.release(now, &|waiter| waiter.is_gone());
        if let Some(visit) = next.map(|next| Pacer::visit(next, now))
            && state.scheduled.is_none_or(|scheduled| visit < scheduled)
        {
            state.scheduled = Some(visit);
            self.pacer.schedule(visit, &self.own);
        }
        drop(state);
        drop(gone);
        let mut has_own = false;
        for (number, waiter) in passed {
            if own == Some(number) {
                has_own = true;
            } else {
                // A waiter that panics must not take the turn of those behind it.
                let _ = panics::catch(|| waiter.pass());
            }
        }
        has_own
    }

    fn release(&self, state: MutexGuard<'_, State>, now: Nanos) {
        self.release_but(state, now, None);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn update_gate(&self, volume: usize) {
        if let Some((is_limited, gate)) = self.gates.get(&volume) {
            gate.set(*is_limited || !self.limits.is_none());
        }
    }
}

impl Gate {
    /// A gate without limits.
    pub fn open() -> Arc<Self> {
        Arbiter::new(&Limits::NONE.into(), &Pacer::still()).gate(VolumeLimits::default())
    }

    /// Makes a gate without a volume that limits each client: for rare calls, so that no volume has to be found for
    /// them.
    pub fn per_client(limits: Limits, pacer: &Arc<Pacer>) -> Arc<Self> {
        let limits = VolumeLimits { per_client: limits, ..VolumeLimits::default() };
        Arbiter::new(&PoolLimits::default(), pacer).gate_with(limits, Flag::new(false))
    }

    /// Whether calls must ask. Otherwise [`Gate::admit`] is always true.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited.is_set.load(Ordering::Relaxed)
    }

    /// Whether a call may go on now; if not, it has to [`Gate::wait`].
    #[inline]
    pub fn admit(&self, client: Client, demand: Demand) -> bool {
        if !self.is_limited() {
            return true;
        }
        let slot = self.slot.load();
        let now = slot.arbiter.pacer.now();
        let mut state = slot.arbiter.lock();
        match state.scheduler.admit(slot.volume, client, demand, now) {
            Decision::Passed => true,
            Decision::Owing => {
                slot.arbiter.release(state, now);
                true
            }
            Decision::Refused => false,
        }
    }

    pub fn wait(&self, client: Client, demand: Demand, mut waiter: Box<dyn Waiter>) -> QueueResult {
        loop {
            let slot = self.slot.load();
            let now = slot.arbiter.pacer.now();
            let mut state = slot.arbiter.lock();
            if state.scheduler.is_full(slot.volume, client) {
                return QueueResult::Full;
            }
            match state.scheduler.wait(slot.volume, client, demand, waiter, now) {
                Ok(number) if slot.arbiter.release_but(state, now, Some(number)) => {
                    return QueueResult::Passed;
                }
                Ok(_) => return QueueResult::Queued,
                // The volume has just moved to another pool.
                Err(back) => waiter = back,
            }
        }
    }

    /// Corrects the bytes of a demand that has passed, perhaps after it has waited for its turn.
    pub(super) fn refund_unused(&self, client: Client, demand: Demand, moved: Transferred, has_waited: bool) {
        if moved != demand.transferred() && self.is_limited() {
            let slot = self.slot.load();
            let now = slot.arbiter.pacer.now();
            let mut state = slot.arbiter.lock();
            state.scheduler.refund_unused(slot.volume, client, demand, moved, has_waited, now);
            if state.scheduled.is_some() {
                slot.arbiter.release(state, now);
            }
        }
    }

    /// Changes the limits, also for demands that wait.
    pub fn set_limits(&self, limits: VolumeLimits) {
        let mut own = self.limits.lock();
        let slot = self.slot.load();
        let now = slot.arbiter.pacer.now();
        let mut state = slot.arbiter.lock();
        state.scheduler.set_volume_limits(slot.volume, &limits, now);
        if let Some((is_limited, _)) = state.gates.get_mut(&slot.volume) {
            *is_limited = !limits.is_none();
        }
        state.update_gate(slot.volume);
        slot.arbiter.release(state, now);
        *own = limits;
    }

    /// Moves the volume to another pool. Deferred calls move with it.
    pub fn move_to(&self, arbiter: &Arc<Arbiter>) {
        let limits = self.limits.lock();
        let now = arbiter.pacer.now();
        let volume = arbiter.add(&limits, &self.is_limited, now);
        let old = self.slot.swap(Arc::new(PoolSlot { arbiter: Arc::clone(arbiter), volume }));
        let waiting = old.leave();
        let mut state = arbiter.lock();
        for waiting in waiting {
            // The volume is there: it was added above, and only a move takes it away.
            let _ =
                state.scheduler.wait(volume, waiting.client, waiting.demand, waiting.waiter, waiting.since);
        }
        state.update_gate(volume);
        arbiter.release(state, now);
    }

    /// Returns the totals of throttling, and the number of calls that wait now.
    pub fn throttled(&self) -> (Throttled, usize) {
        let slot = self.slot.load();
        slot.arbiter.lock().scheduler.throttled(slot.volume)
    }

    pub fn limits(&self) -> VolumeLimits {
        self.limits.lock().clone()
    }
}

impl PoolSlot {
    fn leave(&self) -> Vec<super::queue::Waiting<Box<dyn Waiter>>> {
        let mut state = self.arbiter.lock();
        state.gates.remove(&self.volume);
        state.scheduler.remove(self.volume)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let waiting = self.slot.load().leave();
        // Only now: until it has left, its arbiter may say otherwise.
        self.is_limited.set(false);
        // The waiters find out that the volume was removed.
        waiting.into_iter().for_each(|waiting| waiting.waiter.pass());
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("limits", &self.limits).finish_non_exhaustive()
    }
}
