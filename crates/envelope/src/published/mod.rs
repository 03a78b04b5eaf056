//! Published figures by name, to show beside measurements: curves and other figures.
//!
//! Only figures of pages are here. Nothing is interpolated: see [`Shape::at`] for estimates.

mod conflicts;
mod headlines;
mod setup;
mod tables;

use crate::shape::Knot;
use crate::source::{OWN, PAGE_000};
use crate::{Bytes, Metric, Pattern, Profile, Refusal, Shape, Source};
use serde::Serialize;

pub(crate) use conflicts::TIERS;
pub use headlines::{Headline, TextFigure};

/// A published record, by its name: a curve, the row of a tier, a gain, a rate at a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published(Entry);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    pub direction: Direction,
    /// The value in hundredths of its unit.
    pub hundredths: u64,
    pub unit: Unit,
    /// `None` if the blocks of the load differ in size.
    pub mix: Option<Mix>,
    /// Whether the page gives only a lower bound.
    pub is_exceeded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    pub block: Bytes,
    pub pattern: Pattern,
    /// Thousandths of the operations that are reads.
    pub read_thousandths: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    Total,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Iops,
    /// 2^20 bytes per second.
    MibPerSecond,
    /// 10^6 bytes per second.
    MbPerSecond,
    /// Multiple of the rate over one connection.
    Times,
    /// Job sets of an EDA load.
    JobSets,
    Milliseconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Curve(Shape),
    Record(&'static Record),
}

#[derive(Debug, PartialEq, Eq)]
struct Record {
    id: &'static str,
    title: &'static str,
    figures: &'static [Figure],
    source: Source,
}

/// A contradiction between pages or within one.
#[derive(Debug, Serialize)]
pub struct Conflict {
    pub name: &'static str,
    /// The pages, by name.
    #[serde(skip)]
    pub pages: &'static [&'static str],
    /// The affected records, by name.
    pub of: &'static [&'static str],
    pub text: &'static str,
    /// Profiles with the alternative figure.
    pub profiles: &'static [Profile],
}

static CONFLICTS: [&[Conflict]; 4] = conflicts::CONFLICTS;
static RECORDS: [Record; tables::RECORDS.len()] = tables::RECORDS;

impl Published {
    pub fn all() -> impl Iterator<Item = Self> {
        let curves = Shape::all().map(|shape| Self(Entry::Curve(shape)));
        curves.chain(RECORDS.iter().map(|record| Self(Entry::Record(record))))
    }

    pub fn name(self) -> &'static str {
        match self.0 {
            Entry::Curve(shape) => shape.name(),
            Entry::Record(record) => record.id,
        }
    }

    pub fn title(self) -> &'static str {
        match self.0 {
            Entry::Curve(shape) => shape.title(),
            Entry::Record(record) => record.title,
        }
    }

    pub fn source(self) -> Source {
        match self.0 {
            Entry::Curve(shape) => shape.source(),
            Entry::Record(record) => record.source,
        }
    }

    pub fn figures(self) -> Vec<Figure> {
        match self.0 {
            Entry::Curve(shape) => {
                shape.published_knots().flat_map(|knot| figures_of_knot(shape, knot)).collect()
            }
            Entry::Record(record) => record.figures.to_vec(),
        }
    }

    /// The figures for exactly this load. Empty if the page has no such point, since nothing is interpolated.
    pub fn at(self, mix: Mix) -> impl Iterator<Item = Figure> {
        self.figures().into_iter().filter(move |figure| figure.mix == Some(mix))
    }

    /// Includes contradictions within one page.
    pub fn conflicts(self) -> impl Iterator<Item = &'static str> {
        Conflict::all().filter(move |one| one.of.contains(&self.name())).map(|one| one.text)
    }
}

impl Published {
    /// Whether the page gives the record for information only.
    pub fn is_informational(self) -> bool {
        self.source() == PAGE_000 && matches!(self.0, Entry::Curve(shape) if shape.metric() == Metric::Iops)
    }
}

impl Conflict {
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        CONFLICTS.iter().copied().flatten()
    }
}

impl Source {
    /// `None` if the figures are promises.
    pub fn estimate(self) -> Option<&'static str> {
        let text = "Google's figures are estimates of the maximum, measured with settings chosen for it.";
        (self == PAGE_000).then_some(text)
    }
}

fn figures_of_knot(shape: Shape, knot: Knot) -> impl Iterator<Item = Figure> {
    let Knot { read_thousandths, total, read, is_exceeded } = knot;
    let unit = match shape.metric() {
        Metric::Iops => Unit::Iops,
        Metric::MibPerSecond => Unit::MibPerSecond,
    };
    let mix = Mix { block: shape.block(), pattern: shape.pattern(), read_thousandths };
    let figure = move |direction, value: u64| Figure {
        direction,
        hundredths: value.saturating_mul(100),
        unit,
        mix: Some(mix),
        is_exceeded,
    };
    let parts = read
        .map(|read| [figure(Direction::Read, read), figure(Direction::Write, total.saturating_sub(read))]);
    parts.into_iter().flatten().chain([figure(Direction::Total, total)])
}

impl Unit {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MibPerSecond => "MiB/s",
            Self::MbPerSecond => "MB/s",
            Self::Times => "×",
            Self::JobSets => "job sets",
            Self::Milliseconds => "ms",
        }
    }
}

impl std::fmt::Display for Figure {
    /// `7.20 ×`, `12761 MiB/s`: hundredths only if there are any. `> 3500 MiB/s` if the page gives only a lower bound.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_exceeded {
            f.write_str("> ")?;
        }
        let (whole, rest) = (self.hundredths / 100, self.hundredths % 100);
        match rest {
            0 => write!(f, "{whole} {}", self.unit.symbol()),
            _ => write!(f, "{whole}.{rest:02} {}", self.unit.symbol()),
        }
    }
}

impl std::str::FromStr for Published {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        Self::all().find(|one| one.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Refusal::new(format!("\"{text}\" is nothing published"), names.join(", "), OWN)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BytesPerSecond, Iops, Level, Pool, Volume};

    fn published(name: &str) -> Published {
        name.parse().unwrap()
    }

    fn mix(kib: u64, pattern: Pattern, read_thousandths: u32) -> Mix {
        Mix { block: Bytes(kib << 10), pattern, read_thousandths }
    }

    fn shown(name: &str, mix: Mix) -> Vec<String> {
        published(name).at(mix).map(|figure| format!("{:?} {figure}", figure.direction)).collect()
    }

    #[test]
    fn published_names_are_unique_and_parse() {
        let names: Vec<&str> = Published::all().map(Published::name).collect();
        assert_eq!(names.len(), Shape::all().len() + RECORDS.len());
        for one in Published::all() {
            assert_eq!(one.name().parse(), Ok(one));
            assert!(!one.figures().is_empty(), "{}", one.name());
        }
        let refusal = "gcnv".parse::<Published>().unwrap_err().to_string();
        assert!(refusal.contains("\"gcnv\" is nothing published; allowed: gcnv-flex"), "{refusal}");
    }

    #[test]
    fn figures_match_pages() {
        let extreme = |reads| shown("gcnv-extreme-nfs3-64k-seq", mix(64, Pattern::Sequential, reads));
        assert_eq!(extreme(750), ["Read 2284 MiB/s", "Write 764 MiB/s", "Total 3048 MiB/s"]);
        assert_eq!(extreme(0), ["Read 0 MiB/s", "Write 2172 MiB/s", "Total 2172 MiB/s"]);
        let middle = shown("anf-regular-64k-seq-uncached", mix(64, Pattern::Sequential, 500));
        assert_eq!(middle, ["Total 3600 MiB/s"], "how it is shared, no page says");
        let middle = shown("anf-regular-256k-seq-uncached", mix(256, Pattern::Sequential, 500));
        assert_eq!(middle, ["Total > 3500 MiB/s"], "more than that, and no page says how much");
        let tier = |kib, pattern, reads| shown("filestore-high-scale-60", mix(kib, pattern, reads));
        assert_eq!(tier(4, Pattern::Random, 1000), ["Read 90000 IOPS"]);
        assert_eq!(tier(1024, Pattern::Sequential, 0), ["Write 660 MB/s"]);
        let gain = |pattern, kib, reads| shown("anf-large-scaleup-gain", mix(kib, pattern, reads)).join(", ");
        assert_eq!(gain(Pattern::Random, 8, 0), "Write 7.20 ×");
        assert_eq!(gain(Pattern::Sequential, 256, 1000), "Read 10 ×");
        let eda: Vec<String> =
            published("anf-spec-eda-large").figures().iter().map(Figure::to_string).collect();
        assert_eq!(eda, ["652260 IOPS", "10030 MiB/s"]);
        let sets: Vec<String> = published("eda-anf-17280").figures().iter().map(Figure::to_string).collect();
        assert_eq!(sets, ["17280 job sets", "0.60 ms"]);
    }

    #[test]
    fn unpublished_mix_has_no_figure() {
        for absent in [
            mix(64, Pattern::Sequential, 900),
            mix(128, Pattern::Sequential, 1000),
            mix(64, Pattern::Random, 1000),
        ] {
            assert_eq!(published("gcnv-extreme-nfs3-64k-seq").at(absent).count(), 0, "{absent:?}");
        }
        assert_eq!(published("gcnv-large-eda").at(mix(8, Pattern::Random, 1000)).count(), 0);
    }

    #[test]
    fn filestore_rows_match_levels() {
        let pool = Pool::new(Level::FilestoreHighScaleSsd2021, Bytes::tb(60));
        let limits = pool.volume_limits(&Volume::new(Bytes::tb(60))).unwrap();
        let row = |kib, pattern, reads| {
            published("filestore-high-scale-60").at(mix(kib, pattern, reads)).next().unwrap().hundredths / 100
        };
        assert_eq!(limits.total.read_iops, Some(Iops(row(4, Pattern::Random, 1000))));
        assert_eq!(limits.total.write_iops, Some(Iops(row(4, Pattern::Random, 0))));
        let write = BytesPerSecond::mb(row(1024, Pattern::Sequential, 0));
        assert_eq!(limits.total.write, Some(write));
    }

    #[test]
    fn conflicts_name_existing_records() {
        let mut names: Vec<&str> = Conflict::all().map(|one| one.name).collect();
        assert_eq!(names.len(), 33);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 33, "each has a name of its own");
        for conflict in Conflict::all() {
            assert!(!conflict.pages.is_empty(), "{} is shown nowhere", conflict.name);
            for id in conflict.of {
                assert_eq!(published(id).conflicts().filter(|one| *one == conflict.text).count(), 1, "{id}");
            }
        }
        assert_eq!(published("anf-large-8k-rand").conflicts().count(), 0);
    }
}
