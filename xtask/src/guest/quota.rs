//! The tests of capacity in the guest, whose kernel has project quotas.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::image::Image;
use super::machine::Guest;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/quota.sh");
const TIME_MAX: Duration = Duration::from_secs(900);

pub(crate) fn run() -> anyhow::Result<()> {
    let image = Image::build()?;
    let disks = process::target_dir().join("tmp");
    let guest =
        Guest::new(&image).memory_mib(3000).set("DISKS", disks.display()).file("capacity", &test_program()?);
    guest.run(SCRIPT, TIME_MAX)?.require_success()
}

/// Builds the tests and tells where they are.
fn test_program() -> anyhow::Result<PathBuf> {
    let built = Command::new("cargo")
        .args(["test", "--locked", "-p", "posix", "--test", "capacity", "--no-run", "--message-format=json"])
        .current_dir(process::workspace())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(built.status.success(), "the tests of capacity cannot be built");
    let messages = String::from_utf8(built.stdout)?;
    let program = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_test = message["target"]["name"] == "capacity";
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    });
    program.context("cargo does not say where the tests are")
}
