//! Plots as values.

#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    pub title: String,
    /// A reading aid, or a figure that sums it up; may be empty.
    pub note: String,
    pub chart: Chart,
}

/// The contents of a plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    Bars(Bars),
    /// Lines over a common axis.
    Lines(Lines),
    Heatmap(Heatmap),
}

/// Groups of bars, each bar a stack of parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The unit of all values.
    pub unit: String,
    pub groups: Vec<String>,
    /// The bars: each group has one of each.
    pub stacks: Vec<Stack>,
    /// Whether each bar's total is written above it.
    pub totals: bool,
    /// Reference values, with their names.
    pub levels: Vec<(f64, String)>,
}

/// A bar in every group.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// From a page: drawn hollow.
    pub published: bool,
    /// The parts, from the bottom.
    pub parts: Vec<Part>,
}

/// A part of the bars of a [`Stack`].
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// For the legend; parts of one name share an entry, and unnamed parts have none.
    pub name: String,
    pub color: usize,
    /// The value in each group.
    pub values: Vec<Option<f64>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    pub lines: Vec<Line>,
    /// Reference values of `y`, with their names.
    pub levels: Vec<(f64, String)>,
    /// Reference values of `x`, with their names.
    pub uprights: Vec<(f64, String)>,
    /// Uncertainty of lines.
    pub areas: Vec<Area>,
    /// Single points.
    pub marks: Vec<Mark>,
    /// The lines are computed at many points: no point has a mark.
    pub smooth: bool,
}

/// The area between two lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// For the legend.
    pub name: String,
    pub color: usize,
    /// `x`, and the lower and upper end; ascending in `x`.
    pub points: Vec<(f64, f64, f64)>,
}

/// A single point.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// For the legend; marks of one name share an entry.
    pub name: String,
    /// Determines color and form.
    pub color: usize,
    /// Drawn hollow.
    pub hollow: bool,
    pub at: (f64, f64),
    /// The end of an upright bar that starts there.
    pub up_to: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Name with the unit.
    pub label: String,
    /// Equal factors have equal distances.
    pub logarithmic: bool,
    /// Positions and labels of ticks; round values if empty.
    pub ticks: Vec<(f64, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// For the legend; a line that continues after a gap has none.
    pub name: String,
    /// Determines the color and the form of the marks.
    pub color: usize,
    /// Not measured: drawn dashed, without marks.
    pub ideal: bool,
    /// Ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// A map of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heatmap {
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Each row's name, with a spot for each column.
    pub rows: Vec<(String, Vec<Spot>)>,
}

/// A cell of a [`Heatmap`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spot {
    /// A figure.
    Value(f64),
    /// Measured without a result.
    NoResult,
    NotMeasured,
}

/// Number of colors of the style sheet; higher numbers repeat them.
pub const COLORS: usize = 8;

impl Axis {
    /// A linear axis with round ticks.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// A logarithmic axis with round ticks.
    pub(crate) fn logarithmic(label: impl Into<String>) -> Self {
        Self { logarithmic: true, ..Self::new(label) }
    }
}
