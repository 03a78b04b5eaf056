//! `cargo xtask dist`: the program that ships, with its debug information in a separate file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use toml::{Table, Value};

use crate::packages;
use crate::process::{self, text};

const PROFILE: &str = "dist";
/// Without the debug information.
const PROGRAM_BYTES_MAX: u64 = 40_000_000;
const DEBUG_FILE: &str = "plimsoll.debug";

pub(crate) fn run() -> anyhow::Result<()> {
    let program = program()?;
    for path in [program.with_file_name(DEBUG_FILE), program] {
        println!("{} ({:.1} MB)", path.display(), megabytes(fs::metadata(&path)?.len()));
    }
    Ok(())
}

pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let target = process::target_dir();
    build(&process::workspace(), &target, PROFILE, &[])?;
    split(&target, &target.join(PROFILE).join("bin"))
}

/// Builds another checkout with this tree's profile `dist` in the target directory `target`, and copies its program
/// into `directory`. Cargo gives crates of both trees the same names, so in this tree's target directory each would
/// replace the other.
pub(crate) fn program_of(checkout: &Path, target: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    let manifest = fs::read_to_string(process::workspace().join("Cargo.toml"))?;
    build(checkout, target, PROFILE, &profile_settings(&manifest)?)?;
    split(target, directory)
}

/// Builds another checkout with its own profile `dev`, and copies its program into `directory`.
pub(crate) fn development_program_of(
    checkout: &Path,
    target: &Path,
    directory: &Path,
) -> anyhow::Result<PathBuf> {
    build(checkout, target, "dev", &[])?;
    fs::create_dir_all(directory)?;
    let program = directory.join("plimsoll");
    fs::copy(target.join("debug/plimsoll"), directory.join("plimsoll.new"))?;
    fs::rename(directory.join("plimsoll.new"), &program)?;
    Ok(program)
}

/// Runs `make` on a checkout of this commit, which lasts as long.
pub(crate) fn with_checkout<T>(
    checkout: &Path,
    commit: &str,
    make: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    remove_checkout(checkout)?;
    let arguments = ["worktree", "add", "--detach", text(checkout)?, commit];
    process::output(&process::workspace(), "git", &arguments)?;
    let made = make();
    remove_checkout(checkout)?;
    made
}

/// Works on the checkout of an interrupted run too.
fn remove_checkout(checkout: &Path) -> anyhow::Result<()> {
    if checkout.exists() {
        fs::remove_dir_all(checkout).with_context(|| format!("cannot remove {}", checkout.display()))?;
    }
    process::output(&process::workspace(), "git", &["worktree", "prune"])?;
    Ok(())
}

/// Cargo prints its errors to the terminal itself.
fn build(checkout: &Path, target: &Path, profile: &str, settings: &[String]) -> anyhow::Result<()> {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.args(["build", "--locked", "--profile", profile, "--package", "plimsoll", "--bin", "plimsoll"]);
    for setting in settings {
        cargo.args(["--config", setting]);
    }
    cargo.current_dir(checkout).env("CARGO_TARGET_DIR", target);
    let status = cargo.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo build --profile {profile} failed: {status}");
    Ok(())
}

/// Splits cargo's program. The file itself is not changed: cargo compares it with its hard link in `deps`.
fn split(target: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    packages::require(packages::FOR_DIST)?;
    let built = target.join(PROFILE).join("plimsoll").canonicalize()?;
    fs::create_dir_all(directory)?;
    let objcopy = |arguments: &[&str]| process::output(directory, "objcopy", arguments);
    objcopy(&["--only-keep-debug", text(&built)?, DEBUG_FILE])?;
    let link = format!("--add-gnu-debuglink={DEBUG_FILE}");
    // A rename, because a running program cannot be overwritten.
    objcopy(&["--strip-debug", &link, text(&built)?, "plimsoll.new"])?;
    let program = directory.join("plimsoll");
    require_small(fs::metadata(directory.join("plimsoll.new"))?.len())?;
    fs::rename(directory.join("plimsoll.new"), &program)?;
    Ok(program)
}

fn require_small(bytes: u64) -> anyhow::Result<()> {
    let (size, max) = (megabytes(bytes), megabytes(PROGRAM_BYTES_MAX));
    ensure!(
        bytes <= PROGRAM_BYTES_MAX,
        "the program has {size:.1} MB without debug information, at most {max:.0} MB"
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a size to read")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The profile of a manifest as `--config` settings, with the profiles that it inherits: an earlier commit may lack
/// this profile.
fn profile_settings(manifest: &str) -> anyhow::Result<Vec<String>> {
    let manifest: Table = manifest.parse()?;
    let profiles =
        manifest.get("profile").and_then(Value::as_table).context("no profiles in the manifest")?;
    let table = |name: &str| profiles.get(name).and_then(Value::as_table);
    let own = table(PROFILE).context("no profile dist in the manifest")?;
    // Settings of the profile override inherited ones.
    let mut all = own.get("inherits").and_then(Value::as_str).and_then(table).cloned().unwrap_or_default();
    all.extend(own.clone());
    Ok(all.into_iter().map(|(key, value)| format!("profile.{PROFILE}.{key}={value}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_over_the_bound_is_refused_with_both_sizes() {
        require_small(PROGRAM_BYTES_MAX).unwrap();
        let error = require_small(PROGRAM_BYTES_MAX + 500_000).unwrap_err().to_string();
        assert_eq!(error, "the program has 40.5 MB without debug information, at most 40 MB");
    }

    #[test]
    fn settings_include_inherited_ones() {
        let manifest = "[profile.release]\nlto = \"thin\"\nstrip = false\n\
                        [profile.dist]\ninherits = \"release\"\nlto = \"fat\"\ncodegen-units = 1\n";
        let mut settings = profile_settings(manifest).unwrap();
        settings.sort_unstable();
        assert_eq!(
            settings,
            [
                "profile.dist.codegen-units=1",
                "profile.dist.inherits=\"release\"",
                "profile.dist.lto=\"fat\"",
                "profile.dist.strip=false"
            ]
        );
        assert!(profile_settings("[profile.dev]\ndebug = false\n").is_err());
    }
}
