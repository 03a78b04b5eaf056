//! Cleanup of closed connections.
//!
//! Sessions close on threads of their own: a connection may be dropped under a file's lock, which closing the
//! session's opens needs.
//!
//! Users take turns. One thread at a time ends one session, or closes some opens, of a user; then another user
//! follows.

use super::counters::CountGuard;
use super::open::Open;
use super::service::Service;
use super::session::channel::Channel;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use vfs::panics;
use vfs::sync::{Condvar, Mutex};

/// Users whose sessions are cleaned up at the same time.
const THREADS: usize = 4;
/// Opens that are closed before another user's turn.
const CLOSED_AT_ONCE_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct CleanupQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<TaskQueue>,
    changed: Condvar,
}

/// The uid; none for sessions that are anonymous or not set up.
type User = Option<u32>;

#[derive(Default)]
struct TaskQueue {
    tasks: HashMap<User, VecDeque<Task>>,
    /// Users with tasks, none of which is running.
    ready: VecDeque<User>,
    active: HashSet<User>,
    threads: usize,
    is_open: bool,
    /// Whether the process ends without the remaining tasks.
    is_abandoned: bool,
}

/// A closed connection, with its channels.
pub(crate) struct ClosedConnection {
    pub(crate) service: Arc<Service>,
    pub(crate) number: u64,
    pub(crate) channels: Vec<Arc<Channel>>,
    /// Counts the connection until its cleanup is done.
    pub(crate) guard: Option<CountGuard>,
}

struct Task {
    service: Arc<Service>,
    step: CleanupStep,
    guard: Arc<Option<CountGuard>>,
}

enum CleanupStep {
    /// Detaches a channel from the connection with this number.
    Detach(Arc<Channel>, u64),
    /// Closes opens of an ended session.
    Close(Vec<Arc<Open>>),
}

impl CleanupQueue {
    /// Starts the threads.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.0.queue.lock().is_open = true;
        for _ in 0..THREADS {
            let shared = Arc::clone(&self.0);
            shared.queue.lock().threads += 1;
            let work = move || shared.run_tasks();
            let started = thread::Builder::new().name("smb-endings".to_owned()).spawn(work);
            if let Err(error) = started {
                self.0.queue.lock().threads -= 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits at most `patience` for all tasks; remaining ones end with the process. Tasks added later run in the
    /// caller's thread.
    pub(crate) fn stop(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut queue = self.0.queue.lock();
        queue.is_open = false;
        self.0.changed.notify_all();
        while queue.threads > 0 {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                queue.is_abandoned = true;
                self.0.changed.notify_all();
                tracing::warn!("what clients have left is not closed in time: it ends with the process");
                return;
            }
            (queue, _) = self.0.changed.wait_timeout(queue, remaining);
        }
    }

    pub(crate) fn add(&self, closed: ClosedConnection) {
        let ClosedConnection { service, number, channels, guard } = closed;
        let guard = Arc::new(guard);
        for channel in channels {
            let user = channel.session.identity().map(|identity| identity.credential.uid);
            let step = CleanupStep::Detach(channel, number);
            self.add_task(user, Task { service: Arc::clone(&service), step, guard: Arc::clone(&guard) });
        }
    }

    fn add_task(&self, user: User, task: Task) {
        let mut queue = self.0.queue.lock();
        if queue.is_open || queue.is_abandoned {
            queue.add(user, [task]);
            self.0.changed.notify_one();
            return;
        }
        drop(queue);
        let mut task = Some(task);
        while let Some(this) = task {
            task = this.run();
        }
    }
}

impl TaskQueue {
    fn add(&mut self, user: User, tasks: impl IntoIterator<Item = Task>) {
        let of_user = self.tasks.entry(user).or_default();
        let was_empty = of_user.is_empty();
        of_user.extend(tasks);
        if was_empty && !of_user.is_empty() && !self.active.contains(&user) {
            self.ready.push_back(user);
        }
    }

    fn take(&mut self) -> Option<(User, Task)> {
        let user = self.ready.pop_front()?;
        let task = self.tasks.get_mut(&user)?.pop_front()?;
        self.active.insert(user);
        Some((user, task))
    }

    /// Ends a task of a user, of which `remaining` is left. Other users come first.
    fn finish(&mut self, user: User, remaining: Option<Task>) {
        self.active.remove(&user);
        let Some(of_user) = self.tasks.get_mut(&user) else { return };
        remaining.into_iter().for_each(|task| of_user.push_front(task));
        if of_user.is_empty() {
            self.tasks.remove(&user);
        } else {
            self.ready.push_back(user);
        }
    }
}

impl Shared {
    fn run_tasks(&self) {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_abandoned || (!queue.is_open && queue.ready.is_empty() && queue.active.is_empty()) {
                break;
            }
            let Some((user, task)) = queue.take() else {
                queue = self.changed.wait(queue);
                continue;
            };
            drop(queue);
            // The panic was logged.
            let remaining = panics::catch(|| task.run()).ok().flatten();
            queue = self.queue.lock();
            queue.finish(user, remaining);
            self.changed.notify_all();
        }
        queue.threads -= 1;
        self.changed.notify_all();
    }
}

impl Task {
    /// Runs a step of the task. Returns the remaining task.
    fn run(self) -> Option<Self> {
        let Self { service, step, guard } = self;
        let opens = match step {
            CleanupStep::Detach(channel, number) => service.detach_channel(&channel, number),
            CleanupStep::Close(mut opens) => {
                let closed = opens.split_off(opens.len().saturating_sub(CLOSED_AT_ONCE_MAX));
                closed.iter().for_each(|open| service.release_open(open));
                opens
            }
        };
        (!opens.is_empty()).then_some(Self { service, step: CleanupStep::Close(opens), guard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user_of(queue: &mut TaskQueue) -> Option<User> {
        queue.take().map(|(user, _)| user)
    }

    #[test]
    fn cleanup_alternates_between_users() {
        let service = crate::state::service::tests::service();
        let task = || Task {
            service: Arc::clone(&service),
            step: CleanupStep::Close(Vec::new()),
            guard: Arc::new(None),
        };
        let mut queue = TaskQueue::default();
        queue.add(Some(1), (0..1000).map(|_| task()));
        queue.add(Some(2), [task()]);
        assert_eq!(user_of(&mut queue), Some(Some(1)));
        queue.add(Some(3), [task()]);
        assert_eq!(user_of(&mut queue), Some(Some(2)), "one thread works for each");
        assert_eq!(user_of(&mut queue), Some(Some(3)));
        assert_eq!(user_of(&mut queue), None, "the first is being worked for");
        queue.finish(Some(1), Some(task()));
        queue.finish(Some(2), None);
        queue.add(Some(2), [task()]);
        assert_eq!(user_of(&mut queue), Some(Some(1)));
        assert_eq!(user_of(&mut queue), Some(Some(2)));
    }

    #[test]
    fn stop_returns_at_the_deadline_despite_a_stuck_user() {
        let endings = CleanupQueue::default();
        endings.start().unwrap();
        let service = crate::state::service::tests::service();
        // The lock under which sessions end, held as if an end took forever.
        let lock = service.lock_cleanup(None);
        let (connection, _) = crate::state::service::tests::begin(&service, 0, Instant::now());
        let channels = connection.take_channels();
        assert!(!channels.is_empty());
        endings.add(ClosedConnection { service: Arc::clone(&service), number: 1, channels, guard: None });
        endings.stop(Duration::from_millis(10));
        assert!(endings.0.queue.lock().is_abandoned);
        drop(lock);
        let mut queue = endings.0.queue.lock();
        while queue.threads > 0 {
            queue = endings.0.changed.wait(queue);
        }
    }
}
