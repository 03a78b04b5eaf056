//! An HTTP server: TLS, bounds, bearer tokens, errors as problems (RFC 9457). It knows no resource and not `control`: an
//! interface hands it a list of [`Operation`]s and an [`Authority`] that knows the tokens.
//!
//! One thread serves all sockets. Operations may wait for a lock or a disk: they run on a few threads of their own, apart
//! from those of the data plane.
//!
//! The crate imports `vfs` alone of the project's crates, for the locks in `sync` and the client networks in `bounds`.
//!
//! Layers, top down: `server`, `dispatch`, `auth`, `reply`, `problem`, `connections`, `tls`, `limits`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod auth;
mod connections;
mod dispatch;
pub mod limits;
mod problem;
mod reply;
mod server;
mod tls;

pub use auth::Authority;
pub use dispatch::{Operation, Request};
pub use problem::{PROBLEM, Problem, VersionMismatch};
pub use reply::{Answer, answer};
pub use server::{Server, Settings};
pub use tls::Tls;
