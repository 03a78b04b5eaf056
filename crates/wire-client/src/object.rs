//! Handles, attributes, and listings of every version.

use std::fmt;

use nfs_wire::v3::{FileHandle, StableHow, WriteVerf};
use nfs_wire::v4;

use crate::error::Error;

/// Maximum size of a page of a listing.
pub(crate) const PAGE_BYTES: u32 = 64 << 10;

/// An owned file handle; over SMB a path from the root of the share, in UTF-8.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) Vec<u8>);

impl Handle {
    pub fn wire(&self) -> FileHandle<'_> {
        FileHandle(&self.0)
    }

    /// In UTF-16LE. Fails if the handle is not UTF-8.
    pub fn path(&self) -> Result<Vec<u8>, Error> {
        let wrong = |_| Error::Protocol(format!("{self:?} is not a path"));
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    pub data: &'a [u8],
    pub eof: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResult {
    pub count: u32,
    pub committed: StableHow,
    /// Changes when the server may have lost unstable data.
    pub verf: WriteVerf,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub is_directory: bool,
    pub size: u64,
    /// Allocated on the server, in bytes.
    pub used: u64,
}

/// In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferLimits {
    pub read_max: u32,
    pub write_max: u32,
}

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub free: u64,
    /// The part of `free` that this client can use.
    pub available: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub name: Vec<u8>,
    pub attributes: Option<Attributes>,
    pub handle: Option<Handle>,
}

#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) cookie: u64,
    pub(crate) cookieverf: [u8; 8],
    pub(crate) entries: Vec<DirEntry>,
}

impl Listing {
    /// Reads pages to the end of the directory. `page` adds the next page and returns whether it was the last
    /// one.
    pub(crate) fn read(
        mut page: impl FnMut(&mut Self) -> Result<bool, Error>,
    ) -> Result<Vec<DirEntry>, Error> {
        let mut listing = Self::default();
        loop {
            let before = listing.cookie;
            if page(&mut listing)? {
                return Ok(listing.entries);
            }
            if listing.cookie == before {
                return Err(Error::Protocol("a listing neither goes on nor ends".to_owned()));
            }
        }
    }
}

pub(crate) fn stable_in_v4(stable: StableHow) -> v4::StableHow {
    match stable {
        StableHow::Unstable => v4::StableHow::Unstable,
        StableHow::DataSync => v4::StableHow::DataSync,
        StableHow::FileSync => v4::StableHow::FileSync,
    }
}

pub(crate) fn stable_in_v3(stable: v4::StableHow) -> StableHow {
    match stable {
        v4::StableHow::Unstable => StableHow::Unstable,
        v4::StableHow::DataSync => StableHow::DataSync,
        v4::StableHow::FileSync => StableHow::FileSync,
    }
}

pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_reads_to_its_end_or_fails() {
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
