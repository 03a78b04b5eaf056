//! Scenarios, results and reports. This crate generates no load.
//!
//! - [`scenario`]: measurements to make, by name or as a file.
//! - [`result`]: the results of a run.
//! - [`curve`]: the load curve of job sets.
//! - [`compare`]: two runs, cell by cell.
//! - [`document`]: reports for people and other programs.
//! - [`units`]: sizes, counts and durations for people.
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
