//! Directories that lie in one another: each export knows only what is held through itself, so they are not served together.

use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file that a data directory of `plimsoll serve` has.
const STORE: &str = "plimsoll.db";

/// A directory as its file system has it, by whatever name and mount it was reached.
#[derive(Debug, PartialEq, Eq)]
struct FileSystemDir {
    device: String,
    path: PathBuf,
}

/// A line of `/proc/self/mountinfo`.
struct MountPoint {
    device: String,
    /// Part of the file system that is mounted.
    root: PathBuf,
    at: PathBuf,
}

/// Refuses directories of which one is another or lies in it, and those that a managed service has.
pub(crate) fn check(dirs: &[PathBuf]) -> anyhow::Result<()> {
    // Without it, names alone tell where a directory is.
    let mounts = fs::read("/proc/self/mountinfo").map(|lines| mounts(&lines)).unwrap_or_default();
    let mut places: Vec<(&Path, FileSystemDir)> = Vec::new();
    for dir in dirs {
        let full = dir.canonicalize().with_context(|| format!("cannot serve {}", dir.display()))?;
        if let Some(data) = full.ancestors().find(|above| above.join(STORE).exists()) {
            bail!(
                "cannot serve {}: \"plimsoll serve\" keeps volumes in {}, and locks on their files would not be known to \
                 both. Serve volumes by that, or another directory",
                dir.display(),
                data.display()
            );
        }
        let place = place(&mounts, &full);
        for (other, known) in &places {
            let (inner, outer) = match () {
                () if place.lies_in(known) => (dir.as_path(), *other),
                () if known.lies_in(&place) => (*other, dir.as_path()),
                () => continue,
            };
            let how = if place == *known { "is the same directory" } else { "lies in it" };
            bail!(
                "cannot serve {} beside {}: it {how}, and locks and opens through one would not be known to the other. Serve \
                 {} alone: clients may mount directories below it",
                inner.display(),
                outer.display(),
                outer.display()
            );
        }
        places.push((dir, place));
    }
    Ok(())
}

impl FileSystemDir {
    fn lies_in(&self, other: &Self) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

/// Place of a directory that has this path without links.
fn place(mounts: &[MountPoint], full: &Path) -> FileSystemDir {
    // Of several at one place, the last hides the others.
    let mount = mounts
        .iter()
        .filter(|mount| full.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.as_os_str().len());
    match mount.and_then(|mount| Some((mount, full.strip_prefix(&mount.at).ok()?))) {
        Some((mount, below)) => FileSystemDir { device: mount.device.clone(), path: mount.root.join(below) },
        None => FileSystemDir { device: String::new(), path: full.to_owned() },
    }
}

/// The mounts of this process (proc_pid_mountinfo(5)).
fn mounts(lines: &[u8]) -> Vec<MountPoint> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let device = String::from_utf8_lossy(fields.next()?).into_owned();
        Some(MountPoint { device, root: unescaped(fields.next()?), at: unescaped(fields.next()?) })
    };
    lines.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// A path in which blanks and backslashes are written as octal numbers.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| after.get(..3)).flatten();
        let number = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        (path, rest) = match number {
            Some(number) => ([&path[..], &[number]].concat(), &after[3..]),
            None => ([&path[..], &[byte]].concat(), after),
        };
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn refusal(dirs: &[&Path]) -> Option<String> {
        let dirs: Vec<PathBuf> = dirs.iter().map(PathBuf::from).collect();
        check(&dirs).err().map(|error| error.to_string())
    }

    #[test]
    fn directories_that_overlap_by_whatever_name_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let [outer, inner, beside, link] = ["a", "a/b", "ab", "link"].map(|name| temporary.path().join(name));
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(&beside).unwrap();
        symlink(&inner, &link).unwrap();
        assert_eq!(refusal(&[&outer, &beside]), None);
        for dirs in [[&outer, &inner], [&inner, &outer], [&link, &outer]] {
            let error = refusal(&[dirs[0], dirs[1]]).unwrap();
            assert!(
                error.contains("lies in it") && error.contains(&format!("beside {}:", outer.display())),
                "{error}"
            );
        }
        let error = refusal(&[&inner, &link]).unwrap();
        assert!(error.contains("is the same directory"), "{error}");
        assert!(refusal(&[&outer, &outer]).is_some());
    }

    #[test]
    fn directory_with_or_below_a_managed_service_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let (data, volume) = (temporary.path().join("data"), temporary.path().join("data/volumes/01"));
        fs::create_dir_all(&volume).unwrap();
        assert_eq!(refusal(&[&volume]), None);
        fs::write(data.join(STORE), b"").unwrap();
        for dir in [&data, &volume] {
            assert!(refusal(&[dir]).unwrap().contains("plimsoll serve"));
        }
    }

    #[test]
    fn directory_mounted_at_another_place_lies_where_its_file_system_has_it() {
        let lines = b"25 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            26 25 8:2 / /srv rw - xfs /dev/sdb rw\n\
            27 25 8:2 /a/b\\040c /mnt/here rw - xfs /dev/sdb rw\n\
            28 25 0:40 / /mnt/here/tmp rw - tmpfs none rw\n";
        let mounts = mounts(lines);
        let place = |path: &str| place(&mounts, Path::new(path));
        let of = |device: &str, path: &str| FileSystemDir { device: device.into(), path: path.into() };
        assert_eq!(place("/srv/a"), of("8:2", "/a"));
        assert_eq!(place("/mnt/here/d"), of("8:2", "/a/b c/d"));
        assert!(place("/mnt/here").lies_in(&place("/srv/a")));
        assert!(!place("/mnt/here/tmp").lies_in(&place("/mnt/here")), "another file system");
        assert!(!place("/srv").lies_in(&place("/")));
        assert_eq!(place("/mnt"), of("8:1", "/mnt"));
        assert_eq!(unescaped(b"/x\\134y\\"), PathBuf::from("/x\\y\\"));
    }
}
