//! One volume over four protocols: the kernel's clients of SMB and of NFS 3, 4.1 and 4.2 in one guest, each reading
//! data that another writes, and an SMB client on the host that opens files in ways that no kernel does.
//!
//! The server is in its own network namespace, so that NFS has port 2049 and the port mapper port 111, as locks of
//! version 3 need. The guest reaches it at the namespace's loopback.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::form::Form;
use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS};
use super::namespace;
use super::shared::Machine;
use crate::debian::Suite;
use crate::interop::smb::{environment, programs};
use crate::plimsoll;
use crate::process::{self, Process};
use crate::random::seed_from_clock;
use crate::samba::USER;
use crate::server::{Endpoint, PLIMSOLL_EXPORT, Server, plimsoll_command};

const SCRIPT: &str = include_str!("../../guest/crossproto.sh");
const PROGRAM: &str = "xtask/guest/crossproto.pl";
const NFS_PORT: u16 = 2049;
const SMB_PORT: u16 = 445;
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 120;
const BRIEF_CHECKS_MIN: usize = 100;
const BRIEF_OPERATIONS_MAX: u32 = 20;
const HOLDER_MAX: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Number of random reads, writes and truncations.
    #[arg(long, default_value_t = 60)]
    operations: u32,
    /// Repeats the choices of a run.
    #[arg(long)]
    seed: Option<u64>,
    /// Seconds after which everything is killed.
    #[arg(long, default_value_t = 1200)]
    timeout_s: u64,
    /// Set by this command itself: the network namespace exists.
    #[arg(long, hide = true)]
    in_namespace: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.in_namespace {
        return run_in_namespace(args, &mut Machine::Own, Form::Full);
    }
    Image::build(Suite::Bookworm)?;
    prepare()?;
    let binary = process::binary(args.binary.as_deref()).canonicalize().context("cannot find the server")?;
    let binary = binary.display().to_string();
    let seed = args.seed.unwrap_or_else(seed_from_clock).to_string();
    let (operations, timeout) = (args.operations.to_string(), args.timeout_s.to_string());
    let arguments = [
        &["crossproto", "--in-namespace", "--binary", &binary, "--operations", &operations],
        ["--seed", &seed, "--timeout-s", &timeout].as_slice(),
    ]
    .concat();
    namespace::run(&arguments, Duration::from_secs(args.timeout_s + 60))
}

/// Installs dependencies from the network, which the namespace lacks.
pub(super) fn prepare() -> anyhow::Result<()> {
    let work = work();
    process::empty_dir(&work)?;
    environment(&work.join("python.log"))?;
    Ok(())
}

fn work() -> PathBuf {
    process::target_dir().join("guest").join("crossproto")
}

/// Runs it after [`prepare`], with the ports of NFS, SMB and the port mapper free at the loopback.
pub(super) fn run_in_namespace(args: &Args, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    let (image, work) = (Image::build(Suite::Bookworm)?, work());
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    let binary = process::binary(args.binary.as_deref());
    let mut server = server(&binary, &work)?;
    server.start()?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("NFS_PORT", NFS_PORT)
        .set("SMB_PORT", SMB_PORT)
        .set("EXPORT", PLIMSOLL_EXPORT)
        .set("LOGIN", USER.name)
        .set("PASSWORD", USER.password)
        .set("ID", USER.id)
        .set("OPERATIONS", form.choose(args.operations, args.operations.min(BRIEF_OPERATIONS_MAX)))
        .set("SEED", seed)
        .set("BRIEF", form.parameter())
        .file("crossproto.pl", &process::workspace().join(PROGRAM));
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    running.wait_mark("hold")?;
    let mut holder = holder(&work)?;
    running.finish()?.require_checks(form.choose(CHECKS_MIN, BRIEF_CHECKS_MIN))?;
    let status = holder.wait(HOLDER_MAX)?;
    ensure!(status.success(), "the SMB client that holds files ended with {status}, see {}", work.display());
    server.stop()
}

fn server(binary: &Path, work: &Path) -> anyhow::Result<Server> {
    let (directory, state, users) = (work.join("export"), work.join("state"), plimsoll::smb_users(work)?);
    std::fs::create_dir(&directory)?;
    std::os::unix::fs::chown(&directory, Some(USER.id), Some(USER.id))?;
    let [binary, directory, state, users] =
        [binary, &directory, &state, &users].map(|path| path.to_str().context("path is not UTF-8"));
    let mut argv = plimsoll_command(binary?, directory?, state?, &format!("127.0.0.1:{NFS_PORT}"));
    argv.extend(plimsoll::smb_beside_nfs(&format!("127.0.0.1:{SMB_PORT}"), users?));
    Ok(Server::from_command(argv, Endpoint::loopback(NFS_PORT, PLIMSOLL_EXPORT), work))
}

fn holder(work: &Path) -> anyhow::Result<Process> {
    let log = process::append_to(&work.join("holder.log"))?;
    let python = environment(&work.join("python.log"))?.display().to_string();
    let program = programs().join("hold.py").display().to_string();
    let share = PLIMSOLL_EXPORT.trim_start_matches('/');
    let argv = [&python, &program, &SMB_PORT.to_string(), share, USER.name, USER.password].map(String::from);
    Process::start(&argv, log.try_clone()?.into(), log.into())
}
