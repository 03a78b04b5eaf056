//! Extended attributes: small named values of a file without a meaning to the storage (RFC 8276; EAs of SMB).
//!
//! Names have no prefix. The storage maps them to its own names (`user.` on Linux), so no name reaches other
//! attributes. Names that begin with [`RESERVED`] belong to this service and are hidden from clients.

use crate::{Attrs, Change, FsError, FsResult};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::ops::ControlFlow;

/// The longest name, in bytes. A storage may set a lower bound: see [`super::capabilities::XattrLimits`].
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// The largest value, in bytes (Linux `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// All attributes of a file together, in bytes. A bound is needed because a volume's capacity does not count them.
pub const XATTRS_BYTES_MAX: usize = 128 << 10;
/// The allowance of an attribute besides its name and value, in bytes.
pub const XATTR_OVERHEAD_BYTES: usize = 288;
/// The prefix of names that belong to this service.
pub const RESERVED: &[u8] = b"plimsoll.";

/// The longest list of names that Linux returns, in bytes (`XATTR_LIST_MAX`), less a margin for names of other
/// programs.
const LIST_BYTES_MAX: usize = (64 << 10) - 1024;
const _: () = {
    let longest = XATTR_NAME_BYTES_MAX + XATTR_OVERHEAD_BYTES;
    assert!(XATTRS_BYTES_MAX / longest * (b"user.".len() + XATTR_NAME_BYTES_MAX + 1) <= LIST_BYTES_MAX);
    assert!(XATTR_VALUE_BYTES_MAX + longest <= XATTRS_BYTES_MAX);
};

/// The name of an attribute: 1 to 255 bytes without NUL. The service's own names are excluded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct XattrName<'a>(&'a [u8]);

impl<'a> XattrName<'a> {
    /// Checks `bytes`: an empty name and one with NUL is [`FsError::Invalid`], a long one [`FsError::NameTooLong`], one of
    /// this service's own [`FsError::Access`].
    pub fn new(bytes: &'a [u8]) -> FsResult<Self> {
        match bytes {
            _ if bytes.len() > XATTR_NAME_BYTES_MAX => Err(FsError::NameTooLong),
            b"" => Err(FsError::Invalid),
            _ if bytes.contains(&0) => Err(FsError::Invalid),
            _ if bytes.starts_with(RESERVED) => Err(FsError::Access),
            _ => Ok(Self(bytes)),
        }
    }

    pub fn is_own(self) -> bool {
        self.0.starts_with(RESERVED)
    }

    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The position of a list after this name: never 0, and stable while the name exists.
    pub fn cookie(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.0);
        hasher.finish().max(1)
    }
}

impl XattrName<'static> {
    /// The record of [`crate::ExtraAttrs`]. No client can name it, and no list contains it.
    pub const EXTRA_ATTRS: Self = Self(b"plimsoll.kept");
    /// The record of [`crate::Acl`], where a volume is ruled by lists.
    pub const ACL: Self = Self(b"plimsoll.acl");
    /// Owner, group and mode, where a storage that runs as an ordinary user records them itself.
    pub const OWNER: Self = Self(b"plimsoll.owner");
    /// The base of all change numbers of a volume, at its root, where a storage records it.
    pub const COUNTER: Self = Self(b"plimsoll.counter");
}

impl fmt::Debug for XattrName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrsSize {
    pub count: usize,
    /// Bytes of their names and values.
    pub bytes: usize,
}

/// The condition for setting an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    Either,
    /// [`FsError::Exists`] if the attribute exists.
    Create,
    /// [`FsError::NotFound`] if it does not.
    Replace,
}

pub type AuthorizeXattr<'a> = &'a dyn Fn(&Attrs) -> FsResult<()>;

/// Takes names, each with its cookie, until it has enough. `Break` means that the name did not fit and was not taken.
pub type XattrSink<'s> = dyn FnMut(XattrName<'_>, u64) -> ControlFlow<()> + 's;

/// The extended attributes of a file.
///
/// The service's own attributes ([`XattrName::is_own`]) have a separate allowance, and no list contains them.
///
/// Only regular files and directories carry any: for other types every method is [`FsError::NotSupported`]. Changes
/// keep the promises of [`crate::Node`], and are durable after `sync(All)` of the node.
pub trait Xattrs {
    /// Returns the value of an attribute; [`FsError::NotFound`] if it does not exist.
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>>;

    /// Lists names after `cookie` (0: from the start) in the order of their cookies. True if the end was reached; false
    /// if `sink` had enough. A name that exists throughout is listed once, regardless of other changes.
    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool>;

    /// Sets an attribute. A value past [`XATTR_VALUE_BYTES_MAX`] is [`FsError::FileTooBig`]. A total past
    /// [`XATTRS_BYTES_MAX`], or more than the storage has space for, is [`FsError::NoSpace`].
    fn set(
        &self,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
        authorize: AuthorizeXattr<'_>,
    ) -> FsResult<Change>;

    /// Removes an attribute; [`FsError::NotFound`] if it does not exist.
    fn remove(&self, name: XattrName<'_>, authorize: AuthorizeXattr<'_>) -> FsResult<Change>;
}

/// Implements [`Xattrs::list`] over names in any order.
pub fn page<'n>(names: impl Iterator<Item = XattrName<'n>>, cookie: u64, sink: &mut XattrSink<'_>) -> bool {
    let mut rest: Vec<_> = names.map(|name| (name.cookie(), name)).filter(|&(at, _)| at > cookie).collect();
    rest.sort_unstable();
    rest.into_iter().all(|(at, name)| sink(name, at).is_continue())
}

/// Checks the allowance for one more attribute. `others` are name and value lengths.
/// [`FsError::FileTooBig`] if the value is too large, [`FsError::NoSpace`] if the total is.
pub fn check_room(
    others: impl Iterator<Item = (usize, usize)>,
    name: XattrName<'_>,
    value: &[u8],
) -> FsResult<()> {
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(FsError::FileTooBig);
    }
    if name.is_own() {
        return Ok(());
    }
    let lengths = others.chain([(name.0.len(), value.len())]);
    let bytes: usize = lengths.map(|(name, value)| name + value + XATTR_OVERHEAD_BYTES).sum();
    if bytes > XATTRS_BYTES_MAX { Err(FsError::NoSpace) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_a_storage_can_keep() {
        for bad in [&b""[..], b"\0", b"a\0b"] {
            assert_eq!(XattrName::new(bad), Err(FsError::Invalid));
        }
        assert_eq!(XattrName::new(&[b'x'; 256]), Err(FsError::NameTooLong));
        for own in [&b"plimsoll."[..], b"plimsoll.owner"] {
            assert_eq!(XattrName::new(own), Err(FsError::Access));
        }
        for good in [&b"..."[..], b"..", b"/", b"user.plimsoll.owner", b"security.capability", b"plimsoll"] {
            assert_eq!(XattrName::new(good).map(XattrName::bytes), Ok(good));
        }
    }

    #[test]
    fn own_attributes_use_a_separate_allowance() {
        let full = || std::iter::once((1, XATTRS_BYTES_MAX));
        assert_eq!(check_room(full(), XattrName::EXTRA_ATTRS, b"record"), Ok(()));
        assert_eq!(check_room(full(), XattrName(b"x"), b""), Err(FsError::NoSpace));
        assert_eq!(XattrName::new(XattrName::EXTRA_ATTRS.bytes()), Err(FsError::Access));
    }

    #[test]
    fn a_file_has_room_for_the_largest_value_and_a_bound() {
        let name = XattrName::new(&[b'x'; XATTR_NAME_BYTES_MAX]).unwrap();
        let largest = vec![0; XATTR_VALUE_BYTES_MAX];
        assert_eq!(check_room(std::iter::empty(), name, &largest), Ok(()));
        assert_eq!(
            check_room(std::iter::empty(), name, &[&largest[..], b"x"].concat()),
            Err(FsError::FileTooBig)
        );
        assert_eq!(check_room([(1, 64 << 10)].into_iter(), name, &largest), Err(FsError::NoSpace));
        let most = XATTRS_BYTES_MAX / (XATTR_OVERHEAD_BYTES + 1);
        let name = XattrName::new(b"x").unwrap();
        assert_eq!(check_room(std::iter::repeat_n((1, 0), most - 1), name, b""), Ok(()));
        assert_eq!(check_room(std::iter::repeat_n((1, 0), most), name, b""), Err(FsError::NoSpace));
    }
}
