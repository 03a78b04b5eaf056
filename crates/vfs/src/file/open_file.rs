//! The data of files: read, write, commit. Only an authorization gives access.

use super::acl::check_mode_data;
use super::attr::Setter;
use super::core::{File, check_writable};
use crate::acl::SecurityStyle;
use crate::acl::access::{self, Access};
use crate::backend::durability::{Durability, PendingSync};
use crate::backend::{Blocking, NodeRef, SyncScope};
use crate::claims::{IoKind, Requester, Span};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, Change, FileType, SetAttrs};
use crate::model::caller::Caller;
use std::borrow::Cow;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The time at which a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Before the data is durable; the client commits later.
    Unstable,
    /// When the data is durable.
    Data,
    /// When data and attributes are durable.
    File,
}

/// Space reserved for a write in several parts. Drop releases the unused part.
pub struct WriteReservation {
    file: NodeRef,
    offset: u64,
    len: usize,
}

impl Drop for WriteReservation {
    fn drop(&mut self) {
        self.file.release(self.offset, self.len);
    }
}

/// A file that a caller may read, write, or both: the only access to data.
///
/// A protocol without opens authorizes each call ([`File::authorize_read`], [`File::authorize_write`]). One with opens
/// authorizes once ([`File::open`]) and stores the result ([`OpenFile::into_owned`]); mode bits are not checked again.
/// The result is valid while the export of the file is served.
#[derive(Clone)]
pub struct OpenFile<'f> {
    file: Cow<'f, File>,
    caller: Cow<'f, Caller>,
    access: Access,
    by: Requester,
    /// Whether mode bits are checked at each write, with the attributes that the write begins with.
    checks_writes: bool,
    /// Preserves the file while this exists.
    pin: Option<Arc<Pin>>,
}

/// Preserves a file that loses its last name, and the open stream of it.
struct Pin(File);

impl Pin {
    fn new(file: &File) -> Self {
        file.node.pin();
        if file.stream.is_some() {
            file.data().pin();
        }
        Self(file.clone())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.node.unpin();
        if self.0.stream.is_some() {
            self.0.data().unpin();
        }
    }
}

impl File {
    /// Authorizes `caller` as open(2) does, while the file stays open. Returns the attributes that decided.
    pub fn open<'f>(
        &'f self,
        caller: &'f Caller,
        access: Access,
        blocking: Blocking,
    ) -> FsResult<(OpenFile<'f>, Attrs)> {
        let attrs = self.attrs(blocking)?;
        Ok((self.open_by(&attrs, caller, access, blocking)?, attrs))
    }

    /// Opens by attributes that were just read.
    pub fn open_by<'f>(
        &'f self,
        attrs: &Attrs,
        caller: &'f Caller,
        access: Access,
        blocking: Blocking,
    ) -> FsResult<OpenFile<'f>> {
        check_opens(attrs, caller, access)?;
        self.check(attrs, caller, access, blocking)?;
        Ok(self.opened(caller, access, false))
    }

    /// Opens a file that was just created for `caller`: the new mode binds later opens only.
    pub fn open_new<'f>(
        &'f self,
        caller: &'f Caller,
        access: Access,
        blocking: Blocking,
    ) -> FsResult<(OpenFile<'f>, Attrs)> {
        let attrs = self.attrs(blocking)?;
        check_opens(&attrs, caller, access)?;
        // The creator of a file has the requested access, whatever list the file inherits (MS-FSA §2.1.5.1.1).
        if self.volume().security_style() == SecurityStyle::Unix {
            check_mode_data(&self.node, &attrs, caller, access)?;
        }
        Ok((self.opened(caller, access, false), attrs))
    }

    /// [`File::open_new`] for a repeated creation. An earlier call or another client may have made the file, so an
    /// access control list applies.
    pub fn open_repeated<'f>(
        &'f self,
        caller: &'f Caller,
        access: Access,
        blocking: Blocking,
    ) -> FsResult<(OpenFile<'f>, Attrs)> {
        let attrs = self.attrs(blocking)?;
        check_opens(&attrs, caller, access)?;
        self.check_data(&attrs, caller, access, blocking)?;
        Ok((self.opened(caller, access, false), attrs))
    }

    /// Reopens a file that `caller` had open before a restart, with the rights of that time.
    pub fn reopen<'f>(&'f self, caller: &'f Caller, access: Access) -> FsResult<OpenFile<'f>> {
        check_regular(&self.attrs(Blocking::Allowed)?)?;
        Ok(self.opened(caller, access, false))
    }

    /// Authorizes `caller` to read in this one call, with attributes from *before* any data is read, so that they are never
    /// newer than the data: a client that caches both asks again instead of trusting old data.
    #[inline]
    pub fn authorize_read<'f>(
        &'f self,
        caller: &'f Caller,
        blocking: Blocking,
    ) -> FsResult<(OpenFile<'f>, Attrs)> {
        let attrs = self.attrs(blocking)?;
        check_regular(&attrs)?;
        self.check_data(&attrs, caller, Access::READ, blocking)?;
        Ok((self.opened(caller, Access::READ, false), attrs))
    }

    /// Authorizes `caller` to write in this one call. Mode bits are checked with the attributes that the write begins
    /// with, under the backend's lock, which fetches them anyway. An access control list is checked now.
    #[inline]
    pub fn authorize_write<'f>(&'f self, caller: &'f Caller) -> FsResult<OpenFile<'f>> {
        // A file that nobody may change refuses the write itself.
        if caller.read_only {
            return Err(FsError::ReadOnly);
        }
        if self.volume().security_style() == SecurityStyle::Unix {
            return Ok(self.opened(caller, Access::WRITE, true));
        }
        let attrs = self.node.attrs(Blocking::Allowed)?;
        check_regular(&attrs)?;
        self.check_data(&attrs, caller, Access::WRITE, Blocking::Allowed)?;
        Ok(self.opened(caller, Access::WRITE, false))
    }

    #[inline]
    fn opened<'f>(&'f self, caller: &'f Caller, access: Access, checks_writes: bool) -> OpenFile<'f> {
        let (file, by) = (Cow::Borrowed(self), caller.by);
        OpenFile { file, caller: Cow::Borrowed(caller), access, by, checks_writes, pin: None }
    }
}

impl OpenFile<'_> {
    pub fn into_owned(self) -> OpenFile<'static> {
        let Self { file, caller, access, by, checks_writes, pin } = self;
        let (file, caller) = (Cow::Owned(file.into_owned()), Cow::Owned(caller.into_owned()));
        OpenFile { file, caller, access, by, checks_writes, pin }
    }

    /// Adds the access of `other`, another open of the same file.
    #[must_use]
    pub fn with_access_of(self, other: &OpenFile<'_>) -> Self {
        Self { access: self.access.and(other.access), ..self }
    }

    /// Reads and writes under a claim, which then does not conflict with the I/O.
    /// The file of a claimed open outlives its last name.
    #[must_use]
    pub fn with_claim(self, by: Requester) -> Self {
        let pin = matches!(by, Requester::Open(_)).then(|| Arc::new(Pin::new(&self.file)));
        Self { by, pin, ..self }
    }

    #[inline]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the size of the file: reading an open file needs no other attribute.
    #[inline]
    pub fn size(&self, blocking: Blocking) -> FsResult<u64> {
        self.file.data().size(blocking)
    }

    /// Appends up to `len` bytes at `offset` to `into` and returns how many; fewer only at the end of the file. After an
    /// error `into` is as before.
    #[inline]
    pub fn read(&self, offset: u64, len: usize, into: &mut Vec<u8>, blocking: Blocking) -> FsResult<usize> {
        self.check_read(offset, len as u64)?;
        self.file.data().read(offset, len, into, blocking)
    }

    /// Returns a descriptor to splice `len` bytes at `offset` from; with [`Blocking::Never`] only if all of them are in
    /// memory. `None`: call [`OpenFile::read`], which may report an error.
    pub fn pages(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>> {
        self.check_read(offset, len as u64).ok()?;
        self.file.data().descriptor(offset, len, blocking)
    }

    /// Writes all of `data` at `offset`. Clears set-id bits unless root writes.
    pub fn write(
        &self,
        offset: u64,
        data: &[u8],
        stability: Stability,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_write(offset, data.len())?;
        let change = self
            .file
            .data()
            .write(offset, data, &|attrs| self.authorize_change(attrs, offset, data.len() as u64))?;
        self.schedule_sync(stability, pending);
        self.file.data_changed(change)
    }

    /// Reserves the space for a write of `len` bytes at `offset` in several parts before the first of them, so that the
    /// write succeeds or fails as a whole.
    pub fn reserve(&self, offset: u64, len: usize) -> FsResult<WriteReservation> {
        self.check_write(offset, len)?;
        self.file.data().reserve(offset, len, &|attrs| self.authorize_change(attrs, offset, len as u64))?;
        Ok(WriteReservation { file: NodeRef::clone(self.file.data()), offset, len })
    }

    /// Writes the `len` bytes that `pipe` holds, unstable, like [`OpenFile::write`].
    pub fn write_from_pipe(&self, offset: u64, pipe: BorrowedFd<'_>, len: usize) -> FsResult<Change> {
        self.check_write(offset, len)?;
        let authorize = |attrs: &Attrs| self.authorize_change(attrs, offset, len as u64);
        self.file.data_changed(self.file.data().write_from_pipe(offset, pipe, len, &authorize)?)
    }

    /// Sets attributes like [`File::set_attrs`]; a new size needs only an open for writing, as ftruncate(2). Everything
    /// else needs the rights of `caller`.
    pub fn set_attrs(&self, caller: &Caller, set: &SetAttrs, pending: &mut PendingSync) -> FsResult<Change> {
        if set.size.is_some() {
            self.check(Access::WRITE)?;
        }
        let setter = Setter { caller, by: self.by, is_open: true, sets_times: false, kind: IoKind::Write };
        self.file.set_attrs_as(setter, set, None, pending)
    }

    /// Truncates the file like an open that replaces it: byte ranges do not conflict with that (MS-FSA 2.1.5.1.2.1).
    pub fn replace(&self, caller: &Caller, pending: &mut PendingSync) -> FsResult<Change> {
        self.check(Access::WRITE)?;
        let setter = Setter { caller, by: self.by, is_open: true, sets_times: false, kind: IoKind::Replace };
        let set = SetAttrs { size: Some(0), ..SetAttrs::default() };
        self.file.set_attrs_as(setter, &set, None, pending)
    }

    /// Schedules the flush that `stability` requires for earlier writes.
    pub fn schedule_sync(&self, stability: Stability, pending: &mut PendingSync) {
        match stability {
            Stability::Unstable => {}
            Stability::Data => self.file.require_data_sync(pending, SyncScope::Data),
            Stability::File => self.file.require_data_sync(pending, SyncScope::All),
        }
    }

    /// Makes all unstable writes to the file durable. Returns the change and the write verifier, which differs if
    /// writes may have been lost. RFC 1813 §3.3.21 lets any holder of the handle commit; here the caller must be
    /// allowed to write, so that readers cannot load the disk.
    pub fn commit(&self) -> FsResult<(Change, u64)> {
        self.check(Access::WRITE)?;
        let (node, volume) = (self.file.data(), self.file.volume());
        let attrs = self.file.attrs(Blocking::Allowed)?;
        check_writable(&attrs, &self.caller)?;
        self.check_rights(&attrs)?;
        if volume.durability() == Durability::Sync {
            node.sync(SyncScope::All)?;
        }
        // Read now: a flush that failed before this one has been counted.
        Ok((Change { before: attrs, after: attrs }, volume.write_verifier()))
    }

    pub fn is_by(&self, caller: &Caller) -> bool {
        self.caller.uid == caller.uid
    }

    pub fn allows(&self, access: Access) -> bool {
        self.access.has(access)
    }

    /// [`FsError::Access`] unless the file was opened for this.
    #[inline]
    pub(super) fn check(&self, access: Access) -> FsResult<()> {
        if self.allows(access) { Ok(()) } else { Err(FsError::Access) }
    }

    fn check_write(&self, offset: u64, len: usize) -> FsResult<()> {
        self.check(Access::WRITE)?;
        let end = offset.checked_add(len as u64).ok_or(FsError::FileTooBig)?;
        if end > self.file.volume().limits().file_bytes_max { Err(FsError::FileTooBig) } else { Ok(()) }
    }

    /// Whether `len` bytes at `offset` may be read now.
    #[inline]
    pub fn check_read(&self, offset: u64, len: u64) -> FsResult<()> {
        self.check(Access::READ)?;
        self.file.check_claims(self.by, IoKind::Read, || Span::clamped(offset, len))
    }

    /// Whether `len` bytes at `offset` of a file with these attributes may be changed now, and whether that clears its
    /// set-id bits.
    pub(super) fn authorize_change(&self, attrs: &Attrs, offset: u64, len: u64) -> FsResult<bool> {
        self.check_rights(attrs)?;
        self.file.check_claims(self.by, IoKind::Write, || Span::clamped(offset, len))?;
        Ok(access::write_clears_set_id(attrs, &self.caller))
    }

    /// Whether a file with these attributes may be written.
    fn check_rights(&self, attrs: &Attrs) -> FsResult<()> {
        if self.checks_writes {
            check_regular(attrs)?;
            check_mode_data(&self.file.node, attrs, &self.caller, Access::WRITE)?;
        }
        Ok(())
    }
}

/// Whether the export and the type of a file allow this access at all.
fn check_opens(attrs: &Attrs, caller: &Caller, access: Access) -> FsResult<()> {
    if access.has(Access::WRITE) {
        check_writable(attrs, caller)?;
    }
    check_regular(attrs)
}

/// Data is read and written in regular files only.
pub(super) fn check_regular(attrs: &Attrs) -> FsResult<()> {
    match attrs.file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid),
    }
}
