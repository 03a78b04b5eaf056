//! `cargo xtask ceph`: volumes on a CephFS that it starts, in a network namespace of its own.

mod cluster;
mod evict;
mod gateways;
mod kernel_client;
mod kill;
mod network;
mod previous;
mod root;
mod service;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;
use crate::debian::Suite;
use crate::guest::image::Image;
use crate::ledger::Share;
use crate::namespace;
use crate::packages;
use crate::process::{self, text};
use crate::programs::LONG;
use cluster::Cluster;
use root::Root;

/// Marks a process that is already in a namespace.
const INSIDE: &str = "XTASK_CEPH_NETWORK";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program to test; by default the one that `cargo build --release` builds.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The release of Debian whose Ceph is tested. `trixie` runs in a root directory that is made first.
    #[arg(long, value_enum, default_value = "bookworm")]
    suite: Suite,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Only these cases of the part `gateways`, also those that are left out in a brief run.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<gateways::Case>,
    /// Only these test programs of the part `suites`, such as `recount`.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS")]
    programs: Vec<String>,
    /// The program of the version before, for the part `upgrade` [default: build it from the last release]
    #[arg(long)]
    previous: Option<PathBuf>,
    /// Fewer rounds, and without the parts `upgrade` and `scale`.
    #[arg(long)]
    brief: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The suites of backends and provisioners.
    Suites,
    /// A service that is killed under load.
    Kill,
    /// A service whose session the cluster ends.
    Evict,
    /// Several gateways, of which one fails.
    Gateways,
    /// Gateways that are upgraded one after the other.
    Upgrade,
    /// Four, eight and twelve volumes on one, two and three gateways.
    Scale,
    /// The kernel's clients while an endpoint moves between gateways.
    Kernel,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let is_own = args.suite == Suite::Bookworm;
    packages::require(if is_own { packages::FOR_CEPH } else { packages::FOR_CEPH_IN_ROOT })?;
    let work = process::target_dir().join("ceph").join(args.suite.name());
    let is_long = |part| matches!(part, Part::Upgrade | Part::Scale);
    let has = |part| match args.only.is_empty() {
        true => !args.brief || !is_long(part),
        false => args.only.contains(&part),
    };
    if !namespace::is_inside(INSIDE) {
        // The namespace has no network.
        if has(Part::Kernel) {
            Image::build(Suite::Bookworm)?;
        }
        if has(Part::Upgrade) {
            previous::program(args.previous.as_deref())?;
        }
        if !is_own {
            root::build(args.suite)?;
        }
        std::fs::create_dir_all(&work)?;
        Share::new(0, work.join("smb-clients.log"))?;
        return namespace::run_inside(INSIDE);
    }
    let binary = process::binary(args.binary.as_deref());
    // The suites alone need no program.
    let binary = binary.canonicalize().unwrap_or(binary);
    let root = if is_own { Root::of_machine() } else { enter(args, &binary)? };
    network::make_bridge()?;
    let mut cluster =
        Cluster::start(root, &work.join("cluster"), network::CEPH).context("cannot start a Ceph cluster")?;
    eprintln!("ceph: {}", cluster.ceph(&["version"])?.trim());
    if has(Part::Suites) {
        run_suites(&cluster, &args.programs, args.brief)?;
    }
    if has(Part::Kill) {
        kill::run(&binary, &cluster, &work, if args.brief { 2 } else { 50 })?;
    }
    if has(Part::Evict) {
        evict::run(&binary, &cluster, &work, if args.brief { 2 } else { 10 })?;
    }
    if has(Part::Gateways) {
        gateways::run(&binary, &mut cluster, &work, &args.cases, args.brief)?;
    }
    if has(Part::Upgrade) {
        let previous = previous::program(args.previous.as_deref())?;
        gateways::upgrade::run(&previous, &binary, &mut cluster, &work)?;
    }
    if has(Part::Scale) {
        gateways::scale::run(&binary, &mut cluster, &work)?;
    }
    if has(Part::Kernel) {
        kernel_client::run(&binary, &mut cluster, &work, args.brief)?;
    }
    Ok(())
}

/// Enters the root directory with Ceph of this release.
fn enter(args: &Args, binary: &Path) -> anyhow::Result<Root> {
    let mut shared = vec![process::workspace(), process::target_dir()];
    let programs = [Some(binary), args.previous.as_deref()].into_iter().flatten();
    for program in programs.filter(|program| program.exists()) {
        shared.push(program.canonicalize()?);
    }
    Root::enter(&root::build(args.suite)?, &shared)
}

/// Runs the tests of the crate `ceph` that need a cluster.
fn run_suites(cluster: &Cluster, only: &[String], is_brief: bool) -> anyhow::Result<()> {
    let programs = cargo::test_programs()?;
    let is_chosen = |target: &str| only.is_empty() || only.iter().any(|name| name == target);
    let own = programs.iter().filter(|program| program.package == "ceph");
    let own: Vec<_> = own.filter(|program| program.target.as_deref().is_some_and(is_chosen)).collect();
    ensure!(!own.is_empty(), "the crate ceph has no such test programs: {}", only.join(", "));
    for program in own {
        let directory = format!("--chdir={}", program.directory.display());
        let argv = cluster.root().command(&["env", &directory, text(&program.executable)?]);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).args(["--ignored", "--test-threads=1"]).env("CEPH_CONF", cluster.conf());
        if !is_brief {
            command.env(LONG, "1");
        }
        let status = command.status()?;
        ensure!(status.success(), "{} failed on CephFS", program.name());
    }
    Ok(())
}
