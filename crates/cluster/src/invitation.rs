//! An invitation: a text that lets one machine join a cluster, once, for a limited time.
//!
//! The text holds a secret; the store holds the cluster's key, sealed with the secret. Neither is enough without the other.

use crate::Entropy;
use crate::error::{Error, Result};
use crate::key::{ClusterKey, KEY_BYTES};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fmt::Write as _;

pub(crate) const INVITATION: &str = "invitation/";
const PREFIX: &str = "plimsoll-join-";
const ID_BYTES: usize = 8;
/// Bytes of the check at the end, which finds a text that was cut or mistyped.
const CHECK_BYTES: usize = 4;

/// The text of an invitation.
#[derive(Clone)]
pub struct Invitation {
    id: [u8; ID_BYTES],
    secret: [u8; KEY_BYTES],
}

/// The stored part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InvitationRecord {
    pub(crate) expires_ms: u64,
    sealed: Vec<u8>,
}

impl Invitation {
    pub(crate) fn make(entropy: Entropy<'_>) -> Self {
        let mut made = Self { id: [0; ID_BYTES], secret: [0; KEY_BYTES] };
        entropy(&mut made.id);
        entropy(&mut made.secret);
        made
    }

    pub(crate) fn key(&self) -> String {
        format!("{INVITATION}{}", hex(&self.id))
    }

    pub(crate) fn record(
        &self,
        cluster: &ClusterKey,
        expires_ms: u64,
        entropy: Entropy<'_>,
    ) -> InvitationRecord {
        let sealed = ClusterKey::new(self.secret).seal(&self.key(), 0, cluster.as_bytes(), entropy);
        InvitationRecord { expires_ms, sealed }
    }

    /// Opens the key of the cluster; `None` if the record is of another invitation.
    pub(crate) fn open(&self, record: &InvitationRecord) -> Option<ClusterKey> {
        let key = ClusterKey::new(self.secret).open(&self.key(), &record.sealed)?;
        key.try_into().ok().map(ClusterKey::new)
    }

    /// Parses the text that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::refused(
                "this is not a whole invitation: it begins with plimsoll-join- and has 88 more characters",
            )
        };
        let digits = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?;
        let bytes = unhex(digits)
            .filter(|bytes| bytes.len() == ID_BYTES + KEY_BYTES + CHECK_BYTES)
            .ok_or_else(wrong)?;
        let (content, check) = bytes.split_at(ID_BYTES + KEY_BYTES);
        let (id, secret) = content.split_at(ID_BYTES);
        let found =
            Self { id: id.try_into().map_err(|_| wrong())?, secret: secret.try_into().map_err(|_| wrong())? };
        if found.check() == check { Ok(found) } else { Err(wrong()) }
    }

    fn check(&self) -> [u8; CHECK_BYTES] {
        let signed = ClusterKey::new(self.secret).sign("invitation", &self.id);
        [signed[0], signed[1], signed[2], signed[3]]
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{}{}", hex(&self.id), hex(&self.secret), hex(&self.check()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _written = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_an_invitation_is_read_back_and_damage_is_found() {
        let made = Invitation::make(&|bytes| bytes.fill(0xa5));
        let text = made.to_string();
        assert_eq!(Invitation::parse(&format!(" {text}\n")).unwrap().to_string(), text);
        let damaged = text.replacen("a5", "a6", 1);
        for bad in [&text[1..], &text[..text.len() - 1], &text[..text.len() - 2], &damaged, ""] {
            assert!(
                Invitation::parse(bad).err().unwrap().to_string().contains("not a whole invitation"),
                "{bad}"
            );
        }
    }

    #[test]
    fn only_the_secret_opens_the_key() {
        let cluster = ClusterKey::new([9; 32]);
        let entropy: Entropy<'_> = &|bytes| bytes.fill(3);
        let made = Invitation::make(entropy);
        let record = made.record(&cluster, 1000, entropy);
        assert_eq!(made.open(&record).unwrap().as_bytes(), cluster.as_bytes());
        let other = Invitation { secret: [4; 32], ..made };
        assert!(other.open(&record).is_none());
    }
}
