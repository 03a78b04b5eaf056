//! Requests that wait: for leases, and for byte ranges in line.
//!
//! A request for a range waits behind one claim that stands in its way: a range that is held, or a request before it. Only when that
//! goes is it looked at again. A request that is granted keeps its number as a range, so those behind it stay where they are. So the
//! end of a range is the business of those who wait for it, and not of all who wait.

use super::spans::{Item, SpanTree, Window};
use super::{HolderId, LockOwner, LockRequest, Span, Stream, Ticket};
use crate::qos::Nanos;
use std::collections::{BTreeMap, BTreeSet};

const NEVER: Nanos = Nanos(u64::MAX);

/// The requests that wait for claims on a file. Mostly there are none, and it takes no memory.
#[derive(Debug, Default)]
pub(super) struct Line(Option<Box<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    /// Those that wait for a lease to be given up: then they are applied again.
    recalls: BTreeMap<Ticket, HolderId>,
    ranges: BTreeMap<Ticket, RangeWaiter>,
    spans: SpanTree<InLine>,
    of_owners: SpanTree<OfOwner>,
    /// Those of them that stood behind a request of another owner when they were last looked at.
    behind_requests: SpanTree<OfOwner>,
    /// The claim that a request waits behind, and the request.
    behind: BTreeSet<(u64, Ticket)>,
    until: BTreeSet<(Nanos, Ticket)>,
    of_holders: BTreeSet<(HolderId, Ticket)>,
    /// Those that may be granted now.
    due: BTreeSet<Ticket>,
}

/// A request that waits for a byte range.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeWaiter {
    pub request: LockRequest,
    pub until: Nanos,
    pub kept: Option<Nanos>,
    pub behind: Behind,
}

/// The claim that a request waits behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// The number of the claim.
    pub claim: u64,
    /// Whether nothing but the request of another owner was in the way.
    pub is_request: bool,
}

#[derive(Clone, Copy, Debug)]
struct InLine {
    ticket: Ticket,
    owner: LockOwner,
    stream: Stream,
    span: Span,
    is_exclusive: bool,
    is_enforced: bool,
}

#[derive(Clone, Copy, Debug)]
struct OfOwner(InLine);

impl Item for InLine {
    type Kind = (Stream, bool);
    type Group = LockOwner;

    fn kind(&self) -> Self::Kind {
        (self.stream, self.is_exclusive)
    }

    fn span(&self) -> Span {
        self.span
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn id(&self) -> u64 {
        self.ticket.0
    }

    fn group(&self) -> LockOwner {
        self.owner
    }
}

impl Item for OfOwner {
    type Kind = (LockOwner, Stream);
    type Group = ();

    fn kind(&self) -> Self::Kind {
        (self.0.owner, self.0.stream)
    }

    fn span(&self) -> Span {
        self.0.span
    }

    fn is_exclusive(&self) -> bool {
        self.0.is_exclusive
    }

    fn id(&self) -> u64 {
        self.0.ticket.0
    }

    fn group(&self) -> Self::Group {}
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |requests| requests.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The holder of each.
    pub(super) fn holders(&self) -> impl Iterator<Item = HolderId> {
        self.0.iter().flat_map(|requests| requests.holders())
    }

    /// Those that a holder waits with.
    pub(super) fn of_holder(&self, holder: HolderId) -> impl Iterator<Item = Ticket> {
        self.0.iter().flat_map(move |requests| requests.of_holder(holder))
    }

    pub(super) fn add_recall(&mut self, ticket: Ticket, holder: HolderId) {
        self.0.get_or_insert_default().add_recall(ticket, holder);
    }

    pub(super) fn add_range(&mut self, ticket: Ticket, waiter: RangeWaiter) {
        self.0.get_or_insert_default().add_range(ticket, waiter);
    }

    /// Takes a request out: whose it is. Those behind it stay there.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<HolderId> {
        let holder = self.0.as_mut()?.remove(ticket);
        self.forget();
        holder
    }

    /// All that wait for leases.
    pub(super) fn take_recalls(&mut self) -> BTreeMap<Ticket, HolderId> {
        let recalls = self.0.as_mut().map(|requests| requests.take_recalls()).unwrap_or_default();
        self.forget();
        recalls
    }

    /// A request that waits for a range.
    pub(super) fn range(&self, ticket: Ticket) -> Option<&RangeWaiter> {
        self.0.as_ref()?.ranges.get(&ticket)
    }

    /// A claim is no longer in the way: those behind it are looked at.
    pub(super) fn released(&mut self, claim: u64) {
        if let Some(requests) = &mut self.0 {
            requests.released(claim);
        }
    }

    /// Has the requests of one owner that are behind a claim looked at.
    pub(super) fn released_to(&mut self, owner: LockOwner, claim: u64) {
        if let Some(requests) = &mut self.0 {
            requests.released_to(owner, claim);
        }
    }

    /// All that wait for ranges are looked at.
    pub(super) fn all_released(&mut self) {
        if let Some(requests) = &mut self.0 {
            requests.due.extend(requests.ranges.keys());
        }
    }

    /// An owner has got bytes: its requests for them do not wait behind other requests any longer.
    pub(super) fn acquired(&mut self, owner: LockOwner, stream: Stream, span: &Span) {
        if let Some(requests) = &mut self.0 {
            requests.acquired(owner, stream, span);
        }
    }

    /// The first of those to be looked at.
    pub(super) fn next_due(&mut self) -> Option<(Ticket, RangeWaiter)> {
        let requests = self.0.as_mut()?;
        let ticket = requests.due.pop_first()?;
        requests.ranges.get(&ticket).map(|waiter| (ticket, *waiter))
    }

    /// A request waits behind another claim from now on.
    pub(super) fn wait_behind(&mut self, ticket: Ticket, behind: Behind) {
        if let Some(requests) = &mut self.0 {
            requests.wait_behind(ticket, behind);
        }
    }

    /// The last request of another owner before `before` that `request` has to wait for.
    pub(super) fn in_the_way(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        self.0.as_ref()?.in_the_way(request, before)
    }

    /// The last request before `before` that is the same as `request`, of the same owner: it waits as long as that does.
    pub(super) fn twin(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        self.0.as_ref()?.twin(request, before)
    }

    /// When the first waits no longer.
    pub(super) fn next_until(&self) -> Option<Nanos> {
        self.0.as_ref()?.until.first().map(|(until, _)| *until)
    }

    /// One whose time is over.
    pub(super) fn overdue(&self, now: Nanos) -> Option<Ticket> {
        let first = self.0.as_ref()?.until.first();
        first.filter(|(until, _)| *until <= now).map(|(_, ticket)| *ticket)
    }

    fn forget(&mut self) {
        self.0 = self.0.take().filter(|requests| requests.len() > 0);
    }

    #[cfg(test)]
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        let all = |requests: &Requests| -> Vec<Ticket> {
            requests.recalls.keys().chain(requests.ranges.keys()).copied().collect()
        };
        self.0.iter().flat_map(move |requests| all(requests))
    }

    #[cfg(test)]
    pub(super) fn assert_sound(&self) {
        assert!(self.0.as_ref().is_none_or(|requests| requests.len() > 0));
        self.0.iter().for_each(|requests| requests.assert_sound());
    }
}

impl Requests {
    fn len(&self) -> usize {
        self.recalls.len() + self.ranges.len()
    }

    fn holders(&self) -> impl Iterator<Item = HolderId> {
        self.of_holders.iter().map(|(holder, _)| *holder)
    }

    fn of_holder(&self, holder: HolderId) -> impl Iterator<Item = Ticket> {
        let all = (holder, Ticket(0))..=(holder, Ticket(u64::MAX));
        self.of_holders.range(all).map(|(_, ticket)| *ticket)
    }

    fn add_recall(&mut self, ticket: Ticket, holder: HolderId) {
        self.recalls.insert(ticket, holder);
        self.of_holders.insert((holder, ticket));
    }

    fn add_range(&mut self, ticket: Ticket, waiter: RangeWaiter) {
        let RangeWaiter { request, until, behind, .. } = waiter;
        let item = in_line(ticket, &request);
        self.ranges.insert(ticket, waiter);
        self.spans.insert(item);
        self.of_owners.insert(OfOwner(item));
        self.behind.insert((behind.claim, ticket));
        if behind.is_request {
            self.behind_requests.insert(OfOwner(item));
        }
        self.of_holders.insert((request.owner.holder, ticket));
        if until != NEVER {
            self.until.insert((until, ticket));
        }
    }

    fn remove(&mut self, ticket: Ticket) -> Option<HolderId> {
        if let Some(holder) = self.recalls.remove(&ticket) {
            self.of_holders.remove(&(holder, ticket));
            return Some(holder);
        }
        let RangeWaiter { request, until, behind, .. } = self.ranges.remove(&ticket)?;
        let (item, holder) = (in_line(ticket, &request), request.owner.holder);
        self.spans.remove(&item);
        self.of_owners.remove(&OfOwner(item));
        self.behind.remove(&(behind.claim, ticket));
        if behind.is_request {
            self.behind_requests.remove(&OfOwner(item));
        }
        self.of_holders.remove(&(holder, ticket));
        self.until.remove(&(until, ticket));
        self.due.remove(&ticket);
        Some(holder)
    }

    fn take_recalls(&mut self) -> BTreeMap<Ticket, HolderId> {
        let recalls = std::mem::take(&mut self.recalls);
        for (&ticket, &holder) in &recalls {
            self.of_holders.remove(&(holder, ticket));
        }
        recalls
    }

    fn released(&mut self, claim: u64) {
        let all = (claim, Ticket(0))..=(claim, Ticket(u64::MAX));
        self.due.extend(self.behind.range(all).map(|(_, ticket)| *ticket));
    }

    fn released_to(&mut self, owner: LockOwner, claim: u64) {
        let all = (claim, Ticket(0))..=(claim, Ticket(u64::MAX));
        let behind = self.behind.range(all).map(|(_, ticket)| *ticket);
        let is_its =
            |ticket: &Ticket| self.ranges.get(ticket).is_some_and(|waiter| waiter.request.owner == owner);
        self.due.extend(behind.filter(is_its));
    }

    fn acquired(&mut self, owner: LockOwner, stream: Stream, span: &Span) {
        let behind = self.behind_requests.all_in((owner, stream), Window::overlapping(span));
        self.due.extend(behind.iter().map(|OfOwner(item)| item.ticket));
    }

    fn wait_behind(&mut self, ticket: Ticket, behind: Behind) {
        let Some(waiter) = self.ranges.get_mut(&ticket) else { return };
        let before = std::mem::replace(&mut waiter.behind, behind);
        let item = OfOwner(in_line(ticket, &waiter.request));
        self.behind.remove(&(before.claim, ticket));
        self.behind.insert((behind.claim, ticket));
        match (before.is_request, behind.is_request) {
            (true, false) => _ = self.behind_requests.remove(&item),
            (false, true) => _ = self.behind_requests.insert(item),
            _ => {}
        }
    }

    fn in_the_way(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        let LockRequest { stream, span, is_exclusive, owner, .. } = *request;
        let window = Window::overlapping(&span);
        let latest = |of_exclusive| {
            self.spans.latest((stream, of_exclusive), window, before.0, |item| item.owner == owner)
        };
        let shared = if is_exclusive { latest(false) } else { None };
        latest(true).into_iter().chain(shared).map(|item| item.ticket).max()
    }

    fn twin(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        let item = in_line(before, request);
        let OfOwner(found) = self.of_owners.last_before(&OfOwner(item))?;
        let is_twin = (found.owner, found.stream, found.span) == (item.owner, item.stream, item.span)
            && (found.is_exclusive, found.is_enforced) == (item.is_exclusive, item.is_enforced);
        is_twin.then_some(found.ticket)
    }

    #[cfg(test)]
    fn assert_sound(&self) {
        self.spans.assert_sound();
        self.of_owners.assert_sound();
        assert!(self.due.is_empty());
        let count = self.ranges.len();
        assert_eq!((self.spans.len(), self.of_owners.len(), self.behind.len()), (count, count, count));
        assert_eq!(self.of_holders.len(), self.len());
        assert!(self.behind.iter().all(|(claim, ticket)| self.ranges[ticket].behind.claim == *claim));
        self.behind_requests.assert_sound();
        let behind_requests = self.ranges.values().filter(|waiter| waiter.behind.is_request).count();
        assert_eq!(self.behind_requests.len(), behind_requests);
    }
}

fn in_line(ticket: Ticket, request: &LockRequest) -> InLine {
    let LockRequest { owner, stream, span, is_exclusive, is_enforced, .. } = *request;
    InLine { ticket, owner, stream, span, is_exclusive, is_enforced }
}
