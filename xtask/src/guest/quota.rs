//! The tests of capacity in the guest, whose kernel has project quotas.

use std::path::PathBuf;
use std::time::Duration;

use super::image::{Image, Suite};
use super::machine::Guest;
use super::shared::Machine;
use crate::cargo;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/quota.sh");
const TIME_MAX: Duration = Duration::from_secs(1800);

pub(super) fn run(machine: &mut Machine<'_>) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let tests = prepare()?;
    let disks = process::target_dir().join("tmp");
    let guest = Guest::new(&image).memory_mib(3000).set("DISKS", disks.display()).file("capacity", &tests);
    machine.start(&guest, SCRIPT, TIME_MAX)?.finish()?.require_success()
}

pub(super) fn prepare() -> anyhow::Result<PathBuf> {
    cargo::program_of("capacity", &["test", "--test", "capacity", "--no-run"])
}
