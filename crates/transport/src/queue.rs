//! Calls of a connection that wait for the limits of volumes, and the memory they take.

use crate::clients::{ClientUsage, ConnectionGuard};
use crate::limits::{
    QUEUED_BYTES_MAX, QUEUED_CLIENT_BYTES_MAX, QUEUED_CONNECTION_BYTES_MAX, QUEUED_CONNECTION_CALLS_MAX,
};
use crate::message::Dispatch;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;
use vfs::sync::Mutex;

/// A call that waits.
pub(crate) enum Queued<C, K> {
    /// It has not begun.
    Call {
        /// What was planned.
        call: C,
        /// The message it came as.
        message: Vec<u8>,
        /// How it may be done.
        dispatch: Dispatch,
        /// When it came.
        since: Instant,
    },
    /// It has begun, and goes on at something that it has to pay for.
    Continuation { at: K, since: Instant },
}

impl<C, K> Queued<C, K> {
    /// Whether it is done on the event loop.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self, Self::Call { dispatch: Dispatch::Inline, .. })
    }
}

/// What is queued over all connections.
#[derive(Default)]
pub(crate) struct Totals {
    bytes: AtomicUsize,
}

/// What is queued of one connection.
pub(crate) struct Queue<C> {
    queued: Mutex<Calls<C>>,
    /// Copies of what `queued` knows, for a look without the lock.
    calls: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes that a call may take which is coming in and will be queued: counted for its client and over all.
    reserved: AtomicUsize,
    client: ConnectionGuard,
    totals: Arc<Totals>,
}

struct Calls<C> {
    /// With the bytes that each takes.
    by_number: HashMap<u64, (C, usize)>,
    next: u64,
}

impl Totals {
    /// Bytes of calls that are queued.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether so much is queued that each connection may have but one such call.
    pub(crate) fn is_crowded(&self) -> bool {
        self.bytes() > QUEUED_BYTES_MAX
    }
}

impl<C> Queue<C> {
    /// Nothing yet.
    pub(crate) fn new(totals: &Arc<Totals>, client: ConnectionGuard) -> Self {
        Self {
            queued: Mutex::new(Calls { by_number: HashMap::new(), next: 0 }),
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            client,
            totals: Arc::clone(totals),
        }
    }

    /// Whether more of this connection may be queued, so that its calls may be taken.
    pub(crate) fn has_room(&self) -> bool {
        let client = self.usage().queued_bytes.load(Ordering::Relaxed);
        let is_crowded = self.totals.is_crowded() || client > QUEUED_CLIENT_BYTES_MAX;
        let (calls_max, bytes_max) =
            if is_crowded { (1, 1) } else { (QUEUED_CONNECTION_CALLS_MAX, QUEUED_CONNECTION_BYTES_MAX) };
        self.calls.load(Ordering::SeqCst) < calls_max && self.bytes.load(Ordering::SeqCst) < bytes_max
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.load(Ordering::SeqCst) == 0
    }

    /// Adds a call that takes so many bytes: its number. It comes back if too much of this client is queued, or of all.
    pub(crate) fn add(&self, call: C, bytes: usize) -> Result<u64, C> {
        if !self.fits(bytes) {
            return Err(call);
        }
        let mut queued = self.lock();
        queued.next += 1;
        let number = queued.next;
        queued.by_number.insert(number, (call, bytes));
        self.count_calls(&queued, bytes, 0);
        Ok(number)
    }

    /// What is to be known of a call, if it has not been forgotten.
    pub(crate) fn inspect<R>(&self, number: u64, what: impl FnOnce(&C) -> R) -> Option<R> {
        self.lock().by_number.get(&number).map(|(call, _)| what(call))
    }

    /// Takes a call out, if it has not been forgotten.
    pub(crate) fn take(&self, number: u64) -> Option<C> {
        let mut queued = self.lock();
        let (call, bytes) = queued.by_number.remove(&number)?;
        self.count_calls(&queued, 0, bytes);
        Some(call)
    }

    /// Forgets all calls: they will not be answered.
    pub(crate) fn forget(&self) {
        let mut queued = self.lock();
        let gone = std::mem::take(&mut queued.by_number);
        self.count_calls(&queued, 0, gone.values().map(|(_, bytes)| bytes).sum());
        // What goes with a call may want to know what is queued.
        drop(queued);
        drop(gone);
    }

    /// Reserves memory for the long call that is coming in. False: too much is queued already.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let fits = self.fits(bytes);
        if fits {
            self.reserved.store(bytes, Ordering::SeqCst);
            self.count(bytes, 0);
        }
        fits
    }

    /// Gives up the reservation, if there is one: the call is there.
    pub(crate) fn unreserve(&self) {
        let bytes = self.reserved.swap(0, Ordering::SeqCst);
        if bytes > 0 {
            self.count(0, bytes);
        }
    }

    /// Whether memory is reserved for a call that is coming in.
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.load(Ordering::SeqCst) > 0
    }

    fn fits(&self, bytes: usize) -> bool {
        self.usage().queued_bytes.load(Ordering::Relaxed) + bytes <= 2 * QUEUED_CLIENT_BYTES_MAX
            && self.totals.bytes() + bytes <= 2 * QUEUED_BYTES_MAX
    }

    /// What the client takes in all.
    fn usage(&self) -> &Arc<ClientUsage> {
        self.client.usage()
    }

    /// The connection, as it is counted for its client.
    pub(crate) fn counted(&self) -> &ConnectionGuard {
        &self.client
    }

    fn count_calls(&self, queued: &Calls<C>, come: usize, gone: usize) {
        self.calls.store(queued.by_number.len(), Ordering::SeqCst);
        self.bytes.fetch_add(come, Ordering::SeqCst);
        self.bytes.fetch_sub(gone, Ordering::SeqCst);
        self.count(come, gone);
    }

    fn count(&self, come: usize, gone: usize) {
        for count in [&self.usage().queued_bytes, &self.totals.bytes] {
            count.fetch_add(come, Ordering::Relaxed);
            count.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls<C>> {
        self.queued.lock()
    }
}

impl<C> Drop for Queue<C> {
    fn drop(&mut self) {
        self.forget();
        self.unreserve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;
    use crate::settings::Settings;
    use std::net::Ipv4Addr;

    fn clients() -> Arc<Clients> {
        Clients::new(&Settings::for_descriptors(1, 1000))
    }

    fn queue(totals: &Arc<Totals>, clients: &Arc<Clients>, host: u8) -> Queue<()> {
        let counted = clients.connect(Ipv4Addr::new(10, 0, 0, host).into(), Instant::now());
        Queue::new(totals, counted.expect("few connections"))
    }

    fn add(queue: &Queue<()>, bytes: usize) -> bool {
        queue.add((), bytes).is_ok()
    }

    #[test]
    fn a_connection_that_ends_leaves_nothing_behind() {
        let (totals, clients) = (Arc::new(Totals::default()), clients());
        let gone = queue(&totals, &clients, 1);
        let stays = queue(&totals, &clients, 1);
        assert!(add(&gone, 100) && add(&gone, 50));
        assert!(gone.reserve(1 << 20));
        assert_eq!(totals.bytes(), 150 + (1 << 20));
        drop(gone);
        assert_eq!((totals.bytes(), stays.usage().queued_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_client_with_much_that_is_queued_has_one_call_a_connection_and_others_do_not_care() {
        let (totals, clients) = (Arc::new(Totals::default()), clients());
        let greedy: Vec<Queue<()>> = (0..4).map(|_| queue(&totals, &clients, 1)).collect();
        let modest = queue(&totals, &clients, 2);
        assert!(greedy[0].reserve(QUEUED_CLIENT_BYTES_MAX));
        assert!(greedy[1].has_room());
        assert!(add(&greedy[1], 1));
        assert!(!greedy[1].has_room() && greedy[2].has_room());
        assert!(add(&modest, 1));
        assert!(modest.has_room());
        assert!(greedy[2].reserve(QUEUED_CLIENT_BYTES_MAX - 1));
        assert!(!greedy[3].reserve(1) && !add(&greedy[3], 1), "twice the bound");
        assert!(add(&modest, 1));
        greedy[2].unreserve();
        assert!(add(&greedy[3], 1));
    }
}
