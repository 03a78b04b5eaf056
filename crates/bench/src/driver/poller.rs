//! Waits for sockets or a point in time, more precisely than `epoll_wait` with its milliseconds.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::counters::Clock;
use crate::error::Error;

const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Larger than any socket's number.
const TIMER: u64 = u64::MAX;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Poller {
    timer: OwnedFd,
    set_for: u64,
}

impl Poller {
    pub(crate) fn new(epoll: &OwnedFd) -> Result<Self, Error> {
        let made = || {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            epoll::add(epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
            Ok(Self { timer, set_for: 0 })
        };
        made().map_err(|errno: Errno| Error::io("make a timer")(errno.into()))
    }

    /// Waits for an event, for `due`, or for a tenth of a second. Returns the number of events.
    pub(crate) fn wait(
        &mut self,
        epoll: &OwnedFd,
        buffer: &mut [epoll::Event],
        due: Option<u64>,
        clock: &Clock,
    ) -> Result<usize, Error> {
        let timeout = match due.map(|due| (due, clock.now())) {
            Some((due, now)) if due <= now => NOW,
            Some((due, now)) if due != self.set_for => {
                self.set(due - now).map_err(|errno| Error::io("set a timer")(errno.into()))?;
                self.set_for = due;
                TICK
            }
            Some(_) | None => TICK,
        };
        match epoll::wait(epoll, buffer, Some(&timeout)) {
            Ok(ready) => Ok(ready),
            Err(Errno::INTR) => Ok(0),
            Err(errno) => Err(Error::io("wait for replies")(errno.into())),
        }
    }

    fn set(&self, ahead: u64) -> Result<(), Errno> {
        let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let it_value = Timespec { tv_sec: part(ahead / SECOND_NS), tv_nsec: part(ahead % SECOND_NS) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).map(drop)
    }
}
