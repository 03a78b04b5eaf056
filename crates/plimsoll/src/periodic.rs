//! Periodic tasks, each on a thread of its own: a task that blocks delays no other, and a task that panics runs again.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use vfs::panics;
use vfs::sync::{Condvar, Mutex};

const POLL: Duration = Duration::from_millis(2);

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

    /// Does it until the end has come.
    fn start(self, end: &Arc<End>) -> std::io::Result<JoinHandle<()>> {
        let Self { name, every, mut work } = self;
        let end = Arc::clone(end);
        let run = move || {
            while !end.wait(every) {
                // A task that panics has released its locks: `vfs::sync` never poisons them.
                if panics::catch(&mut work).is_err() {
                    tracing::error!(task = name, "a task panicked: it goes on the next time");
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)
    }
}

/// Running tasks.
pub(crate) struct Tasks {
    end: Arc<End>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct End {
    has_come: Mutex<bool>,
    changed: Condvar,
}

impl End {
    /// Waits about this long. Whether the end has come.
    fn wait(&self, time: Duration) -> bool {
        let has_come = self.has_come.lock();
        *has_come || *self.changed.wait_timeout(has_come, time).0
    }
}

impl Tasks {
    pub(crate) fn start(tasks: impl IntoIterator<Item = Task>) -> Self {
        let end = Arc::default();
        let start = |task: Task| {
            let name = task.name;
            let started = task.start(&end);
            started.inspect_err(|error| tracing::error!(task = name, %error, "a task cannot be started")).ok()
        };
        Self { threads: tasks.into_iter().filter_map(start).collect(), end }
    }

    /// Ends all tasks, and waits at most this long for those that are working: what they use is free then.
    pub(crate) fn stop(self, patience: Duration) {
        *self.end.has_come.lock() = true;
        self.end.changed.notify_all();
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline && !self.threads.iter().all(JoinHandle::is_finished) {
            thread::sleep(POLL);
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
        let waits = Task::new("waits", SOON, move || _ = waits.recv());
        let (done, times) = mpsc::channel();
        let (before, mut count) = (panics::caught(), 0);
        let work = move || {
            count += 1;
            // Nobody listens any more once the test is over.
            _ = done.send(count);
            assert!(count % 2 == 0, "every second time");
        };
        let tasks = Tasks::start([waits, Task::new("panics", SOON, work)]);
        let delays: Vec<i32> = times.iter().take(5).collect();
        assert_eq!(delays, [1, 2, 3, 4, 5]);
        assert!(panics::caught() >= before + 2);
        drop(let_go);
        tasks.stop(Duration::from_secs(60));
        assert!(times.try_iter().count() < 1_000_000 && times.recv().is_err(), "the task has ended");
    }
}
