//! The payments of a compound at the limits of volumes: before it is run for its first operations (`rpc/demand.rs`), and in the middle of it
//! for those at other volumes, each with a place in line.

use super::filehandle::Place;
use super::ops::{Ops, Stop};
use super::price::{self, Covered, Segment};
use nfs_wire::v4::Status;
use vfs::qos::{Admission, Demand, Permit, is_anything_limited};

impl Ops<'_, '_> {
    /// Pays for the operation that is being done, with those behind it that can be paid for together, unless it was paid for: whatever
    /// filehandles a compound has, nothing is done in a limited volume for nothing. A payment that cannot be made now has its place in
    /// line ([`Stop::Unpaid`]); only behind changes that wait for a flush the client has to come again.
    #[inline]
    pub(super) fn pay(&mut self) -> Result<(), Stop> {
        if !is_anything_limited() || self.is_covered() {
            return Ok(());
        }
        self.pay_segment()
    }

    #[inline(never)]
    fn pay_segment(&mut self) -> Result<(), Stop> {
        let Some(Place::File(file)) = &self.current else { return Ok(()) };
        let (at, left, has_written) = (self.at, self.left, self.payment.has_written);
        let start = price::Start { at, left, export: Some(file.export_id()), has_written };
        let Segment { demand, until, .. } = price::segment(self.args, start);
        self.pay_demand(demand, until)
    }

    /// Pays for a WRITE whose data are yet to come, unless it was paid for.
    pub(super) fn pay_write(&mut self, bytes: u32) -> Result<(), Stop> {
        if !is_anything_limited() || self.is_covered() {
            return Ok(());
        }
        self.pay_demand(Demand::write(bytes), self.at + 1)
    }

    /// Pays for a COPY that could have gone on after its reply, at the volume of its target.
    pub(super) fn pay_copy(&mut self, demand: Demand) -> Result<(), Stop> {
        if !std::mem::replace(&mut self.payment.has_paid_copy, true) {
            let until = self.payment.covered.map_or(self.at + 1, Covered::until);
            self.pay_demand(demand, until)?;
        }
        Ok(())
    }

    /// Pays for a COPY at the volume of its source, which is another one than that of the current file.
    pub(super) fn pay_source(&mut self, toll: Option<Admission>) -> Result<Option<Permit>, Stop> {
        if let Some(paid) = self.payment.source.take() {
            return Ok(Some(paid));
        }
        match toll.map(Admission::try_acquire) {
            None => Ok(None),
            Some(Ok(charge)) => Ok(Some(charge)),
            Some(Err(_)) if self.patience == 0 => Err(Stop::Status(Status::DELAY)),
            Some(Err(toll)) => {
                self.payment.awaits_source = true;
                Err(Stop::Unpaid(toll))
            }
        }
    }

    /// Whether the operation that is being done costs nothing more.
    fn is_covered(&self) -> bool {
        let Some(Place::File(file)) = &self.current else { return true };
        self.payment.covered.is_some_and(|covered| covered.has(file.volume_id(), self.at))
    }

    fn pay_demand(&mut self, demand: Demand, until: usize) -> Result<(), Stop> {
        let Some(Place::File(file)) = &self.current else { return Ok(()) };
        if demand.is_nothing() {
            return Ok(());
        }
        let Some(toll) = file.volume().admission(self.call.payer, demand) else { return Ok(()) };
        let covered = Covered::new(file.volume_id(), until);
        match toll.try_acquire() {
            Ok(charge) => {
                let before = self.call.charge.replace(charge);
                self.call.stats.settle(before);
                self.payment.covered = covered;
                Ok(())
            }
            Err(_) if self.patience == 0 => Err(Stop::Status(Status::DELAY)),
            Err(toll) => {
                self.payment.covered = covered;
                Err(Stop::Unpaid(toll))
            }
        }
    }
}
