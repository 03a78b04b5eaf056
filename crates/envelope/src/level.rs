//! What there is to know of a level or tier that is not arithmetic.

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
    /// `anf/flexible`: throughput bought apart from capacity.
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
    /// `plimsoll/custom`: limits as declared.
    Custom,
    /// `plimsoll/unlimited`: no limits.
    Unlimited,
}

/// Whose service a level copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Azure NetApp Files.
    Anf,
    /// Google Cloud NetApp Volumes.
    Gcnv,
    /// Google Cloud Filestore.
    Filestore,
    /// Nobody's: our own.
    Plimsoll,
}

/// Whose meter a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The pool's, shared by its volumes.
    Pool,
    /// Each volume's own.
    Volume,
}

/// Where a volume's throughput comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Qos {
    /// From its size, or from its pool.
    Auto,
    /// As set for it, within the pool's.
    Manual,
}

/// A protocol that volumes may be served over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Protocol {
    /// NFSv3.
    NfsV3,
    /// NFSv4.0.
    NfsV40,
    /// NFSv4.1.
    NfsV41,
    /// NFSv4.2.
    NfsV42,
    /// SMB 2.1 to 3.1.1.
    Smb,
}

/// How many there may be; `None` where no source gives a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Volumes in a pool.
    pub volumes_per_pool: Option<u32>,
    /// Snapshots of a volume.
    pub snapshots_per_volume: Option<u32>,
    /// Rules in a volume's export policy.
    pub export_rules_per_volume: Option<u32>,
    /// Rules on what users and groups may store in a volume.
    pub quota_rules_per_volume: Option<u32>,
}

/// Which settings a level knows; the others are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settable {
    /// The pool's throughput.
    pub throughput: bool,
    /// The pool's operations per second.
    pub iops: bool,
    /// Cool access (ANF), auto-tiering (GCNV).
    pub tiering: bool,
    /// Any limit, as declared.
    pub declared: bool,
}

/// What a name must look like.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NameRule {
    /// As a regular expression, for people and for API descriptions.
    pub pattern: &'static str,
    /// Who says so.
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

/// The facts about a level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LevelInfo {
    /// `provider/level`.
    pub name: &'static str,
    /// Older names that are still read.
    pub aliases: &'static [&'static str],
    /// Whose it is.
    pub provider: Provider,
    /// For people.
    pub title: &'static str,
    /// Whose meter its limits are.
    pub owner: Owner,
    /// The sizes of a pool, or of an instance where pool and volume are one; `None` is any.
    pub pool_sizes: Option<Bands>,
    /// The sizes of a volume; `None` is any, up to the pool's.
    pub volume_sizes: Option<Bands>,
    /// The sizes of a large volume; `None` where there are none.
    pub large_volume_sizes: Option<Bands>,
    /// Whether a pool is one volume of its own size (Filestore's instances).
    pub is_instance: bool,
    /// Whether a pool may become smaller.
    pub pool_shrinks: bool,
    /// The kinds of QoS, the default first.
    pub qos: &'static [Qos],
    /// The protocols.
    pub protocols: &'static [Protocol],
    /// Whether one volume may be served over SMB and NFS together.
    pub smb_with_nfs: bool,
    /// What may be set.
    pub settable: Settable,
    /// How many there may be.
    pub counts: Counts,
    /// What a volume's name must look like, where a source says so.
    pub volume_name: Option<NameRule>,
    /// What the name of a share must look like, where a source says so.
    pub share_name: Option<NameRule>,
    /// Where the level's figures come from.
    pub sources: &'static [Source],
}

impl Settable {
    pub(crate) const NOTHING: Self = Self { throughput: false, iops: false, tiering: false, declared: false };
}

impl Protocol {
    /// As it is said.
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
    /// Refuses `name` unless it looks as it must.
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
