//! Every figure of every cell, one a row: for spreadsheets and scripts.

use super::table::{Table, Value};
use super::{facts, figures, judged, published, words};
use crate::result::{CaveatKind, Cell, Latency, Run, Spread};
use crate::scenario::{Series, Work};

const PLACE: [&str; 24] = [
    "scenario",
    "target",
    "started_unix_s",
    "preset",
    "co_located",
    "series",
    "work",
    "pattern",
    "stability",
    "server_cache",
    "jobs_per_client",
    "block_bytes",
    "read_percent",
    "clients",
    "connections_per_client",
    "depth_per_job",
    "transfer_bytes",
    "attribute_cache",
    "same_places",
    "operation",
    "directories",
    "protocol",
    "job_sets",
    "asked_ops_per_s",
];
const RATES: [&str; 6] =
    ["read_iops", "write_iops", "iops", "read_mib_per_s", "write_mib_per_s", "mib_per_s"];
const OF_RATE: [&str; 6] = ["median", "min", "max", "ci95_low", "ci95_high", "variation"];
const LATENCIES: [&str; 4] = ["read", "write", "all", "response"];
const OF_LATENCY: [&str; 7] = ["mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p99_9_ms", "max_ms"];

/// Cells without a result have empty figures.
pub(super) fn table(run: &Run) -> Table {
    let mut table = Table::new("", &PLACE);
    table.head.extend(["repetitions", "seconds"].map(str::to_owned));
    let pairs = |names: &[&str], of: &[&str]| -> Vec<String> {
        names.iter().flat_map(|name| of.iter().map(move |one| format!("{name}_{one}"))).collect()
    };
    table.head.extend(pairs(&RATES, &OF_RATE));
    table.head.extend(pairs(&LATENCIES, &OF_LATENCY));
    table.head.extend(["published", "doubts", "verdict"].map(str::to_owned));
    for (index, series) in run.scenario.series.iter().enumerate() {
        for cell in run.cells_of(index) {
            table.row(run.scenario.name.as_str(), row(run, series, cell));
        }
    }
    table
}

fn row(run: &Run, series: &Series, cell: &Cell) -> Vec<Value> {
    let mut row = place(run, series, cell);
    let valid: Vec<_> = cell.measurements.iter().filter(|one| one.is_valid()).collect();
    let has_result = cell.has_result();
    row.push(Value::Number(valid.len() as f64, 0));
    row.push(Value::Number(valid.iter().map(|one| one.seconds).sum(), 1));
    let exact = |value: f64, digits| if has_result { Value::Number(value, digits) } else { Value::Nothing };
    let summary = &cell.summary;
    let rates = [
        &summary.read_iops,
        &summary.write_iops,
        &summary.iops,
        &summary.read_mib_per_s,
        &summary.write_mib_per_s,
        &summary.mib_per_s,
    ];
    for Spread { median, min, max, ci95: [low, high], variation } in rates {
        row.extend([median, min, max, low, high].map(|value| exact(*value, 3)));
        row.push(exact(*variation, 5));
    }
    let response = figures::have_schedule(&[cell]).then(|| figures::response(cell).latency());
    for latency in [Some(summary.read_latency), Some(summary.write_latency), Some(summary.latency), response]
    {
        let is_known = latency.is_some();
        let Latency { mean_ms, p50_ms, p90_ms, p95_ms, p99_ms, p99_9_ms, max_ms } =
            latency.unwrap_or_default();
        let all = [mean_ms, p50_ms, p90_ms, p95_ms, p99_ms, p99_9_ms, max_ms];
        row.extend(all.map(|value| if is_known { exact(value, 4) } else { Value::Nothing }));
    }
    row.push(published_text(series, cell).into());
    let mut kinds: Vec<CaveatKind> = words::caveats(cell).iter().map(|caveat| caveat.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    row.push(kinds.into_iter().map(words::kind).collect::<Vec<_>>().join("; ").into());
    row.push(judged::of_cell(run, cell).map_or(Value::Nothing, |outcome| judged::word(outcome).into()));
    row
}

fn place(run: &Run, series: &Series, cell: &Cell) -> Vec<Value> {
    let point = &cell.point;
    let number = |value: usize| Value::Number(value as f64, 0);
    let maybe = |value: Option<u64>| value.map_or(Value::Nothing, Value::count);
    let yes = |is: bool| Value::from(if is { "yes" } else { "no" });
    vec![
        run.target.target.as_str().into(),
        Value::Number(run.started, 0),
        format!("{:?}", run.preset).to_lowercase().into(),
        yes(run.target.co_located),
        series.name.as_str().into(),
        series.work.name().into(),
        facts::pattern(series.pattern).into(),
        facts::stability(series.stability).into(),
        facts::cache(series.cache).into(),
        number(series.jobs),
        Value::count(point.block),
        if series.work == Work::Transfers { Value::count(point.read_percent.into()) } else { Value::Nothing },
        number(point.clients),
        number(point.connections),
        number(point.depth),
        maybe(point.transfer),
        point.attribute_cache.map_or(Value::Nothing, yes),
        point.same_places.map_or(Value::Nothing, yes),
        point.operation.map_or(Value::Nothing, |operation| operation.words().into()),
        point.directories.map_or(Value::Nothing, number),
        point.protocol.map_or(Value::Nothing, |protocol| protocol.to_string().into()),
        maybe(point.job_sets.map(u64::from)),
        series.rate.map_or(Value::Nothing, |rate| Value::Number(rate, 1)),
    ]
}

fn published_text(series: &Series, cell: &Cell) -> String {
    let all = published::named_records(series).flat_map(|one| {
        let figures = published::at(one, series, &cell.point);
        figures.into_iter().map(move |figure| published::full_text(one, &figure))
    });
    all.collect::<Vec<_>>().join("; ")
}
