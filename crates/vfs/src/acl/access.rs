//! Permission checks by mode bits, POSIX ACLs, owner, groups and sticky directories, for every protocol alike.

use super::posix_acl::PosixAcl;
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, FileType};
use crate::model::attrs::{SET_GID, SET_UID, STICKY};
use crate::model::caller::{Caller, INVALID_ID};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    pub const NONE: Self = Self(0);
    /// Execute a file, traverse a directory (`x`).
    pub const EXECUTE: Self = Self(1);
    /// Write a file, change the entries of a directory (`w`).
    pub const WRITE: Self = Self(2);
    /// Read a file, list a directory (`r`).
    pub const READ: Self = Self(4);

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits & 7)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whether mode bits alone decide for `caller`, even if the object has an ACL: for its owner, and for root. Without
/// group bits, which are the mask of an ACL, Linux skips the ACL, too.
#[inline]
pub fn is_ruled_by_mode(attrs: &Attrs, caller: &Caller) -> bool {
    caller.uid == attrs.uid || caller.is_root() || attrs.mode & 0o070 == 0
}

/// Returns the access of a caller by mode bits, and by the POSIX ACL if there is one. Each right is as if it was
/// requested alone.
///
/// The first matching class decides, as in POSIX: owner, else group, else others. Root may do all, but may execute a
/// file only if some class may.
#[inline]
pub fn granted(attrs: &Attrs, acl: Option<&PosixAcl>, caller: &Caller) -> Access {
    match acl.filter(|_| !is_ruled_by_mode(attrs, caller)) {
        None => granted_by_mode(attrs, caller),
        Some(acl) => [Access::READ, Access::WRITE, Access::EXECUTE]
            .into_iter()
            .filter(|wish| is_granted_by_list(attrs, acl, caller, *wish))
            .fold(Access::NONE, Access::and),
    }
}

#[inline]
fn granted_by_mode(attrs: &Attrs, caller: &Caller) -> Access {
    if caller.is_root() {
        let runs = attrs.file_type == FileType::Directory || attrs.mode & 0o111 != 0;
        return Access(if runs { 7 } else { 6 });
    }
    let shift = if caller.uid == attrs.uid {
        6
    } else if caller.is_in(attrs.gid) {
        3
    } else {
        0
    };
    Access::from_bits(attrs.mode >> shift)
}

/// Whether an ACL grants `caller` all of `wish` on an object that has `attrs`, like `posix_acl_permission` of Linux.
/// Owner, mask and others are those of the mode; one group alone must grant all of `wish`.
fn is_granted_by_list(attrs: &Attrs, acl: &PosixAcl, caller: &Caller, wish: Access) -> bool {
    let has = |bits: u32| Access::from_bits(bits).has(wish);
    let mask = attrs.mode >> 3;
    if caller.uid == attrs.uid {
        return has(attrs.mode >> 6);
    }
    let named = acl.users.iter().find(|(uid, _)| *uid == caller.uid && *uid != INVALID_ID);
    if let Some((_, bits)) = named {
        return has(bits & mask);
    }
    let owning = if acl.is_extended() { acl.group } else { mask };
    let mut is_member = false;
    for (gid, bits) in std::iter::once(&(attrs.gid, owning)).chain(&*acl.groups) {
        if caller.is_in(*gid) && *gid != INVALID_ID {
            is_member = true;
            if has(*bits) {
                return has(bits & mask);
            }
        }
    }
    !is_member && has(attrs.mode)
}

/// [`FsError::Access`] unless the mode bits, and the list if there is one, grant all of `wish`.
#[inline]
pub fn check(attrs: &Attrs, acl: Option<&PosixAcl>, caller: &Caller, wish: Access) -> FsResult<()> {
    let has = match acl.filter(|_| !is_ruled_by_mode(attrs, caller)) {
        None => granted_by_mode(attrs, caller).has(wish),
        Some(acl) => is_granted_by_list(attrs, acl, caller, wish),
    };
    if has { Ok(()) } else { Err(FsError::Access) }
}

/// [`check`] for the data of a regular file where a protocol has no open. The owner always passes, because a file
/// opened before its mode changed stays open (RFC 1813 §4.4). A caller that may execute may read.
#[inline]
pub fn check_data(attrs: &Attrs, acl: Option<&PosixAcl>, caller: &Caller, wish: Access) -> FsResult<()> {
    if caller.uid == attrs.uid {
        return Ok(());
    }
    check(attrs, acl, caller, wish).or_else(|refusal| match wish {
        Access::READ => check(attrs, acl, caller, Access::EXECUTE),
        _ => Err(refusal),
    })
}

/// Whether `caller` may take the name of `object` out of `dir`: in a sticky directory only the owner of either, or root.
pub fn check_sticky(dir: &Attrs, object: &Attrs, caller: &Caller) -> FsResult<()> {
    let bound = dir.mode & STICKY != 0 && !caller.is_root();
    if bound && caller.uid != dir.uid && caller.uid != object.uid { Err(FsError::Access) } else { Ok(()) }
}

/// Whether a write by `caller` takes the set-id bits away, and `mode` has any that matter: set-group-id without group
/// execution marks nothing on Linux.
pub fn write_clears_set_id(attrs: &Attrs, caller: &Caller) -> bool {
    !caller.is_root() && set_id_bits(attrs.mode) != 0
}

/// Returns the set-id bits of `mode` that a write or a change of owner clears.
pub fn set_id_bits(mode: u32) -> u32 {
    let group = if mode & 0o010 != 0 { SET_GID } else { 0 };
    mode & (SET_UID | group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Time};

    fn file(mode: u32, uid: u32, gid: u32) -> Attrs {
        let time = Time::default();
        Attrs {
            file_type: FileType::Regular,
            mode,
            links: 1,
            uid,
            gid,
            size: 0,
            used: 0,
            device: Device::default(),
            file_id: 1,
            accessed: time,
            modified: time,
            changed: time,
            change: 1,
            born: None,
            view: crate::file_key::ViewId::LIVE,
        }
    }

    #[test]
    fn first_matching_class_decides() {
        let attrs = file(0o074, 10, 20);
        assert_eq!(
            granted(&attrs, None, &Caller::new(10, 20, [])),
            Access::NONE,
            "the owner is not also group"
        );
        assert_eq!(granted(&attrs, None, &Caller::new(11, 20, [])), Access(7));
        assert_eq!(
            granted(&attrs, None, &Caller::new(11, 5, [6, 20])),
            Access(7),
            "supplementary groups count"
        );
        assert_eq!(granted(&attrs, None, &Caller::new(11, 5, [6])), Access::READ);
    }

    #[test]
    fn root_executes_only_what_anybody_may() {
        let root = Caller::new(0, 0, []);
        assert_eq!(granted(&file(0o000, 1, 1), None, &root), Access(6));
        assert_eq!(granted(&file(0o001, 1, 1), None, &root), Access(7));
        assert_eq!(
            granted(&Attrs { file_type: FileType::Directory, ..file(0, 1, 1) }, None, &root),
            Access(7)
        );
    }

    #[test]
    fn owner_keeps_the_data_of_an_open_file() {
        let attrs = file(0o000, 10, 20);
        assert_eq!(check_data(&attrs, None, &Caller::new(10, 1, []), Access::WRITE), Ok(()));
        assert_eq!(check_data(&attrs, None, &Caller::new(11, 20, []), Access::READ), Err(FsError::Access));
        assert_eq!(check(&attrs, None, &Caller::new(10, 1, []), Access::READ), Err(FsError::Access));
        assert_eq!(
            check_data(&file(0o001, 10, 20), None, &Caller::new(11, 21, []), Access::READ),
            Ok(()),
            "running reads"
        );
    }

    #[test]
    fn sticky_directories_protect_names() {
        let dir = file(0o1777, 1, 1);
        let object = file(0o666, 2, 2);
        assert_eq!(check_sticky(&dir, &object, &Caller::new(3, 3, [])), Err(FsError::Access));
        for uid in [0, 1, 2] {
            assert_eq!(check_sticky(&dir, &object, &Caller::new(uid, 3, [])), Ok(()), "uid {uid}");
        }
        assert_eq!(check_sticky(&file(0o777, 1, 1), &object, &Caller::new(3, 3, [])), Ok(()));
    }

    #[test]
    fn set_group_id_without_group_execution_marks_nothing() {
        assert_eq!(set_id_bits(0o6755), 0o6000);
        assert_eq!(set_id_bits(0o2745), 0);
        assert!(write_clears_set_id(&file(0o4755, 1, 1), &Caller::new(1, 1, [])));
        assert!(!write_clears_set_id(&file(0o4755, 1, 1), &Caller::new(0, 0, [])));
    }
}
