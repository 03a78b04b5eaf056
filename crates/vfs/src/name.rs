//! Names: validated byte strings.

use crate::error::{FsError, FsResult};
use std::fmt;

/// The longest name, in bytes (Linux `NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;
/// The longest target of a symbolic link, in bytes (Linux `PATH_MAX` less the terminator).
pub const LINK_BYTES_MAX: usize = 4095;

/// One component of a path: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`, and not the service's own [`Name::STREAMS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// The directory in the root of a volume that the streams of its files are in. No client reaches, sees or makes this name,
    /// wherever it is ([`crate::streams`]).
    pub(crate) const STREAMS: Name<'static> = Name(b".plimsoll-streams");

    /// Checks `bytes`: empty, `.`, `..` and names with `/` or NUL are [`FsError::Invalid`], long ones
    /// [`FsError::NameTooLong`]; the service's own name is [`FsError::Access`].
    pub fn new(bytes: &'a [u8]) -> FsResult<Self> {
        match bytes {
            _ if bytes.len() > NAME_BYTES_MAX => Err(FsError::NameTooLong),
            b"" | b"." | b".." => Err(FsError::Invalid),
            _ if bytes.iter().any(|&b| b == b'/' || b == 0) => Err(FsError::Invalid),
            _ if bytes == Self::STREAMS.0 => Err(FsError::Access),
            _ => Ok(Self(bytes)),
        }
    }

    /// The bytes of the name.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_component() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"/"] {
            assert_eq!(Name::new(bad), Err(FsError::Invalid), "{}", bad.escape_ascii());
        }
        assert_eq!(Name::new(&[b'x'; 256]), Err(FsError::NameTooLong));
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert_eq!(Name::new(b"...").map(Name::bytes), Ok(&b"..."[..]));
    }
}
