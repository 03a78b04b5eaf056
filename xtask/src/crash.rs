//! `cargo xtask crash`: SIGKILL under load and a restart, after which every acknowledged stable write, COMMIT and
//! metadata operation must exist.
//!
//! The page cache survives a killed process. So this test finds data that a server holds in its own memory. `cargo
//! xtask guest power-cut` finds data that it leaves in the kernel's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::ledger::{Ledger, Report, Share};
use crate::plimsoll;
use crate::process;
use crate::random::{Random, seed_from_clock};
use crate::samba::USER;
use crate::server::{Choice, Server, free_port};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Choice,
    /// The directory to export; by default a new one under target/crash.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Every other connection is over SMB.
    #[arg(long, conflicts_with = "server_cmd")]
    smb: bool,
    /// Number of kills.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Connections, each with its own directory.
    #[arg(long, default_value_t = 8)]
    workers: u32,
    /// Repeat the random choices of an earlier run; the interleaving still varies.
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    eprintln!("crash: {} rounds, --seed {seed}", args.rounds);
    let mut random = Random::new(seed);
    let work = process::target_dir().join("crash");
    process::empty_dir(&work)?;
    let directory = args.directory.clone().unwrap_or_else(|| work.join("export"));
    std::fs::create_dir_all(&directory)?;
    let mut server = Server::new(&args.server, &directory, &work)?;
    let share = args.smb.then(|| share(&mut server, &directory, &work)).transpose()?;
    server.start()?;
    let mut ledgers: Vec<Ledger> = Vec::new();
    let mut report = Report::default();
    for round in 0..args.rounds {
        let log = work.join(format!("ledger-{round}.log"));
        let load = Ledger::start(&server.endpoint, share.as_ref(), round, args.workers, random.next(), &log)?;
        let load_ms = 500 + u64::try_from(random.below(2000))?;
        load.run_for(Duration::from_millis(load_ms), &report.missing(share.as_ref()))?;
        server.kill()?;
        ledgers.push(load.finish()?);
        server.start()?;
        let found = Ledger::verify_all(&ledgers, &server.endpoint)?;
        eprintln!("crash: round {round}: {found}");
        report.merge(found);
        report.require_clean(&work)?;
    }
    server.stop()?;
    eprintln!("crash: no acknowledged operation was lost; {report}");
    report.require_every_kind(share.as_ref())
}

fn share(server: &mut Server, directory: &Path, work: &Path) -> anyhow::Result<Share> {
    let (port, users) = (free_port()?, plimsoll::smb_users(work)?);
    std::os::unix::fs::chown(directory, Some(USER.id), Some(USER.id))?;
    let users = users.to_str().context("path is not UTF-8")?;
    server.add(&plimsoll::smb_beside_nfs(&format!("127.0.0.1:{port}"), users));
    Share::new(port, work.join("smb.log"))
}
