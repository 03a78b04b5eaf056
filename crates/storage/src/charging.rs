//! Charges of changes under way: to the volume, and to the users and groups of its files.

use crate::ledger::{Ledger, PendingChange};
use crate::owners::{OwnerCharge, OwnerIds, OwnerLedger, OwnerResize, PendingOwnerChange};
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::backend::charge::{INODE_BYTES, NAME_BYTES, blocks, directory};
use vfs::{Attrs, FsResult, Usage};

/// The counts that the changes of a volume are charged to.
#[derive(Clone, Copy, Default)]
pub struct Counts<'l> {
    /// `None` if this process does not count the volume's space.
    pub ledger: Option<&'l Ledger>,
    /// `None` if the volume does not count by owner.
    pub owners: Option<&'l OwnerLedger>,
}

/// A change under way in both counts. Ends on drop.
pub struct PendingCounts<'l> {
    pub ledger: Option<PendingChange<'l>>,
    pub owners: Option<PendingOwnerChange<'l>>,
}

impl<'l> Counts<'l> {
    #[inline]
    pub fn is_none(self) -> bool {
        self.ledger.is_none() && self.owners.is_none()
    }

    /// Charges a change of the size of a regular file that has `before`.
    #[inline]
    pub fn charge_resize(
        self,
        reservations: &SpaceReservations,
        before: &Attrs,
        to: u64,
    ) -> FsResult<ResizeCharge<'l>> {
        if self.is_none() {
            return Ok(ResizeCharge::default());
        }
        let reserved = reservations.charged_size(0);
        let (held, after) = (blocks(before.size.max(reserved)), blocks(to.max(reserved)));
        let mut resize =
            ResizeCharge { charged: held.max(after), reserved_size: reserved, ..ResizeCharge::default() };
        if held == after {
            return Ok(resize);
        }
        if let Some(ledger) = self.ledger {
            resize.pending = Some(ledger.begin()?);
            if after > held {
                ledger.charge(after - held, 0)?;
            } else {
                ledger.mark_best_effort();
            }
        }
        let begin = |owners: &'l OwnerLedger| {
            owners.begin_resize(OwnerIds::both(before.uid, before.gid), held, after)
        };
        resize.owners = self.owners.map(begin).transpose().inspect_err(|_| {
            self.ledger.into_iter().for_each(|ledger| ledger.refund(after.saturating_sub(held), 0));
        })?;
        Ok(resize)
    }

    /// Charges a new object with this content and one name; its owners too, unless it is a directory.
    pub fn charge_object(
        self,
        content: u64,
        owned: Option<(OwnerIds, Usage)>,
    ) -> FsResult<NewEntryCharge<'l>> {
        let mut charge = self.charge_entry(NewEntryCharge::bytes(content), 1)?;
        if let (Some(owners), Some((ids, amount))) = (self.owners, owned) {
            charge.owners = Some(owners.charge(ids, amount)?);
        }
        Ok(charge)
    }

    /// Charges a new name of a file.
    pub fn charge_link(self) -> FsResult<NewEntryCharge<'l>> {
        // A walk that counts the files must not meet a new name.
        let _pending = self.owners.map(OwnerLedger::begin).transpose()?;
        self.charge_entry(NAME_BYTES, 0)
    }

    fn charge_entry(self, bytes: u64, files: u64) -> FsResult<NewEntryCharge<'l>> {
        let pending = self.ledger.map(Ledger::begin).transpose()?;
        self.ledger.map_or(Ok(()), |ledger| ledger.charge(bytes, files))?;
        Ok(NewEntryCharge { pending, owners: None, bytes, files })
    }

    /// Begins a change that removes or moves names. Never refuses for lack of space.
    pub fn begin_removal(self) -> FsResult<PendingCounts<'l>> {
        let ledger = self.ledger.map(Ledger::begin).transpose()?;
        let owners = self.owners.map(OwnerLedger::begin).transpose()?;
        self.ledger.into_iter().for_each(Ledger::mark_best_effort);
        self.owners.into_iter().for_each(OwnerLedger::mark_best_effort);
        Ok(PendingCounts { ledger, owners })
    }

    /// Begins a change that only refunds, in any state.
    pub fn begin_refund(self) -> PendingCounts<'l> {
        PendingCounts {
            ledger: self.ledger.map(Ledger::begin_refund),
            owners: self.owners.map(OwnerLedger::begin_refund),
        }
    }

    /// Requires a recount at the next start.
    pub fn mark_doubtful(self) {
        self.ledger.into_iter().for_each(Ledger::mark_doubtful);
        self.owners.into_iter().for_each(OwnerLedger::mark_doubtful);
    }

    /// Charges a change of the extended attributes of a file, from `now` bytes to `then`. After a failure, `remaining`
    /// are the bytes that they take.
    pub fn charge_xattrs<F: Fn() -> Option<u64>>(
        self,
        now: u64,
        then: u64,
        remaining: F,
    ) -> FsResult<XattrCharge<'l, F>> {
        let mut charge = XattrCharge { pending: None, charged_meanwhile: now.max(then), then, remaining };
        let Some(ledger) = self.ledger.filter(|_| now != then) else { return Ok(charge) };
        let pending = ledger.begin()?;
        if then > now {
            ledger.charge(then - now, 0)?;
        } else {
            ledger.mark_best_effort();
        }
        charge.pending = Some(pending);
        Ok(charge)
    }
}

/// Reservations for writes in parts. Until they end, the file is charged as if it reached the farthest of them.
#[derive(Default)]
pub struct SpaceReservations(Vec<SpaceReservation>);

struct SpaceReservation {
    finish: u64,
    is_preallocated: bool,
    /// Whether it is a pending change of the count by owner.
    is_owner_pending: bool,
}

/// A reservation that has ended. Its change ends on drop.
pub struct Released<'l> {
    pub is_preallocated: bool,
    /// Bytes that were not used. The volume has them again; the owners have not.
    pub bytes: u64,
    _pending: PendingCounts<'l>,
}

impl SpaceReservations {
    #[inline]
    pub fn charged_size(&self, size: u64) -> u64 {
        self.0.iter().fold(size, |max, reservation| max.max(reservation.finish))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a reservation whose charge was not ended.
    pub fn add(&mut self, counts: Counts<'_>, finish: u64, is_preallocated: bool) {
        let is_owner_pending = counts.owners.is_some();
        // Pending until it is released: its charge must not be saved as usage of the volume.
        std::mem::forget(counts.begin_refund());
        self.0.push(SpaceReservation { finish, is_preallocated, is_owner_pending });
    }

    /// Ends a reservation up to `finish`, if there is one. `size` is that of the file; `None` if the file was refunded.
    pub fn release<'l>(
        &mut self,
        counts: Counts<'l>,
        finish: u64,
        size: impl FnOnce() -> Option<u64>,
    ) -> Option<Released<'l>> {
        let at = self.0.iter().position(|reservation| reservation.finish == finish)?;
        let is_owner_pending = self.0[at].is_owner_pending;
        let pending = PendingCounts {
            ledger: counts.ledger.map(Ledger::resume),
            owners: counts.owners.filter(|_| is_owner_pending).map(OwnerLedger::resume),
        };
        let size = size();
        let charged = |reserved: &Self| size.map_or(0, |size| blocks(reserved.charged_size(size)));
        let before = charged(self);
        let SpaceReservation { is_preallocated, .. } = self.0.swap_remove(at);
        let bytes = before - charged(self);
        counts.ledger.filter(|_| bytes > 0).into_iter().for_each(|ledger| ledger.refund(bytes, 0));
        Some(Released { is_preallocated, bytes, _pending: pending })
    }
}

/// The charge of a change of size under way. [`ResizeCharge::end`] refunds the surplus.
#[derive(Default)]
pub struct ResizeCharge<'l> {
    /// `None` if this process does not count, or if the charge stays the same.
    pending: Option<PendingChange<'l>>,
    owners: Option<OwnerResize<'l>>,
    charged: u64,
    /// The file is charged for at least this size.
    reserved_size: u64,
}

impl ResizeCharge<'_> {
    /// Refunds the surplus. The file now has `size` bytes.
    #[inline]
    pub fn end(self, size: u64) {
        // Never more than was charged, unless another process extends the file.
        let surplus = self.charged.saturating_sub(blocks(size.max(self.reserved_size)));
        if let Some(ledger) = self.pending {
            ledger.refund(surplus, 0);
        }
        if let Some(owners) = self.owners {
            owners.end(surplus);
        }
    }
}

/// The charge of a new object, or of a new link to one. Refunded on drop unless committed.
pub struct NewEntryCharge<'l> {
    pending: Option<PendingChange<'l>>,
    owners: Option<OwnerCharge<'l>>,
    bytes: u64,
    files: u64,
}

impl NewEntryCharge<'_> {
    /// The charge of an object with this content and one name.
    fn bytes(content: u64) -> u64 {
        content.saturating_add(INODE_BYTES + NAME_BYTES)
    }

    /// Commits the charge as it is.
    pub fn commit(mut self) {
        self.end(None);
    }

    /// Commits the charge of an object with this content, and with these owners if not those that were charged.
    pub fn commit_with(mut self, content: u64, owners: Option<OwnerIds>) {
        if let Some(ledger) = &self.pending {
            ledger.adjust(self.bytes, Self::bytes(content));
        }
        self.end(owners);
    }

    fn end(&mut self, owners: Option<OwnerIds>) {
        self.owners.take().into_iter().for_each(|charge| charge.commit_to(owners));
        self.pending = None;
    }
}

impl Drop for NewEntryCharge<'_> {
    fn drop(&mut self) {
        if let Some(ledger) = self.pending.take() {
            ledger.refund(self.bytes, self.files);
        }
    }
}

/// The charge of a change of extended attributes under way. Refunded on drop as far as they do not take it.
pub struct XattrCharge<'l, F: Fn() -> Option<u64>> {
    /// `None` if this process does not count, or if the charge stays the same.
    pending: Option<PendingChange<'l>>,
    charged_meanwhile: u64,
    then: u64,
    remaining: F,
}

impl<F: Fn() -> Option<u64>> XattrCharge<'_, F> {
    pub fn commit(mut self) {
        if let Some(ledger) = self.pending.take() {
            ledger.refund(self.charged_meanwhile - self.then, 0);
        }
    }
}

impl<F: Fn() -> Option<u64>> Drop for XattrCharge<'_, F> {
    /// A file system may have removed the old value before it found no space for the new one.
    fn drop(&mut self) {
        if let Some(ledger) = self.pending.take() {
            let remaining = (self.remaining)().unwrap_or(self.charged_meanwhile);
            ledger.refund(self.charged_meanwhile.saturating_sub(remaining), 0);
        }
    }
}

/// Bytes charged for the entries of a directory: they follow its size.
pub struct EntriesBytes(AtomicU64);

impl Default for EntriesBytes {
    fn default() -> Self {
        Self::new(0)
    }
}

/// The charge was refunded.
const RELEASED: u64 = u64::MAX;

impl EntriesBytes {
    pub fn new(size: u64) -> Self {
        Self(AtomicU64::new(directory(size)))
    }

    /// Changes the charge with the size of the directory.
    fn follow(&self, ledger: &Ledger, before: u64, after: u64) {
        let (from, to) = (directory(before), directory(after));
        let keep = |charged: u64| (charged != RELEASED).then_some(to);
        // A directory removed meanwhile was already refunded with this charge.
        if from != to && self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, keep).is_ok() {
            ledger.adjust(from, to);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Ends the charge, and returns it: later changes are not charged.
    pub fn release(&self) -> u64 {
        self.0.swap(RELEASED, Ordering::AcqRel)
    }

    /// Begins a change of the entries. After a failure, `size_now` is the size of the directory.
    pub fn begin_change<'n, F: Fn() -> Option<u64>>(
        &'n self,
        counts: Counts<'n>,
        before: u64,
        size_now: F,
    ) -> EntriesCharge<'n, F> {
        EntriesCharge { charged: counts.ledger.map(|ledger| (self, ledger)), before, size_now }
    }
}

/// A change of a directory's entries under way. The directory's charge follows its size.
pub struct EntriesCharge<'n, F: Fn() -> Option<u64>> {
    /// `None` if this process does not count.
    charged: Option<(&'n EntriesBytes, &'n Ledger)>,
    before: u64,
    size_now: F,
}

impl<F: Fn() -> Option<u64>> EntriesCharge<'_, F> {
    pub fn finish(mut self, size: u64) {
        if let Some((charged, ledger)) = self.charged.take() {
            charged.follow(ledger, self.before, size);
        }
    }
}

impl<F: Fn() -> Option<u64>> Drop for EntriesCharge<'_, F> {
    /// A failed change may have changed the directory too.
    fn drop(&mut self) {
        if let Some((charged, ledger)) = self.charged.take()
            && let Some(size) = (self.size_now)()
        {
            charged.follow(ledger, self.before, size);
        }
    }
}
