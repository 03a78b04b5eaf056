//! `cargo xtask ci` and its quick part, `cargo xtask test`: every check in order, each timed, and a table at the end.

use std::fmt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::packages;
use crate::process::{self, Process};

/// One check.
struct Step {
    name: &'static str,
    /// Steps that must have passed, since this one uses what they make.
    needs: &'static [&'static str],
    argv: Vec<String>,
    /// It is killed after so many minutes.
    minutes_max: u64,
}

/// How a step ended.
enum Outcome {
    Passed,
    Failed(String),
    /// The step that would have made what it needs.
    NotRun(&'static str),
}

impl Outcome {
    fn passed(&self) -> bool {
        matches!(self, Self::Passed)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::NotRun(needed) => write!(f, "FAILED: not run without \"{needed}\""),
        }
    }
}

/// All of it.
pub(crate) fn all() -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "`cargo xtask ci` runs as root on Debian 12: it installs packages and builds the guest's image. \
         `cargo xtask test` is the part that needs no root"
    );
    packages::require(&[packages::FOR_TESTS, packages::FOR_GUEST, packages::FOR_PERF].concat())?;
    let mut steps = quick_steps()?;
    steps.extend(guest_steps()?);
    run(&steps)
}

/// What needs no guest.
pub(crate) fn quick() -> anyhow::Result<()> {
    packages::require(packages::FOR_TESTS)?;
    run(&quick_steps()?)
}

fn quick_steps() -> anyhow::Result<Vec<Step>> {
    let plain = |name, line: &str, minutes_max| {
        let argv = line.split(' ').map(String::from).collect();
        Step { name, needs: &[], argv, minutes_max }
    };
    Ok(vec![
        plain("build", "cargo build --locked --release --package plimsoll", 15),
        plain("fmt", "cargo fmt --all --check", 2),
        plain("clippy", "cargo clippy --locked --workspace --all-targets -- -D warnings", 15),
        xtask("tidy", &[], &["tidy"], 2)?,
        plain("tests", &tests(), 30),
        xtask("interop", &["build"], &["interop"], 10)?,
        with_binary("crash", &["crash"], 5)?,
        with_binary("prove", &["prove"], 15)?,
        plain("schemathesis", "conformance/schemathesis/run 25", 15),
        plain("fio-plot", "conformance/fio-plot/run", 10),
    ])
}

/// All tests. What they need is there if this is root, so that none may be left out.
fn tests() -> String {
    let everything =
        if rustix::process::geteuid().is_root() { "env PLIMSOLL_TESTS_REQUIRE_ALL=1 " } else { "" };
    format!("{everything}cargo test --locked --workspace --no-fail-fast")
}

fn guest_steps() -> anyhow::Result<Vec<Step>> {
    Ok(vec![
        xtask("guest image", &[], &["guest", "image"], 20)?,
        with_image(with_binary("kernel client", &["guest", "kernel-client"], 16)?),
        with_image(with_binary("power cut, ext4", &["guest", "power-cut", "--fs", "ext4"], 10)?),
        with_image(with_binary("power cut, XFS", &["guest", "power-cut", "--fs", "xfs"], 10)?),
        with_image(with_binary("hold", &["guest", "hold"], 8)?),
        with_image(with_binary("prove in a guest", &["guest", "prove"], 10)?),
        with_image(xtask("quota", &["build"], &["guest", "quota"], 20)?),
    ])
}

/// A command of this program.
fn xtask(
    name: &'static str,
    needs: &'static [&'static str],
    arguments: &[&str],
    minutes_max: u64,
) -> anyhow::Result<Step> {
    let own = std::env::current_exe()?;
    let own = own.to_str().context("a path that is not UTF-8")?;
    let argv = [&[own], arguments].concat().into_iter().map(String::from).collect();
    Ok(Step { name, needs, argv, minutes_max })
}

/// A command of this program that is told where the server is.
fn with_binary(name: &'static str, arguments: &[&str], minutes_max: u64) -> anyhow::Result<Step> {
    let binary = process::binary(None);
    let binary = binary.to_str().context("a path that is not UTF-8")?;
    xtask(name, &["build"], &[arguments, &["--binary", binary]].concat(), minutes_max)
}

fn with_image(step: Step) -> Step {
    Step { needs: &["build", "guest image"], ..step }
}

/// Runs them all, whatever happens to one, and tells how it went.
fn run(steps: &[Step]) -> anyhow::Result<()> {
    std::env::set_current_dir(process::workspace())?;
    let begun = Instant::now();
    let mut done: Vec<(&Step, Outcome, Duration)> = Vec::new();
    for (number, step) in (1..).zip(steps) {
        eprintln!("\n=== {number}/{} {} === {}", steps.len(), step.name, step.argv.join(" "));
        let start = Instant::now();
        let failed = |needed: &&&str| {
            done.iter().any(|(other, outcome, _)| other.name == **needed && !outcome.passed())
        };
        let outcome = match step.needs.iter().find(failed) {
            Some(needed) => Outcome::NotRun(needed),
            None => step.run().map_or_else(|why| Outcome::Failed(format!("{why:#}")), |()| Outcome::Passed),
        };
        eprintln!("=== {}: {outcome} after {:.0} s", step.name, start.elapsed().as_secs_f64());
        done.push((step, outcome, start.elapsed()));
    }
    println!("\n{:<18}{:>7}  outcome", "step", "s");
    for (step, outcome, time) in &done {
        println!("{:<18}{:>7.0}  {outcome}", step.name, time.as_secs_f64());
    }
    println!("{:<18}{:>7.0}", "all", begun.elapsed().as_secs_f64());
    let passed = done.iter().filter(|(_, outcome, _)| outcome.passed()).count();
    let failed = done.len() - passed;
    println!("\n{passed} passed, {failed} failed");
    if failed > 0 { bail!("{failed} of {} steps failed", done.len()) } else { Ok(()) }
}

impl Step {
    fn run(&self) -> anyhow::Result<()> {
        let mut child = Process::start(&self.argv, Stdio::inherit(), Stdio::inherit())?;
        let status = child.wait(Duration::from_secs(self.minutes_max * 60))?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, needs: &'static [&'static str], script: &str) -> Step {
        Step { name, needs, argv: ["sh", "-c", script].map(String::from).into(), minutes_max: 1 }
    }

    #[test]
    fn a_failure_stops_only_what_needs_it() {
        let directory = std::env::temp_dir().join(format!("xtask-ci-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let touch = |name: &str| format!("touch {}/{name}", directory.display());
        let steps = [
            step("one", &[], &touch("one")),
            step("two", &["one"], &format!("{}; exit 3", touch("two"))),
            step("three", &["two"], &touch("three")),
            step("four", &["one"], &touch("four")),
        ];
        let error = run(&steps).unwrap_err().to_string();
        let ran = ["one", "two", "three", "four"].map(|name| directory.join(name).exists());
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(ran, [true, true, false, true]);
        assert_eq!(error, "2 of 4 steps failed");
    }

    #[test]
    fn what_a_step_needs_comes_before_it() {
        let steps: Vec<Step> = quick_steps().unwrap().into_iter().chain(guest_steps().unwrap()).collect();
        for (index, step) in steps.iter().enumerate() {
            for needed in step.needs {
                assert!(
                    steps[..index].iter().any(|other| other.name == *needed),
                    "{} needs {needed}",
                    step.name
                );
            }
        }
    }
}
