//! The state that the coordinator and a generator share while a load runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Bounds warm-up and measurement together.
pub const SECONDS_MAX: usize = 3600;

/// The state that the coordinator and a generator share while a load runs. All times are nanoseconds.
#[derive(Debug)]
pub struct Control {
    /// Since 1970, by this machine's clock.
    pub begin: u64,
    window_start: AtomicU64,
    window_end: AtomicU64,
    stop: AtomicBool,
    began: AtomicU64,
    ended: AtomicU64,
    seconds: Box<[Live]>,
}

/// The operations and bytes of one second, counted while it passes.
#[derive(Debug, Default)]
struct Live {
    ops: AtomicU64,
    bytes: AtomicU64,
}

impl Control {
    pub fn new(begin: u64) -> Self {
        Self {
            begin,
            window_start: AtomicU64::new(u64::MAX),
            window_end: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            began: AtomicU64::new(u64::MAX),
            ended: AtomicU64::new(u64::MAX),
            seconds: (0..SECONDS_MAX).map(|_| Live::default()).collect(),
        }
    }

    pub fn with_window(begin: u64, start: Duration, length: Duration) -> Self {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let control = Self::new(begin);
        control.window_start.store(nanoseconds(start), Ordering::Relaxed);
        control.window_end.store(nanoseconds(start + length), Ordering::Relaxed);
        control
    }

    /// Counts in whole seconds after the beginning. The window must be in the future.
    pub fn set_window(&self, start_s: u64, length_s: u64) {
        self.window_end.store((start_s + length_s) * 1_000_000_000, Ordering::Release);
        self.window_start.store(start_s * 1_000_000_000, Ordering::Release);
    }

    /// Start and end after the beginning; `u64::MAX` while unknown.
    pub fn window(&self) -> (u64, u64) {
        (self.window_start.load(Ordering::Acquire), self.window_end.load(Ordering::Acquire))
    }

    /// Voids the measurement.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Notes the time of the first operation, counted from the planned beginning. The earliest thread counts.
    pub fn note_began(&self, now: u64) {
        self.began.fetch_min(now, Ordering::Relaxed);
    }

    /// Notes when operations no longer begin, counted from the planned beginning. The latest thread counts.
    pub fn note_ended(&self, now: u64) {
        let latest = |before| Some(if before == u64::MAX { now } else { now.max(before) });
        // The update never fails: the closure always returns a value.
        _ = self.ended.fetch_update(Ordering::Relaxed, Ordering::Relaxed, latest);
    }

    pub fn actual_times(&self) -> (Option<u64>, Option<u64>) {
        let reported = |when: &AtomicU64| Some(when.load(Ordering::Relaxed)).filter(|&when| when != u64::MAX);
        (reported(&self.began), reported(&self.ended))
    }

    /// For the progress, and for the check for a steady rate.
    #[inline]
    pub fn count(&self, now: u64, ops: u64, bytes: u64) {
        let second = usize::try_from(now / 1_000_000_000).unwrap_or(usize::MAX);
        if let Some(live) = self.seconds.get(second) {
            live.ops.fetch_add(ops, Ordering::Relaxed);
            live.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub fn total(&self) -> (u64, u64) {
        (0..self.seconds.len()).map(|second| self.second(second)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    pub fn second(&self, second: usize) -> (u64, u64) {
        let of = |live: &Live| (live.ops.load(Ordering::Relaxed), live.bytes.load(Ordering::Relaxed));
        self.seconds.get(second).map_or((0, 0), of)
    }
}

/// Converts nanoseconds since 1970 to the monotonic clock. Also works for the past.
pub fn moment(begin: u64) -> Instant {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (now, begin) = (Instant::now(), Duration::from_nanos(begin));
    match begin.checked_sub(wall) {
        Some(rest) => now + rest,
        None => now.checked_sub(wall - begin).unwrap_or(now),
    }
}
