//! Named streams: further data of files and directories, each under a name of its own (MS-FSCC §2.1.5).
//!
//! A stream is a regular file of the same storage, in a hidden tree that hangs below the root of the volume and that no client reaches
//! (docs/formats/streams.md). So a stream has whatever the storage gives to files: size, holes, flushes, capacity. It belongs to
//! its file by the file's key, which stays the same whatever name the file gets.

use super::Volume;
use crate::backend::durability::PendingSync;
use crate::backend::{AuthorizeRename, Blocking, EntryRef, Lookup, NewInode, NodeRef, SyncScope};
use crate::claims::Stream;
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, KeyHasher};
use crate::model::attrs::{Attrs, Change, FileType, SetAttrs, SetTime};
use crate::model::name::{NAME_BYTES_MAX, Name};
use crate::sync::Mutex;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest name of a stream, in bytes: one byte less than that of a file.
pub const STREAM_NAME_BYTES_MAX: usize = NAME_BYTES_MAX - 1;
/// Streams of one file. Windows' own file system has room for some thousands.
pub const STREAMS_MAX: usize = 1024;
/// Files whose streams are looked at in one step of [`Volume::sweep_streams`].
const SWEEP_FILES: usize = 64;
/// What a file is called in the hidden tree until it has the name of another one.
const NEW_LINK: &[u8] = b":link";
/// What the name of a hidden tree's mark begins with, which no key does.
const TREE_MARK: &str = "of-";
/// What the names of streams begin with where they are stored, so that "." and ".." are names like any other.
const MARK: u8 = b':';
/// The mode of the hidden tree's directories: nobody but the service itself enters.
const DIR_MODE: u32 = 0o700;
/// The mode of its files.
const FILE_MODE: u32 = 0o600;
/// Mode bits that let somebody else in.
const OTHERS: u32 = 0o077;

/// A stream's name as it is stored.
pub(crate) struct StoredName(Vec<u8>);

impl StoredName {
    /// Checks `bytes`: empty names and those with `/` or NUL are [`FsError::Invalid`], long ones [`FsError::NameTooLong`].
    pub(crate) fn new(bytes: &[u8]) -> FsResult<Self> {
        let stored = Self([&[MARK], bytes].concat());
        Name::new(&stored.0)?;
        if bytes.is_empty() { Err(FsError::Invalid) } else { Ok(stored) }
    }

    pub(crate) fn name(&self) -> FsResult<Name<'_>> {
        Name::new(&self.0)
    }
}

/// [`FsError::Invalid`] or [`FsError::NameTooLong`] unless a stream can have this name.
pub fn check_name(name: &[u8]) -> FsResult<()> {
    StoredName::new(name).map(drop)
}

/// Where the streams of a volume are.
#[derive(Default)]
pub(crate) struct StreamTree {
    /// The hidden tree's root, once somebody has looked for it.
    root: Mutex<Option<NodeRef>>,
    /// It was looked for and is not there: no file has a stream.
    is_missing: AtomicBool,
    /// Held while there is a [`NEW_LINK`].
    linking: Mutex<()>,
    swept: Mutex<Sweep>,
}

/// How far the search for streams without a file has come.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Sweep {
    #[default]
    Begin,
    After(u64),
    Done,
}

/// What the table of claims knows a stream by: never that of the data, and the same under each name of the stream.
pub(crate) fn number(node: &NodeRef) -> Stream {
    let mut hasher = KeyHasher::default();
    node.key().hash(&mut hasher);
    let hash = hasher.finish();
    Stream(u32::try_from((hash ^ hash >> 32) & u64::from(u32::MAX)).unwrap_or(1).max(1))
}

/// What all of the hidden tree belongs to: the service.
pub(crate) fn own(file_type: FileType) -> NewInode {
    let mode = if file_type == FileType::Directory { DIR_MODE } else { FILE_MODE };
    NewInode { mode, uid: 0, gid: 0, times: None, size: 0 }
}

/// The name of a file in a hidden tree that says where the tree was made: the keys of its root and its own. Whatever copies, restores or
/// rolls back a volume so that its files get other keys gives another one to the tree, too.
fn mark_name(root: &NodeRef, tree: &NodeRef) -> String {
    format!("{TREE_MARK}{}-{}", dir_name(&root.key()), dir_name(&tree.key()))
}

/// The name of the directory for the streams of a file: the file's key in hexadecimal digits.
fn dir_name(key: &FileKey) -> String {
    key.bytes().iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

fn key_of(dir_name: &[u8]) -> Option<FileKey> {
    let digits = std::str::from_utf8(dir_name).ok().filter(|name| name.is_ascii())?;
    let bytes: Option<Vec<u8>> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
    FileKey::new(&bytes?).ok()
}

/// The names in a directory of the hidden tree after `cookie`, at most `max` of them, and where to go on; `None` at the end.
fn names(dir: &NodeRef, cookie: u64, max: usize) -> FsResult<(Vec<Vec<u8>>, Option<u64>)> {
    let (mut names, mut last) = (Vec::new(), cookie);
    let at_end = dir.read_dir(cookie, false, &mut |entry| {
        if names.len() == max {
            return ControlFlow::Break(());
        }
        last = entry.cookie;
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok((names, (!at_end).then_some(last)))
}

/// The streams in a file's directory: name and attributes of each.
pub(crate) fn list(dir: &NodeRef, sink: &mut dyn FnMut(&[u8], &Attrs)) -> FsResult<()> {
    dir.read_dir(0, true, &mut |entry| {
        if let (Some(name), Some((_, attrs))) = (entry.name.strip_prefix(&[MARK]), entry.object) {
            sink(name, attrs);
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// Removes what a change that did not come to its end has left.
fn remove_new_link(tree: &NodeRef) -> FsResult<()> {
    match tree.remove(Name::new(NEW_LINK)?, &|_| Ok(())) {
        Ok(_) | Err(FsError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

impl StreamTree {
    fn lock_linking(&self) -> MutexGuard<'_, ()> {
        self.linking.lock()
    }

    /// The hidden tree's root, if there is one. What somebody else has put there is none of ours: [`FsError::NotSupported`].
    fn root(&self, volume: &Volume) -> FsResult<Option<NodeRef>> {
        if self.is_missing.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut root = self.root.lock();
        if let Some(node) = root.as_ref()
            && node.attrs(Blocking::Allowed).is_ok_and(|attrs| is_own_dir(&attrs))
        {
            return Ok(Some(NodeRef::clone(node)));
        }
        *root = None;
        match volume.root().lookup(Name::STREAMS, Blocking::Allowed) {
            Ok(Lookup { node, attrs }) if is_own_dir(&attrs) => Ok(Some(NodeRef::clone(root.insert(node)))),
            Ok(_) => Err(FsError::NotSupported),
            Err(FsError::NotFound) => {
                self.is_missing.store(true, Ordering::Release);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The same, made if it is not there, under the lock under which others look for it: who has not found it has said so by then.
    /// `changed` is told of each directory that has got a name.
    fn make_root(&self, volume: &Volume, changed: &mut dyn FnMut(&NodeRef)) -> FsResult<NodeRef> {
        let mut root = self.root.lock();
        let (node, is_new) = take_dir(volume.root(), Name::STREAMS)?;
        if is_new {
            // Without its mark it would never be swept.
            mark(volume.root(), &node).inspect_err(|_| {
                let _ = volume.root().remove_dir(Name::STREAMS, &|_| Ok(()));
            })?;
            changed(&node);
        }
        changed(volume.root());
        if !is_own_dir(&node.attrs(Blocking::Allowed)?) {
            return Err(FsError::NotSupported);
        }
        self.is_missing.store(false, Ordering::Release);
        Ok(NodeRef::clone(root.insert(node)))
    }
}

/// Whether something has lost its last name: whoever has it open keeps it, but nobody else finds it.
pub(crate) fn is_gone(node: &NodeRef) -> bool {
    match node.attrs(Blocking::Allowed) {
        Ok(attrs) => attrs.links == 0,
        Err(error) => error == FsError::Stale,
    }
}

/// Whether a directory is one that this service has made and nobody else enters.
fn is_own_dir(attrs: &Attrs) -> bool {
    attrs.file_type == FileType::Directory && attrs.uid == 0 && attrs.mode & OTHERS == 0
}

/// Says in a hidden tree that it was made here.
fn mark(root: &NodeRef, tree: &NodeRef) -> FsResult<()> {
    match tree.create(Name::new(mark_name(root, tree).as_bytes())?, &|_| Ok(own(FileType::Regular))) {
        Ok(_) | Err(FsError::Exists) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a hidden tree was made here, so that its names are the keys of files here. One in which nothing is any longer is as good as new.
fn is_made_here(root: &NodeRef, tree: &NodeRef) -> FsResult<bool> {
    match tree.lookup(Name::new(mark_name(root, tree).as_bytes())?, Blocking::Allowed) {
        Err(FsError::NotFound) => {}
        found => return found.map(|_| true),
    }
    let (names, next) = names(tree, 0, SWEEP_FILES)?;
    let is_empty = next.is_none() && names.iter().all(|name| name.starts_with(TREE_MARK.as_bytes()));
    Ok(is_empty && mark(root, tree).is_ok())
}

/// The directory of a name, made if it is not there; whether it was made.
fn take_dir(parent: &NodeRef, name: Name<'_>) -> FsResult<(NodeRef, bool)> {
    match parent.make_dir(name, &|_| Ok(own(FileType::Directory))) {
        Ok(made) => Ok((made.found.node, true)),
        Err(FsError::Exists) => Ok((parent.lookup(name, Blocking::Allowed)?.node, false)),
        Err(error) => Err(error),
    }
}

impl Volume {
    /// The directory of a file's streams, if it has any.
    pub(crate) fn streams_of(&self, key: &FileKey) -> FsResult<Option<NodeRef>> {
        let Some(tree) = self.streams().root(self)? else { return Ok(None) };
        match tree.lookup(Name::new(dir_name(key).as_bytes())?, Blocking::Allowed) {
            Ok(found) => Ok(Some(found.node)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The hidden tree's root, made if it is not there. `changed` is told of the directory that has got a name.
    fn make_tree(&self, changed: &mut dyn FnMut(&NodeRef)) -> FsResult<NodeRef> {
        match self.streams().root(self)? {
            Some(tree) => Ok(tree),
            None => self.streams().make_root(self, changed),
        }
    }

    /// Gives `target` a name in `dir` that another file has, in one step: at no time nothing has it. Until then `target` has a name in
    /// the hidden tree. What that did to `dir`.
    pub(crate) fn link_over(
        &self,
        target: &NodeRef,
        (dir, name): (&NodeRef, Name<'_>),
        authorize: AuthorizeRename<'_>,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let _linking = self.streams().lock_linking();
        let tree = self.make_tree(&mut |dir| self.require_sync(pending, dir, SyncScope::All))?;
        remove_new_link(&tree)?;
        let link = Name::new(NEW_LINK)?;
        tree.link(link, target, &|_| Ok(()))?;
        let renamed = tree.rename(link, dir, name, authorize);
        // It is still there where the name could not be taken, or is one of this file by now.
        if renamed.as_ref().map_or(true, |(from, _)| from.before.change == from.after.change) {
            let removed = remove_new_link(&tree);
            return renamed.and_then(|(_, change)| removed.map(|()| change));
        }
        self.require_sync(pending, &tree, SyncScope::All);
        renamed.map(|(_, change)| change)
    }

    /// The directory of a file's streams, made if it is not there. `changed` is told of each directory that has got a name.
    pub(crate) fn make_streams_of(
        &self,
        key: &FileKey,
        changed: &mut dyn FnMut(&NodeRef),
    ) -> FsResult<NodeRef> {
        let tree = self.make_tree(changed)?;
        let (dir, is_new) = take_dir(&tree, Name::new(dir_name(key).as_bytes())?)?;
        if is_new {
            changed(&tree);
        }
        Ok(dir)
    }

    /// Removes all streams of a file; whether it had any. `changed` is told of the directory that has lost a name.
    pub(crate) fn remove_streams(&self, key: &FileKey, changed: &mut dyn FnMut(&NodeRef)) -> FsResult<bool> {
        let _changing = self.kept().slot(key).lock_change();
        let Some(dir) = self.streams_of(key)? else { return Ok(false) };
        let (names, _) = names(&dir, 0, STREAMS_MAX)?;
        for name in &names {
            dir.remove(Name::new(name)?, &|_| Ok(()))?;
        }
        let Some(tree) = self.streams().root(self)? else { return Ok(false) };
        tree.remove_dir(Name::new(dir_name(key).as_bytes())?, &|_| Ok(()))?;
        changed(&tree);
        Ok(!names.is_empty())
    }

    /// Removes a stream that goes with its last open, unless something else has its name by now.
    pub(crate) fn remove_stream(&self, key: &FileKey, stream: Stream, name: &[u8]) -> FsResult<()> {
        let dir = self.streams_of(key)?.ok_or(FsError::NotFound)?;
        let stored = StoredName::new(name)?;
        let found = dir.lookup(stored.name()?, Blocking::Allowed)?;
        if number(&found.node) != stream {
            return Ok(());
        }
        let is_same = |entry: &EntryRef<'_>| match (entry.object)()?.file_id == found.attrs.file_id {
            true => Ok(()),
            false => Err(FsError::NotFound),
        };
        dir.remove(stored.name()?, &is_same)?;
        let mut pending = PendingSync::default();
        self.require_sync(&mut pending, &dir, SyncScope::All);
        let file = self.node(key, Blocking::Allowed);
        let noted = file.and_then(|file| self.note_streams_changed(&file, &mut pending));
        pending.sync_all().and(noted)
    }

    /// A file whose streams come and go has changed, so whatever is remembered of it is void.
    pub(crate) fn note_streams_changed(&self, file: &NodeRef, pending: &mut PendingSync) -> FsResult<()> {
        file.set_attrs(&SetAttrs { modified: Some(SetTime::Now), ..SetAttrs::default() })?;
        self.require_sync(pending, file, SyncScope::All);
        Ok(())
    }

    /// What has a name that is about to go, where anything in this volume has streams: otherwise this is one look.
    pub(crate) fn may_have_streams(&self, dir: &NodeRef, name: Name<'_>) -> Option<NodeRef> {
        self.streams().root(self).ok().flatten()?;
        dir.lookup(name, Blocking::Allowed).ok().map(|found| found.node)
    }

    /// Removes the streams of what has lost a name, if that was its last one. What cannot be removed is found again after a restart.
    pub(crate) fn remove_streams_of_gone(&self, named: Option<NodeRef>) {
        if let Some(node) = named.filter(is_gone) {
            let _ = self.remove_streams(&node.key(), &mut |_| ());
        }
    }

    /// Looks for streams whose files have gone without this process, a step at a time: whether it has come to the end. Streams stay where
    /// the storage cannot tell that their file is gone for certain, and in a tree that came from elsewhere: there no file has the keys
    /// that they lie under. What a link has left that was to replace a file goes.
    pub fn sweep_streams(&self) -> FsResult<bool> {
        let mut swept = self.streams().swept.lock();
        let from = match *swept {
            Sweep::Begin => {
                let _linking = self.streams().lock_linking();
                self.streams().root(self)?.map_or(Ok(()), |tree| remove_new_link(&tree))?;
                0
            }
            Sweep::After(cookie) => cookie,
            Sweep::Done => return Ok(true),
        };
        let tree = match self.streams().root(self)? {
            Some(tree) if *swept != Sweep::Begin || is_made_here(self.root(), &tree)? => tree,
            _ => {
                *swept = Sweep::Done;
                return Ok(true);
            }
        };
        let (names, next) = names(&tree, from, SWEEP_FILES)?;
        for key in names.iter().filter_map(|name| key_of(name)) {
            if self.is_removed(&key) {
                self.remove_streams(&key, &mut |_| ())?;
            }
        }
        *swept = next.map_or(Sweep::Done, Sweep::After);
        Ok(next.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::durability::Durability;
    use crate::memfs::MemFs;
    use crate::model::volume_id::VolumeId;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    /// How long a thread gets to do what it must not do.
    const PATIENCE: Duration = Duration::from_millis(200);

    #[test]
    fn names_are_kept_apart_from_dots_and_bounded() {
        assert!(StoredName::new(b"..").is_ok() && StoredName::new(&[b'a'; STREAM_NAME_BYTES_MAX]).is_ok());
        assert_eq!(StoredName::new(b"").err(), Some(FsError::Invalid));
        assert_eq!(StoredName::new(b"a/b").err(), Some(FsError::Invalid));
        assert_eq!(StoredName::new(b"a\0").err(), Some(FsError::Invalid));
        assert_eq!(StoredName::new(&[b'a'; STREAM_NAME_BYTES_MAX + 1]).err(), Some(FsError::NameTooLong));
    }

    #[test]
    fn a_directory_says_whose_streams_it_has() {
        let key = FileKey::new(&[0, 0xfe, 7]).unwrap();
        assert_eq!(dir_name(&key), "00fe07");
        assert_eq!(key_of(b"00fe07"), Some(key));
        for bad in [&b""[..], b"0", b"0g", b"\xff\xff", &[b'0'; 82]] {
            assert_eq!(key_of(bad), None, "{bad:?}");
        }
    }
    #[test]
    fn whoever_has_not_found_the_tree_says_so_before_it_is_made() {
        let storage = Arc::new(MemFs::new(Arc::new(crate::Time::default)));
        let volume = Volume::new(VolumeId(1), "one", storage, Durability::Sync, 1);
        let key = volume.root().key();
        assert!(volume.streams_of(&key).unwrap().is_none());
        let is_made = || volume.root().lookup(Name::STREAMS, Blocking::Allowed).is_ok();
        thread::scope(|scope| {
            // Somebody else who has looked for it at the same time, and is about to say that it is not there.
            let looking = volume.streams().root.lock();
            let making = scope.spawn(|| volume.make_streams_of(&key, &mut |_| ()).is_ok());
            let begin = Instant::now();
            while !is_made() && begin.elapsed() < PATIENCE {
                thread::yield_now();
            }
            volume.streams().is_missing.store(true, Ordering::Release);
            drop(looking);
            assert!(making.join().unwrap());
        });
        assert!(volume.streams_of(&key).unwrap().is_some());
    }
}
