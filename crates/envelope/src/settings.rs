//! Requested pools and volumes, and their settings.
//!
//! The pool has what is bought: its size, its throughput, its operations. A volume has a size and, with manual QoS, its
//! part of the pool's throughput. A Filestore instance is a pool that is exactly one volume of its own size.

use crate::{Bytes, BytesPerSecond, Ceilings, Iops, Level, Profile, Qos, Shaping};
use serde::{Deserialize, Serialize};

/// A pool: a level, a capacity, and settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    pub level: Level,
    /// The capacity.
    pub size: Bytes,
    pub settings: PoolSettings,
}

/// Settings of a pool. A setting that the level does not accept is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSettings {
    /// The origin of the volumes' throughput; `None` for the level's default.
    pub qos: Option<Qos>,
    /// The throughput bought (ANF Flexible, GCNV Flex with custom performance); `None` for the minimum.
    pub throughput: Option<BytesPerSecond>,
    /// The operations bought (GCNV Flex and Filestore with custom performance); `None` for the included ones.
    pub iops: Option<ProvisionedIops>,
    /// Whether cool access (ANF) or auto-tiering (GCNV) is on, or ever was: neither can be undone.
    pub tiering: bool,
    /// The pool's own limits (`plimsoll/custom`).
    pub declared: Declared,
    /// Alternative figures of the level.
    pub profile: Option<Profile>,
}

/// A volume: a capacity, and settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The capacity, also called quota.
    pub size: Bytes,
    pub settings: VolumeSettings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub volumes: u64,
    pub size: Bytes,
    pub throughput: BytesPerSecond,
}

/// Settings of a volume. A setting that the level does not accept is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VolumeSettings {
    /// The volume's part of the pool's throughput: required with manual QoS, refused with auto.
    pub throughput: Option<BytesPerSecond>,
    /// Whether it is a large volume, which cannot be changed later.
    pub large: bool,
    /// The volume's own limits (`plimsoll/custom`).
    pub declared: Declared,
    /// Alternative figures of the level.
    pub profile: Option<Profile>,
    /// The published curve that it also follows, at any level.
    pub shape: Option<Shaping>,
}

/// Declared limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declared {
    /// For all clients together.
    pub total: Ceilings,
    pub per_client: Ceilings,
    pub clients_max: Option<u32>,
}

/// Operations per second that were bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvisionedIops {
    /// A number independent of the capacity.
    Fixed(Iops),
    /// A number for each TiB of capacity.
    PerTib(Iops),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    pub to: Bytes,
    pub used: Bytes,
    /// The smallest size that the volume ever had.
    pub lowest: Bytes,
}
