//! The files of the package, with their modes.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::{DIRECTORY, deb};
use crate::process::{self, text};

const PROGRAM: &str = "usr/bin/plimsoll";
const MANUAL: &str = "usr/share/man/man1";
pub(super) const CHANGELOG: &str = "usr/share/doc/plimsoll/changelog";
const DOCUMENTS: &str = "usr/share/doc/plimsoll";
/// The documents, which link to each other. A directory counts with all that it contains.
const DOCUMENT_SOURCES: [&str; 6] =
    ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs"];
/// Files that are copied as they are.
const COPIED: [(&str, &str); 4] = [
    ("plimsoll.service", "usr/lib/systemd/system/plimsoll.service"),
    ("plimsoll.toml", "etc/plimsoll/plimsoll.toml"),
    ("debian/copyright", "usr/share/doc/plimsoll/copyright"),
    ("debian/lintian-overrides", "usr/share/lintian/overrides/plimsoll"),
];
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/plimsoll"),
    ("zsh", "usr/share/zsh/vendor-completions/_plimsoll"),
    ("fish", "usr/share/fish/vendor_completions.d/plimsoll.fish"),
];
/// Pages that the package cannot be without. The others follow from the commands.
const PAGES: [&str; 4] = ["plimsoll", "plimsoll-serve", "plimsoll-setup", "plimsoll-volume-create"];

/// The directory that becomes the package.
pub(super) struct Tree {
    root: PathBuf,
    /// Each file with its mode.
    files: BTreeMap<String, u32>,
}

impl Tree {
    pub(super) fn fill(root: &Path, program: &Path, version: &str) -> anyhow::Result<Self> {
        process::empty_dir(root)?;
        let mut tree = Self { root: root.to_owned(), files: BTreeMap::new() };
        tree.add_program(program)?;
        let packaging = process::workspace().join(DIRECTORY);
        for (from, to) in COPIED {
            let content = fs::read(packaging.join(from)).with_context(|| format!("cannot read {from}"))?;
            tree.write(to, &content, 0o644)?;
        }
        let own = tree.root.join(PROGRAM);
        for (shell, to) in COMPLETIONS {
            let script = process::output(&tree.root, text(&own)?, &["completions", shell])?;
            tree.write(to, &script, 0o644)?;
        }
        tree.write(CHANGELOG, deb::changelog(&packaging, version)?.as_bytes(), 0o644)?;
        tree.compress(CHANGELOG)?;
        tree.add_manual()?;
        DOCUMENT_SOURCES.iter().try_for_each(|source| tree.add_documents(source))?;
        Ok(tree)
    }

    fn add_documents(&mut self, source: &str) -> anyhow::Result<()> {
        let from = process::workspace().join(source);
        if !from.is_dir() {
            let content = fs::read(&from).with_context(|| format!("cannot read {source}"))?;
            return self.write(&format!("{DOCUMENTS}/{source}"), &content, 0o644);
        }
        for entry in fs::read_dir(&from)? {
            let name = entry?.file_name().into_string().ok().context("a document's name is not UTF-8")?;
            self.add_documents(&format!("{source}/{name}"))?;
        }
        Ok(())
    }

    /// Without symbols, as packages have programs; `cargo xtask dist` stores them in a file of their own.
    fn add_program(&mut self, program: &Path) -> anyhow::Result<()> {
        self.write(PROGRAM, &[], 0o755)?;
        let to = self.root.join(PROGRAM);
        let sections = ["--remove-section=.comment", "--remove-section=.note"];
        let strip = ["--strip-unneeded", sections[0], sections[1], "-o", text(&to)?, text(program)?];
        process::output(&self.root, "strip", &strip)?;
        Ok(fs::set_permissions(to, Permissions::from_mode(0o755))?)
    }

    /// The program writes its pages; `man` must read each without a warning.
    fn add_manual(&mut self) -> anyhow::Result<()> {
        let directory = self.root.join(MANUAL);
        process::output(&self.root, text(&self.root.join(PROGRAM))?, &["man", "--dir", text(&directory)?])?;
        let mut pages = Vec::new();
        for entry in fs::read_dir(&directory)? {
            pages.push(entry?.file_name().into_string().ok().context("a page's name is not UTF-8")?);
        }
        for page in PAGES {
            ensure!(pages.contains(&format!("{page}.1")), "there is no page {page}.1");
        }
        let paths = pages.iter().map(|page| directory.join(page));
        require_clean(&paths.collect::<Vec<_>>())?;
        for page in pages {
            let path = format!("{MANUAL}/{page}");
            fs::set_permissions(self.root.join(&path), Permissions::from_mode(0o644))?;
            self.files.insert(path.clone(), 0o644);
            self.compress(&path)?;
        }
        Ok(())
    }

    fn write(&mut self, path: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        let to = self.root.join(path);
        fs::create_dir_all(to.parent().context("a path without a directory")?)?;
        fs::write(&to, content)?;
        fs::set_permissions(&to, Permissions::from_mode(mode))?;
        self.files.insert(path.to_owned(), mode);
        Ok(())
    }

    /// Without name and time, so that the same input gives the same package.
    fn compress(&mut self, path: &str) -> anyhow::Result<()> {
        process::output(&self.root, "gzip", &["-9n", path])?;
        let mode = self.files.remove(path).context("a file that was not added")?;
        self.files.insert(format!("{path}.gz"), mode);
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Kibibytes on a disk.
    pub(super) fn kibibytes(&self) -> anyhow::Result<u64> {
        self.files.keys().map(|path| Ok(fs::metadata(self.root.join(path))?.len().div_ceil(1024))).sum()
    }

    /// Compares with the files in the package: a file that is missing or too many fails.
    pub(super) fn require_same(&self, packed: &BTreeMap<String, u32>) -> anyhow::Result<()> {
        let only = |one: &BTreeMap<String, u32>, other: &BTreeMap<String, u32>| {
            let strange = one.iter().filter(|(path, mode)| other.get(*path) != Some(mode));
            strange.map(|(path, mode)| format!("{path} ({mode:o})")).collect::<Vec<_>>().join(", ")
        };
        if packed != &self.files {
            bail!(
                "the files of the package differ: missing or with another mode: [{}]; too many: [{}]",
                only(&self.files, packed),
                only(packed, &self.files)
            );
        }
        Ok(())
    }
}

fn require_clean(pages: &[PathBuf]) -> anyhow::Result<()> {
    for page in pages {
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", text(page)?]);
        man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").env("MANROFFSEQ", "");
        let output = man.output().context("cannot run man")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success() && said.is_empty(), "man {}: {said}", page.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_that_lacks_a_file_or_has_one_more_is_refused() {
        let files =
            |names: &[(&str, u32)]| names.iter().map(|&(name, mode)| (name.to_owned(), mode)).collect();
        let tree = Tree { root: PathBuf::new(), files: files(&[("a", 0o644), ("b", 0o755)]) };
        tree.require_same(&files(&[("a", 0o644), ("b", 0o755)])).unwrap();
        for (packed, named) in [
            (files(&[("a", 0o644)]), "b (755)"),
            (files(&[("a", 0o644), ("b", 0o755), ("c", 0o644)]), "too many: [c (644)]"),
            (files(&[("a", 0o600), ("b", 0o755)]), "a (600)"),
        ] {
            let error = tree.require_same(&packed).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
