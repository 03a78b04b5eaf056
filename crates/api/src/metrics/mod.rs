//! Metrics in Prometheus' text format, version 0.0.4.
//!
//! They are written by hand: every number is a counter or a state of another part of the process, so a registry that keeps them
//! again would only be a second place. Labels name volumes and pools, which an operator makes, never clients.

mod backups;
mod families;
mod family;
mod gather;
#[cfg(test)]
mod reference_tests;
mod snapshots;

pub(crate) use family::MEDIA;
pub(crate) use gather::gather;
