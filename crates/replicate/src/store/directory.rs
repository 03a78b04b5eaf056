//! Objects as files below a directory.

use super::{ObjectSink, ObjectStore, Pace, wait};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use stable::files::{PRIVATE, PRIVATE_DIR, create_new, make_dirs, sync_dir};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::Time;

/// The directory of incomplete objects. No object's name begins with a dot.
const DRAFTS: &str = ".drafts";
/// The pieces in which an object is written.
const PIECE_BYTES: usize = 1 << 20;

pub struct Directory {
    root: PathBuf,
    next: AtomicU64,
}

impl Directory {
    /// Opens a directory, made if missing, and removes what crashed processes left in it.
    pub fn open(root: &Path) -> io::Result<Self> {
        make_dirs(&root.join(DRAFTS), PRIVATE_DIR)?;
        let store = Self { root: root.to_owned(), next: AtomicU64::new(0) };
        store.remove_drafts()?;
        Ok(store)
    }

    /// Writers hold a lock on their drafts, so an unlocked one has no writer.
    fn remove_drafts(&self) -> io::Result<()> {
        for draft in fs::read_dir(self.root.join(DRAFTS))? {
            let path = draft?.path();
            if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn draft(&self) -> io::Result<(PathBuf, File)> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.root.join(DRAFTS).join(format!("{}-{number}", std::process::id()));
            match create_new(&path, PRIVATE) {
                // A process of the same number on another machine.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                // Another process may take it for a crashed one's before it is locked.
                Ok(file) => {
                    if file.try_lock().is_ok() && file.metadata()?.nlink() > 0 {
                        return Ok((path, file));
                    }
                }
            }
        }
    }

    /// Makes the directory of an object durably.
    fn make_parents(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        make_dirs(dir, PRIVATE_DIR)?;
        let mut at = dir;
        while at != self.root {
            let Some(parent) = at.parent() else { break };
            sync_dir(parent)?;
            at = parent;
        }
        Ok(())
    }

    fn walk(&self, dir: &Path, prefix: &str, sink: &mut ObjectSink<'_>) -> io::Result<bool> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let Some(name) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) else { continue };
            if name.starts_with('.') {
                continue;
            }
            let found = match fs::metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                found => found?,
            };
            let goes_on = match found.is_dir() {
                true if prefix.starts_with(name) || name.starts_with(prefix) => {
                    self.walk(&path, prefix, sink)?
                }
                false if name.starts_with(prefix) => sink(name, found.len()).is_continue(),
                _ => true,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl ObjectStore for Directory {
    fn put_new(&self, name: &str, content: &[u8], pace: &mut Pace<'_>) -> io::Result<bool> {
        let path = self.path(name);
        let dir = path.parent().ok_or(ErrorKind::InvalidInput)?;
        // First: a disk that was unmounted meanwhile has no directory of drafts, and its mount point gets no objects.
        let (draft, mut file) = self.draft()?;
        if let Err(error) = self.make_parents(dir) {
            _ = fs::remove_file(&draft);
            return Err(error);
        }
        let mut write = |piece: &[u8]| wait(pace, piece).and_then(|()| file.write_all(piece));
        let written = content.chunks(PIECE_BYTES).try_for_each(&mut write);
        let put = written.and_then(|()| file.sync_all()).and_then(|()| publish(&draft, &path));
        if !matches!(put, Ok(true)) {
            _ = fs::remove_file(&draft);
        }
        // Also where the object exists: the process that put it may have crashed before this.
        sync_dir(dir)?;
        put
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(name))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut content = Vec::new();
        file.take(len as u64).read_to_end(&mut content)?;
        Ok(content)
    }

    fn size(&self, name: &str) -> io::Result<Option<u64>> {
        match fs::metadata(self.path(name)) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, prefix: &str, sink: &mut ObjectSink<'_>) -> io::Result<()> {
        self.walk(&self.root, prefix, sink).map(drop)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => path.parent().map_or(Ok(()), sync_dir),
        }
    }

    fn retain(&self, _name: &str, _until: Time) -> io::Result<bool> {
        Ok(false)
    }
}

/// Gives a draft its name unless the name exists.
fn publish(draft: &Path, path: &Path) -> io::Result<bool> {
    match renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // NFS and others have links instead.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::hard_link(draft, path) {
            Ok(()) => fs::remove_file(draft).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        },
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::unpaced;
    use super::*;
    use std::ops::ControlFlow;

    fn names(store: &Directory, prefix: &str) -> Vec<(String, u64)> {
        let mut names = Vec::new();
        store
            .list(prefix, &mut |name, size| {
                names.push((name.to_owned(), size));
                ControlFlow::Continue(())
            })
            .unwrap();
        names.sort();
        names
    }

    #[test]
    fn object_is_put_once_and_read_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let store = Directory::open(dir.path()).unwrap();
        assert!(store.put_new("a/b/one", b"content", &mut unpaced).unwrap());
        assert!(!store.put_new("a/b/one", b"other", &mut unpaced).unwrap());
        assert_eq!(store.read("a/b/one", 0, 99).unwrap(), b"content");
        assert_eq!(store.read("a/b/one", 2, 3).unwrap(), b"nte");
        assert_eq!(store.size("a/b/one").unwrap(), Some(7));
        assert_eq!(store.size("a/b/two").unwrap(), None);
        assert_eq!(store.read("a/b/two", 0, 1).unwrap_err().kind(), ErrorKind::NotFound);
        store.delete("a/b/one").unwrap();
        store.delete("a/b/one").unwrap();
        assert_eq!(names(&store, ""), []);
    }

    #[test]
    fn list_matches_prefixes_within_and_across_directories() {
        let dir = tempfile::tempdir().unwrap();
        let store = Directory::open(dir.path()).unwrap();
        for name in ["packs/aa1", "packs/aa2", "packs/ab1", "vault", "packs2/aa1"] {
            store.put_new(name, b"x", &mut unpaced).unwrap();
        }
        let found =
            |prefix: &str| names(&store, prefix).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(found("packs/aa"), ["packs/aa1", "packs/aa2"]);
        assert_eq!(found("packs/"), ["packs/aa1", "packs/aa2", "packs/ab1"]);
        assert_eq!(found("v"), ["vault"]);
        assert_eq!(found("").len(), 5);
    }

    #[test]
    fn drafts_of_crashed_processes_are_removed_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Directory::open(dir.path()).unwrap();
        let (draft, file) = writer.draft().unwrap();
        let again = Directory::open(dir.path()).unwrap();
        assert!(draft.exists());
        assert_eq!(names(&again, ""), []);
        drop(file);
        Directory::open(dir.path()).unwrap();
        assert!(!draft.exists());
    }

    #[test]
    fn directory_that_was_unmounted_gets_no_objects() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("mount");
        let store = Directory::open(&root).unwrap();
        fs::rename(&root, dir.path().join("disk")).unwrap();
        assert_eq!(store.put_new("a/one", b"x", &mut unpaced).unwrap_err().kind(), ErrorKind::NotFound);
        fs::create_dir(&root).unwrap();
        assert_eq!(store.put_new("a/one", b"x", &mut unpaced).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }

    #[test]
    fn object_is_paced_and_absent_if_the_work_ends() {
        let dir = tempfile::tempdir().unwrap();
        let store = Directory::open(dir.path()).unwrap();
        let (content, mut left) = (vec![7; 3 * PIECE_BYTES + 5], 2 * PIECE_BYTES as u64);
        let mut pace = |bytes| {
            left = u64::saturating_sub(left, bytes);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert_eq!(store.put_new("one", &content, &mut pace).unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(store.size("one").unwrap(), None);
        assert_eq!(fs::read_dir(dir.path().join(DRAFTS)).unwrap().count(), 0);
        assert!(store.put_new("one", &content, &mut unpaced).unwrap());
        assert_eq!(store.read("one", 0, 4 * PIECE_BYTES).unwrap(), content);
    }
}
