//! The leases on one file, and what all of them come to.

use super::Caching;
use super::held::Lease;
use crate::qos::Nanos;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

#[derive(Debug, Default)]
pub(super) struct Leases {
    all: Vec<Lease>,
    /// `None` since any may have changed.
    sum: Cell<Option<Sum>>,
}

/// A summary of all leases of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// When the first answer must be there.
    pub deadline: Option<Nanos>,
    /// Whether any allows to write.
    pub writes: bool,
    /// Whether any holder writes without saying so, by a delegation.
    pub writes_unseen: bool,
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

    pub(super) fn sum(&self) -> Sum {
        if let Some(sum) = self.sum.get() {
            return sum;
        }
        let sum = Sum {
            deadline: self.all.iter().filter_map(|lease| lease.deadline).min(),
            writes: self.all.iter().any(|lease| lease.have.intersects(Caching::WRITE)),
            writes_unseen: self.all.iter().any(Lease::may_write_unseen),
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
