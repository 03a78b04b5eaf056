//! Alternative figures, by name, where two sources disagree or a page is outdated.

use crate::source::{
    A1, A3_EARLY_2024, F1, F5, OWN, PAGE_000, PAGE_001, PAGE_002, PAGE_004, S1, S2, S3, S4, S5,
};
use crate::{
    Bands, BytesPerSecond, Iops, Level, Profile, ProfileInfo, Refusal, Target, anf, filestore, gcnv,
};

const ALL: [Profile; 18] = [
    Profile::AnfRegular100Gib,
    Profile::AnfRegularObserved,
    Profile::AnfLarge10240,
    Profile::AnfLarge12800ByLevel,
    Profile::AnfLargeDedicated,
    Profile::GcnvVolume4_5Gib,
    Profile::GcnvVolume5Gib,
    Profile::GcnvLarge12_5Gib,
    Profile::GcnvLarge21_5Gib,
    Profile::GcnvLarge30Gib,
    Profile::GcnvUnifiedLimited,
    Profile::GcnvUnifiedLarge24Gib,
    Profile::GcnvUnifiedLargeTieredPool,
    Profile::GcnvUnifiedLargeTiered,
    Profile::GcnvUnifiedLarge2400Gib,
    Profile::Filestore2021,
    Profile::FilestoreGke,
    Profile::FilestoreSmall,
];

const ANF: &[(Level, Option<BytesPerSecond>)] = &[
    (Level::AnfStandard, None),
    (Level::AnfPremium, None),
    (Level::AnfUltra, None),
    (Level::AnfFlexible, None),
];

/// Conflicts `large-ceiling` and `large-ultra-ceiling-history`: page 004 is the older one.
const ANF_LARGE_10240: ProfileInfo = ProfileInfo {
    name: "anf-large-10240",
    title: "Large volumes as in early 2024: Standard 1,600, Premium 6,400, Ultra 10,240 MiB/s, 50 to 500 TiB",
    target: Target::LargeVolume,
    levels: &[
        (Level::AnfStandard, Some(BytesPerSecond::mib(1_600))),
        (Level::AnfPremium, Some(BytesPerSecond::mib(6_400))),
        (Level::AnfUltra, Some(BytesPerSecond::mib(10_240))),
    ],
    iops_max: None,
    read_write_iops_max: None,
    sizes: Some(anf::LARGE_TO_500_TIB),
    source: A3_EARLY_2024,
};

/// Conflict `large-standard-premium-ceiling`.
const ANF_LARGE_12800_BY_LEVEL: ProfileInfo = ProfileInfo {
    name: "anf-large-12800-by-level",
    title: "Large volumes as measured on 101 TiB: Standard 1,600, Premium 6,400, Ultra 12,800 MiB/s",
    levels: &[
        (Level::AnfStandard, Some(BytesPerSecond::mib(1_600))),
        (Level::AnfPremium, Some(BytesPerSecond::mib(6_400))),
        (Level::AnfUltra, Some(BytesPerSecond::mib(12_800))),
    ],
    source: PAGE_002,
    ..ANF_LARGE_10240
};

/// Conflict `capacity-regular-large`.
const ANF_REGULAR_100_GIB: ProfileInfo = ProfileInfo {
    name: "anf-regular-100gib",
    title: "Regular volumes from 100 GiB, not 50",
    target: Target::Volume,
    levels: ANF,
    sizes: Some(anf::REGULAR_FROM_100_GIB),
    source: PAGE_004,
    ..ANF_LARGE_10240
};

/// Conflict `regular-read-iops`.
const ANF_REGULAR_OBSERVED: ProfileInfo = ProfileInfo {
    name: "anf-regular-observed",
    title: "Regular volumes to the most operations observed for EDA: 200,000 reads and 135,000 writes a second",
    read_write_iops_max: Some((Iops(200_000), Iops(135_000))),
    sizes: None,
    ..ANF_REGULAR_100_GIB
};

const ANF_LARGE_DEDICATED: ProfileInfo = ProfileInfo {
    name: "anf-large-dedicated",
    title: "Large volumes to 2 PiB, on dedicated capacity",
    levels: ANF,
    sizes: Some(anf::LARGE_DEDICATED),
    source: A1,
    ..ANF_LARGE_10240
};

/// Conflict `gcnv-extreme-vs-docs-cap`: two pages of the same day disagree, and page 000 measured more than both.
const GCNV_VOLUME_4_5_GIB: ProfileInfo = ProfileInfo {
    name: "gcnv-volume-4.5gib",
    title: "Volumes to 4.5 GiB/s, as the volumes overview says",
    target: Target::Volume,
    levels: &[
        (Level::GcnvStandard, Some(BytesPerSecond::mib(4_608))),
        (Level::GcnvPremium, Some(BytesPerSecond::mib(4_608))),
        (Level::GcnvExtreme, Some(BytesPerSecond::mib(4_608))),
    ],
    iops_max: None,
    read_write_iops_max: None,
    sizes: None,
    source: S3,
};

const GCNV_VOLUME_5_GIB: ProfileInfo = ProfileInfo {
    name: "gcnv-volume-5gib",
    title: "Volumes to 5 GiB/s, as the table of service levels says",
    levels: &[
        (Level::GcnvStandard, Some(BytesPerSecond::gib(5))),
        (Level::GcnvPremium, Some(BytesPerSecond::gib(5))),
        (Level::GcnvExtreme, Some(BytesPerSecond::gib(5))),
    ],
    source: S1,
    ..GCNV_VOLUME_4_5_GIB
};

/// Conflict `gcnv-large-vs-docs`.
const GCNV_LARGE_12_5_GIB: ProfileInfo = ProfileInfo {
    name: "gcnv-large-12.5gib",
    title: "Large volumes as in September 2024: to 12.5 GiB/s and 1 PiB",
    target: Target::LargeVolume,
    levels: &[
        (Level::GcnvPremium, Some(BytesPerSecond::mib(12_800))),
        (Level::GcnvExtreme, Some(BytesPerSecond::mib(12_800))),
    ],
    iops_max: None,
    read_write_iops_max: None,
    sizes: Some(gcnv::LARGE_TO_1_PIB),
    source: S5,
};

const GCNV_LARGE_21_5_GIB: ProfileInfo = ProfileInfo {
    name: "gcnv-large-21.5gib",
    title: "Large volumes as measured: to 21.5 GiB/s, 1,350,000 IOPS and 1 PiB",
    levels: &[
        (Level::GcnvPremium, Some(BytesPerSecond::mib(22_016))),
        (Level::GcnvExtreme, Some(BytesPerSecond::mib(22_016))),
    ],
    iops_max: Some(Iops(1_350_000)),
    source: PAGE_000,
    ..GCNV_LARGE_12_5_GIB
};

/// Without a profile the measured 1,350,000 IOPS are the limit; no page documents such a limit.
const GCNV_LARGE_30_GIB: ProfileInfo = ProfileInfo {
    name: "gcnv-large-30gib",
    title: "Large volumes as documented: to 30 GiB/s and 3 PiB, operations not limited",
    levels: &[(Level::GcnvPremium, Some(gcnv::LARGE_MAX)), (Level::GcnvExtreme, Some(gcnv::LARGE_MAX))],
    sizes: Some(gcnv::LARGE),
    source: S1,
    ..GCNV_LARGE_12_5_GIB
};

const GCNV_UNIFIED_LIMITED: ProfileInfo = ProfileInfo {
    name: "gcnv-unified-limited",
    title: "Unified pools in regions with limited performance: to 1.6 GiB/s and 90,000 IOPS",
    target: Target::Pool,
    levels: &[(Level::GcnvFlexUnified, Some(gcnv::LIMITED_MAX))],
    iops_max: Some(Iops(90_000)),
    read_write_iops_max: None,
    sizes: None,
    source: S1,
};

const GCNV_UNIFIED_LARGE_24_GIB: ProfileInfo = ProfileInfo {
    name: "gcnv-unified-large-24gib",
    title: "Large Unified pools to 24 GiB/s, not 22",
    levels: &[(Level::GcnvFlexUnifiedLarge, Some(BytesPerSecond::gib(24)))],
    iops_max: None,
    source: S4,
    ..GCNV_UNIFIED_LIMITED
};

const GCNV_UNIFIED_LARGE_TIERED_POOL: ProfileInfo = ProfileInfo {
    name: "gcnv-unified-large-tiered-pool",
    title: "Large Unified pools to 20 PiB, with auto-tiering",
    levels: &[(Level::GcnvFlexUnifiedLarge, None)],
    sizes: Some(gcnv::UNIFIED_LARGE_POOL_TIERED),
    source: S1,
    ..GCNV_UNIFIED_LARGE_24_GIB
};

const GCNV_UNIFIED_LARGE_TIERED: ProfileInfo = ProfileInfo {
    name: "gcnv-unified-large-tiered",
    title: "Volumes of large Unified pools to 20 PiB, with auto-tiering",
    target: Target::Volume,
    sizes: Some(gcnv::UNIFIED_LARGE_VOLUME_TIERED),
    source: S2,
    ..GCNV_UNIFIED_LARGE_TIERED_POOL
};

const GCNV_UNIFIED_LARGE_2400_GIB: ProfileInfo = ProfileInfo {
    name: "gcnv-unified-large-2400gib",
    title: "Volumes of large Unified pools from 2,400 GiB, not 4.8 TiB",
    sizes: Some(gcnv::UNIFIED_LARGE_VOLUME_FROM_2400_GIB),
    source: S3,
    ..GCNV_UNIFIED_LARGE_TIERED
};

/// Conflicts `filestore-units` and `filestore-today`.
const FILESTORE_2021: ProfileInfo = ProfileInfo {
    name: "filestore-2021",
    title: "Basic tiers as published in 2021: in TB and MB/s, not TiB and MiB/s",
    levels: &[(Level::FilestoreBasicHdd, None), (Level::FilestoreBasicSsd, None)],
    sizes: Some(filestore::BASIC_HDD_2021_SIZES),
    source: PAGE_001,
    ..FILESTORE_GKE
};

const FILESTORE_GKE: ProfileInfo = ProfileInfo {
    name: "filestore-gke",
    title: "Basic HDD from 100 GiB, as through GKE",
    target: Target::Pool,
    levels: &[(Level::FilestoreBasicHdd, None)],
    iops_max: None,
    read_write_iops_max: None,
    sizes: Some(filestore::BASIC_HDD_GKE_SIZES),
    source: F1,
};

const FILESTORE_SMALL: ProfileInfo = ProfileInfo {
    name: "filestore-small",
    title: "Regional from 100 GiB, where small capacities are offered",
    levels: &[(Level::FilestoreRegional, None)],
    sizes: Some(filestore::SMALL_SIZES),
    source: F5,
    ..FILESTORE_GKE
};

impl Profile {
    pub fn all() -> &'static [Self] {
        &ALL
    }

    pub fn info(self) -> &'static ProfileInfo {
        match self {
            Self::AnfRegular100Gib => &ANF_REGULAR_100_GIB,
            Self::AnfRegularObserved => &ANF_REGULAR_OBSERVED,
            Self::AnfLarge10240 => &ANF_LARGE_10240,
            Self::AnfLarge12800ByLevel => &ANF_LARGE_12800_BY_LEVEL,
            Self::AnfLargeDedicated => &ANF_LARGE_DEDICATED,
            Self::GcnvVolume4_5Gib => &GCNV_VOLUME_4_5_GIB,
            Self::GcnvVolume5Gib => &GCNV_VOLUME_5_GIB,
            Self::GcnvLarge12_5Gib => &GCNV_LARGE_12_5_GIB,
            Self::GcnvLarge21_5Gib => &GCNV_LARGE_21_5_GIB,
            Self::GcnvLarge30Gib => &GCNV_LARGE_30_GIB,
            Self::GcnvUnifiedLimited => &GCNV_UNIFIED_LIMITED,
            Self::GcnvUnifiedLarge24Gib => &GCNV_UNIFIED_LARGE_24_GIB,
            Self::GcnvUnifiedLargeTieredPool => &GCNV_UNIFIED_LARGE_TIERED_POOL,
            Self::GcnvUnifiedLargeTiered => &GCNV_UNIFIED_LARGE_TIERED,
            Self::GcnvUnifiedLarge2400Gib => &GCNV_UNIFIED_LARGE_2400_GIB,
            Self::Filestore2021 => &FILESTORE_2021,
            Self::FilestoreGke => &FILESTORE_GKE,
            Self::FilestoreSmall => &FILESTORE_SMALL,
        }
    }

    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The sizes at `level`, if the profile changes them. The tiers of 2021 have separate minimum sizes;
    /// other profiles have one set for all their levels.
    pub(crate) fn sizes(self, level: Level) -> Option<Bands> {
        match (self, level) {
            (Self::Filestore2021, Level::FilestoreBasicSsd) => Some(filestore::BASIC_SSD_2021_SIZES),
            _ => self.info().sizes,
        }
    }

    pub(crate) fn throughput_max(self, level: Level) -> Option<BytesPerSecond> {
        self.info().levels.iter().find(|(one, _)| *one == level).and_then(|(_, rate)| *rate)
    }

    pub(crate) fn check(self, level: Level, target: Target) -> Result<(), Refusal> {
        let fits = |one: &Self| {
            let info = one.info();
            info.target == target && info.levels.iter().any(|(at, _)| *at == level)
        };
        if fits(&self) {
            return Ok(());
        }
        let fitting: Vec<&str> = ALL.iter().filter(|one| fits(one)).map(|one| one.name()).collect();
        let allowed = if fitting.is_empty() { "none".to_owned() } else { fitting.join(", ") };
        Err(Refusal::new(format!("{level}: the profile {self} for a {target}"), allowed, OWN))
    }
}

impl std::str::FromStr for Profile {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        ALL.iter().find(|profile| profile.name() == text).copied().ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|profile| profile.name()).collect();
            Refusal::new(format!("\"{text}\" is not a profile"), names.join(", "), OWN)
        })
    }
}
