//! One file of a [`super::MemFs`], as the seam sees it.

use super::Shared;
use super::pages::Pages;
use super::store::{Body, DOT, DOT_DOT, Entries, Object, Range, Store};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::backend::acls::Acls;
use vfs::backend::ranges::Ranges;
use vfs::backend::xattrs::Xattrs;
use vfs::backend::{
    AuthorizeCreate, AuthorizeLink, AuthorizeRemove, AuthorizeRename, AuthorizeSetattr, AuthorizeWrite,
    Blocking, CreatedEntry, Entry, EntryRef, EntrySink, Lookup, Node, NodeRef, Special, SyncScope,
};
use vfs::error::{FsError, FsResult};
use vfs::file_key::FileKey;
use vfs::model::attrs::{Attrs, Change, FileType, Time};
use vfs::model::name::LINK_BYTES_MAX;
use vfs::model::name::Name;

/// Entries copied from a directory at a time, so that a sink never runs under the lock.
const BATCH: usize = 64;

/// A file, by its number alone. Two nodes with one number behave as one.
pub(super) struct MemNode {
    pub(super) fs: Arc<Shared>,
    pub(super) id: u64,
}

/// The number in a key: `m` and eight bytes, big-endian.
pub(super) fn id_of(key: &FileKey) -> FsResult<u64> {
    let Some((b'm', id)) = key.bytes().split_first() else { return Err(FsError::BadHandle) };
    id.try_into().map(u64::from_be_bytes).map_err(|_| FsError::BadHandle)
}

fn key_of(id: u64) -> FileKey {
    let mut bytes = [b'm'; 9];
    bytes[1..].copy_from_slice(&id.to_be_bytes());
    FileKey::new(&bytes).expect("nine bytes are a key")
}

impl MemNode {
    pub(super) fn node_ref(fs: &Arc<Shared>, id: u64) -> NodeRef {
        Arc::new(Self { fs: fs.clone(), id })
    }

    /// The number of another node; an error if it belongs to another volume.
    fn peer(&self, node: &NodeRef) -> FsResult<u64> {
        let node: &dyn Any = &**node;
        match node.downcast_ref::<Self>() {
            Some(peer) if Arc::ptr_eq(&self.fs, &peer.fs) => Ok(peer.id),
            _ => Err(FsError::CrossVolume),
        }
    }

    fn found(&self, store: &Store, id: u64) -> FsResult<Lookup> {
        Ok(Lookup { node: Self::node_ref(&self.fs, id), attrs: store.inode(id)?.attrs() })
    }

    /// Runs `act`, which is given the attributes of this file and changes it, at one moment.
    pub(super) fn change<T>(
        &self,
        act: impl FnOnce(&mut Store, &Attrs, Time) -> FsResult<T>,
    ) -> FsResult<(T, Change)> {
        let mut store = self.fs.lock();
        let now = (self.fs.clock)();
        let done = store.changing(self.id, |store, before| act(store, before, now))?;
        store.note_excess(now);
        Ok(done)
    }

    /// Runs `act`, which gives an object a name in this directory and returns the object's number.
    fn add(&self, act: impl FnOnce(&mut Store, &Attrs, Time) -> FsResult<u64>) -> FsResult<CreatedEntry> {
        let (found, dir) = self.change(|store, before, now| {
            let id = act(store, before, now)?;
            self.found(store, id)
        })?;
        Ok(CreatedEntry { found, dir })
    }

    /// Makes an object and its name in this directory.
    fn make(
        &self,
        name: Name<'_>,
        authorize: AuthorizeCreate<'_>,
        object: impl FnOnce() -> FsResult<Object>,
    ) -> FsResult<CreatedEntry> {
        self.add(|store, before, now| {
            let new_inode = authorize(before)?;
            new_inode.check_ids()?;
            let object = object()?;
            let file_type = object.file_type;
            let new_inode = self.fs.masked(self.id, file_type, new_inode);
            let id = store.make(self.id, name, object, &new_inode, now)?;
            self.fs.inherit(self.id, id, file_type, new_inode.mode);
            Ok(id)
        })
    }

    fn take(&self, name: Name<'_>, directory: bool, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        let take = |store: &mut Store, before: &Attrs, now| {
            authorize(&EntryRef { dir: before, object: &|| store.child_attrs(self.id, name) })?;
            store.remove(self.id, name, directory, now)
        };
        Ok(self.change(take)?.1)
    }

    /// The next entries after `cookie`.
    fn batch(&self, cookie: u64, plus: bool) -> FsResult<Vec<Listed>> {
        let store = self.fs.lock();
        let entries = store.entries(self.id)?;
        let dots = [(DOT, b".".as_slice(), self.id), (DOT_DOT, b"..".as_slice(), entries.parent)];
        let dots = dots.into_iter().filter(|&(dot, ..)| dot > cookie);
        let Some(next) = cookie.checked_add(1) else { return Ok(Vec::new()) };
        let named = entries.order.range(next..).map(|(&cookie, (name, id))| (cookie, &**name, *id));
        let listed = dots.chain(named).take(BATCH).map(|(cookie, name, id)| {
            let object = if plus && cookie != DOT_DOT {
                store.inode(id).ok().map(|inode| (key_of(id), inode.attrs()))
            } else {
                None
            };
            Listed { name: name.into(), id, cookie, object }
        });
        Ok(listed.collect())
    }
}

struct Listed {
    name: Vec<u8>,
    id: u64,
    cookie: u64,
    object: Option<(FileKey, Attrs)>,
}

impl Node for MemNode {
    fn key(&self) -> FileKey {
        key_of(self.id)
    }

    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs> {
        self.fs.check_pace(blocking)?;
        Ok(self.fs.lock().inode(self.id)?.attrs())
    }

    fn change_attrs(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change> {
        let set = |store: &mut Store, before: &Attrs, now| store.set_attrs(self.id, &authorize(before)?, now);
        Ok(self.change(set)?.1)
    }

    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        self.fs.check_pace(blocking)?;
        let mut store = self.fs.lock();
        let now = (self.fs.clock)();
        let inode = store.inode_mut(self.id)?;
        let count = match &inode.body {
            Body::Regular(pages) => pages.read(offset, len, into),
            Body::Directory(_) => return Err(FsError::IsDirectory),
            Body::Symlink(_) | Body::Special => return Err(FsError::Invalid),
        };
        if len > 0 {
            inode.mark_read(now);
        }
        Ok(count)
    }

    fn descriptor(&self, _offset: u64, _len: usize, _blocking: Blocking) -> Option<Arc<OwnedFd>> {
        None
    }

    fn write(&self, offset: u64, data: &[u8], authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        let write = |store: &mut Store, before: &Attrs, now| {
            store.write(self.id, offset, data, || authorize(before), now)
        };
        Ok(self.change(write)?.1)
    }

    fn reserve(&self, offset: u64, len: usize, authorize: AuthorizeWrite<'_>) -> FsResult<()> {
        let mut store = self.fs.lock();
        let before = store.inode(self.id)?.attrs();
        let now = (self.fs.clock)();
        store.reserve(Range { id: self.id, offset, len }, || authorize(&before), now)
    }

    fn release(&self, offset: u64, len: usize) {
        self.fs.lock().release(Range { id: self.id, offset, len });
    }

    fn pin(&self) {
        self.fs.lock().pin(self.id);
    }

    fn unpin(&self) {
        self.fs.lock().unpin(self.id);
    }

    fn sync(&self, scope: SyncScope) -> FsResult<()> {
        self.fs.lock().sync(self.id, scope == SyncScope::All)
    }

    fn read_link(&self) -> FsResult<Vec<u8>> {
        let mut store = self.fs.lock();
        let now = (self.fs.clock)();
        let inode = store.inode_mut(self.id)?;
        let Body::Symlink(target) = &inode.body else { return Err(FsError::Invalid) };
        let target = target.clone();
        inode.mark_read(now);
        Ok(target)
    }

    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup> {
        self.fs.check_pace(blocking)?;
        let store = self.fs.lock();
        let id = store.child(self.id, name)?;
        self.found(&store, id)
    }

    fn parent(&self) -> FsResult<Lookup> {
        let store = self.fs.lock();
        let id = store.entries(self.id)?.parent;
        self.found(&store, id)
    }

    fn read_dir(&self, mut cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool> {
        loop {
            let batch = self.batch(cookie, plus)?;
            let Some(last) = batch.last() else { break };
            cookie = last.cookie;
            for Listed { name, id, cookie, object } in &batch {
                let object = object.as_ref().map(|(key, attrs)| (key, attrs));
                let entry = Entry { name, file_id: *id, cookie: *cookie, object };
                if sink(&entry).is_break() {
                    return Ok(false);
                }
            }
        }
        let mut store = self.fs.lock();
        let now = (self.fs.clock)();
        store.inode_mut(self.id)?.mark_read(now);
        Ok(true)
    }

    fn create(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        self.make(name, authorize, || Ok(Object::new(FileType::Regular, Body::Regular(Pages::default()))))
    }

    fn make_dir(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry> {
        let body = || Body::Directory(Entries::new(self.id));
        self.make(name, authorize, || Ok(Object::new(FileType::Directory, body())))
    }

    fn make_special(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry> {
        self.make(name, authorize, || {
            Ok(match special {
                Special::Symlink(b"") => return Err(FsError::Invalid),
                Special::Symlink(target) if target.len() > LINK_BYTES_MAX => {
                    return Err(FsError::NameTooLong);
                }
                Special::Symlink(target) => Object::new(FileType::Symlink, Body::Symlink(target.into())),
                Special::Fifo => Object::new(FileType::Fifo, Body::Special),
                Special::Socket => Object::new(FileType::Socket, Body::Special),
                Special::Block(device) => Object { file_type: FileType::Block, device, body: Body::Special },
                Special::Character(device) => {
                    Object { file_type: FileType::Character, device, body: Body::Special }
                }
            })
        })
    }

    fn link(&self, name: Name<'_>, target: &NodeRef, authorize: AuthorizeLink<'_>) -> FsResult<CreatedEntry> {
        let target = self.peer(target)?;
        self.add(|store, before, now| {
            authorize(before)?;
            store.link(self.id, name, target, now)?;
            Ok(target)
        })
    }

    fn remove(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.take(name, false, authorize)
    }

    fn remove_dir(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change> {
        self.take(name, true, authorize)
    }

    fn rename(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)> {
        let to_id = self.peer(to_dir)?;
        let (to_change, change) = self.change(|store, before, now| {
            let act = |store: &mut Store, to_before: &Attrs| {
                authorize(
                    &EntryRef { dir: before, object: &|| store.child_attrs(self.id, from) },
                    &EntryRef { dir: to_before, object: &|| store.child_attrs(to_id, to) },
                )?;
                store.rename(self.id, from, to_id, to, now)
            };
            Ok(store.changing(to_id, act)?.1)
        })?;
        Ok((change, to_change))
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        if self.fs.bare.load(Ordering::Relaxed) { None } else { Some(self) }
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn acls(&self) -> Option<&dyn Acls> {
        Some(self)
    }
}
