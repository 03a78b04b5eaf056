//! `plimsoll bench run` and `plimsoll bench list`: scenarios.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::server;
use crate::manage::ServiceArgs;
use anyhow::{Context, bail};
use bench::agent::{Remote, Token};
use bench::engine::{self, Caller, Engine};
use bench::observer::Observer;
use bench::result::{Measurement, Run};
use bench::run::{Audience, Crew, Order, Phase, Progress, Side, Thoroughness};
use bench::scenario::{self, Preset, Scenario};
use bench::units::parse_size;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Steps of a progress bar.
const STEPS: u64 = 1000;

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
    /// How thoroughly
    #[arg(long, value_enum, default_value = "standard")]
    preset: PresetArg,
    /// Where the result goes, as JSON [default: SCENARIO-SECONDS.json here, with the seconds since 1970]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Most bytes of all files together; they are never more than half of what is free
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    working_set: Option<u64>,
    /// Repetitions of each point instead of the preset's
    #[arg(long)]
    repetitions: Option<u32>,
    /// Seconds of each measurement instead of the preset's; at points of a load curve also of the warm-up
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=1800))]
    time: Option<u64>,
    /// Only these series, by a part of their names; separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    series: Vec<String>,
    /// Where the pseudo-random sequences begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Remove the files afterwards; without it the next run uses them again
    #[arg(long)]
    cleanup: bool,
    /// Agents that make the load instead of this machine: HOST:PORT, separated by commas (see "plimsoll agent")
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT", requires = "agent_token_file")]
    agents: Vec<String>,
    /// File with the secret that the agents know
    #[arg(long, value_name = "FILE")]
    agent_token_file: Option<PathBuf>,
    #[command(flatten)]
    caller: CallerArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

/// As whom the built-in clients call.
#[derive(Clone, Debug, Args)]
pub(crate) struct CallerArgs {
    /// User id of the caller
    #[arg(long, default_value_t = 0)]
    uid: u32,
    /// Group id of the caller
    #[arg(long, default_value_t = 0)]
    gid: u32,
    /// Call from ports below 1024, which many Linux servers demand
    #[arg(long)]
    privileged_port: bool,
    /// Local addresses to call from, dealt to the clients in turn; separated by commas
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    source: Vec<std::net::IpAddr>,
}

impl From<CallerArgs> for Caller {
    fn from(arguments: CallerArgs) -> Self {
        let CallerArgs { uid, gid, privileged_port, source } = arguments;
        Self { uid, gid, privileged_port, sources: source }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PresetArg {
    /// In minutes: 3 × 3 s each, after 1 s of warm-up; the result says so.
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

/// Prints the scenarios that come with the program.
pub(super) fn list() -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    for scenario in scenario::all() {
        let points: usize = scenario.series.iter().map(|series| series.points().len()).sum();
        writeln!(out, "{:<22}{} ({points} points)", scenario.name, scenario.title)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a scenario; without a result in any point it ends with a failure.
pub(super) fn run(arguments: RunArgs) -> anyhow::Result<ExitCode> {
    let scenario = chosen(&arguments.scenario, &arguments.series)?;
    let preset = Preset::from(arguments.preset);
    let mut thoroughness = Thoroughness::from(preset);
    thoroughness.repetitions = arguments.repetitions.unwrap_or(thoroughness.repetitions).max(1);
    if let Some(time) = arguments.time {
        (thoroughness.time, thoroughness.curve) = (time, (time, time));
    }
    let order = Order {
        scenario,
        preset,
        thoroughness,
        seed: arguments.seed,
        working_set_max: arguments.working_set,
    };
    let mut sides = [side(&arguments, &arguments.target)?];
    let stop = interrupted()?;
    let mut screen = Screen::new();
    let runs = bench::run::run(&order, &mut sides, &stop, &mut screen)?;
    screen.bar.finish_and_clear();
    for run in &runs {
        let path = arguments.output.clone().unwrap_or_else(|| default_name(run));
        write(run, &path)?;
        writeln!(io::stdout(), "result: {}", path.display())?;
    }
    if arguments.cleanup {
        sides.iter_mut().try_for_each(|side| side.crew.clear())?;
    }
    let has_result =
        |run: &Run| run.cells.iter().any(|cell| cell.measurements.iter().any(Measurement::is_valid));
    Ok(if runs.iter().all(has_result) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A target with who makes its load, and who can tell of it.
fn side(arguments: &RunArgs, target: &str) -> anyhow::Result<Side> {
    let caller: Caller = arguments.caller.clone().into();
    let engines = match &arguments.agent_token_file {
        Some(file) if !arguments.agents.is_empty() => {
            let token = Token::read(file)?;
            let remote = |address: &String| {
                let mut remote = Remote::connect(address, &token)?;
                remote.open(target, &caller)?;
                Ok(Box::new(remote) as Box<dyn Engine>)
            };
            arguments.agents.iter().map(remote).collect::<Result<_, bench::Error>>()?
        }
        _ => vec![engine::open(target, &caller)?],
    };
    let observer = match target.parse() {
        Ok(target) => server::observe(&arguments.service, &target)?,
        // A directory: who serves it is not known.
        Err(_) => None,
    };
    let observer = observer.map(|observer| Box::new(observer) as Box<dyn Observer>);
    Ok(Side { crew: Crew::new(engines)?, observer })
}

/// A scenario by its name or from a file, and of it only the wanted series.
fn chosen(name: &str, series: &[String]) -> anyhow::Result<Scenario> {
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

/// Becomes true with the first SIGINT or SIGTERM; a second one ends the process at once.
fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn default_name(run: &Run) -> PathBuf {
    format!("{}-{:.0}.json", run.scenario.name, run.started).into()
}

fn write(run: &Run, path: &PathBuf) -> anyhow::Result<()> {
    let text = serde_json::to_string(run)?;
    fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
}

/// A bar with a live line on a terminal, and a line for each repetition.
struct Screen {
    bar: ProgressBar,
}

impl Screen {
    fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let style =
            ProgressStyle::with_template("{bar:30} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: ProgressBar::new(STEPS).with_style(style) }
    }
}

impl Audience for Screen {
    fn progress(&mut self, progress: &Progress<'_>) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of STEPS")]
        self.bar.set_position((progress.done.clamp(0.0, 1.0) * STEPS as f64) as u64);
        let moment = progress.moment;
        let doing = match moment.phase {
            Phase::Layout(share) => format!("making files, {:.0} %", share * 100.0),
            Phase::WarmUp => "warming up".to_owned(),
            Phase::Measuring(_) => "measuring".to_owned(),
        };
        let (ops, mib, left) = (moment.ops_per_s, moment.mib_per_s, progress.left.as_secs());
        let left = format!("{}:{:02} left", left / 60, left % 60);
        self.bar.set_message(format!("{left} · {}: {doing}, {ops:.0} ops/s, {mib:.0} MiB/s", progress.label));
    }

    fn measured(&mut self, _side: usize, label: &str, measurement: &Measurement) {
        let seconds = measurement.seconds;
        let (ops, mib) = (
            measurement.ops(None) as f64 / seconds,
            measurement.bytes(None) as f64 / seconds / f64::from(1 << 20),
        );
        let latency = measurement.service(None).latency();
        let mut line = format!(
            "{label}: {ops:.0} ops/s, {mib:.1} MiB/s, mean {:.3} ms, p99 {:.3} ms",
            latency.mean_ms, latency.p99_ms
        );
        for doubt in &measurement.doubts {
            line.push_str(&format!("\n  {}", doubt.text));
        }
        if self.bar.is_hidden() {
            // Nobody is left to be told where even this fails.
            let _ = writeln!(io::stderr(), "{line}");
        } else {
            self.bar.println(line);
        }
    }
}
