//! Attributes: asking, checking, setting.

use super::acl::{allowed_by_list, check_mode, check_mode_data, ruling_acl};
use super::core::{File, check_writable};
use crate::acl::Rights;
use crate::acl::access::{self, Access};
use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, NodeRef, SyncScope};
use crate::claims::{IoKind, Requester};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, Change, FileType, SetAttrs, SetTime, Time};
use crate::model::attrs::{MODE_BITS, SET_GID};
use crate::model::caller::Caller;

/// The change time that the file must still have; `None` for no condition.
pub type Guard = Option<Time>;

/// Rights of a caller on an object, by its mode bits or its access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessReply {
    pub attrs: Attrs,
    /// Read a file, list a directory.
    pub read: bool,
    /// Traverse a directory.
    pub lookup: bool,
    /// Change existing data or entries.
    pub modify: bool,
    /// Write past the end or add entries.
    pub extend: bool,
    /// Remove entries of a directory.
    pub delete: bool,
    pub execute: bool,
    /// Change mode and times, as owner or root.
    pub owns: bool,
}

impl AccessReply {
    /// Derives the reply from the rights of an access control list.
    fn from_list(attrs: Attrs, caller: &Caller, rights: Rights) -> Self {
        let is_dir = attrs.file_type == FileType::Directory;
        let is_writable = check_writable(&attrs, caller).is_ok();
        let changes = |right| rights.has(right) && is_writable;
        Self {
            attrs,
            read: rights.has(Rights::READ),
            lookup: is_dir && rights.has(Rights::EXECUTE),
            modify: changes(Rights::WRITE),
            extend: changes(Rights::APPEND),
            delete: is_dir && changes(Rights::DELETE_CHILD),
            execute: !is_dir && rights.has(Rights::EXECUTE),
            owns: is_writable && (caller.is_root() || caller.uid == attrs.uid),
        }
    }
}

impl File {
    #[inline]
    pub fn access(&self, caller: &Caller, blocking: Blocking) -> FsResult<AccessReply> {
        self.access_by(self.node.attrs(blocking)?, caller, blocking)
    }

    /// Returns the rights of `caller` by attributes that were just read; a stream has no other rights than its file.
    pub fn access_by(&self, attrs: Attrs, caller: &Caller, blocking: Blocking) -> FsResult<AccessReply> {
        if let Some(rights) = self.rights(caller, &attrs, blocking)? {
            return Ok(AccessReply::from_list(attrs, caller, rights));
        }
        let acl = ruling_acl(&self.node, &attrs, caller, blocking)?;
        let has = access::granted(&attrs, acl.as_deref(), caller);
        let is_dir = attrs.file_type == FileType::Directory;
        let is_writable = check_writable(&attrs, caller).is_ok();
        let write = has.has(Access::WRITE) && is_writable;
        Ok(AccessReply {
            attrs,
            read: has.has(Access::READ),
            lookup: is_dir && has.has(Access::EXECUTE),
            modify: write,
            extend: write,
            delete: is_dir && write,
            execute: !is_dir && has.has(Access::EXECUTE),
            owns: is_writable && (caller.is_root() || caller.uid == attrs.uid),
        })
    }

    /// Sets attributes as POSIX allows: the owner sets mode and times, root the owner. An owner sets a group that the
    /// owner is in. A caller that may write sets the size and the present time.
    pub fn set_attrs(
        &self,
        caller: &Caller,
        set: &SetAttrs,
        guard: Guard,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.set_attrs_as(Setter::of(caller), set, guard, pending)
    }

    /// Sets attributes with the rights that an open was granted: with the right to change attributes, times are set as
    /// by the owner.
    pub fn set_attrs_by_claim(
        &self,
        caller: &Caller,
        granted: Rights,
        set: &SetAttrs,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let sets_times = granted.has(Rights::WRITE_ATTRS);
        self.set_attrs_as(Setter { sets_times, ..Setter::of(caller) }, set, None, pending)
    }

    /// Implements [`File::set_attrs`], with or without the rights of an open.
    pub(super) fn set_attrs_as(
        &self,
        setter: Setter<'_>,
        set: &SetAttrs,
        guard: Guard,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_writable(setter.caller)?;
        set.check_ids()?;
        if let (Some(size), true) = (set.size, self.is_stream()) {
            let resized = self.resize_stream(&setter, size, pending)?;
            let set = SetAttrs { size: None, ..*set };
            return if set.is_empty() {
                Ok(resized)
            } else {
                self.set_attrs_as(setter, &set, guard, pending)
            };
        }
        let rights = self.rights_of_own_list(setter.caller)?;
        let authorize = |attrs: &Attrs| {
            if guard.is_some_and(|changed| changed != attrs.changed) {
                return Err(FsError::GuardMismatch);
            }
            let set = match rights {
                Some(rights) => {
                    allowed_by_list(rights | setter.held(), setter.caller, attrs, set, setter.is_open)?
                }
                None => allowed(&setter, &self.node, attrs, set)?,
            };
            match set.size {
                Some(size) if size > self.volume().limits().file_bytes_max => {
                    return Err(FsError::FileTooBig);
                }
                Some(_) | None => {}
            }
            self.check_claims_for_setattr(setter.by, setter.kind, attrs, &set)?;
            Ok(set)
        };
        if set.is_empty() {
            let attrs = self.attrs(Blocking::Allowed)?;
            authorize(&attrs)?;
            return Ok(Change { before: attrs, after: attrs });
        }
        let change = if set.uid.is_some() || set.gid.is_some() {
            self.change_owners(&authorize, pending)?
        } else {
            self.node.change_attrs(&authorize)?
        };
        self.require_sync(pending, SyncScope::All);
        self.shown_change(change)
    }
}

/// The caller of a SETATTR and the rights of its open.
pub(super) struct Setter<'c> {
    pub(super) caller: &'c Caller,
    pub(super) by: Requester,
    /// Whether the file is open for writing, which suffices for a new size.
    pub(super) is_open: bool,
    /// Whether the open may set times like the owner.
    pub(super) sets_times: bool,
    /// The kind of a size change, for the claims on the file.
    pub(super) kind: IoKind,
}

impl<'c> Setter<'c> {
    fn of(caller: &'c Caller) -> Self {
        Self { caller, by: caller.by, is_open: false, sets_times: false, kind: IoKind::Write }
    }

    /// Rights of the open, beside those that the list gives now.
    fn held(&self) -> Rights {
        if self.sets_times { Rights::WRITE_ATTRS } else { Rights::NONE }
    }
}

/// Checks each change in `set` and adds the changes that follow from it.
fn allowed(setter: &Setter<'_>, node: &NodeRef, attrs: &Attrs, set: &SetAttrs) -> FsResult<SetAttrs> {
    let caller = setter.caller;
    let owns = caller.is_root() || caller.uid == attrs.uid;
    let mut set = *set;
    check_new_owner(caller, attrs, &set)?;
    if set.size.is_some() {
        match attrs.file_type {
            FileType::Regular if setter.is_open => {}
            FileType::Regular => check_mode_data(node, attrs, caller, Access::WRITE)?,
            FileType::Directory => return Err(FsError::IsDirectory),
            _ => return Err(FsError::Invalid),
        }
    }
    if let Some(mode) = &mut set.mode {
        if !owns {
            return Err(FsError::NotOwner);
        }
        *mode &= MODE_BITS;
        let gid = set.gid.unwrap_or(attrs.gid);
        if !caller.is_root() && !caller.is_in(gid) {
            *mode &= !SET_GID;
        }
    }
    if attrs.file_type == FileType::Symlink {
        // The mode of a symbolic link has no effect: setting it succeeds and changes nothing, as on other servers.
        set.mode = None;
    }
    let sets_moment =
        [set.accessed, set.modified].iter().flatten().any(|time| matches!(time, SetTime::To(_)));
    let sets_times = owns || setter.sets_times;
    if sets_moment && !sets_times {
        return Err(FsError::NotOwner);
    }
    if (set.accessed.is_some() || set.modified.is_some()) && !sets_times {
        check_mode(node, attrs, caller, Access::WRITE)?;
    }
    Ok(without_set_id(caller, attrs, set))
}

fn check_new_owner(caller: &Caller, attrs: &Attrs, set: &SetAttrs) -> FsResult<()> {
    if caller.is_root() {
        return Ok(());
    }
    let takes_user = set.uid.is_some_and(|uid| uid != attrs.uid);
    let takes_group = set.gid.is_some_and(|gid| gid != attrs.gid && !caller.is_in(gid));
    let foreign = caller.uid != attrs.uid && (set.uid.is_some() || set.gid.is_some());
    if takes_user || takes_group || foreign { Err(FsError::NotOwner) } else { Ok(()) }
}

/// Clears the set-id bits on a new owner or group, or on a new size set by another than root, unless the same call sets
/// a mode.
fn without_set_id(caller: &Caller, attrs: &Attrs, set: SetAttrs) -> SetAttrs {
    let bits = access::set_id_bits(attrs.mode);
    let chowns = (set.uid.is_some() || set.gid.is_some()) && attrs.file_type != FileType::Directory;
    let cuts = set.size.is_some() && !caller.is_root();
    if set.mode.is_none() && bits != 0 && (chowns || cuts) {
        SetAttrs { mode: Some(attrs.mode & !bits), ..set }
    } else {
        set
    }
}
