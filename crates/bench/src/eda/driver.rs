//! A thread that drives some of the connections: operations begin when they are due, replies are taken as they come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::lane::{Appointment, Lane, Scene};
use super::tally::{Clock, Tally};
use crate::Error;
use crate::engine::{Control, SECONDS_MAX};

/// How often a thread looks up although nothing happens.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A server that answers nothing for so long is given up.
const PATIENCE_NS: u64 = 30_000_000_000;
const EVENTS: usize = 64;
const SECOND_NS: u64 = 1_000_000_000;
/// What an event of the timer is called; lanes are called by their numbers.
const TIMER: u64 = u64::MAX;

/// The sockets and the timer of a thread.
#[derive(Debug)]
struct Watch {
    epoll: OwnedFd,
    /// The timeout of `epoll_wait` is in milliseconds; operations are due at microseconds.
    timer: OwnedFd,
    /// For when the timer is set.
    set_for: u64,
}

/// Drives `lanes` until the window's end and until every call is answered.
pub(super) fn drive(
    lanes: &mut [Lane],
    clock: Clock,
    control: &Control,
    failed: &AtomicBool,
) -> Result<Tally, Error> {
    let mut scene = Scene { control, clock, tally: Tally::new()?, now: 0, ending: false };
    let mut watch = Watch::new(lanes).map_err(|errno| Error::io("watch sockets")(errno.into()))?;
    let mut buffer = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
    let mut due: BinaryHeap<_> = appointments(lanes).map(Reverse).collect();
    std::thread::sleep(clock.ahead());
    let mut heard = clock.now();
    loop {
        scene.now = clock.now();
        scene.tally.look(scene.now, control);
        scene.ending = ends(scene.now, control, failed)?;
        if scene.ending && lanes.iter().all(|lane| lane.in_flight == 0) {
            return Ok(scene.tally);
        }
        begin_due(lanes, &mut due, &mut scene);
        watch.flush(lanes)?;
        let next = due.peek().filter(|_| !scene.ending).map(|Reverse(first)| first.due);
        let ready = watch.wait(&mut buffer, next, clock)?;
        for event in &buffer[..ready] {
            let Ok(index) = usize::try_from(event.data.u64()) else { continue };
            let Some(lane) = lanes.get_mut(index) else { continue };
            heard = scene.now;
            let flags = event.flags;
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                lane.pump(index, &mut scene, &mut |appointment| due.push(Reverse(appointment)))?;
            }
        }
        let waiting = lanes.iter().map(|lane| lane.in_flight).sum::<usize>();
        if waiting == 0 {
            heard = clock.now();
        }
        if clock.now() > heard + PATIENCE_NS {
            return Err(Error::Protocol(format!("{waiting} calls were not answered within 30 s")));
        }
    }
}

/// Begins what is due.
fn begin_due(lanes: &mut [Lane], due: &mut BinaryHeap<Reverse<Appointment>>, scene: &mut Scene<'_>) {
    if scene.ending {
        due.clear();
    }
    let limit = scene.now;
    while let Some(&Reverse(first)) = due.peek()
        && first.due <= limit
    {
        due.pop();
        if let Some(next) = lanes[first.lane].begin(first, scene) {
            due.push(Reverse(next));
        }
    }
}

/// Whether nothing begins any more.
fn ends(now: u64, control: &Control, failed: &AtomicBool) -> Result<bool, Error> {
    if now > SECONDS_MAX as u64 * SECOND_NS {
        return Err(Error::Plan(format!("a load runs for at most {SECONDS_MAX} s")));
    }
    Ok(now >= control.window().1 || control.is_stopped() || failed.load(Ordering::Relaxed))
}

/// The first operation of every process.
fn appointments(lanes: &[Lane]) -> impl Iterator<Item = Appointment> {
    lanes.iter().enumerate().flat_map(|(lane, seats)| {
        let first = move |(seat, one): (usize, &super::lane::Seat)| Appointment {
            due: one.process.due(),
            lane,
            seat,
        };
        seats.seats.iter().enumerate().map(first)
    })
}

impl Watch {
    fn new(lanes: &[Lane]) -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        for (index, lane) in (0..).zip(lanes) {
            epoll::add(&epoll, &lane.stream, EventData::new_u64(index), EventFlags::IN)?;
        }
        Ok(Self { epoll, timer, set_for: 0 })
    }

    /// Sends what there is to send, and asks to be told when a socket that is full takes more.
    fn flush(&self, lanes: &mut [Lane]) -> Result<(), Error> {
        for (index, lane) in (0..).zip(lanes) {
            let was_blocked = lane.blocked;
            lane.flush()?;
            if lane.blocked != was_blocked {
                let wanted = if lane.blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
                epoll::modify(&self.epoll, &lane.stream, EventData::new_u64(index), wanted)
                    .map_err(|errno| Error::io("watch a socket")(errno.into()))?;
            }
        }
        Ok(())
    }

    /// Waits until something arrives or `due` has come; gives how many events there are.
    fn wait(&mut self, buffer: &mut [epoll::Event], due: Option<u64>, clock: Clock) -> Result<usize, Error> {
        let mut timeout = TICK;
        if let Some(due) = due {
            match due.checked_sub(clock.now()).filter(|&ahead| ahead > 0) {
                None => timeout = Timespec { tv_sec: 0, tv_nsec: 0 },
                Some(_) if due == self.set_for => {}
                Some(ahead) => {
                    self.set(ahead).map_err(|errno| Error::io("set a timer")(errno.into()))?;
                    self.set_for = due;
                }
            }
        }
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
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
