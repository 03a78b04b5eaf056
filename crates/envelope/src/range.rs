//! Ranges with steps, and the refusal of values outside.

use crate::{Bytes, BytesPerSecond, Iops, Refusal, Source};
use serde::Serialize;
use std::fmt::{Display, Formatter};

/// From `min` to `max`, both included, in steps counted from `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range<T> {
    pub min: T,
    pub max: T,
    /// The distance between allowed values; one unit if every value is allowed.
    pub step: T,
}

/// The allowed sizes of a pool or a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bands {
    /// Usually one; Filestore tiers with two capacity ranges have two.
    pub ranges: &'static [Range<Bytes>],
    pub source: Source,
}

pub trait Quantity: Copy + Display {
    fn number(self) -> u64;

    /// The text for messages.
    fn for_people(self) -> String {
        self.to_string()
    }
}

impl Quantity for Bytes {
    fn number(self) -> u64 {
        self.0
    }

    fn for_people(self) -> String {
        Bytes::for_people(self).to_string()
    }
}

impl Quantity for BytesPerSecond {
    fn number(self) -> u64 {
        self.0
    }
}

impl Quantity for Iops {
    fn number(self) -> u64 {
        self.0
    }
}

impl<T: Quantity> Range<T> {
    fn contains(&self, value: T) -> bool {
        let (value, min) = (value.number(), self.min.number());
        (min..=self.max.number()).contains(&value) && (value - min).is_multiple_of(self.step.number().max(1))
    }

    pub(crate) fn check(&self, what: &str, value: T, source: Source) -> Result<(), Refusal> {
        if self.contains(value) {
            return Ok(());
        }
        Err(Refusal::new(format!("{what} of {}", value.for_people()), self.to_string(), source))
    }
}

impl Bands {
    pub(crate) fn check(&self, what: &str, size: Bytes) -> Result<usize, Refusal> {
        self.index(size).ok_or_else(|| {
            Refusal::new(format!("{what} of {}", size.for_people()), self.to_string(), self.source)
        })
    }

    pub(crate) fn index(&self, size: Bytes) -> Option<usize> {
        self.ranges.iter().position(|range| range.contains(size))
    }
}

impl<T: Quantity> Display for Range<T> {
    /// With `#`, digits are grouped.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { min, max, step } = self;
        match (f.alternate(), step.number() > 1) {
            (false, false) => write!(f, "{min} to {max}"),
            (false, true) => write!(f, "{min} to {max} in steps of {step}"),
            (true, false) => write!(f, "{min:#} to {max:#}"),
            (true, true) => write!(f, "{min:#} to {max:#} in steps of {step:#}"),
        }
    }
}

impl Display for Bands {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for (place, range) in self.ranges.iter().enumerate() {
            let or = if place == 0 { "" } else { ", or " };
            write!(f, "{or}{range}")?;
        }
        Ok(())
    }
}
