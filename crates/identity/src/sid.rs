//! Security identifiers (MS-DTYP §2.4.2): who somebody is, to Windows.
//!
//! Users and groups of ours have one of this machine, whose relative identifier is made of their number; other numbers have
//! one below `S-1-22`, as Samba writes them. So a number and its identifier can always be had from each other.

use crate::limits::ID_MAX;
use std::fmt;

/// Parts after the authority, at most (MS-DTYP §2.4.2).
const PARTS_MAX: usize = 15;
/// `SECURITY_CREATOR_SID_AUTHORITY`.
const CREATOR: u64 = 3;
/// `SECURITY_NT_AUTHORITY`.
const NT: u64 = 5;
/// Of Unix users and groups, `S-1-22-1-uid` and `S-1-22-2-gid`.
const UNIX: u64 = 22;
/// What the identifiers of a machine begin with: `SECURITY_NT_NON_UNIQUE`.
const NON_UNIQUE: u32 = 21;
/// What the identifiers of groups that every machine has begin with: `SECURITY_BUILTIN_DOMAIN_RID`.
const BUILTIN: u32 = 32;
/// The first relative identifier that Windows gives to users and groups; those before are its own.
const FIRST: u32 = 1000;
/// `DOMAIN_GROUP_RID_USERS`, MS-SAMR §2.2.1.14: the group that all users of a machine have as their primary one.
const ALL_USERS: u32 = 513;

/// `SID`, MS-DTYP §2.4.2.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid {
    /// Below 2^48.
    authority: u64,
    parts: Box<[u32]>,
}

impl Sid {
    /// `S-1-1-0`: everybody.
    pub fn everyone() -> Self {
        Self::of(1, [0])
    }

    /// `S-1-5-7`: those without a name.
    pub fn anonymous() -> Self {
        Self::of(NT, [7])
    }

    /// `S-1-5-11`: those with one.
    pub fn authenticated_users() -> Self {
        Self::of(NT, [11])
    }

    /// `S-1-3-0`: whoever makes a file that inherits what is said of it.
    pub fn creator_owner() -> Self {
        Self::of(CREATOR, [0])
    }

    /// `S-1-3-1`: the group of whoever makes it.
    pub fn creator_group() -> Self {
        Self::of(CREATOR, [1])
    }

    /// `S-1-3-4`: whoever owns a file.
    pub fn owner_rights() -> Self {
        Self::of(CREATOR, [4])
    }

    /// `S-1-5-18`: the system.
    pub fn system() -> Self {
        Self::of(NT, [18])
    }

    /// `S-1-5-32`: the domain of the groups that every machine has.
    pub fn builtin() -> Self {
        Self::of(NT, [BUILTIN])
    }

    /// `S-1-5-21-a-b-c`: a machine, by numbers drawn once.
    pub fn machine(random: [u32; 3]) -> Self {
        let [a, b, c] = random;
        Self::of(NT, [NON_UNIQUE, a, b, c])
    }

    /// Below `authority`; the first parts of `parts`, if there are too many.
    pub(crate) fn of(authority: u64, parts: impl IntoIterator<Item = u32>) -> Self {
        Self { authority, parts: parts.into_iter().take(PARTS_MAX).collect() }
    }

    /// `S-1-22-1-uid`: a user of the host.
    pub(crate) fn unix_user(uid: u32) -> Self {
        Self::of(UNIX, [1, uid])
    }

    /// `S-1-22-2-gid`: a group of the host.
    pub(crate) fn unix_group(gid: u32) -> Self {
        Self::of(UNIX, [2, gid])
    }

    /// A user of ours on this machine.
    pub(crate) fn user(&self, uid: u32) -> Self {
        self.below(FIRST + 2 * uid.min(ID_MAX))
    }

    /// A group of ours on this machine.
    pub(crate) fn group(&self, gid: u32) -> Self {
        self.below(FIRST + 2 * gid.min(ID_MAX) + 1)
    }

    /// The group of all users of this machine.
    pub(crate) fn all_users(&self) -> Self {
        self.below(ALL_USERS)
    }

    /// The relative identifier: the last part. 0 if there is none.
    pub(crate) fn relative(&self) -> u32 {
        self.parts.last().copied().unwrap_or(0)
    }

    /// The identifier of what has this relative one on this machine.
    pub(crate) fn below(&self, relative: u32) -> Self {
        Self::of(self.authority, self.parts.iter().copied().chain([relative]))
    }

    /// The number of whom [`Sid::user`] or [`Sid::group`] of `machine` is this, or the like of a user or group of the host.
    pub(crate) fn number(&self, machine: &Self) -> Option<Number> {
        if let (UNIX, &[kind, id]) = (self.authority, &*self.parts) {
            return match kind {
                1 => Some(Number { id, is_group: false, is_ours: false }),
                2 => Some(Number { id, is_group: true, is_ours: false }),
                _ => None,
            };
        }
        let (&relative, above) = self.parts.split_last()?;
        if self.authority != machine.authority || *above != *machine.parts {
            return None;
        }
        let place = relative.checked_sub(FIRST)?;
        Some(Number { id: place / 2, is_group: place % 2 == 1, is_ours: true })
    }

    /// As on the wire: revision, count, authority (big-endian), parts (little-endian).
    pub fn to_bytes(&self) -> Vec<u8> {
        let [_, _, authority @ ..] = self.authority.to_be_bytes();
        // At most 15.
        let count = u8::try_from(self.parts.len()).unwrap_or(0);
        let mut bytes = vec![1, count];
        bytes.extend(authority);
        bytes.extend(self.parts.iter().flat_map(|part| part.to_le_bytes()));
        bytes
    }

    /// The identifier that `bytes` begin with, and how many of them it is.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, usize)> {
        let (&[revision, count], rest) = bytes.split_first_chunk()?;
        let (&[a, b, c, d, e, f], rest) = rest.split_first_chunk()?;
        let count = usize::from(count);
        if revision != 1 || count > PARTS_MAX {
            return None;
        }
        let (parts, _) = rest.get(..4 * count)?.as_chunks();
        let parts = parts.iter().map(|&part| u32::from_le_bytes(part));
        Some((Self::of(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), parts), 8 + 4 * count))
    }
}

/// A number that an identifier is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) id: u32,
    pub(crate) is_group: bool,
    /// Whether it is that of a user or group of ours, if there is one.
    pub(crate) is_ours: bool,
}

impl fmt::Display for Sid {
    /// MS-DTYP §2.4.2.1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.authority >> 32 == 0 {
            write!(f, "S-1-{}", self.authority)?;
        } else {
            write!(f, "S-1-0x{:012x}", self.authority)?;
        }
        self.parts.iter().try_for_each(|part| write!(f, "-{part}"))
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
        parse(text).ok_or_else(|| format!("{text:?} is no security identifier like S-1-5-21-1-2-3-1000"))
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
    (authority >> 48 == 0 && parts.len() <= PARTS_MAX).then(|| Sid::of(authority, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_bytes_come_back() {
        for text in ["S-1-1-0", "S-1-5-21-1-2-4294967295-1000", "S-1-0x123456789abc-1", "S-1-16-12288"] {
            let sid: Sid = text.parse().unwrap();
            assert_eq!(sid.to_string(), text);
            let bytes = [&sid.to_bytes()[..], b"more"].concat();
            assert_eq!(Sid::from_bytes(&bytes), Some((sid, bytes.len() - 4)));
        }
        assert_eq!(Sid::everyone().to_bytes(), [1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_none_is_refused() {
        let long = format!("S-1-5{}", "-1".repeat(PARTS_MAX + 1));
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
    fn numbers_come_back() {
        let machine = Sid::machine([7, 8, 9]);
        let number = |id, is_group, is_ours| Some(Number { id, is_group, is_ours });
        for id in [0, 1, 1000, ID_MAX] {
            assert_eq!(machine.user(id).number(&machine), number(id, false, true));
            assert_eq!(machine.group(id).number(&machine), number(id, true, true));
        }
        assert_eq!(Sid::unix_user(u32::MAX).number(&machine), number(u32::MAX, false, false));
        assert_eq!(Sid::unix_group(5).number(&machine), number(5, true, false));
        for other in
            [Sid::machine([7, 8, 10]).user(1), machine.below(FIRST - 1), Sid::everyone(), Sid::of(22, [3, 1])]
        {
            assert_eq!(other.number(&machine), None, "{other}");
        }
    }
}
