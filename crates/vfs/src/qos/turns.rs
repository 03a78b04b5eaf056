//! Whose turn it is: start-time fair queueing over those who have something waiting.

use super::{Kind, Nanos};
use std::collections::BTreeSet;

/// Those who wait, for each kind in the order of what they have been served, or asleep until their own limit lets them.
#[derive(Debug)]
pub struct Turns<K> {
    ready: [BTreeSet<(Served, K)>; Kind::COUNT],
    asleep: BTreeSet<(Nanos, usize, K)>,
    /// What those have been served who had the last turn: who comes anew begins here, so that nobody saves up turns.
    level: Served,
}

/// What somebody has been served, in nanoseconds of the rates they share.
type Served = u64;

/// Where somebody stands in [`Turns`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    served: Served,
    places: [Place; Kind::COUNT],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Absent,
    Ready,
    Asleep(Nanos),
}

impl Standing {
    /// Whether nothing of this kind waits.
    pub fn is_absent(&self, kind: Kind) -> bool {
        self.places[kind.index()] == Place::Absent
    }

    /// Whether something of this kind waits for its turn.
    pub fn is_ready(&self, kind: Kind) -> bool {
        self.places[kind.index()] == Place::Ready
    }
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { ready: Default::default(), asleep: BTreeSet::new(), level: 0 }
    }
}

impl<K: Copy + Ord> Turns<K> {
    /// Whether anybody waits for a turn now.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ready.iter().any(|set| !set.is_empty())
    }

    /// Who has been served least of those who wait for a turn of this kind.
    pub fn first(&self, kind: Kind) -> Option<(Served, K)> {
        self.ready[kind.index()].first().copied()
    }

    /// When the next one wakes.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.asleep.first().map(|&(until, ..)| until)
    }

    /// Waits for a turn of this kind from now on.
    pub fn line_up(&mut self, key: K, standing: &mut Standing, kind: Kind) {
        if standing.places.iter().all(|&place| place == Place::Absent) {
            standing.served = standing.served.max(self.level);
        }
        self.set(key, standing, kind, Place::Ready);
    }

    /// Has nothing of this kind any more.
    pub fn leave(&mut self, key: K, standing: &mut Standing, kind: Kind) {
        self.set(key, standing, kind, Place::Absent);
    }

    /// Gets no turn of this kind before `until`.
    pub fn sleep(&mut self, key: K, standing: &mut Standing, kind: Kind, until: Nanos) {
        self.set(key, standing, kind, Place::Asleep(until));
    }

    /// One who sleeps no longer; to be lined up again.
    pub fn wake(&mut self, now: Nanos) -> Option<(K, Kind)> {
        let &(until, kind, key) = self.asleep.first()?;
        (until <= now).then_some((key, Kind::ALL[kind]))
    }

    /// Counts a turn.
    pub fn charge(&mut self, key: K, standing: &mut Standing, cost: Nanos) {
        self.level = self.level.max(standing.served);
        let served = standing.served + cost.0.max(1);
        for (set, place) in self.ready.iter_mut().zip(standing.places) {
            if place == Place::Ready {
                set.remove(&(standing.served, key));
                set.insert((served, key));
            }
        }
        standing.served = served;
    }

    fn set(&mut self, key: K, standing: &mut Standing, kind: Kind, place: Place) {
        let index = kind.index();
        match std::mem::replace(&mut standing.places[index], place) {
            old if old == place => return,
            Place::Absent => {}
            Place::Ready => _ = self.ready[index].remove(&(standing.served, key)),
            Place::Asleep(until) => _ = self.asleep.remove(&(until, index, key)),
        }
        match place {
            Place::Absent => {}
            Place::Ready => _ = self.ready[index].insert((standing.served, key)),
            Place::Asleep(until) => _ = self.asleep.insert((until, index, key)),
        }
    }
}
