//! Periodic tasks, each on a thread of its own: a task that blocks delays no other, and a task that panics runs again.

use std::thread;
use std::time::Duration;
use vfs::panics;

/// Something to do again and again.
pub(crate) struct Task {
    name: &'static str,
    every: Duration,
    work: Box<dyn FnMut() + Send>,
}

impl Task {
    /// `work`, with `every` between the end of one time and the beginning of the next.
    pub(crate) fn new(name: &'static str, every: Duration, work: impl FnMut() + Send + 'static) -> Self {
        Self { name, every, work: Box::new(work) }
    }

    /// Does it until the process ends.
    pub(crate) fn start(self) {
        let Self { name, every, mut work } = self;
        let run = move || {
            loop {
                thread::sleep(every);
                // A task that panics has released its locks: `vfs::sync` never poisons them.
                if panics::catch(&mut work).is_err() {
                    tracing::error!(task = name, "a task panicked: it goes on the next time");
                }
            }
        };
        if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(run) {
            tracing::error!(task = name, %error, "a task cannot be started");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_task_that_panics_goes_on_and_one_that_waits_holds_up_no_other() {
        const SOON: Duration = Duration::from_millis(1);
        let (let_go, waits) = mpsc::channel::<()>();
        Task::new("waits", SOON, move || _ = waits.recv()).start();
        let (done, times) = mpsc::channel();
        let (before, mut count) = (panics::caught(), 0);
        let work = move || {
            count += 1;
            // Nobody listens any more once the test is over.
            _ = done.send(count);
            assert!(count % 2 == 0, "every second time");
        };
        Task::new("panics", SOON, work).start();
        let delays: Vec<i32> = times.iter().take(5).collect();
        assert_eq!(delays, [1, 2, 3, 4, 5]);
        assert!(panics::caught() >= before + 2);
        drop(let_go);
    }
}
