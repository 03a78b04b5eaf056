//! Tokens.

use super::words::words;
use super::{NAME, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// What the holder of a token may do; each includes those before it.
    Role {
        /// Look.
        Read = "read",
        /// Change pools, volumes and their rules.
        Operate = "operate",
        /// Make and revoke tokens, users and groups too.
        Admin = "admin",
    }
}

/// What is remembered of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Its name: also that of the actor of operations.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last used, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Timestamp>,
}

/// What a new token shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name.
    #[schemars(length(min = 1, max = 255), regex(pattern = NAME), example = &"backup")]
    pub name: String,
    /// What its holder may do.
    pub role: Role,
}

/// A new token. It has no `Debug`, so that it gets into no log by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// What is remembered of it.
    pub token: Token,
    /// What requests carry. Shown here and never again.
    pub secret: String,
}
