//! Information classes of MS-FSCC: the data of QUERY_INFO, SET_INFO and QUERY_DIRECTORY.

pub mod file;
pub mod file_system;
pub mod listing;

use crate::sets::open_set;

open_set! {
    /// `FileInformationClass`, MS-FSCC §2.4; `POSIX` belongs to the POSIX extensions to SMB3. Listings use
    /// [`DirectoryClass`](crate::dir::DirectoryClass).
    pub struct FileClass: u8 {
        BASIC = 4,
        STANDARD = 5,
        INTERNAL = 6,
        EA = 7,
        ACCESS = 8,
        NAME = 9,
        RENAME = 10,
        LINK = 11,
        DISPOSITION = 13,
        POSITION = 14,
        FULL_EA = 15,
        MODE = 16,
        ALIGNMENT = 17,
        ALL = 18,
        ALLOCATION = 19,
        END_OF_FILE = 20,
        ALTERNATE_NAME = 21,
        STREAM = 22,
        PIPE = 23,
        COMPRESSION = 28,
        NETWORK_OPEN = 34,
        ATTRIBUTE_TAG = 35,
        VALID_DATA_LENGTH = 39,
        NORMALIZED_NAME = 48,
        ID = 59,
        DISPOSITION_EX = 64,
        RENAME_EX = 65,
        POSIX = 100,
    }

    /// `FsInformationClass`, MS-FSCC §2.5; `POSIX` belongs to the POSIX extensions to SMB3.
    pub struct FileSystemClass: u8 {
        VOLUME = 1,
        LABEL = 2,
        SIZE = 3,
        DEVICE = 4,
        ATTRIBUTE = 5,
        CONTROL = 6,
        FULL_SIZE = 7,
        OBJECT_ID = 8,
        SECTOR_SIZE = 11,
        POSIX = 100,
    }
}
