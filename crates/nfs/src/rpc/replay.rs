//! The duplicate request cache: a call that must not be done twice is done once, however often it is sent.
//!
//! A client that gets no answer sends the same bytes again, from the same address and port (Linux keeps the port over a
//! reconnection for just this purpose). While the first is being done, the second waits for its answer; afterwards it
//! gets the same one. Two processes of one host use different ports, so that equal calls of theirs stay two calls.

use siphasher::sip::SipHasher13;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most calls remembered, over all clients.
const ENTRIES_MAX: usize = 16_384;
/// The most bytes of replies remembered.
const BYTES_MAX: usize = 8 << 20;
/// A longer reply is not remembered; none of the calls concerned has one.
const REPLY_BYTES_MAX: usize = 1024;
const SHARDS: usize = 16;

/// What makes two calls the same one: client, xid, NFS procedure, and a checksum of the whole call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey {
    peer: SocketAddr,
    xid: u32,
    procedure: u32,
    checksum: u64,
}

/// Who gets the answer of a call that came again while it was being done.
pub trait Waiter: Send + Sync {
    /// Sends this reply (without a record mark).
    fn answer(&self, reply: &[u8]);
}

/// What is known of a call.
pub enum Verdict {
    /// New: do it, then [`ReplayCache::complete`] or [`ReplayCache::abandon`] it.
    New,
    /// Being done: the waiter will be answered.
    Waits,
    /// Done: this was the answer.
    Replay(Arc<[u8]>),
}

/// The cache.
pub struct ReplayCache {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    calls: HashMap<CallKey, State>,
    /// Finished calls, oldest first.
    order: VecDeque<CallKey>,
    bytes: usize,
}

enum State {
    InProgress(Vec<Arc<dyn Waiter>>),
    Done(Arc<[u8]>),
}

impl CallKey {
    /// The key of a call whose record is `record`.
    pub fn new(peer: SocketAddr, xid: u32, procedure: u32, record: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(record);
        Self { peer, xid, procedure, checksum: hasher.finish() }
    }
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }
}

impl ReplayCache {
    /// Asks about a call that is about to be done; `waiter` is used if it is being done already.
    pub fn begin(&self, key: &CallKey, waiter: impl FnOnce() -> Arc<dyn Waiter>) -> Verdict {
        let mut shard = self.shard(key);
        match shard.calls.get_mut(key) {
            None => {
                shard.calls.insert(*key, State::InProgress(Vec::new()));
                Verdict::New
            }
            Some(State::InProgress(waiters)) => {
                waiters.push(waiter());
                Verdict::Waits
            }
            Some(State::Done(reply)) => Verdict::Replay(Arc::clone(reply)),
        }
    }

    /// Remembers the answer and gives it to those who wait.
    pub fn complete(&self, key: &CallKey, reply: &[u8]) {
        let waiters = {
            let mut shard = self.shard(key);
            let waiters = shard.finish(key);
            if reply.len() <= REPLY_BYTES_MAX {
                shard.remember(key, reply);
            }
            waiters
        };
        waiters.iter().for_each(|waiter| waiter.answer(reply));
    }

    /// Forgets a call that was not done after all; it may be sent again.
    pub fn abandon(&self, key: &CallKey) {
        self.shard(key).finish(key);
    }

    fn shard(&self, key: &CallKey) -> MutexGuard<'_, Shard> {
        #[expect(clippy::cast_possible_truncation, reason = "reduced to the number of shards")]
        let place = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn finish(&mut self, key: &CallKey) -> Vec<Arc<dyn Waiter>> {
        match self.calls.remove(key) {
            Some(State::InProgress(waiters)) => waiters,
            Some(State::Done(_)) | None => Vec::new(),
        }
    }

    fn remember(&mut self, key: &CallKey, reply: &[u8]) {
        self.calls.insert(*key, State::Done(reply.into()));
        self.order.push_back(*key);
        self.bytes += reply.len();
        while self.order.len() > ENTRIES_MAX / SHARDS || self.bytes > BYTES_MAX / SHARDS {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(State::Done(reply)) = self.calls.remove(&oldest) {
                self.bytes -= reply.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Vec<u8>>>);

    impl Waiter for Heard {
        fn answer(&self, reply: &[u8]) {
            self.0.lock().unwrap().push(reply.to_vec());
        }
    }

    fn key(port: u16, xid: u32, record: &[u8]) -> CallKey {
        CallKey::new(SocketAddr::from(([127, 0, 0, 1], port)), xid, 8, record)
    }

    #[test]
    fn a_repetition_waits_and_later_ones_get_the_same_answer() {
        let cache = ReplayCache::default();
        let heard = Arc::new(Heard::default());
        let waiter = || -> Arc<dyn Waiter> { heard.clone() };
        let call = key(700, 1, b"create a");
        assert!(matches!(cache.begin(&call, waiter), Verdict::New));
        assert!(matches!(cache.begin(&call, waiter), Verdict::Waits));
        cache.complete(&call, b"made a");
        assert_eq!(*heard.0.lock().unwrap(), vec![b"made a".to_vec()]);
        assert!(matches!(cache.begin(&call, waiter), Verdict::Replay(reply) if *reply == *b"made a"));
    }

    #[test]
    fn other_ports_xids_and_arguments_are_other_calls() {
        let cache = ReplayCache::default();
        let waiter = || -> Arc<dyn Waiter> { Arc::new(Heard::default()) };
        cache.begin(&key(700, 1, b"create a"), waiter);
        cache.complete(&key(700, 1, b"create a"), b"made a");
        for other in [key(701, 1, b"create a"), key(700, 2, b"create a"), key(700, 1, b"create b")] {
            assert!(matches!(cache.begin(&other, waiter), Verdict::New));
        }
    }

    #[test]
    fn it_stays_within_its_bounds_and_forgets_the_oldest_first() {
        let cache = ReplayCache::default();
        let waiter = || -> Arc<dyn Waiter> { Arc::new(Heard::default()) };
        let count = u32::try_from(ENTRIES_MAX).unwrap() * 2;
        for xid in 0..count {
            cache.begin(&key(700, xid, b""), waiter);
            cache.complete(&key(700, xid, b""), &[0; REPLY_BYTES_MAX]);
        }
        let held: usize = cache.shards.iter().map(|shard| shard.lock().unwrap().calls.len()).sum();
        let bytes: usize = cache.shards.iter().map(|shard| shard.lock().unwrap().bytes).sum();
        assert!(held <= ENTRIES_MAX && bytes <= BYTES_MAX, "{held} calls, {bytes} bytes");
        assert!(matches!(cache.begin(&key(700, count - 1, b""), waiter), Verdict::Replay(_)));
        assert!(matches!(cache.begin(&key(700, 0, b""), waiter), Verdict::New));
    }

    #[test]
    fn an_abandoned_call_may_come_again() {
        let cache = ReplayCache::default();
        let waiter = || -> Arc<dyn Waiter> { Arc::new(Heard::default()) };
        let call = key(700, 1, b"");
        cache.begin(&call, waiter);
        cache.abandon(&call);
        assert!(matches!(cache.begin(&call, waiter), Verdict::New));
    }
}
