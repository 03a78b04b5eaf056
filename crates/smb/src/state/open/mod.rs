//! Opens: what a client has open, and its claim on the file (MS-SMB2 §3.3.1.10).

pub(crate) mod channel_sequence;
pub(crate) mod directory_cursor;
pub(crate) mod lock_sequences;
pub(crate) mod open_table;
pub(crate) mod watch;

use super::caching::leases::{Cached, LeaseUse};
use super::persistent::Kept;
use super::tree::Disk;
use crate::metadata::file_info::Shown;
use crate::metadata::names::Naming;
use channel_sequence::Sequences;
use directory_cursor::Scan;
use lock_sequences::LockSequences;
use open_table::{Durable, Instance, Origin};
use smb_wire::classes::file::Mode;
use smb_wire::oplock::LeaseKey;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use vfs::acl::Rights;
use vfs::claims::{self, Caching, Granted, Link, LockOwner, OpenId, OpenRequest, Request, Verdict};
use vfs::qos::Nanos;
use vfs::sync::Mutex;
use vfs::volume::change_notify::{ChangeMask, WatchFilter};
use vfs::{
    Access, Attrs, Blocking, Change, File, FileType, FsError, FsResult, OpenFile, PendingSync, SetAttrs,
    SetTime, Wait,
};
use watch::Watching;

/// `Open`: a file as a client has it open.
pub(crate) struct Open {
    pub(crate) id: FileId,
    pub(crate) disk: Arc<Disk>,
    pub(crate) file: File,
    pub(crate) file_type: FileType,
    /// That of the file which it is a stream of; otherwise the same.
    pub(crate) base_type: FileType,
    /// By whose rules it was opened, and names what it names.
    pub(crate) naming: Naming,
    /// The way to the data, if it has any.
    opened: Option<OpenFile<'static>>,
    /// `Open.GrantedAccess`.
    pub(crate) granted: AccessMask,
    claim: OpenId,
    mode: AtomicU32,
    position: AtomicU64,
    place: Mutex<Place>,
    scan: Mutex<Scan>,
    /// Whether the file goes when this open is closed, as it was created for.
    goes_on_close: AtomicBool,
    /// Whether what is written through this open leaves the time of the last write as it is (MS-FSA §2.1.1.6,
    /// `Open.UserSetModificationTime`).
    pub(crate) keeps_written: AtomicBool,
    /// The same of the change time, where attributes are set (`Open.UserSetChangeTime`).
    pub(crate) keeps_changed: AtomicBool,
    /// Where a list of extended attributes goes on (`Open.NextEaEntry`).
    pub(crate) next_ea: AtomicU64,
    /// What of the directory is watched, once anything is.
    watching: OnceLock<Arc<Watching>>,
    /// Which of its requests come from before.
    pub(crate) sequences: Sequences,
    pub(crate) lock_sequences: LockSequences,
    /// What the client may cache with it, as it is told of that.
    cached: Mutex<Option<Cached>>,
    /// How it outlives its connection, if it does.
    durable: OnceLock<Durable>,
    /// That it is on record, if it outlives the service as well.
    kept: OnceLock<Kept>,
    /// The CREATE that it came of, if that may come again.
    origin: OnceLock<Origin>,
    /// The application that it is of, if that may go on elsewhere.
    instance: OnceLock<Instance>,
    /// The lease of its directory whose holder knows what this open changes there (MS-SMB2 §2.2.13.2.10, `ParentLeaseKey`).
    pub(crate) listing: Option<claims::LeaseKey>,
    /// Whether data were written through it: the directory shows that when it is closed.
    has_written: AtomicBool,
    is_closed: AtomicBool,
}

/// What an [`Open`] is made of.
pub(crate) struct NewOpen {
    pub(crate) id: FileId,
    pub(crate) disk: Arc<Disk>,
    pub(crate) file: File,
    pub(crate) file_type: FileType,
    pub(crate) base_type: FileType,
    pub(crate) naming: Naming,
    pub(crate) opened: Option<OpenFile<'static>>,
    pub(crate) granted: AccessMask,
    pub(crate) mode: Mode,
    pub(crate) claim: OpenId,
    pub(crate) place: Place,
    pub(crate) channel_sequence: u16,
    pub(crate) cached: Option<Cached>,
    pub(crate) listing: Option<claims::LeaseKey>,
}

/// What changes of an open when its client comes back.
pub(crate) struct Back {
    pub(crate) volatile: u64,
    pub(crate) channel_sequence: u16,
    pub(crate) cached: Option<Cached>,
}

/// Where a file was found: its directory, and its name there; none for the root of a share.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) entry: Option<(File, Vec<u8>)>,
    /// The names on the way from the root of the share, as they are stored.
    pub(crate) path: Vec<Vec<u8>>,
    /// The name of the stream, if it is not the file as such.
    pub(crate) stream: Option<Vec<u8>>,
}

impl Place {
    /// The file's name as the table of claims knows it.
    pub(crate) fn link(&self, listing: Option<claims::LeaseKey>) -> Option<Link> {
        let (dir, name) = self.entry.as_ref()?;
        Some(Link { parent: dir.key(), name: name.clone().into(), listing })
    }

    /// What goes with the last open of `file`, if that is to be deleted: its name, or that of the stream.
    pub(crate) fn deletion(&self, file: &File, listing: Option<claims::LeaseKey>) -> Option<Link> {
        match &self.stream {
            Some(stream) => Some(Link { parent: file.key(), name: stream.clone().into(), listing: None }),
            None => self.link(listing),
        }
    }

    /// Tells those who watch the directory, or keep its listing, that the file was changed; the holder of `except` knows it already.
    pub(crate) fn tell_modified(&self, what: ChangeMask, except: Option<claims::LeaseKey>) {
        if let Some((dir, name)) = &self.entry {
            dir.notify_listing_changed(except);
            dir.notify_modified(name, what);
        }
    }
}

impl Open {
    pub(crate) fn new(new: NewOpen) -> Self {
        let NewOpen {
            id,
            disk,
            file,
            file_type,
            base_type,
            naming,
            opened,
            granted,
            mode,
            claim,
            place,
            channel_sequence,
            cached,
            listing,
        } = new;
        Self {
            id,
            disk,
            file,
            file_type,
            base_type,
            naming,
            opened,
            granted,
            claim,
            mode: AtomicU32::new(mode.0),
            position: AtomicU64::new(0),
            place: Mutex::new(place),
            scan: Mutex::new(Scan::default()),
            goes_on_close: AtomicBool::new(false),
            keeps_written: AtomicBool::new(false),
            keeps_changed: AtomicBool::new(false),
            next_ea: AtomicU64::new(0),
            watching: OnceLock::new(),
            sequences: Sequences::new(channel_sequence),
            lock_sequences: LockSequences::default(),
            cached: Mutex::new(cached),
            durable: OnceLock::new(),
            kept: OnceLock::new(),
            origin: OnceLock::new(),
            instance: OnceLock::new(),
            listing,
            has_written: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The way to the data, if the open has all of `access`.
    pub(crate) fn data(&self, access: Access) -> Result<&OpenFile<'static>, NtStatus> {
        match &self.opened {
            Some(opened) if opened.allows(access) => Ok(opened),
            Some(_) => Err(NtStatus::ACCESS_DENIED),
            None => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }

    /// The way to the data, with whatever access.
    pub(crate) fn opened(&self) -> Option<&OpenFile<'static>> {
        self.opened.as_ref()
    }

    /// How it was opened, or is used by now (MS-FSCC §2.4.26).
    pub(crate) fn mode(&self) -> Mode {
        Mode(self.mode.load(Ordering::Relaxed))
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.0, Ordering::Relaxed);
    }

    /// Whether every write is to be durable before its reply leaves.
    pub(crate) fn writes_through(&self) -> bool {
        // A client that gets its open back after a restart does not learn that there was one, and sends nothing again.
        self.mode().contains(Mode::WRITE_THROUGH) || self.is_persistent()
    }

    /// Where what was last read or written ends, or the client has said (MS-FSCC §2.4.35). Nothing here begins there.
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    pub(crate) fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// `STATUS_ACCESS_DENIED` unless any of `rights` was granted.
    pub(crate) fn check(&self, rights: AccessMask) -> Result<(), NtStatus> {
        if self.granted.intersects(rights) { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
    }

    /// The open to the table of claims.
    pub(crate) fn claim(&self) -> OpenId {
        self.claim
    }

    /// Whether it has a lease, in place of an oplock.
    pub(crate) fn has_lease(&self) -> bool {
        self.cached.lock().as_ref().is_some_and(Cached::is_lease)
    }

    /// The key of its lease, if it has one.
    pub(crate) fn lease_key(&self) -> Option<LeaseKey> {
        self.cached.lock().as_ref().and_then(Cached::lease).map(LeaseUse::key)
    }

    /// Whether its lease is of the second version.
    pub(crate) fn has_epoch(&self) -> bool {
        self.cached.lock().as_ref().and_then(Cached::lease).is_some_and(LeaseUse::has_epoch)
    }

    /// How it outlives its connection, if it does.
    pub(crate) fn durable(&self) -> Option<Durable> {
        self.durable.get().copied()
    }

    /// Has it outlive its connection.
    pub(crate) fn set_durable(&self, durable: Durable) {
        _ = self.durable.set(durable);
    }

    /// Whether it outlives the service as well.
    pub(crate) fn is_persistent(&self) -> bool {
        self.durable().is_some_and(|durable| durable.is_persistent)
    }

    /// Has it be on record until it is closed.
    pub(crate) fn set_kept(&self, kept: Kept) {
        _ = self.kept.set(kept);
    }

    /// That it is on record, if it is.
    pub(crate) fn kept(&self) -> Option<&Kept> {
        self.kept.get()
    }

    /// The CREATE that it came of, if that may come again.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.get()
    }

    pub(crate) fn set_origin(&self, origin: Origin) {
        _ = self.origin.set(origin);
    }

    /// The application that it is of, if that may go on elsewhere.
    pub(crate) fn instance(&self) -> Option<&Instance> {
        self.instance.get()
    }

    pub(crate) fn set_instance(&self, instance: Instance) {
        _ = self.instance.set(instance);
    }

    /// Whether its claim was taken away, because something conflicted with it or its time was over.
    pub(crate) fn is_lost(&self) -> bool {
        self.file.granted_of(self.claim).is_none()
    }

    /// Has it wait for its client. `false`: it does not, because the client has not kept its handle cached (MS-SMB2 §3.3.7.1), or
    /// locks bytes that others may write meanwhile, for which Windows closes it.
    pub(crate) fn disconnect(&self, durable: Durable) -> bool {
        let Some(Granted { caching, .. }) = self.file.granted_of(self.claim) else { return false };
        let is_locked = || self.file.holds_ranges(self.lock_owner());
        let stays =
            || caching.contains(Caching::HANDLE) && (caching.contains(Caching::WRITE) || !is_locked());
        if !durable.is_persistent && !stays() {
            return false;
        }
        let until = self.file.volume().now().0.saturating_add(u64::from(durable.timeout_ms) * 1_000_000);
        let is_persistent = durable.is_persistent;
        let durable = claims::Durable { until: Nanos(until), is_persistent };
        let verdict = self.file.claim(&Request::Disconnect { open: self.claim, durable });
        matches!(verdict, Verdict::Granted(_))
    }

    /// Gives it to the tree connect of a client that has come back, if it is still there. Its ranges and its lease come with it.
    pub(crate) fn reconnect(&mut self, disk: &Arc<Disk>, back: Back) -> Option<Granted> {
        let Back { volatile, channel_sequence, cached } = back;
        let request = Request::Reconnect { open: self.claim, holder: disk.holder };
        let Verdict::Granted(granted) = self.file.claim(&request) else { return None };
        self.id.volatile = volatile;
        self.disk = Arc::clone(disk);
        self.sequences = Sequences::new(channel_sequence);
        self.cached = Mutex::new(cached);
        Some(granted)
    }

    /// What the client is told of its lease or oplock, to be told anew.
    pub(crate) fn take_cached(&self) -> Option<Cached> {
        self.cached.lock().take()
    }

    /// Whose byte ranges are this open's.
    pub(crate) fn lock_owner(&self) -> LockOwner {
        // The other half of its id changes when its client comes back.
        LockOwner { holder: self.disk.holder, owner: self.claim.0 }
    }

    /// What asks for a further open of its client, which caches nothing.
    pub(crate) fn further(&self, file: &File, access: claims::Access) -> OpenRequest {
        OpenRequest {
            holder: self.disk.holder,
            stream: file.stream(),
            access,
            truncates: false,
            is_mandatory: true,
            is_advisory: false,
            lease: None,
            reclaims: false,
            waits: false,
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(crate) fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock()
    }

    pub(crate) fn scan(&self) -> MutexGuard<'_, Scan> {
        self.scan.lock()
    }

    /// The file's attributes as they are shown.
    pub(crate) fn shown(&self, attrs: &Attrs) -> FsResult<Shown> {
        Ok(self.shown_with(attrs, &self.file.extra_attrs(attrs, Blocking::Allowed)?))
    }

    /// The same with what is known to be kept with the file.
    pub(crate) fn shown_with(&self, attrs: &Attrs, kept: &vfs::ExtraAttrs) -> Shown {
        Shown::with_base(self.base_type, attrs, kept)
    }

    /// After a write that changed the file so: gives it back the time of the last write, if that is not to change by itself. Where the
    /// user may not set it, or others would have to answer first, it stays as it is: what was written is written.
    pub(crate) fn keep_written(&self, change: &Change, pending: &mut PendingSync) -> FsResult<()> {
        if !self.keeps_written.load(Ordering::Relaxed) || change.before.modified == change.after.modified {
            return Ok(());
        }
        let modified = Some(SetTime::To(change.before.modified));
        let set = SetAttrs { modified, ..SetAttrs::default() };
        match self.set_times(&set, pending) {
            Err(FsError::NotOwner | FsError::Access | FsError::Wait(Wait::Recall)) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Sets times, and a mode. Who may change the attributes of a file, as whoever may write it, sets its times to Windows (MS-FSA
    /// §2.1.5.15.2), and the owner alone to Unix.
    pub(crate) fn set_times(&self, set: &SetAttrs, pending: &mut PendingSync) -> FsResult<Change> {
        let held = match self.naming {
            Naming::Windows => Rights(self.granted.0),
            Naming::Posix => Rights::default(),
        };
        self.file.set_attrs_by_claim(&self.disk.caller, held, set, pending)
    }

    /// What of the directory is watched, if anything is.
    pub(crate) fn watched(&self) -> Option<&Watching> {
        self.watching.get().map(|watching| &**watching)
    }

    /// The same, from now on if nothing was: the first who asks says what.
    pub(crate) fn watching(&self, wish: impl FnOnce() -> WatchFilter) -> FsResult<Arc<Watching>> {
        if let Some(watching) = self.watching.get() {
            return Ok(Arc::clone(watching));
        }
        let watching = Arc::new(Watching::start(&self.file, wish())?);
        Ok(Arc::clone(self.watching.get_or_init(|| watching)))
    }

    /// Tells those who keep the listing of its directory that what it shows of the file has changed.
    pub(crate) fn tell_listing_changed(&self) {
        if let Some((dir, _)) = &self.place().entry {
            dir.notify_listing_changed(self.listing);
        }
    }

    /// Tells those who watch its directory, or keep its listing, that the file was changed through this open.
    pub(crate) fn tell_modified(&self, what: ChangeMask) {
        self.tell_listing_changed();
        self.tell_watchers(what);
    }

    /// The same after data were changed: listings show that when the file is closed, as those of Windows do, and last as long.
    pub(crate) fn tell_written(&self, change: &Change) {
        let is_resized = change.before.size != change.after.size;
        self.has_written.store(true, Ordering::Relaxed);
        self.tell_watchers(if is_resized {
            ChangeMask::MODIFIED | ChangeMask::SIZE
        } else {
            ChangeMask::MODIFIED
        });
    }

    fn tell_watchers(&self, what: ChangeMask) {
        if !self.file.volume().is_watched() {
            return;
        }
        let entry = self.place().entry.clone();
        if let Some((dir, name)) = entry {
            dir.notify_modified(&name, what);
        }
    }

    /// Tells of the file of a stream that has gone with its last open.
    fn tell_stream_removed(&self) {
        if self.file.is_stream() {
            self.disk.delete_closed();
            if self.file.has_lost_stream() {
                self.tell_modified(ChangeMask::MODIFIED);
            }
        }
    }

    /// Whether the file goes with its last open, or will when this one is closed.
    pub(crate) fn deletes(&self) -> bool {
        self.mode().contains(Mode::DELETE_ON_CLOSE) || self.file.is_deleted()
    }

    /// Whether the file goes with its last open, by whichever open that was decided, and whether its name goes with it: of a stream
    /// that goes alone it does not.
    pub(crate) fn pending_deletion(&self) -> (bool, bool) {
        let is_deleted = self.file.is_deleted();
        (is_deleted, is_deleted && (!self.file.is_stream() || self.file.of_stream().is_deleted()))
    }

    /// Has the file go with its last open, or stay after all.
    pub(crate) fn set_delete(&self, deletes: bool) -> Verdict {
        let place = self.place();
        let link = if deletes { place.deletion(&self.file, self.listing) } else { None };
        let verdict = self.file.claim(&Request::SetDelete { open: self.claim, link, waits: false });
        drop(place);
        if deletes && matches!(verdict, Verdict::Granted(_)) {
            self.tell_deleting();
        }
        verdict
    }

    /// Has the file go when this open is closed, as it was created for.
    pub(crate) fn delete_on_close(&self) {
        let place = self.place();
        let Some(link) = place.deletion(&self.file, self.listing) else { return };
        let verdict = self.file.claim(&Request::DeleteOnClose { open: self.claim, link });
        self.goes_on_close.store(matches!(verdict, Verdict::Granted(_)), Ordering::Relaxed);
    }

    /// Tells those who watch the directory that it goes, if it does.
    fn tell_deleting(&self) {
        // With an open that its client has not got, nothing goes.
        let goes = || self.goes_on_close.load(Ordering::Relaxed) || self.file.is_deleted();
        if self.is_dir() && goes() {
            self.file.notify_deleting();
        }
    }

    /// Gives the claim back, once. What is to be deleted then is deleted when claims expire.
    pub(crate) fn close(&self) {
        self.release();
        if let Some(kept) = self.kept.get() {
            kept.end(&self.file, self.mode().contains(Mode::DELETE_ON_CLOSE));
        }
    }

    fn release(&self) {
        if !self.is_closed.swap(true, Ordering::SeqCst) {
            self.tell_deleting();
            if self.has_written.load(Ordering::Relaxed) {
                self.tell_listing_changed();
            }
            self.file.claim(&Request::CloseListed { open: self.claim, listing: self.listing });
            self.tell_stream_removed();
            let cached = self.cached.lock().take();
            drop(cached);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // What is on record comes back when the service does.
        self.release();
    }
}
