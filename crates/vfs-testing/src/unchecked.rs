//! Verbs without a caller to authorize, for tests: what they need of a file tree is made and read in one line.

use vfs::backend::{Blocking, CreatedEntry, NewInode, Node, NodeRef, Special};
use vfs::error::FsResult;
use vfs::model::attrs::Change;
use vfs::model::name::Name;

/// The mutations of [`Node`] with closures that allow everything, and reading into a vector of its own.
pub trait UncheckedNode: Node {
    fn read_vec(&self, offset: u64, len: usize, blocking: Blocking) -> FsResult<Vec<u8>> {
        let mut read = Vec::new();
        self.read(offset, len, &mut read, blocking)?;
        Ok(read)
    }

    fn create_unchecked(&self, name: Name<'_>, new_inode: &NewInode) -> FsResult<CreatedEntry> {
        self.create(name, &|_| Ok(*new_inode))
    }

    fn make_dir_unchecked(&self, name: Name<'_>, new_inode: &NewInode) -> FsResult<CreatedEntry> {
        self.make_dir(name, &|_| Ok(*new_inode))
    }

    fn make_special_unchecked(
        &self,
        name: Name<'_>,
        special: Special<'_>,
        new_inode: &NewInode,
    ) -> FsResult<CreatedEntry> {
        self.make_special(name, special, &|_| Ok(*new_inode))
    }

    fn link_unchecked(&self, name: Name<'_>, target: &NodeRef) -> FsResult<CreatedEntry> {
        self.link(name, target, &|_| Ok(()))
    }

    fn remove_unchecked(&self, name: Name<'_>) -> FsResult<Change> {
        self.remove(name, &|_| Ok(()))
    }

    fn remove_dir_unchecked(&self, name: Name<'_>) -> FsResult<Change> {
        self.remove_dir(name, &|_| Ok(()))
    }

    fn rename_unchecked(&self, from: Name<'_>, to_dir: &NodeRef, to: Name<'_>) -> FsResult<(Change, Change)> {
        self.rename(from, to_dir, to, &|_, _| Ok(()))
    }
}

impl<N: Node + ?Sized> UncheckedNode for N {}
