//! Logins that were refused, by network: a client that guesses passwords has a few tries at once, and then one now and then.

use crate::limits::{NETWORKS_MAX, REFUSED_AT_ONCE_MAX, REFUSED_EVERY, SITE_NETWORKS_MAX, SITE_PREFIX_BITS};
use crate::state::counters::decrement;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// When the tries of each network will be forgotten: each refused one moves that on.
#[derive(Default)]
pub(crate) struct LoginThrottle {
    networks: Networks,
    throttled: Mutex<ThrottledNetworks>,
}

#[derive(Default)]
struct ThrottledNetworks {
    networks: HashMap<Network, Refused>,
    by_time: BTreeSet<(Instant, Network)>,
    /// How many networks of each site are known: a client with a prefix of IPv6 has as many networks as there are in it.
    sites: HashMap<Network, usize>,
}

#[derive(Clone, Copy)]
struct Refused {
    expiry: Instant,
    site: Network,
}

impl LoginThrottle {
    /// Nobody has tried yet.
    pub(crate) fn with_networks(networks: Networks) -> Self {
        Self { networks, throttled: Mutex::default() }
    }

    /// Whether a client at this address may try.
    pub(crate) fn is_allowed(&self, address: IpAddr, now: Instant) -> bool {
        let throttled = self.throttled.lock();
        let network = throttled.throttle_key(self.networks.of(address), site_of(address));
        throttled.expiry(network, now).saturating_duration_since(now) <= all_but_one()
    }

    /// A try was refused.
    pub(crate) fn record_refused(&self, address: IpAddr, now: Instant) {
        let (site, mut throttled) = (site_of(address), self.throttled.lock());
        throttled.remove_expired(now);
        let network = throttled.throttle_key(self.networks.of(address), site);
        let expiry = throttled.expiry(network, now).max(now) + REFUSED_EVERY;
        if throttled.is_full() && !throttled.networks.contains_key(&network) {
            throttled.remove_first();
        }
        throttled.remove(network);
        throttled.networks.insert(network, Refused { expiry, site });
        throttled.by_time.insert((expiry, network));
        *throttled.sites.entry(site).or_default() += 1;
    }
}

impl ThrottledNetworks {
    /// The network that the tries of a client count for: its own, or one for the whole site where many networks of that are known.
    fn throttle_key(&self, network: Network, site: Network) -> Network {
        let is_known = self.networks.contains_key(&network);
        let is_crowded = self.sites.get(&site).is_some_and(|&networks| networks >= SITE_NETWORKS_MAX);
        if is_crowded && !is_known { site } else { network }
    }

    /// When the tries of a network will be forgotten. While there is room for no more networks, one that is not known has as many tries
    /// behind it as the one that has fewest: it takes the place of that one, and a client with many networks would get all of its tries
    /// again and again.
    fn expiry(&self, network: Network, now: Instant) -> Instant {
        let throttled = self.networks.get(&network).map(|refused| refused.expiry);
        let fewest = || self.by_time.first().filter(|_| self.is_full()).map(|(expiry, _)| *expiry);
        throttled.or_else(fewest).unwrap_or(now)
    }

    fn is_full(&self) -> bool {
        self.networks.len() >= NETWORKS_MAX
    }

    fn remove_expired(&mut self, now: Instant) {
        while self.by_time.first().is_some_and(|(expiry, _)| *expiry <= now) {
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        if let Some(&(_, network)) = self.by_time.first() {
            self.remove(network);
        }
    }

    fn remove(&mut self, network: Network) {
        if let Some(Refused { expiry, site }) = self.networks.remove(&network) {
            self.by_time.remove(&(expiry, network));
            decrement(&mut self.sites, site);
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
    fn tries(throttle: &LoginThrottle, address: IpAddr, now: Instant) -> u32 {
        let mut count = 0;
        while throttle.is_allowed(address, now) {
            throttle.record_refused(address, now);
            count += 1;
        }
        count
    }

    #[test]
    fn a_few_at_once_and_then_one_now_and_then() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        assert_eq!(tries(&throttle, address(7), now), REFUSED_AT_ONCE_MAX);
        assert!(throttle.is_allowed(address(8), now), "others are others");
        assert_eq!(tries(&throttle, address(7), now + REFUSED_EVERY), 1);
        assert_eq!(tries(&throttle, address(7), now + REFUSED_EVERY * 4), 3);
        let later = now + REFUSED_EVERY * 1000;
        assert_eq!(tries(&throttle, address(7), later), REFUSED_AT_ONCE_MAX);
    }

    #[test]
    fn a_host_has_one_address() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(tries(&throttle, at("2001:db8:0:2::1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!throttle.is_allowed(at("2001:db8:0:2:0:ffff:0:2"), now));
        assert!(throttle.is_allowed(at("2001:db8:0:1::1"), now));
        assert_eq!(tries(&throttle, at("::ffff:10.0.0.1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!throttle.is_allowed(at("10.0.0.1"), now));
    }

    /// A client that has a /48 has 65,536 networks.
    #[test]
    fn networks_of_one_site_are_bounded_and_those_beyond_share_their_tries() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let at = |site: u16, network: u16| Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 1).into();
        let tried: u32 = (1..=u16::MAX).map(|network| tries(&throttle, at(1, network), now)).sum();
        assert_eq!(tried, REFUSED_AT_ONCE_MAX * (u32::try_from(SITE_NETWORKS_MAX).unwrap() + 1));
        assert!(throttle.throttled.lock().networks.len() <= SITE_NETWORKS_MAX + 1);
        assert_eq!(tries(&throttle, at(2, 1), now), REFUSED_AT_ONCE_MAX, "other sites are others");
        assert_eq!(tries(&throttle, at(1, 7), now + REFUSED_EVERY), 1);
    }

    /// As a botnet has them: those that wait keep nobody out who is not known.
    #[test]
    fn networks_are_bounded_and_a_client_of_another_one_may_try() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let most = u32::try_from(NETWORKS_MAX).unwrap();
        (1..=most + 500).for_each(|number| throttle.record_refused(address(number), now));
        assert_eq!(tries(&throttle, address(1 << 20), now), REFUSED_AT_ONCE_MAX - 1);
        let throttled = throttle.throttled.lock().networks.len();
        assert_eq!(throttled, NETWORKS_MAX);
        throttle.record_refused(address(1 << 20), now + REFUSED_EVERY * 1000);
        let throttled = throttle.throttled.lock();
        assert_eq!((throttled.networks.len(), throttled.by_time.len()), (1, 1), "what is over is forgotten");
        assert_eq!(throttled.sites.len(), 1);
    }

    #[test]
    fn a_client_with_more_networks_than_are_known_gets_its_tries_once() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let most = u32::try_from(NETWORKS_MAX).unwrap() + 100;
        let round = || (1..=most).map(|number| tries(&throttle, address(number), now)).sum::<u32>();
        let first = round();
        assert!(first <= most * REFUSED_AT_ONCE_MAX, "{first}");
        assert_eq!(round(), 0);
    }
}
