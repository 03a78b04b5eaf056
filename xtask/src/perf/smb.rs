//! `cargo xtask perf smb`: the server's CPU time per operation over SMB, against Samba's smbd in one interleaved run.
//!
//! Both serve a directory of the same file system to the same user, on one core, while the generator has another. Of smbd all processes
//! count: it has one for each client.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::contender::SERVER_CORE;
use super::report::RowReport;
use super::sample::{Method, Sample};
use super::{AIM_ROUNDS_MIN, tell};
use crate::packages;
use crate::plimsoll;
use crate::process::{self, Process};
use crate::samba::{PLAIN, Samba, USER};
use crate::server::free_port;

/// The share of either server.
const SHARE: &str = "measured";

/// `perf smb`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask perf smb --only read4k,query
  cargo xtask perf smb --rounds 3 --seconds 1 --size 128m --json perf-out/smb.json")]
pub(crate) struct Args {
    /// The server that is judged, and the generator; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Only these rows, by the beginnings of their keys (read4k, write1m, query, compound, …).
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    only: Vec<String>,
    /// Times that the servers take turns.
    #[arg(long, default_value_t = AIM_ROUNDS_MIN)]
    rounds: usize,
    /// Length of a measurement.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The data file's size.
    #[arg(long, default_value = "1g")]
    size: String,
    /// Where the servers' directories are made; it decides on the file system.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write everything that was measured here.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A kind of load.
#[derive(Debug)]
struct Row {
    /// For `--only`.
    key: &'static str,
    title: &'static str,
    /// How messages are protected, as the target says it.
    protection: &'static str,
    /// The generator's arguments.
    load: &'static str,
    /// The aim: at most this many times smbd's CPU time.
    smbd_max: f64,
    /// Counted by names instead of calls: servers fill their replies differently.
    per_entry: bool,
}

/// Signed with AES-128-GMAC.
const fn row(key: &'static str, title: &'static str, load: &'static str, smbd_max: f64) -> Row {
    Row { key, title, protection: "sign=gmac", load, smbd_max, per_entry: false }
}

/// The same under another protection.
const fn under(protection: &'static str, row: Row) -> Row {
    Row { protection, ..row }
}

/// Connections × calls in flight in the titles.
const ROWS: [Row; 11] = [
    row("read4k", "READ 4K random, 1 × 16", "read --block 4k", 0.20),
    row("read4k4", "READ 4K random, 4 × 16", "read --block 4k --connections 4", 0.20),
    row("write4k", "WRITE 4K, 1 × 16", "write --block 4k", 0.30),
    row("write1m", "WRITE 1M sequential, 1 × 4", "write --block 1m --pattern sequential --depth 4", 0.75),
    under(
        "sign=cmac",
        row("cmac64k", "READ 64K, CMAC, 1 × 8", "read --block 64k --pattern sequential --depth 8", 0.35),
    ),
    row("gmac64k", "READ 64K, GMAC, 1 × 8", "read --block 64k --pattern sequential --depth 8", 0.50),
    under(
        "seal=gcm",
        row("gcm64k", "READ 64K, GCM, 1 × 8", "read --block 64k --pattern sequential --depth 8", 0.50),
    ),
    row("query", "QUERY_INFO, 1 × 16", "getattr", 0.12),
    row("create", "CREATE, CLOSE, each, 1 × 16", "open --files 64 --size 64k", 0.25),
    row("compound", "CREATE + QUERY_INFO + CLOSE, 1 × 16", "lookup", 0.20),
    Row { per_entry: true, ..row("directory", "QUERY_DIRECTORY of 10,000, a name", "readdirplus", 0.30) },
];

/// A server that is measured.
struct Server {
    process: Process,
    port: u16,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.rounds > 0 && args.seconds > 0.0, "--rounds and --seconds are positive");
    packages::require(&[("taskset", "util-linux")])?;
    let rows = chosen(&args.only)?;
    let samba = Samba::unpacked()?;
    let work = args.directory.clone().unwrap_or_else(process::target_dir).join("perf-smb");
    process::empty_dir(&work)?;
    let work = work.canonicalize()?;
    let binary = process::binary(args.binary.as_deref());
    let password = work.join("password");
    fs::write(&password, USER.password)?;
    fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let servers = [serve_ours(&binary, &work.join("plimsoll"))?, serve_samba(&samba, &work.join("smbd"))?];
    let log = work.join("generator.log");
    let method = Method { generator: &binary, seconds: args.seconds, size: &args.size, log: &log };
    let mut reports = Vec::new();
    for row in rows {
        let mut samples = [Vec::new(), Vec::new()];
        for round in 1..=args.rounds {
            eprintln!("perf: {}, round {round} of {}", row.title, args.rounds);
            let turns = if round % 2 == 1 { [0, 1] } else { [1, 0] };
            for index in turns {
                samples[index].push(take(&method, row, &servers[index], &password)?);
            }
        }
        let report = RowReport::beside_samba(row.key, row.title, samples, row.smbd_max);
        println!("{report}");
        reports.push(report);
    }
    for server in servers {
        server.process.kill();
    }
    tell(&reports, args.rounds, args.json.as_deref())?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<&'static Row>> {
    for wanted in only {
        if !ROWS.iter().any(|row| row.key.starts_with(wanted.as_str())) {
            let keys: Vec<&str> = ROWS.iter().map(|row| row.key).collect();
            bail!("--only {wanted}: no row begins so; there are {}", keys.join(" "));
        }
    }
    let is_chosen =
        |row: &&Row| only.is_empty() || only.iter().any(|wanted| row.key.starts_with(wanted.as_str()));
    Ok(ROWS.iter().filter(is_chosen).collect())
}

/// Runs the generator against one server.
fn take(method: &Method<'_>, row: &Row, server: &Server, password: &Path) -> anyhow::Result<Sample> {
    let target = format!("smb://{}@127.0.0.1:{}/{SHARE}?{}", USER.name, server.port, row.protection);
    let mut arguments = super::rows::arguments(row.load, method.seconds, method.size);
    arguments.extend(["--password-file".to_owned(), text(password)?]);
    let taken = method.load(&target, &arguments, server.process.id(), row.per_entry);
    taken.with_context(|| format!("{} against port {}", row.title, server.port))
}

fn serve_ours(binary: &Path, work: &Path) -> anyhow::Result<Server> {
    let (share, port) = (share_in(work)?, free_port()?);
    pinned(Server { process: plimsoll::serve_smb(binary, &[&share], port, work)?, port })
}

fn serve_samba(samba: &Samba, work: &Path) -> anyhow::Result<Server> {
    let (share, port) = (share_in(work)?, free_port()?);
    pinned(Server { process: samba.serve(&[(SHARE.to_owned(), share)], PLAIN, port, work)?, port })
}

/// A directory that the user may write to.
fn share_in(work: &Path) -> anyhow::Result<PathBuf> {
    let share = work.join(SHARE);
    fs::create_dir_all(&share)?;
    std::os::unix::fs::chown(&share, Some(USER.id), Some(USER.id))?;
    Ok(share)
}

/// Keeps a server, all its threads, and the processes that it begins from now on, on its core.
fn pinned(server: Server) -> anyhow::Result<Server> {
    let pid = server.process.id().to_string();
    process::output(Path::new("/"), "taskset", &["-a", "-c", "-p", SERVER_CORE, &pid])?;
    Ok(server)
}

fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(String::from).context("a path that is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_told_apart() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(row.smbd_max > 0.0 && !row.title.is_empty() && row.protection.contains('='), "{row:?}");
            assert!(ROWS[..index].iter().all(|other| other.key != row.key), "{row:?}");
        }
        assert_eq!(chosen(&["cmac".to_owned()]).unwrap().len(), 1);
        assert!(chosen(&["reed".to_owned()]).unwrap_err().to_string().contains("read4k"));
    }
}
