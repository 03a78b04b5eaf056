//! The version, the times and the bounds of the agents' protocol.

use std::time::Duration;

/// Version of what coordinator and agents say to each other: both sides must have the same.
pub(super) const VERSION: u32 = 1;
/// Where an agent listens if nobody says otherwise.
pub const PORT: u16 = 2051;
/// Nothing was heard for so long: the other side is lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How often the coordinator asks whether the agent is there, which it answers.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// How often an agent tells what it has done.
pub(super) const LIVE_EVERY: Duration = Duration::from_millis(250);
/// How long before it begins a window must be known to the agent, so that its threads see it in time.
pub(super) const WINDOW_AHEAD: Duration = Duration::from_millis(100);
/// How far ahead a load may be planned.
pub(super) const BEGIN_AHEAD: Duration = Duration::from_secs(3600);
/// How long after the window's end an agent may take for its result: calls are still answered, and it is
/// long.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(120);
/// An agent that is silent for so long, or whose answers take so long, is doubtful.
pub(super) const SLOW: Duration = Duration::from_millis(1500);
/// How far begin, end and window of an agent may be from what was planned, and how wrong its clock may be for
/// latencies to mean something over all clients.
pub(super) const CLOCK_ERROR_MAX: Duration = Duration::from_millis(1);
