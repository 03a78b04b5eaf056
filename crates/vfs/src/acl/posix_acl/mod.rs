//! Access control lists of POSIX (POSIX.1e draft 17, acl(5)), which Linux keeps with files and enforces beside their mode bits.
//!
//! An access list decides about its file. Owner, mask and others of it are the classes of the mode, so the group bits of a mode
//! say nothing of the group where there is a list. A default list belongs to a directory, which hands it on to new files.

#[cfg(test)]
mod tests;
mod xattr;

use super::Effect;
use crate::model::attrs::MODE_BITS;
use std::collections::HashSet;

/// Most entries of a list: as many as fit into the largest extended attribute of Linux.
pub const POSIX_ACL_ENTRIES_MAX: usize = 8191;
const PERMISSIONS: u32 = 0o777;
/// The group bits, which are the mask of a list.
const GROUP_BITS: u32 = 0o070;

/// A list. Permissions are three bits each, as in a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixAcl {
    pub owner: u32,
    pub group: u32,
    /// The most that the owning group and named users and groups get. Present if any named entry exists.
    pub mask: Option<u32>,
    pub other: u32,
    /// Users by number, with their permissions. The first entry about a user counts.
    pub users: Box<[(u32, u32)]>,
    pub groups: Box<[(u32, u32)]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclTag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Everyone,
}

/// Most users and groups of a list that a protocol shows whole. Of a longer one it shows the owner's entries alone.
const SHOWN_MAX: usize = 256;

impl PosixAcl {
    /// Returns [`PosixAcl::entries`] for a client that sees lists of another kind.
    /// A long list shows the owner's entries only.
    pub fn shown_entries(&self, mode: u32) -> Vec<(Effect, AclTag, u32)> {
        let mut entries = self.entries(mode);
        if self.users.len() + self.groups.len() > SHOWN_MAX {
            entries.retain(|(_, tag, _)| *tag == AclTag::Owner);
        }
        entries
    }

    /// Whether the list has more than a mode can express.
    pub fn is_extended(&self) -> bool {
        self.mask.is_some()
    }

    /// Returns the permissions of the equivalent mode.
    pub fn mode(&self) -> u32 {
        self.owner << 6 | self.mask.unwrap_or(self.group) << 3 | self.other
    }

    /// Applies chmod(2) to the list.
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> Self {
        let [owner, group, other] = [6, 3, 0].map(|shift| mode >> shift & 7);
        let mut new = Self { owner, other, ..self.clone() };
        match &mut new.mask {
            Some(mask) => *mask = group,
            None => new.group = group,
        }
        new
    }

    /// Returns the mode of a new object with requested `mode` below a directory with this default list.
    pub fn mode_of_new(&self, mode: u32) -> u32 {
        mode & MODE_BITS & (self.mode() | !PERMISSIONS)
    }

    /// Returns the access list of a new object with `mode`; `None` if the mode is equivalent.
    pub fn inherited(&self, mode: u32) -> Option<Self> {
        self.is_extended().then(|| self.with_mode(mode))
    }

    /// Converts the list and `mode` to entries of which the first that names a permission decides. A request whose
    /// permissions come from several groups passes here, although Linux would grant each only separately.
    pub fn entries(&self, mode: u32) -> Vec<(Effect, AclTag, u32)> {
        let [owner, mask, other] = [6, 3, 0].map(|shift| mode >> shift & 7);
        // Without a mask Linux looks at the mode alone.
        let is_ruled = self.is_extended() && mode & GROUP_BITS != 0;
        let (users, groups): (&[_], &[_]) = if is_ruled { (&self.users, &self.groups) } else { (&[], &[]) };
        let owning = if is_ruled { self.group & mask } else { mask };
        let groups: Vec<(AclTag, u32)> = std::iter::once((AclTag::OwningGroup, owning))
            .chain(groups.iter().map(|(gid, bits)| (AclTag::Group(*gid), bits & mask)))
            .collect();
        // Of two entries for one user, the first rules.
        let mut seen = HashSet::new();
        let users = users.iter().filter(|(uid, _)| seen.insert(*uid));
        let users: Vec<(AclTag, u32)> = users.map(|(uid, bits)| (AclTag::User(*uid), bits & mask)).collect();
        let of = |all: &[(AclTag, u32)]| all.iter().fold(0, |union, (_, bits)| union | bits);
        let of_groups = of(&groups) | other;
        let mut entries = Vec::new();
        let mut push = |effect, who, bits: u32| {
            if bits != 0 || effect == Effect::Allow {
                entries.push((effect, who, bits));
            }
        };
        push(Effect::Allow, AclTag::Owner, owner);
        push(Effect::Deny, AclTag::Owner, (of(&users) | of_groups) & !owner);
        for (who, bits) in users {
            push(Effect::Allow, who, bits);
            push(Effect::Deny, who, of_groups & !bits);
        }
        groups.iter().for_each(|(who, bits)| push(Effect::Allow, *who, *bits));
        groups.iter().for_each(|(who, bits)| push(Effect::Deny, *who, other & !bits));
        push(Effect::Allow, AclTag::Everyone, other);
        entries
    }
}
