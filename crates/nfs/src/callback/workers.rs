//! Threads that wait for clients: few, and only while there is something to do.

use crate::limits::{CALLBACK_THREADS_MAX, CALLBACKS_QUEUED_MAX};
use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use vfs::panics;

type Job = Box<dyn FnOnce() + Send>;

/// Does jobs in the order in which they come, one at a time for each host: a host that does not answer holds
/// up one thread.
#[derive(Default)]
pub(crate) struct Workers(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(IpAddr, Job)>,
    /// The hosts that jobs are being done for, one for each thread at work.
    busy: HashSet<IpAddr>,
    threads: usize,
}

impl Workers {
    /// Has a job done for a host. `false`: too many wait, or there is no thread to be had.
    pub(crate) fn submit(self: &Arc<Self>, host: IpAddr, job: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = self.queue();
        if queue.jobs.len() >= CALLBACKS_QUEUED_MAX {
            return false;
        }
        queue.jobs.push_back((host, Box::new(job)));
        if queue.threads >= CALLBACK_THREADS_MAX || queue.busy.contains(&host) {
            return true;
        }
        let workers = Arc::clone(self);
        match thread::Builder::new().name("callback".into()).spawn(move || workers.work()) {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                tracing::warn!(%error, "clients cannot be called: no thread can be started");
                queue.jobs.pop_back();
                return false;
            }
            Err(_) => {}
        }
        true
    }

    /// Does jobs until none is left that no other thread must do.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let Some(at) = queue.jobs.iter().position(|(host, _)| !queue.busy.contains(host)) else {
                queue.threads -= 1;
                return;
            };
            let Some((host, job)) = queue.jobs.remove(at) else { continue };
            queue.busy.insert(host);
            drop(queue);
            // One that panics has said so, and the next is done.
            let _ = panics::catch(job);
            self.queue().busy.remove(&host);
        }
    }

    /// Whether nothing is being done.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.queue().threads == 0
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn host(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_host_that_waits_holds_up_no_other_and_its_own_jobs_keep_their_order() {
        let workers = Arc::new(Workers::default());
        let (let_go, waits) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        assert!(workers.submit(host(1), move || _ = waits.recv()));
        for (last, number) in [(1, 1), (1, 2), (2, 3)] {
            let tell = tell.clone();
            assert!(workers.submit(host(last), move || _ = tell.send(number)));
        }
        assert_eq!(told.recv_timeout(PATIENCE), Ok(3), "of the host that does not wait");
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(let_go);
        assert_eq!([told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)], [Ok(1), Ok(2)]);
    }

    #[test]
    fn threads_and_jobs_are_bounded_and_a_panic_ends_neither() {
        let workers = Arc::new(Workers::default());
        let (let_go, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        for last in 0..200 {
            let waits = Arc::clone(&waits);
            assert!(workers.submit(host(last), move || _ = waits.lock().unwrap().recv()));
        }
        assert_eq!(workers.queue().threads, CALLBACK_THREADS_MAX);
        let submitted = (0..2 * CALLBACKS_QUEUED_MAX).filter(|_| workers.submit(host(1), || {})).count();
        assert!(submitted <= CALLBACKS_QUEUED_MAX, "{submitted}");
        drop(let_go);
        let (tell, told) = mpsc::channel();
        let deadline = std::time::Instant::now() + PATIENCE;
        while !workers.queue().jobs.is_empty() && std::time::Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(workers.submit(host(1), || panic!("a job")));
        assert!(workers.submit(host(1), move || _ = tell.send(())));
        assert_eq!(told.recv_timeout(PATIENCE), Ok(()));
    }
}
