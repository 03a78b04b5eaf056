//! State of NFSv4: clients, sessions, opens, locks and delegations.

pub(crate) mod binding;
pub(crate) mod callbacks;
pub(crate) mod channel;
pub(crate) mod client;
mod client_ids;
pub mod client_info;
pub(crate) mod client_name;
pub(crate) mod clients;
pub(crate) mod copier;
pub(crate) mod copies;
pub(crate) mod delegations;
pub(crate) mod pending_recalls;
pub mod records;
mod revoked;
pub(crate) mod session;
pub(crate) mod slots;
pub(crate) mod state_table;
pub(crate) mod tables;
pub(crate) mod v40;
pub(crate) mod waiting;
pub(crate) mod wire;
pub(crate) mod write_delegations;

use super::namespace_tracker::NamespaceTracker;
use crate::id_map::IdNames;
use channel::Agreement;
use client::{Client, Principal};
use clients::{Clients, Introduction};
use copier::Copier;
use nfs_wire::v4::{ChannelAttrs, ClientId, SessionId, Status, Verifier};
use pending_recalls::ClientNotifier;
use records::{ClientRecords, Identity};
use session::Session;
use state_table::{VolumeHolder, WithdrawnClaim};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use tables::{Table, Tables};
use vfs::bounds::Slot;
use vfs::claims::{Caching, Claims, Grace, HolderId, LeaseKey, Request, Stream};
use vfs::sync::{Mutex, RwLock};
use vfs::{SharedNamespace, VolumeId};
use write_delegations::WriteDelegations;

pub struct ServiceState {
    /// Seconds for which a client keeps its state without contact.
    pub(crate) lease_s: u32,
    pub(crate) minors: RangeInclusive<u32>,
    /// The clients recorded for a restart. The number of this start is part of every client id.
    records: Arc<ClientRecords>,
    /// The grace period after a restart.
    pub(crate) grace: Grace,
    /// Users and groups by name; `None` where they are numbers.
    pub(crate) names: Option<IdNames>,
    pub(crate) port: u16,
    /// The unique name of this service (`so_major_id`).
    pub(crate) name: Box<[u8]>,
    /// The name of the services that belong together (`eir_server_scope`): that of this service, if it is alone.
    pub(crate) scope: Box<[u8]>,
    clients: Mutex<Clients>,
    sessions: RwLock<HashMap<SessionId, Arc<Session>>>,
    sessions_made: AtomicU64,
    secret: RandomState,
    pub(crate) tables: Tables,
    v40: v40::Shared,
    /// Seconds since the start.
    second: Arc<AtomicU64>,
    /// Delivers recalls and lock notices to clients.
    pub(crate) notifier: ClientNotifier,
    /// Files that are delegated for writing.
    pub(crate) writers: Arc<WriteDelegations>,
    /// Whether write delegations are enabled.
    pub(crate) delegates_writing: bool,
    pub(crate) copier: Copier,
    /// The namespace against which state was last checked.
    pub(crate) namespace_tracker: NamespaceTracker,
}

pub(crate) const DEFAULT_PORT: u16 = 2049;
/// Leases without contact after which a client with nothing but sessions is dropped.
const IDLE_LEASES: u64 = 2;
/// Seconds for which the state of a client stays after its lease, unless another client wants it (RFC 8881 §8.4.2.4).
const COURTESY_S: u64 = 24 * 3600;

impl ServiceState {
    /// The state of a service that records no clients. `name` is its unique name, `random` identifies this start.
    pub fn new(random: u32, name: &[u8], lease_s: u32) -> Self {
        let (notifier, tables) = (ClientNotifier::default(), Tables::default());
        Self {
            lease_s,
            minors: 0..=2,
            records: Arc::new(ClientRecords::in_memory(random)),
            grace: Grace::default(),
            names: None,
            port: DEFAULT_PORT,
            name: name.into(),
            scope: name.into(),
            clients: Mutex::new(Clients::new(&tables.introductions)),
            sessions: RwLock::default(),
            sessions_made: AtomicU64::new(0),
            secret: RandomState::new(),
            v40: v40::Shared::new(&tables.introductions_40),
            copier: Copier::default(),
            tables,
            second: Arc::clone(&notifier.second),
            notifier,
            writers: Arc::default(),
            delegates_writing: false,
            namespace_tracker: NamespaceTracker::default(),
        }
    }

    /// Makes this one of several services that move between machines. Linux clients give up reclaiming their state when they
    /// find another scope.
    pub fn in_scope(self, scope: &[u8]) -> Self {
        Self { scope: scope.into(), ..self }
    }

    /// Adds the clients recorded before a restart, which reclaim state until `grace` ends.
    #[must_use]
    pub fn restarted_with(self, records: Arc<ClientRecords>, grace: Grace) -> Self {
        Self { records, grace, ..self }
    }

    /// Enables or disables write delegations.
    #[must_use]
    pub fn delegating_writes(self, delegates_writing: bool) -> Self {
        Self { delegates_writing, ..self }
    }

    #[must_use]
    pub fn at_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Sets the names of users and groups.
    #[must_use]
    pub fn with_names(self, names: Option<IdNames>) -> Self {
        Self { names, ..self }
    }

    /// Checks that a client may reclaim state: it was recorded before the restart, and has not sent RECLAIM_COMPLETE.
    pub(crate) fn check_reclaims(&self, client: &Client) -> Result<(), Status> {
        let is_over = client.has_reclaimed() || !self.grace.is_active();
        if is_over || self.records.record_before_restart(&client.identity).is_none() {
            return Err(Status::NO_GRACE);
        }
        // Recorded before it has state: it may reclaim this state after the next restart as well.
        self.write_record(client);
        Ok(())
    }

    /// Whether clients may still claim opens again that they had before a restart.
    #[inline]
    pub(crate) fn are_opens_reclaimed(&self) -> bool {
        self.grace.is_active() && self.records.expects_clients()
    }

    /// Handles RECLAIM_COMPLETE; false if it is a repetition.
    pub(crate) fn complete_reclaim(&self, client: &Client) -> bool {
        if !client.complete_reclaim() {
            return false;
        }
        // A stranger has no state. It is recorded if it ever opens a file.
        if !client.party.is_stranger {
            self.write_record(client);
        }
        if let Some(record) = self.records.record_before_restart(&client.identity) {
            self.grace.complete(record);
        }
        true
    }

    /// Records a client that opens a file, if no export rule admitted it at its RECLAIM_COMPLETE.
    #[inline]
    pub(crate) fn record(&self, client: &Client) {
        if client.party.is_stranger && client.has_reclaimed() && !client.was_recorded() {
            self.write_record(client);
        }
    }

    /// Records a client before it has any state. Where that cannot be written it is served all the same, and has nothing to claim after
    /// a restart.
    fn write_record(&self, client: &Client) {
        client.note_record();
        if let Err(error) = self.records.remember(&client.identity, &client.party) {
            tracing::warn!(client = client.id, %error, "cannot record a client: it cannot reclaim state after a restart");
        }
    }

    /// Has a restart not wait for a client, nor let it claim anything.
    fn erase_record(&self, client: &Client) {
        if let Err(error) = self.records.forget(&client.identity) {
            tracing::error!(client = client.id, %error, "cannot remove the record of an expired client");
        }
    }

    /// Finds or makes the client of an introduction.
    pub(crate) fn introduce(&self, who: &Introduction<'_>) -> Result<Arc<Client>, Status> {
        let now = self.second();
        let is_heard = |client: &Client| now.saturating_sub(client.last_seen()) <= u64::from(self.lease_s);
        self.check_record(who.owner, who.verifier, who.principal)?;
        let introduced = self.clients().introduce(self.records.boot(), who, is_heard);
        let (client, ended) = introduced?;
        if let Some(ended) = ended {
            self.end(&ended);
        }
        client.mark_seen(now);
        client.add_address(who.principal.address);
        Ok(client)
    }

    /// Checks an introduction: in the grace period, no other client may take the name of a recorded one.
    fn check_record(&self, owner: &[u8], verifier: Verifier, principal: Principal) -> Result<(), Status> {
        let identity = || Identity::new(owner, verifier, principal);
        let is_taken = self.grace.is_active() && self.records.is_of_other_client(&identity());
        if is_taken { Err(Status::DELAY) } else { Ok(()) }
    }

    /// The client with this number, if it knows sessions.
    pub(crate) fn client(&self, id: ClientId) -> Result<Arc<Client>, Status> {
        let client = self.clients().get(id).cloned();
        client.filter(|client| client.open_owners().is_none()).ok_or(Status::STALE_CLIENTID)
    }

    /// Creates a session, which ends the client's earlier instance.
    pub(crate) fn add_session(
        &self,
        client: &Arc<Client>,
        fore: ChannelAttrs,
        back: Agreement,
    ) -> Result<Arc<Session>, Status> {
        let number = self.sessions_made.fetch_add(1, Ordering::Relaxed);
        // The session id is a bearer secret: it must be unpredictable.
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.secret.hash_one((number, 0)).to_be_bytes());
        id[8..].copy_from_slice(&self.secret.hash_one((number, 1)).to_be_bytes());
        let (slot, room) = self.room_for_session(client)?;
        let session = Arc::new(Session::new(
            id,
            Arc::clone(client),
            back.minor,
            fore,
            room,
            &self.tables.cached_replies,
        ));
        {
            let mut sessions = self.sessions.write();
            client.count_session(true);
            sessions.insert(id, Arc::clone(&session));
        }
        client.callbacks.add_session(id, back, &session.back_status);
        let confirmed = self.clients().confirm(client, slot);
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

    /// Reserves room for a session, and for its client if the session confirms it. A restarted client reuses the room
    /// of its earlier instance.
    fn room_for_session(&self, client: &Arc<Client>) -> Result<(Option<Slot>, Slot), Status> {
        let (is_confirmed, before) = {
            let clients = self.clients();
            let is_confirmed = clients.is_confirmed(client);
            let before = if is_confirmed { None } else { clients.unconfirmed(client)? };
            (is_confirmed, before.and_then(|before| clients.get(before).cloned()))
        };
        let has_room = is_confirmed || before.is_some();
        let slot = if has_room { None } else { Some(self.reserve(Table::Clients, &client.party, client)?) };
        // The sessions of the earlier instance end with this one.
        let ends_one = before.is_some_and(|before| before.has_sessions());
        let sessions = &self.tables.sessions;
        let room = if ends_one {
            sessions.force(&client.party, 1)
        } else {
            self.reserve(Table::Sessions, &client.party, client)?
        };
        Ok((slot, room))
    }

    pub(crate) fn session(&self, id: &SessionId) -> Result<Arc<Session>, Status> {
        let sessions = self.sessions.read();
        sessions.get(id).cloned().ok_or(Status::BADSESSION)
    }

    pub(crate) fn remove_session(&self, id: &SessionId) -> Result<(), Status> {
        let mut sessions = self.sessions.write();
        let session = sessions.remove(id).ok_or(Status::BADSESSION)?;
        drop(sessions);
        session.end();
        session.client.count_session(false);
        session.client.callbacks.remove_session(id);
        Ok(())
    }

    /// Ends a client without sessions and state, on request of its user.
    pub(crate) fn remove_client(&self, id: ClientId, caller: &Principal) -> Result<(), Status> {
        let client = self.client(id)?;
        // A caller elsewhere must not learn that the client exists.
        if !client.has_address(caller.address) {
            return Err(Status::STALE_CLIENTID);
        }
        if !client.may_destroy(caller) {
            return Err(Status::WRONG_CRED);
        }
        if client.has_state() {
            return Err(Status::CLIENTID_BUSY);
        }
        self.clients().remove(&client);
        self.end(&client);
        Ok(())
    }

    /// The client that is this holder among the claims of a volume.
    pub(crate) fn holding(&self, volume: VolumeId, holder: HolderId) -> Option<Arc<Client>> {
        self.notifier.client(volume, holder)
    }

    /// A second has passed: leases end.
    pub fn tick(&self) {
        let second = self.second.fetch_add(1, Ordering::Relaxed) + 1;
        let clients: Vec<Arc<Client>> = self.clients().all().cloned().collect();
        let lease = u64::from(self.lease_s);
        self.tick_40(second, &clients);
        for client in clients {
            client.states().stop_waiting(|lock| lock.until < second);
            client.callbacks.tick(second, |stateid| client.states().index_of(stateid).is_some());
            let silent = second.saturating_sub(client.last_seen());
            // State outlives its lease as a courtesy (RFC 8881 §8.4.2.4); sessions alone do so only briefly.
            let ends_after = match client.has_state() {
                false => lease,
                true if client.states().is_empty() => IDLE_LEASES * lease,
                true => lease + COURTESY_S,
            };
            if silent > ends_after {
                self.clients().remove(&client);
                self.end(&client);
            } else if silent == lease + 1 {
                self.expire_lease(&client);
            }
        }
    }

    /// Ends state that export rules no longer admit.
    pub fn apply_namespace(&self, namespace: &SharedNamespace) {
        let Some(namespace) = self.namespace_tracker.next(namespace) else { return };
        let clients: Vec<Arc<Client>> = self.clients().all().cloned().collect();
        for ended in clients.iter().flat_map(|client| client.withdraw(&namespace)) {
            match ended {
                WithdrawnClaim::Open(opened, claim) => _ = opened.file().claim(&Request::Close(claim)),
                WithdrawnClaim::Delegation(export, file, holder) => {
                    let (key, stream) = (LeaseKey::Delegation(holder), Stream::default());
                    let acknowledge = Request::Acknowledge { key, stream, keeps: Caching::NONE };
                    let volume = &export.volume;
                    volume.claims().request(volume.now(), &file, &acknowledge);
                }
            }
        }
        // They would keep a volume open that is to close.
        let holdings = clients.iter().flat_map(|client| client.states().take_unserved(&namespace));
        self.drop_holders(holdings.collect());
    }

    fn drop_holders(&self, holdings: Vec<VolumeHolder>) {
        for holding in holdings {
            let volume = &holding.export.volume;
            self.notifier.forget(volume.id(), holding.id);
            let effects = volume.claims().drop_holder(volume.now(), holding.id);
            volume.claims().dispatch(effects);
        }
    }

    /// Lets the claims of a client yield to others after its lease.
    pub(crate) fn expire_lease(&self, client: &Client) {
        // Erased before others can get its claims: after a restart it could not know of the loss (RFC 8881 §8.4.3).
        self.erase_record(client);
        lapse(client);
        // A request arrived meanwhile: the client has lost nothing yet, and must be recorded again.
        if self.second().saturating_sub(client.last_seen()) <= u64::from(self.lease_s) {
            self.restore_claims(client);
        }
    }

    /// Makes the claims of a client its own again.
    fn restore_claims(&self, client: &Client) {
        for holding in client.states().holders() {
            holding.export.volume.claims().renew(holding.id);
        }
        // A client that lost claims must learn of it first.
        let is_recorded = client.has_reclaimed() || client.open_owners().is_some();
        let has_nothing = client.party.is_stranger && !client.was_recorded();
        if is_recorded && !has_nothing && !client.has_revoked_claims() {
            self.write_record(client);
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

    /// Renews the lease of a client, and restores its claims if it had expired.
    pub(crate) fn renew_lease(&self, client: &Client) {
        let now = self.second();
        let before = client.last_seen();
        if before == now {
            return;
        }
        client.mark_seen(now);
        if now - before > u64::from(self.lease_s) {
            self.restore_claims(client);
        }
    }

    fn end(&self, client: &Client) {
        let mut sessions = self.sessions.write();
        let ended = sessions.extract_if(|_, session| session.client.id == client.id);
        ended.for_each(|(_, session)| session.end());
        drop(sessions);
        self.end_40(client);
        self.erase_record(client);
        client.callbacks.clear();
        self.drop_holders(client.end());
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock()
    }
}

/// Lets the claims of a client yield to others.
fn lapse(client: &Client) {
    for holding in client.states().holders() {
        let volume = &holding.export.volume;
        let claims: &Claims = volume.claims();
        let effects = claims.lapse(volume.now(), holding.id);
        claims.dispatch(effects);
    }
}
