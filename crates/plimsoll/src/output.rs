//! Files that a command writes at a path of the user.
//!
//! In a directory that others can write, such as /tmp, the name may be a link that one of them has planted, and what is
//! written would replace whatever file it leads to. There only new files are written, and plain ones of our own.

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;
use stable::files::{PUBLIC, PUBLIC_DIR, create_or_truncate, make_dirs};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opening follows no link, and waits for nobody.
const SAFELY: OFlags = OFlags::WRONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Writes a file, in place of one that is there.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let written = create(path)?.write_all(contents.as_ref());
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes texts to paths below a directory, and makes the directories.
pub(crate) fn write_files(directory: &Path, files: Vec<(String, String)>) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        make_dirs(parent, PUBLIC_DIR).with_context(|| format!("{}", parent.display()))?;
        write(&path, text)?;
    }
    Ok(())
}

/// Opens a file to be written, empty.
pub(crate) fn create(path: &Path) -> anyhow::Result<File> {
    let (dir, name) = place(path)?;
    let doing = || cannot(path);
    if !others_may_write(&dir).with_context(doing)? {
        return create_or_truncate(path, PUBLIC).with_context(doing);
    }
    let flags = SAFELY | OFlags::CREATE | OFlags::EXCL;
    match openat(&dir, name, flags, Mode::from_raw_mode(PUBLIC)) {
        Ok(new) => Ok(new.into()),
        Err(Errno::EXIST) => {
            let file = existing(&dir, path, name)?;
            file.set_len(0).with_context(doing)?;
            Ok(file)
        }
        Err(errno) => Err(errno).with_context(doing),
    }
}

/// Refuses what [`create`] would refuse, before a long work is done for it.
pub(crate) fn check(path: &Path) -> anyhow::Result<()> {
    let (dir, name) = place(path)?;
    let is_there = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if is_there && others_may_write(&dir).with_context(|| cannot(path))? {
        existing(&dir, path, name)?;
    }
    Ok(())
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The directory of a path, and the name in it.
fn place(path: &Path) -> anyhow::Result<(OwnedFd, &OsStr)> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name() else { bail!("{}: it names no file", cannot(path)) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((open(parent, flags, Mode::empty()).with_context(|| cannot(path))?, name))
}

/// Opens a plain file of our own in a directory that others can write.
fn existing(dir: &OwnedFd, path: &Path, name: &OsStr) -> anyhow::Result<File> {
    let doing = || cannot(path);
    let advice = "others can write its directory: remove it, or write to a directory of your own";
    let file = match openat(dir, name, SAFELY, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => bail!("{}: it is a link, and {advice}", doing()),
        Err(Errno::NXIO) => bail!("{}: it is no regular file, and {advice}", doing()),
        Err(errno) => return Err(errno).with_context(doing),
    };
    let stat = fstat(&file).with_context(doing)?;
    let own = geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        bail!("{}: it is no regular file, and {advice}", doing());
    }
    if stat.st_uid != own {
        bail!("{}: it belongs to user {} and not to {own}, and {advice}", doing(), stat.st_uid);
    }
    if stat.st_nlink != 1 {
        bail!("{}: it has {} names, and {advice}", doing(), stat.st_nlink);
    }
    Ok(file)
}

/// Whether somebody else than root and this user can give names in a directory.
fn others_may_write(dir: &OwnedFd) -> Result<bool, Errno> {
    let stat = fstat(dir)?;
    let is_trusted = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
    Ok(!is_trusted || stat.st_mode & 0o022 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    /// A directory with this mode, and beside it a file that must stay as it is.
    fn scene(mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = crate::testing::private_dir();
        let shared = dir.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(dir.path().join("victim"), "kept").unwrap();
        (dir, shared)
    }

    #[test]
    fn links_planted_by_others_are_not_followed() {
        type Plant = fn(&Path, &Path);
        let plants: [(&str, Plant); 4] = [
            ("it is a link", |victim, at| symlink(victim, at).unwrap()),
            ("it has 2 names", |victim, at| fs::hard_link(victim, at).unwrap()),
            ("it is no regular file", |_, at| {
                assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success());
            }),
            ("belongs to user 4711", |_, at| {
                fs::write(at, "mine").unwrap();
                lchown(at, Some(4711), None).unwrap();
            }),
        ];
        for (reason, plant) in plants {
            let (dir, shared) = scene(0o1777);
            let (victim, at) = (dir.path().join("victim"), shared.join("run.json"));
            plant(&victim, &at);
            let error = format!("{:#}", write(&at, "new").unwrap_err());
            assert_eq!(format!("{:#}", check(&at).unwrap_err()), error, "it is said before the work, too");
            assert!(error.contains(reason) && error.contains("a directory of your own"), "{error}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "kept", "{reason}");
        }
    }

    #[test]
    fn files_of_our_own_are_written_anew() {
        for mode in [0o755, 0o1777] {
            let (_dir, shared) = scene(mode);
            let at = shared.join("run.json");
            for text in ["a long text", "short"] {
                check(&at).unwrap();
                write(&at, text).unwrap();
                assert_eq!(fs::read_to_string(&at).unwrap(), text);
            }
        }
        let (dir, shared) = scene(0o755);
        symlink(dir.path().join("victim"), shared.join("run.json")).unwrap();
        write(&shared.join("run.json"), "new").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("victim")).unwrap(), "new", "a link of our own");
        write(Path::new("/dev/null"), "nothing").unwrap();
    }
}
