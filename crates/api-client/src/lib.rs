//! The bodies of `/v1` and a client that sends them. No server: a program that uses this crate compiles neither `axum` nor
//! `control`.
//!
//! The crate imports `envelope` alone of the project's crates, whose catalog of levels decides which names of levels, profiles and
//! shapes a body admits. The server converts bodies from and to `control`'s types itself.
//!
//! Layers, top down: `client`, `model`, `samples`, `json`, `path`, `bounds`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod bounds;
mod client;
pub mod json;
pub mod model;
mod path;
mod samples;

pub use client::{CertificateFault, ChangeOptions, Client, Created, Error, Result, Tagged, Target};
pub use path::encoded;
pub use samples::{Sample, SampleError, Samples};

/// The media type of JSON.
pub const JSON: &str = "application/json";
/// The media type of a merge patch (RFC 7396).
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// The file in the service's data directory with the first token, readable by the owner only.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";
