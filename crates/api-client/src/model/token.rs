//! Tokens.

use super::words::words;
use super::{NAME, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// Permissions of a token; each role includes the previous ones.
    Role {
        /// Look.
        Read = "read",
        /// Change pools, volumes and their rules.
        Operate = "operate",
        /// Also make and revoke tokens, users and groups.
        Admin = "admin",
    }
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Name: also the actor of operations.
    pub name: String,
    /// Its permissions.
    pub role: Role,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last used, to the minute.
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
    /// Its permissions.
    pub role: Role,
}

/// A new token. It has no `Debug`, so that it gets into no log by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// The token.
    pub token: Token,
    /// The text that requests carry. No other reply shows it.
    pub secret: String,
}
