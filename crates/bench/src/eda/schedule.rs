//! The schedule of a process. It depends on seed, job set and process alone, not on the server.

use report::result::Direction;

use super::mix::{COMMIT_PERCENT, Operation, Role};
use crate::pattern::Random;

const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// In nanoseconds after the beginning.
    pub due: u64,
    pub operation: Operation,
    pub bytes: u32,
    pub commits: bool,
    /// Pseudo-random bits that choose the object.
    pub draw: u64,
}

/// The operations of a process, without end.
///
/// Operation `k` begins in the first half of the `k`th interval, somewhere. So the rate is exact, no two
/// processes keep meeting, and a process waits for itself only where an operation takes longer than half an
/// interval: 5 ms of a frontend. The mix is exact too: a hundred operations are shuffled, done, and shuffled
/// again.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    role: &'static Role,
    random: Random,
    mix: Vec<Operation>,
    number: u64,
    /// Shifts the process's intervals against those of process 0.
    phase: u64,
}

impl Schedule {
    /// `process` is unique over all job sets.
    pub(super) fn new(role: &'static Role, seed: u64, process: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(process));
        let phase = random.below(SECOND_NS / u64::from(role.rate));
        let of = |(operation, share): &(Operation, usize)| std::iter::repeat_n(*operation, *share);
        Self { role, random, mix: role.mix.iter().flat_map(of).collect(), number: 0, phase }
    }

    pub(super) fn next_planned(&mut self) -> Planned {
        let length = self.mix.len() as u64;
        let drawn = self.number % length;
        let other = drawn + self.random.below(length - drawn);
        let [drawn, other] = [drawn, other].map(|at| usize::try_from(at).unwrap_or(0));
        self.mix.swap(drawn, other);
        let operation = self.mix[drawn];
        let rate = u64::from(self.role.rate);
        let due = self.phase + self.number * SECOND_NS / rate + self.random.below(SECOND_NS / rate / 2);
        self.number += 1;
        let commits = operation.direction() == Direction::Write && self.random.below(100) < COMMIT_PERCENT;
        let draw = self.random.bits();
        Planned { due, operation, bytes: operation.bytes(draw), commits, draw }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::mix::{BACKEND, FRONTEND, LARGE_FILE, PROCESSES, role_of};
    use super::*;
    use report::curve::SET_RATE;

    const HOUR: u64 = 3600;

    const KNOWN: [(u64, Operation); 3] =
        [(8_718_659, Operation::Mkdir), (16_267_281, Operation::Access), (25_038_623, Operation::WriteFile)];

    fn hour(process: u64) -> Vec<Planned> {
        let (role, _) = role_of(usize::try_from(process).unwrap());
        let mut schedule = Schedule::new(role, 1, process);
        let all = std::iter::repeat_with(|| schedule.next_planned());
        all.take_while(|planned| planned.due < HOUR * SECOND_NS).collect()
    }

    #[test]
    fn seed_and_process_determine_everything() {
        let take = |seed, process| {
            let mut schedule = Schedule::new(&FRONTEND, seed, process);
            (0..1000).map(|_| schedule.next_planned()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
        let known =
            take(1, 0)[..3].iter().map(|planned| (planned.due, planned.operation)).collect::<Vec<_>>();
        assert_eq!(known, KNOWN, "the sequence changed: runs before and after cannot be compared");
    }

    #[test]
    fn begins_ascend_with_half_an_interval_between() {
        for role in [&FRONTEND, &BACKEND] {
            let interval = SECOND_NS / u64::from(role.rate);
            let mut schedule = Schedule::new(role, 3, 9);
            let dues: Vec<_> = (0..10_000).map(|_| schedule.next_planned().due).collect();
            assert!(dues.windows(2).all(|pair| pair[1] - pair[0] >= interval / 2));
            assert!(dues[0] < 2 * interval);
        }
    }

    #[test]
    fn hour_has_the_rates_the_mix_and_the_transfers() {
        let mut counts = BTreeMap::<Operation, u64>::new();
        let (mut commits, mut ops) = (0u64, 0u64);
        let mut bytes = BTreeMap::<Direction, u64>::new();
        for process in 0..PROCESSES as u64 {
            // The position of each sequential stream in its file.
            let mut at = [0; Operation::ALL.len()];
            for planned in hour(process) {
                ops += 1;
                *counts.entry(planned.operation).or_default() += 1;
                commits += u64::from(planned.commits);
                let mut moved = u64::from(planned.bytes);
                if matches!(planned.operation, Operation::SequentialRead | Operation::SequentialWrite) {
                    let at = &mut at[planned.operation as usize];
                    moved = moved.min(LARGE_FILE - *at);
                    *at = (*at + moved) % LARGE_FILE;
                }
                *bytes.entry(planned.operation.direction()).or_default() += moved;
            }
        }
        assert!(ops.abs_diff(HOUR * u64::from(SET_RATE)) <= PROCESSES as u64, "{ops}");
        for (role, all) in [(&FRONTEND, 300 * HOUR), (&BACKEND, 150 * HOUR)] {
            for &(operation, share) in role.mix {
                let percent = counts[&operation] as f64 * 100.0 / all as f64;
                assert!((percent - share as f64).abs() < 0.01, "{operation:?} {percent}");
            }
        }
        let writes = counts[&Operation::RandomWrite]
            + counts[&Operation::WriteFile]
            + counts[&Operation::SequentialWrite];
        let share = commits as f64 * 100.0 / writes as f64;
        assert!((share - 15.0).abs() < 0.3, "{share} % commit");
        let [read, written] = [Direction::Read, Direction::Write]
            .map(|direction| bytes[&direction] as f64 / 1024.0 / HOUR as f64);
        let (sum, percent) = (read + written, 100.0 * read / (read + written));
        assert!((sum / 7263.0 - 1.0).abs() < 0.01, "{sum} KiB/s");
        assert!((percent - 52.5).abs() < 0.5, "{percent} % read");
    }
}
