//! The calls of a connection that are queued for the limits of volumes, as the bytes they came as.

use super::clients::{ClientUse, Counted};
use crate::limits::{
    QUEUED_BYTES_MAX, QUEUED_CLIENT_BYTES_MAX, QUEUED_CONNECTION_BYTES_MAX, QUEUED_CONNECTION_CALLS_MAX,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A queued call.
pub struct QueuedCall {
    /// The bytes it came as.
    pub record: Vec<u8>,
    /// When it came.
    pub since: Instant,
}

/// What is queued over all connections.
#[derive(Default)]
pub struct Totals {
    queued_bytes: AtomicUsize,
}

/// What is queued of one connection.
pub struct LimitQueue {
    queued: Mutex<Queue>,
    /// Copies of what `queued` knows, for a look without the lock.
    queued_calls: AtomicUsize,
    queued_bytes: AtomicUsize,
    /// Bytes that a call may take which is coming in and will be queued: counted for its client and over all.
    reserved: AtomicUsize,
    client: Counted,
    totals: Arc<Totals>,
}

#[derive(Default)]
struct Queue {
    calls: HashMap<u64, QueuedCall>,
    next: u64,
}

impl Totals {
    /// Bytes of queued calls.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// Whether so much is queued that each connection may have only one queued call.
    pub fn is_crowded(&self) -> bool {
        self.queued_bytes() > QUEUED_BYTES_MAX
    }
}

impl LimitQueue {
    /// Nothing yet.
    pub fn new(totals: &Arc<Totals>, client: Counted) -> Self {
        Self {
            queued: Mutex::default(),
            queued_calls: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            client,
            totals: Arc::clone(totals),
        }
    }

    /// Whether more of this connection may be queued, so that its calls may be taken.
    pub fn has_room(&self) -> bool {
        let client = self.client().queued_bytes.load(Ordering::Relaxed);
        let is_crowded = self.totals.is_crowded() || client > QUEUED_CLIENT_BYTES_MAX;
        let (calls_max, bytes_max) =
            if is_crowded { (1, 1) } else { (QUEUED_CONNECTION_CALLS_MAX, QUEUED_CONNECTION_BYTES_MAX) };
        self.queued_calls.load(Ordering::SeqCst) < calls_max
            && self.queued_bytes.load(Ordering::SeqCst) < bytes_max
    }

    /// Whether anything is queued.
    pub fn is_empty(&self) -> bool {
        self.queued_calls.load(Ordering::SeqCst) == 0
    }

    /// Queues a call: its number. `None` if too much of this client, or of all, is queued.
    pub fn enqueue(&self, record: &[u8]) -> Option<u64> {
        if !self.fits(record.len()) {
            return None;
        }
        let mut queue = self.lock();
        queue.next += 1;
        let number = queue.next;
        queue.calls.insert(number, QueuedCall { record: record.to_vec(), since: Instant::now() });
        self.count_queued(&queue, record.len(), 0);
        Some(number)
    }

    /// What `of` makes of a call, if it has not been forgotten.
    pub fn look<T>(&self, number: u64, of: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.lock().calls.get(&number).map(|queued| of(&queued.record))
    }

    /// Takes a call out, if it has not been forgotten.
    pub fn dequeue(&self, number: u64) -> Option<QueuedCall> {
        let mut queue = self.lock();
        let queued = queue.calls.remove(&number)?;
        self.count_queued(&queue, 0, queued.record.len());
        Some(queued)
    }

    /// Forgets all calls: they will not be answered.
    pub fn forget(&self) {
        let mut queue = self.lock();
        let bytes = queue.calls.drain().map(|(_, queued)| queued.record.len()).sum();
        self.count_queued(&queue, 0, bytes);
    }

    /// Reserves memory for the long call that is coming in. False: too much is queued already.
    pub fn reserve(&self, bytes: usize) -> bool {
        let fits = self.fits(bytes);
        if fits {
            self.reserved.store(bytes, Ordering::SeqCst);
            self.count(bytes, 0);
        }
        fits
    }

    /// Gives up the reservation, if there is one: the call is there.
    pub fn unreserve(&self) {
        let bytes = self.reserved.swap(0, Ordering::SeqCst);
        if bytes > 0 {
            self.count(0, bytes);
        }
    }

    /// Whether memory is reserved for a call that is coming in.
    pub fn has_reserved(&self) -> bool {
        self.reserved.load(Ordering::SeqCst) > 0
    }

    fn fits(&self, bytes: usize) -> bool {
        self.client().queued_bytes.load(Ordering::Relaxed) + bytes <= 2 * QUEUED_CLIENT_BYTES_MAX
            && self.totals.queued_bytes() + bytes <= 2 * QUEUED_BYTES_MAX
    }

    fn client(&self) -> &ClientUse {
        self.client.client()
    }

    fn count_queued(&self, queue: &Queue, come: usize, gone: usize) {
        self.queued_calls.store(queue.calls.len(), Ordering::SeqCst);
        self.queued_bytes.fetch_add(come, Ordering::SeqCst);
        self.queued_bytes.fetch_sub(gone, Ordering::SeqCst);
        self.count(come, gone);
    }

    fn count(&self, come: usize, gone: usize) {
        for count in [&self.client().queued_bytes, &self.totals.queued_bytes] {
            count.fetch_add(come, Ordering::Relaxed);
            count.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LimitQueue {
    fn drop(&mut self) {
        self.forget();
        self.unreserve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::clients::Clients;
    use std::net::Ipv4Addr;

    fn limit_queue(totals: &Arc<Totals>, clients: &Clients, host: u8) -> LimitQueue {
        let counted = clients.connect(Ipv4Addr::new(10, 0, 0, host).into(), 100);
        LimitQueue::new(totals, counted.expect("few connections"))
    }

    #[test]
    fn a_connection_that_ends_leaves_nothing_behind() {
        let (totals, clients) = (Arc::new(Totals::default()), Clients::default());
        let gone = limit_queue(&totals, &clients, 1);
        let stays = limit_queue(&totals, &clients, 1);
        gone.enqueue(&[0; 100]);
        gone.enqueue(&[0; 50]);
        assert!(gone.reserve(1 << 20));
        assert_eq!(totals.queued_bytes(), 150 + (1 << 20));
        drop(gone);
        assert_eq!((totals.queued_bytes(), stays.client().queued_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_client_with_much_queued_has_one_call_a_connection_and_others_do_not_care() {
        let (totals, clients) = (Arc::new(Totals::default()), Clients::default());
        let greedy: Vec<LimitQueue> = (0..4).map(|_| limit_queue(&totals, &clients, 1)).collect();
        let modest = limit_queue(&totals, &clients, 2);
        assert!(greedy[0].reserve(QUEUED_CLIENT_BYTES_MAX));
        assert!(greedy[1].has_room());
        greedy[1].enqueue(&[0; 1]);
        assert!(!greedy[1].has_room() && greedy[2].has_room());
        modest.enqueue(&[0; 1]);
        assert!(modest.has_room());
        assert!(greedy[2].reserve(QUEUED_CLIENT_BYTES_MAX - 1));
        assert!(!greedy[3].reserve(1) && greedy[3].enqueue(&[0; 1]).is_none(), "twice the bound");
        assert!(modest.enqueue(&[0; 1]).is_some());
        greedy[2].unreserve();
        assert!(greedy[3].enqueue(&[0; 1]).is_some());
    }
}
