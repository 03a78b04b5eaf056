//! Export rules.

use super::words::words;
use super::{ANONYMOUS_ID, PROTOCOLS, PROTOCOLS_MAX, Protocol, RULES_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// What clients may do.
    Access {
        /// Read and write, as far as the files' permissions go.
        ReadWrite = "read-write",
        /// Read.
        ReadOnly = "read-only",
        /// Nothing, not even mount, whatever later rules say.
        NoAccess = "no-access",
    }

    /// Whose identity is replaced by the anonymous user's.
    Squash {
        /// Root's.
        Root = "root",
        /// Everybody's.
        All = "all",
        /// Nobody's.
        None = "none",
    }

    /// How clients must protect their connections, as `xprtsec` of mounts.
    Protection {
        /// As they like.
        Plain = "any",
        /// By TLS (RFC 9289).
        Encrypted = "tls",
        /// By TLS, with a certificate of the client's that the service trusts.
        Verified = "mtls",
    }
}

/// Who may mount a volume, and as whom. The first rule whose clients and protocols match decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Addresses, ranges of addresses and names of hosts. Everybody is `0.0.0.0/0` and `::/0`.
    #[schemars(length(min = 1), inner(regex(pattern = "^[0-9A-Za-z._:/-]+$"), length(max = 255)))]
    #[schemars(example = CLIENTS_EXAMPLE)]
    pub clients: Vec<String>,
    /// What they may do.
    #[serde(default = "read_write")]
    pub access: Access,
    /// Whose identity is replaced: nobody's if left out, as at the providers. Root of these clients is then root here.
    #[serde(default = "nobody_squashed")]
    pub squash: Squash,
    /// The user whom squashed callers become.
    #[serde(default = "nobody")]
    #[schemars(range(max = super::ID_MAX))]
    pub anonymous_uid: u32,
    /// Their group.
    #[serde(default = "nobody")]
    #[schemars(range(max = super::ID_MAX))]
    pub anonymous_gid: u32,
    /// Over which protocols.
    #[serde(default = "all_protocols", deserialize_with = "super::words::protocols")]
    #[schemars(length(min = 1, max = PROTOCOLS_MAX), extend("uniqueItems" = true))]
    pub protocols: Vec<Protocol>,
    /// How they must protect their connections. Calls that are protected less are refused, whatever later rules say.
    #[serde(default = "unprotected")]
    pub xprtsec: Protection,
}

/// The rules of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// In the order in which they are asked. With none, nobody may mount.
    #[schemars(length(max = RULES_MAX))]
    pub rules: Vec<Rule>,
}

const CLIENTS_EXAMPLE: [&str; 2] = ["10.1.0.0/16", "build-7.example.org"];

fn read_write() -> Access {
    Access::ReadWrite
}

fn nobody_squashed() -> Squash {
    Squash::None
}

fn nobody() -> u32 {
    ANONYMOUS_ID
}

fn unprotected() -> Protection {
    Protection::Plain
}

fn all_protocols() -> Vec<Protocol> {
    PROTOCOLS.to_vec()
}

impl Rule {
    /// Read and write over every protocol, nobody squashed.
    pub fn for_clients(clients: Vec<String>) -> Self {
        Self {
            clients,
            access: read_write(),
            squash: nobody_squashed(),
            anonymous_uid: nobody(),
            anonymous_gid: nobody(),
            protocols: all_protocols(),
            xprtsec: unprotected(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_a_rule_is_the_usual() {
        let rule: Rule = serde_json::from_str(r#"{"clients": ["::1"]}"#).unwrap();
        assert_eq!(rule, Rule::for_clients(vec!["::1".into()]));
        assert!(serde_json::from_str::<Rule>(r#"{"clients": ["::1"], "acess": "read-only"}"#).is_err());
    }
}
