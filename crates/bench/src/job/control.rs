//! The state that the coordinator and a generator share while a load runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The longest warm-up and measurement together, in seconds.
pub const SECONDS_MAX: usize = 3600;

/// The state that the coordinator and a generator share while a load runs. All times are nanoseconds.
#[derive(Debug)]
pub struct Control {
    /// The beginning of the load, since 1970 by this machine's clock.
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
    /// A load that begins at `begin`, without a window yet.
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

    /// Sets the window, in whole seconds after the beginning, which must be in the future.
    pub fn set_window(&self, start_s: u64, length_s: u64) {
        self.window_end.store((start_s + length_s) * 1_000_000_000, Ordering::Release);
        self.window_start.store(start_s * 1_000_000_000, Ordering::Release);
    }

    /// Start and end of the window after the beginning; `u64::MAX` while they are unknown.
    pub fn window(&self) -> (u64, u64) {
        (self.window_start.load(Ordering::Acquire), self.window_end.load(Ordering::Acquire))
    }

    /// Ends the load early; its measurement is void.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether [`Control::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Notes the actual beginning, at `now` after the planned one: the first operation was sent. The earliest thread
    /// counts.
    pub fn note_began(&self, now: u64) {
        self.began.fetch_min(now, Ordering::Relaxed);
    }

    /// Notes the actual end, at `now` after the planned beginning: no operation begins any more. The latest thread
    /// counts.
    pub fn note_ended(&self, now: u64) {
        let latest = |before| Some(if before == u64::MAX { now } else { now.max(before) });
        // The update never fails: the closure always returns a value.
        _ = self.ended.fetch_update(Ordering::Relaxed, Ordering::Relaxed, latest);
    }

    /// The actual beginning and end, if the engine reports them.
    pub fn actual_times(&self) -> (Option<u64>, Option<u64>) {
        let reported = |when: &AtomicU64| Some(when.load(Ordering::Relaxed)).filter(|&when| when != u64::MAX);
        (reported(&self.began), reported(&self.ended))
    }

    /// Counts operations at `now`, for the progress and the check for a steady rate.
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

/// The moment `begin`, nanoseconds since 1970, by the clock that does not jump; also where it has passed
/// already.
pub fn moment(begin: u64) -> Instant {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (now, begin) = (Instant::now(), Duration::from_nanos(begin));
    match begin.checked_sub(wall) {
        Some(rest) => now + rest,
        None => now.checked_sub(wall - begin).unwrap_or(now),
    }
}
