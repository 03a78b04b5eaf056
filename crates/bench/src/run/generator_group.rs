//! The generators of one target: one, or one on each of several machines, used as one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, SystemTime};

use report::result::{Machine, Measurement, Operation, Part, ServerSide, TargetFacts};

use super::steady;
use crate::agent::check_clock;
use crate::engine::interface::Engine;
use crate::error::Error;
use crate::job::Control;
use crate::job::{Job, LayoutProgress};
use crate::observer::{Observer, Sample};

const POLL: Duration = Duration::from_millis(50);
/// Interval near the window's edges.
const POLL_MIN: Duration = Duration::from_millis(1);
/// Between request and beginning on this machine.
const START_DELAY: Duration = Duration::from_millis(50);
/// Between request and beginning on other machines, which measure their clocks first.
const START_DELAY_REMOTE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseStatus {
    pub phase: Phase,
    pub ops_per_s: f64,
    /// 2^20 bytes in the last whole second.
    pub mib_per_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Files are being created, or those of an earlier run checked.
    Layout(LayoutProgress),
    WarmUp,
    /// Contains the share of the window done.
    Measuring(f64),
}

pub struct GeneratorGroup(Vec<Box<dyn Engine>>);

/// Shortest and longest warm-up, and the window, in seconds.
type Times = (u64, u64, u64);

impl GeneratorGroup {
    /// # Errors
    /// `members` is empty.
    pub fn new(members: Vec<Box<dyn Engine>>) -> Result<Self, Error> {
        if members.is_empty() {
            return Err(Error::Plan("there is no generator; name at least one agent".to_owned()));
        }
        Ok(Self(members))
    }

    /// All generators must see the same target.
    ///
    /// # Errors
    /// A generator cannot reach the target.
    pub fn facts(&mut self) -> Result<TargetFacts, Error> {
        let mut all = self.0.iter_mut().map(|engine| engine.facts()).collect::<Result<Vec<_>, _>>()?;
        // A single generator on the server's host affects the figures of all.
        let co_located = all.iter().any(|facts| facts.co_located);
        let first = all.swap_remove(0);
        Ok(TargetFacts { co_located, ..first })
    }

    pub fn machines(&self) -> Vec<Machine> {
        self.0.iter().map(|engine| engine.machine()).collect()
    }

    pub(crate) fn is_one_machine(&self) -> bool {
        self.0.len() == 1
    }

    /// Checks that the clocks are precise enough for latencies over all machines.
    ///
    /// # Errors
    /// Names the clock's error and the allowed error.
    pub(crate) fn check_clocks(&self) -> Result<(), Error> {
        self.machines().iter().try_for_each(check_clock)
    }

    /// # Errors
    /// The server refuses.
    pub fn clear(&mut self) -> Result<(), Error> {
        // All generators share one target, so the first one removes the files of all.
        self.0[0].clear()
    }

    /// Measures one window of a job: layout, warm-up until the rate is steady, measurement.
    ///
    /// # Errors
    /// Every failure that prevents a result; [`Error::Stopped`] if `stop` is set.
    pub fn measure(
        &mut self,
        job: &Job,
        times: Times,
        mut observer: Option<&mut (dyn Observer + '_)>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(PhaseStatus),
    ) -> Result<Measurement, Error> {
        let mut shares = split_clients(&mut self.0, job);
        prepare(&mut shares, stop, tell)?;
        let is_remote = shares.iter().any(|share| share.engine.machine().name != "local");
        let lead = if is_remote { START_DELAY_REMOTE } else { START_DELAY };
        let begin = now_ns() + u64::try_from(lead.as_nanos()).unwrap_or(0);
        // A window after the start needs the consent of every engine, and a warm-up that may vary.
        let late = shares.iter().all(|share| share.engine.accepts_late_window()) && times.1 > times.0;
        let controls: Vec<Control> = shares.iter().map(|_| Control::new(begin)).collect();
        if !late {
            controls.iter().for_each(|control| control.set_window(times.0, times.2));
        }
        let failed = AtomicBool::new(false);
        let samples = Vec::new();
        let mut monitor = WindowMonitor {
            begin,
            times,
            controls: &controls,
            failed: &failed,
            opens_when_steady: late,
            samples,
            steady: None,
        };
        let parts = thread::scope(|scope| {
            let mut running = Vec::new();
            for (share, control) in shares.iter_mut().zip(&controls) {
                let (engine, failed) = (&mut *share.engine, &failed);
                running.push(scope.spawn(move || {
                    let part = engine.run(control);
                    // Makes the monitor stop the other generators.
                    failed.fetch_or(part.is_err(), Ordering::Relaxed);
                    part
                }));
            }
            let watched = monitor.until_done(&running, &mut observer, stop, tell);
            if watched.is_err() {
                controls.iter().for_each(Control::stop);
            }
            let join = |thread: ScopedJoinHandle<'_, Result<Part, Error>>| {
                thread.join().map_err(|_| Error::Plan("a generator panicked".to_owned()))?
            };
            let parts: Vec<_> = running.into_iter().map(join).collect();
            // The first failure has the reason; the other generators were only stopped.
            let fault =
                parts.iter().position(|part| matches!(part, Err(wrong) if !matches!(wrong, Error::Stopped)));
            match fault {
                Some(at) => parts.into_iter().nth(at).unwrap_or(Err(Error::Stopped)).map(|_| Vec::new()),
                None => watched.and_then(|()| parts.into_iter().collect::<Result<Vec<_>, _>>()),
            }
        })?;
        let machines: Vec<usize> = shares.iter().map(|share| share.index).collect();
        let (server, warm_up_s) = (monitor.server(), monitor.warm_up_s());
        Ok(Measurement { server, warm_up_s, steady: monitor.steady, ..merge_parts(parts, &machines) })
    }
}

struct Share<'a> {
    index: usize,
    engine: &'a mut Box<dyn Engine>,
    job: Job,
}

/// Splits the clients evenly, and drops generators without clients.
fn split_clients<'a>(engines: &'a mut [Box<dyn Engine>], job: &Job) -> Vec<Share<'a>> {
    let count = engines.len();
    let share = |(index, engine): (usize, &'a mut Box<dyn Engine>)| {
        let (first, end) = (index * job.clients_total / count, (index + 1) * job.clients_total / count);
        let job = Job { first_client: first, clients: end - first, ..job.clone() };
        Share { index, engine, job }
    };
    engines.iter_mut().enumerate().map(share).filter(|share| share.job.clients > 0).collect()
}

fn prepare(
    shares: &mut [Share<'_>],
    stop: &AtomicBool,
    tell: &mut dyn FnMut(PhaseStatus),
) -> Result<(), Error> {
    // The generators lay out files in parallel; only the first one reports progress.
    let (first, others) = shares.split_first_mut().ok_or(Error::Stopped)?;
    let failed = &AtomicBool::new(false);
    let go_on = &|| match stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
        true => Err(Error::Stopped),
        false => Ok(()),
    };
    thread::scope(|scope| {
        let running: Vec<_> = others
            .iter_mut()
            .map(|share| {
                scope.spawn(move || {
                    let prepared = share.engine.prepare(&share.job, &mut |_| go_on());
                    failed.fetch_or(prepared.is_err(), Ordering::Relaxed);
                    prepared
                })
            })
            .collect();
        let mut layout = |done| {
            tell(PhaseStatus { phase: Phase::Layout(done), ops_per_s: 0.0, mib_per_s: 0.0 });
            go_on()
        };
        let prepared = first.engine.prepare(&first.job, &mut layout);
        failed.fetch_or(prepared.is_err(), Ordering::Relaxed);
        let join = |thread: ScopedJoinHandle<'_, Result<(), Error>>| {
            thread.join().map_err(|_| Error::Plan("a generator panicked".to_owned()))?
        };
        let others: Vec<_> = running.into_iter().map(join).collect();
        // The first failure has the reason; the other generators were only stopped.
        let merge = |all, one| match all {
            Ok(()) | Err(Error::Stopped) if matches!(one, Err(ref wrong) if !matches!(wrong, Error::Stopped)) => {
                one
            }
            all => all.and(one),
        };
        others.into_iter().fold(prepared, merge)
    })?;
    if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}

struct WindowMonitor<'a> {
    begin: u64,
    times: Times,
    controls: &'a [Control],
    failed: &'a AtomicBool,
    /// Whether the window begins when the rate is steady.
    opens_when_steady: bool,
    /// At the window's start and end. Times are in nanoseconds since 1970.
    samples: Vec<(u64, Sample)>,
    steady: Option<bool>,
}

impl WindowMonitor<'_> {
    fn until_done(
        &mut self,
        running: &[ScopedJoinHandle<'_, Result<Part, Error>>],
        observer: &mut Option<&mut (dyn Observer + '_)>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(PhaseStatus),
    ) -> Result<(), Error> {
        while !running.iter().all(ScopedJoinHandle::is_finished) {
            // A failed generator returns its error when it is joined.
            if stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let now = now_ns().saturating_sub(self.begin);
            let (start, end) = self.controls[0].window();
            if self.opens_when_steady && start == u64::MAX {
                self.open_window_if_steady(now);
            }
            let edge = if self.samples.is_empty() { start } else { end };
            if let Some(observer) = observer
                && now >= edge
                && self.samples.len() < 2
            {
                self.samples.push(sample_now(*observer)?);
            }
            tell(self.status(now));
            let edge = if now < start { start } else { end };
            thread::sleep(POLL.min(Duration::from_nanos(edge.saturating_sub(now)).max(POLL_MIN)));
        }
        if let Some(observer) = observer
            && self.samples.len() == 1
        {
            self.samples.push(sample_now(*observer)?);
        }
        Ok(())
    }

    /// Opens the window once the rate is steady, or after the longest warm-up.
    fn open_window_if_steady(&mut self, now: u64) {
        let passed = now / 1_000_000_000;
        if passed < self.times.0.max(steady::SECONDS as u64) {
            return;
        }
        let whole = usize::try_from(passed).unwrap_or(0);
        let rates: Vec<f64> =
            (whole.saturating_sub(steady::SECONDS)..whole).map(|at| self.second(at).0).collect();
        let is_steady = steady::is_steady(&rates);
        if is_steady || passed >= self.times.1 {
            self.steady = Some(is_steady);
            // A second ahead, so that all generators receive it in time.
            self.controls.iter().for_each(|control| control.set_window(passed + 2, self.times.2));
        }
    }

    fn second(&self, second: usize) -> (f64, f64) {
        let each = self.controls.iter().map(|control| control.second(second));
        each.fold((0.0, 0.0), |sum, (ops, bytes)| (sum.0 + ops as f64, sum.1 + bytes as f64))
    }

    fn status(&self, now: u64) -> PhaseStatus {
        let (start, end) = self.controls[0].window();
        let phase = match now {
            now if now < start => Phase::WarmUp,
            now => Phase::Measuring(((now - start) as f64 / (end - start) as f64).min(1.0)),
        };
        let last = usize::try_from(now / 1_000_000_000).ok().and_then(|second| second.checked_sub(1));
        let (ops_per_s, bytes) = last.map_or((0.0, 0.0), |second| self.second(second));
        PhaseStatus { phase, ops_per_s, mib_per_s: bytes / f64::from(1 << 20) }
    }

    fn warm_up_s(&self) -> f64 {
        self.controls[0].window().0 as f64 / 1e9
    }

    fn server(&self) -> Option<ServerSide> {
        let [(earlier, before), (later, after)] = self.samples[..] else { return None };
        let from_memory = after.reads_from_memory.saturating_sub(before.reads_from_memory);
        let reads = from_memory + after.reads_from_storage.saturating_sub(before.reads_from_storage);
        Some(ServerSide {
            seconds: later.saturating_sub(earlier) as f64 / 1e9,
            connections: before.connections.min(after.connections),
            ops: after.ops.saturating_sub(before.ops),
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
            throttled_ops: after.throttled_ops.saturating_sub(before.throttled_ops),
            throttle_s: after.throttle_s - before.throttle_s,
            cache_hit_ratio: (reads > 0).then(|| from_memory as f64 / reads as f64),
            limits: after.limits,
            limits_before: (before.limits != after.limits).then_some(before.limits),
        })
    }
}

/// The time is the middle of the query.
fn sample_now(observer: &mut dyn Observer) -> Result<(u64, Sample), Error> {
    let asked = now_ns();
    let sample = observer.sample()?;
    Ok((asked.midpoint(now_ns()), sample))
}

/// `machines` are the generators' places in the group.
fn merge_parts(parts: Vec<Part>, machines: &[usize]) -> Measurement {
    let mut all = Measurement::default();
    let mut operations: Vec<Operation> = Vec::new();
    for (mut part, &machine) in parts.into_iter().zip(machines) {
        (all.started, all.seconds) = (part.started.max(all.started), part.seconds);
        for theirs in part.operations {
            match operations.iter_mut().find(|ours| ours.name == theirs.name) {
                Some(ours) => ours.add(&theirs),
                None => operations.push(theirs),
            }
        }
        part.wire.into_iter().for_each(|(call, count)| *all.wire.entry(call).or_default() += count);
        if let Some(pace) = part.pace {
            all.pace.get_or_insert_default().extend([pace]);
        }
        part.clients.iter_mut().for_each(|client| client.machine = machine);
        all.clients.append(&mut part.clients);
        all.machines.resize_with(machine + 1, Default::default);
        all.machines[machine] = part.usage;
        part.errors.into_iter().for_each(|(what, count)| *all.errors.entry(what).or_default() += count);
        all.error_details.append(&mut part.error_details);
        all.caveats.append(&mut part.caveats);
    }
    all.operations = operations;
    all
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
