//! The native REST interface, and metrics.
//!
//! [`start`] serves what a `control::Service` manages, in the bodies of `api_client::model`, as `/openapi.json` describes
//! it. An operation is declared once, in `routes`: the same value serves and describes it. Everything that may wait for a
//! lock or a disk runs on a few threads of the interface's own.
//!
//! Layers, top down: `server`, `auth`, `openapi`, `routes`, `endpoint`, `metrics`, `core`, `convert`, `problem`, `plane`,
//! `process`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod auth;
pub mod convert;
mod core;
mod endpoint;
mod metrics;
mod openapi;
#[cfg(test)]
mod page_tests;
mod plane;
mod problem;
mod process;
mod routes;
mod server;

pub use auth::bootstrap;
pub use openapi::document as openapi;
pub use plane::{
    ConnectedClient, DataPlane, DataPlaneStats, EndpointPlacement, MountTarget, Nfs4State, NfsCalls,
    NfsService, SmbService, VolumeConnections,
};
pub use server::{Dependencies, Settings, start};

pub use http_server::{Server, Tls, limits};
