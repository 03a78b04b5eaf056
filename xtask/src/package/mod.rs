//! `cargo xtask package`: a Debian package of the program, checked by lintian.

mod contents;
mod deb;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::packages;
use crate::process::{self, text};
use crate::{cargo, dist};
use contents::Tree;

pub(crate) const DIRECTORY: &str = "packaging";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pack this program. By default `cargo xtask dist` builds the program that ships.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Version of the package, for tests of an upgrade. By default that of the workspace.
    #[arg(long)]
    version: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let package = build(args.binary.as_deref(), args.version.as_deref())?;
    check(&package)?;
    println!("{} ({} KiB)", package.display(), fs::metadata(&package)?.len() >> 10);
    Ok(())
}

/// Builds the package, and compares its files with the list.
pub(crate) fn build(binary: Option<&Path>, version: Option<&str>) -> anyhow::Result<PathBuf> {
    packages::require(packages::FOR_PACKAGE)?;
    let program = binary.map_or_else(dist::program, |binary| Ok(binary.to_owned()))?;
    let version = version.map_or_else(workspace_version, |version| Ok(version.to_owned()))?;
    let work = process::target_dir().join("package");
    fs::create_dir_all(&work)?;
    let name = format!("plimsoll_{version}_amd64");
    let tree = Tree::fill(&work.join(&name), &program, &version)?;
    deb::write_control(&tree, &version)?;
    let package = work.join(format!("{name}.deb"));
    deb::build(tree.root(), &package)?;
    tree.require_same(&deb::list(&package)?)?;
    Ok(package)
}

/// Prints the findings of lintian; errors and warnings fail.
pub(crate) fn check(package: &Path) -> anyhow::Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning"]);
    let status = lintian.arg(text(package)?).status().context("cannot run lintian")?;
    ensure!(status.success(), "lintian has errors or warnings, see above");
    Ok(())
}

fn workspace_version() -> anyhow::Result<String> {
    let metadata = cargo::metadata(&process::workspace().join("Cargo.toml"))?;
    let packages = metadata["packages"].as_array().context("cargo names no packages")?;
    let own = packages.iter().find(|package| package["name"] == "plimsoll");
    own.and_then(|own| own["version"].as_str()).map(String::from).context("cargo names no package plimsoll")
}
