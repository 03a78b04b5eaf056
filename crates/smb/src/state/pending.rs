//! Requests that are answered later: an interim reply at once, the reply when it is there (MS-SMB2 §3.3.4.2, §3.3.5.16).
//!
//! A command that has to wait takes a [`Waker`] ([`crate::request::context::RequestContext::waker`]), gives it to whatever it waits for, and ends with
//! [`crate::request::context::RequestContext::suspend`]. Once woken it is run again from its beginning, and finds how it was woken in
//! `WaitState::wakeup`.

use super::pending_quota::{PendingQuota, QuotaPermit};
use smb_wire::{FileId, NtStatus};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use vfs::claims::Outcome;
use vfs::sync::Mutex;

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

/// Gives back what a request has got while it waited, where nobody is told that it has it.
pub(crate) type Rollback = Box<dyn FnOnce() + Send>;

/// How a request was woken. What it has got is given back with this, unless the request keeps it.
pub(crate) struct Wakeup {
    pub(crate) outcome: Outcome,
    rollback: Option<Rollback>,
}

impl Wakeup {
    pub(crate) fn new(outcome: Outcome, undo: Option<Rollback>) -> Self {
        Self { outcome, rollback: undo.filter(|_| outcome == Outcome::Granted) }
    }

    /// The request has what it has got.
    pub(crate) fn commit(mut self) {
        self.rollback = None;
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        self.rollback.take().into_iter().for_each(|undo| undo());
    }
}

/// A request that waits, with everything that it needs to go on.
pub(crate) trait Suspension: Send {
    /// Goes on with it; does not wait.
    fn resume(self: Box<Self>, waker: Waker);

    /// Answers it with an error.
    fn end(self: Box<Self>, waker: Waker, status: NtStatus);
}

/// What a request is known by while it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncRequest {
    /// `AsyncId`.
    pub(crate) async_id: u64,
    /// The number of its connection.
    pub(crate) connection: u64,
    pub(crate) message_id: u64,
    pub(crate) tree_id: u32,
    /// The file that it is about.
    pub(crate) file: Option<FileId>,
    /// How it ends when its file is closed, also with its tree connect or session.
    pub(crate) status_on_close: NtStatus,
    pub(crate) interim: Interim,
    /// Whether it is done also when its connection is gone: its client asks again over another one what became of it.
    pub(crate) outlives_connection: bool,
}

/// Wakes a request that waits, from any thread, whatever that holds.
#[derive(Clone)]
pub(crate) struct Waker(Arc<AsyncSlot>);

struct AsyncSlot {
    request: AsyncRequest,
    table: Weak<AsyncCommandList>,
    state: Mutex<State>,
    quota_use: Mutex<QuotaUse>,
}

/// What a request that waits counts as.
struct QuotaUse {
    /// Among the requests of which connection.
    connection: u64,
    connection_permit: QuotaPermit,
    /// Of its user, and of all.
    _other_permits: [QuotaPermit; 2],
}

enum State {
    /// It is being done, for the first time or again.
    Running {
        /// How it was woken before it waits.
        woken: Option<Outcome>,
        /// How it is to end before it waits.
        end_status: Option<NtStatus>,
    },
    Waiting {
        cancel: Cancel,
        suspension: Box<dyn Suspension>,
        /// How it is to end, if it is being woken already and waits again.
        end_status: Option<NtStatus>,
    },
    Over,
}

const RUNNING: State = State::Running { woken: None, end_status: None };

impl AsyncSlot {
    /// Counts it among the requests of another connection, if that may have one more.
    fn try_move_to(&self, (connection, quota): (u64, &Arc<PendingQuota>)) -> bool {
        let mut quota_use = self.quota_use.lock();
        let Some(permit) = quota.try_acquire(quota_use.connection_permit.bytes()) else { return false };
        (quota_use.connection, quota_use.connection_permit) = (connection, permit);
        true
    }
}

impl Waker {
    /// A waker of a request of a session; `None` if that is over.
    pub(crate) fn new(
        commands: &Arc<AsyncCommandList>,
        request: AsyncRequest,
        permit: [QuotaPermit; 3],
    ) -> Option<Self> {
        let [of_connection, of_user, of_all] = permit;
        let quota_use = QuotaUse {
            connection: request.connection,
            connection_permit: of_connection,
            _other_permits: [of_user, of_all],
        };
        let (table, state, quota_use) =
            (Arc::downgrade(commands), Mutex::new(RUNNING), Mutex::new(quota_use));
        let slot = Arc::new(AsyncSlot { request, table, state, quota_use });
        commands.add(&slot).then_some(Self(slot))
    }

    pub(crate) fn request(&self) -> &AsyncRequest {
        &self.0.request
    }

    /// Has the request go on.
    pub(crate) fn wake(&self, outcome: Outcome) {
        let mut state = self.0.state.lock();
        match &mut *state {
            State::Running { woken, .. } => *woken = Some(outcome),
            State::Waiting { end_status: ended, .. } => {
                let ended = *ended;
                let was = std::mem::replace(
                    &mut *state,
                    State::Running { woken: Some(outcome), end_status: ended },
                );
                drop(state);
                if let State::Waiting { suspension, .. } = was {
                    suspension.resume(self.clone());
                }
            }
            State::Over => {}
        }
    }

    /// How it was woken, told once.
    pub(crate) fn take_outcome(&self) -> Option<Outcome> {
        match &mut *self.0.state.lock() {
            State::Running { woken, .. } => woken.take(),
            State::Waiting { .. } | State::Over => None,
        }
    }

    /// Waits, unless it was woken or ended already.
    pub(crate) fn suspend(&self, cancel: Cancel, suspension: Box<dyn Suspension>) {
        let mut state = self.0.state.lock();
        let State::Running { woken, end_status: ended } = *state else { return };
        if woken.is_some() {
            drop(state);
            return suspension.resume(self.clone());
        }
        *state = State::Waiting { cancel, suspension, end_status: ended };
        drop(state);
        if let Some(status) = ended {
            self.end(status);
        }
    }

    /// Ends the request with an error, unless it is being woken.
    fn end(&self, status: NtStatus) {
        let mut state = self.0.state.lock();
        let (cancel, suspension) =
            match std::mem::replace(&mut *state, State::Running { woken: None, end_status: Some(status) }) {
                State::Waiting { cancel, suspension, .. } => (cancel, suspension),
                State::Running { woken, .. } => {
                    *state = State::Running { woken, end_status: Some(status) };
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
        let mut state = self.0.state.lock();
        match *state {
            State::Running { woken: Some(_), .. } => {
                drop(state);
                suspension.resume(self.clone());
            }
            _ => *state = State::Waiting { cancel, suspension, end_status: Some(status) },
        }
    }

    /// It is answered.
    pub(crate) fn finish(&self) {
        *self.0.state.lock() = State::Over;
        if let Some(commands) = self.0.table.upgrade() {
            commands.remove(self.0.request.async_id);
        }
    }
}

/// Removes an asynchronous request from its session when it is answered or abandoned.
pub(crate) struct AsyncSlotGuard(Option<Waker>);

impl AsyncSlotGuard {
    pub(crate) fn new(waker: Waker) -> Self {
        Self(Some(waker))
    }

    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.0.as_ref()
    }

    /// Keeps the request, which is suspended or answered by the caller.
    pub(crate) fn into_waker(mut self) -> Option<Waker> {
        self.0.take()
    }
}

impl Drop for AsyncSlotGuard {
    fn drop(&mut self) {
        self.0.take().iter().for_each(Waker::finish);
    }
}

/// `Connection.AsyncCommandList` of all connections of a session, as far as they are this session's requests.
#[derive(Default)]
pub(crate) struct AsyncCommandList(Mutex<Table>);

#[derive(Default)]
struct Table {
    slots: HashMap<u64, Arc<AsyncSlot>>,
    /// The slots by what requests are about, and by the connections and messages that they came in.
    of_files: BTreeSet<((u64, u64), u64)>,
    of_messages: BTreeSet<((u64, u64), u64)>,
    is_over: bool,
}

impl Table {
    fn add(&mut self, slot: &Arc<AsyncSlot>) {
        let AsyncRequest { async_id, connection, message_id, file, .. } = slot.request;
        self.of_files.extend(file.map(|file| ((file.persistent, file.volatile), async_id)));
        self.of_messages.insert(((connection, message_id), async_id));
        self.slots.insert(async_id, Arc::clone(slot));
    }

    fn remove(&mut self, async_id: u64) -> Option<Arc<AsyncSlot>> {
        let slot = self.slots.remove(&async_id)?;
        let AsyncRequest { connection, message_id, file, .. } = slot.request;
        file.into_iter()
            .for_each(|file| _ = self.of_files.remove(&((file.persistent, file.volatile), async_id)));
        self.of_messages.remove(&((connection, message_id), async_id));
        Some(slot)
    }

    /// The slots that an index has under this.
    fn lookup(&self, index: &BTreeSet<((u64, u64), u64)>, under: (u64, u64)) -> Vec<Arc<AsyncSlot>> {
        let ids = index.range((under, 0)..=(under, u64::MAX)).map(|(_, async_id)| async_id);
        ids.filter_map(|async_id| self.slots.get(async_id)).cloned().collect()
    }
}

impl AsyncCommandList {
    fn add(&self, slot: &Arc<AsyncSlot>) -> bool {
        let mut table = self.0.lock();
        if !table.is_over {
            table.add(slot);
        }
        !table.is_over
    }

    fn remove(&self, async_id: u64) {
        let removed = self.0.lock().remove(async_id);
        drop(removed);
    }

    /// Cancels the request of a connection that is known by `async_id`, or else by its message, if it waits.
    pub(crate) fn cancel(&self, connection: u64, async_id: Option<u64>, message_id: u64) {
        let table = self.0.lock();
        let found = match async_id {
            Some(async_id) => table.slots.get(&async_id).cloned().into_iter().collect(),
            None => table.lookup(&table.of_messages, (connection, message_id)),
        };
        drop(table);
        let its = found.into_iter().filter(|slot| slot.request.connection == connection);
        its.for_each(|slot| Waker(slot).end(NtStatus::CANCELLED));
    }

    /// Ends the requests about a file that is no longer open.
    pub(crate) fn close_file(&self, file: FileId) {
        let table = self.0.lock();
        let found = table.lookup(&table.of_files, (file.persistent, file.volatile));
        drop(table);
        for slot in found {
            let status = slot.request.status_on_close;
            Waker(slot).end(status);
        }
    }

    /// Ends requests.
    pub(crate) fn end_matching(&self, which: impl Fn(&AsyncRequest) -> bool) {
        let table = self.0.lock();
        let found: Vec<_> = table.slots.values().filter(|slot| which(&slot.request)).cloned().collect();
        drop(table);
        for slot in found {
            let status = slot.request.status_on_close;
            Waker(slot).end(status);
        }
    }

    /// Ends the requests that count among those of a connection which is gone. Those that outlive it count among those of another
    /// one from now on, if that may have so many.
    pub(crate) fn end_of_connection(&self, connection: u64, heir: Option<(u64, &Arc<PendingQuota>)>) {
        let is_lost = |slot: &&Arc<AsyncSlot>| slot.quota_use.lock().connection == connection;
        let lost: Vec<_> = self.0.lock().slots.values().filter(is_lost).cloned().collect();
        for slot in lost {
            if !slot.request.outlives_connection || !heir.is_some_and(|heir| slot.try_move_to(heir)) {
                let status = slot.request.status_on_close;
                Waker(slot).end(status);
            }
        }
    }

    /// Ends all, and takes no more.
    pub(crate) fn end_all(&self) {
        self.0.lock().is_over = true;
        self.end_matching(|_| true);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// What became of a request: it went on by this, or ended with that.
    type Ending = Result<Option<Outcome>, NtStatus>;

    struct RecordedEnd(Sender<Ending>);

    impl Suspension for RecordedEnd {
        fn resume(self: Box<Self>, waker: Waker) {
            _ = self.0.send(Ok(waker.take_outcome()));
        }

        fn end(self: Box<Self>, waker: Waker, status: NtStatus) {
            waker.finish();
            _ = self.0.send(Err(status));
        }
    }

    pub(crate) fn request(commands: &Arc<AsyncCommandList>) -> Waker {
        let request = AsyncRequest {
            async_id: 1,
            connection: 1,
            message_id: 1,
            tree_id: 1,
            file: None,
            status_on_close: NtStatus::FILE_CLOSED,
            interim: Interim::Always,
            outlives_connection: false,
        };
        let permit = || Arc::new(PendingQuota::new(1, 1)).try_acquire(1).unwrap();
        Waker::new(commands, request, [permit(), permit(), permit()]).unwrap()
    }

    /// A request waits, and what it waits for can be taken back or not.
    fn suspend(waker: &Waker, is_canceled: bool) -> Receiver<Ending> {
        let (sender, became) = channel();
        waker.suspend(Box::new(move || is_canceled), Box::new(RecordedEnd(sender)));
        became
    }

    #[test]
    fn a_request_that_is_canceled_ends_once() {
        let commands = Arc::default();
        let waker = request(&commands);
        let became = suspend(&waker, true);
        commands.cancel(1, Some(1), 1);
        waker.wake(Outcome::Granted);
        commands.cancel(1, Some(1), 1);
        assert_eq!(became.iter().collect::<Vec<_>>(), [Err(NtStatus::CANCELLED)]);
    }

    /// What it was given is not lost, in whatever order both come.
    #[test]
    fn a_request_that_is_canceled_too_late_goes_on() {
        for early in [[true, true], [true, false], [false, true], [false, false]] {
            for wakes_first in [true, false] {
                let commands = Arc::default();
                let waker = request(&commands);
                let wake = |now| {
                    if now == early[0] {
                        waker.wake(Outcome::Granted);
                    }
                };
                let cancel = |now| {
                    if now == early[1] {
                        commands.cancel(1, Some(1), 1);
                    }
                };
                let both = |now| match wakes_first {
                    true => (wake(now), cancel(now)),
                    false => (cancel(now), wake(now)),
                };
                both(true);
                let became = suspend(&waker, false);
                both(false);
                assert_eq!(became.try_recv(), Ok(Ok(Some(Outcome::Granted))), "{early:?}, {wakes_first}");
            }
        }
    }

    #[test]
    fn a_request_that_is_canceled_while_it_is_woken_does_not_wait_again() {
        let commands = Arc::default();
        let waker = request(&commands);
        let became = suspend(&waker, false);
        commands.cancel(1, Some(1), 1);
        waker.wake(Outcome::Again);
        assert_eq!(became.try_recv(), Ok(Ok(Some(Outcome::Again))));
        assert_eq!(suspend(&waker, true).try_recv(), Ok(Err(NtStatus::CANCELLED)));
    }
}
