//! [`Locks`]: the locks of all clients of the lock manager. They are claims of the volumes; what is known
//! here besides is whose they are and who waits for one.
//!
//! Each client, an address, is a holder of claims in each volume. The one lock on what is known is taken
//! before those of a volume's claims and held while they are asked; effects are delivered after it is gone.

mod grant;
pub(crate) mod table;

use super::followed::Followed;
use super::nsm::hosts::LockHosts;
use super::nsm::notify::Restart;
use crate::limits::LOCK_WAIT_S;
use crate::outgoing::workers::Workers;
use crate::outgoing::{Caller, Outgoing};
use crate::status::nlm::of_conflict;
use nfs_wire::nlm::{Procedure, Status};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;
use table::{Host, Offer, OwnerName, Place, State, Table, Waiting};
use vfs::bounds::{Networks, Party};
use vfs::claims::{
    Conflict, Effect, HolderId, LockOwner, LockRequest, Queueing, Request, Span, Stream, Verdict,
};
use vfs::qos::Nanos;
use vfs::sync::Mutex;
use vfs::{ExportAccess, File, Namespace, SharedNamespace, Volume, VolumeId};

/// The locks of all clients.
pub struct Locks(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    state: Mutex<State>,
    /// What has happened to clients' claims and is not yet looked at.
    pub(crate) arrived: Mutex<Vec<Arrived>>,
    /// Somebody is about to look at it.
    pub(crate) is_looked_at: AtomicBool,
    pub(crate) workers: Arc<Workers>,
    networks: Networks,
    pub(crate) caller: Caller,
    /// The clients that a restart has to tell; `None`: nothing is kept.
    pub(crate) hosts: Option<Arc<LockHosts>>,
    /// Our own restart, while it is news.
    pub(crate) restart: Mutex<Option<Restart>>,
    /// The namespace whose rules admit what is held.
    followed: Followed,
}

/// What has happened to a client's claim.
pub(crate) struct Arrived {
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

/// A byte range as a client asks for it.
pub(crate) struct Asked<'a> {
    pub(crate) file: &'a File,
    pub(crate) client: IpAddr,
    pub(crate) owner: OwnerName,
    pub(crate) span: Span,
    pub(crate) is_exclusive: bool,
    pub(crate) offer: Offer,
    /// Permission to ask.
    pub(crate) admission: ExportAccess,
}

/// How a lock is asked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms {
    pub(crate) waits: bool,
    pub(crate) reclaims: bool,
    /// The state number of the client's status monitor; `None` if the client does not want to be told of a
    /// restart.
    pub(crate) monitor: Option<u32>,
}

/// What stands against a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) owner: OwnerName,
    pub(crate) span: Span,
    pub(crate) is_exclusive: bool,
}

/// An owner that never holds anything, for questions.
const NOBODY: u64 = u64::MAX;

impl Default for Locks {
    fn default() -> Self {
        Self::new(None, portmap_port())
    }
}

/// Where clients' port mappers are.
const fn portmap_port() -> u16 {
    const { assert!(nfs_wire::portmap::PORT == 111) }
    111
}

impl Locks {
    /// A client has called the lock manager.
    pub(crate) fn hear(&self, client: IpAddr) {
        self.0.state().hear(client);
    }

    /// No locks. `hosts` remembers over a restart who had some; clients' port mappers are at `portmap_port`.
    pub fn new(hosts: Option<Arc<LockHosts>>, portmap_port: u16) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            arrived: Mutex::default(),
            is_looked_at: AtomicBool::new(false),
            networks: Networks::default(),
            workers: Arc::default(),
            caller: Caller::new(portmap_port),
            hosts,
            restart: Mutex::default(),
            followed: Followed::default(),
        }))
    }

    /// The same for clients of these networks. Nothing may have been asked yet.
    #[must_use]
    pub fn among(mut self, networks: Networks) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.networks = networks;
        }
        self
    }

    /// The same for a service that was restarted: those who had locks are told, and may claim them again for
    /// as long as the grace period takes. Clients' port mappers are at their standard port.
    pub fn restarted_with(hosts: Arc<LockHosts>, grace: Duration) -> Self {
        let locks = Self::new(Some(hosts), portmap_port());
        locks.tell_restart(grace);
        locks
    }

    /// Tells those who had locks before a restart, from now on.
    pub(crate) fn tell_restart(&self, grace: Duration) {
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

    /// Whether a lock could be had; what stands against it.
    pub(crate) fn test(&self, asked: &Asked<'_>) -> Result<(), (Status, Option<Obstacle>)> {
        let (file, volume) = (asked.file, &asked.file.export().volume);
        let claims = volume.claims();
        if claims.is_in_grace() {
            return Err((Status::DENIED_GRACE_PERIOD, None));
        }
        let mut state = self.0.state();
        state.hear(asked.client);
        let holder = state.attached(asked.client, volume);
        let owner = state.hosts.get(&asked.client).and_then(|host| host.number_of(&asked.owner));
        // Who holds nothing is nobody; holders are numbered from 1.
        let owner = LockOwner { holder: holder.unwrap_or(HolderId(0)), owner: owner.unwrap_or(NOBODY) };
        let request = asked.request(owner, Queueing::Never, false);
        let (tested, effects) = claims.apply(volume.now(), &file.key(), &Request::TestLock(request));
        let answer = match tested {
            Verdict::Refused(Conflict::Range { owner, span, is_exclusive }) => {
                let owner = state.name_of(volume.id(), owner);
                Err((Status::DENIED, Some(Obstacle { owner, span, is_exclusive })))
            }
            Verdict::Refused(conflict) => Err((of_conflict(conflict), None)),
            Verdict::Granted(_) | Verdict::Wait(_) => Ok(()),
        };
        drop(state);
        claims.dispatch(effects);
        answer
    }

    /// Takes a lock, or waits for it.
    pub(crate) fn lock(&self, asked: &Asked<'_>, terms: Terms) -> Status {
        loop {
            if terms.monitor.is_some() && !self.record(asked.client, asked.offer.local) {
                return Status::DENIED_NOLOCKS;
            }
            if let Some((status, effects)) = self.0.lock(asked, terms) {
                asked.file.volume().claims().dispatch(effects);
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
        if added.is_err() && is_full() && self.0.make_room(client, &party, Table::Hosts) {
            self.0.forget_records();
            added = hosts.add(client, local, &party);
        }
        if let Err(error) = &added {
            tracing::error!(%client, %error, "a client cannot be recorded, and gets no locks");
        }
        added.is_ok()
    }

    /// Gives a lock back. What is not held is no error.
    pub(crate) fn unlock(&self, asked: &Asked<'_>) -> Status {
        let volume = &asked.file.export().volume;
        let claims = volume.claims();
        let mut state = self.0.state();
        let Some((holder, place)) = state.place(asked) else { return Status::GRANTED };
        state.hear(asked.client);
        let owner = LockOwner { holder, owner: place.owner };
        let splits = || claims.is_split_by(&place.file, owner, Stream::default(), &asked.span);
        if !state.has_room_to_hold(asked.client, &self.0.party(asked.client)) && splits() {
            return Status::DENIED_NOLOCKS;
        }
        // What the client was given and has not confirmed goes with it.
        let is_given = |waiting: &Waiting| {
            waiting.granted.is_some() && waiting.place == place && waiting.request.span.overlaps(&asked.span)
        };
        while state.take_waiting(asked.client, is_given).is_some() {}
        let (verdict, effects) = unlock(volume, owner, &place, asked.span);
        state.settle(asked.client, claims, holder, place);
        drop(state);
        claims.dispatch(effects);
        match verdict {
            Verdict::Refused(conflict) => of_conflict(conflict),
            Verdict::Granted(_) | Verdict::Wait(_) => Status::GRANTED,
        }
    }

    /// Waits no longer for a lock.
    pub(crate) fn cancel(&self, asked: &Asked<'_>) -> Status {
        let volume = &asked.file.export().volume;
        let claims = volume.claims();
        let mut state = self.0.state();
        let Some((holder, place)) = state.place(asked) else { return Status::DENIED };
        state.hear(asked.client);
        let is_it = |waiting: &Waiting| waiting.is(&place, asked);
        let Some(waiting) = state.take_waiting(asked.client, is_it) else { return Status::DENIED };
        let cancel = Request::Cancel(waiting.ticket);
        let (verdict, mut effects) = claims.apply(volume.now(), &place.file, &cancel);
        if let Verdict::Refused(_) = verdict {
            // It was granted meanwhile, and the client does not know.
            let owner = LockOwner { holder, owner: place.owner };
            effects.extend(unlock(volume, owner, &place, asked.span).1);
        }
        state.settle(asked.client, claims, holder, place);
        drop(state);
        claims.dispatch(effects);
        Status::GRANTED
    }

    /// A client has got something that `by` has admitted.
    pub(crate) fn note(&self, by: &Namespace, shared: &SharedNamespace) {
        self.0.followed.note(by, shared);
    }

    /// Ends what the rules of exports do not admit any longer, whoever holds it or waits for it.
    pub fn follow(&self, namespace: &SharedNamespace) {
        let Some(namespace) = self.0.followed.next(namespace) else { return };
        let clients: Vec<IpAddr> = self.0.state().hosts.keys().copied().collect();
        clients.into_iter().for_each(|client| self.0.withdraw(client, &namespace));
    }

    /// Ends all locks of a client, and what it waits for.
    pub(crate) fn free_all(&self, client: IpAddr) {
        self.0.free_all(client, |_| true);
    }

    /// A client says that it has restarted, and that this is its state number by now: the locks that it had
    /// before are no more.
    pub(crate) fn restarted(&self, client: IpAddr, monitor_state: u32) {
        let known = self.0.state().hosts.get(&client).map(|host| host.monitor_state);
        // Locks that were taken with this number are newer than the news.
        if known.is_some_and(|known| known == 0 || known != monitor_state) {
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
        if !self.0.workers.submit((host, &party), send) {
            tracing::debug!(?procedure, "a result is not sent: too many wait");
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

    /// A client as bounds know it. Who calls the lock manager with a handle was let in by an export.
    pub(crate) fn party(&self, client: IpAddr) -> Party {
        Party::of(self.networks.of(client))
    }

    /// Has clients that hold nothing or are gone make room for another entry of a client; whether there is.
    pub(crate) fn make_room(&self, client: IpAddr, party: &Party, table: Table) -> bool {
        loop {
            let first = {
                let state = self.state();
                match state.check_room(client, party, table) {
                    Ok(()) => return true,
                    Err(full) => state.first_to_go(client, party, table, full),
                }
            };
            let Some(first) = first else { return false };
            tracing::debug!(client = %first, ?table, "a client that is gone or holds nothing gives way to others");
            self.free_all(first, Host::may_go);
        }
    }

    /// Whether a restart tells this client.
    pub(crate) fn is_recorded(&self, client: IpAddr) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.has(client))
    }

    /// Takes a lock. `None`: the client was forgotten meanwhile, and has to be recorded first.
    fn lock(self: &Arc<Self>, asked: &Asked<'_>, terms: Terms) -> Option<(Status, Vec<Effect>)> {
        let volume = &asked.file.export().volume;
        let claims = volume.claims();
        let (client, party) = (asked.client, self.party(asked.client));
        let has_room =
            [Table::Hosts, Table::Locks].iter().all(|&table| self.make_room(client, &party, table));
        let has_room_to_wait = has_room && terms.waits && self.make_room(client, &party, Table::Waits);
        let mut state = self.state();
        if terms.monitor.is_some() && !self.is_recorded(asked.client) {
            return None;
        }
        let refused = Some((Status::DENIED_NOLOCKS, Vec::new()));
        if !state.has_room_to_hold(client, &party) {
            return refused;
        }
        let Some(host) = state.admit(client, &party) else { return refused };
        host.local = Some(asked.offer.local);
        let Some(holder) = self.holder(&mut state, (client, &party), volume) else { return refused };
        let has_room_to_wait = has_room_to_wait && state.has_room_to_wait(client, &party);
        let Some(host) = state.hosts.get_mut(&asked.client) else { return refused };
        host.monitor_state = terms.monitor.unwrap_or(host.monitor_state);
        let place = asked.place(host.number(asked.owner.clone()));
        host.admit(place, asked.admission);
        let known = host.waiting.iter().find(|waiting| waiting.is(&place, asked));
        let is_queued = known.is_some_and(|waiting| waiting.granted.is_none());
        if is_queued && terms.waits {
            return Some((Status::BLOCKED, Vec::new()));
        }
        let queueing = if terms.waits && has_room_to_wait { until(volume) } else { Queueing::Never };
        let owner = LockOwner { holder, owner: place.owner };
        let request = asked.request(owner, queueing, terms.reclaims);
        let (verdict, mut effects) = claims.apply(volume.now(), &place.file, &Request::Lock(request));
        let status = match verdict {
            Verdict::Granted(_) => {
                if let Some(before) = state.take_waiting(asked.client, |waiting| waiting.is(&place, asked)) {
                    // Of a lock that was granted already there is no such ticket.
                    let cancel = Request::Cancel(before.ticket);
                    effects.extend(claims.apply(volume.now(), &place.file, &cancel).1);
                }
                Status::GRANTED
            }
            Verdict::Wait(ticket) => {
                let offer = asked.offer.clone();
                state.add_waiting(asked.client, Waiting { place, ticket, request, offer, granted: None });
                Status::BLOCKED
            }
            Verdict::Refused(Conflict::Range { .. }) if terms.waits && !has_room_to_wait => {
                Status::DENIED_NOLOCKS
            }
            Verdict::Refused(conflict) => of_conflict(conflict),
        };
        state.settle(asked.client, claims, holder, place);
        Some((status, effects))
    }

    fn withdraw(&self, client: IpAddr, namespace: &Namespace) {
        let mut ended = Vec::new();
        let mut state = self.state();
        let (places, shares) = state.withdraw(client, namespace);
        for place in places {
            let Some((volume, holder)) = state.volume_of(client, place.volume) else { continue };
            let owner = LockOwner { holder, owner: place.owner };
            let mut effects = Vec::new();
            while let Some(waiting) = state.take_waiting(client, |waiting| waiting.place == place) {
                let cancel = Request::Cancel(waiting.ticket);
                effects.extend(volume.claims().apply(volume.now(), &place.file, &cancel).1);
            }
            effects.extend(unlock(&volume, owner, &place, Span::ALL).1);
            state.settle(client, volume.claims(), holder, place);
            ended.push((volume, effects));
        }
        for share in shares {
            let Some((volume, _)) = state.volume_of(client, share.volume) else { continue };
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
        client: (IpAddr, &Party),
        volume: &Arc<Volume>,
    ) -> Option<HolderId> {
        state.holder(client, volume, || self.attach(client.0, volume))
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
            let held = state.remove(client);
            let end = |(volume, holder): (Arc<Volume>, HolderId)| {
                let effects = volume.claims().drop_holder(volume.now(), holder);
                (volume, effects)
            };
            held.into_iter().map(end).collect()
        };
        for (volume, effects) in ended {
            volume.claims().dispatch(effects);
        }
    }
}

impl vfs::claims::Holder for ClientHolder {
    fn deliver(&self, effect: Effect) {
        let Some(locks) = self.locks.upgrade() else { return };
        let arrived = Arrived { client: self.client, volume: self.volume, effect };
        locks.arrived.lock().push(arrived);
        locks.look_soon();
    }
}

impl State {
    /// The place of a lock whose owner holds or waits for something.
    fn place(&self, asked: &Asked<'_>) -> Option<(HolderId, Place)> {
        let holder = self.attached(asked.client, &asked.file.export().volume)?;
        let host: &Host = self.hosts.get(&asked.client)?;
        Some((holder, asked.place(host.number_of(&asked.owner)?)))
    }
}

impl Asked<'_> {
    fn place(&self, owner: u64) -> Place {
        Place { volume: self.file.volume().id(), file: self.file.key(), owner }
    }

    fn request(&self, owner: LockOwner, queueing: Queueing, reclaims: bool) -> LockRequest {
        let Self { span, is_exclusive, .. } = *self;
        let stream = Stream::default();
        LockRequest { owner, open: None, stream, span, is_exclusive, is_enforced: false, reclaims, queueing }
    }
}

impl Waiting {
    /// Whether it is this lock that is waited for.
    fn is(&self, place: &Place, asked: &Asked<'_>) -> bool {
        let LockRequest { span, is_exclusive, .. } = self.request;
        self.place == *place && span == asked.span && is_exclusive == asked.is_exclusive
    }
}

/// How long a lock of this volume is waited for from now on.
pub(crate) fn until(volume: &Volume) -> Queueing {
    Queueing::Until(Nanos(volume.now().0.saturating_add(LOCK_WAIT_S * 1_000_000_000)))
}

/// Takes bytes from an owner.
pub(crate) fn unlock(volume: &Volume, owner: LockOwner, place: &Place, span: Span) -> (Verdict, Vec<Effect>) {
    let request =
        Request::Unlock { owner, stream: Stream::default(), span, enforced: false, is_exclusive: None };
    volume.claims().apply(volume.now(), &place.file, &request)
}
