//! Logins that were refused, by network: a client that guesses passwords has a few tries at once, and then one now and then.

use crate::limits::{NETWORKS_MAX, REFUSED_AT_ONCE_MAX, REFUSED_EVERY, SITE_NETWORKS_MAX, SITE_PREFIX_BITS};
use crate::state::counters::count_down;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// When the tries of each network will be forgotten: each refused one moves that on.
#[derive(Default)]
pub(crate) struct Attempts {
    networks: Networks,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    networks: HashMap<Network, Refused>,
    by_time: BTreeSet<(Instant, Network)>,
    /// How many networks of each site are known: a client with a prefix of IPv6 has as many networks as there are in it.
    sites: HashMap<Network, usize>,
}

#[derive(Clone, Copy)]
struct Refused {
    forgotten: Instant,
    site: Network,
}

impl Attempts {
    /// Nobody has tried yet.
    pub(crate) fn of(networks: Networks) -> Self {
        Self { networks, known: Mutex::default() }
    }

    /// Whether a client at this address may try.
    pub(crate) fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let known = self.known.lock();
        let network = known.counted(self.networks.of(address), site_of(address));
        known.forgotten(network, now).saturating_duration_since(now) <= all_but_one()
    }

    /// A try was refused.
    pub(crate) fn note_refused(&self, address: IpAddr, now: Instant) {
        let (site, mut known) = (site_of(address), self.known.lock());
        known.forget_all_until(now);
        let network = known.counted(self.networks.of(address), site);
        let forgotten = known.forgotten(network, now).max(now) + REFUSED_EVERY;
        if known.is_full() && !known.networks.contains_key(&network) {
            known.forget_first();
        }
        known.forget(network);
        known.networks.insert(network, Refused { forgotten, site });
        known.by_time.insert((forgotten, network));
        *known.sites.entry(site).or_default() += 1;
    }
}

impl Known {
    /// The network that the tries of a client count for: its own, or one for the whole site where many networks of that are known.
    fn counted(&self, network: Network, site: Network) -> Network {
        let is_known = self.networks.contains_key(&network);
        let is_crowded = self.sites.get(&site).is_some_and(|&networks| networks >= SITE_NETWORKS_MAX);
        if is_crowded && !is_known { site } else { network }
    }

    /// When the tries of a network will be forgotten. While there is room for no more networks, one that is not known has as many tries
    /// behind it as the one that has fewest: it takes the place of that one, and a client with many networks would get all of its tries
    /// again and again.
    fn forgotten(&self, network: Network, now: Instant) -> Instant {
        let known = self.networks.get(&network).map(|refused| refused.forgotten);
        let fewest = || self.by_time.first().filter(|_| self.is_full()).map(|(forgotten, _)| *forgotten);
        known.or_else(fewest).unwrap_or(now)
    }

    fn is_full(&self) -> bool {
        self.networks.len() >= NETWORKS_MAX
    }

    fn forget_all_until(&mut self, now: Instant) {
        while self.by_time.first().is_some_and(|(forgotten, _)| *forgotten <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(&(_, network)) = self.by_time.first() {
            self.forget(network);
        }
    }

    fn forget(&mut self, network: Network) {
        if let Some(Refused { forgotten, site }) = self.networks.remove(&network) {
            self.by_time.remove(&(forgotten, network));
            count_down(&mut self.sites, site);
        }
    }
}

/// The networks that one organization has: of IPv4, an address alone.
fn site_of(address: IpAddr) -> Network {
    Networks::of_prefix(SITE_PREFIX_BITS).unwrap_or_default().of(address)
}

/// How far ahead the end is of a network that has one try left.
fn all_but_one() -> Duration {
    REFUSED_EVERY * (REFUSED_AT_ONCE_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number))
    }

    /// Tries until no more are let through.
    fn tries(attempts: &Attempts, address: IpAddr, now: Instant) -> u32 {
        let mut count = 0;
        while attempts.may_try(address, now) {
            attempts.note_refused(address, now);
            count += 1;
        }
        count
    }

    #[test]
    fn a_few_at_once_and_then_one_now_and_then() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        assert_eq!(tries(&attempts, address(7), now), REFUSED_AT_ONCE_MAX);
        assert!(attempts.may_try(address(8), now), "others are others");
        assert_eq!(tries(&attempts, address(7), now + REFUSED_EVERY), 1);
        assert_eq!(tries(&attempts, address(7), now + REFUSED_EVERY * 4), 3);
        let later = now + REFUSED_EVERY * 1000;
        assert_eq!(tries(&attempts, address(7), later), REFUSED_AT_ONCE_MAX);
    }

    #[test]
    fn a_host_has_one_address() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(tries(&attempts, at("2001:db8:0:2::1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!attempts.may_try(at("2001:db8:0:2:0:ffff:0:2"), now));
        assert!(attempts.may_try(at("2001:db8:0:1::1"), now));
        assert_eq!(tries(&attempts, at("::ffff:10.0.0.1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!attempts.may_try(at("10.0.0.1"), now));
    }

    /// A client that has a /48 has 65,536 networks.
    #[test]
    fn networks_of_one_site_are_bounded_and_those_beyond_share_their_tries() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let at = |site: u16, network: u16| Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 1).into();
        let tried: u32 = (1..=u16::MAX).map(|network| tries(&attempts, at(1, network), now)).sum();
        assert_eq!(tried, REFUSED_AT_ONCE_MAX * (u32::try_from(SITE_NETWORKS_MAX).unwrap() + 1));
        assert!(attempts.known.lock().networks.len() <= SITE_NETWORKS_MAX + 1);
        assert_eq!(tries(&attempts, at(2, 1), now), REFUSED_AT_ONCE_MAX, "other sites are others");
        assert_eq!(tries(&attempts, at(1, 7), now + REFUSED_EVERY), 1);
    }

    /// As a botnet has them: those that wait keep nobody out who is not known.
    #[test]
    fn networks_are_bounded_and_a_client_of_another_one_may_try() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let most = u32::try_from(NETWORKS_MAX).unwrap();
        (1..=most + 500).for_each(|number| attempts.note_refused(address(number), now));
        assert_eq!(tries(&attempts, address(1 << 20), now), REFUSED_AT_ONCE_MAX - 1);
        let known = attempts.known.lock().networks.len();
        assert_eq!(known, NETWORKS_MAX);
        attempts.note_refused(address(1 << 20), now + REFUSED_EVERY * 1000);
        let known = attempts.known.lock();
        assert_eq!((known.networks.len(), known.by_time.len()), (1, 1), "what is over is forgotten");
        assert_eq!(known.sites.len(), 1);
    }

    #[test]
    fn a_client_with_more_networks_than_are_known_gets_its_tries_once() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let most = u32::try_from(NETWORKS_MAX).unwrap() + 100;
        let round = || (1..=most).map(|number| tries(&attempts, address(number), now)).sum::<u32>();
        let first = round();
        assert!(first <= most * REFUSED_AT_ONCE_MAX, "{first}");
        assert_eq!(round(), 0);
    }
}
