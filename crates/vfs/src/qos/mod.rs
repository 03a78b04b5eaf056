//! Quality of service: how much of what each pool, volume and client gets.
//!
//! A protocol asks once for each call, [`Gate::admit`], whatever it is about to do. Without a limit that is one look at a
//! flag. Within the limits, the meters of pool, volume and client count what the call takes, and it goes on. Past them it
//! leaves a [`Waiter`] behind and holds nothing else; the [`Pacer`] lets it pass when its turn has come.
//!
//! [`Scheduler`] is all of the arithmetic, without a clock; [`Arbiter`] and [`Gate`] put it between threads.

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
mod toll;

pub use arbiter::{Arbiter, Gate, Wait, Waiter, is_anything_limited};
pub use bucket::BURST;
pub use limits::{Limits, MIX_STEPS, Mix, PoolLimits, VolumeLimits};
pub use pacer::Pacer;
pub use scheduler::{Release, Scheduler};
pub use toll::{Charge, Toll};

use std::net::IpAddr;

/// A moment, in nanoseconds of a clock that only goes forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Who shares a volume with others: all connections from one address are one client.
pub type Client = IpAddr;

/// What limits distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Data is read.
    Read,
    /// Data is written.
    Write,
    /// Names and attributes.
    Other,
}

/// What a call is about to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Of which kind.
    pub kind: Kind,
    /// Bytes read or written.
    pub bytes: u32,
    /// How many operations that is: what reads or writes several times at once counts as often.
    pub operations: u32,
}

impl Demand {
    /// One operation of so many bytes.
    #[must_use]
    pub const fn one(kind: Kind, bytes: u32) -> Self {
        Self { kind, bytes, operations: 1 }
    }

    /// Both at once: each that reads or writes counts, and what goes with them on names and attributes is free.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let kind = match (self.kind, other.kind) {
            (Kind::Other, Kind::Other) => return self,
            (Kind::Other, _) => return other,
            (_, Kind::Other) => return self,
            (Kind::Read, Kind::Read) => Kind::Read,
            (Kind::Write, _) | (_, Kind::Write) => Kind::Write,
        };
        let bytes = self.bytes.saturating_add(other.bytes);
        Self { kind, bytes, operations: self.operations.saturating_add(other.operations) }
    }
}

/// What has waited for its turn, by [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Calls.
    pub calls: [u64; Kind::COUNT],
    /// The sum of their waiting times.
    pub waited: [Nanos; Kind::COUNT],
}

impl Nanos {
    /// So many seconds.
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
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All of them, in the order of [`Kind::index`].
    pub const ALL: [Self; Self::COUNT] = [Self::Read, Self::Write, Self::Other];

    /// Its place in tables.
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
