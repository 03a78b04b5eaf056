//! Background copies run part by part, in turn, on few threads. A part that waits for a limit uses no thread.

use super::channel::Callback;
use super::client::Client;
use super::copies::CopyProgress;
use crate::limits::{COPY_PAID_BYTES_MAX, COPY_THREADS_MAX};
use crate::status::nfs4::status;
use nfs_wire::v4::callback::{Argument, OffloadArgs, OffloadInfo};
use nfs_wire::v4::{FileHandle, StableHow, Stateid, Status, Verifier, WriteResponse};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;
use vfs::bounds::Slot;
use vfs::file::CopyAdmission;
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::sync::Mutex;
use vfs::{FsError, OpenFile, Origin, PendingSync, SharedNamespace, Span, Stability, panics};

/// Bytes that are copied before the next copy's turn, without and with limits.
const PART_BYTES: u64 = 8 << 20;
const PAID_PART_BYTES: u64 = COPY_PAID_BYTES_MAX;

/// A background copy. Dropped early, it reports a failure to the client.
pub(crate) struct BackgroundCopy {
    pub(crate) source: Arc<OpenFile<'static>>,
    pub(crate) target: Arc<OpenFile<'static>>,
    pub(crate) span: Span,
    /// The write verifier from before the copy.
    pub(crate) writeverf: Verifier,
    /// The target's filehandle, as the client knows it.
    pub(crate) handle: Box<[u8]>,
    pub(crate) client: Weak<Client>,
    pub(crate) stateid: Stateid,
    /// The origin and the payer of the COPY, and the current exports.
    pub(crate) origin: Origin,
    pub(crate) payer: IpAddr,
    pub(crate) namespace: SharedNamespace,
    pub(crate) progress: Arc<CopyProgress>,
    /// The room that it takes among copies.
    pub(crate) _room: Slot,
}

/// The next part of a copy, with its payments at the volumes.
struct Part {
    len: u64,
    unpaid: Vec<(CopySide, Admission)>,
    paid: Vec<(CopySide, Permit)>,
}

#[derive(Clone, Copy)]
enum CopySide {
    Source,
    Target,
}

#[derive(Clone, Default)]
pub(crate) struct Copier(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    ready: VecDeque<(BackgroundCopy, Option<Part>)>,
    threads: usize,
}

/// A copy that waits for a limit.
struct WaitingCopy {
    copier: Copier,
    side: CopySide,
    admission: Admission,
    waiting: Arc<Mutex<Option<(BackgroundCopy, Part)>>>,
}

impl Waiter for WaitingCopy {
    fn pass(self: Box<Self>) {
        let Self { copier, side, admission, waiting } = *self;
        let permit = admission.into_permit();
        let waited = waiting.lock().take();
        if let Some((copy, mut part)) = waited {
            part.paid.push((side, permit));
            copier.enqueue(copy, Some(part));
        }
    }
}

impl Copier {
    pub(crate) fn begin(&self, copy: BackgroundCopy) {
        self.enqueue(copy, None);
    }

    fn enqueue(&self, copy: BackgroundCopy, part: Option<Part>) {
        let mut queue = self.0.lock();
        queue.ready.push_back((copy, part));
        // A running thread takes the part.
        if queue.threads == COPY_THREADS_MAX {
            return;
        }
        let copier = self.clone();
        match thread::Builder::new().name("nfs4-copies".into()).spawn(move || copier.work()) {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                tracing::warn!(%error, "cannot copy: starting a thread failed");
                let failed = std::mem::take(&mut queue.ready);
                drop(queue);
                drop(failed);
            }
            Err(_) => {}
        }
    }

    /// Copies parts until there is nothing to copy.
    fn work(&self) {
        loop {
            let mut queue = self.0.lock();
            let Some((copy, part)) = queue.ready.pop_front() else {
                queue.threads -= 1;
                return;
            };
            drop(queue);
            // A panicking copy has logged its panic, and dropping it reports the failure.
            let _ = panics::catch(|| self.step(copy, part));
        }
    }

    /// Copies a part, once all of it is paid.
    fn step(&self, copy: BackgroundCopy, part: Option<Part>) {
        let copied = copy.progress.copied();
        let mut part = part.unwrap_or_else(|| copy.next_part());
        if part.len == 0 || copy.progress.is_canceled() || copy.client.strong_count() == 0 {
            return copy.end(Status::OK);
        }
        // The bytes copied so far count. The client requests the rest, and then gets the error.
        let ended_by = |why| if copied > 0 { Status::OK } else { why };
        if !copy.is_admitted() {
            return copy.end(ended_by(Status::ACCESS));
        }
        while let Some((side, admission)) = part.unpaid.pop() {
            match admission.try_acquire() {
                Ok(permit) => part.paid.push((side, permit)),
                Err(admission) => return self.wait(copy, part, side, &admission),
            }
        }
        match copy.copy_part(part) {
            Ok(0) => copy.end(Status::OK),
            Ok(_) => self.enqueue(copy, None),
            Err(error) => copy.end(ended_by(status(error))),
        }
    }

    /// Waits for the limit. If too many copies wait, the copy ends with the bytes copied so far.
    fn wait(&self, copy: BackgroundCopy, part: Part, side: CopySide, admission: &Admission) {
        let waiting = Arc::new(Mutex::new(Some((copy, part))));
        let (copier, admission) = (self.clone(), admission.clone());
        let unpaid =
            WaitingCopy { copier, side, admission: admission.clone(), waiting: Arc::clone(&waiting) };
        let wait = admission.wait(Box::new(unpaid));
        if wait == QueueResult::Queued {
            return;
        }
        let waited = waiting.lock().take();
        match waited {
            Some((copy, mut part)) if wait == QueueResult::Passed => {
                part.paid.push((side, admission.into_permit()));
                self.enqueue(copy, Some(part));
            }
            Some((copy, _)) => copy.end(Status::OK),
            None => {}
        }
    }
}

impl BackgroundCopy {
    fn admission(&self) -> CopyAdmission<'_> {
        CopyAdmission::new(&self.source, &self.target, self.payer)
    }

    /// The next part, and the admissions it needs.
    fn next_part(&self) -> Part {
        let copy_admission = self.admission();
        let most = if copy_admission.is_limited() { PAID_PART_BYTES } else { PART_BYTES };
        let len = (self.span.len - self.progress.copied()).min(most);
        let target = copy_admission.target_admission(len, 1).map(|admission| (CopySide::Target, admission));
        let source = copy_admission.source_admission(len, 1).map(|admission| (CopySide::Source, admission));
        Part { len, unpaid: target.into_iter().chain(source).collect(), paid: Vec::new() }
    }

    /// Whether both exports still let the client in, and the target's lets it write: a copy may take long.
    fn is_admitted(&self) -> bool {
        let namespace = self.namespace.load();
        let is_read_only = |opened: &OpenFile<'_>| {
            let export = namespace.export(opened.file().export().id)?;
            Some(export.rule(self.origin)?.read_only)
        };
        is_read_only(&self.source).is_some() && is_read_only(&self.target) == Some(false)
    }

    fn copy_part(&self, part: Part) -> Result<u64, FsError> {
        let copied = self.progress.copied();
        let span = Span {
            source: self.span.source + copied,
            target: self.span.target.checked_add(copied).ok_or(FsError::FileTooBig)?,
            len: part.len,
        };
        if !self.progress.begin_part() {
            return Ok(0);
        }
        let (began, mut pending) = (Instant::now(), PendingSync::default());
        let copied = self.source.copy_to(&self.target, &span, Stability::Unstable, &mut pending);
        let copied = copied.and_then(|(count, _)| pending.sync_all().map(|()| count));
        self.progress.end_part(copied.unwrap_or(0));
        let count = copied?;
        let copy_admission = self.admission();
        copy_admission.count_read(count, began.elapsed());
        copy_admission.count_written(1, count, began.elapsed());
        for (side, mut permit) in part.paid {
            permit.record(match side {
                CopySide::Source => copy_admission.at_source(count),
                CopySide::Target => copy_admission.at_target(count),
            });
        }
        Ok(count)
    }

    /// Tells the client that the copy has ended, unless it knows.
    fn end(&self, status: Status) {
        if self.progress.ended().is_some() {
            return;
        }
        self.progress.end(status);
        let Some(client) = self.client.upgrade().filter(|_| !self.progress.is_canceled()) else { return };
        let count = self.progress.copied();
        let committed = StableHow::Unstable;
        let response = WriteResponse { callback_id: None, count, committed, writeverf: self.writeverf };
        let offload_info = match status {
            Status::OK => OffloadInfo::Ok(response),
            status => OffloadInfo::Err(status, count),
        };
        let args = OffloadArgs { fh: FileHandle(&self.handle), stateid: self.stateid, offload_info };
        client.callbacks.call(Callback::new(&Argument::Offload(args)));
    }
}

impl Drop for BackgroundCopy {
    fn drop(&mut self) {
        self.end(Status::SERVERFAULT);
    }
}
