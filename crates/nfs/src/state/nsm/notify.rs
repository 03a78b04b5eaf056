//! [`Restart`]: notices of our restart to the hosts that had locks (SM_NOTIFY, XNFS §11.3).

use crate::outgoing::Outgoing;
use nfs_wire::nsm::{PROGRAM, Procedure, StatusChange, VERSION};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use xdr::Encode;

/// Time between notices to a host that does not answer.
const RETRY: Duration = Duration::from_secs(5);

/// The hosts still to notify of a restart.
pub(crate) struct Restart {
    /// Hosts, and the addresses by which they know us.
    pending: Vec<(IpAddr, IpAddr)>,
    state: u32,
    next_try: Instant,
    until: Instant,
}

impl Restart {
    /// Tells these hosts from now on, for as long as the grace period takes.
    pub(crate) fn new(hosts: &[(IpAddr, IpAddr)], state: u32, grace: Duration) -> Self {
        let now = Instant::now();
        Self { pending: hosts.to_vec(), state, next_try: now, until: now + grace }
    }

    /// Whether reclaiming has ended.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    /// The calls to make by now. A host knows us by the address that it has used: status monitors compare
    /// addresses.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Outgoing> {
        if now < self.next_try {
            return Vec::new();
        }
        self.next_try = now + RETRY;
        let call = |&(host, from): &(IpAddr, IpAddr)| {
            let name = from.to_string();
            let args = StatusChange { mon_name: name.as_bytes(), state: self.state }.to_bytes();
            Outgoing { host, from, program: PROGRAM, version: VERSION, procedure: Procedure::NOTIFY.0, args }
        };
        self.pending.iter().map(call).collect()
    }

    pub(crate) fn acknowledge(&mut self, host: IpAddr) {
        self.pending.retain(|(pending, _)| *pending != host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_again_until_they_answer() {
        let [one, two, server] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut restart = Restart::new(&[(one, server), (two, server)], 5, Duration::from_secs(45));
        let start = restart.next_try;
        let hosts = |calls: Vec<Outgoing>| calls.into_iter().map(|call| call.host).collect::<Vec<_>>();
        let calls = restart.due(start);
        assert_eq!(calls[0].args, [&[0, 0, 0, 8][..], b"10.0.0.3", &[0, 0, 0, 5]].concat());
        assert_eq!(hosts(calls), [one, two]);
        restart.acknowledge(one);
        assert!(restart.due(start + RETRY / 2).is_empty());
        assert_eq!(hosts(restart.due(start + RETRY)), [two]);
        assert!(!restart.is_over(start + Duration::from_secs(44)));
        assert!(restart.is_over(start + Duration::from_secs(45)));
    }
}
