//! Scenarios, by name or as a TOML file.
//!
//! A [`Scenario`] is a list of [`Series`]; a series is one table or plot of a page: the [`Point`]s of all combinations
//! of its lists.

mod catalog;
mod check;
pub mod limits;
mod pairs;
mod protocol;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::show_size;
use envelope::parse_size;

pub use catalog::{all, by_name};
pub use pairs::{Claim, Compared, Pair};
pub use protocol::Protocol;

/// A set of related measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name on the command line.
    pub name: String,
    /// One line.
    pub title: String,
    /// Description of the measurement, for readers of the report.
    #[serde(default)]
    pub about: String,
    /// The page whose form it has.
    #[serde(default)]
    pub page: Option<String>,
    /// Tables and plots.
    pub series: Vec<Series>,
    /// Comparisons between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
}

/// The work of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Reads and writes of blocks in files that exist.
    #[default]
    Transfers,
    /// Opening a small file and reading it whole: GETATTR, unless attributes are cached, and then READ.
    OpenRead,
    /// The mix of an EDA design flow, by job sets on a schedule.
    EdaBlend,
    /// Operations on names, without data.
    Metadata,
}

/// An operation on names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetadataOperation {
    /// Looking up one of many names; the reply has the attributes.
    Stat,
    /// Creating an empty file and removing it again, alternately; both are counted.
    Create,
    /// Renaming a file into the next directory.
    Rename,
}

/// The order of the blocks in a job's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// Every block equally likely, each time.
    Random,
    /// In random order, each block once before any repeats.
    Shuffled,
}

/// The intended state of the server's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Not controlled; the report shows the measured hit ratio.
    #[default]
    Any,
    /// Cached: the files are read once before measuring, and the same places are used again and again.
    Warm,
    /// Uncached as far as possible: no place is used twice in a run, each repetition has its own.
    Cold,
}

/// Required stability of a WRITE reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stability {
    /// None; a COMMIT ends the load.
    Unstable,
    DataSync,
    /// Data and attributes.
    FileSync,
}

/// Calls in flight of each job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "is not allowed; allowed: numbers, like [1, 16], or \"search\"")]
pub enum Depth {
    /// These numbers, each a point.
    Fixed(Vec<usize>),
    /// `"search"`: doubled until the gain is below 3 % twice; the smallest number that reaches 97 % of the peak is
    /// measured.
    Search(Search),
}

/// The word `search`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// See [`Depth::Search`].
    Search,
}

/// One table or plot. Every combination of its lists is a point, in the order of the lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Series {
    /// The heading.
    pub name: String,
    pub work: Work,
    /// Runs only on request, by its name.
    #[serde(skip_serializing_if = "is_false")]
    pub on_request: bool,
    /// Bytes of an application's operation. In TOML also `"64k"`.
    #[serde(with = "sizes")]
    pub blocks: Vec<u64>,
    pub pattern: Pattern,
    /// Shares of reads in percent.
    pub reads: Vec<u8>,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Jobs of each client, each with its own file.
    pub jobs: usize,
    /// Connections of each client (`nconnect`).
    pub connections: Vec<usize>,
    /// Calls in flight of each job.
    pub depths: Depth,
    /// Operations a second of all clients together, on a schedule; unlimited without it. With a rate, `depths` limits
    /// the calls in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Figures that each point of the series must reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Targets>,
    /// Maximum READ and WRITE on the wire (`rsize`, `wsize`); empty: the size of the operation. For `eda-blend`, the
    /// size that a client's page cache merges sequential operations to.
    #[serde(with = "sizes", skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<u64>,
    /// Whether attributes are cached (`nocto,actimeo=600`), for work that reads them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attribute_caches: Vec<bool>,
    /// Whether each repetition uses the same places (fio's `randrepeat=1`) or new ones; empty: determined by `cache`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_places: Vec<bool>,
    /// Operations on names, for [`Work::Metadata`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<MetadataOperation>,
    /// Numbers of directories, for [`Work::Metadata`]; empty: one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<usize>,
    /// Protocols; empty: that of the target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<Protocol>,
    /// Required stability of WRITE replies.
    pub stability: Stability,
    /// The intended state of the server's memory.
    pub cache: Cache,
    /// Bytes of all files together; reduced to the capacity of the target.
    #[serde(with = "size")]
    pub working_set: u64,
    /// Numbers of job sets (`eda-blend`); empty: ten equal steps up to the server's maximum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub job_sets: Vec<u32>,
    /// Published curves and figures to show beside it, by their names in `envelope`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<String>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            name: String::new(),
            work: Work::Transfers,
            on_request: false,
            blocks: vec![8 << 10],
            pattern: Pattern::Random,
            reads: vec![100],
            clients: vec![1],
            jobs: 8,
            connections: vec![1],
            depths: Depth::Search(Search::Search),
            rate: None,
            targets: None,
            transfers: Vec::new(),
            attribute_caches: Vec::new(),
            same_places: Vec::new(),
            operations: Vec::new(),
            directories: Vec::new(),
            protocols: Vec::new(),
            stability: Stability::Unstable,
            cache: Cache::Any,
            working_set: 1 << 40,
            job_sets: Vec::new(),
            published: Vec::new(),
        }
    }
}

/// Figures that a point must reach, all of them. Rates and times are those of the whole point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Targets {
    /// Operations a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// Bytes a second. In TOML also `"120MiB"`.
    #[serde(deserialize_with = "size::optional", skip_serializing_if = "Option::is_none")]
    pub throughput: Option<u64>,
    /// Mean of the response time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// 99th percentile of the response time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_ms: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes of an operation.
    pub block: u64,
    /// Share of reads in percent.
    pub read_percent: u8,
    pub clients: usize,
    /// Connections of each client.
    pub connections: usize,
    /// Calls in flight of each job; the result of the search if it was searched for.
    pub depth: usize,
    /// Maximum READ and WRITE on the wire, if smaller than the block.
    pub transfer: Option<u64>,
    /// Whether attributes are cached, for work that reads them.
    pub attribute_cache: Option<bool>,
    /// Whether each repetition uses the same places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_places: Option<bool>,
    /// Operation on names, for [`Work::Metadata`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<MetadataOperation>,
    /// Number of directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directories: Option<usize>,
    /// Protocol, if the series lists any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Job sets, for [`Work::EdaBlend`].
    pub job_sets: Option<u32>,
}

/// The thoroughness of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Minutes; the report is marked as such.
    Quick,
    /// Warm-up until steady, three repetitions of a minute.
    #[default]
    Standard,
    /// Five repetitions of five minutes.
    Full,
}

impl Work {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::OpenRead => "open-read",
            Self::EdaBlend => "eda-blend",
            Self::Metadata => "metadata",
        }
    }
}

impl MetadataOperation {
    pub fn words(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Create => "create and unlink",
            Self::Rename => "rename",
        }
    }
}

impl Scenario {
    pub fn has_targets(&self) -> bool {
        self.series.iter().any(|series| series.targets.is_some())
    }

    /// Drops pairs unless all their series are kept.
    pub fn keep(&mut self, wanted: impl Fn(&Series) -> bool) {
        self.series.retain(wanted);
        let Self { series, pairs, .. } = self;
        pairs.retain(|pair| pair.series.iter().all(|name| series.iter().any(|one| one.name == *name)));
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scenario: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        scenario.check().map(|()| scenario)
    }
}

impl Series {
    /// In the order of the lists: block, mix, clients, connections, depth, transfer, attributes, places,
    /// operation, directories, protocol, job sets.
    pub fn points(&self) -> Vec<Point> {
        let depths = match &self.depths {
            Depth::Fixed(depths) => depths.clone(),
            Depth::Search(Search::Search) => vec![0],
        };
        let mut points = vec![Point::default()];
        expand(&mut points, &self.blocks, |point, block| point.block = block);
        expand(&mut points, &self.reads, |point, percent| point.read_percent = percent);
        expand(&mut points, &self.clients, |point, clients| point.clients = clients);
        expand(&mut points, &self.connections, |point, connections| point.connections = connections);
        expand(&mut points, &depths, |point, depth| point.depth = depth);
        expand(&mut points, &self.transfers, |point, transfer| point.transfer = Some(transfer));
        expand(&mut points, &self.attribute_caches, |point, cached| point.attribute_cache = Some(cached));
        expand(&mut points, &self.same_places, |point, same| point.same_places = Some(same));
        expand(&mut points, &self.operations, |point, operation| point.operation = Some(operation));
        expand(&mut points, &self.directories, |point, count| point.directories = Some(count));
        expand(&mut points, &self.protocols, |point, protocol| point.protocol = Some(protocol));
        expand(&mut points, &self.job_sets, |point, sets| point.job_sets = Some(sets));
        points
    }
}

impl Series {
    /// Whether the run determines the points: the load curve of job sets.
    pub fn is_curve(&self) -> bool {
        self.work == Work::EdaBlend && self.job_sets.is_empty()
    }

    /// Whether the run searches for the calls in flight.
    pub fn is_searched(&self) -> bool {
        self.work != Work::EdaBlend && matches!(self.depths, Depth::Search(_))
    }

    pub fn jobs_max(&self) -> usize {
        self.clients.iter().max().unwrap_or(&1) * self.jobs
    }

    /// The heading, and the point's values along the axes of this series.
    pub fn label(&self, point: &Point) -> String {
        let mut label = self.name.clone();
        let mut add = |varies: bool, text: String| {
            if varies {
                label.push_str(", ");
                label.push_str(&text);
            }
        };
        add(self.blocks.len() > 1, show_size(point.block));
        add(self.reads.len() > 1, format!("{} % reads", point.read_percent));
        add(self.clients.len() > 1, format!("{} clients", point.clients));
        add(self.connections.len() > 1, format!("{} connections", point.connections));
        add(
            matches!(&self.depths, Depth::Fixed(depths) if depths.len() > 1),
            format!("{} in flight", point.depth),
        );
        add(self.transfers.len() > 1, format!("transfers of {}", show_size(point.transfer.unwrap_or(0))));
        let cached =
            if point.attribute_cache == Some(true) { "attributes cached" } else { "attributes not cached" };
        add(self.attribute_caches.len() > 1, cached.to_owned());
        let places = if point.same_places == Some(true) { "same places" } else { "new places" };
        add(self.same_places.len() > 1, places.to_owned());
        add(self.operations.len() > 1, point.operation.map_or("", MetadataOperation::words).to_owned());
        add(self.directories.len() > 1, format!("{} directories", point.directories.unwrap_or(1)));
        add(self.protocols.len() > 1, point.protocol.map_or_else(String::new, |one| one.to_string()));
        add(point.job_sets.is_some(), format!("{} job sets", point.job_sets.unwrap_or(0)));
        label
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// No values leave the points unchanged.
fn expand<T: Copy>(points: &mut Vec<Point>, values: &[T], set: impl Fn(&mut Point, T)) {
    if !values.is_empty() {
        let with = |point: &Point| {
            let changed = |value: &T| {
                let mut point = point.clone();
                set(&mut point, *value);
                point
            };
            values.iter().map(changed).collect::<Vec<_>>()
        };
        *points = points.iter().flat_map(with).collect();
    }
}

/// A number of bytes, or a text like `64k`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "is not a size; allowed: a number of bytes, or a text like \"64k\"")]
enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes<E: serde::de::Error>(self) -> Result<u64, E> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Text(text) => parse_size(text.trim_end_matches("/s")).map_err(E::custom),
        }
    }
}

mod size {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(*bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        super::Size::deserialize(deserializer)?.bytes()
    }

    pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Option::<super::Size>::deserialize(deserializer)?.map(super::Size::bytes).transpose()
    }
}

mod sizes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Size;

    pub(super) fn serialize<S: Serializer>(sizes: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        sizes.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        Vec::<Size>::deserialize(deserializer)?.into_iter().map(Size::bytes).collect()
    }
}
