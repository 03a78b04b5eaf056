//! Processor time.

use std::fs;
use std::time::Duration;

use rustix::time::ClockId;

use crate::error::Error;

/// User and system time of the calling thread.
fn of_this_thread() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// User and system time of a process with all its threads, ended ones too, in the kernel's ticks (10 ms).
pub(crate) fn of_process(pid: u32) -> Result<Duration, Error> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(Error::io(format!("read {path} for the server's CPU")))?;
    // The name, in parentheses, may hold anything; utime and stime are the 12th and 13th field after it
    // (proc(5)).
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields =
        after_name.split_ascii_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    let ticks = fields.next().zip(fields.next()).map(|(user, system)| user + system);
    let ticks = ticks.ok_or_else(|| Error::Plan(format!("{path} is not as proc(5) describes it")))?;
    Ok(Duration::from_nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())))
}

/// The thread's processor time from the window's start to its end.
#[derive(Debug, Default)]
pub(crate) struct WindowCpu {
    start: Option<Duration>,
    end: Option<Duration>,
}

impl WindowCpu {
    /// Looks at the clock where the window begins and where it ends.
    #[inline]
    pub(crate) fn look(&mut self, now: u64, window: (u64, u64)) {
        if self.end.is_some() || now < window.0 {
            return;
        }
        if self.start.is_none() {
            self.start = Some(of_this_thread());
        }
        if now >= window.1 {
            self.end = Some(of_this_thread());
        }
    }

    pub(crate) fn used(&self) -> Duration {
        let end = self.end.unwrap_or_else(of_this_thread);
        self.start.map_or(Duration::ZERO, |start| end.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_both_clocks() {
        let (thread, process) = (of_this_thread(), of_process(std::process::id()).unwrap());
        let mut sum = 0u64;
        while of_this_thread() - thread < Duration::from_millis(60) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(of_process(std::process::id()).unwrap() - process >= Duration::from_millis(30));
        assert!(of_process(u32::MAX).is_err());
    }
}
