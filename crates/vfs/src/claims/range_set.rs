//! The byte ranges of one file, in orders that make searches for conflicts logarithmic.

use super::entries::Range;
use super::slab::{self, Slab};
use super::spans::{Counted, Farthest, Item, Links, Nothing, Order, Search, SpanTree, Window, place_in_tree};
use super::{HolderId, LockOwner, OpenId, Span, Stream};
use crate::qos::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// The ranges of a file; no allocation if there are none.
#[derive(Debug, Default)]
pub(super) struct Ranges(Option<Box<RangeIndexes>>);

#[derive(Debug, Default)]
struct RangeIndexes {
    all: Slab<Entry>,
    in_file: SpanTree<ByFile>,
    of_owners: SpanTree<ByOwner>,
    of_opens: SpanTree<ByOpen>,
    /// Reservations by their end.
    kept: BTreeMap<(Nanos, u64), u32>,
    /// Ends of reservations by number of the range.
    reserved_until: BTreeMap<u64, Nanos>,
    enforced: usize,
    /// Empty ranges: position and owner.
    empty: BTreeSet<(Stream, u64, LockOwner, u64)>,
}

/// The kind of a range: exclusive or shared, enforced or advisory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RangeKind {
    pub is_exclusive: bool,
    pub is_enforced: bool,
}

/// Ranges that are exempt from a search together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeGroup {
    pub owner: LockOwner,
    pub open: Option<OpenId>,
    pub kind: RangeKind,
}

/// A range with its place in each tree. There may be a million: Rust orders the fields without padding.
#[derive(Debug)]
struct Entry {
    id: u64,
    owner: LockOwner,
    /// Valid if `OPENED` is in `bits`.
    open: OpenId,
    start: u64,
    /// Valid unless `TO_END` is in `bits`.
    end: u64,
    stream: Stream,
    bits: u8,
    heights: [u8; 3],
    in_file: Links<Farthest>,
    of_owner: Links<Counted>,
    of_open: Links<Nothing>,
}

const EXCLUSIVE: u8 = 1;
const ENFORCED: u8 = 2;
const OPENED: u8 = 4;
const TO_END: u8 = 8;

// A range of the largest files takes no more than one of a small file did when there were no trees.
const _: () = assert!(size_of::<Entry>() <= 96);

impl Entry {
    fn new(range: &Range) -> Self {
        let Range { id, owner, open, stream, span, is_exclusive, is_enforced, .. } = *range;
        let (start, end) = span.to_bounds();
        let bit = |bit: u8, is_set: bool| bit * u8::from(is_set);
        Self {
            id,
            owner,
            open: open.unwrap_or(OpenId(0)),
            start,
            end: end.unwrap_or(0),
            stream,
            bits: bit(EXCLUSIVE, is_exclusive)
                | bit(ENFORCED, is_enforced)
                | bit(OPENED, open.is_some())
                | bit(TO_END, end.is_none()),
            heights: [0; 3],
            in_file: Links::default(),
            of_owner: Links::default(),
            of_open: Links::default(),
        }
    }

    fn has(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    fn kind(&self) -> RangeKind {
        RangeKind { is_exclusive: self.has(EXCLUSIVE), is_enforced: self.has(ENFORCED) }
    }

    fn open(&self) -> Option<OpenId> {
        self.has(OPENED).then_some(self.open)
    }
}

impl slab::Entry for Entry {
    fn next_free(&mut self) -> &mut u32 {
        self.in_file.unused()
    }
}

impl Item for Entry {
    fn span(&self) -> Span {
        Span::from_bounds(self.start, (!self.has(TO_END)).then_some(self.end))
    }

    fn is_exclusive(&self) -> bool {
        self.has(EXCLUSIVE)
    }

    fn id(&self) -> u64 {
        self.id
    }
}

#[derive(Debug)]
struct ByFile;

#[derive(Debug)]
struct ByOwner;

/// By the numbers of ranges.
#[derive(Debug)]
struct ByOpen;

impl Order for ByFile {
    type Entry = Entry;
    type Kind = (Stream, RangeKind);
    type Group = RangeGroup;
    type Below = Farthest;

    fn kind(entry: &Entry) -> Self::Kind {
        (entry.stream, entry.kind())
    }

    fn group(entry: &Entry) -> RangeGroup {
        RangeGroup { owner: entry.owner, open: entry.open(), kind: entry.kind() }
    }

    place_in_tree!(in_file, 0);
}

impl Order for ByOwner {
    type Entry = Entry;
    type Kind = (LockOwner, Stream, bool);
    type Group = ();
    type Below = Counted;

    fn kind(entry: &Entry) -> Self::Kind {
        (entry.owner, entry.stream, entry.has(ENFORCED))
    }

    fn group(_: &Entry) -> Self::Group {}

    place_in_tree!(of_owner, 1);
}

impl Order for ByOpen {
    type Entry = Entry;
    type Kind = (OpenId, u64);
    type Group = ();
    type Below = Nothing;

    fn kind(entry: &Entry) -> Self::Kind {
        (entry.open, entry.id)
    }

    fn group(_: &Entry) -> Self::Group {}

    place_in_tree!(of_open, 2);
}

impl RangeKind {
    const ALL: [Self; 4] = [
        Self { is_exclusive: true, is_enforced: false },
        Self { is_exclusive: true, is_enforced: true },
        Self { is_exclusive: false, is_enforced: false },
        Self { is_exclusive: false, is_enforced: true },
    ];

    pub(super) fn all_that(are: impl Fn(Self) -> bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |&kind| are(kind))
    }
}

impl Ranges {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.all.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns all ranges, in no order.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = Range> {
        self.0.iter().flat_map(|held| held.entries().map(|entry| held.range(entry)))
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = HolderId> {
        self.0.iter().flat_map(|held| held.entries().map(|entry| entry.owner.holder))
    }

    pub(super) fn has_enforced(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.enforced > 0)
    }

    pub(super) fn insert(&mut self, range: Range) {
        self.0.get_or_insert_default().insert(&range);
    }

    pub(super) fn remove(&mut self, range: &Range) {
        let Some(held) = &mut self.0 else { return };
        held.remove(range);
        if held.all.len() == 0 {
            self.0 = None;
        } else if held.all.is_sparse() {
            held.compact();
        }
    }

    /// The first range of these kinds in a window that is not exempt.
    pub(super) fn first(
        &self,
        stream: Stream,
        kinds: impl IntoIterator<Item = RangeKind>,
        window: Window,
        is_exempt: impl Fn(&RangeGroup) -> bool,
    ) -> Option<Range> {
        let ranges = self.0.as_ref()?;
        let search = ranges.in_file.of(&ranges.all);
        // Mostly nothing is in the way: then one look is enough for all kinds.
        if !search.is_any_reached(window, &is_exempt) {
            return None;
        }
        let mut kinds = kinds.into_iter();
        let found = kinds.find_map(|kind| search.first((stream, kind), window, &is_exempt))?;
        Some(ranges.range(found))
    }

    /// The advisory ranges of an owner in a window, in order: no two of them overlap.
    pub(super) fn advisory_of(&self, owner: LockOwner, stream: Stream, window: Window) -> Vec<Range> {
        let mut found = Vec::new();
        if let Some(held) = &self.0 {
            held.of_owners().all_in((owner, stream, false), window, |entry| found.push(held.range(entry)));
        }
        found
    }

    pub(super) fn has_some(&self, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        let window = Window::overlapping(span);
        let has = |held: &RangeIndexes, is_enforced| {
            held.of_owners().first((owner, stream, is_enforced), window, |()| false).is_some()
        };
        self.0.as_ref().is_some_and(|held| has(held, false) || has(held, true))
    }

    pub(super) fn enforced_at(
        &self,
        owner: LockOwner,
        stream: Stream,
        span: Span,
        is_exclusive: bool,
    ) -> Option<Range> {
        let ranges = self.0.as_ref()?;
        let found = ranges.of_owners().at_or_after((owner, stream, true), &span, is_exclusive)?;
        let found = ranges.range(found);
        let is_it = (found.owner, found.stream, found.is_enforced) == (owner, stream, true)
            && (found.span, found.is_exclusive) == (span, is_exclusive);
        is_it.then_some(found)
    }

    /// Whether another owner has an empty range inside this span.
    pub(super) fn has_empty_of_others(&self, owner: LockOwner, stream: Stream, span: &Span) -> bool {
        let least = LockOwner { holder: HolderId(0), owner: 0 };
        let (Some(held), Some(from)) = (&self.0, span.start().checked_add(1)) else { return false };
        let after = held.empty.range((stream, from, least, 0)..);
        let inside = after.take_while(|(of, at, ..)| *of == stream && u128::from(*at) < span.end());
        inside.map(|(_, _, other, _)| *other).any(|other| other != owner)
    }

    pub(super) fn count_of(&self, owner: LockOwner) -> usize {
        let Some(held) = &self.0 else { return 0 };
        let after = held.of_owners().count_before(|entry| entry.owner <= owner);
        after - held.of_owners().count_before(|entry| entry.owner < owner)
    }

    pub(super) fn any_of(&self, holder: HolderId) -> Option<Range> {
        let ranges = self.0.as_ref()?;
        let owner = LockOwner { holder, owner: 0 };
        let first = (owner, Stream::default(), false);
        let found = ranges.of_owners().at_or_after(first, &Span::NONE, false)?;
        (found.owner.holder == holder).then(|| ranges.range(found))
    }

    /// Returns the ranges that end with an open, oldest first.
    pub(super) fn with(&self, open: OpenId) -> impl Iterator<Item = Range> {
        self.0.iter().flat_map(move |held| held.with(open))
    }

    pub(super) fn next_reservation_end(&self) -> Option<Nanos> {
        self.0.as_ref()?.kept.first_key_value().map(|((until, _), _)| *until)
    }

    /// Returns a reservation that has expired.
    pub(super) fn reserved_until(&self, now: Nanos) -> Option<Range> {
        let ranges = self.0.as_ref()?;
        let ((until, _), at) = ranges.kept.first_key_value()?;
        (*until <= now).then(|| ranges.range(&ranges.all[*at]))
    }

    #[cfg(test)]
    pub(super) fn assert_sound(&self) {
        assert!(self.0.as_ref().is_none_or(|held| held.all.len() > 0));
        self.0.iter().for_each(|held| held.assert_sound());
    }
}

impl RangeIndexes {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter().filter(|entry| ByFile::height(entry) > 0)
    }

    fn range(&self, entry: &Entry) -> Range {
        let RangeKind { is_exclusive, is_enforced } = entry.kind();
        Range {
            id: entry.id,
            owner: entry.owner,
            open: entry.open(),
            stream: entry.stream,
            span: entry.span(),
            is_exclusive,
            is_enforced,
            reserved_until: self.reserved_until.get(&entry.id).copied(),
        }
    }

    fn of_owners(&self) -> Search<'_, ByOwner> {
        self.of_owners.of(&self.all)
    }

    /// The first range of an open from a number on.
    fn with_from(&self, open: OpenId, id: u64) -> Option<&Entry> {
        let found = self.of_opens.of(&self.all).at_or_after((open, id), &Span::NONE, false);
        found.filter(|entry| entry.open == open)
    }

    fn with(&self, open: OpenId) -> impl Iterator<Item = Range> {
        let next = move |entry: &&Entry| self.with_from(open, entry.id.checked_add(1)?);
        std::iter::successors(self.with_from(open, 0), next).map(|entry| self.range(entry))
    }

    fn insert(&mut self, range: &Range) {
        let Self { all, in_file, of_owners, of_opens, .. } = self;
        let at = all.insert(Entry::new(range));
        in_file.insert(all, at);
        of_owners.insert(all, at);
        if range.open.is_some() {
            of_opens.insert(all, at);
        }
        if let Some(until) = range.reserved_until {
            self.kept.insert((until, range.id), at);
            self.reserved_until.insert(range.id, until);
        }
        if range.span.is_empty() {
            self.empty.insert((range.stream, range.span.start(), range.owner, range.id));
        }
        self.enforced += usize::from(range.is_enforced);
    }

    fn remove(&mut self, range: &Range) {
        let Self { all, in_file, of_owners, of_opens, .. } = self;
        let entry = Entry::new(range);
        let Some(at) = in_file.remove(all, &entry) else { return };
        of_owners.remove(all, &entry);
        if range.open.is_some() {
            of_opens.remove(all, &entry);
        }
        all.remove(at);
        if let Some(until) = range.reserved_until {
            self.kept.remove(&(until, range.id));
            self.reserved_until.remove(&range.id);
        }
        if range.span.is_empty() {
            self.empty.remove(&(range.stream, range.span.start(), range.owner, range.id));
        }
        self.enforced -= usize::from(range.is_enforced);
    }

    /// Moves the entries to a smaller allocation, paid for by the removals before it.
    #[cold]
    fn compact(&mut self) {
        let mut fresh = Self::default();
        self.entries().for_each(|entry| fresh.insert(&self.range(entry)));
        *self = fresh;
    }

    #[cfg(test)]
    fn assert_sound(&self) {
        let count = |is: fn(&Range) -> bool| self.entries().filter(|entry| is(&self.range(entry))).count();
        assert_eq!(self.entries().count(), self.all.len());
        assert!(!self.all.is_sparse());
        assert_eq!(self.in_file.of(&self.all).assert_sound().len(), self.all.len());
        assert_eq!(self.of_owners().assert_sound().len(), self.all.len());
        assert_eq!(self.of_opens.of(&self.all).assert_sound().len(), count(|range| range.open.is_some()));
        assert_eq!(self.kept.len(), count(|range| range.reserved_until.is_some()));
        assert_eq!(self.reserved_until.len(), self.kept.len());
        assert_eq!(self.enforced, count(|range| range.is_enforced));
    }
}
