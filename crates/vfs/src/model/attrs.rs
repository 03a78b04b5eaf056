//! Attributes of files, and changes of them.

use super::caller::INVALID_ID;
use crate::error::{FsError, FsResult};
use crate::file_key::ViewId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    Regular,
    Directory,
    Symlink,
    Block,
    Character,
    Fifo,
    Socket,
}

/// Seconds and nanoseconds since 1970 (UTC), in order of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    pub seconds: i64,
    /// Nanoseconds of the second, below 10^9.
    pub nanos: u32,
}

impl Time {
    pub fn as_nanos(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

/// Permission and set-id bits of a mode (`0o7777`).
pub const MODE_BITS: u32 = 0o7777;
pub const SET_UID: u32 = 0o4000;
/// Set group id on execution; on a directory, new files take its group.
pub const SET_GID: u32 = 0o2000;
/// On a directory: only owners remove or rename.
pub const STICKY: u32 = 0o1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attrs {
    pub file_type: FileType,
    /// Permission, set-id and sticky bits, without the type.
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Bytes of storage in use.
    pub used: u64,
    /// Numbers of a device; zero otherwise.
    pub device: Device,
    /// A number of the file, unique among the files of the volume that exist now.
    pub file_id: u64,
    pub accessed: Time,
    /// Last change of the contents.
    pub modified: Time,
    /// Last change of contents or attributes.
    pub changed: Time,
    /// The number of this state of contents and attributes. Within one run of the process it is higher than that of
    /// every earlier state that was made through the volume. The backend defines its behavior for other changes and
    /// after a restart. It stays while nothing changes and the file is in use. Reading, and its effect on `accessed`,
    /// is no change.
    pub change: u64,
    /// Creation time; `None` if the storage has none. It never changes.
    pub born: Option<Time>,
    /// The view of the file. Backends have live files only.
    pub view: ViewId,
}

impl Attrs {
    /// Whether the file is live. All others are read-only for everyone.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.view == ViewId::LIVE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's clock.
    Now,
    To(Time),
}

/// A change of attributes; `None` leaves an attribute as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttrs {
    /// New mode bits (`0o7777`).
    pub mode: Option<u32>,
    /// Bits that the mode of a new file loses, unless its directory has a default ACL (RFC 8275).
    /// Ignored for existing files.
    pub umask: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// New size: truncates, or grows by a hole.
    pub size: Option<u64>,
    pub accessed: Option<SetTime>,
    pub modified: Option<SetTime>,
}

impl SetAttrs {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// [`FsError::Invalid`] if user or group is [`crate::model::caller::INVALID_ID`]: the kernel would ignore it.
    pub fn check_ids(&self) -> FsResult<()> {
        if [self.uid, self.gid].contains(&Some(INVALID_ID)) { Err(FsError::Invalid) } else { Ok(()) }
    }
}

/// The attributes of an object before and after one mutation, with no other change through this service in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub before: Attrs,
    pub after: Attrs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStat {
    pub bytes_total: u64,
    pub bytes_free: u64,
    /// Free bytes for ordinary users.
    pub bytes_available: u64,
    pub files_total: u64,
    pub files_free: u64,
    /// Free file slots for ordinary users.
    pub files_available: u64,
}

impl FsStat {
    /// Storage with less free space counts as full.
    const SHORT_BYTES: u64 = 1 << 20;
    const SHORT_FILES: u64 = 16;

    /// Whether next to no bytes or files are left.
    pub fn is_full(&self) -> bool {
        // Some file systems have no fixed number of files.
        let no_files = self.files_total > 0 && self.files_available < Self::SHORT_FILES;
        self.bytes_available < Self::SHORT_BYTES || no_files
    }
}

/// Limits that do not change while a volume is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsLimits {
    pub links_max: u32,
    pub name_bytes_max: u32,
    pub file_bytes_max: u64,
    /// Granularity of times, in nanoseconds.
    pub time_step_ns: u32,
}
