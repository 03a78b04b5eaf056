//! Byte ranges: one list for those that are enforced and those that are advisory.

use super::held::{FileClaims, Range, Waiter, Want};
use super::step::{Actor, Step, done};
use super::{
    Caching, Conflict, Effect, LockOwner, LockRequest, Lost, OpenId, Outcome, Queueing, Span, Stream, Verdict,
};
use crate::qos::Nanos;

impl Range {
    fn new(request: &LockRequest, kept_until: Option<Nanos>) -> Self {
        let LockRequest { owner, open, stream, span, is_exclusive, is_enforced, .. } = *request;
        Self { owner, open, stream, span, is_exclusive, is_enforced, kept_until }
    }

    /// Whether this range, held or waited for, keeps `request` from being granted.
    fn blocks(&self, request: &LockRequest) -> bool {
        if self.stream != request.stream || !self.span.overlaps(&request.span) {
            return false;
        }
        if !self.is_exclusive && !request.is_exclusive {
            return false;
        }
        // An advisory owner converts what it has. An enforced one may read below its own exclusive range, no more
        // (MS-FSA 2.1.4.10).
        self.owner != request.owner || (request.is_enforced && request.is_exclusive)
    }

    pub(super) fn conflict(&self) -> Conflict {
        Conflict::Range { owner: self.owner, span: self.span, is_exclusive: self.is_exclusive }
    }
}

impl FileClaims {
    /// How many ranges an owner has here.
    pub(super) fn ranges_of(&self, owner: LockOwner) -> usize {
        self.ranges.iter().filter(|range| range.owner == owner).count()
    }

    /// The ranges that end with an open, and whether each is for it alone.
    pub(super) fn ranges_with(&self, open: OpenId) -> Vec<(Span, bool)> {
        let is_its = |range: &&Range| range.open == Some(open);
        self.ranges.iter().filter(is_its).map(|range| (range.span, range.is_exclusive)).collect()
    }

    /// Whether taking these bytes from an owner makes two ranges of one.
    pub(super) fn is_split_by(&self, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        self.ranges.iter().any(|range| {
            range.owner == owner
                && range.stream == stream
                && !range.is_enforced
                && range.span.overlaps(span)
                && range.span.without(span).iter().flatten().count() == 2
        })
    }

    fn has_room_for_range(&self, step: &Step<'_>, owner: LockOwner) -> bool {
        step.users.has_room(owner.holder, self.ranges.iter().map(|range| range.owner.holder))
    }

    pub(super) fn lock(&mut self, step: &mut Step<'_>, request: &LockRequest) -> Verdict {
        if !self.has_room_for_range(step, request.owner) {
            return Verdict::Refused(Conflict::TooMany);
        }
        if let Some(conflict) = self.lock_conflict(step, request) {
            let (until, kept) = match request.queueing {
                Queueing::Never => return Verdict::Refused(conflict),
                _ if request.reclaims => return Verdict::Refused(conflict),
                Queueing::Until(until) => (until, None),
                Queueing::Reserved { until, kept } => (until, Some(kept)),
            };
            return self.enqueue(step, request.owner.holder, Want::Range { request: *request, until, kept });
        }
        let Some(actor) = self.lock_actor(request) else { return Verdict::Refused(Conflict::NotHeld) };
        if self.break_for_lock(step, actor, request) {
            let waits = request.queueing != Queueing::Never && !request.reclaims;
            return self.wait_for_recall(step, actor.holder, waits);
        }
        step.touched.push(request.owner.holder);
        self.insert_range(Range::new(request, None));
        done()
    }

    /// What a range meets: what others hold, and, if it would wait, what waits for longer. Who has some of these bytes
    /// already does not stand behind those who wait for them.
    fn lock_conflict(&mut self, step: &mut Step<'_>, request: &LockRequest) -> Option<Conflict> {
        let held = self.first_blocking(step, |range| range.blocks(request));
        if held.is_some() || request.queueing == Queueing::Never || self.has_some_of(request) {
            return held;
        }
        self.waited_for(request).find(|range| range.blocks(request)).map(|range| range.conflict())
    }

    /// The first range that blocks, once those that yield have been taken away.
    pub(super) fn first_blocking(
        &mut self,
        step: &mut Step<'_>,
        blocks: impl Fn(&Range) -> bool,
    ) -> Option<Conflict> {
        let is_yielding = |range: &&Range| blocks(range) && self.range_yields(step, range);
        let yielding: Vec<Range> = self.ranges.iter().filter(is_yielding).copied().collect();
        for range in yielding {
            self.revoke_range(step, &range);
        }
        self.ranges.iter().find(|range| blocks(range)).map(Range::conflict)
    }

    fn range_yields(&self, step: &Step<'_>, range: &Range) -> bool {
        step.lapsed.contains(&range.owner.holder)
            || range.open.and_then(|open| self.open_of(open)).is_some_and(|open| open.yields(step))
    }

    fn has_some_of(&self, request: &LockRequest) -> bool {
        let is_own = |range: &Range| range.owner == request.owner && range.stream == request.stream;
        self.ranges.iter().any(|range| is_own(range) && range.span.overlaps(&request.span))
    }

    fn waited_for<'a>(&'a self, request: &'a LockRequest) -> impl Iterator<Item = Range> + 'a {
        self.waiting.iter().filter_map(move |waiter| match &waiter.want {
            Want::Range { request: waiting, .. } if waiting.owner != request.owner => {
                Some(Range::new(waiting, None))
            }
            _ => None,
        })
    }

    fn revoke_range(&mut self, step: &mut Step<'_>, lost: &Range) {
        if let Some(open) = lost.open.and_then(|open| self.open_of(open)).map(|open| open.id) {
            return self.revoke_open(step, open);
        }
        self.ranges.retain(|range| {
            range.owner != lost.owner || range.span != lost.span || range.stream != lost.stream
        });
        step.revoked(lost.owner.holder, Lost::Range(lost.owner, lost.span));
        self.is_released = true;
    }

    fn lock_actor(&self, request: &LockRequest) -> Option<Actor> {
        match request.open {
            Some(open) => self.open_of(open).map(|open| open.actor()),
            None => Some(Actor { holder: Some(request.owner.holder), ..Actor::default() }),
        }
    }

    /// Who may write later may hold ranges nobody knows of; who may read would read below an exclusive range.
    fn break_for_lock(&mut self, step: &mut Step<'_>, actor: Actor, request: &LockRequest) -> bool {
        let must_go = if request.is_exclusive { Caching::READ | Caching::WRITE } else { Caching::WRITE };
        self.break_leases(step, actor, request.stream, |_| must_go)
    }

    pub(super) fn test_lock(&mut self, step: &mut Step<'_>, request: &LockRequest) -> Verdict {
        let is_met = |range: &&Range| range.blocks(request) && !self.range_yields(step, range);
        if let Some(range) = self.ranges.iter().find(is_met) {
            return Verdict::Refused(range.conflict());
        }
        let Some(actor) = self.lock_actor(request) else { return Verdict::Refused(Conflict::NotHeld) };
        // Who may write later may hold ranges that nobody knows of.
        if self.break_leases(step, actor, request.stream, |_| Caching::WRITE) {
            return Verdict::Refused(Conflict::Recalling);
        }
        done()
    }

    /// Enforced ranges stack. Advisory ones replace what the owner has there, and grow together.
    fn insert_range(&mut self, mut range: Range) {
        if !range.is_enforced {
            self.carve(range.owner, range.stream, &range.span);
            // Between two ranges there may be one of another owner that has no bytes: both together would surround it.
            let is_between = |other: &&Range| {
                other.owner != range.owner && other.stream == range.stream && other.span.is_empty()
            };
            let between: Vec<Span> = self.ranges.iter().filter(is_between).map(|other| other.span).collect();
            let joins = |other: &mut Range| {
                other.owner == range.owner
                    && other.stream == range.stream
                    && other.open == range.open
                    && other.is_exclusive == range.is_exclusive
                    && !other.is_enforced
                    && other.kept_until.is_none()
                    && range.kept_until.is_none()
                    && other.span.touches(&range.span)
                    && !between.iter().any(|between| between.overlaps(&other.span.hull(&range.span)))
            };
            let joined: Vec<Range> = self.ranges.extract_if(.., joins).collect();
            range.span = joined.iter().fold(range.span, |span, other| span.hull(&other.span));
        }
        self.ranges.push(range);
    }

    /// Takes bytes out of an owner's advisory ranges.
    fn carve(&mut self, owner: LockOwner, stream: Stream, span: &Span) {
        let meets = |range: &mut Range| {
            range.owner == owner && range.stream == stream && !range.is_enforced && range.span.overlaps(span)
        };
        let met: Vec<Range> = self.ranges.extract_if(.., meets).collect();
        self.is_released |= !met.is_empty();
        for range in met {
            let rest = range.span.without(span).into_iter().flatten();
            self.ranges.extend(rest.map(|span| Range { span, ..range }));
        }
    }

    pub(super) fn unlock_bytes(
        &mut self,
        step: &Step<'_>,
        owner: LockOwner,
        stream: Stream,
        span: Span,
    ) -> Verdict {
        if !self.has_room_for_range(step, owner) && self.is_split_by(owner, stream, &span) {
            return Verdict::Refused(Conflict::TooMany);
        }
        self.carve(owner, stream, &span);
        done()
    }

    pub(super) fn unlock(
        &mut self,
        owner: LockOwner,
        stream: Stream,
        span: Span,
        is_exclusive: Option<bool>,
    ) -> Verdict {
        let is_it = |range: &Range| {
            range.owner == owner && range.stream == stream && range.span == span && range.is_enforced
        };
        let of = |is_exclusive| {
            self.ranges.iter().rposition(|range| is_it(range) && range.is_exclusive == is_exclusive)
        };
        // Of a stack, the exclusive one first.
        let found = is_exclusive.map_or_else(|| of(true).or_else(|| of(false)), of);
        let Some(at) = found else { return Verdict::Refused(Conflict::NotHeld) };
        self.ranges.remove(at);
        self.is_released = true;
        done()
    }

    /// Grants what waits for a range and meets nothing any longer, in order.
    pub(super) fn grant_queued(&mut self, step: &mut Step<'_>) {
        let waiting = std::mem::take(&mut self.waiting);
        for waiter in waiting {
            let Want::Range { request, kept, .. } = waiter.want else {
                self.waiting.push(waiter);
                continue;
            };
            // Those before it that still wait are in `self.waiting` already.
            if self.lock_conflict(step, &request).is_some() {
                self.waiting.push(waiter);
                continue;
            }
            self.grant_waiter(step, &waiter, &request, kept);
        }
    }

    fn grant_waiter(
        &mut self,
        step: &mut Step<'_>,
        waiter: &Waiter,
        request: &LockRequest,
        kept: Option<Nanos>,
    ) {
        let is_ready = match self.lock_actor(request) {
            Some(actor) => !self.break_for_lock(step, actor, request),
            None => false,
        };
        if !is_ready {
            return step.resume(waiter, Outcome::Again);
        }
        let kept_until = kept.map(|kept| Nanos(step.now.0.saturating_add(kept.0)));
        self.insert_range(Range::new(request, kept_until));
        match kept {
            None => step.resume(waiter, Outcome::Granted),
            Some(_) => step.effects.push(Effect::Notify {
                holder: waiter.holder,
                file: step.file,
                ticket: waiter.ticket,
                owner: request.owner,
            }),
        }
    }

    /// Gives up what was kept for owners that did not come. They never had it, so they have lost nothing.
    pub(super) fn expire_reserved(&mut self, step: &mut Step<'_>) {
        let is_over = |range: &mut Range| range.kept_until.is_some_and(|until| until <= step.now);
        self.is_released |= self.ranges.extract_if(.., is_over).count() > 0;
    }
}
