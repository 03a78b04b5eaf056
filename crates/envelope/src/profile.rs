//! Alternative figures of a level.

use crate::{Bands, BytesPerSecond, Iops, Level, Source};
use serde::{Deserialize, Serialize};

/// An alternative set of figures of a level. Written and stored by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Profile {
    /// `anf-regular-100gib`: regular volumes from 100 GiB.
    AnfRegular100Gib,
    /// `anf-regular-observed`: regular volumes up to the operations of the training page on EDA.
    AnfRegularObserved,
    /// `anf-large-10240`: large volumes as in early 2024, Ultra to 10,240 MiB/s.
    AnfLarge10240,
    /// `anf-large-12800-by-level`: large volumes to 1,600, 6,400 and 12,800 MiB/s by level.
    AnfLarge12800ByLevel,
    /// `anf-large-dedicated`: large volumes to 2 PiB.
    AnfLargeDedicated,
    /// `gcnv-volume-4.5gib`: a volume's ceiling is 4.5 GiB/s.
    GcnvVolume4_5Gib,
    /// `gcnv-volume-5gib`: a volume's ceiling is 5 GiB/s.
    GcnvVolume5Gib,
    /// `gcnv-large-12.5gib`: large volumes as in September 2024.
    GcnvLarge12_5Gib,
    /// `gcnv-large-21.5gib`: large volumes as measured.
    GcnvLarge21_5Gib,
    /// `gcnv-large-30gib`: large volumes as documented, without a limit of operations.
    GcnvLarge30Gib,
    /// `gcnv-unified-limited`: Unified pools in regions with limited performance.
    GcnvUnifiedLimited,
    /// `gcnv-unified-large-24gib`: large Unified pools to 24 GiB/s.
    GcnvUnifiedLarge24Gib,
    /// `gcnv-unified-large-tiered-pool`: large Unified pools to 20 PiB.
    GcnvUnifiedLargeTieredPool,
    /// `gcnv-unified-large-tiered`: volumes of large Unified pools to 20 PiB.
    GcnvUnifiedLargeTiered,
    /// `gcnv-unified-large-2400gib`: volumes of large Unified pools from 2,400 GiB.
    GcnvUnifiedLarge2400Gib,
    /// `filestore-2021`: the Basic tiers as published in 2021, in TB and MB/s.
    Filestore2021,
    /// `filestore-gke`: Basic HDD from 100 GiB.
    FilestoreGke,
    /// `filestore-small`: Regional from 100 GiB.
    FilestoreSmall,
}

/// The object that a profile applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    Pool,
    /// A regular volume.
    Volume,
    LargeVolume,
}

/// The figures that a profile changes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ProfileInfo {
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    pub target: Target,
    /// The levels it applies to, each with the throughput ceiling, if the profile changes that.
    pub levels: &'static [(Level, Option<BytesPerSecond>)],
    /// The ceiling of operations, if the profile changes that.
    pub iops_max: Option<Iops>,
    /// The ceilings of reads and of writes per second, if the profile has separate ones.
    pub read_write_iops_max: Option<(Iops, Iops)>,
    /// The sizes, if the profile changes those.
    pub sizes: Option<Bands>,
    pub source: Source,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pool => "pool",
            Self::Volume => "regular volume",
            Self::LargeVolume => "large volume",
        })
    }
}
