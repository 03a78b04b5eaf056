//! Copies are done part by part, in turn, on few threads; what a limit has to be paid for waits for that without one.

use super::channel::Callback;
use super::client::Client;
use super::copies::CopyProgress;
use crate::limits::{COPIES_MAX, COPY_THREADS_MAX};
use crate::v4::status::status;
use nfs_wire::v4::callback::{Argument, OffloadArgs, OffloadInfo};
use nfs_wire::v4::{FileHandle, StableHow, Stateid, Status, Verifier, WriteResponse};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;
use vfs::qos::{Charge, Demand, Kind, Toll, Wait, Waiter};
use vfs::{FsError, Opened, PendingSync, Span, Stability, panics};

/// What is copied before it is the next copy's turn; the same where a limit has to be paid for it.
const PART_BYTES: u64 = 8 << 20;
const PAID_PART_BYTES: u64 = 2 << 20;

/// A copy that goes on by itself. Dropped before its end, it tells its client that it has failed.
pub(crate) struct Copying {
    pub(crate) source: Arc<Opened<'static>>,
    pub(crate) target: Arc<Opened<'static>>,
    pub(crate) span: Span,
    /// What was written is safe if this is still so at COMMIT.
    pub(crate) writeverf: Verifier,
    /// The target's filehandle, as the client knows it.
    pub(crate) handle: Box<[u8]>,
    pub(crate) client: Weak<Client>,
    pub(crate) stateid: Stateid,
    /// Who pays.
    pub(crate) payer: IpAddr,
    pub(crate) progress: Arc<CopyProgress>,
    pub(crate) _place: CopyPlace,
}

/// Does copies.
#[derive(Clone, Default)]
pub(crate) struct Copier(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    ready: VecDeque<(Copying, Option<Charge>)>,
    /// Copies that have begun and not ended.
    copies: usize,
    threads: usize,
}

/// A copy that waits for a limit.
struct Unpaid {
    copier: Copier,
    toll: Toll,
    copying: Arc<Mutex<Option<Copying>>>,
}

impl Waiter for Unpaid {
    fn pass(self: Box<Self>) {
        let Self { copier, toll, copying } = *self;
        let charge = toll.paid();
        if let Some(copying) = lock(&copying).take() {
            copier.enqueue(copying, Some(charge));
        }
    }
}

impl Copier {
    /// A place for a copy; `None` if there are too many.
    pub(crate) fn reserve(&self) -> Option<CopyPlace> {
        let mut queue = lock(&self.0);
        if queue.copies >= COPIES_MAX {
            return None;
        }
        queue.copies += 1;
        Some(CopyPlace(self.clone()))
    }

    /// How many copies there are.
    #[cfg(test)]
    pub(crate) fn copies(&self) -> usize {
        lock(&self.0).copies
    }

    /// Begins a copy.
    pub(crate) fn begin(&self, copying: Copying) {
        self.enqueue(copying, None);
    }

    fn enqueue(&self, copying: Copying, charge: Option<Charge>) {
        let mut queue = lock(&self.0);
        queue.ready.push_back((copying, charge));
        if queue.threads == COPY_THREADS_MAX {
            return;
        }
        let copier = self.clone();
        match thread::Builder::new().name("nfs4-copies".into()).spawn(move || copier.work()) {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                tracing::warn!(%error, "nothing is copied: no thread can be started");
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
            let mut queue = lock(&self.0);
            let Some((copying, charge)) = queue.ready.pop_front() else {
                queue.threads -= 1;
                return;
            };
            drop(queue);
            // One that panics has said so, and its client hears that it has failed.
            let _ = panics::catch(|| self.step(copying, charge));
        }
    }

    /// Copies a part.
    fn step(&self, copying: Copying, charge: Option<Charge>) {
        let copied = copying.progress.copied();
        let volume = copying.target.file().volume();
        let most = if volume.gate().is_limited() { PAID_PART_BYTES } else { PART_BYTES };
        let part = (copying.span.len - copied).min(most);
        if part == 0 || copying.progress.is_canceled() || copying.client.strong_count() == 0 {
            return copying.end(Status::OK);
        }
        let bytes = u32::try_from(2 * part).unwrap_or(u32::MAX);
        let toll = volume.toll(copying.payer, Demand { kind: Kind::Write, bytes });
        let charge = match (charge, toll.map(Toll::pay)) {
            (Some(paid), _) => Some(paid),
            (None, None) => None,
            (None, Some(Ok(paid))) => Some(paid),
            (None, Some(Err(toll))) => return self.wait(copying, &toll),
        };
        match copying.copy_part(part, charge) {
            Ok(0) => copying.end(Status::OK),
            Ok(_) => self.enqueue(copying, None),
            // What is copied counts; the client asks for the rest, and hears what is wrong.
            Err(_) if copied > 0 => copying.end(Status::OK),
            Err(error) => copying.end(status(error)),
        }
    }

    /// Goes on with a copy when the limit allows it. Where too many wait for that, what is copied counts.
    fn wait(&self, copying: Copying, toll: &Toll) {
        let copying = Arc::new(Mutex::new(Some(copying)));
        let unpaid = Unpaid { copier: self.clone(), toll: toll.clone(), copying: Arc::clone(&copying) };
        let wait = toll.wait(Box::new(unpaid));
        if wait == Wait::Queued {
            return;
        }
        let taken = lock(&copying).take();
        match taken {
            Some(copying) if wait == Wait::Passed => self.enqueue(copying, Some(toll.clone().paid())),
            Some(copying) => copying.end(Status::OK),
            None => {}
        }
    }
}

/// The place of a copy among those that there may be.
pub(crate) struct CopyPlace(Copier);

impl Drop for CopyPlace {
    fn drop(&mut self) {
        lock(&self.0.0).copies -= 1;
    }
}

impl Copying {
    fn copy_part(&self, part: u64, charge: Option<Charge>) -> Result<u64, FsError> {
        let copied = self.progress.copied();
        let span = Span {
            source: self.span.source + copied,
            target: self.span.target.checked_add(copied).ok_or(FsError::FileTooBig)?,
            len: part,
        };
        if !self.progress.begin_part() {
            return Ok(0);
        }
        let (began, mut pending) = (Instant::now(), PendingSync::default());
        let copied = self.source.copy_to(&self.target, &span, Stability::Unstable, &mut pending);
        let copied = copied.and_then(|(count, _)| pending.sync_all().map(|()| count));
        self.progress.end_part(copied.unwrap_or(0));
        let count = copied?;
        // Each byte is read and written.
        self.target.file().volume().traffic().count(Kind::Write, 1, 2 * count, began.elapsed());
        if let Some(mut charge) = charge {
            charge.spend(u32::try_from(2 * count).unwrap_or(u32::MAX));
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

impl Drop for Copying {
    fn drop(&mut self) {
        self.end(Status::SERVERFAULT);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
