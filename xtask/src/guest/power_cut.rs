//! Power cuts: the server runs in the guest on a disk with a volatile cache. The workload and its ledger run on the
//! host, so the acknowledged operations are known independently of the machine that lost its power.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::disk::{Disk, Flush};
use super::image::Image;
use super::machine::{Guest, Running};
use crate::debian::Suite;
use crate::ledger::{Ledger, LostOperation, Report, Share};
use crate::plimsoll;
use crate::process;
use crate::random::{Random, seed_from_clock};
use crate::samba::USER;
use crate::server::{Endpoint, PLIMSOLL_EXPORT, free_port, plimsoll_command};

const SCRIPT: &str = include_str!("../../guest/power-cut.sh");
const DISK_SIZE: u64 = 1 << 30;
const BOOT_MAX: Duration = Duration::from_secs(300);
const READY: &str = "PLIMSOLL-GUEST-READY";
const NFS_PORT: u16 = 2049;
const MOUNT_PORT: u16 = 20048;
const SMB_PORT: u16 = 445;

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum FileSystem {
    Ext4,
    Xfs,
}

/// The export option of the guest kernel's own server.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    Sync,
    Async,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// File system under the server.
    #[arg(long, value_enum)]
    fs: FileSystem,
    /// The server's binary.
    #[arg(long, default_value = "target/release/plimsoll")]
    binary: PathBuf,
    /// Test the guest kernel's own NFS server instead, to tell faults of the test from those of the server. Exported
    /// `async`, it acknowledges before it stores: the run succeeds only if it finds the loss.
    #[arg(long, value_enum)]
    reference: Option<Reference>,
    /// Use SMB for every second connection.
    #[arg(long, conflicts_with = "reference")]
    smb: bool,
    /// Let the disk ignore flushes: the run succeeds only if it finds the loss.
    #[arg(long)]
    lying_disk: bool,
    /// Number of power cuts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Connections, each with its own directory.
    #[arg(long, default_value_t = 6)]
    workers: u32,
    /// Repeat the random choices of an earlier run; the interleaving still varies.
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    eprintln!("power cut: {:?}, {} rounds, --seed {seed}", args.fs, args.rounds);
    let bench = Bench::new(args)?;
    let outcome = bench.rounds(args, &mut Random::new(seed));
    if !args.lying_disk && args.reference != Some(Reference::Async) {
        return outcome;
    }
    let Err(found) = outcome else { bail!("the test found no loss, although data must be lost") };
    ensure!(found.is::<LostOperation>(), "the run failed for another cause than a loss: {found:#}");
    eprintln!("power cut: found the loss: {found}");
    Ok(())
}

struct Bench {
    image: Image,
    directory: PathBuf,
    disk: PathBuf,
    flush: Flush,
    share: Option<Share>,
}

impl Bench {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let image = Image::build(Suite::Bookworm)?;
        let directory =
            process::target_dir().join("guest").join(format!("power-cut-{:?}", args.fs).to_lowercase());
        process::empty_dir(&directory)?;
        let disk = directory.join("disk");
        make_file_system(args.fs, &disk, &directory.join("mkfs.log"))?;
        let flush = if args.lying_disk { Flush::Ignored } else { Flush::Honest };
        let share = || Share::new(free_port()?, directory.join("smb.log"));
        let share = args.smb.then(share).transpose()?;
        Ok(Self { image, directory, disk, flush, share })
    }

    fn rounds(&self, args: &Args, random: &mut Random) -> anyhow::Result<()> {
        let mut ledgers: Vec<Ledger> = Vec::new();
        let mut report = Report::default();
        for round in 0..args.rounds {
            ledgers.push(self.round(args, round, random, &report.missing(self.share.as_ref()))?);
            // Data that earlier rounds found must survive the later cuts too.
            let (disk, running, endpoint) = self.boot(args)?;
            let found = Ledger::verify_all(&ledgers, &endpoint)?;
            running.cut();
            disk.cut(random)?;
            eprintln!("power cut: round {round}: {found}");
            report.merge(found);
            report.require_clean(&self.directory)?;
        }
        eprintln!("power cut: no acknowledged operation was lost; {report}");
        report.require_every_kind(self.share.as_ref())
    }

    /// Boots, works until operations of each of these kinds are acknowledged, and cuts the power under load.
    fn round(&self, args: &Args, round: u32, random: &mut Random, kinds: &[&str]) -> anyhow::Result<Ledger> {
        let (disk, running, endpoint) = self.boot(args)?;
        let log = self.directory.join(format!("ledger-{round}.log"));
        let load = Ledger::start(&endpoint, self.share.as_ref(), round, args.workers, random.next(), &log)?;
        let load_ms = 1500 + u64::try_from(random.below(3500))?;
        load.run_for(Duration::from_millis(load_ms), kinds)?;
        let loss = disk.cut(random)?;
        running.cut();
        let ledger = load.finish()?;
        eprintln!(
            "power cut: round {round}: cut after at least {load_ms} ms of load; {} flushes; of the unflushed blocks {} kept, {} lost",
            loss.flushes, loss.survived, loss.lost
        );
        Ok(ledger)
    }

    fn boot(&self, args: &Args) -> anyhow::Result<(Disk, Running<'static>, Endpoint)> {
        let disk = Disk::power_on(&self.disk, self.flush)?;
        let (nfs_port, mount_port) = (free_port()?, free_port()?);
        let mut endpoint = Endpoint::loopback(nfs_port, PLIMSOLL_EXPORT);
        let mut guest = Guest::new(&self.image)
            .nbd_disk(&disk.socket)
            .set("FS", format!("{:?}", args.fs).to_lowercase())
            .forward(nfs_port, NFS_PORT);
        if let Some(reference) = args.reference {
            (endpoint.mount_port, endpoint.export) = (mount_port, "/data/export".into());
            let how = format!("{reference:?}").to_lowercase();
            guest = guest.forward(mount_port, MOUNT_PORT).set("MOUNT_PORT", MOUNT_PORT).set("HOW", how);
        } else {
            let listen = format!("0.0.0.0:{NFS_PORT}");
            let mut command = plimsoll_command("/job/plimsoll", "/data/export", "/data/state", &listen);
            if let Some(share) = &self.share {
                command.extend(plimsoll::smb_beside_nfs(&format!("0.0.0.0:{SMB_PORT}"), "/job/users.toml"));
                let users = plimsoll::smb_users(&self.directory)?;
                guest = guest
                    .file("users.toml", &users)
                    .forward(share.address.port(), SMB_PORT)
                    .set("OWNER", USER.id);
            }
            guest = guest.file("plimsoll", &args.binary).set("SERVER", command.join(" "));
        }
        let started = Instant::now();
        let mut running = guest.start(SCRIPT, Duration::from_secs(600))?;
        running.wait_line(READY).context("the guest did not boot")?;
        endpoint.wait_until_ready(BOOT_MAX)?;
        eprintln!("power cut: serving {:.1} s after power-on", started.elapsed().as_secs_f64());
        Ok((disk, running, endpoint))
    }
}

fn make_file_system(fs: FileSystem, disk: &Path, log: &Path) -> anyhow::Result<()> {
    File::create(disk)?.set_len(DISK_SIZE)?;
    let disk = disk.to_str().context("path is not UTF-8")?;
    let argv: &[&str] = match fs {
        FileSystem::Ext4 => &["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", disk],
        FileSystem::Xfs => &["mkfs.xfs", "-q", "-f", "-s", "size=4096", disk],
    };
    process::run(argv, log, Duration::from_secs(60))
}
