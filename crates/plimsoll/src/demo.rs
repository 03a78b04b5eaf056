//! `plimsoll demo`: a volume of its own, served, driven over real sockets, and left running.

use crate::export::DurabilityArg;
use crate::serving::{Listen, Served, Serving};
use crate::state;
use anyhow::Context;
use bench::Target;
use bench::scenario::{self, Row, Step};
use bench::units::parse_duration;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use vfs::{Durability, ExportRule};

/// The arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plimsoll demo                 serve ./plimsoll-data and go on until Ctrl-C
  plimsoll demo --once          measure, print, end with status 0 if every byte came back right")]
pub(crate) struct DemoArgs {
    /// End after the measurements instead of going on to serve
    #[arg(long)]
    once: bool,
    /// Directory for the volume and the key that seals its file handles; made if it is not there
    #[arg(long, default_value = "plimsoll-data", value_name = "DIR")]
    data: PathBuf,
    /// How long to measure in all, roughly
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    time: Duration,
    /// When a stable write is acknowledged: after the flush, or at once (a power cut then loses the last seconds)
    #[arg(long, value_enum, default_value = "sync")]
    durability: DurabilityArg,
    #[command(flatten)]
    listen: Listen,
}

/// The demo's volume and export.
const NAME: &str = "demo";
/// Everybody may make files in the volume, and only their owners remove them: as in /tmp.
const ROOT_MODE: u32 = 0o1777;

/// Serves, measures, and goes on serving unless told otherwise.
pub(crate) fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let volume = make_volume(&args.data)?;
    let durability = Durability::from(args.durability);
    let served = [Served { dir: volume, name: NAME.into(), rule: ExportRule::everybody(), durability }];
    let serving = Serving::start(&served, &args.listen, &args.data)?;
    println!(
        "Serving {} as /{NAME} on {}{}",
        args.data.display(),
        serving.address(),
        serving.durability_note()
    );
    let measured = measure(&serving, args.time);
    match &measured {
        Ok(rows) => print_table(rows),
        Err(error) => eprintln!("plimsoll: the demo failed: {error:#}"),
    }
    if measured.is_err() || args.once {
        serving.stop();
        return Ok(if measured.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    println!("\nStill serving; Ctrl-C ends it. Mount it as root:");
    serving.announce_and_run();
    Ok(ExitCode::SUCCESS)
}

fn make_volume(data: &Path) -> anyhow::Result<PathBuf> {
    state::make_dir(data)?;
    let volume = data.join("volumes").join(NAME);
    state::make_dir(&volume)?;
    let opened = std::fs::set_permissions(&volume, PermissionsExt::from_mode(ROOT_MODE));
    opened.with_context(|| format!("cannot open {} to everybody", volume.display()))?;
    Ok(volume)
}

fn measure(serving: &Serving, time: Duration) -> Result<Vec<Row>, bench::Error> {
    let address = serving.address();
    let host = if address.ip().is_unspecified() { "127.0.0.1".into() } else { address.ip().to_string() };
    let target =
        Target { host, port: address.port(), mount_port: address.port(), export: format!("/{NAME}") };
    let is_terminal = std::io::stderr().is_terminal();
    let bar = if is_terminal { ProgressBar::new(100) } else { ProgressBar::hidden() };
    bar.set_style(
        ProgressStyle::with_template("{bar:30} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut last = "";
    let rows = scenario::demo(&target, time, &mut |step: Step| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 100")]
        bar.set_position((step.done.clamp(0.0, 1.0) * 100.0) as u64);
        bar.set_message(step.name);
        if !is_terminal && step.name != last {
            println!("… {}", step.name);
        }
        last = step.name;
    });
    bar.finish_and_clear();
    rows
}

fn print_table(rows: &[Row]) {
    let heads = ["ops/s", "MiB/s", "mean ms", "p50", "p95", "p99"];
    println!("\n{:<28}{}", "", heads.map(|head| format!("{head:>10}")).concat());
    for row in rows {
        let Row { name, ops_per_s, mib_per_s, latency } = row;
        let rate = if *mib_per_s > 0.0 { format!("{mib_per_s:.0}") } else { "-".into() };
        let times = [latency.mean_ms, latency.p50_ms, latency.p95_ms, latency.p99_ms];
        println!("{name:<28}{ops_per_s:>10.0}{rate:>10}{}", times.map(|ms| format!("{ms:>10.3}")).concat());
    }
    println!(
        "\nEvery byte that was written was read back and its checksum compared.\n\
         Co-located: client and server share this host's processors, so these figures are no volume's envelope."
    );
}
