//! Creation of files and directories with explicit modes, and files whose content the process trusts.
//!
//! A service runs with a umask of zero, because volumes give their files exact modes. A file without an explicit mode
//! would get 0666.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mode of a file that only the process's own user may read.
pub const PRIVATE: u32 = 0o600;
/// Mode of a file that all users may read.
pub const PUBLIC: u32 = 0o644;
/// Mode of a directory that only the process's own user may enter.
pub const PRIVATE_DIR: u32 = 0o700;
/// Mode of a directory that all users may list.
pub const PUBLIC_DIR: u32 = 0o755;

/// Mode bits that make a trusted file's content untrusted.
const WRITE_BITS: u32 = 0o022;
/// Mode bits that expose a secret file's content.
const ACCESS_BITS: u32 = 0o077;

/// Creates a file, and fails if the name exists: the process writes through no planted link.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Creates or truncates a file for writing. An existing file keeps its mode, and links are followed: for directories in
/// which no other user can plant a link.
pub fn create_or_truncate(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)
}

/// Creates a file for reading and writing that has no name, so it is gone after its last descriptor.
pub fn nameless(dir: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".nameless-{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create_new(true).mode(PRIVATE).open(&path) {
            // A process before this one crashed in between.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return fs::remove_file(&path).map(|()| file),
        }
    }
}

/// Opens an existing file for writing in place. Links are refused.
pub fn open_for_update(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits();
    OpenOptions::new().write(true).custom_flags(i32::try_from(flags).unwrap_or(0)).open(path)
}

/// Replaces the file at `path` durably: a crash leaves the old or the new one. An existing `draft`, the name of the
/// incomplete file, is removed first.
pub fn replace(path: &Path, draft: &Path, mode: u32, content: &[&[u8]]) -> io::Result<()> {
    place(path, draft, || write_new(draft, mode, content)?.sync_all())?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Replaces a file like [`replace`], but not durably: for copies of what is durable elsewhere.
pub fn replace_copy(path: &Path, draft: &Path, mode: u32, content: &[&[u8]]) -> io::Result<()> {
    place(path, draft, || write_new(draft, mode, content).map(drop))
}

fn place(path: &Path, draft: &Path, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let written = write().and_then(|()| fs::rename(draft, path));
    if written.is_err() {
        _ = fs::remove_file(draft);
    }
    written
}

fn write_new(path: &Path, mode: u32, content: &[&[u8]]) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_new(path, mode)?;
    content.iter().try_for_each(|part| file.write_all(part))?;
    Ok(file)
}

pub fn sync_dir(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all()
}

pub fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

pub fn make_dirs(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Opens a file with trusted content. [`ErrorKind::InvalidData`] if another user owns it or may write to it.
pub fn open_trusted(path: &Path) -> io::Result<File> {
    open_checked(path, WRITE_BITS)
}

/// Opens a file with trusted and secret content. [`ErrorKind::InvalidData`] if another user owns it or has any access.
pub fn open_secret(path: &Path) -> io::Result<File> {
    open_checked(path, ACCESS_BITS)
}

/// Reads a file under the rules of [`open_trusted`].
pub fn read_trusted(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_trusted(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text under the rules of [`open_secret`].
pub fn read_secret(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_secret(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Checks a file under the rules of [`open_secret`] without opening it: closing a file ends all locks that the process
/// has on it.
pub fn check_secret(path: &Path) -> io::Result<()> {
    check(&fs::metadata(path)?, path, ACCESS_BITS)
}

/// Refuses a directory in which another user can create files, with [`ErrorKind::InvalidData`]: its files could be that
/// user's.
pub fn check_dir(path: &Path) -> io::Result<()> {
    check(&fs::metadata(path)?, path, WRITE_BITS)
}

fn open_checked(path: &Path, forbidden: u32) -> io::Result<File> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    // A pipe was opened by the user who started this process, such as a shell with `<(command)`.
    if !found.is_file() {
        return Ok(file);
    }
    match check(&found, path, forbidden) {
        // Earlier versions created state with wider modes, in a directory that no other user can enter.
        Err(_) if forbidden == WRITE_BITS && is_trusted_owner(&found) && is_private(path) => Ok(file),
        checked => checked.map(|()| file),
    }
}

/// Whether no other user can reach the files in the directory of `path`.
fn is_private(path: &Path) -> bool {
    let dir = path.parent().and_then(|dir| fs::metadata(dir).ok());
    dir.is_some_and(|dir| is_trusted_owner(&dir) && dir.mode() & ACCESS_BITS == 0)
}

fn is_trusted_owner(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == rustix::process::geteuid().as_raw()
}

fn check(found: &Metadata, path: &Path, forbidden: u32) -> io::Result<()> {
    let (own, owner, mode) = (rustix::process::geteuid().as_raw(), found.uid(), found.mode() & 0o777);
    let shown = path.display();
    let why = if !is_trusted_owner(found) {
        format!(
            "it belongs to user {owner}, and files of other users are not trusted: run this as that user, or chown {own} {shown}"
        )
    } else if mode & forbidden == 0 {
        return Ok(());
    } else if forbidden == ACCESS_BITS {
        format!("users other than its owner have access (mode {mode:03o}): chmod 600 {shown}")
    } else {
        format!("users other than its owner may write to it (mode {mode:03o}): chmod go-w {shown}")
    };
    Err(io::Error::new(ErrorKind::InvalidData, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestDir;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn a_planted_link_is_not_written_through() {
        let dir = TestDir::new();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "kept").unwrap();
        symlink(at("victim"), at("draft")).unwrap();
        assert_eq!(create_new(&at("draft"), PRIVATE).unwrap_err().kind(), ErrorKind::AlreadyExists);
        replace(&at("file"), &at("draft"), PRIVATE, &[b"new"]).unwrap();
        symlink(at("victim"), at("link")).unwrap();
        assert!(open_for_update(&at("link")).is_err());
        assert_eq!(fs::read(at("victim")).unwrap(), b"kept");
        assert_eq!(fs::read(at("file")).unwrap(), b"new");
    }

    #[test]
    fn nameless_file_is_read_and_written_and_not_listed() {
        let dir = TestDir::new();
        let mut files = [nameless(dir.path()).unwrap(), nameless(dir.path()).unwrap()];
        files[0].write_all(b"one").unwrap();
        files[1].write_all(b"other").unwrap();
        io::Seek::rewind(&mut files[0]).unwrap();
        let mut read = String::new();
        files[0].read_to_string(&mut read).unwrap();
        assert_eq!(read, "one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_another_user_may_write_is_not_trusted() {
        let dir = TestDir::new();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "{}").unwrap();
        let refusal = |secret: bool| {
            let read = if secret { open_secret(&path) } else { open_trusted(&path) };
            read.err().map(|error| (error.kind(), error.to_string()))
        };
        for (mode, is_trusted, is_secret) in
            [(0o600, true, true), (0o644, true, false), (0o620, false, false), (0o666, false, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                (refusal(false).is_none(), refusal(true).is_none()),
                (is_trusted, is_secret),
                "{mode:o}"
            );
        }
        let (kind, said) = refusal(false).unwrap();
        assert!(kind == ErrorKind::InvalidData && said.contains("chmod go-w "), "{said}");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(refusal(false).is_none(), "nobody else reaches it");
        assert!(refusal(true).is_some(), "a secret is for its owner wherever it is");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(4711), None).unwrap();
            assert!(refusal(false).unwrap().1.contains("belongs to user 4711"));
            assert!(refusal(true).unwrap().1.contains("belongs to user 4711"));
        }
    }

    #[test]
    fn a_directory_with_write_access_for_others_is_refused() {
        let dir = TestDir::new();
        check_dir(dir.path()).unwrap();
        for mode in [0o1777, 0o770] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert!(check_dir(dir.path()).unwrap_err().to_string().contains("chmod go-w "));
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }
}
