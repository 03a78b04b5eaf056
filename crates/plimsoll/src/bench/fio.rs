//! `plimsoll bench fio`: what fio's jobs mean, and what they find.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use anyhow::{Context, bail};
use bench::engine;
use bench::fio::{self, Finding, Jobs, Measured, Sync, Transfer};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use report::document::Report;
use report::scenario::Scenario;
use report::units::show_size;
use serde::Serialize;

use super::measure::{self, HowArgs};
use super::screen;
use crate::exit::usage;
use crate::form::{Form, json};
use crate::manage::table::Table;
use crate::output;
use crate::terminal::{Tone, folded, printable_lines};

/// The arguments of `bench fio`.
#[derive(Debug, Args)]
pub(crate) struct FioArgs {
    /// A job file, or a whole command line in quotation marks: 'fio --name=a --rw=randread …'
    jobs: String,
    /// Run the jobs as they are with the installed fio, their files in this directory, which nobody else may write
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Run the equivalent on nfs://HOST[:PORT]/EXPORT, by the built-in clients, and print its tables
    #[arg(long, conflicts_with_all = ["path", "json"])]
    target: Option<String>,
    /// Write the equivalent scenario here, for `bench run`
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
    #[command(flatten, next_help_heading = "With --target")]
    how: HowArgs,
}

/// All that there is to say.
#[derive(Serialize)]
struct JsonOutput<'a> {
    jobs: &'a [fio::Job],
    measured: &'a [Measured],
    findings: &'a [Finding],
    scenario: &'a Scenario,
    differences: &'a [String],
}

/// Reads the jobs, says what they are, and runs them if they shall be run; a failed job is a failure.
pub(super) fn run(arguments: &FioArgs) -> anyhow::Result<ExitCode> {
    arguments.form.check()?;
    arguments.target.as_deref().map_or(Ok(()), engine::check).map_err(usage)?;
    let jobs = read(&arguments.jobs)?;
    let measured = arguments.path.as_deref().map(|directory| run_unchanged(&jobs, directory)).transpose()?;
    let measured = measured.unwrap_or_default();
    let findings = fio::lint(&jobs, memory());
    let (scenario, differences) = fio::scenario(&jobs);
    let toml = toml::to_string(&scenario).context("write the scenario as TOML")?;
    if let Some(path) = &arguments.scenario {
        output::write(path, &toml)?;
    }
    let (mut out, columns) = (arguments.form.open()?, arguments.form.columns());
    if arguments.form.is_json() {
        let answer = JsonOutput {
            jobs: &jobs.jobs,
            measured: &measured,
            findings: &findings,
            scenario: &scenario,
            differences: &differences,
        };
        out.print(&json(&answer)?)?;
    } else {
        let mut text = understood(&jobs).fit(columns);
        if !measured.is_empty() {
            text.push_str(&format!("\nfio measured:\n{}", results(&measured, columns)));
        }
        let (findings, equivalent) =
            (findings_in_words(&findings, columns), equivalent(&toml, &differences, columns));
        out.print(&printable_lines(&format!("{text}\n{findings}\n{equivalent}")))?;
    }
    if let Some(target) = &arguments.target {
        let runs = measure::measured(&scenario, &[target.as_str()], &arguments.how)?;
        for run in &runs {
            let report = screen::of(&[Report::of(run)], columns);
            out.print(&printable_lines(&format!("\n{report}")))?;
        }
        if !runs.iter().all(measure::has_result) {
            return Ok(ExitCode::FAILURE);
        }
    }
    let is_good = measured.iter().all(|job| job.error.is_none());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(given: &str) -> anyhow::Result<Jobs> {
    let is_command = given.trim_start().starts_with("fio ") || given.trim_start().starts_with('-');
    if is_command {
        return Jobs::from_command(given).map_err(|wrong| usage(wrong.to_string()));
    }
    let text = fs::read_to_string(given).map_err(|error| {
        usage(format!(
            "{given} is not a command line (which begins with \"fio \"), and cannot be read as a job file: {error}"
        ))
    })?;
    Jobs::from_file(&text).map_err(|wrong| usage(format!("{given}: {wrong}")))
}

fn run_unchanged(jobs: &Jobs, directory: &Path) -> anyhow::Result<Vec<Measured>> {
    if !directory.is_dir() {
        bail!("{} is not a directory", directory.display());
    }
    let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::default_spinner());
    let measured = fio::run_in(jobs, directory, &mut |rates| {
        let mib = rates.bytes_per_s / f64::from(1 << 20);
        bar.set_message(format!("fio: {:.0} operations/s, {mib:.0} MiB/s", rates.ops_per_s));
        bar.tick();
    });
    bar.finish_and_clear();
    Ok(measured?)
}

/// Bytes of this machine's memory.
fn memory() -> Option<u64> {
    let all = rustix::system::sysinfo();
    all.totalram.checked_mul(u64::from(all.mem_unit))
}

fn understood(jobs: &Jobs) -> Table {
    let table = Table::new(&[
        "JOB",
        "WORK",
        ">BLOCK",
        ">SIZE",
        ">PROCESSES",
        ">IN FLIGHT",
        "ENGINE",
        "PAGE CACHE",
        "WRITES",
        "ENDS",
    ]);
    let mut table = table.folding(&["ENDS"]);
    for job in &jobs.jobs {
        let order = if job.is_random { "random" } else { "sequential" };
        let work = match job.transfers {
            Transfer::Reads => format!("{order} reads"),
            Transfer::Writes => format!("{order} writes"),
            Transfer::Both => format!("{order}, {} % reads", job.read_percent),
        };
        let block = match (job.transfers, job.read_block == job.write_block) {
            (Transfer::Both, false) => {
                format!("{}, {}", show_size(job.read_block), show_size(job.write_block))
            }
            _ => show_size(job.block()),
        };
        let ends = match (job.time_based, job.runtime_s) {
            (true, Some(seconds)) => format!("after {seconds} s"),
            (false, Some(seconds)) => format!("with its size, at the latest after {seconds} s"),
            (_, None) => "with its size".to_owned(),
        };
        let writes = match job.sync {
            _ if !job.writes() => "-",
            Sync::None => "not stable",
            Sync::Sync => "stable",
            Sync::Dsync => "data stable",
        };
        table.row([
            job.name.clone(),
            work,
            block,
            job.size.map_or("-".to_owned(), show_size),
            job.numjobs.to_string(),
            job.depth().map_or(format!("{}?", job.iodepth), |depth| depth.to_string()),
            job.ioengine.clone(),
            if job.direct { "bypassed" } else { "used" }.to_owned(),
            writes.to_owned(),
            ends,
        ]);
    }
    table
}

fn results(measured: &[Measured], columns: Option<usize>) -> String {
    let mut table = Table::new(&[
        "JOB",
        "OPERATION",
        ">IOPS",
        ">MiB/s",
        ">MEAN ms",
        ">P50",
        ">P95",
        ">P99",
        ">MAX",
        ">SECONDS",
    ]);
    let mut errors = String::new();
    for job in measured {
        for operation in &job.operations {
            let latency = operation.service.latency();
            let rate = |amount: f64| if job.seconds > 0.0 { amount / job.seconds } else { 0.0 };
            table.row([
                job.name.clone(),
                operation.name.clone(),
                format!("{:.0}", rate(operation.ops as f64)),
                format!("{:.1}", rate(operation.bytes as f64 / f64::from(1 << 20))),
                format!("{:.3}", latency.mean_ms),
                format!("{:.3}", latency.p50_ms),
                format!("{:.3}", latency.p95_ms),
                format!("{:.3}", latency.p99_ms),
                format!("{:.3}", latency.max_ms),
                format!("{:.1}", job.seconds),
            ]);
        }
        if let Some(error) = &job.error {
            let _ = writeln!(errors, "{} failed: {error}", job.name);
        }
    }
    format!("{}{}", table.or("nothing was done", columns), Tone::Bad.paint(&errors))
}

fn findings_in_words(findings: &[Finding], columns: Option<usize>) -> String {
    if findings.is_empty() {
        return "Nothing to say against it.\n".to_owned();
    }
    let mut text = String::new();
    for Finding { code, severity, jobs, text: found, better } in findings {
        let severity = Tone::Warning.paint(&format!("{severity}:"));
        let _ = writeln!(text, "{severity} {code} ({})", jobs.join(", "));
        text.push_str(&folded("  ", &format!("{found}."), columns));
        text.push_str(&folded("  ", &format!("Better: {better}."), columns));
    }
    text
}

fn equivalent(toml: &str, differences: &[String], columns: Option<usize>) -> String {
    let mut text = "The equivalent for `plimsoll bench`; what differs:\n".to_owned();
    let line = |difference: &String| folded("    ", difference, columns).replacen("    ", "  - ", 1);
    differences.iter().for_each(|difference| text.push_str(&line(difference)));
    text + "\n" + toml
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::unpainted;

    #[test]
    fn jobs_are_shown_as_they_are_meant() {
        let jobs = read("fio --name=a --rw=randrw --rwmixread=70 --bs=4k,8k --iodepth=9 --size=1g --sync=1")
            .unwrap();
        let table = understood(&jobs).to_string();
        for part in
            ["random, 70 % reads", "4 KiB, 8 KiB", "1 GiB", "psync", "used", "stable", "with its size"]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
        let findings = findings_in_words(&fio::lint(&jobs, None), None);
        assert!(
            unpainted(&findings).starts_with("wrong: ")
                && findings.contains("depth-without-effect (a)\n  iodepth=9 has")
        );
        assert!(read("nowhere.fio").unwrap_err().to_string().contains("not a command line"));
    }

    #[test]
    fn tables_of_a_target_are_not_mixed_with_json() {
        let command = FioArgs::augment_args(clap::Command::new("fio"));
        let wrong = command.try_get_matches_from(["fio", "a.fio", "--target", "nfs://h/x", "--json"]);
        assert_eq!(wrong.unwrap_err().kind(), clap::error::ErrorKind::ArgumentConflict);
    }

    #[test]
    fn the_equivalent_ends_with_a_scenario() {
        let (scenario, differences) = fio::scenario(&read("--name=a --size=1m").unwrap());
        let text = equivalent(&toml::to_string(&scenario).unwrap(), &differences, None);
        let (words, toml) = text.split_once("\n\n").unwrap();
        assert_eq!(words.lines().count(), differences.len() + 1);
        assert_eq!(toml.parse::<Scenario>().unwrap(), scenario);
    }

    #[test]
    fn results_have_a_line_for_each_direction_and_failures() {
        let job = Measured {
            name: "a".to_owned(),
            seconds: 2.0,
            operations: vec![report::result::Operation {
                name: "read".to_owned(),
                direction: report::result::Direction::Read,
                ops: 500,
                bytes: 3 << 20,
                service: report::result::Distribution { steps: vec![(1_500_000, 500)], sum_ns: 500_000_000 },
                response: None,
            }],
            error: Some("no room".to_owned()),
        };
        let text = unpainted(&results(&[job], None));
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["a", "read", "250", "1.5", "1.000", "1.500", "1.500", "1.500", "1.500", "2.0"]);
        assert!(text.ends_with("a failed: no room\n"));
    }
}
