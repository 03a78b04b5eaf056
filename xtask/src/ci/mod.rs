//! `cargo xtask ci` and its quick part, `cargo xtask test`: every check, two at a time, and a timeline at the end.
//!
//! A guest is emulated on about one core, so something else runs beside it. What measures time runs alone, at the end. All that
//! is tested is compiled once, by the profile `dev`, which optimizes the data path: every cargo command names the whole workspace,
//! because for a part of it cargo chooses fewer features and compiles the dependencies again.

mod lanes;
mod step;
mod timeline;

use anyhow::{Context, bail, ensure};

use crate::cargo;
use crate::packages;
use crate::process;
use step::{Load, Step};

/// Test targets that compare rates and times with what they should be. They run alone.
const TIMED_TESTS: [&str; 7] = ["agents", "eda", "generator", "limits", "loads", "measured", "rate"];
/// What every step runs under, so that clippy compiles and looks at what it compiles. As a check beside the compiler it would take as
/// long as that; were one cargo command not told, it would compile all again.
const COMPILER: [&str; 3] =
    ["env", "RUSTC_WORKSPACE_WRAPPER=clippy-driver", "CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__"];
/// The step that compiles the service and all tests.
const PROGRAMS: &str = "test programs";
/// Steps that give files away.
const OF_ROOT: [&str; 3] = ["crash", "interop", "smbtorture"];
/// The steps that make the guests, of Debian 12 and 13; without them there are no steps in a guest.
const IMAGE: &str = "guest image";
const IMAGE_13: &str = "guest image 13";

/// `ci` and `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps, by the names in the timeline; what they need must be there.
    #[arg(long, value_delimiter = ',', value_name = "STEPS")]
    only: Vec<String>,
}

/// All of it.
pub(crate) fn all(args: &Args) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "`cargo xtask ci` runs as root on Debian 12: it installs packages and builds the guest's image. \
         `cargo xtask test` is the part that needs no root"
    );
    packages::require(&[packages::FOR_TESTS, packages::FOR_GUEST, packages::FOR_PERF].concat())?;
    run(&chosen(steps()?, &args.only)?)
}

/// What needs no guest.
pub(crate) fn quick(args: &Args) -> anyhow::Result<()> {
    packages::require(packages::FOR_TESTS)?;
    run(&chosen(as_whom_it_is(without_guest(steps()?)), &args.only)?)
}

/// Runs them in the workspace, with their logs below `target/ci`.
fn run(steps: &[Step]) -> anyhow::Result<()> {
    std::env::set_current_dir(process::workspace())?;
    lanes::run(steps, &COMPILER, &process::target_dir().join("ci"))
}

fn chosen(steps: Vec<Step>, only: &[String]) -> anyhow::Result<Vec<Step>> {
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    if let Some(unknown) = only.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        bail!("there is no step {unknown}; there are: {}", names.join(", "));
    }
    if only.is_empty() {
        return Ok(steps);
    }
    let is_chosen = |name: &str| only.iter().any(|wanted| wanted == name);
    let mut chosen: Vec<Step> = steps.into_iter().filter(|step| is_chosen(step.name)).collect();
    chosen.iter_mut().for_each(|step| step.needs.retain(|needed| is_chosen(needed)));
    Ok(chosen)
}

fn without_guest(steps: Vec<Step>) -> Vec<Step> {
    let is_image = |name: &&str| [IMAGE, IMAGE_13].contains(name);
    steps.into_iter().filter(|step| !is_image(&step.name) && !step.needs.iter().any(is_image)).collect()
}

/// Without what only root can do, and says so: files of the user who logs in over SMB.
fn as_whom_it_is(mut steps: Vec<Step>) -> Vec<Step> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run, because this is not root: {}", OF_ROOT.join(", "));
        steps.retain(|step| !OF_ROOT.contains(&step.name));
    }
    steps
}

/// A lane that is free takes the first step that can run: what fails at once comes first, then what takes longest.
fn steps() -> anyhow::Result<Vec<Step>> {
    let names = cargo::test_targets()?;
    let (timed, others): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| TIMED_TESTS.contains(name));
    Ok(vec![
        command("fmt", "cargo fmt --all --check", 2),
        xtask("tidy", &["tidy"], 2)?,
        command(PROGRAMS, "cargo test --locked --workspace --all-targets --no-run", 30),
        xtask(IMAGE, &["guest", "image"], 20)?,
        xtask(IMAGE_13, &["guest", "image", "--suite", "trixie"], 20)?,
        with_binary("kernel client", &["guest", "kernel-client"], 32)?.after(&[IMAGE]),
        tests("tests", &["--lib", "--bins"], &others),
        with_binary("kernel client 13", &["guest", "kernel-client", "--suite", "trixie"], 32)?
            .after(&[IMAGE_13]),
        with_binary("interop", &["interop"], 20)?,
        with_binary("tls", &["guest", "tls"], 24)?.after(&[IMAGE_13]),
        with_binary("smb", &["guest", "smb"], 32)?.after(&[IMAGE]),
        with_binary("crossproto", &["guest", "crossproto"], 24)?.after(&[IMAGE]).takes(Load::Little),
        with_binary("smbtorture", &["smbtorture"], 30)?.takes(Load::Little),
        xtask("quota", &["guest", "quota"], 40)?.after(&[PROGRAMS, IMAGE]),
        with_binary("power cut on ext4", &["guest", "power-cut", "--smb", "--fs", "ext4"], 20)?
            .after(&[IMAGE]),
        with_binary("power cut on XFS", &["guest", "power-cut", "--smb", "--fs", "xfs"], 20)?.after(&[IMAGE]),
        with_binary("hold", &["guest", "hold"], 16)?.after(&[IMAGE]),
        with_binary("tune", &["guest", "tune"], 24)?.after(&[IMAGE]),
        command("schemathesis", "conformance/schemathesis/run 15", 15).after(&[PROGRAMS]),
        command("fio-plot", "conformance/fio-plot/run", 10).after(&[PROGRAMS]),
        with_binary("crash", &["crash", "--smb"], 10)?,
        with_binary("pages", &["pages"], 32)?,
        with_binary("docs", &["docs"], 32)?,
        tests("doc tests", &["--doc"], &[]),
        tests("timed tests", &[], &timed).takes(Load::Machine),
        // Its client and the built-in one are to find the same.
        with_binary("prove in a guest", &["guest", "prove"], 32)?.after(&[IMAGE]).takes(Load::Machine),
        // Two guests, which take what there is.
        with_binary("two clients", &["guest", "two-clients"], 24)?
            .after(&[IMAGE, IMAGE_13])
            .takes(Load::Machine),
        with_binary("prove", &["prove"], 40)?.takes(Load::Machine),
    ])
}

/// Some of the tests. What they need is there if this is root, so that none may be left out.
fn tests(name: &'static str, kinds: &[&str], targets: &[&str]) -> Step {
    let everything =
        if rustix::process::geteuid().is_root() { "env PLIMSOLL_TESTS_REQUIRE_ALL=1 " } else { "" };
    let mut line = format!("{everything}cargo test --locked --workspace --no-fail-fast");
    let targets = targets.iter().flat_map(|target| ["--test", target]);
    for word in kinds.iter().copied().chain(targets) {
        line = line + " " + word;
    }
    command(name, &line, 30).after(&[PROGRAMS])
}

fn command(name: &'static str, line: &str, minutes_max: u64) -> Step {
    Step::new(name, line.split(' ').map(String::from).collect(), minutes_max)
}

/// A command of this program.
fn xtask(name: &'static str, arguments: &[&str], minutes_max: u64) -> anyhow::Result<Step> {
    let own = std::env::current_exe()?;
    let own = own.to_str().context("a path that is not UTF-8")?;
    let argv = [&[own], arguments].concat().into_iter().map(String::from).collect();
    Ok(Step::new(name, argv, minutes_max))
}

/// A command of this program that is told where the server is: the one that the tests are made with.
fn with_binary(name: &'static str, arguments: &[&str], minutes_max: u64) -> anyhow::Result<Step> {
    let binary = process::target_dir().join("debug/plimsoll");
    let binary = binary.to_str().context("a path that is not UTF-8")?;
    Ok(xtask(name, &[arguments, &["--binary", binary]].concat(), minutes_max)?.after(&[PROGRAMS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_needs_is_there() {
        let all = steps().unwrap();
        for steps in [all.clone(), without_guest(all)] {
            for (index, step) in steps.iter().enumerate() {
                for needed in &step.needs {
                    assert!(steps.iter().any(|other| other.name == *needed), "{} needs {needed}", step.name);
                }
                assert!(steps[..index].iter().all(|other| other.name != step.name), "{} twice", step.name);
            }
        }
    }

    #[test]
    fn chosen_steps_need_each_other_only() {
        let only = |names: &[&str]| {
            let chosen = chosen(steps()?, &names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
            anyhow::Ok(chosen.into_iter().map(|step| (step.name, step.needs)).collect::<Vec<_>>())
        };
        assert_eq!(only(&[]).unwrap().len(), steps().unwrap().len());
        assert_eq!(only(&["interop", PROGRAMS]).unwrap(), [(PROGRAMS, vec![]), ("interop", vec![PROGRAMS])]);
        assert!(only(&["builds"]).unwrap_err().to_string().contains("there are: fmt, tidy, "));
    }

    #[test]
    fn every_test_target_runs_once() {
        let steps = steps().unwrap();
        let runs = |target: &str| {
            let arguments = steps.iter().flat_map(|step| step.argv.windows(2));
            arguments.filter(|pair| pair[0] == "--test" && pair[1] == target).count()
        };
        let targets = cargo::test_targets().unwrap();
        assert!(targets.iter().all(|target| runs(target) == 1));
        assert!(TIMED_TESTS.iter().all(|timed| targets.iter().any(|target| target == timed)), "{targets:?}");
    }

    #[test]
    fn the_quick_part_has_no_guest() {
        let quick = without_guest(steps().unwrap());
        assert!(quick.len() > 10);
        assert!(quick.iter().all(|step| !step.argv.iter().any(|word| word == "guest")));
    }
}
