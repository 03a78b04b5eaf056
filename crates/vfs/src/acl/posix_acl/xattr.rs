//! POSIX ACLs as the kernel stores them: the values of `system.posix_acl_access` and `system.posix_acl_default`
//! (`linux/posix_acl_xattr.h`). A value is a version, then for each entry a tag, permissions and an identifier, all
//! little-endian.

use super::{POSIX_ACL_ENTRIES_MAX, PosixAcl};
use crate::error::{FsError, FsResult};
use crate::model::caller::INVALID_ID;

const VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

type Named = Box<[(u32, u32)]>;
/// One entry: its tag, permissions and identifier.
type Entry = (u16, u32, u32);

impl PosixAcl {
    /// Decodes the value of an extended attribute; `None` if it has no entry. [`FsError::Io`], as from Linux, if the
    /// value is invalid: then only the owner has access.
    pub fn from_xattr(value: &[u8]) -> FsResult<Option<Self>> {
        let (version, rest) = value.split_first_chunk().ok_or(FsError::Io)?;
        let (entries, []) = rest.as_chunks::<8>() else { return Err(FsError::Io) };
        if u32::from_le_bytes(*version) != VERSION || entries.len() > POSIX_ACL_ENTRIES_MAX {
            return Err(FsError::Io);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let entries: Vec<Entry> = entries.iter().map(entry).collect();
        from_entries(&entries).ok_or(FsError::Io).map(Some)
    }

    pub fn to_xattr(&self) -> Vec<u8> {
        let named = |tag: u16, all: &[(u32, u32)]| -> Vec<Entry> {
            all.iter().map(|(id, bits)| (tag, *bits, *id)).collect()
        };
        let single = |tag, bits| vec![(tag, bits, INVALID_ID)];
        let entries = [
            single(OWNER, self.owner),
            named(USER, &self.users),
            single(OWNING_GROUP, self.group),
            named(GROUP, &self.groups),
            self.mask.map_or_else(Vec::new, |mask| single(MASK, mask)),
            single(OTHER, self.other),
        ];
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, bits, id) in entries.concat() {
            value.extend(tag.to_le_bytes());
            value.extend(u16::try_from(bits & 7).unwrap_or(0).to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }
}

fn entry(&[a, b, c, d, id @ ..]: &[u8; 8]) -> Entry {
    (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]).into(), u32::from_le_bytes(id))
}

/// Builds a list; `None` unless the entries are in order and none is repeated too often (`posix_acl_valid`).
fn from_entries(entries: &[Entry]) -> Option<PosixAcl> {
    if entries.iter().any(|(_, bits, _)| *bits > 7) {
        return None;
    }
    let [(OWNER, owner, _), rest @ ..] = entries else { return None };
    let (users, rest) = named(rest, USER);
    let [(OWNING_GROUP, group, _), rest @ ..] = rest else { return None };
    let (groups, rest) = named(rest, GROUP);
    let (mask, other) = match rest {
        [(MASK, mask, _), (OTHER, other, _)] => (Some(*mask), other),
        [(OTHER, other, _)] if users.is_empty() && groups.is_empty() => (None, other),
        _ => return None,
    };
    Some(PosixAcl { owner: *owner, group: *group, mask, other: *other, users, groups })
}

/// Returns the named entries at the front with this tag, and the rest. An identifier without a number in this user
/// namespace becomes [`INVALID_ID`], which no caller has.
fn named(entries: &[Entry], tag: u16) -> (Named, &[Entry]) {
    let count = entries.iter().take_while(|(found, ..)| *found == tag).count();
    let (named, rest) = entries.split_at(count);
    (named.iter().map(|(_, bits, id)| (*id, *bits)).collect(), rest)
}
