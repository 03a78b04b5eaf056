//! `cargo xtask perf`: the server's CPU time per operation, against a bare server, other builds and NFS-Ganesha.
//!
//! The aims are ratios to the bare server, the floor. NFS-Ganesha has no aim: it is shown for comparison.
//!
//! The machine's speed drifts between hours, so only ratios within one interleaved run are meaningful. The contenders
//! take turns in every round, each with its own directory on the same file system. All run on one core while the
//! generator has another, with the data in the page cache. Every second round runs backwards, so that no contender
//! always follows the same neighbor.

mod against;
pub(crate) mod callgrind;
mod contender;
mod instructions;
mod isolation;
mod replication;
mod report;
mod rows;
mod sample;
mod selection;
mod smb;
mod snapshots;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::dist;
use crate::packages;
use crate::process;
use contender::{Contender, Program, Running, rpcbind};
use report::{AIM_ROUNDS_MIN, BoundKind, Results, RowReport, summarize};
use rows::{ROWS, Row};
use sample::{Method, interleaved};
use selection::{SMB, V41, is_selected};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask perf --only read4k,getattr
  cargo xtask perf --floor ../rpcfloor
  cargo xtask perf --v41 --only read,write4k,getattr,lookup
  cargo xtask perf --against HEAD~1
  cargo xtask perf --against ../before/plimsoll --only read4k,v41.read,smb.query
  cargo xtask perf --instructions --only smb.
  cargo xtask perf --isolation
  cargo xtask perf --idle 1000 --exports 256 --no-ganesha --json perf-out/burdens.json")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Server to judge, and generator; by default this tree's, built by `cargo xtask dist`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Compare with another build, over NFSv3, NFSv4.1 and SMB: a program, or a revision, whose program is built once
    /// and retained. Fails if the median of a row costs more than 2 % more CPU time or 1 % more instructions here.
    /// Leaves NFS-Ganesha out.
    #[arg(long, value_name = "PROGRAM|REVISION")]
    against: Option<String>,
    /// Count instructions under valgrind, without times; without --against, of this build alone.
    #[arg(long, conflicts_with_all = ["floor", "v41", "idle", "exports", "files", "isolation"])]
    instructions: bool,
    /// Bare server that the aims refer to: `BINARY -p PORT -d DIR -m epoll`. Missed aims are printed; they do not fail
    /// the run.
    #[arg(long, value_name = "BINARY")]
    floor: Option<PathBuf>,
    /// Leave NFS-Ganesha out.
    #[arg(long)]
    no_ganesha: bool,
    /// Also measure this server over NFSv4.1, and NFS-Ganesha, in the rows with an aim there. Missed aims are printed;
    /// they do not fail the run.
    #[arg(long)]
    v41: bool,
    /// Also measure this server with this number of idle connections.
    #[arg(long, value_name = "N")]
    idle: Option<usize>,
    /// Also measure this server with this number of exports.
    #[arg(long, value_name = "N")]
    exports: Option<usize>,
    /// Also measure this server with this number of additional files in the volume.
    #[arg(long, value_name = "N")]
    files: Option<usize>,
    /// Measure instead how a tenant at its limit affects the latency of another volume.
    #[arg(long, conflicts_with_all = ["against", "floor", "v41", "idle", "exports", "files", "only"])]
    isolation: bool,
    /// Measure only rows whose keys begin with one of these: read4k, mix8k, getattr, …; with --against and with
    /// --instructions also v41.read4k, … over NFSv4.1 and smb.read4k, … over SMB. An unknown key lists all.
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    only: Vec<String>,
    /// Number of rounds: 9, or 15 with --against.
    #[arg(long)]
    rounds: Option<usize>,
    /// Length of a measurement in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Size of the data file.
    #[arg(long, default_value = "1g")]
    size: String,
    /// Directory for the contenders' directories; it selects the file system.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write all results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Other comparisons.
#[derive(clap::Subcommand)]
enum Other {
    /// Measure over SMB, against Samba's server.
    Smb(smb::Args),
    /// Measure what snapshots cost, and how long they make clients wait.
    Snapshots(snapshots::Args),
    /// Measure the lag of a replication through a slow link, and the time until the destination takes over.
    Replication(replication::Args),
}

/// Rounds with which a difference of 2 % can be told from noise.
const AGAINST_ROUNDS: usize = 15;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.other {
        Some(Other::Smb(args)) => return smb::run(args),
        Some(Other::Snapshots(args)) => return snapshots::run(args),
        Some(Other::Replication(args)) => return replication::run(args),
        None => {}
    }
    let rounds = args.rounds.unwrap_or(if args.against.is_some() { AGAINST_ROUNDS } else { AIM_ROUNDS_MIN });
    ensure!(rounds > 0 && args.seconds > 0.0, "--rounds and --seconds must be positive");
    let cores = std::thread::available_parallelism()?.get();
    ensure!(cores >= 2, "server and generator need a core each; this machine has {cores}");
    packages::require(if args.has_ganesha() { packages::FOR_PERF } else { &[("taskset", "util-linux")] })?;
    if args.compares_builds() {
        packages::require(packages::FOR_INSTRUCTIONS)?;
    }
    raise_descriptor_limit();
    let selected = Selected::new(&args.only, args.compares_builds())?;
    let against = args.against.as_deref().map(against::program).transpose()?;
    let binary = args.binary.clone().map_or_else(dist::program, Ok)?;
    let work = args.directory.clone().unwrap_or_else(process::target_dir).join("perf");
    process::empty_dir(&work)?;
    let work = work.canonicalize()?;
    if args.isolation {
        isolation::run(&binary, &work, rounds, args.seconds, args.json.as_deref())?;
        return fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()));
    }
    // Kept until the end of the run.
    let _portmapper = if args.has_ganesha() { rpcbind(&work.join("rpcbind.log"))? } else { None };
    let log = work.join("generator.log");
    let method = Method { generator: &binary, seconds: args.seconds, size: &args.size, log: &log };
    let mut results = Results { rows: Vec::new(), instructions: Vec::new() };
    if !args.instructions {
        let contenders = contenders(args, &binary, against.as_deref(), &work);
        results.rows = selected.times(&method, &contenders, rounds)?;
        if let Some(against) = &against {
            let binaries = [binary.as_path(), against];
            results.rows.extend(smb::against(&method, &selected.smb, binaries, &work, rounds)?);
        }
    }
    if args.compares_builds() {
        let binaries: Vec<&Path> =
            [Some(binary.as_path()), against.as_deref()].into_iter().flatten().collect();
        results.instructions = selected.instructions(&method, &binaries, &work)?;
    }
    summarize(&results, rounds, args.json.as_deref())?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    report::require_no_row_worse(&results)
}

impl Args {
    fn has_ganesha(&self) -> bool {
        !self.no_ganesha && !self.isolation && !self.compares_builds()
    }

    /// Whether two builds are compared: with rows over NFSv4.1 and SMB beside those over NFSv3, and instructions beside
    /// times.
    fn compares_builds(&self) -> bool {
        self.against.is_some() || self.instructions
    }
}

struct Selected {
    v3: Vec<&'static Row>,
    /// Only if two builds are compared.
    v41: Vec<&'static Row>,
    /// Only if two builds are compared.
    smb: Vec<&'static smb::Row>,
}

impl Selected {
    fn new(only: &[String], compares_builds: bool) -> anyhow::Result<Self> {
        let v3 = || ROWS.iter().map(|row| (row.key.to_owned(), row));
        let v41_rows = ROWS.iter().filter(|row| compares_builds && row.v41.is_some());
        let v41 = || v41_rows.clone().map(|row| (format!("{V41}{}", row.key), row));
        let smb_rows = smb::ROWS.iter().filter(|_| compares_builds);
        let smb = || smb_rows.clone().map(|row| (format!("{SMB}{}", row.key), row));
        let nfs_keys = v3().chain(v41()).map(|(key, _)| key);
        let keys: Vec<String> = nfs_keys.chain(smb().map(|(key, _)| key)).collect();
        selection::require_known(only, &keys)?;
        Ok(Self {
            v3: v3().filter(|(key, _)| is_selected(only, key)).map(|(_, row)| row).collect(),
            v41: v41().filter(|(key, _)| is_selected(only, key)).map(|(_, row)| row).collect(),
            smb: smb().filter(|(key, _)| is_selected(only, key)).map(|(_, row)| row).collect(),
        })
    }

    /// Measures the rows over NFS. The last two contenders are the builds over NFSv4.1, if there are such rows.
    fn times(
        &self,
        method: &Method<'_>,
        contenders: &[Contender],
        rounds: usize,
    ) -> anyhow::Result<Vec<RowReport>> {
        contenders.iter().filter(|one| one.server_of.is_none()).try_for_each(Contender::prepare)?;
        let over_v3 = contenders.len() - if self.v41.is_empty() { 0 } else { 2 };
        let mut reports = Vec::new();
        for relaxed in [false, true] {
            let measured = self.v3.iter().map(|&row| (row, 0..over_v3));
            let measured = measured.chain(self.v41.iter().map(|&row| (row, over_v3..contenders.len())));
            let measured: Vec<_> = measured.filter(|(row, _)| row.relaxed == relaxed).collect();
            reports.extend(measure_with(method, &measured, contenders, relaxed, rounds)?);
        }
        Ok(reports)
    }

    fn instructions(
        &self,
        method: &Method<'_>,
        binaries: &[&Path],
        work: &Path,
    ) -> anyhow::Result<Vec<report::InstructionReport>> {
        let builds = binaries.iter().enumerate().map(|(number, binary)| {
            let program = Program::Plimsoll(binary.to_path_buf());
            Contender::new(&format!("counted-nfs-{number}"), program, work)
        });
        let builds: Vec<Contender> = builds.collect();
        builds.iter().try_for_each(Contender::prepare)?;
        let v3 = self.v3.iter().map(|&row| (row, false));
        let rows: Vec<(&Row, bool)> = v3.chain(self.v41.iter().map(|&row| (row, true))).collect();
        let mut all = instructions::over_nfs(method, &rows, &builds)?;
        all.extend(instructions::over_smb(method, &self.smb, binaries, work)?);
        Ok(all)
    }
}

/// The judged one is first; with `--against` both builds over NFSv4.1 are last.
fn contenders(args: &Args, binary: &Path, against: Option<&Path>, work: &Path) -> Vec<Contender> {
    let contender = |name: &str, program: Program| Contender::new(name, program, work);
    let ours = |burden: &str| contender(&format!("plimsoll{burden}"), Program::Plimsoll(binary.to_owned()));
    let bounded = |kind: BoundKind, contender: Contender| Contender { bound: Some(kind), ..contender };
    let burdened = |burden: String| bounded(BoundKind::Burden, ours(&burden));
    let mut all = vec![ours("")];
    all.extend(against.map(|binary| {
        bounded(BoundKind::Against, contender("against", Program::Plimsoll(binary.to_owned())))
    }));
    let over_v41 = |all: &[Contender], of: usize, kind: BoundKind| Contender {
        name: format!("{} 4.1", all[of].name),
        bound: Some(kind),
        speaks_v41: true,
        server_of: Some(of),
        ..all[of].clone()
    };
    if args.v41 {
        all.push(over_v41(&all, 0, BoundKind::V3));
    }
    if args.has_ganesha() {
        all.push(contender("ganesha", Program::Ganesha));
    }
    if args.v41 && args.has_ganesha() {
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
    if against.is_some() {
        let ours = Contender { bound: None, ..over_v41(&all, 0, BoundKind::Against) };
        let theirs = over_v41(&all, 1, BoundKind::Against);
        all.extend([ours, theirs]);
    }
    all
}

fn measure_with(
    method: &Method<'_>,
    rows: &[(&Row, Range<usize>)],
    contenders: &[Contender],
    relaxed: bool,
    rounds: usize,
) -> anyhow::Result<Vec<RowReport>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let servers = contenders
        .iter()
        .map(|contender| contender.server_of.is_none().then(|| contender.start(relaxed)).transpose())
        .collect::<anyhow::Result<Vec<Option<Running>>>>()?;
    let mut reports = Vec::new();
    for (row, measured) in rows {
        let offset = measured.start;
        let measured = &contenders[measured.clone()];
        let both_v41 = measured.iter().all(|contender| contender.speaks_v41);
        let (key, title) = instructions::names(row, both_v41);
        let samples = interleaved(&title, rounds, measured.len(), |index| {
            let contender = &measured[index];
            match &servers[contender.server_of.unwrap_or(offset + index)] {
                Some(server) if contender.is_in(row) => method.take(row, contender, server).map(Some),
                _ => Ok(None),
            }
        })?;
        let report = RowReport { key, title, ..RowReport::new(row, measured, samples) };
        println!("{report}");
        reports.push(report);
    }
    servers.into_iter().flatten().try_for_each(Running::stop)?;
    Ok(reports)
}

/// Thousands of idle connections need as many descriptors, here and in the servers, which inherit the limit.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        eprintln!("perf: cannot raise the limit on open files: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(only: &[&str], compares_builds: bool) -> anyhow::Result<[Vec<&'static str>; 3]> {
        let only: Vec<String> = only.iter().map(ToString::to_string).collect();
        let Selected { v3, v41, smb } = Selected::new(&only, compares_builds)?;
        let nfs = |rows: Vec<&'static Row>| rows.iter().map(|row| row.key).collect();
        Ok([nfs(v3), nfs(v41), smb.iter().map(|row| row.key).collect()])
    }

    #[test]
    fn rows_are_selected_by_their_beginnings() {
        assert_eq!(keys(&[], false).unwrap().map(|keys| keys.len()), [ROWS.len(), 0, 0]);
        let [v3, ..] = keys(&["read", "getattr"], false).unwrap();
        assert_eq!(v3, ["read4k", "read8k", "read64k", "read1m", "getattr", "readdirplus"]);
        assert!(keys(&["reed"], false).unwrap_err().to_string().contains("read4k"));
        assert!(keys(&["smb."], false).is_err() && keys(&["v41.read4k"], false).is_err());
    }

    #[test]
    fn builds_are_compared_over_three_protocols() {
        let v41 = ROWS.iter().filter(|row| row.v41.is_some()).count();
        assert_eq!(keys(&[], true).unwrap().map(|keys| keys.len()), [ROWS.len(), v41, smb::ROWS.len()]);
        let selected = keys(&["access", "v41.read4k", "smb.query"], true).unwrap();
        assert_eq!(selected, [vec!["access"], vec!["read4k"], vec!["query"]]);
        assert!(keys(&["v41.access"], true).unwrap_err().to_string().contains("smb.login"));
    }
}
