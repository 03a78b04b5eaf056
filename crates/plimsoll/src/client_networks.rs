//! The setting that says which IPv6 addresses are one network of clients.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use vfs::bounds::Networks;

/// The prefix lengths that define one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(try_from = "u8")]
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

impl TryFrom<u8> for Ipv6Prefix {
    type Error = String;

    fn try_from(bits: u8) -> Result<Self, String> {
        match Networks::from_prefix(bits) {
            Some(_) => Ok(Self(bits)),
            None => Err(format!("an IPv6 prefix of {bits} bits: 1 to 128 are possible")),
        }
    }
}

impl FromStr for Ipv6Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("\"{text}\" is no number of bits: 1 to 128 are possible");
        Self::try_from(text.parse::<u8>().map_err(wrong)?)
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
