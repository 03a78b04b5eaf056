//! Settings of pools and volumes as flags. A level may not support all of them.

use super::limits::number;
use super::words;
use crate::exit::usage;
use api_client::model::{
    Ceilings, Declared, Merge, PoolSettings, ProfileName, Qos, ShapeName, Shaping, VolumeSettings,
};
use clap::{Args, ValueEnum};
use envelope::{BytesPerSecond, Iops};
use serde::{Serialize, de::DeserializeOwned};
use std::str::FromStr;

/// Settings of a pool.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Settings of the pool, at some levels")]
pub(crate) struct PoolFlags {
    /// Source of the volumes' throughput
    #[arg(long, value_parser = words::qos())]
    qos: Option<Qos>,
    /// Throughput to buy, like 256MiB/s (anf/flexible, gcnv/flex-custom)
    #[arg(long, value_name = "RATE")]
    throughput: Option<BytesPerSecond>,
    /// Operations per second to buy, independent of the capacity
    #[arg(long, value_name = "N", conflicts_with = "iops_per_tib")]
    iops: Option<Iops>,
    /// Operations per second to buy for each TiB
    #[arg(long, value_name = "N")]
    iops_per_tib: Option<Iops>,
    /// Turn on cool access (anf) or auto-tiering (gcnv); cannot be undone
    #[arg(long)]
    tiering: bool,
    /// Alternative figure, where two sources disagree: "plimsoll level profiles" lists them
    #[arg(long, value_parser = words::profile(), hide_possible_values = true, hide_short_help = true)]
    profile: Option<ProfileName>,
    /// A custom limit (plimsoll/custom), like throughput=300MiB/s; repeatable
    ///
    /// Limits: throughput, read, write, iops, read-iops, write-iops; the same with client- in front for each client; clients
    /// (advisory, not enforced).
    #[arg(long, value_name = "LIMIT=VALUE")]
    limit: Vec<Limit>,
}

/// Settings of a volume.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Settings of the volume, at some levels")]
pub(crate) struct VolumeFlags {
    /// The volume's part of the pool's throughput, with manual QoS, like 64MiB/s
    #[arg(long, value_name = "RATE")]
    throughput: Option<BytesPerSecond>,
    /// Alternative figure, where two sources disagree: "plimsoll level profiles" lists them
    #[arg(long, value_parser = words::profile(), hide_possible_values = true, hide_short_help = true)]
    profile: Option<ProfileName>,
    /// A published curve that limits the volume as well: "plimsoll level shapes" lists them
    #[arg(long, value_parser = words::shape(), hide_possible_values = true, hide_short_help = true)]
    shape: Option<ShapeName>,
    /// Factor that scales the curve, like 0.25
    #[arg(long, value_name = "FACTOR", value_parser = words::scale, requires = "shape", hide_short_help = true)]
    scale: Option<u32>,
    /// A custom limit (plimsoll/custom), like throughput=300MiB/s; repeatable
    ///
    /// Limits: throughput, read, write, iops, read-iops, write-iops; the same with client- in front for each client; clients
    /// (advisory, not enforced).
    #[arg(long, value_name = "LIMIT=VALUE")]
    limit: Vec<Limit>,
}

/// `read=100MiB/s`, `client-iops=5000`, `clients=10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    kind: LimitKind,
    is_per_client: bool,
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitKind {
    Throughput,
    Read,
    Write,
    Iops,
    ReadIops,
    WriteIops,
    Clients,
}

const LIMITS: [(&str, LimitKind); 7] = [
    ("throughput", LimitKind::Throughput),
    ("read", LimitKind::Read),
    ("write", LimitKind::Write),
    ("iops", LimitKind::Iops),
    ("read-iops", LimitKind::ReadIops),
    ("write-iops", LimitKind::WriteIops),
    ("clients", LimitKind::Clients),
];

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            let names: Vec<&str> = LIMITS.iter().map(|(name, _)| *name).collect();
            format!(
                "allowed: one of {}, = and its value, like read=100MiB/s; with client- before it for each client",
                names.join(", ")
            )
        };
        let (name, value) = text.split_once('=').ok_or_else(unknown)?;
        let (name, is_per_client) = name.strip_prefix("client-").map_or((name, false), |name| (name, true));
        let (_, kind) = LIMITS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
        let value = match kind {
            LimitKind::Throughput | LimitKind::Read | LimitKind::Write => {
                value.parse::<BytesPerSecond>().map(|rate| rate.0)
            }
            LimitKind::Iops | LimitKind::ReadIops | LimitKind::WriteIops => {
                value.parse::<Iops>().map(|rate| rate.0)
            }
            LimitKind::Clients if is_per_client => return Err(unknown()),
            LimitKind::Clients => {
                return value
                    .parse::<u32>()
                    .map_err(|_| "allowed: clients= and a number".to_owned())
                    .map(|most| Self { kind: *kind, is_per_client, value: most.into() });
            }
        };
        Ok(Self { kind: *kind, is_per_client, value: value.map_err(|refusal| refusal.to_string())? })
    }
}

/// Limits as the API takes them.
fn declared(limits: &[Limit]) -> Option<Declared> {
    let ceilings = |is_per_client: bool| {
        let value = |kind: LimitKind| {
            let found =
                limits.iter().rev().find(|one| one.kind == kind && one.is_per_client == is_per_client);
            found.map(|limit| limit.value)
        };
        let ceilings = Ceilings {
            read_bytes_per_second: value(LimitKind::Read),
            write_bytes_per_second: value(LimitKind::Write),
            bytes_per_second: value(LimitKind::Throughput),
            read_operations_per_second: value(LimitKind::ReadIops),
            write_operations_per_second: value(LimitKind::WriteIops),
            operations_per_second: value(LimitKind::Iops),
        };
        (ceilings != Ceilings::default()).then_some(ceilings)
    };
    let clients_max = limits.iter().rev().find(|one| one.kind == LimitKind::Clients);
    (!limits.is_empty()).then(|| Declared {
        total: ceilings(false),
        per_client: ceilings(true),
        clients_max: clients_max.and_then(|limit| u32::try_from(limit.value).ok()),
    })
}

impl PoolFlags {
    pub(crate) fn settings(&self) -> PoolSettings {
        PoolSettings {
            qos: self.qos,
            throughput_bytes_per_second: self.throughput.map(|rate| rate.0),
            operations_per_second: self.iops.map(|rate| rate.0),
            operations_per_second_per_tib: self.iops_per_tib.map(|rate| rate.0),
            tiering: self.tiering.then_some(true),
            declared: declared(&self.limit),
            profile: self.profile,
        }
    }
}

impl VolumeFlags {
    pub(crate) fn settings(&self, is_large: bool) -> VolumeSettings {
        let scale_thousandths = self.scale.unwrap_or(1000);
        VolumeSettings {
            throughput_bytes_per_second: self.throughput.map(|rate| rate.0),
            large: is_large.then_some(true),
            declared: declared(&self.limit),
            profile: self.profile,
            shape: self.shape.map(|name| Shaping { name, scale_thousandths }),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PoolProperty {
    Qos,
    Throughput,
    Iops,
    IopsPerTib,
    Profile,
    Limit,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum VolumeProperty {
    Throughput,
    Profile,
    Shape,
    Limit,
    Level,
}

impl PoolProperty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Qos => "qos",
            Self::Throughput => "throughput_bytes_per_second",
            Self::Iops => "operations_per_second",
            Self::IopsPerTib => "operations_per_second_per_tib",
            Self::Profile => "profile",
            Self::Limit => "declared",
        }
    }
}

impl VolumeProperty {
    /// The name in the API; `None` for the level, which is not a setting there.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Throughput => Some("throughput_bytes_per_second"),
            Self::Profile => Some("profile"),
            Self::Shape => Some("shape"),
            Self::Limit => Some("declared"),
            Self::Level => None,
        }
    }
}

/// A change of settings; `None` if it changes nothing. Refuses to set and unset the same one.
pub(crate) fn merge<T: Serialize + DeserializeOwned + Default + PartialEq>(
    set: &T,
    unset: impl IntoIterator<Item = &'static str>,
) -> anyhow::Result<Option<Merge<T>>> {
    let unset: Vec<&str> = unset.into_iter().collect();
    let given = serde_json::to_value(set)?;
    if let Some(both) = unset.iter().find(|name| given.get(**name).is_some_and(|value| !value.is_null())) {
        return Err(usage(format!("{both} is set and unset at once; allowed: one of them")));
    }
    let is_change = *set != T::default() || !unset.is_empty();
    Ok(is_change.then(|| unset.into_iter().fold(Merge::set(set), Merge::unset)))
}

/// The settings in words; empty if none is set.
pub(crate) fn of_pool(of: &PoolSettings) -> String {
    let rate = |rate: Option<u64>| rate.map(|rate| BytesPerSecond(rate).to_string());
    let words = [
        of.qos.map(|qos| format!("{qos} QoS")),
        rate(of.throughput_bytes_per_second),
        of.operations_per_second.map(|rate| format!("{} IOPS", number(rate))),
        of.operations_per_second_per_tib.map(|rate| format!("{} IOPS per TiB", number(rate))),
        of.tiering.filter(|&tiering| tiering).map(|_| "tiering".to_owned()),
        of.declared.map(|_| "limits as declared".to_owned()),
        of.profile.map(profile_words),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The settings in words; empty if none is set.
pub(crate) fn of_volume(of: &VolumeSettings) -> String {
    let words = [
        of.throughput_bytes_per_second.map(|rate| BytesPerSecond(rate).to_string()),
        of.large.filter(|&large| large).map(|_| "large".to_owned()),
        of.declared.map(|_| "limits as declared".to_owned()),
        of.profile.map(profile_words),
        of.shape.map(|shape| format!("shape {}", envelope::Shaping::from(shape))),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn profile_words(profile: ProfileName) -> String {
    format!("profile {profile}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_gathered() {
        let limits: Result<Vec<Limit>, _> = ["read=100MiB/s", "read=1MiB/s", "client-iops=5", "clients=3"]
            .iter()
            .map(|text| text.parse())
            .collect();
        let declared = declared(&limits.unwrap()).unwrap();
        assert_eq!(declared.total.unwrap().read_bytes_per_second, Some(1 << 20), "the last one holds");
        assert_eq!(declared.per_client.unwrap().operations_per_second, Some(5));
        assert_eq!(declared.clients_max, Some(3));
        for (text, allowed) in [
            ("read", "throughput, read, write"),
            ("reads=1MiB/s", "throughput, read, write"),
            ("read=100", "128MiB/s"),
            ("iops=1.5", "a whole number"),
            ("client-clients=1", "throughput, read, write"),
            ("clients=-1", "a number"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains("allowed: ") && error.contains(allowed), "{text}: {error}");
        }
    }

    #[test]
    fn a_change_of_nothing_is_none() {
        assert_eq!(merge(&PoolSettings::default(), []).unwrap(), None);
        assert!(merge(&PoolSettings::default(), ["qos"]).unwrap().is_some());
        let manual = PoolSettings { qos: Some(Qos::Manual), ..PoolSettings::default() };
        assert!(merge(&manual, ["qos"]).unwrap_err().to_string().contains("set and unset"));
    }
}
