//! Storage threads: as many as there are jobs, up to a bound.

use crate::limits::{IDLE_THREAD_S, STORAGE_THREADS_MAX};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use vfs::sync::{Condvar, Mutex};

/// The function that runs a job. It may submit further ones.
type Run<J> = dyn Fn(&Arc<Pool<J>>, J) + Send + Sync;

pub(crate) struct Pool<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    /// The length of the queue, to be read without the lock.
    waiting: Arc<AtomicUsize>,
    run: Box<Run<J>>,
}

struct State<J> {
    jobs: VecDeque<J>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl<J: Send + 'static> Pool<J> {
    /// A pool without threads: they start with the jobs. `waiting` receives the length of the queue.
    pub(crate) fn new(
        waiting: &Arc<AtomicUsize>,
        run: impl Fn(&Arc<Self>, J) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = State { jobs: VecDeque::new(), threads: 0, idle: 0, closed: false };
        Arc::new(Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            waiting: Arc::clone(waiting),
            run: Box::new(run),
        })
    }

    /// Queues a job. Starts another thread if all are busy and the bound allows it.
    pub(crate) fn submit(self: &Arc<Self>, job: J) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        self.waiting.store(state.jobs.len(), Ordering::Relaxed);
        // An idle thread may already be notified for an earlier job: each queued job needs its own.
        if state.idle >= state.jobs.len() {
            drop(state);
            self.work.notify_one();
        } else if state.threads < STORAGE_THREADS_MAX {
            state.threads += 1;
            drop(state);
            self.start_thread();
        }
    }

    /// Ends the threads when the queue is empty.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
    }

    fn start_thread(self: &Arc<Self>) {
        let pool = Arc::clone(self);
        let started = std::thread::Builder::new().name("storage".into()).spawn(move || pool.work());
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start a storage thread");
            self.lock().threads -= 1;
            // Existing threads take the jobs. If there are none, all run here: those of failed starts at the same time too.
            while let Some(job) = self.take_stranded_job() {
                (self.run)(self, job);
            }
        }
    }

    /// The next job, if there is no thread for it.
    fn take_stranded_job(&self) -> Option<J> {
        let mut state = self.lock();
        let job = if state.threads == 0 { state.jobs.pop_front() } else { None };
        self.waiting.store(state.jobs.len(), Ordering::Relaxed);
        job
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                self.waiting.store(state.jobs.len(), Ordering::Relaxed);
                drop(state);
                (self.run)(self, job);
                state = self.lock();
            } else if state.closed {
                break;
            } else {
                state.idle += 1;
                let patience = Duration::from_secs(IDLE_THREAD_S);
                let (guard, waited) = self.work.wait_timeout(state, patience);
                state = guard;
                state.idle -= 1;
                if waited.timed_out() && state.jobs.is_empty() {
                    break;
                }
            }
        }
        state.threads -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_pool_grows_with_its_jobs_up_to_the_bound() {
        let (done, finished) = mpsc::channel();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let job_gate = Arc::clone(&gate);
        let pool = Pool::new(&Arc::default(), move |_, job: usize| {
            let open = job_gate.0.lock();
            drop(job_gate.1.wait_while(open, |open| !*open));
            done.send(job).unwrap();
        });
        let jobs = STORAGE_THREADS_MAX * 3;
        (0..jobs).for_each(|job| pool.submit(job));
        assert_eq!(pool.lock().threads, STORAGE_THREADS_MAX);
        *gate.0.lock() = true;
        gate.1.notify_all();
        let mut seen: Vec<usize> = (0..jobs).map(|_| finished.recv().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..jobs).collect::<Vec<_>>());
        pool.close();
    }
}
