//! `cargo xtask perf smb`: the server's CPU time per operation over SMB, against Samba's smbd in one interleaved run.
//!
//! Both serve a directory of the same file system to the same user, on one core, while the generator has another. All
//! processes of smbd count: it has one for each client. This server's NFSv3 beside them shows the additional cost of
//! SMB.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::callgrind::{self, Counter};
use super::contender::{GENERATOR_CORE, SERVER_CORE};
use super::instructions::CountedServer;
use super::report::{self, AGAINST_MAX, AIM_ROUNDS_MIN, BoundKind, Results, RowReport, summarize};
use super::sample::{Method, Sample, interleaved};
use super::selection::{self, SMB};
use crate::dist;
use crate::interop::smb::{environment, programs};
use crate::packages;
use crate::plimsoll::{self, Plimsoll};
use crate::process::{self, Process, text};
use crate::samba::{PLAIN, Samba, USER};
use crate::server::free_port;

const SHARE: &str = "measured";
/// Clients may go without protection, as smbd allows by default.
const UNSIGNED: &str = "sign=none";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask perf smb --only read4k,query
  cargo xtask perf smb --rounds 3 --seconds 1 --size 128m --json perf-out/smb.json")]
pub(crate) struct Args {
    /// Server to judge, and generator; by default this tree's, built by `cargo xtask dist`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Measure only rows whose keys begin with one of these (read4k, write1m, query, compound, …).
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    only: Vec<String>,
    /// Number of rounds.
    #[arg(long, default_value_t = AIM_ROUNDS_MIN)]
    rounds: usize,
    /// Length of a measurement in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Size of the data file.
    #[arg(long, default_value = "1g")]
    size: String,
    /// Directory for the servers' directories; it selects the file system.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write all results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// This client, not the generator, logs in this often per sample.
const LOGINS: &str = "logins";
const LOGINS_TIMES: u32 = 300;

#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    protection: &'static str,
    /// The generator's arguments, or [`LOGINS`].
    load: &'static str,
    peer: Peer,
    /// The aim: at most this ratio to the peer's CPU time.
    peer_max: f64,
    /// Counted by names instead of calls: servers fill their replies differently.
    per_entry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Smbd,
    OwnNfs,
}

/// A row signed with AES-128-GMAC, compared with smbd.
const fn row(key: &'static str, title: &'static str, load: &'static str, peer_max: f64) -> Row {
    Row { key, title, protection: "sign=gmac", load, peer: Peer::Smbd, peer_max, per_entry: false }
}

const fn under(protection: &'static str, row: Row) -> Row {
    Row { protection, ..row }
}

/// The titles contain connections × calls in flight.
pub(super) const ROWS: [Row; 15] = [
    row("read4k", "READ 4K random, 1 × 16", "read --block 4k", 0.20),
    row("read4k4", "READ 4K random, 4 × 16", "read --block 4k --connections 4", 0.20),
    row("write4k", "WRITE 4K, 1 × 16", "write --block 4k", 0.30),
    row("write1m", "WRITE 1M sequential, 1 × 4", "write --block 1m --pattern sequential --depth 4", 0.75),
    Row {
        peer: Peer::OwnNfs,
        ..under(UNSIGNED, row("bare4k", "READ 4K random, unsigned, 1 × 16", "read --block 4k", 1.30))
    },
    under(
        UNSIGNED,
        row("bare64k", "READ 64K, unsigned, 1 × 8", "read --block 64k --pattern sequential --depth 8", 0.30),
    ),
    under(
        UNSIGNED,
        row("bare1m", "READ 1M, unsigned, 1 × 4", "read --block 1m --pattern sequential --depth 4", 0.25),
    ),
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
    row("login", "session set-up, NTLM, with its connection", LOGINS, 0.25),
];

struct Server {
    process: Process,
    port: u16,
}

impl Server {
    fn take(&self, method: &Method<'_>, row: &Row, password: &Path) -> anyhow::Result<Sample> {
        if row.load == LOGINS {
            return self.log_in(method.log);
        }
        let mut arguments = super::rows::arguments(row.load, method.seconds, method.size);
        arguments.extend(["--password-file", text(password)?].map(String::from));
        method.load(&row.target(self.port), &arguments, self.process.id(), row.per_entry)
    }

    /// Measures the cost of a connection, a login, a tree connect and a disconnect.
    fn log_in(&self, log: &Path) -> anyhow::Result<Sample> {
        let (python, program) = (environment(log)?, programs().join("logins.py"));
        let (port, times) = (self.port.to_string(), LOGINS_TIMES.to_string());
        let argv = ["-c", GENERATOR_CORE, text(&python)?, text(&program)?];
        let argv = [&argv[..], &[&port, SHARE, USER.name, USER.password, &times]].concat();
        Sample::measure_program("taskset", &argv, LOGINS_TIMES, self.process.id())
    }
}

const NO_PREFIXES: [Vec<String>; 2] = [Vec::new(), Vec::new()];

struct Build {
    signed: Server,
    unsigned: Server,
}

struct Servers {
    ours: Build,
    smbd: Server,
    nfs: Plimsoll,
}

pub(super) struct CountedBuild {
    build: Build,
    signed: Counter,
    unsigned: Counter,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.rounds > 0 && args.seconds > 0.0, "--rounds and --seconds must be positive");
    packages::require(&[("taskset", "util-linux")])?;
    let rows = chosen(&args.only)?;
    let samba = Samba::unpack()?;
    let work = args.directory.clone().unwrap_or_else(process::target_dir).join("perf-smb");
    process::empty_dir(&work)?;
    let work = work.canonicalize()?;
    let binary = args.binary.clone().map_or_else(dist::program, Ok)?;
    let password = password_file(&work)?;
    let servers = Servers::start(&binary, &samba, &work)?;
    let log = work.join("generator.log");
    let method = Method { generator: &binary, seconds: args.seconds, size: &args.size, log: &log };
    let mut reports = Vec::new();
    for row in rows {
        let samples = interleaved(row.title, args.rounds, 2, |index| {
            servers.take(&method, row, index == 0, &password).map(Some).with_context(|| row.title)
        })?;
        let (name, kind) = match row.peer {
            Peer::Smbd => ("smbd", BoundKind::Samba),
            Peer::OwnNfs => ("NFSv3", BoundKind::OwnNfs),
        };
        let peer = report::Peer { name, kind, ratio_max: row.peer_max };
        let report = RowReport::compared_with(row.key, row.title, samples, &peer);
        println!("{report}");
        reports.push(report);
    }
    servers.stop()?;
    let results = Results { rows: reports, instructions: Vec::new() };
    summarize(&results, args.rounds, args.json.as_deref())?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

/// The first build is the judged one.
pub(super) fn against(
    method: &Method<'_>,
    rows: &[&Row],
    binaries: [&Path; 2],
    work: &Path,
    rounds: usize,
) -> anyhow::Result<Vec<RowReport>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let password = password_file(work)?;
    let builds = [
        Build::start(&NO_PREFIXES, binaries[0], &work.join("smb"))?,
        Build::start(&NO_PREFIXES, binaries[1], &work.join("smb-against"))?,
    ];
    let mut reports = Vec::new();
    for row in rows {
        let (key, title) = (format!("{SMB}{}", row.key), format!("SMB {}", row.title));
        let samples = interleaved(&title, rounds, builds.len(), |index| {
            builds[index].take(method, row, &password).map(Some).with_context(|| title.clone())
        })?;
        let peer = report::Peer { name: "against", kind: BoundKind::Against, ratio_max: AGAINST_MAX };
        let report = RowReport::compared_with(&key, &title, samples, &peer);
        println!("{report}");
        reports.push(report);
    }
    builds.into_iter().for_each(Build::kill);
    Ok(reports)
}

pub(super) fn password_file(work: &Path) -> anyhow::Result<PathBuf> {
    let password = work.join("password");
    fs::write(&password, USER.password)?;
    fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(password)
}

impl Row {
    /// Whether its instructions are counted. Sessions are set up by another client than the generator. A row of several
    /// connections equals the row of one, because one call at a time is counted.
    pub(super) fn is_counted(&self) -> bool {
        self.load != LOGINS && !self.load.contains("--connections")
    }

    fn target(&self, port: u16) -> String {
        format!("smb://{}@127.0.0.1:{port}/{SHARE}?{}", USER.name, self.protection)
    }
}

impl Build {
    fn start(prefixes: &[Vec<String>; 2], binary: &Path, work: &Path) -> anyhow::Result<Self> {
        let [signed, unsigned] = prefixes;
        Ok(Self {
            signed: serve_ours(signed, binary, &work.join("signed"), &[])?,
            unsigned: serve_ours(unsigned, binary, &work.join("unsigned"), &["--smb", "signing=off"])?,
        })
    }

    fn server(&self, row: &Row) -> &Server {
        if row.protection == UNSIGNED { &self.unsigned } else { &self.signed }
    }

    fn take(&self, method: &Method<'_>, row: &Row, password: &Path) -> anyhow::Result<Sample> {
        self.server(row).take(method, row, password)
    }

    fn kill(self) {
        self.signed.process.kill();
        self.unsigned.process.kill();
    }
}

impl CountedBuild {
    pub(super) fn start(binary: &Path, work: &Path) -> anyhow::Result<Self> {
        let directories = ["signed", "unsigned"].map(|name| work.join(name));
        let prefixes = [callgrind::prefix(&directories[0])?, callgrind::prefix(&directories[1])?];
        let build = Build::start(&prefixes, binary, work)?;
        let [signed, unsigned] = directories;
        Ok(Self {
            signed: Counter::new(build.signed.process.id(), &signed),
            unsigned: Counter::new(build.unsigned.process.id(), &unsigned),
            build,
        })
    }

    pub(super) fn counted(
        &mut self,
        row: &Row,
        size: &str,
        password: &Path,
    ) -> anyhow::Result<CountedServer<'_>> {
        let target = row.target(self.build.server(row).port);
        let mut arguments = super::rows::arguments(row.load, 1.0, size);
        arguments.extend(["--password-file", text(password)?].map(String::from));
        let counter = if row.protection == UNSIGNED { &mut self.unsigned } else { &mut self.signed };
        Ok(CountedServer { target, arguments, per_entry: row.per_entry, counter })
    }

    pub(super) fn kill(self) {
        self.build.kill();
    }
}

impl Servers {
    fn start(binary: &Path, samba: &Samba, work: &Path) -> anyhow::Result<Self> {
        let options = plimsoll::Options {
            binary: binary.to_owned(),
            directories: vec![share_in(&work.join("nfs"))?],
            relaxed: false,
            prefix: ["taskset", "-c", SERVER_CORE].map(String::from).to_vec(),
            work: work.join("nfs"),
        };
        Ok(Self {
            ours: Build::start(&NO_PREFIXES, binary, &work.join("plimsoll"))?,
            smbd: serve_samba(samba, &work.join("smbd"))?,
            nfs: Plimsoll::start(&options)?,
        })
    }

    fn take(&self, method: &Method<'_>, row: &Row, is_ours: bool, password: &Path) -> anyhow::Result<Sample> {
        let server = match (is_ours, row.peer) {
            (true, _) => self.ours.server(row),
            (false, Peer::Smbd) => &self.smbd,
            (false, Peer::OwnNfs) => {
                let export = self.nfs.exports.first().context("no export")?;
                let target = format!("nfs://127.0.0.1:{}{export}", self.nfs.port);
                let mut arguments = super::rows::arguments(row.load, method.seconds, method.size);
                arguments.extend(["--mount-port".to_owned(), self.nfs.port.to_string()]);
                return method.load(&target, &arguments, self.nfs.id(), row.per_entry);
            }
        };
        server.take(method, row, password)
    }

    fn stop(self) -> anyhow::Result<()> {
        self.ours.kill();
        self.smbd.process.kill();
        self.nfs.stop()
    }
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<&'static Row>> {
    let keys: Vec<String> = ROWS.iter().map(|row| row.key.to_owned()).collect();
    selection::require_known(only, &keys)?;
    Ok(ROWS.iter().filter(|row| selection::is_selected(only, row.key)).collect())
}

fn serve_ours(prefix: &[String], binary: &Path, work: &Path, options: &[&str]) -> anyhow::Result<Server> {
    let (share, port) = (share_in(work)?, free_port()?);
    pinned(Server {
        process: plimsoll::serve_smb_with_prefix(prefix, binary, &[&share], port, options, work)?,
        port,
    })
}

fn serve_samba(samba: &Samba, work: &Path) -> anyhow::Result<Server> {
    let (share, port) = (share_in(work)?, free_port()?);
    pinned(Server { process: samba.serve(&[(SHARE.to_owned(), share)], PLAIN, port, work)?, port })
}

fn share_in(work: &Path) -> anyhow::Result<PathBuf> {
    let share = work.join(SHARE);
    fs::create_dir_all(&share)?;
    std::os::unix::fs::chown(&share, Some(USER.id), Some(USER.id))?;
    Ok(share)
}

/// Pins a server with all its threads and future child processes to its core.
fn pinned(server: Server) -> anyhow::Result<Server> {
    let pid = server.process.id().to_string();
    process::output(Path::new("/"), "taskset", &["-a", "-c", "-p", SERVER_CORE, &pid])?;
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_unique() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(row.peer_max > 0.0 && !row.title.is_empty() && row.protection.contains('='), "{row:?}");
            assert!(ROWS[..index].iter().all(|other| other.key != row.key), "{row:?}");
        }
        assert!(ROWS.iter().all(|row| row.peer == Peer::Smbd || row.protection == UNSIGNED));
        let not_counted: Vec<&str> = ROWS.iter().filter(|row| !row.is_counted()).map(|row| row.key).collect();
        assert_eq!(not_counted, ["read4k4", "login"]);
        assert_eq!(chosen(&["cmac".to_owned()]).unwrap().len(), 1);
        assert!(chosen(&["reed".to_owned()]).unwrap_err().to_string().contains("read4k"));
    }
}
