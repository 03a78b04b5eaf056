//! `plimsoll size scenario`: each workload as a scenario of the benchmark.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use envelope::{Access, Choice, Stream};
use report::scenario::{Depth, Pattern, Scenario, Series, Targets};

use super::plan::Planned;
use super::question::{Asked, HiddenQuestion, SizingRequest};
use crate::exit::usage;
use crate::form::Form;
use crate::shell::quoted;
use crate::terminal::folded;

#[derive(Debug, Args)]
pub(super) struct ScenarioArgs {
    #[command(flatten)]
    question: HiddenQuestion,
    #[command(flatten)]
    form: Form,
}

pub(super) fn run(args: &ScenarioArgs) -> anyhow::Result<ExitCode> {
    match args.question.0.asked()? {
        Asked::One(asked) => {
            args.form.check_extension(&["toml"], "")?;
            let advised = asked.advice().ok().and_then(|advice| connections(advice.options.first()?));
            args.form.show(&of(&asked, advised)?, |scenario| Ok(toml::to_string(scenario)?))?;
        }
        Asked::Several(requests) => write_all(&Planned::new(*requests)?, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file for each workload of a plan, and says how to run it. Workloads that the benchmark cannot run are named
/// with the reason.
fn write_all(planned: &Planned, args: &ScenarioArgs) -> anyhow::Result<()> {
    if args.form.is_json() {
        return Err(usage("--json prints the scenario of one workload: a plan gives files in TOML"));
    }
    let Some(directory) = args.form.file() else {
        return Err(usage(
            "a plan gives a scenario for each workload: give their directory with --output DIR",
        ));
    };
    let (mut files, mut said) = (Vec::<(String, String)>::new(), String::new());
    let columns = crate::terminal::columns();
    for (place, asked) in planned.workloads.iter().enumerate() {
        let name = planned.name(place);
        match of(asked, planned.advised(place).and_then(connections)) {
            Ok(scenario) => {
                let file = file_name(name, &files);
                said.push_str(&run_command(&directory.join(&file).display().to_string(), name));
                files.push((file, toml::to_string(&scenario)?));
            }
            Err(why) => said.push_str(&folded("", &format!("Without a scenario: {name}: {why:#}"), columns)),
        }
    }
    if files.is_empty() {
        bail!("no workload can be measured:\n{}", said.trim_end());
    }
    crate::output::write_files(directory, files)?;
    crate::terminal::print(&crate::terminal::printable_lines(&said))
}

/// The command that measures the volume with the name of the workload, as "size apply" creates it.
fn run_command(file: &str, volume: &str) -> String {
    let file = if file.contains('/') { file.to_owned() } else { format!("./{file}") };
    format!("plimsoll bench run {} --target {}\n", quoted(&file), quoted(&format!("nfs://HOST/{volume}")))
}

/// A file with the name of a workload that is none of `others`.
fn file_name(name: &str, others: &[(String, String)]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut file: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    while others.iter().any(|(other, _)| *other == format!("{file}.toml")) {
        file.push('-');
    }
    format!("{file}.toml")
}

/// Jobs of each client.
const JOBS: usize = 4;
/// The most calls in flight of each job; the schedule determines the actual number.
const DEPTH: usize = 64;

/// Connections of each client if no option carries the workload, so that none is advised.
const CONNECTIONS: usize = 4;

/// The connections that the mount options of a choice have.
fn connections(choice: &Choice) -> Option<usize> {
    usize::try_from(choice.mount.connections).ok()
}

/// A scenario with one series for each load, at the rate of the load and over the `advised` connections of each client.
fn of(asked: &SizingRequest, advised: Option<usize>) -> anyhow::Result<Scenario> {
    let workload = &asked.workload;
    if workload.streams.is_empty() {
        bail!("there is no load to measure: give --iops or --throughput");
    }
    if workload.streams.len() > 1 {
        bail!(
            "the benchmark runs one kind of load at a time, and this workload has {}",
            workload.streams.len()
        );
    }
    let series = workload
        .streams
        .iter()
        .map(|stream| series(stream, asked, advised))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let scenario = Scenario {
        name: "workload".to_owned(),
        title: match &asked.name {
            Some(name) => format!("The workload {name} of a plan, at its peak"),
            None => "The workload that was sized, at its peak".to_owned(),
        },
        about: "The volume passes if it delivers the requested rate, within the target of the response time."
            .to_owned(),
        page: None,
        series,
        pairs: Vec::new(),
    };
    let text = toml::to_string(&scenario)?;
    if let Err(wrong) = text.parse::<Scenario>() {
        bail!("the benchmark cannot run this load: {wrong}");
    }
    Ok(scenario)
}

fn series(stream: &Stream, asked: &SizingRequest, advised: Option<usize>) -> anyhow::Result<Series> {
    let workload = &asked.workload;
    let pattern = match stream.access {
        Access::Random => Pattern::Random,
        Access::Sequential => Pattern::Sequential,
        Access::Metadata => bail!("metadata is measured by \"plimsoll bench load --op create\""),
        Access::Eda => {
            bail!("an EDA load is measured by the scenario eda-blend: plimsoll bench run eda-blend")
        }
    };
    let percent = u8::try_from((stream.read_thousandths + 5) / 10).unwrap_or(100);
    let clients = usize::try_from(workload.clients.unwrap_or(1))?;
    let given = workload.connections.map(usize::try_from).transpose()?;
    let connections = given.or(advised).unwrap_or(CONNECTIONS);
    let iops = u32::try_from(stream.iops().0)?;
    let latency_ms = workload.latency_us.map(|us| us as f64 / 1e3);
    Ok(Series {
        name: "at the peak".to_owned(),
        blocks: vec![stream.block.0],
        pattern,
        reads: vec![percent],
        clients: vec![clients],
        jobs: JOBS,
        connections: vec![connections],
        depths: Depth::Fixed(vec![DEPTH]),
        rate: Some(f64::from(iops)),
        targets: Some(Targets { iops: Some(f64::from(iops)), latency_ms, ..Targets::default() }),
        working_set: workload.working_set.unwrap_or(workload.capacity).0,
        ..Series::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_names_of_workloads_and_differ() {
        assert_eq!(file_name("home", &[]), "home.toml");
        let others = [("a-b.toml".to_owned(), String::new())];
        assert_eq!(file_name("a/b", &others), "a-b-.toml");
        assert_eq!(file_name("../db", &[]), "---db.toml");
    }

    #[test]
    fn command_can_be_pasted_into_a_shell() {
        let said = run_command("my loads/db.toml", "a;b");
        assert_eq!(said, "plimsoll bench run 'my loads/db.toml' --target 'nfs://HOST/a;b'\n");
    }
}
