//! Security identifiers (MS-DTYP §2.4.2).
//!
//! A local user or group has a SID of this machine, with a relative identifier derived from its number. Other numbers
//! have a SID below `S-1-22`, as in Samba. The mapping works in both directions without a table.

use crate::limits::ID_MAX;
use std::fmt;

/// MS-DTYP §2.4.2.
const SUB_AUTHORITIES_MAX: usize = 15;
/// `SECURITY_CREATOR_SID_AUTHORITY`.
const CREATOR: u64 = 3;
/// `SECURITY_NT_AUTHORITY`.
const NT: u64 = 5;
/// The authority of Unix users and groups: `S-1-22-1-uid` and `S-1-22-2-gid`.
const UNIX: u64 = 22;
/// `SECURITY_NT_NON_UNIQUE`, the first sub-authority of machine SIDs.
const NON_UNIQUE: u32 = 21;
/// `SECURITY_BUILTIN_DOMAIN_RID`, the first sub-authority of groups that every machine has.
const BUILTIN: u32 = 32;
/// The first relative identifier for users and groups; Windows reserves the lower ones.
const FIRST_RID: u32 = 1000;
/// `DOMAIN_GROUP_RID_USERS`, MS-SAMR §2.2.1.14: the primary group of all users of a machine.
const DOMAIN_USERS_RID: u32 = 513;

/// `SID`, MS-DTYP §2.4.2.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid {
    /// A number below 2^48.
    authority: u64,
    sub_authorities: Box<[u32]>,
}

impl Sid {
    /// `S-1-1-0`.
    pub fn everyone() -> Self {
        Self::from_parts(1, [0])
    }

    /// `S-1-5-7`.
    pub fn anonymous() -> Self {
        Self::from_parts(NT, [7])
    }

    /// `S-1-5-11`.
    pub fn authenticated_users() -> Self {
        Self::from_parts(NT, [11])
    }

    /// `S-1-3-0`, a placeholder that inheritance replaces by the owner of the new file.
    pub fn creator_owner() -> Self {
        Self::from_parts(CREATOR, [0])
    }

    /// `S-1-3-1`, a placeholder that inheritance replaces by the group of the new file.
    pub fn creator_group() -> Self {
        Self::from_parts(CREATOR, [1])
    }

    /// `S-1-3-4`, the current owner of a file.
    pub fn owner_rights() -> Self {
        Self::from_parts(CREATOR, [4])
    }

    /// `S-1-5-18`.
    pub fn system() -> Self {
        Self::from_parts(NT, [18])
    }

    /// `S-1-5-32`, the domain of the groups that every machine has.
    pub fn builtin() -> Self {
        Self::from_parts(NT, [BUILTIN])
    }

    /// `S-1-5-21-a-b-c`, with numbers drawn once per machine.
    pub fn machine(random: [u32; 3]) -> Self {
        let [a, b, c] = random;
        Self::from_parts(NT, [NON_UNIQUE, a, b, c])
    }

    /// Drops sub-authorities beyond the maximum.
    pub(crate) fn from_parts(authority: u64, parts: impl IntoIterator<Item = u32>) -> Self {
        Self { authority, sub_authorities: parts.into_iter().take(SUB_AUTHORITIES_MAX).collect() }
    }

    /// `S-1-22-1-uid`, a user of the host.
    pub(crate) fn unix_user(uid: u32) -> Self {
        Self::from_parts(UNIX, [1, uid])
    }

    /// `S-1-22-2-gid`, a group of the host.
    pub(crate) fn unix_group(gid: u32) -> Self {
        Self::from_parts(UNIX, [2, gid])
    }

    pub(crate) fn user(&self, uid: u32) -> Self {
        self.with_rid(FIRST_RID + 2 * uid.min(ID_MAX))
    }

    pub(crate) fn group(&self, gid: u32) -> Self {
        self.with_rid(FIRST_RID + 2 * gid.min(ID_MAX) + 1)
    }

    /// The group of all users of this machine.
    pub(crate) fn domain_users(&self) -> Self {
        self.with_rid(DOMAIN_USERS_RID)
    }

    /// The relative identifier: the last sub-authority, or 0 if there is none.
    pub(crate) fn rid(&self) -> u32 {
        self.sub_authorities.last().copied().unwrap_or(0)
    }

    pub(crate) fn with_rid(&self, relative: u32) -> Self {
        Self::from_parts(self.authority, self.sub_authorities.iter().copied().chain([relative]))
    }

    /// The inverse of [`Sid::user`] and [`Sid::group`] of `machine`, and of [`Sid::unix_user`] and [`Sid::unix_group`].
    pub(crate) fn mapped_id(&self, machine: &Self) -> Option<MappedId> {
        if let (UNIX, &[kind, id]) = (self.authority, &*self.sub_authorities) {
            return match kind {
                1 => Some(MappedId { id, is_group: false, is_local: false }),
                2 => Some(MappedId { id, is_group: true, is_local: false }),
                _ => None,
            };
        }
        let (&relative, above) = self.sub_authorities.split_last()?;
        if self.authority != machine.authority || *above != *machine.sub_authorities {
            return None;
        }
        let place = relative.checked_sub(FIRST_RID)?;
        Some(MappedId { id: place / 2, is_group: place % 2 == 1, is_local: true })
    }

    /// Encodes revision, count, authority (big-endian) and sub-authorities (little-endian).
    pub fn to_bytes(&self) -> Vec<u8> {
        let [_, _, authority @ ..] = self.authority.to_be_bytes();
        // At most 15.
        let count = u8::try_from(self.sub_authorities.len()).unwrap_or(0);
        let mut bytes = vec![1, count];
        bytes.extend(authority);
        bytes.extend(self.sub_authorities.iter().flat_map(|part| part.to_le_bytes()));
        bytes
    }

    /// Decodes the SID at the start of `bytes`. Returns it with its length.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, usize)> {
        let (&[revision, count], rest) = bytes.split_first_chunk()?;
        let (&[a, b, c, d, e, f], rest) = rest.split_first_chunk()?;
        let count = usize::from(count);
        if revision != 1 || count > SUB_AUTHORITIES_MAX {
            return None;
        }
        let (parts, _) = rest.get(..4 * count)?.as_chunks();
        let parts = parts.iter().map(|&part| u32::from_le_bytes(part));
        Some((Self::from_parts(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), parts), 8 + 4 * count))
    }
}

/// A uid or gid that a SID encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedId {
    pub(crate) id: u32,
    pub(crate) is_group: bool,
    /// Whether the SID is one of this machine, for a local user or group.
    pub(crate) is_local: bool,
}

impl fmt::Display for Sid {
    /// MS-DTYP §2.4.2.1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.authority >> 32 == 0 {
            write!(f, "S-1-{}", self.authority)?;
        } else {
            write!(f, "S-1-0x{:012x}", self.authority)?;
        }
        self.sub_authorities.iter().try_for_each(|part| write!(f, "-{part}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Sid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text)
            .ok_or_else(|| format!("{text:?} is not a security identifier such as S-1-5-21-1-2-3-1000"))
    }
}

fn parse(text: &str) -> Option<Sid> {
    let mut parts = text.strip_prefix("S-1-")?.split('-');
    let authority = parts.next()?;
    let authority = match authority.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => authority.parse().ok()?,
    };
    let parts: Vec<u32> = parts.map(|part| part.parse().ok()).collect::<Option<_>>()?;
    (authority >> 48 == 0 && parts.len() <= SUB_AUTHORITIES_MAX).then(|| Sid::from_parts(authority, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sid_round_trips_through_text_and_bytes() {
        for text in ["S-1-1-0", "S-1-5-21-1-2-4294967295-1000", "S-1-0x123456789abc-1", "S-1-16-12288"] {
            let sid: Sid = text.parse().unwrap();
            assert_eq!(sid.to_string(), text);
            let bytes = [&sid.to_bytes()[..], b"more"].concat();
            assert_eq!(Sid::from_bytes(&bytes), Some((sid, bytes.len() - 4)));
        }
        assert_eq!(Sid::everyone().to_bytes(), [1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn malformed_sid_is_refused() {
        let long = format!("S-1-5{}", "-1".repeat(SUB_AUTHORITIES_MAX + 1));
        for text in
            ["", "S-1-", "S-2-1-0", "S-1-x", "S-1-5-4294967296", "S-1-0x1000000000000-1", "s-1-1-0", &long]
        {
            assert!(text.parse::<Sid>().is_err(), "{text}");
        }
        let mut bytes = Sid::machine([1, 2, 3]).to_bytes();
        for length in 0..bytes.len() {
            assert!(Sid::from_bytes(&bytes[..length]).is_none(), "{length}");
        }
        bytes[1] = 16;
        bytes.resize(100, 0);
        assert!(Sid::from_bytes(&bytes).is_none());
        bytes[..2].copy_from_slice(&[2, 1]);
        assert!(Sid::from_bytes(&bytes).is_none());
    }

    #[test]
    fn local_and_unix_ids_round_trip_through_sid() {
        let machine = Sid::machine([7, 8, 9]);
        let number = |id, is_group, is_ours| Some(MappedId { id, is_group, is_local: is_ours });
        for id in [0, 1, 1000, ID_MAX] {
            assert_eq!(machine.user(id).mapped_id(&machine), number(id, false, true));
            assert_eq!(machine.group(id).mapped_id(&machine), number(id, true, true));
        }
        assert_eq!(Sid::unix_user(u32::MAX).mapped_id(&machine), number(u32::MAX, false, false));
        assert_eq!(Sid::unix_group(5).mapped_id(&machine), number(5, true, false));
        for other in [
            Sid::machine([7, 8, 10]).user(1),
            machine.with_rid(FIRST_RID - 1),
            Sid::everyone(),
            Sid::from_parts(22, [3, 1]),
        ] {
            assert_eq!(other.mapped_id(&machine), None, "{other}");
        }
    }
}
