//! Calls that are put off for some milliseconds: no thread waits with them.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use vfs::panics;

/// What goes on later.
pub trait Parked: Send + 'static {
    /// The memory it takes, in bytes.
    fn bytes(&self) -> usize;

    /// Goes on; does not wait.
    fn go_on(self);
}

/// A lot of calls that go on when their time has come. One thread sees to that, made with the first of them.
pub struct Parking<T>(Arc<Lot<T>>);

struct Lot<T> {
    name: &'static str,
    calls_max: usize,
    bytes_max: usize,
    parked: Mutex<Calls<T>>,
    changed: Condvar,
}

struct Calls<T> {
    by_time: BTreeMap<(Instant, u64), T>,
    bytes: usize,
    number: u64,
    has_thread: bool,
}

impl<T: Parked> Parking<T> {
    /// Nothing yet. `name` is its thread's; it takes so many calls, and so many bytes of them.
    pub fn new(name: &'static str, calls_max: usize, bytes_max: usize) -> Self {
        let calls = Calls { by_time: BTreeMap::new(), bytes: 0, number: 0, has_thread: false };
        let (parked, changed) = (Mutex::new(calls), Condvar::new());
        Self(Arc::new(Lot { name, calls_max, bytes_max, parked, changed }))
    }

    /// Puts a call off. It comes back if too many are put off already, or there is no thread to go on with it.
    pub fn park(&self, call: T, time: Duration) -> Result<(), T> {
        let mut parked = self.0.lock();
        if parked.by_time.len() >= self.0.calls_max || parked.bytes + call.bytes() > self.0.bytes_max {
            return Err(call);
        }
        if !parked.has_thread {
            let lot = Arc::downgrade(&self.0);
            let name = self.0.name.to_owned();
            if thread::Builder::new().name(name).spawn(move || work(&lot)).is_err() {
                return Err(call);
            }
            parked.has_thread = true;
        }
        parked.number += 1;
        let key = (Instant::now() + time, parked.number);
        parked.bytes += call.bytes();
        parked.by_time.insert(key, call);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Lot<T> {
    fn lock(&self) -> MutexGuard<'_, Calls<T>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the thread waits at most before it looks whether anybody still parks anything.
const LOOK: Duration = Duration::from_secs(1);

/// Goes on with what is due, until the lot is gone.
fn work<T: Parked>(lot: &Weak<Lot<T>>) {
    while let Some(lot) = lot.upgrade() {
        let mut parked = lot.lock();
        let now = Instant::now();
        let due =
            parked.by_time.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove());
        if let Some(call) = due {
            parked.bytes -= call.bytes();
            drop(parked);
            // One that panics has said so.
            let _ = panics::catch(|| call.go_on());
            continue;
        }
        let next = parked.by_time.first_key_value().map_or(LOOK, |((at, _), _)| at.duration_since(now));
        drop(lot.changed.wait_timeout(parked, next.min(LOOK)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    const CALLS_MAX: usize = 100;
    const BYTES_MAX: usize = 1000;

    struct Call(Sender<usize>, usize);

    impl Parked for Call {
        fn bytes(&self) -> usize {
            self.1
        }

        fn go_on(self) {
            self.0.send(self.1).unwrap();
        }
    }

    #[test]
    fn calls_go_on_when_their_time_has_come() {
        let (parking, (done, goes_on)) = (Parking::new("parked", 3, 6), channel());
        let began = Instant::now();
        for (bytes, time) in [(3, 2000), (1, 1), (2, 750)] {
            assert!(parking.park(Call(done.clone(), bytes), Duration::from_millis(time)).is_ok());
        }
        let order: Vec<usize> = (0..3).map(|_| goes_on.recv_timeout(10 * LOOK).unwrap()).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(began.elapsed() >= Duration::from_millis(2000));
        assert_eq!(parking.0.lock().bytes, 0);
    }

    #[test]
    fn so_many_are_put_off_and_so_many_bytes() {
        let (parking, (done, _goes_on)) = (Parking::new("parked", CALLS_MAX, BYTES_MAX), channel());
        let long = Duration::from_secs(3600);
        let park = |bytes| parking.park(Call(done.clone(), bytes), long).is_ok();
        assert!(park(BYTES_MAX - 1));
        assert!(!park(2) && park(1), "no more bytes");
        assert_eq!((0..2 * CALLS_MAX).filter(|_| park(0)).count(), CALLS_MAX - 2);
    }
}
