//! Complete reports: as literal text, and as pages with hostile names.

use super::table::{Table, Value};
use super::*;
use crate::result::{
    Caveat, CaveatKind, Direction, Distribution, FORMAT, Measurement, Operation, Summary, TargetFacts,
};
use crate::result::{Cell, Run};
use crate::scenario::{Pattern, Point, Preset, Scenario, Series, Stability};

/// 64 KiB each, in ten seconds, with a fixed latency in milliseconds.
fn operation(direction: Direction, ops: u64, ms: u64) -> Operation {
    let service = Distribution { steps: vec![(ms * 1_000_000, ops)], sum_ns: ops * ms * 1_000_000 };
    let name = if direction == Direction::Read { "read" } else { "write" };
    Operation { name: name.to_owned(), direction, ops, bytes: ops << 16, service, response: None }
}

fn cell(read_percent: u8, reads: u64, writes: u64) -> Cell {
    let operations = vec![operation(Direction::Read, reads, 2), operation(Direction::Write, writes, 4)];
    let measurements = vec![Measurement { seconds: 10.0, operations, ..Measurement::default() }];
    let point =
        Point { block: 64 << 10, read_percent, clients: 6, connections: 16, depth: 4, ..Point::default() };
    let summary = Summary::of(&measurements);
    Cell { series: 0, point, search: Vec::new(), measurements, summary, caveats: Vec::new() }
}

/// Five mixes with round figures; one cell has no result.
fn small() -> Run {
    let series = Series {
        name: "64 KiB sequential".to_owned(),
        blocks: vec![64 << 10],
        pattern: Pattern::Sequential,
        reads: vec![100, 75, 50, 25, 0],
        clients: vec![6],
        connections: vec![16],
        stability: Stability::FileSync,
        published: ["gcnv-extreme-nfs3-64k-seq", "no-such-thing"].map(str::to_owned).to_vec(),
        ..Series::default()
    };
    let mut cells = vec![
        cell(100, 800_000, 0),
        cell(75, 360_000, 120_000),
        cell(50, 200_000, 200_000),
        cell(25, 90_000, 270_000),
        cell(0, 0, 320_000),
    ];
    cells[3].caveats.push(Caveat::new(CaveatKind::Void, "2 reads were short"));
    cells[4].caveats.push(Caveat::new(CaveatKind::Variation, "5.5 % between repetitions"));
    Run {
        format: FORMAT.to_owned(),
        version: "0.1.0".to_owned(),
        started: 0.0,
        finished: 60.0,
        ended_early: None,
        scenario: Scenario {
            name: "small".to_owned(),
            title: "Small".to_owned(),
            about: String::new(),
            page: None,
            series: vec![series],
            pairs: Vec::new(),
        },
        preset: Preset::Quick,
        seed: 7,
        target: TargetFacts {
            target: "nfs://h/v".to_owned(),
            protocol: "NFSv3".to_owned(),
            generator: "built-in NFSv3 client".to_owned(),
            ..TargetFacts::default()
        },
        machines: Vec::new(),
        file_sizes: Vec::new(),
        working_sets: Vec::new(),
        scaled: Vec::new(),
        cells,
        verdict: None,
        caveats: Vec::new(),
    }
}

const MARKDOWN: &str = r"# Small

**quick: shorter than the method requires**

In short:

- Measured: nfs://h/v
- 64 KiB sequential: reads up to 5,000 MiB/s, writes up to 2,000 MiB/s; 1 of 5 points without a result; doubtful: variation

- Target: nfs://h/v
- Over: NFSv3, by built-in NFSv3 client
- Volume: unknown: pass --data or --url to query the service for level, limits, durability and export
- Preset: quick: in minutes, shorter than the method requires
- Measured: 1970-01-01 00:00:00 UTC to 1970-01-01 00:01:00 UTC
- Scenario: small
- Made by: Plimsoll 0.1.0, seed 7

## 64 KiB sequential

- Load: reads and writes of 64 KiB, sequential; read/write % 100/0, 75/25, 50/50, 25/75, 0/100
- Clients: 6 clients with 16 connections each (nconnect)
- Jobs: 8 of each client, 4 calls in flight each, searched for
- Calls: one for each operation of 64 KiB
- Working set: unknown; requested: 1 TiB
- Server's cache: as found
- Writes: data and attributes safe when answered

| Read/write %                            |  100/0 |  75/25 |  50/50 | 25/75 |    0/100 |
|-----------------------------------------|-------:|-------:|-------:|------:|---------:|
| Read MiB/s                              |  5,000 |  2,250 |  1,250 |  void |        0 |
| Write MiB/s                             |      0 |    750 |  1,250 |  void |    2,000 |
| Total MiB/s                             |  5,000 |  3,000 |  2,500 |  void |    2,000 |
| Total IOPS                              | 80,000 | 48,000 | 40,000 |  void |   32,000 |
| p50 ms                                  |   2.00 |   2.00 |   2.00 |  void |     4.00 |
| p95 ms                                  |   2.00 |   4.00 |   4.00 |  void |     4.00 |
| p99 ms                                  |   2.00 |   4.00 |   4.00 |  void |     4.00 |
| Calls in flight                         |    192 |    192 |    192 |  void |      192 |
| Doubts                                  |        |        |        |  void | variation |
| GCNV Extreme, 75 TiB: published, an estimate of the maximum | | | | | |
| Read MiB/s   |  5,237 |  2,284 |  1,415 |   610 |        0 |
| Write MiB/s  |      0 |    764 |  1,416 | 1,835 |    2,172 |
| Total MiB/s  |  5,237 |  3,048 |  2,831 | 2,445 |    2,172 |
| Measured ÷ published |   0.95 |   0.98 |   0.88 |       |     0.92 |

Doubts:

- void: 2 reads were short (25/75 % read/write)
- variation: 5.5 % between repetitions (0/100 % read/write)

Published:

- GCNV Extreme, 75 TiB: NFSv3, 64 KiB sequential, 6 clients (gcnv-extreme-nfs3-64k-seq). Source: GCNV benchmarks (Google), cloud.google.com/netapp/volumes/docs/performance/performance-benchmarks. Google measured more than 5 GiB/s; today's pages cap regular volumes at 4.5 or 5 GiB/s.
- Google's figures are estimates of the maximum, measured with settings chosen for it.
- no-such-thing: not among the published figures of this version
";

#[test]
fn markdown_report_matches_golden_text() {
    // Column widths are tested with the tables.
    let narrow = |text: &str| {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = text.lines().filter(|line| !line.starts_with("|--"));
        lines.map(words).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(narrow(&markdown(&[Report::of(&small())])), narrow(MARKDOWN));
}

#[test]
fn markdown_columns_are_aligned() {
    let report = Report::of(&small());
    let table = markdown_table(&report.sections[0].tables[0]);
    let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|&width| width == widths[0]), "{table}");
    assert!(table.lines().nth(1).unwrap().ends_with("-----:|"), "{table}");
}

#[test]
fn csv_has_one_row_per_cell() {
    let report = Report::of(&small());
    let text = csv(&[report.clone(), report]);
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines.len(), 1 + 2 * 5 + 1, "a head, the cells of both runs, the end");
    let head: Vec<&str> = lines[0].split(',').collect();
    assert!(lines[1..11].iter().all(|line| line.split(',').count() == head.len()), "{text}");
    let figure = |line: usize, name: &str| {
        let column = head.iter().position(|one| *one == name).unwrap();
        lines[line].split(',').nth(column).unwrap()
    };
    assert_eq!(
        lines[2].split(",75,").next().unwrap(),
        "small,nfs://h/v,0,quick,no,64 KiB sequential,transfers,sequential,\
         data and attributes safe when answered,as found,8,65536"
    );
    assert_eq!(figure(2, "read_mib_per_s_median"), "2250.000");
    assert_eq!(figure(2, "all_p95_ms"), "4.0000");
    assert_eq!(
        figure(2, "published"),
        "gcnv-extreme-nfs3-64k-seq read 2284 MiB/s; gcnv-extreme-nfs3-64k-seq write 764 MiB/s; \
         gcnv-extreme-nfs3-64k-seq total 3048 MiB/s"
    );
    assert_eq!((figure(4, "iops_median"), figure(4, "doubts")), ("", "void"));
    assert_eq!(lines[1], lines[6]);
}

fn check_nesting(page: &str) {
    const VOID: [&str; 5] = ["meta", "br", "wbr", "!doctype", "link"];
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes what is open");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

pub(super) fn check_page(page: &str) {
    check_nesting(page);
    for outside in ["http:", "https:", "src=", "@import", "<script", "NaN", ">inf", "\"inf"] {
        assert!(!page.contains(outside), "{outside} in {}", page.lines().nth(5).unwrap_or_default());
    }
    // Links lead to anchors of the page itself.
    for link in page.split("href=\"").skip(1) {
        let place = link.strip_prefix('#').and_then(|link| link.split('"').next()).unwrap();
        assert_eq!(page.matches(&format!("id=\"{place}\"")).count(), 1, "{place}");
    }
}

#[test]
fn pages_are_self_contained() {
    for run in [small(), sample::gcnv(), sample::connections(), sample::depths(), sample::eda()] {
        check_page(&html(&[Report::of(&run)]));
    }
}

#[test]
fn hostile_names_stay_text() {
    let mut run = sample::gcnv();
    let evil = "</td></svg><script>alert(1)</script>\" onload='x' | `x` [x](y)";
    run.scenario.title = evil.to_owned();
    run.scenario.series[0].name = evil.to_owned();
    run.scenario.series[0].published = vec![evil.to_owned()];
    run.target.target = evil.to_owned();
    run.machines[0].host = evil.to_owned();
    run.scaled = vec![evil.to_owned()];
    run.cells[0].caveats.push(Caveat::new(CaveatKind::Other, evil));
    let machine = run.cells[0].measurements[0].wire.clone();
    run.cells[0].measurements[0].wire = machine.into_values().map(|calls| (evil.to_owned(), calls)).collect();
    let report = Report::of(&run);
    let page = html(std::slice::from_ref(&report));
    check_nesting(&page);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert"));
    let text = markdown(&[report]);
    assert!(!text.replace("\\<", "").contains('<') && !text.contains("[x]("), "{text}");
    let rows = text.lines().filter(|line| line.starts_with("| Read MiB/s"));
    assert!(rows.count() >= 2, "tables are still tables");
}

fn rows_of<'a>(table: &'a Table, label: &str) -> Vec<&'a table::Row> {
    table.rows.iter().filter(|row| row.label.starts_with(label)).collect()
}

#[test]
fn connections_show_gains() {
    let report = Report::of(&sample::connections());
    let section = &report.sections[0];
    assert_eq!(section.tables.len(), 2, "pure reads and pure writes");
    assert_eq!(section.tables[0].head[1..], ["1", "2", "4", "8", "16"]);
    let gains = rows_of(&section.tables[0], "Gain over 1 connection");
    let last = gains[0].cells.last().unwrap().plain().parse::<f64>().unwrap();
    // The model: n / (n + 8), from 1/9 to 16/24.
    assert!((last - 6.0).abs() < 0.2, "{last}");
    let plain = |table: &Table, label: &str| -> Vec<String> {
        rows_of(table, label)[0].cells.iter().map(Value::plain).collect()
    };
    // The page's figures with nconnect do not apply to one connection: there the implied figures are shown.
    let [reads, writes] = &section.tables[..] else { panic!("{:?}", section.tables) };
    assert_eq!(plain(reads, "Published gain of nconnect"), ["", "7", "7", "7", "7"]);
    assert_eq!(plain(writes, "Published gain of nconnect"), ["", "7.20", "7.20", "7.20", "7.20"]);
    let published = |table: &Table, label: &str| {
        let rows = rows_of(table, label).into_iter().filter(|row| row.kind == table::RowKind::Published);
        rows.map(|row| row.cells.iter().map(Value::plain).collect::<Vec<_>>()).next().unwrap()
    };
    assert_eq!(published(reads, "Read IOPS")[..2], ["≈ 60,857", "426000"]);
    assert_eq!(published(writes, "Write IOPS")[..2], ["≈ 56,250", "405000"]);
    let over = plain(reads, "Measured ÷ published");
    assert!(over[0].parse::<f64>().unwrap() > 0.9 && over[4].parse::<f64>().unwrap() > 0.8, "{over:?}");
    let gains = section.plots.iter().find(|plot| plot.title == "Gain over connections").unwrap();
    let plot::Chart::Lines(lines) = &gains.chart else { panic!("{gains:?}") };
    assert_eq!(lines.levels[0], (7.0, "published: read 7 × (8 KiB random)".to_owned()));
    assert!(section.citations[0].contains("under one connection (≈)"), "{}", section.citations[0]);
    assert!(section.citations[1].contains("7.20 × (8 KiB random)"), "{}", section.citations[1]);
}

#[test]
fn depths_are_rows_and_a_curve() {
    let report = Report::of(&sample::depths());
    let section = &report.sections[0];
    let labels: Vec<&str> = section.tables[0].rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels[..2], ["1 in flight a job", "2 in flight a job"]);
    let curve = section.plots.iter().find(|plot| plot.title == "Latency against throughput").unwrap();
    let plot::Chart::Lines(lines) = &curve.chart else { panic!("{curve:?}") };
    let names: Vec<&str> = lines.lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["p50", "p95", "p99"]);
    assert_eq!(lines.lines[0].points.len(), 6);
}

#[test]
fn job_sets_have_response_curve() {
    let report = Report::of(&sample::eda());
    let section = &report.sections[0];
    assert_eq!(section.tables[0].rows[3].label, "36");
    assert_eq!(section.tables[0].rows[3].cells[0].plain(), "16200");
    let plot::Chart::Lines(lines) = &section.plots[0].chart else { panic!("{:?}", section.plots[0]) };
    assert_eq!((lines.levels[0].0, lines.lines.len(), lines.lines[0].points.len()), (2.0, 3, 10));
    assert!(lines.uprights[0].1.starts_with("knee, "), "{:?}", lines.uprights);
    assert!(section.citations[0].contains("39,601 IOPS, 692 MiB/s"), "{}", section.citations[0]);
    let beside = &section.tables[1];
    let plain = |row: usize| beside.rows[row].cells.iter().map(Value::plain).collect::<Vec<_>>();
    assert_eq!(plain(1), ["", "", "39601", "692"]);
    assert_eq!(plain(2), ["1760", "0.48", "", ""]);
    assert_eq!(beside.rows[1].label, "ANF regular volume, EDA load (published)");
    let fact = |name: &str| section.facts.iter().find(|(label, _)| label == name).unwrap().1.as_str();
    // The model's response time, 0.48 / (1 − rate / 43,000) ms twice over for writes, passes 2 ms after 63
    // sets.
    assert!(fact("Rate at 2 ms").contains("(63 job sets, mean 1.88 ms"), "{}", fact("Rate at 2 ms"));
    let service = fact("Rate at 2 ms").split_once("by the service time ").unwrap().1;
    // The service time of a point is shorter by the model's 1.6.
    let mean: f64 = service.split_once("mean ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    let row = section.tables[0].rows.iter().find(|row| service.contains(&format!("({} job sets", row.label)));
    let [in_table, response] = [4, 5].map(|at| row.unwrap().cells[at].plain().parse::<f64>().unwrap());
    assert!((mean - in_table).abs() < 0.02 && response > 1.5 * mean, "{service} {in_table} {response}");
    assert!(fact("Valid").starts_with("10 of 10 points"), "{}", fact("Valid"));
    assert!(report.highlights[1].1.contains("63 job sets"), "{:?}", report.highlights);
}

#[test]
fn curve_shows_its_end_and_refined_points() {
    let mut run = sample::eda();
    // The last step missed its rate, and a later point came closer.
    let mut short = run.cells.remove(9);
    short.measurements.iter_mut().for_each(|one| one.seconds *= 1.25);
    run.cells.insert(8, short);
    let section = &Report::of(&run).sections[0];
    let fact = |name: &str| section.facts.iter().find(|(label, _)| label == name).unwrap().1.as_str();
    assert!(fact("Valid").starts_with("9 of 10 points; the first that is not, at 90 job sets: "));
    assert!(fact("Refined").contains("(63 job sets"), "{}", fact("Refined"));
    assert_eq!(section.tables[0].rows[8].label, "81 (refined)");
    assert_eq!(section.tables[0].rows[9].cells[7], Value::from("no"));
}

#[test]
fn single_repetition_has_no_variation() {
    let mut run = sample::depths();
    let varies = |run: &Run| Report::of(run).sections[0].tables[0].head.contains(&"Variation %".to_owned());
    assert!(varies(&run));
    run.cells.iter_mut().for_each(|cell| cell.measurements.truncate(1));
    assert!(!varies(&run));
}

#[test]
fn fairness_index_of_equal_and_unequal_clients() {
    assert!((figures::fairness(&[5.0; 7]) - 1.0).abs() < 1e-9);
    assert!((figures::fairness(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
    let run = sample::gcnv();
    let rates = figures::of_clients(&run.cells[0]);
    let sum: f64 = rates.iter().map(|(ops, _)| ops).sum();
    assert_eq!(rates.len(), 6);
    assert!((sum / run.cells[0].summary.iops.median - 1.0).abs() < 0.02, "{sum}");
}

#[test]
fn blocks_and_mixes_make_heatmap() {
    use plot::Spot;
    let map = |report: &Report, index: usize| match &report.plots[index].chart {
        plot::Chart::Heatmap(heat) => heat.clone(),
        other => panic!("{other:?}"),
    };
    let heat = map(&Report::of(&sample::gcnv()), 0);
    assert_eq!((heat.columns.len(), heat.rows.len()), (5, 4));
    assert_eq!(heat.rows[2].1[3], Spot::NoResult, "the cell that is void");
    assert!(Report::of(&sample::connections()).plots.is_empty());

    // Cached loads stay separate from uncached ones, and gaps of one are not filled from the other.
    let mut run = sample::gcnv();
    let mut series = run.scenario.series[0].clone();
    series.name = "64 KiB sequential, cached".to_owned();
    series.reads = vec![100, 0];
    run.scenario.series.extend([series.clone(), series]);
    for (index, percent) in [(4, 100), (4, 0), (5, 100)] {
        let mut cell = run.cells[if percent == 100 { 0 } else { 4 }].clone();
        cell.series = index;
        run.cells.push(cell);
    }
    let report = Report::of(&run);
    assert_eq!(report.plots.len(), 2);
    assert_eq!(map(&report, 0), heat);
    let cached = map(&report, 1);
    assert_eq!((cached.columns.len(), cached.rows.len()), (2, 2));
    assert_eq!(cached.rows[0].0, "64 KiB sequential, cached");
    assert_eq!(cached.rows[1].1[1], Spot::NotMeasured, "a run that ended early");
}

#[test]
fn published_bars_are_also_relative() {
    let report = Report::of(&sample::gcnv());
    let titles: Vec<&str> = report.sections[0].plots.iter().map(|plot| plot.title.as_str()).collect();
    assert_eq!(titles[..2], ["Rates by mix", "The same, each relative to its own largest"]);
    let plot::Chart::Bars(bars) = &report.sections[0].plots[1].chart else { panic!("{titles:?}") };
    assert_eq!((bars.unit.as_str(), bars.stacks.len()), ("%", 2));
    for stack in &bars.stacks {
        let total = |group: usize| stack.parts.iter().filter_map(|part| part.values[group]).sum::<f64>();
        let largest = (0..5).map(total).fold(0.0, f64::max);
        assert!((largest - 100.0).abs() < 1e-9, "{stack:?}");
    }
    let names: Vec<&str> = bars.stacks[1].parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["GCNV Extreme, 75 TiB read", "GCNV Extreme, 75 TiB write"]);
}

#[test]
fn shaped_volume_is_compared_with_scaled_curve() {
    let mut run = sample::gcnv();
    let volume = run.target.volume.as_mut().unwrap();
    (volume.shape_scale_thousandths, volume.limits) = (Some(500), crate::result::Limits::default());
    let report = Report::of(&run);
    assert!(report.highlights[0].1.contains("follows GCNV Extreme, 75 TiB"), "{}", report.highlights[0].1);
    assert!(report.highlights[0].1.contains("× 0.5"), "{}", report.highlights[0].1);
    let table = &report.sections[0].tables[0];
    let number = |label: &str| rows_of(table, label)[0].cells[0].plain().parse::<f64>().unwrap();
    let (over, scaled) = (number("Measured ÷ published"), number("Measured ÷ published × 0.5"));
    assert!((scaled / over - 2.0).abs() < 0.03, "{over} {scaled}");
    let server = &report.sections[0].details[0];
    assert!(server.rows[0].cells[3].plain().starts_with("its curve at this mix, 2,618 MiB/s"), "{server:?}");
    let fact = |name: &str| report.facts.iter().find(|(label, _)| label == name).unwrap().1.clone();
    assert!(fact("Durability").starts_with("sync: ") && fact("Export") == "unknown");
}

#[test]
fn facts_show_setup_of_run() {
    let mut run = sample::connections();
    run.scenario.series[0].blocks = vec![256 << 10];
    run.scenario.series[0].transfers = vec![64 << 10];
    run.working_sets = vec![64 << 20];
    let facts = Report::of(&run).sections[0].facts.clone();
    let fact = |name: &str| facts.iter().find(|(label, _)| label == name).unwrap().1.as_str();
    assert_eq!(fact("Clients"), "1 client with 1, 2, 4, 8, 16 connections (nconnect)");
    assert_eq!(fact("Jobs"), "8 of each client, 16 calls in flight each, searched for");
    assert_eq!(fact("Calls"), "4 for each operation of 256 KiB (rsize=wsize=65536)");
    assert_eq!(fact("Working set"), "64 MiB instead of 1 TiB");
    let eda = Report::of(&sample::eda()).sections[0].facts.clone();
    assert!(eda.iter().all(|(_, value)| !value.contains("% read/write")), "{eda:?}");
}

#[test]
fn unfinished_run_reports_measured_points() {
    for mut run in [small(), sample::gcnv(), sample::connections(), sample::depths(), sample::eda()] {
        run.ended_early = Some("interrupted".to_owned());
        for left in [1, 0] {
            run.cells.truncate(left);
            let report = Report::of(&run);
            assert!(report.stamps.contains(&"ended early: interrupted".to_owned()));
            assert_eq!(report.sections[0].tables.is_empty(), left == 0);
            assert_eq!(report.highlights.len(), 1 + left);
            assert_eq!(report.cells.rows.len(), left);
            check_nesting(&html(&[report]));
        }
    }
}

#[test]
fn ratio_says_where_run_is_unlike_page() {
    let mut run = sample::gcnv();
    let label = |run: &Run, series: usize| {
        rows_of(&Report::of(run).sections[series].tables[0], "Measured ÷ published")[0].label.clone()
    };
    assert_eq!(label(&run, 0), "Measured ÷ published");
    let other = run.scenario.series[1].name.clone();
    run.caveats = vec![Caveat::new(CaveatKind::UnlikePage, format!("another level ({other})"))];
    assert_eq!(label(&run, 0), "Measured ÷ published", "of the other series");
    assert_eq!(label(&run, 1), "Measured ÷ published, unlike the page");
    run.caveats = vec![Caveat::new(CaveatKind::UnlikePage, "another level")];
    assert_eq!(label(&run, 0), "Measured ÷ published, unlike the page");
}

#[test]
fn gain_over_missing_result_is_empty() {
    let mut run = sample::connections();
    run.cells[0].caveats.push(Caveat::new(CaveatKind::Void, "connections were lost"));
    let report = Report::of(&run);
    let tables = &report.sections[0].tables;
    assert!(rows_of(&tables[0], "Gain").is_empty());
    assert_eq!(rows_of(&tables[1], "Gain").len(), 2);
}

#[test]
fn server_rates_use_server_seconds() {
    let mut run = sample::gcnv();
    let server_rates = |run: &Run| {
        let details = &Report::of(run).sections[0].details;
        details[0].rows[0].cells[0].plain().parse::<f64>().unwrap()
    };
    let before = server_rates(&run);
    run.cells[0].measurements[0].server.as_mut().unwrap().seconds *= 1.25;
    assert!((server_rates(&run) * 1.25 / before - 1.0).abs() < 0.001);
}
