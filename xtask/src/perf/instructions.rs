//! User-space instructions per operation, of one build or of two.
//!
//! An instruction count does not depend on the machine's other work, so it resolves smaller differences than times. One
//! call is in flight at a time: with several, the number of calls per turn of the server varies, and so do the counts.

use std::path::Path;

use anyhow::{Context, bail};

use super::callgrind::{self, Counter};
use super::contender::{Contender, Running};
use super::report::InstructionReport;
use super::rows::Row;
use super::sample::Method;
use super::selection::{SMB, V41};
use super::smb;

/// Number of counts of each build; the median is reported.
const COUNTS: usize = 5;
/// The generator's shortest run. It is subtracted from a longer one, to exclude the login, the mount and the setup.
const SHORT_MS: u64 = 100;
const LONG_MS: u64 = 2_000;
/// A smaller difference is counted again with twice the time, up to the longest run.
const INSTRUCTIONS_MIN: u64 = 3_000_000;
const OPS_MIN: f64 = 300.0;
const LONGEST_MS: u64 = 60_000;
/// Names to look up: few enough for the first run to find all of them, because a name costs more the first time. A
/// listing needs its many names: with few, the cost of a name depends on their distribution over the calls.
const ENTRIES: &str = "256";
const SIZE: &str = "16m";

/// Rows over NFS whose counts vary by more than 1 %: with one program as both builds, LOOKUP differed by up to 4 % and
/// READDIRPLUS by up to 6 %, each server in its own directory. These rows are judged by times alone.
const NOT_COUNTED: [&str; 3] = ["lookup", "readdirplus", "v41.readdirplus"];

pub(super) struct CountedServer<'a> {
    pub(super) target: String,
    pub(super) arguments: Vec<String>,
    pub(super) per_entry: bool,
    pub(super) counter: &'a mut Counter,
}

/// Counts the first contender and the one that it is compared with, if any, over NFSv3 and NFSv4.1.
pub(super) fn over_nfs(
    method: &Method<'_>,
    rows: &[(&Row, bool)],
    builds: &[Contender],
) -> anyhow::Result<Vec<InstructionReport>> {
    let mut reports = Vec::new();
    for relaxed in [false, true] {
        let rows: Vec<&(&Row, bool)> = rows.iter().filter(|(row, _)| row.relaxed == relaxed).collect();
        let is_counted = |row: &Row, v41| !NOT_COUNTED.contains(&names(row, v41).0.as_str());
        let rows: Vec<_> = rows.into_iter().filter(|&&(row, v41)| is_counted(row, v41)).collect();
        if rows.is_empty() {
            continue;
        }
        let builds = builds.iter().map(under_callgrind).collect::<anyhow::Result<Vec<_>>>()?;
        let servers = builds.iter().map(|one| one.start(relaxed)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut counters: Vec<Counter> = servers
            .iter()
            .zip(&builds)
            .map(|(server, one)| Counter::new(server.pid, &one.directory))
            .collect();
        for &&(row, speaks_v41) in &rows {
            let (key, title) = names(row, speaks_v41);
            let counted = servers.iter().zip(&builds).zip(&mut counters).map(|((server, one), counter)| {
                let one = Contender { speaks_v41, ..one.clone() };
                let mut arguments = row.arguments(speaks_v41, 1.0, SIZE);
                let mount_port = server.endpoint.mount_port.to_string();
                arguments.extend(["--mount-port".to_owned(), mount_port]);
                let target = one.target(&server.endpoint);
                CountedServer { target, arguments, per_entry: row.per_entry, counter }
            });
            reports.push(report(method, &key, &title, counted.collect())?);
        }
        servers.into_iter().try_for_each(Running::stop)?;
    }
    Ok(reports)
}

pub(super) fn over_smb(
    method: &Method<'_>,
    rows: &[&smb::Row],
    binaries: &[&Path],
    work: &Path,
) -> anyhow::Result<Vec<InstructionReport>> {
    let rows: Vec<_> = rows.iter().filter(|row| row.is_counted()).collect();
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let password = smb::password_file(work)?;
    let mut builds = Vec::new();
    for (number, binary) in binaries.iter().enumerate() {
        builds.push(smb::CountedBuild::start(binary, &work.join(format!("counted-{number}")))?);
    }
    let mut reports = Vec::new();
    for row in rows {
        let counted = builds.iter_mut().map(|build| build.counted(row, SIZE, &password));
        let counted = counted.collect::<anyhow::Result<Vec<_>>>()?;
        let (key, title) = (format!("{SMB}{}", row.key), format!("SMB {}", row.title));
        reports.push(report(method, &key, &title, counted)?);
    }
    builds.into_iter().for_each(smb::CountedBuild::kill);
    Ok(reports)
}

pub(super) fn names(row: &Row, speaks_v41: bool) -> (String, String) {
    match row.v41.filter(|_| speaks_v41) {
        Some(v41) if !v41.title.is_empty() => {
            (format!("{V41}{}", row.key), format!("NFSv4.1 {} ({})", row.key, v41.title))
        }
        Some(_) => (format!("{V41}{}", row.key), format!("NFSv4.1 {}", row.title)),
        None => (row.key.to_owned(), row.title.to_owned()),
    }
}

fn under_callgrind(build: &Contender) -> anyhow::Result<Contender> {
    Ok(Contender { prefix: callgrind::prefix(&build.directory)?, ..build.clone() })
}

fn report(
    method: &Method<'_>,
    key: &str,
    title: &str,
    mut counted: Vec<CountedServer<'_>>,
) -> anyhow::Result<InstructionReport> {
    eprintln!("perf: {title}, instructions");
    let mut counts = vec![Vec::new(); counted.len()];
    // The first run of a row creates its files and finds its names.
    for one in &counted {
        let arguments = one_at_a_time(&one.arguments, LONG_MS, one.per_entry);
        method.operations(&one.target, &arguments, one.per_entry).with_context(|| title.to_owned())?;
    }
    let mut long_ms = LONG_MS;
    for _ in 0..COUNTS {
        for (one, counts) in counted.iter_mut().zip(&mut counts) {
            counts.push(
                per_operation(method, one, &mut long_ms).with_context(|| format!("{title}, instructions"))?,
            );
        }
    }
    let report = InstructionReport::new(key, title, counts);
    println!("{report}");
    Ok(report)
}

/// The difference of two runs in instructions, divided by their difference in operations. `long_ms` grows until the
/// difference is large enough.
fn per_operation(
    method: &Method<'_>,
    counted: &mut CountedServer<'_>,
    long_ms: &mut u64,
) -> anyhow::Result<f64> {
    let mut run = |ms: u64| {
        counted.counter.take()?;
        let arguments = one_at_a_time(&counted.arguments, ms, counted.per_entry);
        let ops = method.operations(&counted.target, &arguments, counted.per_entry)?;
        Ok::<_, anyhow::Error>((counted.counter.take()?, ops))
    };
    let (short, short_ops) = run(SHORT_MS)?;
    while *long_ms <= LONGEST_MS {
        let (long, long_ops) = run(*long_ms)?;
        let (instructions, ops) = (long.saturating_sub(short), long_ops - short_ops);
        if instructions >= INSTRUCTIONS_MIN && ops >= OPS_MIN {
            return Ok(ratio(instructions, ops));
        }
        *long_ms *= 2;
    }
    bail!(
        "too few to count in {LONGEST_MS} ms: at least {OPS_MIN} operations and {INSTRUCTIONS_MIN} instructions are required"
    )
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn ratio(instructions: u64, ops: f64) -> f64 {
    instructions as f64 / ops
}

/// The generator's arguments with one call in flight, without a warm-up, which the result does not count.
fn one_at_a_time(arguments: &[String], ms: u64, per_entry: bool) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    let entries = (!per_entry).then_some(("--entries", ENTRIES));
    let time = format!("{ms}ms");
    for (name, value) in [("--connections", "1"), ("--depth", "1"), ("--warm-up", "0ms"), ("--time", &time)]
        .into_iter()
        .chain(entries)
    {
        match arguments.iter().position(|argument| argument == name) {
            Some(at) if at + 1 < arguments.len() => value.clone_into(&mut arguments[at + 1]),
            _ => arguments.extend([name, value].map(String::from)),
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::rows::ROWS;

    #[test]
    fn calls_are_counted_one_at_a_time() {
        let arguments =
            ["--op", "mix", "--connections", "4", "--depth", "16", "--time", "3s"].map(String::from);
        assert_eq!(
            one_at_a_time(&arguments, 500, false).join(" "),
            "--op mix --connections 1 --depth 1 --time 500ms --warm-up 0ms --entries 256"
        );
        assert!(!one_at_a_time(&arguments, 500, true).contains(&"--entries".to_owned()));
    }

    #[test]
    fn rows_of_versions_have_different_names() {
        assert_eq!(names(&ROWS[0], false).0, "read4k");
        assert_eq!(names(&ROWS[0], true), ("v41.read4k".into(), "NFSv4.1 READ 4K random, 1 × 16".into()));
    }
}
