//! Counters of calls by version and of operations by name.
//!
//! Each thread counts alone and adds to the totals periodically, so counting shares no memory.

use nfs_wire::v3::Procedure;
use nfs_wire::v4::Op;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Version 3, and the minor versions of 4.
const VERSIONS: usize = 4;
/// Exclusive bound of procedure and operation numbers. Index 0 counts the others: version 4 has no operation 0.
const NUMBERS: usize = 80;
const UNFLUSHED_MAX: u32 = 256;

#[derive(Debug)]
pub struct CallCounters {
    calls: [AtomicU64; VERSIONS],
    operations: [[AtomicU64; NUMBERS]; VERSIONS],
}

/// The counters of one thread. Dropping them flushes the rest.
#[derive(Debug)]
pub struct ThreadCounters {
    totals: Arc<CallCounters>,
    calls: [u64; VERSIONS],
    operations: [[u64; NUMBERS]; VERSIONS],
    unflushed: u32,
}

pub(crate) struct CompoundCounters<'c> {
    operations: &'c mut [u64; NUMBERS],
}

impl CompoundCounters<'_> {
    #[inline]
    pub(crate) fn add(&mut self, op: Op) {
        match self.operations.get_mut(op.0 as usize) {
            Some(count) if op.0 >= Op::ACCESS.0 => *count += 1,
            _ => self.operations[0] += 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionCounts {
    /// The minor version of 4; `None` for version 3.
    pub minor: Option<u32>,
    pub calls: u64,
    /// Nonzero counters of operations (version 4) or procedures (version 3).
    pub operations: Vec<(String, u64)>,
}

impl Default for CallCounters {
    fn default() -> Self {
        let operations = [const { [const { AtomicU64::new(0) }; NUMBERS] }; VERSIONS];
        Self { calls: [const { AtomicU64::new(0) }; VERSIONS], operations }
    }
}

impl CallCounters {
    pub fn snapshot(&self) -> Vec<VersionCounts> {
        let counted = |version: usize| {
            let counts = self.operations[version].iter().map(|count| count.load(Ordering::Relaxed));
            let requested = (0u32..).zip(counts).filter(|&(_, count)| count > 0);
            VersionCounts {
                minor: version.checked_sub(1).and_then(|minor| u32::try_from(minor).ok()),
                calls: self.calls[version].load(Ordering::Relaxed),
                operations: requested.map(|(number, count)| (name(version, number), count)).collect(),
            }
        };
        (0..VERSIONS).map(counted).collect()
    }
}

/// The specification's name of a procedure or operation, without the common prefix.
fn name(version: usize, number: u32) -> String {
    let name = match version {
        0 => format!("{:?}", Procedure(number)),
        _ if number == 0 => format!("{:?}", Op::ILLEGAL),
        _ => format!("{:?}", Op(number)),
    };
    let bare = name.strip_prefix("NFSPROC3_").or(name.strip_prefix("OP_")).unwrap_or(&name);
    bare.to_ascii_lowercase()
}

impl ThreadCounters {
    pub fn new(totals: &Arc<CallCounters>) -> Self {
        let (calls, operations) = ([0; VERSIONS], [[0; NUMBERS]; VERSIONS]);
        Self { totals: Arc::clone(totals), calls, operations, unflushed: 0 }
    }

    #[inline]
    pub(crate) fn add_procedure(&mut self, procedure: Procedure) {
        self.calls[0] += 1;
        self.unflushed += 1;
        if let Some(count) = self.operations[0].get_mut(procedure.0 as usize) {
            *count += 1;
        }
    }

    #[inline]
    pub(crate) fn compound(&mut self, minor: u32) -> Option<CompoundCounters<'_>> {
        let version = (minor as usize).checked_add(1)?;
        *self.calls.get_mut(version)? += 1;
        self.unflushed += 1;
        Some(CompoundCounters { operations: self.operations.get_mut(version)? })
    }

    #[inline]
    pub(crate) fn flush_if_large(&mut self) {
        if self.unflushed >= UNFLUSHED_MAX {
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        let operations = self.operations.iter_mut().flatten().zip(self.totals.operations.iter().flatten());
        let calls = self.calls.iter_mut().zip(&self.totals.calls);
        for (own, totals) in operations.chain(calls).filter(|(own, _)| **own > 0) {
            totals.fetch_add(std::mem::take(own), Ordering::Relaxed);
        }
        self.unflushed = 0;
    }
}

impl Drop for ThreadCounters {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counters_add_up_by_version_and_name() {
        let totals = Arc::new(CallCounters::default());
        let [mut one, mut other] = [ThreadCounters::new(&totals), ThreadCounters::new(&totals)];
        one.add_procedure(Procedure::READ);
        one.add_procedure(Procedure(77));
        for minor in [0, 2, 2] {
            one.compound(minor).unwrap().add(Op::GETATTR);
        }
        assert!(one.compound(3).is_none() && one.compound(u32::MAX).is_none());
        other.compound(2).unwrap().add(Op::GETATTR);
        let mut compound = other.compound(1).unwrap();
        for op in [Op(0), Op(1), Op(2), Op::ILLEGAL, Op(80), Op(u32::MAX)] {
            compound.add(op);
        }
        let counted = |version: usize| totals.snapshot().swap_remove(version);
        assert_eq!(counted(3).operations, [], "nothing is flushed yet");
        one.flush();
        one.flush();
        drop(other);
        let of = |version| counted(version).operations.into_iter().map(|(name, n)| format!("{name} {n}"));
        assert_eq!(of(0).collect::<Vec<_>>(), ["read 1", "procedure(77) 1"]);
        assert_eq!(of(1).collect::<Vec<_>>(), ["getattr 1"]);
        assert_eq!(of(2).collect::<Vec<_>>(), ["illegal 6"]);
        assert_eq!(of(3).collect::<Vec<_>>(), ["getattr 3"]);
        assert_eq!([0, 1, 2, 3].map(|version| counted(version).calls), [2, 1, 1, 3]);
        assert_eq!([0, 1, 2, 3].map(|version| counted(version).minor), [None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn every_operation_has_a_place() {
        assert!(Op::NAMED.iter().all(|&(_, number)| number == Op::ILLEGAL.0 || (number as usize) < NUMBERS));
        assert!(Procedure::NAMED.iter().all(|&(_, number)| (number as usize) < NUMBERS));
    }

    #[test]
    fn large_counters_are_flushed() {
        let totals = Arc::new(CallCounters::default());
        let mut counts = ThreadCounters::new(&totals);
        for _ in 1..UNFLUSHED_MAX {
            counts.compound(1).unwrap().add(Op::READ);
            counts.flush_if_large();
        }
        assert_eq!(totals.snapshot()[2].operations, []);
        counts.compound(1).unwrap().add(Op::READ);
        counts.flush_if_large();
        assert_eq!(totals.snapshot()[2].operations, [("read".to_owned(), UNFLUSHED_MAX.into())]);
    }
}
