//! Load generators, scenarios and their results.
//!
//! - [`load`]: drives an NFSv3 server with many calls in flight and measures what comes back.
//! - [`client`]: a small synchronous NFSv3 client, for setting up what a load needs and for tests.
//! - [`scenario`]: several loads in a row, as the demo runs them.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod client;
mod error;
pub mod load;
pub mod pattern;
pub mod scenario;
mod target;
pub mod units;

pub use error::Error;
pub use target::Target;
