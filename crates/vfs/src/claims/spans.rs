//! Interval trees: ordered spans in balanced trees whose nodes know the farthest end below them.
//!
//! A search takes a number of steps that grows with the logarithm of the spans, even if many matches are skipped
//! because they belong to one group: each node knows the farthest end below it, and the farthest end of any other
//! group.
//!
//! Several trees share entries, each in an order of its own. An entry exists once in memory and contains its links for
//! each tree. All links are indexes of entries, also those to the farthest ends: an end is read where its entry is.

use super::Span;
use super::slab::{Entry, NIL, Slab};
use std::cmp::Ordering;
use std::marker::PhantomData;

/// An order of entries, for one tree.
pub(super) trait Order: Sized {
    type Entry: Item;
    /// A search looks at one kind.
    type Kind: Copy + Ord;
    /// A search passes over whole groups.
    type Group: PartialEq;
    type Below: Below<Self>;

    fn kind(entry: &Self::Entry) -> Self::Kind;
    fn group(entry: &Self::Entry) -> Self::Group;
    fn links(entry: &Self::Entry) -> &Links<Self::Below>;
    fn links_mut(entry: &mut Self::Entry) -> &mut Links<Self::Below>;
    /// Stored apart from the links, where it would take four bytes.
    fn height(entry: &Self::Entry) -> u8;
    fn set_height(entry: &mut Self::Entry, height: u8);
}

/// Implements an [`Order`] for entries with links in one field and heights in one array.
macro_rules! place_in_tree {
    ($links:ident, $height:literal) => {
        fn links(entry: &Self::Entry) -> &Links<Self::Below> {
            &entry.$links
        }

        fn links_mut(entry: &mut Self::Entry) -> &mut Links<Self::Below> {
            &mut entry.$links
        }

        fn height(entry: &Self::Entry) -> u8 {
            entry.heights[$height]
        }

        fn set_height(entry: &mut Self::Entry, height: u8) {
            entry.heights[$height] = height;
        }
    };
}

pub(super) use place_in_tree;

pub(super) trait Item: Entry {
    fn span(&self) -> Span;
    fn is_exclusive(&self) -> bool;
    /// A unique number, larger than those of earlier items.
    fn id(&self) -> u64;
}

/// The place of an entry in a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links<B> {
    left: u32,
    right: u32,
    below: B,
}

impl<B: Default> Default for Links<B> {
    fn default() -> Self {
        Self { left: NIL, right: NIL, below: B::default() }
    }
}

impl<B> Links<B> {
    /// A number that can be used for something else as long as the entry is in no tree.
    pub(super) fn unused(&mut self) -> &mut u32 {
        &mut self.left
    }
}

/// A summary of a subtree.
pub(super) trait Below<O: Order>: Copy + Default + 'static {
    /// The summary of a node with nothing below it.
    fn of(at: u32) -> Self;

    fn add(&mut self, other: Self, slab: &Slab<O::Entry>);

    /// Excludes a node, if that leaves the rest unchanged. False: rebuild the summary.
    fn remove(&mut self, gone: u32) -> bool;

    /// Whether any entry that is not exempt reaches the window. A summary that cannot know returns true.
    fn is_reached(
        &self,
        slab: &Slab<O::Entry>,
        window: Window,
        is_exempt: &impl Fn(&O::Group) -> bool,
    ) -> bool;

    /// Panics unless it is the summary of these.
    #[cfg(test)]
    fn assert_is_of(&self, slab: &Slab<O::Entry>, entries: &[&O::Entry]);
}

/// No summary: for an order without window searches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nothing;

/// The entry with the farthest end, and the number of entries. It knows no groups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    farthest: u32,
    count: u32,
}

/// The entry with the farthest end, and the farthest entry of any other group (`NIL` without one).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Farthest {
    first: u32,
    second: u32,
}

/// The farthest ends, and the entries with the lowest and the highest number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbered {
    farthest: Farthest,
    lowest: u32,
    highest: u32,
}

impl<O: Order> Below<O> for Nothing {
    fn of(_: u32) -> Self {
        Self
    }

    fn add(&mut self, _: Self, _: &Slab<O::Entry>) {}

    fn remove(&mut self, _: u32) -> bool {
        true
    }

    fn is_reached(&self, _: &Slab<O::Entry>, _: Window, _: &impl Fn(&O::Group) -> bool) -> bool {
        true
    }

    #[cfg(test)]
    fn assert_is_of(&self, _: &Slab<O::Entry>, _: &[&O::Entry]) {}
}

impl<O: Order> Below<O> for Counted {
    fn of(at: u32) -> Self {
        Self { farthest: at, count: 1 }
    }

    fn add(&mut self, other: Self, slab: &Slab<O::Entry>) {
        self.count += other.count;
        if slab[other.farthest].span().end() > slab[self.farthest].span().end() {
            self.farthest = other.farthest;
        }
    }

    fn remove(&mut self, gone: u32) -> bool {
        self.count -= 1;
        self.farthest != gone
    }

    fn is_reached(&self, slab: &Slab<O::Entry>, window: Window, _: &impl Fn(&O::Group) -> bool) -> bool {
        window.is_reached_by(slab[self.farthest].span().end())
    }

    #[cfg(test)]
    fn assert_is_of(&self, slab: &Slab<O::Entry>, entries: &[&O::Entry]) {
        assert_eq!(self.count as usize, entries.len());
        let farthest = entries.iter().map(|entry| entry.span().end()).max();
        assert_eq!(Some(slab[self.farthest].span().end()), farthest);
    }
}

impl Farthest {
    fn note<O: Order>(&mut self, at: u32, slab: &Slab<O::Entry>) {
        let Some(new) = slab.get(at) else { return };
        let (first, end) = (&slab[self.first], new.span().end());
        let is_farther = end > first.span().end();
        if O::group(new) == O::group(first) {
            if is_farther {
                self.first = at;
            }
        } else if is_farther {
            (self.second, self.first) = (self.first, at);
        } else if slab.get(self.second).is_none_or(|second| end > second.span().end()) {
            self.second = at;
        }
    }
}

impl<O: Order> Below<O> for Farthest {
    fn of(at: u32) -> Self {
        Self { first: at, second: NIL }
    }

    fn add(&mut self, other: Self, slab: &Slab<O::Entry>) {
        self.note::<O>(other.first, slab);
        self.note::<O>(other.second, slab);
    }

    fn remove(&mut self, gone: u32) -> bool {
        self.first != gone && self.second != gone
    }

    fn is_reached(
        &self,
        slab: &Slab<O::Entry>,
        window: Window,
        is_exempt: &impl Fn(&O::Group) -> bool,
    ) -> bool {
        let first = &slab[self.first];
        window.is_reached_by(first.span().end())
            && (!is_exempt(&O::group(first))
                || slab.get(self.second).is_some_and(|second| window.is_reached_by(second.span().end())))
    }

    #[cfg(test)]
    fn assert_is_of(&self, slab: &Slab<O::Entry>, entries: &[&O::Entry]) {
        let (first, second) = (&slab[self.first], slab.get(self.second));
        let farthest = entries.iter().map(|entry| entry.span().end()).max();
        assert_eq!(Some(first.span().end()), farthest);
        let others = entries.iter().filter(|entry| O::group(entry) != O::group(first));
        assert_eq!(second.map(|second| second.span().end()), others.map(|entry| entry.span().end()).max());
        assert!(second.is_none_or(|second| O::group(second) != O::group(first)));
    }
}

impl<O: Order> Below<O> for Numbered {
    fn of(at: u32) -> Self {
        Self { farthest: <Farthest as Below<O>>::of(at), lowest: at, highest: at }
    }

    fn add(&mut self, other: Self, slab: &Slab<O::Entry>) {
        <Farthest as Below<O>>::add(&mut self.farthest, other.farthest, slab);
        if slab[other.lowest].id() < slab[self.lowest].id() {
            self.lowest = other.lowest;
        }
        if slab[other.highest].id() > slab[self.highest].id() {
            self.highest = other.highest;
        }
    }

    fn remove(&mut self, gone: u32) -> bool {
        self.lowest != gone
            && self.highest != gone
            && <Farthest as Below<O>>::remove(&mut self.farthest, gone)
    }

    fn is_reached(
        &self,
        slab: &Slab<O::Entry>,
        window: Window,
        is_exempt: &impl Fn(&O::Group) -> bool,
    ) -> bool {
        <Farthest as Below<O>>::is_reached(&self.farthest, slab, window, is_exempt)
    }

    #[cfg(test)]
    fn assert_is_of(&self, slab: &Slab<O::Entry>, entries: &[&O::Entry]) {
        <Farthest as Below<O>>::assert_is_of(&self.farthest, slab, entries);
        let ids = || entries.iter().map(|entry| entry.id());
        let bounds = (slab[self.lowest].id(), slab[self.highest].id());
        assert_eq!((Some(bounds.0), Some(bounds.1)), (ids().min(), ids().max()));
    }
}

type Key<O> = (<O as Order>::Kind, u64, u128, bool, u64);

/// Selects spans that end after one point and begin before another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    after: Option<u64>,
    before: u128,
}

impl Window {
    pub(super) const ALL: Self = Self { after: None, before: u128::MAX };

    pub(super) fn overlapping(span: &Span) -> Self {
        Self { after: Some(span.start()), before: span.end() }
    }

    /// The spans that overlap this one, or begin or end where it ends or begins.
    pub(super) fn touching(span: &Span) -> Self {
        Self { after: span.start().checked_sub(1), before: span.end() + 1 }
    }

    fn is_reached_by(&self, end: u128) -> bool {
        self.after.is_none_or(|after| end > u128::from(after))
    }

    fn begins_after(&self, start: u64) -> bool {
        u128::from(start) < self.before
    }
}

#[derive(Debug)]
pub(super) struct SpanTree<O> {
    root: u32,
    order: PhantomData<O>,
}

impl<O> Default for SpanTree<O> {
    fn default() -> Self {
        Self { root: NIL, order: PhantomData }
    }
}

impl<O: Order> SpanTree<O> {
    pub(super) fn of<'a>(&self, slab: &'a Slab<O::Entry>) -> Search<'a, O> {
        Search { slab, root: self.root }
    }

    pub(super) fn insert(&mut self, slab: &mut Slab<O::Entry>, new: u32) {
        let below = O::Below::of(new);
        *O::links_mut(&mut slab[new]) = Links { left: NIL, right: NIL, below };
        O::set_height(&mut slab[new], 1);
        let which = key::<O>(&slab[new]);
        self.root = Change::<O>(slab).insert_below(self.root, new, &which);
    }

    /// Removes the entry at the place of `entry`; returns its slab number. The slab retains the entry.
    pub(super) fn remove(&mut self, slab: &mut Slab<O::Entry>, entry: &O::Entry) -> Option<u32> {
        let (root, removed) = Change::<O>(slab).remove_below(self.root, &key::<O>(entry));
        self.root = root;
        let entry = slab.get_mut(removed)?;
        O::set_height(entry, 0);
        Some(removed)
    }
}

pub(super) struct Search<'a, O: Order> {
    slab: &'a Slab<O::Entry>,
    root: u32,
}

impl<'a, O: Order> Search<'a, O> {
    fn node(&self, at: u32) -> Option<(&'a O::Entry, &'a Links<O::Below>)> {
        self.slab.get(at).map(|entry| (entry, O::links(entry)))
    }

    /// Whether any entry of any kind that is not exempt ends after the window begins.
    pub(super) fn is_any_reached(&self, window: Window, is_exempt: &impl Fn(&O::Group) -> bool) -> bool {
        self.node(self.root).is_some_and(|(_, links)| self.is_reached(links, window, is_exempt))
    }

    pub(super) fn first(
        &self,
        kind: O::Kind,
        window: Window,
        is_exempt: impl Fn(&O::Group) -> bool,
    ) -> Option<&'a O::Entry> {
        self.first_below(self.root, &kind, window, &is_exempt)
    }

    /// Calls `note` with each entry in this window, in order.
    pub(super) fn all_in(&self, kind: O::Kind, window: Window, mut note: impl FnMut(&'a O::Entry)) {
        self.all_below(self.root, &kind, window, &mut note);
    }

    /// The first entry from this span on, of this kind or the next kind with entries.
    pub(super) fn at_or_after(&self, kind: O::Kind, span: &Span, is_exclusive: bool) -> Option<&'a O::Entry> {
        let from: Key<O> = (kind, span.start(), span.end(), is_exclusive, 0);
        let (mut at, mut found) = (self.root, None);
        while let Some((entry, links)) = self.node(at) {
            count_step();
            if key::<O>(entry) < from {
                at = links.right;
            } else {
                found = Some(entry);
                at = links.left;
            }
        }
        found
    }

    /// The last entry before the place of `entry`, which need not be in the tree.
    pub(super) fn last_before(&self, entry: &O::Entry) -> Option<&'a O::Entry> {
        let (mut at, mut found) = (self.root, None);
        let key_of = key::<O>(entry);
        while let Some((entry, links)) = self.node(at) {
            count_step();
            if key::<O>(entry) < key_of {
                found = Some(entry);
                at = links.right;
            } else {
                at = links.left;
            }
        }
        found
    }

    fn is_reached(
        &self,
        links: &Links<O::Below>,
        window: Window,
        is_exempt: &impl Fn(&O::Group) -> bool,
    ) -> bool {
        links.below.is_reached(self.slab, window, is_exempt)
    }

    fn first_below(
        &self,
        at: u32,
        kind: &O::Kind,
        window: Window,
        is_exempt: &impl Fn(&O::Group) -> bool,
    ) -> Option<&'a O::Entry> {
        count_step();
        let (entry, links) = self.node(at).filter(|(_, links)| self.is_reached(links, window, is_exempt))?;
        match O::kind(entry).cmp(kind) {
            Ordering::Less => return self.first_below(links.right, kind, window, is_exempt),
            Ordering::Greater => return self.first_below(links.left, kind, window, is_exempt),
            Ordering::Equal => {}
        }
        if let Some(found) = self.first_below(links.left, kind, window, is_exempt) {
            return Some(found);
        }
        let span = entry.span();
        if !window.begins_after(span.start()) {
            return None;
        }
        if window.is_reached_by(span.end()) && !is_exempt(&O::group(entry)) {
            return Some(entry);
        }
        self.first_below(links.right, kind, window, is_exempt)
    }

    fn all_below(&self, at: u32, kind: &O::Kind, window: Window, note: &mut impl FnMut(&'a O::Entry)) {
        count_step();
        let Some((entry, links)) =
            self.node(at).filter(|(_, links)| self.is_reached(links, window, &|_| false))
        else {
            return;
        };
        let order = O::kind(entry).cmp(kind);
        if order != Ordering::Less {
            self.all_below(links.left, kind, window, note);
        }
        let span = entry.span();
        let is_begun = window.begins_after(span.start());
        if order == Ordering::Equal && is_begun && window.is_reached_by(span.end()) {
            note(entry);
        }
        if order == Ordering::Less || (order == Ordering::Equal && is_begun) {
            self.all_below(links.right, kind, window, note);
        }
    }
}

impl<O: Order<Below = Counted>> Search<'_, O> {
    /// The number of entries that are before the others in the order of kinds and spans.
    pub(super) fn count_before(&self, is_before: impl Fn(&O::Entry) -> bool) -> usize {
        let (mut at, mut count) = (self.root, 0);
        while let Some((entry, links)) = self.node(at) {
            count_step();
            if is_before(entry) {
                count += 1 + self.node(links.left).map_or(0, |(_, left)| left.below.count as usize);
                at = links.right;
            } else {
                at = links.left;
            }
        }
        count
    }
}

impl<'a, O: Order<Below = Numbered>> Search<'a, O> {
    /// The entry with the highest number below `before` in this window that is not exempt.
    pub(super) fn latest(
        &self,
        kind: O::Kind,
        window: Window,
        before: u64,
        is_exempt: impl Fn(&O::Group) -> bool,
    ) -> Option<&'a O::Entry> {
        let mut best = None;
        self.latest_below(self.root, &kind, window, before, &is_exempt, &mut best);
        best
    }

    fn latest_below(
        &self,
        at: u32,
        kind: &O::Kind,
        window: Window,
        before: u64,
        is_exempt: &impl Fn(&O::Group) -> bool,
        best: &mut Option<&'a O::Entry>,
    ) {
        count_step();
        let Some((entry, links)) =
            self.node(at).filter(|(_, links)| self.is_reached(links, window, is_exempt))
        else {
            return;
        };
        let is_later = |id: u64| best.is_none_or(|best| id > best.id());
        let Numbered { lowest, highest, .. } = links.below;
        if self.slab[lowest].id() >= before || !is_later(self.slab[highest].id()) {
            return;
        }
        let (span, order) = (entry.span(), O::kind(entry).cmp(kind));
        let is_begun = window.begins_after(span.start());
        if order == Ordering::Equal
            && is_begun
            && window.is_reached_by(span.end())
            && entry.id() < before
            && is_later(entry.id())
            && !is_exempt(&O::group(entry))
        {
            *best = Some(entry);
        }
        let left = links.left;
        let right = if order == Ordering::Equal && !is_begun { NIL } else { links.right };
        let highest = |at: u32| self.node(at).map_or(0, |(_, links)| self.slab[links.below.highest].id());
        let sides = match order {
            Ordering::Less => [right, NIL],
            Ordering::Greater => [left, NIL],
            Ordering::Equal if highest(left) > highest(right) => [left, right],
            Ordering::Equal => [right, left],
        };
        for side in sides.into_iter().filter(|&side| side != NIL) {
            self.latest_below(side, kind, window, before, is_exempt, best);
        }
    }
}

/// The node that was added below another, or removed from below it.
#[derive(Clone, Copy)]
enum Moved {
    In(u32),
    Out(u32),
    /// More than that has changed.
    Apart,
}

struct Change<'a, O: Order>(&'a mut Slab<O::Entry>);

impl<O: Order> Change<'_, O> {
    fn height(&self, at: u32) -> u8 {
        self.0.get(at).map_or(0, O::height)
    }

    fn sides(&self, at: u32) -> (u32, u32) {
        let links = O::links(&self.0[at]);
        (links.left, links.right)
    }

    fn set_left(&mut self, at: u32, left: u32) {
        O::links_mut(&mut self.0[at]).left = left;
    }

    fn set_right(&mut self, at: u32, right: u32) {
        O::links_mut(&mut self.0[at]).right = right;
    }

    fn insert_below(&mut self, at: u32, new: u32, which: &Key<O>) -> u32 {
        count_step();
        let Some(entry) = self.0.get(at) else { return new };
        let is_before = *which < key::<O>(entry);
        let (left, right) = self.sides(at);
        if is_before {
            let left = self.insert_below(left, new, which);
            self.set_left(at, left);
        } else {
            let right = self.insert_below(right, new, which);
            self.set_right(at, right);
        }
        self.balance(at, Moved::In(new))
    }

    /// Removes an entry below a node: the node in its place, and the one that was removed.
    fn remove_below(&mut self, at: u32, which: &Key<O>) -> (u32, u32) {
        count_step();
        let Some(entry) = self.0.get(at) else { return (NIL, NIL) };
        let order = which.cmp(&key::<O>(entry));
        let (left, right) = self.sides(at);
        let removed = match order {
            Ordering::Less => {
                let (left, removed) = self.remove_below(left, which);
                self.set_left(at, left);
                removed
            }
            Ordering::Greater => {
                let (right, removed) = self.remove_below(right, which);
                self.set_right(at, right);
                removed
            }
            Ordering::Equal if left == NIL => return (right, at),
            Ordering::Equal if right == NIL => return (left, at),
            Ordering::Equal => {
                let (right, heir) = self.take_least(right);
                self.set_left(heir, left);
                self.set_right(heir, right);
                return (self.balance(heir, Moved::Apart), at);
            }
        };
        if removed == NIL {
            return (at, NIL);
        }
        (self.balance(at, Moved::Out(removed)), removed)
    }

    /// Removes the first node of a subtree; returns the remaining subtree and the node.
    fn take_least(&mut self, at: u32) -> (u32, u32) {
        count_step();
        let (left, right) = self.sides(at);
        if left == NIL {
            return (right, at);
        }
        let (left, least) = self.take_least(left);
        self.set_left(at, left);
        (self.balance(at, Moved::Out(least)), least)
    }

    /// Rebalances a subtree after one change, so that the heights of its sides differ by one at most, and updates its
    /// summary.
    fn balance(&mut self, at: u32, moved: Moved) -> u32 {
        let (left, right) = self.sides(at);
        let (left_height, right_height) = (self.height(left), self.height(right));
        if left_height > right_height + 1 {
            let (outer, inner) = self.sides(left);
            if self.height(inner) > self.height(outer) {
                let left = self.rotate_left(left);
                self.set_left(at, left);
            }
            return self.rotate_right(at);
        }
        if right_height > left_height + 1 {
            let (inner, outer) = self.sides(right);
            if self.height(inner) > self.height(outer) {
                let right = self.rotate_right(right);
                self.set_right(at, right);
            }
            return self.rotate_left(at);
        }
        let mut below = O::links(&self.0[at]).below;
        let is_noted = match moved {
            Moved::In(new) => {
                below.add(O::Below::of(new), self.0);
                true
            }
            Moved::Out(gone) => below.remove(gone),
            Moved::Apart => false,
        };
        if is_noted {
            self.set(at, below, 1 + left_height.max(right_height));
        } else {
            self.update(at);
        }
        at
    }

    fn rotate_left(&mut self, at: u32) -> u32 {
        let (_, up) = self.sides(at);
        let (inner, _) = self.sides(up);
        self.set_right(at, inner);
        self.set_left(up, at);
        self.update(at);
        self.update(up);
        up
    }

    fn rotate_right(&mut self, at: u32) -> u32 {
        let (up, _) = self.sides(at);
        let (_, inner) = self.sides(up);
        self.set_left(at, inner);
        self.set_right(up, at);
        self.update(at);
        self.update(up);
        up
    }

    fn update(&mut self, at: u32) {
        let (left, right) = self.sides(at);
        let mut below = O::Below::of(at);
        for side in [left, right] {
            if let Some(entry) = self.0.get(side) {
                below.add(O::links(entry).below, self.0);
            }
        }
        self.set(at, below, 1 + self.height(left).max(self.height(right)));
    }

    fn set(&mut self, at: u32, below: O::Below, height: u8) {
        let entry = &mut self.0[at];
        O::links_mut(entry).below = below;
        O::set_height(entry, height);
    }
}

fn key<O: Order>(entry: &O::Entry) -> Key<O> {
    let span = entry.span();
    (O::kind(entry), span.start(), span.end(), entry.is_exclusive(), entry.id())
}

#[cfg(test)]
thread_local! {
    /// Nodes visited by this thread.
    pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count_step() {
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

#[cfg(not(test))]
#[inline]
fn count_step() {}

#[cfg(test)]
impl<'a, O: Order> Search<'a, O> {
    /// Returns the entries in order. Panics unless the tree is balanced and each summary is right.
    pub(super) fn assert_sound(&self) -> Vec<&'a O::Entry> {
        let mut entries = Vec::new();
        self.assert_sound_below(self.root, &mut entries);
        assert!(entries.windows(2).all(|pair| key::<O>(pair[0]) < key::<O>(pair[1])));
        entries
    }

    fn assert_sound_below(&self, at: u32, entries: &mut Vec<&'a O::Entry>) {
        let Some((entry, links)) = self.node(at) else { return };
        let height = |at: u32| self.slab.get(at).map_or(0, O::height);
        let (left, right) = (height(links.left), height(links.right));
        assert!(left.abs_diff(right) <= 1 && O::height(entry) == 1 + left.max(right));
        let first = entries.len();
        self.assert_sound_below(links.left, entries);
        entries.push(entry);
        self.assert_sound_below(links.right, entries);
        links.below.assert_is_of(self.slab, &entries[first..]);
    }
}
