//! Payment of a compound at the limits of volumes.

use super::price::PaidOperations;
use vfs::qos::{Admission, Permit};

#[derive(Default)]
pub(super) struct Payment {
    pub(super) paid: Option<PaidOperations>,
    /// Whether the operation before was a WRITE, with which a GETATTR goes free.
    pub(super) has_written: bool,
    /// Whether the operation is a COPY that paid on its own at the target's volume.
    pub(super) has_paid_copy: bool,
    /// The payment of a COPY at the volume of its source.
    pub(super) source: Option<Permit>,
    /// Whether the operation waits for that payment, and its payment at the target meanwhile.
    pub(super) awaits_source: bool,
    target: Option<Permit>,
    pub(super) owed: Option<Admission>,
}

impl Payment {
    /// The payment of a compound for which these operations were paid before.
    pub(super) fn new(paid: Option<PaidOperations>) -> Self {
        Self { paid, ..Self::default() }
    }

    #[inline]
    pub(super) fn next(&mut self, was_write: bool) {
        (self.has_written, self.has_paid_copy) = (was_write, false);
    }

    /// Ends the current payment with the operations done; later ones pay on their own.
    pub(super) fn settle(&mut self) {
        let has_written = self.has_written;
        *self = Self { has_written, ..Self::default() };
    }

    /// Notes a WRITE whose data is not in the arguments, so that the offsets of `paid` are invalid.
    pub(super) fn after_upload(&mut self) {
        *self = Self { has_written: true, ..Self::default() };
    }

    /// Keeps the payment of the call while the compound waits for another one, if it does.
    pub(super) fn suspend(&mut self, permit: &mut Option<Permit>) {
        if self.awaits_source {
            self.target = permit.take();
        }
    }

    /// Takes the payment that the compound has waited for, if it was not for its operations.
    pub(super) fn resume(&mut self, permit: &mut Option<Permit>) {
        if std::mem::take(&mut self.awaits_source) {
            self.source = std::mem::replace(permit, self.target.take());
        }
    }
}
