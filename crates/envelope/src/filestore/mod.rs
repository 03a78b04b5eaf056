//! Filestore: each instance is one share, with separate limits of reads and writes.

use crate::limits::OPERATIONS;
use crate::settings::{Pool, ProvisionedIops};
use crate::source::{F1, F2, F3, F5, G, PAGE_001};
use crate::units::{grouped, proportion};
use crate::{
    Bands, Bytes, BytesPerSecond, Ceilings, Counts, Iops, Level, LevelInfo, Limits, NameRule, Owner, Profile,
    Protocol, Provider, Qos, Range, Refusal, Settable, Source,
};

/// 63.9 TiB, rounded down to bytes.
const BASIC_MAX: Bytes = Bytes((639 << 40) / 10);
/// Any size between: sizes may be given in TB, which are not whole GiB.
const fn basic(min: Bytes) -> Range<Bytes> {
    Range { min, max: BASIC_MAX, step: Bytes(1) }
}

/// Basic HDD is faster from this size on. Both rows of the page contain 10 TiB; it counts as the upper one
/// [F1].
const BASIC_HDD_UPPER_FROM: Bytes = Bytes::tib(10);
const BASIC_HDD_UPPER_FROM_2021: Bytes = Bytes::tb(10);
const LARGE_STEP: Bytes = Bytes::gib(2_560);
const BASIC_HDD_SIZES: Bands = Bands { ranges: &[basic(Bytes::tib(1))], source: F1 };
pub(crate) const BASIC_HDD_GKE_SIZES: Bands = Bands { ranges: &[basic(Bytes::gib(100))], source: F1 };
const BASIC_SSD_SIZES: Bands = Bands { ranges: &[basic(LARGE_STEP)], source: F1 };
/// The Basic tiers of 2021, in TB. The page gives no step.
pub(crate) const BASIC_HDD_2021_SIZES: Bands =
    Bands { ranges: &[basic_2021(Bytes::tb(1))], source: PAGE_001 };
pub(crate) const BASIC_SSD_2021_SIZES: Bands =
    Bands { ranges: &[basic_2021(Bytes::gb(2_500))], source: PAGE_001 };

const fn basic_2021(min: Bytes) -> Range<Bytes> {
    Range { min, max: Bytes::gb(63_900), step: Bytes::gb(1) }
}

const LOWER: Range<Bytes> = Range { min: Bytes::tib(1), max: Bytes::gib(9_984), step: Bytes::gib(256) };
const UPPER: Range<Bytes> = Range { min: Bytes::tib(10), max: Bytes::tib(100), step: LARGE_STEP };
const TWO_BANDS: Bands = Bands { ranges: &[LOWER, UPPER], source: F5 };
/// 100 GiB to 10,239 GiB. No source gives the step; the upper end is not a multiple of a coarser one.
pub(crate) const SMALL_SIZES: Bands = Bands {
    ranges: &[Range { min: Bytes::gib(100), max: Bytes::gib(10_239), step: Bytes::gib(1) }, UPPER],
    source: F5,
};
const ENTERPRISE_SIZES: Bands =
    Bands { ranges: &[Range { min: Bytes::tib(1), max: Bytes::tib(10), step: Bytes::gib(256) }], source: F1 };
const HIGH_SCALE_SIZES: Bands = Bands { ranges: &[UPPER], source: F1 };
/// 60 TB to 320 TB in 10 TB steps: the page uses powers of ten.
const HIGH_SCALE_2021_SIZES: Bands = Bands {
    ranges: &[Range { min: Bytes::tb(60), max: Bytes::tb(320), step: Bytes::tb(10) }],
    source: PAGE_001,
};

struct Row {
    per: Bytes,
    read_iops: Iops,
    write_iops: Iops,
    read: BytesPerSecond,
    write: BytesPerSecond,
    source: Source,
}

const READ_AND_WRITE: &str = "read and write";

const fn row(per: Bytes, iops: (u64, u64), mib: (u64, u64)) -> Row {
    Row {
        per,
        read_iops: Iops(iops.0),
        write_iops: Iops(iops.1),
        read: BytesPerSecond::mib(mib.0),
        write: BytesPerSecond::mib(mib.1),
        source: F1,
    }
}

const fn row_2021(per: Bytes, iops: (u64, u64), mb: (u64, u64)) -> Row {
    Row {
        read: BytesPerSecond::mb(mb.0),
        write: BytesPerSecond::mb(mb.1),
        source: PAGE_001,
        ..row(per, iops, mb)
    }
}

const ZONAL_LOWER: Row = row(Bytes::tib(1), (9_200, 2_600), (260, 88));
const REGIONAL_LOWER: Row = row(Bytes::tib(1), (12_000, 4_000), (120, 100));
/// Zonal and Regional from 10 TiB, and High Scale since 2022. The page prints 90,000 read operations at 10 TiB of High
/// Scale, but 23,000 per 2.5 TiB, which are 92,000.
const LARGE: Row = row(LARGE_STEP, (23_000, 6_500), (650, 220));
const HIGH_SCALE_2021: Row = row_2021(Bytes::tb(10), (15_000, 5_000), (500, 110));
// Basic instances have the same limits at every size.
const BASIC_HDD_LOWER: Row = row(Bytes(0), (600, 1_000), (100, 100));
const BASIC_HDD_UPPER: Row = row(Bytes(0), (1_000, 5_000), (180, 120));
const BASIC_SSD_ROW: Row = row(Bytes(0), (60_000, 25_000), (1_200, 350));
const BASIC_HDD_LOWER_2021: Row = row_2021(Bytes(0), (600, 1_000), (100, 100));
const BASIC_HDD_UPPER_2021: Row = row_2021(Bytes(0), (1_000, 5_000), (180, 120));
const BASIC_SSD_2021: Row = row_2021(Bytes(0), (60_000, 25_000), (1_200, 350));

/// Custom performance: operations per TiB in the lower and the upper capacity range [F1], and in all [F2].
const CUSTOM_PER_TIB: [Range<Iops>; 2] = [
    Range { min: Iops(4_000), max: Iops(17_000), step: Iops(1) },
    Range { min: Iops(3_000), max: Iops(7_500), step: Iops(1) },
];
const CUSTOM_MIN: u64 = 2_000;
const CUSTOM_STEP: u64 = 1_000;
/// Bytes per second included in each operation per second, reading and writing [G].
const CUSTOM_READ_BYTES: u64 = 24_576;
const CUSTOM_WRITE_BYTES: u64 = 8_192;
/// A write costs 3.33 operations, a read one [F2].
const CUSTOM_WRITE_COST_THOUSANDTHS: u32 = 3_330;

/// [F5]; basic [F3].
const FILES_PER_TIB: u64 = 89_000_000;
const FILES_BASIC: u64 = 67_108_864;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'
}

const SHARE_NAME: NameRule = NameRule {
    pattern: "^[a-z0-9_]{1,63}$",
    source: F3,
    first: is_word,
    middle: is_word,
    last: is_word,
    length_max: 63,
};

const SNAPSHOT_NAME: NameRule = NameRule {
    pattern: "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$",
    source: G,
    first: |byte| byte.is_ascii_lowercase(),
    middle: |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-',
    last: |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(),
    length_max: 63,
};

pub(crate) const BASIC_HDD: LevelInfo = LevelInfo {
    name: "filestore/basic-hdd",
    aliases: &["filestore/standard"],
    provider: Provider::Filestore,
    title: "Filestore Basic HDD",
    owner: Owner::Volume,
    pool_sizes: Some(BASIC_HDD_SIZES),
    volume_sizes: None,
    large_volume_sizes: None,
    is_instance: true,
    pool_shrinks: false,
    qos: &[Qos::Auto],
    protocols: &[Protocol::NfsV3],
    smb_with_nfs: false,
    settable: Settable::NOTHING,
    // [F3]: ten export options; snapshots for zonal, regional and enterprise only.
    counts: Counts {
        volumes_per_pool: Some(1),
        snapshots_per_volume: Some(0),
        export_rules_per_volume: Some(10),
        quota_rules_per_volume: None,
    },
    volume_name: None,
    share_name: Some(NameRule { pattern: "^[a-z0-9_]{1,16}$", length_max: 16, ..SHARE_NAME }),
    snapshot_name: Some(SNAPSHOT_NAME),
    sources: &[F1, F3],
};

pub(crate) const BASIC_SSD: LevelInfo = LevelInfo {
    name: "filestore/basic-ssd",
    aliases: &["filestore/premium"],
    title: "Filestore Basic SSD",
    pool_sizes: Some(BASIC_SSD_SIZES),
    ..BASIC_HDD
};

pub(crate) const HIGH_SCALE_SSD: LevelInfo = LevelInfo {
    name: "filestore/high-scale-ssd",
    aliases: &[],
    title: "Filestore High Scale SSD since 2022 (legacy): 23,000 read IOPS per 2.5 TiB",
    pool_sizes: Some(HIGH_SCALE_SIZES),
    pool_shrinks: true,
    share_name: Some(SHARE_NAME),
    ..BASIC_HDD
};

pub(crate) const HIGH_SCALE_SSD_2021: LevelInfo = LevelInfo {
    name: "filestore/high-scale-ssd-2021",
    title: "Filestore High Scale SSD as published in 2021: 500 MB/s per 10 TB, and no more for one client",
    pool_sizes: Some(HIGH_SCALE_2021_SIZES),
    sources: &[PAGE_001, F3],
    ..HIGH_SCALE_SSD
};

pub(crate) const ZONAL: LevelInfo = LevelInfo {
    name: "filestore/zonal",
    title: "Filestore Zonal: by capacity, or custom performance",
    pool_sizes: Some(TWO_BANDS),
    protocols: &[Protocol::NfsV3, Protocol::NfsV41],
    settable: Settable { iops: true, ..Settable::NOTHING },
    counts: Counts { snapshots_per_volume: Some(240), ..BASIC_HDD.counts },
    sources: &[F1, F2, F3, F5],
    ..HIGH_SCALE_SSD
};

pub(crate) const REGIONAL: LevelInfo = LevelInfo {
    name: "filestore/regional",
    title: "Filestore Regional: by capacity, or custom performance",
    ..ZONAL
};

pub(crate) const ENTERPRISE: LevelInfo = LevelInfo {
    name: "filestore/enterprise",
    title: "Filestore Enterprise: 12,000 read IOPS per TiB",
    pool_sizes: Some(ENTERPRISE_SIZES),
    settable: Settable::NOTHING,
    sources: &[F1, F3],
    ..ZONAL
};

pub(crate) fn instance(pool: &Pool) -> Result<Limits, Refusal> {
    if let Some(provisioned) = pool.settings.iops {
        return custom(pool, provisioned);
    }
    let upper = pool.band() > 0;
    let of_2021 = pool.settings.profile == Some(Profile::Filestore2021);
    let row = match pool.level {
        Level::FilestoreBasicHdd if of_2021 && pool.size < BASIC_HDD_UPPER_FROM_2021 => BASIC_HDD_LOWER_2021,
        Level::FilestoreBasicHdd if of_2021 => BASIC_HDD_UPPER_2021,
        Level::FilestoreBasicSsd if of_2021 => BASIC_SSD_2021,
        Level::FilestoreBasicHdd if pool.size < BASIC_HDD_UPPER_FROM => BASIC_HDD_LOWER,
        Level::FilestoreBasicHdd => BASIC_HDD_UPPER,
        Level::FilestoreBasicSsd => BASIC_SSD_ROW,
        Level::FilestoreHighScaleSsd2021 => HIGH_SCALE_2021,
        Level::FilestoreZonal if !upper => ZONAL_LOWER,
        Level::FilestoreRegional if !upper => REGIONAL_LOWER,
        Level::FilestoreEnterprise => REGIONAL_LOWER,
        _ => LARGE,
    };
    let mut limits = row.limits(pool.size);
    if pool.level == Level::FilestoreHighScaleSsd2021 {
        limits.per_client = HIGH_SCALE_2021.ceilings();
        limits = limits.with_origin("each client", "the rate of 10 TB", PAGE_001);
    }
    if let Some((clients, formula)) = clients(pool, upper) {
        limits.clients_max = Some(clients);
        limits = limits.with_origin("clients", formula, F5);
    }
    Ok(limits)
}

fn clients(pool: &Pool, upper: bool) -> Option<(u32, &'static str)> {
    let (per, each, max, formula) = match pool.level {
        Level::FilestoreBasicHdd | Level::FilestoreBasicSsd => return Some((500, "500")),
        Level::FilestoreZonal | Level::FilestoreRegional if upper => {
            (Bytes::tib(10), 8_000, 80_000, "8,000 per 10 TiB, at most 80,000")
        }
        Level::FilestoreZonal | Level::FilestoreRegional => {
            (Bytes::tib(1), 2_000, 19_500, "2,000 per TiB, at most 19,500")
        }
        Level::FilestoreEnterprise => (Bytes::tib(1), 2_000, 20_000, "2,000 per TiB, at most 20,000"),
        _ => return None,
    };
    let clients = proportion(each, pool.size.0, per.0).min(max);
    Some((u32::try_from(clients).unwrap_or(u32::MAX), formula))
}

impl Row {
    fn ceilings(&self) -> Ceilings {
        Ceilings {
            read: Some(self.read),
            write: Some(self.write),
            read_iops: Some(self.read_iops),
            write_iops: Some(self.write_iops),
            ..Ceilings::default()
        }
    }

    fn limits(&self, size: Bytes) -> Limits {
        let (read_iops, write_iops) = (self.read_iops, self.write_iops);
        let one = format!("{read_iops:#} and {write_iops:#}, {:#} and {:#}", self.read, self.write);
        if self.per == Bytes(0) {
            return Limits::for_all_clients(Owner::Volume, self.ceilings()).with_origin(
                READ_AND_WRITE,
                one,
                self.source,
            );
        }
        let total = Self {
            read: self.read.scale(size, self.per),
            write: self.write.scale(size, self.per),
            read_iops: read_iops.scale(size, self.per),
            write_iops: write_iops.scale(size, self.per),
            ..*self
        };
        let formula = format!("{size:#} × ({one}) per {}", self.per);
        Limits::for_all_clients(Owner::Volume, total.ceilings()).with_origin(
            READ_AND_WRITE,
            formula,
            self.source,
        )
    }
}

pub(crate) fn fixed(pool: &Pool) -> Range<Iops> {
    let per_tib = CUSTOM_PER_TIB[pool.band().min(1)];
    let min = per_tib.min.scale(pool.size, Bytes::tib(1)).0;
    let max = per_tib.max.scale(pool.size, Bytes::tib(1)).0 / CUSTOM_STEP * CUSTOM_STEP;
    Range {
        min: Iops(min.next_multiple_of(CUSTOM_STEP).max(CUSTOM_MIN)),
        max: Iops(max.max(CUSTOM_MIN)),
        step: Iops(CUSTOM_STEP),
    }
}

pub(crate) fn with_max_settings(pool: &Pool) -> Pool {
    let mut max = pool.clone();
    if pool.settings.iops.is_some() {
        max.settings.iops = Some(ProvisionedIops::Fixed(fixed(pool).max));
    }
    max
}

/// Custom performance: all limits follow from the operations bought.
fn custom(pool: &Pool, provisioned: ProvisionedIops) -> Result<Limits, Refusal> {
    let per_tib = CUSTOM_PER_TIB[pool.band().min(1)];
    let what = format!("{}: an instance of {} with operations", pool.level, pool.size);
    let iops = match provisioned {
        ProvisionedIops::PerTib(each) => {
            per_tib.check(&format!("{what} per TiB"), each, F1)?;
            // Rounded to the nearest: 600 GiB at 4,000 per TiB are 2,344 on the page.
            let twice = proportion(each.0 * 2, pool.size.0, Bytes::tib(1).0);
            twice.div_ceil(2).max(CUSTOM_MIN)
        }
        ProvisionedIops::Fixed(iops) => {
            fixed(pool).check(&what, iops, G)?;
            iops.0
        }
    };
    let total = Ceilings {
        read: Some(BytesPerSecond(iops * CUSTOM_READ_BYTES)),
        write: Some(BytesPerSecond(iops * CUSTOM_WRITE_BYTES)),
        read_iops: Some(Iops(iops)),
        // 0.3 of all operations, rounded to the nearest: 11,999 of 39,996 on the page.
        write_iops: Some(Iops((iops * 3 + 5) / 10)),
        combined_iops: Some(Iops(iops)),
        combined: None,
    };
    let limits = Limits {
        clients_max: u32::try_from(iops / 10).ok(),
        write_cost_thousandths: CUSTOM_WRITE_COST_THOUSANDTHS,
        ..Limits::for_all_clients(Owner::Volume, total)
    };
    Ok(limits
        .with_origin(
            OPERATIONS,
            format!("{} in all, at most 0.3 of them writes; a write costs 3.33", grouped(iops)),
            F2,
        )
        .with_origin("throughput", format!("{} × 24,576 B/s read, × 8,192 B/s written", grouped(iops)), G)
        .with_origin("clients", "100 per 1,000 IOPS", F2))
}

pub(crate) fn inodes(level: Level, size: Bytes) -> u64 {
    match level {
        Level::FilestoreBasicHdd | Level::FilestoreBasicSsd => FILES_BASIC,
        _ => proportion(FILES_PER_TIB, size.0, Bytes::tib(1).0),
    }
}

#[cfg(test)]
mod tests;
