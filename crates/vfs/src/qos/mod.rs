//! Quality of service: limits and fair shares of pools, volumes and clients.
//!
//! A protocol calls [`Gate::admit`] once for each call. Without a limit that is one atomic load. Within the limits, the
//! meters of pool, volume and client count the call, and it continues. Above them it leaves a [`Waiter`] and holds
//! nothing else; the [`Pacer`] resumes it in turn.
//!
//! [`Scheduler`] is all of the arithmetic, without a clock; [`Arbiter`] and [`Gate`] share it among threads.

mod admission;
mod arbiter;
mod bucket;
mod clients;
mod fair_queue;
mod limits;
mod meter;
mod pacer;
mod queue;
mod scheduler;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Permit};
pub use arbiter::{Arbiter, Gate, QueueResult, Waiter, is_anything_limited};
pub use bucket::BURST;
pub use limits::{Limits, MIX_STEPS, Mix, PoolLimits, VolumeLimits};
pub use pacer::Pacer;
pub use scheduler::{Decision, Release, Scheduler};

use std::net::IpAddr;

/// The longest time of a rate in one turn. A longer demand takes several turns.
/// Others get turns in between, so a client with small demands does not wait for its neighbor's large ones.
const TURN: Nanos = Nanos(5_000_000);

/// Bytes that are not divided into turns: the least that an operation counts for where a ceiling follows the mix.
const TURN_BYTES_MIN: u32 = 4096;

/// A moment, in nanoseconds of a clock that only goes forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A competitor for a volume: all connections from one address are one client.
pub type Client = IpAddr;

/// The kinds of operations that limits distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Read,
    Write,
    /// Names and attributes.
    Other,
}

/// The load that a call is about to put on a volume, each component counted by itself. Calls of several operations add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Bytes that leave the volume: data, and listings, links and attributes that carry any amount of it.
    pub read_bytes: u32,
    /// Bytes that enter it.
    pub write_bytes: u32,
    pub reads: u32,
    pub writes: u32,
    /// Operations on names and attributes.
    pub others: u32,
}

/// Bytes that a call has moved, for the refund.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    pub read: u32,
    pub written: u32,
}

impl Transferred {
    #[must_use]
    pub fn read(bytes: usize) -> Self {
        Self { read: count(bytes), written: 0 }
    }

    #[must_use]
    pub fn written(bytes: usize) -> Self {
        Self { read: 0, written: count(bytes) }
    }

    /// The sum of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }
}

fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The limits that can hold a demand up: a demand of one class never waits for the limits of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Class {
    /// Reads, and writes nothing.
    Read,
    /// Writes, and reads nothing.
    Write,
    Both,
    /// Moves no data.
    Other,
}

impl Demand {
    pub const NOTHING: Self = Self { read_bytes: 0, write_bytes: 0, reads: 0, writes: 0, others: 0 };
    /// One operation on names and attributes.
    pub const OTHER: Self = Self { others: 1, ..Self::NOTHING };

    /// One READ of `bytes`.
    #[must_use]
    pub const fn read(bytes: u32) -> Self {
        Self { read_bytes: bytes, reads: 1, ..Self::NOTHING }
    }

    /// One WRITE of `bytes`.
    #[must_use]
    pub const fn write(bytes: u32) -> Self {
        Self { write_bytes: bytes, writes: 1, ..Self::NOTHING }
    }

    /// One operation on names and attributes that returns up to `bytes`.
    #[must_use]
    pub const fn list(bytes: u32) -> Self {
        Self { read_bytes: bytes, ..Self::OTHER }
    }

    /// One operation on names and attributes that stores `bytes`.
    #[must_use]
    pub const fn store(bytes: u32) -> Self {
        Self { write_bytes: bytes, ..Self::OTHER }
    }

    /// The sum of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            write_bytes: self.write_bytes.saturating_add(other.write_bytes),
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
            others: self.others.saturating_add(other.others),
        }
    }

    const fn without(self, part: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(part.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(part.write_bytes),
            reads: self.reads.saturating_sub(part.reads),
            writes: self.writes.saturating_sub(part.writes),
            others: self.others.saturating_sub(part.others),
        }
    }

    /// Whether it is paid in one turn at any rate.
    #[inline]
    const fn is_indivisible(self) -> bool {
        let operations = self.reads as u64 + self.writes as u64 + self.others as u64;
        operations <= 1 && self.read_bytes as u64 + self.write_bytes as u64 <= TURN_BYTES_MIN as u64
    }

    /// Returns the part to pay next, the same fraction of each component, with `left` of `all` turns left after `paid`:
    /// never nothing, unless nothing is left.
    fn next_part(self, paid: Self, left: u32, all: u32) -> Self {
        let turns = u64::from(all.saturating_sub(left)) + 1;
        let part = |of: fn(&Self) -> u32| {
            let until_then = (u64::from(of(&self)) * turns).div_ceil(all.into());
            u32::try_from(until_then).unwrap_or(u32::MAX).saturating_sub(of(&paid))
        };
        let part = Self {
            read_bytes: part(|of| of.read_bytes),
            write_bytes: part(|of| of.write_bytes),
            reads: part(|of| of.reads),
            writes: part(|of| of.writes),
            others: part(|of| of.others),
        };
        if part.is_nothing() { self.without(paid) } else { part }
    }

    /// The bytes, once the operations were paid for.
    #[must_use]
    pub const fn without_operations(self) -> Self {
        Self { reads: 0, writes: 0, others: 0, ..self }
    }

    #[must_use]
    pub const fn transferred(self) -> Transferred {
        Transferred { read: self.read_bytes, written: self.write_bytes }
    }

    /// Returns the same operations with other numbers of bytes.
    #[must_use]
    const fn moving(self, moved: Transferred) -> Self {
        Self { read_bytes: moved.read, write_bytes: moved.written, ..self }
    }

    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }

    #[inline]
    const fn class(self) -> Class {
        match (self.read_bytes | self.reads > 0, self.write_bytes | self.writes > 0) {
            (true, true) => Class::Both,
            (true, false) => Class::Read,
            (false, true) => Class::Write,
            (false, false) => Class::Other,
        }
    }
}

impl Class {
    const COUNT: usize = 4;
    const ALL: [Self; Self::COUNT] = [Self::Read, Self::Write, Self::Both, Self::Other];

    #[inline]
    const fn index(self) -> usize {
        self as usize
    }

    /// The kind that statistics count it as.
    const fn kind(self) -> Kind {
        match self {
            Self::Read => Kind::Read,
            Self::Write | Self::Both => Kind::Write,
            Self::Other => Kind::Other,
        }
    }
}

/// Calls that have waited for their turn, by [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    pub calls: [u64; Kind::COUNT],
    /// The sum of their waiting times.
    pub waited: [Nanos; Kind::COUNT],
}

impl Nanos {
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The time since `earlier`; nothing if that is later.
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Kind {
    pub const COUNT: usize = 3;
    /// All of them, in the order of [`Kind::index`].
    pub const ALL: [Self; Self::COUNT] = [Self::Read, Self::Write, Self::Other];

    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Throttled {
    fn count(&mut self, kind: Kind, waited: Nanos) {
        self.calls[kind.index()] += 1;
        self.waited[kind.index()].0 += waited.0;
    }
}
