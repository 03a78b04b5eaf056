//! Drives `xtask/guest/package.sh`: the Debian package in a guest with systemd.

use std::path::PathBuf;
use std::time::Duration;

use super::image::Image;
use super::machine::Guest;
use crate::debian::Suite;
use crate::package;

const SCRIPT: &str = include_str!("../../guest/package.sh");
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 41;
/// A later version than any that is released.
const LATER: &str = "99.0.0";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program to pack; by default `cargo xtask dist` builds the one that ships.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 480)]
    timeout_s: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let binary = args.binary.as_deref();
    let (package, later) = (package::build(binary, None)?, package::build(binary, Some(LATER))?);
    package::check(&package)?;
    let guest = Guest::new(&image).memory_mib(2048).under_systemd().set("LATER", LATER);
    let guest = guest.file("plimsoll.deb", &package).file("later.deb", &later);
    guest.run(SCRIPT, Duration::from_secs(args.timeout_s))?.require_checks(CHECKS_MIN)
}
