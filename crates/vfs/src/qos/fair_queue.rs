//! Start-time fair queueing over the flows that have something queued.

use super::{Class, Nanos};
use std::collections::BTreeSet;

/// The queued flows of each class, ordered by service received, or asleep until their own limit allows more.
#[derive(Debug)]
pub(super) struct FairQueue<K> {
    ready: [BTreeSet<(Served, K)>; Class::COUNT],
    asleep: BTreeSet<(Nanos, usize, K)>,
    /// The service of the flows in the latest turn. A new flow starts here, so that no flow accumulates turns.
    level: Served,
}

/// Service received, in nanoseconds of the shared rate.
type Served = u64;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowState {
    served: Served,
    phases: [Phase; Class::COUNT],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Absent,
    Ready,
    Asleep(Nanos),
}

impl FlowState {
    /// Whether nothing of this class waits.
    pub(super) fn is_absent(&self, class: Class) -> bool {
        self.phases[class.index()] == Phase::Absent
    }

    pub(super) fn is_ready(&self, class: Class) -> bool {
        self.phases[class.index()] == Phase::Ready
    }
}

impl<K> Default for FairQueue<K> {
    fn default() -> Self {
        Self { ready: Default::default(), asleep: BTreeSet::new(), level: 0 }
    }
}

impl<K: Copy + Ord> FairQueue<K> {
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        self.ready.iter().any(|set| !set.is_empty())
    }

    /// Whether no other flow is ready or asleep.
    pub(super) fn has_none_but(&self, key: K) -> bool {
        let mut ready = self.ready.iter().flat_map(|set| [set.first(), set.last()]).flatten();
        ready.all(|(_, of)| *of == key) && self.asleep.iter().all(|(.., of)| *of == key)
    }

    /// Returns the ready flow of this class with the least service.
    pub(super) fn first(&self, class: Class) -> Option<(Served, K)> {
        self.ready[class.index()].first().copied()
    }

    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.asleep.first().map(|&(until, ..)| until)
    }

    pub(super) fn enqueue(&mut self, key: K, flow: &mut FlowState, class: Class) {
        if flow.phases.iter().all(|&phase| phase == Phase::Absent) {
            flow.served = flow.served.max(self.level);
        }
        self.set(key, flow, class, Phase::Ready);
    }

    /// Removes a flow from this class.
    pub(super) fn leave(&mut self, key: K, flow: &mut FlowState, class: Class) {
        self.set(key, flow, class, Phase::Absent);
    }

    /// Denies a flow turns of this class before `until`.
    pub(super) fn sleep(&mut self, key: K, flow: &mut FlowState, class: Class, until: Nanos) {
        self.set(key, flow, class, Phase::Asleep(until));
    }

    pub(super) fn wake(&mut self, now: Nanos) -> Option<(K, Class)> {
        let &(until, class, key) = self.asleep.first()?;
        (until <= now).then_some((key, Class::ALL[class]))
    }

    pub(super) fn charge(&mut self, key: K, flow: &mut FlowState, cost: Nanos) {
        self.level = self.level.max(flow.served);
        self.move_to(key, flow, flow.served + cost.0.max(1));
    }

    /// Refunds the unused part of a turn's cost, so that a demand of unknown size pays only for its use.
    pub(super) fn uncharge(&mut self, key: K, flow: &mut FlowState, cost: Nanos) {
        self.move_to(key, flow, flow.served.saturating_sub(cost.0));
    }

    fn move_to(&mut self, key: K, flow: &mut FlowState, served: Served) {
        for (set, phase) in self.ready.iter_mut().zip(flow.phases) {
            if phase == Phase::Ready {
                set.remove(&(flow.served, key));
                set.insert((served, key));
            }
        }
        flow.served = served;
    }

    fn set(&mut self, key: K, flow: &mut FlowState, class: Class, phase: Phase) {
        let index = class.index();
        match std::mem::replace(&mut flow.phases[index], phase) {
            old if old == phase => return,
            Phase::Absent => {}
            Phase::Ready => _ = self.ready[index].remove(&(flow.served, key)),
            Phase::Asleep(until) => _ = self.asleep.remove(&(until, index, key)),
        }
        match phase {
            Phase::Absent => {}
            Phase::Ready => _ = self.ready[index].insert((flow.served, key)),
            Phase::Asleep(until) => _ = self.asleep.insert((until, index, key)),
        }
    }
}
