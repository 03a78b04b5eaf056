//! Google Cloud NetApp Volumes: throughput per GiB of volume, or of pool with Flex.

use crate::limits::{OPERATIONS, origin_text};
use crate::settings::{Pool, ProvisionedIops, Volume};
use crate::source::{G, PAGE_000, S1, S2, S3, S4};
use crate::units::proportion;
use crate::{
    Bands, Bytes, BytesPerSecond, Ceilings, Counts, Iops, Level, LevelInfo, Limits, NameRule, Owner,
    Protocol, Provider, Qos, Range, Refusal, Settable, Source,
};

/// Capacities are whole GiB in the API (`capacityGib`) [G].
const STEP: Bytes = Bytes::gib(1);

const fn sizes(min: Bytes, max: Bytes) -> Range<Bytes> {
    Range { min, max, step: STEP }
}

// [S1], [S2], [S3].
const STANDARD_POOL: Bands = Bands { ranges: &[sizes(Bytes::tib(2), Bytes::tib(200))], source: S2 };
const PREMIUM_POOL: Bands = Bands { ranges: &[sizes(Bytes::tib(2), Bytes::pib(10))], source: S2 };
const REGULAR: Bands = Bands { ranges: &[sizes(Bytes::gib(100), Bytes::tib(100))], source: S2 };
pub(crate) const LARGE: Bands = Bands { ranges: &[sizes(Bytes::tib(15), Bytes::pib(3))], source: S2 };
/// Large volumes until 2025 [S5], and on page 000.
pub(crate) const LARGE_TO_1_PIB: Bands =
    Bands { ranges: &[sizes(Bytes::tib(15), Bytes::pib(1))], source: crate::source::S5 };
const FLEX_POOL: Bands = Bands { ranges: &[sizes(Bytes::tib(1), Bytes::tib(300))], source: S2 };
const FLEX_VOLUME: Bands = Bands { ranges: &[sizes(Bytes::gib(1), Bytes::tib(300))], source: S2 };
const UNIFIED_POOL: Bands = Bands { ranges: &[sizes(Bytes::tib(1), Bytes::tib(425))], source: S2 };
const UNIFIED_VOLUME: Bands = Bands { ranges: &[sizes(Bytes::gib(1), Bytes::tib(128))], source: S2 };
const UNIFIED_LARGE_MAX: Bytes = Bytes::tib(2_560);
/// 4.8 TiB is 4,915.2 GiB: the first whole GiB in the range.
const UNIFIED_LARGE_VOLUME_MIN: Bytes = Bytes::gib(4_916);
const UNIFIED_LARGE_POOL: Bands = Bands { ranges: &[sizes(Bytes::tib(6), UNIFIED_LARGE_MAX)], source: S2 };
const UNIFIED_LARGE_VOLUME: Bands =
    Bands { ranges: &[sizes(UNIFIED_LARGE_VOLUME_MIN, UNIFIED_LARGE_MAX)], source: S2 };
pub(crate) const UNIFIED_LARGE_POOL_TIERED: Bands =
    Bands { ranges: &[sizes(Bytes::tib(6), Bytes::pib(20))], source: S1 };
pub(crate) const UNIFIED_LARGE_VOLUME_TIERED: Bands =
    Bands { ranges: &[sizes(UNIFIED_LARGE_VOLUME_MIN, Bytes::pib(20))], source: S2 };
pub(crate) const UNIFIED_LARGE_VOLUME_FROM_2400_GIB: Bands =
    Bands { ranges: &[sizes(Bytes::gib(2_400), UNIFIED_LARGE_MAX)], source: S3 };

/// Maximum throughput of one volume. The documents say 4.5 GiB/s [S3] and 5 GiB/s [S1]; page 000 measured more, and
/// either limit would rule out the published curve.
const REGULAR_MAX: BytesPerSecond = BytesPerSecond::mib(5_237);
/// Maximum throughput of a large volume since 2026 [S1].
pub(crate) const LARGE_MAX: BytesPerSecond = BytesPerSecond::gib(30);
/// Maximum measured operations of one large volume. No page documents a limit.
const LARGE_IOPS_MAX: Iops = Iops(1_350_000);
/// 1.6 GiB/s, rounded down to bytes: Flex File with default performance, and Unified with limited performance [S1].
pub(crate) const LIMITED_MAX: BytesPerSecond = BytesPerSecond((16 << 30) / 10);
/// Operations of a Flex File pool with default performance [S1].
const FLEX_IOPS_PER_TIB: Iops = Iops(1_024);
const FLEX_IOPS_MAX: Iops = Iops(60_000);
/// Custom performance: the throughput of every pool, and the gain of each further MiB/s [S1].
const CUSTOM_MIN: BytesPerSecond = BytesPerSecond::mib(64);
const CUSTOM_STEP: BytesPerSecond = BytesPerSecond::mib(1);
const CUSTOM_IOPS_MIN: u64 = 1_024;
const CUSTOM_IOPS_PER_STEP: u64 = 16;
const CUSTOM_MAX: BytesPerSecond = BytesPerSecond::gib(5);
const CUSTOM_IOPS_MAX: Iops = Iops(160_000);
/// Large Unified pools [S1]; [S4] says 24 GiB/s.
const UNIFIED_LARGE_RATE_MAX: BytesPerSecond = BytesPerSecond::gib(22);
const UNIFIED_LARGE_IOPS_MAX: Iops = Iops(750_000);

/// Bytes of a volume for each inode, the minimum number of inodes, and inodes per GiB with Flex [S2].
const BYTES_PER_INODE: u64 = 32_768;
const INODES_MIN: u64 = 21_200_000;
const FLEX_INODES_PER_GIB: u64 = 31_000;

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_lowercase()
}

fn is_letter_or_digit(byte: u8) -> bool {
    is_letter(byte) || byte.is_ascii_digit()
}

fn is_letter_digit_or_dash(byte: u8) -> bool {
    is_letter_or_digit(byte) || byte == b'-'
}

const VOLUME_NAME: NameRule = NameRule {
    pattern: "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$",
    source: G,
    first: is_letter,
    middle: is_letter_digit_or_dash,
    last: is_letter_or_digit,
    length_max: 63,
};
const SNAPSHOT_NAME: NameRule = NameRule {
    pattern: "^[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$",
    first: |byte| byte.is_ascii_alphabetic(),
    middle: |byte| byte.is_ascii_alphanumeric() || byte == b'-',
    last: |byte| byte.is_ascii_alphanumeric(),
    ..VOLUME_NAME
};
const SHARE_NAME: NameRule =
    NameRule { pattern: "^[a-z]([a-z0-9-]{0,78}[a-z0-9])?$", length_max: 80, ..VOLUME_NAME };

pub(crate) const STANDARD: LevelInfo = LevelInfo {
    name: "gcnv/standard",
    aliases: &[],
    provider: Provider::Gcnv,
    title: "Google Cloud NetApp Volumes Standard: 16 KiB/s per GiB",
    owner: Owner::Volume,
    pool_sizes: Some(STANDARD_POOL),
    volume_sizes: Some(REGULAR),
    large_volume_sizes: None,
    is_instance: false,
    pool_shrinks: true,
    qos: &[Qos::Auto, Qos::Manual],
    protocols: &[Protocol::NfsV3, Protocol::NfsV41, Protocol::NfsV42, Protocol::Smb],
    smb_with_nfs: true,
    settable: Settable { tiering: true, ..Settable::NOTHING },
    counts: Counts {
        volumes_per_pool: None,
        snapshots_per_volume: Some(255),
        export_rules_per_volume: Some(20),
        quota_rules_per_volume: Some(100),
    },
    volume_name: Some(VOLUME_NAME),
    share_name: Some(SHARE_NAME),
    snapshot_name: Some(SNAPSHOT_NAME),
    sources: &[S1, S2, S3, PAGE_000],
};

pub(crate) const PREMIUM: LevelInfo = LevelInfo {
    name: "gcnv/premium",
    title: "Google Cloud NetApp Volumes Premium: 64 KiB/s per GiB",
    pool_sizes: Some(PREMIUM_POOL),
    large_volume_sizes: Some(LARGE),
    ..STANDARD
};

pub(crate) const EXTREME: LevelInfo = LevelInfo {
    name: "gcnv/extreme",
    title: "Google Cloud NetApp Volumes Extreme: 128 KiB/s per GiB",
    ..PREMIUM
};

pub(crate) const FLEX: LevelInfo = LevelInfo {
    name: "gcnv/flex",
    title: "Google Cloud NetApp Volumes Flex File, default performance: 16 MiB/s and 1,024 IOPS per TiB of pool",
    owner: Owner::Pool,
    pool_sizes: Some(FLEX_POOL),
    volume_sizes: Some(FLEX_VOLUME),
    pool_shrinks: false,
    qos: &[Qos::Auto],
    protocols: &[Protocol::NfsV3, Protocol::NfsV41, Protocol::Smb],
    smb_with_nfs: false,
    counts: Counts { volumes_per_pool: Some(50), quota_rules_per_volume: Some(0), ..STANDARD.counts },
    sources: &[S1, S2, S3],
    ..STANDARD
};

/// File volumes are as large as with default performance: no source gives separate sizes.
pub(crate) const FLEX_CUSTOM: LevelInfo = LevelInfo {
    name: "gcnv/flex-custom",
    title: "Google Cloud NetApp Volumes Flex File, custom performance: throughput and IOPS set for the pool",
    protocols: STANDARD.protocols,
    smb_with_nfs: true,
    settable: Settable { throughput: true, iops: true, tiering: true, ..Settable::NOTHING },
    counts: Counts { volumes_per_pool: Some(50), ..STANDARD.counts },
    ..FLEX
};

pub(crate) const FLEX_UNIFIED: LevelInfo = LevelInfo {
    name: "gcnv/flex-unified",
    title: "Google Cloud NetApp Volumes Flex Unified: throughput and IOPS set for the pool",
    pool_sizes: Some(UNIFIED_POOL),
    volume_sizes: Some(UNIFIED_VOLUME),
    counts: Counts { volumes_per_pool: Some(1_000), ..STANDARD.counts },
    ..FLEX_CUSTOM
};

pub(crate) const FLEX_UNIFIED_LARGE: LevelInfo = LevelInfo {
    name: "gcnv/flex-unified-large",
    title: "Google Cloud NetApp Volumes Flex Unified, large: to 22 GiB/s and 750,000 IOPS",
    pool_sizes: Some(UNIFIED_LARGE_POOL),
    volume_sizes: Some(UNIFIED_LARGE_VOLUME),
    counts: STANDARD.counts,
    sources: &[S1, S2, S3, S4],
    ..FLEX_UNIFIED
};

/// Throughput per GiB; `None` with custom performance, which does not follow capacity.
fn rate_per_gib(level: Level) -> Option<BytesPerSecond> {
    match level {
        Level::GcnvFlex | Level::GcnvStandard => Some(BytesPerSecond::kib(16)),
        Level::GcnvPremium => Some(BytesPerSecond::kib(64)),
        Level::GcnvExtreme => Some(BytesPerSecond::kib(128)),
        _ => None,
    }
}

pub(crate) fn pool(pool: &Pool) -> Result<Limits, Refusal> {
    let Some(rate) = rate_per_gib(pool.level) else {
        return custom(pool);
    };
    let earned = rate.scale(pool.size, Bytes::gib(1));
    let formula = format!("{:#} × {rate:#} per GiB = {earned:#}", pool.size);
    if pool.level != Level::GcnvFlex {
        let limits = Limits::for_all_clients(Owner::Volume, Ceilings::combined(earned));
        return Ok(limits.with_origin("throughput", format!("{formula}, shared out to volumes"), S1));
    }
    let operations = FLEX_IOPS_PER_TIB.scale(pool.size, Bytes::tib(1));
    let total = Ceilings {
        combined_iops: Some(operations.min(FLEX_IOPS_MAX)),
        ..Ceilings::combined(earned.min(LIMITED_MAX))
    };
    let operations = format!("{:#} × {FLEX_IOPS_PER_TIB:#} per TiB = {operations:#}", pool.size);
    Ok(Limits::for_all_clients(Owner::Pool, total)
        .with_origin("throughput", format!("{formula}, at most {LIMITED_MAX:#}"), S1)
        .with_origin(OPERATIONS, format!("{operations}, at most {FLEX_IOPS_MAX:#}"), S1))
}

/// Throughput as set, with included and additional operations.
fn custom(pool: &Pool) -> Result<Limits, Refusal> {
    let (rate_max, iops_max) = max_custom(pool);
    let rates = Range { min: CUSTOM_MIN, max: rate_max, step: CUSTOM_STEP };
    let rate = pool.settings.throughput.unwrap_or(CUSTOM_MIN);
    rates.check(&format!("{}: a pool with a throughput", pool.level), rate, S1)?;
    let steps = (rate.0 - CUSTOM_MIN.0) / CUSTOM_STEP.0;
    let included = Iops(CUSTOM_IOPS_MIN + CUSTOM_IOPS_PER_STEP * steps);
    let operations = Range { min: included, max: iops_max, step: Iops(1) };
    let what = format!("{}: a pool of {rate} with operations", pool.level);
    let iops = match pool.settings.iops {
        None => included,
        Some(ProvisionedIops::Fixed(iops)) => iops,
        Some(ProvisionedIops::PerTib(iops)) => {
            return Err(Refusal::new(
                format!("{what} of {iops} per TiB"),
                format!("in all, {operations}"),
                S1,
            ));
        }
    };
    operations.check(&what, iops, S1)?;
    let total = Ceilings { combined_iops: Some(iops), ..Ceilings::combined(rate) };
    let throughput = format!("{rate:#} {} ({rates:#})", origin_text(pool.settings.throughput));
    let operations = format!("{iops:#} {} ({operations:#})", origin_text(pool.settings.iops));
    Ok(Limits::for_all_clients(Owner::Pool, total)
        .with_origin("throughput", throughput, S1)
        .with_origin(OPERATIONS, operations, S1))
}

/// The maximum throughput of a volume, whatever its size, if it is not the pool's.
pub(crate) fn ceiling(pool: &Pool, volume: &Volume) -> (BytesPerSecond, Source) {
    let (default, source) = if volume.settings.large { (LARGE_MAX, S1) } else { (REGULAR_MAX, PAGE_000) };
    volume.ceiling(pool.level, default, source)
}

pub(crate) fn with_max_settings(pool: &Pool) -> Pool {
    let mut max_pool = pool.clone();
    if pool.level.info().settable.throughput {
        let (rate, iops) = max_custom(pool);
        let beyond = (rate.0 - CUSTOM_MIN.0) % CUSTOM_STEP.0;
        max_pool.settings.throughput = Some(BytesPerSecond(rate.0 - beyond));
        max_pool.settings.iops = Some(ProvisionedIops::Fixed(iops));
    }
    max_pool
}

fn max_custom(pool: &Pool) -> (BytesPerSecond, Iops) {
    let (rate, iops) = match pool.level {
        Level::GcnvFlexUnifiedLarge => (UNIFIED_LARGE_RATE_MAX, UNIFIED_LARGE_IOPS_MAX),
        _ => (CUSTOM_MAX, CUSTOM_IOPS_MAX),
    };
    let of_profile = pool.settings.profile.and_then(|profile| profile.throughput_max(pool.level));
    (of_profile.unwrap_or(rate), pool.iops_max(iops))
}

pub(crate) fn volume(pool: &Pool, volume: &Volume) -> Result<Limits, Refusal> {
    if pool.level.info().owner == Owner::Pool {
        return Ok(Limits::unlimited(Owner::Pool).with_origin(
            "all",
            "the pool's, shared by its volumes",
            S1,
        ));
    }
    let ceiling = ceiling(pool, volume);
    let limits = match rate_per_gib(pool.level) {
        Some(rate) if pool.qos() == Qos::Auto => volume.by_size(rate, Bytes::gib(1), "GiB", ceiling, S1),
        _ => volume.manual(pool, ceiling)?,
    };
    let operations = volume.settings.large.then_some((LARGE_IOPS_MAX, PAGE_000));
    Ok(volume.with_iops(limits, operations))
}

pub(crate) fn inodes(level: Level, size: Bytes) -> u64 {
    match level.info().owner {
        Owner::Pool => proportion(FLEX_INODES_PER_GIB, size.0, Bytes::gib(1).0),
        Owner::Volume => (size.0 / BYTES_PER_INODE).max(INODES_MIN),
    }
}

#[cfg(test)]
mod tests;
