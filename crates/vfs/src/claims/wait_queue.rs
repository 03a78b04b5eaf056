//! Requests that wait for leases, and for byte ranges in order.
//!
//! A request for a range waits behind one conflicting claim: a held range, or an earlier request. Only the release of
//! that claim rechecks it. A granted request keeps its number as a range, so the requests behind it stay there. So the
//! release of a range costs only the requests behind it, not all that wait.

use super::slab::{self, Slab};
use super::spans::{Counted, Item, Links, Nothing, Numbered, Order, SpanTree, Window, place_in_tree};
use super::{HolderId, LockOwner, LockRequest, Span, Stream, Ticket};
use crate::qos::Nanos;
use std::collections::{BTreeMap, BTreeSet};

const NEVER: Nanos = Nanos(u64::MAX);

/// The requests that wait for claims on a file. Allocates nothing without requests.
#[derive(Debug, Default)]
pub(super) struct WaitQueue(Option<Box<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    /// Requests that wait for a recall; then they are applied again.
    recalls: BTreeMap<Ticket, HolderId>,
    ranges: BTreeMap<Ticket, (RangeWaiter, u32)>,
    all: Slab<Entry>,
    spans: SpanTree<ByBytes>,
    of_owners: SpanTree<ByOwner>,
    /// Requests that were behind a request of another owner at their last check.
    behind_requests: SpanTree<ByRequest>,
    /// The claim that a request waits behind, and the request.
    behind: BTreeSet<(u64, Ticket)>,
    until: BTreeSet<(Nanos, Ticket)>,
    of_holders: BTreeSet<(HolderId, Ticket)>,
    due: BTreeSet<Ticket>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RangeWaiter {
    pub request: LockRequest,
    pub until: Nanos,
    pub kept: Option<Nanos>,
    pub behind: Behind,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    pub claim: u64,
    /// Whether only a request of another owner conflicted.
    pub is_request: bool,
}

/// A request with its place in each tree.
#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    owner: LockOwner,
    span: Span,
    stream: Stream,
    is_exclusive: bool,
    is_enforced: bool,
    heights: [u8; 3],
    by_bytes: Links<Numbered>,
    of_owner: Links<Nothing>,
    behind_request: Links<Counted>,
}

impl Entry {
    fn new(ticket: Ticket, request: &LockRequest) -> Self {
        let LockRequest { owner, stream, span, is_exclusive, is_enforced, .. } = *request;
        Self {
            ticket,
            owner,
            span,
            stream,
            is_exclusive,
            is_enforced,
            heights: [0; 3],
            by_bytes: Links::default(),
            of_owner: Links::default(),
            behind_request: Links::default(),
        }
    }
}

impl slab::Entry for Entry {
    fn next_free(&mut self) -> &mut u32 {
        self.by_bytes.unused()
    }
}

impl Item for Entry {
    fn span(&self) -> Span {
        self.span
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn id(&self) -> u64 {
        self.ticket.0
    }
}

#[derive(Debug)]
struct ByBytes;

#[derive(Debug)]
struct ByOwner;

#[derive(Debug)]
struct ByRequest;

impl Order for ByBytes {
    type Entry = Entry;
    type Kind = (Stream, bool);
    type Group = LockOwner;
    type Below = Numbered;

    fn kind(entry: &Entry) -> Self::Kind {
        (entry.stream, entry.is_exclusive)
    }

    fn group(entry: &Entry) -> LockOwner {
        entry.owner
    }

    place_in_tree!(by_bytes, 0);
}

impl Order for ByOwner {
    type Entry = Entry;
    type Kind = (LockOwner, Stream);
    type Group = ();
    type Below = Nothing;

    fn kind(entry: &Entry) -> Self::Kind {
        (entry.owner, entry.stream)
    }

    fn group(_: &Entry) -> Self::Group {}

    place_in_tree!(of_owner, 1);
}

impl Order for ByRequest {
    type Entry = Entry;
    type Kind = (LockOwner, Stream);
    type Group = ();
    type Below = Counted;

    fn kind(entry: &Entry) -> Self::Kind {
        ByOwner::kind(entry)
    }

    fn group(_: &Entry) -> Self::Group {}

    place_in_tree!(behind_request, 2);
}

impl WaitQueue {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |requests| requests.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = HolderId> {
        self.0.iter().flat_map(|requests| requests.holders())
    }

    pub(super) fn of_holder(&self, holder: HolderId) -> impl Iterator<Item = Ticket> {
        self.0.iter().flat_map(move |requests| requests.of_holder(holder))
    }

    pub(super) fn add_recall(&mut self, ticket: Ticket, holder: HolderId) {
        self.0.get_or_insert_default().add_recall(ticket, holder);
    }

    pub(super) fn add_range(&mut self, ticket: Ticket, waiter: RangeWaiter) {
        self.0.get_or_insert_default().add_range(ticket, waiter);
    }

    /// Removes a request and returns its holder. The requests behind it stay there.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<HolderId> {
        let holder = self.0.as_mut()?.remove(ticket);
        self.forget();
        holder
    }

    pub(super) fn take_recalls(&mut self) -> BTreeMap<Ticket, HolderId> {
        let recalls = self.0.as_mut().map(|requests| requests.take_recalls()).unwrap_or_default();
        self.forget();
        recalls
    }

    /// A request that waits for a range.
    pub(super) fn range(&self, ticket: Ticket) -> Option<&RangeWaiter> {
        self.0.as_ref()?.waiter(ticket)
    }

    pub(super) fn released(&mut self, claim: u64) {
        if let Some(requests) = &mut self.0 {
            requests.released(claim);
        }
    }

    /// Rechecks the requests of one owner behind a claim.
    pub(super) fn released_to(&mut self, owner: LockOwner, claim: u64) {
        if let Some(requests) = &mut self.0 {
            requests.released_to(owner, claim);
        }
    }

    pub(super) fn all_released(&mut self) {
        if let Some(requests) = &mut self.0 {
            requests.due.extend(requests.ranges.keys());
        }
    }

    /// Notes that an owner acquired bytes: its requests for them no longer wait behind other requests.
    pub(super) fn acquired(&mut self, owner: LockOwner, stream: Stream, span: &Span) {
        if let Some(requests) = &mut self.0 {
            requests.acquired(owner, stream, span);
        }
    }

    pub(super) fn next_due(&mut self) -> Option<(Ticket, RangeWaiter)> {
        let requests = self.0.as_mut()?;
        let ticket = requests.due.pop_first()?;
        requests.waiter(ticket).map(|waiter| (ticket, *waiter))
    }

    pub(super) fn wait_behind(&mut self, ticket: Ticket, behind: Behind) {
        if let Some(requests) = &mut self.0 {
            requests.wait_behind(ticket, behind);
        }
    }

    /// The last request of another owner before `before` that `request` has to wait for.
    pub(super) fn in_the_way(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        self.0.as_ref()?.in_the_way(request, before)
    }

    /// The last request before `before` that equals `request`: both wait for the same time.
    pub(super) fn twin(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        self.0.as_ref()?.twin(request, before)
    }

    pub(super) fn next_until(&self) -> Option<Nanos> {
        self.0.as_ref()?.until.first().map(|(until, _)| *until)
    }

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

    fn waiter(&self, ticket: Ticket) -> Option<&RangeWaiter> {
        self.ranges.get(&ticket).map(|(waiter, _)| waiter)
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
        self.place(ticket, waiter);
        self.behind.insert((behind.claim, ticket));
        self.of_holders.insert((request.owner.holder, ticket));
        if until != NEVER {
            self.until.insert((until, ticket));
        }
    }

    fn place(&mut self, ticket: Ticket, waiter: RangeWaiter) {
        let at = self.all.insert(Entry::new(ticket, &waiter.request));
        self.spans.insert(&mut self.all, at);
        self.of_owners.insert(&mut self.all, at);
        if waiter.behind.is_request {
            self.behind_requests.insert(&mut self.all, at);
        }
        self.ranges.insert(ticket, (waiter, at));
    }

    #[cold]
    fn compact(&mut self) {
        self.all = Slab::default();
        (self.spans, self.of_owners, self.behind_requests) = Default::default();
        for (ticket, (waiter, _)) in std::mem::take(&mut self.ranges) {
            self.place(ticket, waiter);
        }
    }

    fn remove(&mut self, ticket: Ticket) -> Option<HolderId> {
        if let Some(holder) = self.recalls.remove(&ticket) {
            self.of_holders.remove(&(holder, ticket));
            return Some(holder);
        }
        let (RangeWaiter { request, until, behind, .. }, at) = self.ranges.remove(&ticket)?;
        let (entry, holder) = (Entry::new(ticket, &request), request.owner.holder);
        self.spans.remove(&mut self.all, &entry);
        self.of_owners.remove(&mut self.all, &entry);
        self.behind.remove(&(behind.claim, ticket));
        if behind.is_request {
            self.behind_requests.remove(&mut self.all, &entry);
        }
        self.all.remove(at);
        if self.all.is_sparse() {
            self.compact();
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
        let ranges = &self.ranges;
        let is_its =
            |ticket: &Ticket| ranges.get(ticket).is_some_and(|(waiter, _)| waiter.request.owner == owner);
        self.due.extend(behind.filter(is_its));
    }

    fn acquired(&mut self, owner: LockOwner, stream: Stream, span: &Span) {
        let behind_requests = self.behind_requests.of(&self.all);
        let due = &mut self.due;
        behind_requests
            .all_in((owner, stream), Window::overlapping(span), |entry| _ = due.insert(entry.ticket));
    }

    fn wait_behind(&mut self, ticket: Ticket, behind: Behind) {
        let Some((waiter, at)) = self.ranges.get_mut(&ticket) else { return };
        let before = std::mem::replace(&mut waiter.behind, behind);
        let (entry, at) = (Entry::new(ticket, &waiter.request), *at);
        self.behind.remove(&(before.claim, ticket));
        self.behind.insert((behind.claim, ticket));
        match (before.is_request, behind.is_request) {
            (true, false) => _ = self.behind_requests.remove(&mut self.all, &entry),
            (false, true) => self.behind_requests.insert(&mut self.all, at),
            _ => {}
        }
    }

    fn in_the_way(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        let LockRequest { stream, span, is_exclusive, owner, .. } = *request;
        let window = Window::overlapping(&span);
        let spans = self.spans.of(&self.all);
        let latest = |of_exclusive| spans.latest((stream, of_exclusive), window, before.0, |of| *of == owner);
        let shared = if is_exclusive { latest(false) } else { None };
        latest(true).into_iter().chain(shared).map(|entry| entry.ticket).max()
    }

    fn twin(&self, request: &LockRequest, before: Ticket) -> Option<Ticket> {
        let own = Entry::new(before, request);
        let found = self.of_owners.of(&self.all).last_before(&own)?;
        let is_twin = (found.owner, found.stream, found.span) == (own.owner, own.stream, own.span)
            && (found.is_exclusive, found.is_enforced) == (own.is_exclusive, own.is_enforced);
        is_twin.then_some(found.ticket)
    }

    #[cfg(test)]
    fn assert_sound(&self) {
        assert!(!self.all.is_sparse());
        let spans = self.spans.of(&self.all).assert_sound().len();
        let of_owners = self.of_owners.of(&self.all).assert_sound().len();
        let behind_requests = self.behind_requests.of(&self.all).assert_sound().len();
        assert!(self.due.is_empty());
        let count = self.ranges.len();
        assert_eq!((self.all.len(), spans, of_owners, self.behind.len()), (count, count, count, count));
        assert_eq!(self.of_holders.len(), self.len());
        assert!(self.ranges.iter().all(|(ticket, (_, at))| self.all[*at].ticket == *ticket));
        let claim = |ticket: &Ticket| self.ranges[ticket].0.behind.claim;
        assert!(self.behind.iter().all(|(behind, ticket)| claim(ticket) == *behind));
        let behind_request = self.ranges.values().filter(|(waiter, _)| waiter.behind.is_request);
        assert_eq!(behind_requests, behind_request.count());
    }
}
