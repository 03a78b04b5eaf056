//! What both sides negotiate.

/// `NEGOTIATE`, MS-NLMP §2.2.2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    pub(crate) const UNICODE: Self = Self(0x0000_0001);
    pub(crate) const REQUEST_TARGET: Self = Self(0x0000_0004);
    pub(crate) const SIGN: Self = Self(0x0000_0010);
    pub(crate) const SEAL: Self = Self(0x0000_0020);
    pub(crate) const NTLM: Self = Self(0x0000_0200);
    pub(crate) const ALWAYS_SIGN: Self = Self(0x0000_8000);
    pub(crate) const TARGET_TYPE_SERVER: Self = Self(0x0002_0000);
    pub(crate) const EXTENDED_SESSIONSECURITY: Self = Self(0x0008_0000);
    pub(crate) const TARGET_INFO: Self = Self(0x0080_0000);
    pub(crate) const VERSION: Self = Self(0x0200_0000);
    pub(crate) const NEGOTIATE_128: Self = Self(0x2000_0000);
    pub(crate) const KEY_EXCH: Self = Self(0x4000_0000);
    pub(crate) const NEGOTIATE_56: Self = Self(0x8000_0000);

    /// What a server gives of what a client wants.
    pub(crate) const OFFERED: Self = Self::UNICODE
        .and(Self::REQUEST_TARGET)
        .and(Self::SIGN)
        .and(Self::SEAL)
        .and(Self::NTLM)
        .and(Self::ALWAYS_SIGN)
        .and(Self::EXTENDED_SESSIONSECURITY)
        .and(Self::VERSION)
        .and(Self::NEGOTIATE_128)
        .and(Self::KEY_EXCH)
        .and(Self::NEGOTIATE_56);

    /// These and `more`.
    pub(crate) const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Those that `other` has, too.
    pub(crate) const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of `other` are among these.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
