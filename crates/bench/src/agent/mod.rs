//! Engines on other machines.
//!
//! On each machine that makes load an agent is served ([`serve`]); the coordinator has a [`Remote`] for each,
//! which is an [`Engine`](crate::engine::Engine) like the one on its own machine. What they say to each other is
//! drawn in `docs/formats/agent.md`.
//!
//! Either side that hears nothing for [`SILENCE_MAX`](limits::SILENCE_MAX) takes the other one for lost. The
//! agent then ends its load, and the coordinator the run.

mod clock;
mod handshake;
mod limits;
mod link;
mod message;
mod remote;
mod server;
mod session;
mod timing;
mod token;
mod unauthenticated;
mod wire;
mod wrong_tokens;

pub use clock::{Now, wall_clock};
pub use limits::PORT;
pub use remote::{Remote, check_clock};
pub use server::{Agent, serve};
pub use session::MakeEngine;
pub use token::Token;
