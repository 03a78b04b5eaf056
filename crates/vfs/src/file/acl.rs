//! Permission checks of files, for all other operations, and changes of access control lists.
//!
//! Mode bits with a POSIX ACL decide, or an access control list.
//!
//! POSIX ACLs are read where they decide, also under the backend's lock ([`crate::backend::acls::Acls`]).
//!
//! An access control list is read before the backend's lock of a file is taken, because an authorizing closure must not
//! call the backend. So a change that is under way while a list changes may still be made, as with files that are open.

use super::core::{File, check_is_dir, check_writable};
use crate::acl::access::{self, Access};
use crate::acl::posix_acl::PosixAcl;
use crate::acl::{Acl, Record, Rights, SecurityStyle};
use crate::backend::durability::PendingSync;
use crate::backend::stored_acl::{list_of_mode, read};
use crate::backend::xattrs::{SetXattr, XattrName};
use crate::backend::{Blocking, EntryRef, NewInode, NodeRef, SyncScope};
use crate::claims::{IoKind, Span};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::FileKey;
use crate::model::attrs::{Attrs, Change, FileType, MODE_BITS, STICKY, SetAttrs, SetTime};
use crate::model::caller::Caller;
use crate::model::name::Name;
use crate::namespace::Export;
use crate::volume::Volume;
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetSecurity {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub acl: Option<Acl>,
}

/// The basis of decisions on the entries of a directory, looked up before the change and evaluated under the backend's
/// lock.
#[derive(Clone, Copy)]
pub(super) enum Ruling<'d> {
    /// The mode bits and POSIX ACL that this directory has at the time of the change.
    Mode(&'d NodeRef),
    /// Rights by lists, read before the change: on the directory and on the object of the name.
    Lists { dir: Rights, object: Option<Object> },
}

/// The object of a name when its list was read.
#[derive(Clone, Copy)]
pub(super) struct Object {
    file_id: u64,
    rights: Rights,
}

impl Ruling<'_> {
    /// Whether an entry may be added to a directory that has `dir` now.
    pub(super) fn check_add(self, dir: &Attrs, caller: &Caller, is_dir: bool) -> FsResult<()> {
        check_writable(dir, caller)?;
        check_is_dir(dir)?;
        let needed = if is_dir { Rights::APPEND } else { Rights::WRITE };
        match self {
            Self::Mode(node) => check_mode(node, dir, caller, Access::WRITE.and(Access::EXECUTE)),
            Self::Lists { dir, .. } if dir.has(needed) => Ok(()),
            Self::Lists { .. } => Err(FsError::Access),
        }
    }

    /// Whether anything in a directory that has `dir` may change.
    pub(super) fn check_change(self, dir: &Attrs, caller: &Caller) -> FsResult<()> {
        check_writable(dir, caller)?;
        check_is_dir(dir)?;
        let any = [Rights::WRITE, Rights::APPEND, Rights::DELETE_CHILD];
        match self {
            Self::Mode(node) => check_mode(node, dir, caller, Access::WRITE.and(Access::EXECUTE)),
            Self::Lists { dir, .. } if any.iter().any(|right| dir.has(*right)) => Ok(()),
            Self::Lists { object: Some(object), .. } if object.rights.has(Rights::DELETE) => Ok(()),
            Self::Lists { .. } => Err(FsError::Access),
        }
    }

    /// Whether an entry may be removed: with the right to delete children of the directory, or to delete the object
    /// (MS-FSA §2.1.5.1.2.1).
    pub(super) fn check_removal(self, entry: &EntryRef<'_>, caller: &Caller) -> FsResult<()> {
        check_writable(entry.dir, caller)?;
        check_is_dir(entry.dir)?;
        match self {
            Self::Mode(node) => {
                check_mode(node, entry.dir, caller, Access::WRITE.and(Access::EXECUTE))?;
                if entry.dir.mode & STICKY == 0 {
                    return Ok(());
                }
                access::check_sticky(entry.dir, &(entry.object)()?, caller)
            }
            Self::Lists { dir, .. } if dir.has(Rights::DELETE_CHILD) => Ok(()),
            Self::Lists { object: Some(object), .. } if object.rights.has(Rights::DELETE) => {
                // Something else has the name by now: that is to be asked about first.
                if (entry.object)()?.file_id == object.file_id {
                    Ok(())
                } else {
                    Err(FsError::Wait(Wait::Recall))
                }
            }
            Self::Lists { .. } => Err(FsError::Access),
        }
    }
}

impl Export {
    /// Whether access-based listings show `caller` the file of `key`, which has `attrs`.
    /// On volumes with NTFS rules, a visible file needs all rights of reading, as on Windows.
    pub fn is_visible(self: &Arc<Self>, key: &FileKey, attrs: &Attrs, caller: &Caller) -> FsResult<bool> {
        Ok(match self.volume.security_style() {
            SecurityStyle::Unix => {
                let is_listed = self.volume.capabilities().acls && !access::is_ruled_by_mode(attrs, caller);
                let acl = match is_listed {
                    true => self.file(key, Blocking::Allowed)?.posix_acl(attrs, Blocking::Allowed)?,
                    false => None,
                };
                access::check(attrs, acl.as_deref(), caller, Access::READ).is_ok()
            }
            SecurityStyle::Ntfs => {
                let rights = self.file(key, Blocking::Allowed)?.rights(caller, attrs, Blocking::Allowed)?;
                rights.is_some_and(|rights| rights.has(Rights::READ_ALL))
            }
        })
    }
}

impl File {
    /// Returns the rights of `caller` on this file, which has `attrs`, where lists rule: those of the file's own list,
    /// or of the list equivalent to its mode. `None`: mode bits rule.
    #[inline]
    pub fn rights(&self, caller: &Caller, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Rights>> {
        match self.volume().security_style() {
            SecurityStyle::Unix => Ok(None),
            SecurityStyle::Ntfs => granted(self.volume(), &self.node, caller, attrs, blocking).map(Some),
        }
    }

    /// Returns the rights by the file's own list, read now. `None`: it has none.
    pub(super) fn rights_of_own_list(&self, caller: &Caller) -> FsResult<Option<Rights>> {
        if self.volume().security_style() == SecurityStyle::Unix {
            return Ok(None);
        }
        let attrs = self.node.attrs(Blocking::Allowed)?;
        let record = record(self.volume(), &self.node, &attrs, Blocking::Allowed)?;
        Ok(record.map(|record| record.acl.granted(&attrs, caller)))
    }

    /// The list of this file, which has `attrs`, or the equivalent of its mode. `None`: mode bits rule.
    pub fn acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Acl>> {
        match self.volume().security_style() {
            SecurityStyle::Unix => Ok(None),
            SecurityStyle::Ntfs => {
                let record = record(self.volume(), &self.node, attrs, blocking)?;
                match record {
                    Some(record) => Ok(Some(record.acl.clone())),
                    None => list_of_mode(&self.node, attrs, blocking).map(Some),
                }
            }
        }
    }

    /// The POSIX ACL of this file, which has `attrs`; `None` without one, or where lists rule.
    pub fn posix_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        match (self.volume().security_style(), self.node.acls()) {
            (SecurityStyle::Unix, Some(acls)) => acls.access_acl(attrs, blocking),
            (SecurityStyle::Ntfs, _) | (_, None) => Ok(None),
        }
    }

    /// [`FsError::Access`] unless `caller` has all of `wish` for this file, which has `attrs`.
    #[inline]
    pub(super) fn check(
        &self,
        attrs: &Attrs,
        caller: &Caller,
        requested: Access,
        blocking: Blocking,
    ) -> FsResult<()> {
        match self.rights(caller, attrs, blocking)? {
            None => {
                let acl = ruling_acl(&self.node, attrs, caller, blocking)?;
                access::check(attrs, acl.as_deref(), caller, requested)
            }
            Some(rights) => check_list(rights, requested, attrs.file_type == FileType::Regular),
        }
    }

    /// [`File::check`] for the data of a regular file where a protocol has no open: where mode bits rule, the owner
    /// passes.
    #[inline]
    pub(super) fn check_data(
        &self,
        attrs: &Attrs,
        caller: &Caller,
        requested: Access,
        blocking: Blocking,
    ) -> FsResult<()> {
        match self.rights(caller, attrs, blocking)? {
            None => {
                let acl = ruling_acl(&self.node, attrs, caller, blocking)?;
                access::check_data(attrs, acl.as_deref(), caller, requested)
            }
            Some(rights) => check_list(rights, requested, true),
        }
    }

    /// Whether `caller` may read the extended attributes of this file.
    pub(super) fn check_reads_xattrs(&self, caller: &Caller) -> FsResult<()> {
        let attrs = self.attrs(Blocking::Allowed)?;
        match self.rights(caller, &attrs, Blocking::Allowed)? {
            None => check_mode(&self.node, &attrs, caller, Access::READ),
            Some(rights) if rights.has(Rights::READ_XATTRS) => Ok(()),
            Some(_) => Err(FsError::Access),
        }
    }

    /// Returns the basis of decisions on the entries of this directory for `caller`, and on the object of a name.
    pub(super) fn ruling(&self, caller: &Caller, name: Option<&[u8]>) -> FsResult<Ruling<'_>> {
        if self.volume().security_style() == SecurityStyle::Unix {
            return Ok(Ruling::Mode(&self.node));
        }
        let dir = self.node.attrs(Blocking::Allowed)?;
        let name = name.and_then(|name| Name::new(name).ok());
        // If the lookup fails, the operation itself reports the error.
        let found = name.and_then(|name| self.node.lookup(name, Blocking::Allowed).ok());
        let found = found.map(|found| (self.beside(found.node), found.attrs));
        let object = found.as_ref().map(|(object, attrs)| (object, attrs));
        self.ruling_of(caller, &dir, object, Blocking::Allowed)
    }

    /// Returns the basis of decisions where the directory has `dir`, and the object of the name is known with its
    /// attributes.
    pub(super) fn ruling_of(
        &self,
        caller: &Caller,
        dir: &Attrs,
        object: Option<(&Self, &Attrs)>,
        blocking: Blocking,
    ) -> FsResult<Ruling<'_>> {
        let Some(rights) = self.rights(caller, dir, blocking)? else { return Ok(Ruling::Mode(&self.node)) };
        let mut object = match object {
            Some((object, attrs)) => {
                let rights = object.rights(caller, attrs, blocking)?.unwrap_or_default();
                Some((attrs, Object { file_id: attrs.file_id, rights }))
            }
            None => None,
        };
        let is_bound = self.is_sticky_by_mode(dir, blocking)? && !caller.is_root() && caller.uid != dir.uid;
        if is_bound
            && rights.has(Rights::DELETE_CHILD)
            && let Some((attrs, object)) = &mut object
            && caller.uid == attrs.uid
        {
            object.rights |= Rights::DELETE;
        }
        let dir = if is_bound { rights.without(Rights::DELETE_CHILD) } else { rights };
        Ok(Ruling::Lists { dir, object: object.map(|(_, object)| object) })
    }

    /// Whether this directory, which has `dir` and is ruled by lists, has no list and a sticky mode.
    fn is_sticky_by_mode(&self, dir: &Attrs, blocking: Blocking) -> FsResult<bool> {
        Ok(dir.mode & STICKY != 0 && record(self.volume(), &self.node, dir, blocking)?.is_none())
    }

    /// Returns the origin of a new file's list in this directory: `given`, or inheritance. `None`: mode bits rule.
    pub(super) fn new_list(&self, given: Option<&Acl>) -> FsResult<Option<NewList>> {
        if self.volume().security_style() == SecurityStyle::Unix {
            return Ok(None);
        }
        let attrs = self.node.attrs(Blocking::Allowed)?;
        let above = self.acl(&attrs, Blocking::Allowed)?;
        Ok(above.map(|above| NewList { above, given: given.cloned() }))
    }

    /// Stores the list of a new file in `dir`; returns the new attributes. Removes the file if that fails.
    pub(super) fn give_list(
        &self,
        list: &NewList,
        attrs: &Attrs,
        dir: &Self,
        name: Name<'_>,
    ) -> FsResult<Attrs> {
        let is_dir = attrs.file_type == FileType::Directory;
        if !is_dir && attrs.file_type != FileType::Regular {
            return Ok(*attrs);
        }
        let acl = list.of(attrs.uid, attrs.gid, is_dir);
        let record = Record::new(acl, attrs.uid, attrs.gid, attrs.mode);
        match self.write_list(record, &|_| Ok(())) {
            Ok(change) => Ok(change.after),
            Err(error) => {
                let is_it = |entry: &EntryRef<'_>| {
                    if (entry.object)()?.file_id == attrs.file_id { Ok(()) } else { Err(FsError::NotFound) }
                };
                // Where it cannot go it has a mode that gives no more than the list.
                let _ =
                    if is_dir { dir.node.remove_dir(name, &is_it) } else { dir.node.remove(name, &is_it) };
                Err(error)
            }
        }
    }

    /// Sets owner, group and list of a file, where lists rule. `held` are rights of an open, beside those that the list
    /// gives now. A caller with the right to take ownership can make only itself the owner, and set only a group that
    /// it is in (MS-FSA §2.1.5.17).
    pub fn set_security(
        &self,
        caller: &Caller,
        granted: Rights,
        set: &SetSecurity,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_writable(caller)?;
        SetAttrs { uid: set.uid, gid: set.gid, ..SetAttrs::default() }.check_ids()?;
        let _changing = self.volume().extra_attrs_cache().slot(&self.key()).lock_change();
        let before = self.node.attrs(Blocking::Allowed)?;
        let rights = self.rights(caller, &before, Blocking::Allowed)?.ok_or(FsError::NotSupported)? | granted;
        let uid = set.uid.filter(|uid| *uid != before.uid);
        let gid = set.gid.filter(|gid| *gid != before.gid);
        if uid.is_none() && gid.is_none() && set.acl.is_none() {
            return Ok(Change { before, after: before });
        }
        if (uid.is_some() || gid.is_some()) && !rights.has(Rights::WRITE_OWNER)
            || set.acl.is_some() && !rights.has(Rights::WRITE_ACL)
        {
            return Err(FsError::Access);
        }
        let gives_away =
            uid.is_some_and(|uid| uid != caller.uid) || gid.is_some_and(|gid| !caller.is_in(gid));
        if gives_away && !caller.is_root() {
            return Err(FsError::NotOwner);
        }
        let acl = match &set.acl {
            Some(acl) => acl.clone(),
            None => self.acl(&before, Blocking::Allowed)?.unwrap_or_default(),
        };
        let (new_uid, new_gid) = (uid.unwrap_or(before.uid), gid.unwrap_or(before.gid));
        let mut mode = before.mode & !0o777 | acl.mode(new_uid, new_gid);
        if before.file_type == FileType::Regular {
            // The next write would take them away, and the list with them, which belongs to the mode.
            mode &= !access::set_id_bits(mode);
        }
        // Until owner and mode match the record, the mode rules, which gives no caller more than the old list.
        let record = Record::new(acl, new_uid, new_gid, mode);
        let ask = |_: &Attrs| self.check_claims(caller.by, IoKind::SetAttrs, || Span::ALL);
        let set = SetAttrs { uid, gid, mode: Some(mode), ..SetAttrs::default() };
        let is_same = uid.is_none() && gid.is_none() && mode == before.mode;
        let old = read(&self.node)?;
        let given = self.volume().give_streams(&self.key(), uid, gid)?;
        let written = self.write_list(record, &ask).and_then(|written| match is_same {
            true => Ok(written),
            false => self.node.set_attrs(&set).inspect_err(|_| self.restore_list(old)),
        });
        let after = match written {
            Ok(change) => change.after,
            Err(error) => {
                given.undo();
                return Err(error);
            }
        };
        given.require_sync(self.volume(), pending);
        self.require_sync(pending, SyncScope::All);
        Ok(Change { before, after })
    }

    /// Restores the list that a refused change of the owner has replaced.
    fn restore_list(&self, old: Option<Record>) {
        let Some(xattrs) = self.node.xattrs() else { return };
        let _ = match old {
            Some(record) => self.write_list(record, &|_| Ok(())),
            None => xattrs.remove(XattrName::ACL, &|_| Ok(())),
        };
    }

    fn write_list(&self, record: Record, authorize: &dyn Fn(&Attrs) -> FsResult<()>) -> FsResult<Change> {
        let xattrs = self.node.xattrs().ok_or(FsError::NotSupported)?;
        xattrs.set(XattrName::ACL, &record.encode(), SetXattr::Either, authorize)
    }
}

/// Limits a change of attributes to the rights of the file's own list.
pub(super) fn allowed_by_list(
    rights: Rights,
    caller: &Caller,
    attrs: &Attrs,
    set: &SetAttrs,
    is_open: bool,
) -> FsResult<SetAttrs> {
    let mut set = *set;
    let owns = caller.is_root() || caller.uid == attrs.uid;
    // A client that has just made a file exclusively sets a mode together with both times (RFC 1813 §3.3.8).
    let says_of_new = matches!((set.accessed, set.modified), (Some(SetTime::Now), Some(SetTime::Now)));
    let is_same = |mode: u32| (mode ^ attrs.mode) & MODE_BITS == 0;
    if says_of_new || set.mode.is_some_and(is_same) || attrs.file_type == FileType::Symlink {
        set.mode = None;
    }
    set.uid = set.uid.filter(|uid| *uid != attrs.uid);
    set.gid = set.gid.filter(|gid| *gid != attrs.gid);
    if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
        // Only the list decides.
        return Err(FsError::NotOwner);
    }
    if set.size.is_some() && !is_open && !rights.has(Rights::WRITE) {
        return Err(FsError::Access);
    }
    if (set.accessed.is_some() || set.modified.is_some()) && !owns && !rights.has(Rights::WRITE_ATTRS) {
        return Err(FsError::Access);
    }
    Ok(set)
}

/// The origin of a new file's access control list.
pub(super) struct NewList {
    above: Acl,
    given: Option<Acl>,
}

impl NewList {
    fn of(&self, uid: u32, gid: u32, is_dir: bool) -> Acl {
        self.given.clone().unwrap_or_else(|| self.above.inherited(uid, gid, is_dir))
    }

    /// Limits the mode of a new file to the rights of its list, so that no caller ever has more than the list gives.
    pub(super) fn inode(list: Option<&Self>, inode: NewInode, is_dir: bool) -> NewInode {
        let Some(list) = list else { return inode };
        let mode = list.of(inode.uid, inode.gid, is_dir).mode(inode.uid, inode.gid);
        NewInode { mode, ..inode }
    }
}

fn granted(
    volume: &Volume,
    node: &NodeRef,
    caller: &Caller,
    attrs: &Attrs,
    blocking: Blocking,
) -> FsResult<Rights> {
    Ok(match record(volume, node, attrs, blocking)? {
        Some(record) => record.acl.granted(attrs, caller),
        None => list_of_mode(node, attrs, blocking)?.granted(attrs, caller),
    })
}

/// The POSIX ACL that rules a file with `attrs` beside its mode bits, if it matters to `caller`.
#[inline]
pub(crate) fn ruling_acl(
    node: &NodeRef,
    attrs: &Attrs,
    caller: &Caller,
    blocking: Blocking,
) -> FsResult<Option<Arc<PosixAcl>>> {
    if access::is_ruled_by_mode(attrs, caller) {
        return Ok(None);
    }
    node.acls().map_or(Ok(None), |acls| acls.access_acl(attrs, blocking))
}

/// [`FsError::Access`] unless mode bits and POSIX ACL, where these rule, grant `caller` all of `wish`.
/// May run under the backend's lock.
pub(super) fn check_mode(node: &NodeRef, attrs: &Attrs, caller: &Caller, wish: Access) -> FsResult<()> {
    let acl = ruling_acl(node, attrs, caller, Blocking::Allowed)?;
    access::check(attrs, acl.as_deref(), caller, wish)
}

/// [`check_mode`] for the data of a regular file where a protocol has no open.
pub(super) fn check_mode_data(node: &NodeRef, attrs: &Attrs, caller: &Caller, wish: Access) -> FsResult<()> {
    let acl = ruling_acl(node, attrs, caller, Blocking::Allowed)?;
    access::check_data(attrs, acl.as_deref(), caller, wish)
}

/// The list of a file with `attrs`, if valid for its owner, group and mode. A malformed record counts as none.
fn record(
    volume: &Volume,
    node: &NodeRef,
    attrs: &Attrs,
    blocking: Blocking,
) -> FsResult<Option<Arc<Record>>> {
    let carries = matches!(attrs.file_type, FileType::Regular | FileType::Directory);
    if !carries {
        return Ok(None);
    }
    let slot = volume.extra_attrs_cache().slot(&node.key());
    let cached = slot.recall_acl(attrs);
    if cached.is_none() && blocking == Blocking::Never {
        return Err(FsError::Wait(Wait::Storage));
    }
    let record = match cached {
        Some(cached) => cached,
        None => {
            let record = read(node)?.map(Arc::new);
            slot.remember_acl(attrs, record.clone());
            record
        }
    };
    Ok(record.filter(|record| record.is_of(attrs)))
}

/// [`FsError::Access`] unless `rights` include `wish`. A caller that may execute a file may read it (RFC 1813 §4.4,
/// MS-SMB2 §3.3.5.12).
fn check_list(rights: Rights, wish: Access, is_file: bool) -> FsResult<()> {
    let reads = rights.has(Rights::READ) || is_file && rights.has(Rights::EXECUTE);
    let wishes = [
        (Access::READ, reads),
        (Access::WRITE, rights.has(Rights::WRITE)),
        (Access::EXECUTE, rights.has(Rights::EXECUTE)),
    ];
    let is_given = wishes.into_iter().all(|(access, has)| has || !wish.has(access));
    if is_given { Ok(()) } else { Err(FsError::Access) }
}
