//! Refused mounts in the log: enough for an operator, and no more than a stranger may write there.

use super::{Export, ExportId, ExportRule, Origin, Protection};
use crate::sync::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The interval in which a client's refusal at an export is logged once.
const INTERVAL: Duration = Duration::from_secs(60);
/// Clients and exports that are remembered. Further refusals are not logged while the table is full.
const REFUSALS_MAX: usize = 1024;
/// The part of one client, which leaves room for others however many exports there are.
const OF_CLIENT_MAX: usize = 32;

/// The refusals that were logged in the last minute.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<(IpAddr, Option<ExportId>), Instant>>);

impl Refusals {
    /// Takes a refusal of a call to mount an export, or of one to a path without an export. Returns the reason if it is to be
    /// logged.
    pub fn add(&self, origin: Origin, export: Option<&Export>) -> Option<&'static str> {
        let export = export.filter(|export| export.is_at(origin.endpoint));
        let is_due = self.is_due(Instant::now(), origin.client, export.map(|export| export.id));
        let why =
            || export.map_or("there is no such volume at this address", |export| why(&export.rules, origin));
        is_due.then(why)
    }

    /// Whether this is the first refusal in a minute of a client at an export, or at paths without one. The addresses of an
    /// IPv6 network are one client.
    fn is_due(&self, now: Instant, client: IpAddr, export: Option<ExportId>) -> bool {
        let key = (network(client), export);
        let is_recent = |logged: Instant| now.saturating_duration_since(logged) < INTERVAL;
        let mut logged = self.0.lock();
        if logged.get(&key).copied().is_some_and(is_recent) {
            return false;
        }
        if logged.len() >= REFUSALS_MAX {
            logged.retain(|_, logged| is_recent(*logged));
        }
        let of_client = logged.iter().filter(|((client, _), logged)| *client == key.0 && is_recent(**logged));
        let has_room = logged.len() < REFUSALS_MAX && of_client.count() < OF_CLIENT_MAX;
        if has_room {
            logged.insert(key, now);
        }
        has_room
    }
}

fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// The reason why none of the rules admits a call.
fn why(rules: &[ExportRule], origin: Origin) -> &'static str {
    let of_client = || rules.iter().filter(|rule| rule.matches(origin.client));
    let Some(rule) = of_client().find(|rule| rule.protocols.contains(origin.protocol)) else {
        let has_any = of_client().next().is_some();
        let (other, none) = (
            "the export rules for this client do not allow this protocol",
            "no export rule is for this client",
        );
        return if has_any { other } else { none };
    };
    match rule.protection {
        _ if rule.no_access => "an export rule refuses this client",
        Protection::Verified => "the export rule needs TLS with a client certificate (xprtsec=mtls)",
        Protection::Plain | Protection::Encrypted => "the export rule needs TLS (xprtsec=tls)",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ProtocolId, ProtocolSet};
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn refusal_is_logged_once_a_minute_for_each_client_and_export() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let due = |seconds, client: &str, export: Option<u64>| {
            refusals.is_due(start + Duration::from_secs(seconds), ip(client), export.map(ExportId))
        };
        assert!(due(0, "10.0.0.1", Some(1)));
        assert!(!due(59, "10.0.0.1", Some(1)) && !due(1, "::ffff:10.0.0.1", Some(1)));
        assert!(due(1, "10.0.0.1", Some(2)) && due(1, "10.0.0.1", None) && due(1, "10.0.0.2", Some(1)));
        assert!(due(60, "10.0.0.1", Some(1)));
        assert!(due(60, "2001:db8::1", None) && !due(60, "2001:db8::2", None));
    }

    #[test]
    fn reason_is_that_of_the_first_rule_for_client_and_protocol() {
        let rule = |client: &str, protection| ExportRule {
            clients: vec![client.parse().unwrap()],
            protocols: ProtocolSet::from_bits(0b10),
            protection,
            ..ExportRule::everybody()
        };
        let denied = ExportRule { no_access: true, ..rule("10.0.0.3", Protection::Plain) };
        let rules = [
            rule("10.0.0.1", Protection::Encrypted),
            rule("10.0.0.2", Protection::Verified),
            denied,
            rule("10.0.0.0/29", Protection::Plain),
        ];
        let of = |client: &str, protocol| {
            why(&rules, Origin { protocol: ProtocolId(protocol), ..Origin::of(ip(client)) })
        };
        for (client, protocol, expected) in [
            ("10.0.0.1", 1, "xprtsec=tls"),
            ("10.0.0.2", 1, "xprtsec=mtls"),
            ("10.0.0.3", 1, "refuses this client"),
            ("10.0.0.4", 0, "do not allow this protocol"),
            ("10.0.0.9", 1, "no export rule is for this client"),
        ] {
            assert!(of(client, protocol).contains(expected), "{client}: {}", of(client, protocol));
        }
    }

    #[test]
    fn many_refusals_take_little_memory_and_few_lines() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let due = |seconds, client: u32| {
            let client = IpAddr::V4(client.into());
            refusals.is_due(start + Duration::from_secs(seconds), client, None)
        };
        assert_eq!((0..5000).filter(|client| due(0, *client)).count(), REFUSALS_MAX);
        assert!(!due(30, 6000) && due(60, 6000));
        assert_eq!(refusals.0.lock().len(), 1);
        let at = |export| refusals.is_due(start + INTERVAL, ip("10.0.0.7"), Some(ExportId(export)));
        assert_eq!((0..5000).filter(|export| at(*export)).count(), OF_CLIENT_MAX);
        assert!(due(60, 7000), "one client leaves room for others");
    }
}
