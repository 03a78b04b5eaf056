//! The payments of a compound at the limits of volumes: before it is run for its first operations (`rpc/demand.rs`), and in the middle of it
//! for those at other volumes, each with a place in line.

use super::ops::{Ops, Stop};
use super::place::Place;
use super::price::{self, Covered, Segment};
use nfs_wire::v4::Status;
use vfs::qos::{Charge, Demand, Toll, is_anything_limited};

/// How far a compound has paid.
#[derive(Default)]
pub(super) struct Payment {
    /// The operations that were paid for together.
    covered: Option<Covered>,
    /// Whether the operation before was a WRITE, with which a GETATTR goes free.
    has_written: bool,
    /// Whether the operation is a COPY that has paid at the volume of its target by itself.
    has_paid_copy: bool,
    /// The payment of a COPY at the volume of its source.
    source: Option<Charge>,
    /// Whether the operation waits for that payment, and its payment at the target meanwhile.
    awaits_source: bool,
    target: Option<Charge>,
}

impl Payment {
    /// That of a compound of which these operations were paid for before.
    pub(super) fn new(covered: Option<Covered>) -> Self {
        Self { covered, ..Self::default() }
    }

    /// An operation is done.
    #[inline]
    pub(super) fn next(&mut self, was_write: bool) {
        (self.has_written, self.has_paid_copy) = (was_write, false);
    }

    /// What was paid is settled with the operations that are done; all others pay by themselves.
    pub(super) fn settle(&mut self) {
        let has_written = self.has_written;
        *self = Self { has_written, ..Self::default() };
    }

    /// A WRITE is done whose data are no part of the arguments, so that places there are those of the operations behind it.
    pub(super) fn after_upload(&mut self) {
        *self = Self { has_written: true, ..Self::default() };
    }

    /// Keeps the payment of the call while the compound waits for another one, if it does.
    pub(super) fn suspend(&mut self, charge: &mut Option<Charge>) {
        if self.awaits_source {
            self.target = charge.take();
        }
    }

    /// Takes the payment that the compound has waited for, if it was not for its operations.
    pub(super) fn resume(&mut self, charge: &mut Option<Charge>) {
        if std::mem::take(&mut self.awaits_source) {
            self.source = std::mem::replace(charge, self.target.take());
        }
    }
}

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
            let until = self.payment.covered.map_or(self.at + 1, |covered| covered.until);
            self.pay_demand(demand, until)?;
        }
        Ok(())
    }

    /// Pays for a COPY at the volume of its source, which is another one than that of the current file.
    pub(super) fn pay_source(&mut self, toll: Option<Toll>) -> Result<Option<Charge>, Stop> {
        if let Some(paid) = self.payment.source.take() {
            return Ok(Some(paid));
        }
        match toll.map(Toll::pay) {
            None => Ok(None),
            Some(Ok(charge)) => Ok(Some(charge)),
            Some(Err(_)) if self.patience == 0 => Err(Stop::Status(Status::DELAY)),
            Some(Err(toll)) => {
                self.payment.awaits_source = true;
                Err(Stop::Unpaid(Box::new(toll)))
            }
        }
    }

    /// Whether the operation that is being done costs nothing more.
    fn is_covered(&self) -> bool {
        let Some(Place::File(file)) = &self.current else { return true };
        let covers = |covered: Covered| covered.volume == file.volume_id() && self.at < covered.until;
        self.payment.covered.is_some_and(covers)
    }

    fn pay_demand(&mut self, demand: Demand, until: usize) -> Result<(), Stop> {
        let Some(Place::File(file)) = &self.current else { return Ok(()) };
        if demand.is_nothing() {
            return Ok(());
        }
        let Some(toll) = file.volume().toll(self.call.payer, demand) else { return Ok(()) };
        let covered = Some(Covered { volume: file.volume_id(), until });
        match toll.pay() {
            Ok(charge) => {
                let before = self.call.charge.replace(charge);
                self.call.stats.settle(before);
                self.payment.covered = covered;
                Ok(())
            }
            Err(_) if self.patience == 0 => Err(Stop::Status(Status::DELAY)),
            Err(toll) => {
                self.payment.covered = covered;
                Err(Stop::Unpaid(Box::new(toll)))
            }
        }
    }
}
