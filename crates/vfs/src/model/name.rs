//! Names: validated byte strings.

use crate::error::{FsError, FsResult};
use std::fmt;

/// The longest name, in bytes (Linux `NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;
/// The longest target of a symbolic link, in bytes (Linux `PATH_MAX` less the terminator).
pub const LINK_BYTES_MAX: usize = 4095;

/// One component of a path: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`, and not the service's own
/// [`Name::STREAMS`], in any case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// The directory in a volume's root for streams. No client reaches, sees or makes this name, in any directory
    /// ([`crate::volume::streams`]).
    pub const STREAMS: Name<'static> = Name(b".plimsoll-streams");

    /// The directory of snapshots in every directory.
    pub const SNAPSHOTS: Name<'static> = Name(b".snapshot");

    /// Checks `bytes`: empty, `.`, `..` and names with `/` or NUL are [`FsError::Invalid`], long ones
    /// [`FsError::NameTooLong`]; the service's own name is [`FsError::Access`].
    pub fn new(bytes: &'a [u8]) -> FsResult<Self> {
        match bytes {
            _ if bytes.len() > NAME_BYTES_MAX => Err(FsError::NameTooLong),
            b"" | b"." | b".." => Err(FsError::Invalid),
            _ if bytes.iter().any(|&b| b == b'/' || b == 0) => Err(FsError::Invalid),
            _ if is_like_streams(bytes) => Err(FsError::Access),
            _ => Ok(Self(bytes)),
        }
    }

    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Whether a file system that ignores case may take this name for [`Name::STREAMS`]: without case, and without the
/// characters that some of them ignore, which are never ASCII.
fn is_like_streams(bytes: &[u8]) -> bool {
    let streams = Name::STREAMS.0;
    // Hardly any name begins like it.
    if bytes.len() < streams.len() || !matches!(bytes[0], b'.' | 0x80..) {
        return false;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let letters = text.chars().flat_map(|letter| match letter {
        'a'..='z' | 'A'..='Z' => [Some(letter.to_ascii_lowercase()), None],
        // A long s, an i without a dot, and letters that are s and t in one.
        '\u{17f}' => [Some('s'), None],
        '\u{131}' => [Some('i'), None],
        '\u{fb05}' | '\u{fb06}' => [Some('s'), Some('t')],
        _ => [Some(letter).filter(char::is_ascii), None],
    });
    letters.flatten().eq(streams.iter().copied().map(char::from))
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

    #[test]
    fn refuses_its_own_name_as_folding_file_systems_take_it() {
        for like in [
            ".plimsoll-streams",
            ".PLIMSOLL-STREAMS",
            ".Plimsoll-Streams",
            ".plim\u{17f}oll-streams",
            ".pl\u{131}msoll-\u{fb06}reams",
            "\u{200d}.plimsoll\u{ad}-streams\u{feff}",
        ] {
            assert_eq!(Name::new(like.as_bytes()), Err(FsError::Access), "{}", like.escape_unicode());
        }
        for other in [
            ".plimsoll-stream",
            ".plimsoll-streamss",
            "plimsoll-streams",
            ".plimsoll_streams",
            "x.plimsoll-streams",
        ] {
            assert!(Name::new(other.as_bytes()).is_ok(), "{other}");
        }
    }
}
