//! Mounts, inodes, handles and directories, as owned values.

use super::calls::Calls;
use super::done;
use super::library::{Functions, functions};
use super::types::{
    ALL_STATS, DONT_SYNC, Directory, Fh, INODE_ONLY, MountInfo, RECLAIM_RESET, SetMask, Statx, UserPerm,
    VersionedInode,
};
use libc::{c_char, c_int, c_uint};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The options of a mount.
pub(crate) struct Settings<'s> {
    /// The name of the Ceph user, without `client.`.
    pub(crate) user: &'s CStr,
    /// The file with the addresses of the monitors, and the key or the path of its file.
    pub(crate) conf: &'s CStr,
    /// The file system; `None` for the default one.
    pub(crate) file_system: Option<&'s CStr>,
    pub(crate) options: &'s [(CString, CString)],
    /// The name of the session.
    pub(crate) uuid: &'s CStr,
    /// Whether a session of the same name that still lives, such as that of a crashed process, is ended.
    pub(crate) resets: bool,
}

/// A connection to one CephFS.
pub(crate) struct Client {
    functions: &'static Functions,
    mount: NonNull<MountInfo>,
    /// The superuser.
    root: Permissions,
    calls: Calls,
    /// The cluster has ended the session: every later call fails.
    has_ended: AtomicBool,
}

// SAFETY: every function of the library that receives the mount locks what it uses.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

struct Permissions {
    functions: &'static Functions,
    pointer: NonNull<UserPerm>,
}

impl Permissions {
    fn new(functions: &'static Functions, uid: u32, gid: u32) -> Result<Self, Errno> {
        // SAFETY: without groups the list is not read.
        let pointer = unsafe { (functions.userperm_new)(uid, gid, 0, null_mut()) };
        NonNull::new(pointer).map(|pointer| Self { functions, pointer }).ok_or(Errno::NOMEM)
    }

    fn as_ptr(&self) -> *const UserPerm {
        self.pointer.as_ptr()
    }
}

impl Drop for Permissions {
    fn drop(&mut self) {
        // SAFETY: made by userperm_new, destroyed once.
        unsafe { (self.functions.userperm_destroy)(self.pointer.as_ptr()) }
    }
}

/// The reason why a mount failed.
#[derive(Debug)]
pub(crate) struct MountError {
    pub(crate) step: &'static str,
    pub(crate) cause: String,
    /// Whether the metadata server refused the session. It does so while another one has the same name.
    pub(crate) is_rejected: bool,
}

impl MountError {
    fn new(step: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self { step, cause: std::io::Error::from(errno).to_string(), is_rejected: false }
    }

    /// An error that concerns the configuration file.
    fn of_conf(step: &'static str, settings: &Settings<'_>) -> impl Fn(Errno) -> Self {
        move |errno| {
            let error = Self::new(step)(errno);
            Self { cause: format!("{}: {}", settings.conf.to_string_lossy(), error.cause), ..error }
        }
    }
}

impl Client {
    /// Mounts the root of a file system.
    pub(crate) fn mount(settings: &Settings<'_>) -> Result<Arc<Self>, MountError> {
        let functions = functions().map_err(|cause| {
            let step = "cannot load libcephfs";
            MountError { step, cause: cause.to_owned(), is_rejected: false }
        })?;
        let root = Permissions::new(functions, 0, 0).map_err(MountError::new("out of memory"))?;
        let mut mount = null_mut();
        // SAFETY: the name is a string, and the result is written once.
        let made = unsafe { (functions.create)(&raw mut mount, settings.user.as_ptr()) };
        done(made).map_err(MountError::new("cannot make a client"))?;
        let mount =
            NonNull::new(mount).ok_or_else(|| MountError::new("cannot make a client")(Errno::NOMEM))?;
        let client =
            Arc::new(Self { functions, mount, root, calls: Calls::new(), has_ended: AtomicBool::new(false) });
        client.configure(settings)?;
        client.start(settings)?;
        Ok(client)
    }

    fn configure(&self, settings: &Settings<'_>) -> Result<(), MountError> {
        // SAFETY: strings that live through the calls.
        let read = unsafe { (self.functions.conf_read_file)(self.mount.as_ptr(), settings.conf.as_ptr()) };
        done(read).map_err(MountError::of_conf("cannot read the configuration of Ceph", settings))?;
        for (option, value) in settings.options {
            // SAFETY: as above.
            let set =
                unsafe { (self.functions.conf_set)(self.mount.as_ptr(), option.as_ptr(), value.as_ptr()) };
            done(set).map_err(MountError::new("cannot set an option of the client"))?;
        }
        Ok(())
    }

    fn start(&self, settings: &Settings<'_>) -> Result<(), MountError> {
        let (functions, mount) = (self.functions, self.mount.as_ptr());
        // SAFETY: the mount was created and configured, and is not initialized yet.
        done(unsafe { (functions.init)(mount) }).map_err(|errno| match errno {
            Errno::TIMEDOUT => MountError::of_conf("the monitors do not answer", settings)(errno),
            errno => MountError::of_conf("cannot log in to the Ceph cluster", settings)(errno),
        })?;
        if let Some(name) = settings.file_system {
            // SAFETY: a string that lives through the call.
            let selected = unsafe { (functions.select_filesystem)(mount, name.as_ptr()) };
            done(selected).map_err(MountError::new("cannot select the file system"))?;
        }
        if settings.resets {
            // SAFETY: the mount is initialized, and not mounted; the name is a string.
            let reset = unsafe { (functions.start_reclaim)(mount, settings.uuid.as_ptr(), RECLAIM_RESET) };
            match done(reset) {
                // No session has the name.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => {
                    return Err(MountError::new("cannot end the session of an earlier process")(errno));
                }
            }
            // SAFETY: as above.
            unsafe { (functions.finish_reclaim)(mount) };
        }
        // SAFETY: as above.
        unsafe { (functions.set_uuid)(mount, settings.uuid.as_ptr()) };
        // SAFETY: a null path is the root.
        done(unsafe { (functions.mount)(mount, null()) }).map_err(|errno| {
            let error = MountError::new("cannot mount")(errno);
            MountError { is_rejected: errno == Errno::PERM, ..error }
        })?;
        Ok(())
    }

    pub(crate) fn root(self: &Arc<Self>) -> Result<Inode, Errno> {
        let mut found = null_mut();
        // SAFETY: the result is written once.
        self.done(unsafe { (self.functions.ll_lookup_root)(self.mount.as_ptr(), &raw mut found) })?;
        self.inode(found)
    }

    /// The inode of a number; [`Errno::STALE`] if there is none.
    pub(crate) fn inode_of(self: &Arc<Self>, number: u64, snapshot: u64) -> Result<Inode, Errno> {
        let mut found = null_mut();
        let wanted = VersionedInode { number, snapshot };
        // SAFETY: the result is written once.
        self.done(unsafe { (self.functions.ll_lookup_vino)(self.mount.as_ptr(), wanted, &raw mut found) })?;
        self.inode(found)
    }

    /// Makes all changes of this client durable.
    pub(crate) fn sync(self: &Arc<Self>) -> Result<(), Errno> {
        // SAFETY: no other argument.
        self.done(unsafe { (self.functions.sync_fs)(self.mount.as_ptr()) })?;
        // After the end of a session it succeeds, though unwritten data is lost.
        self.root()?.attrs().map(drop)
    }

    /// Takes over the reference that the library has counted for the caller.
    fn inode(self: &Arc<Self>, pointer: *mut super::types::Inode) -> Result<Inode, Errno> {
        let pointer = NonNull::new(pointer).ok_or(Errno::STALE)?;
        Ok(Inode { client: Arc::clone(self), pointer })
    }

    fn raw(&self) -> *mut MountInfo {
        self.mount.as_ptr()
    }

    /// Whether a call has shown that the session is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The result of a call on a mount.
    fn done(&self, result: c_int) -> Result<usize, Errno> {
        let result = done(result);
        if matches!(result, Err(Errno::SHUTDOWN | Errno::NOTCONN)) {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        result
    }

    /// The time since the first call began that is still under way and may wait for a metadata server.
    pub(crate) fn longest_call(&self) -> std::time::Duration {
        self.calls.longest()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: nothing else has the mount, and inodes and handles hold the client. A mount that failed is only released.
        unsafe {
            (self.functions.unmount)(self.raw());
            (self.functions.release)(self.raw());
        }
    }
}

/// A reference to an inode.
pub(crate) struct Inode {
    client: Arc<Client>,
    pointer: NonNull<super::types::Inode>,
}

// SAFETY: the library locks its inodes.
unsafe impl Send for Inode {}
// SAFETY: as above.
unsafe impl Sync for Inode {}

impl Drop for Inode {
    fn drop(&mut self) {
        // SAFETY: this value has one reference, and puts it once.
        unsafe { (self.client.functions.ll_put)(self.client.raw(), self.raw()) };
    }
}

/// A new object.
pub(crate) struct Created {
    pub(crate) inode: Inode,
    pub(crate) stat: Statx,
}

/// An object to make.
#[derive(Clone, Copy)]
pub(crate) enum Object<'a> {
    Directory,
    Symlink(&'a CStr),
    /// A FIFO, a socket or a device: its type bits and its number.
    Special {
        kind: u32,
        device: u64,
    },
}

impl Inode {
    fn raw(&self) -> *mut super::types::Inode {
        self.pointer.as_ptr()
    }

    fn functions(&self) -> &'static Functions {
        self.client.functions
    }

    fn mount(&self) -> *mut MountInfo {
        self.client.raw()
    }

    fn root(&self) -> *const UserPerm {
        self.client.root.as_ptr()
    }

    pub(crate) fn is_of(&self, client: &Arc<Client>) -> bool {
        Arc::ptr_eq(&self.client, client)
    }

    /// [`Errno::SHUTDOWN`] unless both inodes are of one client: a connection has taken the place of another one meanwhile.
    fn check_same_client(&self, other: &Self) -> Result<(), Errno> {
        if self.is_of(&other.client) { Ok(()) } else { Err(Errno::SHUTDOWN) }
    }

    pub(crate) fn attrs(&self) -> Result<Statx, Errno> {
        let mut stat = Statx::default();
        let get = self.functions().ll_getattr;
        // SAFETY: the structure is written whole.
        let get = || unsafe { get(self.mount(), self.raw(), &raw mut stat, ALL_STATS, 0, self.root()) };
        self.client.done(self.client.calls.timed(get))?;
        Ok(stat)
    }

    pub(crate) fn set_attrs(&self, mask: SetMask, stat: &Statx) -> Result<(), Errno> {
        let mut stat = *stat;
        let set = self.functions().ll_setattr;
        // SAFETY: the structure is read, and outlives the call.
        self.client
            .done(
                self.client
                    .calls
                    .timed(|| unsafe { set(self.mount(), self.raw(), &raw mut stat, mask.0, self.root()) }),
            )
            .map(drop)
    }

    pub(crate) fn lookup(&self, name: &CStr) -> Result<(Self, Statx), Errno> {
        let (mut found, mut stat) = (null_mut(), Statx::default());
        let lookup = self.functions().ll_lookup;
        let (mount, raw, root) = (self.mount(), self.raw(), self.root());
        // SAFETY: the name is a string, and both results are written.
        let lookup = || unsafe {
            lookup(mount, raw, name.as_ptr(), &raw mut found, &raw mut stat, ALL_STATS, 0, root)
        };
        self.client.done(self.client.calls.timed(lookup))?;
        Ok((self.client.inode(found)?, stat))
    }

    /// Makes and opens a regular file.
    pub(crate) fn create(
        &self,
        name: &CStr,
        mode: u32,
        owners: (u32, u32),
    ) -> Result<(Created, Handle), Errno> {
        let permissions = Permissions::new(self.functions(), owners.0, owners.1)?;
        let (mut inode, mut handle, mut stat) = (null_mut(), null_mut(), Statx::default());
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        // SAFETY: the name is a string, and all results are written on success.
        let create = || unsafe {
            (self.functions().ll_create)(
                self.mount(),
                self.raw(),
                name.as_ptr(),
                mode,
                flags,
                &raw mut inode,
                &raw mut handle,
                &raw mut stat,
                ALL_STATS,
                0,
                permissions.as_ptr(),
            )
        };
        self.client.done(self.client.calls.timed(create))?;
        let handle = Handle::new(&self.client, handle)?;
        Ok((Created { inode: self.client.inode(inode)?, stat }, handle))
    }

    pub(crate) fn make(
        &self,
        name: &CStr,
        object: Object<'_>,
        mode: u32,
        owners: (u32, u32),
    ) -> Result<Created, Errno> {
        let permissions = Permissions::new(self.functions(), owners.0, owners.1)?;
        let (mut inode, mut stat) = (null_mut(), Statx::default());
        let (functions, mount, raw, name) = (self.functions(), self.mount(), self.raw(), name.as_ptr());
        let (made, seen, owner) = (&raw mut inode, &raw mut stat, permissions.as_ptr());
        // SAFETY: name and target are strings, and both results are written on success.
        let make = || unsafe {
            match object {
                Object::Directory => {
                    (functions.ll_mkdir)(mount, raw, name, mode, made, seen, ALL_STATS, 0, owner)
                }
                Object::Symlink(target) => {
                    (functions.ll_symlink)(mount, raw, name, target.as_ptr(), made, seen, ALL_STATS, 0, owner)
                }
                Object::Special { kind, device } => (functions.ll_mknod)(
                    mount,
                    raw,
                    name,
                    kind | mode,
                    device,
                    made,
                    seen,
                    ALL_STATS,
                    0,
                    owner,
                ),
            }
        };
        self.client.done(self.client.calls.timed(make))?;
        Ok(Created { inode: self.client.inode(inode)?, stat })
    }

    pub(crate) fn read_link(&self) -> Result<Vec<u8>, Errno> {
        let mut target = vec![0u8; 4096];
        let read = self.functions().ll_readlink;
        // SAFETY: the buffer has the length that is passed.
        let result =
            unsafe { read(self.mount(), self.raw(), target.as_mut_ptr().cast(), target.len(), self.root()) };
        target.truncate(self.client.done(result)?);
        Ok(target)
    }

    /// Gives this file a further name.
    pub(crate) fn link(&self, dir: &Self, name: &CStr) -> Result<(), Errno> {
        self.check_same_client(dir)?;
        let link = self.functions().ll_link;
        // SAFETY: the name is a string, and both inodes are of this client.
        self.client
            .done(
                self.client.calls.timed(|| unsafe {
                    link(self.mount(), self.raw(), dir.raw(), name.as_ptr(), self.root())
                }),
            )
            .map(drop)
    }

    pub(crate) fn unlink(&self, name: &CStr) -> Result<(), Errno> {
        let unlink = self.functions().ll_unlink;
        // SAFETY: the name is a string.
        self.client
            .done(
                self.client
                    .calls
                    .timed(|| unsafe { unlink(self.mount(), self.raw(), name.as_ptr(), self.root()) }),
            )
            .map(drop)
    }

    pub(crate) fn remove_dir(&self, name: &CStr) -> Result<(), Errno> {
        let remove = self.functions().ll_rmdir;
        // SAFETY: the name is a string.
        self.client
            .done(
                self.client
                    .calls
                    .timed(|| unsafe { remove(self.mount(), self.raw(), name.as_ptr(), self.root()) }),
            )
            .map(drop)
    }

    pub(crate) fn rename(&self, from: &CStr, to_dir: &Self, to: &CStr) -> Result<(), Errno> {
        self.check_same_client(to_dir)?;
        let rename = self.functions().ll_rename;
        let (mount, root) = (self.mount(), self.root());
        // SAFETY: both names are strings, and both inodes are of this client.
        let rename = || unsafe { rename(mount, self.raw(), from.as_ptr(), to_dir.raw(), to.as_ptr(), root) };
        self.client.done(self.client.calls.timed(rename)).map(drop)
    }

    /// Opens a regular file.
    pub(crate) fn open(&self, writes: bool) -> Result<Handle, Errno> {
        let mut handle = null_mut();
        let flags = if writes { libc::O_RDWR } else { libc::O_RDONLY };
        let open = self.functions().ll_open;
        // SAFETY: the result is written on success.
        self.client.done(unsafe { open(self.mount(), self.raw(), flags, &raw mut handle, self.root()) })?;
        Handle::new(&self.client, handle)
    }

    /// Makes this inode durable: its contents, and unless `data_only` its attributes, or a directory's entries.
    pub(crate) fn sync(&self, data_only: bool) -> Result<(), Errno> {
        let sync = self.functions().ll_sync_inode;
        // SAFETY: no pointer besides those of this value.
        self.client.done(unsafe { sync(self.mount(), self.raw(), data_only.into()) })?;
        // After the end of a session it succeeds, though unwritten data is lost.
        self.attrs().map(drop)
    }

    pub(crate) fn open_dir(&self) -> Result<Dir, Errno> {
        let mut dir = null_mut();
        let open = self.functions().ll_opendir;
        // SAFETY: the result is written on success.
        self.client.done(unsafe { open(self.mount(), self.raw(), &raw mut dir, self.root()) })?;
        let pointer = NonNull::new(dir).ok_or(Errno::NOMEM)?;
        Ok(Dir { client: Arc::clone(&self.client), pointer })
    }

    /// Reads an extended attribute into the start of `value`; returns its length. An empty `value` asks for the length alone.
    pub(crate) fn xattr(&self, name: &CStr, value: &mut [u8]) -> Result<usize, Errno> {
        let get = self.functions().ll_getxattr;
        let (into, len) = (value.as_mut_ptr().cast(), value.len());
        // SAFETY: the buffer has the length that is passed.
        self.client.done(unsafe { get(self.mount(), self.raw(), name.as_ptr(), into, len, self.root()) })
    }

    /// Sets an extended attribute. `flags`: `XATTR_CREATE`, `XATTR_REPLACE` or 0.
    pub(crate) fn set_xattr(&self, name: &CStr, value: &[u8], flags: c_int) -> Result<(), Errno> {
        let set = self.functions().ll_setxattr;
        let (from, len) = (value.as_ptr().cast(), value.len());
        // SAFETY: the value has the length that is passed.
        self.client
            .done(unsafe { set(self.mount(), self.raw(), name.as_ptr(), from, len, flags, self.root()) })
            .map(drop)
    }

    /// Asks the metadata server for the state of a directory, even if the library believes that it knows it.
    pub(crate) fn refresh_dir(&self) -> Result<(), Errno> {
        self.xattr(c"ceph.dir.entries", &mut [0; 24]).map(drop)
    }

    /// The names of all extended attributes, each with a NUL at its end.
    pub(crate) fn xattr_names(&self) -> Result<Vec<u8>, Errno> {
        let list = self.functions().ll_listxattr;
        let mut names = vec![0u8; 512];
        loop {
            let mut len = 0;
            let (into, room) = (names.as_mut_ptr().cast(), names.len());
            let (mount, raw, root) = (self.mount(), self.raw(), self.root());
            // SAFETY: the buffer has the length that is passed, and the length is written on success.
            let result = unsafe { list(mount, raw, into, room, &raw mut len, root) };
            match self.client.done(result) {
                Err(Errno::RANGE) if room < 1 << 20 => names.resize(room * 4, 0),
                listed => {
                    listed?;
                    names.truncate(len);
                    return Ok(names);
                }
            }
        }
    }

    pub(crate) fn remove_xattr(&self, name: &CStr) -> Result<(), Errno> {
        let remove = self.functions().ll_removexattr;
        // SAFETY: the name is a string.
        self.client.done(unsafe { remove(self.mount(), self.raw(), name.as_ptr(), self.root()) }).map(drop)
    }

    /// The space of the file system.
    pub(crate) fn statfs(&self) -> Result<libc::statvfs, Errno> {
        let mut stat = MaybeUninit::<libc::statvfs>::zeroed();
        let statfs = self.functions().ll_statfs;
        // SAFETY: the structure is written on success.
        self.client.done(unsafe { statfs(self.mount(), self.raw(), stat.as_mut_ptr()) })?;
        // SAFETY: zeroed before, and zeros are valid for it.
        Ok(unsafe { stat.assume_init() })
    }
}

/// An open regular file.
pub(crate) struct Handle {
    client: Arc<Client>,
    pointer: NonNull<Fh>,
}

// SAFETY: the library locks its handles.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: closed once.
        unsafe { (self.client.functions.ll_close)(self.client.raw(), self.pointer.as_ptr()) };
    }
}

impl Handle {
    fn new(client: &Arc<Client>, pointer: *mut Fh) -> Result<Self, Errno> {
        let pointer = NonNull::new(pointer).ok_or(Errno::NOMEM)?;
        Ok(Self { client: Arc::clone(client), pointer })
    }

    fn raw(&self) -> *mut Fh {
        self.pointer.as_ptr()
    }

    /// Whether this handle and `inode` are of one client.
    pub(crate) fn is_of_client_of(&self, inode: &Inode) -> bool {
        inode.is_of(&self.client)
    }

    /// Appends up to `len` bytes at `offset` to `into`; returns their number, which is less only at the end of the file.
    pub(crate) fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>) -> Result<usize, Errno> {
        let start = into.len();
        into.reserve(len);
        let mut count = 0;
        while count < len {
            let at = i64::try_from(offset + count as u64).map_err(|_| Errno::INVAL)?;
            let room = (len - count).min(1 << 30);
            let spare = into.spare_capacity_mut()[..room].as_mut_ptr().cast::<c_char>();
            let read = self.client.functions.ll_read;
            // SAFETY: the spare capacity has room for what is asked for.
            let read = self
                .client
                .done(unsafe { read(self.client.raw(), self.raw(), at, room as u64, spare) })
                .inspect_err(|_| into.truncate(start))?;
            if read == 0 {
                break;
            }
            // SAFETY: the library has written these bytes.
            unsafe { into.set_len(into.len() + read.min(room)) };
            count += read.min(room);
        }
        Ok(count)
    }

    /// Writes a part of `data` at `offset`; returns its length.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let at = i64::try_from(offset).map_err(|_| Errno::FBIG)?;
        let len = data.len().min(1 << 30) as u64;
        let write = self.client.functions.ll_write;
        // SAFETY: the data has at least this length.
        self.client.done(unsafe { write(self.client.raw(), self.raw(), at, len, data.as_ptr().cast()) })
    }

    /// Writes all of `data` at `offset`.
    pub(crate) fn write_all(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < data.len() {
            match self.write(offset + done as u64, &data[done..])? {
                0 => return Err(Errno::NOSPC),
                written => done += written,
            }
        }
        Ok(())
    }

    /// Makes a range read as zeros.
    pub(crate) fn punch(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let (at, len) =
            (i64::try_from(offset).or(Err(Errno::FBIG))?, i64::try_from(len).or(Err(Errno::FBIG))?);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let fallocate = self.client.functions.ll_fallocate;
        // SAFETY: no pointer besides those of this value.
        self.client.done(unsafe { fallocate(self.client.raw(), self.raw(), mode, at, len) }).map(drop)
    }

    /// Locks the whole file for this client, as long as its session lasts. [`Errno::AGAIN`] if another client has it.
    pub(crate) fn lock(&self) -> Result<(), Errno> {
        let mut range = MaybeUninit::<libc::flock>::zeroed();
        // SAFETY: zeros are valid for it.
        let range = unsafe { range.assume_init_mut() };
        range.l_type = libc::c_short::try_from(libc::F_WRLCK).map_err(|_| Errno::INVAL)?;
        let set = self.client.functions.ll_setlk;
        // SAFETY: the range outlives the call.
        self.client.done(unsafe { set(self.client.raw(), self.raw(), range, 1, 0) }).map(drop)
    }

    pub(crate) fn sync(&self, data_only: bool) -> Result<(), Errno> {
        let sync = self.client.functions.ll_fsync;
        // SAFETY: no pointer besides those of this value.
        self.client.done(unsafe { sync(self.client.raw(), self.raw(), data_only.into()) })?;
        // As in `Inode::sync`.
        self.client.root()?.attrs().map(drop)
    }
}

/// An open directory.
pub(crate) struct Dir {
    client: Arc<Client>,
    pointer: NonNull<Directory>,
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: released once.
        unsafe { (self.client.functions.ll_releasedir)(self.client.raw(), self.pointer.as_ptr()) };
    }
}

/// An entry of a directory.
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) number: u64,
    pub(crate) stat: Statx,
    /// The inode, if requested.
    pub(crate) inode: Option<Inode>,
    /// The position of the library after this entry.
    pub(crate) position: i64,
}

/// The parts of an entry that [`Dir::next`] looks up besides name and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Nothing,
    Attrs,
    Inode,
}

impl Dir {
    pub(crate) fn seek(&mut self, position: i64) {
        // SAFETY: no pointer besides those of this value.
        unsafe { (self.client.functions.seekdir)(self.client.raw(), self.pointer.as_ptr(), position) }
    }

    /// The next entry; `None` at the end.
    pub(crate) fn next(&mut self, wanted: Wanted) -> Result<Option<Entry>, Errno> {
        let (want, flags): (c_uint, c_uint) = match wanted {
            Wanted::Nothing => (INODE_ONLY, DONT_SYNC),
            Wanted::Attrs | Wanted::Inode => (ALL_STATS, 0),
        };
        let mut entry = MaybeUninit::<libc::dirent>::zeroed();
        let (mut stat, mut inode) = (Statx::default(), null_mut());
        let out = if wanted == Wanted::Inode { &raw mut inode } else { null_mut() };
        let (functions, mount, dir) = (self.client.functions, self.client.raw(), self.pointer.as_ptr());
        // SAFETY: entry and attributes are written if there is an entry; the inode too, if asked for.
        let result = unsafe {
            (functions.readdirplus_r)(mount, dir, entry.as_mut_ptr(), &raw mut stat, want, flags, out)
        };
        if self.client.done(result)? == 0 {
            return Ok(None);
        }
        // SAFETY: zeroed before, and zeros are valid for it.
        let entry = unsafe { entry.assume_init() };
        let name = entry.d_name.map(i8::cast_unsigned);
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::IO)?.to_bytes().to_vec();
        let inode = if wanted == Wanted::Inode { Some(self.client.inode(inode)?) } else { None };
        // SAFETY: no pointer besides those of this value.
        let position = unsafe { (functions.telldir)(mount, dir) };
        Ok(Some(Entry { name, number: entry.d_ino, stat, inode, position }))
    }
}
