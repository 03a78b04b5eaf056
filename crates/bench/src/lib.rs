//! Load generators, and running scenarios with them.
//!
//! - [`load`]: drives an NFS server with many calls in flight and measures what comes back.
//! - [`client`]: a small synchronous NFS client, for setting up what a load needs and for tests.
//! - `driver`: the one loop that drives connections, whatever the load.
//! - [`engine`]: the interface of everything that makes load.
//! - [`agent`]: engines on other machines.
//! - [`machine`]: what makes the load, and how busy it is.
//! - [`fio`]: fio's command lines and job files, what they measure, and running them.
//! - [`observer`]: the server's own view, where it can be asked.
//! - [`run`]: running a scenario on one or several targets.
//! - [`eda`]: the mix of an EDA design flow on a schedule, and the search for its load curve.
//! - [`workload`]: the load that was found somewhere, for sizing.
//! - [`demo`]: several loads in a row, as the demo runs them.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod agent;
mod checksum;
pub mod client;
pub mod demo;
mod driver;
pub mod eda;
pub mod engine;
mod error;
pub mod fio;
pub mod load;
pub mod machine;
mod mountstats;
pub mod observer;
mod pattern;
mod private_dir;
pub mod run;
mod smb;
mod target;
pub mod workload;

pub use error::Error;
pub use target::{Protection, Target, Version};
