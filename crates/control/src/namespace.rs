//! Converts rows to the data plane's exports.

use crate::hosts::Hosts;
use crate::kind::State;
use crate::protocol::Protocols;
use crate::rule::{self, Access, Client, ExportRule};
use crate::volume::Volume;
use crate::warning::Warning;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use vfs::{Cidr, Export, Protection};

/// Returns `None` if the volume is not exported.
pub(crate) fn export(
    volume: &Volume,
    open: &Arc<vfs::Volume>,
    hosts: &Hosts,
    served: Protocols,
) -> Option<Export> {
    let protocols = volume.protocols.and(served);
    let rules = || volume.rules.iter().filter_map(|rule| served_rule(rule, protocols, hosts)).collect();
    let export = || {
        let export = Export::new(volume.path(), Arc::clone(open), rules());
        export.at(volume.endpoints.clone()).shared(volume.smb.0)
    };
    let is_there = matches!(volume.state, State::Ready | State::Updating | State::Reverting);
    (is_there && !protocols.is_empty() && open.has_files()).then(export)
}

pub(crate) struct Serving {
    pub(crate) protocols: Protocols,
    pub(crate) protection: Protection,
    pub(crate) not_listening: BTreeMap<IpAddr, String>,
}

/// Returns warnings about a volume's rules, protocols and endpoints.
pub(crate) fn warnings(volume: &Volume, hosts: &Hosts, serving: &Serving) -> Vec<Warning> {
    let name = || volume.name.clone();
    let mut warnings = Vec::new();
    warnings.extend(volume.rules.is_empty().then(|| Warning::NoRules { volume: name() }));
    let not_served = volume.protocols.without(serving.protocols);
    warnings.extend(
        (!not_served.is_empty()).then(|| Warning::NotServed { volume: name(), protocols: not_served }),
    );
    let protocols = volume.protocols.and(serving.protocols);
    warnings.extend(volume.rules.iter().filter_map(|rule| {
        let unreachable = rule.unreachable(protocols, serving.protection);
        (!unreachable.is_empty()).then(|| Warning::Unprotected {
            volume: name(),
            clients: rule.clients.to_string(),
            protection: rule.protection,
            protocols: unreachable,
        })
    }));
    let numbered = |place: usize| format!("{}, for {}", place + 1, volume.rules[place].clients);
    warnings.extend(
        rule::hidden(&volume.rules, protocols).into_iter().map(|(rule, by)| Warning::HiddenRule {
            volume: name(),
            rule: numbered(rule),
            by: numbered(by),
        }),
    );
    for host in volume.rules.iter().flat_map(|rule| rule.clients.hosts()) {
        warnings.extend(hosts.failure(host).map(|reason| Warning::UnknownHost {
            volume: name(),
            host: host.to_owned(),
            reason: reason.to_owned(),
            has_addresses: !hosts.addresses(host).is_empty(),
        }));
    }
    warnings.extend(volume.endpoints.iter().filter_map(|address| {
        let reason = serving.not_listening.get(address)?.clone();
        Some(Warning::EndpointDown { volume: name(), address: *address, reason })
    }));
    warnings
}

/// A rule without a known client is omitted: in the data plane, an empty list means every client.
fn served_rule(rule: &ExportRule, served: Protocols, hosts: &Hosts) -> Option<vfs::ExportRule> {
    let ranges = |client: &Client| match client {
        Client::Range(range) => vec![*range],
        Client::Host(name) => hosts.addresses(name).iter().copied().map(Cidr::from).collect(),
    };
    let clients: Vec<Cidr> = rule.clients.iter().flat_map(ranges).collect();
    let protocols = rule.protocols.and(served);
    let holds = !protocols.is_empty() && !clients.is_empty();
    holds.then_some(vfs::ExportRule {
        clients,
        protocols: protocols.ids(),
        no_access: rule.access == Access::NoAccess,
        read_only: rule.access == Access::ReadOnly,
        squash: rule.squash,
        anonymous_uid: rule.anonymous_uid,
        anonymous_gid: rule.anonymous_gid,
        protection: rule.protection,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(clients: &str) -> ExportRule {
        ExportRule::for_clients(clients.parse().unwrap())
    }

    #[test]
    fn an_unknown_host_is_nobody_not_everybody() {
        let mut hosts = Hosts::default();
        assert_eq!(served_rule(&rule("build"), Protocols::NFS_V3, &hosts), None);
        hosts.learn(vec![("build".into(), Ok(vec!["10.0.0.7".parse().unwrap()]))]);
        let served = served_rule(&rule("build,10.1.0.0/16"), Protocols::NFS_V3, &hosts).unwrap();
        assert!(served.matches("10.0.0.7".parse().unwrap()) && served.matches("10.1.2.3".parse().unwrap()));
        assert!(!served.matches("10.0.0.8".parse().unwrap()));
    }

    #[test]
    fn a_rule_for_other_protocols_is_passed_over() {
        let smb: Protocols = "smb".parse().unwrap();
        assert_eq!(
            served_rule(
                &ExportRule { protocols: smb, ..rule("0.0.0.0/0") },
                Protocols::NFS_V3,
                &Hosts::default()
            ),
            None
        );
        let read_only = ExportRule { access: Access::ReadOnly, ..rule("0.0.0.0/0") };
        assert!(served_rule(&read_only, Protocols::NFS_V3, &Hosts::default()).unwrap().read_only);
    }
}
