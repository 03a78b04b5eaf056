//! Lock of a data directory: one process, and one [`crate::Volumes`] in it, may use the directory.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

pub(crate) struct DirLock(OwnedFd);

impl DirLock {
    /// Locks `dir`. Fails with [`io::ErrorKind::ResourceBusy`] if another process, or another
    /// `Volumes`, has locked it.
    pub(crate) fn new(dir: OwnedFd) -> io::Result<Self> {
        flock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
            Errno::WOULDBLOCK => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process serves this data directory")
            }
            errno => errno.into(),
        })?;
        Ok(Self(dir))
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that this process has just forked shares the descriptor, and the lock, until
        // it executes another program.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::tree::open_root;

    #[test]
    fn dropped_dir_lock_is_free_despite_inherited_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let open = || open_root(dir.path()).unwrap();
        let lock = DirLock::new(open()).unwrap();
        let busy = DirLock::new(open()).map(drop).map_err(|error| error.kind());
        assert_eq!(busy, Err(io::ErrorKind::ResourceBusy));
        // The descriptor that a forked child has until it executes another program.
        let inherited = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(DirLock::new(open()).is_ok());
        drop(inherited);
    }
}
