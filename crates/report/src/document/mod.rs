//! Reports: the results of a run, for people and for other programs.
//!
//! A [`Report`] is built once from a [`Run`](crate::result::Run): tables and plots as values. Each format shows the same values:
//! [`markdown()`], [`csv()`], [`html()`]. [`sizing`] is a page in the same style with the advice for a
//! workload. [`fio`] writes the output format of fio.

pub(crate) mod axes;
mod build;
mod cases;
mod ceilings;
mod cells;
mod columns;
mod content;
mod csv;
mod curve_pairs;
mod details;
mod eda;
mod facts;
mod figures;
mod files;
pub mod fio;
mod highlights;
mod html;
mod judged;
mod lead;
mod maps;
mod markdown;
mod metadata;
mod overlay;
pub mod page;
mod pairs;
pub mod plot;
mod plots;
mod points;
mod published;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod sizing;
pub mod table;
pub mod words;

pub use cases::cases;
pub use content::{Judged, Lead, Report, Section};
pub use csv::csv;
pub use details::Used;
pub use facts::Fact;
pub use files::{File, csv_files, svg_files};
pub use html::html;
pub use lead::{CountedBy, LIMIT_REACHED, limit_reached, limits_changed};
pub use markdown::markdown;
pub(crate) use markdown::table as markdown_table;
pub use overlay::{NamedRun, side_by_side};

#[cfg(test)]
mod tests;
