//! The version, times and limits of the agents' protocol.

use std::time::Duration;

/// Must be equal on both sides.
pub(super) const VERSION: u32 = 1;
pub const PORT: u16 = 2051;
/// The other side counts as lost after this silence.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);

pub(super) const BEAT: Duration = Duration::from_secs(1);
pub(super) const LIVE_EVERY: Duration = Duration::from_millis(250);
/// An agent must know a window this long before its start, so that its threads see it.
pub(super) const WINDOW_AHEAD: Duration = Duration::from_millis(100);
/// Bounds the time ahead for which a load may be planned.
pub(super) const BEGIN_AHEAD: Duration = Duration::from_secs(3600);
/// An agent must send its result within this time after the window. It waits for replies first, and the
/// result is long.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(120);
/// A longer silence or response time causes a caveat.
pub(super) const SLOW: Duration = Duration::from_millis(1500);
/// Bounds the deviation of an agent's begin, end and window from the plan, and the clock error. Beyond this
/// limit, latencies over all clients have no meaning.
pub(super) const CLOCK_ERROR_MAX: Duration = Duration::from_millis(1);
