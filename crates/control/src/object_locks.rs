//! Order among changes: changes of one object run one after the other, changes of different objects side by side.
//!
//! A change locks all its objects in one call, before it takes any other lock. The call acquires them in the order of
//! [`Object`], volumes before pools and each kind by name, so that no two changes wait for each other. Each object serves its
//! waiters in the order in which they came.

use crate::name::{PoolName, VolumeName};
use std::collections::{BTreeMap, HashMap, VecDeque};
use vfs::sync::{Condvar, Mutex};

/// The order of this type is the order of acquisition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Object {
    Volume(VolumeName),
    Pool(PoolName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The object does not change: several changes can rely on it.
    Shared,
    Exclusive,
}

pub(crate) type Objects = BTreeMap<Object, Mode>;

#[derive(Default)]
pub(crate) struct ObjectLocks {
    queues: Mutex<Queues>,
    released: Condvar,
}

#[derive(Default)]
struct Queues {
    next_ticket: u64,
    /// Holders and waiters of each object, in order of arrival.
    each: HashMap<Object, VecDeque<Entry>>,
}

struct Entry {
    ticket: u64,
    mode: Mode,
}

/// Unlocks its objects when dropped.
pub(crate) struct Locked<'l> {
    locks: &'l ObjectLocks,
    ticket: u64,
    objects: Vec<Object>,
}

impl ObjectLocks {
    /// Blocks until all these objects are locked.
    pub(crate) fn lock(&self, objects: &Objects) -> Locked<'_> {
        let mut queues = self.queues.lock();
        let ticket = queues.next_ticket;
        queues.next_ticket += 1;
        drop(queues);
        let mut locked = Locked { locks: self, ticket, objects: Vec::new() };
        for (object, &mode) in objects {
            let mut queues = self.queues.lock();
            queues.each.entry(object.clone()).or_default().push_back(Entry { ticket, mode });
            locked.objects.push(object.clone());
            while !queues.is_held(object, ticket) {
                queues = self.released.wait(queues);
            }
        }
        locked
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.lock().each.is_empty()
    }
}

impl Queues {
    /// Whether the entry of this ticket is first, or shared like all entries before it.
    fn is_held(&self, object: &Object, ticket: u64) -> bool {
        let Some(queue) = self.each.get(object) else { return false };
        let mut before = queue.iter().take_while(|entry| entry.ticket != ticket).peekable();
        if before.peek().is_none() {
            return true;
        }
        let own = queue.iter().find(|entry| entry.ticket == ticket);
        own.is_some_and(|own| own.mode == Mode::Shared) && before.all(|entry| entry.mode == Mode::Shared)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let mut queues = self.locks.queues.lock();
        for object in &self.objects {
            if let Some(queue) = queues.each.get_mut(object) {
                queue.retain(|entry| entry.ticket != self.ticket);
                if queue.is_empty() {
                    queues.each.remove(object);
                }
            }
        }
        drop(queues);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const MOMENT: Duration = Duration::from_millis(50);
    const PATIENCE: Duration = Duration::from_secs(10);

    fn objects(of: &[(&str, Mode)]) -> Objects {
        of.iter().map(|(name, mode)| (Object::Pool(PoolName::stored((*name).to_owned())), *mode)).collect()
    }

    #[test]
    fn volumes_are_acquired_before_pools() {
        let volume = Object::Volume(VolumeName::stored("z".to_owned()));
        assert!(volume < Object::Pool(PoolName::stored("a".to_owned())));
    }

    #[test]
    fn shared_locks_overlap_and_exclusive_ones_do_not() {
        let locks = ObjectLocks::default();
        let (shared, exclusive) = (objects(&[("p", Mode::Shared)]), objects(&[("p", Mode::Exclusive)]));
        let first = locks.lock(&shared);
        let second = locks.lock(&shared);
        let other = locks.lock(&objects(&[("q", Mode::Exclusive)]));
        let (sender, events) = mpsc::channel();
        std::thread::scope(|scope| {
            let (locks, exclusive, shared) = (&locks, &exclusive, &shared);
            let writer = sender.clone();
            scope.spawn(move || {
                let _locked = locks.lock(exclusive);
                writer.send("exclusive").unwrap();
            });
            while locks.queues.lock().each.values().map(VecDeque::len).max() < Some(3) {
                std::thread::yield_now();
            }
            // A shared lock queues behind the exclusive one, or shared locks could starve it.
            scope.spawn(move || {
                let _locked = locks.lock(shared);
                sender.send("shared").unwrap();
            });
            assert!(events.recv_timeout(MOMENT).is_err());
            drop(first);
            assert!(events.recv_timeout(MOMENT).is_err());
            drop(second);
            assert_eq!(events.recv_timeout(PATIENCE), Ok("exclusive"));
            assert_eq!(events.recv_timeout(PATIENCE), Ok("shared"));
        });
        drop(other);
        assert!(locks.is_empty());
    }

    #[test]
    fn locks_of_several_objects_never_deadlock() {
        let locks = ObjectLocks::default();
        let sets = [
            objects(&[("a", Mode::Exclusive), ("b", Mode::Shared)]),
            objects(&[("b", Mode::Exclusive), ("a", Mode::Shared)]),
            objects(&[("c", Mode::Exclusive), ("a", Mode::Exclusive)]),
            objects(&[("b", Mode::Exclusive), ("c", Mode::Shared)]),
        ];
        std::thread::scope(|scope| {
            for set in &sets {
                let locks = &locks;
                scope.spawn(move || (0..1000).for_each(|_| drop(locks.lock(set))));
            }
        });
        assert!(locks.is_empty());
    }
}
