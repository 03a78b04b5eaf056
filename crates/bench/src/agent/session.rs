//! An agent's work for its coordinator, in three threads: one receives, one works, one reports progress.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::limits::{BEGIN_AHEAD, DRAIN_MAX, LIVE_EVERY, WINDOW_AHEAD};
use super::message::{AgentMessage, Request, Window};
use super::wire::{MESSAGE, Unsent, Wire};
use crate::engine::interface::Engine;
use crate::error::Error;
use crate::job::Caller;
use crate::job::{Control, SECONDS_MAX};
use crate::job::{Job, LayoutProgress};

pub type MakeEngine = Box<dyn Fn(&str, &Caller) -> Result<Box<dyn Engine>, Error> + Send + Sync>;

const PROGRESS_EVERY: Duration = Duration::from_millis(200);
const SECOND: u64 = 1_000_000_000;

/// Lasts from the welcome to the end of the connection.
pub(super) struct Session<'a> {
    wire: &'a Wire,
    make_engine: &'a MakeEngine,
    running: Mutex<Option<Arc<Load>>>,
    /// Whether the preparation under way is to end.
    ends_preparation: AtomicBool,
}

struct Load {
    control: Control,
    /// Operations and bytes already reported, by second.
    reported: Mutex<Vec<(u64, u64)>>,
    wrong: Mutex<Option<String>>,
}

enum WorkRequest {
    Open(String, Caller),
    Facts,
    Prepare(Box<Job>),
    Run(Arc<Load>),
    Clear,
}

impl<'a> Session<'a> {
    pub(super) fn new(wire: &'a Wire, make_engine: &'a MakeEngine) -> Self {
        Self { wire, make_engine, running: Mutex::default(), ends_preparation: AtomicBool::new(false) }
    }

    /// Serves the coordinator until it disconnects and its load has ended. Returns the reason of the end.
    pub(super) fn serve(&self) -> String {
        let (orders, to_do) = mpsc::sync_channel(1);
        let (going_on, ending) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || self.work(&to_do));
            scope.spawn(move || self.report_progress(&ending));
            let Err(why) = self.receive_loop(&orders);
            self.wire.close();
            if let Some(load) = &*self.running() {
                load.control.stop();
            }
            drop((orders, going_on));
            why
        })
    }

    fn running(&self) -> MutexGuard<'_, Option<Arc<Load>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive_loop(&self, orders: &SyncSender<WorkRequest>) -> Result<std::convert::Infallible, String> {
        loop {
            let (request, heard) = self.wire.receive(MESSAGE)?;
            let order = match request {
                Request::Ping { asked } => {
                    self.wire.send(&AgentMessage::Pong { asked, heard, answered: self.wire.now() })?;
                    continue;
                }
                Request::Window(window) => {
                    self.set_window(window);
                    continue;
                }
                Request::Stop => {
                    self.ends_preparation.store(true, Ordering::Relaxed);
                    self.running().iter().for_each(|load| load.control.stop());
                    continue;
                }
                Request::Run { begin, window } => match Load::plan(begin, window, heard) {
                    Ok(load) => WorkRequest::Run(self.set_running(load)?),
                    Err(why) => {
                        self.wire.send(&AgentMessage::Failed { why })?;
                        continue;
                    }
                },
                Request::Open { target, caller } => WorkRequest::Open(target, caller),
                Request::Facts => WorkRequest::Facts,
                Request::Prepare { job } => {
                    self.ends_preparation.store(false, Ordering::Relaxed);
                    WorkRequest::Prepare(job)
                }
                Request::Clear => WorkRequest::Clear,
            };
            orders.try_send(order).map_err(|_| "it asked before it was answered")?;
        }
    }

    fn set_running(&self, load: Load) -> Result<Arc<Load>, String> {
        let mut running = self.running();
        if running.is_some() {
            return Err("it began a load while another one runs".to_owned());
        }
        Ok(Arc::clone(running.insert(Arc::new(load))))
    }

    fn set_window(&self, window: Window) {
        if let Some(load) = &*self.running()
            && let Err(why) = load.set_window(window, self.wire.now())
        {
            load.fail(why);
        }
    }

    fn work(&self, orders: &Receiver<WorkRequest>) {
        let mut engine = None;
        for order in orders {
            // A panic of the engine must not end this thread: the coordinator waits for an answer.
            let done = catch_unwind(AssertUnwindSafe(|| self.perform(&mut engine, order)));
            // Precedes the answer: the coordinator may begin the next load as soon as the answer arrives.
            *self.running() = None;
            let answer = match done {
                Ok(Ok(answer)) => answer,
                Ok(Err(why)) => AgentMessage::Failed { why },
                Err(_) => AgentMessage::Failed { why: "the engine panicked; see the agent's log".to_owned() },
            };
            if let AgentMessage::Failed { why } = &answer {
                tracing::warn!("failed: {why}");
            }
            let sent = match self.wire.send(&answer) {
                // Nothing was sent, so the coordinator still waits for an answer.
                Err(Unsent::TooLong(why)) => self.wire.send(&AgentMessage::Failed { why }),
                sent => sent,
            };
            if sent.is_err() {
                self.wire.close();
                return;
            }
        }
    }

    fn perform(
        &self,
        place: &mut Option<Box<dyn Engine>>,
        order: WorkRequest,
    ) -> Result<AgentMessage, String> {
        let text = |wrong: Error| wrong.to_string();
        if let WorkRequest::Open(target, caller) = order {
            tracing::info!(target, "opens a target");
            // The old engine closes its connections before the new one opens its own.
            *place = None;
            let engine = place.insert((self.make_engine)(&target, &caller).map_err(text)?);
            return Ok(AgentMessage::Opened { takes_window_late: engine.accepts_late_window() });
        }
        let engine = place.as_mut().ok_or("no target was opened")?;
        match order {
            WorkRequest::Open(..) => Err("not here".to_owned()),
            WorkRequest::Facts => Ok(AgentMessage::Facts { facts: Box::new(engine.facts().map_err(text)?) }),
            WorkRequest::Prepare(job) => {
                let Job { clients, jobs, depth, block, .. } = *job;
                tracing::info!(clients, jobs, depth, block, "prepares a load");
                engine.prepare(&job, &mut self.progress()).map_err(text)?;
                Ok(AgentMessage::Prepared)
            }
            WorkRequest::Run(load) => self.run(engine.as_mut(), &load),
            WorkRequest::Clear => engine.clear().map(|()| AgentMessage::Cleared).map_err(text),
        }
    }

    /// Rate-limits reports about the layout, and ends it after a stop or with the connection.
    fn progress(&self) -> impl FnMut(LayoutProgress) -> Result<(), Error> {
        let mut reported: Option<Instant> = None;
        move |done| {
            if self.ends_preparation.load(Ordering::Relaxed) || self.wire.is_closed() {
                return Err(Error::Stopped);
            }
            if reported.is_none_or(|reported| reported.elapsed() >= PROGRESS_EVERY) {
                reported = Some(Instant::now());
                // The receiving thread reports any error.
                _ = self.wire.send(&AgentMessage::Progress(done));
            }
            Ok(())
        }
    }

    fn run(&self, engine: &mut dyn Engine, load: &Load) -> Result<AgentMessage, String> {
        if self.wire.is_closed() {
            return Err("the coordinator is gone".to_owned());
        }
        let Load { control, .. } = load;
        if !engine.accepts_late_window() && Window::of(control).is_none() {
            return Err("the generator must know its window before it begins".to_owned());
        }
        let part = engine.run(control);
        self.tell_of(load);
        if let Some(wrong) = load.wrong().take() {
            return Err(wrong);
        }
        let part = part.map_err(|wrong| wrong.to_string())?;
        let ops = part.operations.iter().map(|operation| operation.ops).sum::<u64>();
        tracing::info!(ops, seconds = part.seconds, "ran a load");
        let (began, ended) = control.actual_times();
        Ok(AgentMessage::Ran { part: Box::new(part), began, ended })
    }

    fn report_progress(&self, ending: &Receiver<()>) {
        while ending.recv_timeout(LIVE_EVERY) == Err(RecvTimeoutError::Timeout) {
            let running = self.running().clone();
            if let Some(load) = running {
                self.tell_of(&load);
                load.end_if_overdue(self.wire.now());
            }
        }
    }

    fn tell_of(&self, load: &Load) {
        let mut reported = load.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let news = (0..SECONDS_MAX).filter_map(|second| {
            let ((ops, bytes), before) = (load.control.second(second), &mut reported[second]);
            let new = (ops.saturating_sub(before.0), bytes.saturating_sub(before.1));
            *before = (ops, bytes);
            (new != (0, 0)).then_some((second, new.0, new.1))
        });
        let seconds = news.collect();
        // The receiving thread reports any error.
        _ = self.wire.send(&AgentMessage::Live { seconds });
    }
}

impl Load {
    fn plan(begin: u64, window: Option<Window>, now: u64) -> Result<Self, String> {
        if begin <= now {
            let late = Duration::from_nanos(now - begin);
            return Err(format!("the load was to begin {late:?} before the agent heard of it"));
        }
        if begin - now > nanoseconds(BEGIN_AHEAD) {
            return Err(format!("the load is to begin in {:?}", Duration::from_nanos(begin - now)));
        }
        let control = match window {
            Some(window) => {
                window.check()?;
                let [start, length] = [window.start, window.end - window.start].map(Duration::from_nanos);
                Control::with_window(begin, start, length)
            }
            None => Control::new(begin),
        };
        Ok(Self { control, reported: Mutex::new(vec![(0, 0); SECONDS_MAX]), wrong: Mutex::default() })
    }

    fn wrong(&self) -> MutexGuard<'_, Option<String>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, why: String) {
        self.wrong().get_or_insert(why);
        self.control.stop();
    }

    /// Fails if the window has passed or is already set.
    fn set_window(&self, window: Window, now: u64) -> Result<(), String> {
        window.check()?;
        if Window::of(&self.control).is_some() {
            return Err("the window was set twice".to_owned());
        }
        let Window { start, end } = window;
        if start % SECOND != 0 || end % SECOND != 0 {
            return Err(format!("a window that is set late has whole seconds, not {start} to {end} ns"));
        }
        let begins = self.control.begin + start;
        if now + nanoseconds(WINDOW_AHEAD) > begins {
            let ahead = (i128::from(begins) - i128::from(now)) as f64 / 1e6;
            return Err(format!(
                "the window came to the agent {ahead:.0} ms before it begins; it needs {} ms",
                WINDOW_AHEAD.as_millis()
            ));
        }
        self.control.set_window(start / SECOND, (end - start) / SECOND);
        Ok(())
    }

    /// No load may run longer than the longest window and the drain time.
    fn end_if_overdue(&self, now: u64) {
        let longest = nanoseconds(DRAIN_MAX) + SECONDS_MAX as u64 * SECOND;
        if now.saturating_sub(self.control.begin) > longest {
            self.fail(format!("the load ran for more than {SECONDS_MAX} s"));
        }
    }
}

impl Window {
    fn check(&self) -> Result<(), String> {
        let Self { start, end } = *self;
        if start < end && end <= SECONDS_MAX as u64 * SECOND {
            Ok(())
        } else {
            Err(format!(
                "a window from {start} to {end} ns after the beginning; it may end after {SECONDS_MAX} s"
            ))
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
