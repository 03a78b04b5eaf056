//! `cargo xtask perf snapshots`: what snapshots cost, and how long they make clients wait.
//!
//! A machine's times say little, so each figure stands beside one of the same run without snapshots.

mod costs;
mod extents;
mod pauses;
mod times;
pub(super) mod volume;
mod writers;

use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::dist;
use crate::loop_fs::{FsKind, LoopFs};
use crate::managed::Managed;
use crate::process;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask perf snapshots
  cargo xtask perf snapshots --on xfs --files 0
  cargo xtask perf snapshots --on btrfs --files 100000")]
pub(super) struct Args {
    /// Server to measure; by default this tree's, built by `cargo xtask dist`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// File systems to measure, each in a new image; as root.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [FsKind::Xfs, FsKind::Btrfs, FsKind::Ext4, FsKind::Tmpfs])]
    on: Vec<FsKind>,
    /// Files of the volume in which pauses are measured; 0: only measure the costs of single operations.
    #[arg(long, default_value_t = 1_000_000)]
    files: usize,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "perf snapshots mounts file systems: run it as root");
    let files_min = writers::FILES_MIN;
    ensure!(args.files == 0 || args.files >= files_min, "--files must be 0, or {files_min} at least");
    let binary = args.binary.clone().map_or_else(dist::program, Ok)?;
    let work = process::target_dir().join("perf-snapshots");
    let home = work.join("home");
    LoopFs::clear(&home)?;
    process::empty_dir(&work)?;
    for &kind in &args.on {
        println!("{}:", kind.name());
        on_new(kind, &binary, &home, costs::measure)?;
        if kind == FsKind::Xfs {
            on_new(kind, &binary, &home, extents::measure)?;
        }
        // In memory there is no disk to wait for.
        if args.files > 0 && kind != FsKind::Tmpfs {
            on_new(kind, &binary, &home, |service| pauses::measure(service, args.files))?;
        }
    }
    process::empty_dir(&work)
}

/// Measures with a new service on a new file system.
fn on_new(
    kind: FsKind,
    binary: &Path,
    home: &Path,
    measure: impl FnOnce(&Managed) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let _mounted = LoopFs::mount(kind, home)?;
    let service = Managed::start_with(binary, home, &[], &["--snapshots", "copy"])?;
    service.manage("pool create own --level plimsoll/unlimited --size 24GiB")?;
    measure(&service)?;
    service.stop()
}
