//! Unproven clients in the order of their arrival, with the next one to evict: the oldest of the network with most
//! entries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use vfs::bounds::Network;

/// Entries in the order in which they were added, each with a unique number.
#[derive(Debug)]
pub struct EvictionQueue<T> {
    last: u64,
    entries: BTreeMap<u64, Entry<T>>,
    networks: HashMap<Network, BTreeSet<u64>>,
    ranks: BTreeSet<Rank>,
    /// The age below which an entry is evicted only for a network with fewer entries.
    age_min: Duration,
}

#[derive(Debug)]
struct Entry<T> {
    network: Network,
    since: Instant,
    value: T,
}

/// A network ranked by its number of entries; among equals, the network with the oldest entry is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    count: usize,
    oldest: std::cmp::Reverse<u64>,
    network: Network,
}

impl<T> EvictionQueue<T> {
    /// An empty queue. An entry younger than `time_min` is evicted only for a network with fewer entries.
    pub fn new(time_min: Duration) -> Self {
        Self {
            last: 0,
            entries: BTreeMap::new(),
            networks: HashMap::new(),
            ranks: BTreeSet::new(),
            age_min: time_min,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn count_of(&self, network: Network) -> usize {
        self.networks.get(&network).map_or(0, BTreeSet::len)
    }

    pub fn add(&mut self, network: Network, now: Instant, of: T) -> u64 {
        self.last += 1;
        let number = self.last;
        self.entries.insert(number, Entry { network, since: now, value: of });
        self.change(network, |numbers| _ = numbers.insert(number));
        number
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entries.get_mut(&number).map(|place| &mut place.value)
    }

    pub fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.entries.remove(&number)?;
        self.change(place.network, |numbers| _ = numbers.remove(&number));
        Some(place.value)
    }

    /// Evicts an entry for a client of network `to`: the oldest of the network with most. If `to` would then have as
    /// many, that entry must have the minimum age. If `to` has most already, its own oldest is evicted.
    pub fn evict_for(&mut self, to: Network, now: Instant) -> Option<(u64, T)> {
        let most = self.ranks.last()?;
        let own = self.networks.get(&to);
        let count = own.map_or(0, BTreeSet::len);
        let number = match own.and_then(BTreeSet::first) {
            _ if most.count > count + 1 => most.oldest.0,
            Some(&oldest) if count >= most.count => self.if_old(oldest, now)?,
            _ => self.if_old(most.oldest.0, now)?,
        };
        self.remove(number).map(|of| (number, of))
    }

    /// Evicts the first of these entries if it has the minimum age. Later entries are not considered.
    pub fn evict_first(&mut self, numbers: &BTreeSet<u64>, now: Instant) -> Option<(u64, T)> {
        let number = self.if_old(*numbers.first()?, now)?;
        self.remove(number).map(|of| (number, of))
    }

    fn if_old(&self, number: u64, now: Instant) -> Option<u64> {
        let since = self.entries.get(&number)?.since;
        (now.saturating_duration_since(since) >= self.age_min).then_some(number)
    }

    fn change(&mut self, network: Network, change: impl FnOnce(&mut BTreeSet<u64>)) {
        let numbers = self.networks.entry(network).or_default();
        self.ranks.remove(&Rank::of(network, numbers));
        change(numbers);
        if numbers.is_empty() {
            self.networks.remove(&network);
        } else {
            self.ranks.insert(Rank::of(network, numbers));
        }
    }
}

impl Rank {
    fn of(network: Network, numbers: &BTreeSet<u64>) -> Self {
        let oldest = numbers.first().copied().unwrap_or_default();
        Self { count: numbers.len(), oldest: std::cmp::Reverse(oldest), network }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use vfs::bounds::Networks;

    const TIME_MIN: Duration = Duration::from_secs(5);

    fn network(host: u32) -> Network {
        Networks::default().of(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + host)))
    }

    fn filled(now: Instant, counts: &[(u32, usize)]) -> EvictionQueue<u32> {
        let mut places = EvictionQueue::new(TIME_MIN);
        for &(host, count) in counts {
            (0..count).for_each(|_| _ = places.add(network(host), now, host));
        }
        places
    }

    #[test]
    fn the_oldest_entry_of_the_largest_network_is_evicted_for_a_smaller_one() {
        let now = Instant::now();
        let mut places = filled(now, &[(1, 3), (2, 4), (3, 1)]);
        assert_eq!(places.evict_for(network(9), now), Some((4, 2)));
        assert_eq!(places.evict_for(network(9), now), Some((1, 1)), "of two with as many, the older");
        assert_eq!(places.evict_for(network(9), now), Some((5, 2)));
        assert_eq!((places.count_of(network(1)), places.count_of(network(2)), places.len()), (2, 2, 5));
        assert_eq!(places.evict_for(network(9), now), Some((2, 1)));
        assert_eq!(places.evict_for(network(9), now), Some((6, 2)));
        assert_eq!(places.evict_for(network(9), now), None, "all have one");
    }

    #[test]
    fn entries_of_networks_with_as_many_or_fewer_reach_the_minimum_age() {
        let now = Instant::now();
        let mut places = filled(now, &[(1, 2), (2, 2)]);
        let soon = now + TIME_MIN - Duration::from_nanos(1);
        assert_eq!(places.evict_for(network(2), soon), None);
        assert_eq!(places.evict_for(network(2), now + TIME_MIN), Some((3, 2)), "its own, though younger");
        assert_eq!(places.evict_for(network(1), soon), None, "it has most");
        let mut single = filled(now, &[(1, 1), (2, 1)]);
        assert_eq!(single.evict_for(network(1), soon), None);
        assert_eq!(
            single.evict_for(network(3), soon),
            None,
            "no client would ever have time if single ones gave way"
        );
        assert_eq!(single.evict_for(network(3), now + TIME_MIN), Some((1, 1)));
    }

    #[test]
    fn a_removed_entry_is_neither_found_nor_counted() {
        let now = Instant::now();
        let mut places = filled(now, &[(1, 2)]);
        assert_eq!((places.remove(1), places.remove(1), places.get_mut(1)), (Some(1), None, None));
        assert_eq!(places.get_mut(2), Some(&mut 1));
        let of_one = BTreeSet::from([2]);
        assert_eq!(places.evict_first(&of_one, now), None);
        assert_eq!(places.evict_first(&of_one, now + TIME_MIN), Some((2, 1)));
        assert_eq!(places.evict_first(&of_one, now + TIME_MIN), None);
        assert!(places.is_empty() && places.networks.is_empty() && places.ranks.is_empty());
        assert_eq!(places.evict_for(network(1), now + TIME_MIN), None);
    }
}
