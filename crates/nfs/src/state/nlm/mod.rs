//! [`Locks`]: the locks of all clients of the lock manager. They are claims of volumes; this module adds owners and
//! waits.
//!
//! Each client, an address, is a holder of claims in each volume. The one lock is taken before a volume's claims;
//! effects are delivered after it is released.

mod grant;
pub(crate) mod table;

use super::namespace_tracker::NamespaceTracker;
use super::nsm::hosts::LockHosts;
use super::nsm::notify::Restart;
use crate::limits::LOCK_WAIT_S;
use crate::outgoing::workers::Workers;
use crate::outgoing::{Caller, Outgoing};
use crate::status::nlm::from_conflict;
use nfs_wire::nlm::{Procedure, Status};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;
use table::{GrantArgs, Host, OwnerName, RangeKey, State, Table, WaitingLock};
use transport::ReplyDeadline;
use vfs::bounds::{Networks, Party};
use vfs::claims::{
    Conflict, Effect, HolderId, LockOwner, LockRequest, Queueing, Request, Span, Stream, Verdict,
};
use vfs::qos::Nanos;
use vfs::sync::Mutex;
use vfs::{ExportAccess, File, Namespace, SharedNamespace, Volume, VolumeId};

pub struct Locks(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Effects on clients' claims that are not processed yet.
    pub(crate) events: Mutex<Vec<ClaimEvent>>,
    /// Whether processing of `events` is scheduled.
    pub(crate) is_processing_scheduled: AtomicBool,
    pub(crate) workers: Arc<Workers>,
    networks: Networks,
    pub(crate) caller: Caller,
    /// The clients that a restart has to tell; `None`: nothing is kept.
    pub(crate) hosts: Option<Arc<LockHosts>>,
    /// The notices of our own restart, while they are sent.
    pub(crate) restart: Mutex<Option<Restart>>,
    /// The namespace against which locks were last checked.
    namespace_tracker: NamespaceTracker,
}

pub(crate) struct ClaimEvent {
    pub(crate) client: IpAddr,
    pub(crate) volume: VolumeId,
    pub(crate) effect: Effect,
}

/// A client as the claims of a volume reach it.
struct ClientHolder {
    locks: Weak<Shared>,
    client: IpAddr,
    volume: VolumeId,
}

/// A lock request.
pub(crate) struct LockCall<'a> {
    pub(crate) file: &'a File,
    pub(crate) client: IpAddr,
    pub(crate) owner: OwnerName,
    pub(crate) span: Span,
    pub(crate) is_exclusive: bool,
    pub(crate) grant_args: GrantArgs,
    /// The export access that the lock needs.
    pub(crate) admission: ExportAccess,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct LockOptions {
    pub(crate) waits: bool,
    pub(crate) reclaims: bool,
    /// The state number of the client's status monitor; `None` if the client needs no notice of a restart.
    pub(crate) monitor: Option<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConflictingLock {
    pub(crate) owner: OwnerName,
    pub(crate) span: Span,
    pub(crate) is_exclusive: bool,
}

/// An owner without locks, for tests of locks.
const NOBODY: u64 = u64::MAX;

impl Default for Locks {
    fn default() -> Self {
        Self::new(None, portmap_port())
    }
}

const fn portmap_port() -> u16 {
    const { assert!(nfs_wire::portmap::PORT == 111) }
    111
}

impl Locks {
    pub(crate) fn mark_seen(&self, client: IpAddr) {
        self.0.state().mark_seen(client);
    }

    /// An empty table. `hosts` records the clients with locks; clients' port mappers are at `portmap_port`.
    pub fn new(hosts: Option<Arc<LockHosts>>, portmap_port: u16) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            events: Mutex::default(),
            is_processing_scheduled: AtomicBool::new(false),
            networks: Networks::default(),
            workers: Arc::default(),
            caller: Caller::new(portmap_port),
            hosts,
            restart: Mutex::default(),
            namespace_tracker: NamespaceTracker::default(),
        }))
    }

    /// Sets the networks of clients, before the first request.
    #[must_use]
    pub fn among(mut self, networks: Networks) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.networks = networks;
        }
        self
    }

    /// Sets the time after which no client is called, before the first request.
    #[must_use]
    pub fn calling_until(mut self, deadline: ReplyDeadline) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.caller.deadline = deadline;
        }
        self
    }

    /// Notifies the clients that had locks before a restart, and lets them reclaim for `grace`. Clients' port mappers
    /// are at the standard port.
    pub fn restarted_with(hosts: Arc<LockHosts>, grace: Duration) -> Self {
        let locks = Self::new(Some(hosts), portmap_port());
        locks.notify_restart(grace);
        locks
    }

    /// Notifies the clients that had locks before a restart.
    pub(crate) fn notify_restart(&self, grace: Duration) {
        if let Some(hosts) = self.0.hosts.as_ref().filter(|hosts| !hosts.earlier().is_empty()) {
            *self.0.restart() = Some(Restart::new(hosts.earlier(), hosts.state(), grace));
        }
    }

    /// The state number of our status monitor: odd, and larger after each restart.
    pub(crate) fn monitor_state(&self) -> u32 {
        self.0.hosts.as_ref().map_or(1, |hosts| hosts.state())
    }

    /// Whether a lock of this client would have to be recorded first.
    pub(crate) fn is_recorded(&self, client: IpAddr) -> bool {
        self.0.is_recorded(client)
    }

    pub(crate) fn test(&self, lock_call: &LockCall<'_>) -> Result<(), (Status, Option<ConflictingLock>)> {
        let (file, volume) = (lock_call.file, &lock_call.file.export().volume);
        let claims = volume.claims();
        if claims.is_in_grace() {
            return Err((Status::DENIED_GRACE_PERIOD, None));
        }
        let mut state = self.0.state();
        state.mark_seen(lock_call.client);
        let holder = state.holder_in(lock_call.client, volume);
        let owner =
            state.hosts.get(&lock_call.client).and_then(|host| host.known_owner_number(&lock_call.owner));
        // A client without claims has no holder. Holders are numbered from 1.
        let owner = LockOwner { holder: holder.unwrap_or(HolderId(0)), owner: owner.unwrap_or(NOBODY) };
        let request = lock_call.request(owner, Queueing::Never, false);
        let (tested, effects) = claims.apply(volume.now(), &file.key(), &Request::TestLock(request));
        let answer = match tested {
            Verdict::Refused(Conflict::Range { owner, span, is_exclusive }) => {
                let owner = state.owner_name(volume.id(), owner);
                Err((Status::DENIED, Some(ConflictingLock { owner, span, is_exclusive })))
            }
            Verdict::Refused(conflict) => Err((from_conflict(conflict), None)),
            Verdict::Granted(_) | Verdict::Wait(_) => Ok(()),
        };
        drop(state);
        claims.dispatch(effects);
        answer
    }

    /// Takes a lock, or waits for it.
    pub(crate) fn lock(&self, lock_call: &LockCall<'_>, options: LockOptions) -> Status {
        loop {
            // The client may be evicted between recording and locking, and is then recorded again.
            if options.monitor.is_some() && !self.record(lock_call.client, lock_call.grant_args.local) {
                return Status::DENIED_NOLOCKS;
            }
            if let Some((status, effects)) = self.0.lock(lock_call, options) {
                lock_call.file.volume().claims().dispatch(effects);
                return status;
            }
        }
    }

    /// Has a restart tell the client, which knows us by the address `local`; `false`: that cannot be
    /// promised.
    pub(crate) fn record(&self, client: IpAddr, local: IpAddr) -> bool {
        let Some(hosts) = &self.0.hosts else { return true };
        let party = self.0.party(client);
        let mut added = hosts.add(client, local, &party);
        let is_full = || self.0.state().check_room(client, &party, Table::Hosts).is_err();
        // The records of evicted clients make room.
        if added.is_err() && is_full() && self.0.make_room(client, &party, Table::Hosts) {
            self.0.forget_records();
            added = hosts.add(client, local, &party);
        }
        if let Err(error) = &added {
            tracing::error!(%client, %error, "cannot record a client, so it gets no locks");
        }
        added.is_ok()
    }

    /// Releases a lock. Releasing bytes that are not locked succeeds.
    pub(crate) fn unlock(&self, lock_call: &LockCall<'_>) -> Status {
        let volume = &lock_call.file.export().volume;
        let claims = volume.claims();
        let mut state = self.0.state();
        let Some((holder, key)) = state.key(lock_call) else { return Status::GRANTED };
        state.mark_seen(lock_call.client);
        let owner = LockOwner { holder, owner: key.owner };
        let splits = || claims.is_split_by(&key.file, owner, Stream::default(), &lock_call.span);
        if !state.has_room_to_hold(lock_call.client, &self.0.party(lock_call.client)) && splits() {
            return Status::DENIED_NOLOCKS;
        }
        // A granted lock that the client has not confirmed is released with the range.
        let is_given = |waiting: &WaitingLock| {
            waiting.granted.is_some() && waiting.key == key && waiting.request.span.overlaps(&lock_call.span)
        };
        while state.remove_waiting(lock_call.client, is_given).is_some() {}
        let (verdict, effects) = unlock(volume, owner, &key, lock_call.span);
        state.settle(lock_call.client, claims, holder, key);
        drop(state);
        claims.dispatch(effects);
        match verdict {
            Verdict::Refused(conflict) => from_conflict(conflict),
            Verdict::Granted(_) | Verdict::Wait(_) => Status::GRANTED,
        }
    }

    /// Cancels a wait.
    pub(crate) fn cancel(&self, lock_call: &LockCall<'_>) -> Status {
        let volume = &lock_call.file.export().volume;
        let claims = volume.claims();
        let mut state = self.0.state();
        let Some((holder, key)) = state.key(lock_call) else { return Status::DENIED };
        state.mark_seen(lock_call.client);
        let is_it = |waiting: &WaitingLock| waiting.is(&key, lock_call);
        let Some(waiting) = state.remove_waiting(lock_call.client, is_it) else { return Status::DENIED };
        let cancel = Request::Cancel(waiting.ticket);
        let (verdict, mut effects) = claims.apply(volume.now(), &key.file, &cancel);
        if let Verdict::Refused(_) = verdict {
            // The lock was granted meanwhile, without the client's knowledge.
            let owner = LockOwner { holder, owner: key.owner };
            effects.extend(unlock(volume, owner, &key, lock_call.span).1);
        }
        state.settle(lock_call.client, claims, holder, key);
        drop(state);
        claims.dispatch(effects);
        Status::GRANTED
    }

    /// A client has got something that `by` has admitted.
    pub(crate) fn note_grant(&self, by: &Namespace, shared: &SharedNamespace) {
        self.0.namespace_tracker.note_grant(by, shared);
    }

    /// Ends locks and waits that export rules no longer admit.
    pub fn apply_namespace(&self, namespace: &SharedNamespace) {
        let Some(namespace) = self.0.namespace_tracker.next(namespace) else { return };
        let clients: Vec<IpAddr> = self.0.state().hosts.keys().copied().collect();
        clients.into_iter().for_each(|client| self.0.withdraw(client, &namespace));
    }

    pub(crate) fn free_all(&self, client: IpAddr) {
        self.0.free_all(client, |_| true);
    }

    /// Handles a client's notice of a restart, with its state number: its earlier locks end.
    pub(crate) fn restarted(&self, client: IpAddr, monitor_state: u32) {
        let existing = self.0.state().hosts.get(&client).map(|host| host.monitor_state);
        // Locks with this state number are newer than the notice.
        if existing.is_some_and(|existing| existing == 0 || existing != monitor_state) {
            self.free_all(client);
        }
    }

    /// Sends the result of an asynchronous call, as a call of ours (RFC 1813 §6.2).
    pub(crate) fn send_result(&self, result: Outgoing, port: u16) {
        let (shared, party) = (Arc::clone(&self.0), self.0.party(result.host));
        let (host, procedure) = (result.host, Procedure(result.procedure));
        let send = move || {
            shared.caller.send(&result, port);
            None
        };
        if !self.0.workers.submit(host, &party, send) {
            tracing::debug!(?procedure, "dropped a result: the queue is full");
        }
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn restart(&self) -> MutexGuard<'_, Option<Restart>> {
        self.restart.lock()
    }

    /// The client for bounds. An export admitted it, since it has a handle.
    pub(crate) fn party(&self, client: IpAddr) -> Party {
        Party::of(self.networks.of(client))
    }

    /// Makes room for another entry by evicting clients that are idle or unresponsive. Returns whether there is room.
    pub(crate) fn make_room(&self, client: IpAddr, party: &Party, table: Table) -> bool {
        loop {
            let first = {
                let state = self.state();
                match state.check_room(client, party, table) {
                    Ok(()) => return true,
                    Err(full) => state.eviction_candidate(client, party, table, full),
                }
            };
            let Some(first) = first else { return false };
            tracing::debug!(client = %first, ?table, "evicting an idle or unresponsive client");
            self.free_all(first, Host::may_be_evicted);
        }
    }

    /// Whether the client will be notified of a restart.
    pub(crate) fn is_recorded(&self, client: IpAddr) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.has(client))
    }

    /// Takes a lock. `None`: the client was forgotten meanwhile, and has to be recorded first.
    fn lock(
        self: &Arc<Self>,
        lock_call: &LockCall<'_>,
        options: LockOptions,
    ) -> Option<(Status, Vec<Effect>)> {
        let volume = &lock_call.file.export().volume;
        let claims = volume.claims();
        let (client, party) = (lock_call.client, self.party(lock_call.client));
        let has_room =
            [Table::Hosts, Table::Locks].iter().all(|&table| self.make_room(client, &party, table));
        let has_room_to_wait = has_room && options.waits && self.make_room(client, &party, Table::Waits);
        let mut state = self.state();
        if options.monitor.is_some() && !self.is_recorded(lock_call.client) {
            return None;
        }
        let refused = Some((Status::DENIED_NOLOCKS, Vec::new()));
        if !state.has_room_to_hold(client, &party) {
            return refused;
        }
        let Some(host) = state.admit(client, &party) else { return refused };
        host.local = Some(lock_call.grant_args.local);
        let Some(holder) = self.holder(&mut state, client, &party, volume) else { return refused };
        let has_room_to_wait = has_room_to_wait && state.has_room_to_wait(client, &party);
        let Some(host) = state.hosts.get_mut(&lock_call.client) else { return refused };
        host.monitor_state = options.monitor.unwrap_or(host.monitor_state);
        let key = lock_call.key(host.owner_number(lock_call.owner.clone()));
        host.admit(key, lock_call.admission);
        let existing = host.waiting.iter().find(|waiting| waiting.is(&key, lock_call));
        let is_queued = existing.is_some_and(|waiting| waiting.granted.is_none());
        if is_queued && options.waits {
            return Some((Status::BLOCKED, Vec::new()));
        }
        let queueing = if options.waits && has_room_to_wait { until(volume) } else { Queueing::Never };
        let owner = LockOwner { holder, owner: key.owner };
        let request = lock_call.request(owner, queueing, options.reclaims);
        let (verdict, mut effects) = claims.apply(volume.now(), &key.file, &Request::Lock(request));
        let status = match verdict {
            Verdict::Granted(_) => {
                if let Some(before) =
                    state.remove_waiting(lock_call.client, |waiting| waiting.is(&key, lock_call))
                {
                    // A lock that was granted already has no ticket.
                    let cancel = Request::Cancel(before.ticket);
                    effects.extend(claims.apply(volume.now(), &key.file, &cancel).1);
                }
                Status::GRANTED
            }
            Verdict::Wait(ticket) => {
                let grant_args = lock_call.grant_args.clone();
                state.add_waiting(
                    lock_call.client,
                    WaitingLock { key, ticket, request, grant_args, granted: None },
                );
                Status::BLOCKED
            }
            Verdict::Refused(Conflict::Range { .. }) if options.waits && !has_room_to_wait => {
                Status::DENIED_NOLOCKS
            }
            Verdict::Refused(conflict) => from_conflict(conflict),
        };
        state.settle(lock_call.client, claims, holder, key);
        Some((status, effects))
    }

    fn withdraw(&self, client: IpAddr, namespace: &Namespace) {
        let mut ended = Vec::new();
        let mut state = self.state();
        let (places, shares) = state.withdraw(client, namespace);
        for key in places {
            let Some((volume, holder)) = state.volume_holder(client, key.volume) else { continue };
            let owner = LockOwner { holder, owner: key.owner };
            let mut effects = Vec::new();
            while let Some(waiting) = state.remove_waiting(client, |waiting| waiting.key == key) {
                let cancel = Request::Cancel(waiting.ticket);
                effects.extend(volume.claims().apply(volume.now(), &key.file, &cancel).1);
            }
            effects.extend(unlock(&volume, owner, &key, Span::ALL).1);
            state.settle(client, volume.claims(), holder, key);
            ended.push((volume, effects));
        }
        for share in shares {
            let Some((volume, _)) = state.volume_holder(client, share.volume) else { continue };
            let effects = volume.claims().apply(volume.now(), &share.file, &Request::Close(share.open)).1;
            ended.push((volume, effects));
        }
        drop(state);
        ended.into_iter().for_each(|(volume, effects)| volume.claims().dispatch(effects));
    }

    /// The client as a holder of claims of a volume, from now on if it was none.
    pub(crate) fn holder(
        self: &Arc<Self>,
        state: &mut State,
        client: IpAddr,
        party: &Party,
        volume: &Arc<Volume>,
    ) -> Option<HolderId> {
        state.holder(client, party, volume, || self.attach(client, volume))
    }

    fn attach(self: &Arc<Self>, client: IpAddr, volume: &Volume) -> HolderId {
        let holder = ClientHolder { locks: Arc::downgrade(self), client, volume: volume.id() };
        volume.claims().attach(Arc::new(holder))
    }

    /// Ends all that a client holds and waits for, and forgets it, if this is true of it.
    pub(crate) fn free_all(&self, client: IpAddr, is_to_go: impl FnOnce(&Host) -> bool) {
        let ended: Vec<_> = {
            let mut state = self.state();
            if !state.hosts.get(&client).is_some_and(is_to_go) {
                return;
            }
            let holders = state.remove(client);
            let end = |(volume, holder): (Arc<Volume>, HolderId)| {
                let effects = volume.claims().drop_holder(volume.now(), holder);
                (volume, effects)
            };
            holders.into_iter().map(end).collect()
        };
        for (volume, effects) in ended {
            volume.claims().dispatch(effects);
        }
    }
}

impl vfs::claims::Holder for ClientHolder {
    fn deliver(&self, effect: Effect) {
        let Some(locks) = self.locks.upgrade() else { return };
        let event = ClaimEvent { client: self.client, volume: self.volume, effect };
        locks.events.lock().push(event);
        locks.schedule_events();
    }
}

impl State {
    /// The key of a lock whose owner has or waits for a range.
    fn key(&self, lock_call: &LockCall<'_>) -> Option<(HolderId, RangeKey)> {
        let holder = self.holder_in(lock_call.client, &lock_call.file.export().volume)?;
        let host: &Host = self.hosts.get(&lock_call.client)?;
        Some((holder, lock_call.key(host.known_owner_number(&lock_call.owner)?)))
    }
}

impl LockCall<'_> {
    fn key(&self, owner: u64) -> RangeKey {
        RangeKey { volume: self.file.volume().id(), file: self.file.key(), owner }
    }

    fn request(&self, owner: LockOwner, queueing: Queueing, reclaims: bool) -> LockRequest {
        let Self { span, is_exclusive, .. } = *self;
        let stream = Stream::default();
        LockRequest { owner, open: None, stream, span, is_exclusive, is_enforced: false, reclaims, queueing }
    }
}

impl WaitingLock {
    fn is(&self, key: &RangeKey, lock_call: &LockCall<'_>) -> bool {
        let LockRequest { span, is_exclusive, .. } = self.request;
        self.key == *key && span == lock_call.span && is_exclusive == lock_call.is_exclusive
    }
}

pub(crate) fn until(volume: &Volume) -> Queueing {
    Queueing::Until(Nanos(volume.now().0.saturating_add(LOCK_WAIT_S * 1_000_000_000)))
}

/// Takes bytes from an owner.
pub(crate) fn unlock(
    volume: &Volume,
    owner: LockOwner,
    key: &RangeKey,
    span: Span,
) -> (Verdict, Vec<Effect>) {
    let request =
        Request::Unlock { owner, stream: Stream::default(), span, enforced: false, is_exclusive: None };
    volume.claims().apply(volume.now(), &key.file, &request)
}
