//! `plimsoll demo`: volumes of its own, served, driven over real sockets, held to a service level, and left running.

use crate::config::{Config, SmbConfig};
use crate::exit::usage;
use crate::host::Host;
use crate::manage::words;
use crate::mounting::note;
use crate::nfs_frontend::{Listen, run_until_told};
use crate::signals::ignore_reloads;
use crate::terminal;
use api::convert::ToValue;
use bench::demo::{self, Row, Step};
use bench::load::{self, Op, Plan, Progress, Report};
use bench::{Target, Version};
use clap::Args;
use control::{Actor, ChangeContext, NewPool, NewVolume, Protocols, VolumeChange};
use envelope::Bytes;
use envelope::parse_duration;
use indicatif::{ProgressBar, ProgressStyle};
use report::document::LIMIT_REACHED;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vfs::{Durability, Root};

/// The arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plimsoll demo                 serve ./plimsoll-data and go on until Ctrl-C
  plimsoll demo --once          measure for about 15 seconds, then end: status 0 if every byte came back right")]
pub(crate) struct DemoArgs {
    /// End after the measurements instead of going on to serve
    #[arg(long)]
    once: bool,
    /// Data directory of the volumes; created if needed
    #[arg(long, default_value = "plimsoll-data", value_name = "DIR")]
    data: PathBuf,
    /// Time to measure what the machine gives, roughly; the service level takes 8 s more
    #[arg(long, default_value = "6s", value_parser = parse_duration)]
    time: Duration,
    /// When a stable write is acknowledged: after the flush, or at once (a power cut then loses the last seconds)
    #[arg(long, value_parser = words::durability(), default_value = "sync")]
    durability: api_client::model::Durability,
    #[command(flatten)]
    listen: Listen,
}

/// The shortest measurement.
const TIME_MIN: Duration = Duration::from_millis(100);
/// The volume that shows what the machine gives, and its pool.
const FREE: &str = "demo";
/// The volume that shows what a service level gives, and its pool.
const HELD: &str = "held";
/// The level, the pool's size, and the volume's sizes before and after: ANF's Ultra gives 128 MiB/s for each TiB.
const HELD_LEVEL: &str = "anf/ultra";
const HELD_POOL: Bytes = Bytes::tib(4);
const HELD_SIZES: [Bytes; 2] = [Bytes::tib(1), Bytes::tib(2)];
/// Everybody may make files in the volumes, and only their owners remove them: as in /tmp.
const ROOT: Root = Root { mode: 0o1777, uid: 0, gid: 0 };
/// Seconds with the first size, and as many with the second.
const HELD_S: usize = 3;

/// Serves, measures, and goes on serving unless told otherwise.
pub(crate) fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    args.listen.tls.check().map_err(usage)?;
    args.listen.lease.check()?;
    if args.time < TIME_MIN {
        return Err(usage(format!("--time is {} ms; allowed: 100ms or more", args.time.as_millis())));
    }
    ignore_reloads();
    let host =
        Host::start(&args.data, &args.listen, &SmbConfig::default(), &Config::default().storage(), None)?;
    let durability = args.durability.to_value();
    make_volume(&host, FREE, "plimsoll/unlimited", Bytes::tib(1), Bytes::tib(1), durability)?;
    make_volume(&host, HELD, HELD_LEVEL, HELD_POOL, HELD_SIZES[0], durability)?;
    println!("Serving {} on {}{}", args.data.display(), host.frontend.address(), note(durability));
    let measured = measure(&host, args.time);
    if let Err(error) = &measured {
        terminal::fail(&format!("the demo failed: {error:#}"));
    }
    if measured.is_err() || args.once {
        host.stop();
        if measured.is_err() {
            return Ok(ExitCode::FAILURE);
        }
        println!("\nThe volumes {FREE} and {HELD} stay in {}. Try next:", args.data.display());
        print_next(&format!("plimsoll serve --data {}", args.data.display()), "serve them until Ctrl-C");
        return Ok(ExitCode::SUCCESS);
    }
    let announce = || {
        println!("\nStill serving; Ctrl-C ends it. Mount as root:");
        let namespace = host.frontend.namespace();
        print!("{}", host.frontend.mounting().commands_of(&namespace));
        println!("\nOr from another terminal:");
        let load = format!("plimsoll bench load nfs://{}/{FREE} --op mix --time 5s", host.frontend.address());
        print_next(&load, "drive it yourself");
    };
    run_until_told(announce, host.tasks(), "Demo");
    host.stop();
    Ok(ExitCode::SUCCESS)
}

/// Makes a volume in a pool of the same name, if they are not there.
fn make_volume(
    host: &Host,
    name: &str,
    level: &str,
    pool_size: Bytes,
    size: Bytes,
    durability: Durability,
) -> anyhow::Result<()> {
    let terms = ChangeContext::by(Actor::new("demo"));
    let pool = NewPool::new(name.parse()?, level.parse()?, pool_size);
    host.control.create_pool(&terms, &pool)?;
    let everybody = control::ExportRule {
        squash: vfs::Squash::Root,
        ..control::ExportRule::for_clients("0.0.0.0/0,::/0".parse()?)
    };
    let is_new = host.control.volume(&name.parse()?).is_err();
    // An earlier run may have ended with the second size.
    if !is_new {
        resize(host, name, size)?;
    }
    let possible: Protocols = pool.level.info().protocols.iter().copied().collect();
    let volume = NewVolume {
        root: Some(ROOT),
        protocols: is_new.then(|| possible.and(Protocols::NFS)),
        durability: Some(durability),
        rules: Some(vec![everybody]),
        ..NewVolume::new(name.parse()?, pool.name, size)
    };
    host.control.create_volume(&terms, &volume)?;
    Ok(())
}

fn resize(host: &Host, name: &str, size: Bytes) -> anyhow::Result<()> {
    let change = VolumeChange { size: Some(size), ..VolumeChange::default() };
    host.control.update_volume(&ChangeContext::by(Actor::new("demo")), &name.parse()?, &change)?;
    Ok(())
}

/// Measures what the machine gives, then what the level gives, and prints both.
fn measure(host: &Host, time: Duration) -> anyhow::Result<()> {
    let meter = Meter::new();
    let rows = demo::demo(&target(host, FREE), time, &mut |step: Step| meter.show(step.name, step.done))?;
    meter.end();
    print_table(&rows);
    let meter = Meter::new();
    let report = hold(host, &meter)?;
    meter.end();
    println!("\nA volume at {HELD_LEVEL}, read over one mount while it is resized:\n");
    print!("{}", held_in_words(&held(&report)));
    Ok(())
}

/// Reads as fast as it may while the volume grows.
fn hold(host: &Host, meter: &Meter) -> anyhow::Result<Report> {
    let mut plan = Plan::new(target(host, HELD), Op::Read);
    (plan.block, plan.connections, plan.files, plan.size) = (64 << 10, 4, 2, 16 << 20);
    plan.time = Duration::from_secs(2 * HELD_S as u64);
    let mut resized = Ok(false);
    let report = load::run(&plan, &mut |progress| {
        let Progress::Running { warming_up, done, .. } = progress else { return Ok(()) };
        meter.show("hold a service level", done);
        // Half of the measurement, which is all but the warm-up.
        let half = (plan.warm_up + plan.time / 2).div_duration_f64(plan.warm_up + plan.time);
        if !warming_up && done >= half && matches!(resized, Ok(false)) {
            resized = resize(host, HELD, HELD_SIZES[1]).map(|()| true);
        }
        Ok(())
    })?;
    resized?;
    Ok(report)
}

fn target(host: &Host, name: &str) -> Target {
    let address = host.frontend.address();
    let ip = if address.ip().is_unspecified() { "127.0.0.1".into() } else { address.ip().to_string() };
    let (port, export) = (address.port(), format!("/{name}"));
    Target {
        host: ip,
        port,
        mount_port: port,
        others: Vec::new(),
        export,
        version: Version::default(),
        user: None,
        channels: 1,
    }
}

/// Three commands to try: `first`, and two that need no service.
fn print_next(first: &str, what: &str) {
    let size = HELD_SIZES[1].to_string().replace(' ', "");
    let level = format!("plimsoll level show {HELD_LEVEL} --size {size}");
    let commands = [
        (first, what),
        (level.as_str(), "the arithmetic of that limit, with its source"),
        ("plimsoll size --like home --users 500", "a volume for 500 home directories"),
    ];
    let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (command, what) in commands {
        println!("  {command:width$}   {what}");
    }
}

/// Shows the progress in one line: a bar on a terminal, the names of the steps elsewhere.
struct Meter {
    bar: Option<ProgressBar>,
    last: std::cell::Cell<&'static str>,
}

impl Meter {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {msg}");
            ProgressBar::new(100).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, last: Default::default() }
    }

    fn show(&self, step: &'static str, done: f64) {
        match &self.bar {
            Some(bar) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of 100"
                )]
                bar.set_position((done.clamp(0.0, 1.0) * 100.0) as u64);
                bar.set_message(step);
            }
            None if self.last.get() != step => {
                print!("{}{step}", if self.last.get().is_empty() { "Measuring: " } else { ", " });
                // A reader that is gone is not the demo's concern.
                _ = std::io::stdout().flush();
            }
            None => {}
        }
        self.last.set(step);
    }

    fn end(self) {
        match self.bar {
            Some(bar) => bar.finish_and_clear(),
            None => println!(),
        }
    }
}

/// A size of the held volume, with its limit and what was delivered, in MiB/s.
struct Held {
    size: Bytes,
    limit: f64,
    delivered: f64,
}

impl Held {
    /// A volume that did not reach its limit has not shown that it keeps to it.
    fn seen(&self) -> &'static str {
        match self.delivered / self.limit {
            share if share < LIMIT_REACHED => "not reached",
            share if share > 2.0 - LIMIT_REACHED => "exceeded",
            _ => "reached",
        }
    }
}

/// Each size with its seconds. The second in which the size changes has some of both.
fn held(report: &Report) -> Vec<Held> {
    let seconds = [0..HELD_S - 1, HELD_S + 1..2 * HELD_S];
    let one = |(size, seconds): (Bytes, std::ops::Range<usize>)| {
        let bytes: u64 =
            report.series.iter().skip(seconds.start).take(seconds.len()).map(|second| second.bytes).sum();
        let delivered = bytes as f64 / seconds.len() as f64 / f64::from(1 << 20);
        Held { size, limit: 128.0 * (size.0 >> 40) as f64, delivered }
    };
    HELD_SIZES.into_iter().zip(seconds).map(one).collect()
}

/// The promises of the level beside the delivered figures, and the conclusion.
fn held_in_words(all: &[Held]) -> String {
    let mut text = format!("{:<28}{:>12}{:>14}{:>14}\n", "", "limit MiB/s", "delivered", "limit");
    for one in all {
        let Held { size, limit, delivered } = one;
        let seen = one.seen();
        text.push_str(&format!("{:<28}{limit:>12.1}{delivered:>14.1}{seen:>14}\n", size.to_string()));
    }
    let of = |seen: &str| {
        let some = all.iter().filter(|one| one.seen() == seen);
        some.map(|one| format!("{} at {:.1} MiB/s", one.size, one.delivered)).collect::<Vec<_>>().join(", ")
    };
    let [reached, missed, exceeded] = ["reached", "not reached", "exceeded"].map(of);
    text.push_str("\nShown: the service stores what it acknowledges.\n");
    for (which, what) in [
        (reached, "Shown: the volume reaches the limit of its level and size, and keeps to it: "),
        (missed, "Not shown: the volume did not reach its limit, because this machine delivered less: "),
        (exceeded, "Wrong: the volume exceeded its limit: "),
    ] {
        if !which.is_empty() {
            text.push_str(&format!("{what}{which}.\n"));
        }
    }
    text
}

fn print_table(rows: &[Row]) {
    let heads = ["ops/s", "MiB/s", "mean ms", "p99 ms"];
    println!("\n{:<28}{}", "", heads.map(|head| format!("{head:>10}")).concat());
    for row in rows {
        let Row { name, ops_per_s, mib_per_s, latency } = row;
        let rate = if *mib_per_s > 0.0 { format!("{mib_per_s:.0}") } else { "-".into() };
        let times = [latency.mean_ms, latency.p99_ms].map(|ms| format!("{ms:>10.3}")).concat();
        println!("{name:<28}{ops_per_s:>10.0}{rate:>10}{times}");
    }
    println!(
        "\nEvery byte that was written was read back and its checksum compared.\n\
         Client and server share this machine's processors: these are not the figures of a volume.\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(delivered: [f64; 2]) -> String {
        let one =
            |(size, delivered): (Bytes, f64)| Held { size, limit: 128.0 * (size.0 >> 40) as f64, delivered };
        held_in_words(&HELD_SIZES.into_iter().zip(delivered).map(one).collect::<Vec<_>>())
    }

    #[test]
    fn limit_is_shown_only_where_it_was_reached() {
        let both = said([127.9, 256.1]);
        assert!(both.contains("and keeps to it: 1 TiB at 127.9 MiB/s, 2 TiB at 256.1 MiB/s.\n"), "{both}");
        assert!(!both.contains("Not shown") && !both.contains("Wrong"), "{both}");
        let slow = said([127.9, 140.0]);
        assert!(slow.contains("and keeps to it: 1 TiB at 127.9 MiB/s.\n"), "{slow}");
        assert!(slow.contains("because this machine delivered less: 2 TiB at 140.0 MiB/s.\n"), "{slow}");
        assert!(slow.contains("140.0   not reached\n"), "{slow}");
        assert!(
            said([300.0, 256.0]).contains("Wrong: the volume exceeded its limit: 1 TiB at 300.0 MiB/s.\n")
        );
    }
}
