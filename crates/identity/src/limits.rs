//! The limits of this crate.

/// Bytes of a token from a client.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Tokens that a client may send: mechanisms, NEGOTIATE, AUTHENTICATE, and one to spare.
pub const TOKENS_MAX: u8 = 4;
/// Bytes of an NTLM NEGOTIATE, which stays in memory until its MIC is checked.
pub const NEGOTIATE_BYTES_MAX: usize = 4096;
/// Mechanisms that a client may propose.
pub const MECHANISMS_MAX: usize = 16;
/// Bytes of the list of mechanisms, which stays in memory until its MIC is checked.
pub const MECHANISM_LIST_BYTES_MAX: usize = 1024;
/// UTF-16 units of a user, domain or machine name in a message.
pub const NAME_UNITS_MAX: usize = 256;
/// `AV_PAIR`s in the target information of a client's response.
pub const TARGET_PAIRS_MAX: usize = 32;
/// Characters of a local user or group name, and of each part of a Windows name.
pub const ACCOUNT_NAME_CHARS_MAX: usize = 64;
/// The highest uid or gid of a local user or group. Higher ones have no relative identifier (see `sid`).
pub const ID_MAX: u32 = 2_000_000_000;
/// Local users; also groups, and mappings.
pub const ACCOUNTS_MAX: usize = 10_000;
pub const MEMBERS_MAX: usize = 10_000;
