//! The version, times and limits of the agents' protocol.

use std::time::Duration;

/// The version of the protocol, which must be the same on both sides.
pub(super) const VERSION: u32 = 1;
/// The default port of an agent.
pub const PORT: u16 = 2051;
/// Silence after which the other side counts as lost.
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
/// Silence or response time from which an agent has a caveat.
pub(super) const SLOW: Duration = Duration::from_millis(1500);
/// The largest deviation of an agent's begin, end and window from the plan, and the largest clock error, for latencies
/// over all clients to be meaningful.
pub(super) const CLOCK_ERROR_MAX: Duration = Duration::from_millis(1);
