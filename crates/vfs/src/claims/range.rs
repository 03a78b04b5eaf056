//! Byte ranges, enforced and advisory, in one list.

use super::entries::Range;
use super::file::FileClaims;
use super::range_set::{RangeGroup, RangeKind};
use super::spans::Window;
use super::step::{Actor, Step, granted};
use super::wait_queue::{Behind, RangeWaiter};
use super::{
    Caching, Conflict, Effect, LockOwner, LockRequest, OpenId, Outcome, Queueing, RevokedClaim, Span, Stream,
    Ticket, Verdict,
};
use crate::qos::Nanos;

impl Range {
    fn new(id: u64, request: &LockRequest, reserved_until: Option<Nanos>) -> Self {
        let LockRequest { owner, open, stream, span, is_exclusive, is_enforced, .. } = *request;
        Self { id, owner, open, stream, span, is_exclusive, is_enforced, reserved_until }
    }

    fn group(&self) -> RangeGroup {
        let kind = RangeKind { is_exclusive: self.is_exclusive, is_enforced: self.is_enforced };
        RangeGroup { owner: self.owner, open: self.open, kind }
    }

    pub(super) fn conflict(&self) -> Conflict {
        Conflict::Range { owner: self.owner, span: self.span, is_exclusive: self.is_exclusive }
    }
}

struct RangeConflict {
    conflict: Conflict,
    behind: Behind,
}

impl FileClaims {
    pub(super) fn ranges_of(&self, owner: LockOwner) -> usize {
        self.ranges.count_of(owner)
    }

    /// The ranges that end with an open, and whether each is exclusive.
    pub(super) fn ranges_with(&self, open: OpenId) -> Vec<(Span, bool)> {
        self.ranges.with(open).map(|range| (range.span, range.is_exclusive)).collect()
    }

    /// Whether unlocking these bytes splits a range of an owner.
    pub(super) fn is_split_by(&self, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        let met = self.ranges.advisory_of(owner, stream, Window::overlapping(span));
        met.iter().any(|range| range.span.without(span).iter().flatten().count() == 2)
    }

    fn has_room_for_range(&self, step: &Step<'_>, owner: LockOwner) -> bool {
        step.users.has_room(owner.holder, self.ranges.len(), || self.ranges.holders())
    }

    pub(super) fn lock(&mut self, step: &mut Step<'_>, request: &LockRequest) -> Verdict {
        if !self.has_room_for_range(step, request.owner) {
            return Verdict::Refused(Conflict::TooMany);
        }
        if let Some(RangeConflict { conflict, behind }) = self.in_the_way(step, request, Ticket(u64::MAX)) {
            let (until, kept) = match request.queueing {
                Queueing::Never => return Verdict::Refused(conflict),
                _ if request.reclaims => return Verdict::Refused(conflict),
                Queueing::Until(until) => (until, None),
                Queueing::Reserved { until, kept } => (until, Some(kept)),
            };
            let Some(ticket) = self.ticket(step, request.owner.holder) else {
                return Verdict::Refused(Conflict::TooMany);
            };
            self.line.add_range(ticket, RangeWaiter { request: *request, until, kept, behind });
            return Verdict::Wait(ticket);
        }
        let Some(actor) = self.lock_actor(request) else { return Verdict::Refused(Conflict::NotHeld) };
        if self.break_for_lock(step, actor, request) {
            let waits = request.queueing != Queueing::Never && !request.reclaims;
            return self.wait_for_recall(step, actor.holder, waits);
        }
        step.touched.push(request.owner.holder);
        let id = step.id();
        self.insert_range(step, Range::new(id, request, None));
        granted()
    }

    /// Returns the conflict of a range with held ranges, and, if it would wait, with requests that wait since before
    /// `ticket`. An owner that holds some of these bytes already does not queue behind those requests.
    fn in_the_way(
        &mut self,
        step: &mut Step<'_>,
        request: &LockRequest,
        ticket: Ticket,
    ) -> Option<RangeConflict> {
        let blocker = self.lock_conflict(step, request);
        let waits = request.queueing != Queueing::Never && !self.line.is_empty();
        let other = if waits { self.request_in_the_way(request, ticket) } else { None };
        // Waits behind an equal request rather than behind the held range, so that equal requests are granted one after
        // the other.
        let twin = || self.line.twin(request, ticket).filter(|_| waits);
        let conflict = blocker.or(other.map(|(_, range)| range))?.conflict();
        let behind = match (twin(), other, blocker) {
            (Some(twin), ..) => Behind { claim: twin.0, is_request: false },
            (None, Some((other, _)), _) => Behind { claim: other.0, is_request: true },
            (None, None, blocker) => Behind { claim: blocker?.id, is_request: false },
        };
        Some(RangeConflict { conflict, behind })
    }

    /// The last earlier request that this one must wait for, and the conflicting range.
    fn request_in_the_way(&self, request: &LockRequest, ticket: Ticket) -> Option<(Ticket, Range)> {
        let found = self.line.in_the_way(request, ticket)?;
        let waiter = self.line.range(found)?;
        let has_some = self.ranges.has_some(request.owner, request.stream, &request.span);
        (!has_some).then(|| (found, Range::new(found.0, &waiter.request, None)))
    }

    /// Returns a held range that conflicts with `request`, after revoking those that yield.
    fn lock_conflict(&mut self, step: &mut Step<'_>, request: &LockRequest) -> Option<Range> {
        let LockRequest { owner, is_exclusive, is_enforced, .. } = *request;
        let kinds = move || RangeKind::all_that(move |kind| is_exclusive || kind.is_exclusive);
        // An advisory owner converts its ranges. An enforced one may read below its own exclusive range, no more
        // (MS-FSA 2.1.4.10).
        let is_exempt = |range: &RangeGroup| range.owner == owner && !(is_enforced && is_exclusive);
        self.first_in_the_way(step, request.stream, &request.span, kinds, is_exempt)
    }

    /// Returns the first range of these kinds that overlaps a span and is not exempt, after revoking earlier ones that
    /// yield.
    pub(super) fn first_in_the_way<K: IntoIterator<Item = RangeKind>>(
        &mut self,
        step: &mut Step<'_>,
        stream: Stream,
        span: &Span,
        kinds: impl Fn() -> K,
        is_exempt: impl Fn(&RangeGroup) -> bool,
    ) -> Option<Range> {
        while !self.ranges.is_empty() {
            let found = self.ranges.first(stream, kinds(), Window::overlapping(span), &is_exempt)?;
            if !self.range_yields(step, &found.group()) {
                return Some(found);
            }
            self.revoke_range(step, &found);
        }
        None
    }

    fn range_yields(&self, step: &Step<'_>, range: &RangeGroup) -> bool {
        step.lapsed.contains(&range.owner.holder)
            || range.open.and_then(|open| self.open_of(open)).is_some_and(|open| open.yields(step))
    }

    fn revoke_range(&mut self, step: &mut Step<'_>, lost: &Range) {
        if let Some(open) = lost.open.and_then(|open| self.open_of(open)).map(|open| open.id) {
            return self.revoke_open(step, open);
        }
        self.remove_range(lost);
        step.revoked(lost.owner.holder, RevokedClaim::Range(lost.owner, lost.span));
    }

    /// Removes a range, and rechecks the requests behind it.
    fn remove_range(&mut self, range: &Range) {
        self.ranges.remove(range);
        self.line.released(range.id);
    }

    /// Ends up to `most` ranges of an open, if it has more than that; returns whether it did.
    pub(super) fn thin_out(&mut self, open: OpenId, most: usize) -> bool {
        let ranges: Vec<Range> = self.ranges.with(open).take(most + 1).collect();
        let is_more = ranges.len() > most;
        if is_more {
            ranges[..most].iter().for_each(|range| self.remove_range(range));
        }
        is_more
    }

    pub(super) fn remove_ranges_with(&mut self, open: OpenId) {
        let ranges: Vec<Range> = self.ranges.with(open).collect();
        ranges.iter().for_each(|range| self.remove_range(range));
    }

    pub(super) fn remove_range_of(&mut self, holder: super::HolderId) -> bool {
        let range = self.ranges.any_of(holder);
        range.iter().for_each(|range| self.remove_range(range));
        range.is_some()
    }

    pub(super) fn pass_ranges(&mut self, open: OpenId, holder: super::HolderId) {
        let ranges: Vec<Range> = self.ranges.with(open).collect();
        for range in ranges {
            self.remove_range(&range);
            let owner = LockOwner { holder, ..range.owner };
            self.ranges.insert(Range { owner, ..range });
        }
    }

    /// Rechecks the requests behind the ranges of an open, after the open started or stopped yielding.
    pub(super) fn recheck_behind_ranges_of(&mut self, open: OpenId) {
        for range in self.ranges.with(open) {
            self.line.released(range.id);
        }
    }

    fn lock_actor(&self, request: &LockRequest) -> Option<Actor> {
        match request.open {
            Some(open) => self.open_of(open).map(|open| open.actor()),
            None => Some(Actor { holder: Some(request.owner.holder), ..Actor::default() }),
        }
    }

    /// Breaks caches for a lock. A write cache may include ranges unknown to the server; a read cache would read below
    /// an exclusive range.
    fn break_for_lock(&mut self, step: &mut Step<'_>, actor: Actor, request: &LockRequest) -> bool {
        let must_go = if request.is_exclusive { Caching::READ | Caching::WRITE } else { Caching::WRITE };
        self.break_leases(step, actor, request.stream, |_| must_go)
    }

    pub(super) fn test_lock(&mut self, step: &mut Step<'_>, request: &LockRequest) -> Verdict {
        let LockRequest { owner, stream, span, is_exclusive, is_enforced, .. } = *request;
        let kinds = RangeKind::all_that(|kind| is_exclusive || kind.is_exclusive);
        let is_exempt = |range: &RangeGroup| {
            range.owner == owner && !(is_enforced && is_exclusive) || self.range_yields(step, range)
        };
        if let Some(range) = self.ranges.first(stream, kinds, Window::overlapping(&span), is_exempt) {
            return Verdict::Refused(range.conflict());
        }
        let Some(actor) = self.lock_actor(request) else { return Verdict::Refused(Conflict::NotHeld) };
        // A write cache may include ranges that the server does not know.
        if self.break_leases(step, actor, request.stream, |_| Caching::WRITE) {
            return Verdict::Refused(Conflict::Recalling);
        }
        granted()
    }

    /// Enforced ranges stack. Advisory ones replace those of the owner, and merge.
    pub(super) fn insert_range(&mut self, step: &mut Step<'_>, mut range: Range) {
        if !range.is_enforced {
            self.carve(step, range.owner, range.stream, &range.span);
            self.join(&mut range);
        }
        self.ranges.insert(range);
        self.line.acquired(range.owner, range.stream, &range.span);
    }

    /// Merges adjacent advisory ranges into `range`. The first of them passes on its number, so the requests behind it
    /// stay there.
    fn join(&mut self, range: &mut Range) {
        let span = range.span;
        let mut merged = self.ranges.advisory_of(range.owner, range.stream, Window::touching(&span));
        merged.retain(|other| {
            other.open == range.open
                && other.is_exclusive == range.is_exclusive
                && other.reserved_until.is_none()
                && range.reserved_until.is_none()
                && !self.is_parted(range.owner, range.stream, &other.span.hull(&span))
        });
        let Some(first) = merged.first() else { return };
        self.line.released(range.id);
        range.id = first.id;
        for other in &merged {
            range.span = range.span.hull(&other.span);
            self.ranges.remove(other);
            if other.id != range.id {
                self.line.released(other.id);
            }
        }
    }

    /// Whether another owner has an empty range inside this span: a merged range would surround it.
    fn is_parted(&self, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        self.ranges.has_empty_of_others(owner, stream, span)
    }

    /// Unlocks bytes of an owner's advisory ranges.
    fn carve(&mut self, step: &mut Step<'_>, owner: LockOwner, stream: Stream, span: &Span) {
        for range in self.ranges.advisory_of(owner, stream, Window::overlapping(span)) {
            self.remove_range(&range);
            for span in range.span.without(span).into_iter().flatten() {
                let id = step.id();
                self.ranges.insert(Range { id, span, ..range });
            }
        }
    }

    pub(super) fn unlock_bytes(
        &mut self,
        step: &mut Step<'_>,
        owner: LockOwner,
        stream: Stream,
        span: Span,
    ) -> Verdict {
        if !self.has_room_for_range(step, owner) && self.is_split_by(owner, stream, &span) {
            return Verdict::Refused(Conflict::TooMany);
        }
        self.carve(step, owner, stream, &span);
        granted()
    }

    pub(super) fn unlock(
        &mut self,
        owner: LockOwner,
        stream: Stream,
        span: Span,
        is_exclusive: Option<bool>,
    ) -> Verdict {
        let of = |is_exclusive| self.ranges.enforced_at(owner, stream, span, is_exclusive);
        // Of a stack, the exclusive one first.
        let found = is_exclusive.map_or_else(|| of(true).or_else(|| of(false)), of);
        let Some(range) = found else { return Verdict::Refused(Conflict::NotHeld) };
        self.remove_range(&range);
        granted()
    }

    /// Grants queued requests without a conflict, in order.
    pub(super) fn grant_queued(&mut self, step: &mut Step<'_>) {
        while let Some((ticket, waiter)) = self.line.next_due() {
            match self.in_the_way(step, &waiter.request, ticket) {
                Some(RangeConflict { behind, .. }) => self.line.wait_behind(ticket, behind),
                None => self.grant_waiter(step, ticket, &waiter),
            }
        }
    }

    fn grant_waiter(&mut self, step: &mut Step<'_>, ticket: Ticket, waiter: &RangeWaiter) {
        let RangeWaiter { request, kept, .. } = waiter;
        let (holder, owner) = (request.owner.holder, request.owner);
        self.line.remove(ticket);
        let is_ready = match self.lock_actor(request) {
            Some(actor) => !self.break_for_lock(step, actor, request),
            None => false,
        };
        if !is_ready {
            self.line.released(ticket.0);
            return step.resume(holder, ticket, Outcome::Again);
        }
        let reserved_until = kept.map(|kept| Nanos(step.now.0.saturating_add(kept.0)));
        self.insert_range(step, Range::new(ticket.0, request, reserved_until));
        if !(request.is_enforced && request.is_exclusive) {
            // Its own range does not conflict with the owner's other requests.
            self.line.released_to(owner, ticket.0);
        }
        match kept {
            None => step.resume(holder, ticket, Outcome::Granted),
            Some(_) => step.effects.push(Effect::Notify { holder, file: step.file, ticket, owner }),
        }
    }

    /// Ends expired reservations. The owner never held the range, so no claim is lost.
    pub(super) fn expire_reserved(&mut self, step: &Step<'_>) {
        while let Some(range) = self.ranges.reserved_until(step.now) {
            self.remove_range(&range);
        }
    }
}
