//! Properties of pools and volumes as text, for the message that names a difference.

use crate::difference::{or_none, variant};
use crate::name::Labels;
use crate::protocol::Protocols;
use crate::rule::ExportRule;
use envelope::{Ceilings, Declared, PoolSettings, ProvisionedIops, VolumeSettings};
use std::fmt::Display;
use vfs::{Root, Squash};

pub(crate) fn labels(labels: &Labels) -> String {
    or_none(labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", "))
}

pub(crate) fn root(root: &Root) -> String {
    format!("{:04o}, {}:{}", root.mode, root.uid, root.gid)
}

pub(crate) fn rules(rules: &[ExportRule]) -> String {
    let text = |rule: &ExportRule| {
        let mut text = format!("{} {}", rule.clients, rule.access);
        if rule.squash != Squash::None {
            text += &format!(" squash={}", variant(&rule.squash));
        }
        if rule.protocols != Protocols::ALL {
            text += &format!(" protocols={}", rule.protocols);
        }
        text
    };
    or_none(rules.iter().map(text).collect::<Vec<_>>().join("; "))
}

pub(crate) fn pool_settings(of: &PoolSettings) -> String {
    let operations = of.iops.map(|iops| match iops {
        ProvisionedIops::Fixed(iops) => iops.to_string(),
        ProvisionedIops::PerTib(iops) => format!("{iops} for each TiB"),
    });
    let mut all = vec![
        of.qos.map(|qos| format!("{} QoS", variant(&qos))),
        of.throughput.map(|rate| rate.to_string()),
        operations,
        of.tiering.then(|| "tiering".to_owned()),
        of.profile.map(|profile| format!("profile {profile}")),
    ];
    all.extend(declared(&of.declared));
    or_none(all.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

pub(crate) fn volume_settings(of: &VolumeSettings) -> String {
    let mut all = vec![
        of.throughput.map(|rate| rate.to_string()),
        of.large.then(|| "large".to_owned()),
        of.profile.map(|profile| format!("profile {profile}")),
        of.shape.map(|shaping| format!("shape {} × {}/1000", shaping.shape, shaping.scale_thousandths)),
    ];
    all.extend(declared(&of.declared));
    or_none(all.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn declared(of: &Declared) -> Vec<Option<String>> {
    let mut all = ceilings("", &of.total);
    all.extend(ceilings(" a client", &of.per_client));
    all.push(of.clients_max.map(|clients| format!("{clients} clients")));
    all
}

fn ceilings(whose: &str, of: &Ceilings) -> Vec<Option<String>> {
    fn text(value: Option<&impl Display>, kind: &str, whose: &str) -> Option<String> {
        value.map(|value| format!("{value}{kind}{whose}"))
    }
    vec![
        text(of.combined.as_ref(), "", whose),
        text(of.read.as_ref(), " read", whose),
        text(of.write.as_ref(), " written", whose),
        text(of.combined_iops.as_ref(), "", whose),
        text(of.read_iops.as_ref(), " read", whose),
        text(of.write_iops.as_ref(), " written", whose),
    ]
}
