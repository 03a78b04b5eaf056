//! The tests of capacity in the guest, whose kernel has project quotas.

use std::time::Duration;

use super::image::{Image, Suite};
use super::machine::Guest;
use crate::cargo;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/quota.sh");
const TIME_MAX: Duration = Duration::from_secs(1800);

pub(crate) fn run() -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let tests = cargo::program_of("capacity", &["test", "--test", "capacity", "--no-run"])?;
    let disks = process::target_dir().join("tmp");
    let guest = Guest::new(&image).memory_mib(3000).set("DISKS", disks.display()).file("capacity", &tests);
    guest.run(SCRIPT, TIME_MAX)?.require_success()
}
