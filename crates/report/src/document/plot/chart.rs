//! Plots as values.

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// How to read it, or a figure that sums it up; may be empty.
    pub note: String,
    /// What is drawn.
    pub chart: Chart,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Groups of bars.
    Bars(Bars),
    /// Lines over a common axis.
    Lines(Lines),
    /// A map of cells.
    Heatmap(Heatmap),
}

/// Groups of bars, each bar a stack of parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The unit of all values.
    pub unit: String,
    /// The groups' names.
    pub groups: Vec<String>,
    /// The bars: each group has one of each.
    pub stacks: Vec<Stack>,
    /// Whether each bar's total is written above it.
    pub totals: bool,
    /// Values that matter, with their names.
    pub levels: Vec<(f64, String)>,
}

/// A bar in every group.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// From a page: drawn hollow.
    pub published: bool,
    /// Its parts, from the bottom.
    pub parts: Vec<Part>,
}

/// A part of the bars of a [`Stack`].
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// For the legend; parts of one name have one entry, and those without none.
    pub name: String,
    /// Its color.
    pub color: usize,
    /// Its value in each group.
    pub values: Vec<Option<f64>>,
}

/// Lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// What goes to the right.
    pub x: Axis,
    /// What goes up.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
    /// Values of `y` that matter, with their names.
    pub levels: Vec<(f64, String)>,
    /// Values of `x` that matter, with their names.
    pub uprights: Vec<(f64, String)>,
    /// Between what lines may really lie.
    pub areas: Vec<Area>,
    /// Points that are of no line.
    pub marks: Vec<Mark>,
    /// Lines were computed at any number of points: none of these has a mark.
    pub smooth: bool,
}

/// What lies between two lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// For the legend.
    pub name: String,
    /// Its color.
    pub color: usize,
    /// `x`, and from where to where it goes up; ascending in `x`.
    pub points: Vec<(f64, f64, f64)>,
}

/// A point for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// For the legend; marks of one name have one entry.
    pub name: String,
    /// Its color and its form.
    pub color: usize,
    /// Drawn hollow.
    pub hollow: bool,
    /// Where it is.
    pub at: (f64, f64),
    /// How far an upright bar goes from there.
    pub up_to: Option<f64>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it is, with the unit.
    pub label: String,
    /// Equal factors are equally far apart.
    pub logarithmic: bool,
    /// Where it has ticks, and what they say; round values if empty.
    pub ticks: Vec<(f64, String)>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// For the legend; a line that goes on after a gap has none.
    pub name: String,
    /// Its color and the form of its marks.
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
    /// Each row's name, and what is at each column.
    pub rows: Vec<(String, Vec<Spot>)>,
}

/// What a [`Heatmap`] has at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spot {
    /// A figure.
    Value(f64),
    /// It was measured, without a result.
    NoResult,
    /// It was not measured.
    NotMeasured,
}

/// Colors that the style sheet has; more of them begin anew.
pub const COLORS: usize = 8;

impl Axis {
    /// An axis with round ticks.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// The same, logarithmic.
    pub(crate) fn logarithmic(label: impl Into<String>) -> Self {
        Self { logarithmic: true, ..Self::new(label) }
    }
}
