//! What is to be measured: scenarios, by name or as a TOML file.
//!
//! A [`Scenario`] is a row of [`Series`]; a series is one table or plot of a page: the [`Point`]s of all
//! combinations of its lists.

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

/// A set of measurements that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it measures and how, for whoever reads the report.
    #[serde(default)]
    pub about: String,
    /// The page it is in the form of.
    #[serde(default)]
    pub page: Option<String>,
    /// Its tables and plots.
    pub series: Vec<Series>,
    /// What of them is set side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
}

/// What runs in a series.
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

/// What is done to names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetadataOperation {
    /// Looking up one of many names; the reply has the attributes.
    Stat,
    /// Making an empty file and removing it again, in turn; both are counted.
    Create,
    /// Giving a file another name in the next directory.
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
    /// In random order, each block once before any comes again.
    Shuffled,
}

/// What is meant to be in the server's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Nobody cares; the report says what was found.
    #[default]
    Any,
    /// Everything: the files are read once before measuring, and the same places are used again and again.
    Warm,
    /// As little as possible: no place is used twice in a run, each repetition has its own.
    Cold,
}

/// How safe a WRITE must be when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stability {
    /// Not at all; a COMMIT ends the load.
    Unstable,
    /// The data.
    DataSync,
    /// Data and attributes.
    FileSync,
}

/// Calls in flight of each job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Depth {
    /// These numbers, each a point.
    Fixed(Vec<usize>),
    /// `"search"`: doubled until the gain is below 3 % twice; the least that reaches 97 % of the peak is
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
    /// Its heading.
    pub name: String,
    /// What runs.
    pub work: Work,
    /// It runs only when it is asked for by its name.
    #[serde(skip_serializing_if = "is_false")]
    pub on_request: bool,
    /// Bytes of an application's operation. In TOML also `"64k"`.
    #[serde(with = "sizes")]
    pub blocks: Vec<u64>,
    /// The order of the blocks.
    pub pattern: Pattern,
    /// Shares of reads in percent.
    pub reads: Vec<u8>,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Jobs of each client, each with a file of its own.
    pub jobs: usize,
    /// Connections of each client (`nconnect`).
    pub connections: Vec<usize>,
    /// Calls in flight of each job.
    pub depths: Depth,
    /// Operations a second of all clients together, on a schedule; as many as possible without it. Where
    /// there is one, `depths` are the most that may be in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Largest READ and WRITE on the wire (`rsize`, `wsize`); empty: as large as the operation. For
    /// `eda-blend`, what a client's page cache makes of sequential operations.
    #[serde(with = "sizes", skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<u64>,
    /// Whether attributes are cached (`nocto,actimeo=600`), for work that asks for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attribute_caches: Vec<bool>,
    /// Whether each repetition comes to the same places (fio's `randrepeat=1`) or to new ones; empty: as
    /// `cache` wants it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_places: Vec<bool>,
    /// What is done to names, for [`Work::Metadata`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<MetadataOperation>,
    /// Over how many directories, for [`Work::Metadata`]; empty: one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<usize>,
    /// Over which protocols; empty: whatever the target speaks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<Protocol>,
    /// How safe writes are when they are answered.
    pub stability: Stability,
    /// What is meant to be in the server's memory.
    pub cache: Cache,
    /// Bytes of all files together; scaled down to what the target holds.
    #[serde(with = "size")]
    pub working_set: u64,
    /// Numbers of job sets (`eda-blend`); empty: ten equal steps up to what the server carries.
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

/// One point of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes of an operation.
    pub block: u64,
    /// Share of reads in percent.
    pub read_percent: u8,
    /// Clients.
    pub clients: usize,
    /// Connections of each client.
    pub connections: usize,
    /// Calls in flight of each job; what the search found, where it was searched for.
    pub depth: usize,
    /// Largest READ and WRITE on the wire, if smaller than the block.
    pub transfer: Option<u64>,
    /// Whether attributes are cached, for work that asks for them.
    pub attribute_cache: Option<bool>,
    /// Whether each repetition comes to the same places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_places: Option<bool>,
    /// What is done to names, for [`Work::Metadata`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<MetadataOperation>,
    /// In how many directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directories: Option<usize>,
    /// Over which protocol, where the series says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Job sets, for [`Work::EdaBlend`].
    pub job_sets: Option<u32>,
}

/// How thoroughly a scenario is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// In minutes, and said to be so.
    Quick,
    /// With warm-up until steady, three repetitions of a minute.
    #[default]
    Standard,
    /// Five repetitions of five minutes.
    Full,
}

impl Work {
    /// As it is written in scenarios.
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
    /// What is done, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Create => "create and unlink",
            Self::Rename => "rename",
        }
    }
}

impl Scenario {
    /// Keeps these series alone, and the pairs of which all series stay.
    pub fn keep(&mut self, wanted: impl Fn(&Series) -> bool) {
        self.series.retain(wanted);
        let Self { series, pairs, .. } = self;
        pairs.retain(|pair| pair.series.iter().all(|name| series.iter().any(|one| one.name == *name)));
    }
}

impl FromStr for Scenario {
    type Err = String;

    /// Reads TOML that says what can be run.
    fn from_str(text: &str) -> Result<Self, String> {
        let scenario: Self = toml::from_str(text).map_err(|wrong| wrong.to_string())?;
        scenario.check().map(|()| scenario)
    }
}

impl Series {
    /// The points, in the order of the lists: block, mix, clients, connections, depth, transfer, attributes,
    /// places, operation, directories, protocol, job sets.
    pub fn points(&self) -> Vec<Point> {
        let depths = match &self.depths {
            Depth::Fixed(depths) => depths.clone(),
            Depth::Search(Search::Search) => vec![0],
        };
        let mut points = vec![Point::default()];
        widen(&mut points, &self.blocks, |point, block| point.block = block);
        widen(&mut points, &self.reads, |point, percent| point.read_percent = percent);
        widen(&mut points, &self.clients, |point, clients| point.clients = clients);
        widen(&mut points, &self.connections, |point, connections| point.connections = connections);
        widen(&mut points, &depths, |point, depth| point.depth = depth);
        widen(&mut points, &self.transfers, |point, transfer| point.transfer = Some(transfer));
        widen(&mut points, &self.attribute_caches, |point, cached| point.attribute_cache = Some(cached));
        widen(&mut points, &self.same_places, |point, same| point.same_places = Some(same));
        widen(&mut points, &self.operations, |point, operation| point.operation = Some(operation));
        widen(&mut points, &self.directories, |point, count| point.directories = Some(count));
        widen(&mut points, &self.protocols, |point, protocol| point.protocol = Some(protocol));
        widen(&mut points, &self.job_sets, |point, sets| point.job_sets = Some(sets));
        points
    }
}

impl Series {
    /// Whether its points are found on the way: the load curve of job sets.
    pub fn is_curve(&self) -> bool {
        self.work == Work::EdaBlend && self.job_sets.is_empty()
    }

    /// Whether the calls in flight of its points are searched for.
    pub fn is_searched(&self) -> bool {
        self.work != Work::EdaBlend && matches!(self.depths, Depth::Search(_))
    }

    /// Most jobs of all clients together.
    pub fn jobs_max(&self) -> usize {
        self.clients.iter().max().unwrap_or(&1) * self.jobs
    }

    /// A point in words: its heading, and what differs between the points of this series.
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

/// Each point once for each value; as they are if there is none.
fn widen<T: Copy>(points: &mut Vec<Point>, values: &[T], set: impl Fn(&mut Point, T)) {
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

/// A number of bytes, or the same as people write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes<E: serde::de::Error>(self) -> Result<u64, E> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Text(text) => parse_size(&text).map_err(E::custom),
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
