//! The program of the version before, whose gateways work together with this one's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::dist;
use crate::process;

/// The version before as long as there is no release: the first one with gateways.
const COMMIT: &str = "94bd7e7f9573422a3e7d1f602dc8c2052685a9ef";

/// The chosen program, or the one of the last release, which is built once and retained.
pub(super) fn program(chosen: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = chosen {
        return path.canonicalize().with_context(|| format!("--previous {}", path.display()));
    }
    let commit = commit()?;
    let builds = process::target_dir().join("ceph-previous");
    let directory = builds.join(&commit);
    let program = directory.join("plimsoll");
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("ceph: building {commit}, the version before");
    fs::create_dir_all(&builds)?;
    let checkout = builds.join("source");
    dist::with_checkout(&checkout, &commit, || {
        dist::development_program_of(&checkout, &builds.join("target"), &directory)
    })
}

/// The commit of the last release before this one.
fn commit() -> anyhow::Result<String> {
    let release = git(&["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"])?;
    let revision = release.unwrap_or_else(|| COMMIT.to_owned());
    match git(&["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")])? {
        Some(commit) => Ok(commit),
        None => bail!(
            "this clone lacks the commit {revision}, the version before: run \"git fetch --unshallow\", or name a program with \
             --previous"
        ),
    }
}

/// The output of git; `None` if git finds nothing.
fn git(arguments: &[&str]) -> anyhow::Result<Option<String>> {
    let output = Command::new("git").args(arguments).current_dir(process::workspace()).output();
    let output = output.context("cannot run git")?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}
