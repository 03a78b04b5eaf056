//! Conversion of fio's output to a generator's part of a measurement.

use std::collections::BTreeMap;
use std::io;

use report::result::{Caveat, CaveatKind, ClientResult, MachineUse, Part};

use super::plan;
use crate::error::Error;
use crate::fio::{Finished, JobOutput, Rates, Totals, operations};
use crate::job::Job;

/// A measurement longer than the window by this factor causes a caveat.
const LONGER_MAX: f64 = 1.05;

pub(super) fn part(job: &Job, finished: &Finished, window_s: f64) -> Result<Part, Error> {
    let jobs = &finished.output.jobs;
    let longest = jobs.iter().flat_map(|job| [job.read.runtime, job.write.runtime]).max().unwrap_or(0);
    let seconds = longest as f64 / 1000.0;
    let names: Vec<String> = (job.first_client..job.first_client + job.clients).map(plan::client).collect();
    let rates =
        names.iter().map(|name| Rates::read(finished.scratch.path(), name)).collect::<Result<Vec<_>, _>>()?;
    // The time of the output is later than the end of the measurement; the logs are more precise.
    let by_end = finished.output.timestamp_ms.saturating_sub(longest);
    let start_ms = rates.iter().filter_map(Rates::start_ms).min().map_or(by_end, |start| start.min(by_end));
    let client = |(name, rates): (&String, &Rates)| ClientResult {
        name: name.clone(),
        machine: 0,
        endpoint: None,
        seconds: rates.seconds(start_ms, seconds, totals(jobs.iter().filter(|job| job.jobname == *name))),
        connections: Vec::new(),
    };
    let (errors, error_details) = errors(finished);
    Ok(Part {
        started: start_ms as f64 / 1000.0,
        seconds,
        operations: operations(jobs),
        clients: names.iter().zip(&rates).map(client).collect(),
        usage: usage(jobs, seconds),
        errors,
        error_details,
        caveats: caveats(job, jobs, seconds, window_s),
        ..Part::default()
    })
}

fn totals<'j>(jobs: impl Iterator<Item = &'j JobOutput>) -> Totals {
    jobs.fold(Totals::default(), |sum, job| Totals {
        reads: sum.reads + job.read.ops(),
        read_bytes: sum.read_bytes + job.read.io_bytes,
        writes: sum.writes + job.write.ops(),
        write_bytes: sum.write_bytes + job.write.io_bytes,
    })
}

/// Covers fio's processes; fio does not measure the machine.
fn usage(jobs: &[JobOutput], seconds: f64) -> MachineUse {
    let cpu_s = |job: &JobOutput| (job.usr_cpu + job.sys_cpu) / 100.0 * job.job_runtime as f64 / 1000.0;
    let busiest = jobs.iter().map(cpu_s).fold(0.0, f64::max);
    let busiest_thread = if seconds > 0.0 { busiest / seconds } else { 0.0 };
    MachineUse { cpu_s: jobs.iter().map(cpu_s).sum(), busiest_thread, ..MachineUse::default() }
}

/// Failed jobs by error name, and short transfers. Also returns fio's messages.
fn errors(finished: &Finished) -> (BTreeMap<String, u64>, Vec<String>) {
    let mut errors = BTreeMap::new();
    for job in &finished.output.jobs {
        if job.error != 0 {
            *errors.entry(format!("fio {}", io::Error::from_raw_os_error(job.error))).or_default() += 1;
        }
        for (what, short) in [("read", job.read.short_ios), ("write", job.write.short_ios)] {
            if short > 0 {
                *errors.entry(format!("{what} short")).or_default() += short;
            }
        }
    }
    if errors.is_empty() && finished.failure().is_some() {
        errors.insert("fio failed".to_owned(), 1);
    }
    let details = if errors.is_empty() { Vec::new() } else { finished.complaints.clone() };
    (errors, details)
}

fn caveats(job: &Job, jobs: &[JobOutput], seconds: f64, window_s: f64) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if seconds > window_s * LONGER_MAX {
        let text = format!(
            "fio measured {seconds:.1} s instead of {window_s:.0} s: operations in flight and the last fsync belong to it, \
             and rates are over the whole time"
        );
        caveats.push(Caveat::new(CaveatKind::Other, text));
    }
    if job.rate.is_some() {
        let text = "fio waits for its rate before it takes an operation's time: times leave out how long an operation \
            waited for its turn";
        caveats.push(Caveat::new(CaveatKind::Other, text));
    }
    let all = totals(jobs.iter());
    let each = (all.read_bytes + all.write_bytes) / u64::try_from(job.clients * job.jobs).unwrap_or(1).max(1);
    if job.cache == report::scenario::Cache::Cold && each > job.file_size {
        let text = format!(
            "each job moved {} MiB in a file of {} MiB, so places were used more than once",
            each >> 20,
            job.file_size >> 20
        );
        caveats.push(Caveat::new(CaveatKind::CacheMixed, text));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::LayoutProgress;
    use report::scenario::Cache;

    fn output() -> JobOutput {
        let text = r#"{"jobname": "client2", "error": 5, "usr_cpu": 10.0, "sys_cpu": 30.0, "job_runtime": 2000,
            "read": {"io_bytes": 24576, "total_ios": 4, "runtime": 2000, "short_ios": 1,
                "lat_ns": {"max": 300, "mean": 200.0, "N": 3, "bins": {"100": 1, "201": 1, "299": 1}},
                "clat_ns": {"max": 1, "mean": 1.0, "N": 3}}}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn costs_are_shares_of_the_measured_time() {
        let usage = usage(&[output(), JobOutput { usr_cpu: 0.0, ..output() }], 2.0);
        assert!((usage.cpu_s - 1.4).abs() < 1e-9 && (usage.busiest_thread - 0.4).abs() < 1e-9, "{usage:?}");
    }

    #[test]
    fn qualified_result_has_caveats() {
        let job = Job { rate: Some(5.0), cache: Cache::Cold, file_size: 8192, ..plan::tests::job() };
        let jobs = [output(), output(), output(), output(), output(), output(), output()];
        let kinds: Vec<_> = caveats(&job, &jobs, 3.0, 2.0).into_iter().map(|caveat| caveat.kind).collect();
        assert_eq!(kinds, [CaveatKind::Other, CaveatKind::Other, CaveatKind::CacheMixed]);
        assert_eq!(caveats(&plan::tests::job(), &jobs, 2.0, 2.0), []);
    }

    /// Compares every figure with the installed fio's own output.
    #[test]
    fn figures_are_those_of_fio() {
        let directory = tempfile::tempdir().unwrap();
        let tool = crate::fio::Tool::find().unwrap();
        let access = plan::Access { engine: "libaio", is_direct: false };
        let job = Job { file_size: 4 << 20, depth: 2, rate: Some(2400.0), ..plan::tests::job() };
        let mut progress = Vec::new();
        let files = crate::private_dir::PrivateDir::open(directory.path()).unwrap();
        super::super::layout::lay_out(&files, &job, &tool, access, &mut |done| {
            progress.push(done);
            Ok(())
        })
        .unwrap();
        assert_eq!(progress.last(), Some(&LayoutProgress { done: 1.0, ..LayoutProgress::default() }));
        let scratch = tool.scratch().unwrap();
        let text = plan::load(&job, access, (0, 2), scratch.path()).unwrap();
        let finished = tool.start(&text, &files, scratch).unwrap().finish().unwrap();
        let found = part(&job, &finished, 2.0).unwrap();

        let text = std::fs::read_to_string(finished.scratch.path().join("output.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let jobs = json["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 6);
        for operation in &found.operations {
            let of = |job: &serde_json::Value, field: &str| job[&operation.name][field].as_u64().unwrap();
            let sum = |field| jobs.iter().map(|job| of(job, field)).sum::<u64>();
            assert_eq!((operation.ops, operation.bytes), (sum("total_ios"), sum("io_bytes")), "{text}");
            let times = |job: &serde_json::Value| job[&operation.name]["lat_ns"].clone();
            let bins = |job| {
                times(job)["bins"].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum::<u64>()
            };
            assert_eq!(operation.service.count(), jobs.iter().map(bins).sum::<u64>());
            let max = jobs.iter().filter_map(|job| times(job)["max"].as_u64()).max();
            assert_eq!(Some(operation.service.quantile_ns(1.0)), max);
        }
        assert_eq!(found.operations.len(), 2);
        let names: Vec<_> = found.clients.iter().map(|client| client.name.as_str()).collect();
        assert_eq!(names, ["client2", "client3"]);
        let seconds = found.clients.iter().flat_map(|client| &client.seconds);
        assert_eq!(seconds.clone().map(|second| second.reads).sum::<u64>(), found.operations[0].ops);
        assert_eq!(seconds.clone().map(|second| second.write_bytes).sum::<u64>(), found.operations[1].bytes);
        // Each client has a quarter of the rate, over two seconds: a machine may stand still in one of them.
        for client in &found.clients {
            let calls: u64 = client.seconds.iter().map(|second| second.reads + second.writes).sum();
            assert!((700..1500).contains(&calls), "{:?}", found.clients);
        }
    }
}
