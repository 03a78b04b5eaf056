//! Host names in rules, and the addresses of their last look-up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Looks up hosts. A look-up may block, and should give up after some seconds.
pub trait Resolver: Send + Sync {
    /// Returns no address if there is no such host, and an error if the look-up fails.
    fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts(BTreeMap<String, HostEntry>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct HostEntry {
    addresses: Vec<IpAddr>,
    /// The error of the last look-up, if it failed.
    failure: Option<String>,
}

/// Results of look-ups.
pub(crate) type LookupResults = Vec<(String, Result<Vec<IpAddr>, String>)>;

pub(crate) fn look_up<'a>(resolver: &dyn Resolver, names: impl Iterator<Item = &'a str>) -> LookupResults {
    let names: BTreeSet<&str> = names.collect();
    let ask = |name: &str| resolver.addresses(name).map_err(|error| error.to_string());
    names.into_iter().map(|name| (name.to_owned(), ask(name))).collect()
}

impl Hosts {
    /// Stores look-up results. A failed look-up keeps the known addresses,
    /// so that clients keep their mounts while a name server is down.
    pub(crate) fn learn(&mut self, answers: LookupResults) {
        for (name, answer) in answers {
            let host = self.0.entry(name).or_default();
            match answer {
                Ok(addresses) => {
                    host.failure = addresses.is_empty().then(|| "there is no such host".to_owned());
                    host.addresses = addresses;
                }
                Err(failure) => host.failure = Some(failure),
            }
        }
    }

    /// Forgets hosts that no rule names.
    pub(crate) fn keep_only(&mut self, named: &BTreeSet<String>) {
        self.0.retain(|name, _| named.contains(name));
    }

    pub(crate) fn addresses(&self, host: &str) -> &[IpAddr] {
        self.0.get(host).map_or(&[], |known| &known.addresses)
    }

    /// Returns the error of the last look-up, if it failed.
    pub(crate) fn failure(&self, host: &str) -> Option<&str> {
        self.0.get(host)?.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resting_name_server_takes_no_addresses_away() {
        let address: IpAddr = "10.0.0.7".parse().unwrap();
        let mut hosts = Hosts::default();
        hosts.learn(vec![("a".into(), Err("timed out".into()))]);
        assert_eq!((hosts.addresses("a"), hosts.failure("a")), (&[][..], Some("timed out")));
        hosts.learn(vec![("a".into(), Ok(vec![address]))]);
        assert_eq!((hosts.addresses("a"), hosts.failure("a")), (&[address][..], None));
        hosts.learn(vec![("a".into(), Err("timed out".into()))]);
        assert_eq!((hosts.addresses("a"), hosts.failure("a")), (&[address][..], Some("timed out")));
        hosts.learn(vec![("a".into(), Ok(vec![]))]);
        assert_eq!((hosts.addresses("a"), hosts.failure("a")), (&[][..], Some("there is no such host")));
    }
}
