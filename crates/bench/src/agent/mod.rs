//! Engines on other machines.
//!
//! On each machine that makes load an agent is served ([`serve`]); the coordinator has a [`Remote`] for each, which is an
//! [`Engine`](crate::engine::Engine) like the one on its own machine. What they say to each other is drawn in
//! `docs/formats/agent.md`.
//!
//! Either side that hears nothing for [`SILENCE_MAX`] takes the other one for lost. The agent then ends its load, and the
//! coordinator the run.

mod clock;
mod handshake;
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

use std::time::Duration;

pub use clock::{Now, wall_clock};
pub use remote::{Remote, check_clock};
pub use server::{Agent, MakeEngine, serve};
pub use token::Token;

/// Version of what coordinator and agents say to each other: both sides must have the same.
pub const VERSION: u32 = 1;
/// Where an agent listens if nobody says otherwise.
pub const PORT: u16 = 2051;
/// Nothing was heard for so long: the other side is lost.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How often the coordinator asks whether the agent is there, which it answers.
const BEAT: Duration = Duration::from_secs(1);
/// How often an agent tells what it has done.
const LIVE_EVERY: Duration = Duration::from_millis(250);
/// How long before it begins a window must be known to the agent, so that its threads see it in time.
const WINDOW_AHEAD: Duration = Duration::from_millis(100);
/// How far ahead a load may be planned.
const BEGIN_AHEAD: Duration = Duration::from_secs(3600);
/// How long after the window's end an agent may take for its result: calls are still answered, and it is long.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// An agent that is silent for so long, or whose answers take so long, is doubtful.
const SLOW: Duration = Duration::from_millis(1500);
/// How far begin, end and window of an agent may be from what was planned, and how wrong its clock may be for latencies to
/// mean something over all clients.
const CLOCK_ERROR_MAX: Duration = Duration::from_millis(1);
