//! Tokens.

use super::words::words;
use super::{NAME, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// Permissions of a token; each role includes the previous ones.
    Role {
        /// Read.
        Read = "read",
        /// Change pools, volumes and their rules.
        Operate = "operate",
        /// Also create and revoke tokens, and change users and groups.
        Admin = "admin",
    }
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Name, which operations record as their actor.
    pub name: String,
    /// The permissions of the token.
    pub role: Role,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its last use, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Timestamp>,
}

/// A token to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Name, which operations record as their actor.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"backup")]
    pub name: String,
    /// The permissions of the token.
    pub role: Role,
}

/// A new token.
// No `Debug`, so that no log shows it by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// The token.
    pub token: Token,
    /// The text that requests carry. No other reply shows it.
    pub secret: String,
}
