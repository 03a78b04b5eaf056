//! `cargo xtask perf`: the server's CPU time per operation, against a bare server, other builds and NFS-Ganesha.
//!
//! The aims are ratios to the bare server, the floor. NFS-Ganesha has no aim: it is there for readers.
//!
//! The machine's speed drifts between hours, so only ratios within one interleaved run say anything: the contenders
//! take turns in every round, each with a directory of its own on the same file system, all on one core while the
//! generator has another, the data in the page cache. Every second round goes backwards, so that nobody always comes after
//! the same neighbor.

mod contender;
mod isolation;
mod report;
mod rows;
mod sample;
mod smb;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::packages;
use crate::process;
use contender::{Contender, Program, Running, rpcbind};
use report::{BoundKind, RowReport, bounds};
use rows::{ROWS, Row};
use sample::{Method, Sample};

/// `perf`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask perf --only read4k,getattr
  cargo xtask perf --floor ../rpcfloor
  cargo xtask perf --v41 --only read,write4k,getattr,lookup
  cargo xtask perf --against ../before/target/release/plimsoll --no-ganesha
  cargo xtask perf --isolation
  cargo xtask perf --idle 1000 --exports 256 --no-ganesha --json perf-out/burdens.json")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// The server that is judged, and the generator; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Another build of ours to compare with. Fails if a row costs 2 % more than there, by the median of the rounds.
    #[arg(long, value_name = "BINARY")]
    against: Option<PathBuf>,
    /// The bare server that the aims refer to: `BINARY -p PORT -d DIR -m epoll`. Missed aims are printed; they do not fail the run.
    #[arg(long, value_name = "BINARY")]
    floor: Option<PathBuf>,
    /// Leave NFS-Ganesha out.
    #[arg(long)]
    no_ganesha: bool,
    /// Also ours over NFSv4.1, and NFS-Ganesha, in the rows that have an aim there. Missed aims are printed; they do not fail the run.
    #[arg(long)]
    v41: bool,
    /// Also ours with so many idle connections.
    #[arg(long, value_name = "N")]
    idle: Option<usize>,
    /// Also ours with so many exports.
    #[arg(long, value_name = "N")]
    exports: Option<usize>,
    /// Also ours with so many files more in the volume.
    #[arg(long, value_name = "N")]
    files: Option<usize>,
    /// Instead: what a tenant at its limit does to the latency of the volume next door.
    #[arg(long, conflicts_with_all = ["against", "floor", "v41", "idle", "exports", "files", "only"])]
    isolation: bool,
    /// Only these rows, by the beginnings of their keys (read4k, mix8k, sync8k, getattr, …).
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    only: Vec<String>,
    /// Times that the contenders take turns: 9, or 15 with --against.
    #[arg(long)]
    rounds: Option<usize>,
    /// Length of a measurement.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The data file's size.
    #[arg(long, default_value = "1g")]
    size: String,
    /// Where the contenders' directories are made; it decides on the file system.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write everything that was measured here.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What else is compared.
#[derive(clap::Subcommand)]
enum Other {
    /// Over SMB, against Samba's server.
    Smb(smb::Args),
}

/// Rounds below which an aim is not judged: single samples are up to 20 % off.
const AIM_ROUNDS_MIN: usize = 9;
/// Rounds with which a difference of 2 % can be told from noise.
const AGAINST_ROUNDS: usize = 15;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(Other::Smb(args)) = &args.other {
        return smb::run(args);
    }
    let rounds = args.rounds.unwrap_or(if args.against.is_some() { AGAINST_ROUNDS } else { AIM_ROUNDS_MIN });
    ensure!(rounds > 0 && args.seconds > 0.0, "--rounds and --seconds are positive");
    let cores = std::thread::available_parallelism()?.get();
    ensure!(cores >= 2, "server and generator need a core each; this machine has {cores}");
    packages::require(if args.no_ganesha || args.isolation {
        &[("taskset", "util-linux")]
    } else {
        packages::FOR_PERF
    })?;
    raise_descriptor_limit();
    let rows = chosen_rows(&args.only)?;
    let work = args.directory.clone().unwrap_or_else(process::target_dir).join("perf");
    process::empty_dir(&work)?;
    let work = work.canonicalize()?;
    let binary = process::binary(args.binary.as_deref());
    if args.isolation {
        isolation::run(&binary, &work, rounds, args.seconds, args.json.as_deref())?;
        return fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()));
    }
    let contenders = contenders(args, &binary, &work);
    contenders.iter().filter(|one| one.guest_of.is_none()).try_for_each(Contender::prepare)?;
    // Held until the end of the run.
    let _portmapper = if args.no_ganesha { None } else { rpcbind(&work.join("rpcbind.log"))? };
    let log = work.join("generator.log");
    let method = Method { generator: &binary, seconds: args.seconds, size: &args.size, log: &log };
    let mut reports = Vec::new();
    for relaxed in [false, true] {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.relaxed == relaxed).collect();
        reports.extend(measure_with(&method, &rows, &contenders, relaxed, rounds)?);
    }
    tell(&reports, rounds, args.json.as_deref())?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    report::require_no_row_worse(&reports)
}

fn chosen_rows(only: &[String]) -> anyhow::Result<Vec<&'static Row>> {
    for wanted in only {
        if !ROWS.iter().any(|row| row.key.starts_with(wanted.as_str())) {
            let keys: Vec<&str> = ROWS.iter().map(|row| row.key).collect();
            bail!("--only {wanted}: no row begins so; there are {}", keys.join(" "));
        }
    }
    let chosen =
        |row: &&Row| only.is_empty() || only.iter().any(|wanted| row.key.starts_with(wanted.as_str()));
    Ok(ROWS.iter().filter(chosen).collect())
}

/// Who takes part, the one that is judged first.
fn contenders(args: &Args, binary: &Path, work: &Path) -> Vec<Contender> {
    let contender = |name: &str, program: Program| Contender {
        name: name.to_owned(),
        program,
        bound: None,
        speaks_v41: false,
        guest_of: None,
        directory: work.join(name.replace(' ', "")),
        idle: 0,
        exports: 1,
        files: 0,
    };
    let ours = |burden: &str| contender(&format!("plimsoll{burden}"), Program::Plimsoll(binary.to_owned()));
    let bounded = |kind: BoundKind, contender: Contender| Contender { bound: Some(kind), ..contender };
    let burdened = |burden: String| bounded(BoundKind::Burden, ours(&burden));
    let mut all = vec![ours("")];
    all.extend(
        args.against
            .clone()
            .map(|binary| bounded(BoundKind::Against, contender("against", Program::Plimsoll(binary)))),
    );
    let over_v41 = |all: &[Contender], of: usize, kind: BoundKind| Contender {
        name: format!("{} 4.1", all[of].name),
        bound: Some(kind),
        speaks_v41: true,
        guest_of: Some(of),
        ..all[of].clone()
    };
    if args.v41 {
        all.push(over_v41(&all, 0, BoundKind::V3));
    }
    if !args.no_ganesha {
        all.push(contender("ganesha", Program::Ganesha));
    }
    if args.v41 && !args.no_ganesha {
        all.push(over_v41(&all, all.len() - 1, BoundKind::Ganesha));
    }
    all.extend(
        args.floor
            .clone()
            .map(|binary| bounded(BoundKind::Floor, contender("floor", Program::Floor(binary)))),
    );
    all.extend(args.idle.map(|idle| Contender { idle, ..burdened(format!(" + {idle} idle")) }));
    all.extend(
        args.exports.map(|exports| Contender { exports, ..burdened(format!(" + {exports} exports")) }),
    );
    all.extend(args.files.map(|files| Contender { files, ..burdened(format!(" + {files} files")) }));
    all
}

/// Starts everybody, measures the rows, stops everybody.
fn measure_with(
    method: &Method<'_>,
    rows: &[&Row],
    contenders: &[Contender],
    relaxed: bool,
    rounds: usize,
) -> anyhow::Result<Vec<RowReport>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let servers = contenders
        .iter()
        .map(|contender| contender.guest_of.is_none().then(|| contender.start(relaxed)).transpose())
        .collect::<anyhow::Result<Vec<Option<Running>>>>()?;
    let mut reports = Vec::new();
    for row in rows {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); contenders.len()];
        for round in 1..=rounds {
            eprintln!("perf: {}, round {round} of {rounds}", row.title);
            for turn in 0..contenders.len() {
                let index = if round % 2 == 1 { turn } else { contenders.len() - 1 - turn };
                let contender = &contenders[index];
                if let Some(server) = &servers[contender.guest_of.unwrap_or(index)]
                    && contender.takes_part(row)
                {
                    samples[index].push(method.take(row, contender, server)?);
                }
            }
        }
        let report = RowReport::new(row, contenders, samples);
        println!("{report}");
        reports.push(report);
    }
    servers.into_iter().flatten().try_for_each(Running::stop)?;
    Ok(reports)
}

fn tell(reports: &[RowReport], rounds: usize, json: Option<&Path>) -> anyhow::Result<()> {
    println!(
        "All figures co-located: server and generator share this machine, a core each. CPU is the server's, user + system."
    );
    for warning in reports.iter().flat_map(RowReport::warnings) {
        println!("warning: {warning}");
    }
    for (kind, what) in [
        (BoundKind::Floor, "aims"),
        (BoundKind::V3, "aims of NFSv4.1 beside NFSv3"),
        (BoundKind::Ganesha, "aims of NFSv4.1 beside NFS-Ganesha"),
        (BoundKind::Samba, "aims beside Samba"),
        (BoundKind::OwnNfs, "aims of SMB beside NFSv3"),
        (BoundKind::Burden, "bounds on burdens"),
    ] {
        let (kept, missed): (Vec<_>, Vec<_>) = bounds(reports, kind).partition(|(_, bound)| bound.is_kept());
        if !kept.is_empty() || !missed.is_empty() {
            println!(
                "{} {what} kept, {} missed, by the medians of {rounds} rounds",
                kept.len(),
                missed.len()
            );
        }
    }
    let has_aims = [BoundKind::Floor, BoundKind::V3, BoundKind::Ganesha, BoundKind::Samba, BoundKind::OwnNfs]
        .into_iter()
        .any(|kind| bounds(reports, kind).next().is_some());
    if rounds < AIM_ROUNDS_MIN && has_aims {
        println!("warning: {rounds} rounds are too few to judge an aim; it takes {AIM_ROUNDS_MIN}");
    }
    let Some(path) = json else { return Ok(()) };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, serde_json::to_vec_pretty(reports)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Thousands of idle connections need as many descriptors, here and in the servers, which inherit the limit.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        eprintln!("perf: the limit on open files stays as it is: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_their_beginnings() {
        let keys = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            chosen_rows(&only).map(|rows| rows.iter().map(|row| row.key).collect::<Vec<_>>())
        };
        assert_eq!(keys(&[]).unwrap().len(), ROWS.len());
        assert_eq!(
            keys(&["read", "getattr"]).unwrap(),
            ["read4k", "read8k", "read64k", "read1m", "getattr", "readdirplus"]
        );
        assert!(keys(&["reed"]).unwrap_err().to_string().contains("read4k"));
    }
}
