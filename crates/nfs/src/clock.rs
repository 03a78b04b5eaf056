//! The time of day, read once for each batch of calls.

use std::time::{SystemTime, UNIX_EPOCH};
use vfs::Time;

/// Now.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
}
