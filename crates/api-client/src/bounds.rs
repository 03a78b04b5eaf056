//! Bounds of requests and replies. The server refuses what exceeds them, and the description of the interface names them.

/// The greatest number in a request or reply. Sizes of pools exceed 2^53, the integers that a double-precision number holds
/// exactly, but these sizes are multiples of a power of two.
pub const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();
/// The greatest uid or gid: 2^32 - 1 means "no user".
pub const ID_MAX: u32 = u32::MAX - 1;
/// The user and group that squashed callers become by default.
pub const ANONYMOUS_ID: u32 = 65_534;
/// Entries of a list or page.
pub const PAGE_MAX: u32 = 1000;
/// Characters of a page token.
pub const PAGE_TOKEN_CHARS_MAX: usize = 1024;
/// Labels of a pool or volume.
pub const LABELS_MAX: usize = 64;
/// Bytes of a label's key.
pub const LABEL_KEY_BYTES_MAX: usize = 512;
/// Bytes of a label's value.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;
/// Protocols of a volume or rule.
pub const PROTOCOLS_MAX: usize = 5;
/// Export rules of a volume.
pub const RULES_MAX: usize = 256;
/// Endpoints of a volume.
pub const ENDPOINTS_MAX: usize = 16;
/// Characters of the name of a user or group.
pub const ACCOUNT_NAME_CHARS_MAX: usize = 64;
/// The greatest number of a user or group of the service.
pub const ACCOUNT_ID_MAX: u32 = 2_000_000_000;
/// UTF-16 code units of a password.
pub const PASSWORD_UNITS_MAX: usize = 256;
/// Windows names of a user.
pub const WINDOWS_NAMES_MAX: usize = 16;
/// The greatest reserve for snapshots, in percent of a volume's capacity.
pub const SNAP_RESERVE_MAX: u8 = 90;
/// Characters of a snapshot's description.
pub const DESCRIPTION_CHARS_MAX: usize = 2_048;
/// Paths of a restore.
pub const RESTORE_PATHS_MAX: usize = 10;
/// Characters of a path of a restore.
pub const RESTORE_PATH_CHARS_MAX: usize = 1_024;
/// Snapshots of a volume.
pub const SNAPSHOTS_MAX: u32 = 255;
/// Days for which a vault can lock its backups.
pub const LOCK_DAYS_MAX: u32 = 36_525;
