//! A connection (MS-SMB2 §3.3.1.7).

mod credits;
pub(crate) mod negotiated;

use super::counters::CountGuard;
use super::disconnected::ClosedConnection;
use super::id_table::IdTable;
use super::pending_quota::PendingQuota;
use super::service::Service;
use super::session::Session;
use super::session::channel::{Channel, ChannelConnection};
use crate::limits::{CONNECTION_SESSIONS_MAX, CONNECTION_WAITING_BYTES_MAX, CONNECTION_WAITING_MAX};
use credits::SequenceWindow;
use negotiated::Negotiated;
use smb_wire::NtStatus;
use smb_wire::compression::Compression;
use smb_wire::crypto::Preauth;
use std::any::Any;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use transport::{Malformed, Outbox};
use vfs::sync::Mutex;

/// The transport of a connection, which sends messages without waiting.
pub(crate) trait Sender: Any + Send + Sync {
    /// Sends or queues messages. The connection ends unless the client's machine acknowledges them in this time.
    fn send_within(&self, messages: &mut Outbox, patience: Duration);

    /// Whether the client has ended the connection.
    fn is_ended(&self) -> bool;

    fn client(&self) -> IpAddr;

    /// Keeps the connection when connections run out: a user has logged in.
    fn keep_as_user(&self);

    /// Lifts the deadline for a login: the client has logged in anonymously.
    fn allow_anonymous(&self);
}

pub(crate) struct Connection {
    pub(crate) service: Arc<Service>,
    /// The number of the connection, which is never reused.
    pub(crate) number: u64,
    /// The quota of asynchronous requests.
    pub(crate) pending_quota: Arc<PendingQuota>,
    negotiated: OnceLock<Negotiated>,
    /// `PreauthIntegrityHashValue`, up to the reply to NEGOTIATE.
    preauth: Mutex<Preauth>,
    window: Mutex<SequenceWindow>,
    /// `SessionTable`: channels by session id.
    channels: Mutex<IdTable<u64, Arc<Channel>>>,
    sender: OnceLock<Weak<dyn Sender>>,
    guard: Option<CountGuard>,
    weak_self: Weak<Self>,
}

impl Connection {
    pub(crate) fn new(service: &Arc<Service>) -> Arc<Self> {
        Arc::new_cyclic(|weak_self| Self {
            service: Arc::clone(service),
            number: service.counters.next_id(),
            pending_quota: Arc::new(PendingQuota::new(CONNECTION_WAITING_MAX, CONNECTION_WAITING_BYTES_MAX)),
            negotiated: OnceLock::new(),
            preauth: Mutex::default(),
            window: Mutex::new(SequenceWindow::new()),
            channels: Mutex::default(),
            sender: OnceLock::new(),
            guard: service.counters.connection(),
            weak_self: weak_self.clone(),
        })
    }

    /// Sets the transport of messages that are not replies.
    pub(crate) fn attach<S: Sender + 'static>(&self, sender: &Arc<S>) {
        self.sender.get_or_init(|| {
            let sender: Weak<S> = Arc::downgrade(sender);
            sender
        });
    }

    pub(crate) fn new_channel(&self, session: Arc<Session>) -> Arc<Channel> {
        Arc::new(Channel::new(session, self.weak_self.clone(), self.preauth().clone()))
    }

    pub(crate) fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }

    pub(crate) fn compression(&self) -> Option<Compression> {
        self.negotiated()?.compression
    }

    /// Sets the result of NEGOTIATE, once.
    pub(crate) fn set_negotiated(&self, negotiated: Negotiated) -> Result<(), NtStatus> {
        self.negotiated.set(negotiated).map_err(|_| NtStatus::INVALID_PARAMETER)
    }

    pub(crate) fn preauth(&self) -> MutexGuard<'_, Preauth> {
        self.preauth.lock()
    }

    pub(crate) fn take_ids(&self, id: u64, charge: u16) -> Result<(), Malformed> {
        self.window.lock().consume(id, charge)
    }

    /// Grants message ids with a reply; fewer while calls wait for the same limits.
    pub(crate) fn grant(&self, wanted: u16, is_pressed: bool) -> u16 {
        self.window.lock().grant(wanted, is_pressed)
    }

    /// The channel of a session on this connection, bound or not.
    pub(crate) fn channel(&self, session_id: u64) -> Option<Arc<Channel>> {
        self.channels.lock().get(&session_id).cloned()
    }

    /// Whether a user has logged in.
    pub(crate) fn is_logged_on(&self) -> bool {
        let is_users = |channel: &Arc<Channel>| channel.is_valid() && channel.session.identity().is_some();
        self.channels.lock().values().any(is_users)
    }

    /// Adds a channel that is being set up, within the bound on unproven channels.
    pub(crate) fn add_channel(&self, channel: &Arc<Channel>, setups_max: usize) -> Result<(), NtStatus> {
        let mut channels = self.channels.lock();
        // Ended sessions still occupy entries.
        channels.retain(|_, channel| !channel.session.is_over());
        let has_proven = |channel: &Arc<Channel>| channel.is_bound() && !channel.session.is_anonymous();
        let setups = channels.values().filter(|channel| !has_proven(channel)).count();
        if channels.len() >= CONNECTION_SESSIONS_MAX || setups >= setups_max {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        channels.insert(channel.session.id, Arc::clone(channel));
        Ok(())
    }

    /// Removes a channel. A session ends with its last channel, or if it was not set up yet.
    pub(crate) fn remove_channel(&self, session_id: u64) {
        let removed = self.channels.lock().remove(&session_id);
        if let Some(channel) = removed {
            self.service.detach_channel(&channel, self.number);
        }
    }

    /// Ends a session on all its channels.
    pub(crate) fn end_session(&self, session_id: u64) {
        let removed = self.channels.lock().remove(&session_id);
        if let Some(channel) = removed {
            self.service.end_session(&channel.session);
        }
    }

    pub(crate) fn note_login(&self, is_user: bool) {
        if let Some(sender) = self.sender() {
            if is_user { sender.keep_as_user() } else { sender.allow_anonymous() }
        }
    }

    fn sender(&self) -> Option<Arc<dyn Sender>> {
        self.sender.get().and_then(Weak::upgrade)
    }
}

impl ChannelConnection for Connection {
    fn forget_channel(&self, session_id: u64) {
        self.channels.lock().remove(&session_id);
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn send_within(&self, message: &mut Outbox, patience: Duration) -> bool {
        self.sender().map(|sender| sender.send_within(message, patience)).is_some()
    }

    fn pending_quota(&self) -> &Arc<PendingQuota> {
        &self.pending_quota
    }

    fn transport(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let sender: Arc<dyn Any + Send + Sync> = self.sender()?;
        Some(sender)
    }

    fn is_ended(&self) -> bool {
        self.sender().is_none_or(|sender| sender.is_ended())
    }

    fn client(&self) -> Option<IpAddr> {
        self.sender().map(|sender| sender.client())
    }
}

impl Connection {
    pub(crate) fn take_channels(&self) -> Vec<Arc<Channel>> {
        std::mem::take(&mut *self.channels.lock()).into_values().collect()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let channels = self.take_channels();
        if !channels.is_empty() {
            let service = Arc::clone(&self.service);
            let counted = self.guard.take();
            self.service.cleanup.add(ClosedConnection {
                service,
                number: self.number,
                channels,
                guard: counted,
            });
        }
    }
}
