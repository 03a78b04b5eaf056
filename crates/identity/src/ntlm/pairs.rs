//! What a server says of itself in a CHALLENGE, and a client repeats in its answer: `AV_PAIR`, MS-NLMP §2.2.2.1.

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
/// In `MsvAvFlags`: the client gives a MIC.
const HAS_MIC: u32 = 2;

/// What counts of a client's pairs.
#[derive(Default)]
pub(crate) struct Pairs<'a> {
    flags: u32,
    /// The service that the client means to talk to, in UTF-16.
    pub(crate) target_name: Option<&'a [u8]>,
    /// The server's time.
    pub(crate) timestamp: Option<[u8; 8]>,
}

impl<'a> Pairs<'a> {
    /// The pairs up to their end, which must be there. Each of those that count may be there once.
    pub(crate) fn parse(mut bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut pairs = Self::default();
        let mut seen = 0_u16;
        for _ in 0..TARGET_PAIRS_MAX {
            let (&[a, b, c, d], rest) = bytes.split_first_chunk().ok_or(Malformed::ANSWER)?;
            let (id, length) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
            let (value, rest) = rest.split_at_checked(length).ok_or(Malformed::ANSWER)?;
            bytes = rest;
            if id == EOL {
                return Ok(pairs);
            }
            let bit = 1_u16.checked_shl(u32::from(id)).unwrap_or(0);
            if seen & bit != 0 {
                return Err(Malformed::ANSWER.into());
            }
            seen |= bit;
            match id {
                FLAGS => pairs.flags = u32::from_le_bytes(value.try_into().map_err(|_| Malformed::ANSWER)?),
                TARGET_NAME => pairs.target_name = Some(value),
                TIMESTAMP => pairs.timestamp = Some(value.try_into().map_err(|_| Malformed::ANSWER)?),
                _ => {}
            }
        }
        Err(Malformed::ANSWER.into())
    }

    /// Whether the client says that its AUTHENTICATE has a MIC. The proof of its password covers this.
    pub(crate) fn has_mic(&self) -> bool {
        self.flags & HAS_MIC != 0
    }
}

/// What a server says of itself. The time makes clients give a MIC (MS-NLMP §3.1.5.1.2). A name that it has not is left out:
/// some kernels of Linux take an empty one for the end.
pub(crate) fn of_server(names: &ServerNames, now: FileTime) -> Vec<u8> {
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

/// What a client answers to `server`: the same, that it gives a MIC, and whom it means to talk to.
pub(crate) fn of_client(server: &[u8], target_name: &str) -> Result<Vec<u8>, Refusal> {
    Pairs::parse(server)?;
    let end = server.len().checked_sub(4).filter(|&end| server[end..] == [0; 4]).ok_or(Malformed::ANSWER)?;
    let mut bytes = server[..end].to_vec();
    push(&mut bytes, FLAGS, &HAS_MIC.to_le_bytes());
    push(&mut bytes, TARGET_NAME, &utf16(target_name));
    push(&mut bytes, EOL, &[]);
    Ok(bytes)
}

fn push(bytes: &mut Vec<u8>, id: u16, value: &[u8]) {
    // Names of servers are short; what would not fit is cut.
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX - 1);
    bytes.extend(id.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend_from_slice(&value[..usize::from(length)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_adds_to_what_the_server_says() {
        let server = of_server(&ServerNames::of_host("files.example.org"), FileTime(5));
        let client = of_client(&server, "cifs/files").unwrap();
        let pairs = Pairs::parse(&client).unwrap();
        assert!(pairs.has_mic() && !Pairs::parse(&server).unwrap().has_mic());
        assert_eq!(pairs.timestamp, Some(5_u64.to_le_bytes()));
        assert_eq!(pairs.target_name, Some(&*utf16("cifs/files")));
    }

    #[test]
    fn a_server_says_nothing_empty() {
        let mut pairs = &*of_server(&ServerNames::of_host("files"), FileTime(5));
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
    fn pairs_end_and_do_not_repeat() {
        let flags = [6, 0, 4, 0, 2, 0, 0, 0];
        assert!(Pairs::parse(&flags).is_err());
        assert!(Pairs::parse(&[&flags[..], &[0; 4]].concat()).unwrap().has_mic());
        assert!(Pairs::parse(&[&flags[..], &flags, &[0; 4]].concat()).is_err());
        assert!(Pairs::parse(&[6, 0, 3, 0, 2, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(Pairs::parse(&[1, 0, 0xff, 0xff, 0, 0]).is_err());
        let many = [0xff, 0xff, 0, 0].repeat(TARGET_PAIRS_MAX);
        assert!(Pairs::parse(&[&many[..], &[0; 4]].concat()).is_err());
        assert!(Pairs::parse(&[&many[4..], &[0; 4]].concat()).is_ok());
    }
}
