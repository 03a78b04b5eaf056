//! Export rules.

use super::words::words;
use super::{ANONYMOUS_ID, PROTOCOLS, PROTOCOLS_MAX, Protocol, RULES_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// Access of clients.
    Access {
        /// Read and write, within the files' permissions.
        ReadWrite = "read-write",
        /// Read.
        ReadOnly = "read-only",
        /// No access and no mount; later rules do not apply.
        NoAccess = "no-access",
    }

    /// Identities that the anonymous user replaces.
    Squash {
        /// Root.
        Root = "root",
        /// All users.
        All = "all",
        /// No user.
        None = "none",
    }

    /// The protection that connections need, as `xprtsec` of mounts.
    Protection {
        /// None needed.
        Plain = "any",
        /// TLS (RFC 9289).
        Encrypted = "tls",
        /// TLS, with a client certificate that the service trusts.
        Verified = "mtls",
    }
}

/// An export rule: clients, their access and their identity. The first rule whose clients and protocols match decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Addresses, ranges of addresses and names of hosts. All clients are `0.0.0.0/0` and `::/0`.
    #[schemars(length(min = 1), inner(regex(pattern = "^[0-9A-Za-z._:/-]+$"), length(max = 255)))]
    #[schemars(example = CLIENTS_EXAMPLE)]
    pub clients: Vec<String>,
    /// The access of these clients.
    #[serde(default = "read_write")]
    pub access: Access,
    /// Identities that the anonymous user replaces; none if left out, so root of these clients is root here.
    #[serde(default = "nobody_squashed")]
    pub squash: Squash,
    /// The user that squashed callers become.
    #[serde(default = "nobody")]
    #[schemars(range(max = super::ID_MAX))]
    pub anonymous_uid: u32,
    /// The group that squashed callers get.
    #[serde(default = "nobody")]
    #[schemars(range(max = super::ID_MAX))]
    pub anonymous_gid: u32,
    /// Protocols that the rule is for.
    #[serde(default = "all_protocols", deserialize_with = "super::words::protocols")]
    #[schemars(length(min = 1, max = PROTOCOLS_MAX), extend("uniqueItems" = true))]
    pub protocols: Vec<Protocol>,
    /// The protection that their connections need. The service refuses calls with less; later rules do not apply.
    #[serde(default = "unprotected")]
    pub xprtsec: Protection,
}

/// The rules of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// In order of precedence. Without rules no client can mount.
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
    fn omitted_rule_properties_have_their_defaults() {
        let rule: Rule = serde_json::from_str(r#"{"clients": ["::1"]}"#).unwrap();
        assert_eq!(rule, Rule::for_clients(vec!["::1".into()]));
        assert!(serde_json::from_str::<Rule>(r#"{"clients": ["::1"], "acess": "read-only"}"#).is_err());
    }
}
