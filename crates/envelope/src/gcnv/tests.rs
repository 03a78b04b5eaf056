//! The worked examples of the GCNV pages, and every edge.

use super::*;
use crate::{PoolSettings, Profile, VolumeSettings};

fn mib(n: u64) -> BytesPerSecond {
    BytesPerSecond::mib(n)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
    result.unwrap_err().to_string()
}

fn volume(size: Bytes, large: bool, profile: Option<Profile>) -> Volume {
    Volume { size, settings: VolumeSettings { large, profile, ..VolumeSettings::default() } }
}

fn pool_with(level: Level, throughput: Option<u64>, iops: Option<u64>) -> Pool {
    let settings = PoolSettings {
        throughput: throughput.map(mib),
        iops: iops.map(|iops| ProvisionedIops::Fixed(Iops(iops))),
        ..PoolSettings::default()
    };
    Pool { settings, ..Pool::new(level, Bytes::tib(10)) }
}

fn of_pool(pool: &Pool) -> Result<(BytesPerSecond, u64), Refusal> {
    let limits = pool.limits()?;
    assert_eq!(limits.owner, Owner::Pool);
    Ok((limits.total.combined.unwrap(), limits.total.combined_iops.unwrap().0))
}

#[test]
fn flex_file_limits_follow_pool_size() {
    let pool = |size| of_pool(&Pool::new(Level::GcnvFlex, size)).unwrap();
    assert_eq!(pool(Bytes::tib(1)), (mib(16), 1_024));
    assert_eq!(pool(Bytes::tib(58)), (mib(928), 59_392));
    assert_eq!(pool(Bytes::tib(59)), (mib(944), 60_000), "operations end first");
    assert_eq!(pool(Bytes::tib(102)), (mib(1_632), 60_000));
    let max: BytesPerSecond = "1.6GiB/s".parse().unwrap();
    assert_eq!(pool(Bytes::tib(103)), (max, 60_000));
    assert_eq!(pool(Bytes::tib(300)), (max, 60_000));
}

#[test]
fn flex_volumes_share_pool_limits() {
    let pool = Pool::new(Level::GcnvFlex, Bytes::tib(1));
    let limits = pool.volume_limits(&Volume::new(Bytes::gib(1))).unwrap();
    assert_eq!((limits.owner, limits.total), (Owner::Pool, Ceilings::default()));
}

#[test]
fn custom_performance() {
    let custom = |throughput, iops| of_pool(&pool_with(Level::GcnvFlexCustom, throughput, iops));
    assert_eq!(custom(None, None), Ok((mib(64), 1_024)));
    assert_eq!(custom(Some(65), None), Ok((mib(65), 1_040)));
    // Page 000's pool: 64 + 5,056 MiB/s include 1,024 + 16 × 5,056 operations; the rest was bought.
    assert_eq!(custom(Some(5_120), None), Ok((mib(5_120), 81_920)));
    assert_eq!(custom(Some(5_120), Some(160_000)), Ok((mib(5_120), 160_000)));
    for throughput in [63, 5_121] {
        let refusal = refusal(custom(Some(throughput), None));
        assert!(
            refusal.contains(
                "allowed: 64 MiB/s to 5120 MiB/s in steps of 1 MiB/s [GCNV service levels (Google)"
            ),
            "{refusal}"
        );
    }
    for iops in [1_039, 160_001] {
        let refusal = refusal(custom(Some(65), Some(iops)));
        assert!(
            refusal.contains("allowed: 1040 IOPS to 160000 IOPS [GCNV service levels (Google)"),
            "{refusal}"
        );
    }
    let mut uneven = pool_with(Level::GcnvFlexCustom, None, None);
    uneven.settings.throughput = Some(BytesPerSecond(mib(64).0 + 1));
    assert!(refusal(uneven.limits()).contains("in steps of 1 MiB/s"));
    let mut per_tib = pool_with(Level::GcnvFlexCustom, None, None);
    per_tib.settings.iops = Some(ProvisionedIops::PerTib(Iops(2_000)));
    assert!(
        refusal(per_tib.limits()).contains("2000 IOPS per TiB; allowed: in all, 1024 IOPS to 160000 IOPS")
    );
}

#[test]
fn performance_is_bought_only_if_sold() {
    assert!(
        refusal(pool_with(Level::GcnvFlex, Some(64), None).limits()).contains("a throughput of the pool")
    );
    assert!(
        refusal(pool_with(Level::GcnvPremium, None, Some(2_000)).limits()).contains("operations of the pool")
    );
}

#[test]
fn unified_pools() {
    assert_eq!(of_pool(&pool_with(Level::GcnvFlexUnified, Some(5_120), None)), Ok((mib(5_120), 81_920)));
    let large = |throughput, iops, profile| {
        let mut pool = pool_with(Level::GcnvFlexUnifiedLarge, throughput, iops);
        pool.settings.profile = profile;
        of_pool(&pool)
    };
    assert_eq!(large(Some(22_528), Some(750_000), None), Ok((mib(22_528), 750_000)));
    assert!(refusal(large(Some(22_529), None, None)).contains("64 MiB/s to 22528 MiB/s"));
    assert!(refusal(large(Some(22_528), Some(750_001), None)).contains("to 750000 IOPS"));
    assert!(large(Some(24_576), None, Some(Profile::GcnvUnifiedLarge24Gib)).is_ok());
    assert!(large(Some(24_577), None, Some(Profile::GcnvUnifiedLarge24Gib)).is_err());

    let mut limited = pool_with(Level::GcnvFlexUnified, Some(1_638), Some(90_000));
    limited.settings.profile = Some(Profile::GcnvUnifiedLimited);
    assert_eq!(of_pool(&limited), Ok((mib(1_638), 90_000)));
    limited.settings.iops = Some(ProvisionedIops::Fixed(Iops(90_001)));
    assert!(refusal(limited.limits()).contains("to 90000 IOPS"));
    limited.settings.throughput = Some(mib(1_639));
    assert!(refusal(limited.limits()).contains("64 MiB/s to 1638.4 MiB/s"));
}

#[test]
fn volume_limits_follow_size() {
    let throughput = |level, volume: &Volume| {
        let limits = Pool::new(level, Bytes::tib(200)).volume_limits(volume).unwrap();
        assert_eq!((limits.owner, limits.total.combined_iops), (Owner::Volume, None));
        limits.total.combined.unwrap()
    };
    for (level, kib) in [(Level::GcnvStandard, 16), (Level::GcnvPremium, 64), (Level::GcnvExtreme, 128)] {
        let hundred = throughput(level, &Volume::new(Bytes::gib(100)));
        assert_eq!(hundred, BytesPerSecond::kib(100 * kib));
        assert_eq!(throughput(level, &Volume::new(Bytes::tib(1))), mib(kib));
    }
    // 75 TiB of Extreme are nominally 9,600 MiB/s; page 000 measured 5,237.
    let extreme = |profile| throughput(Level::GcnvExtreme, &volume(Bytes::tib(75), false, profile));
    assert_eq!(extreme(None), mib(5_237));
    assert_eq!(extreme(Some(Profile::GcnvVolume4_5Gib)), mib(4_608));
    assert_eq!(extreme(Some(Profile::GcnvVolume5Gib)), mib(5_120));
}

#[test]
fn large_volumes() {
    let at = |profile, size| {
        Pool::new(Level::GcnvExtreme, Bytes::pib(10)).volume_limits(&volume(size, true, profile))
    };
    let total = |profile, size| at(profile, size).unwrap().total;
    assert_eq!(total(None, Bytes::tib(15)).combined, Some(mib(1_920)));
    assert_eq!(total(None, Bytes::pib(3)).combined, Some(mib(30_720)));
    assert_eq!(total(Some(Profile::GcnvLarge12_5Gib), Bytes::pib(1)).combined, Some(mib(12_800)));
    let measured = total(Some(Profile::GcnvLarge21_5Gib), Bytes::pib(1));
    assert_eq!((measured.combined, measured.combined_iops), (Some(mib(22_016)), Some(Iops(1_350_000))));
    // The measured limit applies unless the documented one is chosen.
    assert_eq!(total(None, Bytes::pib(3)).combined_iops, Some(Iops(1_350_000)));
    let documented = total(Some(Profile::GcnvLarge30Gib), Bytes::pib(3));
    assert_eq!((documented.combined, documented.combined_iops), (Some(mib(30_720)), None));
    assert!(
        refusal(at(None, Bytes::gib(15_359)))
            .contains("allowed: 15 TiB to 3 PiB in steps of 1 GiB [GCNV quotas (Google)")
    );
    assert!(refusal(at(None, Bytes::tib(3_073))).contains("a large volume of 3073 TiB"));
    assert!(refusal(at(Some(Profile::GcnvLarge12_5Gib), Bytes::tib(1_025))).contains("15 TiB to 1 PiB"));
    let standard = Pool::new(Level::GcnvStandard, Bytes::tib(200));
    assert!(refusal(standard.volume_limits(&volume(Bytes::tib(15), true, None))).contains("regular volumes"));
}

#[test]
fn manual_qos_shares_pool_throughput() {
    let mut pool = Pool::new(Level::GcnvPremium, Bytes::tib(2));
    pool.settings.qos = Some(Qos::Manual);
    let by_hand = |n| {
        let settings = VolumeSettings { throughput: Some(mib(n)), ..VolumeSettings::default() };
        Volume { size: Bytes::gib(100), settings }
    };
    assert_eq!(pool.check_volumes(&[by_hand(100), by_hand(28)]), Ok(()));
    assert!(
        refusal(pool.check_volumes(&[by_hand(100), by_hand(29)])).contains("at most the pool's 128 MiB/s")
    );
    pool.level = Level::GcnvFlex;
    assert!(refusal(pool.limits()).starts_with("gcnv/flex: manual QoS"));
}

#[test]
fn pool_sizes_match_documents() {
    for (level, least, max) in [
        (Level::GcnvFlex, Bytes::tib(1), Bytes::tib(300)),
        (Level::GcnvFlexCustom, Bytes::tib(1), Bytes::tib(300)),
        (Level::GcnvFlexUnified, Bytes::tib(1), Bytes::tib(425)),
        (Level::GcnvFlexUnifiedLarge, Bytes::tib(6), Bytes::tib(2_560)),
        (Level::GcnvStandard, Bytes::tib(2), Bytes::tib(200)),
        (Level::GcnvPremium, Bytes::tib(2), Bytes::pib(10)),
        (Level::GcnvExtreme, Bytes::tib(2), Bytes::pib(10)),
    ] {
        assert!(Pool::new(level, least).limits().is_ok() && Pool::new(level, max).limits().is_ok());
        let step = Bytes::gib(1).0;
        for size in [Bytes(least.0 - step), Bytes(max.0 + step), Bytes(least.0 + 1)] {
            let refusal = refusal(Pool::new(level, size).limits());
            let allowed = format!(
                "{level}: a pool of {}; allowed: {least} to {max} in steps of 1 GiB [GCNV quotas (Google)",
                size.for_people()
            );
            assert!(refusal.starts_with(&allowed), "{refusal}");
        }
    }
}

#[test]
fn volume_sizes_match_documents() {
    for (level, least, max) in [
        (Level::GcnvFlex, Bytes::gib(1), Bytes::tib(300)),
        (Level::GcnvFlexUnified, Bytes::gib(1), Bytes::tib(128)),
        (Level::GcnvFlexUnifiedLarge, Bytes::gib(4_916), Bytes::tib(2_560)),
        (Level::GcnvStandard, Bytes::gib(100), Bytes::tib(100)),
        (Level::GcnvExtreme, Bytes::gib(100), Bytes::tib(100)),
    ] {
        let pool = Pool::new(level, level.info().pool_sizes.unwrap().ranges[0].max);
        assert!(pool.volume_limits(&Volume::new(least)).is_ok(), "{level}");
        assert!(pool.volume_limits(&Volume::new(max)).is_ok(), "{level}");
        for size in [Bytes(least.0 - Bytes::gib(1).0), Bytes(max.0 + Bytes::gib(1).0)] {
            let refusal = refusal(pool.volume_limits(&Volume::new(size)));
            assert!(
                refusal.contains(&format!(
                    "{level}: a volume of {}; allowed: {least} to {max}",
                    size.for_people()
                )),
                "{refusal}"
            );
        }
    }
}

#[test]
fn tiered_sizes_match_documents() {
    let level = Level::GcnvFlexUnifiedLarge;
    let mut pool = Pool::new(level, Bytes::pib(20));
    assert!(pool.limits().is_err());
    pool.settings.profile = Some(Profile::GcnvUnifiedLargeTieredPool);
    assert!(pool.limits().is_ok());
    let tiered = Some(Profile::GcnvUnifiedLargeTiered);
    assert!(pool.volume_limits(&volume(Bytes::pib(20), false, tiered)).is_ok());
    let small = Some(Profile::GcnvUnifiedLarge2400Gib);
    assert!(pool.volume_limits(&volume(Bytes::gib(2_400), false, small)).is_ok());
    assert!(
        refusal(pool.volume_limits(&volume(Bytes::gib(2_399), false, small)))
            .contains("[GCNV volumes overview (Google)")
    );
}

#[test]
fn inodes_match_documents() {
    let of = |level, size| Pool::new(level, size).inodes(&Volume::new(size)).unwrap();
    assert_eq!(of(Level::GcnvPremium, Bytes::gib(100)), 21_200_000);
    assert_eq!(of(Level::GcnvPremium, Bytes::tib(1)), 33_554_432);
    assert_eq!(of(Level::GcnvFlex, Bytes::gib(10)), 310_000);
}
