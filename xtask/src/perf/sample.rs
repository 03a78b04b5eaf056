//! One measurement: the generator against one server, and the machine's other work meanwhile.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use serde_json::Value;

use super::contender::{Contender, GENERATOR_CORE, Running};
use super::rows::Row;
use crate::process::{self, text};

/// A large directory takes long to set up.
const SAMPLE_MAX: Duration = Duration::from_secs(900);
/// The kernel's ticks a second in /proc (proc(5), USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) ops_per_s: f64,
    /// User and system time of the server.
    pub(super) cpu_us_per_op: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) generator_cpu_us_per_op: f64,
    /// Cores that processes other than the server and the generator used, on average.
    pub(super) other_cores: f64,
    pub(super) warnings: Vec<String>,
}

pub(super) struct Method<'a> {
    pub(super) generator: &'a Path,
    pub(super) seconds: f64,
    pub(super) size: &'a str,
    pub(super) log: &'a Path,
}

impl Method<'_> {
    pub(super) fn take(&self, row: &Row, contender: &Contender, server: &Running) -> anyhow::Result<Sample> {
        self.measure(row, contender, server)
            .with_context(|| format!("{} against {}", row.title, contender.name))
    }

    fn measure(&self, row: &Row, contender: &Contender, server: &Running) -> anyhow::Result<Sample> {
        let endpoint = &server.endpoint;
        let mut arguments = row.arguments(contender.speaks_v41, self.seconds, self.size);
        arguments.extend(["--mount-port".to_owned(), endpoint.mount_port.to_string()]);
        self.load(&contender.target(endpoint), &arguments, server.pid, row.per_entry)
    }

    /// Targets the server with process id `pid`.
    pub(super) fn load(
        &self,
        target: &str,
        arguments: &[String],
        pid: u32,
        per_entry: bool,
    ) -> anyhow::Result<Sample> {
        let process = ["--pid".to_owned(), pid.to_string()];
        let before = Ticks::now(pid)?;
        let report = self.generate(target, &[&process[..], arguments].concat())?;
        let other_cores = Ticks::now(pid)?.others_since(&before);
        Sample::from_report(&report, per_entry, other_cores)
    }

    /// Runs the generator at a target. Returns the number of answered operations, or of listed names.
    pub(super) fn operations(
        &self,
        target: &str,
        arguments: &[String],
        per_entry: bool,
    ) -> anyhow::Result<f64> {
        operations(&self.generate(target, arguments)?, per_entry)
    }

    fn generate(&self, target: &str, arguments: &[String]) -> anyhow::Result<Value> {
        let json = self.log.with_extension("json");
        let (generator, json_path) = (text(self.generator)?, text(&json)?);
        let mut argv = vec!["taskset", "-c", GENERATOR_CORE, generator, "bench", "load", target];
        argv.extend(["--json", json_path]);
        argv.extend(arguments.iter().map(String::as_str));
        process::run(&argv, self.log, SAMPLE_MAX)?;
        serde_json::from_slice(&fs::read(&json)?).context("the generator's result")
    }
}

/// Takes the contenders' samples in turns; every second round runs backwards. A contender without a sample
/// is absent from the row.
pub(super) fn interleaved(
    title: &str,
    rounds: usize,
    contenders: usize,
    mut take: impl FnMut(usize) -> anyhow::Result<Option<Sample>>,
) -> anyhow::Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); contenders];
    for round in 1..=rounds {
        eprintln!("perf: {title}, round {round} of {rounds}");
        for turn in 0..contenders {
            let index = if round % 2 == 1 { turn } else { contenders - 1 - turn };
            samples[index].extend(take(index)?);
        }
    }
    Ok(samples)
}

fn operations(report: &Value, per_entry: bool) -> anyhow::Result<f64> {
    let number = |value: &Value| value.as_f64().context("no number of operations in the result");
    if !per_entry {
        return number(&report["ops"]);
    }
    let kind = &report["kinds"][0];
    if kind.is_null() {
        return Ok(0.0);
    }
    Ok((number(&kind["entries_per_s"])? * number(&report["seconds"])?).round())
}

impl Sample {
    /// Measures the server's CPU time while a program repeats an action `times` times. The program prints the median
    /// and the 99th percentile of its durations in milliseconds, and its own CPU time for each in microseconds.
    pub(super) fn measure_program(
        program: &str,
        arguments: &[&str],
        times: u32,
        server: u32,
    ) -> anyhow::Result<Self> {
        let (before, ticks) = (Ticks::now(server)?, with_children(server)?);
        let begun = Instant::now();
        let printed = String::from_utf8(process::output(Path::new("/"), program, arguments)?)?;
        let elapsed = begun.elapsed().as_secs_f64();
        let cpu_s = (with_children(server)? - ticks) / TICKS_PER_SECOND;
        let numbers: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [p50_ms, p99_ms, generator_cpu_us_per_op] = numbers[..] else {
            bail!("{program} printed {printed}")
        };
        Ok(Self {
            ops_per_s: f64::from(times) / elapsed,
            cpu_us_per_op: cpu_s * 1e6 / f64::from(times),
            p50_ms,
            p99_ms,
            generator_cpu_us_per_op,
            other_cores: Ticks::now(server)?.others_since(&before),
            warnings: Vec::new(),
        })
    }

    fn from_report(report: &Value, per_entry: bool, other_cores: f64) -> anyhow::Result<Self> {
        let number = |value: &Value, name: &str| {
            value[name].as_f64().with_context(|| format!("no {name} in the result"))
        };
        let kinds = report["kinds"].as_array().context("no kinds in the result")?;
        ensure!(!kinds.is_empty(), "no call was answered");
        // Of several kinds of call the slowest: an average must not hide one.
        let worst = |name: &str| {
            let of_kinds = kinds.iter().map(|kind| number(&kind["latency"], name));
            of_kinds.collect::<Result<Vec<_>, _>>().map(|values| values.into_iter().fold(0.0, f64::max))
        };
        let (ops_per_s, cpu) = (number(report, "ops_per_s")?, number(report, "server_cpu_us_per_op")?);
        let entries_per_op = if per_entry { number(&kinds[0], "entries_per_s")? / ops_per_s } else { 1.0 };
        ensure!(entries_per_op > 0.0, "no name was listed");
        let doubts = report["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // This command always measures for short times, on one host.
        let doubts = doubts.filter(|doubt| !doubt.starts_with("short") && !doubt.starts_with("co-located"));
        Ok(Self {
            ops_per_s: ops_per_s * entries_per_op,
            cpu_us_per_op: cpu / entries_per_op,
            p50_ms: worst("p50_ms")?,
            p99_ms: worst("p99_ms")?,
            generator_cpu_us_per_op: number(report, "own_cpu_us_per_op")? / entries_per_op,
            other_cores,
            warnings: doubts.map(String::from).collect(),
        })
    }
}

struct Ticks {
    at: Instant,
    all: f64,
    /// Ticks of the server, of this process, and of its children that have ended.
    ours: f64,
}

impl Ticks {
    fn now(server: u32) -> anyhow::Result<Self> {
        let machine = fs::read_to_string("/proc/stat")?;
        let own = fs::read_to_string("/proc/self/stat")?;
        let ours = fields(after_name(&own), 11..15) + with_children(server)?;
        Ok(Self { at: Instant::now(), all: machine_busy(&machine), ours })
    }

    fn others_since(&self, before: &Self) -> f64 {
        let ticks = (self.all - before.all) - (self.ours - before.ours);
        let elapsed = (self.at - before.at).as_secs_f64() * TICKS_PER_SECOND;
        (ticks / elapsed.max(1.0)).max(0.0)
    }
}

/// Ticks of a process, of its children, which have none themselves, and of those that have ended.
fn with_children(pid: u32) -> anyhow::Result<f64> {
    let of = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat"));
    let mut ticks = fields(after_name(&of(&pid.to_string()).context("the server has ended")?), 11..15);
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        // Processes end during the scan; other entries have no such file.
        let Some(stat) = name.to_str().and_then(|name| of(name).ok()) else { continue };
        // The parent is the second field.
        if fields(after_name(&stat), 1..2) == f64::from(pid) && name != "self" && name != "thread-self" {
            ticks += fields(after_name(&stat), 11..15);
        }
    }
    Ok(ticks)
}

/// All but idle (4th) and waiting for a disk (5th), up to the time stolen by a hypervisor (8th; proc(5)).
fn machine_busy(stat: &str) -> f64 {
    let all = stat.lines().next().unwrap_or("").trim_start_matches("cpu");
    fields(all, 0..8) - fields(all, 3..5)
}

/// The fields after the name in parentheses, which may contain any character; utime is the 12th of them, cstime the
/// 15th.
fn after_name(stat: &str) -> &str {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest)
}

fn fields(line: &str, range: std::ops::Range<usize>) -> f64 {
    let (from, count) = (range.start, range.len());
    line.split_ascii_whitespace().skip(from).take(count).filter_map(|field| field.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_is_read() {
        let kind =
            |p50: f64| json!({ "entries_per_s": 50.0, "latency": { "p50_ms": p50, "p99_ms": 2.0 * p50 } });
        let report = json!({
            "ops_per_s": 10.0, "server_cpu_us_per_op": 20.0, "own_cpu_us_per_op": 5.0, "kinds": [kind(1.0), kind(3.0)],
            "warnings": ["short: x", "co-located: x", "client-limited: x"],
        });
        let sample = Sample::from_report(&report, false, 0.5).unwrap();
        assert_eq!(
            (sample.ops_per_s, sample.cpu_us_per_op, sample.p50_ms, sample.p99_ms),
            (10.0, 20.0, 3.0, 6.0)
        );
        assert_eq!(sample.warnings, ["client-limited: x"]);
        let sample = Sample::from_report(&report, true, 0.5).unwrap();
        assert_eq!((sample.ops_per_s, sample.cpu_us_per_op), (50.0, 4.0));
        assert!(Sample::from_report(&json!({ "ops_per_s": 1.0, "kinds": [] }), false, 0.0).is_err());
        let no_cpu = json!({ "ops_per_s": 1.0, "server_cpu_us_per_op": null, "kinds": [kind(1.0)] });
        assert!(Sample::from_report(&no_cpu, false, 0.0).unwrap_err().to_string().contains("server_cpu"));
    }

    #[test]
    fn operations_are_calls_or_names() {
        let report = json!({ "ops": 7, "seconds": 0.5, "kinds": [{ "entries_per_s": 40.0 }] });
        assert_eq!(operations(&report, false).unwrap(), 7.0);
        assert_eq!(operations(&report, true).unwrap(), 20.0);
        assert_eq!(operations(&json!({ "ops": 0, "seconds": 0.1, "kinds": [] }), true).unwrap(), 0.0);
        assert!(operations(&json!({}), false).is_err());
    }

    #[test]
    fn contenders_take_turns_and_every_second_round_is_reversed() {
        let mut order = Vec::new();
        let samples = interleaved("x", 2, 3, |index| {
            order.push(index);
            Ok(None)
        });
        assert!(samples.unwrap().iter().all(Vec::is_empty));
        assert_eq!(order, [0, 1, 2, 2, 1, 0]);
    }

    #[test]
    fn processor_time_of_others_is_the_remainder() {
        let stat = "cpu  100 1 50 9000 70 2 3 4 0 0\ncpu0 1 1 1 1";
        assert_eq!(machine_busy(stat), 160.0);
        let process = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        assert_eq!(fields(after_name(process), 11..13), 11.0 + 12.0);
        let at = Instant::now();
        let before = Ticks { at, all: 1000.0, ours: 500.0 };
        let after = Ticks { at: at + Duration::from_secs(2), all: 1400.0, ours: 800.0 };
        assert_eq!(after.others_since(&before), 0.5);
    }
}
