//! The POSIX extensions to SMB3 as implemented by Linux's client and Samba. They are a draft and not part of MS-SMB2.

use crate::error::ReparseTag;
use crate::security::Sid;
use crate::sets::open_set;
use crate::types::FileAttributes;
use crate::{FileTime, Wire};

/// The create context of request and response, and the negotiated version of the extensions.
pub const NAME: &[u8] = &0x93ad_2550_9cb4_11e7_b423_83de_968b_cd7c_u128.to_be_bytes();

open_set! {
    /// The file type, in the bits of a mode above the permissions.
    pub struct PosixFileType: u32 {
        FILE = 0,
        DIRECTORY = 0o10_000,
        SYMLINK = 0o20_000,
        CHARACTER = 0o30_000,
        BLOCK = 0o40_000,
        FIFO = 0o50_000,
        SOCKET = 0o60_000,
    }
}

/// The create context of a request for an open with POSIX semantics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PosixRequest {
    /// Permissions of a created file. The file type bits that clients send are meaningless.
    pub mode: u32,
}

impl PosixRequest {
    /// The mode that Linux sends if it does not set one.
    pub const NO_MODE: u32 = 0xffff;
}

/// The create context of a response, and the tail of [`PosixInformation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PosixResponse {
    pub hard_links: u32,
    pub reparse_tag: ReparseTag,
    /// Permissions, and a [`PosixFileType`].
    pub mode: u32,
    pub owner: Sid,
    pub group: Sid,
}

/// The POSIX attributes of a file in QUERY_INFO, and of an entry in QUERY_DIRECTORY, where its name follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PosixInformation {
    pub creation_time: FileTime,
    pub last_access_time: FileTime,
    pub last_write_time: FileTime,
    pub change_time: FileTime,
    pub end_of_file: u64,
    pub allocation_size: u64,
    pub file_attributes: FileAttributes,
    pub inode: u64,
    pub device_id: u32,
    #[wire(pad = 4)]
    pub unix: PosixResponse,
}

/// The POSIX attributes of a file system in QUERY_INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct FileSystemPosixInformation {
    pub optimal_transfer_size: u32,
    pub block_size: u32,
    pub total_blocks: u64,
    pub blocks_available: u64,
    pub user_blocks_available: u64,
    pub total_file_nodes: u64,
    pub free_file_nodes: u64,
    pub file_system_identifier: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decode, Encode};

    #[test]
    fn structures_have_the_lengths_of_linux() {
        let unix = PosixResponse {
            hard_links: 1,
            reparse_tag: ReparseTag(0),
            mode: 0o644,
            owner: Sid::new(22, &[1, 1000]).unwrap(),
            group: Sid::new(22, &[2, 1000]).unwrap(),
        };
        let bytes = unix.to_bytes();
        assert_eq!((bytes.len(), &bytes[8..14]), (44, &[0xa4, 1, 0, 0, 1, 2][..]));
        assert_eq!(PosixResponse::from_bytes(&bytes), Ok(unix));
        let information = PosixInformation {
            creation_time: FileTime(1),
            last_access_time: FileTime(2),
            last_write_time: FileTime(3),
            change_time: FileTime(4),
            end_of_file: 5,
            allocation_size: 6,
            file_attributes: FileAttributes::NORMAL,
            inode: 7,
            device_id: 8,
            unix,
        };
        let bytes = information.to_bytes();
        assert_eq!((bytes.len(), &bytes[52..53], &bytes[60..61]), (112, &[7][..], &[8][..]));
        assert_eq!(PosixInformation::from_bytes(&bytes), Ok(information));
        assert_eq!(FileSystemPosixInformation::default().to_bytes().len(), 56);
        assert_eq!((Sid::unix_user(1000), Sid::unix_group(1000)), (unix.owner, unix.group));
        assert_eq!(Some(Sid::nobody()), Sid::new(0, &[0]));
    }
}
