//! Lists of POSIX as lists of Windows' kind.

use super::posix_acl::{AclTag, PosixAcl};
use super::{Acl, AclEntry, Effect, Inherit, Principal, Rights};
use crate::model::attrs::{Attrs, FileType};

impl Acl {
    /// Converts the mode of a file and its POSIX ACL to an access control list: their decision on each right by itself.
    pub fn from_posix(attrs: &Attrs, acl: &PosixAcl) -> Self {
        let is_dir = attrs.file_type == FileType::Directory;
        let later = if is_dir { Inherit::FILES.and(Inherit::DIRS) } else { Inherit::NONE };
        let entry = |(effect, who, bits): (Effect, AclTag, u32)| {
            let rights = Rights::from_bits(bits);
            let (who, allowed, inherit) = match who {
                AclTag::Owner => (Principal::User(attrs.uid), rights | Rights::OF_OWNERS, Inherit::NONE),
                AclTag::User(uid) => (Principal::User(uid), rights, later),
                AclTag::OwningGroup => (Principal::Group(attrs.gid), rights, later),
                AclTag::Group(gid) => (Principal::Group(gid), rights, later),
                AclTag::Everyone => (Principal::Everyone, rights, later),
            };
            match effect {
                Effect::Allow => AclEntry::allow(who, allowed, inherit),
                Effect::Deny => {
                    AclEntry::deny(who, rights.without(Rights::ALWAYS | Rights::OF_OWNERS), inherit)
                }
            }
        };
        let creator = AclEntry::allow(Principal::CreatorOwner, Rights::ALL, later.and(Inherit::ONLY));
        let entries = acl.entries(attrs.mode).into_iter().map(entry).chain(is_dir.then_some(creator));
        Self { entries: Some(entries.collect()), ..Self::default() }
    }
}
