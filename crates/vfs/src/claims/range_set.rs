//! The byte ranges of one file, in such orders that asking for those in a way takes a number of steps that grows with their logarithm.

use super::held::Range;
use super::spans::{Item, Slot, SpanTree, Window};
use super::{HolderId, LockOwner, OpenId, Span, Stream};
use crate::qos::Nanos;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Ranges {
    in_file: SpanTree<InFile>,
    of_owners: SpanTree<OfOwner>,
    of_opens: BTreeMap<(OpenId, u64), Slot>,
    /// Those that are only kept for their owners, by when that ends.
    kept: BTreeMap<(Nanos, u64), Slot>,
    /// The number of enforced ones.
    enforced: usize,
    /// Those without bytes: where they are, and whose.
    empty: BTreeSet<(Stream, u64, LockOwner, u64)>,
}

/// The kind of a range: exclusive or shared, enforced or advisory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RangeKind {
    pub is_exclusive: bool,
    pub is_enforced: bool,
}

#[derive(Clone, Copy, Debug)]
struct InFile(Range);

#[derive(Clone, Copy, Debug)]
struct OfOwner(Range);

impl Item for InFile {
    type Kind = (Stream, RangeKind);
    type Group = (LockOwner, Option<OpenId>, RangeKind);

    fn kind(&self) -> Self::Kind {
        (self.0.stream, self.0.kind())
    }

    fn span(&self) -> Span {
        self.0.span
    }

    fn is_exclusive(&self) -> bool {
        self.0.is_exclusive
    }

    fn id(&self) -> u64 {
        self.0.id
    }

    fn group(&self) -> Self::Group {
        (self.0.owner, self.0.open, self.0.kind())
    }
}

impl Item for OfOwner {
    type Kind = (LockOwner, Stream, bool);
    type Group = ();

    fn kind(&self) -> Self::Kind {
        (self.0.owner, self.0.stream, self.0.is_enforced)
    }

    fn span(&self) -> Span {
        self.0.span
    }

    fn is_exclusive(&self) -> bool {
        self.0.is_exclusive
    }

    fn id(&self) -> u64 {
        self.0.id
    }

    fn group(&self) -> Self::Group {}
}

impl RangeKind {
    const ALL: [Self; 4] = [
        Self { is_exclusive: true, is_enforced: false },
        Self { is_exclusive: true, is_enforced: true },
        Self { is_exclusive: false, is_enforced: false },
        Self { is_exclusive: false, is_enforced: true },
    ];

    /// Those of which this is true.
    pub(super) fn all_that(are: impl Fn(Self) -> bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |&kind| are(kind))
    }
}

impl Ranges {
    pub(super) fn len(&self) -> usize {
        self.in_file.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_file.is_empty()
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range> {
        self.in_file.iter().map(|InFile(range)| range)
    }

    pub(super) fn has_enforced(&self) -> bool {
        self.enforced > 0
    }

    pub(super) fn insert(&mut self, range: Range) {
        let slot = self.in_file.insert(InFile(range));
        self.of_owners.insert(OfOwner(range));
        if let Some(open) = range.open {
            self.of_opens.insert((open, range.id), slot);
        }
        if let Some(until) = range.kept_until {
            self.kept.insert((until, range.id), slot);
        }
        if range.span.is_empty() {
            self.empty.insert((range.stream, range.span.start(), range.owner, range.id));
        }
        self.enforced += usize::from(range.is_enforced);
    }

    /// Removes a range that is here.
    pub(super) fn remove(&mut self, range: &Range) {
        if !self.in_file.remove(&InFile(*range)) {
            return;
        }
        self.of_owners.remove(&OfOwner(*range));
        if let Some(open) = range.open {
            self.of_opens.remove(&(open, range.id));
        }
        if let Some(until) = range.kept_until {
            self.kept.remove(&(until, range.id));
        }
        if range.span.is_empty() {
            self.empty.remove(&(range.stream, range.span.start(), range.owner, range.id));
        }
        self.enforced -= usize::from(range.is_enforced);
    }

    /// The first range of these kinds in a window that is not exempt. Of a kind, all that an owner has by one open are exempt, or none.
    pub(super) fn first(
        &self,
        stream: Stream,
        kinds: impl IntoIterator<Item = RangeKind>,
        window: Window,
        is_exempt: impl Fn(&Range) -> bool,
    ) -> Option<Range> {
        let is_exempt = |InFile(range): &InFile| is_exempt(range);
        let mut kinds = kinds.into_iter();
        kinds.find_map(|kind| self.in_file.first((stream, kind), window, is_exempt)).map(|found| found.0)
    }

    /// The advisory ranges of an owner in a window, in order: no two of them overlap.
    pub(super) fn advisory_of(&self, owner: LockOwner, stream: Stream, window: Window) -> Vec<Range> {
        let found = self.of_owners.all_in((owner, stream, false), window);
        found.into_iter().map(|OfOwner(range)| range).collect()
    }

    /// Whether an owner has any of these bytes.
    pub(super) fn has_some(&self, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        let window = Window::overlapping(span);
        let has =
            |is_enforced| self.of_owners.first((owner, stream, is_enforced), window, |_| false).is_some();
        has(false) || has(true)
    }

    /// An enforced range of an owner of exactly these bounds.
    pub(super) fn enforced_at(
        &self,
        owner: LockOwner,
        stream: Stream,
        span: Span,
        is_exclusive: bool,
    ) -> Option<Range> {
        let OfOwner(found) = self.of_owners.at_or_after((owner, stream, true), &span, is_exclusive)?;
        let is_it = (found.owner, found.stream, found.is_enforced) == (owner, stream, true)
            && (found.span, found.is_exclusive) == (span, is_exclusive);
        is_it.then_some(*found)
    }

    /// Whether another owner has a range without bytes in the midst of this span.
    pub(super) fn has_empty_of_others(&self, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        let least = LockOwner { holder: HolderId(0), owner: 0 };
        let Some(from) = span.start().checked_add(1) else { return false };
        let after = self.empty.range((stream, from, least, 0)..);
        let inside = after.take_while(|(of, at, ..)| *of == stream && u128::from(*at) < span.end());
        inside.map(|(_, _, other, _)| *other).any(|other| other != owner)
    }

    /// The number of ranges of an owner.
    pub(super) fn count_of(&self, owner: LockOwner) -> usize {
        let after = self.of_owners.count_before(|OfOwner(range)| range.owner <= owner);
        after - self.of_owners.count_before(|OfOwner(range)| range.owner < owner)
    }

    /// One of those that a holder has.
    pub(super) fn any_of(&self, holder: HolderId) -> Option<Range> {
        let owner = LockOwner { holder, owner: 0 };
        let none = Span::NONE;
        let OfOwner(found) = self.of_owners.at_or_after((owner, Stream::default(), false), &none, false)?;
        (found.owner.holder == holder).then_some(*found)
    }

    /// Those that end with an open.
    pub(super) fn with(&self, open: OpenId) -> impl Iterator<Item = &Range> {
        let slots = self.of_opens.range((open, 0)..=(open, u64::MAX)).map(|(_, slot)| *slot);
        slots.filter_map(|slot| self.in_file.at(slot)).map(|InFile(range)| range)
    }

    /// When the first of those that are only kept ends.
    pub(super) fn next_kept(&self) -> Option<Nanos> {
        self.kept.first_key_value().map(|((until, _), _)| *until)
    }

    /// One that was only kept, and its time is over.
    pub(super) fn kept_until(&self, now: Nanos) -> Option<Range> {
        let ((until, _), slot) = self.kept.first_key_value()?;
        let is_over = *until <= now;
        self.in_file.at(*slot).filter(|_| is_over).map(|InFile(range)| *range)
    }

    #[cfg(test)]
    pub(super) fn assert_sound(&self) {
        self.in_file.assert_sound();
        self.of_owners.assert_sound();
        let count = |is: fn(&Range) -> bool| self.iter().filter(|range| is(range)).count();
        assert_eq!(self.of_owners.len(), self.len());
        assert_eq!(self.of_opens.len(), count(|range| range.open.is_some()));
        assert_eq!(self.kept.len(), count(|range| range.kept_until.is_some()));
        assert_eq!(self.enforced, count(|range| range.is_enforced));
    }
}
