//! The setting that says which IPv6 addresses are one network of clients.

use crate::number;
use serde::Deserialize;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use vfs::bounds::Networks;

const BITS: RangeInclusive<u8> = 1..=128;

/// The prefix lengths that define one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(try_from = "i64")]
pub(crate) struct Ipv6Prefix(u8);

impl Ipv6Prefix {
    /// The networks of clients.
    pub(crate) fn networks(self) -> Networks {
        Networks::from_prefix(self.0).unwrap_or_default()
    }
}

impl Default for Ipv6Prefix {
    fn default() -> Self {
        Self(64)
    }
}

impl TryFrom<i64> for Ipv6Prefix {
    type Error = String;

    fn try_from(bits: i64) -> Result<Self, String> {
        let found = u8::try_from(bits).ok().filter(|bits| Networks::from_prefix(*bits).is_some());
        found.map(Self).ok_or_else(|| format!("is {bits}; {}", number::allowed(&BITS)))
    }
}

impl FromStr for Ipv6Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefix = text.parse::<i64>().ok().and_then(|bits| Self::try_from(bits).ok());
        prefix.ok_or_else(|| number::allowed(&BITS))
    }
}

impl fmt::Display for Ipv6Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_number_of_bits() {
        assert_eq!(Ipv6Prefix::default().networks(), Networks::default());
        let prefix: Ipv6Prefix = "48".parse().unwrap();
        assert_eq!(
            (prefix.networks(), prefix.to_string()),
            (Networks::from_prefix(48).unwrap(), "48".to_owned())
        );
        for wrong in ["", "0", "129", "300", "/64"] {
            assert!(wrong.parse::<Ipv6Prefix>().unwrap_err().contains("1 to 128"), "{wrong}");
        }
    }
}
