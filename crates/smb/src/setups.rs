//! Sessions whose clients have proven nothing: there are only so many, of one host and of all, and the oldest give way to new ones.

use crate::attempts::of_one;
use crate::counts::{count_down, lock};
use crate::limits::{SETUP_TIME_MIN, SETUPS_MAX, SETUPS_OF_HOST_MAX};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The places that there are.
#[derive(Clone, Default)]
pub(crate) struct Setups(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: u64,
    /// In the order in which they were taken.
    taken: BTreeMap<u64, Taken>,
    /// How many of them each host has.
    hosts: HashMap<IpAddr, usize>,
}

struct Taken {
    session_id: u64,
    host: IpAddr,
    since: Instant,
}

/// A session's place, until this is dropped.
pub(crate) struct Setup {
    setups: Setups,
    number: u64,
}

impl Setups {
    /// A place for a session of a client at this address. Where there is none, the number of a session that is to give way, if one has
    /// had its place for long enough.
    pub(crate) fn take(&self, session_id: u64, address: IpAddr, now: Instant) -> Result<Setup, Option<u64>> {
        let host = of_one(address);
        let mut table = lock(&self.0);
        let of_host = table.hosts.get(&host).copied().unwrap_or_default();
        let oldest = if of_host >= SETUPS_OF_HOST_MAX {
            table.taken.values().find(|taken| taken.host == host)
        } else if table.taken.len() >= SETUPS_MAX {
            table.taken.values().next()
        } else {
            table.last += 1;
            let number = table.last;
            table.taken.insert(number, Taken { session_id, host, since: now });
            table.hosts.insert(host, of_host + 1);
            return Ok(Setup { setups: self.clone(), number });
        };
        let gives_way = |taken: &&Taken| now.saturating_duration_since(taken.since) >= SETUP_TIME_MIN;
        Err(oldest.filter(gives_way).map(|taken| taken.session_id))
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let mut table = lock(&self.setups.0);
        let Some(Taken { host, .. }) = table.taken.remove(&self.number) else { return };
        count_down(&mut table.hosts, host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn host(number: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap()))
    }

    fn take(setups: &Setups, of_host: usize, count: usize, now: Instant) -> Vec<Setup> {
        (0..count).map_while(|id| setups.take(id as u64, host(of_host), now).ok()).collect()
    }

    #[test]
    fn one_host_leaves_places_to_others() {
        let (setups, now) = (Setups::default(), Instant::now());
        let flood = take(&setups, 1, SETUPS_MAX, now);
        assert_eq!(flood.len(), SETUPS_OF_HOST_MAX);
        assert!(setups.take(7, host(1), now).is_err_and(|oldest| oldest.is_none()));
        assert_eq!(take(&setups, 2, 100, now).len(), 100);
        drop(flood);
        assert_eq!(take(&setups, 1, 1, now).len(), 1);
        let table = lock(&setups.0);
        assert!(table.taken.is_empty() && table.hosts.is_empty(), "all were given back");
    }

    #[test]
    fn the_oldest_gives_way_once_it_has_had_its_time() {
        let (setups, now) = (Setups::default(), Instant::now());
        let hosts = SETUPS_MAX / SETUPS_OF_HOST_MAX;
        let _first = setups.take(1_000_000, host(0), now).unwrap();
        let soon = now + Duration::from_millis(1);
        let _flood: Vec<Vec<Setup>> =
            (0..hosts).map(|of_host| take(&setups, of_host, SETUPS_OF_HOST_MAX, soon)).collect();
        assert_eq!(lock(&setups.0).taken.len(), SETUPS_MAX);
        let asks = |of_host, at| setups.take(7, host(of_host), at).err();
        // Of a host that has too many, its own oldest; of all, the oldest of all.
        assert_eq!(asks(hosts, now + SETUP_TIME_MIN - Duration::from_nanos(1)), Some(None));
        assert_eq!(asks(hosts, now + SETUP_TIME_MIN), Some(Some(1_000_000)));
        assert_eq!(asks(1, now + SETUP_TIME_MIN), Some(None), "its oldest is younger");
        assert_eq!(asks(1, soon + SETUP_TIME_MIN), Some(Some(0)));
    }
}
