//! What is remembered of lists of POSIX: one a file, under its change time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use vfs::sync::Mutex;
use vfs::{PosixAcl, Time};

/// Most entries by number of a list that is remembered: longer ones are read each time.
const CACHED_ENTRIES_MAX: usize = 16;
/// A change time that no file has.
const NEVER: u64 = u64::MAX;

/// What is remembered of a file's access list.
pub(crate) struct AclCache {
    /// The change time at which there was none.
    absent_at: AtomicU64,
    /// The list, and its change time; made for the first.
    list: OnceLock<Box<Mutex<Listed>>>,
    /// It was read once, so that the kernel has it in memory with the file.
    was_read: AtomicBool,
}

type Listed = Option<(u64, Arc<PosixAcl>)>;

impl Default for AclCache {
    fn default() -> Self {
        Self { absent_at: AtomicU64::new(NEVER), list: OnceLock::new(), was_read: AtomicBool::new(false) }
    }
}

impl AclCache {
    /// The list at this change time, or that there was none, if that is known.
    #[inline]
    pub(crate) fn get(&self, changed: Time) -> Option<Option<Arc<PosixAcl>>> {
        let changed = stamp(changed);
        if self.absent_at.load(Ordering::Relaxed) == changed {
            return Some(None);
        }
        let listed = self.list.get()?.lock();
        listed.as_ref().filter(|(at, _)| *at == changed).map(|(_, acl)| Some(Arc::clone(acl)))
    }

    pub(crate) fn insert(&self, changed: Time, acl: Option<&Arc<PosixAcl>>) {
        let changed = stamp(changed);
        match acl {
            None => self.absent_at.store(changed, Ordering::Relaxed),
            Some(acl) if acl.users.len() + acl.groups.len() <= CACHED_ENTRIES_MAX => {
                let listed = self.list.get_or_init(Box::default);
                *listed.lock() = Some((changed, Arc::clone(acl)));
            }
            Some(_) => {}
        }
    }

    /// Whether it was read once, so that the kernel has it in memory with the file.
    pub(crate) fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Relaxed)
    }

    pub(crate) fn note_read(&self) {
        self.was_read.store(true, Ordering::Relaxed);
    }
}

/// A change time as a number. Those that are the same lie more than five hundred years apart.
fn stamp(time: Time) -> u64 {
    time.seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.nanos.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_recalled_at_its_change_time_alone() {
        let acl = |users: u32| {
            let users = (0..users).map(|uid| (uid, 7)).collect();
            Arc::new(PosixAcl { owner: 7, group: 0, mask: Some(7), other: 0, users, groups: [].into() })
        };
        let (memory, at) = (AclCache::default(), |nanos| Time { seconds: 5, nanos });
        assert_eq!(memory.get(at(0)), None);
        memory.insert(at(5), None);
        assert_eq!((memory.get(at(5)), memory.get(at(6))), (Some(None), None));
        memory.insert(at(6), Some(&acl(3)));
        assert_eq!((memory.get(at(6)), memory.get(at(7))), (Some(Some(acl(3))), None));
        memory.insert(at(7), Some(&acl(17)));
        assert_eq!(memory.get(at(7)), None, "a long one is not kept");
        assert_ne!(stamp(Time { seconds: -1, nanos: 0 }), stamp(Time { seconds: 0, nanos: 0 }));
    }
}
