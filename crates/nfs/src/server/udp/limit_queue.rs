//! A queue of datagrams that wait for a limit.

use super::Datagram;
use crate::limits::WAITING_DATAGRAMS_MAX;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use vfs::bounds::{Bounds, Networks, Party, Slot};
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::sync::Mutex;

/// Queues datagrams. A full queue drops datagrams: their senders repeat them.
pub(super) struct LimitQueue {
    admitted: Sender<AdmittedDatagram>,
    bounds: Arc<Bounds>,
    networks: Networks,
    waiting: Arc<Mutex<WaitingCalls>>,
}

/// Calls by sender and XID: a call repeated while it waits has one place, and pays once.
type WaitingCalls = HashSet<(SocketAddr, u32)>;

pub(super) struct AdmittedDatagram {
    pub(super) datagram: Datagram,
    _permit: Permit,
    _entry: QueueEntry,
}

/// A place in the queue, released on drop.
struct QueueEntry {
    call: (SocketAddr, u32),
    waiting: Arc<Mutex<WaitingCalls>>,
    _slot: Slot,
}

struct QueuedDatagram {
    admission: Admission,
    entry: Arc<Mutex<Option<(Datagram, QueueEntry)>>>,
    admitted: Sender<AdmittedDatagram>,
}

impl LimitQueue {
    pub(super) fn new(networks: Networks) -> (Self, Receiver<AdmittedDatagram>) {
        let (admitted, receiver) = channel();
        let bounds = Bounds::new(WAITING_DATAGRAMS_MAX, 0);
        (Self { admitted, bounds, networks, waiting: Arc::default() }, receiver)
    }

    pub(super) fn wait(&self, datagram: Datagram, admission: Admission) {
        let Some(entry) = self.enter(&datagram) else { return };
        let entry_slot = Arc::new(Mutex::new(Some((datagram, entry))));
        let queued = || QueuedDatagram {
            admission: admission.clone(),
            entry: Arc::clone(&entry_slot),
            admitted: self.admitted.clone(),
        };
        if admission.wait(Box::new(queued())) == QueueResult::Passed {
            Box::new(queued()).pass();
        }
    }

    fn enter(&self, datagram: &Datagram) -> Option<QueueEntry> {
        let call = (datagram.peer, datagram.call.xid);
        let slot = self.bounds.take(&Party::of(self.networks.of(datagram.peer.ip())), 1).ok()?;
        let is_first = self.waiting.lock().insert(call);
        is_first.then(|| QueueEntry { call, waiting: Arc::clone(&self.waiting), _slot: slot })
    }
}

impl Waiter for QueuedDatagram {
    fn pass(self: Box<Self>) {
        let permit = self.admission.into_permit();
        if let Some((datagram, entry)) = self.entry.lock().take() {
            // Sending fails only after the receiver has stopped.
            let _ = self.admitted.send(AdmittedDatagram { datagram, _permit: permit, _entry: entry });
        }
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.call);
    }
}
