//! What is measured, what was found, and how it is shown. Nothing here makes load.
//!
//! - [`scenario`]: what is to be measured, by name or as a file.
//! - [`result`]: what a run found.
//! - [`curve`]: the load curve of job sets.
//! - [`compare`]: two runs, cell by cell.
//! - [`document`]: what a run found, for people and other programs.
//! - [`units`]: sizes, counts and durations as people write them.
//!
//! Layers, top down: `compare`, `document`, `result`, `scenario`.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod compare;
pub mod curve;
pub mod document;
pub mod result;
pub mod scenario;
pub mod units;
