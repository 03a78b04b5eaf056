//! Drives `xtask/guest/pjdfstest.sh`: the suite on a volume without snapshots, and on one with a snapshot before each part
//! of it. A snapshot that nobody reads must change no result.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS};
use super::shared::Machine;
use crate::debian::Suite;
use crate::managed::Managed;
use crate::process::{self, text};

const SCRIPT: &str = include_str!("../../guest/pjdfstest.sh");
/// The suite from the registry of crates.
const SUITE: &str = "pjdfstest";
const SUITE_VERSION: &str = "0.2.2";
const INSTALL_MAX: Duration = Duration::from_secs(900);
/// The modules of the suite, except those for file systems of FreeBSD.
const PARTS: [&str; 14] = [
    "chmod",
    "chown",
    "ftruncate",
    "link",
    "mkdir",
    "mkfifo",
    "mknod",
    "open",
    "rename",
    "rmdir",
    "symlink",
    "truncate",
    "unlink",
    "utimensat",
];
const VERSIONS: [&str; 2] = ["3", "4.2"];
const CHECKS_OF_VERSION: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 1800)]
    timeout_s: u64,
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let work = process::target_dir().join("guest").join("pjdfstest");
    let suite = install()?;
    process::empty_dir(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let service = Managed::start_with(&binary, &work, &[], &["--snapshots", "copy"])?;
    service.manage("pool create p --level plimsoll/unlimited --size 4GiB")?;
    for volume in ["plain", "work"] {
        service.manage(&format!(
            "volume create {volume} --pool p --size 1GiB --allow 127.0.0.0/8 --squash none --protocols nfsv3,nfsv4.2"
        ))?;
    }
    let guest = Guest::new(&image)
        .file(SUITE, &suite)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", service.port)
        .set("VERSIONS", VERSIONS.join(" "))
        .set("PARTS", PARTS.join(" "));
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    for number in 1..=VERSIONS.len() * PARTS.len() {
        running.wait_mark("create")?;
        service.manage(&format!("snapshot create work s{number}"))?;
    }
    running.finish()?.require_checks(VERSIONS.len() * CHECKS_OF_VERSION)?;
    service.stop()
}

/// Builds the suite below `target`, unless it is there in this version.
fn install() -> anyhow::Result<PathBuf> {
    let root = process::target_dir().join(SUITE);
    std::fs::create_dir_all(&root)?;
    let build = root.join("build");
    let of = |path: &Path| text(path).map(str::to_owned);
    let (directory, build) = (of(&root)?, of(&build)?);
    let argv = ["cargo", "install", "--locked", "--version", SUITE_VERSION, SUITE, "--root", &directory];
    let argv = [&argv[..], &["--target-dir", &build]].concat();
    process::run(&argv, &root.join("install.log"), INSTALL_MAX)?;
    Ok(root.join("bin").join(SUITE))
}
