//! The rules for all claims on one file: what waits for them, and what is looked at again when something has gone.

use super::held::{Binds, FileClaims, Lease, Open, Range, Waiter, Want};
use super::step::{Actor, Step, done};
use super::{By, Caching, Conflict, HolderId, OpenId, Outcome, Request, Rights, Ticket, Verdict};
use crate::qos::Nanos;

impl FileClaims {
    pub(super) fn apply(&mut self, step: &mut Step<'_>, request: &Request) -> Verdict {
        match request {
            Request::Open(request) => self.open(step, request),
            Request::Upgrade { open, access, waits, .. } => self.upgrade(step, *open, *access, *waits),
            Request::Downgrade { open, access } => self.downgrade(*open, *access),
            Request::Close(open) => self.close(step, *open),
            Request::CloseListed { open, listing } => self.close_listed(step, *open, *listing),
            Request::Disconnect { open, durable } => self.disconnect(step, *open, *durable),
            Request::Reconnect { open, holder } => self.reconnect(step, *open, *holder),
            Request::Restore(request) => self.restore(step, request),
            Request::Recache { open, lease } => self.recache(step, *open, *lease),
            Request::SetDelete { open, link, waits } => self.set_delete(step, *open, link.as_ref(), *waits),
            Request::DeleteOnClose { open, link } => self.delete_on_close(*open, link),
            Request::Lock(request) => self.lock(step, request),
            Request::TestLock(request) => self.test_lock(step, request),
            Request::Unlock { owner, stream, span, enforced: true, is_exclusive } => {
                self.unlock(*owner, *stream, *span, *is_exclusive)
            }
            Request::Unlock { owner, stream, span, .. } => self.unlock_bytes(step, *owner, *stream, *span),
            Request::Acknowledge { key, stream, keeps } => self.acknowledge(*key, *stream, *keeps),
            Request::Io(io) => self.io(step, io),
            Request::Unlink { by, waits } => self.unlink(step, *by, *waits),
            Request::Relink { from, to } => self.relink(from, to),
            Request::ListingChanged { except } => self.listing_changed(step, *except),
            Request::Cancel(ticket) => self.cancel(*ticket),
        }
    }

    /// Lets go on what can, and removes what has to go, now that something may have gone.
    pub(super) fn resume_waiting(&mut self, step: &mut Step<'_>) {
        self.remove_deleted(step);
        while std::mem::take(&mut self.is_released) {
            for waiter in self.waiting.extract_if(.., |waiter| matches!(waiter.want, Want::Recall)) {
                step.resume(&waiter, Outcome::Again);
            }
            self.grant_queued(step);
            // An open that gave way to it may have been the last one.
            self.remove_deleted(step);
        }
    }

    /// Ends what has had its time.
    pub(super) fn expire(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        let is_over = |open: &Open| open.disconnected.is_some_and(|durable| durable.until <= now);
        let over: Vec<OpenId> = self.opens.iter().filter(|open| is_over(open)).map(|open| open.id).collect();
        for open in over {
            self.revoke_open(step, open);
        }
        self.expire_leases(step);
        self.expire_reserved(step);
        let is_over = |waiter: &mut Waiter| matches!(waiter.want, Want::Range { until, .. } if until <= now);
        for waiter in self.waiting.extract_if(.., is_over) {
            step.resume(&waiter, Outcome::TimedOut);
            self.is_released = true;
        }
    }

    /// When [`FileClaims::expire`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let disconnected =
            self.opens.iter().filter_map(|open| open.disconnected.map(|durable| durable.until));
        let leases = self.leases.iter().filter_map(|lease| lease.deadline);
        let reserved = self.ranges.iter().filter_map(|range| range.kept_until);
        let waiting = self.waiting.iter().filter_map(|waiter| match waiter.want {
            Want::Range { until, .. } => Some(until),
            Want::Recall => None,
        });
        disconnected.chain(leases).chain(reserved).chain(waiting).min()
    }

    /// Ends all that a holder has here.
    pub(super) fn drop_holder(&mut self, step: &mut Step<'_>, holder: HolderId) {
        for waiter in self.waiting.extract_if(.., |waiter| waiter.holder == holder) {
            step.resume(&waiter, Outcome::Canceled);
            self.is_released = true;
        }
        let opens: Vec<OpenId> =
            self.opens.iter().filter(|open| open.holder == holder).map(|open| open.id).collect();
        for open in opens {
            self.remove_open(step, open);
        }
        let before = self.ranges.len() + self.leases.len();
        self.ranges.retain(|range| range.owner.holder != holder);
        self.leases.retain(|lease| lease.holder != holder);
        self.is_released |= self.ranges.len() + self.leases.len() != before;
    }

    /// Whom the claims can stop, or make wait.
    pub(super) fn binds(&self) -> Binds {
        let is_enforced = |range: &Range| range.is_enforced;
        let locks = !self.ranges.is_empty()
            && (self.ranges.iter().any(is_enforced) || self.opens.iter().any(|open| open.is_mandatory));
        let denies = |rights| self.opens.iter().any(|open| open.denies(rights));
        let ends = self.leases.iter().any(|lease| lease.have.intersects(Caching::WRITE));
        let deletes =
            !self.deletions.is_empty() || self.opens.iter().any(|open| open.delete_on_close.is_some());
        Binds {
            reads: locks || denies(Rights::READ) || ends,
            looks: self.leases.iter().any(Lease::may_write_unseen),
            ends,
            changes: locks || denies(Rights::WRITE) || !self.leases.is_empty() || deletes,
            deletes,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.opens.is_empty()
            && self.ranges.is_empty()
            && self.leases.is_empty()
            && self.waiting.is_empty()
            && self.deletions.is_empty()
    }

    pub(super) fn has_any(&self, holder: HolderId) -> bool {
        self.opens.iter().any(|open| open.holder == holder)
            || self.ranges.iter().any(|range| range.owner.holder == holder)
            || self.leases.iter().any(|lease| lease.holder == holder)
            || self.waiting.iter().any(|waiter| waiter.holder == holder)
    }

    pub(super) fn len(&self) -> usize {
        self.opens.len() + self.ranges.len() + self.leases.len() + self.waiting.len()
    }

    /// A ticket for a request that waits for a lease to be given up; a refusal if it cannot wait.
    pub(super) fn wait_for_recall(
        &mut self,
        step: &mut Step<'_>,
        holder: Option<HolderId>,
        waits: bool,
    ) -> Verdict {
        match holder {
            Some(holder) if waits => self.enqueue(step, holder, Want::Recall),
            _ => Verdict::Refused(Conflict::Recalling),
        }
    }

    pub(super) fn enqueue(&mut self, step: &mut Step<'_>, holder: HolderId, want: Want) -> Verdict {
        if !step.users.has_room(holder, self.waiting.iter().map(|waiter| waiter.holder)) {
            return Verdict::Refused(Conflict::TooMany);
        }
        let ticket = Ticket(step.id());
        step.touched.push(holder);
        self.waiting.push(Waiter { ticket, holder, want });
        Verdict::Wait(ticket)
    }

    pub(super) fn actor(&self, by: By) -> Result<Actor, Conflict> {
        match by {
            By::Anonymous => Ok(Actor::default()),
            By::Holder(holder) => Ok(Actor { holder: Some(holder), ..Actor::default() }),
            By::Open(id) => self.open_of(id).map(Open::actor).ok_or(Conflict::NotHeld),
        }
    }

    fn cancel(&mut self, ticket: Ticket) -> Verdict {
        match self.waiting.iter().position(|waiter| waiter.ticket == ticket) {
            Some(at) => {
                self.waiting.remove(at);
                // Others may have waited behind it.
                self.is_released = true;
                done()
            }
            None => Verdict::Refused(Conflict::NotHeld),
        }
    }
}
