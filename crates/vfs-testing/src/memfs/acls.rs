//! Lists of POSIX of a [`super::MemFs`]. They have a lock of their own, because decisions under the other one ask for them.

use super::node::MemNode;
use super::store::{ROOT, Store};
use super::{Lists, MemFs, Shared};
use std::sync::{Arc, MutexGuard};
use vfs::acl::posix_acl::PosixAcl;
use vfs::backend::acls::Acls;
use vfs::model::name::Name;
use vfs::{Attrs, Blocking, FileType, FsResult, NewInode, SetAttrs};

const ACCESS: usize = 0;
const DEFAULT: usize = 1;

impl MemFs {
    /// Sets the access ACL of a path without the service, as setfacl(1) does; `None` removes it.
    pub fn set_access_acl(&self, path: &str, acl: Option<&PosixAcl>) -> FsResult<()> {
        let id = find(&self.0.lock(), path)?;
        self.0.set_access(id, acl)
    }

    /// Sets the default ACL of the directory at a path; `None` removes it.
    pub fn set_default_acl(&self, path: &str, acl: Option<&PosixAcl>) -> FsResult<()> {
        let id = find(&self.0.lock(), path)?;
        self.0.set_default(id, acl)
    }
}

/// The number of the object at a path below the root.
fn find(store: &Store, path: &str) -> FsResult<u64> {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.into_iter().try_fold(ROOT, |dir, name| store.child(dir, Name::new(name.as_bytes())?))
}

impl Shared {
    fn set_access(&self, id: u64, acl: Option<&PosixAcl>) -> FsResult<()> {
        let mut store = self.lock();
        let mode = store.inode(id)?.attrs().mode;
        let permissions = match acl {
            Some(acl) => acl.mode(),
            // As setfacl -b: the group has what its entry gave.
            None => self.list(id, ACCESS).map_or(mode, |acl| mode & !0o070 | acl.group << 3),
        };
        let set = SetAttrs { mode: Some(mode & !0o777 | permissions & 0o777), ..SetAttrs::default() };
        store.set_attrs(id, &set, (self.clock)())?;
        self.put(id, ACCESS, acl.filter(|acl| acl.is_extended()).cloned());
        Ok(())
    }

    fn set_default(&self, id: u64, acl: Option<&PosixAcl>) -> FsResult<()> {
        let mut store = self.lock();
        store.entries(id)?;
        store.inode_mut(id)?.mark_changed((self.clock)());
        self.put(id, DEFAULT, acl.cloned());
        Ok(())
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.acls.lock()
    }

    fn list(&self, id: u64, which: usize) -> Option<Arc<PosixAcl>> {
        self.lists().get(&id).and_then(|lists| lists[which].clone())
    }

    fn put(&self, id: u64, which: usize, acl: Option<PosixAcl>) {
        self.lists().entry(id).or_default()[which] = acl.map(Arc::new);
    }

    /// Limits the mode of a new object by the default ACL of its directory.
    pub(super) fn masked(&self, dir: u64, file_type: FileType, new_inode: NewInode) -> NewInode {
        match self.list(dir, DEFAULT).filter(|_| file_type != FileType::Symlink) {
            Some(acl) => NewInode { mode: acl.mode_of_new(new_inode.mode), ..new_inode },
            None => new_inode,
        }
    }

    /// Sets the ACLs of a new object with `mode` that its directory passes on.
    pub(super) fn inherit(&self, dir: u64, id: u64, file_type: FileType, mode: u32) {
        let Some(acl) = self.list(dir, DEFAULT).filter(|_| file_type != FileType::Symlink) else { return };
        self.put(id, ACCESS, acl.inherited(mode));
        if file_type == FileType::Directory {
            self.put(id, DEFAULT, Some((*acl).clone()));
        }
    }
}

impl Acls for MemNode {
    fn access_acl(&self, _: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        self.fs.check_pace(blocking)?;
        Ok(self.fs.list(self.id, ACCESS))
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        Ok(self.fs.list(self.id, DEFAULT))
    }

    fn set_access_acl(&self, acl: &PosixAcl) -> FsResult<()> {
        self.fs.set_access(self.id, Some(acl))
    }

    fn set_default_acl(&self, acl: Option<&PosixAcl>) -> FsResult<()> {
        self.fs.set_default(self.id, acl)
    }
}
