//! Root directories of Debian releases, and directories that a recipe fills once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::packages;
use crate::process::{self, text};
use crate::random::mix;

const BOOTSTRAP_MAX: Duration = Duration::from_secs(900);
/// Hexadecimal digits of a key in the name of a directory.
const KEY_DIGITS: usize = 16;

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Debian 12, Linux 6.1, Ceph 16.2.
    Bookworm,
    /// Debian 13, Linux 6.12, Ceph 18.2.
    Trixie,
}

impl Suite {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }
}

/// The place of a directory that is filled once.
pub(crate) struct Cache<'c> {
    pub(crate) home: &'c Path,
    /// The first part of its name in `home`.
    pub(crate) name: &'c str,
    /// A number for the recipe, from [`key`].
    pub(crate) key: u64,
}

/// A number for the texts that a recipe depends on. Another version, chosen by hand, tells its steps apart.
pub(crate) fn key<'t>(version: u64, texts: impl IntoIterator<Item = &'t str>) -> u64 {
    let bytes = texts.into_iter().flat_map(str::bytes);
    bytes.fold(version, |key, byte| mix(key ^ u64::from(byte)))
}

impl Cache<'_> {
    /// The directory. If it is missing, fills it, and removes those of other keys.
    pub(crate) fn directory(
        &self,
        fill: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        let (home, name) = (self.home, self.name);
        fs::create_dir_all(home)?;
        let lock = File::create(home.join(format!("{name}.lock")))?;
        lock.lock()?;
        let dir = home.join(format!("{name}-{:0KEY_DIGITS$x}", self.key));
        if !dir.exists() {
            self.remove_others()?;
            let partial = home.join(format!("partial-{name}"));
            process::empty_dir(&partial)?;
            fill(&partial)?;
            fs::rename(&partial, &dir)?;
        }
        Ok(dir)
    }

    fn remove_others(&self) -> anyhow::Result<()> {
        for entry in fs::read_dir(self.home)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let key = name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('-'));
            if key.is_some_and(|key| key.len() == KEY_DIGITS) && entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Makes a root directory with these packages, separated by commas. Needs root.
pub(crate) fn bootstrap(suite: Suite, packages: &str, root: &Path, log: &Path) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "building a root directory of Debian needs root (mmdebstrap, chroot)"
    );
    packages::require(packages::FOR_BOOTSTRAP)?;
    let (include, mirror) = (format!("--include={packages}"), mirror(suite)?);
    let words =
        ["mmdebstrap", "--mode=root", "--variant=minbase", &include, suite.name(), text(root)?, &mirror];
    process::run(&words, log, BOOTSTRAP_MAX)
}

/// Removes those of these directories that exist.
pub(crate) fn remove_parts(
    root: &Path,
    parts: impl IntoIterator<Item = impl AsRef<Path>>,
) -> anyhow::Result<()> {
    for part in parts {
        let part = root.join(part);
        if part.exists() {
            fs::remove_dir_all(part)?;
        }
    }
    Ok(())
}

/// The source of the suite, or of Debian 12 beside it, in the host's apt.
pub(crate) fn mirror(suite: Suite) -> anyhow::Result<String> {
    for suite in [suite, Suite::Bookworm] {
        let codename = format!("Codename: {}", suite.name());
        let arguments = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", &codename];
        let listed = Command::new("apt-get").args(arguments).output();
        let listed = listed.context("cannot ask apt-get for its sources")?.stdout;
        if let Some(first) = String::from_utf8_lossy(&listed).lines().next() {
            return Ok(first.to_owned());
        }
    }
    bail!("apt has no source of Debian 12; run apt-get update (the tests use its packages)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_recipe_replaces_its_own_directory_only() {
        let home = std::env::temp_dir().join(format!("xtask-recipe-{}", std::process::id()));
        let directory = |name: &str, key: u64| {
            let mut was_filled = false;
            let directory = Cache { home: &home, name, key }.directory(|_| {
                was_filled = true;
                Ok(())
            });
            (directory.unwrap(), was_filled)
        };
        let (first, _) = directory("a", 1);
        let (other, _) = directory("a-b", 2);
        assert_eq!(directory("a", 1), (first.clone(), false));
        let (second, was_filled) = directory("a", 3);
        assert!(was_filled && second.is_dir() && other.is_dir() && !first.exists());
        fs::remove_dir_all(home).unwrap();
    }
}
