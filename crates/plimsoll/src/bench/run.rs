//! `plimsoll bench run` and `plimsoll bench list`: scenarios.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use report::document::{Report, markdown};
use report::result::Run;
use report::scenario::{self, Scenario, Series};

use super::measure::{HowArgs, has_result, measured, write};
use crate::output;

/// The arguments of `bench run`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  plimsoll bench run gcnv-scale-out --target nfs://10.0.0.7/projects --preset quick
  plimsoll bench run ./mine.toml --target nfs://10.0.0.7/projects --output mine.json")]
pub(crate) struct RunArgs {
    /// A scenario of `plimsoll bench list`, or a TOML file with one of your own
    scenario: String,
    /// What to measure: nfs://HOST[:PORT]/EXPORT, or a directory of a mounted file system (by the installed fio)
    #[arg(long)]
    target: String,
    /// Where the result goes, as JSON [default: SCENARIO-SECONDS.json here, with the seconds since 1970]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these series, by a part of their names; separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    series: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Prints the scenarios that come with the program.
pub(super) fn list() -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    for scenario in scenario::all() {
        let points: usize = scenario.series.iter().map(|series| series.points().len()).sum();
        let size = match scenario.series.iter().any(Series::is_curve) {
            true => "a load curve".to_owned(),
            false => format!("{points} points"),
        };
        writeln!(out, "{:<22}{} ({size})", scenario.name, scenario.title)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a scenario; without a result in any point, or ended before all were measured, it ends with a failure.
pub(super) fn run(arguments: RunArgs) -> anyhow::Result<ExitCode> {
    let scenario = chosen(&arguments.scenario, &arguments.series)?;
    arguments.output.as_deref().map_or(Ok(()), output::check)?;
    let runs = measured(&scenario, &[arguments.target.as_str()], &arguments.how)?;
    for run in &runs {
        let path = arguments.output.clone().unwrap_or_else(|| default_name(run));
        write(run, &path)?;
        show(run, &path)?;
    }
    let is_whole = |run: &Run| has_result(run) && run.ended_early.is_none();
    Ok(if runs.iter().all(is_whole) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A scenario by its name or from a file, and of it only the wanted series.
pub(super) fn chosen(name: &str, series: &[String]) -> anyhow::Result<Scenario> {
    let mut scenario = match scenario::by_name(name) {
        Some(scenario) => scenario,
        None if name.contains('/') || name.ends_with(".toml") => {
            let text = fs::read_to_string(name).with_context(|| format!("read {name}"))?;
            text.parse().map_err(|wrong| anyhow::anyhow!("{name}: {wrong}"))?
        }
        None => {
            let names: Vec<_> = scenario::all().into_iter().map(|scenario| scenario.name).collect();
            bail!(
                "there is no scenario \"{name}\"; there are {}, and files that end with .toml",
                names.join(", ")
            );
        }
    };
    if !series.is_empty() {
        let all: Vec<_> = scenario.series.iter().map(|one| one.name.clone()).collect();
        let wanted =
            |name: &str| series.iter().any(|part| name.to_lowercase().contains(&part.to_lowercase()));
        scenario.series.retain(|one| wanted(&one.name));
        if scenario.series.is_empty() {
            bail!("no series has {} in its name; there are: {}", series.join(" or "), all.join(", "));
        }
    }
    Ok(scenario)
}

/// Prints the tables, where the result is, and how to make a page of it.
fn show(run: &Run, path: &Path) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}\nresult: {}", markdown(&[Report::of(run)]), path.display())?;
    let page = path.with_extension("html");
    let (path, page) = (path.display(), page.display());
    writeln!(out, "a page with plots: plimsoll bench report {path} --format html --output {page}")?;
    Ok(())
}

fn default_name(run: &Run) -> PathBuf {
    format!("{}-{:.0}.json", run.scenario.name, run.started).into()
}
