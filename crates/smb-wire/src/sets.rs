//! Macros that declare constants under the specification's names: open sets, in which unknown values survive, and bit
//! sets. Closed sets are enums with `#[derive(Wire)]`.

/// An open set: a newtype over an integer with named constants.
macro_rules! open_set {
    ($($(#[$meta:meta])* pub struct $set:ident: $int:ident { $($constant:ident = $value:expr),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ::smb_wire_derive::Wire)]
        pub struct $set(pub $int);

        impl $set {
            $(#[doc = concat!("`", stringify!($constant), "`.")] pub const $constant: Self = Self($value);)*

            /// Every constant with its name in the specification.
            pub const NAMED: &'static [(&'static str, $int)] = &[$((stringify!($constant), $value)),*];
        }

        impl ::core::fmt::Debug for $set {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match Self::NAMED.iter().find(|(_, value)| *value == self.0) {
                    Some((name, _)) => f.write_str(name),
                    None => write!(f, "{}({:#x})", stringify!($set), self.0),
                }
            }
        }
    )*};
}

/// A bit set over one integer. Unknown bits survive.
macro_rules! bit_set {
    ($($(#[$meta:meta])* pub struct $set:ident: $int:ident { $($constant:ident = $value:expr),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ::smb_wire_derive::Wire)]
        pub struct $set(pub $int);

        impl $set {
            $(#[doc = concat!("`", stringify!($constant), "`.")] pub const $constant: Self = Self($value);)*

            /// Every constant with its name in the specification.
            pub const NAMED: &'static [(&'static str, $int)] = &[$((stringify!($constant), $value)),*];

            pub const fn empty() -> Self {
                Self(0)
            }

            #[inline]
            pub const fn is_empty(self) -> bool {
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

            #[inline]
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            #[inline]
            pub const fn or(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            #[inline]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl ::core::ops::BitOr for $set {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                self.or(other)
            }
        }

        impl ::core::ops::BitOrAssign for $set {
            #[inline]
            fn bitor_assign(&mut self, other: Self) {
                *self = self.or(other);
            }
        }

        impl ::core::ops::BitAnd for $set {
            type Output = Self;

            #[inline]
            fn bitand(self, other: Self) -> Self {
                self.and(other)
            }
        }

        impl ::core::fmt::Debug for $set {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let mut rest = self.0;
                let mut separator = "";
                for (name, value) in Self::NAMED {
                    if *value != 0 && rest & value == *value {
                        write!(f, "{separator}{name}")?;
                        rest &= !value;
                        separator = " | ";
                    }
                }
                if rest != 0 || separator.is_empty() {
                    write!(f, "{separator}{}({rest:#x})", stringify!($set))?;
                }
                Ok(())
            }
        }
    )*};
}

pub(crate) use {bit_set, open_set};
