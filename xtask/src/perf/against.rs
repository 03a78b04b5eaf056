//! The build that `--against` names: a program, or a commit that is built once and retained.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::dist;
use crate::process;

/// Older builds of commits are deleted.
const BUILDS_MAX: usize = 10;

#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Program(PathBuf),
    Commit(String),
}

/// Builds the program of an earlier commit if it is missing.
pub(super) fn program(chosen: &str) -> anyhow::Result<PathBuf> {
    match choice(&process::workspace(), chosen)? {
        Choice::Program(path) => Ok(path),
        Choice::Commit(commit) => built(&process::target_dir().join("perf-builds"), &commit),
    }
}

/// A file takes precedence over a revision of the same name.
fn choice(repository: &Path, chosen: &str) -> anyhow::Result<Choice> {
    let path = Path::new(chosen);
    if path.is_file() {
        return Ok(Choice::Program(path.canonicalize()?));
    }
    let revision = format!("{chosen}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &revision];
    let output =
        Command::new("git").args(arguments).current_dir(repository).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("--against {chosen}: neither a program nor a revision of this repository");
    }
    Ok(Choice::Commit(String::from_utf8(output.stdout)?.trim().to_owned()))
}

fn built(builds: &Path, commit: &str) -> anyhow::Result<PathBuf> {
    let directory = builds.join(commit);
    let program = directory.join("plimsoll");
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("perf: building {commit} with the profile dist");
    let checkout = builds.join("source");
    fs::create_dir_all(builds)?;
    // Commits share the compiled dependencies.
    let made = dist::with_checkout(&checkout, commit, || {
        dist::program_of(&checkout, &builds.join("target"), &directory)
    });
    let made = made.with_context(|| format!("--against: cannot build {commit}"))?;
    remove_oldest(builds, BUILDS_MAX)?;
    Ok(made)
}

fn remove_oldest(builds: &Path, count: usize) -> anyhow::Result<()> {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(builds)? {
        let program = entry?.path().join("plimsoll");
        if let (Ok(metadata), Some(directory)) = (fs::metadata(&program), program.parent()) {
            found.push((metadata.modified()?, directory.to_owned()));
        }
    }
    found.sort_unstable();
    let excess = found.len().saturating_sub(count);
    for (_, directory) in found.into_iter().take(excess) {
        fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("xtask-against-{name}-{}", std::process::id()));
        process::empty_dir(&directory).unwrap();
        directory
    }

    #[test]
    fn a_path_selects_a_program_and_a_revision_a_commit() {
        let directory = scratch("choice");
        let git = |arguments: &[&str]| process::output(&directory, "git", arguments).unwrap();
        git(&["init", "--quiet"]);
        let author = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
        git(&[&author[..], &["commit", "--quiet", "--allow-empty", "--message", "x"]].concat());
        let head = String::from_utf8(git(&["rev-parse", "HEAD"])).unwrap().trim().to_owned();
        assert_eq!(choice(&directory, "HEAD").unwrap(), Choice::Commit(head.clone()));
        assert_eq!(choice(&directory, &head[..8]).unwrap(), Choice::Commit(head));
        let program = directory.join("program");
        fs::write(&program, "").unwrap();
        let chosen = choice(&directory, program.to_str().unwrap()).unwrap();
        assert_eq!(chosen, Choice::Program(program.canonicalize().unwrap()));
        for unknown in ["no-such-revision", "--all"] {
            let error = choice(&directory, unknown).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("--against {unknown}: neither a program nor a revision of this repository")
            );
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_oldest_builds_are_removed() {
        let builds = scratch("oldest");
        for (age_s, name) in [(30, "c"), (10, "a"), (20, "b")] {
            fs::create_dir(builds.join(name)).unwrap();
            let file = fs::File::create(builds.join(name).join("plimsoll")).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
        }
        fs::create_dir(builds.join("source")).unwrap();
        remove_oldest(&builds, 2).unwrap();
        let exists = ["a", "b", "c", "source"].map(|name| builds.join(name).exists());
        assert_eq!(exists, [true, true, false, true]);
        fs::remove_dir_all(&builds).unwrap();
    }
}
