//! Making files, directories and special objects.

use super::acl::NewList;
use super::core::{Created, File};
use crate::acl::{Acl, SecurityStyle};
use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, CreatedEntry, NewInode, Special, SyncScope};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, Change, FileType, SetAttrs, Time};
use crate::model::attrs::{MODE_BITS, SET_GID};
use crate::model::caller::Caller;
use crate::model::name::Name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// An existing regular file is opened. Only the size of the attributes applies to it: size 0 truncates it.
    OpenOrCreate,
    /// The name must be free: [`FsError::Exists`] if it is taken.
    CreateNew,
    /// [`Disposition::CreateNew`], but a retry with the same key finds its file, even after a restart.
    /// The file's times store the key, so the attributes may set none.
    CreateOnce(ExclusiveKey),
}

/// The client's identifier of one creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExclusiveKey([u8; 8]);

impl ExclusiveKey {
    pub fn new(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The two times that store the key until the client sets them: 31 bits each, which every file system supports.
    fn times(self) -> (Time, Time) {
        let [a, b, c, d, e, f, g, h] = self.0;
        let seconds = |bytes| i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);
        // The two bits that do not fit as seconds go where nanoseconds are kept; a second's step costs nothing there.
        let nanos = |byte: u8| u32::from(byte >> 7) * 1000;
        (
            Time { seconds: seconds([a, b, c, d]), nanos: nanos(a) },
            Time { seconds: seconds([e, f, g, h]), nanos: nanos(e) },
        )
    }
}

/// The umask of new objects without a requested mode.
const UMASK: u32 = 0o022;

struct NewFile<'n> {
    name: Name<'n>,
    disposition: Disposition,
    set: SetAttrs,
}

impl File {
    /// Makes a regular file in this directory, or opens an existing one if `disposition` allows.
    pub fn create(
        &self,
        caller: &Caller,
        name: &[u8],
        disposition: Disposition,
        set: &SetAttrs,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        self.create_listed(caller, name, disposition, set, None, pending)
    }

    /// Creates a file with an explicit access control list, where lists rule.
    pub fn create_listed(
        &self,
        caller: &Caller,
        name: &[u8],
        disposition: Disposition,
        set: &SetAttrs,
        acl: Option<&Acl>,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        let (ruling, list) = (self.ruling(caller, None)?, self.new_list(acl)?);
        let name = self.new_name(ruling, caller, name)?;
        set.check_ids()?;
        let times = match disposition {
            Disposition::CreateOnce(key) => Some(key.times()),
            Disposition::OpenOrCreate | Disposition::CreateNew => None,
        };
        if times.is_some() && (set.accessed.is_some() || set.modified.is_some()) {
            return Err(FsError::Invalid);
        }
        let authorize = |attrs: &Attrs| {
            ruling.check_add(attrs, caller, false)?;
            match set.size {
                Some(size) if size > self.volume().limits().file_bytes_max => Err(FsError::FileTooBig),
                _ => {
                    let set = self.unmasked(set, 0o666)?;
                    let inode = new_inode(attrs, caller, &set, false);
                    Ok(NewInode { times, ..NewList::inode(list.as_ref(), inode, false) })
                }
            }
        };
        let new = NewFile { name, disposition, set: *set };
        match self.node.create(name, &authorize) {
            Ok(made) => {
                self.names_changed(caller, pending);
                self.notify_added(name.bytes(), false, &made.dir);
                self.finish(caller, name, made, set, list.as_ref(), pending)
            }
            Err(FsError::Exists) => self.open_existing(caller, &new, pending),
            Err(refusal @ (FsError::Access | FsError::ReadOnly)) => {
                self.open_without_change(caller, &new, pending).unwrap_or(Err(refusal))
            }
            Err(error) => Err(error),
        }
    }

    pub fn make_dir(
        &self,
        caller: &Caller,
        name: &[u8],
        set: &SetAttrs,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        self.make_dir_listed(caller, name, set, None, pending)
    }

    /// Makes a directory with an explicit access control list, where lists rule.
    pub fn make_dir_listed(
        &self,
        caller: &Caller,
        name: &[u8],
        set: &SetAttrs,
        acl: Option<&Acl>,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        let (ruling, list) = (self.ruling(caller, None)?, self.new_list(acl)?);
        let name = self.new_name(ruling, caller, name)?;
        set.check_ids()?;
        let made = self.node.make_dir(name, &|attrs| {
            ruling.check_add(attrs, caller, true)?;
            let inode = new_inode(attrs, caller, &self.unmasked(set, 0o777)?, true);
            Ok(NewList::inode(list.as_ref(), inode, true))
        })?;
        self.names_changed(caller, pending);
        self.notify_added(name.bytes(), true, &made.dir);
        self.finish(caller, name, made, set, list.as_ref(), pending)
    }

    /// Makes a symbolic link, FIFO, socket or device in this directory. Devices are for root.
    pub fn make_special(
        &self,
        caller: &Caller,
        name: &[u8],
        special: Special<'_>,
        set: &SetAttrs,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        let (ruling, list) = (self.ruling(caller, None)?, self.new_list(None)?);
        let name = self.new_name(ruling, caller, name)?;
        set.check_ids()?;
        // The mode of a symbolic link means nothing on Linux and cannot be changed.
        let mode = if let Special::Symlink(_) = special { None } else { set.mode };
        let set = SetAttrs { mode, size: None, ..*set };
        let made = self.node.make_special(name, special, &|attrs| {
            ruling.check_add(attrs, caller, false)?;
            check_special(special, caller)?;
            let (set, list) = match special {
                Special::Symlink(_) => (SetAttrs { mode: Some(0o777), ..set }, None),
                _ => (self.unmasked(&set, 0o666)?, list.as_ref()),
            };
            Ok(NewList::inode(list, new_inode(attrs, caller, &set, false), false))
        })?;
        self.names_changed(caller, pending);
        self.notify_added(name.bytes(), false, &made.dir);
        self.finish(caller, name, made, &set, None, pending)
    }

    /// Replaces the object that was seen with these attributes. [`FsError::Stale`] if it has changed or another object
    /// has the name. A caller without the right to make the new object loses nothing.
    pub fn make_special_over(
        &self,
        caller: &Caller,
        name: &[u8],
        seen: &Attrs,
        special: Special<'_>,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        check_special(special, caller)?;
        self.ruling(caller, None)?.check_add(&self.node.attrs(Blocking::Allowed)?, caller, false)?;
        self.remove_as_seen(caller, name, seen, pending)?;
        self.make_special(caller, name, special, &SetAttrs::default(), pending)
    }

    /// Returns the attributes of a new object in this directory, with the default mode `usual`. Inheritance of a list
    /// replaces the umask. Where lists rule, they give the mode.
    fn unmasked(&self, set: &SetAttrs, usual: u32) -> FsResult<SetAttrs> {
        if self.volume().security_style() == SecurityStyle::Ntfs {
            return Ok(*set);
        }
        let (mode, umask) = set.mode.map_or((usual, UMASK), |mode| (mode, set.umask));
        let hands_list_on = match self.node.acls() {
            Some(acls) if mode & umask != 0 => acls.default_acl()?.is_some(),
            _ => false,
        };
        let umask = if hands_list_on { 0 } else { umask };
        Ok(SetAttrs { mode: Some(mode), umask, ..*set })
    }

    /// Wraps the result of a backend in this export.
    pub(super) fn created(&self, made: CreatedEntry) -> Created {
        let CreatedEntry { found, dir } = made;
        Created { file: self.beside(found.node), attrs: found.attrs, dir, is_new: true }
    }

    /// Sets the attributes that a creation cannot set: list and times.
    fn finish(
        &self,
        caller: &Caller,
        name: Name<'_>,
        made: CreatedEntry,
        set: &SetAttrs,
        list: Option<&NewList>,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        let mut created = self.created(made);
        if let Some(list) = list {
            created.attrs = created.file.give_list(list, &created.attrs, self, name)?;
        }
        let rest = SetAttrs { accessed: set.accessed, modified: set.modified, ..SetAttrs::default() };
        if !rest.is_empty() {
            created.attrs = created.file.set_attrs(caller, &rest, None, pending)?.after;
        }
        Ok(created)
    }

    /// Opens an existing name where the caller may not add one: as open(2), creation is then no error. `None` if the
    /// name does not exist, or if the caller may not even look it up.
    fn open_without_change(
        &self,
        caller: &Caller,
        new: &NewFile<'_>,
        pending: &mut PendingSync,
    ) -> Option<FsResult<Created>> {
        self.open_dir(caller, Blocking::Allowed).ok()?;
        self.node.lookup(new.name, Blocking::Allowed).ok()?;
        Some(self.open_existing(caller, new, pending))
    }

    /// Opens an existing object according to the disposition.
    fn open_existing(
        &self,
        caller: &Caller,
        new: &NewFile<'_>,
        pending: &mut PendingSync,
    ) -> FsResult<Created> {
        let before = self.node.attrs(Blocking::Allowed)?;
        let found = self.node.lookup(new.name, Blocking::Allowed)?;
        let is_file = found.attrs.file_type == FileType::Regular;
        let (file, mut attrs) = (self.beside(found.node), found.attrs);
        if is_file && new.disposition != Disposition::CreateNew && file.is_pending_deletion(caller.by) {
            // The client would take the file for newly made, or for one that stays.
            return Err(FsError::DeletePending);
        }
        match new.disposition {
            Disposition::OpenOrCreate if is_file => {
                // RFC 1813 §3.3.8: as open(2) with O_TRUNC.
                let size = SetAttrs { size: new.set.size, ..SetAttrs::default() };
                if !size.is_empty() {
                    attrs = file.set_attrs(caller, &size, None, pending)?.after;
                }
            }
            Disposition::CreateOnce(key) if is_file && (attrs.accessed, attrs.modified) == key.times() => {
                // The first call may have died before its flush.
                self.require_sync(pending, SyncScope::All);
            }
            Disposition::OpenOrCreate | Disposition::CreateNew | Disposition::CreateOnce(_) => {
                return Err(FsError::Exists);
            }
        }
        Ok(Created { file, attrs, dir: Change { before, after: before }, is_new: false })
    }
}

fn check_special(special: Special<'_>, caller: &Caller) -> FsResult<()> {
    match special {
        Special::Symlink(target) => check_target(target),
        Special::Block(_) | Special::Character(_) if !caller.is_root() => Err(FsError::NotOwner),
        Special::Block(_) | Special::Character(_) | Special::Fifo | Special::Socket => Ok(()),
    }
}

/// Returns owner, group and mode of a new object in `dir`: the caller's user, and the caller's group unless the
/// directory hands on its own.
///
/// Root may give it to any user, other callers to a group that they are in. A request for more is ignored, not refused:
/// some clients send an owner with every creation.
fn new_inode(dir: &Attrs, caller: &Caller, set: &SetAttrs, is_dir: bool) -> NewInode {
    let inherits = dir.mode & SET_GID != 0;
    let uid = set.uid.filter(|_| caller.is_root()).unwrap_or(caller.uid);
    let requested = set.gid.filter(|&gid| caller.is_root() || caller.is_in(gid));
    let gid = requested.unwrap_or(if inherits { dir.gid } else { caller.gid });
    let mut mode = set.mode.unwrap_or(0) & !set.umask & MODE_BITS;
    if is_dir && inherits {
        mode |= SET_GID;
    } else if !is_dir && mode & SET_GID != 0 && !caller.is_root() && !caller.is_in(gid) {
        mode &= !SET_GID;
    }
    let size = if is_dir { 0 } else { set.size.unwrap_or(0) };
    NewInode { mode, uid, gid, times: None, size }
}

fn check_target(target: &[u8]) -> FsResult<()> {
    match target.len() {
        _ if target.contains(&0) => Err(FsError::Invalid),
        0 => Err(FsError::Invalid),
        n if n > crate::model::name::LINK_BYTES_MAX => Err(FsError::NameTooLong),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_any_bit_give_different_times() {
        let times = |bytes| ExclusiveKey::new(bytes).times();
        for bit in 0..64 {
            assert_ne!(times((1u64 << bit).to_be_bytes()), times([0; 8]), "bit {bit}");
        }
    }
}
