//! The data of files: read, write, commit. Nobody reaches it without an authorization.

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

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// Before it is durable; the client commits later.
    Unstable,
    /// When the data are durable.
    Data,
    /// When data and attributes are durable.
    File,
}

/// What was taken for a write in several parts. Given back, as far as it was not used, when this is dropped.
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

/// A file that a caller may read, write, or both: the only way to data.
///
/// A protocol without opens authorizes each call ([`File::authorize_read`], [`File::authorize_write`]); one that knows them
/// opens once ([`File::open`]), keeps what it got ([`OpenFile::into_owned`]) and is not asked for mode bits again. What it
/// keeps is good for as long as the export that the file was reached by is served.
#[derive(Clone)]
pub struct OpenFile<'f> {
    file: Cow<'f, File>,
    caller: Cow<'f, Caller>,
    access: Access,
    /// Who reads and writes, to those who hold claims on the file.
    by: Requester,
    /// Whether mode bits are checked at each write, with the attributes that the write begins with.
    checks_writes: bool,
    /// The file stays as long as this is kept.
    pin: Option<Arc<Pin>>,
}

/// Keeps a file that loses its last name, and the stream of it that is open.
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
    /// Authorizes `caller` as open(2) does, for as long as it keeps the file open. The attributes are those that decided.
    pub fn open<'f>(
        &'f self,
        caller: &'f Caller,
        access: Access,
        blocking: Blocking,
    ) -> FsResult<(OpenFile<'f>, Attrs)> {
        let attrs = self.attrs(blocking)?;
        Ok((self.open_by(&attrs, caller, access, blocking)?, attrs))
    }

    /// The same by attributes that were told just now.
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

    /// As [`File::open`] for a file that was made for `caller` just now: what its mode says binds those who come later.
    pub fn open_new<'f>(
        &'f self,
        caller: &'f Caller,
        access: Access,
        blocking: Blocking,
    ) -> FsResult<(OpenFile<'f>, Attrs)> {
        let attrs = self.attrs(blocking)?;
        check_opens(&attrs, caller, access)?;
        // Who makes a file has what was asked for, whatever list it inherits (MS-FSA §2.1.5.1.1).
        if self.volume().security_style() == SecurityStyle::Unix {
            check_mode_data(&self.node, &attrs, caller, access)?;
        }
        Ok((self.opened(caller, access, false), attrs))
    }

    /// As [`File::open_new`] for a file that was there when `caller` made it once more: an earlier call of theirs may have made it, or
    /// somebody else, so what a list says binds now.
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

    /// As [`File::open`] for what `caller` had open before a restart: what was allowed then is.
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

    /// Lets `caller` write in this one call, if the attributes allow it that the write begins with: they are looked at
    /// under the backend's lock, where they are fetched anyway, and not before. Where lists rule, the list is looked at now.
    #[inline]
    pub fn authorize_write<'f>(&'f self, caller: &'f Caller) -> FsResult<OpenFile<'f>> {
        check_writable(caller)?;
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
    /// The same, to be kept.
    pub fn into_owned(self) -> OpenFile<'static> {
        let Self { file, caller, access, by, checks_writes, pin } = self;
        let (file, caller) = (Cow::Owned(file.into_owned()), Cow::Owned(caller.into_owned()));
        OpenFile { file, caller, access, by, checks_writes, pin }
    }

    /// The same, allowed what `other`, an opening of the same file, is allowed as well.
    #[must_use]
    pub fn with_access_of(self, other: &OpenFile<'_>) -> Self {
        Self { access: self.access.and(other.access), ..self }
    }

    /// The same, reading and writing by a claim of its own: it does not stand in its own way. The file of a claimed open stays for as
    /// long as this is kept, even if it loses its last name.
    #[must_use]
    pub fn with_claim(self, by: Requester) -> Self {
        let pin = matches!(by, Requester::Open(_)).then(|| Arc::new(Pin::new(&self.file)));
        Self { by, pin, ..self }
    }

    /// The file.
    #[inline]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// How long the file is now: to read it, whoever keeps it open needs no more of its attributes.
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

    /// A descriptor to splice `len` bytes at `offset` from, with [`Blocking::Never`] only if all of them are in memory;
    /// `None` where [`OpenFile::read`] serves better, or says why not.
    pub fn pages(&self, offset: u64, len: usize, blocking: Blocking) -> Option<Arc<OwnedFd>> {
        self.check_read(offset, len as u64).ok()?;
        self.file.data().descriptor(offset, len, blocking)
    }

    /// Writes all of `data` at `offset`. Set-id bits go unless root writes.
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

    /// Takes what a write of `len` bytes at `offset` in several parts needs before the first of them, so that it is done
    /// whole or refused whole.
    pub fn reserve(&self, offset: u64, len: usize) -> FsResult<WriteReservation> {
        self.check_write(offset, len)?;
        self.file.data().reserve(offset, len, &|attrs| self.authorize_change(attrs, offset, len as u64))?;
        Ok(WriteReservation { file: NodeRef::clone(self.file.data()), offset, len })
    }

    /// As [`OpenFile::write`], unstable, for the `len` bytes that `pipe` holds.
    pub fn write_from_pipe(&self, offset: u64, pipe: BorrowedFd<'_>, len: usize) -> FsResult<Change> {
        self.check_write(offset, len)?;
        let authorize = |attrs: &Attrs| self.authorize_change(attrs, offset, len as u64);
        self.file.data_changed(self.file.data().write_from_pipe(offset, pipe, len, &authorize)?)
    }

    /// As [`File::set_attrs`], where a new size needs no more than that the file was opened for writing, as with
    /// ftruncate(2). Everything else is allowed as `caller` is.
    pub fn set_attrs(&self, caller: &Caller, set: &SetAttrs, pending: &mut PendingSync) -> FsResult<Change> {
        if set.size.is_some() {
            self.check(Access::WRITE)?;
        }
        let setter = Setter { caller, by: self.by, is_open: true, sets_times: false, kind: IoKind::Write };
        self.file.set_attrs_as(setter, set, None, pending)
    }

    /// Makes the file empty, as an open that replaces it does: byte ranges do not stand against that (MS-FSA 2.1.5.1.2.1).
    pub fn replace(&self, caller: &Caller, pending: &mut PendingSync) -> FsResult<Change> {
        self.check(Access::WRITE)?;
        let setter = Setter { caller, by: self.by, is_open: true, sets_times: false, kind: IoKind::Replace };
        let set = SetAttrs { size: Some(0), ..SetAttrs::default() };
        self.file.set_attrs_as(setter, &set, None, pending)
    }

    /// Adds the flush that makes earlier writes as stable as `stability` says.
    pub fn schedule_sync(&self, stability: Stability, pending: &mut PendingSync) {
        match stability {
            Stability::Unstable => {}
            Stability::Data => self.file.require_data_sync(pending, SyncScope::Data),
            Stability::File => self.file.require_data_sync(pending, SyncScope::All),
        }
    }

    /// Makes all unstable writes to the file durable: what that did, and the verifier that tells whether all of them were
    /// still there. RFC 1813 §3.3.21 lets whoever holds the handle commit; the caller must be one who may write, so that
    /// readers cannot load the disk.
    pub fn commit(&self) -> FsResult<(Change, u64)> {
        self.check(Access::WRITE)?;
        let (node, volume) = (self.file.data(), self.file.volume());
        let attrs = self.file.attrs(Blocking::Allowed)?;
        self.check_rights(&attrs)?;
        if volume.durability() == Durability::Sync {
            node.sync(SyncScope::All)?;
        }
        // Only now: a flush that failed before this one has been counted.
        Ok((Change { before: attrs, after: attrs }, volume.write_verifier()))
    }

    /// Whether this user opened the file.
    pub fn is_by(&self, caller: &Caller) -> bool {
        self.caller.uid == caller.uid
    }

    /// Whether the file was opened for all of this.
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

    /// Whether `len` bytes at `offset` of a file with these attributes may be changed now, and if so, whether that takes its
    /// set-id bits away.
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

/// Whether the export and the type of a file let anybody open it so.
fn check_opens(attrs: &Attrs, caller: &Caller, access: Access) -> FsResult<()> {
    if access.has(Access::WRITE) {
        check_writable(caller)?;
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
