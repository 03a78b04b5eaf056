//! Requests that are answered later: an interim reply at once, the reply when it is there (MS-SMB2 §3.3.4.2, §3.3.5.16).
//!
//! A command that has to wait takes a [`Waker`] ([`crate::ops::Ops::waker`]), gives it to whatever it waits for, and ends with
//! [`crate::ops::Ops::wait`]. Once woken it is run again from its beginning, and finds how it was woken in
//! `Ops::woken`.

use crate::counts::lock;
use smb_wire::{FileId, NtStatus};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use vfs::claims::Outcome;

/// When a client is told that a request is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interim {
    /// At once, wherever in its message the request is.
    Always,
    /// At once; only the last request of a message may wait, others fail with `STATUS_INTERNAL_ERROR`.
    OfLast,
    /// Never: what follows in its message waits with it.
    Never,
}

/// How a request stops waiting. `false`: it is too late for that, the request is being woken.
pub(crate) type Cancel = Box<dyn Fn() -> bool + Send>;

/// Gives back what a request has got while it waited, where nobody hears of it any more.
pub(crate) type Undo = Box<dyn FnOnce() + Send>;

/// A request that waits, with everything that it needs to go on.
pub(crate) trait Suspension: Send {
    /// Goes on with it; does not wait.
    fn resume(self: Box<Self>, waker: Waker);

    /// Answers it with an error.
    fn end(self: Box<Self>, waker: Waker, status: NtStatus);
}

/// What a request is known by while it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// `AsyncId`.
    pub(crate) async_id: u64,
    /// The number of its connection.
    pub(crate) connection: u64,
    pub(crate) message_id: u64,
    pub(crate) tree_id: u32,
    /// The file that it is about.
    pub(crate) file: Option<FileId>,
    /// How it ends when its file is closed, also with its tree connect or session.
    pub(crate) closed_with: NtStatus,
    pub(crate) interim: Interim,
    /// Whether it is done also when its connection is gone: its client asks again over another one what became of it.
    pub(crate) outlives: bool,
}

/// Wakes a request that waits, from any thread, whatever that holds.
#[derive(Clone)]
pub(crate) struct Waker(Arc<Slot>);

struct Slot {
    asked: Asked,
    table: Weak<Waiting>,
    state: Mutex<State>,
    counted: Mutex<Counted>,
}

/// What a request that waits counts as.
struct Counted {
    /// Among the requests of which connection.
    connection: u64,
    of_connection: Taken,
    /// Of its user, and of all.
    _of_others: [Taken; 2],
}

enum State {
    /// It is being done, for the first time or again.
    Running {
        /// How it was woken before it waits.
        woken: Option<Outcome>,
        /// How it is to end before it waits.
        ended: Option<NtStatus>,
    },
    Waiting {
        cancel: Cancel,
        suspension: Box<dyn Suspension>,
    },
    Over,
}

const RUNNING: State = State::Running { woken: None, ended: None };

impl Slot {
    /// Counts it among the requests of another connection, if that may have one more.
    fn is_inherited(&self, (connection, allowance): (u64, &Arc<Allowance>)) -> bool {
        let mut counted = lock(&self.counted);
        let Some(taken) = allowance.take(counted.of_connection.bytes) else { return false };
        (counted.connection, counted.of_connection) = (connection, taken);
        true
    }
}

impl Waker {
    /// A waker of a request of a session; `None` if that is over.
    pub(crate) fn new(waiting: &Arc<Waiting>, asked: Asked, taken: [Taken; 3]) -> Option<Self> {
        let [of_connection, of_user, of_all] = taken;
        let counted = Counted { connection: asked.connection, of_connection, _of_others: [of_user, of_all] };
        let (table, state, counted) = (Arc::downgrade(waiting), Mutex::new(RUNNING), Mutex::new(counted));
        let slot = Arc::new(Slot { asked, table, state, counted });
        waiting.add(&slot).then_some(Self(slot))
    }

    pub(crate) fn asked(&self) -> &Asked {
        &self.0.asked
    }

    /// Has the request go on.
    pub(crate) fn wake(&self, outcome: Outcome) {
        let mut state = lock(&self.0.state);
        match &mut *state {
            State::Running { woken, .. } => *woken = Some(outcome),
            State::Waiting { .. } => {
                let was =
                    std::mem::replace(&mut *state, State::Running { woken: Some(outcome), ended: None });
                drop(state);
                if let State::Waiting { suspension, .. } = was {
                    suspension.resume(self.clone());
                }
            }
            State::Over => {}
        }
    }

    /// How it was woken, told once.
    pub(crate) fn take_woken(&self) -> Option<Outcome> {
        match &mut *lock(&self.0.state) {
            State::Running { woken, .. } => woken.take(),
            State::Waiting { .. } | State::Over => None,
        }
    }

    /// Waits, unless it was woken or ended already.
    pub(crate) fn suspend(&self, cancel: Cancel, suspension: Box<dyn Suspension>) {
        let mut state = lock(&self.0.state);
        let State::Running { woken, ended } = *state else { return };
        if woken.is_some() && ended.is_none() {
            drop(state);
            return suspension.resume(self.clone());
        }
        *state = State::Waiting { cancel, suspension };
        drop(state);
        if let Some(status) = ended {
            self.end(status);
        }
    }

    /// Ends the request with an error, unless it is being woken.
    fn end(&self, status: NtStatus) {
        let mut state = lock(&self.0.state);
        let (cancel, suspension) =
            match std::mem::replace(&mut *state, State::Running { woken: None, ended: Some(status) }) {
                State::Waiting { cancel, suspension } => (cancel, suspension),
                State::Running { woken, .. } => {
                    *state = State::Running { woken, ended: Some(status) };
                    return;
                }
                State::Over => {
                    *state = State::Over;
                    return;
                }
            };
        // Whatever it waits for may wake others while it is told.
        drop(state);
        if cancel() {
            return suspension.end(self.clone(), status);
        }
        let mut state = lock(&self.0.state);
        match *state {
            State::Running { woken: Some(_), .. } => {
                drop(state);
                suspension.resume(self.clone());
            }
            _ => *state = State::Waiting { cancel, suspension },
        }
    }

    /// It is answered.
    pub(crate) fn finish(&self) {
        *lock(&self.0.state) = State::Over;
        if let Some(waiting) = self.0.table.upgrade() {
            waiting.remove(self.0.asked.async_id);
        }
    }
}

/// `Connection.AsyncCommandList` of all connections of a session, as far as they are this session's requests.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Table>);

#[derive(Default)]
struct Table {
    slots: HashMap<u64, Arc<Slot>>,
    is_over: bool,
}

impl Waiting {
    fn add(&self, slot: &Arc<Slot>) -> bool {
        let mut table = lock(&self.0);
        if !table.is_over {
            table.slots.insert(slot.asked.async_id, Arc::clone(slot));
        }
        !table.is_over
    }

    fn remove(&self, async_id: u64) {
        let removed = lock(&self.0).slots.remove(&async_id);
        drop(removed);
    }

    /// Cancels a request, if it waits.
    pub(crate) fn cancel(&self, which: impl Fn(&Asked) -> bool) {
        self.end(which, |_| NtStatus::CANCELLED);
    }

    /// Ends requests whose file is no longer open.
    pub(crate) fn close(&self, which: impl Fn(&Asked) -> bool) {
        self.end(which, |asked| asked.closed_with);
    }

    /// Ends the requests that count among those of a connection which is gone. Those that outlive it count among those of another
    /// one from now on, if that may have so many.
    pub(crate) fn lose(&self, connection: u64, heir: Option<(u64, &Arc<Allowance>)>) {
        let is_lost = |slot: &&Arc<Slot>| lock(&slot.counted).connection == connection;
        let lost: Vec<_> = lock(&self.0).slots.values().filter(is_lost).cloned().collect();
        for slot in lost {
            if !slot.asked.outlives || !heir.is_some_and(|heir| slot.is_inherited(heir)) {
                let status = slot.asked.closed_with;
                Waker(slot).end(status);
            }
        }
    }

    /// Ends all, and takes no more.
    pub(crate) fn close_all(&self) {
        lock(&self.0).is_over = true;
        self.close(|_| true);
    }

    fn end(&self, which: impl Fn(&Asked) -> bool, status: impl Fn(&Asked) -> NtStatus) {
        let table = lock(&self.0);
        let found: Vec<Waker> = table
            .slots
            .values()
            .filter(|slot| which(&slot.asked))
            .map(|slot| Waker(Arc::clone(slot)))
            .collect();
        drop(table);
        for waker in found {
            waker.end(status(&waker.0.asked));
        }
    }
}

/// How many requests may wait, and how many bytes of them.
pub(crate) struct Allowance {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    requests_max: usize,
    bytes_max: usize,
}

impl Allowance {
    pub(crate) const fn new(requests_max: usize, bytes_max: usize) -> Self {
        Self { requests: AtomicUsize::new(0), bytes: AtomicUsize::new(0), requests_max, bytes_max }
    }

    /// Counts a request of so many bytes, if there may be one more.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        let taken = Taken { allowance: Arc::clone(self), bytes };
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        (requests < self.requests_max && before.saturating_add(bytes) <= self.bytes_max).then_some(taken)
    }
}

/// A request that is counted, until this is dropped.
pub(crate) struct Taken {
    allowance: Arc<Allowance>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.allowance.requests.fetch_sub(1, Ordering::Relaxed);
        self.allowance.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
