//! Calls deferred for some milliseconds, without a thread waiting for each.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};
use vfs::bounds::{Bounds, Network, Party, Slot};
use vfs::panics;
use vfs::sync::{Condvar, Mutex};

pub trait Parked: Send + 'static {
    fn bytes(&self) -> usize;

    fn network(&self) -> Network;

    /// Resumes the call. Must not wait.
    fn resume(self);
}

/// The deferred calls. One thread resumes them; it starts with the first call.
pub struct Parking<T>(Arc<Lot<T>>);

struct Lot<T> {
    name: &'static str,
    /// The limits of calls and of their bytes, each in total and per network.
    bounds: [Arc<Bounds>; 2],
    parked: Mutex<Calls<T>>,
    changed: Condvar,
}

struct Calls<T> {
    by_time: BTreeMap<(Instant, u64), (T, [Slot; 2])>,
    number: u64,
    has_thread: bool,
}

impl<T: Parked> Parking<T> {
    pub fn new(name: &'static str, calls_max: usize, bytes_max: usize) -> Self {
        let calls = Calls { by_time: BTreeMap::new(), number: 0, has_thread: false };
        let bounds = [calls_max, bytes_max].map(|all| Bounds::new(all, 0));
        let (parked, changed) = (Mutex::new(calls), Condvar::new());
        Self(Arc::new(Lot { name, bounds, parked, changed }))
    }

    /// Defers a call. Returns it if a limit is reached, in total or for its network, or if no thread can be started.
    pub fn park(&self, call: T, time: Duration) -> Result<(), T> {
        let (party, [calls, bytes]) = (Party::of(call.network()), &self.0.bounds);
        let (Ok(one), Ok(room)) = (calls.take(&party, 1), bytes.take(&party, call.bytes())) else {
            return Err(call);
        };
        let mut parked = self.0.lock();
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
        parked.by_time.insert(key, (call, [one, room]));
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Lot<T> {
    fn lock(&self) -> MutexGuard<'_, Calls<T>> {
        self.parked.lock()
    }
}

/// The interval at which the thread checks whether its [`Parking`] still exists.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

fn work<T: Parked>(lot: &Weak<Lot<T>>) {
    while let Some(lot) = lot.upgrade() {
        let mut parked = lot.lock();
        let now = Instant::now();
        let due =
            parked.by_time.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove());
        if let Some((call, slots)) = due {
            drop(parked);
            drop(slots);
            // A panic is logged where it happens.
            let _ = panics::catch(|| call.resume());
            continue;
        }
        let next =
            parked.by_time.first_key_value().map_or(POLL_INTERVAL, |((at, _), _)| at.duration_since(now));
        drop(lot.changed.wait_timeout(parked, next.min(POLL_INTERVAL)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use vfs::bounds::Networks;

    const CALLS_MAX: usize = 200;
    const BYTES_MAX: usize = 1000;
    const LONG: Duration = Duration::from_secs(3600);

    struct Call {
        done: Sender<usize>,
        bytes: usize,
        client: u8,
    }

    impl Parked for Call {
        fn bytes(&self) -> usize {
            self.bytes
        }

        fn network(&self) -> Network {
            Networks::default().of([192, 0, 2, self.client].into())
        }

        fn resume(self) {
            self.done.send(self.bytes).unwrap();
        }
    }

    #[test]
    fn calls_are_resumed_in_order_of_their_time() {
        let (parking, (done, goes_on)) = (Parking::new("parked", CALLS_MAX, BYTES_MAX), channel());
        let began = Instant::now();
        for (bytes, time) in [(3, 2000), (1, 1), (2, 750)] {
            let call = Call { done: done.clone(), bytes, client: 1 };
            assert!(parking.park(call, Duration::from_millis(time)).is_ok());
        }
        let order: Vec<usize> = (0..3).map(|_| goes_on.recv_timeout(10 * POLL_INTERVAL).unwrap()).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(began.elapsed() >= Duration::from_millis(2000));
        assert!(parking.0.bounds.iter().all(|bounds| bounds.used() == 0));
    }

    #[test]
    fn each_network_has_a_share_of_the_calls_and_bytes() {
        let (done, _goes_on) = channel();
        for (bytes, all) in [(0, CALLS_MAX), (100, BYTES_MAX / 100)] {
            let parking = Parking::new("parked", CALLS_MAX, BYTES_MAX);
            let fill = |client| {
                let call = || Call { done: done.clone(), bytes, client };
                (0..).take_while(|_| parking.park(call(), LONG).is_ok()).count()
            };
            let first = fill(1);
            assert!(first > 0 && first <= all / 2, "{first} of {all}");
            assert!(fill(2) > 0, "room for another");
            assert!(first + fill(2) + (3..200).map(fill).sum::<usize>() <= all);
        }
    }
}
