//! Spans in order, in a balanced tree whose nodes know how far those below them reach (an interval tree).
//!
//! A search takes a number of steps that grows with the logarithm of the spans, also where many that meet it are passed over because
//! they belong to one group: each node knows the farthest end below it, and the farthest of any other group.

use super::Span;
use std::cmp::Ordering;

/// No node.
const NIL: u32 = u32::MAX;

/// A span with what it is of.
pub(super) trait Item: Copy {
    /// A search looks at one kind.
    type Kind: Copy + Ord;
    /// A search passes over whole groups.
    type Group: PartialEq;

    fn kind(&self) -> Self::Kind;
    fn span(&self) -> Span;
    fn is_exclusive(&self) -> bool;
    /// A number of its own, larger than those of items that were made before it.
    fn id(&self) -> u64;
    fn group(&self) -> Self::Group;
}

/// The order of a tree.
type Key<T> = (<T as Item>::Kind, u64, u128, bool, u64);

/// The spans that a search is for: those that end after one point and begin before another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    after: Option<u64>,
    before: u128,
}

impl Window {
    /// Every span.
    pub(super) const ALL: Self = Self { after: None, before: u128::MAX };

    /// The spans that overlap this one.
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

#[derive(Clone, Debug)]
pub(super) struct SpanTree<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    root: u32,
}

/// The place of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(u32);

#[derive(Clone, Debug)]
struct Node<T> {
    item: T,
    left: u32,
    right: u32,
    /// 0 of one that is free.
    height: u8,
    below: Below,
}

/// A summary of a node and those below it.
#[derive(Clone, Copy, Debug)]
struct Below {
    /// The farthest end, and a node of its group.
    first: (u128, u32),
    /// The farthest end of any other group; `NIL` if there is no other.
    second: (u128, u32),
    lowest_id: u64,
    highest_id: u64,
    count: u32,
}

impl<T> Default for SpanTree<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NIL }
    }
}

impl<T: Item> SpanTree<T> {
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// All items, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.nodes.iter().filter(|node| node.height > 0).map(|node| &node.item)
    }

    /// Adds an item: where it is as long as it is here.
    pub(super) fn insert(&mut self, item: T) -> Slot {
        let below = Below { first: (0, NIL), second: (0, NIL), lowest_id: 0, highest_id: 0, count: 1 };
        let node = Node { item, left: NIL, right: NIL, height: 1, below };
        let new = match self.free.pop() {
            Some(at) => {
                self.nodes[index(at)] = node;
                at
            }
            None => {
                // Most files have one range at most.
                if self.nodes.capacity() == 0 {
                    self.nodes.reserve_exact(1);
                }
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(NIL)
            }
        };
        self.update(new);
        self.root = self.insert_below(self.root, new);
        Slot(new)
    }

    /// The item at a place that it was said to be at.
    pub(super) fn at(&self, slot: Slot) -> Option<&T> {
        self.node(slot.0).map(|node| &node.item)
    }

    /// Removes an item; `false` if it is not there.
    pub(super) fn remove(&mut self, item: &T) -> bool {
        let (root, removed) = self.remove_below(self.root, &key(item));
        self.root = root;
        if removed == NIL {
            return false;
        }
        self.nodes[index(removed)].height = 0;
        self.free.push(removed);
        if root == NIL {
            // A file that had many ranges once need not have their memory.
            *self = Self::default();
        }
        true
    }

    /// The first item in this window that is not exempt. All of a group are exempt, or none.
    pub(super) fn first(&self, kind: T::Kind, window: Window, is_exempt: impl Fn(&T) -> bool) -> Option<&T> {
        let found = self.first_below(self.root, &kind, window, &is_exempt)?;
        Some(&self.nodes[index(found)].item)
    }

    /// The item with the highest number below `before` in this window that is not exempt.
    pub(super) fn latest(
        &self,
        kind: T::Kind,
        window: Window,
        before: u64,
        is_exempt: impl Fn(&T) -> bool,
    ) -> Option<&T> {
        let mut best = NIL;
        self.latest_below(self.root, (&kind, window, before), &is_exempt, &mut best);
        self.nodes.get(index(best)).map(|node| &node.item)
    }

    /// All items in this window, in order.
    pub(super) fn all_in(&self, kind: T::Kind, window: Window) -> Vec<T> {
        let mut found = Vec::new();
        self.all_below(self.root, &kind, window, &mut found);
        found
    }

    /// The first item of a kind, or of the next one that there is, from this span on.
    pub(super) fn at_or_after(&self, kind: T::Kind, span: &Span, is_exclusive: bool) -> Option<&T> {
        let from: Key<T> = (kind, span.start(), span.end(), is_exclusive, 0);
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.nodes.get(index(at)) {
            count_step();
            if key(&node.item) < from {
                at = node.right;
            } else {
                found = Some(&node.item);
                at = node.left;
            }
        }
        found
    }

    /// The last item before the place of this one, which need not be there.
    pub(super) fn last_before(&self, item: &T) -> Option<&T> {
        let (mut at, mut found) = (self.root, None);
        let key_of = key(item);
        while let Some(node) = self.node(at) {
            count_step();
            if key(&node.item) < key_of {
                found = Some(&node.item);
                at = node.right;
            } else {
                at = node.left;
            }
        }
        found
    }

    /// The number of items that are before the others in the order of kinds and spans.
    pub(super) fn count_before(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let (mut at, mut count) = (self.root, 0);
        while let Some(node) = self.node(at) {
            count_step();
            if is_before(&node.item) {
                count += 1 + self.node(node.left).map_or(0, |left| left.below.count as usize);
                at = node.right;
            } else {
                at = node.left;
            }
        }
        count
    }

    fn node(&self, at: u32) -> Option<&Node<T>> {
        self.nodes.get(index(at))
    }

    fn height(&self, at: u32) -> u8 {
        self.node(at).map_or(0, |node| node.height)
    }

    fn insert_below(&mut self, at: u32, new: u32) -> u32 {
        count_step();
        let Some(node) = self.node(at) else { return new };
        if key(&self.nodes[index(new)].item) < key(&node.item) {
            let left = self.insert_below(node.left, new);
            self.nodes[index(at)].left = left;
        } else {
            let right = self.insert_below(node.right, new);
            self.nodes[index(at)].right = right;
        }
        self.balance(at)
    }

    /// Removes an item below a node: the node in its place, and the one that was removed.
    fn remove_below(&mut self, at: u32, which: &Key<T>) -> (u32, u32) {
        count_step();
        let Some(node) = self.node(at) else { return (NIL, NIL) };
        let (left, right) = (node.left, node.right);
        let removed = match which.cmp(&key(&node.item)) {
            Ordering::Less => {
                let (left, removed) = self.remove_below(left, which);
                self.nodes[index(at)].left = left;
                removed
            }
            Ordering::Greater => {
                let (right, removed) = self.remove_below(right, which);
                self.nodes[index(at)].right = right;
                removed
            }
            Ordering::Equal if left == NIL => return (right, at),
            Ordering::Equal if right == NIL => return (left, at),
            Ordering::Equal => {
                let (right, heir) = self.take_least(right);
                let node = &mut self.nodes[index(heir)];
                (node.left, node.right) = (left, right);
                return (self.balance(heir), at);
            }
        };
        (self.balance(at), removed)
    }

    /// Takes the first node out below this one: what is left there, and it.
    fn take_least(&mut self, at: u32) -> (u32, u32) {
        count_step();
        let (left, right) = (self.nodes[index(at)].left, self.nodes[index(at)].right);
        if left == NIL {
            return (right, at);
        }
        let (left, least) = self.take_least(left);
        self.nodes[index(at)].left = left;
        (self.balance(at), least)
    }

    /// Has the heights of both sides differ by one at most, as they did but for one change, and notes what is below.
    fn balance(&mut self, at: u32) -> u32 {
        let Node { left, right, .. } = self.nodes[index(at)];
        let (left_height, right_height) = (self.height(left), self.height(right));
        if left_height > right_height + 1 {
            let Node { left: outer, right: inner, .. } = self.nodes[index(left)];
            if self.height(inner) > self.height(outer) {
                self.nodes[index(at)].left = self.rotate_left(left);
            }
            return self.rotate_right(at);
        }
        if right_height > left_height + 1 {
            let Node { left: inner, right: outer, .. } = self.nodes[index(right)];
            if self.height(inner) > self.height(outer) {
                self.nodes[index(at)].right = self.rotate_right(right);
            }
            return self.rotate_left(at);
        }
        self.update(at);
        at
    }

    fn rotate_left(&mut self, at: u32) -> u32 {
        let up = self.nodes[index(at)].right;
        self.nodes[index(at)].right = self.nodes[index(up)].left;
        self.nodes[index(up)].left = at;
        self.update(at);
        self.update(up);
        up
    }

    fn rotate_right(&mut self, at: u32) -> u32 {
        let up = self.nodes[index(at)].left;
        self.nodes[index(at)].left = self.nodes[index(up)].right;
        self.nodes[index(up)].right = at;
        self.update(at);
        self.update(up);
        up
    }

    /// Notes what a node has below it, from its two sides.
    fn update(&mut self, at: u32) {
        let Node { item, left, right, .. } = &self.nodes[index(at)];
        let (left, right) = (*left, *right);
        let mut below = Below {
            first: (item.span().end(), at),
            second: (0, NIL),
            lowest_id: item.id(),
            highest_id: item.id(),
            count: 1,
        };
        for side in [left, right] {
            let Some(node) = self.node(side) else { continue };
            below.lowest_id = below.lowest_id.min(node.below.lowest_id);
            below.highest_id = below.highest_id.max(node.below.highest_id);
            below.count += node.below.count;
            self.note_end(&mut below, node.below.first);
            if node.below.second.1 != NIL {
                self.note_end(&mut below, node.below.second);
            }
        }
        let height = 1 + self.height(left).max(self.height(right));
        let node = &mut self.nodes[index(at)];
        (node.below, node.height) = (below, height);
    }

    fn note_end(&self, below: &mut Below, end: (u128, u32)) {
        let group = |at: u32| self.nodes[index(at)].item.group();
        if group(end.1) == group(below.first.1) {
            below.first.0 = below.first.0.max(end.0);
        } else if end.0 > below.first.0 {
            (below.second, below.first) = (below.first, end);
        } else if below.second.1 == NIL || end.0 > below.second.0 {
            below.second = end;
        }
    }

    /// Whether anything at or below a node reaches the window and is not exempt.
    fn is_reached(&self, node: &Node<T>, window: Window, is_exempt: &impl Fn(&T) -> bool) -> bool {
        let Below { first, second, .. } = node.below;
        window.is_reached_by(first.0)
            && (!is_exempt(&self.nodes[index(first.1)].item)
                || second.1 != NIL && window.is_reached_by(second.0))
    }

    fn first_below(
        &self,
        at: u32,
        kind: &T::Kind,
        window: Window,
        is_exempt: &impl Fn(&T) -> bool,
    ) -> Option<u32> {
        count_step();
        let node = self.node(at).filter(|node| self.is_reached(node, window, is_exempt))?;
        match node.item.kind().cmp(kind) {
            Ordering::Less => return self.first_below(node.right, kind, window, is_exempt),
            Ordering::Greater => return self.first_below(node.left, kind, window, is_exempt),
            Ordering::Equal => {}
        }
        if let Some(found) = self.first_below(node.left, kind, window, is_exempt) {
            return Some(found);
        }
        let span = node.item.span();
        if !window.begins_after(span.start()) {
            return None;
        }
        if window.is_reached_by(span.end()) && !is_exempt(&node.item) {
            return Some(at);
        }
        self.first_below(node.right, kind, window, is_exempt)
    }

    fn latest_below(
        &self,
        at: u32,
        (kind, window, before): (&T::Kind, Window, u64),
        is_exempt: &impl Fn(&T) -> bool,
        best: &mut u32,
    ) {
        count_step();
        let Some(node) = self.node(at).filter(|node| self.is_reached(node, window, is_exempt)) else {
            return;
        };
        let is_later = |id: u64| self.node(*best).is_none_or(|best| id > best.item.id());
        if node.below.lowest_id >= before || !is_later(node.below.highest_id) {
            return;
        }
        let (span, order) = (node.item.span(), node.item.kind().cmp(kind));
        let is_begun = window.begins_after(span.start());
        if order == Ordering::Equal
            && is_begun
            && window.is_reached_by(span.end())
            && node.item.id() < before
            && is_later(node.item.id())
            && !is_exempt(&node.item)
        {
            *best = at;
        }
        let left = node.left;
        let right = if order == Ordering::Equal && !is_begun { NIL } else { node.right };
        let highest = |at: u32| self.node(at).map_or(0, |node| node.below.highest_id);
        let sides = match order {
            Ordering::Less => [right, NIL],
            Ordering::Greater => [left, NIL],
            Ordering::Equal if highest(left) > highest(right) => [left, right],
            Ordering::Equal => [right, left],
        };
        for side in sides.into_iter().filter(|&side| side != NIL) {
            self.latest_below(side, (kind, window, before), is_exempt, best);
        }
    }

    fn all_below(&self, at: u32, kind: &T::Kind, window: Window, found: &mut Vec<T>) {
        count_step();
        let Some(node) = self.node(at).filter(|node| self.is_reached(node, window, &|_| false)) else {
            return;
        };
        let order = node.item.kind().cmp(kind);
        if order != Ordering::Less {
            self.all_below(node.left, kind, window, found);
        }
        let span = node.item.span();
        let is_begun = window.begins_after(span.start());
        if order == Ordering::Equal && is_begun && window.is_reached_by(span.end()) {
            found.push(node.item);
        }
        if order == Ordering::Less || (order == Ordering::Equal && is_begun) {
            self.all_below(node.right, kind, window, found);
        }
    }
}

fn key<T: Item>(item: &T) -> Key<T> {
    let span = item.span();
    (item.kind(), span.start(), span.end(), item.is_exclusive(), item.id())
}

fn index(at: u32) -> usize {
    at as usize
}

#[cfg(test)]
thread_local! {
    /// Nodes that this thread has looked at.
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
impl<T: Item> SpanTree<T> {
    /// Panics unless it is balanced and each node knows what is below it.
    pub(super) fn assert_sound(&self) {
        self.assert_sound_below(self.root);
        let mut items = Vec::new();
        self.in_order(self.root, &mut items);
        assert!(items.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
        assert_eq!(items.len(), self.len());
    }

    fn in_order(&self, at: u32, items: &mut Vec<T>) {
        if let Some(node) = self.node(at) {
            self.in_order(node.left, items);
            items.push(node.item);
            self.in_order(node.right, items);
        }
    }

    fn assert_sound_below(&self, at: u32) {
        let Some(node) = self.node(at) else { return };
        let (left, right) = (self.height(node.left), self.height(node.right));
        assert!(left.abs_diff(right) <= 1 && node.height == 1 + left.max(right));
        let mut items = Vec::new();
        self.in_order(at, &mut items);
        let farthest = items.iter().map(|item| item.span().end()).max();
        assert_eq!(Some(node.below.first.0), farthest);
        let group = self.nodes[index(node.below.first.1)].item.group();
        let other = items.iter().filter(|item| item.group() != group).map(|item| item.span().end()).max();
        assert_eq!((node.below.second.1 != NIL).then_some(node.below.second.0), other);
        let ids = || items.iter().map(Item::id);
        let known = (node.below.lowest_id, node.below.highest_id);
        assert_eq!((Some(known.0), Some(known.1)), (ids().min(), ids().max()));
        assert_eq!(node.below.count as usize, items.len());
        self.assert_sound_below(node.left);
        self.assert_sound_below(node.right);
    }
}
