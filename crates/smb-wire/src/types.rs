//! Types that several messages share: identifiers, times, attributes, rights.

use std::fmt;

use crate::Wire;
use crate::sets::{bit_set, open_set};

/// `GUID`, MS-DTYP §2.3.4.2, in wire order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Wire)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Builds a GUID from the groups of its text form; `d` is the last two groups.
    pub const fn new(a: u32, b: u16, c: u16, d: u64) -> Self {
        let ([a0, a1, a2, a3], [b0, b1], [c0, c1]) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
        let [d0, d1, d2, d3, d4, d5, d6, d7] = d.to_be_bytes();
        Self([a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, d2, d3, d4, d5, d6, d7])
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({:032x})", u128::from_be_bytes(self.0))
    }
}

/// `SMB2_FILEID`, MS-SMB2 §2.2.14.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Wire)]
pub struct FileId {
    /// Survives the reconnection of a durable handle.
    pub persistent: u64,
    /// Identifies this open.
    pub volatile: u64,
}

impl FileId {
    /// The file of the previous operation, in a related operation of a compound (MS-SMB2 §3.2.4.1.4).
    pub const PREVIOUS: Self = Self { persistent: u64::MAX, volatile: u64::MAX };
    /// No file, in an IOCTL (MS-SMB2 §3.3.5.15).
    pub const NONE: Self = Self::PREVIOUS;
}

/// `FILETIME`, MS-DTYP §2.3.3: steps of 100 ns since the start of 1601, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Wire)]
pub struct FileTime(pub u64);

impl FileTime {
    /// No time. When setting times: do not change.
    pub const NONE: Self = Self(0);
    /// When setting times (MS-FSCC §2.4.7): stop updates through this open.
    pub const FREEZE: Self = Self(u64::MAX);
    /// When setting times (MS-FSCC §2.4.7): resume updates through this open.
    pub const THAW: Self = Self(u64::MAX - 1);

    const STEPS_PER_SECOND: i128 = 10_000_000;
    const UNIX_EPOCH_SECONDS: i128 = 11_644_473_600;

    /// Converts Unix time, rounded down and saturating.
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Self {
        let seconds = i128::from(seconds) + Self::UNIX_EPOCH_SECONDS;
        let steps = seconds * Self::STEPS_PER_SECOND + i128::from(nanoseconds / 100);
        Self(u64::try_from(steps.clamp(0, i128::from(i64::MAX))).unwrap_or_default())
    }

    /// Returns Unix seconds and nanoseconds.
    pub fn to_unix(self) -> (i64, u32) {
        let steps = i128::from(self.0);
        let seconds = steps / Self::STEPS_PER_SECOND - Self::UNIX_EPOCH_SECONDS;
        let nanoseconds = steps % Self::STEPS_PER_SECOND * 100;
        // A tenth of 2⁶⁴ microseconds is far below 2⁶³ seconds; the remainder is below one second.
        (i64::try_from(seconds).unwrap_or(i64::MAX), u32::try_from(nanoseconds).unwrap_or_default())
    }
}

bit_set! {
    /// File attributes, MS-FSCC §2.6.
    pub struct FileAttributes: u32 {
        READONLY = 0x1,
        HIDDEN = 0x2,
        SYSTEM = 0x4,
        DIRECTORY = 0x10,
        ARCHIVE = 0x20,
        NORMAL = 0x80,
        TEMPORARY = 0x100,
        SPARSE_FILE = 0x200,
        REPARSE_POINT = 0x400,
        COMPRESSED = 0x800,
        OFFLINE = 0x1000,
        NOT_CONTENT_INDEXED = 0x2000,
        ENCRYPTED = 0x4000,
        INTEGRITY_STREAM = 0x8000,
        NO_SCRUB_DATA = 0x2_0000,
        RECALL_ON_OPEN = 0x4_0000,
        PINNED = 0x8_0000,
        UNPINNED = 0x10_0000,
        RECALL_ON_DATA_ACCESS = 0x40_0000,
    }

    /// `ACCESS_MASK`, MS-DTYP §2.4.3, with the rights of files and directories, MS-SMB2 §2.2.13.1.
    pub struct AccessMask: u32 {
        READ_DATA = 0x1,
        WRITE_DATA = 0x2,
        APPEND_DATA = 0x4,
        READ_EA = 0x8,
        WRITE_EA = 0x10,
        EXECUTE = 0x20,
        DELETE_CHILD = 0x40,
        READ_ATTRIBUTES = 0x80,
        WRITE_ATTRIBUTES = 0x100,
        DELETE = 0x1_0000,
        READ_CONTROL = 0x2_0000,
        WRITE_DAC = 0x4_0000,
        WRITE_OWNER = 0x8_0000,
        SYNCHRONIZE = 0x10_0000,
        ACCESS_SYSTEM_SECURITY = 0x100_0000,
        MAXIMUM_ALLOWED = 0x200_0000,
        GENERIC_ALL = 0x1000_0000,
        GENERIC_EXECUTE = 0x2000_0000,
        GENERIC_WRITE = 0x4000_0000,
        GENERIC_READ = 0x8000_0000,
    }
}

impl AccessMask {
    pub const LIST_DIRECTORY: Self = Self::READ_DATA;
    pub const ADD_FILE: Self = Self::WRITE_DATA;
    pub const ADD_SUBDIRECTORY: Self = Self::APPEND_DATA;
    pub const TRAVERSE: Self = Self::EXECUTE;
    /// All rights to a file, without those that need a privilege.
    pub const FILE_ALL: Self = Self(0x001f_01ff);
}

open_set! {
    /// The dialects, MS-SMB2 §2.2.3 and §2.2.4.
    pub struct Dialect: u16 {
        SMB202 = 0x0202,
        SMB210 = 0x0210,
        SMB2_WILDCARD = 0x02ff,
        SMB300 = 0x0300,
        SMB302 = 0x0302,
        SMB311 = 0x0311,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filetime_converts_unix_time() {
        assert_eq!(FileTime::from_unix(0, 0), FileTime(116_444_736_000_000_000));
        assert_eq!(FileTime::from_unix(-11_644_473_600, 199), FileTime(1));
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(0));
        assert_eq!(FileTime::from_unix(i64::MAX, 0), FileTime(u64::try_from(i64::MAX).unwrap()));
        for (seconds, nanoseconds) in [(0, 0), (1_700_000_000, 123_456_700), (-1, 999_999_900)] {
            assert_eq!(FileTime::from_unix(seconds, nanoseconds).to_unix(), (seconds, nanoseconds));
        }
        assert_eq!(FileTime(u64::MAX).to_unix().0, 1_833_029_933_770);
    }

    #[test]
    fn sets_print_constant_names() {
        let mask = AccessMask::DELETE | AccessMask::READ_DATA;
        assert_eq!(format!("{mask:?}"), "READ_DATA | DELETE");
        assert_eq!(format!("{:?}", AccessMask(0x201)), "READ_DATA | AccessMask(0x200)");
        assert_eq!(format!("{:?} {:?}", Dialect::SMB311, Dialect(7)), "SMB311 Dialect(0x7)");
        assert!(AccessMask::FILE_ALL.contains(mask) && !mask.contains(AccessMask::FILE_ALL));
    }
}
