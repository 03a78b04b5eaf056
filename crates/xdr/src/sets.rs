//! Sets of constants with their names in the specification, for comparisons in tests and for logs. Closed sets are
//! enums with `#[derive(Xdr)]`, which generates the same `NAMED` table.

/// An open set: a newtype over `u32` with named constants. Unknown values survive decoding and encoding.
///
/// ```
/// xdr::open_set! {
///     /// `color`, RFC 0.
///     pub struct Color { RED: "COLOR_RED" = 1, BLUE: "COLOR_BLUE" = 2 }
/// }
/// assert_eq!(Color(2), Color::BLUE);
/// assert_eq!(format!("{:?} {:?}", Color::RED, Color(7)), "COLOR_RED Color(7)");
/// ```
#[macro_export]
macro_rules! open_set {
    ($(#[$meta:meta])* $vis:vis struct $set:ident { $($constant:ident: $name:literal = $value:expr),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $set(pub u32);

        impl $set {
            $(#[doc = concat!("`", $name, "`.")] pub const $constant: Self = Self($value);)*

            /// Every constant with its name in the specification.
            pub const NAMED: &'static [(&'static str, u32)] = &[$(($name, $value)),*];
        }

        impl ::core::fmt::Debug for $set {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match Self::NAMED.iter().find(|(_, value)| *value == self.0) {
                    Some((name, _)) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($set), self.0),
                }
            }
        }

        impl ::core::convert::From<u32> for $set {
            #[inline]
            fn from(value: u32) -> Self {
                Self(value)
            }
        }

        impl $crate::Encode for $set {
            #[inline]
            fn encode(&self, w: &mut $crate::Writer<'_>) {
                w.u32(self.0);
            }
        }

        impl $crate::Decode<'_> for $set {
            #[inline]
            fn decode(r: &mut $crate::Reader<'_>) -> Result<Self, $crate::Malformed> {
                r.u32().map(Self)
            }
        }
    };
}

/// Separate `u32` constants and a table of their names in the specification.
///
/// ```
/// xdr::constants! { pub NAMED { WIDTH: "PAPER_WIDTH" = 210, HEIGHT: "PAPER_HEIGHT" = 297 } }
/// assert_eq!(NAMED[0], ("PAPER_WIDTH", WIDTH));
/// ```
#[macro_export]
macro_rules! constants {
    ($vis:vis $table:ident { $($constant:ident: $name:literal = $value:expr),* $(,)? }) => {
        $(#[doc = concat!("`", $name, "`.")] $vis const $constant: u32 = $value;)*

        /// The constants with their names in the specification.
        $vis const $table: &[(&str, u32)] = &[$(($name, $constant)),*];
    };
}
