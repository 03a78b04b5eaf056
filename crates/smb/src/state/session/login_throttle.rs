//! A limit on refused logins by network: a few attempts at once, then one at intervals.

use crate::limits::{NETWORKS_MAX, REFUSED_AT_ONCE_MAX, REFUSED_EVERY, SITE_NETWORKS_MAX, SITE_PREFIX_BITS};
use crate::state::counters::decrement;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// The expiry of each network's refusals. A refusal delays it.
#[derive(Default)]
pub(crate) struct LoginThrottle {
    networks: Networks,
    throttled: Mutex<ThrottledNetworks>,
}

#[derive(Default)]
struct ThrottledNetworks {
    networks: HashMap<Network, Refused>,
    by_time: BTreeSet<(Instant, Network)>,
    /// The number of throttled networks of each site: a client with an IPv6 prefix has many networks.
    sites: HashMap<Network, usize>,
}

#[derive(Clone, Copy)]
struct Refused {
    expiry: Instant,
    site: Network,
}

impl LoginThrottle {
    pub(crate) fn with_networks(networks: Networks) -> Self {
        Self { networks, throttled: Mutex::default() }
    }

    /// Whether a client at this address may attempt a login.
    pub(crate) fn is_allowed(&self, address: IpAddr, now: Instant) -> bool {
        let throttled = self.throttled.lock();
        let network = throttled.throttle_key(self.networks.of(address), site_of(address));
        throttled.expiry(network, now).saturating_duration_since(now) <= all_but_one()
    }

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
    /// The network that refusals count for: the client's own, or its whole site if many networks of that are
    /// throttled.
    fn throttle_key(&self, network: Network, site: Network) -> Network {
        let is_known = self.networks.contains_key(&network);
        let is_crowded = self.sites.get(&site).is_some_and(|&networks| networks >= SITE_NETWORKS_MAX);
        if is_crowded && !is_known { site } else { network }
    }

    /// The expiry of a network's refusals. While the table is full, an unknown network counts as the first to expire,
    /// whose place it would take. Otherwise a client with many networks would get all its attempts again and again.
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

/// The networks of one organization: for IPv4, a single address.
fn site_of(address: IpAddr) -> Network {
    Networks::from_prefix(SITE_PREFIX_BITS).unwrap_or_default().of(address)
}

/// The time to expiry of a network with one attempt left.
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

    /// Attempts logins until one is throttled.
    fn tries(throttle: &LoginThrottle, address: IpAddr, now: Instant) -> u32 {
        let mut count = 0;
        while throttle.is_allowed(address, now) {
            throttle.record_refused(address, now);
            count += 1;
        }
        count
    }

    #[test]
    fn refused_logins_are_throttled_after_a_burst() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        assert_eq!(tries(&throttle, address(7), now), REFUSED_AT_ONCE_MAX);
        assert!(throttle.is_allowed(address(8), now), "others are others");
        assert_eq!(tries(&throttle, address(7), now + REFUSED_EVERY), 1);
        assert_eq!(tries(&throttle, address(7), now + REFUSED_EVERY * 4), 3);
        let later = now + REFUSED_EVERY * 1000;
        assert_eq!(tries(&throttle, address(7), later), REFUSED_AT_ONCE_MAX);
    }

    #[test]
    fn addresses_of_one_host_share_attempts() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(tries(&throttle, at("2001:db8:0:2::1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!throttle.is_allowed(at("2001:db8:0:2:0:ffff:0:2"), now));
        assert!(throttle.is_allowed(at("2001:db8:0:1::1"), now));
        assert_eq!(tries(&throttle, at("::ffff:10.0.0.1"), now), REFUSED_AT_ONCE_MAX);
        assert!(!throttle.is_allowed(at("10.0.0.1"), now));
    }

    /// A client with a /48 has 65,536 networks.
    #[test]
    fn networks_of_one_site_share_attempts_beyond_a_bound() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let at = |site: u16, network: u16| Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 1).into();
        let tried: u32 = (1..=u16::MAX).map(|network| tries(&throttle, at(1, network), now)).sum();
        assert_eq!(tried, REFUSED_AT_ONCE_MAX * (u32::try_from(SITE_NETWORKS_MAX).unwrap() + 1));
        assert!(throttle.throttled.lock().networks.len() <= SITE_NETWORKS_MAX + 1);
        assert_eq!(tries(&throttle, at(2, 1), now), REFUSED_AT_ONCE_MAX, "other sites are others");
        assert_eq!(tries(&throttle, at(1, 7), now + REFUSED_EVERY), 1);
    }

    /// Throttled networks of a botnet do not block an unknown client.
    #[test]
    fn unknown_network_may_log_in_while_the_table_is_full() {
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
    fn client_with_more_networks_than_the_table_gets_its_attempts_once() {
        let (throttle, now) = (LoginThrottle::default(), Instant::now());
        let most = u32::try_from(NETWORKS_MAX).unwrap() + 100;
        let round = || (1..=most).map(|number| tries(&throttle, address(number), now)).sum::<u32>();
        let first = round();
        assert!(first <= most * REFUSED_AT_ONCE_MAX, "{first}");
        assert_eq!(round(), 0);
    }
}
