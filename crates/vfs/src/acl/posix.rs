//! Lists of POSIX as lists of Windows' kind.

use super::posix_acl::{AclTag, PosixAcl};
use super::{Acl, AclEntry, Effect, Inherit, Principal, Rights};
use crate::model::attrs::{Attrs, FileType};

impl Acl {
    /// The list that the mode of a file and its list of POSIX amount to: what these say of each right by itself.
    pub fn of_posix(attrs: &Attrs, acl: &PosixAcl) -> Self {
        let is_dir = attrs.file_type == FileType::Directory;
        let later = if is_dir { Inherit::FILES.and(Inherit::DIRS) } else { Inherit::NONE };
        let entry = |(effect, who, bits): (Effect, AclTag, u32)| {
            let given = Rights::of_bits(bits);
            let (who, allowed, inherit) = match who {
                AclTag::Owner => (Principal::User(attrs.uid), given | Rights::OF_OWNERS, Inherit::NONE),
                AclTag::User(uid) => (Principal::User(uid), given, later),
                AclTag::OwningGroup => (Principal::Group(attrs.gid), given, later),
                AclTag::Group(gid) => (Principal::Group(gid), given, later),
                AclTag::Everyone => (Principal::Everyone, given, later),
            };
            match effect {
                Effect::Allow => AclEntry::allow(who, allowed, inherit),
                Effect::Deny => {
                    AclEntry::deny(who, given.without(Rights::ALWAYS | Rights::OF_OWNERS), inherit)
                }
            }
        };
        let creator = AclEntry::allow(Principal::CreatorOwner, Rights::ALL, later.and(Inherit::ONLY));
        let entries = acl.entries(attrs.mode).into_iter().map(entry).chain(is_dir.then_some(creator));
        Self { entries: Some(entries.collect()), ..Self::default() }
    }
}
