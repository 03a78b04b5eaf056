//! Datagrams that wait for their turn at a limit.

use super::Datagram;
use crate::limits::WAITING_DATAGRAMS_MAX;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use vfs::bounds::{Bounds, Networks, Party, Slot};
use vfs::qos::{Admission, Permit, QueueResult, Waiter};
use vfs::sync::Mutex;

/// Puts datagrams in line. Those that find no room are dropped: their senders repeat them.
pub(super) struct Line {
    paid: Sender<Paid>,
    bounds: Arc<Bounds>,
    networks: Networks,
    waiting: Arc<Mutex<Calls>>,
}

/// Calls by sender and number: one that is repeated while it waits has one place, and pays once.
type Calls = HashSet<(SocketAddr, u32)>;

/// A datagram that has paid.
pub(super) struct Paid {
    pub(super) datagram: Datagram,
    _charge: Permit,
    _place: Place,
}

/// A place in line, until this is dropped.
struct Place {
    call: (SocketAddr, u32),
    waiting: Arc<Mutex<Calls>>,
    _slot: Slot,
}

/// A waiter at a limit, for a datagram.
struct Queued {
    toll: Admission,
    held: Arc<Mutex<Option<(Datagram, Place)>>>,
    paid: Sender<Paid>,
}

impl Line {
    /// An empty one, and its end.
    pub(super) fn new(networks: Networks) -> (Self, Receiver<Paid>) {
        let (paid, receiver) = channel();
        let bounds = Bounds::new(WAITING_DATAGRAMS_MAX, 0);
        (Self { paid, bounds, networks, waiting: Arc::default() }, receiver)
    }

    /// Puts a datagram in line.
    pub(super) fn wait(&self, datagram: Datagram, toll: Admission) {
        let Some(place) = self.place(&datagram) else { return };
        let held = Arc::new(Mutex::new(Some((datagram, place))));
        let queued = || Queued { toll: toll.clone(), held: Arc::clone(&held), paid: self.paid.clone() };
        if toll.wait(Box::new(queued())) == QueueResult::Passed {
            Box::new(queued()).pass();
        }
    }

    fn place(&self, datagram: &Datagram) -> Option<Place> {
        let call = (datagram.peer, datagram.call.xid);
        let slot = self.bounds.take(&Party::of(self.networks.of(datagram.peer.ip())), 1).ok()?;
        let is_first = self.waiting.lock().insert(call);
        is_first.then(|| Place { call, waiting: Arc::clone(&self.waiting), _slot: slot })
    }
}

impl Waiter for Queued {
    fn pass(self: Box<Self>) {
        let charge = self.toll.into_permit();
        if let Some((datagram, place)) = self.held.lock().take() {
            // Nobody answers any more if this fails.
            let _ = self.paid.send(Paid { datagram, _charge: charge, _place: place });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.call);
    }
}
