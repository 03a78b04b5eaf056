//! The parts of fio's `json+` output that this crate reads.

use std::collections::BTreeMap;
use std::str::FromStr;

use report::result::{Direction, Distribution, Operation};
use serde::Deserialize;

use super::job::Job;
use super::section::Given;
use crate::error::Error;

/// Below this value, every value has its own bin. Above, the bins of fio's histograms are 1/64 wide.
const EXACT_BELOW: u64 = 128;
/// Binary digits that distinguish the bins in a power of two.
const STEP_BITS: u32 = 6;
/// Options that define the operations and the data of a job. The figures show the effect of all others.
const WORK: [&str; 9] =
    ["kb_base", "rw", "readwrite", "bs", "blocksize", "size", "filesize", "numjobs", "filename"];
/// The entry with the total of all clients.
const ALL_CLIENTS: &str = "All clients";

/// By name, as written. Switches have no value.
pub(super) type Options = BTreeMap<String, String>;

/// The figures of a run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Output {
    /// The version of the program.
    #[serde(rename = "fio version")]
    pub version: String,
    /// The time of the output, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp_ms: u64,
    /// The jobs, or groups with `group_reporting`.
    #[serde(default)]
    pub jobs: Vec<JobOutput>,
    /// The jobs of several machines (`--client`), with an entry for their total.
    #[serde(default)]
    pub client_stats: Vec<JobOutput>,
    /// The options of all jobs.
    #[serde(default, rename = "global options")]
    pub global: Options,
}

/// The figures of a job.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct JobOutput {
    pub jobname: String,
    /// The job's group: a group starts where a job waits for those before it.
    #[serde(default)]
    pub groupid: u64,
    /// The `errno` of the job; 0 is success.
    pub error: i32,
    /// The machine of the job, if there are several.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The options of this job alone.
    #[serde(default, rename = "job options")]
    pub options: Options,
    #[serde(default)]
    pub read: Transfers,
    #[serde(default)]
    pub write: Transfers,
    /// Milliseconds that all its processes measured, in total.
    #[serde(default)]
    pub job_runtime: u64,
    /// Processor time in user mode, in percent of `job_runtime`.
    pub usr_cpu: f64,
    /// Processor time in the kernel, in percent of `job_runtime`.
    pub sys_cpu: f64,
}

/// The figures of one direction.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Transfers {
    /// Bytes of completed operations.
    pub io_bytes: u64,
    /// Operations that were started.
    pub total_ios: u64,
    /// Milliseconds of the measurement; in a group, of the longest process.
    pub runtime: u64,
    /// Operations that moved fewer bytes than requested.
    #[serde(default)]
    pub short_ios: u64,
    lat_ns: Times,
    clat_ns: Times,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Times {
    max: u64,
    mean: f64,
    #[serde(rename = "N")]
    count: u64,
    /// Counts by the middle of the bin.
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

pub(crate) fn split(text: &str) -> (&str, &str) {
    let start = if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
    text.split_at(start.unwrap_or(text.len()))
}

impl FromStr for Output {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // Text may follow the figures.
        let first = serde_json::Deserializer::from_str(text).into_iter().next();
        let read = first.unwrap_or_else(|| Err(serde::de::Error::custom("there is nothing")));
        read.map_err(|wrong| Error::Protocol(format!("fio wrote figures that are not understood: {wrong}")))
    }
}

impl Output {
    pub(crate) fn of_all_clients(&self) -> impl Iterator<Item = &JobOutput> {
        let clients = self.client_stats.iter().filter(|job| job.jobname != ALL_CLIENTS);
        self.jobs.iter().chain(clients)
    }

    /// Covers only settings with fields in [`Job`].
    ///
    /// # Errors
    /// An option has no single figure. The text names the option and the possible values.
    pub(crate) fn job(&self, output: &JobOutput) -> Result<Job, Error> {
        let written = self.global.iter().chain(&output.options);
        // A share of the file size at the time of the run is no longer known.
        let fixed = written.filter(|(name, value)| WORK.contains(&name.as_str()) && !value.contains('%'));
        let options: Vec<Given> =
            fixed.map(|(name, value)| Given { name: name.clone(), value: Some(value.clone()) }).collect();
        let wrong = |wrong| Error::Plan(format!("job {}: {wrong}", output.jobname));
        Job::new(&output.jobname, &options).map_err(wrong)
    }

    pub(crate) fn option<'o>(&'o self, output: &'o JobOutput, name: &str) -> Option<&'o str> {
        output.options.get(name).or_else(|| self.global.get(name)).map(String::as_str)
    }
}

impl Transfers {
    /// In nanoseconds; 0 without operations.
    pub(crate) fn mean_ns(&self) -> f64 {
        if self.lat_ns.count > 0 { self.lat_ns.mean } else { self.clat_ns.mean }
    }

    /// Operations completed in the measured time. A few of the last ones may be missing, and a few from the
    /// warm-up included. `io_bytes` may count one more for each process.
    pub(crate) fn ops(&self) -> u64 {
        // Without times fio has not counted the completed operations.
        if self.times().count > 0 { self.times().count } else { self.total_ios }
    }

    /// Times from before the submission; from after it if fio recorded only these.
    pub(crate) fn distribution(&self) -> Distribution {
        let Times { max, mean, count, bins } = self.times();
        let steps = bins.iter().filter(|(_, count)| **count > 0);
        let steps = steps.map(|(middle, count)| (up_to(*middle).min(*max), *count)).collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of times")]
        let sum_ns = (mean * *count as f64).round() as u64;
        Distribution { steps, sum_ns }
    }

    fn times(&self) -> &Times {
        if self.lat_ns.count > 0 && !self.lat_ns.bins.is_empty() { &self.lat_ns } else { &self.clat_ns }
    }
}

pub(crate) fn operations(jobs: &[JobOutput]) -> Vec<Operation> {
    let operation = |name: &str, direction, of: fn(&JobOutput) -> &Transfers| Operation {
        name: name.to_owned(),
        direction,
        ops: jobs.iter().map(|job| of(job).ops()).sum(),
        bytes: jobs.iter().map(|job| of(job).io_bytes).sum(),
        service: jobs.iter().map(|job| of(job).distribution()).collect::<Distribution>(),
        response: None,
    };
    let both = [
        operation("read", Direction::Read, |job| &job.read),
        operation("write", Direction::Write, |job| &job.write),
    ];
    both.into_iter().filter(|operation| operation.ops > 0).collect()
}

/// The largest value of the bin with this middle.
fn up_to(middle: u64) -> u64 {
    if middle < EXACT_BELOW {
        return middle;
    }
    let width = 1 << (middle.ilog2() - STEP_BITS);
    middle / width * width + width - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas of fio's `plat_val_to_idx` and `plat_idx_to_val`.
    fn middle(value: u64) -> u64 {
        let drop = value.checked_ilog2().unwrap_or(0).saturating_sub(6);
        let low = value >> drop << drop;
        low + (1 << drop) / 2
    }

    #[test]
    fn step_reaches_to_just_below_the_next() {
        for value in (0..10_000).chain([123_456, 16_777_215, 16_777_216, 10_000_000_019]) {
            let top = up_to(middle(value));
            assert!(
                top >= value && middle(top) == middle(value) && middle(top + 1) != middle(value),
                "{value}"
            );
        }
    }

    #[test]
    fn lines_before_the_figures_are_kept_apart() {
        let text = "note: both iodepth >= 1 and synchronous\n{\n  \"a\": {}\n}\n";
        assert_eq!(split(text).0, "note: both iodepth >= 1 and synchronous\n");
        assert_eq!(split("{}"), ("", "{}"));
        assert_eq!(split("fio: no jobs\n"), ("fio: no jobs\n", ""));
        assert!("{".parse::<Output>().is_err() && "".parse::<Output>().is_err());
    }

    #[test]
    fn completed_operations_count_and_their_times_merge() {
        let text = r#"{"jobname": "a", "error": 0, "usr_cpu": 10.0, "sys_cpu": 30.0,
            "read": {"io_bytes": 24576, "total_ios": 4, "runtime": 2000,
                "lat_ns": {"max": 300, "mean": 200.0, "N": 3, "bins": {"100": 1, "201": 1, "299": 1}},
                "clat_ns": {"max": 1, "mean": 1.0, "N": 3}}}"#;
        let output: JobOutput = serde_json::from_str(text).unwrap();
        let operations = operations(&[output.clone(), output]);
        let [read] = operations.as_slice() else { panic!("{operations:?}") };
        assert_eq!((read.name.as_str(), read.ops, read.bytes), ("read", 6, 49_152));
        assert_eq!(read.service.steps, [(100, 2), (201, 2), (299, 2)]);
        assert_eq!(read.service.sum_ns, 1200);
    }
}
