//! An engine on another machine.

use std::time::{Duration, Instant};

use report::result::{Caveat, CaveatKind, Machine, Part, TargetFacts};

use super::clock::{Offset, wall_clock};
use super::limits::{CLOCK_ERROR_MAX, DRAIN_MAX};
use super::link::Link;
use super::message::{AgentMessage, Request, Window};
use super::timing::{Timing, pace_caveats, silence_caveat};
use super::token::Token;
use crate::engine::interface::Engine;
use crate::error::Error;
use crate::job::Caller;
use crate::job::{Control, SECONDS_MAX};
use crate::job::{Job, LayoutProgress};

/// A waiting thread checks for a window and for a stop at this interval.
const POLL: Duration = Duration::from_millis(20);
/// A live agent answers a request that touches no files within this time.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The wait for an agent that was told to stop its preparation.
const STOP_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Remote {
    link: Link,
    machine: Machine,
    takes_window_late: bool,
}

struct Ran {
    part: Part,
    really: (Option<u64>, Option<u64>),
    seconds: Vec<u64>,
}

impl Remote {
    /// Connects to the agent at `address` (`HOST:PORT`), and measures its clock. [`Remote::open`] follows.
    ///
    /// # Errors
    /// The agent is out of reach, has another token or version, or has another coordinator.
    pub fn connect(address: &str, token: &Token) -> Result<Self, Error> {
        let (link, machine) = Link::open(address, token)?;
        let machine = Machine { name: address.to_owned(), ..machine };
        let mut remote = Self { link, machine, takes_window_late: false };
        remote.measure()?;
        Ok(remote)
    }

    /// Uses `caller`'s user, but the agent's own addresses.
    ///
    /// # Errors
    /// The agent does not accept the target.
    pub fn open(&mut self, target: &str, caller: &Caller) -> Result<(), Error> {
        self.link.send(&Request::Open { target: target.to_owned(), caller: caller.clone() })?;
        match self.answer(Some(ANSWER_MAX), &mut |_| Ok(()))? {
            AgentMessage::Opened { takes_window_late } => self.takes_window_late = takes_window_late,
            other => return Err(self.unexpected(&other)),
        }
        Ok(())
    }

    fn measure(&mut self) -> Result<Offset, Error> {
        let offset = self.link.measure()?;
        self.machine.clock_offset_us = offset.ahead as f64 / 1e3;
        self.machine.clock_bound_us = offset.bound as f64 / 1e3;
        Ok(offset)
    }

    /// Passes progress to `progress`, and repeats the last one while nothing comes. Waits without a limit if `within` is
    /// `None`. An error of `progress` stops the agent's work.
    fn answer(
        &self,
        within: Option<Duration>,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<AgentMessage, Error> {
        let (begun, mut last) = (Instant::now(), LayoutProgress::default());
        loop {
            if let Err(wrong) = progress(last) {
                self.stop_preparation();
                return Err(wrong);
            }
            match self.link.next(POLL)? {
                Some(AgentMessage::Progress(done)) => last = done,
                // Messages of the last load that arrive late.
                Some(AgentMessage::Live { .. }) => {}
                Some(AgentMessage::Failed { why }) => return Err(self.link.failed(why)),
                Some(answer) => return Ok(answer),
                None if within.is_some_and(|within| begun.elapsed() > within) => {
                    return Err(self
                        .link
                        .failed(format!("no answer within {} s", begun.elapsed().as_secs())));
                }
                None => {}
            }
        }
    }

    /// Gives the agent a moment to remove partial files. The error that follows has the reason of the stop.
    fn stop_preparation(&self) {
        let begun = Instant::now();
        let mut is_working = self.link.send(&Request::Stop).is_ok();
        while is_working && begun.elapsed() < STOP_MAX {
            // Everything but progress answers the request.
            is_working = matches!(self.link.next(POLL), Ok(Some(AgentMessage::Progress(_)) | None));
        }
    }

    fn unexpected(&self, answer: &AgentMessage) -> Error {
        let text = serde_json::to_string(answer).unwrap_or_default();
        let start: String = text.chars().take(80).collect();
        self.link.failed(format!("it answered what was not asked: {start}"))
    }

    /// Forwards the window and a stop from `control` until the load ends.
    fn follow(&self, control: &Control, mut told: Option<Window>) -> Result<Ran, Error> {
        let (mut stopped, mut seconds) = (None, vec![0; SECONDS_MAX]);
        loop {
            match self.link.next(POLL)? {
                Some(AgentMessage::Live { seconds: news }) => add_counts(control, &mut seconds, &news),
                Some(AgentMessage::Ran { part, began, ended }) => {
                    return Ok(Ran { part: *part, really: (began, ended), seconds });
                }
                // The agent reports the stop itself.
                Some(AgentMessage::Failed { .. }) if stopped.is_some() => return Err(Error::Stopped),
                Some(AgentMessage::Failed { why }) => return Err(self.link.failed(why)),
                Some(other) => return Err(self.unexpected(&other)),
                None => {}
            }
            if told.is_none() {
                told = Window::of(control);
                told.into_iter().try_for_each(|window| self.link.send(&Request::Window(window)))?;
            }
            if stopped.is_none() && control.is_stopped() {
                stopped = Some(wall_clock());
                self.link.send(&Request::Stop)?;
            }
            let end = stopped.or(told.map(|window| control.begin.saturating_add(window.end)));
            if end.is_some_and(|end| wall_clock().saturating_sub(end) > nanoseconds(DRAIN_MAX)) {
                let late = DRAIN_MAX.as_secs();
                return Err(self.link.failed(format!("no result {late} s after the load's end")));
            }
        }
    }

    /// Adds caveats about timing, and translates times to this machine's clock.
    fn apply(&self, control: &Control, ran: Ran, clock: (Offset, Offset)) -> Part {
        let Ran { mut part, really, seconds } = ran;
        let (before, after) = clock;
        let agent = &self.link.name;
        if let Some(window) = Window::of(control)
            && !control.is_stopped()
        {
            let begin = before.theirs(control.begin);
            let start = part.started * 1e9 - begin as f64;
            let measured = (start, start + part.seconds * 1e9);
            let timing = Timing { begin: control.begin, window, actual: really, measured, clock };
            part.caveats.extend(timing.caveats(agent));
            part.caveats.extend(silence_caveat(agent, &seconds, window));
        }
        part.caveats.extend(pace_caveats(agent, self.link.pace()));
        let own = env!("CARGO_PKG_VERSION");
        if self.machine.version != own {
            let text = format!("agent {agent} is plimsoll {}, the coordinator {own}", self.machine.version);
            part.caveats.push(Caveat::new(CaveatKind::Other, text));
        }
        let started = Duration::try_from_secs_f64(part.started).unwrap_or_default();
        part.started -= before.between(&after, nanoseconds(started)) / 1e9;
        part
    }
}

impl Engine for Remote {
    fn facts(&mut self) -> Result<TargetFacts, Error> {
        self.link.send(&Request::Facts)?;
        match self.answer(Some(ANSWER_MAX), &mut |_| Ok(()))? {
            AgentMessage::Facts { facts } => Ok(*facts),
            other => Err(self.unexpected(&other)),
        }
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn prepare(
        &mut self,
        job: &Job,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.link.send(&Request::Prepare { job: Box::new(job.clone()) })?;
        match self.answer(None, progress)? {
            AgentMessage::Prepared => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Delays of the agent become caveats of the part. The clock is measured first, so the beginning should
    /// be a second ahead.
    fn run(&mut self, control: &Control) -> Result<Part, Error> {
        let before = self.measure()?;
        // Discards the measurements before the load.
        _ = self.link.pace();
        let window = Window::of(control);
        self.link.send(&Request::Run { begin: before.theirs(control.begin), window })?;
        let ran = self.follow(control, window)?;
        let after = self.measure()?;
        Ok(self.apply(control, ran, (before, after)))
    }

    fn accepts_late_window(&self) -> bool {
        self.takes_window_late
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.link.send(&Request::Clear)?;
        match self.answer(None, &mut |_| Ok(()))? {
            AgentMessage::Cleared => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }
}

/// Checks that the clock is precise enough for latencies over all clients.
///
/// # Errors
/// Names the clock's error and the allowed error.
pub fn check_clock(machine: &Machine) -> Result<(), Error> {
    let (bound, most) = (machine.clock_bound_us, CLOCK_ERROR_MAX.as_secs_f64() * 1e6);
    if bound <= most {
        return Ok(());
    }
    let (name, bound, most) = (&machine.name, bound / 1e3, most / 1e3);
    Err(Error::Plan(format!(
        "the clock of {name} is known to {bound:.2} ms only, since half of the fastest answer's round trip took so long; \
         latency curves over several machines need {most} ms"
    )))
}

fn add_counts(control: &Control, seconds: &mut [u64], news: &[(usize, u64, u64)]) {
    for &(second, ops, bytes) in news {
        control.count((second as u64).saturating_mul(1_000_000_000), ops, bytes);
        seconds.get_mut(second).into_iter().for_each(|all| *all = all.saturating_add(ops));
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_must_be_known_to_a_millisecond() {
        let machine =
            |clock_bound_us| Machine { name: "a:1".to_owned(), clock_bound_us, ..Machine::default() };
        assert!(check_clock(&machine(1000.0)).is_ok());
        let error = check_clock(&machine(1200.0)).unwrap_err().to_string();
        assert!(
            error.contains("a:1") && error.contains("1.20 ms only") && error.contains("need 1 ms"),
            "{error}"
        );
    }
}
