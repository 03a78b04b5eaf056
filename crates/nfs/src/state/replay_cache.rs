//! The duplicate request cache: a non-idempotent call runs once, however often it is sent.
//!
//! A client without a reply sends the same bytes again, from the same address and port (Linux keeps the port over a
//! reconnection for this). A repetition waits for the running call, or gets the cached reply. Two processes of a host
//! use different ports, so their equal calls stay separate.
//!
//! Each network has a share of the cache: one that calls much evicts its own calls.

use std::collections::{BTreeMap, HashMap, VecDeque, btree_map, hash_map};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use vfs::Protection;
use vfs::bounds::{Network, share};
use vfs::sync::Mutex;

/// Number of cached calls.
const ENTRIES_MAX: usize = 32_768;
/// The most bytes of replies remembered.
const BYTES_MAX: usize = 16 << 20;
/// A longer reply is not remembered; none of the calls concerned has one.
const REPLY_BYTES_MAX: usize = 1024;
const SHARDS: usize = 16;
const CALLS_MAX: usize = ENTRIES_MAX / SHARDS;
const REPLIES_MAX: usize = BYTES_MAX / SHARDS;

/// Identifies a call: xid, NFS procedure, and a keyed checksum of these, the client's address and the whole call.
/// Small, because thousands are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKey {
    xid: u32,
    procedure: u32,
    checksum: u64,
}

/// Receives the reply to a call that was repeated while it ran.
pub trait Waiter: Send {
    /// Sends this reply (without a record mark).
    fn answer(self: Box<Self>, reply: &[u8]);
    /// Makes the client ask once more: there is no answer.
    fn give_up(self: Box<Self>);
}

pub enum Verdict {
    /// New: do it, then [`InProgress::complete`] it.
    New,
    /// Running: the waiter gets the reply.
    Waits,
    /// Done, with this reply.
    Replay(Arc<[u8]>),
}

pub struct ReplayCache {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    calls: HashMap<CallKey, State, BuildHasherDefault<ByChecksum>>,
    networks: BTreeMap<Network, Finished>,
    count: usize,
    bytes: usize,
}

#[derive(Default)]
struct Finished {
    calls: VecDeque<CallKey>,
    bytes: usize,
}

enum State {
    InProgress(Vec<Box<dyn Waiter>>),
    Done(Arc<[u8]>),
}

impl Hash for CallKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.checksum);
    }
}

/// The checksum is a hash with a secret key already.
#[derive(Default)]
struct ByChecksum(u64);

impl Hasher for ByChecksum {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key hashes its checksum only");
    }

    fn write_u64(&mut self, checksum: u64) {
        self.0 = checksum;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }
}

impl ReplayCache {
    /// The key of a call. The protection is part of it: a reply under TLS is not repeated in clear.
    pub fn key(&self, from: (SocketAddr, Protection), xid: u32, procedure: u32, record: &[u8]) -> CallKey {
        CallKey { xid, procedure, checksum: self.hasher.hash_one((from, xid, procedure, record)) }
    }

    /// Asks about a call that is about to be done; `waiter` is used if it is being done already.
    pub fn begin(&self, key: &CallKey, waiter: impl FnOnce() -> Box<dyn Waiter>) -> Verdict {
        let mut shard = self.shard(key);
        match shard.calls.entry(*key) {
            hash_map::Entry::Vacant(slot) => {
                slot.insert(State::InProgress(Vec::new()));
                Verdict::New
            }
            hash_map::Entry::Occupied(mut entry) => match entry.get_mut() {
                State::InProgress(waiters) => {
                    waiters.push(waiter());
                    Verdict::Waits
                }
                State::Done(reply) => Verdict::Replay(Arc::clone(reply)),
            },
        }
    }

    /// Caches the reply to a call from this network, and answers its repetitions.
    pub fn complete(&self, key: &CallKey, network: Network, reply: &[u8]) {
        let waiters = {
            let mut shard = self.shard(key);
            if reply.len() <= REPLY_BYTES_MAX {
                shard.remember(key, network, reply)
            } else {
                shard.finish(key)
            }
        };
        // Answered without the lock: sending may take long.
        waiters.into_iter().for_each(|waiter| waiter.answer(reply));
    }

    /// Forgets a call that has no answer after all; it may be sent again.
    pub fn abandon(&self, key: &CallKey) {
        let waiters = self.shard(key).finish(key);
        waiters.into_iter().for_each(|waiter| waiter.give_up());
    }

    fn shard(&self, key: &CallKey) -> MutexGuard<'_, Shard> {
        // The inner map uses the low bits and the top seven. The shard uses bits in between.
        let slot = usize::try_from(key.checksum >> 40 & (SHARDS as u64 - 1)).unwrap_or(0);
        self.shards[slot].lock()
    }
}

/// A call being done that repetitions wait for. It may be sent again if it has no answer when this is dropped.
pub struct InProgress {
    cache: Arc<ReplayCache>,
    key: CallKey,
    network: Network,
    is_complete: bool,
}

impl InProgress {
    /// A call from this network that was [`Verdict::New`].
    pub fn new(cache: &Arc<ReplayCache>, key: CallKey, network: Network) -> Self {
        Self { cache: Arc::clone(cache), key, network, is_complete: false }
    }

    /// Caches the reply, and answers repetitions.
    pub fn complete(mut self, reply: &[u8]) {
        self.is_complete = true;
        self.cache.complete(&self.key, self.network, reply);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        if !self.is_complete {
            self.cache.abandon(&self.key);
        }
    }
}

impl Shard {
    /// Removes a running call, and returns its waiters.
    fn finish(&mut self, key: &CallKey) -> Vec<Box<dyn Waiter>> {
        State::waiters(self.calls.remove(key))
    }

    fn remember(&mut self, key: &CallKey, network: Network, reply: &[u8]) -> Vec<Box<dyn Waiter>> {
        let waiters = State::waiters(self.calls.insert(*key, State::Done(reply.into())));
        let own = self.networks.entry(network).or_default();
        own.calls.push_back(*key);
        own.bytes += reply.len();
        self.count += 1;
        self.bytes += reply.len();
        while self.has_more_than_its_share(network) && self.forget_oldest(network) {}
        while self.count > CALLS_MAX || self.bytes > REPLIES_MAX {
            let largest = self.networks.iter().max_by_key(|(_, finished)| finished.calls.len());
            let Some(largest) = largest.map(|(network, _)| *network) else { break };
            self.forget_oldest(largest);
        }
        waiters
    }

    fn has_more_than_its_share(&self, network: Network) -> bool {
        let Some(own) = self.networks.get(&network) else { return false };
        let count = own.calls.len();
        let is_over = count > share(CALLS_MAX, self.count - count)
            || own.bytes > share(REPLIES_MAX, self.bytes - own.bytes);
        // A network always keeps the reply to its last call.
        is_over && count > 1
    }

    fn forget_oldest(&mut self, network: Network) -> bool {
        let btree_map::Entry::Occupied(mut own) = self.networks.entry(network) else { return false };
        let Some(oldest) = own.get_mut().calls.pop_front() else { return false };
        self.count -= 1;
        if let Some(State::Done(reply)) = self.calls.remove(&oldest) {
            own.get_mut().bytes -= reply.len();
            self.bytes -= reply.len();
        }
        if own.get().calls.is_empty() {
            own.remove();
        }
        true
    }
}

impl State {
    fn waiters(last: Option<Self>) -> Vec<Box<dyn Waiter>> {
        match last {
            Some(Self::InProgress(waiters)) => waiters,
            Some(Self::Done(_)) | None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Waiter for Heard {
        fn answer(self: Box<Self>, reply: &[u8]) {
            self.0.lock().push(reply.to_vec());
        }

        fn give_up(self: Box<Self>) {
            self.0.lock().push(b"gave up".to_vec());
        }
    }

    fn network(host: u8) -> Network {
        vfs::bounds::Networks::default().of([10, 0, 0, host].into())
    }

    fn key(cache: &ReplayCache, port: u16, xid: u32, record: &[u8]) -> CallKey {
        cache.key((SocketAddr::from(([127, 0, 0, 1], port)), Protection::Plain), xid, 8, record)
    }

    #[test]
    fn a_repetition_waits_and_later_ones_get_the_same_answer() {
        let cache = ReplayCache::default();
        let heard = Heard::default();
        let waiter = || -> Box<dyn Waiter> { Box::new(heard.clone()) };
        let call = key(&cache, 700, 1, b"create a");
        assert!(matches!(cache.begin(&call, waiter), Verdict::New));
        assert!(matches!(cache.begin(&call, waiter), Verdict::Waits));
        cache.complete(&call, network(1), b"made a");
        assert_eq!(*heard.0.lock(), vec![b"made a".to_vec()]);
        assert!(matches!(cache.begin(&call, waiter), Verdict::Replay(reply) if *reply == *b"made a"));
    }

    #[test]
    fn other_ports_xids_and_arguments_are_other_calls() {
        let cache = ReplayCache::default();
        let waiter = || -> Box<dyn Waiter> { Box::new(Heard::default()) };
        cache.begin(&key(&cache, 700, 1, b"create a"), waiter);
        cache.complete(&key(&cache, 700, 1, b"create a"), network(1), b"made a");
        for other in [
            key(&cache, 701, 1, b"create a"),
            key(&cache, 700, 2, b"create a"),
            key(&cache, 700, 1, b"create b"),
        ] {
            assert!(matches!(cache.begin(&other, waiter), Verdict::New));
        }
    }

    #[test]
    fn full_cache_drops_the_oldest_entries() {
        let cache = ReplayCache::default();
        let waiter = || -> Box<dyn Waiter> { Box::new(Heard::default()) };
        let count = u32::try_from(ENTRIES_MAX).unwrap() * 2;
        for xid in 0..count {
            cache.begin(&key(&cache, 700, xid, b""), waiter);
            cache.complete(&key(&cache, 700, xid, b""), network(1), &[0; REPLY_BYTES_MAX]);
        }
        let cached: usize = cache.shards.iter().map(|shard| shard.lock().calls.len()).sum();
        let bytes: usize = cache.shards.iter().map(|shard| shard.lock().bytes).sum();
        assert!(cached <= ENTRIES_MAX && bytes <= BYTES_MAX, "{cached} calls, {bytes} bytes");
        assert!(matches!(cache.begin(&key(&cache, 700, count - 1, b""), waiter), Verdict::Replay(_)));
        assert!(matches!(cache.begin(&key(&cache, 700, 0, b""), waiter), Verdict::New));
    }

    #[test]
    fn a_network_that_calls_much_drives_out_no_call_of_another_one() {
        let cache = ReplayCache::default();
        let waiter = || -> Box<dyn Waiter> { Box::new(Heard::default()) };
        let modest = |xid| key(&cache, 800, xid, b"create a");
        for xid in 0..100 {
            cache.begin(&modest(xid), waiter);
            cache.complete(&modest(xid), network(2), b"made a");
        }
        let count = u32::try_from(ENTRIES_MAX).unwrap() * 2;
        for host in [1, 3] {
            for xid in 0..count {
                let call = key(&cache, 700 + u16::from(host), xid, b"");
                cache.begin(&call, waiter);
                cache.complete(&call, network(host), &[0; 100]);
            }
        }
        for xid in 0..100 {
            assert!(
                matches!(cache.begin(&modest(xid), waiter), Verdict::Replay(reply) if *reply == *b"made a")
            );
        }
        let cached: usize = cache.shards.iter().map(|shard| shard.lock().count).sum();
        assert!(cached > ENTRIES_MAX / 2, "{cached}");
        let call = key(&cache, 900, 1, b"");
        cache.begin(&call, waiter);
        cache.complete(&call, network(4), b"made b");
        assert!(matches!(cache.begin(&call, waiter), Verdict::Replay(_)), "a newcomer is remembered");
    }

    #[test]
    fn an_abandoned_call_may_come_again() {
        let cache = ReplayCache::default();
        let heard = Heard::default();
        let waiter = || -> Box<dyn Waiter> { Box::new(heard.clone()) };
        let call = key(&cache, 700, 1, b"");
        cache.begin(&call, waiter);
        cache.begin(&call, waiter);
        cache.abandon(&call);
        assert_eq!(*heard.0.lock(), vec![b"gave up".to_vec()]);
        assert!(matches!(cache.begin(&call, waiter), Verdict::New));
    }
}
