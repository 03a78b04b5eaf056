//! Who has a data directory: one process, and of that one [`crate::Volumes`].

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// A directory that is locked until this is dropped.
pub(crate) struct DirLock(OwnedFd);

impl DirLock {
    /// Locks `dir`. [`io::ErrorKind::ResourceBusy`] if another process, or another of these, has it.
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
        // Closing is not enough: a child that this process has just forked has the descriptor, too, until it executes another
        // program, and the lock would stay for as long.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::tree::open_root;

    #[test]
    fn a_directory_is_free_once_it_is_given_up_also_where_a_child_has_inherited_it() {
        let dir = tempfile::tempdir().unwrap();
        let open = || open_root(dir.path()).unwrap();
        let claim = DirLock::new(open()).unwrap();
        let busy = DirLock::new(open()).map(drop).map_err(|error| error.kind());
        assert_eq!(busy, Err(io::ErrorKind::ResourceBusy));
        // What fork(2) makes, and closes only when it executes something.
        let inherited = claim.0.try_clone().unwrap();
        drop(claim);
        assert!(DirLock::new(open()).is_ok());
        drop(inherited);
    }
}
