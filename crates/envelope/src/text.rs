//! Serializes catalog entries by name.

/// Types with a `name` and a `FromStr` display, serialize and parse themselves by it.
macro_rules! by_name {
    ($($named:ty),*) => {$(
        impl std::fmt::Display for $named {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl From<$named> for String {
            fn from(named: $named) -> Self {
                named.name().to_owned()
            }
        }

        impl TryFrom<String> for $named {
            type Error = $crate::Refusal;

            fn try_from(text: String) -> Result<Self, $crate::Refusal> {
                text.parse()
            }
        }
    )*};
}

by_name!(crate::Level, crate::Profile, crate::Shape);
