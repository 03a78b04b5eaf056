//! Results of fio. Jobs that ran at the same time are one load.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use envelope::{Access, Bytes};

use super::observed::{Candidate, Observed, Pick, rates, select, stream, whole};
use crate::error::Error;
use crate::fio::{Job, JobOutput, Output, Transfers, split};

const MIXED_SIZES: [&str; 3] = ["bssplit", "bsrange", "blocksize_range"];

const HELD_BACK: [&str; 3] = ["rate", "rate_iops", "thinktime"];

/// Marks figures of `bench report`, which has a job for each cell, all in one group.
const OURS: &str = " in the form of fio-";

/// Operations of one size and order.
struct Kind {
    access: Access,
    block: u64,
    read: f64,
    written: f64,
}

#[derive(Default)]
struct Group {
    /// Machine (empty for a single one) and job.
    names: Vec<(String, String)>,
    kinds: Vec<Kind>,
    ops: f64,
    /// Nanoseconds of all operations, and their number.
    time: (f64, u64),
    working_set: Option<u64>,
    notes: Vec<String>,
}

pub(super) fn read(name: &str, text: &str, pick: &Pick) -> Result<Observed, String> {
    let json = split(text).1;
    if json.contains(OURS) {
        return Err(
            "it is a run of plimsoll in fio's form; allowed: the file of the run, which has more".to_owned()
        );
    }
    let output = Output::from_str(json).map_err(|wrong| match wrong {
        Error::Protocol(wrong) => wrong,
        other => other.to_string(),
    })?;
    let mut groups: BTreeMap<u64, Vec<&JobOutput>> = BTreeMap::new();
    for job in output.of_all_clients() {
        groups.entry(job.groupid).or_default().push(job);
    }
    let candidates = groups.values().map(|jobs| candidate(&output, jobs)).collect();
    let (label, group) = select("groups of jobs that ran at the same time", candidates, pick.cell)?;
    let streams =
        group.kinds.iter().filter_map(|kind| stream(kind.access, kind.block, kind.read, kind.written));
    let ((sum_ns, ops), hosts) = (group.time, group.hosts());
    Ok(Observed {
        source: format!("{} output {name}: {label}", output.version),
        streams: streams.collect(),
        average_percent: None,
        clients: u32::try_from(hosts).ok(),
        connections: None,
        latency_us: (ops > 0).then(|| whole(sum_ns / ops as f64 / 1e3)),
        protocol: None,
        working_set: group.working_set.map(Bytes),
        notes: group.notes,
    })
}

fn candidate(output: &Output, jobs: &[&JobOutput]) -> Candidate<Group> {
    let load = Group::of(output, jobs);
    let label = match &load {
        Ok(group) => group.label(),
        Err(_) => jobs.first().map_or(String::new(), |job| job.jobname.clone()),
    };
    let moved =
        |group: Group| if group.kinds.is_empty() { Err("no data was moved".to_owned()) } else { Ok(group) };
    Candidate { label, load: load.and_then(moved) }
}

impl Group {
    fn of(output: &Output, jobs: &[&JobOutput]) -> Result<Self, String> {
        let mut group = Self { working_set: Some(0), ..Self::default() };
        for one in jobs {
            if one.error != 0 {
                return Err(format!("it ended with error {}; allowed: jobs that did well", one.error));
            }
            let job = output.job(one).map_err(|wrong| wrong.to_string())?;
            let mixed = MIXED_SIZES.iter().any(|name| output.option(one, name).is_some());
            group.add(&one.read, true, &job, mixed)?;
            group.add(&one.write, false, &job, mixed)?;
            // Without `group_reporting` each process has an entry.
            let name = (one.hostname.clone().unwrap_or_default(), job.name.clone());
            if !group.names.contains(&name) {
                let more = group.working_set.zip(job.working_set());
                group.working_set = more.and_then(|(sum, more)| sum.checked_add(more));
                group.names.push(name);
            }
        }
        group.notes = notes(output, jobs);
        Ok(group)
    }

    fn hosts(&self) -> usize {
        self.names.iter().map(|(host, _)| host).collect::<BTreeSet<_>>().len()
    }

    fn label(&self) -> String {
        let bytes: f64 = self.kinds.iter().map(|kind| kind.read + kind.written).sum();
        let names: BTreeSet<&str> = self.names.iter().map(|(_, name)| name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        format!("{} ({})", names.join(", "), rates(bytes, self.ops))
    }

    /// Uses the job's block size, or the mean of several sizes.
    fn add(&mut self, of: &Transfers, reads: bool, job: &Job, mixed: bool) -> Result<(), String> {
        if of.io_bytes == 0 {
            return Ok(());
        }
        if of.runtime == 0 || of.ops() == 0 {
            return Err(format!("it moved {} bytes in no time; let it run for seconds", of.io_bytes));
        }
        let per_second = |count: u64| count as f64 * 1e3 / of.runtime as f64;
        let configured = if reads { job.read_block } else { job.write_block };
        let block = if mixed { of.io_bytes / of.ops() } else { configured };
        let access = if job.is_random { Access::Random } else { Access::Sequential };
        let same = |kind: &Kind| kind.access == access && kind.block == block;
        let index = self.kinds.iter().position(same).unwrap_or_else(|| {
            self.kinds.push(Kind { access, block, read: 0.0, written: 0.0 });
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[index];
        *(if reads { &mut kind.read } else { &mut kind.written }) += per_second(of.io_bytes);
        self.ops += per_second(of.ops());
        self.time.0 += of.mean_ns() * of.ops() as f64;
        self.time.1 += of.ops();
        Ok(())
    }
}

fn notes(output: &Output, jobs: &[&JobOutput]) -> Vec<String> {
    let written = |names: &[&str]| {
        let is_written = |job: &&JobOutput| names.iter().any(|name| output.option(job, name).is_some());
        jobs.iter().filter(move |job| is_written(job)).count()
    };
    let is_direct = |job: &&JobOutput| {
        output.option(job, "direct") == Some("1") || output.option(job, "buffered") == Some("0")
    };
    let mut notes = Vec::new();
    let mut add = |applies: bool, note: &str| {
        if applies {
            notes.push(note.to_owned());
        }
    };
    add(written(&HELD_BACK) < jobs.len(), "The load is what fio reached, not what an application asks for.");
    add(written(&MIXED_SIZES) > 0, "Operations of many sizes (bssplit, bsrange) count by their mean.");
    add(
        !jobs.iter().all(is_direct),
        "There is no direct=1, so the client's page cache may have answered some of it.",
    );
    notes
}
