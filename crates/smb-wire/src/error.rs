//! The response to a failed request, MS-SMB2 §2.2.2.

use crate::reparse::SymbolicLink;
use crate::sets::{bit_set, open_set};
use crate::{Decode, Encode, Malformed, Reader, Utf16, Wire, Writer};

/// `SMB2 ERROR Response`, MS-SMB2 §2.2.2. The data consists of contexts if `context_count` is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(size = 9)]
pub struct ErrorResponse<'a> {
    pub context_count: u8,
    #[wire(pad = 1, length = u32)]
    pub data: &'a [u8],
}

open_set! {
    /// `ErrorId`, MS-SMB2 §2.2.2.1.
    pub struct ErrorId: u32 {
        DEFAULT = 0,
        SHARE_REDIRECT = 0x7264_5253,
    }

    /// Reparse tags, MS-FSCC §2.1.2.1.
    pub struct ReparseTag: u32 {
        MOUNT_POINT = 0xa000_0003,
        SYMLINK = 0xa000_000c,
        NFS = 0x8000_0014,
        AF_UNIX = 0x8000_0023,
        LX_SYMLINK = 0xa000_001d,
        LX_FIFO = 0x8000_0024,
        LX_CHR = 0x8000_0025,
        LX_BLK = 0x8000_0026,
    }
}

bit_set! {
    /// `Flags` of a symbolic link, MS-SMB2 §2.2.2.2.1.
    pub struct SymlinkFlags: u32 {
        RELATIVE = 0x1,
    }
}

/// `SMB2 ERROR Context`, MS-SMB2 §2.2.2.1, aligned to a multiple of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorContext<'a> {
    pub error_id: ErrorId,
    pub data: &'a [u8],
}

impl Encode for ErrorContext<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.align(8);
        w.length::<u32>(self.data.len());
        self.error_id.encode(w);
        w.bytes(self.data);
    }
}

impl<'a> Decode<'a> for ErrorContext<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.align(8);
        let length = u32::decode(r)?;
        let error_id = Decode::decode(r)?;
        Ok(Self { error_id, data: r.bytes(usize::try_from(length).unwrap_or(usize::MAX))? })
    }
}

/// `Symbolic Link Error Response`, MS-SMB2 §2.2.2.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymlinkError<'a> {
    /// Bytes at the end of the requested path that follow the link.
    pub unparsed_path_length: u16,
    pub substitute_name: Utf16<'a>,
    pub print_name: Utf16<'a>,
    pub flags: SymlinkFlags,
}

impl<'a> SymlinkError<'a> {
    /// The link in the form of a reparse point.
    fn link(&self) -> SymbolicLink<'a> {
        let Self { substitute_name, print_name, flags, .. } = *self;
        SymbolicLink { substitute_name, print_name, flags }
    }
}

/// `SymLinkErrorTag`.
const SYMLINK_ERROR_TAG: u32 = 0x4c4d_5953;

impl Encode for SymlinkError<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        let link = self.link();
        w.length::<u32>(link.size() + 12);
        w.u32(SYMLINK_ERROR_TAG);
        ReparseTag::SYMLINK.encode(w);
        w.length::<u16>(link.size());
        self.unparsed_path_length.encode(w);
        link.encode(w);
    }
}

impl<'a> Decode<'a> for SymlinkError<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.skip(4)?;
        if u32::decode(r)? != SYMLINK_ERROR_TAG || ReparseTag::decode(r)? != ReparseTag::SYMLINK {
            return Err(Malformed("not a symbolic link"));
        }
        r.skip(2)?;
        let unparsed_path_length = Decode::decode(r)?;
        let SymbolicLink { substitute_name, print_name, flags } = Decode::decode(r)?;
        Ok(Self { unparsed_path_length, substitute_name, print_name, flags })
    }
}
