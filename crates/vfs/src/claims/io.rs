//! Checks of reads, writes and changes of names against the claims on a file.

use super::file::FileClaims;
use super::range_set::{RangeGroup, RangeKind};
use super::step::{Actor, Step, granted};
use super::{Caching, Conflict, Io, IoKind, LeaseKey, OpenId, Requester, Rights, Stream, Verdict};

impl FileClaims {
    pub(super) fn io(&mut self, step: &mut Step<'_>, io: &Io) -> Verdict {
        let actor = match self.actor(io.by) {
            Ok(actor) => actor,
            Err(conflict) => return Verdict::Refused(conflict),
        };
        let changes = matches!(io.kind, IoKind::Write | IoKind::Replace | IoKind::SetAttrs);
        if changes && self.is_pending_deletion(io.stream, actor) {
            // It would be acknowledged, and lost when others close the file.
            self.revoke_deleting(step, io.stream);
            self.revoke_deleted(step, |step, open| open.yields(step));
            return Verdict::Refused(Conflict::DeletePending);
        }
        if let Some(conflict) = self.io_denied(step, actor, io).or_else(|| self.io_locked(step, actor, io)) {
            return Verdict::Refused(conflict);
        }
        // A named stream has the attributes of its file.
        let file = Stream::default();
        let is_of_attrs = matches!(io.kind, IoKind::SetAttrs | IoKind::ReadAttrs | IoKind::ReadEnd);
        let stream = if is_of_attrs { file } else { io.stream };
        let unseen = match io.kind {
            IoKind::ReadEnd => self.write_delegations(stream),
            _ => Vec::new(),
        };
        let mut must_wait = self.break_leases(step, actor, stream, |lease| match (io.kind, lease.key) {
            // What it was given it was given of the file as it will be.
            (IoKind::Replace, LeaseKey::Oplock(open)) if actor.open == Some(open) => Caching::NONE,
            // A holder that reads without an open knows its own cache.
            (IoKind::Read, _) if actor.open.is_none() && actor.holder == Some(lease.holder) => Caching::NONE,
            (IoKind::Read, _) => Caching::WRITE,
            (IoKind::Write | IoKind::Replace, _) => Caching::READ | Caching::WRITE,
            // Attributes are cached with delegations alone (RFC 8881 §10.4.3).
            (IoKind::SetAttrs, LeaseKey::Delegation(_)) => lease.have,
            (IoKind::ReadAttrs, LeaseKey::Delegation(_)) => Caching::WRITE,
            (IoKind::ReadEnd, key) if unseen.contains(&key) => Caching::WRITE,
            (IoKind::SetAttrs | IoKind::ReadAttrs | IoKind::ReadEnd, _) => Caching::NONE,
        });
        if stream != file && io.kind != IoKind::Read {
            // Who writes it changes the times of the file.
            must_wait |= self.break_leases(step, actor, file, |lease| match lease.key {
                LeaseKey::Delegation(_) => lease.have,
                LeaseKey::Shared { .. } | LeaseKey::Oplock(_) => Caching::NONE,
            });
        }
        if must_wait {
            return self.wait_for_recall(step, actor.holder, io.waits);
        }
        granted()
    }

    /// Checks share modes, for requesters whose open has not passed them.
    fn io_denied(&mut self, step: &mut Step<'_>, actor: Actor, io: &Io) -> Option<Conflict> {
        let rights = match io.kind {
            IoKind::Read => Rights::READ,
            IoKind::Write | IoKind::Replace => Rights::WRITE,
            IoKind::SetAttrs | IoKind::ReadAttrs | IoKind::ReadEnd => return None,
        };
        if actor.open.is_some() {
            return None;
        }
        let denying = self.opens.denying(io.stream, rights);
        let yielding: Vec<OpenId> = denying.filter(|open| open.yields(step)).map(|open| open.id).collect();
        for open in yielding {
            self.revoke_open(step, open);
        }
        self.opens.denying(io.stream, rights).next().map(|_| Conflict::Share)
    }

    /// Checks ranges. Enforced ranges stop every requester; advisory ones stop requesters whose own ranges would be
    /// enforced.
    fn io_locked(&mut self, step: &mut Step<'_>, actor: Actor, io: &Io) -> Option<Conflict> {
        if matches!(io.kind, IoKind::Replace | IoKind::SetAttrs | IoKind::ReadAttrs | IoKind::ReadEnd)
            || io.span.is_empty()
            || self.ranges.is_empty()
        {
            return None;
        }
        let is_write = io.kind == IoKind::Write;
        let open = actor.open.and_then(|open| self.open_of(open));
        let is_mandatory = open.is_some_and(|open| open.is_mandatory);
        // Nobody writes below a shared range, not even its owner (MS-FSA 2.1.4.10).
        let kinds = || {
            RangeKind::all_that(move |kind| {
                (kind.is_exclusive || is_write) && (kind.is_enforced || is_mandatory)
            })
        };
        let is_exempt = |range: &RangeGroup| {
            let is_own = match range.open {
                Some(_) => range.open == actor.open,
                None => Some(range.owner.holder) == actor.holder,
            };
            is_own && (range.kind.is_exclusive || !is_mandatory)
        };
        self.first_in_the_way(step, io.stream, &io.span, kinds, is_exempt).map(|range| range.conflict())
    }

    /// Checks the removal of a name: recalls handle caches and delegations.
    pub(super) fn unlink(&mut self, step: &mut Step<'_>, by: Requester, waits: bool) -> Verdict {
        // Perhaps with an open of another file, whose name this one gives way to.
        let actor = self.actor(by).unwrap_or_default();
        if self.break_leases(step, actor, Stream::default(), |_| Caching::HANDLE) {
            return self.wait_for_recall(step, actor.holder, waits);
        }
        granted()
    }

    pub(super) fn listing_changed(&mut self, step: &mut Step<'_>, except: Option<LeaseKey>) -> Verdict {
        let actor = Actor { key: except, ..Actor::default() };
        self.break_leases(step, actor, Stream::default(), |_| Caching::READ | Caching::WRITE);
        granted()
    }
}
