//! A list as it is stored with its file: docs/formats/acl-xattr.md.

use super::{ACL_ENTRIES_MAX, Acl, AclEntry, Effect, Inherit, Principal, Rights, STRANGER_BYTES_MAX};
use crate::model::attrs::Attrs;

/// The first byte of a record of this format.
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 16;
/// Bytes of an entry without a foreign identifier.
const ENTRY_BYTES: usize = 12;
const IS_PROTECTED: u8 = 1;
const IS_AUTO_INHERITED: u8 = 2;
const IS_NULL: u8 = 4;

/// A list and the state of its file. A change of owner, group or mode outside this service invalidates the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) acl: Acl,
    uid: u32,
    gid: u32,
    mode: u16,
}

impl Record {
    pub(crate) fn new(acl: Acl, uid: u32, gid: u32, mode: u32) -> Self {
        Self { acl, uid, gid, mode: bits(mode) }
    }

    /// Whether the file still has the owner, group and mode for which the list was set.
    pub(crate) fn is_of(&self, attrs: &Attrs) -> bool {
        (self.uid, self.gid, self.mode) == (attrs.uid, attrs.gid, bits(attrs.mode))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = [
            (self.acl.is_protected, IS_PROTECTED),
            (self.acl.is_auto_inherited, IS_AUTO_INHERITED),
            (self.acl.entries.is_none(), IS_NULL),
        ];
        let flags = flags.into_iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
        let entries = self.acl.entries.as_deref().unwrap_or_default();
        // The callers that build a list enforce its bound.
        let count = u16::try_from(entries.len()).unwrap_or(u16::MAX);
        let mut bytes = Vec::with_capacity(HEAD_BYTES + ENTRY_BYTES * entries.len());
        bytes.extend([VERSION, flags]);
        bytes.extend(count.to_be_bytes());
        bytes.extend(self.uid.to_be_bytes());
        bytes.extend(self.gid.to_be_bytes());
        bytes.extend(self.mode.to_be_bytes());
        bytes.extend([0; 2]);
        entries.iter().for_each(|entry| encode_entry(entry, &mut bytes));
        bytes
    }

    /// Decodes stored bytes; `None` if they are malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[version, flags, c, d], rest) = bytes.split_first_chunk()?;
        let (uid, rest) = rest.split_first_chunk()?;
        let (gid, rest) = rest.split_first_chunk()?;
        let (&[e, f, 0, 0], mut rest) = rest.split_first_chunk()? else { return None };
        let count = usize::from(u16::from_be_bytes([c, d]));
        let is_null = flags & IS_NULL != 0;
        if version != VERSION
            || flags & !(IS_PROTECTED | IS_AUTO_INHERITED | IS_NULL) != 0
            || count > ACL_ENTRIES_MAX
            || is_null && count > 0
        {
            return None;
        }
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(decode_entry(&mut rest)?);
        }
        let acl = Acl {
            entries: (!is_null).then_some(entries),
            is_protected: flags & IS_PROTECTED != 0,
            is_auto_inherited: flags & IS_AUTO_INHERITED != 0,
        };
        let (uid, gid, mode) =
            (u32::from_be_bytes(*uid), u32::from_be_bytes(*gid), u16::from_be_bytes([e, f]));
        rest.is_empty().then_some(Self { acl, uid, gid, mode })
    }
}

fn bits(mode: u32) -> u16 {
    u16::try_from(mode & crate::model::attrs::MODE_BITS).unwrap_or(0)
}

fn encode_entry(entry: &AclEntry, bytes: &mut Vec<u8>) {
    let (kind, id, stranger): (u8, u32, &[u8]) = match &entry.who {
        Principal::User(uid) => (0, *uid, &[]),
        Principal::Group(gid) => (1, *gid, &[]),
        Principal::Everyone => (2, 0, &[]),
        Principal::Authenticated => (3, 0, &[]),
        Principal::CreatorOwner => (4, 0, &[]),
        Principal::CreatorGroup => (5, 0, &[]),
        Principal::OwnerRights => (6, 0, &[]),
        Principal::System => (7, 0, &[]),
        Principal::Stranger(id) => (8, 0, id),
    };
    let effect = match entry.effect {
        Effect::Allow => 0,
        Effect::Deny => 1,
    };
    let length = u8::try_from(stranger.len()).unwrap_or(0);
    bytes.extend([effect, entry.inherit.0, kind, length]);
    bytes.extend(entry.rights.0.to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend(&stranger[..usize::from(length)]);
}

fn decode_entry(rest: &mut &[u8]) -> Option<AclEntry> {
    let (&[effect, inherit, kind, length], after) = rest.split_first_chunk()?;
    let (rights, after) = after.split_first_chunk()?;
    let (id, after) = after.split_first_chunk()?;
    let (stranger, after) = after.split_at_checked(usize::from(length))?;
    *rest = after;
    let id = u32::from_be_bytes(*id);
    let who = match (kind, id, stranger) {
        (0, uid, []) => Principal::User(uid),
        (1, gid, []) => Principal::Group(gid),
        (2, 0, []) => Principal::Everyone,
        (3, 0, []) => Principal::Authenticated,
        (4, 0, []) => Principal::CreatorOwner,
        (5, 0, []) => Principal::CreatorGroup,
        (6, 0, []) => Principal::OwnerRights,
        (7, 0, []) => Principal::System,
        (8, 0, stranger) if (1..=STRANGER_BYTES_MAX).contains(&stranger.len()) => {
            Principal::Stranger(stranger.into())
        }
        _ => return None,
    };
    let effect = match effect {
        0 => Effect::Allow,
        1 => Effect::Deny,
        _ => return None,
    };
    let rights = Rights(u32::from_be_bytes(*rights));
    let is_known = Rights::ALL.has(rights) && Inherit::ALL.has(Inherit(inherit));
    is_known.then_some(AclEntry { effect, inherit: Inherit(inherit), rights, who })
}
