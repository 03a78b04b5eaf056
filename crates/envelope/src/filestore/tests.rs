//! The tables of the Filestore pages row by row, and every edge.

use super::*;
use crate::{PoolSettings, Profile, Volume};

fn refusal<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
    result.unwrap_err().to_string()
}

fn expected(iops: (u64, u64), read: BytesPerSecond, write: BytesPerSecond) -> Ceilings {
    Ceilings {
        read: Some(read),
        write: Some(write),
        read_iops: Some(Iops(iops.0)),
        write_iops: Some(Iops(iops.1)),
        ..Ceilings::default()
    }
}

fn custom(level: Level, size: Bytes, iops: ProvisionedIops) -> Pool {
    let settings = PoolSettings { iops: Some(iops), ..PoolSettings::default() };
    Pool { settings, ..Pool::new(level, size) }
}

fn per_tib(iops: u64) -> ProvisionedIops {
    ProvisionedIops::PerTib(Iops(iops))
}

fn fixed(iops: u64) -> ProvisionedIops {
    ProvisionedIops::Fixed(Iops(iops))
}

#[test]
fn tiers_by_capacity() {
    use Level::{
        FilestoreBasicHdd as Hdd, FilestoreBasicSsd as Ssd, FilestoreEnterprise as Enterprise,
        FilestoreHighScaleSsd as HighScale, FilestoreRegional as Regional, FilestoreZonal as Zonal,
    };
    for (level, gib, iops, mib, clients) in [
        (Hdd, 1_024, (600, 1_000), (100, 100), Some(500)),
        (Hdd, 10_239, (600, 1_000), (100, 100), Some(500)),
        (Hdd, 10_240, (1_000, 5_000), (180, 120), Some(500)),
        (Hdd, 65_433, (1_000, 5_000), (180, 120), Some(500)),
        (Ssd, 2_560, (60_000, 25_000), (1_200, 350), Some(500)),
        (Ssd, 65_433, (60_000, 25_000), (1_200, 350), Some(500)),
        (Zonal, 1_024, (9_200, 2_600), (260, 88), Some(2_000)),
        (Zonal, 1_280, (11_500, 3_250), (325, 110), Some(2_500)),
        (Zonal, 9_984, (89_700, 25_350), (2_535, 858), Some(19_500)),
        (Zonal, 10_240, (92_000, 26_000), (2_600, 880), Some(8_000)),
        (Zonal, 12_800, (115_000, 32_500), (3_250, 1_100), Some(10_000)),
        (Zonal, 102_400, (920_000, 260_000), (26_000, 8_800), Some(80_000)),
        (Regional, 1_024, (12_000, 4_000), (120, 100), Some(2_000)),
        (Regional, 9_984, (117_000, 39_000), (1_170, 975), Some(19_500)),
        (Regional, 10_240, (92_000, 26_000), (2_600, 880), Some(8_000)),
        (Regional, 102_400, (920_000, 260_000), (26_000, 8_800), Some(80_000)),
        (Enterprise, 1_024, (12_000, 4_000), (120, 100), Some(2_000)),
        (Enterprise, 10_240, (120_000, 40_000), (1_200, 1_000), Some(20_000)),
        (HighScale, 10_240, (92_000, 26_000), (2_600, 880), None),
        (HighScale, 102_400, (920_000, 260_000), (26_000, 8_800), None),
    ] {
        let limits = Pool::new(level, Bytes::gib(gib)).limits().unwrap();
        let total = expected(iops, BytesPerSecond::mib(mib.0), BytesPerSecond::mib(mib.1));
        assert_eq!(limits.total, total, "{level} {gib} GiB");
        assert_eq!(limits.clients_max, clients, "{level} {gib} GiB");
        assert_eq!((limits.owner, limits.per_client), (Owner::Volume, Ceilings::default()));
    }
}

#[test]
fn high_scale_of_2021_counts_in_tb_and_per_client() {
    for (tb, iops, mb) in [
        (60, (90_000, 30_000), (3_000, 660)),
        (70, (105_000, 35_000), (3_500, 770)),
        (320, (480_000, 160_000), (16_000, 3_520)),
    ] {
        let limits = Pool::new(Level::FilestoreHighScaleSsd2021, Bytes::tb(tb)).limits().unwrap();
        assert_eq!(limits.total, expected(iops, BytesPerSecond::mb(mb.0), BytesPerSecond::mb(mb.1)));
        let client = expected((15_000, 5_000), BytesPerSecond::mb(500), BytesPerSecond::mb(110));
        assert_eq!(limits.per_client, client);
    }
    for size in [Bytes::tb(50), Bytes::tb(65), Bytes::tb(330), Bytes::tib(60), Bytes::tib(70)] {
        let refusal = refusal(Pool::new(Level::FilestoreHighScaleSsd2021, size).limits());
        let allowed = format!(
            "a pool of {size}; allowed: 60 TB to 320 TB in steps of 10 TB [Filestore performance 2021"
        );
        assert!(refusal.contains(&allowed), "{refusal}");
    }
    // Today's tier does not accept TB.
    assert!(Pool::new(Level::FilestoreHighScaleSsd, Bytes::tb(60)).limits().is_err());
}

#[test]
fn sizes() {
    use Level::{
        FilestoreBasicHdd, FilestoreBasicSsd, FilestoreEnterprise, FilestoreHighScaleSsd, FilestoreRegional,
        FilestoreZonal,
    };
    let bands = "1 TiB to 9.75 TiB in steps of 256 GiB, or 10 TiB to 100 TiB in steps of 2.5 TiB [Filestore service tiers (Google)";
    for (level, gib, allowed) in [
        (FilestoreBasicHdd, 1_023, "1 TiB to 63.9 TiB"),
        (FilestoreBasicHdd, 65_434, "1 TiB to 63.9 TiB"),
        (FilestoreBasicSsd, 2_559, "2.5 TiB to 63.9 TiB"),
        (FilestoreBasicSsd, 65_434, "2.5 TiB to 63.9 TiB"),
        (FilestoreZonal, 768, bands),
        (FilestoreZonal, 1_025, bands),
        (FilestoreZonal, 10_239, bands),
        (FilestoreZonal, 11_264, bands),
        (FilestoreZonal, 104_960, bands),
        (FilestoreRegional, 768, bands),
        (FilestoreRegional, 102_401, bands),
        (FilestoreEnterprise, 768, "1 TiB to 10 TiB in steps of 256 GiB [Filestore performance (Google)"),
        (FilestoreEnterprise, 10_496, "1 TiB to 10 TiB in steps of 256 GiB [Filestore performance (Google)"),
        (
            FilestoreHighScaleSsd,
            7_680,
            "10 TiB to 100 TiB in steps of 2.5 TiB [Filestore performance (Google)",
        ),
        (
            FilestoreHighScaleSsd,
            104_960,
            "10 TiB to 100 TiB in steps of 2.5 TiB [Filestore performance (Google)",
        ),
    ] {
        let refusal = refusal(Pool::new(level, Bytes::gib(gib)).limits());
        assert!(refusal.contains(&format!("; allowed: {allowed}")), "{level} {gib}: {refusal}");
    }
}

#[test]
fn small_sizes_by_profile() {
    let at = |level, gib, profile| {
        let mut pool = Pool::new(level, Bytes::gib(gib));
        pool.settings.profile = Some(profile);
        pool.limits()
    };
    assert!(at(Level::FilestoreBasicHdd, 100, Profile::FilestoreGke).is_ok());
    assert!(at(Level::FilestoreBasicHdd, 99, Profile::FilestoreGke).is_err());
    let small = at(Level::FilestoreRegional, 512, Profile::FilestoreSmall).unwrap();
    assert_eq!(small.total.read_iops, Some(Iops(6_000)));
    let largest = at(Level::FilestoreRegional, 10_239, Profile::FilestoreSmall).unwrap();
    assert_eq!(largest.clients_max, Some(19_500), "not 19,998");
    assert!(at(Level::FilestoreRegional, 99, Profile::FilestoreSmall).is_err());
    assert!(refusal(at(Level::FilestoreZonal, 512, Profile::FilestoreSmall)).contains("allowed: none"));
}

#[test]
fn basic_of_2021_as_printed() {
    let at = |level, gb, profile| {
        let mut pool = Pool::new(level, Bytes::gb(gb));
        pool.settings.profile = profile;
        pool.limits().map(|limits| limits.total)
    };
    let of_2021 = |level, gb| at(level, gb, Some(Profile::Filestore2021));
    let row = |iops, read, write| Ok(expected(iops, BytesPerSecond::mb(read), BytesPerSecond::mb(write)));
    for (level, gb, row) in [
        (Level::FilestoreBasicHdd, 1_000, row((600, 1_000), 100, 100)),
        (Level::FilestoreBasicHdd, 9_999, row((600, 1_000), 100, 100)),
        (Level::FilestoreBasicHdd, 10_000, row((1_000, 5_000), 180, 120)),
        (Level::FilestoreBasicHdd, 63_900, row((1_000, 5_000), 180, 120)),
        (Level::FilestoreBasicSsd, 2_500, row((60_000, 25_000), 1_200, 350)),
        (Level::FilestoreBasicSsd, 63_900, row((60_000, 25_000), 1_200, 350)),
    ] {
        assert_eq!(of_2021(level, gb), row, "{level} {gb} GB");
    }
    assert!(
        refusal(of_2021(Level::FilestoreBasicHdd, 999)).contains("allowed: 1 TB to 63.9 TB in steps of 1 GB")
    );
    assert!(refusal(of_2021(Level::FilestoreBasicSsd, 2_499)).contains("allowed: 2.5 TB to 63.9 TB"));
    assert!(
        of_2021(Level::FilestoreBasicHdd, 63_901).is_err() && of_2021(Level::FilestoreZonal, 10_000).is_err()
    );
    // Today's figures apply to TB too, which are not whole GiB: 10 TB are less than 10 TiB.
    let today = |level, gb| at(level, gb, None);
    assert_eq!(today(Level::FilestoreBasicHdd, 10_000).unwrap().read, Some(BytesPerSecond::mib(100)));
    assert_eq!(today(Level::FilestoreBasicSsd, 63_900).unwrap().read, Some(BytesPerSecond::mib(1_200)));
    assert!(Pool::new(Level::FilestoreBasicSsd, "63.9TiB".parse().unwrap()).limits().is_ok());
}

#[test]
fn custom_performance_by_the_formulas() {
    for (size, iops, read, write, clients) in [
        (Bytes::tib(1), 17_000, 417_792_000, 139_264_000, 1_700),
        (Bytes::tib(1), 9_000, 221_184_000, 73_728_000, 900),
    ] {
        for provisioned in [per_tib(iops), fixed(iops)] {
            let limits = custom(Level::FilestoreZonal, size, provisioned).limits().unwrap();
            assert_eq!(limits.total.combined_iops, Some(Iops(iops)));
            assert_eq!(limits.total.read_iops, Some(Iops(iops)));
            assert_eq!(limits.total.write_iops, Some(Iops(iops * 3 / 10)));
            assert_eq!(limits.total.read, Some(BytesPerSecond(read)));
            assert_eq!(limits.total.write, Some(BytesPerSecond(write)));
            assert_eq!((limits.clients_max, limits.write_cost_thousandths), (Some(clients), 3_330));
        }
    }
}

#[test]
fn custom_performance_by_the_pages_table() {
    for (gib, each, read, write) in [
        (100, 4_000, 2_000, 600),
        (600, 4_000, 2_344, 703),
        (1_024, 4_000, 4_000, 1_200),
        (10_239, 4_000, 39_996, 11_999),
        (100, 17_000, 2_000, 600),
        (600, 17_000, 9_961, 2_988),
        (1_024, 17_000, 17_000, 5_100),
        (10_239, 17_000, 169_983, 50_995),
        (10_240, 3_000, 30_000, 9_000),
        (102_400, 7_500, 750_000, 225_000),
    ] {
        let mut pool = custom(Level::FilestoreRegional, Bytes::gib(gib), per_tib(each));
        pool.settings.profile = Some(Profile::FilestoreSmall);
        let total = pool.limits().unwrap().total;
        assert_eq!(
            (total.read_iops, total.write_iops),
            (Some(Iops(read)), Some(Iops(write))),
            "{gib} {each}"
        );
    }
}

#[test]
fn custom_performance_within_its_ranges() {
    let zonal = |tib, iops| custom(Level::FilestoreZonal, Bytes::tib(tib), iops).limits();
    for (tib, iops) in [(1, 4_000), (9, 17_000), (10, 3_000), (100, 7_500)] {
        assert!(zonal(tib, per_tib(iops)).is_ok(), "{tib} {iops}");
        assert!(zonal(tib, fixed(iops * tib)).is_ok(), "{tib} {iops}");
    }
    for (tib, iops, allowed) in [
        (1, 3_999, "4000 IOPS to 17000 IOPS [Filestore performance (Google)"),
        (9, 17_001, "4000 IOPS to 17000 IOPS [Filestore performance (Google)"),
        (10, 2_999, "3000 IOPS to 7500 IOPS [Filestore performance (Google)"),
        (100, 7_501, "3000 IOPS to 7500 IOPS [Filestore performance (Google)"),
    ] {
        let refusal = refusal(zonal(tib, per_tib(iops)));
        assert!(refusal.contains("operations per TiB of") && refusal.contains(allowed), "{refusal}");
    }
    for (tib, iops, allowed) in [
        (1, 4_500, "4000 IOPS to 17000 IOPS in steps of 1000 IOPS [G"),
        (1, 3_000, "4000 IOPS to 17000 IOPS in steps of 1000 IOPS [G"),
        (2, 35_000, "8000 IOPS to 34000 IOPS in steps of 1000 IOPS [G"),
        (100, 751_000, "300000 IOPS to 750000 IOPS in steps of 1000 IOPS [G"),
    ] {
        assert!(refusal(zonal(tib, fixed(iops))).contains(allowed), "{tib} {iops}");
    }
    let mut smallest = custom(Level::FilestoreRegional, Bytes::gib(100), fixed(2_000));
    smallest.settings.profile = Some(Profile::FilestoreSmall);
    assert_eq!(smallest.limits().unwrap().total.read_iops, Some(Iops(2_000)));
    for iops in [1_000, 3_000] {
        smallest.settings.iops = Some(fixed(iops));
        assert!(refusal(smallest.limits()).contains("allowed: 2000 IOPS to 2000 IOPS"), "{iops}");
    }
    let enterprise = custom(Level::FilestoreEnterprise, Bytes::tib(1), fixed(4_000));
    assert!(refusal(enterprise.limits()).starts_with("filestore/enterprise: operations of the pool"));
}

#[test]
fn the_write_budget_fits_the_write_ceiling() {
    let limits = custom(Level::FilestoreZonal, Bytes::tib(1), fixed(4_000)).limits().unwrap();
    let (all, writes) = (limits.total.combined_iops.unwrap().0, limits.total.write_iops.unwrap().0);
    assert!(writes * u64::from(limits.write_cost_thousandths) / 1000 <= all);
    // The page: 900 writes use 3,000 of 4,000 and leave 1,000 reads. With 3.33, not 10/3, they use 2,997.
    assert_eq!(all - (900 * u64::from(limits.write_cost_thousandths)).div_ceil(1000), 1_003);
}

#[test]
fn pool_and_volume_are_one() {
    let pool = Pool::new(Level::FilestoreZonal, Bytes::tib(2));
    let volume = Volume::new(Bytes::tib(2));
    assert_eq!(pool.volume_limits(&volume), pool.limits());
    assert_eq!(pool.check_volumes(std::slice::from_ref(&volume)), Ok(()));
    assert!(
        refusal(pool.volume_limits(&Volume::new(Bytes::tib(1))))
            .contains("are one instance [Filestore limits (Google)")
    );
    assert!(refusal(pool.check_volumes(&[volume.clone(), volume])).contains("2 volumes; allowed: at most 1"));
}

#[test]
fn capacity_is_bounded_by_the_bought_performance() {
    let pool = custom(Level::FilestoreZonal, Bytes::tib(2), fixed(17_000));
    let volume = Volume::new(Bytes::tib(2));
    let to = |tib| {
        let resize = crate::Resize { to: Bytes::tib(tib), used: Bytes(0), lowest: Bytes::tib(1) };
        pool.check_volume_resize(&volume, &resize)
    };
    assert_eq!((to(1), to(4)), (Ok(()), Ok(())));
    assert!(
        refusal(to(5)).contains("5 TiB with operations of 17000 IOPS; allowed: 20000 IOPS to 85000 IOPS")
    );
}

#[test]
fn files_as_documented() {
    let of = |level, size| Pool::new(level, size).inodes(&Volume::new(size)).unwrap();
    assert_eq!(of(Level::FilestoreBasicHdd, Bytes::tib(63)), 67_108_864);
    assert_eq!(of(Level::FilestoreZonal, Bytes::tib(2)), 178_000_000);
}
