//! Every bound of this crate.

/// Bytes of a token that a client sends.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Tokens that a client may send before it is in: mechanisms, NEGOTIATE, AUTHENTICATE, and one to spare.
pub const TOKENS_MAX: u8 = 4;
/// Bytes of an NTLM NEGOTIATE, which is kept until its MIC is checked.
pub const NEGOTIATE_BYTES_MAX: usize = 4096;
/// Mechanisms that a client may propose.
pub const MECHANISMS_MAX: usize = 16;
/// Bytes of the list of mechanisms, which is kept until its MIC is checked.
pub const MECHANISM_LIST_BYTES_MAX: usize = 1024;
/// UTF-16 units of a name of a user, domain or machine in a message.
pub const NAME_UNITS_MAX: usize = 256;
/// Pairs in the target information of a client's answer.
pub const TARGET_PAIRS_MAX: usize = 32;
/// Characters of the name of a user or group of ours, and of each part of a Windows name.
pub const ACCOUNT_NAME_CHARS_MAX: usize = 64;
/// The greatest number of a user or group of ours. What is beyond has no relative identifier (see `sid`).
pub const ID_MAX: u32 = 2_000_000_000;
/// Users of this service, and groups, and rules.
pub const ACCOUNTS_MAX: usize = 10_000;
/// Members of a group.
pub const MEMBERS_MAX: usize = 10_000;
