//! Records in the object of a cluster, and their keys.

use crate::error::{Error, Result};
use crate::key::ClusterKey;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::{fmt, str};

/// The object of a cluster.
pub(crate) const CLUSTER: &str = "cluster";
pub(crate) const ABOUT: &str = "about";
pub(crate) const GATEWAY: &str = "gateway/";
pub(crate) const DRAIN: &str = "drain/";
pub(crate) const STOP: &str = "stop/";
pub(crate) const ENDPOINT: &str = "endpoint/";
pub(crate) const NEEDS: &str = "needs/";
/// The keys of an endpoint's own object.
pub(crate) const LEASE: &str = "lease";
pub(crate) const EPOCH: &str = "epoch";
pub(crate) const STATE: &str = "state/";

/// The latest format of records and keys that this program reads.
const FORMAT: u32 = 1;
/// The earliest one. A program reads the format before its own, so that gateways are upgraded one by one.
const OLDEST: u32 = 1;

const NAME_BYTES_MAX: usize = 63;

/// The name of a gateway or an endpoint: a label of DNS, so that it can be a host name and a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(is_known)
            && !text.starts_with('-')
            && !text.ends_with('-');
        is_label.then(|| Self(text.to_owned())).ok_or_else(|| {
            format!(
                "\"{}\" is not a valid name; allowed: 1 to {NAME_BYTES_MAX} lower-case letters, digits and hyphens, \
                 without a hyphen at either end",
                text.escape_debug()
            )
        })
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

/// The formats of records and keys that a program reads. It writes the one that `about` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    pub oldest: u32,
    pub newest: u32,
}

impl Formats {
    /// Those of this program.
    pub const OWN: Self = Self { oldest: OLDEST, newest: FORMAT };

    /// Refuses a cluster with a format that this program does not read.
    pub(crate) fn check(self, format: u32) -> Result<()> {
        let Self { oldest, newest } = self;
        if format > newest {
            return Err(Error::refused(format!(
                "the cluster has format {format}, and this program reads formats {oldest} to {newest}: upgrade plimsoll on \
                 this machine to the version of the other gateways"
            )));
        }
        if format < oldest {
            return Err(Error::refused(format!(
                "the cluster has format {format}, and this program reads formats {oldest} to {newest}: upgrade all gateways \
                 to a version before this one first"
            )));
        }
        Ok(())
    }
}

/// The format of gateways whose records do not say which one they read.
fn first_format() -> u32 {
    1
}

/// Facts about a cluster. Only the format changes, and it only rises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) format: u32,
    /// The name of the cluster for clients: all endpoints have the same server scope (RFC 8881 §2.10.4).
    pub(crate) id: String,
    /// The length of a lease in milliseconds: all gateways must agree about it.
    pub(crate) lease_ms: u64,
}

/// A machine that serves endpoints. It writes this record itself, several times in the time of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayRecord {
    /// Differs for each run; 0 for a gateway that has never run.
    pub instance: u64,
    /// Rises with each renewal of this record.
    pub beat: u64,
    /// The version of the program.
    pub version: String,
    pub host: String,
    /// Endpoints that it could not start lately.
    pub failed: BTreeSet<Name>,
    /// Whether it has ended in good order.
    pub has_stopped: bool,
    /// The latest format of records that its program reads.
    #[serde(default = "first_format")]
    pub format: u32,
    /// The latest format of the state of endpoints that its program reads.
    #[serde(default = "first_format")]
    pub state_format: u32,
}

/// The requirement of an endpoint's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Needs {
    /// The format of the state that the latest program left.
    pub(crate) state_format: u32,
}

/// A service that moves between gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRecord {
    pub address: IpAddr,
    /// The length of the network's prefix.
    pub prefix: u8,
    /// The gateway that serves it as long as it lives and is not drained; any other one else.
    pub gateway: Option<Name>,
    /// Milliseconds since 1970.
    pub created_ms: u64,
}

/// The name of the object of an endpoint.
pub(crate) fn object(endpoint: &Name) -> String {
    format!("endpoint.{endpoint}")
}

/// The place that a signature is bound to.
fn place(object: &str, key: &str) -> String {
    format!("{object} {key}")
}

/// Encodes and signs a record.
pub(crate) fn encode<T: Serialize>(
    cluster: &ClusterKey,
    object: &str,
    key: &str,
    record: &T,
) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(record).map_err(|error| Error::refused(error.to_string()))?;
    Ok(cluster.sign(&place(object, key), &text))
}

/// Checks and decodes a record.
pub(crate) fn decode<T: DeserializeOwned>(
    cluster: &ClusterKey,
    object: &str,
    key: &str,
    bytes: &[u8],
) -> Result<T> {
    let place = place(object, key);
    let text = cluster.verify(&place, bytes);
    let record = text.and_then(|text| serde_json::from_slice(text).ok());
    record.ok_or_else(|| Error::Unreadable(format!("\"{place}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_a_label_of_dns() {
        for good in ["a", "gw1", "home-dirs", &"x".repeat(63)] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "a.b", "a/b", "-a", "a-", "a b", "ä", &"x".repeat(64)] {
            assert!(
                bad.parse::<Name>().unwrap_err().contains("is not a valid name; allowed: 1 to 63 "),
                "{bad}"
            );
        }
    }

    #[test]
    fn record_of_an_earlier_version_is_read_and_a_later_one_has_no_surprises() {
        let key = ClusterKey::new([1; 32]);
        let earlier =
            r#"{"instance":7,"beat":3,"version":"0.1.0","host":"h","failed":[],"has_stopped":false}"#;
        let signed = key.sign(&place(CLUSTER, "gateway/a"), earlier.as_bytes());
        let record: GatewayRecord = decode(&key, CLUSTER, "gateway/a", &signed).unwrap();
        assert_eq!((record.instance, record.format, record.state_format), (7, 1, 1));
        // Members that are not known yet are skipped: an earlier program reads the records of a later one.
        let later = earlier.replace("\"beat\"", "\"new\":[1],\"beat\"");
        let signed = key.sign(&place(CLUSTER, "gateway/a"), later.as_bytes());
        assert_eq!(decode::<GatewayRecord>(&key, CLUSTER, "gateway/a", &signed).unwrap(), record);
    }

    #[test]
    fn record_moved_to_another_key_or_signed_by_another_cluster_is_refused() {
        let (ours, other) = (ClusterKey::new([1; 32]), ClusterKey::new([2; 32]));
        let record =
            EndpointRecord { address: [10, 0, 0, 1].into(), prefix: 24, gateway: None, created_ms: 5 };
        let bytes = encode(&ours, CLUSTER, "endpoint/a", &record).unwrap();
        assert_eq!(decode::<EndpointRecord>(&ours, CLUSTER, "endpoint/a", &bytes).unwrap(), record);
        for refused in [
            decode::<EndpointRecord>(&ours, CLUSTER, "endpoint/b", &bytes),
            decode::<EndpointRecord>(&other, CLUSTER, "endpoint/a", &bytes),
        ] {
            assert!(refused.unwrap_err().to_string().contains("another key signed it"));
        }
    }
}
