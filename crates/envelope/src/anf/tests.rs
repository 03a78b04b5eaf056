//! The worked examples of the ANF pages, and every edge.

use super::*;
use crate::{Iops, PoolSettings, Profile, VolumeSettings};

fn pool(level: Level, tib: u64) -> Pool {
    Pool::new(level, Bytes::tib(tib))
}

fn with(level: Level, tib: u64, settings: PoolSettings) -> Pool {
    Pool { settings, ..pool(level, tib) }
}

fn manual(level: Level, tib: u64) -> Pool {
    with(level, tib, PoolSettings { qos: Some(Qos::Manual), ..PoolSettings::default() })
}

fn large(size: Bytes) -> Volume {
    Volume { size, settings: VolumeSettings { large: true, ..VolumeSettings::default() } }
}

fn by_hand(size: Bytes, mib: u64) -> Volume {
    let throughput = Some(BytesPerSecond::mib(mib));
    Volume { size, settings: VolumeSettings { throughput, ..VolumeSettings::default() } }
}

fn throughput(pool: &Pool, volume: &Volume) -> BytesPerSecond {
    let limits = pool.volume_limits(volume).unwrap();
    assert_eq!(limits.owner, Owner::Volume);
    assert_eq!(limits.total, Ceilings::combined(limits.total.combined.unwrap()), "nothing else is limited");
    limits.total.combined.unwrap()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn auto_qos_follows_quota() {
    let premium = pool(Level::AnfPremium, 100);
    assert_eq!(throughput(&premium, &Volume::new(Bytes::tib(2))), BytesPerSecond::mib(128));
    // 0.09765625 TiB × 64 MiB/s.
    assert_eq!(throughput(&premium, &Volume::new(Bytes::gib(100))), BytesPerSecond(6_553_600));
    for (level, mib) in [(Level::AnfStandard, 16), (Level::AnfPremium, 64), (Level::AnfUltra, 128)] {
        assert_eq!(throughput(&pool(level, 4), &Volume::new(Bytes::tib(1))), BytesPerSecond::mib(mib));
        let pool = pool(level, 10).limits().unwrap();
        assert_eq!(pool.total.combined, Some(BytesPerSecond::mib(10 * mib)));
    }
}

#[test]
fn operations_are_limited_only_by_profile() {
    let with = |profile| {
        let mut volume = Volume::new(Bytes::tib(100));
        volume.settings.profile = profile;
        pool(Level::AnfUltra, 100).volume_limits(&volume).unwrap().total
    };
    let observed = with(Some(Profile::AnfRegularObserved));
    assert_eq!(observed.combined, Some(BytesPerSecond::mib(4_500)));
    assert_eq!((observed.read_iops, observed.write_iops), (Some(Iops(200_000)), Some(Iops(135_000))));
    assert_eq!((with(None).read_iops, with(None).write_iops, with(None).combined_iops), (None, None, None));
}

#[test]
fn volume_throughput_ignores_pool_size() {
    let volume = Volume::new(Bytes::tib(2));
    assert_eq!(
        throughput(&pool(Level::AnfPremium, 2), &volume),
        throughput(&pool(Level::AnfPremium, 2048), &volume)
    );
}

#[test]
fn regular_volume_is_capped_at_4500_mib() {
    let premium = pool(Level::AnfPremium, 100);
    let almost = throughput(&premium, &Volume::new("70.31TiB".parse().unwrap()));
    assert!(almost < BytesPerSecond::mib(4_500) && almost > BytesPerSecond::mib(4_499), "{almost}");
    // 70.3125 TiB are exactly enough.
    assert_eq!(throughput(&premium, &Volume::new(Bytes::gib(72_000))), BytesPerSecond::mib(4_500));
    assert_eq!(throughput(&premium, &Volume::new(Bytes::tib(100))), BytesPerSecond::mib(4_500));
}

#[test]
fn cool_access_lowers_premium_and_ultra() {
    for (level, mib) in [(Level::AnfStandard, 16), (Level::AnfPremium, 36), (Level::AnfUltra, 68)] {
        let pool = with(level, 4, PoolSettings { tiering: true, ..PoolSettings::default() });
        assert_eq!(throughput(&pool, &Volume::new(Bytes::tib(1))), BytesPerSecond::mib(mib));
        assert_eq!(pool.limits().unwrap().total.combined, Some(BytesPerSecond::mib(4 * mib)));
    }
}

#[test]
fn manual_pool_splits_as_documented() {
    let pool = manual(Level::AnfUltra, 10);
    assert_eq!(pool.limits().unwrap().total.combined, Some(BytesPerSecond::mib(1_280)));
    let mut volumes = vec![
        by_hand(Bytes::tib(4), 704),
        by_hand(Bytes::gib(512), 256),
        by_hand(Bytes::tib(1), 64),
        by_hand(Bytes::gib(4_608), 256),
    ];
    assert_eq!(pool.check_volumes(&volumes), Ok(()));
    assert_eq!(throughput(&pool, &volumes[0]), BytesPerSecond::mib(704));
    volumes[2] = by_hand(Bytes::tib(1), 65);
    let refusal = refusal(pool.check_volumes(&volumes));
    assert!(
        refusal.starts_with("anf/ultra: volumes with a throughput of 1281 MiB/s together; allowed: at most")
    );
    assert!(refusal.contains("the pool's 1280 MiB/s"), "{refusal}");
}

#[test]
fn manual_throughput_ranges_from_1_to_4500_mib() {
    let pool = manual(Level::AnfUltra, 100);
    assert_eq!(throughput(&pool, &by_hand(Bytes::tib(1), 1)), BytesPerSecond::mib(1));
    assert_eq!(throughput(&pool, &by_hand(Bytes::tib(1), 4_500)), BytesPerSecond::mib(4_500));
    for volume in [by_hand(Bytes::tib(1), 0), by_hand(Bytes::tib(1), 4_501), Volume::new(Bytes::tib(1))] {
        let refusal = refusal(pool.volume_limits(&volume));
        assert!(
            refusal.contains("allowed: 1 MiB/s to 4500 MiB/s [ANF service levels (Microsoft)"),
            "{refusal}"
        );
    }
    // At most the pool's throughput.
    let small = manual(Level::AnfStandard, 1);
    assert!(refusal(small.volume_limits(&by_hand(Bytes::gib(50), 17))).contains("1 MiB/s to 16 MiB/s"));
}

#[test]
fn throughput_setting_requires_manual_qos() {
    let refusal = refusal(pool(Level::AnfUltra, 10).volume_limits(&by_hand(Bytes::tib(1), 64)));
    assert!(
        refusal.contains("with auto QoS; allowed: manual QoS, or no throughput [Azure SDK (Microsoft)"),
        "{refusal}"
    );
}

#[test]
fn flexible_throughput_is_bought_separately() {
    let pool = |tib, mib| {
        let throughput = Some(BytesPerSecond::mib(mib));
        with(Level::AnfFlexible, tib, PoolSettings { throughput, ..PoolSettings::default() })
    };
    for (tib, mib) in [(1, 128), (1, 640), (1000, 128), (10, 6_400)] {
        assert_eq!(pool(tib, mib).limits().unwrap().total.combined, Some(BytesPerSecond::mib(mib)));
    }
    assert!(
        refusal(pool(1, 127).limits())
            .contains("allowed: 128 MiB/s to 640 MiB/s [ANF service levels (Microsoft)")
    );
    assert!(refusal(pool(1, 641).limits()).contains("of 641 MiB/s; allowed: 128 MiB/s to 640 MiB/s"));
    // Always manual.
    assert_eq!(throughput(&pool(1, 640), &by_hand(Bytes::tib(1), 640)), BytesPerSecond::mib(640));
    let auto = PoolSettings { qos: Some(Qos::Auto), ..PoolSettings::default() };
    assert!(refusal(with(Level::AnfFlexible, 1, auto).limits()).starts_with("anf/flexible: auto QoS"));
    let on_ultra = PoolSettings { throughput: Some(BytesPerSecond::mib(200)), ..PoolSettings::default() };
    assert!(refusal(with(Level::AnfUltra, 1, on_ultra).limits()).contains("a throughput of the pool"));
}

#[test]
fn pool_sizes_match_documents() {
    for tib in [1, 4, 2048] {
        assert!(pool(Level::AnfPremium, tib).limits().is_ok(), "{tib}");
    }
    for (size, shown) in [
        (Bytes(Bytes::tib(1).0 - 1), "of 1024 GiB (1099511627775 bytes)"),
        (Bytes::gib(1536), "of 1.5 TiB"),
        (Bytes::tb(2), "of 2 TB"),
        (Bytes::tib(2049), "of 2049 TiB"),
    ] {
        let refusal = refusal(Pool::new(Level::AnfPremium, size).limits());
        assert!(
            refusal.starts_with(&format!(
                "anf/premium: a pool {shown}; allowed: 1 TiB to 2 PiB in steps of 1 TiB"
            ))
        );
        assert!(refusal.ends_with("[ANF resource limits (Microsoft)]"), "{refusal}");
    }
}

#[test]
fn volume_sizes_match_documents() {
    let pool = pool(Level::AnfPremium, 2048);
    for size in [Bytes::gib(50), Bytes::tib(100)] {
        assert!(pool.volume_limits(&Volume::new(size)).is_ok(), "{size}");
    }
    for size in [Bytes(Bytes::gib(50).0 - 1), Bytes(Bytes::tib(100).0 + 1)] {
        let refusal = refusal(pool.volume_limits(&Volume::new(size)));
        assert!(refusal.contains("allowed: 50 GiB to 100 TiB [ANF resource limits (Microsoft)"), "{refusal}");
    }
    for size in [Bytes::tib(50), Bytes::pib(1)] {
        assert!(pool.volume_limits(&large(size)).is_ok(), "{size}");
    }
    for size in [Bytes(Bytes::tib(50).0 - 1), Bytes(Bytes::pib(1).0 + 1)] {
        let refusal = refusal(pool.volume_limits(&large(size)));
        assert!(
            refusal.contains("a large volume of")
                && refusal.contains("allowed: 50 TiB to 1 PiB [ANF large volume requirements (Microsoft)")
        );
    }
    let small = Pool::new(Level::AnfPremium, Bytes::tib(1));
    assert!(refusal(small.volume_limits(&Volume::new(Bytes::tib(2)))).contains("at most the pool's 1 TiB"));
}

#[test]
fn large_volumes_are_linear_up_to_12800_mib() {
    for (level, least) in [(Level::AnfStandard, 800), (Level::AnfPremium, 3_200), (Level::AnfUltra, 6_400)] {
        let pool = pool(level, 2048);
        assert_eq!(throughput(&pool, &large(Bytes::tib(50))), BytesPerSecond::mib(least));
        assert_eq!(throughput(&pool, &large(Bytes::tib(1024))), BytesPerSecond::mib(12_800));
    }
    assert_eq!(throughput(&pool(Level::AnfUltra, 101), &large(Bytes::tib(101))), BytesPerSecond::mib(12_800));
}

#[test]
fn alternative_large_ceilings_have_profiles() {
    let at = |level, profile, size| {
        let mut volume = large(size);
        volume.settings.profile = Some(profile);
        pool(level, 2048).volume_limits(&volume).map(|limits| limits.total.combined.unwrap())
    };
    for (level, older, page_002) in [
        (Level::AnfStandard, 1_600, 1_600),
        (Level::AnfPremium, 6_400, 6_400),
        (Level::AnfUltra, 10_240, 12_800),
    ] {
        let size = Bytes::tib(101);
        assert_eq!(at(level, Profile::AnfLarge10240, size), Ok(BytesPerSecond::mib(older)));
        assert_eq!(at(level, Profile::AnfLarge12800ByLevel, size), Ok(BytesPerSecond::mib(page_002)));
        assert!(at(level, Profile::AnfLarge10240, Bytes::tib(500)).is_ok());
        assert!(refusal(at(level, Profile::AnfLarge10240, Bytes::tib(501))).contains("50 TiB to 500 TiB"));
        assert!(at(level, Profile::AnfLargeDedicated, Bytes::pib(2)).is_ok());
        let refused = refusal(at(level, Profile::GcnvVolume5Gib, size));
        assert!(
            refused.contains("anf-large-10240, anf-large-12800-by-level, anf-large-dedicated"),
            "{refused}"
        );
    }
    let mut regular = Volume::new(Bytes::gib(99));
    regular.settings.profile = Some(Profile::AnfRegular100Gib);
    assert!(
        refusal(pool(Level::AnfUltra, 1).volume_limits(&regular)).contains("100 GiB to 100 TiB [ANF for EDA")
    );
}

#[test]
fn inodes_match_documents() {
    let regular = |size| super::inodes(&Volume::new(size));
    assert_eq!(regular(Bytes::gib(50)), 21_251_126);
    assert_eq!(regular(Bytes::gib(683)), 21_251_126);
    assert_eq!(regular(Bytes::tib(1)), 31_876_709);
    assert_eq!(regular(Bytes::tib(10)), 318_767_099);
    assert_eq!(regular(Bytes::tib(100)), 2_147_483_632);
    assert_eq!(super::inodes(&large(Bytes::pib(1))), 15_938_355_048);
    assert_eq!(pool(Level::AnfUltra, 1).inodes(&Volume::new(Bytes::tib(1))), Some(31_876_709));
}

#[test]
fn limits_name_their_origins() {
    let limits = pool(Level::AnfPremium, 4).volume_limits(&Volume::new(Bytes::tib(2))).unwrap();
    let lines: Vec<String> = limits
        .origin
        .iter()
        .map(|one| format!("{}: {} ({})", one.what, one.formula, one.source.name))
        .collect();
    assert_eq!(
        lines,
        [
            "throughput: 2 TiB × 64 MiB/s per TiB = 128 MiB/s (ANF service levels (Microsoft))",
            "throughput ceiling: at most 4,500 MiB/s (ANF service levels (Microsoft))"
        ]
    );
}
