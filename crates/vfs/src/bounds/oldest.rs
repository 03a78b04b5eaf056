//! [`Oldest`]: which entries of a table give way first.

use super::{Full, Party};
use std::collections::BTreeMap;

/// Entries that may give way, by age: of all, of each network, and of each principal in it.
#[derive(Debug)]
pub struct Oldest<K> {
    all: BTreeMap<(bool, u64), K>,
    networks: BTreeMap<(Party, u64), K>,
    principals: BTreeMap<(Party, u64), K>,
    next: u64,
}

impl<K> Default for Oldest<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), networks: BTreeMap::new(), principals: BTreeMap::new(), next: 0 }
    }
}

impl<K: Clone> Oldest<K> {
    /// Adds an entry as the newest; returns its sequence number.
    pub fn add(&mut self, party: &Party, key: K) -> u64 {
        let age = self.next;
        self.next += 1;
        self.all.insert((party.is_stranger, age), key.clone());
        self.networks.insert((network(party), age), key.clone());
        self.principals.insert((*party, age), key);
        age
    }

    pub fn remove(&mut self, party: &Party, age: u64) {
        self.all.remove(&(party.is_stranger, age));
        self.networks.remove(&(network(party), age));
        self.principals.remove(&(*party, age));
    }

    /// The oldest entry to evict for a party that `full` refuses: an entry of this party, unless the bound is for all.
    pub fn first(&self, party: &Party, full: Full) -> Option<&K> {
        match full {
            Full::Principal => of(&self.principals, *party),
            Full::Network => of(&self.networks, network(party)),
            Full::All | Full::Strangers => of(&self.all, party.is_stranger),
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

fn of<G: Copy + Ord, K>(entries: &BTreeMap<(G, u64), K>, group: G) -> Option<&K> {
    entries.range((group, 0)..=(group, u64::MAX)).next().map(|(_, key)| key)
}

fn network(party: &Party) -> Party {
    Party { principal: None, ..*party }
}
