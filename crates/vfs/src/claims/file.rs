//! The rules for all claims on one file: waiting requests, and rechecks after a release.

use super::entries::{Blocked, Deletion, Open};
use super::leases::Leases;
use super::opens::Opens;
use super::range_set::Ranges;
use super::step::{Actor, Step, granted};
use super::wait_queue::WaitQueue;
use super::{Conflict, HolderId, OpenId, Outcome, Request, Requester, Ticket, Verdict};
use crate::qos::Nanos;
use crate::small_map::SmallSet;
use std::collections::HashSet;

#[derive(Debug, Default)]
pub(super) struct FileClaims {
    pub opens: Opens,
    pub ranges: Ranges,
    pub leases: Leases,
    pub line: WaitQueue,
    pub deletions: Vec<Deletion>,
    /// Whether an open, a lease or a waiting request has gone since the last recheck of waiting requests.
    pub is_released: bool,
    /// Whether a deletion was decided since the last search for handle caches of the file.
    pub is_deleting: bool,
    /// The deadline under which the table lists this file.
    pub armed: Option<Nanos>,
    /// The holders under which the table indexes this file; may include holders without a claim.
    pub known: SmallSet<HolderId>,
    /// The file's share in the table's counters.
    pub counted: Blocked,
}

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

    /// Resumes requests and removes deleted files after a release.
    pub(super) fn resume_waiting(&mut self, step: &mut Step<'_>) {
        if std::mem::take(&mut self.is_deleting) || self.is_released {
            self.remove_deleted(step);
        }
        loop {
            if std::mem::take(&mut self.is_released) {
                for (ticket, holder) in self.line.take_recalls() {
                    step.resume(holder, ticket, Outcome::Again);
                }
            }
            self.grant_queued(step);
            if !self.is_released {
                break;
            }
            // An open that gave way may have been the last one.
            self.remove_deleted(step);
        }
    }

    pub(super) fn expire(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        while let Some(open) = self.opens.overdue(now) {
            self.revoke_open(step, open);
        }
        self.expire_leases(step);
        self.expire_reserved(step);
        while let Some(ticket) = self.line.overdue(now) {
            self.stop_waiting(step, ticket, Outcome::TimedOut);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let deadlines = [
            self.opens.next_until(),
            self.leases.sum().deadline,
            self.ranges.next_reservation_end(),
            self.line.next_until(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Ends up to a limit of a holder's claims on this file; returns whether none are left.
    pub(super) fn drop_holder(&mut self, step: &mut Step<'_>, holder: HolderId, most: usize) -> bool {
        let waiting: Vec<Ticket> = self.line.of_holder(holder).take(most).collect();
        let mut remaining = most - waiting.len();
        waiting.into_iter().for_each(|ticket| self.stop_waiting(step, ticket, Outcome::Canceled));
        while remaining > 0 && self.remove_range_of(holder) {
            remaining -= 1;
        }
        let its = |open: &&Open| open.holder == holder;
        let opens: Vec<OpenId> = self.opens.iter().filter(its).take(remaining).map(|open| open.id).collect();
        remaining -= opens.len();
        for open in opens {
            self.remove_open(step, open);
        }
        if remaining == 0 {
            return false;
        }
        let before = self.leases.len();
        self.leases.retain(|lease| lease.holder != holder);
        self.is_released |= self.leases.len() != before;
        true
    }

    pub(super) fn blocked(&self) -> Blocked {
        let (opens, leases) = (self.opens.counts(), self.leases.sum());
        let locks = self.ranges.has_enforced() || (!self.ranges.is_empty() && opens.mandatory > 0);
        let deletes = !self.deletions.is_empty() || opens.deleting > 0;
        Blocked {
            read: locks || opens.denying_reads > 0 || leases.writes,
            getattr: leases.has_write_delegation,
            eof: leases.writes,
            change: locks || opens.denying_writes > 0 || !self.leases.is_empty() || deletes,
            deletes,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.opens.is_empty()
            && self.ranges.is_empty()
            && self.leases.is_empty()
            && self.line.is_empty()
            && self.deletions.is_empty()
    }

    pub(super) fn holders(&self) -> HashSet<HolderId> {
        let opens = self.opens.iter().map(|open| open.holder);
        let leases = self.leases.iter().map(|lease| lease.holder);
        opens.chain(self.ranges.holders()).chain(leases).chain(self.line.holders()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.opens.len() + self.ranges.len() + self.leases.len() + self.line.len()
    }

    /// Returns a ticket for a request that waits for a recall; a refusal if it cannot wait.
    pub(super) fn wait_for_recall(
        &mut self,
        step: &mut Step<'_>,
        holder: Option<HolderId>,
        waits: bool,
    ) -> Verdict {
        match holder {
            Some(holder) if waits => match self.ticket(step, holder) {
                Some(ticket) => {
                    self.line.add_recall(ticket, holder);
                    Verdict::Wait(ticket)
                }
                None => Verdict::Refused(Conflict::TooMany),
            },
            _ => Verdict::Refused(Conflict::Recalling),
        }
    }

    pub(super) fn ticket(&self, step: &mut Step<'_>, holder: HolderId) -> Option<Ticket> {
        if !step.users.has_room(holder, self.line.len(), || self.line.holders()) {
            return None;
        }
        step.touched.push(holder);
        Some(Ticket(step.id()))
    }

    /// Removes a waiting request and rechecks those behind it.
    fn stop_waiting(&mut self, step: &mut Step<'_>, ticket: Ticket, outcome: Outcome) {
        if let Some(holder) = self.line.remove(ticket) {
            self.line.released(ticket.0);
            step.resume(holder, ticket, outcome);
        }
    }

    pub(super) fn actor(&self, by: Requester) -> Result<Actor, Conflict> {
        match by {
            Requester::Anonymous => Ok(Actor::default()),
            Requester::Holder(holder) => Ok(Actor { holder: Some(holder), ..Actor::default() }),
            Requester::Open(id) => self.open_of(id).map(Open::actor).ok_or(Conflict::NotHeld),
        }
    }

    fn cancel(&mut self, ticket: Ticket) -> Verdict {
        if self.line.remove(ticket).is_none() {
            return Verdict::Refused(Conflict::NotHeld);
        }
        // Others may have waited behind it.
        self.line.released(ticket.0);
        granted()
    }
}
