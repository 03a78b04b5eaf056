//! Azure NetApp Files: throughput per TiB of quota, reads and writes together.

use crate::limits::origin_text;
use crate::settings::{Pool, Volume};
use crate::source::{A1, A2, A3, A4, A6};
use crate::{
    Bands, Bytes, BytesPerSecond, Ceilings, Counts, Level, LevelInfo, Limits, Owner, Protocol, Provider, Qos,
    Range, Refusal, Settable, Source,
};

/// Sizes are given in bytes, and no source gives a coarser step for volumes.
const ANY: Bytes = Bytes(1);
const POOL: Bands =
    Bands { ranges: &[Range { min: Bytes::tib(1), max: Bytes::tib(2048), step: Bytes::tib(1) }], source: A1 };
const REGULAR: Bands =
    Bands { ranges: &[Range { min: Bytes::gib(50), max: Bytes::tib(100), step: ANY }], source: A1 };
/// 100 GiB to 100 TiB, by page 004.
pub(crate) const REGULAR_FROM_100_GIB: Bands = Bands {
    ranges: &[Range { min: Bytes::gib(100), max: Bytes::tib(100), step: ANY }],
    source: crate::source::PAGE_004,
};
const LARGE: Bands =
    Bands { ranges: &[Range { min: Bytes::tib(50), max: Bytes::pib(1), step: ANY }], source: A3 };
/// 50 TiB to 500 TiB, in early 2024 [A3].
pub(crate) const LARGE_TO_500_TIB: Bands = Bands {
    ranges: &[Range { min: Bytes::tib(50), max: Bytes::tib(500), step: ANY }],
    source: crate::source::A3_EARLY_2024,
};
/// 50 TiB to 2 PiB on dedicated capacity [A1].
pub(crate) const LARGE_DEDICATED: Bands =
    Bands { ranges: &[Range { min: Bytes::tib(50), max: Bytes::pib(2), step: ANY }], source: A1 };

/// A regular volume's ceiling: 70.31 TiB of Premium reach it [A2].
const REGULAR_MAX: BytesPerSecond = BytesPerSecond::mib(4_500);
/// A large volume's ceiling since July 2024, at every level [A3].
const LARGE_MAX: BytesPerSecond = BytesPerSecond::mib(12_800);
/// Default quota of a subscription in a region, over all levels [A1].
pub(crate) const REGION_CAPACITY: Bytes = Bytes::tib(25);
/// Pools of an account, by default [A1].
pub(crate) const POOLS_PER_ACCOUNT: u32 = 25;
/// Minimum throughput of a Flexible pool of any size [A2].
const FLEXIBLE_MIN: BytesPerSecond = BytesPerSecond::mib(128);
/// Maximum throughput of a Flexible pool per TiB: 5 × 128 MiB/s [A2].
const FLEXIBLE_MAX_PER_TIB: BytesPerSecond = BytesPerSecond::mib(5 * 128);

/// Inodes of a volume up to 683 GiB [A6].
const INODES_MIN: u64 = 21_251_126;
const INODES_MIN_TO: Bytes = Bytes::gib(683);
/// Inodes per TiB above `INODES_MIN`, less one: gives the page's 31,876,709 at 1 TiB and 318,767,099 at 10
/// TiB [A6].
const INODES_PER_TIB: u64 = 31_876_710;
const INODES_MAX_REGULAR: u64 = 2_147_483_632;
const INODES_MAX_LARGE: u64 = 15_938_355_048;

pub(crate) const STANDARD: LevelInfo = LevelInfo {
    name: "anf/standard",
    aliases: &[],
    provider: Provider::Anf,
    title: "Azure NetApp Files Standard: 16 MiB/s per TiB",
    owner: Owner::Volume,
    pool_sizes: Some(POOL),
    volume_sizes: Some(REGULAR),
    large_volume_sizes: Some(LARGE),
    is_instance: false,
    pool_shrinks: true,
    qos: &[Qos::Auto, Qos::Manual],
    protocols: &[Protocol::NfsV3, Protocol::NfsV41, Protocol::Smb],
    smb_with_nfs: true,
    settable: Settable { tiering: true, ..Settable::NOTHING },
    // [A1]; an older page has 100 quota rules.
    counts: Counts {
        volumes_per_pool: Some(500),
        snapshots_per_volume: Some(255),
        export_rules_per_volume: Some(5),
        quota_rules_per_volume: Some(1_000),
    },
    volume_name: None,
    share_name: None,
    snapshot_name: None,
    sources: &[A1, A2, A3, A4, A6],
};

pub(crate) const PREMIUM: LevelInfo = LevelInfo {
    name: "anf/premium",
    title: "Azure NetApp Files Premium: 64 MiB/s per TiB, 36 with cool access",
    ..STANDARD
};

pub(crate) const ULTRA: LevelInfo = LevelInfo {
    name: "anf/ultra",
    title: "Azure NetApp Files Ultra: 128 MiB/s per TiB, 68 with cool access",
    ..STANDARD
};

pub(crate) const FLEXIBLE: LevelInfo = LevelInfo {
    name: "anf/flexible",
    title: "Azure NetApp Files Flexible: throughput set for the pool, from 128 MiB/s to 640 MiB/s per TiB",
    qos: &[Qos::Manual],
    settable: Settable { throughput: true, tiering: true, ..Settable::NOTHING },
    ..STANDARD
};

/// Throughput per TiB, with its source; `None` if it does not follow capacity. Once cool access has been on, the lower
/// rate applies [A4].
fn rate_per_tib(pool: &Pool) -> Option<(BytesPerSecond, Source)> {
    match (pool.level, pool.settings.tiering) {
        (Level::AnfStandard, _) => Some((BytesPerSecond::mib(16), A2)),
        (Level::AnfPremium, false) => Some((BytesPerSecond::mib(64), A2)),
        (Level::AnfPremium, true) => Some((BytesPerSecond::mib(36), A4)),
        (Level::AnfUltra, false) => Some((BytesPerSecond::mib(128), A2)),
        (Level::AnfUltra, true) => Some((BytesPerSecond::mib(68), A4)),
        _ => None,
    }
}

pub(crate) fn pool(pool: &Pool) -> Result<Limits, Refusal> {
    if let Some((rate, source)) = rate_per_tib(pool) {
        let total = rate.scale(pool.size, Bytes::tib(1));
        let formula = format!("{:#} × {rate:#} per TiB = {total:#}, shared out to volumes", pool.size);
        return Ok(Limits::for_all_clients(Owner::Volume, Ceilings::combined(total)).with_origin(
            "throughput",
            formula,
            source,
        ));
    }
    let range = flexible(pool);
    let total = pool.settings.throughput.unwrap_or(FLEXIBLE_MIN);
    range.check(&format!("{}: a pool of {} with a throughput", pool.level, pool.size), total, A2)?;
    let formula =
        format!("{total:#} {} ({range:#}), shared out to volumes", origin_text(pool.settings.throughput));
    Ok(Limits::for_all_clients(Owner::Volume, Ceilings::combined(total)).with_origin(
        "throughput",
        formula,
        A2,
    ))
}

pub(crate) fn ceiling(pool: &Pool, volume: &Volume) -> (BytesPerSecond, Source) {
    let (default, source) = if volume.settings.large { (LARGE_MAX, A3) } else { (REGULAR_MAX, A2) };
    volume.ceiling(pool.level, default, source)
}

pub(crate) fn with_max_settings(pool: &Pool) -> Pool {
    let mut max = pool.clone();
    if pool.level == Level::AnfFlexible {
        max.settings.throughput = Some(flexible(pool).max);
    }
    max
}

fn flexible(pool: &Pool) -> Range<BytesPerSecond> {
    let max = FLEXIBLE_MAX_PER_TIB.scale(pool.size, Bytes::tib(1));
    Range { min: FLEXIBLE_MIN, max, step: BytesPerSecond(1) }
}

pub(crate) fn volume(pool: &Pool, volume: &Volume) -> Result<Limits, Refusal> {
    let ceiling = ceiling(pool, volume);
    let limits = match rate_per_tib(pool) {
        Some((rate, source)) if pool.qos() == Qos::Auto => {
            volume.by_size(rate, Bytes::tib(1), "TiB", ceiling, source)
        }
        _ => volume.manual(pool, ceiling)?,
    };
    Ok(volume.with_iops(limits, None))
}

pub(crate) fn inodes(volume: &Volume) -> u64 {
    let max = if volume.settings.large { INODES_MAX_LARGE } else { INODES_MAX_REGULAR };
    if volume.size <= INODES_MIN_TO {
        return INODES_MIN;
    }
    (crate::units::proportion(INODES_PER_TIB, volume.size.0, Bytes::tib(1).0) - 1).min(max)
}

#[cfg(test)]
mod tests;
