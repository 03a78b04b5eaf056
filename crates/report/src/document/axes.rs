//! The axes along which the points of a series differ, and the resulting tables.

use crate::result::Cell;
use crate::scenario::{Depth, MetadataOperation, Pattern, Point, Series, Work};
use crate::units::show_size;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Block,
    Mix,
    Clients,
    Connections,
    Depth,
    Transfer,
    AttributeCache,
    Places,
    Operation,
    Directories,
    Protocol,
    JobSets,
}

pub(crate) const AXES: [Axis; 12] = [
    Axis::Block,
    Axis::Mix,
    Axis::Clients,
    Axis::Connections,
    Axis::Depth,
    Axis::Transfer,
    Axis::AttributeCache,
    Axis::Places,
    Axis::Operation,
    Axis::Directories,
    Axis::Protocol,
    Axis::JobSets,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Iops,
    /// 2^20 bytes a second.
    Mib,
}

pub(super) struct Group<'a> {
    pub(super) name: String,
    pub(super) cells: Vec<&'a Cell>,
}

impl Axis {
    pub(crate) fn varying(series: &Series, cells: &[&Cell]) -> Vec<Self> {
        let differs = |axis: &&Self| {
            let first = cells.first().map(|cell| axis.key(&cell.point));
            cells.iter().any(|cell| Some(axis.key(&cell.point)) != first)
        };
        // A searched number of calls in flight is a result.
        let is_result = |axis: &&Self| **axis == Self::Depth && matches!(series.depths, Depth::Search(_));
        AXES.iter().filter(differs).filter(|axis| !is_result(axis)).copied().collect()
    }

    /// Equal keys mean equal values.
    pub(crate) fn key(self, point: &Point) -> u64 {
        let whole = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        match self {
            Self::Block => point.block,
            Self::Mix => point.read_percent.into(),
            Self::Clients => whole(point.clients),
            Self::Connections => whole(point.connections),
            Self::Depth => whole(point.depth),
            Self::Transfer => point.transfer.unwrap_or(0),
            Self::AttributeCache => point.attribute_cache.map_or(0, |cached| 1 + u64::from(cached)),
            Self::Places => point.same_places.map_or(0, |same| 1 + u64::from(same)),
            Self::Operation => point.operation.map_or(0, |operation| 1 + operation as u64),
            Self::Directories => whole(point.directories.unwrap_or(1)),
            Self::Protocol => point.protocol.map_or(0, |protocol| 1 + protocol as u64),
            Self::JobSets => point.job_sets.map_or(0, u64::from),
        }
    }

    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Block => "Block",
            Self::Mix => "Read/write %",
            Self::Clients => "Clients",
            Self::Connections => "Connections of each client",
            Self::Depth => "Calls in flight of each job",
            Self::Transfer => "Largest transfer",
            Self::AttributeCache => "Attributes cached",
            Self::Places => "randrepeat",
            Self::Operation => "Operation",
            Self::Directories => "Directories",
            Self::Protocol => "Protocol",
            Self::JobSets => "Job sets",
        }
    }

    pub(super) fn value(self, point: &Point) -> String {
        match self {
            Self::Block => show_size(point.block),
            Self::Mix => format!("{}/{}", point.read_percent, 100u8.saturating_sub(point.read_percent)),
            Self::Transfer => point.transfer.map_or_else(|| "as the block".to_owned(), show_size),
            Self::AttributeCache if point.attribute_cache.unwrap_or(false) => "yes".to_owned(),
            Self::AttributeCache => "no".to_owned(),
            Self::Places => u8::from(point.same_places.unwrap_or(false)).to_string(),
            Self::Operation => point.operation.map_or("", MetadataOperation::words).to_owned(),
            Self::Protocol => point.protocol.map_or_else(String::new, |protocol| protocol.to_string()),
            Self::Clients | Self::Connections | Self::Depth | Self::Directories | Self::JobSets => {
                self.key(point).to_string()
            }
        }
    }

    pub(crate) fn words(self, point: &Point) -> String {
        let value = self.value(point);
        let one = self.key(point) == 1;
        match self {
            Self::Block => value,
            Self::Mix => format!("{value} % read/write"),
            Self::Clients => format!("{value} client{}", if one { "" } else { "s" }),
            Self::Connections => format!("{value} connection{}", if one { "" } else { "s" }),
            Self::Depth => format!("{value} in flight a job"),
            Self::Transfer => format!("transfers {value}"),
            Self::AttributeCache if value == "yes" => "attributes cached".to_owned(),
            Self::AttributeCache => "attributes not cached".to_owned(),
            Self::Places => format!("randrepeat={value}"),
            Self::Operation | Self::Protocol => value,
            Self::Directories => format!("{value} director{}", if one { "y" } else { "ies" }),
            Self::JobSets => format!("{value} job set{}", if one { "" } else { "s" }),
        }
    }
}

pub(crate) fn name(point: &Point, axes: &[Axis]) -> String {
    axes.iter().map(|axis| axis.words(point)).collect::<Vec<_>>().join(", ")
}

pub(super) fn alone(point: &Point) -> Axis {
    match point {
        Point { job_sets: Some(_), .. } => Axis::JobSets,
        Point { operation: Some(_), .. } => Axis::Operation,
        Point { attribute_cache: Some(_), .. } => Axis::Block,
        _ => Axis::Mix,
    }
}

pub(super) fn label(point: &Point, axes: &[Axis]) -> String {
    if axes.is_empty() { alone(point).words(point) } else { name(point, axes) }
}

/// Cells of a group are equal along `axes`.
pub(super) fn groups<'a>(cells: &[&'a Cell], axes: &[Axis]) -> Vec<Group<'a>> {
    let keys = |cell: &Cell| axes.iter().map(|axis| axis.key(&cell.point)).collect::<Vec<_>>();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for &cell in cells {
        match groups.iter_mut().find(|group| keys(group.cells[0]) == keys(cell)) {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group { name: name(&cell.point, axes), cells: vec![cell] }),
        }
    }
    groups
}

/// `None` if the points are rows.
pub(super) fn columns(series: &Series, varying: &[Axis]) -> Option<Axis> {
    if matches!(series.work, Work::EdaBlend | Work::Metadata) {
        return None;
    }
    let heads = [Axis::Connections, Axis::Mix, Axis::Clients];
    let axis = heads.into_iter().find(|axis| varying.contains(axis));
    // Even a single point is a column of the page's table.
    axis.or_else(|| (varying.is_empty() && series.work == Work::Transfers).then_some(Axis::Mix))
}

impl Form {
    /// Follows the pages: operations for small random blocks, data otherwise.
    pub(super) fn of(series: &Series, point: &Point) -> Self {
        let blocks = Self::of_blocks(point.block, series.pattern != Pattern::Sequential);
        if series.work == Work::Transfers { blocks } else { Self::Iops }
    }

    /// Operations for random blocks up to 16 KiB, data otherwise.
    pub(super) fn of_blocks(block: u64, random: bool) -> Self {
        if random && block <= 16 << 10 { Self::Iops } else { Self::Mib }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Mib => "MiB/s",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Iops => Self::Mib,
            Self::Mib => Self::Iops,
        }
    }

    pub(super) fn rate(self, cell: &Cell, direction: envelope::Direction) -> f64 {
        use envelope::Direction::{Read, Total, Write};
        let summary = &cell.summary;
        let spread = match (self, direction) {
            (Self::Iops, Read) => &summary.read_iops,
            (Self::Iops, Write) => &summary.write_iops,
            (Self::Iops, Total) => &summary.iops,
            (Self::Mib, Read) => &summary.read_mib_per_s,
            (Self::Mib, Write) => &summary.write_mib_per_s,
            (Self::Mib, Total) => &summary.mib_per_s,
        };
        spread.median
    }
}
