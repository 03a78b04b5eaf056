//! Leases: grants and breaks.

use super::entries::{Lease, Open};
use super::file::FileClaims;
use super::range_set::{RangeGroup, RangeKind};
use super::spans::Window;
use super::step::{Actor, Step, granted};
use super::{
    Access, Caching, Conflict, Effect, Granted, HolderId, LeaseKey, LeaseKind, LeaseRequest, OpenId,
    RevokedClaim, Rights, Stream, Timeouts, Verdict,
};
use crate::qos::Nanos;

const READ: Caching = Caching::READ;
const WRITE: Caching = Caching::WRITE;
const HANDLE: Caching = Caching::HANDLE;

impl Lease {
    fn is_delegation(&self) -> bool {
        matches!(self.key, LeaseKey::Delegation(_))
    }

    fn is_breaking(&self) -> bool {
        self.deadline.is_some()
    }

    pub(super) fn is_write_delegation(&self) -> bool {
        self.is_delegation() && self.have.contains(WRITE)
    }

    /// Whether this is a write delegation without a recall in progress.
    pub(super) fn delegates_writing(&self) -> bool {
        self.is_write_delegation() && !self.is_breaking()
    }

    /// Whether the lease does not conflict with this actor.
    pub(super) fn exempts(&self, actor: Actor) -> bool {
        match self.key {
            // An oplock that its open may only read conflicts with the open's own writes and byte ranges (MS-FSA
            // 2.1.4.12).
            LeaseKey::Oplock(open) => actor.open == Some(open) && self.have != READ,
            LeaseKey::Shared { .. } => actor.key == Some(self.key),
            LeaseKey::Delegation(holder) => actor.holder == Some(holder),
        }
    }

    /// The rights that others must respect: a delegation counts in full until it is returned.
    fn counted(&self) -> Caching {
        if self.is_delegation() { self.have } else { self.target }
    }

    pub(super) fn describe(&self, granted: &mut Granted) {
        granted.lease = Some(self.key);
        // While a shared lease is being broken its client has all of it still (MS-SMB2 3.3.5.9.8).
        granted.caching = if self.is_delegation() { self.target } else { self.have };
        granted.epoch = self.epoch;
        granted.is_breaking = self.is_breaking();
    }

    fn change(&mut self, to: Caching) {
        self.have = to;
        self.target = to;
        self.deadline = None;
    }

    /// Repeats the message of a pending break. The deadline stays.
    pub(super) fn resend_recalls(&self, step: &mut Step<'_>) {
        if self.is_breaking() {
            self.tell(step, self.have, true);
        }
    }

    fn tell(&self, step: &mut Step<'_>, from: Caching, acknowledge: bool) {
        step.effects.push(Effect::Recall {
            holder: self.holder,
            file: step.file,
            stream: self.stream,
            key: self.key,
            from,
            to: self.target,
            epoch: self.epoch,
            acknowledge,
        });
    }
}

/// Returns the rights after the next step of a break that must end `must_go`.
///
/// One bit a step, writing first: cached writes must be sent before a handle is closed. A write or truncation by
/// another requester ends everything at once. Oplocks have two levels (MS-FSA 2.1.4.12); delegations are returned as a
/// whole.
pub(super) fn next_step(key: LeaseKey, have: Caching, must_go: Caching) -> Caching {
    let go = have.and(must_go);
    match key {
        _ if go.is_none() => have,
        LeaseKey::Delegation(_) => Caching::NONE,
        LeaseKey::Oplock(_) if go.contains(READ) => Caching::NONE,
        LeaseKey::Oplock(_) => READ,
        LeaseKey::Shared { .. } if go.contains(READ) => Caching::NONE,
        LeaseKey::Shared { .. } if go.contains(WRITE) => have.without(WRITE),
        LeaseKey::Shared { .. } => have.without(HANDLE),
    }
}

/// The largest legal state within `allowed`.
pub(super) fn legal(kind: LeaseKind, allowed: Caching) -> Caching {
    if !allowed.contains(READ) {
        return Caching::NONE;
    }
    match kind {
        LeaseKind::Shared { .. } => allowed,
        LeaseKind::Oplock if allowed.contains(WRITE) => allowed,
        LeaseKind::Oplock => READ,
        LeaseKind::Delegation => allowed | HANDLE,
    }
}

impl FileClaims {
    /// Starts to break `must_go` of each lease except the actor's own; returns whether an answer must be awaited.
    pub(super) fn break_leases(
        &mut self,
        step: &mut Step<'_>,
        actor: Actor,
        stream: Stream,
        must_go: impl Fn(&Lease) -> Caching,
    ) -> bool {
        let is_in_the_way = |lease: &Lease| {
            lease.stream == stream && !lease.exempts(actor) && lease.have.intersects(must_go(lease))
        };
        let yielding: Vec<LeaseKey> = self
            .leases
            .iter()
            .filter(|lease| is_in_the_way(lease) && self.yields(step, lease))
            .map(|lease| lease.key)
            .collect();
        for key in yielding {
            self.revoke_lease(step, key, stream);
        }
        if !self.leases.iter().any(is_in_the_way) {
            return false;
        }
        let mut must_wait = false;
        for lease in self.leases.iter_mut().filter(|lease| is_in_the_way(lease)) {
            let go = must_go(lease);
            if !lease.is_breaking() {
                let to = next_step(lease.key, lease.have, go);
                recall(step, lease, to);
            }
            must_wait |= lease.have.intersects(go);
        }
        must_wait
    }

    /// Whether the lease has no holder to answer for it: it ends with its opens.
    fn yields(&self, step: &Step<'_>, lease: &Lease) -> bool {
        step.lapsed.contains(&lease.holder) || self.waits_for_client(lease)
    }

    /// Whether all opens that have this lease wait for their client.
    fn waits_for_client(&self, lease: &Lease) -> bool {
        let mut opens = self.opens_of(lease).peekable();
        !lease.is_delegation() && opens.peek().is_some() && opens.all(Open::is_durable)
    }

    /// Returns the write delegations of a stream. A lease whose opens all wait for their client is left out: a query of
    /// attributes must not revoke it.
    pub(super) fn write_delegations(&self, stream: Stream) -> Vec<LeaseKey> {
        let writes = |lease: &Lease| {
            let mut opens = self.opens_of(lease);
            lease.is_delegation() || opens.any(|open| open.access.rights.intersects(Rights::WRITE))
        };
        let of_stream =
            self.leases.iter().filter(|lease| lease.stream == stream && lease.have.intersects(WRITE));
        let unseen = of_stream.filter(|lease| writes(lease) && !self.waits_for_client(lease));
        unseen.map(|lease| lease.key).collect()
    }

    fn opens_of<'a>(&'a self, lease: &Lease) -> impl Iterator<Item = &'a Open> {
        self.opens.of_lease(lease.key, lease.stream)
    }

    /// Revokes the lease of a holder that does not answer, and its durable opens: the client must learn that its cache
    /// is invalid.
    fn revoke_lease(&mut self, step: &mut Step<'_>, key: LeaseKey, stream: Stream) {
        let opens = self.opens.of_lease(key, stream);
        let durable: Vec<OpenId> = opens.filter(|open| open.is_durable()).map(|open| open.id).collect();
        if let Some(at) = self.lease_at(key, stream) {
            // A holder that takes the lease over gets no further break request.
            self.leases[at].deadline = None;
        }
        for open in durable {
            self.revoke_open(step, open);
        }
        if let Some(at) = self.lease_at(key, stream) {
            step.revoked(self.leases[at].holder, RevokedClaim::Lease(key));
            self.end_lease(at);
        }
    }

    /// Ends a lease without rights. Its epoch stays known while the lease has opens.
    fn end_lease(&mut self, at: usize) {
        self.is_released = true;
        let lease = &mut self.leases[at];
        if lease.is_delegation() {
            self.leases.remove(at);
        } else {
            lease.change(Caching::NONE);
        }
    }

    fn lease_at(&self, key: LeaseKey, stream: Stream) -> Option<usize> {
        self.leases.iter().position(|lease| lease.key == key && lease.stream == stream)
    }

    /// Grants an open the wanted rights that others allow: writing is dropped first, then the handle, then reading.
    pub(super) fn grant_lease(
        &mut self,
        step: &mut Step<'_>,
        id: OpenId,
        request: LeaseRequest,
        granted: &mut Granted,
    ) {
        let Some(open) = self.opens.get(id) else { return };
        let (holder, stream) = (open.holder, open.stream);
        let key = match request.kind {
            LeaseKind::Oplock => LeaseKey::Oplock(id),
            LeaseKind::Shared { client, key } => LeaseKey::Shared { client, key },
            LeaseKind::Delegation => LeaseKey::Delegation(holder),
        };
        if request.kind != LeaseKind::Delegation {
            self.opens.change(id, |open| open.lease = Some(key));
        }
        let allowed = legal(request.kind, self.allowed(id, key, request.want));
        if let Some(at) = self.lease_at(key, stream) {
            let lease = &mut self.leases[at];
            // A lease only grows here (MS-SMB2 3.3.5.9.8), to all that is wanted or not at all, and not while it is being broken.
            let is_whole = lease.have.is_none() || allowed == legal(request.kind, request.want);
            if !lease.is_breaking()
                && !lease.is_delegation()
                && is_whole
                && allowed != lease.have
                && allowed.contains(lease.have)
            {
                lease.change(allowed);
                lease.epoch = lease.epoch.wrapping_add(1);
            }
            lease.describe(granted);
            if let LeaseKey::Shared { .. } = key {
                // It may be with an open whose connection is gone.
                self.pass_lease(step, key, stream);
            }
            return;
        }
        if allowed.is_none() && request.kind == LeaseKind::Delegation {
            return;
        }
        let (deadline, answers_within) = (None, request.answers_within);
        // What is not given is no change (MS-SMB2 3.3.5.9.11).
        let epoch = request.epoch.wrapping_add(u16::from(!allowed.is_none()));
        let lease =
            Lease { key, holder, stream, have: allowed, target: allowed, deadline, answers_within, epoch };
        lease.describe(granted);
        self.leases.push(lease);
    }

    /// Returns the part of `want` that conflicts with no other cache.
    fn allowed(&self, id: OpenId, key: LeaseKey, want: Caching) -> Caching {
        let Some(open) = self.open_of(id) else { return Caching::NONE };
        let is_delegation = matches!(key, LeaseKey::Delegation(_));
        let is_own = |other: &Open| {
            other.id == id || other.lease == Some(key) || (is_delegation && other.holder == open.holder)
        };
        let others = || {
            let data = |other: &&Open| other.stream == open.stream && !other.access.rights.is_none();
            self.opens.iter().filter(data).filter(|other| !is_own(other))
        };
        // Includes the holder's other leases: each allows its rights to any holder.
        let foreign = || self.leases.iter().filter(|lease| lease.stream == open.stream && lease.key != key);
        // What is cached is the client's with all its opens, or the open's and the lease's alone: so are the ranges that it may keep.
        let is_own_range = |range: &RangeGroup| match range
            .open
            .filter(|_| !is_delegation)
            .and_then(|open| self.open_of(open))
        {
            Some(open) => is_own(open),
            None => range.owner.holder == open.holder,
        };
        let has_foreign = |is_exclusive: bool| {
            let kinds = RangeKind::all_that(|kind| kind.is_exclusive == is_exclusive);
            self.ranges.first(open.stream, kinds, Window::ALL, is_own_range).is_some()
        };
        let is_locked = has_foreign(true);
        // An oplock knows no handle that another may ask for, and stands beside no lease that does (MS-FSA 2.1.5.18).
        let has_handle = |lease: &Lease| lease.counted().contains(HANDLE);
        let is_oplock = |key: LeaseKey| matches!(key, LeaseKey::Oplock(_));
        let is_shared = |key: LeaseKey| matches!(key, LeaseKey::Shared { .. });
        let is_crowded = is_oplock(key) && foreign().any(|lease| is_shared(lease.key) && has_handle(lease));
        let beside_oplock =
            is_shared(key) && foreign().any(|lease| is_oplock(lease.key) && !lease.counted().is_none());
        let is_contested = |other: &Open| {
            let Access { rights, deny } = other.access;
            let changes = Rights::WRITE | Rights::DELETE;
            rights.intersects(changes) || other.access.has_data() && deny.intersects(Rights::READ)
        };
        if foreign().any(|lease| lease.counted().intersects(WRITE))
            || is_locked
            || is_crowded
            || (is_delegation && others().any(is_contested))
        {
            return Caching::NONE;
        }
        // Includes a lease whose holder has returned all of it, but has not answered yet.
        let is_cached = foreign().any(|lease| !lease.have.is_none());
        let is_alone = others().next().is_none() && !is_cached && !is_locked && !has_foreign(false);
        let want = if is_alone { want } else { want.without(WRITE) };
        if beside_oplock { want.without(HANDLE) } else { want }
    }

    pub(super) fn acknowledge(&mut self, key: LeaseKey, stream: Stream, keeps: Caching) -> Verdict {
        let Some(at) = self.lease_at(key, stream) else { return Verdict::Refused(Conflict::NotHeld) };
        let lease = &mut self.leases[at];
        let is_returned = lease.is_delegation() && keeps.is_none();
        if !lease.is_breaking() && !is_returned {
            return Verdict::Refused(Conflict::NotHeld);
        }
        if !lease.target.contains(keeps) {
            return Verdict::Refused(Conflict::Denied);
        }
        self.is_released = true;
        if keeps.is_none() {
            self.end_lease(at);
        } else {
            lease.change(keeps);
        }
        granted()
    }

    /// Passes the lease of a closed or disconnected open to another open with the same key; without any it ends. The
    /// former holder may not have answered a break, so the new one receives the break again.
    pub(super) fn pass_lease(&mut self, step: &mut Step<'_>, key: LeaseKey, stream: Stream) {
        let Some(at) = self.lease_at(key, stream) else { return };
        let heir = self.opens_of(&self.leases[at]).min_by_key(|open| open.disconnected.is_some());
        let Some(&Open { holder, disconnected, .. }) = heir else {
            self.leases.remove(at);
            return;
        };
        let lease = &mut self.leases[at];
        if std::mem::replace(&mut lease.holder, holder) != holder && disconnected.is_none() {
            lease.resend_recalls(step);
        }
    }

    pub(super) fn resend_recalls(&self, step: &mut Step<'_>, holder: HolderId) {
        self.leases
            .iter()
            .filter(|lease| lease.holder == holder)
            .for_each(|lease| lease.resend_recalls(step));
    }

    pub(super) fn expire_leases(&mut self, step: &mut Step<'_>) {
        let late = |lease: &&Lease| lease.deadline.is_some_and(|deadline| deadline <= step.now);
        let late: Vec<(LeaseKey, Stream)> =
            self.leases.iter().filter(late).map(|lease| (lease.key, lease.stream)).collect();
        for (key, stream) in late {
            self.revoke_lease(step, key, stream);
        }
    }
}

/// Starts a step of a break, or completes it if only reading ends.
fn recall(step: &mut Step<'_>, lease: &mut Lease, to: Caching) {
    let from = lease.have;
    let acknowledge = lease.is_delegation() || from.intersects(WRITE | HANDLE);
    lease.epoch = lease.epoch.wrapping_add(1);
    if acknowledge {
        let Timeouts { returned, acknowledged } = step.timeouts;
        let usual = if lease.is_delegation() { returned } else { acknowledged };
        let time = lease.answers_within.unwrap_or(usual);
        lease.target = to;
        lease.deadline = Some(Nanos(step.now.0.saturating_add(time.0)));
    } else {
        lease.change(to);
    }
    lease.tell(step, from, acknowledge);
}
