//! The catalog of service levels.

use super::{
    LevelName, Limits, Owner, PoolSettings, ProfileName, Protocol, Provider, Qos, ShapeName, Shaping,
    VolumeSettings,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Provider and level.
    pub name: LevelName,
    /// Older names that the service still accepts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// The provider.
    pub provider: Provider,
    /// The name for people.
    pub title: String,
    /// The owner of its limits.
    pub owner: Owner,
    /// The sizes of a pool; any if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pool_sizes: Vec<Range>,
    /// The sizes of a volume; any up to the pool's if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_sizes: Vec<Range>,
    /// The sizes of a large volume; there are none if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub large_volume_sizes: Vec<Range>,
    /// Whether a pool is one volume of its own size.
    pub is_instance: bool,
    /// Whether a pool may become smaller.
    pub pool_shrinks: bool,
    /// The kinds of QoS, the default first.
    pub qos: Vec<Qos>,
    /// The protocols.
    pub protocols: Vec<Protocol>,
    /// Whether one volume may have SMB and NFS together.
    pub smb_with_nfs: bool,
    /// Settings that it accepts.
    pub settable: Settable,
    /// Volumes in a pool, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes_per_pool_max: Option<u32>,
    /// Rules of a volume, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules_per_volume_max: Option<u32>,
    /// The pattern of volume names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_name_pattern: Option<String>,
    /// The pattern of share names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_name_pattern: Option<String>,
    /// Sources of its figures.
    pub sources: Vec<String>,
}

/// Sizes from one to another, both included, in steps counted from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The least.
    pub min_bytes: u64,
    /// The most.
    pub max_bytes: u64,
    /// The distance between sizes.
    pub step_bytes: u64,
}

/// Settings that a level accepts. The service refuses others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settable {
    /// The pool's throughput.
    pub throughput: bool,
    /// The pool's operations per second.
    pub operations: bool,
    /// Cool access, auto-tiering.
    pub tiering: bool,
    /// Any limit, as declared.
    pub declared: bool,
}

/// A pool and a volume of a level of which the limits are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelQuery {
    /// The pool's size. Without it, only the level is described.
    #[serde(default, deserialize_with = "super::present_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub size_bytes: Option<u64>,
    /// The volume's size; the pool's if left out.
    #[serde(default, deserialize_with = "super::present_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub volume_size_bytes: Option<u64>,
    /// The source of volumes' throughput.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Qos")]
    pub qos: Option<Qos>,
    /// The throughput bought for the pool.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub throughput_bytes_per_second: Option<u64>,
    /// The operations bought for the pool.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub operations_per_second: Option<u64>,
    /// The operations bought for each TiB of the pool.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub operations_per_second_per_tib: Option<u64>,
    /// Whether cool access or auto-tiering is on.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub tiering: Option<bool>,
    /// A variant of the pool's figures.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ProfileName")]
    pub profile: Option<ProfileName>,
    /// The volume's part of the pool's throughput.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub volume_throughput_bytes_per_second: Option<u64>,
    /// Whether it is a large volume.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub large: Option<bool>,
    /// A variant of the volume's figures.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ProfileName")]
    pub volume_profile: Option<ProfileName>,
    /// A published curve that the volume follows besides.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ShapeName")]
    pub shape: Option<ShapeName>,
    /// The scale of the curve, in thousandths.
    #[serde(default, deserialize_with = "super::present_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub scale_thousandths: Option<u32>,
}

/// A level, and the limits of a pool and a volume of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LevelLimits {
    /// The level.
    pub level: Level,
    /// Limits of the pool, if the request has a size. Limits owned by volumes are the sum that volumes can share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Limits>,
    /// Limits of the volume, if the request has a size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Limits>,
}

impl From<envelope::Level> for Level {
    fn from(level: envelope::Level) -> Self {
        let of = level.info();
        let ranges = |bands: Option<envelope::Bands>| {
            let ranges = bands.map_or(&[][..], |bands| bands.ranges).iter();
            ranges
                .map(|range| Range {
                    min_bytes: range.min.0,
                    max_bytes: range.max.0,
                    step_bytes: range.step.0,
                })
                .collect()
        };
        Self {
            name: LevelName(level),
            aliases: of.aliases.iter().map(|&alias| alias.to_owned()).collect(),
            provider: of.provider.into(),
            title: of.title.to_owned(),
            owner: of.owner.into(),
            pool_sizes: ranges(of.pool_sizes),
            volume_sizes: ranges(of.volume_sizes),
            large_volume_sizes: ranges(of.large_volume_sizes),
            is_instance: of.is_instance,
            pool_shrinks: of.pool_shrinks,
            qos: of.qos.iter().map(|&qos| qos.into()).collect(),
            protocols: of.protocols.iter().map(|&protocol| protocol.into()).collect(),
            smb_with_nfs: of.smb_with_nfs,
            settable: Settable {
                throughput: of.settable.throughput,
                operations: of.settable.iops,
                tiering: of.settable.tiering,
                declared: of.settable.declared,
            },
            volumes_per_pool_max: of.counts.volumes_per_pool,
            rules_per_volume_max: of.counts.export_rules_per_volume,
            volume_name_pattern: of.volume_name.map(|rule| rule.pattern.to_owned()),
            share_name_pattern: of.share_name.map(|rule| rule.pattern.to_owned()),
            sources: of.sources.iter().map(|source| format!("{source:#}")).collect(),
        }
    }
}

impl LevelQuery {
    /// The settings of the pool in the query.
    pub fn pool_settings(&self) -> PoolSettings {
        PoolSettings {
            qos: self.qos,
            throughput_bytes_per_second: self.throughput_bytes_per_second,
            operations_per_second: self.operations_per_second,
            operations_per_second_per_tib: self.operations_per_second_per_tib,
            tiering: self.tiering,
            declared: None,
            profile: self.profile,
        }
    }

    /// The settings of the volume in the query.
    pub fn volume_settings(&self) -> VolumeSettings {
        let scale_thousandths = self.scale_thousandths.unwrap_or(1000);
        VolumeSettings {
            throughput_bytes_per_second: self.volume_throughput_bytes_per_second,
            large: self.large,
            declared: None,
            profile: self.volume_profile,
            shape: self.shape.map(|name| Shaping { name, scale_thousandths }),
        }
    }
}
