//! Asynchronous requests: an interim reply now, the final reply later (MS-SMB2 §3.3.4.2, §3.3.5.16).
//!
//! A command that has to wait takes a [`Waker`] ([`crate::request::context::RequestContext::waker`]), passes it on,
//! and ends with [`crate::request::context::RequestContext::suspend`]. A woken command runs again from its beginning,
//! and finds the outcome in `WaitState::wakeup`.

use super::pending_quota::{PendingQuota, QuotaPermit};
use smb_wire::{FileId, NtStatus};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use vfs::claims::Outcome;
use vfs::sync::Mutex;

/// The kind of interim reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interim {
    /// An immediate interim reply, at any position in the message.
    Always,
    /// An immediate interim reply. Only the last request of a message may wait; others fail with
    /// `STATUS_INTERNAL_ERROR`.
    OfLast,
    /// No interim reply. The rest of the message waits as well.
    Never,
}

/// Cancels the wait; false if a wakeup is under way.
pub(crate) type Cancel = Box<dyn Fn() -> bool + Send>;

/// Gives back a claim that was granted during the wait and is not used.
pub(crate) type Rollback = Box<dyn FnOnce() + Send>;

/// A wakeup. Dropping it gives back the granted claim, unless it was committed.
pub(crate) struct Wakeup {
    pub(crate) outcome: Outcome,
    rollback: Option<Rollback>,
}

impl Wakeup {
    pub(crate) fn new(outcome: Outcome, undo: Option<Rollback>) -> Self {
        Self { outcome, rollback: undo.filter(|_| outcome == Outcome::Granted) }
    }

    /// Keeps the granted claim.
    pub(crate) fn commit(mut self) {
        self.rollback = None;
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        self.rollback.take().into_iter().for_each(|undo| undo());
    }
}

/// A suspended request.
pub(crate) trait Suspension: Send {
    /// Continues the request. Does not block.
    fn resume(self: Box<Self>, waker: Waker);

    /// Answers the request with an error.
    fn end(self: Box<Self>, waker: Waker, status: NtStatus);
}

/// The identity of an asynchronous request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncRequest {
    /// `AsyncId`.
    pub(crate) async_id: u64,
    /// The number of the connection.
    pub(crate) connection: u64,
    pub(crate) message_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) file: Option<FileId>,
    /// The final status if the file, the tree connect or the session is closed.
    pub(crate) status_on_close: NtStatus,
    pub(crate) interim: Interim,
    /// Whether the request runs even without its connection. Its client then asks for the result over another one.
    pub(crate) outlives_connection: bool,
}

/// Wakes a request from any thread, under any lock.
#[derive(Clone)]
pub(crate) struct Waker(Arc<AsyncSlot>);

struct AsyncSlot {
    request: AsyncRequest,
    table: Weak<AsyncCommandList>,
    state: Mutex<State>,
    quota_use: Mutex<QuotaUse>,
}

/// The quotas that a request occupies.
struct QuotaUse {
    /// The connection whose quota is occupied.
    connection: u64,
    connection_permit: QuotaPermit,
    /// Permits of the user and of the process.
    _other_permits: [QuotaPermit; 2],
}

enum State {
    /// The command runs.
    Running {
        /// The outcome of a wakeup that came before the wait.
        outcome: Option<Outcome>,
        /// The final status of an end that came before the wait.
        end_status: Option<NtStatus>,
    },
    Waiting {
        cancel: Cancel,
        suspension: Box<dyn Suspension>,
        /// The final status, if an end came during a wakeup and the command waits again.
        end_status: Option<NtStatus>,
    },
    Over,
}

const RUNNING: State = State::Running { outcome: None, end_status: None };

impl AsyncSlot {
    /// Moves the request to the quota of another connection. False if that has no room.
    fn try_move_to(&self, connection: u64, quota: &Arc<PendingQuota>) -> bool {
        let mut quota_use = self.quota_use.lock();
        let Some(permit) = quota.try_acquire(quota_use.connection_permit.bytes()) else { return false };
        (quota_use.connection, quota_use.connection_permit) = (connection, permit);
        true
    }
}

impl Waker {
    /// A waker of a session's request; none if the session is over.
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

    /// Wakes the request.
    pub(crate) fn wake(&self, outcome: Outcome) {
        let mut state = self.0.state.lock();
        match &mut *state {
            State::Running { outcome: early, .. } => *early = Some(outcome),
            State::Waiting { end_status, .. } => {
                let end_status = *end_status;
                let previous =
                    std::mem::replace(&mut *state, State::Running { outcome: Some(outcome), end_status });
                drop(state);
                if let State::Waiting { suspension, .. } = previous {
                    suspension.resume(self.clone());
                }
            }
            State::Over => {}
        }
    }

    /// Takes the outcome of a wakeup.
    pub(crate) fn take_outcome(&self) -> Option<Outcome> {
        match &mut *self.0.state.lock() {
            State::Running { outcome, .. } => outcome.take(),
            State::Waiting { .. } | State::Over => None,
        }
    }

    /// Suspends the request, unless it was woken or ended already.
    pub(crate) fn suspend(&self, cancel: Cancel, suspension: Box<dyn Suspension>) {
        let mut state = self.0.state.lock();
        let State::Running { outcome, end_status } = *state else { return };
        if outcome.is_some() {
            drop(state);
            return suspension.resume(self.clone());
        }
        *state = State::Waiting { cancel, suspension, end_status };
        drop(state);
        if let Some(status) = end_status {
            self.end(status);
        }
    }

    /// Ends the request with an error, unless it is being woken.
    fn end(&self, status: NtStatus) {
        let mut state = self.0.state.lock();
        let (cancel, suspension) = match std::mem::replace(
            &mut *state,
            State::Running { outcome: None, end_status: Some(status) },
        ) {
            State::Waiting { cancel, suspension, .. } => (cancel, suspension),
            State::Running { outcome, .. } => {
                *state = State::Running { outcome, end_status: Some(status) };
                return;
            }
            State::Over => {
                *state = State::Over;
                return;
            }
        };
        // Canceling may wake other requests, so no lock is held.
        drop(state);
        if cancel() {
            return suspension.end(self.clone(), status);
        }
        let mut state = self.0.state.lock();
        match *state {
            State::Running { outcome: Some(_), .. } => {
                drop(state);
                suspension.resume(self.clone());
            }
            _ => *state = State::Waiting { cancel, suspension, end_status: Some(status) },
        }
    }

    /// Ends the request, which has been answered.
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

    /// Passes responsibility for the request on.
    pub(crate) fn into_waker(mut self) -> Option<Waker> {
        self.0.take()
    }
}

impl Drop for AsyncSlotGuard {
    fn drop(&mut self) {
        self.0.take().iter().for_each(Waker::finish);
    }
}

/// `Connection.AsyncCommandList`, of all connections together, but of one session.
#[derive(Default)]
pub(crate) struct AsyncCommandList(Mutex<Table>);

#[derive(Default)]
struct Table {
    slots: HashMap<u64, Arc<AsyncSlot>>,
    /// Slots by file id, and by connection and message id.
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

    /// The slots with this key in an index.
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

    /// Cancels a waiting request of a connection, by its `async_id` or else by its message.
    pub(crate) fn cancel(&self, connection: u64, async_id: Option<u64>, message_id: u64) {
        let table = self.0.lock();
        let found = match async_id {
            Some(async_id) => table.slots.get(&async_id).cloned().into_iter().collect(),
            None => table.lookup(&table.of_messages, (connection, message_id)),
        };
        drop(table);
        let of_connection = found.into_iter().filter(|slot| slot.request.connection == connection);
        of_connection.for_each(|slot| Waker(slot).end(NtStatus::CANCELLED));
    }

    /// Ends the requests that concern a closed file.
    pub(crate) fn close_file(&self, file: FileId) {
        let table = self.0.lock();
        let found = table.lookup(&table.of_files, (file.persistent, file.volatile));
        drop(table);
        for slot in found {
            let status = slot.request.status_on_close;
            Waker(slot).end(status);
        }
    }

    pub(crate) fn end_matching(&self, which: impl Fn(&AsyncRequest) -> bool) {
        let table = self.0.lock();
        let found: Vec<_> = table.slots.values().filter(|slot| which(&slot.request)).cloned().collect();
        drop(table);
        for slot in found {
            let status = slot.request.status_on_close;
            Waker(slot).end(status);
        }
    }

    /// Ends the requests that occupy the quota of a lost connection. Requests that outlive it move to the quota of
    /// `heir`, if that has room.
    pub(crate) fn end_of_connection(&self, connection: u64, successor: Option<(u64, &Arc<PendingQuota>)>) {
        let is_lost = |slot: &&Arc<AsyncSlot>| slot.quota_use.lock().connection == connection;
        let lost: Vec<_> = self.0.lock().slots.values().filter(is_lost).cloned().collect();
        for slot in lost {
            if !slot.request.outlives_connection
                || !successor.is_some_and(|(connection, quota)| slot.try_move_to(connection, quota))
            {
                let status = slot.request.status_on_close;
                Waker(slot).end(status);
            }
        }
    }

    /// Ends all requests, and accepts no more.
    pub(crate) fn end_all(&self) {
        self.0.lock().is_over = true;
        self.end_matching(|_| true);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// The result of a request: an outcome with which it continues, or a final status.
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

    /// Suspends a request, whose cancellation succeeds or not.
    fn suspend(waker: &Waker, is_canceled: bool) -> Receiver<Ending> {
        let (sender, became) = channel();
        waker.suspend(Box::new(move || is_canceled), Box::new(RecordedEnd(sender)));
        became
    }

    #[test]
    fn canceled_request_ends_once() {
        let commands = Arc::default();
        let waker = request(&commands);
        let became = suspend(&waker, true);
        commands.cancel(1, Some(1), 1);
        waker.wake(Outcome::Granted);
        commands.cancel(1, Some(1), 1);
        assert_eq!(became.iter().collect::<Vec<_>>(), [Err(NtStatus::CANCELLED)]);
    }

    /// A granted claim is not lost, in any order of wakeup and cancellation.
    #[test]
    fn request_canceled_after_wakeup_continues() {
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
    fn request_canceled_during_wakeup_does_not_wait_again() {
        let commands = Arc::default();
        let waker = request(&commands);
        let became = suspend(&waker, false);
        commands.cancel(1, Some(1), 1);
        waker.wake(Outcome::Again);
        assert_eq!(became.try_recv(), Ok(Ok(Some(Outcome::Again))));
        assert_eq!(suspend(&waker, true).try_recv(), Ok(Err(NtStatus::CANCELLED)));
    }
}
