//! What of a connection waits for the limits of volumes: calls, kept as the bytes they came as.

use super::clients::{ClientUse, Counted};
use crate::limits::{
    PARKED_BYTES_MAX, PARKED_CLIENT_BYTES_MAX, PARKED_CONNECTION_BYTES_MAX, PARKED_CONNECTION_CALLS_MAX,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A call that waits.
pub struct Parked {
    /// The bytes it came as.
    pub record: Vec<u8>,
    /// When it came.
    pub since: Instant,
}

/// What waits over all connections.
#[derive(Default)]
pub struct Totals {
    parked_bytes: AtomicUsize,
}

/// What waits of one connection.
pub struct Waiting {
    parked: Mutex<Parking>,
    /// Copies of what `parked` knows, for a look without the lock.
    parked_calls: AtomicUsize,
    parked_bytes: AtomicUsize,
    /// Bytes that a call may take which is coming in and will wait: counted for its client and over all.
    reserved: AtomicUsize,
    client: Counted,
    totals: Arc<Totals>,
}

#[derive(Default)]
struct Parking {
    calls: HashMap<u64, Parked>,
    next: u64,
}

impl Totals {
    /// Bytes of calls that wait.
    pub fn parked_bytes(&self) -> usize {
        self.parked_bytes.load(Ordering::Relaxed)
    }

    /// Whether so much waits that each connection may have but one call that does.
    pub fn is_crowded(&self) -> bool {
        self.parked_bytes() > PARKED_BYTES_MAX
    }
}

impl Waiting {
    /// Nothing yet.
    pub fn new(totals: &Arc<Totals>, client: Counted) -> Self {
        Self {
            parked: Mutex::default(),
            parked_calls: AtomicUsize::new(0),
            parked_bytes: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            client,
            totals: Arc::clone(totals),
        }
    }

    /// Whether more of this connection may wait, so that its calls may be taken.
    pub fn has_room(&self) -> bool {
        let client = self.client().parked_bytes.load(Ordering::Relaxed);
        let is_crowded = self.totals.is_crowded() || client > PARKED_CLIENT_BYTES_MAX;
        let (calls_max, bytes_max) =
            if is_crowded { (1, 1) } else { (PARKED_CONNECTION_CALLS_MAX, PARKED_CONNECTION_BYTES_MAX) };
        self.parked_calls.load(Ordering::SeqCst) < calls_max
            && self.parked_bytes.load(Ordering::SeqCst) < bytes_max
    }

    /// Whether anything waits.
    pub fn is_empty(&self) -> bool {
        self.parked_calls.load(Ordering::SeqCst) == 0
    }

    /// Keeps a call: its number. `None` if too much of this client waits, or of all.
    pub fn park(&self, record: &[u8]) -> Option<u64> {
        if !self.fits(record.len()) {
            return None;
        }
        let mut parking = self.lock();
        parking.next += 1;
        let number = parking.next;
        parking.calls.insert(number, Parked { record: record.to_vec(), since: Instant::now() });
        self.count_parked(&parking, record.len(), 0);
        Some(number)
    }

    /// What `of` makes of a call, if it has not been forgotten.
    pub fn look<T>(&self, number: u64, of: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.lock().calls.get(&number).map(|parked| of(&parked.record))
    }

    /// Takes a call back, if it has not been forgotten.
    pub fn unpark(&self, number: u64) -> Option<Parked> {
        let mut parking = self.lock();
        let parked = parking.calls.remove(&number)?;
        self.count_parked(&parking, 0, parked.record.len());
        Some(parked)
    }

    /// Forgets all calls: they will not be answered.
    pub fn forget(&self) {
        let mut parking = self.lock();
        let bytes = parking.calls.drain().map(|(_, parked)| parked.record.len()).sum();
        self.count_parked(&parking, 0, bytes);
    }

    /// Reserves memory for the long call that is coming in. False: too much waits already.
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
        self.client().parked_bytes.load(Ordering::Relaxed) + bytes <= 2 * PARKED_CLIENT_BYTES_MAX
            && self.totals.parked_bytes() + bytes <= 2 * PARKED_BYTES_MAX
    }

    fn client(&self) -> &ClientUse {
        self.client.client()
    }

    fn count_parked(&self, parking: &Parking, come: usize, gone: usize) {
        self.parked_calls.store(parking.calls.len(), Ordering::SeqCst);
        self.parked_bytes.fetch_add(come, Ordering::SeqCst);
        self.parked_bytes.fetch_sub(gone, Ordering::SeqCst);
        self.count(come, gone);
    }

    fn count(&self, come: usize, gone: usize) {
        for count in [&self.client().parked_bytes, &self.totals.parked_bytes] {
            count.fetch_add(come, Ordering::Relaxed);
            count.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Parking> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
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

    fn waiting(totals: &Arc<Totals>, clients: &Clients, host: u8) -> Waiting {
        let counted = clients.connect(Ipv4Addr::new(10, 0, 0, host).into(), 100);
        Waiting::new(totals, counted.expect("few connections"))
    }

    #[test]
    fn a_connection_that_ends_leaves_nothing_behind() {
        let (totals, clients) = (Arc::new(Totals::default()), Clients::default());
        let gone = waiting(&totals, &clients, 1);
        let stays = waiting(&totals, &clients, 1);
        gone.park(&[0; 100]);
        gone.park(&[0; 50]);
        assert!(gone.reserve(1 << 20));
        assert_eq!(totals.parked_bytes(), 150 + (1 << 20));
        drop(gone);
        assert_eq!((totals.parked_bytes(), stays.client().parked_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_client_with_much_that_waits_has_one_call_a_connection_and_others_do_not_care() {
        let (totals, clients) = (Arc::new(Totals::default()), Clients::default());
        let greedy: Vec<Waiting> = (0..4).map(|_| waiting(&totals, &clients, 1)).collect();
        let modest = waiting(&totals, &clients, 2);
        assert!(greedy[0].reserve(PARKED_CLIENT_BYTES_MAX));
        assert!(greedy[1].has_room());
        greedy[1].park(&[0; 1]);
        assert!(!greedy[1].has_room() && greedy[2].has_room());
        modest.park(&[0; 1]);
        assert!(modest.has_room());
        assert!(greedy[2].reserve(PARKED_CLIENT_BYTES_MAX - 1));
        assert!(!greedy[3].reserve(1) && greedy[3].park(&[0; 1]).is_none(), "twice the bound");
        assert!(modest.park(&[0; 1]).is_some());
        greedy[2].unreserve();
        assert!(greedy[3].park(&[0; 1]).is_some());
    }
}
