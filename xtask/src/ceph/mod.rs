//! `cargo xtask ceph`: volumes on a CephFS that it starts, in a network namespace of its own.

mod cluster;
mod evict;
mod gateways;
mod kernel_client;
mod kill;
mod network;
mod previous;
mod service;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;
use crate::guest::image::{Image, Suite};
use crate::ledger::Share;
use crate::namespace;
use crate::packages;
use crate::process;
use crate::programs::LONG;
use cluster::Cluster;

/// Marks a process that is already in a namespace.
const INSIDE: &str = "XTASK_CEPH_NETWORK";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program to test; by default the one that `cargo build --release` builds.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Only these cases of the part `gateways`, also those that are left out in a brief run.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<gateways::Case>,
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
    packages::require(packages::FOR_CEPH)?;
    let work = process::target_dir().join("ceph");
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
        std::fs::create_dir_all(&work)?;
        Share::new(0, work.join("smb-clients.log"))?;
        return namespace::run_inside(INSIDE);
    }
    network::make_bridge()?;
    let mut cluster =
        Cluster::start(&work.join("cluster"), network::CEPH).context("cannot start a Ceph cluster")?;
    eprintln!("ceph: {}", cluster.ceph(&["version"])?.trim());
    if has(Part::Suites) {
        run_suites(&cluster, args.brief)?;
    }
    let binary = process::binary(args.binary.as_deref());
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

/// Runs the tests of the crate `ceph` that need a cluster.
fn run_suites(cluster: &Cluster, is_brief: bool) -> anyhow::Result<()> {
    let programs = cargo::test_programs()?;
    let own: Vec<_> = programs.iter().filter(|program| program.package == "ceph").collect();
    ensure!(own.len() > 1, "the crate ceph has no test programs");
    for program in own {
        let mut command = Command::new(&program.executable);
        command.args(["--ignored", "--test-threads=1"]).env("CEPH_CONF", cluster.conf());
        if !is_brief {
            command.env(LONG, "1");
        }
        let status = command.current_dir(&program.directory).status()?;
        ensure!(status.success(), "{} failed on CephFS", program.name());
    }
    Ok(())
}
