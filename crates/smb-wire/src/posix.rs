//! The POSIX extensions to SMB3, as Linux' client and Samba have them: what a file is to Unix. They are a draft; MS-SMB2 does not have
//! them.

use crate::error::ReparseTag;
use crate::security::Sid;
use crate::sets::open_set;
use crate::types::FileAttributes;
use crate::{FileTime, Wire};

/// The name of the create context, of request and response, and the version of the extensions that is negotiated.
pub const NAME: &[u8] = &0x93ad_2550_9cb4_11e7_b423_83de_968b_cd7c_u128.to_be_bytes();

open_set! {
    /// The kind of a file, in the bits of a mode above the permissions.
    pub struct PosixKind: u32 {
        FILE = 0,
        DIRECTORY = 0o10_000,
        SYMLINK = 0o20_000,
        CHARACTER = 0o30_000,
        BLOCK = 0o40_000,
        FIFO = 0o50_000,
        SOCKET = 0o60_000,
    }
}

/// The create context of a request: an open that follows the rules of Unix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PosixRequest {
    /// Permissions of a file that is made; the kind that clients send with them says nothing.
    pub mode: u32,
}

impl PosixRequest {
    /// The mode that Linux sends where it has none to say.
    pub const NO_MODE: u32 = 0xffff;
}

/// The create context of a response, and the end of [`PosixInformation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PosixResponse {
    pub hard_links: u32,
    pub reparse_tag: ReparseTag,
    /// Permissions, and a [`PosixKind`].
    pub mode: u32,
    pub owner: Sid,
    pub group: Sid,
}

/// What QUERY_INFO tells of a file, and QUERY_DIRECTORY of an entry before its name.
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

/// What QUERY_INFO tells of a file system.
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
    fn structures_are_as_long_as_linux_has_them() {
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
