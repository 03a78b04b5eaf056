//! The version, the times and the bounds of the agents' protocol.

use std::time::Duration;

/// Version of what coordinator and agents say to each other: both sides must have the same.
pub(super) const VERSION: u32 = 1;
/// The default port of an agent.
pub const PORT: u16 = 2051;
/// Nothing was heard for so long: the other side is lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Interval at which the coordinator asks whether the agent is alive.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// Interval at which an agent reports its progress.
pub(super) const LIVE_EVERY: Duration = Duration::from_millis(250);
/// Time before a window by which the agent must know it, so that its threads see it.
pub(super) const WINDOW_AHEAD: Duration = Duration::from_millis(100);
/// The longest time ahead for which a load may be planned.
pub(super) const BEGIN_AHEAD: Duration = Duration::from_secs(3600);
/// Time after the window's end in which an agent must send its result: it waits for replies, and the result is long.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(120);
/// An agent that is silent for so long, or whose answers take so long, is doubtful.
pub(super) const SLOW: Duration = Duration::from_millis(1500);
/// The largest deviation of an agent's begin, end and window from the plan, and the largest clock error, for latencies
/// over all clients to be meaningful.
pub(super) const CLOCK_ERROR_MAX: Duration = Duration::from_millis(1);
