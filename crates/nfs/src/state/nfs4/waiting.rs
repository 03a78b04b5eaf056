//! Locks that a client waits for, with a notification (RFC 8881 §18.10.3, §20.11).

use super::channel::Callback;
use super::delegations::VolumeFile;
use super::state_table::{FileId, StateTable};
use crate::limits::CLIENT_WAITING_LOCKS_MAX;
use nfs_wire::v4::callback::{Argument, NotifyLockArgs};
use nfs_wire::v4::{FileHandle, StateOwner, Status};
use vfs::bounds::Slot;
use vfs::claims::{LockOwner, Span, Ticket};

/// Seconds in the queue for a lock. Clients poll, which queues them again; a program that ended does not withdraw its
/// request.
pub(crate) const WAIT_S: u64 = 90;
/// Seconds for which a lock is reserved for a notified client.
pub(crate) const RESERVED_S: u64 = 5;

pub(crate) struct WaitingLock {
    pub(crate) file: FileId,
    pub(crate) volume_file: VolumeFile,
    pub(crate) ticket: Ticket,
    /// The index of its open.
    pub(crate) open: u32,
    pub(crate) owner: LockOwner,
    pub(crate) span: Span,
    pub(crate) is_exclusive: bool,
    /// The filehandle that the client knows the file by.
    pub(crate) handle: Box<[u8]>,
    /// The second of the service after which it is not waited for any longer.
    pub(crate) until: u64,
    /// Whether the client was notified: the ticket is used up.
    pub(crate) is_notified: bool,
    pub(crate) _slot: Slot,
}

impl StateTable {
    pub(crate) fn has_room_to_wait(&self) -> bool {
        self.waiting.len() < CLIENT_WAITING_LOCKS_MAX
    }

    /// Whether the client waits for this lock, and was not notified of it.
    pub(crate) fn waits_for(&self, owner: LockOwner, file: FileId, span: Span, is_exclusive: bool) -> bool {
        let is_it = |lock: &WaitingLock| {
            !lock.is_notified
                && lock.owner == owner
                && lock.file == file
                && lock.span == span
                && lock.is_exclusive == is_exclusive
        };
        self.waiting.iter().any(is_it)
    }

    /// Adds a lock that the client waits for. The owner keeps its number meanwhile.
    pub(crate) fn wait(&mut self, lock: WaitingLock, name: &[u8]) -> Result<(), Status> {
        self.count_state()?;
        self.use_lock_owner(lock.owner.owner, name);
        self.waiting.push(lock);
        Ok(())
    }

    /// Removes locks that the client waits for, and returns their tickets.
    pub(crate) fn stop_waiting(&mut self, is_one: impl Fn(&WaitingLock) -> bool) -> Vec<Ticket> {
        let stopped: Vec<WaitingLock> = self.waiting.extract_if(.., |lock| is_one(lock)).collect();
        self.discount_states(stopped.len());
        for lock in &stopped {
            self.release_lock_owner(lock.owner.owner);
        }
        stopped.into_iter().map(|lock| lock.ticket).collect()
    }

    /// Marks the lock of a ticket as reserved until this second, and returns the notification.
    pub(super) fn notify(&mut self, place: &VolumeFile, ticket: Ticket, until: u64) -> Option<Callback> {
        let is_it = |lock: &&mut WaitingLock| lock.volume_file == *place && lock.ticket == ticket;
        let lock = self.waiting.iter_mut().find(is_it)?;
        (lock.until, lock.is_notified) = (until, true);
        let (handle, owner) = (lock.handle.clone(), lock.owner.owner);
        let lock_owner = StateOwner { clientid: self.prefix, owner: self.lock_owner_name(owner)? };
        Some(Callback::new(&Argument::NotifyLock(NotifyLockArgs { fh: FileHandle(&handle), lock_owner })))
    }
}
