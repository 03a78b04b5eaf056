//! State of NFSv4: clients, sessions, and what clients hold.

pub(crate) mod binding;
pub(crate) mod callbacks;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod copier;
pub(crate) mod copies;
pub(crate) mod delegations;
pub(crate) mod held;
mod lost;
pub(crate) mod naming;
pub(crate) mod notices;
pub mod records;
pub(crate) mod session;
pub(crate) mod share;
pub mod shown;
pub(crate) mod slots;
pub(crate) mod v40;
pub(crate) mod waiting;
pub(crate) mod wire;
pub(crate) mod writers;

use crate::followed::Followed;
use crate::limits::SESSIONS_MAX;
use crate::names::IdNames;
use channel::Agreement;
use client::Client;
use clients::{Clients, Introduction};
use copier::Copier;
use held::Ended;
use nfs_wire::v4::{ChannelAttrs, ClientId, SessionId, Status};
use notices::NewsDesk;
use records::Records;
use session::Session;
use share::Totals;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use vfs::claims::{Caching, Claims, Grace, HolderId, LeaseKey, Request, Stream};
use vfs::{SharedNamespace, VolumeId};
use writers::Writers;

/// All state of one service.
pub struct State {
    /// How long a client keeps what it holds without a sign of life, in seconds.
    pub(crate) lease_s: u32,
    /// The minor versions that are served.
    pub(crate) minors: RangeInclusive<u32>,
    /// Who is known over a restart. Their number of this start is part of every client's number.
    records: Arc<Records>,
    /// The time after a start in which those who are known claim again what they had.
    pub(crate) grace: Grace,
    /// Users and groups by name; `None` where they are numbers.
    pub(crate) names: Option<IdNames>,
    /// The port at all addresses of the service.
    pub(crate) port: u16,
    /// What tells this service from every other one (`so_major_id`, `eir_server_scope`).
    pub(crate) name: Box<[u8]>,
    clients: Mutex<Clients>,
    sessions: RwLock<HashMap<SessionId, Arc<Session>>>,
    sessions_made: AtomicU64,
    secret: RandomState,
    /// Bytes of replies that slots keep.
    kept_bytes: Arc<AtomicUsize>,
    /// What all clients hold.
    totals: Arc<Totals>,
    /// What clients of 4.0 have besides.
    v40: v40::Shared,
    /// Seconds since the start.
    second: Arc<AtomicU64>,
    /// How clients are asked for what others want.
    pub(crate) desk: NewsDesk,
    /// Delegations of all clients.
    pub(crate) delegations: Arc<AtomicUsize>,
    /// Those among them to write.
    pub(crate) writers: Arc<Writers>,
    /// Whether there are any to write.
    pub(crate) delegates_writing: bool,
    /// Copies that go on by themselves.
    pub(crate) copier: Copier,
    /// Whose rules admit what is held.
    pub(crate) followed: Followed,
}

/// The port that clients assume where none is told.
pub(crate) const DEFAULT_PORT: u16 = 2049;
/// A client that holds nothing but sessions is forgotten after so many leases without a sign of life.
const IDLE_LEASES: u64 = 2;
/// What a client holds stays for so long after its lease has ended, as long as nobody wants it (RFC 8881 §8.4.2.4).
const COURTESY_S: u64 = 24 * 3600;

impl State {
    /// The state of a service that remembers nothing over a restart. It is told from others by `name`, and this start from others by
    /// `random`.
    pub fn new(random: u32, name: &[u8], lease_s: u32) -> Self {
        let desk = NewsDesk::default();
        Self {
            lease_s,
            minors: 0..=2,
            records: Arc::new(Records::forgetful(random)),
            grace: Grace::default(),
            names: None,
            port: DEFAULT_PORT,
            name: name.into(),
            clients: Mutex::default(),
            sessions: RwLock::default(),
            sessions_made: AtomicU64::new(0),
            secret: RandomState::new(),
            kept_bytes: Arc::default(),
            totals: Arc::default(),
            v40: v40::Shared::default(),
            second: Arc::clone(&desk.second),
            desk,
            delegations: Arc::default(),
            writers: Arc::default(),
            delegates_writing: false,
            copier: Copier::default(),
            followed: Followed::default(),
        }
    }

    /// The same for a service that has recorded its clients: for as long as `grace` lasts they claim again what they had.
    #[must_use]
    pub fn restarted_with(self, records: Arc<Records>, grace: Grace) -> Self {
        Self { records, grace, ..self }
    }

    /// The same for a service that delegates files for writing, too, if that is wanted.
    #[must_use]
    pub fn delegating_writes(self, delegates_writing: bool) -> Self {
        Self { delegates_writing, ..self }
    }

    /// The same for a service at this port.
    #[must_use]
    pub fn at_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The same for a service that names users and groups by these, if any.
    #[must_use]
    pub fn with_names(self, names: Option<IdNames>) -> Self {
        Self { names, ..self }
    }

    /// Whether a client may claim again what it had before a restart: it was recorded then, and has not said that it has all.
    pub(crate) fn check_reclaims(&self, client: &Client) -> Result<(), Status> {
        let is_over = client.has_reclaimed() || !self.grace.is_active();
        if is_over || self.records.earlier(&client.identity).is_none() {
            return Err(Status::NO_GRACE);
        }
        // Before it has anything: what it claims now it may claim again after the next restart.
        self.remember(client);
        Ok(())
    }

    /// Whether clients may still claim opens again that they had before a restart.
    #[inline]
    pub(crate) fn are_opens_reclaimed(&self) -> bool {
        self.grace.is_active() && self.records.expects_anybody()
    }

    /// A client has reclaimed all it wants; false if it had said so before.
    pub(crate) fn complete_reclaim(&self, client: &Client) -> bool {
        if !client.complete_reclaim() {
            return false;
        }
        self.remember(client);
        if let Some(record) = self.records.earlier(&client.identity) {
            self.grace.complete(record);
        }
        true
    }

    /// Records a client before it has any state. Where that cannot be written it is served all the same, and has nothing to claim after
    /// a restart.
    fn remember(&self, client: &Client) {
        if let Err(error) = self.records.remember(&client.identity) {
            tracing::warn!(client = client.id, %error, "a client cannot claim what it holds after a restart");
        }
    }

    /// Has a restart not wait for a client, nor let it claim anything.
    fn forget(&self, client: &Client) {
        if let Err(error) = self.records.forget(&client.identity) {
            tracing::error!(client = client.id, %error, "a client whose time is over stays recorded");
        }
    }

    /// Finds or makes the client of an introduction.
    pub(crate) fn introduce(&self, who: &Introduction<'_>) -> Result<Arc<Client>, Status> {
        let now = self.second();
        let is_heard = |client: &Client| now.saturating_sub(client.heard()) <= u64::from(self.lease_s);
        let introduced = self.clients().introduce(self.records.boot(), who, &self.totals, is_heard);
        let (client, ended) = introduced?;
        if let Some(ended) = ended {
            self.end(&ended);
        }
        client.hear(now);
        client.add_address(who.principal.address);
        Ok(client)
    }

    /// The client with this number, if it knows sessions.
    pub(crate) fn client(&self, id: ClientId) -> Result<Arc<Client>, Status> {
        let client = self.clients().get(id).cloned();
        client.filter(|client| client.open_owners().is_none()).ok_or(Status::STALE_CLIENTID)
    }

    /// A new session of a client, which ends what the client was before its restart.
    pub(crate) fn add_session(
        &self,
        client: &Arc<Client>,
        fore: ChannelAttrs,
        back: Agreement,
    ) -> Result<Arc<Session>, Status> {
        let number = self.sessions_made.fetch_add(1, Ordering::Relaxed);
        // Whoever knows the number of a session has what its client has: nobody can guess it.
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.secret.hash_one((number, 0)).to_be_bytes());
        id[8..].copy_from_slice(&self.secret.hash_one((number, 1)).to_be_bytes());
        let session = Arc::new(Session::new(id, Arc::clone(client), (back.minor, fore), &self.kept_bytes));
        {
            let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
            if !has_room(sessions.values().map(|session| &*session.client), client) {
                return Err(Status::DELAY);
            }
            client.count_session(true);
            sessions.insert(id, Arc::clone(&session));
        }
        client.callbacks.add_session(id, back, &session.back_status);
        let confirmed = self.clients().confirm(client);
        match confirmed {
            Ok(None) => {}
            Ok(Some(before)) => self.end(&before),
            Err(status) => {
                self.remove_session(&id)?;
                return Err(status);
            }
        }
        Ok(session)
    }

    /// The session with this number.
    pub(crate) fn session(&self, id: &SessionId) -> Result<Arc<Session>, Status> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.get(id).cloned().ok_or(Status::BADSESSION)
    }

    /// Ends a session.
    pub(crate) fn remove_session(&self, id: &SessionId) -> Result<(), Status> {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.remove(id).ok_or(Status::BADSESSION)?;
        drop(sessions);
        session.end();
        session.client.count_session(false);
        session.client.callbacks.remove_session(id);
        Ok(())
    }

    /// Ends a client that has neither sessions nor anything held.
    pub(crate) fn remove_client(&self, id: ClientId) -> Result<(), Status> {
        let client = self.client(id)?;
        if client.has_state() {
            return Err(Status::CLIENTID_BUSY);
        }
        self.clients().remove(&client);
        self.end(&client);
        Ok(())
    }

    /// The client that is this holder among the claims of a volume.
    pub(crate) fn holding(&self, volume: VolumeId, holder: HolderId) -> Option<Arc<Client>> {
        let is_it = |client: &&Arc<Client>| client.held().holder(volume) == Some(holder);
        self.clients().all().find(is_it).cloned()
    }

    /// A second has passed: leases end.
    pub fn tick(&self) {
        let second = self.second.fetch_add(1, Ordering::Relaxed) + 1;
        let clients: Vec<Arc<Client>> = self.clients().all().cloned().collect();
        let lease = u64::from(self.lease_s);
        self.tick_40(second, &clients);
        for client in clients {
            client.held().stop_waiting(|lock| lock.until < second);
            client.callbacks.tick(second, |stateid| client.held().place(stateid).is_some());
            let silent = second.saturating_sub(client.heard());
            let ends_after = match client.has_state() {
                false => lease,
                true if client.held().is_empty() => IDLE_LEASES * lease,
                true => lease + COURTESY_S,
            };
            if silent > ends_after {
                self.clients().remove(&client);
                self.end(&client);
            } else if silent == lease + 1 {
                self.fall_silent(&client);
            }
        }
    }

    /// Ends what the rules of exports do not admit any longer, whoever holds it.
    pub fn follow(&self, namespace: &SharedNamespace) {
        let Some(namespace) = self.followed.next(namespace) else { return };
        let clients: Vec<Arc<Client>> = self.clients().all().cloned().collect();
        for ended in clients.iter().flat_map(|client| client.withdraw(&namespace)) {
            match ended {
                Ended::Open(opened, claim) => _ = opened.file().claim(&Request::Close(claim)),
                Ended::Delegation(export, file, holder) => {
                    let (key, stream) = (LeaseKey::Delegation(holder), Stream::default());
                    let given_back = Request::Acknowledge { key, stream, keeps: Caching::NONE };
                    let volume = &export.volume;
                    volume.claims().request(volume.now(), &file, &given_back);
                }
            }
        }
    }

    /// What a client has that is silent for longer than its lease yields to others.
    pub(in crate::v4) fn fall_silent(&self, client: &Client) {
        // Before others get what it has: after a restart it would not know (RFC 8881 §8.4.3).
        self.forget(client);
        lapse(client);
        // Heard meanwhile, it had nothing to get back yet, and is on record no longer.
        if self.second().saturating_sub(client.heard()) <= u64::from(self.lease_s) {
            self.regain(client);
        }
    }

    /// What a client has is its own again.
    fn regain(&self, client: &Client) {
        for holding in client.held().holders() {
            holding.export.volume.claims().renew(holding.id);
        }
        // Who has lost something finds that out first.
        let is_recorded = client.has_reclaimed() || client.open_owners().is_some();
        if is_recorded && !client.has_lost() {
            self.remember(client);
        }
    }

    /// Whether clients that speak a minor version may keep times of files that are delegated to them for writing.
    pub(crate) fn delegates_times(&self, minor: u32) -> bool {
        minor >= 2 && self.delegates_writing
    }

    /// The seconds since the start.
    pub(crate) fn second(&self) -> u64 {
        self.second.load(Ordering::Relaxed)
    }

    /// A client is heard: what it holds is its own again.
    pub(crate) fn hear(&self, client: &Client) {
        let now = self.second();
        let before = client.heard();
        if before == now {
            return;
        }
        client.hear(now);
        if now - before > u64::from(self.lease_s) {
            self.regain(client);
        }
    }

    /// Ends all that a client has.
    fn end(&self, client: &Client) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let ended = sessions.extract_if(|_, session| session.client.id == client.id);
        ended.for_each(|(_, session)| session.end());
        drop(sessions);
        self.end_40(client);
        self.forget(client);
        client.callbacks.clear();
        let holdings = client.end();
        for holding in holdings {
            let volume = &holding.export.volume;
            let effects = volume.claims().drop_holder(volume.now(), holding.id);
            volume.claims().dispatch(effects);
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a client may have another session beside these, each given by its client. Those that the client had before its
/// restart end with it.
fn has_room<'c>(sessions: impl Iterator<Item = &'c Client>, client: &Client) -> bool {
    let (mut all, mut near) = (0, 0);
    for other in sessions.filter(|other| other.id == client.id || other.owner != client.owner) {
        all += 1;
        near += usize::from(other.principal.address == client.principal.address);
    }
    all < SESSIONS_MAX && near < SESSIONS_MAX / 4
}

/// What a client holds yields to whoever wants it.
fn lapse(client: &Client) {
    for holding in client.held().holders() {
        let volume = &holding.export.volume;
        let claims: &Claims = volume.claims();
        let effects = claims.lapse(volume.now(), holding.id);
        claims.dispatch(effects);
    }
}
