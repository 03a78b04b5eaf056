//! Plans of several workloads.

use super::*;
use crate::{Access, BytesPerSecond, Iops, Price, Prices, RaiseStep, Stream};

fn named(name: &str, tib: u64, iops: u64) -> (String, Workload) {
    let streams = match iops {
        0 => Vec::new(),
        _ => vec![Stream::from_iops(Access::Random, Bytes(8192), 700, Iops(iops))],
    };
    (name.to_owned(), Workload { streams, ..Workload::new(Bytes::tib(tib)) })
}

fn only(workloads: &[(String, Workload)], level: Level) -> PlanOption {
    let catalog = Catalog { large: Some(false), ..Catalog::of([level]) };
    plan(workloads, &catalog).unwrap().options.into_iter().next().unwrap()
}

#[test]
fn workloads_share_a_pool_where_the_level_allows() {
    let workloads = [named("home", 3, 500), named("db", 2, 10_000), named("old", 1, 0)];
    for level in [Level::AnfPremium, Level::AnfFlexible, Level::GcnvFlex, Level::GcnvExtreme] {
        let option = only(&workloads, level);
        assert_eq!((option.pools.len(), option.pool_count()), (1, 1), "{level}");
        let volumes = option.volumes();
        assert_eq!(volumes.iter().map(|volume| volume.workload).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(volumes.iter().all(|volume| volume.choice.fits()), "{level}");
        let sizes: Vec<_> = volumes.iter().map(|volume| volume.choice.volume.clone()).collect();
        assert_eq!(option.pools[0].pool.check_volumes(&sizes), Ok(()), "{level}");
    }
    // An instance is one volume.
    assert_eq!(only(&workloads, Level::FilestoreZonal).pools.len(), 3);
}

#[test]
fn shared_pool_carries_all_loads_together() {
    let alone = only(&[named("a", 4, 6_000)], Level::GcnvFlex).pools[0].pool.size;
    let together = only(&[named("a", 4, 6_000), named("b", 4, 6_000)], Level::GcnvFlex);
    assert_eq!(together.pools.len(), 1);
    assert!(together.capacity() >= Bytes(2 * alone.0), "{alone} {}", together.capacity());
    let shared = &together.volumes()[0].choice;
    assert!(shared.constraints.iter().any(|one| one.formula.contains("all workloads")));
}

#[test]
fn one_workload_is_planned_as_it_is_advised() {
    for level in [Level::AnfPremium, Level::AnfFlexible, Level::GcnvFlex, Level::FilestoreZonal] {
        let workloads = [named("only", 5, 8_000)];
        let catalog = Catalog { large: Some(false), ..Catalog::of([level]) };
        let advised = advise(&workloads[0].1, &catalog).unwrap().options.remove(0);
        assert_eq!(only(&workloads, level).volumes()[0].choice, advised, "{level}");
    }
}

#[test]
fn level_that_misses_a_workload_is_left_out_by_its_name() {
    let catalog = Catalog { large: Some(false), ..Catalog::of([Level::FilestoreBasicHdd]) };
    let plan = plan(&[named("home", 1, 100), named("db", 1, 500_000)], &catalog).unwrap();
    assert!(plan.options.is_empty());
    assert_eq!(plan.left_out[0].why, "does not carry db");
    let none = super::plan(&[], &catalog).unwrap_err().to_string();
    assert!(none.contains("1 to 50"), "{none}");
}

#[test]
fn cheapest_plan_mixes_levels_of_a_provider() {
    let price = |per_gib| Price { per_gib, ..Price::default() };
    let levels = vec![(Level::AnfStandard, price(100_000)), (Level::AnfUltra, price(300_000))];
    let prices = Prices { currency: "EUR".to_owned(), levels };
    let levels = [Level::AnfStandard, Level::AnfUltra];
    let catalog = Catalog { prices: Some(prices), large: Some(false), ..Catalog::of(levels) };
    let stream = |mib| Stream {
        access: Access::Sequential,
        block: Bytes(65_536),
        read_thousandths: 1000,
        rate: BytesPerSecond::mib(mib),
    };
    let of = |name: &str, tib, mib| {
        (name.to_owned(), Workload { streams: vec![stream(mib)], ..Workload::new(Bytes::tib(tib)) })
    };
    let plan = plan(&[of("archive", 30, 20), of("render", 2, 700)], &catalog).unwrap();
    assert_eq!(plan.options[0].levels(), levels);
    assert!(plan.options.windows(2).all(|pair| pair[0].cost <= pair[1].cost));
    let sum: u64 = plan.options[0].pools.iter().map(|pool| pool.cost.as_ref().unwrap().millionths).sum();
    assert_eq!(plan.options[0].cost.as_ref().unwrap().millionths, sum);
}

#[test]
fn pools_of_a_plan_have_a_next_size_and_a_next_level_with_their_cost() {
    let price = |per_gib| Price { per_gib, ..Price::default() };
    let levels = vec![(Level::AnfPremium, price(200_000)), (Level::AnfUltra, price(300_000))];
    let prices = Some(Prices { currency: "EUR".to_owned(), levels });
    let catalog = Catalog { prices, large: Some(false), ..Catalog::of([Level::AnfPremium]) };
    let shown = |workloads: &[(String, Workload)]| {
        let option = plan(workloads, &catalog).unwrap().options.remove(0);
        let [raises] = &option.raises(workloads, &catalog)[..] else { panic!("one kind of pool") };
        let shown: Vec<_> = raises
            .iter()
            .map(|raise| {
                (raise.step, raise.pool.level, raise.pool.size, raise.more.as_ref().unwrap().millionths)
            })
            .collect();
        (option.pools[0].volumes.len(), shown)
    };
    // 1 TiB at 0.20 per GiB, and 5 TiB at 0.10 more.
    let steps = [
        (RaiseStep::Size, Level::AnfPremium, Bytes::tib(6), 204_800_000),
        (RaiseStep::Level, Level::AnfUltra, Bytes::tib(5), 512_000_000),
    ];
    assert_eq!(shown(&[named("home", 3, 500), named("db", 2, 2_000)]), (2, steps.to_vec()));
    assert_eq!(shown(&[named("home", 5, 500)]), (1, steps.to_vec()));
}

#[test]
fn plan_is_outgrown_by_the_workload_that_grows() {
    let mut workloads = [named("home", 3, 500), named("db", 2, 2_000)];
    workloads[0].1.growth_percent = 50;
    let catalog = Catalog { large: Some(false), ..Catalog::of([Level::AnfPremium]) };
    let option = plan(&workloads, &catalog).unwrap().options.remove(0);
    workloads.iter_mut().for_each(|(_, workload)| workload.years = 2);
    let years = option.years(&workloads, &catalog).unwrap();
    let data: Vec<Bytes> = years.iter().map(|year| year.data).collect();
    assert_eq!(data, [Bytes::tib(5), Bytes(6656 << 30), Bytes(8960 << 30)]);
    let outgrown: Vec<Option<usize>> =
        years.iter().map(|year| year.outgrown.as_ref().map(|(workload, _)| *workload)).collect();
    assert_eq!(outgrown, [None, None, Some(0)]);
    let needs: Vec<Bytes> = years.iter().map(|year| year.smallest.as_ref().unwrap().capacity()).collect();
    assert_eq!(needs[1], option.capacity(), "it was sized for year 1");
    let last = plan(&workloads, &catalog).unwrap().options.remove(0);
    assert_eq!(last.capacity(), needs[2], "two years were asked for");
    assert!(last.years(&workloads, &catalog).unwrap().iter().all(|year| year.outgrown.is_none()));
    assert!(needs[0] < needs[1] && needs[1] < needs[2], "{needs:?}");
}
