//! The native REST interface, and metrics.
//!
//! [`Server`] serves what a `control::Service` manages, in the bodies of `api_client::model`, as `/openapi.json` describes
//! it. An operation is declared once, in `routes`: the same value serves and describes it. Everything that may wait for a
//! lock or a disk runs on a few threads of the interface's own.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod auth;
mod connections;
pub mod convert;
mod core;
mod dispatch;
mod endpoint;
pub mod limits;
mod metrics;
mod openapi;
mod plane;
mod problem;
mod process;
mod routes;
mod server;
mod tls;

pub use auth::bootstrap;
pub use openapi::document as openapi;
pub use plane::{
    Connected, MountTarget, Nfs4State, NfsCalls, NfsService, Plane, PlaneStats, SmbService, Users,
};
pub use server::{Dependencies, Server, Settings};
pub use tls::Tls;
