//! All the rates of one [`Limits`], and of a [`Mix`].

use super::bucket::Bucket;
use super::{Class, Demand, Limits, Mix, Nanos, TURN_BYTES_MIN, Transferred};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Meters a pool, a volume or a client against its limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    read_bytes: Bucket,
    write_bytes: Bucket,
    bytes: Bucket,
    read_ops: Bucket,
    write_ops: Bucket,
    /// In thousandths.
    ops: Bucket,
    write_op_milli: u64,
}

impl Meter {
    pub(super) fn new(limits: &Limits, now: Nanos) -> Self {
        let mut meter = Self::default();
        meter.set_limits(limits, now);
        meter
    }

    pub(super) fn set_limits(&mut self, limits: &Limits, now: Nanos) {
        let milli = |rate: NonZeroU64| rate.saturating_mul(const { NonZeroU64::new(1000).unwrap() });
        self.read_bytes.set_rate(limits.read_bytes, now);
        self.write_bytes.set_rate(limits.write_bytes, now);
        self.bytes.set_rate(limits.bytes, now);
        self.read_ops.set_rate(limits.read_ops, now);
        self.write_ops.set_rate(limits.write_ops, now);
        self.ops.set_rate(limits.ops.map(milli), now);
        self.write_op_milli = u64::from(limits.write_op_milli);
    }

    #[inline]
    pub(super) fn due(&self, class: Class) -> Nanos {
        let ops = self.ops.due();
        let read = || self.read_bytes.due().max(self.read_ops.due());
        let write = || self.write_bytes.due().max(self.write_ops.due());
        match class {
            Class::Read => ops.max(self.bytes.due()).max(read()),
            Class::Write => ops.max(self.bytes.due()).max(write()),
            Class::Both => ops.max(self.bytes.due()).max(read()).max(write()),
            Class::Other => ops,
        }
    }

    #[inline]
    pub(super) fn take(&mut self, demand: Demand, now: Nanos) {
        self.ops.take(self.op_milli(demand), now);
        match demand.class() {
            Class::Other => return,
            Class::Read => self.take_read(demand, now),
            Class::Write => self.take_written(demand, now),
            Class::Both => {
                self.take_read(demand, now);
                self.take_written(demand, now);
            }
        }
        self.bytes.take(u64::from(demand.read_bytes) + u64::from(demand.write_bytes), now);
    }

    #[inline]
    fn take_read(&mut self, demand: Demand, now: Nanos) {
        self.read_bytes.take(u64::from(demand.read_bytes), now);
        self.read_ops.take(u64::from(demand.reads), now);
    }

    #[inline]
    fn take_written(&mut self, demand: Demand, now: Nanos) {
        self.write_bytes.take(u64::from(demand.write_bytes), now);
        self.write_ops.take(u64::from(demand.writes), now);
    }

    /// Corrects the bytes of a passed demand: returns unused bytes, takes excess ones.
    pub(super) fn refund_unused(&mut self, demand: Demand, moved: Transferred, now: Nanos) {
        let (read, written) = (u64::from(demand.read_bytes), u64::from(demand.write_bytes));
        let (did_read, did_write) = (u64::from(moved.read), u64::from(moved.written));
        self.read_bytes.correct(read, did_read, now);
        self.write_bytes.correct(written, did_write, now);
        self.bytes.correct(read + written, did_read + did_write, now);
    }

    /// Returns the cost of a demand in time of the rate that it uses most: the unit of shares.
    pub(super) fn takes(&self, demand: Demand) -> Nanos {
        let takes = |(bucket, units, _): (&Bucket, u64, u32)| bucket.takes(units);
        self.of_each(demand).map(takes).into_iter().fold(Nanos(0), Nanos::max)
    }

    #[inline]
    pub(super) fn turns(&self, demand: Demand) -> u32 {
        let turns = |(bucket, units, pieces): (&Bucket, u64, u32)| bucket.turns(units, pieces);
        self.of_each(demand).map(turns).into_iter().fold(1, u32::max)
    }

    /// The units that a demand takes of each rate, and the number of their pieces.
    #[inline]
    fn of_each(&self, demand: Demand) -> [(&Bucket, u64, u32); 6] {
        let Demand { read_bytes: read, write_bytes: written, reads, writes, others } = demand;
        let operations = reads.saturating_add(writes).saturating_add(others);
        let pieces = |bytes: u32| bytes.div_ceil(TURN_BYTES_MIN);
        [
            (&self.ops, self.op_milli(demand), operations),
            (&self.bytes, u64::from(read) + u64::from(written), pieces(read.saturating_add(written))),
            (&self.read_bytes, read.into(), pieces(read)),
            (&self.read_ops, reads.into(), reads),
            (&self.write_bytes, written.into(), pieces(written)),
            (&self.write_ops, writes.into(), writes),
        ]
    }

    #[inline]
    fn op_milli(&self, demand: Demand) -> u64 {
        let others = u64::from(demand.reads) + u64::from(demand.others);
        1000 * others + self.write_op_milli * u64::from(demand.writes)
    }
}

/// The half-life of the observed mix.
const HALF_LIFE: Nanos = Nanos(250_000_000);

/// Measures against a ceiling that follows the mix of reads and writes that passes.
#[derive(Clone, Debug)]
pub(super) struct MixMeter {
    mix: Arc<Mix>,
    time: Bucket,
    read: u64,
    all: u64,
    halved: Nanos,
}

impl MixMeter {
    pub(super) fn new(mix: Arc<Mix>, now: Nanos) -> Self {
        let mut time = Bucket::default();
        time.set_picoseconds(mix.picoseconds_per_byte[0], now);
        Self { mix, time, read: 0, all: 0, halved: now }
    }

    #[inline]
    pub(super) fn due(&self, class: Class) -> Nanos {
        if class == Class::Other { Nanos(0) } else { self.time.due() }
    }

    pub(super) fn take(&mut self, demand: Demand, now: Nanos) {
        if demand.class() == Class::Other {
            return;
        }
        let (read, written) = self.counted(demand, demand.transferred());
        self.see(read, written);
        self.follow(now);
        self.time.take(read + written, now);
        if now.saturating_sub(self.halved) >= HALF_LIFE {
            (self.read, self.all, self.halved) = (self.read / 2, self.all / 2, now);
        }
    }

    /// Returns the cost of a demand in time.
    pub(super) fn takes(&self, demand: Demand) -> Nanos {
        if demand.class() == Class::Other {
            return Nanos(0);
        }
        let (read, written) = self.counted(demand, demand.transferred());
        self.time.takes(read + written)
    }

    #[inline]
    pub(super) fn turns(&self, demand: Demand) -> u32 {
        if demand.class() == Class::Other {
            return 1;
        }
        let (read, written) = self.counted(demand, demand.transferred());
        let bytes = demand.read_bytes.saturating_add(demand.write_bytes);
        let operations = demand.reads.saturating_add(demand.writes);
        self.time.turns(read + written, operations.max(bytes.div_ceil(TURN_BYTES_MIN)))
    }

    /// Corrects the bytes of a demand that has passed. An operation that moved nothing still counts as one, but not in the mix.
    pub(super) fn refund_unused(&mut self, demand: Demand, moved: Transferred, now: Nanos) {
        if demand.class() == Class::Other && moved == Transferred::default() {
            return;
        }
        let (read, written) = self.counted(demand, demand.transferred());
        let (did_read, did_write) = self.counted(demand, moved);
        self.time.correct(read + written, did_read + did_write, now);
        let seen = |moved, did| if moved == 0 { 0 } else { did };
        let (saw_read, saw_written) = (seen(moved.read, did_read), seen(moved.written, did_write));
        self.all = self.all.saturating_sub(read + written);
        self.read = self.read.saturating_sub(read);
        self.see(saw_read, saw_written);
    }

    fn see(&mut self, read: u64, written: u64) {
        self.all += read + written;
        self.read += read;
    }

    /// Sets the time of a byte to that of the mix.
    fn follow(&mut self, now: Nanos) {
        let step = (self.read * 100 + self.all / 2) / self.all.max(1);
        let step = usize::try_from(step).unwrap_or(usize::MAX).min(self.mix.picoseconds_per_byte.len() - 1);
        self.time.set_picoseconds(self.mix.picoseconds_per_byte[step], now);
    }

    /// Returns the charged bytes read and written by a demand that moves `moved`: each READ and WRITE counts as a block
    /// at least.
    fn counted(&self, demand: Demand, moved: Transferred) -> (u64, u64) {
        let least = |operations| u64::from(self.mix.op_bytes_min) * u64::from(operations);
        let read = u64::from(moved.read).max(least(demand.reads));
        (read, u64::from(moved.written).max(least(demand.writes)))
    }
}
