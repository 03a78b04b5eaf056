//! Handles, and what is told of files, in either version.

use std::fmt;

use nfs_wire::v3::{FileHandle, StableHow, WriteVerf};
use nfs_wire::v4;

use crate::error::Error;
use crate::smb::requests::utf16;

/// Most bytes asked for in one listing.
pub(super) const LISTING_MAX: u32 = 64 << 10;

/// A file handle of its own; over SMB, which has none, a path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(pub(super) Vec<u8>);

impl Handle {
    /// As the wire wants it.
    pub fn wire(&self) -> FileHandle<'_> {
        FileHandle(&self.0)
    }

    /// Over SMB: the path from the root of the share, in UTF-16LE.
    pub(crate) fn path(&self) -> Result<Vec<u8>, Error> {
        let wrong = |_| Error::Protocol(format!("{self:?} is no path"));
        str::from_utf8(&self.0).map(utf16).map_err(wrong)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<FileHandle<'_>> for Handle {
    fn from(handle: FileHandle<'_>) -> Self {
        Self(handle.0.to_vec())
    }
}

/// What READ brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// They end where the file does.
    pub eof: bool,
}

/// What WRITE did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes taken.
    pub count: u32,
    /// How safe they are.
    pub committed: StableHow,
    /// Changes when the server may have lost unstable data.
    pub verf: WriteVerf,
}

/// What loads ask of a file's attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// It is a directory.
    pub is_directory: bool,
    /// Bytes up to its end.
    pub size: u64,
    /// Bytes that it takes on the server.
    pub used: u64,
}

/// What a server takes and gives in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a READ.
    pub read_max: u32,
    /// Most bytes of a WRITE.
    pub write_max: u32,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// Its attributes, where the server gave them.
    pub attributes: Option<Attributes>,
    /// Its handle, where the server gave it.
    pub handle: Option<Handle>,
}

/// A listing on its way: what it has brought, and where it goes on.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) cookie: u64,
    pub(super) cookieverf: [u8; 8],
    pub(super) listed: Vec<Listed>,
}

impl Listing {
    /// Asks for one page after another to the end of the directory. `page` takes the next one in, and says whether it
    /// was the last.
    pub(super) fn read(mut page: impl FnMut(&mut Self) -> Result<bool, Error>) -> Result<Vec<Listed>, Error> {
        let mut listing = Self::default();
        loop {
            let before = listing.cookie;
            if page(&mut listing)? {
                return Ok(listing.listed);
            }
            if listing.cookie == before {
                return Err(Error::Protocol("a listing neither goes on nor ends".to_owned()));
            }
        }
    }
}

/// How safe a WRITE is, as NFSv4 says it.
pub(crate) fn stable_in_v4(stable: StableHow) -> v4::StableHow {
    match stable {
        StableHow::Unstable => v4::StableHow::Unstable,
        StableHow::DataSync => v4::StableHow::DataSync,
        StableHow::FileSync => v4::StableHow::FileSync,
    }
}

/// The same as NFSv3 says it.
pub(crate) fn stable_in_v3(stable: v4::StableHow) -> StableHow {
    match stable {
        v4::StableHow::Unstable => StableHow::Unstable,
        v4::StableHow::DataSync => StableHow::DataSync,
        v4::StableHow::FileSync => StableHow::FileSync,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_goes_on_to_its_end_or_not_at_all() {
        let mut asked = Vec::new();
        let pages = Listing::read(|listing| {
            asked.push(listing.cookie);
            listing.cookie += 2;
            Ok(listing.cookie == 6)
        });
        assert_eq!((pages.unwrap(), asked), (Vec::new(), vec![0, 2, 4]));
        let stuck = Listing::read(|listing| {
            listing.cookie = 7;
            Ok(false)
        });
        assert!(stuck.unwrap_err().to_string().contains("neither goes on nor ends"));
    }
}
