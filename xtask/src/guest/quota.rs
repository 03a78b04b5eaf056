//! The tests of capacity and of quotas in the guest, whose kernel has project quotas.

use std::path::PathBuf;
use std::time::Duration;

use super::image::Image;
use super::machine::Guest;
use super::shared::Machine;
use crate::cargo;
use crate::debian::Suite;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/quota.sh");
const TIME_MAX: Duration = Duration::from_secs(1800);

pub(super) fn run(machine: &mut Machine<'_>) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let tests = prepare()?;
    let disks = process::target_dir().join("tmp");
    let [capacity, quotas] = tests;
    let guest = Guest::new(&image).memory_mib(3000).set("DISKS", disks.display());
    let guest = guest.file("capacity", &capacity).file("owner_quotas", &quotas);
    machine.start(&guest, SCRIPT, TIME_MAX)?.finish()?.require_success()
}

pub(super) fn prepare() -> anyhow::Result<[PathBuf; 2]> {
    let program = |name| cargo::program_of(name, &["test", "--test", name, "--no-run"]);
    Ok([program("capacity")?, program("owner_quotas")?])
}
