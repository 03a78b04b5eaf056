//! Enumerations with a word for each variant, in the store and in texts.

macro_rules! words {
    ($name:ident: $($variant:ident = $word:literal),*) => {
        impl $name {
            /// Returns the word of the store.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }

            /// Parses a word of the store.
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
