//! A run in the output format of fio 3.33 (`--output-format=json --group_reporting`), for tools that read it.
//!
//! A cell is a job. Its repetitions count as one long run, so that all figures of a job belong together.
//! Completion and total latency are both the service time: no queue lies between submission and call.

use serde_json::{Value, json};

use super::axes::Axis;
use crate::result::{Cell, Direction, Distribution, Measurement, Run, Second};
use crate::scenario::{Pattern, Series};
use crate::units::show_size;

/// A file under the path of fio-plot's own benchmarks.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Relative; contains plain names only.
    pub path: String,
    pub text: String,
}

const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Upper ends of fio's latency bands, in nanoseconds, microseconds and milliseconds.
const BANDS_NS_US: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const BANDS_MS: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];

pub fn document(run: &Run) -> String {
    document_json(run, &with_result(run).map(|(series, cell)| job(series, cell)).collect::<Vec<_>>())
}

/// Writes a file for each cell with a result. `randread-16-8.json` has 16 calls in flight of each of 8 jobs.
/// All other axes become a directory. Cells with equal names get a number.
pub fn files(run: &Run) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    for (series, cell) in with_result(run) {
        let name = format!("{}-{}-{}", rw(series, cell), cell.point.depth, jobs(series, cell));
        let stem = format!("{}/{name}", directory(run, series, cell));
        let mut path = format!("{stem}.json");
        let mut number = 2;
        while files.iter().any(|file| file.path == path) {
            path = format!("{stem}-{number}.json");
            number += 1;
        }
        files.push(File { path, text: document_json(run, &[job(series, cell)]) });
    }
    files
}

fn with_result(run: &Run) -> impl Iterator<Item = (&Series, &Cell)> {
    let numbered = run.scenario.series.iter().enumerate();
    let cells = numbered.flat_map(|(index, series)| run.cells_of(index).map(move |cell| (series, cell)));
    cells.filter(|(_, cell)| cell.has_result())
}

/// Contains the series and every axis that fio-plot does not know. A mix gets the words of fio-plot's
/// benchmarks.
fn directory(run: &Run, series: &Series, cell: &Cell) -> String {
    let same = |other: &Series| other.name == series.name;
    let index = run.scenario.series.iter().position(same).unwrap_or(0);
    let cells: Vec<&Cell> = run.cells_of(index).collect();
    let varying = Axis::varying(series, &cells);
    let mut words = vec![slug(&series.name)];
    let others = [Axis::Block, Axis::Connections, Axis::Transfer, Axis::AttributeCache, Axis::JobSets];
    words.extend(
        others.iter().filter(|axis| varying.contains(axis)).map(|axis| slug(&axis.words(&cell.point))),
    );
    if !matches!(cell.point.read_percent, 0 | 100) {
        words.push(format!("rwmixread{}", cell.point.read_percent));
    }
    words.join("/")
}

/// Lower-case letters, digits and hyphens: safe as a file name.
fn slug(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let text: String = text.chars().map(plain).collect();
    let words = text.split_whitespace().collect::<Vec<_>>().join("-");
    if words.is_empty() { "series".to_owned() } else { words }
}

fn document_json(run: &Run, jobs: &[Value]) -> String {
    let ms = run.started * 1e3;
    let document = json!({
        // Identifies this program, so that the file is not taken for fio's own.
        "fio version": format!("plimsoll-{} in the form of fio-3.33", run.version),
        "timestamp": run.started.floor(),
        "timestamp_ms": ms.floor(),
        "time": super::words::time(run.started),
        "global options": {"ioengine": run.target.generator, "directory": run.target.target, "time_based": "1"},
        "jobs": jobs,
        "disk_util": [],
    });
    format!("{document:#}\n")
}

fn rw(series: &Series, cell: &Cell) -> &'static str {
    match (series.pattern, cell.point.read_percent) {
        (Pattern::Sequential, 100..) => "read",
        (Pattern::Sequential, 0) => "write",
        (Pattern::Sequential, _) => "rw",
        (Pattern::Random | Pattern::Shuffled, 100..) => "randread",
        (Pattern::Random | Pattern::Shuffled, 0) => "randwrite",
        (Pattern::Random | Pattern::Shuffled, _) => "randrw",
    }
}

/// Uses fio's notation: `4k`, `1m`.
fn block_size_text(block: u64) -> String {
    show_size(block).to_ascii_lowercase().replace(" ", "").replace("ib", "")
}

fn jobs(series: &Series, cell: &Cell) -> usize {
    series.jobs * cell.point.clients
}

fn job(series: &Series, cell: &Cell) -> Value {
    let valid: Vec<&Measurement> = cell.measurements.iter().filter(|one| one.is_valid()).collect();
    let seconds: f64 = valid.iter().map(|one| one.seconds).sum();
    let ms = (seconds * 1e3).round();
    let cpu_s: f64 = valid.iter().flat_map(|one| &one.machines).map(|machine| machine.cpu_s).sum();
    let all: Distribution = valid.iter().map(|one| one.service(None)).collect();
    let numjobs = jobs(series, cell);
    let second = |read: bool| per_second(&valid, read);
    json!({
        "jobname": series.name,
        "groupid": 0,
        "error": 0,
        "eta": 0,
        "elapsed": seconds.ceil(),
        "job options": {
            "name": series.name,
            "rw": rw(series, cell),
            "rwmixread": cell.point.read_percent.to_string(),
            "bs": block_size_text(cell.point.block),
            "iodepth": cell.point.depth.to_string(),
            "numjobs": numjobs.to_string(),
            "runtime": format!("{seconds:.0}"),
        },
        "read": direction(&valid, Some(Direction::Read), ms, &second(true)),
        "write": direction(&valid, Some(Direction::Write), ms, &second(false)),
        "trim": direction(&[], None, 0.0, &[]),
        "sync": {"total_ios": 0, "lat_ns": latency(&Distribution::default())},
        "job_runtime": ms * numjobs as f64,
        // Per job, as in fio. The kernel's part is unknown.
        "usr_cpu": if seconds > 0.0 { 100.0 * cpu_s / seconds / numjobs.max(1) as f64 } else { 0.0 },
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "latency_ns": bands(&all, &BANDS_NS_US, 1, 0),
        "latency_us": bands(&all, &BANDS_NS_US, 1_000, 1_000),
        "latency_ms": last_band(bands(&all, &BANDS_MS, 1_000_000, 1_000_000), &all),
        "latency_depth": cell.point.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    })
}

/// Operations and KiB in each second, all clients together.
fn per_second(valid: &[&Measurement], read: bool) -> Vec<(f64, f64)> {
    let of = |second: &Second| {
        let (ops, bytes) =
            if read { (second.reads, second.read_bytes) } else { (second.writes, second.write_bytes) };
        (ops as f64, bytes as f64 / 1024.0)
    };
    let mut all = Vec::new();
    for measurement in valid {
        let count = measurement.clients.iter().map(|client| client.seconds.len()).max().unwrap_or(0);
        all.extend((0..count).map(|index| {
            let seconds = measurement.clients.iter().filter_map(|client| client.seconds.get(index));
            seconds.map(of).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        }));
    }
    all
}

fn direction(valid: &[&Measurement], kind: Option<Direction>, ms: f64, seconds: &[(f64, f64)]) -> Value {
    let ops: u64 = valid.iter().map(|one| one.ops(kind)).sum();
    let bytes: u64 = valid.iter().map(|one| one.bytes(kind)).sum();
    let service: Distribution = valid.iter().map(|one| one.service(kind)).collect();
    let rate = |count: u64| if ms > 0.0 { count as f64 * 1e3 / ms } else { 0.0 };
    let iops = Samples::of(seconds.iter().map(|one| one.0));
    let bw = Samples::of(seconds.iter().map(|one| one.1));
    let mut completion = latency(&service);
    if ops > 0 {
        let at = |percent: &f64| (format!("{percent:.6}"), json!(service.quantile_ns(percent / 100.0)));
        completion["percentile"] = PERCENTILES.iter().map(at).collect::<serde_json::Map<_, _>>().into();
    }
    json!({
        "io_bytes": bytes,
        "io_kbytes": bytes >> 10,
        "bw_bytes": rate(bytes).round(),
        "bw": (rate(bytes) / 1024.0).round(),
        "iops": rate(ops),
        "runtime": ms,
        "total_ios": ops,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&Distribution::default()),
        "clat_ns": completion,
        "lat_ns": latency(&service),
        "bw_min": bw.min.round(),
        "bw_max": bw.max.round(),
        "bw_agg": if bw.count > 0 { 100.0 } else { 0.0 },
        "bw_mean": bw.mean,
        "bw_dev": bw.deviation,
        "bw_samples": bw.count,
        "iops_min": iops.min,
        "iops_max": iops.max,
        "iops_mean": iops.mean,
        "iops_stddev": iops.deviation,
        "iops_samples": iops.count,
    })
}

#[derive(Default)]
struct Samples {
    count: usize,
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Samples {
    fn of(samples: impl Iterator<Item = f64>) -> Self {
        let all: Vec<f64> = samples.collect();
        let Some(min) = all.iter().copied().reduce(f64::min) else { return Self::default() };
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let squares: f64 = all.iter().map(|one| (one - mean).powi(2)).sum();
        let deviation = if all.len() > 1 { (squares / (all.len() - 1) as f64).sqrt() } else { 0.0 };
        Self { count: all.len(), min, max: all.iter().copied().fold(min, f64::max), mean, deviation }
    }
}

fn latency(all: &Distribution) -> Value {
    let (count, mean) = (all.count(), all.mean_ns());
    let square = |(ns, count): &(u64, u64)| (*ns as f64 - mean).powi(2) * *count as f64;
    let squares: f64 = all.steps.iter().map(square).sum();
    let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
    let min = all.steps.first().map_or(0, |(ns, _)| *ns);
    json!({"min": min, "max": all.quantile_ns(1.0), "mean": mean, "stddev": deviation, "N": count})
}

/// The percentage of operations in each band. A band ranges from the end of the previous one (or `from`) to
/// its own end.
fn bands(all: &Distribution, ends: &[u64], unit_ns: u64, from: u64) -> Value {
    let mut low = from;
    let mut bands = serde_json::Map::new();
    for end in ends {
        let high = end * unit_ns;
        bands.insert(end.to_string(), json!(percent(all, |ns| ns > low && ns <= high)));
        low = high;
    }
    bands.into()
}

/// Adds the operations above 2 s.
fn last_band(mut bands: Value, all: &Distribution) -> Value {
    bands[">=2000"] = json!(percent(all, |ns| ns > 2_000_000_000));
    bands
}

fn percent(all: &Distribution, within: impl Fn(u64) -> bool) -> f64 {
    let count: u64 = all.steps.iter().filter(|(ns, _)| within(*ns)).map(|(_, count)| count).sum();
    100.0 * count as f64 / all.count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::sample;

    #[test]
    fn job_has_fields_of_fio() {
        let run = sample::depths();
        let document: Value = serde_json::from_str(&document(&run)).unwrap();
        let jobs = document["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), run.cells.len());
        let (job, cell) = (&jobs[0], &run.cells[0]);
        assert_eq!(job["job options"]["rw"], "randread");
        assert_eq!(job["job options"]["numjobs"], "8");
        assert_eq!(
            (block_size_text(4096), block_size_text(1 << 20), block_size_text(1000)),
            ("4k".into(), "1m".into(), "1000b".into())
        );
        let close = |found: &Value, wanted: f64, tolerance: f64| {
            let found = found.as_f64().unwrap();
            assert!((found / wanted - 1.0).abs() < tolerance, "{found} {wanted}");
        };
        close(&job["read"]["iops"], cell.summary.read_iops.median, 0.03);
        close(&job["read"]["bw"], cell.summary.read_mib_per_s.median * 1024.0, 0.03);
        close(&job["read"]["lat_ns"]["mean"], cell.summary.latency.mean_ms * 1e6, 1e-9);
        close(&job["read"]["clat_ns"]["percentile"]["99.000000"], cell.summary.latency.p99_ms * 1e6, 1e-9);
        close(&job["read"]["iops_mean"], job["read"]["iops"].as_f64().unwrap(), 1e-6);
        assert_eq!(job["write"]["total_ios"], 0);
        let bands = ["latency_ns", "latency_us", "latency_ms"];
        let all = bands.iter().flat_map(|name| job[*name].as_object().unwrap().values());
        close(&json!(all.map(|share| share.as_f64().unwrap()).sum::<f64>()), 100.0, 1e-9);
    }

    #[test]
    fn files_have_names_of_fio_plot() {
        let depths: Vec<String> =
            files(&sample::depths()).into_iter().map(|file| file.path).take(2).collect();
        assert_eq!(depths, ["4-kib-random/randread-1-8.json", "4-kib-random/randread-2-8.json"]);
        let mixes: Vec<String> = files(&sample::gcnv()).into_iter().map(|file| file.path).collect();
        assert!(mixes[0].starts_with("64-kib-sequential/read-") && mixes[0].ends_with("-48.json"));
        assert!(mixes[1].starts_with("64-kib-sequential/rwmixread75/rw-"), "{}", mixes[1]);
        let mut run = sample::depths();
        run.scenario.series[0].name = "../../etc/x".to_owned();
        run.cells.push(run.cells[0].clone());
        let odd = files(&run);
        assert_eq!(odd[0].path, "etc-x/randread-1-8.json");
        assert_eq!(odd.last().unwrap().path, "etc-x/randread-1-8-2.json");
    }
}
