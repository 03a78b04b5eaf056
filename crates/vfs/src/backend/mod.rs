//! What a storage backend promises: the two traits every backend implements and the conformance suite tests.
//!
//! A [`Backend`] is one volume's storage; a [`Node`] is one file of it. Both are blocking and object-safe. They know
//! nothing of callers: permissions, squashing and limits are decided above them, in [`crate::File`].

pub mod acls;
pub mod capabilities;
pub mod charge;
pub mod durability;
pub mod provisioner;
pub mod ranges;
pub(crate) mod stored_acl;
pub mod xattrs;

use crate::error::{FsError, FsResult};
use crate::file_key::FileKey;
use crate::model::attrs::{Attrs, Change, Device, FsLimits, FsStat, SetAttrs, Time};
use crate::model::name::Name;
use acls::Acls;
use capabilities::Capabilities;
use ranges::Ranges;
use std::any::Any;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use xattrs::Xattrs;

/// A file of a backend.
pub type NodeRef = Arc<dyn Node>;

/// Whether a call may wait for storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// Answer from memory or say [`crate::FsError::Wait(Wait::Storage)`]; no side effect before that.
    Never,
    /// Wait as long as the storage needs.
    Allowed,
}

/// How much of a file a [`Node::sync`] makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncScope {
    /// Contents, and what is needed to read them back (`fdatasync`).
    Data,
    /// Contents and all attributes; of a directory, its entries (`fsync`).
    All,
}

/// What a new object is created with, so that no half-made object is ever seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// Mode bits (`0o7777`); no umask applies.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group. A set-group-id directory's group has been put here by the caller of the backend.
    pub gid: u32,
    /// Access and modification time, if they shall not be now (the verifier of an exclusive create).
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

/// What to make besides regular files and directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special<'a> {
    /// A symbolic link to this target (1 to [`crate::model::name::LINK_BYTES_MAX`] bytes, no NUL).
    Symlink(&'a [u8]),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device.
    Block(Device),
    /// A character device.
    Character(Device),
}

/// What a successful look-up or creation found.
pub struct Lookup {
    /// The object.
    pub node: NodeRef,
    /// Its attributes.
    pub attrs: Attrs,
}

/// A made or removed entry and what that did to its directory.
pub struct CreatedEntry {
    /// The new object.
    pub found: Lookup,
    /// The directory before and after.
    pub dir: Change,
}

/// One entry of a directory.
pub struct Entry<'a> {
    /// Its name; `.` and `..` come as such, so this is no [`Name`].
    pub name: &'a [u8],
    /// Its file number. Of `..` in the root: the root's own.
    pub file_id: u64,
    /// Where a later listing goes on after this entry: never 0, stable while the entry exists, whatever else changes.
    pub cookie: u64,
    /// Key and attributes, if they were asked for and could be had (not for `..`, nor for what is mounted on top).
    pub object: Option<(&'a FileKey, &'a Attrs)>,
}

/// Decides whether a write to a file with these attributes may take place, and if so, whether it takes the set-id bits
/// away.
pub type AuthorizeWrite<'a> = &'a dyn Fn(&Attrs) -> FsResult<bool>;
/// Allows every write and leaves the set-id bits.
pub const KEEP_SET_ID: AuthorizeWrite<'static> = &|_| Ok(false);
/// Allows every write and takes the set-id bits away.
pub const CLEAR_SET_ID: AuthorizeWrite<'static> = &|_| Ok(true);

/// Decides what to set of a file with these attributes.
pub type AuthorizeSetattr<'a> = &'a dyn Fn(&Attrs) -> FsResult<SetAttrs>;

/// Decides whether something may be created in a directory with these attributes, and what it gets.
pub type AuthorizeCreate<'a> = &'a dyn Fn(&Attrs) -> FsResult<NewInode>;

/// Decides whether a directory with these attributes may get a further name for a file.
pub type AuthorizeLink<'a> = &'a dyn Fn(&Attrs) -> FsResult<()>;

/// A name that is to go away or to mean something else.
pub struct EntryRef<'a> {
    /// The attributes of its directory.
    pub dir: &'a Attrs,
    /// Looks up the attributes of what has the name now, for whom those of the directory are not enough.
    pub object: &'a dyn Fn() -> FsResult<Attrs>,
}

/// Decides whether a name may be removed.
pub type AuthorizeRemove<'a> = &'a dyn Fn(&EntryRef<'_>) -> FsResult<()>;

/// Decides whether what has the first name may get the second.
pub type AuthorizeRename<'a> = &'a dyn Fn(&EntryRef<'_>, &EntryRef<'_>) -> FsResult<()>;

/// Takes entries until it has enough. `Break` means that the entry did not fit and was not taken.
pub type EntrySink<'s> = dyn FnMut(&Entry<'_>) -> ControlFlow<()> + 's;
/// Which names a listing is to have.
pub type NameFilter<'f> = &'f dyn Fn(&[u8]) -> bool;

/// The storage of one volume.
pub trait Backend: Send + Sync {
    /// The root directory.
    fn root(&self) -> NodeRef;

    /// The file of a key. [`crate::FsError::Stale`] if it is gone, [`crate::FsError::BadHandle`] if no key of this
    /// backend looks like that.
    fn node(&self, key: &FileKey, blocking: Blocking) -> FsResult<NodeRef>;

    /// Capacity and free space.
    fn stat(&self) -> FsResult<FsStat>;

    /// What never changes.
    fn limits(&self) -> FsLimits;

    /// What it can do besides.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Makes everything durable that was acknowledged so far, wherever it is.
    fn sync(&self) -> FsResult<()>;

    /// How many flushes have failed: after each of them, unstable data may be lost. A failure is counted before the next
    /// flush of the same file begins, so whoever asks after a flush that succeeded knows of every failure before it.
    fn flush_failures(&self) -> u64;

    /// Whether the file of a key is gone for certain: what belongs to it is removed then. A file that is not found may be there all the
    /// same, and a key that another file system has made says nothing of this one.
    fn is_removed(&self, key: &FileKey) -> bool {
        matches!(self.node(key, Blocking::Allowed), Err(FsError::Stale))
    }

    /// Whether reading with [`Blocking::Never`] succeeds wherever memory has the data. Storage that cannot
    /// tell says [`crate::FsError::Wait(Wait::Storage)`] to every such read, which then says nothing.
    fn knows_memory(&self) -> bool {
        true
    }
}

/// One file of a backend: regular, directory, or other.
///
/// Two look-ups of the same file yield the same `Node` as long as one of them is held, or nodes that behave as one.
/// Every mutation returns attributes from just before and just after with no other mutation through this backend in
/// between. A mutation is visible at once and durable after [`Node::sync`] of the object the verb names below.
///
/// A mutation asks for its caller's decision with the attributes that it begins with and returns as `before`: nothing
/// lies between the answer and the change, and after a refusal nothing has changed. Where a name is made, removed or
/// moved, only [`crate::FsError::Stale`] comes before this refusal. The answer is given under the backend's locks, so it
/// must not call the backend, but for lists of POSIX ([`Acls`]).
///
/// An answer with [`crate::model::caller::INVALID_ID`] as user or group is [`crate::FsError::Invalid`], as a refusal. What a verb has made or set
/// belongs to whom the answer says: where the storage cannot do that, the verb fails, and nothing new is left.
pub trait Node: Any + Send + Sync {
    /// The key that finds this file again.
    fn key(&self) -> FileKey;

    /// The attributes now. [`crate::FsError::Stale`] once the file has no name left, unless somebody has it pinned.
    fn attrs(&self, blocking: Blocking) -> FsResult<Attrs>;

    /// The size now of a regular file; cheaper than all attributes where the storage can tell.
    fn size(&self, blocking: Blocking) -> FsResult<u64> {
        Ok(self.attrs(blocking)?.size)
    }

    /// Sets attributes, all or (on an error) possibly some. Durable after `sync(All)` of this node.
    /// A new size needs a regular file: [`crate::FsError::IsDirectory`] for a directory, else [`crate::FsError::Invalid`].
    fn change_attrs(&self, authorize: AuthorizeSetattr<'_>) -> FsResult<Change>;

    /// [`Node::change_attrs`], whatever the attributes are.
    fn set_attrs(&self, set: &SetAttrs) -> FsResult<Change> {
        self.change_attrs(&|_| Ok(*set))
    }

    /// Appends up to `len` bytes at `offset` to `into` and returns how many; fewer only at the end of the file. After an
    /// error `into` is as before. The buffer grows by what is read, so nobody has to fill it with zeros first.
    fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize>;

    /// A descriptor from which `len` bytes at `offset` can be spliced; with [`Blocking::Never`] only if all
    /// of them are in memory. `None`: use [`Node::read`].
    fn descriptor(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>>;

    /// Writes all of `data` at `offset`, or fails. Durable after `sync(Data)` of this node.
    fn write(&self, offset: u64, data: &[u8], authorize: AuthorizeWrite<'_>) -> FsResult<Change>;

    /// As [`Node::write`], for the `len` bytes that `pipe` holds. After an error some of them may still be in it.
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

    /// Takes what a write of `len` bytes at `offset` in several parts needs, so that none of them is refused for want of
    /// room, or refuses it as [`Node::write`] refuses the whole. What is in the file does not change. Each success is to be
    /// followed by one [`Node::release`] of the same range.
    fn reserve(&self, offset: u64, len: usize, authorize: AuthorizeWrite<'_>) -> FsResult<()>;

    /// Gives back what of a [`Node::reserve`] was not used.
    fn release(&self, offset: u64, len: usize);

    /// Keeps the file and its data even without a name, until [`Node::unpin`] was called as often: who has it open goes on as if it
    /// had one. A file that is gone already stays gone.
    fn pin(&self);

    /// Ends a [`Node::pin`], without waiting for storage: what a file without a name took is free soon after its last one.
    fn unpin(&self);

    /// Makes this file durable. Callers that come while a flush runs share the next one.
    fn sync(&self, scope: SyncScope) -> FsResult<()>;

    /// The target of a symbolic link; [`crate::FsError::Invalid`] for anything else.
    fn read_link(&self) -> FsResult<Vec<u8>>;

    /// The object of a name in this directory. What is mounted on top of it is not crossed
    /// ([`crate::FsError::CrossVolume`]).
    fn lookup(&self, name: Name<'_>, blocking: Blocking) -> FsResult<Lookup>;

    /// The directory that holds this directory; of the root, the root.
    fn parent(&self) -> FsResult<Lookup>;

    /// Lists entries after `cookie` (0: from the start), with key and attributes if `plus`. True if the end was
    /// reached; false if `sink` had enough.
    fn read_dir(&self, cookie: u64, plus: bool, sink: &mut EntrySink<'_>) -> FsResult<bool>;

    /// The same of the entries alone whose names are `wanted`. A backend that looks for key and attributes entry by entry does so for
    /// these only.
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

    /// Makes a directory.
    fn make_dir(&self, name: Name<'_>, authorize: AuthorizeCreate<'_>) -> FsResult<CreatedEntry>;

    /// Makes a symbolic link, FIFO, socket or device.
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

    /// Removes an empty directory.
    fn remove_dir(&self, name: Name<'_>, authorize: AuthorizeRemove<'_>) -> FsResult<Change>;

    /// Moves `from` in this directory to `to` in `to_dir` (perhaps this one), replacing what has that name as
    /// rename(2) does. The changes are of this directory and of `to_dir`. Durable after `sync(All)` of both.
    fn rename(
        &self,
        from: Name<'_>,
        to_dir: &NodeRef,
        to: Name<'_>,
        authorize: AuthorizeRename<'_>,
    ) -> FsResult<(Change, Change)>;

    /// Its extended attributes, if the storage keeps any.
    fn xattrs(&self) -> Option<&dyn Xattrs> {
        None
    }

    /// Its ranges, if the storage knows of any.
    fn ranges(&self) -> Option<&dyn Ranges> {
        None
    }

    /// Its lists of POSIX, if the storage keeps any.
    fn acls(&self) -> Option<&dyn Acls> {
        None
    }
}
