//! All the rates of one [`Limits`], and of a [`Mix`].

use super::bucket::Bucket;
use super::{Demand, Kind, Limits, Mix, Nanos};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Measures what a pool, a volume or a client takes against its limits.
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
    /// A meter of these limits.
    pub(super) fn new(limits: &Limits, now: Nanos) -> Self {
        let mut meter = Self::default();
        meter.set_limits(limits, now);
        meter
    }

    /// Other limits from now on.
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

    /// When a demand of this kind may pass.
    #[inline]
    pub(super) fn due(&self, kind: Kind) -> Nanos {
        let ops = self.ops.due();
        match kind {
            Kind::Read => ops.max(self.bytes.due()).max(self.read_bytes.due()).max(self.read_ops.due()),
            Kind::Write => ops.max(self.bytes.due()).max(self.write_bytes.due()).max(self.write_ops.due()),
            Kind::Other => ops,
        }
    }

    /// Lets a demand pass.
    #[inline]
    pub(super) fn take(&mut self, demand: Demand, now: Nanos) {
        let (bytes, operations) = (u64::from(demand.bytes), u64::from(demand.operations));
        self.ops.take(self.op_milli(demand.kind) * operations, now);
        match demand.kind {
            Kind::Read => {
                self.bytes.take(bytes, now);
                self.read_bytes.take(bytes, now);
                self.read_ops.take(operations, now);
            }
            Kind::Write => {
                self.bytes.take(bytes, now);
                self.write_bytes.take(bytes, now);
                self.write_ops.take(operations, now);
            }
            Kind::Other => {}
        }
    }

    /// Returns bytes that passed and were not used.
    pub(super) fn refund(&mut self, kind: Kind, bytes: u32) {
        let bytes = u64::from(bytes);
        match kind {
            Kind::Read => {
                self.bytes.refund(bytes);
                self.read_bytes.refund(bytes);
            }
            Kind::Write => {
                self.bytes.refund(bytes);
                self.write_bytes.refund(bytes);
            }
            Kind::Other => {}
        }
    }

    /// How long a demand takes of the rate that it takes most of: what shares are counted in.
    pub(super) fn takes(&self, demand: Demand) -> Nanos {
        let (bytes, operations) = (u64::from(demand.bytes), u64::from(demand.operations));
        let ops = self.ops.takes(self.op_milli(demand.kind) * operations);
        match demand.kind {
            Kind::Read => {
                let own = self.read_bytes.takes(bytes).max(self.read_ops.takes(operations));
                ops.max(self.bytes.takes(bytes)).max(own)
            }
            Kind::Write => {
                let own = self.write_bytes.takes(bytes).max(self.write_ops.takes(operations));
                ops.max(self.bytes.takes(bytes)).max(own)
            }
            Kind::Other => ops,
        }
    }

    fn op_milli(&self, kind: Kind) -> u64 {
        if kind == Kind::Write { self.write_op_milli } else { 1000 }
    }
}

/// How often the observed mix forgets half of what it saw.
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
    /// A meter of this mix.
    pub(super) fn new(mix: Arc<Mix>, now: Nanos) -> Self {
        let mut time = Bucket::default();
        time.set_picoseconds(mix.picoseconds_per_byte[0], now);
        Self { mix, time, read: 0, all: 0, halved: now }
    }

    /// When reads and writes may pass.
    #[inline]
    pub(super) fn due(&self, kind: Kind) -> Nanos {
        if kind == Kind::Other { Nanos(0) } else { self.time.due() }
    }

    /// Lets a demand pass.
    pub(super) fn take(&mut self, demand: Demand, now: Nanos) {
        if demand.kind == Kind::Other {
            return;
        }
        let bytes = self.counted(demand, demand.bytes);
        self.all += bytes;
        if demand.kind == Kind::Read {
            self.read += bytes;
        }
        let step = (self.read * 100 + self.all / 2) / self.all.max(1);
        let step = usize::try_from(step).unwrap_or(usize::MAX).min(self.mix.picoseconds_per_byte.len() - 1);
        self.time.set_picoseconds(self.mix.picoseconds_per_byte[step], now);
        self.time.take(bytes, now);
        if now.saturating_sub(self.halved) >= HALF_LIFE {
            (self.read, self.all, self.halved) = (self.read / 2, self.all / 2, now);
        }
    }

    /// How long a demand takes.
    pub(super) fn takes(&self, demand: Demand) -> Nanos {
        if demand.kind == Kind::Other {
            Nanos(0)
        } else {
            self.time.takes(self.counted(demand, demand.bytes))
        }
    }

    /// Returns what passed and was not used: `used` bytes were delivered. What delivered nothing is an operation still, but
    /// belongs to no mix.
    pub(super) fn refund(&mut self, demand: Demand, used: u32) {
        if demand.kind == Kind::Other {
            return;
        }
        let (asked, paid) = (self.counted(demand, demand.bytes), self.counted(demand, used));
        self.time.refund(asked.saturating_sub(paid));
        let unseen = asked.saturating_sub(if used == 0 { 0 } else { paid });
        self.all = self.all.saturating_sub(unseen);
        if demand.kind == Kind::Read {
            self.read = self.read.saturating_sub(unseen);
        }
    }

    /// So many bytes of a demand, each of whose operations counts for some at least.
    fn counted(&self, demand: Demand, bytes: u32) -> u64 {
        u64::from(bytes).max(u64::from(self.mix.op_bytes_min) * u64::from(demand.operations))
    }
}
