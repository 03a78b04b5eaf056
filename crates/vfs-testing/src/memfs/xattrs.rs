//! Extended attributes of a [`super::MemFs`].

use super::node::MemNode;
use super::store::{Inode, Store};
use vfs::backend::xattrs::{check_room, page};
use vfs::{AuthorizeXattr, Change, FileType, FsError, FsResult, SetXattr, XattrName, XattrSink, Xattrs};

impl Xattrs for MemNode {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        let store = self.fs.lock();
        carrier(store.inode(self.id)?)?.xattrs.get(name.bytes()).cloned().ok_or(FsError::NotFound)
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        // Copied, so that a sink never runs under the lock.
        let names: Vec<_> = carrier(self.fs.lock().inode(self.id)?)?.xattrs.keys().cloned().collect();
        Ok(page(names.iter().filter_map(|name| XattrName::new(name).ok()), cookie, sink))
    }

    fn set(
        &self,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
        authorize: AuthorizeXattr<'_>,
    ) -> FsResult<Change> {
        self.change_xattrs(authorize, |inode| {
            let is_other = |other: &[u8]| other != name.bytes() && XattrName::new(other).is_ok();
            let others = inode.xattrs.iter().filter(|(other, _)| is_other(other));
            check_room(others.map(|(name, value)| (name.len(), value.len())), name, value)?;
            match (how, inode.xattrs.contains_key(name.bytes())) {
                (SetXattr::Create, true) => return Err(FsError::Exists),
                (SetXattr::Replace, false) => return Err(FsError::NotFound),
                _ => {}
            }
            inode.xattrs.insert(name.bytes().into(), value.into());
            Ok(())
        })
    }

    fn remove(&self, name: XattrName<'_>, authorize: AuthorizeXattr<'_>) -> FsResult<Change> {
        self.change_xattrs(authorize, |inode| {
            inode.xattrs.remove(name.bytes()).map(drop).ok_or(FsError::NotFound)
        })
    }
}

impl MemNode {
    fn change_xattrs(
        &self,
        authorize: AuthorizeXattr<'_>,
        act: impl FnOnce(&mut Inode) -> FsResult<()>,
    ) -> FsResult<Change> {
        let change = |store: &mut Store, before: &_, now| {
            authorize(before)?;
            carrier(store.inode(self.id)?)?;
            store.set_xattrs(self.id, act)?;
            store.inode_mut(self.id)?.mark_changed(now);
            Ok(())
        };
        Ok(self.change(change)?.1)
    }
}

fn carrier(inode: &Inode) -> FsResult<&Inode> {
    match inode.attrs.file_type {
        FileType::Regular | FileType::Directory => Ok(inode),
        _ => Err(FsError::NotSupported),
    }
}
