//! Sets whose members are bits of one word.

/// `contains`, `|` and `&` for open sets of bits.
macro_rules! bits {
    ($($set:ident),* $(,)?) => {$(
        impl $set {
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl ::core::ops::BitOr for $set {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl ::core::ops::BitAnd for $set {
            type Output = Self;

            #[inline]
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }
    )*};
}

pub(crate) use bits;
