//! The leases on one file, with a cached summary.

use super::Caching;
use super::entries::Lease;
use crate::qos::Nanos;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

#[derive(Debug, Default)]
pub(super) struct Leases {
    all: Vec<Lease>,
    /// `None` after a change of any lease.
    sum: Cell<Option<LeaseSummary>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeaseSummary {
    pub deadline: Option<Nanos>,
    pub writes: bool,
    pub has_write_delegation: bool,
}

impl Leases {
    pub(super) fn push(&mut self, lease: Lease) {
        self.sum.set(None);
        self.all.push(lease);
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.sum.set(None);
        self.all.remove(at);
    }

    pub(super) fn retain(&mut self, is_kept: impl FnMut(&Lease) -> bool) {
        self.sum.set(None);
        self.all.retain(is_kept);
    }

    pub(super) fn sum(&self) -> LeaseSummary {
        if let Some(sum) = self.sum.get() {
            return sum;
        }
        let sum = LeaseSummary {
            deadline: self.all.iter().filter_map(|lease| lease.deadline).min(),
            writes: self.all.iter().any(|lease| lease.have.intersects(Caching::WRITE)),
            has_write_delegation: self.all.iter().any(Lease::is_write_delegation),
        };
        self.sum.set(Some(sum));
        sum
    }
}

impl Deref for Leases {
    type Target = [Lease];

    fn deref(&self) -> &[Lease] {
        &self.all
    }
}

impl DerefMut for Leases {
    fn deref_mut(&mut self) -> &mut [Lease] {
        self.sum.set(None);
        &mut self.all
    }
}
