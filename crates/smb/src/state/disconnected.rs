//! Connections that are gone, and what ends with them.
//!
//! Whoever is the last to have a connection may hold the lock of a file, whose change the client is told of. Sessions end on threads of
//! their own, because what they have open is closed under such locks.
//!
//! Users take turns: of each, one thread ends one session or closes some opens at a time. However much one has left, others wait for
//! one such step.

use super::counters::Counted;
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

/// Users whose sessions end at a time.
const THREADS: usize = 4;
/// Opens that are closed before it is another user's turn.
const CLOSED_AT_ONCE_MAX: usize = 64;

/// Where connections part with their sessions.
#[derive(Default)]
pub(crate) struct Endings(Arc<Shared>);

#[derive(Default)]
struct Shared {
    line: Mutex<Line>,
    changed: Condvar,
}

/// A user by number; none for sessions that are anonymous or not set up.
type User = Option<u32>;

#[derive(Default)]
struct Line {
    tasks: HashMap<User, VecDeque<Task>>,
    /// The users who have tasks and are not being worked for.
    turns: VecDeque<User>,
    working: HashSet<User>,
    threads: usize,
    is_open: bool,
    /// The process ends: what is left is left.
    is_given_up: bool,
}

/// A connection that is gone, with what it had of sessions.
pub(crate) struct Gone {
    pub(crate) service: Arc<Service>,
    /// The connection's.
    pub(crate) number: u64,
    pub(crate) channels: Vec<Arc<Channel>>,
    /// It counts until all that is done.
    pub(crate) counted: Option<Counted>,
}

struct Task {
    service: Arc<Service>,
    what: What,
    counted: Arc<Option<Counted>>,
}

enum What {
    /// A connection of this number parts with a session.
    Part(Arc<Channel>, u64),
    /// Opens of a session that has ended are closed.
    Close(Vec<Arc<Open>>),
}

impl Endings {
    /// From now on, threads see to them.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.0.line.lock().is_open = true;
        for _ in 0..THREADS {
            let shared = Arc::clone(&self.0);
            shared.line.lock().threads += 1;
            let work = move || shared.work();
            let started = thread::Builder::new().name("smb-endings".to_owned()).spawn(work);
            if let Err(error) = started {
                self.0.line.lock().threads -= 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits at most `patience` for all that are gone; what is left then ends with the process. Later ones are seen to by whoever notices.
    pub(crate) fn stop(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut line = self.0.line.lock();
        line.is_open = false;
        self.0.changed.notify_all();
        while line.threads > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                line.is_given_up = true;
                self.0.changed.notify_all();
                tracing::warn!("what clients have left is not closed in time: it ends with the process");
                return;
            }
            (line, _) = self.0.changed.wait_timeout(line, left);
        }
    }

    pub(crate) fn add(&self, gone: Gone) {
        let Gone { service, number, channels, counted } = gone;
        let counted = Arc::new(counted);
        for channel in channels {
            let user = channel.session.identity().map(|identity| identity.credential.uid);
            let what = What::Part(channel, number);
            self.add_task(user, Task { service: Arc::clone(&service), what, counted: Arc::clone(&counted) });
        }
    }

    fn add_task(&self, user: User, task: Task) {
        let mut line = self.0.line.lock();
        if line.is_open || line.is_given_up {
            line.add(user, [task]);
            self.0.changed.notify_one();
            return;
        }
        drop(line);
        let mut task = Some(task);
        while let Some(this) = task {
            task = this.run();
        }
    }
}

impl Line {
    /// Adds tasks of a user.
    fn add(&mut self, user: User, tasks: impl IntoIterator<Item = Task>) {
        let of_user = self.tasks.entry(user).or_default();
        let was_empty = of_user.is_empty();
        of_user.extend(tasks);
        if was_empty && !of_user.is_empty() && !self.working.contains(&user) {
            self.turns.push_back(user);
        }
    }

    /// A task of the user whose turn it is.
    fn take(&mut self) -> Option<(User, Task)> {
        let user = self.turns.pop_front()?;
        let task = self.tasks.get_mut(&user)?.pop_front()?;
        self.working.insert(user);
        Some((user, task))
    }

    /// A task of a user is done, but for this. Another user comes first.
    fn done(&mut self, user: User, left: Option<Task>) {
        self.working.remove(&user);
        let Some(of_user) = self.tasks.get_mut(&user) else { return };
        left.into_iter().for_each(|task| of_user.push_front(task));
        if of_user.is_empty() {
            self.tasks.remove(&user);
        } else {
            self.turns.push_back(user);
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut line = self.line.lock();
        loop {
            if line.is_given_up || (!line.is_open && line.turns.is_empty() && line.working.is_empty()) {
                break;
            }
            let Some((user, task)) = line.take() else {
                line = self.changed.wait(line);
                continue;
            };
            drop(line);
            // One that panics has said so.
            let left = panics::catch(|| task.run()).ok().flatten();
            line = self.line.lock();
            line.done(user, left);
            self.changed.notify_all();
        }
        line.threads -= 1;
        self.changed.notify_all();
    }
}

impl Task {
    /// Does a step of it: what is left of it then.
    fn run(self) -> Option<Self> {
        let Self { service, what, counted } = self;
        let opens = match what {
            What::Part(channel, number) => service.part(&channel, number),
            What::Close(mut opens) => {
                let closed = opens.split_off(opens.len().saturating_sub(CLOSED_AT_ONCE_MAX));
                closed.iter().for_each(|open| service.let_go(open));
                opens
            }
        };
        (!opens.is_empty()).then_some(Self { service, what: What::Close(opens), counted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user_of(line: &mut Line) -> Option<User> {
        line.take().map(|(user, _)| user)
    }

    #[test]
    fn users_take_turns_however_much_one_has_left() {
        let service = crate::state::service::tests::service();
        let task =
            || Task { service: Arc::clone(&service), what: What::Close(Vec::new()), counted: Arc::new(None) };
        let mut line = Line::default();
        line.add(Some(1), (0..1000).map(|_| task()));
        line.add(Some(2), [task()]);
        assert_eq!(user_of(&mut line), Some(Some(1)));
        line.add(Some(3), [task()]);
        assert_eq!(user_of(&mut line), Some(Some(2)), "one thread works for each");
        assert_eq!(user_of(&mut line), Some(Some(3)));
        assert_eq!(user_of(&mut line), None, "the first is being worked for");
        line.done(Some(1), Some(task()));
        line.done(Some(2), None);
        line.add(Some(2), [task()]);
        assert_eq!(user_of(&mut line), Some(Some(1)));
        assert_eq!(user_of(&mut line), Some(Some(2)));
    }

    #[test]
    fn the_end_does_not_wait_for_a_user_who_has_left_too_much() {
        let endings = Endings::default();
        endings.start().unwrap();
        let service = crate::state::service::tests::service();
        // The lock under which sessions end, as if one took for ever.
        let held = service.hold_endings(None);
        let (connection, _) = crate::state::service::tests::begin(&service, 0, Instant::now());
        let channels = connection.take_channels();
        assert!(!channels.is_empty());
        endings.add(Gone { service: Arc::clone(&service), number: 1, channels, counted: None });
        endings.stop(Duration::from_millis(10));
        assert!(endings.0.line.lock().is_given_up);
        drop(held);
        let mut line = endings.0.line.lock();
        while line.threads > 0 {
            line = endings.0.changed.wait(line);
        }
    }
}
