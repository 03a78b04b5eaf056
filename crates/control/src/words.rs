//! Enumerations that the store and people know by a word for each variant.

/// Converts an enumeration's variants to words and back.
macro_rules! words {
    ($name:ident: $($variant:ident = $word:literal),*) => {
        impl $name {
            /// In one word, as the store keeps it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }

            /// The meaning of a word.
            pub(crate) fn of(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;
