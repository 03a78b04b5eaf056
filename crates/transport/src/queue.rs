//! Calls of a connection that wait for the limits of volumes, and their memory.

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

pub(crate) enum Queued<C, K> {
    Call { call: C, message: Vec<u8>, dispatch: Dispatch, since: Instant },
    Continuation { at: K, since: Instant },
}

impl<C, K> Queued<C, K> {
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self, Self::Call { dispatch: Dispatch::Inline, .. })
    }
}

#[derive(Default)]
pub(crate) struct Totals {
    bytes: AtomicUsize,
}

pub(crate) struct Queue<C> {
    queued: Mutex<Calls<C>>,
    /// Copies of the values in `queued`, to be read without the lock.
    calls: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes reserved for a call that is arriving and will be queued. They count for its client and in total.
    reserved: AtomicUsize,
    client: ConnectionGuard,
    totals: Arc<Totals>,
}

struct Calls<C> {
    /// Calls by number, each with its memory in bytes.
    by_number: HashMap<u64, (C, usize)>,
    next: u64,
}

impl Totals {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the limit is exceeded, so that each connection may have one queued call.
    pub(crate) fn is_crowded(&self) -> bool {
        self.bytes() > QUEUED_BYTES_MAX
    }
}

impl<C> Queue<C> {
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

    /// Whether the connection may queue another call, so that its calls may be taken.
    pub(crate) fn has_room(&self) -> bool {
        let client = self.usage().queued_bytes.load(Ordering::Relaxed);
        let is_crowded = self.totals.is_crowded() || client > QUEUED_CLIENT_BYTES_MAX;
        let (calls_max, bytes_max) =
            if is_crowded { (1, 1) } else { (QUEUED_CONNECTION_CALLS_MAX, QUEUED_CONNECTION_BYTES_MAX) };
        self.calls.load(Ordering::SeqCst) < calls_max && self.bytes.load(Ordering::SeqCst) < bytes_max
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.load(Ordering::SeqCst) == 0
    }

    /// Adds a call of `bytes`. Returns its number, or the call if its client or the server has reached twice the limit.
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

    /// Reads a queued call; `None` if it was dropped.
    pub(crate) fn inspect<R>(&self, number: u64, what: impl FnOnce(&C) -> R) -> Option<R> {
        self.lock().by_number.get(&number).map(|(call, _)| what(call))
    }

    /// Takes a call out; `None` if it was dropped.
    pub(crate) fn take(&self, number: u64) -> Option<C> {
        let mut queued = self.lock();
        let (call, bytes) = queued.by_number.remove(&number)?;
        self.count_calls(&queued, 0, bytes);
        Some(call)
    }

    /// Drops all calls. They get no reply.
    pub(crate) fn forget(&self) {
        let mut queued = self.lock();
        let dropped = std::mem::take(&mut queued.by_number);
        self.count_calls(&queued, 0, dropped.values().map(|(_, bytes)| bytes).sum());
        // Dropping a call may lock the queue again.
        drop(queued);
        drop(dropped);
    }

    /// Reserves memory for a long call that is arriving. `false`: its client or the server has reached twice the limit.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let fits = self.fits(bytes);
        if fits {
            self.reserved.store(bytes, Ordering::SeqCst);
            self.count(bytes, 0);
        }
        fits
    }

    pub(crate) fn unreserve(&self) {
        let bytes = self.reserved.swap(0, Ordering::SeqCst);
        if bytes > 0 {
            self.count(0, bytes);
        }
    }

    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.load(Ordering::SeqCst) > 0
    }

    fn fits(&self, bytes: usize) -> bool {
        self.usage().queued_bytes.load(Ordering::Relaxed) + bytes <= 2 * QUEUED_CLIENT_BYTES_MAX
            && self.totals.bytes() + bytes <= 2 * QUEUED_BYTES_MAX
    }

    fn usage(&self) -> &Arc<ClientUsage> {
        self.client.usage()
    }

    pub(crate) fn counted(&self) -> &ConnectionGuard {
        &self.client
    }

    fn count_calls(&self, queued: &Calls<C>, added: usize, removed: usize) {
        self.calls.store(queued.by_number.len(), Ordering::SeqCst);
        self.bytes.fetch_add(added, Ordering::SeqCst);
        self.bytes.fetch_sub(removed, Ordering::SeqCst);
        self.count(added, removed);
    }

    fn count(&self, added: usize, removed: usize) {
        for count in [&self.usage().queued_bytes, &self.totals.bytes] {
            count.fetch_add(added, Ordering::Relaxed);
            count.fetch_sub(removed, Ordering::Relaxed);
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
    fn dropping_a_queue_releases_its_bytes() {
        let (totals, clients) = (Arc::new(Totals::default()), clients());
        let dropped = queue(&totals, &clients, 1);
        let stays = queue(&totals, &clients, 1);
        assert!(add(&dropped, 100) && add(&dropped, 50));
        assert!(dropped.reserve(1 << 20));
        assert_eq!(totals.bytes(), 150 + (1 << 20));
        drop(dropped);
        assert_eq!((totals.bytes(), stays.usage().queued_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_client_past_its_limit_has_one_call_per_connection_and_others_are_unaffected() {
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
