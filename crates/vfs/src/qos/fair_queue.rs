//! Start-time fair queueing over the flows that have something queued.

use super::{Kind, Nanos};
use std::collections::BTreeSet;

/// The queued flows, for each kind in the order of what they have been served, or asleep until their own
/// limit allows more.
#[derive(Debug)]
pub(super) struct FairQueue<K> {
    ready: [BTreeSet<(Served, K)>; Kind::COUNT],
    asleep: BTreeSet<(Nanos, usize, K)>,
    /// What those have been served who had the last turn: who comes anew begins here, so that nobody saves up turns.
    level: Served,
}

/// What somebody has been served, in nanoseconds of the rates they share.
type Served = u64;

/// The state of one flow in [`FairQueue`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowState {
    served: Served,
    phases: [Phase; Kind::COUNT],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Absent,
    Ready,
    Asleep(Nanos),
}

impl FlowState {
    /// Whether nothing of this kind waits.
    pub(super) fn is_absent(&self, kind: Kind) -> bool {
        self.phases[kind.index()] == Phase::Absent
    }

    /// Whether something of this kind waits for its turn.
    pub(super) fn is_ready(&self, kind: Kind) -> bool {
        self.phases[kind.index()] == Phase::Ready
    }
}

impl<K> Default for FairQueue<K> {
    fn default() -> Self {
        Self { ready: Default::default(), asleep: BTreeSet::new(), level: 0 }
    }
}

impl<K: Copy + Ord> FairQueue<K> {
    /// Whether anybody waits for a turn now.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        self.ready.iter().any(|set| !set.is_empty())
    }

    /// Who has been served least of those who wait for a turn of this kind.
    pub(super) fn first(&self, kind: Kind) -> Option<(Served, K)> {
        self.ready[kind.index()].first().copied()
    }

    /// When the next one wakes.
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.asleep.first().map(|&(until, ..)| until)
    }

    /// Queues a flow for a turn of this kind.
    pub(super) fn enqueue(&mut self, key: K, flow: &mut FlowState, kind: Kind) {
        if flow.phases.iter().all(|&phase| phase == Phase::Absent) {
            flow.served = flow.served.max(self.level);
        }
        self.set(key, flow, kind, Phase::Ready);
    }

    /// Has nothing of this kind any more.
    pub(super) fn leave(&mut self, key: K, flow: &mut FlowState, kind: Kind) {
        self.set(key, flow, kind, Phase::Absent);
    }

    /// Gets no turn of this kind before `until`.
    pub(super) fn sleep(&mut self, key: K, flow: &mut FlowState, kind: Kind, until: Nanos) {
        self.set(key, flow, kind, Phase::Asleep(until));
    }

    /// One who sleeps no longer; to be queued again.
    pub(super) fn wake(&mut self, now: Nanos) -> Option<(K, Kind)> {
        let &(until, kind, key) = self.asleep.first()?;
        (until <= now).then_some((key, Kind::ALL[kind]))
    }

    /// Counts a turn.
    pub(super) fn charge(&mut self, key: K, flow: &mut FlowState, cost: Nanos) {
        self.level = self.level.max(flow.served);
        let served = flow.served + cost.0.max(1);
        for (set, phase) in self.ready.iter_mut().zip(flow.phases) {
            if phase == Phase::Ready {
                set.remove(&(flow.served, key));
                set.insert((served, key));
            }
        }
        flow.served = served;
    }

    fn set(&mut self, key: K, flow: &mut FlowState, kind: Kind, phase: Phase) {
        let index = kind.index();
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
