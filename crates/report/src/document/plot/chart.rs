//! Plots as values.

#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    pub title: String,
    /// A reading aid, or a figure that sums the plot up. May be empty.
    pub note: String,
    pub chart: Chart,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    Bars(Bars),
    Lines(Lines),
    Heatmap(Heatmap),
}

/// Groups of bars. Each bar is a stack of parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    pub unit: String,
    pub groups: Vec<String>,
    /// Every group has one bar of each stack.
    pub stacks: Vec<Stack>,
    /// Whether each bar has its total above it.
    pub totals: bool,
    pub ceilings: Vec<Ceiling>,
}

/// A limit over the groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    pub name: String,
    /// One for each group.
    pub values: Vec<Option<f64>>,
}

/// One bar in every group.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// From a page: drawn hollow.
    pub published: bool,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// For the legend. Parts of one name share an entry; unnamed parts have none.
    pub name: String,
    pub color: usize,
    pub values: Vec<Option<f64>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
    pub levels: Vec<(f64, String)>,
    pub uprights: Vec<(f64, String)>,
    pub areas: Vec<Area>,
    pub marks: Vec<Mark>,
    /// Whether lines are computed at many points: then no point has a mark.
    pub smooth: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    pub name: String,
    pub color: usize,
    /// `x`, lower and upper end; ascending in `x`.
    pub points: Vec<(f64, f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// For the legend. Marks of one name share an entry.
    pub name: String,
    pub color: usize,
    pub hollow: bool,
    pub at: (f64, f64),
    /// The end of an upright bar that starts at the mark.
    pub up_to: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    pub label: String,
    /// Equal factors have equal distances.
    pub logarithmic: bool,
    /// Positions and labels of ticks. Empty means round values.
    pub ticks: Vec<(f64, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// For the legend. A line that continues after a gap has none.
    pub name: String,
    pub color: usize,
    /// Not measured: drawn dashed, without marks.
    pub ideal: bool,
    /// Ascending in x.
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heatmap {
    pub columns: Vec<String>,
    pub rows: Vec<(String, Vec<Spot>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spot {
    Value(f64),
    /// Measured without a result.
    NoResult,
    NotMeasured,
}

/// Colors of the style sheet; higher indices repeat them.
pub const COLORS: usize = 8;

impl Axis {
    /// A linear axis with round ticks.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    pub(crate) fn logarithmic(label: impl Into<String>) -> Self {
        Self { logarithmic: true, ..Self::new(label) }
    }
}
