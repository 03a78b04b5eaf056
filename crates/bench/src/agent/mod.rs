//! Engines on other machines.
//!
//! Each machine of the load runs an agent ([`serve`]). The coordinator has a [`Remote`] for each, an
//! [`Engine`](crate::engine::Engine) like the one on its own machine. `docs/formats/agent.md` describes the protocol.
//!
//! A side that receives nothing for [`SILENCE_MAX`](limits::SILENCE_MAX) considers the other one lost. The agent then
//! ends its load, and the coordinator the run.

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
