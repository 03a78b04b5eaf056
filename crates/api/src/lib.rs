//! HTTP and JSON: the native REST interface, its client, metrics. No other crate of ours knows either.
//!
//! [`Server`] serves what a `control::Service` manages, as [`model`] writes it down and `/openapi.json` describes it;
//! [`client::Client`] asks it. An operation is declared once, in `routes`: what serves it and what describes it are the same
//! value. Everything that may wait for a lock or a disk is done on a few threads of the interface's own.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod auth;
pub mod client;
mod connections;
mod core;
mod dispatch;
mod endpoint;
mod json;
pub mod limits;
mod metrics;
pub mod model;
mod openapi;
mod plane;
mod problem;
mod process;
mod routes;
mod server;
mod tls;

pub use auth::{ADMIN_TOKEN_FILE, bootstrap};
pub use openapi::document as openapi;
pub use plane::{
    Connected, MountTarget, Nfs4State, NfsCalls, NfsService, Plane, PlaneStats, SmbService, Users,
};
pub use server::{Dependencies, Server, Settings};
pub use tls::Tls;
