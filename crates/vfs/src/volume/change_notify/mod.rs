//! Who is told of changes below a directory: names that come and go, and what changes in the files that have them.
//!
//! A change is told once, whatever protocol it came by. Where nobody watches anything of a volume, that is one load. What is told
//! waits in a bounded buffer until it is taken; what does not fit is said to be too much, and whoever watches lists the directory.

use crate::acl::access::{self, Access};
use crate::acl::posix_acl::PosixAcl;
use crate::acl::{Acl, Rights, SecurityStyle};
use crate::backend::stored_acl::list_of;
use crate::backend::{Blocking, NodeRef};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::FileKey;
use crate::model::attrs::{Attrs, FileType};
use crate::model::caller::Caller;
use crate::model::name::Name;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::ops::{BitOr, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Watches of a volume, and how many of them one user may have.
pub const WATCHES_MAX: usize = 16_384;
/// See [`WATCHES_MAX`].
pub const WATCHES_OF_USER_MAX: usize = WATCHES_MAX / 4;
/// Bytes that all watches of a volume keep until they are taken, and how many of them those of one user.
pub const KEPT_BYTES_MAX: usize = 16 << 20;
/// See [`KEPT_BYTES_MAX`].
pub const KEPT_BYTES_OF_USER_MAX: usize = KEPT_BYTES_MAX / 4;
/// Bytes that a change takes besides its path.
pub const CHANGE_BYTES: usize = 16;
/// Directories from a change up to whoever watches the tree.
const DEPTH_MAX: usize = 256;
/// Entries that are looked at for the name of a directory.
const ENTRIES_MAX: usize = 65_536;
/// Names of directories that are remembered.
const NAMES_MAX: usize = 4096;

/// Kinds of changes, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeMask(u16);

impl ChangeMask {
    /// None.
    pub const NONE: Self = Self(0);
    /// Names of all but directories.
    pub const FILE_NAMES: Self = Self(1);
    /// Names of directories.
    pub const DIR_NAMES: Self = Self(1 << 1);
    /// Attributes.
    pub const ATTRIBUTES: Self = Self(1 << 2);
    /// Sizes.
    pub const SIZE: Self = Self(1 << 3);
    /// The time of the last write, and so what was written.
    pub const MODIFIED: Self = Self(1 << 4);
    /// The time of the last access, where somebody sets it.
    pub const ACCESSED: Self = Self(1 << 5);
    /// The time of creation.
    pub const CREATED: Self = Self(1 << 6);
    /// Extended attributes.
    pub const XATTRS: Self = Self(1 << 7);
    /// Who may do what.
    pub const SECURITY: Self = Self(1 << 8);

    /// Whether anything of `other` is in it.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn names(is_dir: bool) -> Self {
        if is_dir { Self::DIR_NAMES } else { Self::FILE_NAMES }
    }
}

impl BitOr for ChangeMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What has happened to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// What has it was changed.
    Modified,
    /// It was changed to the one that comes next.
    OldName,
    /// It was changed to this.
    NewName,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// What has happened.
    pub action: Action,
    /// To what: a path from the directory that is watched, its names separated by `/`.
    pub path: Vec<u8>,
}

/// What whoever watches is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvents {
    /// These changes.
    Changes(Vec<ChangeRecord>),
    /// More than was kept: the directory is to be listed.
    Overflow,
    /// The directory is gone or going, and nothing more is told.
    DirectoryRemoved,
}

/// Called when there is news, with no lock held.
pub type OnEvents = Box<dyn Fn() + Send + Sync>;

/// What of a directory is watched.
pub struct WatchFilter {
    /// Who watches, as the export takes it: of what lies below it is told who may list it there.
    pub caller: Caller,
    /// The user who has logged in, of whose watches there are only so many.
    pub user: u32,
    /// Which changes.
    pub what: ChangeMask,
    /// Whether those of everything below it as well.
    pub is_tree: bool,
    /// Bytes of changes that are kept at most.
    pub bytes_max: usize,
}

/// A watch, until it is dropped.
pub struct Watch {
    watches: Arc<Watches>,
    watched: Arc<Watched>,
}

struct Watched {
    key: FileKey,
    wish: WatchFilter,
    buffer: Mutex<Buffer>,
    kept: Kept,
    tell: OnEvents,
}

/// What is kept, by all watches of a user, and of a volume.
#[derive(Clone)]
struct Kept {
    of_user: Arc<AtomicUsize>,
    of_all: Arc<AtomicUsize>,
}

/// Those who watch something. Who tells them goes on with what there is while it changes.
type Watchers = Arc<Vec<Arc<Watched>>>;

#[derive(Default)]
struct Buffer {
    changes: Vec<ChangeRecord>,
    bytes: usize,
    is_too_much: bool,
    is_gone: bool,
}

/// The watches of a volume.
#[derive(Default)]
pub(crate) struct Watches {
    style: SecurityStyle,
    count: AtomicUsize,
    /// Bytes that are kept.
    bytes: Arc<AtomicUsize>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    watched: HashMap<FileKey, Watchers>,
    /// Those among them who watch trees.
    trees: Watchers,
    /// How many watches each user has, and how many bytes they keep.
    users: HashMap<u32, (usize, Arc<AtomicUsize>)>,
    /// Where directories were found: the one above, and the name there.
    names: HashMap<FileKey, (FileKey, Box<[u8]>)>,
}

/// What has a name, as far as watches want to know.
pub(crate) struct Child {
    key: FileKey,
    pub(crate) is_dir: bool,
}

/// A change in a directory.
pub(crate) type Change<'n> = (Action, &'n [u8]);

impl Watch {
    /// Takes the news, if there is any.
    pub fn take(&self) -> Option<WatchEvents> {
        let mut buffer = self.watched.buffer.lock();
        self.watched.kept.give_back(&mut buffer);
        let changes = std::mem::take(&mut buffer.changes);
        if buffer.is_gone {
            return Some(WatchEvents::DirectoryRemoved);
        }
        if std::mem::take(&mut buffer.is_too_much) {
            return Some(WatchEvents::Overflow);
        }
        (!changes.is_empty()).then_some(WatchEvents::Changes(changes))
    }

    /// Whether there is news.
    pub fn has_events(&self) -> bool {
        let buffer = self.watched.buffer.lock();
        buffer.is_gone || buffer.is_too_much || !buffer.changes.is_empty()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.table.lock().remove(&self.watched);
        self.watches.count.fetch_sub(1, Ordering::SeqCst);
        // Whoever tells of something now still has it, and keeps nothing more.
        let mut buffer = self.watched.buffer.lock();
        self.watched.kept.give_back(&mut buffer);
        buffer.is_gone = true;
    }
}

impl Kept {
    /// Counts bytes, if there may be so many more.
    fn take(&self, bytes: usize) -> bool {
        let take = |kept: &AtomicUsize, max| {
            let has_room = kept.fetch_add(bytes, Ordering::Relaxed) + bytes <= max;
            if !has_room {
                kept.fetch_sub(bytes, Ordering::Relaxed);
            }
            has_room
        };
        let has_room = take(&self.of_user, KEPT_BYTES_OF_USER_MAX);
        if has_room && !take(&self.of_all, KEPT_BYTES_MAX) {
            self.of_user.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        has_room
    }

    /// What a buffer keeps counts no longer.
    fn give_back(&self, buffer: &mut Buffer) {
        let bytes = std::mem::take(&mut buffer.bytes);
        self.of_user.fetch_sub(bytes, Ordering::Relaxed);
        self.of_all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Table {
    fn remove(&mut self, gone: &Arc<Watched>) {
        let remove = |from: &mut Watchers| Arc::make_mut(from).retain(|watched| !Arc::ptr_eq(watched, gone));
        if let Some(here) = self.watched.get_mut(&gone.key) {
            remove(here);
            if here.is_empty() {
                self.watched.remove(&gone.key);
            }
        }
        if gone.wish.is_tree {
            remove(&mut self.trees);
        }
        if let Some((watches, _)) = self.users.get_mut(&gone.wish.user) {
            *watches -= 1;
            if *watches == 0 {
                self.users.remove(&gone.wish.user);
            }
        }
        if self.watched.is_empty() {
            self.names.clear();
        }
    }
}

impl Watched {
    /// Keeps changes, together or not at all, and tells of them.
    fn push(&self, above: &[u8], changes: &[Change<'_>]) {
        if self.keep(above, changes) {
            (self.tell)();
        }
    }

    /// Keeps changes. Whether there is news.
    fn keep(&self, above: &[u8], changes: &[Change<'_>]) -> bool {
        let mut buffer = self.buffer.lock();
        if buffer.is_gone || buffer.is_too_much {
            return false;
        }
        let new = changes.iter().map(|(action, name)| ChangeRecord {
            action: *action,
            path: if above.is_empty() { name.to_vec() } else { [above, b"/", name].concat() },
        });
        let mut new: Vec<ChangeRecord> = new.collect();
        // What is said already is not said again.
        if let [ChangeRecord { action: Action::Modified, .. }] = &new[..]
            && buffer.changes.last() == new.last()
        {
            return false;
        }
        let bytes: usize = new.iter().map(|change| CHANGE_BYTES + change.path.len()).sum();
        if buffer.bytes + bytes <= self.wish.bytes_max && self.kept.take(bytes) {
            buffer.bytes += bytes;
            buffer.changes.append(&mut new);
        } else {
            self.overflow(&mut buffer);
        }
        true
    }

    /// Forgets what it keeps, for whoever lists the directory anyway.
    fn overflow(&self, buffer: &mut Buffer) {
        self.kept.give_back(buffer);
        buffer.changes = Vec::new();
        buffer.is_too_much = true;
    }
}

impl Watches {
    /// None yet, where `style` decides who may see what.
    pub(crate) fn new(style: SecurityStyle) -> Self {
        Self { style, ..Self::default() }
    }

    /// Whether anything is watched.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Watches a directory. [`FsError::Wait(Wait::Recall)`] where there are too many watches, of the user or of all.
    pub(crate) fn add(self: &Arc<Self>, key: FileKey, wish: WatchFilter, tell: OnEvents) -> FsResult<Watch> {
        let mut table = self.table.lock();
        let of_user = table.users.get(&wish.user).map_or(0, |(watches, _)| *watches);
        if self.count.load(Ordering::Relaxed) >= WATCHES_MAX || of_user >= WATCHES_OF_USER_MAX {
            return Err(FsError::Wait(Wait::Recall));
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        let (watches, of_user) = table.users.entry(wish.user).or_default();
        *watches += 1;
        let kept = Kept { of_user: Arc::clone(of_user), of_all: Arc::clone(&self.bytes) };
        let watched = Arc::new(Watched { key, wish, buffer: Mutex::default(), kept, tell });
        if watched.wish.is_tree {
            Arc::make_mut(&mut table.trees).push(Arc::clone(&watched));
        }
        Arc::make_mut(table.watched.entry(key).or_default()).push(Arc::clone(&watched));
        Ok(Watch { watches: Arc::clone(self), watched })
    }

    /// What has a name in a directory, where anybody watches.
    pub(crate) fn child(&self, dir: &NodeRef, name: Name<'_>) -> Option<Child> {
        if !self.is_any() {
            return None;
        }
        let found = dir.lookup(name, Blocking::Allowed).ok()?;
        Some(Child { key: found.node.key(), is_dir: found.attrs.file_type == FileType::Directory })
    }

    /// Tells of names that have changed in `dir`.
    pub(crate) fn names_changed(&self, root: &NodeRef, dir: &NodeRef, changes: &[Change<'_>], is_dir: bool) {
        self.changed(root, dir, changes, ChangeMask::names(is_dir));
    }

    /// Tells of changes in `dir`, which are of these kinds.
    pub(crate) fn changed(&self, root: &NodeRef, dir: &NodeRef, changes: &[Change<'_>], what: ChangeMask) {
        if !self.is_any() {
            return;
        }
        self.push(&dir.key(), &[], &[], changes, what);
        let has_trees = !self.table.lock().trees.is_empty();
        if has_trees && self.climb(root, dir, changes, what).is_err() {
            self.overflow_trees();
        }
    }

    /// Tells those who watch a directory, or a tree, that it is going.
    pub(crate) fn gone(&self, key: &FileKey) {
        if !self.is_any() {
            return;
        }
        for watched in self.watchers(key).iter() {
            let mut buffer = watched.buffer.lock();
            watched.overflow(&mut buffer);
            buffer.is_gone = true;
            drop(buffer);
            (watched.tell)();
        }
    }

    /// Tells of a name that is gone, and of what had it.
    pub(crate) fn removed(&self, root: &NodeRef, dir: &NodeRef, name: &[u8], child: Option<Child>) {
        let Some(child) = child else { return };
        if child.is_dir {
            self.gone(&child.key);
        }
        self.names_changed(root, dir, &[(Action::Removed, name)], child.is_dir);
    }

    /// Tells of a name that was changed: `moved` was `from` and is `to` now, which `replaced` had before.
    pub(crate) fn renamed(
        &self,
        root: &NodeRef,
        (from_dir, from): (&NodeRef, &[u8]),
        (to_dir, to): (&NodeRef, &[u8]),
        moved: Option<Child>,
        replaced: Option<Child>,
    ) {
        let Some(moved) = moved else { return };
        // Two names of one file: nothing happens.
        if replaced.as_ref().is_some_and(|replaced| replaced.key == moved.key) {
            return;
        }
        self.removed(root, to_dir, to, replaced);
        if from_dir.key() == to_dir.key() {
            let changes = [(Action::OldName, from), (Action::NewName, to)];
            return self.names_changed(root, from_dir, &changes, moved.is_dir);
        }
        self.names_changed(root, from_dir, &[(Action::Removed, from)], moved.is_dir);
        self.names_changed(root, to_dir, &[(Action::Added, to)], moved.is_dir);
    }

    fn watchers(&self, key: &FileKey) -> Watchers {
        self.table.lock().watched.get(key).cloned().unwrap_or_default()
    }

    /// Tells changes to those who watch a directory, or its tree if they are in one below, to which the way leads through those with
    /// these attributes.
    fn push(&self, key: &FileKey, way: &[Passed], above: &[u8], changes: &[Change<'_>], what: ChangeMask) {
        let is_told = |watched: &&Arc<Watched>| {
            (watched.wish.is_tree || way.is_empty())
                && watched.wish.what.intersects(what)
                && may_see(&watched.wish.caller, way)
        };
        self.watchers(key).iter().filter(is_told).for_each(|watched| watched.push(above, changes));
    }

    /// Tells changes in `dir` to those who watch the trees that it is in.
    fn climb(&self, root: &NodeRef, dir: &NodeRef, changes: &[Change<'_>], what: ChangeMask) -> FsResult<()> {
        let (root, mut node) = (root.key(), NodeRef::clone(dir));
        let (mut path, mut way) = (Vec::new(), Vec::new());
        for _ in 0..DEPTH_MAX {
            if node.key() == root {
                return Ok(());
            }
            way.push(self.passed(&node)?);
            let above = node.parent()?.node;
            let name = self.name_in(&above, &node)?;
            path = if path.is_empty() { name.to_vec() } else { [&name, &b"/"[..], &path].concat() };
            self.push(&above.key(), &way, &path, changes, what);
            node = above;
        }
        Err(FsError::NameTooLong)
    }

    fn passed(&self, dir: &NodeRef) -> FsResult<Passed> {
        let attrs = dir.attrs(Blocking::Allowed)?;
        let (acl, posix_acl) = match (self.style, dir.acls()) {
            (SecurityStyle::Unix, None) => (None, None),
            (SecurityStyle::Unix, Some(acls)) => (None, acls.access_acl(&attrs, Blocking::Allowed)?),
            (SecurityStyle::Ntfs, _) => (Some(list_of(dir, &attrs)?), None),
        };
        Ok(Passed { attrs, acl, posix_acl })
    }

    /// The name of a directory in the one above it.
    fn name_in(&self, above: &NodeRef, dir: &NodeRef) -> FsResult<Box<[u8]>> {
        let (key, above_key) = (dir.key(), above.key());
        let has_it = |name: &[u8]| -> FsResult<bool> {
            let name = Name::new(name)?;
            Ok(above.lookup(name, Blocking::Allowed)?.node.key() == key)
        };
        let known = self.table.lock().names.get(&key).cloned();
        if let Some((_, name)) = known.filter(|(known_above, _)| *known_above == above_key)
            && has_it(&name).unwrap_or(false)
        {
            return Ok(name);
        }
        let id = dir.attrs(Blocking::Allowed)?.file_id;
        let (mut found, mut left) = (None, ENTRIES_MAX);
        above.read_dir(0, false, &mut |entry| {
            left -= 1;
            if entry.file_id == id && !matches!(entry.name, b"." | b"..") {
                found = Some(Box::from(entry.name));
            }
            if found.is_some() || left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let name: Box<[u8]> = found.ok_or(FsError::NotFound)?;
        if !has_it(&name)? {
            return Err(FsError::NotFound);
        }
        let mut table = self.table.lock();
        if table.names.len() >= NAMES_MAX {
            table.names.clear();
        }
        table.names.insert(key, (above_key, name.clone()));
        Ok(name)
    }

    /// Has all who watch trees list them.
    fn overflow_trees(&self) {
        let trees = Arc::clone(&self.table.lock().trees);
        for watched in trees.iter() {
            watched.overflow(&mut watched.buffer.lock());
            (watched.tell)();
        }
    }
}

/// A directory on the way to a change.
struct Passed {
    attrs: Attrs,
    /// Where lists rule.
    acl: Option<Acl>,
    /// Where mode bits rule.
    posix_acl: Option<Arc<PosixAcl>>,
}

impl Passed {
    fn lets(&self, caller: &Caller, access: Access, right: Rights) -> bool {
        match &self.acl {
            Some(acl) => acl.granted(&self.attrs, caller).has(right),
            None => access::check(&self.attrs, self.posix_acl.as_deref(), caller, access).is_ok(),
        }
    }
}

/// Whether somebody may list the first of these directories, and come there through the others.
fn may_see(caller: &Caller, way: &[Passed]) -> bool {
    way.iter().all(|passed| passed.lets(caller, Access::EXECUTE, Rights::EXECUTE))
        && way.first().is_none_or(|passed| passed.lets(caller, Access::READ, Rights::READ))
}

#[cfg(test)]
mod tests;
