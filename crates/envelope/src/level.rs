//! Facts about levels and tiers that are not arithmetic.

use crate::{Bands, Refusal, Source};
use serde::{Deserialize, Serialize};

/// A service level or tier. Written and stored by its name, as in `anf/premium`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Level {
    /// `anf/standard`: 16 MiB/s per TiB.
    AnfStandard,
    /// `anf/premium`: 64 MiB/s per TiB.
    AnfPremium,
    /// `anf/ultra`: 128 MiB/s per TiB.
    AnfUltra,
    /// `anf/flexible`: throughput bought separately from capacity.
    AnfFlexible,
    /// `gcnv/flex`: Flex File with default performance.
    GcnvFlex,
    /// `gcnv/flex-custom`: Flex File with custom performance.
    GcnvFlexCustom,
    /// `gcnv/flex-unified`: Flex Unified.
    GcnvFlexUnified,
    /// `gcnv/flex-unified-large`: Flex Unified, large (scale-out).
    GcnvFlexUnifiedLarge,
    /// `gcnv/standard`: 16 KiB/s per GiB.
    GcnvStandard,
    /// `gcnv/premium`: 64 KiB/s per GiB.
    GcnvPremium,
    /// `gcnv/extreme`: 128 KiB/s per GiB.
    GcnvExtreme,
    /// `filestore/basic-hdd`, once `STANDARD`.
    FilestoreBasicHdd,
    /// `filestore/basic-ssd`, once `PREMIUM`.
    FilestoreBasicSsd,
    /// `filestore/high-scale-ssd`: the legacy tier since 2022, in TiB.
    FilestoreHighScaleSsd,
    /// `filestore/high-scale-ssd-2021`: as published in 2021, in TB and with limits per client.
    FilestoreHighScaleSsd2021,
    /// `filestore/zonal`.
    FilestoreZonal,
    /// `filestore/regional`.
    FilestoreRegional,
    /// `filestore/enterprise`.
    FilestoreEnterprise,
    /// `plimsoll/custom`: declared limits.
    Custom,
    /// `plimsoll/unlimited`: no limits.
    Unlimited,
}

/// The provider whose service a level emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Azure NetApp Files.
    Anf,
    /// Google Cloud NetApp Volumes.
    Gcnv,
    /// Google Cloud Filestore.
    Filestore,
    /// Our own levels.
    Plimsoll,
}

/// The object that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The pool, shared by its volumes.
    Pool,
    Volume,
}

/// The origin of a volume's throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Qos {
    /// The volume's size, or its pool.
    Auto,
    /// The volume's setting, within the pool's throughput.
    Manual,
}

/// A protocol for volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Protocol {
    NfsV3,
    NfsV40,
    NfsV41,
    NfsV42,
    /// SMB 2.1 to 3.1.1.
    Smb,
}

/// Maximum numbers; `None` if no source gives one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub volumes_per_pool: Option<u32>,
    pub snapshots_per_volume: Option<u32>,
    /// Rules in a volume's export policy.
    pub export_rules_per_volume: Option<u32>,
    /// Rules that limit the space of users and groups in a volume.
    pub quota_rules_per_volume: Option<u32>,
}

/// The settings that a level accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settable {
    pub throughput: bool,
    /// The pool's operations per second.
    pub iops: bool,
    /// Cool access (ANF), auto-tiering (GCNV).
    pub tiering: bool,
    /// Any declared limit.
    pub declared: bool,
}

/// Allowed names.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NameRule {
    /// A regular expression, for people and for API descriptions.
    pub pattern: &'static str,
    pub source: Source,
    #[serde(skip)]
    pub(crate) first: fn(u8) -> bool,
    #[serde(skip)]
    pub(crate) middle: fn(u8) -> bool,
    #[serde(skip)]
    pub(crate) last: fn(u8) -> bool,
    #[serde(skip)]
    pub(crate) length_max: usize,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct LevelInfo {
    /// `provider/level`.
    pub name: &'static str,
    /// Older names that are still accepted.
    pub aliases: &'static [&'static str],
    pub provider: Provider,
    /// For people.
    pub title: &'static str,
    pub owner: Owner,
    /// The sizes of a pool, or of an instance that is pool and volume in one; `None` for any.
    pub pool_sizes: Option<Bands>,
    /// The sizes of a volume; `None` for any, up to the pool's.
    pub volume_sizes: Option<Bands>,
    /// The sizes of a large volume; `None` if the level has none.
    pub large_volume_sizes: Option<Bands>,
    /// Whether a pool is one volume of its own size (Filestore's instances).
    pub is_instance: bool,
    /// Whether a pool can shrink.
    pub pool_shrinks: bool,
    /// The kinds of QoS, the default first.
    pub qos: &'static [Qos],
    pub protocols: &'static [Protocol],
    /// Whether one volume may be served over SMB and NFS together.
    pub smb_with_nfs: bool,
    pub settable: Settable,
    pub counts: Counts,
    /// The rule for volume names, if a source gives one.
    pub volume_name: Option<NameRule>,
    /// The rule for share names, if a source gives one.
    pub share_name: Option<NameRule>,
    /// The rule for names of snapshots that a client makes, if a source gives one.
    pub snapshot_name: Option<NameRule>,
    pub sources: &'static [Source],
}

impl Settable {
    pub(crate) const NOTHING: Self = Self { throughput: false, iops: false, tiering: false, declared: false };
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Self::NfsV3 => "NFSv3",
            Self::NfsV40 => "NFSv4.0",
            Self::NfsV41 => "NFSv4.1",
            Self::NfsV42 => "NFSv4.2",
            Self::Smb => "SMB",
        }
    }
}

impl NameRule {
    /// Refuses `name` unless it follows the rule.
    pub fn check(&self, name: &str) -> Result<(), Refusal> {
        let fits = match name.as_bytes() {
            [] => false,
            [only] => (self.first)(*only),
            [first, middle @ .., last] => {
                (self.first)(*first) && middle.iter().all(|&byte| (self.middle)(byte)) && (self.last)(*last)
            }
        };
        if fits && name.len() <= self.length_max {
            return Ok(());
        }
        Err(Refusal::new(format!("the name \"{name}\""), self.pattern, self.source))
    }
}
