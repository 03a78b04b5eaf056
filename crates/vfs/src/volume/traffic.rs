//! Counters of a volume: operations, bytes and times by [`Kind`].

use crate::qos::Kind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Intervals of latency: up to 1 µs, up to 2 µs, and so on to 8.4 s, and all above.
pub const INTERVALS: usize = 25;
/// Counters are kept this many times, so that threads seldom count in the same place.
const SHARDS: usize = 4;

#[derive(Debug, Default)]
pub struct Traffic {
    shards: [Shard; SHARDS],
}

/// Aligned to its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    kinds: [Counters; Kind::COUNT],
    from_memory: AtomicU64,
    from_storage: AtomicU64,
}

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    nanos: AtomicU64,
    intervals: [AtomicU64; INTERVALS],
}

/// The source of the data of a READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSource {
    /// All data was in memory, also data that the kernel had read ahead; or there was nothing to read.
    Memory,
    /// Part of the data was on storage only.
    Storage,
}

/// READs with data, by its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    pub from_memory: u64,
    /// READs that waited for storage.
    pub from_storage: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Operations answered.
    pub ops: u64,
    /// Bytes of data read or written.
    pub bytes: u64,
    /// The sum of the operations' times, in nanoseconds, from when the call was received to when its reply was sent.
    pub nanos: u64,
    /// Operations by duration: interval `i` has those of at most 2^`i` µs, the last one all longer ones.
    pub intervals: [u64; INTERVALS],
}

impl Traffic {
    /// Counts operations of this duration, and their bytes.
    pub fn count(&self, kind: Kind, ops: u64, bytes: u64, time: Duration) {
        let counters = &self.shards[shard()].kinds[kind.index()];
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        counters.nanos.fetch_add(nanos.saturating_mul(ops), Ordering::Relaxed);
        counters.intervals[interval(nanos)].fetch_add(ops, Ordering::Relaxed);
    }

    pub fn operation_counts(&self, kind: Kind) -> OperationCounts {
        let mut sum = OperationCounts::default();
        for counters in self.shards.iter().map(|shard| &shard.kinds[kind.index()]) {
            sum.bytes += counters.bytes.load(Ordering::Relaxed);
            sum.nanos += counters.nanos.load(Ordering::Relaxed);
            for (sum, count) in sum.intervals.iter_mut().zip(&counters.intervals) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        sum.ops = sum.intervals.iter().sum();
        sum
    }

    pub fn count_reads(&self, reads: ReadCounts) {
        let shard = &self.shards[shard()];
        for (counter, count) in
            [(&shard.from_memory, reads.from_memory), (&shard.from_storage, reads.from_storage)]
        {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn reads(&self) -> ReadCounts {
        let sum = |of: fn(&Shard) -> &AtomicU64| {
            self.shards.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum()
        };
        ReadCounts {
            from_memory: sum(|shard| &shard.from_memory),
            from_storage: sum(|shard| &shard.from_storage),
        }
    }
}

fn interval(nanos: u64) -> usize {
    let micros = nanos.div_ceil(1000).max(1);
    (micros.next_power_of_two().ilog2() as usize).min(INTERVALS - 1)
}

fn shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|&shard| shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_interval_that_ends_at_or_after_them() {
        let micros = |micros: u64| interval(micros * 1000);
        assert_eq!([interval(0), micros(1), micros(2), micros(3), micros(4), micros(5)], [0, 0, 1, 2, 2, 3]);
        assert_eq!(interval(1001), 1);
        assert_eq!([micros(1 << 23), micros((1 << 23) + 1), micros(1 << 40)], [23, 24, 24]);
    }

    #[test]
    fn threads_count_together() {
        let traffic = Traffic::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    (0..1000).for_each(|_| traffic.count(Kind::Read, 2, 8192, Duration::from_micros(3)));
                    (0..1000)
                        .for_each(|_| traffic.count_reads(ReadCounts { from_memory: 2, from_storage: 1 }));
                });
            }
        });
        assert_eq!(traffic.reads(), ReadCounts { from_memory: 16_000, from_storage: 8000 });
        let counted = traffic.operation_counts(Kind::Read);
        assert_eq!((counted.ops, counted.bytes, counted.nanos), (16_000, 8000 * 8192, 16_000 * 3000));
        assert_eq!(counted.intervals[2], 16_000);
        assert_eq!(traffic.operation_counts(Kind::Write), OperationCounts::default());
    }
}
