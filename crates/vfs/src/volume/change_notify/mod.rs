//! Watches of changes below a directory: of names, and of the files that have them.
//!
//! A change is reported once, whatever protocol made it. Without watches a change costs one atomic load. Each watch has
//! a bounded buffer of changes. On overflow the watch reports that, and its client lists the directory.

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

/// The limit of watches of a volume, and of one user.
pub const WATCHES_MAX: usize = 16_384;
pub const WATCHES_OF_USER_MAX: usize = WATCHES_MAX / 4;
/// Bytes of undelivered changes of a volume, and the part of them that one user may have.
pub const RETAINED_BYTES_MAX: usize = 16 << 20;
pub const RETAINED_BYTES_OF_USER_MAX: usize = RETAINED_BYTES_MAX / 4;
/// Memory of a change besides its path.
pub const CHANGE_BYTES: usize = 16;
/// Levels from a change up to a watched tree.
const DEPTH_MAX: usize = 256;
/// Entries scanned for the name of a directory.
const ENTRIES_MAX: usize = 65_536;
/// The limit of cached names of directories.
const NAMES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeMask(u16);

impl ChangeMask {
    pub const NONE: Self = Self(0);
    /// Names of all but directories.
    pub const FILE_NAMES: Self = Self(1);
    pub const DIR_NAMES: Self = Self(1 << 1);
    pub const ATTRIBUTES: Self = Self(1 << 2);
    pub const SIZE: Self = Self(1 << 3);
    /// The time of the last write, and so the data.
    pub const MODIFIED: Self = Self(1 << 4);
    /// The time of the last access, if a client sets it.
    pub const ACCESSED: Self = Self(1 << 5);
    pub const CREATED: Self = Self(1 << 6);
    pub const XATTRS: Self = Self(1 << 7);
    /// Owner, group, mode and access control list.
    pub const SECURITY: Self = Self(1 << 8);

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Added,
    Removed,
    Modified,
    /// The old name of a rename; the new one follows.
    OldName,
    /// The new name of a rename.
    NewName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    pub action: Action,
    /// The path from the watched directory, its names separated by `/`.
    pub path: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvents {
    Changes(Vec<ChangeRecord>),
    /// The buffer overflowed: list the directory.
    Overflow,
    /// The directory is removed or being removed. No more events follow.
    DirectoryRemoved,
}

/// Called when there are events, with no lock held.
pub type OnEvents = Box<dyn Fn() + Send + Sync>;

/// The subject of a watch.
pub struct WatchFilter {
    /// The watching caller under the export's rules. Events below the directory need the right to list them.
    pub caller: Caller,
    /// The user who is logged in; watches are limited for each user.
    pub user: u32,
    pub what: ChangeMask,
    /// Whether changes in all directories below are included.
    pub is_tree: bool,
    /// The size of the buffer of changes.
    pub bytes_max: usize,
}

/// A watch, until it is dropped.
pub struct Watch {
    watches: Arc<Watches>,
    watched: Arc<WatchEntry>,
}

struct WatchEntry {
    key: FileKey,
    filter: WatchFilter,
    buffer: Mutex<Buffer>,
    retained: RetainedBytes,
    on_events: OnEvents,
}

/// Bytes of undelivered changes of a user and of the volume.
#[derive(Clone)]
struct RetainedBytes {
    of_user: Arc<AtomicUsize>,
    of_all: Arc<AtomicUsize>,
}

/// The watches of a directory. A notification works on a snapshot of them.
type Watchers = Arc<Vec<Arc<WatchEntry>>>;

#[derive(Default)]
struct Buffer {
    changes: Vec<ChangeRecord>,
    bytes: usize,
    is_too_much: bool,
    is_gone: bool,
}

#[derive(Default)]
pub(crate) struct Watches {
    style: SecurityStyle,
    count: AtomicUsize,
    /// Bytes of undelivered changes.
    bytes: Arc<AtomicUsize>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    watched: HashMap<FileKey, Watchers>,
    /// The watches of trees among them.
    trees: Watchers,
    /// Number of watches and retained bytes of each user.
    users: HashMap<u32, (usize, Arc<AtomicUsize>)>,
    /// The last known parent and name of directories.
    names: HashMap<FileKey, (FileKey, Box<[u8]>)>,
}

/// The object of a name, as watches need it.
pub(crate) struct Child {
    key: FileKey,
    pub(crate) is_dir: bool,
}

pub(crate) struct NameInDir<'n> {
    pub(crate) dir: &'n NodeRef,
    pub(crate) name: &'n [u8],
}

pub(crate) type Change<'n> = (Action, &'n [u8]);

impl Watch {
    pub fn take(&self) -> Option<WatchEvents> {
        let mut buffer = self.watched.buffer.lock();
        self.watched.retained.release(&mut buffer);
        let changes = std::mem::take(&mut buffer.changes);
        if buffer.is_gone {
            return Some(WatchEvents::DirectoryRemoved);
        }
        if std::mem::take(&mut buffer.is_too_much) {
            return Some(WatchEvents::Overflow);
        }
        (!changes.is_empty()).then_some(WatchEvents::Changes(changes))
    }

    pub fn has_events(&self) -> bool {
        let buffer = self.watched.buffer.lock();
        buffer.is_gone || buffer.is_too_much || !buffer.changes.is_empty()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.table.lock().remove(&self.watched);
        self.watches.count.fetch_sub(1, Ordering::SeqCst);
        // A notifier may still have a snapshot with this watch, and must not queue anything more.
        let mut buffer = self.watched.buffer.lock();
        self.watched.retained.release(&mut buffer);
        buffer.is_gone = true;
    }
}

impl RetainedBytes {
    /// Adds bytes, unless that exceeds a limit.
    fn take(&self, bytes: usize) -> bool {
        let take = |retained: &AtomicUsize, max| {
            let has_room = retained.fetch_add(bytes, Ordering::Relaxed) + bytes <= max;
            if !has_room {
                retained.fetch_sub(bytes, Ordering::Relaxed);
            }
            has_room
        };
        let has_room = take(&self.of_user, RETAINED_BYTES_OF_USER_MAX);
        if has_room && !take(&self.of_all, RETAINED_BYTES_MAX) {
            self.of_user.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        has_room
    }

    fn release(&self, buffer: &mut Buffer) {
        let bytes = std::mem::take(&mut buffer.bytes);
        self.of_user.fetch_sub(bytes, Ordering::Relaxed);
        self.of_all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Table {
    fn remove(&mut self, directory_removed: &Arc<WatchEntry>) {
        let remove = |from: &mut Watchers| {
            Arc::make_mut(from).retain(|watched| !Arc::ptr_eq(watched, directory_removed))
        };
        if let Some(here) = self.watched.get_mut(&directory_removed.key) {
            remove(here);
            if here.is_empty() {
                self.watched.remove(&directory_removed.key);
            }
        }
        if directory_removed.filter.is_tree {
            remove(&mut self.trees);
        }
        if let Some((watches, _)) = self.users.get_mut(&directory_removed.filter.user) {
            *watches -= 1;
            if *watches == 0 {
                self.users.remove(&directory_removed.filter.user);
            }
        }
        if self.watched.is_empty() {
            self.names.clear();
        }
    }
}

impl WatchEntry {
    /// Queues changes, together or not at all, and signals the client.
    fn push(&self, above: &[u8], changes: &[Change<'_>]) {
        if self.queue(above, changes) {
            (self.on_events)();
        }
    }

    /// Queues changes; returns whether there are new events.
    fn queue(&self, above: &[u8], changes: &[Change<'_>]) -> bool {
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
        if buffer.bytes + bytes <= self.filter.bytes_max && self.retained.take(bytes) {
            buffer.bytes += bytes;
            buffer.changes.append(&mut new);
        } else {
            self.overflow(&mut buffer);
        }
        true
    }

    /// Drops the buffered changes; the client will list the directory.
    fn overflow(&self, buffer: &mut Buffer) {
        self.retained.release(buffer);
        buffer.changes = Vec::new();
        buffer.is_too_much = true;
    }
}

impl Watches {
    pub(crate) fn new(style: SecurityStyle) -> Self {
        Self { style, ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Watches a directory. `FsError::Wait(Wait::Recall)` if the user or the volume has too many watches.
    pub(crate) fn add(
        self: &Arc<Self>,
        key: FileKey,
        filter: WatchFilter,
        on_events: OnEvents,
    ) -> FsResult<Watch> {
        let mut table = self.table.lock();
        let of_user = table.users.get(&filter.user).map_or(0, |(watches, _)| *watches);
        if self.count.load(Ordering::Relaxed) >= WATCHES_MAX || of_user >= WATCHES_OF_USER_MAX {
            return Err(FsError::Wait(Wait::Recall));
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        let (watches, of_user) = table.users.entry(filter.user).or_default();
        *watches += 1;
        let retained = RetainedBytes { of_user: Arc::clone(of_user), of_all: Arc::clone(&self.bytes) };
        let watched = Arc::new(WatchEntry { key, filter, buffer: Mutex::default(), retained, on_events });
        if watched.filter.is_tree {
            Arc::make_mut(&mut table.trees).push(Arc::clone(&watched));
        }
        Arc::make_mut(table.watched.entry(key).or_default()).push(Arc::clone(&watched));
        Ok(Watch { watches: Arc::clone(self), watched })
    }

    /// Looks up the object of a name, if there are watches.
    pub(crate) fn child(&self, dir: &NodeRef, name: Name<'_>) -> Option<Child> {
        if !self.is_any() {
            return None;
        }
        let found = dir.lookup(name, Blocking::Allowed).ok()?;
        Some(Child { key: found.node.key(), is_dir: found.attrs.file_type == FileType::Directory })
    }

    pub(crate) fn names_changed(&self, root: &NodeRef, dir: &NodeRef, changes: &[Change<'_>], is_dir: bool) {
        self.changed(root, dir, changes, ChangeMask::names(is_dir));
    }

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

    pub(crate) fn directory_removed(&self, key: &FileKey) {
        if !self.is_any() {
            return;
        }
        for watched in self.watchers(key).iter() {
            let mut buffer = watched.buffer.lock();
            watched.overflow(&mut buffer);
            buffer.is_gone = true;
            drop(buffer);
            (watched.on_events)();
        }
    }

    pub(crate) fn removed(&self, root: &NodeRef, dir: &NodeRef, name: &[u8], child: Option<Child>) {
        let Some(child) = child else { return };
        if child.is_dir {
            self.directory_removed(&child.key);
        }
        self.names_changed(root, dir, &[(Action::Removed, name)], child.is_dir);
    }

    /// Notifies watches of a rename: `moved` was `from` and is `to` now; `replaced` had the name `to` before.
    pub(crate) fn renamed(
        &self,
        root: &NodeRef,
        from: NameInDir<'_>,
        to: NameInDir<'_>,
        moved: Option<Child>,
        replaced: Option<Child>,
    ) {
        let Some(moved) = moved else { return };
        // Two names of one file: nothing happens.
        if replaced.as_ref().is_some_and(|replaced| replaced.key == moved.key) {
            return;
        }
        self.removed(root, to.dir, to.name, replaced);
        if from.dir.key() == to.dir.key() {
            let changes = [(Action::OldName, from.name), (Action::NewName, to.name)];
            return self.names_changed(root, from.dir, &changes, moved.is_dir);
        }
        self.names_changed(root, from.dir, &[(Action::Removed, from.name)], moved.is_dir);
        self.names_changed(root, to.dir, &[(Action::Added, to.name)], moved.is_dir);
    }

    fn watchers(&self, key: &FileKey) -> Watchers {
        self.table.lock().watched.get(key).cloned().unwrap_or_default()
    }

    /// Queues changes for the watches of a directory. `ancestors` are the directories between it and the change, so
    /// only watches of trees match unless there are none.
    fn push(
        &self,
        key: &FileKey,
        ancestors: &[Ancestor],
        above: &[u8],
        changes: &[Change<'_>],
        what: ChangeMask,
    ) {
        let is_wanted = |watched: &&Arc<WatchEntry>| {
            (watched.filter.is_tree || ancestors.is_empty())
                && watched.filter.what.intersects(what)
                && may_see(&watched.filter.caller, ancestors)
        };
        self.watchers(key).iter().filter(is_wanted).for_each(|watched| watched.push(above, changes));
    }

    /// Queues changes in `dir` for the watches of the trees that contain it.
    fn climb(&self, root: &NodeRef, dir: &NodeRef, changes: &[Change<'_>], what: ChangeMask) -> FsResult<()> {
        let (root, mut node) = (root.key(), NodeRef::clone(dir));
        let (mut path, mut ancestors) = (Vec::new(), Vec::new());
        for _ in 0..DEPTH_MAX {
            if node.key() == root {
                return Ok(());
            }
            ancestors.push(self.ancestor(&node)?);
            let above = node.parent()?.node;
            let name = self.name_in(&above, &node)?;
            path = if path.is_empty() { name.to_vec() } else { [&name, &b"/"[..], &path].concat() };
            self.push(&above.key(), &ancestors, &path, changes, what);
            node = above;
        }
        Err(FsError::NameTooLong)
    }

    fn ancestor(&self, dir: &NodeRef) -> FsResult<Ancestor> {
        let attrs = dir.attrs(Blocking::Allowed)?;
        let (acl, posix_acl) = match (self.style, dir.acls()) {
            (SecurityStyle::Unix, None) => (None, None),
            (SecurityStyle::Unix, Some(acls)) => (None, acls.access_acl(&attrs, Blocking::Allowed)?),
            (SecurityStyle::Ntfs, _) => (Some(list_of(dir, &attrs)?), None),
        };
        Ok(Ancestor { attrs, acl, posix_acl })
    }

    fn name_in(&self, above: &NodeRef, dir: &NodeRef) -> FsResult<Box<[u8]>> {
        let (key, above_key) = (dir.key(), above.key());
        let has_it = |name: &[u8]| -> FsResult<bool> {
            let name = Name::new(name)?;
            Ok(above.lookup(name, Blocking::Allowed)?.node.key() == key)
        };
        let cached = self.table.lock().names.get(&key).cloned();
        if let Some((_, name)) = cached.filter(|(known_above, _)| *known_above == above_key)
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

    /// Makes all watches of trees list them.
    fn overflow_trees(&self) {
        let trees = Arc::clone(&self.table.lock().trees);
        for watched in trees.iter() {
            watched.overflow(&mut watched.buffer.lock());
            (watched.on_events)();
        }
    }
}

/// A directory between a watched tree and a change.
struct Ancestor {
    attrs: Attrs,
    /// Set where access control lists rule.
    acl: Option<Acl>,
    /// Set where mode bits rule.
    posix_acl: Option<Arc<PosixAcl>>,
}

impl Ancestor {
    fn grants(&self, caller: &Caller, access: Access, right: Rights) -> bool {
        match &self.acl {
            Some(acl) => acl.granted(&self.attrs, caller).has(right),
            None => access::check(&self.attrs, self.posix_acl.as_deref(), caller, access).is_ok(),
        }
    }
}

/// Whether a caller may list the first of these directories and traverse the others.
fn may_see(caller: &Caller, ancestors: &[Ancestor]) -> bool {
    ancestors.iter().all(|ancestor| ancestor.grants(caller, Access::EXECUTE, Rights::EXECUTE))
        && ancestors.first().is_none_or(|ancestor| ancestor.grants(caller, Access::READ, Rights::READ))
}

#[cfg(test)]
mod tests;
