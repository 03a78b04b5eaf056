//! Locks granted after a wait, and the calls that report them.
//!
//! The lock is granted immediately. The client is called (GRANTED, RFC 1813 §6.2); if it refuses, the lock is released.
//! A client that does not answer is called several times; by then it has polled, or the lock is released, too. Other
//! periodic work is here as well: forgetting clients, and notices of a restart.

use super::table::{GrantArgs, Host, OwnerName, RangeKey, UnconfirmedGrant, WaitingLock};
use super::{ClaimEvent, Shared, unlock, until};
use crate::limits::{
    LOCK_HOST_COURTESY_S, LOCK_HOST_IDLE_S, LOCK_HOST_PROBE_S, LOCK_HOST_SILENT_S, LOCK_HOST_UNRESPONSIVE_S,
    LOCK_OFFER_S,
};
use crate::outgoing::Outgoing;
use nfs_wire::nlm::{Lock, Object, Offset, PROGRAM, Procedure, Reply, Status, TestArgs, VERSION_4};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfs::VolumeId;
use vfs::claims::{Effect, Outcome, Request, RevokedClaim, Ticket, Verdict};
use xdr::{Decode, Encode, Reader};

/// Time before an unanswered call is repeated; it grows with each attempt.
const RETRY: Duration = Duration::from_secs(5);

impl super::Locks {
    /// Repeats unanswered calls, forgets clients that hold nothing or do not respond, and sends notices of our restart.
    /// `connected` returns the addresses with connections; clients there are alive.
    pub fn tick(&self, connected: impl FnOnce() -> HashSet<IpAddr>) {
        self.0.process_events();
        self.0.forget_idle();
        self.0.check_silent(Instant::now(), connected);
        self.0.send_restart_notices();
        self.0.forget_records();
    }
}

impl Shared {
    /// Schedules the processing of effects, unless it is scheduled. If no thread is available, the next tick does it.
    pub(crate) fn schedule_events(self: &Arc<Self>) {
        if self.is_processing_scheduled.swap(true, Ordering::SeqCst) {
            return;
        }
        let looking = Arc::clone(self);
        let here = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let look = move || {
            looking.is_processing_scheduled.store(false, Ordering::SeqCst);
            looking.process_events();
            Some(true)
        };
        if !self.workers.submit(here, &self.party(here), look) {
            self.is_processing_scheduled.store(false, Ordering::SeqCst);
        }
    }

    /// Processes effects, and calls clients whose locks were granted.
    pub(crate) fn process_events(self: &Arc<Self>) {
        loop {
            let event = std::mem::take(&mut *self.events.lock());
            if event.is_empty() {
                break;
            }
            event.into_iter().for_each(|event| self.process_event(event));
        }
        self.send_due_grants();
    }

    fn process_event(&self, event: ClaimEvent) {
        let ClaimEvent { client, volume, effect } = event;
        match effect {
            Effect::Resume { ticket, outcome, .. } => match outcome {
                Outcome::Granted => self.granted(client, volume, ticket),
                Outcome::Again => self.retry_lock(client, volume, ticket),
                Outcome::TimedOut | Outcome::Canceled => {
                    let mut state = self.state();
                    let removed = state.remove_waiting(client, |waiting| waiting.is_of(volume, ticket));
                    if let (Some(removed), Some(host)) = (removed, state.hosts.get_mut(&client)) {
                        host.forget_admission(removed.key);
                    }
                }
            },
            Effect::Revoked { file, what: RevokedClaim::Range(owner, _), .. } => {
                let mut state = self.state();
                if let Some((volume, holder)) = state.volume_holder(client, volume) {
                    let key = RangeKey { volume: volume.id(), file, owner: owner.owner };
                    state.settle(client, volume.claims(), holder, key);
                }
            }
            Effect::Revoked { what: RevokedClaim::Open(open), .. } => {
                self.state().remove_share(client, |share| share.volume == volume && share.open == open);
            }
            Effect::Revoked { .. }
            | Effect::Recall { .. }
            | Effect::Notify { .. }
            | Effect::Remove { .. } => {}
        }
    }

    /// Marks a waiting lock as granted, to be reported.
    fn granted(&self, client: IpAddr, volume: VolumeId, ticket: Ticket) {
        let mut state = self.state();
        let Some((served, holder)) = state.volume_holder(client, volume) else { return };
        let Some(host) = state.hosts.get_mut(&client) else { return };
        let Some(waiting) = host.waiting.iter_mut().find(|waiting| waiting.is_of(volume, ticket)) else {
            return;
        };
        waiting.granted = Some(UnconfirmedGrant::now());
        let key = waiting.key;
        state.settle(client, served.claims(), holder, key);
    }

    /// Requests a lock again after a conflict other than a lock is gone.
    fn retry_lock(&self, client: IpAddr, volume: VolumeId, ticket: Ticket) {
        let mut state = self.state();
        let Some((served, holder)) = state.volume_holder(client, volume) else { return };
        let claims = served.claims();
        let Some(host) = state.hosts.get_mut(&client) else { return };
        let Some(waiting) = host.waiting.iter_mut().find(|waiting| waiting.is_of(volume, ticket)) else {
            return;
        };
        waiting.request.queueing = until(&served);
        let key = waiting.key;
        let (verdict, effects) = claims.apply(served.now(), &key.file, &Request::Lock(waiting.request));
        match verdict {
            Verdict::Granted(_) => waiting.granted = Some(UnconfirmedGrant::now()),
            Verdict::Wait(ticket) => waiting.ticket = ticket,
            // The client polls by itself.
            Verdict::Refused(_) => {
                state.remove_waiting(client, |waiting| waiting.is_of(volume, ticket));
            }
        }
        state.settle(client, claims, holder, key);
        drop(state);
        claims.dispatch(effects);
    }

    /// Calls the clients that are to be called by now.
    fn send_due_grants(self: &Arc<Self>) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (&client, host) in &mut self.state().hosts {
            for at in 0..host.waiting.len() {
                let Some(call) = host.next_grant_call(at, client, now) else { continue };
                due.push((call, host.waiting[at].key.volume, host.waiting[at].ticket));
            }
        }
        for (call, volume, ticket) in due {
            let (shared, client) = (Arc::clone(self), call.host);
            let offer = move || {
                let results = shared.caller.call(&call);
                let has_answered = results.is_some();
                let answer = results.and_then(|results| status_in(&results));
                shared.handle_reply(client, volume, ticket, answer);
                Some(has_answered)
            };
            if !self.workers.submit(client, &self.party(client), offer) {
                self.handle_reply(client, volume, ticket, None);
            }
        }
    }

    /// A client has answered that it takes a lock, or not, or has not answered.
    fn handle_reply(&self, client: IpAddr, volume: VolumeId, ticket: Ticket, answer: Option<Status>) {
        let mut state = self.state();
        let is_it = |waiting: &WaitingLock| waiting.is_of(volume, ticket);
        let is_undecided = matches!(answer, None | Some(Status::DENIED_GRACE_PERIOD));
        let now = Instant::now();
        if is_undecided
            && let Some(host) = state.hosts.get_mut(&client)
            && let Some(waiting) = host.waiting.iter_mut().find(|waiting| is_it(waiting))
            && let Some(granted) = &mut waiting.granted
            && now < granted.since + Duration::from_secs(LOCK_OFFER_S)
        {
            granted.tries += 1;
            granted.next_try = Some(now + RETRY * granted.tries);
            return;
        }
        // If the wait is gone, the client has polled or unlocked: its state is already right.
        let Some(waiting) = state.remove_waiting(client, is_it) else { return };
        let Some((served, holder)) = state.volume_holder(client, volume) else { return };
        let claims = served.claims();
        let mut effects = Vec::new();
        if answer != Some(Status::GRANTED) {
            tracing::debug!(%client, ?answer, "the client refused a granted lock, which is released");
            effects = unlock(&served, waiting.request.owner, &waiting.key, waiting.request.span).1;
        }
        state.settle(client, claims, holder, waiting.key);
        drop(state);
        claims.dispatch(effects);
    }

    /// Drops clients that have been idle for a while.
    fn forget_idle(&self) {
        let now = Instant::now();
        let mut idle = Vec::new();
        {
            let mut state = self.state();
            state.forget_removed_volumes();
            for (&client, host) in &mut state.hosts {
                let since = *host.idle_since.get_or_insert(now);
                if !host.is_idle() {
                    host.idle_since = None;
                } else if since + Duration::from_secs(LOCK_HOST_IDLE_S) <= now {
                    idle.push(client);
                }
            }
        }
        // Only if it is still idle.
        idle.into_iter().for_each(|client| self.free_all(client, Host::is_idle));
    }

    /// Probes clients with locks that are silent, and ends the locks of clients that have not answered for very long.
    pub(crate) fn check_silent(self: &Arc<Self>, now: Instant, connected: impl FnOnce() -> HashSet<IpAddr>) {
        self.probe_silent(now, connected);
        self.lapse_unresponsive(now);
        self.forget_unresponsive(now);
    }

    fn probe_silent(self: &Arc<Self>, now: Instant, connected: impl FnOnce() -> HashSet<IpAddr>) {
        let is_past =
            |since: Instant, seconds| now.saturating_duration_since(since) >= Duration::from_secs(seconds);
        let is_due = |host: &Host| {
            !host.is_idle()
                && is_past(host.last_seen, LOCK_HOST_SILENT_S)
                && host.last_probed.is_none_or(|lock_call| is_past(lock_call, LOCK_HOST_PROBE_S))
        };
        let mut state = self.state();
        if !state.hosts.values().any(is_due) {
            return;
        }
        drop(state);
        let connected = connected();
        state = self.state();
        let mut due = Vec::new();
        for (&client, host) in state.hosts.iter_mut().filter(|(_, host)| is_due(host)) {
            host.last_probed = Some(now);
            if connected.contains(&client) {
                host.mark_seen();
            } else {
                due.push((client, host.local));
            }
        }
        drop(state);
        due.into_iter().for_each(|(client, local)| self.probe(client, local));
    }

    fn probe(self: &Arc<Self>, client: IpAddr, local: Option<IpAddr>) {
        let shared = Arc::clone(self);
        let from = local.unwrap_or(match client {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        });
        let (program, version, procedure) = (PROGRAM, VERSION_4, Procedure::NULL.0);
        let call = Outgoing { host: client, from, program, version, procedure, args: Vec::new() };
        let began = Instant::now();
        let ask = move || {
            let has_answered = shared.caller.call(&call).is_some();
            if let Some(host) = shared.state().hosts.get_mut(&client) {
                if has_answered {
                    host.mark_seen();
                } else if host.last_seen < began {
                    host.silent_since.get_or_insert(began);
                }
            }
            Some(has_answered)
        };
        self.workers.submit(client, &self.party(client), ask);
    }

    /// Has the locks and shares of clients that do not answer yield to clients that want them.
    fn lapse_unresponsive(&self, now: Instant) {
        let mut lapsed = Vec::new();
        for host in self.state().hosts.values_mut() {
            if !host.has_lapsed && host.is_unresponsive_for(LOCK_HOST_UNRESPONSIVE_S, now) {
                host.has_lapsed = true;
                lapsed.extend(host.holders());
            }
        }
        for (volume, holder) in lapsed {
            let effects = volume.claims().lapse(volume.now(), holder);
            volume.claims().dispatch(effects);
        }
    }

    fn forget_unresponsive(&self, now: Instant) {
        let is_gone = |host: &Host| host.is_unresponsive_for(LOCK_HOST_COURTESY_S, now);
        let unresponsive: Vec<IpAddr> =
            self.state().hosts.iter().filter(|(_, host)| is_gone(host)).map(|(&client, _)| client).collect();
        for client in unresponsive {
            tracing::info!(%client, "a client does not answer and loses its locks");
            self.free_all(client, is_gone);
        }
    }

    /// Sends notices of our restart.
    fn send_restart_notices(self: &Arc<Self>) {
        let now = Instant::now();
        let due = match &mut *self.restart() {
            None => return,
            Some(restart) if !restart.is_over(now) => restart.due(now),
            over => {
                *over = None;
                Vec::new()
            }
        };
        for call in due {
            let (shared, party) = (Arc::clone(self), self.party(call.host));
            self.workers.submit(call.host, &party, move || {
                let has_answered = shared.caller.call(&call).is_some();
                if has_answered && let Some(restart) = &mut *shared.restart() {
                    restart.acknowledge(call.host);
                }
                Some(has_answered)
            });
        }
    }

    /// Drops the records of clients without locks. After a restart, these are the clients that did not reclaim in time.
    pub(crate) fn forget_records(&self) {
        let Some(hosts) = &self.hosts else { return };
        let is_news = self.restart().is_some();
        if is_news {
            return;
        }
        // Under the lock, so that no recorded client acquires a lock meanwhile.
        let state = self.state();
        let unresponsive = hosts.clients().into_iter().filter(|client| !state.hosts.contains_key(client));
        unresponsive.for_each(|client| hosts.forget(client));
    }
}

impl UnconfirmedGrant {
    fn now() -> Self {
        let now = Instant::now();
        Self { since: now, next_try: Some(now), tries: 0 }
    }
}

impl WaitingLock {
    fn is_of(&self, volume: VolumeId, ticket: Ticket) -> bool {
        self.key.volume == volume && self.ticket == ticket
    }
}

impl Host {
    /// The call that is due for a granted lock. Only one is under way at a time.
    fn next_grant_call(&mut self, at: usize, client: IpAddr, now: Instant) -> Option<Outgoing> {
        let waiting = &mut self.waiting[at];
        let granted = waiting.granted.as_mut()?;
        granted.next_try.take_if(|next| *next <= now)?;
        let waiting = &self.waiting[at];
        let owner = self.name_of(waiting.key.owner)?;
        let GrantArgs { version, local, .. } = waiting.grant_args;
        let args = match version {
            VERSION_4 => args::<u64>(waiting, owner),
            _ => args::<u32>(waiting, owner),
        };
        let procedure = Procedure::GRANTED.0;
        Some(Outgoing { host: client, from: local, program: PROGRAM, version, procedure, args })
    }
}

/// Encodes GRANTED with the arguments of the client's request.
fn args<O: Offset>(waiting: &WaitingLock, owner: &OwnerName) -> Vec<u8> {
    let GrantArgs { caller_name, handle, offset, len, .. } = &waiting.grant_args;
    let width = |value: u64| O::try_from(value).unwrap_or(O::MAX);
    let alock = Lock {
        caller_name,
        fh: Object(handle),
        oh: Object(&owner.oh),
        svid: owner.svid,
        l_offset: width(*offset),
        l_len: width(*len),
    };
    let cookie = waiting.ticket.0.to_be_bytes();
    TestArgs { cookie: Object(&cookie), exclusive: waiting.request.is_exclusive, alock }.to_bytes()
}

fn status_in(results: &[u8]) -> Option<Status> {
    Reply::decode(&mut Reader::new(results)).ok().map(|reply| reply.stat)
}
