//! The payments of a compound at the limits of volumes: before it is run for its first operations (`rpc/demand.rs`), and in the middle of it
//! for those at other volumes, each with a place in line.

use super::compound_state::{CompoundState, OpError};
use super::filehandle::Filehandle;
use super::price::{self, PaidOperations, Segment};
use nfs_wire::v4::Status;
use vfs::Wait;
use vfs::qos::{Admission, Demand, Permit, is_anything_limited};

impl CompoundState<'_, '_> {
    /// Pays for the operation that is being done, with those behind it that can be paid for together, unless it was paid for: whatever
    /// filehandles a compound has, nothing is done in a limited volume for nothing. A payment that cannot be made now has its place in
    /// line ([`Wait::Tokens`]); only behind changes that wait for a flush the client has to come again.
    #[inline]
    pub(super) fn pay(&mut self) -> Result<(), OpError> {
        if !is_anything_limited() || self.is_paid() {
            return Ok(());
        }
        self.pay_segment()
    }

    #[inline(never)]
    fn pay_segment(&mut self) -> Result<(), OpError> {
        let Some(Filehandle::File(file)) = &self.current else { return Ok(()) };
        let (at, operations, has_written) =
            (self.at, self.state.progress.remaining, self.state.payment.has_written);
        let start = price::SegmentStart { at, operations, export: Some(file.export_id()), has_written };
        let Segment { demand, until, .. } = price::segment(self.request.args, start);
        self.pay_demand(demand, until)
    }

    /// Pays for a WRITE whose data has not arrived, unless it is paid.
    pub(super) fn pay_write(&mut self, bytes: u32) -> Result<(), OpError> {
        if !is_anything_limited() || self.is_paid() {
            return Ok(());
        }
        self.pay_demand(Demand::write(bytes), self.at + 1)
    }

    /// Pays for a COPY that could have gone on after its reply, at the volume of its target.
    pub(super) fn pay_copy(&mut self, demand: Demand) -> Result<(), OpError> {
        if !std::mem::replace(&mut self.state.payment.has_paid_copy, true) {
            let until = self.state.payment.paid.map_or(self.at + 1, PaidOperations::until);
            self.pay_demand(demand, until)?;
        }
        Ok(())
    }

    /// Pays for a COPY at the volume of its source, which is another one than that of the current file.
    pub(super) fn pay_source(&mut self, admission: Option<Admission>) -> Result<Option<Permit>, OpError> {
        if let Some(paid) = self.state.payment.source.take() {
            return Ok(Some(paid));
        }
        match admission.map(Admission::try_acquire) {
            None => Ok(None),
            Some(Ok(permit)) => Ok(Some(permit)),
            Some(Err(_)) if self.state.retries_left == 0 => Err(OpError::Status(Status::DELAY)),
            Some(Err(admission)) => {
                self.state.payment.awaits_source = true;
                Err(self.owe(admission))
            }
        }
    }

    /// Whether the operation that is being done costs nothing more.
    fn is_paid(&self) -> bool {
        let Some(Filehandle::File(file)) = &self.current else { return true };
        self.state.payment.paid.is_some_and(|paid| paid.has(file.volume_id(), self.at))
    }

    fn pay_demand(&mut self, demand: Demand, until: usize) -> Result<(), OpError> {
        let Some(Filehandle::File(file)) = &self.current else { return Ok(()) };
        if demand.is_nothing() {
            return Ok(());
        }
        let Some(admission) = file.volume().admission(self.call.payer, demand) else { return Ok(()) };
        let paid = PaidOperations::new(file.volume_id(), until);
        match admission.try_acquire() {
            Ok(permit) => {
                let before = self.call.permit.replace(permit);
                self.call.stats.record_transferred(before);
                self.state.payment.paid = paid;
                Ok(())
            }
            // The compound may not pause again: the client retries.
            Err(_) if self.state.retries_left == 0 => Err(OpError::Status(Status::DELAY)),
            Err(admission) => {
                self.state.payment.paid = paid;
                Err(self.owe(admission))
            }
        }
    }

    /// Makes the compound wait for an admission.
    fn owe(&mut self, admission: Admission) -> OpError {
        self.state.payment.owed = Some(admission);
        OpError::Wait(Wait::Tokens)
    }
}
