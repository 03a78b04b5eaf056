//! Measuring one target, or several in turn: what `bench run`, `bench compare` and `bench fio` share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use bench::agent::{Remote, Token};
use bench::engine::{self, Caller, Engine};
use bench::observer::Observer;
use bench::run::{Arm, GeneratorGroup, RunRequest, Thoroughness, working_set_min};
use clap::{Args, ValueEnum};
use envelope::{Bytes, parse_size};
use report::result::{Measurement, Run};
use report::scenario::{Preset, Scenario};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::progress::Screen;
use super::{password::PasswordArgs, server};
use crate::exit::usage;
use crate::manage::ServiceArgs;
use crate::number::{ID_MAX, whole};
use crate::output;
use crate::terminal;

/// The options of every measurement.
#[derive(Debug, Args)]
pub(crate) struct HowArgs {
    /// Thoroughness of the measurement
    #[arg(long, value_enum, default_value = "standard")]
    preset: PresetArg,
    /// Most bytes of all files, like 10GiB
    ///
    /// The files never take more than half of the free space.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    working_set: Option<u64>,
    /// Repetitions of each point [default: the preset's]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX))]
    repetitions: Option<u32>,
    /// Seconds of each measurement [default: the preset's]
    ///
    /// At points of a load curve also those of the warm-up.
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>(1..=1800))]
    time: Option<u64>,
    /// Seed of the pseudo-random sequences
    #[arg(long, hide_short_help = true, default_value_t = 1, value_name = "N", value_parser = whole::<u64>(0..))]
    seed: u64,
    /// Remove the files afterwards
    ///
    /// The next run uses files that remain.
    #[arg(long)]
    cleanup: bool,
    /// Agents that make the load instead of this machine
    ///
    /// Separated by commas: see "plimsoll agent".
    #[arg(
        long,
        hide_short_help = true,
        value_delimiter = ',',
        value_name = "HOST:PORT",
        requires = "agent_token_file"
    )]
    agents: Vec<String>,
    /// File with the secret of the agents
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    agent_token_file: Option<PathBuf>,
    #[command(flatten)]
    caller: CallerArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The identity of the built-in clients.
#[derive(Clone, Debug, Args)]
struct CallerArgs {
    /// User id of the caller
    #[arg(long, hide_short_help = true, default_value_t = 0, value_name = "N", value_parser = whole::<u32>(0..=ID_MAX))]
    uid: u32,
    /// Group id of the caller
    #[arg(long, hide_short_help = true, default_value_t = 0, value_name = "N", value_parser = whole::<u32>(0..=ID_MAX))]
    gid: u32,
    /// Call from ports below 1024, which many Linux servers require
    #[arg(long, hide_short_help = true)]
    privileged_port: bool,
    #[command(flatten)]
    password: PasswordArgs,
    /// Local addresses of the clients, which use them in turn; separated by commas
    #[arg(long, hide_short_help = true, value_name = "ADDRESS", value_delimiter = ',', value_parser = crate::listen_address::ip)]
    source: Vec<std::net::IpAddr>,
}

impl CallerArgs {
    /// The caller, on this machine or through agents. Agents have their own file with the password of a share's user.
    fn caller(&self, target: &str, has_agents: bool) -> anyhow::Result<Caller> {
        let Self { uid, gid, privileged_port, password, source } = self;
        let nt_hash = match target.parse() {
            Ok(target) if !has_agents => password.nt_hash(&target)?,
            // A directory, or what is no target at all, which is said where it is opened.
            _ => None,
        };
        let (uid, gid, privileged_port, sources) = (*uid, *gid, *privileged_port, source.clone());
        Ok(Caller { uid, gid, privileged_port, nt_hash, sources })
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PresetArg {
    /// Minutes: 3 × 3 s each, after 1 s of warm-up; the result says so.
    Quick,
    /// 3 × 60 s each, after warming up until steady, for 30 to 300 s.
    Standard,
    /// 5 × 300 s each, after the same warm-up.
    Full,
}

impl From<PresetArg> for Preset {
    fn from(preset: PresetArg) -> Self {
        match preset {
            PresetArg::Quick => Self::Quick,
            PresetArg::Standard => Self::Standard,
            PresetArg::Full => Self::Full,
        }
    }
}

/// A mount among several that are compared.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    /// A directory on it.
    pub(super) directory: PathBuf,
}

/// Measures the scenario on every target, point by point in turn.
pub(super) fn measured(scenario: &Scenario, targets: &[&str], how: &HowArgs) -> anyhow::Result<Vec<Run>> {
    let arms = targets.iter().map(|target| arm(how, target, targets.len() == 1));
    measured_on(scenario, arms.collect::<anyhow::Result<_>>()?, targets, how)
}

/// Measures the scenario over each of the mounts, point by point in turn.
pub(super) fn measured_cases(scenario: &Scenario, cases: &[Case], how: &HowArgs) -> anyhow::Result<Vec<Run>> {
    let arm = |case: &Case| {
        let engine: Box<dyn Engine> = Box::new(engine::Path::open(&case.directory)?.as_case(&case.name));
        anyhow::Ok(Arm { generators: GeneratorGroup::new(vec![engine])?, observer: None })
    };
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    measured_on(scenario, cases.iter().map(arm).collect::<anyhow::Result<_>>()?, &names, how)
}

fn measured_on(
    scenario: &Scenario,
    mut arms: Vec<Arm>,
    targets: &[&str],
    how: &HowArgs,
) -> anyhow::Result<Vec<Run>> {
    check_working_set(scenario, how.working_set)?;
    let preset = Preset::from(how.preset);
    let mut thoroughness = Thoroughness::from(preset);
    thoroughness.repetitions = how.repetitions.unwrap_or(thoroughness.repetitions).max(1);
    if let Some(time) = how.time {
        (thoroughness.time, thoroughness.curve) = (time, (time, time));
    }
    let (scenario, seed, working_set_max) = (scenario.clone(), how.seed, how.working_set);
    let request = RunRequest { scenario, preset, thoroughness, seed, working_set_max };
    let stop = interrupted()?;
    let mut screen = Screen::new(targets);
    let ended = bench::run::run(&request, &mut arms, &stop, &mut screen);
    screen.finish();
    let runs = ended?;
    if how.cleanup {
        for (arm, target) in arms.iter_mut().zip(targets) {
            // Files that stay are no reason to lose what was measured.
            if let Err(wrong) = arm.generators.clear() {
                terminal::warn(&format!("cannot remove the files on {target}: {wrong}"));
            }
        }
    }
    Ok(runs)
}

/// Refuses a working set with less than a block for each job: more would be used.
fn check_working_set(scenario: &Scenario, given: Option<u64>) -> anyhow::Result<()> {
    match given.zip(working_set_min(scenario)) {
        Some((given, least)) if given < least => Err(usage(format!(
            "--working-set is {}; allowed: {} or more: a block for each job",
            envelope::size(Bytes(given)),
            envelope::size(Bytes(least))
        ))),
        _ => Ok(()),
    }
}

/// Whether anything was measured.
pub(super) fn has_result(run: &Run) -> bool {
    run.cells.iter().any(|cell| cell.measurements.iter().any(Measurement::is_valid))
}

/// Writes the file of a run. A file of that name moves to a free one: it may be the result of hours.
pub(super) fn write(run: &Run, path: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string(run)?;
    if let Some(earlier) = move_away(path)? {
        terminal::warn(&format!("{} existed: it is now {}", path.display(), earlier.display()));
    }
    output::write(path, text + "\n")
}

/// Renames a file with contents to the first free name with a number at its end.
fn move_away(path: &Path) -> anyhow::Result<Option<PathBuf>> {
    let has_contents = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if !has_contents {
        return Ok(None);
    }
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    let free = (1..=u32::MAX).map(numbered).find(is_free).context("no name is free")?;
    fs::rename(path, &free).with_context(|| format!("cannot rename {}", path.display()))?;
    Ok(Some(free))
}

/// A target with who makes its load, and who can tell of it.
fn arm(how: &HowArgs, target: &str, is_only: bool) -> anyhow::Result<Arm> {
    let caller = how.caller.caller(target, !how.agents.is_empty())?;
    let engines = match &how.agent_token_file {
        Some(file) if !how.agents.is_empty() => {
            let token = Token::read(file)?;
            let remote = |address: &String| {
                let mut remote = Remote::connect(address, &token)?;
                remote.open(target, &caller)?;
                Ok(Box::new(remote) as Box<dyn Engine>)
            };
            how.agents.iter().map(remote).collect::<Result<_, bench::Error>>()?
        }
        _ => vec![engine::open(target, &caller)?],
    };
    let observer = match target.parse() {
        Ok(target) if is_only => server::observe(&how.service, &target)?,
        // Of several targets, the service need not serve all.
        Ok(target) => server::observe(&how.service, &target).ok().flatten(),
        // A directory: who serves it is not known.
        Err(_) => None,
    };
    let observer = observer.map(|observer| Box::new(observer) as Box<dyn Observer>);
    Ok(Arm { generators: GeneratorGroup::new(engines)?, observer })
}

/// Becomes true with the first SIGINT or SIGTERM; a second one ends the process at once.
pub(super) fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_result_is_kept_under_a_free_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        let run = report::document::sample::depths();
        write(&run, &path).unwrap();
        let first = fs::read(&path).unwrap();
        for count in 2..4 {
            write(&Run { seed: 99, ..run.clone() }, &path).unwrap();
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), count);
            assert_eq!(fs::read(directory.path().join("r.json.1")).unwrap(), first);
        }
        assert_eq!(fs::read(directory.path().join("r.json.2")).unwrap(), fs::read(&path).unwrap());
    }

    #[test]
    fn working_set_has_a_block_for_each_job() {
        let scenario = |blocks: &str| {
            let text = format!(
                "name = \"a\"\ntitle = \"A\"\n[[series]]\nname = \"one\"\njobs = 4\nclients = [2]\ndepths = [1]\n\
                 blocks = [{blocks}]\n"
            );
            text.parse::<Scenario>().unwrap()
        };
        let small = scenario("\"8k\"");
        assert!(check_working_set(&small, Some(64 << 10)).is_ok() && check_working_set(&small, None).is_ok());
        let error = check_working_set(&small, Some((64 << 10) - 1)).unwrap_err().to_string();
        assert!(error.contains("allowed: 64 KiB or more: a block for each job"), "{error}");
    }
}
