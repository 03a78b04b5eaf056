//! `AV_PAIR`, MS-NLMP §2.2.2.1: the server's target information in a CHALLENGE, repeated in the client's response.

use crate::limits::TARGET_PAIRS_MAX;
use crate::names::{ServerNames, utf16};
use crate::refusal::{Malformed, Refusal};
use crate::time::FileTime;

const EOL: u16 = 0;
const NB_COMPUTER_NAME: u16 = 1;
const NB_DOMAIN_NAME: u16 = 2;
const DNS_COMPUTER_NAME: u16 = 3;
const DNS_DOMAIN_NAME: u16 = 4;
const FLAGS: u16 = 6;
const TIMESTAMP: u16 = 7;
const TARGET_NAME: u16 = 9;
/// The bit of `MsvAvFlags` that announces a MIC.
const HAS_MIC: u32 = 2;

/// The pairs of a client's response that matter to the server.
#[derive(Default)]
pub(crate) struct AvPairs<'a> {
    flags: u32,
    /// The client's target name, in UTF-16.
    pub(crate) target_name: Option<&'a [u8]>,
    /// The server's time.
    pub(crate) timestamp: Option<[u8; 8]>,
}

impl<'a> AvPairs<'a> {
    /// Parses the pairs up to the mandatory terminator. A pair that matters must not repeat.
    pub(crate) fn parse(mut bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut pairs = Self::default();
        let mut seen = 0_u16;
        for _ in 0..TARGET_PAIRS_MAX {
            let (&[a, b, c, d], rest) = bytes.split_first_chunk().ok_or(Malformed::RESPONSE)?;
            let (id, length) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
            let (value, rest) = rest.split_at_checked(length).ok_or(Malformed::RESPONSE)?;
            bytes = rest;
            if id == EOL {
                return Ok(pairs);
            }
            let bit = 1_u16.checked_shl(u32::from(id)).unwrap_or(0);
            if seen & bit != 0 {
                return Err(Malformed::RESPONSE.into());
            }
            seen |= bit;
            match id {
                FLAGS => pairs.flags = u32::from_le_bytes(value.try_into().map_err(|_| Malformed::RESPONSE)?),
                TARGET_NAME => pairs.target_name = Some(value),
                TIMESTAMP => pairs.timestamp = Some(value.try_into().map_err(|_| Malformed::RESPONSE)?),
                _ => {}
            }
        }
        Err(Malformed::RESPONSE.into())
    }

    /// Whether the client announces a MIC in its AUTHENTICATE. The proof of the password covers this flag.
    pub(crate) fn has_mic(&self) -> bool {
        self.flags & HAS_MIC != 0
    }
}

/// The server's target information. The time makes clients send a MIC (MS-NLMP §3.1.5.1.2). Empty names are omitted:
/// some Linux kernels take an empty name for the terminator.
pub(crate) fn for_challenge(names: &ServerNames, now: FileTime) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, name) in [
        (NB_DOMAIN_NAME, &names.netbios_domain),
        (NB_COMPUTER_NAME, &names.netbios),
        (DNS_DOMAIN_NAME, &names.dns_domain),
        (DNS_COMPUTER_NAME, &names.dns),
    ] {
        if !name.is_empty() {
            push(&mut bytes, id, &utf16(name));
        }
    }
    push(&mut bytes, TIMESTAMP, &now.0.to_le_bytes());
    push(&mut bytes, EOL, &[]);
    bytes
}

/// The client's copy of the server's pairs, plus the MIC flag and the target name.
pub(crate) fn for_response(server: &[u8], target_name: &str) -> Result<Vec<u8>, Refusal> {
    AvPairs::parse(server)?;
    let end =
        server.len().checked_sub(4).filter(|&end| server[end..] == [0; 4]).ok_or(Malformed::RESPONSE)?;
    let mut bytes = server[..end].to_vec();
    push(&mut bytes, FLAGS, &HAS_MIC.to_le_bytes());
    push(&mut bytes, TARGET_NAME, &utf16(target_name));
    push(&mut bytes, EOL, &[]);
    Ok(bytes)
}

fn push(bytes: &mut Vec<u8>, id: u16, value: &[u8]) {
    // Server names are short; longer values are cut.
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX - 1);
    bytes.extend(id.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend_from_slice(&value[..usize::from(length)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_pairs_extend_server_pairs() {
        let server = for_challenge(&ServerNames::for_host("files.example.org"), FileTime(5));
        let client = for_response(&server, "cifs/files").unwrap();
        let pairs = AvPairs::parse(&client).unwrap();
        assert!(pairs.has_mic() && !AvPairs::parse(&server).unwrap().has_mic());
        assert_eq!(pairs.timestamp, Some(5_u64.to_le_bytes()));
        assert_eq!(pairs.target_name, Some(&*utf16("cifs/files")));
    }

    #[test]
    fn empty_server_names_are_omitted() {
        let mut pairs = &*for_challenge(&ServerNames::for_host("files"), FileTime(5));
        let mut ids = Vec::new();
        while let Some((&[a, b, c, d], rest)) = pairs.split_first_chunk() {
            let (id, length) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
            assert!(id == EOL || length > 0, "{id}");
            ids.push(id);
            pairs = &rest[length..];
        }
        assert_eq!(ids, [NB_DOMAIN_NAME, NB_COMPUTER_NAME, DNS_COMPUTER_NAME, TIMESTAMP, EOL]);
    }

    #[test]
    fn unterminated_or_repeated_pairs_are_refused() {
        let flags = [6, 0, 4, 0, 2, 0, 0, 0];
        assert!(AvPairs::parse(&flags).is_err());
        assert!(AvPairs::parse(&[&flags[..], &[0; 4]].concat()).unwrap().has_mic());
        assert!(AvPairs::parse(&[&flags[..], &flags, &[0; 4]].concat()).is_err());
        assert!(AvPairs::parse(&[6, 0, 3, 0, 2, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(AvPairs::parse(&[1, 0, 0xff, 0xff, 0, 0]).is_err());
        let many = [0xff, 0xff, 0, 0].repeat(TARGET_PAIRS_MAX);
        assert!(AvPairs::parse(&[&many[..], &[0; 4]].concat()).is_err());
        assert!(AvPairs::parse(&[&many[4..], &[0; 4]].concat()).is_ok());
    }
}
