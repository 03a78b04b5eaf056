//! Access control lists, where a volume is ruled by them ([`SecurityStyle::Ntfs`]). The order of entries decides, as it
//! is stored (MS-DTYP §2.5.3.2, RFC 8881 §6.2.1).
//!
//! This module is pure: the rights of a list, inheritance, and mode bits that allow no more than a list.
//! docs/formats/acl-xattr.md draws the bytes.

pub mod access;
mod posix;
pub mod posix_acl;
mod record;
#[cfg(test)]
mod tests;

use crate::model::attrs::{Attrs, FileType};
use crate::model::caller::{Caller, INVALID_ID, Proof};
use std::ops::{BitAnd, BitOr, BitOrAssign};

pub(crate) use record::Record;

/// Most entries of a list: as many as fit into 64 KiB on the wire, at 36 bytes each.
pub const ACL_ENTRIES_MAX: usize = 1820;
/// The longest foreign security identifier, in bytes (MS-DTYP §2.4.2.2).
pub const STRANGER_BYTES_MAX: usize = 68;
const PERMISSIONS: u32 = 0o777;

/// The permission model of a volume's files. It never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityStyle {
    #[default]
    Unix,
    /// Access control lists. Mode bits rule a file without a list, or one that another program has changed since.
    Ntfs,
}

/// A set of rights on a file or directory. MS-DTYP §2.4.3 and RFC 8881 §6.2.1.3.1 share the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub u32);

impl Rights {
    pub const NONE: Self = Self(0);
    /// Read a file, list a directory.
    pub const READ: Self = Self(0x1);
    /// Write a file, add files to a directory.
    pub const WRITE: Self = Self(0x2);
    /// Append to a file, add directories to a directory.
    pub const APPEND: Self = Self(0x4);
    pub const READ_XATTRS: Self = Self(0x8);
    pub const WRITE_XATTRS: Self = Self(0x10);
    /// Execute a file, traverse a directory.
    pub const EXECUTE: Self = Self(0x20);
    /// Remove entries of a directory, regardless of the entry's own list.
    pub const DELETE_CHILD: Self = Self(0x40);
    pub const READ_ATTRS: Self = Self(0x80);
    /// Set times and attributes.
    pub const WRITE_ATTRS: Self = Self(0x100);
    pub const DELETE: Self = Self(0x1_0000);
    pub const READ_ACL: Self = Self(0x2_0000);
    pub const WRITE_ACL: Self = Self(0x4_0000);
    pub const WRITE_OWNER: Self = Self(0x8_0000);
    /// Synchronize. Stored without an effect.
    pub const SYNCHRONIZE: Self = Self(0x10_0000);
    pub const ALL: Self = Self(0x1f_01ff);
    /// All rights of reading: the generic right to read of Windows (MS-SMB2 §2.2.13.1.1).
    pub const READ_ALL: Self =
        Self(Self::READ.0 | Self::READ_XATTRS.0 | Self::READ_ATTRS.0 | Self::READ_ACL.0);

    /// Rights of every caller that finds a file ruled by mode bits.
    const ALWAYS: Self = Self(Self::READ_ATTRS.0 | Self::READ_ACL.0 | Self::SYNCHRONIZE.0);
    /// Rights of an owner besides.
    const OF_OWNERS: Self = Self(Self::WRITE_ATTRS.0 | Self::WRITE_ACL.0 | Self::WRITE_OWNER.0);
    /// Rights of an owner by any list without an OWNER RIGHTS entry (MS-DTYP §2.5.3.2).
    const IMPLIED: Self = Self(Self::READ_ACL.0 | Self::WRITE_ACL.0);

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Converts three mode bits.
    fn from_bits(bits: u32) -> Self {
        let write = Self::WRITE | Self::APPEND | Self::WRITE_XATTRS | Self::WRITE_ATTRS | Self::DELETE_CHILD;
        let rights = [(4, Self::READ | Self::READ_XATTRS), (2, write), (1, Self::EXECUTE)];
        let rights = rights.into_iter().filter(|(bit, _)| bits & bit != 0);
        rights.fold(Self::ALWAYS, |all, (_, rights)| all | rights)
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Rights {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for Rights {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    User(u32),
    Group(u32),
    Everyone,
    /// Every caller that names a user.
    Authenticated,
    /// The creator of the file that inherits the entry (CREATOR OWNER).
    CreatorOwner,
    CreatorGroup,
    /// The owner of the file; such entries replace the implied rights of owners (OWNER RIGHTS).
    OwnerRights,
    /// The SYSTEM account of a client. Matches no caller.
    System,
    /// A foreign security identifier, as bytes. Matches no caller.
    Stranger(Box<[u8]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Allow,
    Deny,
}

/// The inheritance flags of an entry, with the bits of MS-DTYP §2.4.4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inherit(pub u8);

impl Inherit {
    pub const NONE: Self = Self(0);
    pub const FILES: Self = Self(0x01);
    pub const DIRS: Self = Self(0x02);
    /// The inherited entry is not inherited further.
    pub const NO_PROPAGATE: Self = Self(0x04);
    /// The entry does not apply to the directory itself.
    pub const ONLY: Self = Self(0x08);
    pub const INHERITED: Self = Self(0x10);
    pub const ALL: Self = Self(0x1f);

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    pub effect: Effect,
    pub inherit: Inherit,
    pub rights: Rights,
    pub who: Principal,
}

impl AclEntry {
    pub const fn allow(who: Principal, rights: Rights, inherit: Inherit) -> Self {
        Self { effect: Effect::Allow, inherit, rights, who }
    }

    pub const fn deny(who: Principal, rights: Rights, inherit: Inherit) -> Self {
        Self { effect: Effect::Deny, inherit, rights, who }
    }

    fn is_effective(&self) -> bool {
        !self.inherit.has(Inherit::ONLY)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// The entries, in their order. `None` allows every access (a null list); an empty list allows none.
    pub entries: Option<Vec<AclEntry>>,
    /// Whether inheritance from the lists above must not change this list (a protected list). Clients honor the flag.
    pub is_protected: bool,
    /// Whether inheriting lists are marked so (an auto-inherited list).
    pub is_auto_inherited: bool,
}

/// The rights that entries grant: the first entry that names a right decides it (MS-DTYP §2.5.3.2, RFC 8881 §6.2.1).
pub fn first_match(entries: impl IntoIterator<Item = (Effect, Rights)>) -> Rights {
    let (mut allowed, mut denied) = (Rights::NONE, Rights::NONE);
    for (effect, rights) in entries {
        match effect {
            Effect::Allow => allowed |= rights.without(denied),
            Effect::Deny => denied |= rights.without(allowed),
        }
    }
    allowed
}

impl Acl {
    /// The list equivalent to owner, group and mode bits. Class entries come in the order in which mode bits are read.
    /// A directory without a list passes this list on to new files, for the owner of each.
    pub fn from_mode(attrs: &Attrs) -> Self {
        let is_dir = attrs.file_type == FileType::Directory;
        let [owners, groups, others] = [6, 3, 0].map(|shift| Rights::from_bits(attrs.mode >> shift));
        let later = if is_dir { Inherit::FILES.and(Inherit::DIRS) } else { Inherit::NONE };
        let allow = |who, rights, inherit| Some(AclEntry::allow(who, rights, inherit));
        let deny = |who, rights: Rights| {
            (rights != Rights::NONE).then(|| AclEntry::deny(who, rights, Inherit::NONE))
        };
        let creator = allow(Principal::CreatorOwner, Rights::ALL, later.and(Inherit::ONLY));
        let entries = [
            allow(Principal::User(attrs.uid), owners | Rights::OF_OWNERS, Inherit::NONE),
            deny(Principal::User(attrs.uid), (groups | others).without(owners | Rights::OF_OWNERS)),
            creator.filter(|_| is_dir),
            allow(Principal::Group(attrs.gid), groups, later),
            deny(Principal::Group(attrs.gid), others.without(groups)),
            allow(Principal::Everyone, others, later),
        ];
        Self { entries: Some(entries.into_iter().flatten().collect()), ..Self::default() }
    }

    /// The list of a new file in a directory without inheritable entries: the owner alone.
    fn of_owner(uid: u32) -> Self {
        let all = |who| AclEntry::allow(who, Rights::ALL, Inherit::NONE);
        let entries = Some(vec![all(Principal::User(uid)), all(Principal::System)]);
        Self { entries, ..Self::default() }
    }

    pub fn granted(&self, attrs: &Attrs, caller: &Caller) -> Rights {
        let Some(entries) = self.entries.as_ref().filter(|_| !caller.is_root()) else { return Rights::ALL };
        let owns = caller.uid == attrs.uid;
        let is_about = |who: &Principal| match *who {
            Principal::User(uid) => uid == caller.uid && uid != INVALID_ID,
            Principal::Group(gid) => caller.is_in(gid) && gid != INVALID_ID,
            Principal::Everyone => true,
            Principal::Authenticated => caller.proof != Proof::None,
            Principal::OwnerRights => owns,
            Principal::CreatorOwner
            | Principal::CreatorGroup
            | Principal::System
            | Principal::Stranger(_) => false,
        };
        let effective = || entries.iter().filter(|entry| entry.is_effective());
        let speaks_of_owners = effective().any(|entry| entry.who == Principal::OwnerRights);
        let implied = (owns && !speaks_of_owners).then_some((Effect::Allow, Rights::IMPLIED));
        let about = effective().filter(|entry| is_about(&entry.who));
        first_match(implied.into_iter().chain(about.map(|entry| (entry.effect, entry.rights))))
    }

    /// The list of a new file or directory of this owner and group, below a directory that has this one
    /// (MS-DTYP §2.5.3.4).
    #[must_use]
    pub fn inherited(&self, uid: u32, gid: u32, is_dir: bool) -> Self {
        let mark = if self.is_auto_inherited { Inherit::INHERITED } else { Inherit::NONE };
        let mut entries = Vec::new();
        for entry in self.entries.iter().flatten() {
            let flags = entry.inherit.without(Inherit::INHERITED).without(Inherit::ONLY);
            let (files, dirs) = (flags.has(Inherit::FILES), flags.has(Inherit::DIRS));
            let hands_on = is_dir && (files || dirs) && !flags.has(Inherit::NO_PROPAGATE);
            let is_effective = if is_dir { dirs } else { files };
            let who = match entry.who {
                Principal::CreatorOwner => Principal::User(uid),
                Principal::CreatorGroup => Principal::Group(gid),
                ref who => who.clone(),
            };
            let stays = who == entry.who;
            let inherit = if hands_on && stays { flags.and(mark) } else { mark };
            if is_effective {
                entries.push(AclEntry { inherit, who, ..entry.clone() });
            }
            if hands_on && !(is_effective && stays) {
                entries.push(AclEntry { inherit: flags.and(Inherit::ONLY).and(mark), ..entry.clone() });
            }
        }
        if entries.is_empty() {
            return Self::of_owner(uid);
        }
        // Two entries come of one for creators, and a list may not grow by being handed on.
        entries.truncate(ACL_ENTRIES_MAX);
        Self { entries: Some(entries), is_protected: false, is_auto_inherited: self.is_auto_inherited }
    }

    /// Returns mode bits that give no caller more than the list does, for a file of this owner and group. They are
    /// shown where a protocol knows only modes, and rule where the list is unknown.
    pub fn mode(&self, uid: u32, gid: u32) -> u32 {
        let Some(entries) = &self.entries else { return PERMISSIONS };
        let of = |given: &[Principal]| {
            let is_owner = given.contains(&Principal::User(uid));
            let counts = |entry: &&AclEntry| match entry.effect {
                Effect::Allow => matches!(entry.who, Principal::Everyone) || given.contains(&entry.who),
                // Another principal may be a member of any class; only an owner is certainly not another user.
                Effect::Deny => !matches!(&entry.who, Principal::User(other) if is_owner && *other != uid),
            };
            let effective = entries.iter().filter(|entry| entry.is_effective()).filter(counts);
            let allowed = first_match(effective.map(|entry| (entry.effect, entry.rights)));
            let write = Rights::WRITE | Rights::APPEND;
            let bits = [(4, Rights::READ), (2, write), (1, Rights::EXECUTE)];
            bits.into_iter().filter(|(_, rights)| allowed.has(*rights)).fold(0, |all, (bit, _)| all | bit)
        };
        let owner = of(&[Principal::User(uid), Principal::OwnerRights]);
        owner << 6 | of(&[Principal::Group(gid)]) << 3 | of(&[])
    }
}
