//! The next block of a connection, or of a job whose calls use several connections.

use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::{BlockOrder, Placement, Plan};
use crate::pattern::{Random, mix};

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) first: u64,
    pub(super) blocks: u64,
    /// The next block in order, counted without end.
    cursor: AtomicU64,
    /// The key of the random order in which each block comes once.
    key: u64,
    uncommitted: AtomicU64,
}

impl Stream {
    fn new(plan: &Plan, first: u64, blocks: u64) -> Self {
        let cursor = u64::try_from((u128::from(plan.start_at) * u128::from(blocks)) >> 64).unwrap_or(0);
        let (cursor, key) = (AtomicU64::new(cursor), mix(plan.seed ^ mix(first)));
        Self { first, blocks, cursor, key, uncommitted: AtomicU64::new(0) }
    }

    /// One stream for each job, or for each connection.
    pub(super) fn all(plan: &Plan) -> Vec<Self> {
        match plan.placement {
            Placement::Jobs(jobs) => {
                let share = plan.blocks() / (plan.clients * jobs) as u64;
                (0..(plan.clients * jobs) as u64).map(|job| Self::new(plan, job * share, share)).collect()
            }
            Placement::Shared => {
                let connections = plan.connections_total() as u64;
                let own = plan.order == BlockOrder::Sequential || plan.keeps_ledger();
                let share = if own { (plan.blocks() / connections).max(1) } else { plan.blocks() };
                let first = |connection: u64| if own { share * connection } else { 0 };
                (0..connections).map(|connection| Self::new(plan, first(connection), share)).collect()
            }
        }
    }

    pub(super) fn of_connection(plan: &Plan, client: usize, connection: usize) -> Vec<usize> {
        match plan.placement {
            Placement::Jobs(jobs) => {
                let calls = (0..jobs * plan.depth).skip(connection).step_by(plan.connections);
                calls.map(|call| client * jobs + call / plan.depth).collect()
            }
            Placement::Shared => vec![client * plan.connections + connection; plan.depth],
        }
    }

    #[inline]
    pub(super) fn next(&self, order: BlockOrder, random: &mut Random) -> u64 {
        match order {
            BlockOrder::Random => random.below(self.blocks),
            BlockOrder::Sequential => self.cursor.fetch_add(1, Ordering::Relaxed) % self.blocks,
            BlockOrder::Shuffled => {
                let count = self.cursor.fetch_add(1, Ordering::Relaxed);
                shuffled(count % self.blocks, self.blocks, self.key ^ (count / self.blocks))
            }
        }
    }

    /// Counts written bytes. Returns true to one caller when a COMMIT is due.
    #[inline]
    pub(super) fn owes_commit(&self, written: u64, every: u64) -> bool {
        let before = self.uncommitted.fetch_add(written, Ordering::Relaxed);
        before / every != (before + written) / every
    }
}

/// Chooses reads in a mix: exactly `read_percent` of every hundred, evenly, over all threads.
#[derive(Debug, Default)]
pub(super) struct ReadMix(AtomicU64);

impl ReadMix {
    #[inline]
    pub(super) fn is_read(&self, read_percent: u8) -> bool {
        let percent = u64::from(read_percent);
        let drawn = self.0.fetch_add(1, Ordering::Relaxed) % 100;
        (drawn + 1) * percent / 100 != drawn * percent / 100
    }
}

/// A permutation of `0..blocks`: a four-round Feistel network over the next even power of two. Repeats until
/// the value is below `blocks`, four times at most on average.
fn shuffled(index: u64, blocks: u64, key: u64) -> u64 {
    let half = (u64::BITS - (blocks - 1).leading_zeros()).max(2).div_ceil(2);
    let mask = (1u64 << half) - 1;
    let mut at = index;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 0..4u64 {
            (left, right) = (right, left ^ (mix(right ^ key.wrapping_add(round << 32)) & mask));
        }
        at = (left << half) | right;
        if at < blocks {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Op;

    #[test]
    fn shuffling_takes_every_block_once() {
        for blocks in [1, 2, 3, 10, 1000, 4096, 5000] {
            for key in [0, 99] {
                let mut all: Vec<u64> = (0..blocks).map(|index| shuffled(index, blocks, key)).collect();
                let in_order = all.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as u64;
                assert!(blocks < 100 || in_order < blocks / 50, "{in_order} of {blocks}");
                all.sort_unstable();
                assert!(all.into_iter().eq(0..blocks));
            }
        }
    }

    #[test]
    fn jobs_are_dealt_to_connections_and_keep_to_their_files() {
        let plan = Plan {
            placement: Placement::Jobs(3),
            clients: 2,
            connections: 4,
            depth: 2,
            files: 6,
            size: 80 << 10,
            ..Plan::new("nfs://h/x".parse().unwrap(), Op::Read)
        };
        let connections: Vec<_> =
            (0..4).map(|connection| Stream::of_connection(&plan, 1, connection)).collect();
        assert_eq!(connections, [vec![3, 5], vec![3, 5], vec![4], vec![4]]);
        let streams = Stream::all(&plan);
        assert_eq!(
            streams.iter().map(|one| (one.first, one.blocks)).collect::<Vec<_>>()[4..],
            [(40, 10), (50, 10)]
        );
    }

    #[test]
    fn mix_is_exact() {
        for percent in [0, 25, 33, 50, 99, 100] {
            let mix = ReadMix::default();
            let reads = (0..300).filter(|_| mix.is_read(percent)).count();
            assert_eq!(reads, 3 * usize::from(percent));
        }
    }

    #[test]
    fn commits_are_owed_once_for_each_so_many_bytes() {
        let stream = &Stream::all(&Plan::new("nfs://h/x".parse().unwrap(), Op::Write))[0];
        assert_eq!((0..64).filter(|_| stream.owes_commit(1 << 20, 16 << 20)).count(), 4);
    }
}
