//! What an operator should know.

use control::Warning as Inner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that works, but perhaps not as somebody believes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// In a word, for programs.
    pub kind: String,
    /// In a sentence, for people.
    pub text: String,
    /// The pool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The volume it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

impl From<&Inner> for Warning {
    fn from(of: &Inner) -> Self {
        let (kind, pool, volume) = match of {
            Inner::DiskFull => ("disk-full", None, None),
            Inner::OverDisk { .. } => ("over-disk", None, None),
            Inner::OverPool { pool, .. } => ("over-pool", Some(pool), None),
            Inner::OrphanedStorage { .. } => ("stray", None, None),
            Inner::NotOpened { volume, .. } => ("not-opened", None, Some(volume)),
            Inner::NotCounted { volume, .. } => ("not-counted", None, Some(volume)),
            Inner::Unfinished { volume, .. } => ("unfinished", None, Some(volume)),
            Inner::NoRules { volume } => ("no-rules", None, Some(volume)),
            Inner::NotServed { volume, .. } => ("not-served", None, Some(volume)),
            Inner::Unprotected { volume, .. } => ("unprotected", None, Some(volume)),
            Inner::EndpointDown { volume, .. } => ("endpoint-down", None, Some(volume)),
            Inner::LockedOut { .. } => ("locked-out", None, None),
            Inner::UnknownHost { volume, .. } => ("unknown-host", None, Some(volume)),
        };
        Self {
            kind: kind.to_owned(),
            text: of.to_string(),
            pool: pool.map(ToString::to_string),
            volume: volume.map(ToString::to_string),
        }
    }
}
