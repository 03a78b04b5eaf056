//! The time of day, read once for each batch of calls.

use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::Time;

/// Now.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
}

/// Milliseconds since some moment, as of the last tick of the kernel's timer: cheap, and right to about ten of them.
pub fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    u64::try_from(now.tv_sec * 1000 + now.tv_nsec / 1_000_000).unwrap_or(0)
}
