//! The clock of leases.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since the machine was started. It goes on while the machine is suspended, when other gateways count on.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// Milliseconds since 1970.
pub(crate) fn since_1970_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
