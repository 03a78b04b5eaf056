//! Information classes of files, MS-FSCC §2.4.

use crate::error::ReparseTag;
use crate::sets::bit_set;
use crate::types::{AccessMask, FileAttributes};
use crate::{Encode, FileTime, Utf16, Wire, Writer};

/// `FileBasicInformation`, MS-FSCC §2.4.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 4)]
pub struct BasicInformation {
    pub creation_time: FileTime,
    pub last_access_time: FileTime,
    pub last_write_time: FileTime,
    pub change_time: FileTime,
    pub file_attributes: FileAttributes,
}

/// `FileStandardInformation`, MS-FSCC §2.4.41.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 2)]
pub struct StandardInformation {
    pub allocation_size: u64,
    pub end_of_file: u64,
    pub number_of_links: u32,
    pub delete_pending: bool,
    pub directory: bool,
}

/// `FileInternalInformation`, MS-FSCC §2.4.22.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct InternalInformation {
    pub index_number: u64,
}

/// `FileEaInformation`, MS-FSCC §2.4.12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct EaInformation {
    pub ea_size: u32,
}

/// `FileAccessInformation`, MS-FSCC §2.4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct AccessInformation {
    pub access_flags: AccessMask,
}

/// `FilePositionInformation`, MS-FSCC §2.4.35.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct PositionInformation {
    pub current_byte_offset: u64,
}

bit_set! {
    /// `Mode`, MS-FSCC §2.4.26.
    pub struct Mode: u32 {
        WRITE_THROUGH = 0x2,
        SEQUENTIAL_ONLY = 0x4,
        NO_INTERMEDIATE_BUFFERING = 0x8,
        SYNCHRONOUS_IO_ALERT = 0x10,
        SYNCHRONOUS_IO_NONALERT = 0x20,
        DELETE_ON_CLOSE = 0x1000,
    }
}

/// `FileModeInformation`, MS-FSCC §2.4.26.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct ModeInformation {
    pub mode: Mode,
}

/// `FileAlignmentInformation`, MS-FSCC §2.4.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct AlignmentInformation {
    /// The alignment minus one; 0: none.
    pub alignment_requirement: u32,
}

/// `FileNameInformation` (MS-FSCC §2.1.7), `FileNormalizedNameInformation` (§2.4.30), `FileAlternateNameInformation`
/// (§2.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct NameInformation<'a> {
    #[wire(length = u32)]
    pub file_name: Utf16<'a>,
}

/// `FileAllInformation`, MS-FSCC §2.4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct AllInformation<'a> {
    pub basic: BasicInformation,
    pub standard: StandardInformation,
    pub internal: InternalInformation,
    pub ea: EaInformation,
    pub access: AccessInformation,
    pub position: PositionInformation,
    pub mode: ModeInformation,
    pub alignment: AlignmentInformation,
    #[wire(length = u32)]
    pub file_name: Utf16<'a>,
}

/// `FileNetworkOpenInformation`, MS-FSCC §2.4.29.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 4)]
pub struct NetworkOpenInformation {
    pub creation_time: FileTime,
    pub last_access_time: FileTime,
    pub last_write_time: FileTime,
    pub change_time: FileTime,
    pub allocation_size: u64,
    pub end_of_file: u64,
    pub file_attributes: FileAttributes,
}

/// `FileAttributeTagInformation`, MS-FSCC §2.4.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct AttributeTagInformation {
    pub file_attributes: FileAttributes,
    pub reparse_tag: ReparseTag,
}

/// `FileCompressionInformation`, MS-FSCC §2.4.9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
#[wire(end = 3)]
pub struct CompressionInformation {
    pub compressed_file_size: u64,
    pub compression_format: u16,
    pub compression_unit_shift: u8,
    pub chunk_shift: u8,
    pub cluster_shift: u8,
}

/// An entry of `FileStreamInformation`, MS-FSCC §2.4.44, without `NextEntryOffset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamInformation<'a> {
    pub stream_size: u64,
    pub stream_allocation_size: u64,
    /// The name with its colons: `::$DATA` is the data of a file.
    pub stream_name: Utf16<'a>,
}

impl Encode for StreamInformation<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.length::<u32>(self.stream_name.bytes().len());
        self.stream_size.encode(w);
        self.stream_allocation_size.encode(w);
        w.bytes(self.stream_name.bytes());
    }
}

/// `FileEndOfFileInformation` (MS-FSCC §2.4.14), `FileAllocationInformation` (§2.4.4) and
/// `FileValidDataLengthInformation` (§2.4.46). Signed on the wire, but never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct SizeInformation {
    pub size: i64,
}

/// `FileDispositionInformation`, MS-FSCC §2.4.11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct DispositionInformation {
    pub delete_pending: bool,
}

bit_set! {
    /// `Flags` of `FileDispositionInformationEx`, MS-FSCC §2.4.11.1.
    pub struct DispositionFlags: u32 {
        DELETE = 0x1,
        POSIX_SEMANTICS = 0x2,
        FORCE_IMAGE_SECTION_CHECK = 0x4,
        ON_CLOSE = 0x8,
        IGNORE_READONLY_ATTRIBUTE = 0x10,
    }

    /// `Flags` of `FileRenameInformationEx`, MS-FSCC §2.4.42.3.
    pub struct RenameFlags: u32 {
        REPLACE_IF_EXISTS = 0x1,
        POSIX_SEMANTICS = 0x2,
        IGNORE_READONLY_ATTRIBUTE = 0x40,
    }
}

/// `FileDispositionInformationEx`, MS-FSCC §2.4.11.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct DispositionInformationEx {
    pub flags: DispositionFlags,
}

/// `FileRenameInformation` (MS-FSCC §2.4.42.2) and `FileLinkInformation` (§2.4.24.2) in SMB2's layout. The name is a
/// path from the root of the share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct RenameInformation<'a> {
    pub replace_if_exists: bool,
    #[wire(pad = 7)]
    pub root_directory: u64,
    #[wire(length = u32)]
    pub file_name: Utf16<'a>,
}

/// `FileRenameInformationEx`, MS-FSCC §2.4.42.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct RenameInformationEx<'a> {
    pub flags: RenameFlags,
    #[wire(pad = 4)]
    pub root_directory: u64,
    #[wire(length = u32)]
    pub file_name: Utf16<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decode;

    fn size(value: &impl Encode) -> usize {
        value.to_bytes().len()
    }

    #[test]
    fn fixed_classes_have_specified_length() {
        assert_eq!(size(&BasicInformation::default()), 40);
        assert_eq!(size(&StandardInformation::default()), 24);
        assert_eq!(size(&NetworkOpenInformation::default()), 56);
        assert_eq!(size(&AttributeTagInformation::default()), 8);
        assert_eq!(size(&CompressionInformation::default()), 16);
        assert_eq!(size(&AllInformation::default()), 100);
        assert_eq!(size(&SizeInformation::default()), 8);
    }

    #[test]
    fn rename_name_follows_its_length() {
        let name = [0x61, 0, 0x62, 0];
        let file_name = Utf16::new(&name).unwrap();
        let rename = RenameInformation { replace_if_exists: true, root_directory: 0, file_name };
        let bytes = rename.to_bytes();
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..], [4, 0, 0, 0, 0x61, 0, 0x62, 0]);
        assert_eq!(RenameInformation::from_bytes(&bytes), Ok(rename));
        assert!(RenameInformation::from_bytes(&bytes[..23]).is_err(), "the name ends early");
        let ex = RenameInformationEx { flags: RenameFlags::REPLACE_IF_EXISTS, root_directory: 0, file_name };
        assert_eq!(ex.to_bytes(), bytes);
    }

    #[test]
    fn stream_information_includes_name_length() {
        let name: Vec<u8> = "::$DATA".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let stream_name = Utf16::new(&name).unwrap();
        let bytes =
            StreamInformation { stream_size: 5, stream_allocation_size: 4096, stream_name }.to_bytes();
        assert_eq!(bytes[..12], [14, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes.len(), 20 + 14);
    }
}
