//! Reparse points, MS-FSCC §2.1.2: symbolic links, and Unix file types that Windows lacks.

use crate::error::{ReparseTag, SymlinkFlags};
use crate::{Decode, Encode, Malformed, Reader, Utf16, Writer};

/// The data of a symbolic link, MS-FSCC §2.1.2.4. The error for a link within a path has the same data (MS-SMB2
/// §2.2.2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolicLink<'a> {
    pub substitute_name: Utf16<'a>,
    pub print_name: Utf16<'a>,
    pub flags: SymlinkFlags,
}

impl SymbolicLink<'_> {
    /// Bytes before the names.
    pub(crate) const FIXED_SIZE: usize = 12;

    pub(crate) fn size(&self) -> usize {
        Self::FIXED_SIZE + self.substitute_name.bytes().len() + self.print_name.bytes().len()
    }
}

impl Encode for SymbolicLink<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let (substitute, print) = (self.substitute_name.bytes(), self.print_name.bytes());
        for number in [0, substitute.len(), substitute.len(), print.len()] {
            w.length::<u16>(number);
        }
        self.flags.encode(w);
        w.bytes(substitute);
        w.bytes(print);
    }
}

/// Consumes all remaining bytes. One name may be a part of the other.
impl<'a> Decode<'a> for SymbolicLink<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let fields: [u16; 4] =
            [Decode::decode(r)?, Decode::decode(r)?, Decode::decode(r)?, Decode::decode(r)?];
        let flags = Decode::decode(r)?;
        let [substitute, substitute_length, print, print_length] = fields.map(usize::from);
        let name = |offset, length| {
            let bytes = r.rest().get(offset..).and_then(|rest| rest.get(..length));
            bytes.ok_or(Malformed("a name past the end")).and_then(Utf16::new)
        };
        let substitute_name = name(substitute, substitute_length)?;
        let print_name = name(print, print_length)?;
        r.skip(r.rest().len())?;
        Ok(Self { substitute_name, print_name, flags })
    }
}

/// A Unix file type, MS-FSCC §2.1.2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsFile<'a> {
    /// The target of a symbolic link.
    Link(Utf16<'a>),
    Character {
        major: u32,
        minor: u32,
    },
    Block {
        major: u32,
        minor: u32,
    },
    Fifo,
    Socket,
}

/// `NFS_SPECFILE_LNK`.
const NFS_LINK: u64 = 0x014b_4e4c;
/// `NFS_SPECFILE_CHR`.
const NFS_CHARACTER: u64 = 0x0052_4843;
/// `NFS_SPECFILE_BLK`.
const NFS_BLOCK: u64 = 0x004b_4c42;
/// `NFS_SPECFILE_FIFO`.
const NFS_FIFO: u64 = 0x4f46_4946;
/// `NFS_SPECFILE_SOCK`.
const NFS_SOCKET: u64 = 0x4b43_4f53;

impl Encode for NfsFile<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Link(target) => {
                NFS_LINK.encode(w);
                w.bytes(target.bytes());
            }
            Self::Character { major, minor } => {
                NFS_CHARACTER.encode(w);
                crate::encode_list(&[*major, *minor], w);
            }
            Self::Block { major, minor } => {
                NFS_BLOCK.encode(w);
                crate::encode_list(&[*major, *minor], w);
            }
            Self::Fifo => NFS_FIFO.encode(w),
            Self::Socket => NFS_SOCKET.encode(w),
        }
    }
}

/// Consumes all remaining bytes.
impl<'a> Decode<'a> for NfsFile<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind = u64::decode(r)?;
        let file = match kind {
            NFS_LINK => Self::Link(Utf16::new(r.bytes(r.rest().len())?)?),
            NFS_CHARACTER => Self::Character { major: Decode::decode(r)?, minor: Decode::decode(r)? },
            NFS_BLOCK => Self::Block { major: Decode::decode(r)?, minor: Decode::decode(r)? },
            NFS_FIFO => Self::Fifo,
            NFS_SOCKET => Self::Socket,
            _ => return Err(Malformed("not a Unix file type")),
        };
        if r.rest().is_empty() { Ok(file) } else { Err(Malformed("trailing bytes after a Unix file type")) }
    }
}

/// `REPARSE_DATA_BUFFER`, MS-FSCC §2.1.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReparseData<'a> {
    /// `IO_REPARSE_TAG_SYMLINK`.
    SymbolicLink(SymbolicLink<'a>),
    /// `IO_REPARSE_TAG_NFS`.
    Nfs(NfsFile<'a>),
    /// Any other tag. Data of tags not owned by Microsoft begins with a GUID (MS-FSCC §2.1.2.3).
    Other { reparse_tag: ReparseTag, data: &'a [u8] },
}

impl ReparseData<'_> {
    pub const fn reparse_tag(&self) -> ReparseTag {
        match self {
            Self::SymbolicLink(_) => ReparseTag::SYMLINK,
            Self::Nfs(_) => ReparseTag::NFS,
            Self::Other { reparse_tag, .. } => *reparse_tag,
        }
    }
}

impl Encode for ReparseData<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        self.reparse_tag().encode(w);
        let length = w.position();
        w.zeros(4);
        let start = w.position();
        match self {
            Self::SymbolicLink(link) => link.encode(w),
            Self::Nfs(file) => file.encode(w),
            Self::Other { data, .. } => w.bytes(data),
        }
        w.patch::<u16>(length, w.position() - start);
    }
}

impl<'a> Decode<'a> for ReparseData<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let reparse_tag = Decode::decode(r)?;
        let length = u16::decode(r)?;
        r.skip(2)?;
        let data = r.bytes(usize::from(length))?;
        match reparse_tag {
            ReparseTag::SYMLINK => SymbolicLink::from_bytes(data).map(Self::SymbolicLink),
            ReparseTag::NFS => NfsFile::from_bytes(data).map(Self::Nfs),
            _ => Ok(Self::Other { reparse_tag, data }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_link_round_trips() {
        let name = |bytes| Utf16::new(bytes).unwrap();
        let link = SymbolicLink {
            substitute_name: name(b"a\0/\0"),
            print_name: name(b"b\0"),
            flags: SymlinkFlags::RELATIVE,
        };
        let data = ReparseData::SymbolicLink(link);
        let bytes = data.to_bytes();
        assert_eq!(bytes[..8], [0x0c, 0, 0, 0xa0, 18, 0, 0, 0]);
        assert_eq!(bytes[8..], *b"\0\0\x04\0\x04\0\x02\0\x01\0\0\0a\0/\0b\0");
        assert_eq!(ReparseData::from_bytes(&bytes), Ok(data));
        let shared = *b"\x0c\0\0\xa0\x10\0\0\0\0\0\x04\0\x02\0\x02\0\0\0\0\0a\0b\0";
        let Ok(ReparseData::SymbolicLink(link)) = ReparseData::from_bytes(&shared) else {
            panic!("the one name may be part of the other");
        };
        assert_eq!((link.substitute_name, link.print_name), (name(b"a\0b\0"), name(b"b\0")));
        for (at, value) in [(4, 19), (8, 1), (8, 4), (10, 5), (14, 4)] {
            let mut bytes = shared;
            bytes[at] = value;
            assert!(ReparseData::from_bytes(&bytes).is_err(), "{value} at {at}");
        }
    }

    #[test]
    fn unix_files_round_trip() {
        let target = Utf16::new(b"x\0").unwrap();
        for (file, length) in [
            (NfsFile::Link(target), 10),
            (NfsFile::Character { major: 1, minor: 2 }, 16),
            (NfsFile::Block { major: 1, minor: 2 }, 16),
            (NfsFile::Fifo, 8),
            (NfsFile::Socket, 8),
        ] {
            let data = ReparseData::Nfs(file);
            let mut bytes = data.to_bytes();
            assert_eq!((bytes.len(), &bytes[..4]), (8 + length, &[0x14, 0, 0, 0x80][..]));
            assert_eq!(ReparseData::from_bytes(&bytes), Ok(data));
            bytes.push(0);
            bytes[4] += 1;
            assert!(ReparseData::from_bytes(&bytes).is_err(), "{file:?} and a byte more");
        }
        let data = ReparseData::Other { reparse_tag: ReparseTag::AF_UNIX, data: &[] };
        assert_eq!(ReparseData::from_bytes(&data.to_bytes()), Ok(data));
    }
}
