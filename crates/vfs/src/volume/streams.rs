//! Named streams: further data of files and directories, each under its own name (MS-FSCC §2.1.5).
//!
//! A stream is a regular file of the same storage, in a hidden tree below the root of the volume that no client reaches
//! (docs/formats/streams.md). So a stream has all features of the storage's files: size, holes, flushes, capacity. The
//! file's key connects the two; renames do not change it.

use super::Volume;
use crate::backend::durability::PendingSync;
use crate::backend::{AuthorizeRename, Blocking, EntryRef, Lookup, NewInode, NodeRef, SyncScope};
use crate::claims::Stream;
use crate::error::{FsError, FsResult};
use crate::file_key::{FileKey, KeyHasher, ViewId};
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
/// Files whose streams are checked in one step of [`Volume::sweep_streams`].
const SWEEP_FILES: usize = 64;
/// The temporary name of a file in the hidden tree until it replaces another one.
const NEW_LINK: &[u8] = b":link";
/// The prefix of a hidden tree's mark; no key begins with it.
const TREE_MARK: &str = "of-";
/// The prefix of stored stream names, so that "." and ".." are names like any other.
const MARK: u8 = b':';
/// The mode of the hidden tree's directories: only the service enters them.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Mode bits of group and others.
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

#[derive(Default)]
pub(crate) struct StreamTree {
    root: Mutex<Option<NodeRef>>,
    /// Whether a lookup has found no hidden tree: no file has a stream.
    is_missing: AtomicBool,
    /// Held while there is a [`NEW_LINK`].
    linking: Mutex<()>,
    swept: Mutex<Sweep>,
}

/// The progress of the search for streams without a file.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Sweep {
    #[default]
    Begin,
    After(u64),
    Done,
}

/// Returns the number of a stream in the table of claims: never that of the file's data, and the same under each name
/// of the stream.
pub(crate) fn number(node: &NodeRef) -> Stream {
    let mut hasher = KeyHasher::default();
    node.key().hash(&mut hasher);
    let hash = hasher.finish();
    Stream(u32::try_from((hash ^ hash >> 32) & u64::from(u32::MAX)).unwrap_or(1).max(1))
}

/// Attributes of a new stream of a file with `attrs`. Its bytes count for the file's owners.
pub(crate) fn of_file(attrs: &Attrs) -> NewInode {
    NewInode { uid: attrs.uid, gid: attrs.gid, ..own(FileType::Regular) }
}

/// Attributes of new objects in the hidden tree besides streams: owned by the service.
pub(crate) fn own(file_type: FileType) -> NewInode {
    let mode = if file_type == FileType::Directory { DIR_MODE } else { FILE_MODE };
    NewInode { mode, uid: 0, gid: 0, times: None, size: 0 }
}

/// The name of a marker in a hidden tree: the keys of the volume's root and of the tree.
/// A copied, restored or rolled-back tree has other keys, so its marker does not match.
fn mark_name(root: &NodeRef, tree: &NodeRef) -> String {
    format!("{TREE_MARK}{}-{}", dir_name(&root.key()), dir_name(&tree.key()))
}

/// The name of the directory for the streams of a file: the file's key in hexadecimal digits.
pub fn dir_name(key: &FileKey) -> String {
    key.bytes().iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// The file whose streams are in a directory of this name in the hidden tree.
pub fn key_of(dir_name: &[u8]) -> Option<FileKey> {
    let digits = std::str::from_utf8(dir_name).ok().filter(|name| name.is_ascii())?;
    let bytes: Option<Vec<u8>> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
    FileKey::new(&bytes?).ok()
}

/// Up to `max` names in a directory of the hidden tree after `cookie`, and the next cookie; `None` at the end.
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

/// The nodes of the streams in a file's directory.
pub(super) fn stream_nodes(dir: &NodeRef) -> FsResult<Vec<NodeRef>> {
    let (names, _) = names(dir, 0, STREAMS_MAX)?;
    let found = |name: &Vec<u8>| Ok(dir.lookup(Name::new(name)?, Blocking::Allowed)?.node);
    names.iter().map(found).collect()
}

/// Removes the temporary link of an interrupted [`Volume::link_over`].
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

    /// Returns the root of the hidden tree below `of`, if it exists. [`FsError::NotSupported`] if another program has made an
    /// object of that name.
    fn root(&self, of: &NodeRef) -> FsResult<Option<NodeRef>> {
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
        match tree_below(of)? {
            Some(node) => Ok(Some(NodeRef::clone(root.insert(node)))),
            None => {
                self.is_missing.store(true, Ordering::Release);
                Ok(None)
            }
        }
    }

    /// Returns the root of the hidden tree, made if missing. Lookups use the same lock, so none that found nothing ends
    /// after this. `changed` is called for each directory that was changed.
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

/// Whether an object has lost its last name. Opens keep it, but no lookup finds it.
pub(crate) fn is_gone(node: &NodeRef) -> bool {
    match node.attrs(Blocking::Allowed) {
        Ok(attrs) => attrs.links == 0,
        Err(error) => error == FsError::Stale,
    }
}

/// Looks up the hidden tree below `root`; `None` if there is none. [`FsError::NotSupported`] if another program has made
/// an object of that name.
pub(super) fn tree_below(root: &NodeRef) -> FsResult<Option<NodeRef>> {
    match root.lookup(Name::STREAMS, Blocking::Allowed) {
        Ok(Lookup { node, attrs }) if is_own_dir(&attrs) => Ok(Some(node)),
        Ok(_) => Err(FsError::NotSupported),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a directory was made by this service and admits no other user.
fn is_own_dir(attrs: &Attrs) -> bool {
    attrs.file_type == FileType::Directory && attrs.uid == 0 && attrs.mode & OTHERS == 0
}

/// Marks a hidden tree as made in this volume.
fn mark(root: &NodeRef, tree: &NodeRef) -> FsResult<()> {
    match tree.create(Name::new(mark_name(root, tree).as_bytes())?, &|_| Ok(own(FileType::Regular))) {
        Ok(_) | Err(FsError::Exists) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a hidden tree was made in this volume, so that its names are keys of this volume. An empty tree counts as
/// new.
fn is_made_here(root: &NodeRef, tree: &NodeRef) -> FsResult<bool> {
    match tree.lookup(Name::new(mark_name(root, tree).as_bytes())?, Blocking::Allowed) {
        Err(FsError::NotFound) => {}
        found => return found.map(|_| true),
    }
    let (names, next) = names(tree, 0, SWEEP_FILES)?;
    let is_empty = next.is_none() && names.iter().all(|name| name.starts_with(TREE_MARK.as_bytes()));
    Ok(is_empty && mark(root, tree).is_ok())
}

/// The directory of a name, made if missing, and whether it was made.
fn take_dir(parent: &NodeRef, name: Name<'_>) -> FsResult<(NodeRef, bool)> {
    match parent.make_dir(name, &|_| Ok(own(FileType::Directory))) {
        Ok(made) => Ok((made.found.node, true)),
        Err(FsError::Exists) => Ok((parent.lookup(name, Blocking::Allowed)?.node, false)),
        Err(error) => Err(error),
    }
}

/// The hidden tree below the root of a backend, for copies of a whole volume; `None` if no file has streams.
pub fn tree_of(root: &NodeRef) -> FsResult<Option<NodeRef>> {
    match root.lookup(Name::STREAMS, Blocking::Allowed) {
        Ok(Lookup { node, attrs }) => Ok(is_own_dir(&attrs).then_some(node)),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The hidden tree below the root of a backend that serves no client, made if missing.
pub fn make_tree(root: &NodeRef) -> FsResult<NodeRef> {
    let (tree, is_new) = take_dir(root, Name::STREAMS)?;
    if is_new {
        mark(root, &tree)?;
    }
    Ok(tree)
}

/// A directory in the hidden tree that is not for streams, made if missing. Its name is never a key in hexadecimal digits.
pub fn make_hidden_dir(root: &NodeRef, name: Name<'_>) -> FsResult<NodeRef> {
    take_dir(&make_tree(root)?, name).map(|(dir, _)| dir)
}

/// Makes a stream of the file with this key below the root of a backend that serves no client yet. The stream belongs to
/// the owners in `attrs`.
pub fn restore_stream(root: &NodeRef, key: &FileKey, name: &[u8], attrs: &Attrs) -> FsResult<NodeRef> {
    let tree = make_tree(root)?;
    let (dir, _) = take_dir(&tree, Name::new(dir_name(key).as_bytes())?)?;
    let stored = StoredName::new(name)?;
    Ok(dir.create(stored.name()?, &|_| Ok(of_file(attrs)))?.found.node)
}

/// The name of a stream whose data is in a file of this name.
pub fn stream_name(file_name: &[u8]) -> Option<&[u8]> {
    file_name.strip_prefix(&[MARK])
}

impl Volume {
    fn streams(&self) -> &StreamTree {
        &self.streams
    }

    /// The root of the live hidden tree, if it exists.
    fn stream_tree(&self) -> FsResult<Option<NodeRef>> {
        self.streams().root(self.root())
    }

    /// The directory of a file's streams, if it has any.
    pub(crate) fn streams_of(&self, key: &FileKey) -> FsResult<Option<NodeRef>> {
        let tree = match key.view() {
            ViewId::LIVE => self.stream_tree()?,
            // It has no file that could have streams.
            ViewId::DIRECTORY => None,
            view => self.stream_tree_of_view(view)?,
        };
        let Some(tree) = tree else { return Ok(None) };
        match tree.lookup(Name::new(dir_name(key).as_bytes())?, Blocking::Allowed) {
            Ok(found) => Ok(Some(found.node)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the root of the hidden tree, made if missing. `changed` is called for the directory that was changed.
    fn make_tree(&self, changed: &mut dyn FnMut(&NodeRef)) -> FsResult<NodeRef> {
        match self.stream_tree()? {
            Some(tree) => Ok(tree),
            None => self.streams().make_root(self, changed),
        }
    }

    /// Replaces the name of another file in `dir` by a link to `target`, in one step.
    /// Until then `target` has a name in the hidden tree. Returns the change of `dir`.
    pub(crate) fn link_over(
        &self,
        target: &NodeRef,
        dir: &NodeRef,
        name: Name<'_>,
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

    /// Returns the directory of a file's streams, made if missing. `changed` is called for each directory that was
    /// changed.
    pub(crate) fn make_streams_of(
        &self,
        key: &FileKey,
        changed: &mut dyn FnMut(&NodeRef),
    ) -> FsResult<NodeRef> {
        if key.view() != ViewId::LIVE {
            return Err(FsError::ReadOnly);
        }
        let tree = self.make_tree(changed)?;
        let (dir, is_new) = take_dir(&tree, Name::new(dir_name(key).as_bytes())?)?;
        if is_new {
            changed(&tree);
        }
        Ok(dir)
    }

    /// Removes all streams of a file; returns whether it had any. `changed` is called for the directory that was
    /// changed.
    pub(crate) fn remove_streams(&self, key: &FileKey, changed: &mut dyn FnMut(&NodeRef)) -> FsResult<bool> {
        let _changing = self.extra_attrs_cache().slot(key).lock_change();
        if key.view() != ViewId::LIVE {
            return Err(FsError::ReadOnly);
        }
        let Some(dir) = self.streams_of(key)? else { return Ok(false) };
        let (names, _) = names(&dir, 0, STREAMS_MAX)?;
        for name in &names {
            dir.remove(Name::new(name)?, &|_| Ok(()))?;
        }
        let Some(tree) = self.stream_tree()? else { return Ok(false) };
        tree.remove_dir(Name::new(dir_name(key).as_bytes())?, &|_| Ok(()))?;
        changed(&tree);
        Ok(!names.is_empty())
    }

    /// Removes a stream after its last close, unless another object has its name by now.
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

    /// Marks a file as modified after its streams changed, so that caches of the file become invalid.
    pub(crate) fn note_streams_changed(&self, file: &NodeRef, pending: &mut PendingSync) -> FsResult<()> {
        file.set_attrs(&SetAttrs { modified: Some(SetTime::Now), ..SetAttrs::default() })?;
        self.require_sync(pending, file, SyncScope::All);
        Ok(())
    }

    /// Looks up the object of a name that is about to be removed, if any file of this volume has streams. Otherwise one
    /// atomic load.
    pub(crate) fn may_have_streams(&self, dir: &NodeRef, name: Name<'_>) -> Option<NodeRef> {
        self.stream_tree().ok().flatten()?;
        dir.lookup(name, Blocking::Allowed).ok().map(|found| found.node)
    }

    /// Removes the streams of an object that has lost a name, if that was its last one. A restart finds streams that
    /// cannot be removed now.
    pub(crate) fn remove_streams_of_gone(&self, named: Option<NodeRef>) {
        if let Some(node) = named.filter(is_gone) {
            let _ = self.remove_streams(&node.key(), &mut |_| ());
        }
    }

    /// Removes streams whose files were deleted outside this process, in steps; returns whether it has reached the end.
    /// Streams stay where the storage cannot tell for certain that their file is gone. They also stay in a tree that
    /// was copied from elsewhere, where no file has the keys of the tree. Also removes a temporary link that a crash
    /// has left.
    pub fn sweep_streams(&self) -> FsResult<bool> {
        if self.is_read_only() {
            return Ok(true);
        }
        let mut swept = self.streams().swept.lock();
        let from = match *swept {
            Sweep::Begin => {
                let _linking = self.streams().lock_linking();
                self.stream_tree()?.map_or(Ok(()), |tree| remove_new_link(&tree))?;
                0
            }
            Sweep::After(cookie) => cookie,
            Sweep::Done => return Ok(true),
        };
        let tree = match self.stream_tree()? {
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
}
