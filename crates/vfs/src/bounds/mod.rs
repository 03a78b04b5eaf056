//! Bounds for tables that clients fill: for all, for each network, and for each principal in a network.
//!
//! A network may hold no more than half of the space that the others leave. A principal may hold no more than half of
//! the space that its network may hold besides the others there. An eighth is a reserve: each may hold a small part of
//! its remainder. So a newcomer always finds room, however greedy the others are. Hosts that match no export rule
//! ("strangers") have a small part of their own and never more.
//!
//! This module counts; the entries belong to the table, and each owns its [`Slot`]. A table that is refused a slot may
//! end an unconfirmed entry, or one of a client whose lease is over, and ask again.

mod oldest;
#[cfg(test)]
mod tests;

pub use oldest::Oldest;

use crate::small_map::SmallMap;
use crate::sync::Mutex;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

/// A network of clients: an IPv4 address, or a prefix of IPv6 addresses. Either as the bits of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(u128);

/// The length of the prefix that makes IPv6 addresses one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    prefix_bits: u8,
}

/// A client, as far as bounds distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party {
    pub network: Network,
    /// A user there. The users of AUTH_SYS can be forged, so the same number elsewhere is another principal.
    pub principal: Option<u32>,
    /// Whether no export rule admits it.
    pub is_stranger: bool,
}

/// The limit that a refused entry would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    All,
    Strangers,
    Network,
    Principal,
}

/// The bounds of one table, in entries or bytes.
#[derive(Debug)]
pub struct Bounds {
    known: Part,
    strangers: Part,
    shards: [Mutex<Shard>; SHARDS],
}

/// A part of a table. The clients of one part take nothing from the other.
#[derive(Debug)]
struct Part {
    all: usize,
    used: AtomicUsize,
}

/// Networks by whether they are strangers. Those that hold nothing are not here, so there are never more than entries in the table.
type Shard = SmallMap<(Network, bool), NetworkCounts>;

#[derive(Debug, Default)]
struct NetworkCounts {
    count: usize,
    principals: SmallMap<u32, usize>,
}

/// Room for one entry of a table, or for some bytes; dropping it releases the room.
#[derive(Debug)]
#[must_use = "the room is free again when this is dropped"]
pub struct Slot {
    bounds: Arc<Bounds>,
    party: Party,
    weight: usize,
}

const SHARDS: usize = 16;
/// The divisor of a table for its reserve.
const RESERVE: usize = 8;
/// The divisor of the remaining reserve that one party may hold.
const RESERVE_SHARE: usize = 32;

impl Networks {
    /// Networks of IPv6 addresses that share a prefix of `bits`: 1 to 128.
    pub fn from_prefix(bits: u8) -> Option<Self> {
        (1..=128).contains(&bits).then_some(Self { prefix_bits: bits })
    }

    /// The network of an address. An IPv4 address is one, however it came.
    #[inline]
    pub fn of(self, address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(address) => Network(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(self.prefix_bits));
                Network(address.to_bits() & mask)
            }
        }
    }
}

impl Default for Networks {
    /// A /64: the prefix that one host commonly has to itself.
    fn default() -> Self {
        Self { prefix_bits: 64 }
    }
}

impl Network {
    /// The address, or the first address of the prefix.
    pub fn address(self) -> IpAddr {
        Ipv6Addr::from_bits(self.0).to_canonical()
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address().fmt(f)
    }
}

impl Party {
    /// A party in an admitted network, without a principal.
    pub fn of(network: Network) -> Self {
        Self { network, principal: None, is_stranger: false }
    }

    /// The party of a user in the same network.
    #[must_use]
    pub fn user(self, uid: u32) -> Self {
        Self { principal: Some(uid), ..self }
    }

    /// Returns the same party with the knowledge of its admission.
    #[must_use]
    pub fn admitted(self, is_admitted: bool) -> Self {
        Self { is_stranger: !is_admitted, ..self }
    }
}

impl Bounds {
    /// Bounds of a table of `all` entries, and of `strangers` more for hosts that no export rule admits.
    pub fn new(all: usize, strangers: usize) -> Arc<Self> {
        let part = |all| Part { all, used: AtomicUsize::new(0) };
        Arc::new(Self {
            known: part(all),
            strangers: part(strangers),
            shards: std::array::from_fn(|_| Mutex::default()),
        })
    }

    /// Takes room for an entry of this weight.
    pub fn take(self: &Arc<Self>, party: &Party, weight: usize) -> Result<Slot, Full> {
        self.add(party, weight)?;
        Ok(Slot { bounds: Arc::clone(self), party: *party, weight })
    }

    /// Takes room for an entry of this weight even if there is none, for entries that cannot be refused any more.
    pub fn force(self: &Arc<Self>, party: &Party, weight: usize) -> Slot {
        let mut slot = Slot { bounds: Arc::clone(self), party: *party, weight: 0 };
        slot.set(weight);
        slot
    }

    /// Returns the total in use, strangers included.
    pub fn used(&self) -> usize {
        [&self.known, &self.strangers].map(|part| part.used.load(Ordering::Relaxed)).into_iter().sum()
    }

    /// Whether the network of a party holds more than a newcomer certainly can.
    pub fn is_large(&self, party: &Party) -> bool {
        self.used_by(party) > self.part(party).all / (RESERVE * (RESERVE_SHARE + 1))
    }

    /// Returns the amount in use by the network of a party.
    pub fn used_by(&self, party: &Party) -> usize {
        self.shard(party).get(&party.key()).map_or(0, |held| held.count)
    }

    fn add(&self, party: &Party, weight: usize) -> Result<(), Full> {
        let part = self.part(party);
        let mut shard = self.shard(party);
        let counts = shard.get_or_default(party.key());
        let own = party.principal.map(|uid| counts.of_principal(uid));
        let result = part.take(counts.count, own, weight);
        if result.is_ok() {
            counts.add(party, weight);
        }
        if counts.count == 0 {
            shard.remove(&party.key());
        }
        result.map_err(|full| match full {
            Full::All if party.is_stranger => Full::Strangers,
            full => full,
        })
    }

    fn part(&self, party: &Party) -> &Part {
        if party.is_stranger { &self.strangers } else { &self.known }
    }

    fn shard(&self, party: &Party) -> MutexGuard<'_, Shard> {
        let Network(network) = party.network;
        // IPv4 addresses and networks of IPv6 mostly differ in the lowest of these bits. A client that seeks out the shard of another
        // makes it wait for a lock now and then, no more.
        let bits = network ^ network >> 64;
        let shard = (bits ^ bits >> 4 ^ bits >> 8) % SHARDS as u128;
        self.shards[usize::try_from(shard).unwrap_or(0)].lock()
    }
}

impl Part {
    /// Takes room for a network that holds `count`, `own` of it for the principal in question. The network's count changes under its
    /// shard's lock alone; the counts of others may change meanwhile.
    fn take(&self, count: usize, own: Option<usize>, weight: usize) -> Result<(), Full> {
        let relaxed = Ordering::Relaxed;
        let mut used = self.used.load(relaxed);
        loop {
            self.check(used, count, own, weight)?;
            match self.used.compare_exchange_weak(used, used + weight, relaxed, relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => used = now,
            }
        }
    }

    /// Whether a network that holds `count` of the table, `of_principal` of it for the principal in question, may hold
    /// more.
    fn check(
        &self,
        used: usize,
        count: usize,
        of_principal: Option<usize>,
        weight: usize,
    ) -> Result<(), Full> {
        if weight > self.all.saturating_sub(used) {
            return Err(Full::All);
        }
        let most = share(self.all, used.saturating_sub(count));
        // The first entry may be heavier than a share of the remainder.
        if count > 0 && count + weight > most {
            return Err(Full::Network);
        }
        match of_principal {
            Some(own) if own > 0 && own + weight > share(most, count.saturating_sub(own)) => {
                Err(Full::Principal)
            }
            _ => Ok(()),
        }
    }
}

/// Returns the limit of one party, where others use `others` of `all`: half of the remaining shared space, or a small
/// part of the reserve.
pub fn share(all: usize, others: usize) -> usize {
    let shared = (all - all / RESERVE).saturating_sub(others) / 2;
    let reserved = all.saturating_sub(others) / (RESERVE_SHARE + 1);
    shared.max(reserved).max(1)
}

impl Party {
    fn key(&self) -> (Network, bool) {
        (self.network, self.is_stranger)
    }
}

impl NetworkCounts {
    fn of_principal(&self, uid: u32) -> usize {
        self.principals.get(&uid).copied().unwrap_or(0)
    }

    fn add(&mut self, party: &Party, weight: usize) {
        self.count += weight;
        if let Some(uid) = party.principal
            && weight > 0
        {
            *self.principals.get_or_default(uid) += weight;
        }
    }

    fn subtract(&mut self, party: &Party, weight: usize) {
        self.count -= weight;
        let Some(uid) = party.principal else { return };
        if let Some(own) = self.principals.get_mut(&uid) {
            *own -= weight;
            if *own == 0 {
                self.principals.remove(&uid);
            }
        }
    }
}

impl Slot {
    pub fn party(&self) -> &Party {
        &self.party
    }

    pub fn weight(&self) -> usize {
        self.weight
    }

    pub fn grow(&mut self, by: usize) -> Result<(), Full> {
        self.bounds.add(&self.party, by)?;
        self.weight += by;
        Ok(())
    }

    /// Sets the weight even without room, for changes that cannot be refused any more.
    pub fn set(&mut self, weight: usize) {
        let (part, key) = (self.bounds.part(&self.party), self.party.key());
        let mut shard = self.bounds.shard(&self.party);
        if weight > self.weight {
            let more = weight - self.weight;
            shard.get_or_default(key).add(&self.party, more);
            part.used.fetch_add(more, Ordering::Relaxed);
        } else if let Some(held) = shard.get_mut(&key) {
            let less = self.weight - weight;
            held.subtract(&self.party, less);
            part.used.fetch_sub(less, Ordering::Relaxed);
            if held.count == 0 {
                shard.remove(&key);
            }
        }
        self.weight = weight;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.set(0);
    }
}
