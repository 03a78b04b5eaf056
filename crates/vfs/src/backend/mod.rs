//! The two traits of a storage backend, which every backend implements and the conformance suite tests.
//!
//! A [`Backend`] is one volume's storage; a [`Node`] is one file of it. Both are blocking and object-safe. They know
//! nothing of callers: permissions, squashing and limits are decided above them, in [`crate::File`].

pub mod acls;
mod blocking;
pub mod capabilities;
pub mod charge;
pub mod durability;
pub(crate) mod placeholder;
pub mod provisioner;
pub mod quotas;
pub mod ranges;
pub mod snapshots;
pub(crate) mod stored_acl;
pub mod xattrs;

use crate::error::{FsError, FsResult};
use crate::file_key::FileKey;
use crate::model::attrs::{Attrs, Change, Device, FsLimits, FsStat, SetAttrs, Time};
use crate::model::name::Name;
use acls::Acls;
pub use blocking::Blocking;
use capabilities::Capabilities;
use quotas::Quotas;
use ranges::Ranges;
use snapshots::Snapshots;
use std::any::Any;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use xattrs::Xattrs;

pub type NodeRef = Arc<dyn Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncScope {
    /// Contents, and the metadata to read them back (`fdatasync`).
    Data,
    /// Contents and all attributes; of a directory, its entries (`fsync`).
    All,
}

/// Attributes with which a new object is created, so that no half-made object is ever visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// Mode bits (`0o7777`); no umask applies.
    pub mode: u32,
    pub uid: u32,
    /// Group. A set-group-id directory's group has been put here by the caller of the backend.
    pub gid: u32,
    /// Access and modification time; `None` for now. An exclusive create stores its verifier here.
    pub times: Option<(Time, Time)>,
    /// Size of a regular file, which begins as a hole; 0 for everything else.
    pub size: u64,
}

impl NewInode {
    /// [`FsError::Invalid`] if user or group is none ([`crate::model::caller::INVALID_ID`]).
    pub fn check_ids(&self) -> FsResult<()> {
        SetAttrs { uid: Some(self.uid), gid: Some(self.gid), ..SetAttrs::default() }.check_ids()
    }
}

/// The kind of an object that is neither a regular file nor a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special<'a> {
    /// A symbolic link to this target (1 to [`crate::model::name::LINK_BYTES_MAX`] bytes, no NUL).
    Symlink(&'a [u8]),
    Fifo,
    Socket,
    Block(Device),
    Character(Device),
}

/// The object of a successful lookup or creation.
pub struct Lookup {
    pub node: NodeRef,
    pub attrs: Attrs,
}

pub struct CreatedEntry {
    pub found: Lookup,
    pub dir: Change,
}

pub struct Entry<'a> {
    /// The name. Includes `.` and `..`, so this is not a [`Name`].
    pub name: &'a [u8],
    /// The file number; the root itself for `..` in the root.
    pub file_id: u64,
    /// The position of a listing after this entry: never 0, and stable while the entry exists.
    pub cookie: u64,
    /// Key and attributes, if requested and available (not for `..`, nor for a mount point).
    pub object: Option<(&'a FileKey, &'a Attrs)>,
}

/// Decides whether a write to a file with these attributes may take place, and if so, whether it takes the set-id bits
/// away.
pub type AuthorizeWrite<'a> = &'a dyn Fn(&Attrs) -> FsResult<bool>;
/// Allows every write and preserves the set-id bits.
pub const KEEP_SET_ID: AuthorizeWrite<'static> = &|_| Ok(false);
/// Allows every write and clears the set-id bits.
pub const CLEAR_SET_ID: AuthorizeWrite<'static> = &|_| Ok(true);

/// Decides the changes of a file with these attributes.
pub type AuthorizeSetattr<'a> = &'a dyn Fn(&Attrs) -> FsResult<SetAttrs>;

/// Decides whether an object may be created in a directory with these attributes, and returns the object's attributes.
pub type AuthorizeCreate<'a> = &'a dyn Fn(&Attrs) -> FsResult<NewInode>;

/// Decides whether a directory with these attributes may get a further name for a file.
pub type AuthorizeLink<'a> = &'a dyn Fn(&Attrs) -> FsResult<()>;

/// An entry that is to be removed or replaced.
pub struct EntryRef<'a> {
    pub dir: &'a Attrs,
    /// Looks up the attributes of the object that has the name now. Call it only if those of the directory do not
    /// decide.
    pub object: &'a dyn Fn() -> FsResult<Attrs>,
}

pub type AuthorizeRemove<'a> = &'a dyn Fn(&EntryRef<'_>) -> FsResult<()>;

/// Decides whether the object of the first name may get the second.
pub type AuthorizeRename<'a> = &'a dyn Fn(&EntryRef<'_>, &EntryRef<'_>) -> FsResult<()>;

/// Takes entries until it has enough. `Break` means that the entry did not fit and was not taken.
pub type EntrySink<'s> = dyn FnMut(&Entry<'_>) -> ControlFlow<()> + 's;
pub type NameFilter<'f> = &'f dyn Fn(&[u8]) -> bool;

pub trait Backend: Send + Sync {
    fn root(&self) -> NodeRef;

    /// The file of a key. [`crate::FsError::Stale`] if it is gone, [`crate::FsError::BadHandle`] if no key of this
    /// backend looks like that.
    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef>;

    fn stat(&self) -> FsResult<FsStat>;

    /// Limits that never change.
    fn limits(&self) -> FsLimits;

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Makes all acknowledged changes durable.
    fn sync(&self) -> FsResult<()>;

    /// The number of failed flushes; after each, unstable data may be lost. A failure is counted before the next flush
    /// of the same file begins, so a caller that reads this after a successful flush sees every earlier failure.
    fn flush_failures(&self) -> u64;

    /// Whether the file of a key is certainly deleted, so that its streams and records can be removed. A file that a
    /// lookup does not find may still exist, and a key of another file system says nothing about this one.
    fn is_removed(&self, key: &FileKey) -> bool {
        matches!(self.node(key, Blocking::Allowed), Err(FsError::Stale))
    }

    /// Whether a read with [`Blocking::Never`] succeeds whenever the data is in memory. A storage that cannot know
    /// returns `crate::FsError::Wait(Wait::Storage)` for every such read.
    fn knows_memory(&self) -> bool {
        true
    }

    /// Whether there are files to serve.
    fn has_files(&self) -> bool {
        true
    }

    /// Whether nobody can change its files. Exports of it are read-only for everyone.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The snapshots of the volume; `None` if the storage can make none.
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        None
    }

    /// The quotas of users and groups; `None` if the storage does not count by owner.
    fn quotas(&self) -> Option<&dyn Quotas> {
        None
    }
}

/// One file of a backend: regular, directory, or other.
///
/// Two lookups of the same file return the same `Node` while one of them is in use, or nodes that behave as one. Every
/// mutation returns attributes from just before and just after, with no other mutation through this backend in between.
/// A mutation is visible immediately and durable after [`Node::sync`] of the object that the method names.
///
/// A mutation calls its caller's closure with the attributes that it begins with and returns as `before`. Nothing
/// happens between the answer and the change, and after a refusal nothing has changed. Where a name is made, removed or
/// moved, only [`crate::FsError::Stale`] precedes this refusal. The closure runs under the backend's locks, so it must
/// not call the backend, except for POSIX ACLs ([`Acls`]).
///
/// An answer with [`crate::model::caller::INVALID_ID`] as user or group counts as a refusal with
/// [`crate::FsError::Invalid`]. A new object has the owner and group of the answer. Where the storage cannot set them,
/// the method fails and leaves nothing new.
pub trait Node: Any + Send + Sync {
    fn key(&self) -> FileKey;

    /// The attributes now. [`crate::FsError::Stale`] once the file has no name left, unless it is pinned.
    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs>;

    /// The size of a regular file; cheaper than all attributes on some storages.
    fn size(&self, blocking: Blocking) -> FsResult<u64> {
        Ok(self.attrs(blocking)?.size)
    }

    /// Sets attributes, all or (on an error) possibly some. Durable after `sync(All)` of this node.
    /// A new size needs a regular file: [`crate::FsError::IsDirectory`] for a directory, else [`crate::FsError::Invalid`].
    fn change_attrs(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change>;

    /// [`Node::change_attrs`] without a condition.
    fn set_attrs(&self, set: &SetAttrs) -> FsResult<Change> {
        self.change_attrs(&|_| Ok(*set))
    }

    /// Appends up to `len` bytes at `offset` to `into` and returns their number; fewer only at the end of the file.
    /// After an error `into` is unchanged. The buffer grows by the bytes read, so the caller need not fill it with
    /// zeros first.
    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize>;

    /// A descriptor from which `len` bytes at `offset` can be spliced; with [`Blocking::Never`] only if all
    /// of them are in memory. `None`: use [`Node::read`].
    fn descriptor(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>>;

    /// Writes all of `data` at `offset`, or fails. Durable after `sync(Data)` of this node.
    fn write(&self, offset: u64, data: &[u8], authorize: AuthorizeWrite<'_>) -> FsResult<Change>;

    /// Writes the `len` bytes that `pipe` holds, like [`Node::write`]. After an error some of them may remain in the
    /// pipe.
    fn write_from_pipe(
        &self,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<Change> {
        let mut data = vec![0; len];
        let mut source = std::fs::File::from(pipe.try_clone_to_owned().map_err(|_| FsError::Resource)?);
        source.read_exact(&mut data).map_err(|_| FsError::Io)?;
        self.write(offset, &data, authorize)
    }

    /// Reserves the space for a write of `len` bytes at `offset` in several parts, so that none of them fails for lack
    /// of space, or fails like [`Node::write`] of the whole. The contents do not change. Each success must be followed
    /// by one [`Node::release`] of the same range.
    fn reserve(&self, offset: u64, len: usize, authorize: AuthorizeWrite<'_>) -> FsResult<()>;

    /// Releases the unused part of a [`Node::reserve`].
    fn release(&self, offset: u64, len: usize);

    /// Preserves the file and its data even without a name, until an equal number of calls of [`Node::unpin`]. Opens of
    /// the file continue to work. A file that is already deleted stays deleted.
    fn pin(&self);

    /// Ends a [`Node::pin`], without waiting for storage: the space of a file without a name is free soon after its
    /// last pin.
    fn unpin(&self);

    /// Makes this file durable. Callers that come while a flush runs share the next one.
    fn sync(&self, scope: SyncScope) -> FsResult<()>;

    /// The target of a symbolic link; [`crate::FsError::Invalid`] for anything else.
    fn read_link(&self) -> FsResult<Vec<u8>>;

    /// The object of a name in this directory. What is mounted on top of it is not crossed
    /// ([`crate::FsError::CrossVolume`]).
    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup>;

    /// The parent of this directory; the root is its own parent.
    fn parent(&self) -> FsResult<Lookup>;

    /// Lists entries after `cookie` (0: from the start), with key and attributes if `plus`. True if the end was
    /// reached; false if `sink` had enough.
    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool>;

    /// Lists only the entries whose names are `wanted`. A backend that looks up key and attributes for each entry does
    /// so for these only.
    fn read_dir_of(
        &self,
        cookie: u64,
        plus: bool,
        wanted: NameFilter<'_>,
        sink: &mut EntrySink<'_>,
    ) -> FsResult<bool> {
        self.read_dir(cookie, plus, &mut |entry| match wanted(entry.name) {
            true => sink(entry),
            false => ControlFlow::Continue(()),
        })
    }

    /// Makes a regular file; [`crate::FsError::Exists`] if the name is taken. Durable after `sync(All)` of this
    /// directory, as for all that follow.
    fn create(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry>;

    fn make_dir(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry>;

    fn make_special(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        authorize: AuthorizeCreate<'_>,
    ) -> FsResult<CreatedEntry>;

    /// Gives `target` a further name in this directory. The attributes are `target`'s, after.
    fn link(&self, name: Name<'_>, target: &NodeRef, authorize: AuthorizeLink<'_>) -> FsResult<CreatedEntry>;

    /// Removes the name of anything but a directory ([`crate::FsError::IsDirectory`]).
    fn remove(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change>;

    fn remove_dir(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change>;

    /// Moves `from` in this directory to `to` in `to_dir` (perhaps this one), replacing the object of that name as
    /// rename(2) does. Returns the changes of this directory and of `to_dir`. Durable after `sync(All)` of both.
    fn rename(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)>;

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        None
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        None
    }

    fn acls(&self) -> Option<&dyn Acls> {
        None
    }
}
