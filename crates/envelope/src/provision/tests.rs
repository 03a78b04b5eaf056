//! Fit, changes, and properties of every level.

use super::*;
use crate::ProvisionedIops;
use proptest::prelude::*;

fn refusal<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
    result.unwrap_err().to_string()
}

fn resize(to: Bytes) -> Resize {
    Resize { to, used: Bytes(0), lowest: to }
}

#[test]
fn volumes_fit_into_pool() {
    let pool = Pool::new(Level::GcnvFlex, Bytes::tib(1));
    let volumes = vec![Volume::new(Bytes::gib(20)); 50];
    assert_eq!(pool.check_volumes(&volumes), Ok(()));
    let many = vec![Volume::new(Bytes::gib(1)); 51];
    assert!(refusal(pool.check_volumes(&many)).contains("a pool with 51 volumes; allowed: at most 50"));
    let more = vec![Volume::new(Bytes::gib(513)); 2];
    assert!(refusal(pool.check_volumes(&more)).contains("volumes of 1026 GiB together; allowed: at most"));
    let one_bad = vec![Volume::new(Bytes::gib(20)), Volume::new(Bytes(1))];
    assert!(refusal(pool.check_volumes(&one_bad)).contains("a volume of 1 B"));
}

#[test]
fn pool_shrinks_only_if_allowed_and_not_below_volumes() {
    let volumes = [Volume::new(Bytes::tib(3))];
    let anf = Pool::new(Level::AnfPremium, Bytes::tib(4));
    assert_eq!(anf.check_resize(Bytes::tib(3), &volumes), Ok(()));
    assert!(refusal(anf.check_resize(Bytes::tib(2), &volumes)).contains("at most the pool's 2 TiB"));
    assert!(refusal(anf.check_resize(Bytes::gib(3_500), &volumes)).contains("in steps of 1 TiB"));
    let flex = Pool::new(Level::GcnvFlex, Bytes::tib(4));
    assert_eq!(flex.check_resize(Bytes::tib(4), &volumes), Ok(()));
    assert_eq!(flex.check_resize(Bytes::tib(5), &volumes), Ok(()));
    assert!(
        refusal(flex.check_resize(Bytes::tib(3), &volumes))
            .contains("allowed: 4 TiB or more [GCNV service levels (Google)")
    );
    let premium = Pool::new(Level::GcnvPremium, Bytes::tib(4));
    assert_eq!(premium.check_resize(Bytes::tib(3), &volumes), Ok(()));
}

#[test]
fn volume_does_not_shrink_below_stored_data() {
    let (pool, volume) = (Pool::new(Level::AnfUltra, Bytes::tib(4)), Volume::new(Bytes::tib(2)));
    let to =
        |size, used| pool.check_volume_resize(&volume, &Resize { to: size, used, lowest: Bytes::tib(1) });
    assert_eq!(to(Bytes::tib(1), Bytes::tib(1)), Ok(()));
    assert!(
        refusal(to(Bytes::tib(1), Bytes(Bytes::tib(1).0 + 1)))
            .contains("stored in it [ANF service levels (Microsoft)")
    );
    assert!(refusal(to(Bytes::tib(5), Bytes(0))).contains("at most the pool's 4 TiB"));
    assert!(refusal(to(Bytes::gib(49), Bytes(0))).contains("50 GiB to 100 TiB"));
}

#[test]
fn large_anf_volume_grows_by_30_percent() {
    let mut volume = Volume::new(Bytes::tib(100));
    volume.settings.large = true;
    let grow = |level, to| {
        let resize = Resize { to, used: Bytes(0), lowest: Bytes::tib(100) };
        Pool::new(level, Bytes::tib(1_000)).check_volume_resize(&volume, &resize)
    };
    assert_eq!(grow(Level::AnfUltra, Bytes::tib(130)), Ok(()));
    let refused = refusal(grow(Level::AnfUltra, Bytes(Bytes::tib(130).0 + 1)));
    assert!(
        refused.contains(
            "at most 30 % over the least size it had, 100 TiB [ANF large volume requirements (Microsoft)"
        ),
        "{refused}"
    );
    // A volume that grew further with a ticket keeps its size, and may shrink.
    let grown = Volume { size: Bytes::tib(200), ..volume.clone() };
    let less = Resize { to: Bytes::tib(190), used: Bytes(0), lowest: Bytes::tib(100) };
    assert_eq!(Pool::new(Level::AnfUltra, Bytes::tib(1_000)).check_volume_resize(&grown, &less), Ok(()));
    assert_eq!(grow(Level::GcnvExtreme, Bytes::tib(500)), Ok(()), "a rule of ANF's");
}

#[test]
fn instance_resizes_with_volume() {
    let change = |level, from, to: Bytes| {
        let pool = Pool::new(level, from);
        pool.check_volume_resize(&Volume::new(from), &resize(to))
    };
    let (hdd, zonal) = (Level::FilestoreBasicHdd, Level::FilestoreZonal);
    assert_eq!(change(hdd, Bytes::tib(2), Bytes::tib(20)), Ok(()));
    assert!(
        refusal(change(hdd, Bytes::tib(2), Bytes::tib(1)))
            .contains("allowed: 2 TiB or more [Filestore limits (Google)")
    );
    assert_eq!(change(zonal, Bytes::tib(2), Bytes::tib(1)), Ok(()));
    assert!(refusal(change(zonal, Bytes::tib(2), Bytes::gib(1_100))).contains("in steps of 256 GiB"));
    let across = refusal(change(zonal, Bytes::tib(9), Bytes::tib(10)));
    assert!(
        across.contains("allowed: 1 TiB to 9.75 TiB in steps of 256 GiB [Filestore service tiers (Google)"),
        "{across}"
    );
    assert!(refusal(change(zonal, Bytes::tib(10), Bytes::tib(9))).contains("10 TiB to 100 TiB"));
    let pool = Pool::new(zonal, Bytes::tib(2));
    assert!(refusal(pool.check_resize(Bytes::tib(3), &[])).contains("resizing its volume"));
}

#[test]
fn declared_limits_apply() {
    let total = Ceilings {
        read: Some(BytesPerSecond::mib(100)),
        combined_iops: Some(Iops(5_000)),
        ..Ceilings::default()
    };
    let per_client = Ceilings::combined(BytesPerSecond::mb(10));
    let declared = Declared { total, per_client, clients_max: Some(7) };
    let mut pool = Pool::new(Level::Custom, Bytes(1_000));
    let mut volume = Volume::new(Bytes(1_000));
    volume.settings.declared = declared.clone();
    let limits = pool.volume_limits(&volume).unwrap();
    assert_eq!((limits.owner, limits.total, limits.per_client), (Owner::Volume, total, per_client));
    assert_eq!(limits.clients_max, Some(7));
    assert_eq!(pool.limits().unwrap().total, Ceilings::default());
    pool.settings.declared = declared;
    let limits = pool.limits().unwrap();
    assert_eq!((limits.owner, limits.total), (Owner::Pool, total));
    assert_eq!(pool.inodes(&volume), None);

    volume.settings.declared.clients_max = Some(0);
    assert!(refusal(pool.volume_limits(&volume)).contains("a limit of zero"));
    volume.settings.declared.clients_max = None;
    volume.settings.declared.per_client.write = Some(BytesPerSecond(0));
    assert!(refusal(pool.volume_limits(&volume)).contains("a limit of zero"));
    pool.settings.declared.total.write_iops = Some(Iops(0));
    assert!(refusal(pool.limits()).contains("allowed: 1 or more, or no limit"));
}

#[test]
fn unlimited_level_accepts_no_settings() {
    let mut pool = Pool::new(Level::Unlimited, Bytes::pib(100));
    let limits = pool.volume_limits(&Volume::new(Bytes::pib(100))).unwrap();
    assert_eq!((limits.total, limits.per_client, limits.clients_max), Default::default());
    pool.settings.declared.clients_max = Some(1);
    assert!(refusal(pool.limits()).starts_with("plimsoll/unlimited: custom limits of the pool"));
    let mut volume = Volume::new(Bytes(1));
    volume.settings.declared.clients_max = Some(1);
    let premium = Pool::new(Level::AnfPremium, Bytes::tib(1));
    assert!(refusal(premium.volume_limits(&volume)).starts_with("anf/premium: custom limits of the volume"));
}

#[test]
fn unsupported_setting_is_refused() {
    let mut tiered = Pool::new(Level::FilestoreZonal, Bytes::tib(1));
    tiered.settings.tiering = true;
    assert!(refusal(tiered.limits()).starts_with("filestore/zonal: cool access or auto-tiering"));
    let mut profiled = Pool::new(Level::AnfUltra, Bytes::tib(1));
    profiled.settings.profile = Some(Profile::AnfLarge10240);
    let refused = refusal(profiled.limits());
    assert!(refused.contains("the profile anf-large-10240 for a pool; allowed: none"), "{refused}");
}

#[test]
fn settings_serialize_and_parse() {
    let stored = r#"{"level":"gcnv/flex-custom","size":1099511627776,"settings":{"throughput":67108864,"iops":{"fixed":2000}}}"#;
    let pool: Pool = serde_json::from_str(stored).unwrap();
    assert_eq!(pool.settings.iops, Some(ProvisionedIops::Fixed(Iops(2_000))));
    assert_eq!(serde_json::from_str::<Pool>(&serde_json::to_string(&pool).unwrap()).unwrap(), pool);
    assert!(serde_json::from_str::<PoolSettings>(r#"{"trhoughput":1}"#).is_err(), "typing errors are found");
}

/// Unlimited ceilings count as the maximum.
fn numbers(ceilings: &Ceilings) -> [u64; 6] {
    let rate = |rate: Option<BytesPerSecond>| rate.map_or(u64::MAX, |rate| rate.0);
    let iops = |iops: Option<Iops>| iops.map_or(u64::MAX, |iops| iops.0);
    [
        rate(ceilings.read),
        rate(ceilings.write),
        rate(ceilings.combined),
        iops(ceilings.read_iops),
        iops(ceilings.write_iops),
        iops(ceilings.combined_iops),
    ]
}

fn size_in(range: Range<Bytes>, at: u64) -> Bytes {
    let steps = (range.max.0 - range.min.0) / range.step.0;
    Bytes(range.min.0 + steps * at / 1000 * range.step.0)
}

fn level() -> impl Strategy<Value = Level> {
    (0..Level::all().len()).prop_map(|place| Level::all()[place])
}

proptest! {
    #[test]
    fn no_limit_falls_when_a_pool_grows(level in level(), band in 0usize..2, a in 0u64..=1000, b in 0u64..=1000) {
        let Some(bands) = level.info().pool_sizes else { return Ok(()) };
        let range = bands.ranges[band.min(bands.ranges.len() - 1)];
        let limits = |at| Pool::new(level, size_in(range, at)).limits().unwrap();
        let (small, big) = (limits(a.min(b)), limits(a.max(b)));
        for (small, big) in numbers(&small.total).into_iter().zip(numbers(&big.total)) {
            prop_assert!(small <= big, "{} {:?}", level, range);
        }
        prop_assert!(small.clients_max <= big.clients_max);
    }

    #[test]
    fn no_limit_falls_when_a_volume_grows(level in level(), large: bool, a in 0u64..=1000, b in 0u64..=1000) {
        let info = level.info();
        let bands = if large { info.large_volume_sizes } else { info.volume_sizes };
        let (Some(bands), Some(pools)) = (bands, info.pool_sizes) else { return Ok(()) };
        if info.qos[0] == Qos::Manual {
            return Ok(());
        }
        let pool = Pool::new(level, pools.ranges[0].max);
        let volume = |at| {
            let settings = VolumeSettings { large, ..VolumeSettings::default() };
            Volume { size: size_in(bands.ranges[0], at), settings }
        };
        let (small, big) = (volume(a.min(b)), volume(a.max(b)));
        let total = |volume| numbers(&pool.volume_limits(volume).unwrap().total);
        for (small, big) in total(&small).into_iter().zip(total(&big)) {
            prop_assert!(small <= big, "{} {}", level, large);
        }
        prop_assert!(pool.inodes(&small) <= pool.inodes(&big));
    }

    #[test]
    fn no_size_and_no_setting_panics(
        level in level(),
        size: u64,
        volume: u64,
        rate in proptest::option::of(any::<u64>()),
        iops in proptest::option::of(any::<u64>()),
        (per_tib, tiering, large, manual) in any::<(bool, bool, bool, bool)>(),
        profile in proptest::option::of(0..Profile::all().len()),
    ) {
        let profile = profile.map(|place| Profile::all()[place]);
        let kind = if per_tib { ProvisionedIops::PerTib } else { ProvisionedIops::Fixed };
        let throughput = rate.map(BytesPerSecond);
        let settings = PoolSettings {
            qos: manual.then_some(Qos::Manual),
            throughput,
            iops: iops.map(|iops| kind(Iops(iops))),
            tiering,
            profile,
            ..PoolSettings::default()
        };
        let volume = Volume {
            size: Bytes(volume),
            settings: VolumeSettings { throughput, large, profile, ..VolumeSettings::default() },
        };
        for size in [Bytes(size), Bytes::tib(10), Bytes::tib(60)] {
            let pool = Pool { level, size, settings: settings.clone() };
            for size in [volume.size, size] {
                let volume = Volume { size, ..volume.clone() };
                let refusals = [
                    pool.limits().map(drop),
                    pool.volume_limits(&volume).map(drop),
                    pool.check_volumes(&[volume.clone(), volume.clone()]),
                    pool.check_volume_resize(&volume, &resize(Bytes::tib(20))),
                ];
                for refusal in refusals.into_iter().filter_map(Result::err) {
                    prop_assert!(!refusal.what.is_empty() && !refusal.allowed.is_empty());
                }
                prop_assert!(pool.inodes(&volume).is_some() || level.info().provider == Provider::Plimsoll);
            }
        }
    }
}
