//! Waiting of a command: for the claims of others, for a limit, or for an event that its client asked for.

use super::context::RequestContext;
use super::copying::CopyProgress;
use super::limit_wait::LimitWait;
use super::outcome::CommandError;
use crate::state::open::Open;
use crate::state::open::channel_sequence::OutstandingRequest;
use crate::state::open::open_table::CreateRegistration;
use crate::state::pending::{AsyncRequest, AsyncSlotGuard, Cancel, Interim, Rollback, Waker, Wakeup};
use crate::state::tree::DiskShare;
use smb_wire::{FileId, NtStatus};
use vfs::claims::{Io, IoKind, Request, Requester, Span, Ticket, Verdict};
use vfs::qos::{Admission, Permit, QueueResult};
use vfs::{File, Wait};

#[derive(Default)]
pub(crate) struct WaitState {
    /// Counts the request in `Open.OutstandingRequestCount`.
    pub(crate) outstanding: Option<OutstandingRequest>,
    /// Registers a CREATE, so that a replay finds it.
    pub(crate) create_registration: Option<CreateRegistration>,
    pub(crate) limit_wait: Option<LimitWait>,
    /// Boxed, because this state is moved often and few commands copy.
    pub(crate) copy_progress: Option<Box<CopyProgress>>,
    pub(crate) waker: Option<AsyncSlotGuard>,
    /// The end of the last wait, until the command consumes it.
    pub(crate) wakeup: Option<Wakeup>,
    /// Cancels the wait that begins now.
    pub(crate) cancel: Option<Cancel>,
    /// Returns a claim that is granted when no client is left to receive it.
    pub(crate) rollback: Option<Rollback>,
    /// Memory that the request uses while it waits.
    pub(crate) memory_bytes: usize,
}

impl WaitState {
    /// Continues a command that `waker` has woken.
    pub(crate) fn resume(&mut self, waker: Waker, wakeup: Option<Wakeup>) {
        (self.waker, self.wakeup) = (Some(AsyncSlotGuard::new(waker)), wakeup);
    }

    /// Takes a wakeup that arrived before the command waited.
    pub(crate) fn take_early_wakeup(&mut self) {
        if self.wakeup.is_none() {
            let outcome = self.waker.as_ref().and_then(|waker| waker.waker()?.take_outcome());
            self.wakeup = outcome.map(|outcome| Wakeup::new(outcome, None));
        }
    }

    /// Prepares the state for the next attempt at the command.
    pub(crate) fn suspend(&mut self, cause: Wait) {
        (self.cancel, self.rollback) = (None, None);
        if !matches!(cause, Wait::Storage | Wait::Tokens) {
            self.wakeup = None;
        }
    }
}

impl RequestContext<'_, '_> {
    /// Creates the waker of this request, which ends with `status_on_close` when `file` is closed. The request becomes
    /// asynchronous, within the quotas of its connection, its user and the process.
    pub(crate) fn waker(
        &mut self,
        file: Option<FileId>,
        status_on_close: NtStatus,
        interim: Interim,
    ) -> Result<Waker, NtStatus> {
        if let Some(waker) = self.wait.waker.as_ref().and_then(AsyncSlotGuard::waker) {
            return Ok(waker.clone());
        }
        if interim == Interim::OfLast && !self.is_last {
            return Err(NtStatus::INTERNAL_ERROR);
        }
        let (service, connection) = (self.message.service, self.message.connection);
        let request = AsyncRequest {
            async_id: service.counters.next_id(),
            connection: connection.number,
            message_id: self.header.message_id,
            tree_id: self.header.tree_id(),
            file,
            status_on_close,
            interim,
            outlives_connection: self.wait.create_registration.is_some(),
        };
        let (bytes, too_many) = (self.wait.memory_bytes, NtStatus::INSUFFICIENT_RESOURCES);
        let of_connection = connection.pending_quota.try_acquire(bytes).ok_or(too_many)?;
        let quota = &self.session()?.user().pending_quota;
        let of_user = quota.try_acquire_beside(bytes, &service.pending_quota).ok_or(too_many)?;
        let of_all = service.pending_quota.try_acquire(bytes).ok_or(too_many)?;
        let waker = self.session()?.waker(request, [of_connection, of_user, of_all])?;
        self.wait.waker = Some(AsyncSlotGuard::new(waker.clone()));
        Ok(waker)
    }

    /// Suspends the request until its [`Waker`] wakes it.
    pub(crate) fn suspend(&mut self, cancel: Cancel) -> CommandError {
        self.wait.cancel = Some(cancel);
        CommandError::Wait(Wait::Event)
    }

    /// Suspends the request until a claim on `file` is decided. `disk` has received the ticket.
    pub(crate) fn wait_for_claim(
        &mut self,
        disk: &DiskShare,
        file: &File,
        ticket: Ticket,
        waker: &Waker,
    ) -> CommandError {
        let cancel = disk.claim_holder.wait(file, ticket, waker);
        self.suspend(cancel)
    }

    /// Suspends the request until other clients return the leases that block I/O through `open`. Sends no interim
    /// reply.
    pub(crate) fn wait_for_io(&mut self, open: &Open, kind: IoKind, span: Span) -> CommandError {
        let by = Requester::Open(open.claim());
        let request = Request::Io(Io { by, stream: open.file.stream(), kind, span, waits: true });
        self.wait_for_verdict(open, &open.file, &request)
    }

    /// Suspends the request until other clients return the leases that block a new name of `file`, which `open` opens
    /// or replaces. Sends no interim reply.
    pub(crate) fn wait_for_name(&mut self, open: &Open, file: &File) -> CommandError {
        let request = Request::Unlink { by: Requester::Open(open.claim()), waits: true };
        self.wait_for_verdict(open, file, &request)
    }

    fn wait_for_verdict(&mut self, open: &Open, file: &File, request: &Request) -> CommandError {
        let waker = match self.waker(Some(open.id), NtStatus::FILE_CLOSED, Interim::Never) {
            Ok(waker) => waker,
            Err(status) => return status.into(),
        };
        match file.claim(request) {
            Verdict::Wait(ticket) => self.wait_for_claim(&open.disk, file, ticket, &waker),
            // The blocking lease has gone since, or the obstacle is not a lease.
            Verdict::Granted(_) | Verdict::Refused(_) => CommandError::Wait(Wait::Recall),
        }
    }

    /// Acquires a permit for a part of a copy, at the source or the target, in a request on `open`. Sends no interim
    /// reply.
    pub(crate) fn acquire_permit(
        &mut self,
        open: &Open,
        admission: Admission,
    ) -> Result<Permit, CommandError> {
        if let Some(permit) = self.wait.limit_wait.take().and_then(LimitWait::into_permit) {
            return Ok(permit);
        }
        let admission = match admission.try_acquire() {
            Ok(permit) => return Ok(permit),
            Err(admission) => admission,
        };
        let waker = self.waker(Some(open.id), NtStatus::FILE_CLOSED, Interim::Never)?;
        let limit_wait = LimitWait::default();
        match limit_wait.queue(&admission, &waker) {
            QueueResult::Passed => Ok(admission.into_permit()),
            QueueResult::Full => Err(CommandError::Wait(Wait::Recall)),
            QueueResult::Queued => {
                self.wait.limit_wait = Some(limit_wait);
                Err(self.suspend(Box::new(|| true)))
            }
        }
    }
}
