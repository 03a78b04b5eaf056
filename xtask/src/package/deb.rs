//! The control files of a Debian package, and the package itself (deb-control(5), deb(5)).

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, ensure};

use super::DIRECTORY;
use super::contents::Tree;
use crate::process::{self, text};

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
const CONFFILES: &str = "/etc/plimsoll/plimsoll.toml\n";

pub(super) fn write_control(tree: &Tree, version: &str) -> anyhow::Result<()> {
    let (debian, packaging) = (tree.root().join("DEBIAN"), process::workspace().join(DIRECTORY));
    let depends = depends(tree.root())?;
    fs::create_dir(&debian)?;
    let template = fs::read_to_string(packaging.join("debian/control"))?;
    let control = template
        .replace("@VERSION@", version)
        .replace("@SIZE@", &tree.kibibytes()?.to_string())
        .replace("@DEPENDS@", &depends);
    let mut files = vec![("control", control.into_bytes(), 0o644), ("conffiles", CONFFILES.into(), 0o644)];
    for script in SCRIPTS {
        files.push((script, fs::read(packaging.join("debian").join(script))?, 0o755));
    }
    for (name, content, mode) in files {
        fs::write(debian.join(name), content)?;
        fs::set_permissions(debian.join(name), Permissions::from_mode(mode))?;
    }
    write_sums(tree.root())
}

/// The packages of the shared libraries that the program uses.
fn depends(root: &Path) -> anyhow::Result<String> {
    // dpkg-shlibdeps reads the names of packages from the source's control file.
    let source = root.with_extension("source");
    process::empty_dir(&source.join("debian"))?;
    let control = "Source: plimsoll\n\nPackage: plimsoll\nArchitecture: amd64\n";
    fs::write(source.join("debian/control"), control)?;
    let program = root.join("usr/bin/plimsoll");
    let found = process::output(&source, "dpkg-shlibdeps", &["-O", "-e", text(&program)?])?;
    fs::remove_dir_all(source)?;
    let found = String::from_utf8(found)?;
    let depends = found.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends.map(String::from).with_context(|| format!("dpkg-shlibdeps names no packages: {found}"))
}

fn write_sums(root: &Path) -> anyhow::Result<()> {
    let script = "find etc usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums";
    process::output(root, "sh", &["-ec", script])?;
    Ok(fs::set_permissions(root.join("DEBIAN/md5sums"), Permissions::from_mode(0o644))?)
}

/// The changelog, whose first entry must be of this version. A version that only a test has gets an entry.
pub(super) fn changelog(packaging: &Path, version: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(packaging.join("debian/changelog"))?;
    if text.starts_with(&format!("plimsoll ({version})")) {
        return Ok(text);
    }
    let own = text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(own, _)| own);
    let own = own.context("the changelog has no version")?;
    let is_later = Command::new("dpkg").args(["--compare-versions", version, "gt", own]).status()?.success();
    ensure!(is_later, "packaging/debian/changelog begins with {own}; the package has version {version}");
    let signature =
        text.lines().find(|line| line.starts_with(" -- ")).context("the changelog has no date")?;
    Ok(format!("plimsoll ({version}) unstable; urgency=medium\n\n  * Upgrade.\n\n{signature}\n\n{text}"))
}

pub(super) fn build(root: &Path, package: &Path) -> anyhow::Result<()> {
    let mut dpkg = Command::new("dpkg-deb");
    // zstd is not in Debian's own packages, and xz at its highest level takes a minute.
    dpkg.args(["--root-owner-group", "-Zxz", "-z3", "--build"]).arg(root).arg(package);
    let output = dpkg.env("SOURCE_DATE_EPOCH", epoch()?).output().context("cannot run dpkg-deb")?;
    ensure!(output.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The time of the last commit, so that a commit gives one package.
fn epoch() -> anyhow::Result<String> {
    let committed = process::output(&process::workspace(), "git", &["log", "-1", "--format=%ct"]);
    let now = || Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs().to_string());
    committed.map_or_else(|_| now(), |text| Ok(String::from_utf8(text)?.trim().to_owned()))
}

/// The files in a package, with their modes. All must belong to root.
pub(super) fn list(package: &Path) -> anyhow::Result<BTreeMap<String, u32>> {
    let listed = process::output(Path::new("/"), "dpkg-deb", &["--contents", text(package)?])?;
    let listed = String::from_utf8(listed)?;
    let mut files = BTreeMap::new();
    for line in listed.lines().filter(|line| !line.starts_with('d')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, _, _, _, path] = words[..] else {
            anyhow::bail!("dpkg-deb prints a line that is not a file: {line}")
        };
        ensure!(owner == "root/root", "{path} belongs to {owner}");
        files.insert(path.trim_start_matches("./").to_owned(), mode_bits(mode));
    }
    Ok(files)
}

/// `-rwxr-xr-x`
fn mode_bits(text: &str) -> u32 {
    text.chars().skip(1).fold(0, |bits, c| bits << 1 | u32::from(c != '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_from_a_listing() {
        assert_eq!((mode_bits("-rwxr-xr-x"), mode_bits("-rw-r--r--")), (0o755, 0o644));
    }

    #[test]
    fn changelog_begins_with_the_version_of_the_package() {
        let packaging = process::workspace().join(DIRECTORY);
        let first =
            |version| changelog(&packaging, version).map(|text| text.lines().next().map(String::from));
        assert_eq!(first("9.0.0").unwrap().unwrap(), "plimsoll (9.0.0) unstable; urgency=medium");
        assert!(first("0.0.1").unwrap_err().to_string().contains("the package has version 0.0.1"));
    }
}
