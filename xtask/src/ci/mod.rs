//! The three tiers of checks: `cargo xtask test`, `ci` and `full`. Two steps run at a time; a timeline at the end shows
//! their times.

mod records;
mod scheduler;
mod step;
mod steps;
mod summary;
mod timeline;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::cargo;
use crate::packages;
use crate::process;
use records::Records;
use scheduler::Report;
use step::{Retry, Step};

/// Minutes on two cores with nothing else running. A slower tier is reported and fails nothing.
const TEST_MINUTES: f64 = 20.0;
const TEST_AND_CI_MINUTES: f64 = 50.0;
const FULL_MINUTES: f64 = 100.0;

/// `test`, `ci` and `full`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps, by their names in the timeline; the results of the steps they need must be there.
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    only: Vec<String>,
    /// The steps in this file instead: the runner's own tests use it.
    #[arg(long, value_name = "FILE", hide = true)]
    steps: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct FullArgs {
    #[command(flatten)]
    args: Args,
    /// Also run the lanes that have passed with the present inputs.
    #[arg(long)]
    again: bool,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    step: Vec<StepEntry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StepEntry {
    name: String,
    command: Vec<String>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    never_again: bool,
}

pub(crate) fn test(args: &Args) -> anyhow::Result<()> {
    if rustix::process::geteuid().is_root() {
        packages::require(packages::FOR_TESTS)?;
    } else {
        let missing = packages::missing(packages::FOR_TESTS);
        eprintln!("not root: tests that need root are skipped and listed at the end");
        if !missing.is_empty() {
            eprintln!("not installed, so tests that need them are skipped: {}", missing.join(" "));
        }
    }
    let report = run("test", &chosen(steps::test()?, &args.only)?, None)?;
    warn_if_over("test", summary::minutes(report.length), TEST_MINUTES);
    verdict(&report)
}

pub(crate) fn ci(args: &Args) -> anyhow::Result<()> {
    if let Some(file) = &args.steps {
        return verdict(&run("ci", &read(file)?, None)?);
    }
    prepare("ci")?;
    let report = run("ci", &chosen(steps::ci()?, &args.only)?, None)?;
    let tests = summary::minutes_of(&summary_path(), "test").unwrap_or_default();
    warn_if_over("test and ci", tests + summary::minutes(report.length), TEST_AND_CI_MINUTES);
    verdict(&report)
}

pub(crate) fn full(args: &FullArgs) -> anyhow::Result<()> {
    let steps = match &args.args.steps {
        Some(file) => read(file)?,
        None => {
            prepare("full")?;
            chosen(steps::full()?, &args.args.only)?
        }
    };
    let records = Records::open(home().join("lanes"))?;
    let (kept, steps) = if args.again { (Vec::new(), steps) } else { without_passed(steps, &records) };
    for (name, minutes) in &kept {
        println!("unchanged {name}: passed earlier in {minutes} minutes with the same inputs");
    }
    if steps.is_empty() {
        println!("every lane has passed");
        return Ok(());
    }
    let report = run("full", &steps, Some(&records))?;
    let earlier: f64 = kept.iter().map(|(_, minutes)| minutes).sum();
    warn_if_over("full", earlier + summary::minutes(report.length), FULL_MINUTES);
    verdict(&report)
}

fn prepare(tier: &str) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "`cargo xtask {tier}` needs root on Debian 12: it installs packages and builds images of guests. \
         `cargo xtask test` needs no root"
    );
    packages::require(&[packages::FOR_TESTS, packages::FOR_GUEST].concat())
}

/// Also removes the preparations that no other lane needs.
fn without_passed(steps: Vec<Step>, records: &Records) -> (Vec<(&'static str, f64)>, Vec<Step>) {
    let mut selected = Vec::new();
    let mut rest: Vec<Step> = steps
        .into_iter()
        .filter(|step| {
            // A record does not prove that the results of a preparation still exist.
            let passed = if steps::prepares(step) { None } else { records.passed(step) };
            selected.extend(passed.map(|minutes| (step.name, minutes)));
            passed.is_none()
        })
        .collect();
    let needed: Vec<&str> = rest.iter().flat_map(|step| step.needs.clone()).collect();
    rest.retain(|step| !steps::prepares(step) || needed.contains(&step.name));
    (selected, rest)
}

fn run(tier: &str, steps: &[Step], records: Option<&Records>) -> anyhow::Result<Report> {
    std::env::set_current_dir(process::workspace())?;
    let under = [&["env"], &cargo::COMPILER[..]].concat();
    let report = scheduler::run(steps, &under, &home().join(tier), |span| {
        let step = steps.iter().find(|step| step.name == span.name);
        match (records, step) {
            (Some(records), Some(step)) if span.outcome.passed() => records.save(step, span),
            _ => Ok(()),
        }
    })?;
    let commit = process::output(&process::workspace(), "git", &["rev-parse", "HEAD"]).unwrap_or_default();
    summary::write(&summary_path(), tier, String::from_utf8_lossy(&commit).trim(), &report)?;
    Ok(report)
}

fn home() -> PathBuf {
    process::target_dir().join("ci")
}

fn summary_path() -> PathBuf {
    home().join("summary.json")
}

fn warn_if_over(tiers: &str, minutes: f64, most: f64) {
    if minutes > most {
        println!("warning: {tiers} took {minutes:.1} minutes; the budget is {most} on two idle cores");
    }
}

fn verdict(report: &Report) -> anyhow::Result<()> {
    let (failed, all) = (report.failed(), report.failed() + report.passed());
    ensure!(failed == 0, "{failed} of {all} steps failed");
    Ok(())
}

fn chosen(steps: Vec<Step>, only: &[String]) -> anyhow::Result<Vec<Step>> {
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    if let Some(unknown) = only.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        bail!("unknown step {unknown}; steps: {}", names.join(", "));
    }
    if only.is_empty() {
        return Ok(steps);
    }
    let is_chosen = |name: &str| only.iter().any(|wanted| wanted == name);
    let mut chosen: Vec<Step> = steps.into_iter().filter(|step| is_chosen(step.name)).collect();
    // The results of steps that are not chosen exist from an earlier run.
    chosen.iter_mut().for_each(|step| step.needs.retain(|needed| is_chosen(needed)));
    Ok(chosen)
}

fn read(path: &Path) -> anyhow::Result<Vec<Step>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file: File = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
    // Names live as long as the process, as those of the tiers do.
    let name = |name: String| -> &'static str { Box::leak(name.into_boxed_str()) };
    let step = |StepEntry { name: own, command, needs, never_again }: StepEntry| {
        let needs: Vec<&'static str> = needs.into_iter().map(name).collect();
        let step = Step::new(name(own), command, 1).after(&needs);
        if never_again { Step { retry: Retry::Never, ..step } } else { step }
    };
    Ok(file.step.into_iter().map(step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_steps_need_only_each_other() {
        let only = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let chosen = chosen(steps::ci()?, &names)?;
            anyhow::Ok(chosen.into_iter().map(|step| (step.name, step.needs)).collect::<Vec<_>>())
        };
        assert_eq!(only(&[]).unwrap().len(), steps::ci().unwrap().len());
        let programs = steps::PROGRAMS;
        assert_eq!(only(&["interop", programs]).unwrap(), [(programs, vec![]), ("interop", vec![programs])]);
        assert!(only(&["builds"]).unwrap_err().to_string().contains("steps: test programs, "));
    }
}
