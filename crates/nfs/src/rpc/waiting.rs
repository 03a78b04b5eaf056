//! What of a connection waits for the limits of volumes: calls, kept as the bytes they came as, and replies to long WRITEs,
//! whose data could not be kept and is written already.

use crate::limits::{
    HELD_BYTES_MAX, HELD_CONNECTION_MAX, PARKED_BYTES_MAX, PARKED_CONNECTION_BYTES_MAX,
    PARKED_CONNECTION_CALLS_MAX,
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
    held_bytes: AtomicUsize,
}

/// What waits of one connection.
pub struct Waiting {
    parked: Mutex<Parking>,
    /// Copies of what `parked` knows, for a look without the lock.
    parked_calls: AtomicUsize,
    parked_bytes: AtomicUsize,
    /// Replies that are held back, and the bytes of their WRITEs.
    held: AtomicUsize,
    held_bytes: AtomicUsize,
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
    pub fn new(totals: &Arc<Totals>) -> Self {
        Self {
            parked: Mutex::default(),
            parked_calls: AtomicUsize::new(0),
            parked_bytes: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            totals: Arc::clone(totals),
        }
    }

    /// Whether more of this connection may wait, so that its calls may be taken.
    pub fn has_room(&self) -> bool {
        let (calls_max, bytes_max) = if self.totals.is_crowded() {
            (1, 1)
        } else {
            (PARKED_CONNECTION_CALLS_MAX, PARKED_CONNECTION_BYTES_MAX)
        };
        let is_flooded = self.totals.held_bytes.load(Ordering::Relaxed) > HELD_BYTES_MAX;
        let held_max = if is_flooded { 1 } else { HELD_CONNECTION_MAX };
        self.parked_calls.load(Ordering::SeqCst) < calls_max
            && self.parked_bytes.load(Ordering::SeqCst) < bytes_max
            && self.held.load(Ordering::SeqCst) < held_max
    }

    /// Whether anything waits.
    pub fn is_empty(&self) -> bool {
        self.parked_calls.load(Ordering::SeqCst) == 0 && self.held.load(Ordering::SeqCst) == 0
    }

    /// Keeps a call: its number.
    pub fn park(&self, record: &[u8]) -> u64 {
        let mut parking = self.lock();
        parking.next += 1;
        let number = parking.next;
        parking.calls.insert(number, Parked { record: record.to_vec(), since: Instant::now() });
        self.count_parked(&parking, record.len(), 0);
        number
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

    /// Counts a reply that is held back, to a WRITE of so many bytes.
    pub fn hold(&self, bytes: usize) {
        self.held.fetch_add(1, Ordering::SeqCst);
        self.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        self.totals.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts one that is no longer.
    pub fn release(&self, bytes: usize) {
        self.held.fetch_sub(1, Ordering::SeqCst);
        self.held_bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.totals.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn count_parked(&self, parking: &Parking, come: usize, gone: usize) {
        self.parked_calls.store(parking.calls.len(), Ordering::SeqCst);
        self.parked_bytes.fetch_add(come, Ordering::SeqCst);
        self.parked_bytes.fetch_sub(gone, Ordering::SeqCst);
        self.totals.parked_bytes.fetch_add(come, Ordering::Relaxed);
        self.totals.parked_bytes.fetch_sub(gone, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Parking> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.forget();
        // Their turns may come later, but there is nobody left to release.
        self.totals.held_bytes.fetch_sub(*self.held_bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_ends_leaves_nothing_behind() {
        let totals = Arc::new(Totals::default());
        let waiting = Waiting::new(&totals);
        waiting.park(&[0; 100]);
        waiting.park(&[0; 50]);
        waiting.hold(1 << 20);
        waiting.hold(1 << 19);
        waiting.release(1 << 20);
        assert_eq!((totals.parked_bytes(), totals.held_bytes.load(Ordering::Relaxed)), (150, 1 << 19));
        drop(waiting);
        assert_eq!((totals.parked_bytes(), totals.held_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn when_much_is_held_each_connection_has_but_one() {
        let totals = Arc::new(Totals::default());
        let (greedy, modest) = (Waiting::new(&totals), Waiting::new(&totals));
        greedy.hold(HELD_BYTES_MAX + 1);
        assert!(!greedy.has_room() && modest.has_room());
        modest.hold(1);
        assert!(!modest.has_room());
        drop(greedy);
        assert!(modest.has_room());
    }
}
