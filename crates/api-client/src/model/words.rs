//! Words from closed lists, and names from the catalog of levels.

use crate::bounds::PROTOCOLS_MAX;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

macro_rules! catalog {
    ($($(#[$doc:meta])* $name:ident of $inner:ty, $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let names: Vec<String> = <$inner>::all().map_names();
                json_schema!({ "type": "string", "description": $what, "enum": names })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = envelope::Refusal;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )*};
}

/// The names of a catalog, however it lists its entries.
trait Named {
    fn map_names(self) -> Vec<String>;
}

impl<T: ToString, I: IntoIterator<Item = T>> Named for I {
    fn map_names(self) -> Vec<String> {
        self.into_iter().map(|entry| entry.to_string()).collect()
    }
}

catalog! {
    /// A service level by its name, as in `anf/premium`.
    LevelName of envelope::Level, "A service level: provider and level.";
    /// A variant of a level's figures by its name.
    ProfileName of envelope::Profile, "A variant of a level's figures, where two sources disagree.";
    /// A published curve by its name.
    ShapeName of envelope::Shape, "A published performance curve.";
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant),*
        }

        impl $name {
            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("{text:?}; allowed: {}", [$($word),*].join(", "))),
                }
            }
        }
    )*};
}
pub(crate) use words;

/// Conversions from and to a type of `envelope` with the same variants.
macro_rules! mirrors {
    ($($name:ident { $($variant:ident),* $(,)? })*) => {$(
        impl From<envelope::$name> for $name {
            fn from(value: envelope::$name) -> Self {
                match value {
                    $(envelope::$name::$variant => Self::$variant),*
                }
            }
        }

        impl From<$name> for envelope::$name {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => Self::$variant),*
                }
            }
        }
    )*};
}

words! {
    /// A protocol that volumes are served over.
    Protocol {
        /// NFSv3.
        NfsV3 = "nfsv3",
        /// NFSv4.0.
        NfsV40 = "nfsv4.0",
        /// NFSv4.1.
        NfsV41 = "nfsv4.1",
        /// NFSv4.2.
        NfsV42 = "nfsv4.2",
        /// SMB.
        Smb = "smb",
    }

    /// The provider whose service a level copies.
    Provider {
        /// Azure NetApp Files.
        Anf = "anf",
        /// Google Cloud NetApp Volumes.
        Gcnv = "gcnv",
        /// Google Cloud Filestore.
        Filestore = "filestore",
        /// Plimsoll's own levels.
        Plimsoll = "plimsoll",
    }

    /// The owner of a limit's meter.
    Owner {
        /// The pool's, shared by its volumes.
        Pool = "pool",
        /// Each volume's own.
        Volume = "volume",
    }

    /// The source of a volume's throughput.
    Qos {
        /// From its size, or from its pool.
        Auto = "auto",
        /// From the volume's own setting, within the pool's throughput.
        Manual = "manual",
    }
}

mirrors! {
    Protocol { NfsV3, NfsV40, NfsV41, NfsV42, Smb }
    Provider { Anf, Gcnv, Filestore, Plimsoll }
    Owner { Pool, Volume }
    Qos { Auto, Manual }
}

/// All protocols.
pub const PROTOCOLS: [Protocol; PROTOCOLS_MAX] =
    [Protocol::NfsV3, Protocol::NfsV40, Protocol::NfsV41, Protocol::NfsV42, Protocol::Smb];

/// A set of protocols: some, each once.
pub(crate) fn protocols<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Protocol>, D::Error> {
    let protocols = Vec::<Protocol>::deserialize(from)?;
    let is_twice = |(place, protocol): &(usize, &Protocol)| protocols[..*place].contains(protocol);
    if protocols.is_empty() {
        return Err(serde::de::Error::custom("is an empty array; allowed: one protocol or more"));
    }
    if let Some((_, twice)) = protocols.iter().enumerate().find(is_twice) {
        return Err(serde::de::Error::custom(format!("has {twice} twice; allowed: each protocol once")));
    }
    Ok(protocols)
}

/// [`protocols`], where they may be left out.
pub(crate) fn present_protocols<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Protocol>>, D::Error> {
    protocols(from).map(Some)
}
