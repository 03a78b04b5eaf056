//! A cache of one POSIX ACL per file, keyed by change time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use vfs::sync::Mutex;
use vfs::{PosixAcl, Time};

/// Longest ACL to cache, in entries. Longer ones are read each time.
const CACHED_ENTRIES_MAX: usize = 16;
/// A change time that no file has.
const NEVER: u64 = u64::MAX;

pub(crate) struct AclCache {
    /// The change time at which the file had no ACL.
    absent_at: AtomicU64,
    /// The ACL with its change time. Allocated on first use.
    list: OnceLock<Box<Mutex<Listed>>>,
    /// The ACL was read once, so the kernel has it in memory with the file.
    was_read: AtomicBool,
}

type Listed = Option<(u64, Arc<PosixAcl>)>;

impl Default for AclCache {
    fn default() -> Self {
        Self { absent_at: AtomicU64::new(NEVER), list: OnceLock::new(), was_read: AtomicBool::new(false) }
    }
}

impl AclCache {
    /// The ACL at this change time, `Some(None)` for no ACL, or `None` if unknown.
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

    pub(crate) fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Relaxed)
    }

    pub(crate) fn note_read(&self) {
        self.was_read.store(true, Ordering::Relaxed);
    }
}

/// A change time as a number. Equal numbers of different times are more than five hundred years apart.
fn stamp(time: Time) -> u64 {
    time.seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.nanos.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_is_cached_for_its_change_time_only() {
        let acl = |users: u32| {
            let users = (0..users).map(|uid| (uid, 7)).collect();
            Arc::new(PosixAcl { owner: 7, group: 0, mask: Some(7), other: 0, users, groups: [].into() })
        };
        let (cache, at) = (AclCache::default(), |nanos| Time { seconds: 5, nanos });
        assert_eq!(cache.get(at(0)), None);
        cache.insert(at(5), None);
        assert_eq!((cache.get(at(5)), cache.get(at(6))), (Some(None), None));
        cache.insert(at(6), Some(&acl(3)));
        assert_eq!((cache.get(at(6)), cache.get(at(7))), (Some(Some(acl(3))), None));
        cache.insert(at(7), Some(&acl(17)));
        assert_eq!(cache.get(at(7)), None, "a long one is not kept");
        assert_ne!(stamp(Time { seconds: -1, nanos: 0 }), stamp(Time { seconds: 0, nanos: 0 }));
    }
}
