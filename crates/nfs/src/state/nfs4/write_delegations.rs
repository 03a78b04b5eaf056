//! Clients with write delegations, and the attributes that they report on CB_GETATTR (RFC 8881 §10.4.3, §20.1).

use super::callbacks::Callbacks;
use super::channel::{Callback, GetattrListener};
use nfs_wire::v4::attr::{CHANGE, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY};
use nfs_wire::v4::callback::{Argument, GetattrArgs};
use nfs_wire::v4::{Bitmap, Fattr, FileHandle, NfsTime};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use vfs::claims::HolderId;
use vfs::qos::Nanos;
use vfs::sync::Mutex;
use vfs::{FileKey, Time, VolumeId};
use xdr::{Decode, Reader};

/// The files that are delegated for writing.
#[derive(Default)]
pub(crate) struct WriteDelegations {
    count: AtomicUsize,
    by_file: Mutex<HashMap<(VolumeId, FileKey), Arc<DelegatedWriter>>>,
}

pub(crate) struct DelegatedWriter {
    pub(crate) holder: HolderId,
    callbacks: Weak<Callbacks>,
    /// The filehandle that the client knows the file by.
    handle: Box<[u8]>,
    /// The longest that the file can be.
    bytes_max: u64,
    /// Whether the client keeps the file's times, too (RFC 9754 §5).
    pub(crate) keeps_times: bool,
    /// The file's change counter when the delegation was granted; `None` until then.
    change: Mutex<Option<u64>>,
    query: Mutex<AttrQuery>,
}

/// The last query to the client.
#[derive(Default)]
struct AttrQuery {
    number: u64,
    asked_at: Option<Nanos>,
    answer: Option<ReportedAttrs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportedAttrs {
    pub(crate) size: u64,
    /// The change counter as the client has it: the one that it was given, or a larger one once it has written.
    change: u64,
    /// If the client keeps the times: of access and of modification.
    pub(crate) times: Option<(Time, Time)>,
    /// Whether the file's times and change counter reflect the report.
    is_applied: bool,
}

/// The answer to a query for the attributes of a delegated file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WriterAnswer {
    Known(ReportedAttrs),
    /// The client was queried, or its delegation is not announced yet.
    Wait,
    /// The client has to give the file back: it does not answer.
    Recall,
}

/// Nanoseconds for an answer. A client that does not answer in time is recalled.
const ANSWER_NS: u64 = 1_000_000_000;

/// An entry of [`WriteDelegations`]. Dropping it removes the entry.
pub(crate) struct WriteDelegationGuard {
    writers: Arc<WriteDelegations>,
    file: (VolumeId, FileKey),
    pub(crate) writer: Arc<DelegatedWriter>,
}

impl Drop for WriteDelegationGuard {
    fn drop(&mut self) {
        self.writers.count.fetch_sub(1, Ordering::Relaxed);
        let mut files = self.writers.files();
        // After a revocation, another client may have the file.
        if files.get(&self.file).is_some_and(|writer| Arc::ptr_eq(writer, &self.writer)) {
            files.remove(&self.file);
        }
    }
}

impl WriteDelegations {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn add(
        self: &Arc<Self>,
        file: (VolumeId, FileKey),
        writer: DelegatedWriter,
    ) -> WriteDelegationGuard {
        let writer = Arc::new(writer);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.files().insert(file, Arc::clone(&writer));
        WriteDelegationGuard { writers: Arc::clone(self), file, writer }
    }

    pub(crate) fn of(&self, file: &(VolumeId, FileKey)) -> Option<Arc<DelegatedWriter>> {
        self.files().get(file).cloned()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<(VolumeId, FileKey), Arc<DelegatedWriter>>> {
        self.by_file.lock()
    }
}

impl DelegatedWriter {
    /// A client that knows a file by `handle`, which is never longer than `bytes_max`.
    pub(crate) fn new(callbacks: &Arc<Callbacks>, holder: HolderId, handle: &[u8], bytes_max: u64) -> Self {
        Self {
            holder,
            callbacks: Arc::downgrade(callbacks),
            handle: handle.into(),
            bytes_max,
            keeps_times: false,
            change: Mutex::default(),
            query: Mutex::default(),
        }
    }

    fn queried_attrs(&self) -> Bitmap {
        let all = [CHANGE, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY];
        Bitmap::of(if self.keeps_times { &all } else { &all[..2] })
    }

    /// Announces the delegation of a file with this change counter.
    pub(crate) fn activate(&self, change: u64) {
        *self.change.lock() = Some(change);
    }

    /// The attributes of the file as the client has them now. Queries the client at most once a second.
    pub(crate) fn query(self: &Arc<Self>, now: Nanos) -> WriterAnswer {
        if self.change.lock().is_none() {
            return WriterAnswer::Wait;
        }
        // Lock order: replies are handled under the callbacks' lock, and then take the query's.
        let reachable = self.callbacks.upgrade().filter(|callbacks| callbacks.is_reachable());
        let mut query = self.query.lock();
        let is_recent = query.asked_at.is_some_and(|requested| now.0 < requested.0.saturating_add(ANSWER_NS));
        match (query.answer, query.asked_at) {
            (Some(answer), _) if is_recent => return WriterAnswer::Known(answer),
            (None, Some(_)) if is_recent => return WriterAnswer::Wait,
            (None, Some(_)) => return WriterAnswer::Recall,
            _ => {}
        }
        let Some(callbacks) = reachable else { return WriterAnswer::Recall };
        *query = AttrQuery { number: query.number + 1, asked_at: Some(now), answer: None };
        let number = query.number;
        drop(query);
        let args = GetattrArgs { fh: FileHandle(&self.handle), attr_request: self.queried_attrs() };
        let ask = Argument::Getattr(args);
        let asker = Arc::clone(self) as Arc<dyn GetattrListener>;
        callbacks.call(Callback::getattr(&ask, asker, number));
        WriterAnswer::Wait
    }

    /// Marks a report as applied. Returns whether the client changed a file of this size; `None` if another caller
    /// applied the report.
    pub(crate) fn mark_applied(&self, written: &ReportedAttrs, size: u64) -> Option<bool> {
        let is_changed = *self.change.lock() != Some(written.change) || written.size != size;
        let mut query = self.query.lock();
        let answer = query.answer.as_mut().filter(|answer| *answer == written)?;
        (!std::mem::replace(&mut answer.is_applied, true)).then_some(is_changed)
    }
}

impl GetattrListener for DelegatedWriter {
    /// Ignores attributes that are impossible.
    fn report(&self, number: u64, attributes: &Fattr<'_>) {
        let written =
            read(attributes, &self.queried_attrs()).filter(|written| written.size <= self.bytes_max);
        let Some(written) = written else { return };
        let mut query = self.query.lock();
        if query.number == number && query.answer.is_none() {
            query.answer = Some(written);
        }
    }
}

/// Decodes the attributes, if they are the queried ones.
fn read(attributes: &Fattr<'_>, requested: &Bitmap) -> Option<ReportedAttrs> {
    if attributes.attrmask != *requested {
        return None;
    }
    let mut reader = Reader::new(attributes.attr_vals);
    let (change, size) = (reader.u64().ok()?, reader.u64().ok()?);
    let mut time = || NfsTime::decode(&mut reader).ok().and_then(valid_time);
    let times = if requested.contains(TIME_DELEG_ACCESS) { Some((time()?, time()?)) } else { None };
    (reader.remaining() == 0).then_some(ReportedAttrs { size, change, times, is_applied: false })
}

/// A time that a client keeps, if it is one.
pub(crate) fn valid_time(time: NfsTime) -> Option<Time> {
    let NfsTime { seconds, nseconds: nanos } = time;
    (nanos < 1_000_000_000).then_some(Time { seconds, nanos })
}
