//! Callbacks to one client, queued for the back channels of its sessions.

use super::channel::{Agreement, Callback, CallbackOutcome, Channel, Credential, Outgoing};
use super::wire::Wire;
use nfs_wire::v4::{SequenceStatus, SessionId, Stateid};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use vfs::sync::Mutex;

#[derive(Default)]
pub(crate) struct Callbacks {
    state: Mutex<CallbacksState>,
    /// The current second of the service.
    second: AtomicU64,
}

#[derive(Default)]
struct CallbacksState {
    channels: Vec<Channel>,
    queued: VecDeque<Callback>,
    /// Callbacks that the client asked to repeat.
    retries: Vec<Callback>,
}

/// Queued callbacks of one client.
const CALLBACKS_MAX: usize = 20_000;
/// Attempts per callback that the client answers with NFS4ERR_DELAY, one a second.
const TRIES_MAX: u32 = 30;

impl Callbacks {
    /// Adds the channel of a new session. Its SEQUENCE flags are stored in `status`.
    pub(super) fn add_session(&self, session: SessionId, agreement: Agreement, status: &Arc<AtomicU32>) {
        self.lock().channels.push(Channel::new(session, agreement, Arc::clone(status)));
    }

    /// Removes the channel of a session. Its callbacks move to another session.
    pub(super) fn remove_session(self: &Arc<Self>, session: &SessionId) {
        self.change(|state, _| {
            let is_it = |channel: &mut Channel| channel.session == *session;
            let ended: Vec<Channel> = state.channels.extract_if(.., is_it).collect();
            ended
                .into_iter()
                .flat_map(Channel::into_callbacks)
                .for_each(|back| state.queued.push_front(back));
        });
    }

    /// Adds this connection to the back channel of a session.
    pub(crate) fn bind(self: &Arc<Self>, session: &SessionId, wire: &Arc<Wire>) {
        let (second, caller) = (self.second.load(Ordering::Relaxed), Arc::downgrade(self));
        self.change(|state, outgoing| {
            let Some(channel) = state.channel(session) else { return };
            channel.bind(wire);
            channel.resend(&caller, second, outgoing);
        });
    }

    pub(crate) fn unbind(self: &Arc<Self>, session: &SessionId, wire: &Arc<Wire>) {
        self.change(|state, _| {
            if let Some(channel) = state.channel(session) {
                channel.unbind(wire);
            }
        });
    }

    /// Sets the callback program and credential (BACKCHANNEL_CTL).
    pub(crate) fn set_caller(&self, session: &SessionId, program: u32, credential: Credential) {
        if let Some(channel) = self.lock().channel(session) {
            (channel.agreement.program, channel.agreement.credential) = (program, credential);
        }
    }

    pub(crate) fn is_reachable(&self) -> bool {
        self.lock().channels.iter().any(|channel| !channel.is_faulty && channel.is_up())
    }

    /// Sends a callback, now or when a channel is free.
    pub(crate) fn call(self: &Arc<Self>, callback: Callback) {
        self.change(|state, _| {
            if state.queued.len() < CALLBACKS_MAX {
                state.queued.push_back(callback);
            }
        });
    }

    /// Handles a client's reply. `None` as results: the client refused the whole call.
    pub(super) fn handle_reply(self: &Arc<Self>, wire: &Wire, xid: u32, results: Option<&[u8]>) {
        self.change(|state, _| {
            let mut channels = state.channels.iter_mut();
            match channels.find_map(|channel| channel.handle_reply(wire, xid, results)) {
                Some(CallbackOutcome::Retry(callback)) if callback.tries < TRIES_MAX => {
                    state.retries.push(callback)
                }
                Some(CallbackOutcome::Faulty(callback)) => state.queued.push_front(callback),
                Some(CallbackOutcome::Retry(_) | CallbackOutcome::Done) | None => {}
            }
        });
    }

    /// Runs once a second: repeats unanswered callbacks while the client has the state.
    pub(super) fn tick(self: &Arc<Self>, second: u64, is_held: impl Fn(&Stateid) -> bool) {
        self.second.store(second, Ordering::Relaxed);
        let mut later = std::mem::take(&mut self.lock().retries);
        later.retain(|callback| callback.recalled.as_ref().is_none_or(&is_held));
        let caller = Arc::downgrade(self);
        self.change(|state, outgoing| {
            for channel in &mut state.channels {
                channel.resend(&caller, second, outgoing);
            }
            state.queued.extend(later);
        });
    }

    pub(super) fn clear(&self) {
        *self.lock() = CallbacksState::default();
    }

    /// Changes the state, and sends callbacks after the lock is released.
    fn change(self: &Arc<Self>, act: impl FnOnce(&mut CallbacksState, &mut Outgoing)) {
        let mut outgoing = Outgoing::new();
        let mut state = self.lock();
        act(&mut state, &mut outgoing);
        state.send_waiting(&Arc::downgrade(self), self.second.load(Ordering::Relaxed), &mut outgoing);
        state.note_status();
        drop(state);
        for (wire, record) in outgoing {
            wire.send(&record);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallbacksState> {
        self.state.lock()
    }
}

impl CallbacksState {
    fn channel(&mut self, session: &SessionId) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.session == *session)
    }

    fn send_waiting(&mut self, caller: &Weak<Callbacks>, second: u64, outgoing: &mut Outgoing) {
        while let Some(callback) = self.queued.pop_front() {
            let channel = self.channels.iter_mut().find(|channel| channel.has_room());
            let sent = match channel {
                Some(channel) => channel.send(caller, callback, second, outgoing),
                None => Err(callback),
            };
            if let Err(callback) = sent {
                return self.queued.push_front(callback);
            }
        }
    }

    /// Updates the SEQUENCE flags (RFC 8881 §18.46.3).
    fn note_status(&self) {
        let is_wanted = self.channels.iter().any(|channel| channel.is_wanted);
        let is_down = is_wanted && !self.channels.iter().any(Channel::is_up);
        for channel in &self.channels {
            let mut status = SequenceStatus::default();
            let flags = [
                (is_down, SequenceStatus::CB_PATH_DOWN),
                (channel.is_wanted && !channel.is_up(), SequenceStatus::CB_PATH_DOWN_SESSION),
                (channel.is_faulty, SequenceStatus::BACKCHANNEL_FAULT),
            ];
            for (_, flag) in flags.into_iter().filter(|(is_set, _)| *is_set) {
                status = status | flag;
            }
            channel.status.store(status.0, Ordering::Relaxed);
        }
    }
}
