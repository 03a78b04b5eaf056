//! Pools and volumes as they are asked for, and what may be set for them.
//!
//! What is bought belongs to the pool: its size, its throughput, its operations. A volume has a size and, with manual
//! QoS, its part of the pool's throughput. A Filestore instance is a pool that is exactly one volume of its own size.

use crate::{Bytes, BytesPerSecond, Ceilings, Iops, Level, Profile, Qos, Shaping};
use serde::{Deserialize, Serialize};

/// A pool: a level, a capacity, and what was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The service level or tier.
    pub level: Level,
    /// The capacity.
    pub size: Bytes,
    /// What was set.
    pub settings: PoolSettings,
}

/// What may be set for a pool. What the level does not know is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSettings {
    /// Where volumes' throughput comes from; `None` is the level's default.
    pub qos: Option<Qos>,
    /// The throughput bought (ANF Flexible, GCNV Flex with custom performance); `None` is the least there is.
    pub throughput: Option<BytesPerSecond>,
    /// The operations bought (GCNV Flex and Filestore with custom performance); `None` is what comes without asking.
    pub iops: Option<ProvisionedIops>,
    /// Whether cool access (ANF) or auto-tiering (GCNV) is on, or ever was: neither can be undone.
    pub tiering: bool,
    /// The pool's own limits (`plimsoll/custom`).
    pub declared: Declared,
    /// A variant of the level's figures.
    pub profile: Option<Profile>,
}

/// A volume: a capacity, and what was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The capacity, also called quota.
    pub size: Bytes,
    /// What was set.
    pub settings: VolumeSettings,
}

/// What some volumes of a pool add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many they are.
    pub volumes: u64,
    /// Their capacity together.
    pub size: Bytes,
    /// The throughput that was set for them by hand.
    pub throughput: BytesPerSecond,
}

/// What may be set for a volume. What the level does not know is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VolumeSettings {
    /// The volume's part of the pool's throughput: needed with manual QoS, refused with auto.
    pub throughput: Option<BytesPerSecond>,
    /// Whether it is a large volume, which cannot be changed later.
    pub large: bool,
    /// The volume's own limits (`plimsoll/custom`).
    pub declared: Declared,
    /// A variant of the level's figures.
    pub profile: Option<Profile>,
    /// The published curve that it follows besides, at any level.
    pub shape: Option<Shaping>,
}

/// Limits of one's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declared {
    /// For all clients together.
    pub total: Ceilings,
    /// For each client.
    pub per_client: Ceilings,
    /// The most clients.
    pub clients_max: Option<u32>,
}

/// Operations per second that were bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvisionedIops {
    /// So many, whatever the capacity.
    Fixed(Iops),
    /// So many for each TiB of capacity.
    PerTib(Iops),
}

/// A volume's new size, and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// The new size.
    pub to: Bytes,
    /// What is stored in it.
    pub used: Bytes,
    /// The least size that it ever had.
    pub lowest: Bytes,
}
