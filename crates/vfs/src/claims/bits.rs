//! The two small sets that claims are made of.

use std::ops::BitOr;

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $bit:ident = $value:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u8);

        impl $name {
            pub const NONE: Self = Self(0);
            $($(#[$bit_doc])* pub const $bit: Self = Self($value);)*
            /// Every set of its first three, the empty one first.
            pub const ALL_SETS: [Self; 8] =
                [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];

            #[inline]
            pub const fn is_none(self) -> bool {
                self.0 == 0
            }

            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            #[inline]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            #[must_use]
            #[inline]
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            #[must_use]
            #[inline]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl BitOr for $name {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

bits! {
    /// Access of an open to the data, or the access that it denies others. Attributes are not included. Denials are
    /// limited to [`Rights::DATA`].
    Rights {
        /// Reading and executing.
        READ = 1,
        /// Writing and appending.
        WRITE = 2,
        /// Deleting and renaming.
        DELETE = 4,
        /// Reading the descriptor: it conflicts with exclusive access (MS-FSA 2.1.5.18), but breaks no cache.
        DESCRIPTOR = 8,
        /// Extended attributes, and changes of the descriptor: cached writes must be flushed first (MS-FSA 2.1.4.12).
        OTHER = 16,
        /// The rights that share modes cover.
        DATA = 7,
    }
}

bits! {
    /// Caching rights of a lease.
    Caching {
        /// Cache reads.
        READ = 1,
        /// Cache writes and byte ranges.
        WRITE = 2,
        /// Cache handles: keep a closed file open.
        HANDLE = 4,
    }
}
