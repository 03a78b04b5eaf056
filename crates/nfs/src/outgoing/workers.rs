//! A few threads that wait for clients. They run only while jobs exist.

use crate::limits::{CALLBACK_HOSTS_KNOWN_MAX, CALLBACK_THREADS_MAX, CALLBACKS_QUEUED_MAX};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};
use std::thread;
use vfs::bounds::{Bounds, Party, Slot};
use vfs::panics;
use vfs::sync::Mutex;

/// Returns whether the host answered; `None` if the host was not called.
type Job = Box<dyn FnOnce() -> Option<bool> + Send>;

/// Runs jobs in order, one at a time per host. Hosts that did not answer share few threads.
/// Unknown hosts leave some threads to hosts that answer. So unresponsive hosts delay only each other.
pub(crate) struct Workers {
    queue: Mutex<Queue>,
    queued: Arc<Bounds>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<QueuedJob>,
    /// Hosts of running jobs, one for each busy thread.
    busy: HashSet<IpAddr>,
    at_work: [usize; LANES],
    threads: usize,
    /// Whether each host answered its last call.
    responsiveness: HashMap<IpAddr, bool>,
}

struct QueuedJob {
    host: IpAddr,
    job: Job,
    _room: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Answers,
    Unknown,
    Silent,
}

const LANES: usize = 3;
const STACK_BYTES: usize = 1 << 20;

impl Lane {
    fn threads_max(self) -> usize {
        match self {
            Self::Answers => CALLBACK_THREADS_MAX,
            Self::Unknown => CALLBACK_THREADS_MAX / 4 * 3,
            Self::Silent => CALLBACK_THREADS_MAX / 8,
        }
    }
}

impl Default for Workers {
    fn default() -> Self {
        Self { queue: Mutex::default(), queued: Bounds::new(CALLBACKS_QUEUED_MAX, 0) }
    }
}

impl Workers {
    /// Queues a job for a host; `false` if too many jobs of its network wait, or no thread can be started.
    pub(crate) fn submit(
        self: &Arc<Self>,
        host: IpAddr,
        party: &Party,
        job: impl FnOnce() -> Option<bool> + Send + 'static,
    ) -> bool {
        let Ok(room) = self.queued.take(party, 1) else { return false };
        let mut queue = self.queue();
        queue.jobs.push_back(QueuedJob { host, job: Box::new(job), _room: room });
        // A job that may not begin yet is picked up by a running thread.
        if queue.threads >= CALLBACK_THREADS_MAX || !queue.may_begin(host) {
            return true;
        }
        let workers = Arc::clone(self);
        let thread = thread::Builder::new().name("callback".into()).stack_size(STACK_BYTES);
        match thread.spawn(move || workers.work()) {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                tracing::warn!(%error, "cannot call clients: starting a thread failed");
                queue.jobs.pop_back();
                return false;
            }
            Err(_) => {}
        }
        true
    }

    /// Runs jobs until this thread may start no other.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let Some(at) = queue.next() else {
                queue.threads -= 1;
                return;
            };
            let Some(QueuedJob { host, job, _room }) = queue.jobs.remove(at) else { continue };
            let lane = queue.lane(host);
            queue.busy.insert(host);
            queue.at_work[lane as usize] += 1;
            drop(queue);
            // A panicking job has logged its panic; the next one runs.
            let has_answered = panics::catch(job).ok().flatten();
            let mut queue = self.queue();
            queue.busy.remove(&host);
            queue.at_work[lane as usize] -= 1;
            if let Some(has_answered) = has_answered {
                queue.record_answer(host, has_answered);
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

impl Queue {
    fn lane(&self, host: IpAddr) -> Lane {
        match self.responsiveness.get(&host) {
            Some(true) => Lane::Answers,
            None => Lane::Unknown,
            Some(false) => Lane::Silent,
        }
    }

    fn may_begin(&self, host: IpAddr) -> bool {
        let lane = self.lane(host);
        !self.busy.contains(&host) && self.at_work[lane as usize] < lane.threads_max()
    }

    fn next(&self) -> Option<usize> {
        let may_begin = |queued: &QueuedJob| self.may_begin(queued.host);
        let answers = |queued: &QueuedJob| self.lane(queued.host) == Lane::Answers && may_begin(queued);
        self.jobs.iter().position(answers).or_else(|| self.jobs.iter().position(may_begin))
    }

    fn record_answer(&mut self, host: IpAddr, has_answered: bool) {
        if self.responsiveness.len() >= CALLBACK_HOSTS_KNOWN_MAX && !self.responsiveness.contains_key(&host) {
            // Hosts that answer take precedence.
            self.responsiveness.retain(|_, has_answered| *has_answered);
            if self.responsiveness.len() >= CALLBACK_HOSTS_KNOWN_MAX {
                return;
            }
        }
        self.responsiveness.insert(host, has_answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;
    use vfs::bounds::Networks;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn host(number: u8) -> (IpAddr, Party) {
        let address = IpAddr::from([10, 0, 0, number]);
        (address, Party::of(Networks::default().of(address)))
    }

    fn submit(
        workers: &Arc<Workers>,
        number: u8,
        job: impl FnOnce() -> Option<bool> + Send + 'static,
    ) -> bool {
        let (address, party) = host(number);
        workers.submit(address, &party, job)
    }

    #[test]
    fn a_host_that_waits_holds_up_no_other_and_its_own_jobs_keep_their_order() {
        let workers = Arc::new(Workers::default());
        let (release, waits) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        assert!(submit(&workers, 1, move || waits.recv().ok().map(|()| true)));
        for (last, number) in [(1, 1), (1, 2), (2, 3)] {
            let sender = sender.clone();
            assert!(submit(&workers, last, move || sender.send(number).ok().map(|()| true)));
        }
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(3), "of the host that does not wait");
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(release);
        assert_eq!([receiver.recv_timeout(PATIENCE), receiver.recv_timeout(PATIENCE)], [Ok(1), Ok(2)]);
    }

    #[test]
    fn hosts_that_do_not_answer_hold_up_no_host_that_may() {
        let workers = Arc::new(Workers::default());
        let (release, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        let (sender, receiver) = mpsc::channel();
        let answered = sender.clone();
        assert!(submit(&workers, 200, move || answered.send(200).ok().map(|()| true)));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(200));
        // The answer is recorded after the job has ended.
        while workers.queue().lane(host(200).0) != Lane::Answers {
            thread::sleep(Duration::from_millis(1));
        }
        for silent in 0..64 {
            let waits = Arc::clone(&waits);
            assert!(submit(&workers, silent, move || waits.lock().recv().ok().map(|()| false)));
        }
        let answered = sender.clone();
        assert!(submit(&workers, 100, move || answered.send(100).ok().map(|()| true)));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(100), "64 hosts that are gone hold up nobody");
        for silent in 100..199 {
            let waits = Arc::clone(&waits);
            assert!(submit(&workers, silent, move || waits.lock().recv().ok().map(|()| false)));
        }
        assert!(submit(&workers, 200, move || sender.send(201).ok().map(|()| true)));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(201), "nor do any number one that is known to answer");
        drop(release);
    }

    #[test]
    fn hosts_that_were_silent_have_few_threads() {
        let workers = Arc::new(Workers::default());
        let (release, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        (0..200).for_each(|number| workers.queue().record_answer(host(number).0, false));
        for number in 0..200 {
            let waits = Arc::clone(&waits);
            assert!(submit(&workers, number, move || waits.lock().recv().ok().map(|()| false)));
        }
        let at_work = || workers.queue().at_work[Lane::Silent as usize];
        while at_work() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..100 {
            assert!(at_work() <= Lane::Silent.threads_max());
            thread::sleep(Duration::from_millis(1));
        }
        drop(release);
    }

    #[test]
    fn threads_and_jobs_are_bounded_and_a_panic_ends_neither() {
        let workers = Arc::new(Workers::default());
        let (release, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        for last in 0..200 {
            let waits = Arc::clone(&waits);
            assert!(submit(&workers, last, move || waits.lock().recv().ok().map(|()| true)));
        }
        assert!(workers.queue().threads <= CALLBACK_THREADS_MAX);
        let submitted = (0..2 * CALLBACKS_QUEUED_MAX).filter(|_| submit(&workers, 1, || None)).count();
        assert!(submitted < CALLBACKS_QUEUED_MAX / 2, "{submitted}");
        assert!(submit(&workers, 201, || None), "another network finds room");
        drop(release);
        let (sender, receiver) = mpsc::channel();
        let deadline = std::time::Instant::now() + PATIENCE;
        let is_late = || std::time::Instant::now() >= deadline;
        while !workers.queue().jobs.is_empty() && !is_late() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(submit(&workers, 1, || panic!("a job")));
        assert!(submit(&workers, 1, move || sender.send(()).ok().map(|()| true)));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(()));
        while workers.queued.used() > 0 {
            assert!(!is_late(), "room is free again once a job is done");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
