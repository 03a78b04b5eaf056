//! An engine that only counts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::Error;
use bench::agent::Now;
use bench::engine::{Control, Engine, Job, LayoutProgress};
use report::result::{Direction, Distribution, Operation, Part, TargetFacts};

pub const OPS_PER_MS: u64 = 3;
pub const BYTES: u64 = 8192;

#[derive(Debug, Default)]
pub struct Seen {
    pub jobs: Mutex<Vec<Job>>,
    pub running: AtomicUsize,
    pub open: AtomicUsize,
}

/// Counts at [`OPS_PER_MS`]. The target selects a behavior: `early` needs its window before the start, `fail`
/// fails to prepare, `panic` panics there, `fills` prepares until it is stopped, `silent` reports no progress, `late` begins 30 ms late, `huge` has
/// a long result.
pub struct Fake {
    target: String,
    now: Now,
    seen: Arc<Seen>,
}

impl Fake {
    pub fn open(target: &str, now: Now, seen: Arc<Seen>) -> Result<Box<dyn Engine>, Error> {
        if target == "none" {
            return Err(Error::Plan("\"none\" is not a target".to_owned()));
        }
        seen.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Self { target: target.to_owned(), now, seen }))
    }

    fn count(&self, control: &Control) -> u64 {
        let (mut done, mut in_window) = (0, 0);
        loop {
            let after = (self.now)().saturating_sub(control.begin);
            let (start, end) = control.window();
            let due = after.min(end) / 1_000_000;
            for millisecond in done..due {
                let at = millisecond * 1_000_000;
                if self.target != "silent" {
                    control.count(at, OPS_PER_MS, OPS_PER_MS * BYTES);
                }
                in_window += if at >= start { OPS_PER_MS } else { 0 };
            }
            done = due;
            if after >= end || control.is_stopped() {
                control.note_ended(after);
                return in_window;
            }
            self.wait_until((control.begin + (due + 1) * 1_000_000).min(control.begin.saturating_add(end)));
        }
    }

    /// Sleeps for most of the time, then spins: the scheduler is later than the tests allow.
    fn wait_until(&self, then: u64) {
        let left = then.saturating_sub((self.now)());
        std::thread::sleep(Duration::from_nanos(left.saturating_sub(300_000)));
        while (self.now)() < then {
            std::hint::spin_loop();
        }
    }
}

impl Engine for Fake {
    fn facts(&mut self) -> Result<TargetFacts, Error> {
        Ok(TargetFacts {
            target: self.target.clone(),
            generator: "fake".to_owned(),
            ..TargetFacts::default()
        })
    }

    fn prepare(
        &mut self,
        job: &Job,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.seen.jobs.lock().unwrap().push(job.clone());
        progress(LayoutProgress { done: 0.5, ..LayoutProgress::default() })?;
        match self.target.as_str() {
            "fail" => Err(Error::Refused { doing: "CREATE f".to_owned(), status: "NOSPC".to_owned() }),
            "panic" => panic!("as the test wants it"),
            "fills" => loop {
                progress(LayoutProgress::default())?;
                std::thread::sleep(Duration::from_millis(5));
            },
            "slow" => {
                std::thread::sleep(Duration::from_secs(4));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn run(&mut self, control: &Control) -> Result<Part, Error> {
        self.seen.running.fetch_add(1, Ordering::SeqCst);
        let late = if self.target == "late" { 30_000_000 } else { 0 };
        self.wait_until(control.begin + late);
        control.note_began((self.now)() - control.begin);
        let ops = self.count(control);
        self.seen.running.fetch_sub(1, Ordering::SeqCst);
        if control.is_stopped() {
            return Err(Error::Stopped);
        }
        let (start, end) = control.window();
        let steps =
            if self.target == "huge" { vec![(u64::MAX, u64::MAX); 2 << 20] } else { vec![(1000, ops)] };
        let read = Operation {
            name: "read".to_owned(),
            direction: Direction::Read,
            ops,
            bytes: ops * BYTES,
            service: Distribution { steps, sum_ns: 1000 * ops },
            response: None,
        };
        Ok(Part {
            started: (control.begin + start) as f64 / 1e9,
            seconds: (end - start) as f64 / 1e9,
            operations: vec![read],
            ..Part::default()
        })
    }

    fn accepts_late_window(&self) -> bool {
        self.target != "early"
    }

    fn clear(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.seen.open.fetch_sub(1, Ordering::SeqCst);
    }
}
