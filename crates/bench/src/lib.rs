//! Load generators, and running scenarios with them.
//!
//! Layers, top down: `demo`, `workload`, `run`, `agent`, `engine`, `eda`, `load`, `driver`, `job`, `observer`, `fio`,
//! `machine`, `mountstats`, `private_dir`, `checksum`, `pattern`, `error`.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod admission;
pub mod agent;
mod checksum;
pub mod demo;
mod driver;
pub mod eda;
pub mod engine;
mod error;
pub mod fio;
mod job;
pub mod load;
pub mod machine;
mod mountstats;
pub mod observer;
mod pattern;
mod private_dir;
pub mod run;
pub mod workload;

pub use error::Error;
pub use wire_client::{Protection, Target, Version};
