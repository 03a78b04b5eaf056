//! Pages and plots over real advice.

use envelope::{
    Access, Bytes, BytesPerSecond, Iops, Level, Measured, MeasuredPoint, Price, Prices, Protocol, Stream,
    Workload, advise,
};

use super::*;
use crate::document::plot::{Chart, Lines, Mark, Plot};

fn random(kib: u64, reads: u32, iops: u64) -> Stream {
    Stream::from_iops(Access::Random, Bytes(kib << 10), reads, Iops(iops))
}

fn sequential(kib: u64, reads: u32, mib: u64) -> Stream {
    let rate = BytesPerSecond::mib(mib);
    Stream { access: Access::Sequential, block: Bytes(kib << 10), read_thousandths: reads, rate }
}

fn workload_of(tib: u64, streams: &[Stream]) -> Workload {
    Workload { streams: streams.to_vec(), ..Workload::new(Bytes::tib(tib)) }
}

fn only(level: Level) -> Catalog {
    Catalog { large: Some(false), ..Catalog::of([level]) }
}

fn plotted(workload: &Workload, catalog: &Catalog) -> (Plot, Lines) {
    let advice = advise(workload, catalog).unwrap();
    let plot = plot::of(&advice.options[0], workload, catalog).unwrap();
    let Chart::Lines(lines) = plot.chart.clone() else { panic!("{plot:?}") };
    (plot, lines)
}

/// The page of one workload without notes and years.
fn page_of(advice: &Advice, catalog: &Catalog, chosen: usize) -> String {
    html(advice, Sized { name: "", workload: &advice.workload, notes: &[] }, catalog, chosen, None)
}

fn marks<'a>(lines: &'a Lines, name: &str) -> Vec<&'a Mark> {
    lines.marks.iter().filter(|mark| mark.name.starts_with(name)).collect()
}

/// Blocks of 8 KiB; points are (percent of reads, MiB/s).
fn measured(source: &str, points: &[(u32, u64)]) -> Measured {
    let point = |&(reads, mib): &(u32, u64)| MeasuredPoint {
        access: Access::Random,
        block: Bytes(8192),
        read_thousandths: reads * 10,
        clients: 1,
        rate: BytesPerSecond::mib(mib),
        latency_us: 1000,
    };
    Measured {
        source: source.to_owned(),
        level: Level::Custom,
        large: false,
        protocol: Protocol::NfsV3,
        co_located: false,
        working_set: Bytes::gib(10),
        points: points.iter().map(point).collect(),
    }
}

#[test]
fn workload_is_point_below_ceilings() {
    let workload = Workload { average_percent: 50, ..workload_of(60, &[random(8, 700, 100_000)]) };
    let (plot, lines) = plotted(&workload, &only(Level::GcnvExtreme));
    assert_eq!((lines.x.label.as_str(), lines.y.label.as_str()), ("reads, % of the data", "IOPS"));
    let peak = marks(&lines, "peak, the bar 30 % headroom")[0];
    assert_eq!((peak.at, peak.up_to, peak.hollow), ((70.0, 100_000.0), Some(130_000.0), false));
    let average = marks(&lines, "average")[0];
    assert_eq!((average.at, average.up_to, average.hollow), ((70.0, 50_000.0), None, true));
    let names: Vec<(&str, bool)> = lines.lines.iter().map(|line| (line.name.as_str(), line.ideal)).collect();
    assert_eq!(names, [("limit: all bounds together", false), ("documented limits", true)]);
    assert!(lines.lines.iter().all(|line| line.points.len() == 101), "a point each percent");
    let published = marks(&lines, "curve where it was published");
    let mixes: Vec<f64> = published.iter().map(|mark| mark.at.0).collect();
    assert_eq!(mixes, [0.0, 25.0, 50.0, 75.0, 100.0]);
    assert_eq!([3, 4].map(|at: usize| published[at].at.1.round()), [176_100.0, 265_000.0], "as on the page");
    // Between published mixes the ceiling is uncertain; at them it is exact.
    let at = |reads: f64| *lines.areas[0].points.iter().find(|(at, _, _)| *at == reads).unwrap();
    let ((_, low, high), (_, same, equal)) = (at(70.0), at(75.0));
    assert!(low < high && same == equal && plot.note.is_empty(), "{plot:?}");
}

#[test]
fn small_random_blocks_plot_operations_and_others_data() {
    let unit = |streams: &[Stream]| {
        let (_, lines) = plotted(&workload_of(60, streams), &only(Level::AnfUltra));
        (lines.y.label.clone(), marks(&lines, "peak")[0].at.1)
    };
    assert_eq!(unit(&[random(16, 500, 2_000)]), ("IOPS".to_owned(), 2_000.0));
    assert_eq!(unit(&[random(64, 500, 1_600)]), ("MiB/s".to_owned(), 100.0));
    assert_eq!(unit(&[sequential(8, 500, 100)]), ("MiB/s".to_owned(), 100.0));
    let both = [sequential(64, 750, 300), random(8, 250, 12_800)];
    assert_eq!(unit(&both), ("MiB/s".to_owned(), 400.0));
    let (plot, lines) = plotted(&workload_of(60, &both), &only(Level::AnfUltra));
    assert_eq!(marks(&lines, "peak")[0].at.0, 62.5);
    assert!(plot.note.contains("but at 62.5 % each has its own"), "{}", plot.note);
}

#[test]
fn uncovered_mix_is_a_gap() {
    let catalog = Catalog {
        measured: vec![measured("run 7", &[(40, 700), (60, 800)]), measured("run 8", &[(100, 900)])],
        ..Catalog::of([Level::Custom])
    };
    let (plot, lines) = plotted(&workload_of(1, &[random(8, 500, 60_000)]), &catalog);
    assert_eq!(lines.lines.len(), 1, "our own levels have no documented limits: {:?}", lines.lines);
    let ends = |points: &[(f64, f64)]| (points[0].0, points[points.len() - 1].0);
    assert_eq!(ends(&lines.lines[0].points), (40.0, 60.0));
    let alone: Vec<(f64, bool)> =
        marks(&lines, "limit: all bounds together").iter().map(|mark| (mark.at.0, mark.hollow)).collect();
    assert_eq!(alone, [(100.0, true)]);
    let measured_at: Vec<f64> =
        marks(&lines, "curve where it was measured").iter().map(|mark| mark.at.0).collect();
    assert_eq!(measured_at, [40.0, 60.0, 100.0]);
    assert_eq!(plot.note, "Where the line has a gap no curve covers the mix: nothing is extrapolated.");
}

#[test]
fn unknown_ceilings_are_noted() {
    let note = |streams: &[Stream], catalog: &Catalog| plotted(&workload_of(10, streams), catalog);
    let (plot, lines) = note(&[random(8, 500, 10_000)], &only(Level::FilestoreZonal));
    assert_eq!(plot.note, "No curve covers this load: only the documented limits are drawn.");
    assert!(lines.lines.iter().all(|line| line.ideal) && lines.areas.is_empty());
    let large = Catalog { large: Some(true), ..Catalog::of([Level::GcnvExtreme]) };
    let (plot, lines) = note(&[Stream::eda(Iops(10_000))], &large);
    assert_eq!(plot.note, "The mix of this load is fixed: its ceiling is known at 52.5 % reads alone.");
    assert_eq!((lines.lines.len(), lines.y.label.as_str()), (0, "IOPS"));
    assert_eq!(marks(&lines, "limit: all bounds together")[0].at.0, 52.5);
    let extreme = Catalog {
        measured: vec![Measured { level: Level::GcnvExtreme, ..measured("run 9", &[(30, 700), (90, 900)]) }],
        ..only(Level::GcnvExtreme)
    };
    let (plot, lines) = note(&[random(8, 500, 10_000)], &extreme);
    assert!(plot.note.contains("broken between measured and published"), "{}", plot.note);
    let solid: Vec<f64> =
        lines.lines.iter().filter(|line| !line.ideal).map(|line| line.points[0].0).collect();
    assert_eq!(solid, [0.0, 30.0, 91.0]);
}

#[test]
fn far_limits_do_not_flatten_the_load() {
    let (plot, lines) = plotted(&workload_of(10, &[random(8, 500, 100)]), &only(Level::FilestoreZonal));
    assert_eq!(plot.note, "No curve covers this load, and the documented limits are far above it.");
    assert!(lines.lines.is_empty() && marks(&lines, "peak").len() == 1, "{lines:?}");
}

#[test]
fn use_and_cost_come_first_in_the_table_of_options() {
    let price = Price { per_gib: 100_000, ..Price::default() };
    let prices = Prices { currency: "EUR".to_owned(), levels: vec![(Level::AnfPremium, price)] };
    let catalog = Catalog { prices: Some(prices), ..only(Level::AnfPremium) };
    let workload = workload_of(20, &[random(8, 700, 10_000)]);
    let page = page_of(&advise(&workload, &catalog).unwrap(), &catalog, 0);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at(">At peak<") < at(">Cost a month<") && at(">Cost a month<") < at(">Pools<"));
    assert!(page.contains("<dt>Next size</dt><dd>anf/premium, 1 × 21 TiB: 102.40 EUR a month more</dd>"));
}

#[test]
fn page_has_every_option_once_and_opens_chosen() {
    let levels = [Level::AnfUltra, Level::GcnvExtreme, Level::FilestoreBasicHdd, Level::Unlimited];
    let currency = "<EUR>".to_owned();
    let price = Price { per_gib: 100_000, ..Price::default() };
    let prices = Prices { currency, levels: vec![(Level::AnfUltra, price)] };
    let catalog = Catalog { prices: Some(prices), large: Some(false), ..Catalog::of(levels) };
    let mut workload = workload_of(20, &[sequential(64, 600, 2_000)]);
    (workload.growth_percent, workload.latency_us, workload.clients) = (50, Some(1500), Some(6));
    let advice = advise(&workload, &catalog).unwrap();
    assert_eq!((advice.options.len(), advice.misses.len()), (2, 1), "{advice:?}");
    let page = page_of(&advice, &catalog, 1);
    crate::document::tests::check_page(&page);
    for once in [
        "<h1>What to buy for 30 TiB, 2,000 MiB/s and 32,000 IOPS</h1>",
        "<dd>20 TiB now, 30 TiB with 50 % growth</dd>",
        "<dt>Latency</dt><dd>at most 1.50 ms on average</dd>",
        "<th scope=\"row\">Stream 1</th><td>2,000</td><td>32,000</td>",
        "<h2>Option 2: gcnv/extreme, 1 × 30 TiB</h2>",
        "<summary>Option 1: anf/ultra, 1 × 30 TiB</summary>",
        "<p class=\"result\">gcnv/extreme, 1 × 30 TiB.</p>",
        "<tr class=\"page\"><th scope=\"row\">2. gcnv/extreme</th>",
        "<summary>Not enough: filestore/basic-hdd</summary>",
        "plimsoll/unlimited: has no limits",
    ] {
        assert_eq!(page.matches(once).count(), 1, "{once}");
    }
    assert!(page.contains("3,072.00 &lt;EUR&gt;") && !page.contains("<EUR>"));
    assert_eq!(page.matches("<svg viewBox").count(), 3, "a plot for each");
    assert!(page.contains("<td class=\"share over\" style=\"--share: 100.0%\">416.0 %</td>"));
    let shares = page.matches("<td class=\"share\" style=\"--share: ").count();
    let bounds = advice.options.iter().chain(&advice.misses).flat_map(|one| &one.constraints);
    let fitting = bounds.filter(|one| one.used.fits()).count();
    assert_eq!(shares, 2 + fitting, "at the peak of both options, and every bound that fits");
}

#[test]
fn page_of_unusual_workload_is_valid() {
    let evil = "</td></svg><script>alert(1)</script>\" onload='x'";
    let catalog =
        Catalog { measured: vec![measured(evil, &[(0, 700), (100, 800)])], ..Catalog::of([Level::Custom]) };
    let workload = workload_of(1, &[random(8, 500, 20_000)]);
    let page = page_of(&advise(&workload, &catalog).unwrap(), &catalog, 0);
    crate::document::tests::check_page(&page);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert"));
    // Without a load there is no plot.
    let empty = workload_of(1, &[]);
    let all = Catalog::default();
    let page = page_of(&advise(&empty, &all).unwrap(), &all, 0);
    crate::document::tests::check_page(&page);
    assert!(!page.contains("<svg viewBox") && page.contains("<h1>What to buy for 1 TiB</h1>"));
    // No option fits: the page has only misses.
    let oversized = Workload { volumes_max: 1, ..workload_of(1, &[random(8, 500, 50_000_000)]) };
    let advice = advise(&oversized, &all).unwrap();
    assert!(advice.options.is_empty());
    let page = page_of(&advice, &all, 0);
    crate::document::tests::check_page(&page);
    assert!(page.contains("<p class=\"stamp\">No option carries this load. The nearest choice:</p>"));
    assert_eq!(page.matches("<summary>Not enough: ").count(), advice.misses.len());
}

#[test]
fn loads_round_up_and_ceilings_round_down() {
    let just_over = BytesPerSecond((100 << 20) + 1);
    let load = Stream { rate: just_over, ..sequential(64, 1000, 0) };
    let workload = workload_of(1, &[load]);
    let catalog = only(Level::AnfFlexible);
    let page = page_of(&advise(&workload, &catalog).unwrap(), &catalog, 0);
    assert!(page.contains("What to buy for 1 TiB, 101 MiB/s and 1,601 IOPS"), "{page}");
    // The setting is in the form that commands accept, and equals the option's maximum.
    assert!(page.contains("pool manual QoS, 131 MiB/s; volume 131 MiB/s"), "{page}");
    assert!(page.contains("131 MiB/s or 2,096 IOPS of this mix"), "{page}");
    let shown = |rate| question::ceiling_in_mib(BytesPerSecond(rate)).to_string();
    assert_eq!([(131 << 20) - 1, 131 << 20, (9 << 20) - 1].map(shown), ["130", "131", "8.99"]);
}

fn users(tib: u64, growth_percent: u32, iops: u64) -> Workload {
    Workload { growth_percent, ..workload_of(tib, &[random(8, 700, iops)]) }
}

#[test]
fn plan_page_has_the_form_of_the_single_one() {
    let price = Price { per_gib: 100_000, ..Price::default() };
    let levels = vec![(Level::AnfPremium, price), (Level::GcnvFlex, price)];
    let prices = Some(Prices { currency: "EUR".to_owned(), levels });
    let levels = [Level::AnfPremium, Level::GcnvFlex, Level::Unlimited];
    let catalog = Catalog { prices, large: Some(false), ..Catalog::of(levels) };
    let workloads = [
        ("home".to_owned(), users(4, 50, 2_000)),
        ("<db>".to_owned(), users(2, 0, 3_000)),
        ("archive".to_owned(), workload_of(1, &[])),
    ];
    let plan = envelope::plan(&workloads, &catalog).unwrap();
    let mut for_years = workloads.clone();
    for_years.iter_mut().for_each(|(_, workload)| workload.years = 3);
    let years = plan.options[0].years(&for_years, &catalog).unwrap();
    let notes = ["4 TiB are assumed".to_owned()];
    let asked: Vec<Sized<'_>> =
        workloads.iter().map(|(name, workload)| Sized { name, workload, notes: &notes }).collect();
    let page =
        plan_html(&plan, &asked, &catalog, 0, Some(&Years::of_plan(&years, &["home", "<db>", "archive"])));
    crate::document::tests::check_page(&page);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    let order = [
        "<h1>What to buy for 3 workloads: 9 TiB, 39.1 MiB/s and 5,000 IOPS</h1>",
        "<p class=\"result\">anf/premium: 9 TiB in 1 pool, 3 volumes, 921.60 EUR a month.</p>",
        "<p class=\"limit\">The load closest to its limit: ",
        "Load of each workload and its limit",
        ">limit: the load that the volumes carry</text>",
        "<h2>Options</h2>",
        ">At peak<",
        ">Cost a month<",
        "<h2>Years</h2>\n<p>It is outgrown in year 2.",
        "<h2>Option 1: anf/premium, 9 TiB in 1 pool",
        ">Next size<",
        ">10 TiB: +102.40 EUR<",
        "<summary>home: anf/premium</summary>",
        "<summary>The workloads and their assumptions</summary>",
        "<summary>Skipped levels (1)</summary>",
        "<summary>Sources (",
    ];
    assert!(order.is_sorted_by_key(|text| at(text)), "{:?}", order.map(at));
    assert!(page.contains("home: 150.0 % of its capacity") && page.contains("<li>4 TiB are assumed</li>"));
    assert!(page.contains("&lt;db&gt;") && !page.contains("<db>"));
    assert_eq!(page.matches("class=\"level limit\"").count(), 2, "in the plot and in its legend");
}

#[test]
fn plan_page_of_nothing_that_fits_is_valid() {
    let catalog = only(Level::FilestoreBasicHdd);
    let workloads = [("home".to_owned(), users(1, 0, 100)), ("db".to_owned(), users(1, 0, 500_000))];
    let plan = envelope::plan(&workloads, &catalog).unwrap();
    let asked: Vec<Sized<'_>> =
        workloads.iter().map(|(name, workload)| Sized { name, workload, notes: &[] }).collect();
    let page = plan_html(&plan, &asked, &catalog, 0, None);
    crate::document::tests::check_page(&page);
    assert!(page.contains("<p class=\"stamp\">No level carries all workloads.</p>"));
    assert!(page.contains("filestore/basic-hdd: does not carry db") && !page.contains("<svg viewBox"));
}

#[test]
fn years_and_assumptions_of_one_workload_are_on_its_page() {
    let catalog = only(Level::AnfPremium);
    let workload = Workload { years: 2, capacity_headroom_percent: 20, ..users(10, 20, 5_000) };
    let advice = advise(&workload, &catalog).unwrap();
    let years = advice.options[0].years(&workload, &catalog).unwrap();
    let notes = ["like home: assumed".to_owned()];
    let asked = Sized { name: "", workload: &workload, notes: &notes };
    let page = html(&advice, asked, &catalog, 0, Some(&Years::of_choice(&years, &workload)));
    crate::document::tests::check_page(&page);
    let said = "It carries every year. The data grow by 20 % a year; the load stays the same. The option is sized \
                for year 2. Each size includes the headroom.";
    assert!(page.contains(said), "{page}");
    assert!(page.contains("10 TiB now, 14.41 TiB with 20 % growth a year over 2 years"));
    assert!(page.contains("20 % over the data, for snapshots: 17.29 TiB"));
    assert!(page.contains("17694.73 GiB needed of 17695 GiB"), "{page}");
    assert!(page.contains("<li>like home: assumed</li>"));
}
