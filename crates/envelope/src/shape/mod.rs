//! Published envelopes: measured maxima of a volume, as a curve over the share of reads in the mix.
//!
//! Between the published mixes, 1/T is interpolated over the read fraction: the time of a byte is the weighted mean of
//! a read's and a write's time. Between block sizes the time of an operation is interpolated. Nothing is extrapolated.

mod tables;

use crate::source::OWN;
use crate::units::proportion;
use crate::{Bytes, BytesPerSecond, Iops, Protocol, Range, Refusal, Source};
use serde::{Deserialize, Serialize};

/// A published curve. Written and stored by its name, as in `gcnv-extreme-nfs3-8k-rand`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Shape(&'static Table);

/// The order of the blocks of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// In any order.
    Random,
}

/// The unit of a page's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Metric {
    /// MiB/s.
    MibPerSecond,
    /// Operations per second.
    Iops,
}

/// A ceiling at one mix, reads and writes together, in both units: the curve's blocks all have one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    pub bandwidth: BytesPerSecond,
    /// Operations of the curve's block size.
    pub iops: Iops,
}

/// The error of interpolation, in thousandths of the published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorBand {
    pub mean_thousandths: u32,
    pub worst_thousandths: u32,
}

/// A scaled curve that a volume follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shaping {
    pub shape: Shape,
    /// The scale in thousandths: 1,000 as published, 250 a quarter. Not 0.
    #[serde(default = "as_published")]
    pub scale_thousandths: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Knot {
    pub(crate) read_thousandths: u32,
    /// Reads and writes together, in the curve's metric.
    pub(crate) total: u64,
    pub(crate) read: Option<u64>,
    /// Whether the page gives only a lower bound.
    pub(crate) is_exceeded: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Table {
    id: &'static str,
    title: &'static str,
    protocol: Protocol,
    block: Bytes,
    pattern: Pattern,
    metric: Metric,
    /// By read fraction, ascending, from pure writes to pure reads.
    knots: &'static [Knot],
    source: Source,
}

static TABLES: [Table; tables::TABLES.len()] = tables::TABLES;

/// The error with the ends alone, against the 30 published mixes between them.
const BAND_OF_ENDS: ErrorBand = ErrorBand { mean_thousandths: 91, worst_thousandths: 270 };
/// The error with more mixes, each of the 30 left out in turn: the gaps are then twice as wide as in actual use.
const BAND_OF_KNOTS: ErrorBand = ErrorBand { mean_thousandths: 55, worst_thousandths: 206 };

pub(crate) fn band_of(knots: usize) -> ErrorBand {
    if knots == 2 { BAND_OF_ENDS } else { BAND_OF_KNOTS }
}

fn as_published() -> u32 {
    1000
}

impl Shape {
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLES.iter().map(Self)
    }

    pub fn name(self) -> &'static str {
        self.0.id
    }

    pub fn title(self) -> &'static str {
        self.0.title
    }

    pub fn protocol(self) -> Protocol {
        self.0.protocol
    }

    pub fn block(self) -> Bytes {
        self.0.block
    }

    pub fn pattern(self) -> Pattern {
        self.0.pattern
    }

    pub fn metric(self) -> Metric {
        self.0.metric
    }

    pub fn source(self) -> Source {
        self.0.source
    }

    /// The published mixes with their ceilings. The key is the thousandths of operations that are reads.
    pub fn knots(self) -> impl ExactSizeIterator<Item = (u32, Point)> {
        let table = self.0;
        table
            .knots
            .iter()
            .map(move |knot| (knot.read_thousandths, self.point(table.rate(knot), as_published())))
    }

    /// The mixes in the unit of the page.
    pub(crate) fn published_knots(self) -> impl Iterator<Item = Knot> {
        self.0.knots.iter().copied()
    }

    pub fn error_band(self) -> ErrorBand {
        band_of(self.0.knots.len())
    }

    /// An error outside the published mixes.
    pub fn at(self, read_thousandths: u32) -> Result<Point, Refusal> {
        let rate = self.0.interpolate(read_thousandths).ok_or_else(|| {
            let (first, last) = (self.0.knots.first(), self.0.knots.last());
            let end = |knot: Option<&Knot>| knot.map_or(0, |knot| knot.read_thousandths);
            let allowed = format!("{} to {}, nothing is extrapolated", end(first), end(last));
            let what = format!("{self}: a mix with {read_thousandths} thousandths of reads");
            Refusal::new(what, allowed, self.0.source)
        })?;
        Ok(self.point(rate, as_published()))
    }

    /// The ceiling for a block size between this curve's and that of `other`. Both must be the same
    /// measurement except for the block size. An operation takes a fixed time and a time for each byte.
    pub fn between(self, other: Self, block: Bytes, read_thousandths: u32) -> Result<Point, Refusal> {
        let what = format!("blocks between {self} and {other}");
        if !self.family().eq(other.family()) || self.block() == other.block() {
            let allowed = "two curves whose names differ in the block size alone";
            return Err(Refusal::new(what, allowed, self.0.source));
        }
        let (small, large) = if self.block() < other.block() { (self, other) } else { (other, self) };
        let blocks = Range { min: small.block(), max: large.block(), step: Bytes(1) };
        blocks.check(&what, block, self.0.source)?;
        let place = (block.0 - small.block().0, large.block().0 - small.block().0);
        let iops = interpolate(place, small.at(read_thousandths)?.iops.0, large.at(read_thousandths)?.iops.0);
        Ok(Point { bandwidth: BytesPerSecond(iops.saturating_mul(block.0)), iops: Iops(iops) })
    }

    /// Curves of one family differ in the block size alone.
    fn family(self) -> impl Iterator<Item = &'static str> {
        let is_block = |word: &str| word.ends_with('k') && word.starts_with(|c: char| c.is_ascii_digit());
        self.0.id.split('-').filter(move |word| !is_block(word))
    }

    fn point(self, rate: u64, scale_thousandths: u32) -> Point {
        let block = self.0.block.0;
        let scaled = proportion(rate, u64::from(scale_thousandths), 1000);
        match self.0.metric {
            Metric::MibPerSecond => Point { bandwidth: BytesPerSecond(scaled), iops: Iops(scaled / block) },
            Metric::Iops => {
                Point { bandwidth: BytesPerSecond(scaled.saturating_mul(block)), iops: Iops(scaled) }
            }
        }
    }
}

impl Shaping {
    pub fn new(shape: Shape) -> Self {
        Self { shape, scale_thousandths: as_published() }
    }

    /// The ceiling for an observed mix. More than 1,000 thousandths count as all reads, so that a limiter
    /// needs no error. Cheap enough for every call: no clock, no allocation.
    pub fn ceiling(self, read_thousandths: u32) -> Point {
        // Every curve covers 0 to 1,000, so there is always a rate.
        let rate = self.shape.0.interpolate(read_thousandths.min(1000)).unwrap_or(0);
        self.shape.point(rate, self.scale_thousandths)
    }
}

impl Table {
    fn rate(&self, knot: &Knot) -> u64 {
        match self.metric {
            Metric::MibPerSecond => knot.total << 20,
            Metric::Iops => knot.total,
        }
    }

    /// Interpolates 1/T over the read fraction, between the two adjacent mixes; rounded down.
    fn interpolate(&self, read_thousandths: u32) -> Option<u64> {
        let above = self.knots.iter().position(|knot| knot.read_thousandths >= read_thousandths)?;
        let right = &self.knots[above];
        if right.read_thousandths == read_thousandths {
            return Some(self.rate(right));
        }
        let left = &self.knots[above.checked_sub(1)?];
        let width = right.read_thousandths - left.read_thousandths;
        let place = (u64::from(read_thousandths - left.read_thousandths), u64::from(width));
        Some(interpolate(place, self.rate(left), self.rate(right)))
    }
}

/// 1/T = (1 - f)/left + f/right with f = part/whole, in whole numbers; T is rounded down.
pub(crate) fn interpolate(fraction: (u64, u64), left: u64, right: u64) -> u64 {
    let (part, whole) = fraction;
    let [part, whole, left, right] = [part, whole, left, right].map(u128::from);
    let rate = whole * left * right / ((whole - part) * right + part * left).max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

impl std::str::FromStr for Shape {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        Self::all().find(|shape| shape.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Refusal::new(format!("\"{text}\" is not a published curve"), names.join(", "), OWN)
        })
    }
}

impl std::fmt::Display for Shaping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.shape)?;
        match self.scale_thousandths {
            1000 => f.write_str(", as published"),
            thousandths => write!(f, " × {}", f64::from(thousandths) / 1000.0),
        }
    }
}

#[cfg(test)]
mod tests;
