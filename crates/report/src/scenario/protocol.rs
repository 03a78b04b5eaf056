//! Protocols of loads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A protocol between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    #[serde(rename = "nfsv3")]
    NfsV3,
    #[serde(rename = "nfsv4.1")]
    NfsV41,
    #[serde(rename = "smb")]
    Smb,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::NfsV3, Self::NfsV41, Self::Smb];

    fn word(self) -> &'static str {
        match self {
            Self::NfsV3 => "nfsv3",
            Self::NfsV41 => "nfsv4.1",
            Self::Smb => "smb",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::NfsV3 => "NFSv3",
            Self::NfsV41 => "NFSv4.1",
            Self::Smb => "SMB",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let protocol = Self::ALL.into_iter().find(|one| one.word() == text);
        protocol.ok_or_else(|| {
            format!("\"{text}\" is not a protocol; allowed: {}", Self::ALL.map(Self::word).join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_words_match_serialized_names() {
        for one in Protocol::ALL {
            assert_eq!(one.word().parse(), Ok(one));
            assert_eq!(serde_json::to_string(&one).unwrap(), format!("\"{}\"", one.word()));
        }
        let error = "nfs4".parse::<Protocol>().unwrap_err();
        assert_eq!(error, "\"nfs4\" is not a protocol; allowed: nfsv3, nfsv4.1, smb");
    }
}
