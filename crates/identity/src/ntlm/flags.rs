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

    /// The features that the server supports.
    pub(crate) const OFFERED: Self = Self::UNICODE
        .union(Self::REQUEST_TARGET)
        .union(Self::SIGN)
        .union(Self::SEAL)
        .union(Self::NTLM)
        .union(Self::ALWAYS_SIGN)
        .union(Self::EXTENDED_SESSIONSECURITY)
        .union(Self::VERSION)
        .union(Self::NEGOTIATE_128)
        .union(Self::KEY_EXCH)
        .union(Self::NEGOTIATE_56);

    pub(crate) const fn union(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    pub(crate) const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
