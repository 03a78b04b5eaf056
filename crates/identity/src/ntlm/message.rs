//! The three messages as bytes, MS-NLMP §2.2.1.

use super::SIGNATURE;
use super::flags::Flags;
use crate::limits::{NAME_UNITS_MAX, NEGOTIATE_BYTES_MAX};
use crate::refusal::{Malformed, Refusal};

const NEGOTIATE: u32 = 1;
const CHALLENGE: u32 = 2;
const AUTHENTICATE: u32 = 3;
/// `VERSION`, MS-NLMP §2.2.2.10: Windows 7, NTLM revision 15. No implementation acts on it.
const VERSION: [u8; 8] = [6, 1, 0, 0, 0, 0, 0, 15];
/// The offset of the payload in a CHALLENGE.
const CHALLENGE_HEADER_BYTES: usize = 56;
/// The end of the mandatory fields of an AUTHENTICATE.
const AUTHENTICATE_HEADER_BYTES: usize = 64;
/// The offset of the MIC in an AUTHENTICATE, after its version.
const MIC_OFFSET: usize = 72;
/// The offset of the payload in an AUTHENTICATE with a MIC.
const MIC_END: usize = MIC_OFFSET + 16;
const NAME_BYTES_MAX: usize = 2 * NAME_UNITS_MAX;

/// `NEGOTIATE_MESSAGE`, MS-NLMP §2.2.1.1: its flags. The names in it are ignored, as specified.
pub(crate) struct Negotiate {
    pub(crate) flags: Flags,
}

/// `CHALLENGE_MESSAGE`, MS-NLMP §2.2.1.2.
pub(crate) struct Challenge<'a> {
    pub(crate) flags: Flags,
    pub(crate) challenge: [u8; 8],
    /// The target name in UTF-16.
    pub(crate) target: &'a [u8],
    pub(crate) target_info: &'a [u8],
}

/// `AUTHENTICATE_MESSAGE`, MS-NLMP §2.2.1.3. Texts are UTF-16.
pub(crate) struct Authenticate<'a> {
    pub(crate) flags: Flags,
    pub(crate) lm: &'a [u8],
    pub(crate) nt: &'a [u8],
    pub(crate) domain: &'a [u8],
    pub(crate) user: &'a [u8],
    pub(crate) workstation: &'a [u8],
    pub(crate) session_key: &'a [u8],
}

pub(crate) struct Mic {
    /// The MIC as received.
    pub(crate) value: [u8; 16],
    /// The message with zeros in place of the MIC.
    pub(crate) zeroed: Vec<u8>,
}

impl Negotiate {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        check_header(bytes, NEGOTIATE, NEGOTIATE_BYTES_MAX)?;
        Ok(Self { flags: Flags(u32_at(bytes, 12)?) })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = head(NEGOTIATE);
        bytes.extend(self.flags.0.to_le_bytes());
        // No domain, no workstation.
        bytes.extend([0; 16]);
        bytes.extend(VERSION);
        bytes
    }
}

impl<'a> Challenge<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        check_header(bytes, CHALLENGE, usize::MAX)?;
        let target = payload(bytes, 12, CHALLENGE_HEADER_BYTES, NAME_BYTES_MAX)?;
        let flags = Flags(u32_at(bytes, 20)?);
        let challenge = bytes.get(24..32).and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed::NTLM)?;
        let target_info = payload(bytes, 40, CHALLENGE_HEADER_BYTES, usize::MAX)?;
        Ok(Self { flags, challenge, target, target_info })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut message = MessageBuilder::new(CHALLENGE, CHALLENGE_HEADER_BYTES);
        message.field(self.target);
        message.header.extend(self.flags.0.to_le_bytes());
        message.header.extend(self.challenge);
        message.header.extend([0; 8]);
        message.field(self.target_info);
        message.header.extend(VERSION);
        message.into_bytes()
    }
}

impl<'a> Authenticate<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        check_header(bytes, AUTHENTICATE, usize::MAX)?;
        let field = |at, most| payload(bytes, at, AUTHENTICATE_HEADER_BYTES, most);
        Ok(Self {
            lm: field(12, usize::MAX)?,
            nt: field(20, usize::MAX)?,
            domain: field(28, NAME_BYTES_MAX)?,
            user: field(36, NAME_BYTES_MAX)?,
            workstation: field(44, NAME_BYTES_MAX)?,
            session_key: field(52, usize::MAX)?,
            flags: Flags(u32_at(bytes, 60)?),
        })
    }

    /// Encodes the message with zeros in place of the MIC.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut message = MessageBuilder::new(AUTHENTICATE, MIC_END);
        for field in [self.lm, self.nt, self.domain, self.user, self.workstation, self.session_key] {
            message.field(field);
        }
        message.header.extend(self.flags.0.to_le_bytes());
        message.header.extend(VERSION);
        message.header.extend([0; 16]);
        message.into_bytes()
    }
}

impl Mic {
    /// Refuses a message that has a field's payload in place of the MIC, since it has no MIC.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        for at in [12, 20, 28, 36, 44, 52] {
            payload(bytes, at, MIC_END, usize::MAX)?;
        }
        let mut zeroed = bytes.to_vec();
        let place = zeroed.get_mut(MIC_OFFSET..MIC_END).ok_or(Malformed::FIELD)?;
        let value = (&*place).try_into().map_err(|_| Malformed::FIELD)?;
        place.fill(0);
        Ok(Self { value, zeroed })
    }

    /// Writes a MIC into the result of [`Authenticate::to_bytes`].
    pub(crate) fn write_to(bytes: &mut [u8], mic: [u8; 16]) {
        bytes[MIC_OFFSET..MIC_END].copy_from_slice(&mic);
    }
}

/// A message under construction: its fixed part, and the payload that the fields point to.
struct MessageBuilder {
    header: Vec<u8>,
    head_bytes: usize,
    payload: Vec<u8>,
}

impl MessageBuilder {
    fn new(kind: u32, head_bytes: usize) -> Self {
        Self { header: head(kind), head_bytes, payload: Vec::new() }
    }

    /// Appends length, maximum length and offset of `contents`. All payloads here are far below 64 KiB.
    fn field(&mut self, contents: &[u8]) {
        let length = u16::try_from(contents.len()).unwrap_or(u16::MAX).to_le_bytes();
        let offset = u32::try_from(self.head_bytes + self.payload.len()).unwrap_or(u32::MAX);
        self.header.extend(length);
        self.header.extend(length);
        self.header.extend(offset.to_le_bytes());
        self.payload.extend_from_slice(contents);
    }

    fn into_bytes(mut self) -> Vec<u8> {
        debug_assert_eq!(self.header.len(), self.head_bytes);
        self.header.append(&mut self.payload);
        self.header
    }
}

fn head(kind: u32) -> Vec<u8> {
    [&SIGNATURE[..], &kind.to_le_bytes()].concat()
}

fn check_header(bytes: &[u8], kind: u32, bytes_max: usize) -> Result<(), Refusal> {
    if !bytes.starts_with(SIGNATURE) || u32_at(bytes, 8)? != kind {
        return Err(Malformed::NTLM.into());
    }
    if bytes.len() > bytes_max { Err(Refusal::TooLarge) } else { Ok(()) }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Refusal> {
    let value = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed::NTLM)?;
    Ok(u32::from_le_bytes(*value))
}

/// The payload of the field at `at`: it starts at `from` or later, ends within the message, and has at most `bytes_max`
/// bytes.
fn payload(bytes: &[u8], at: usize, from: usize, bytes_max: usize) -> Result<&[u8], Refusal> {
    let length = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed::NTLM)?;
    let length = usize::from(u16::from_le_bytes(*length));
    let offset = usize::try_from(u32_at(bytes, at + 4)?).map_err(|_| Malformed::FIELD)?;
    if length == 0 {
        return Ok(&[]);
    }
    let end = offset.checked_add(length).filter(|_| offset >= from && length <= bytes_max);
    Ok(end.and_then(|end| bytes.get(offset..end)).ok_or(Malformed::FIELD)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticate() -> Vec<u8> {
        let (lm, nt, user) = (&[1; 24][..], &[2; 60][..], &b"u\0s\0"[..]);
        let message = Authenticate {
            flags: Flags(7),
            lm,
            nt,
            domain: b"d\0",
            user,
            workstation: b"w\0",
            session_key: &[3; 16],
        };
        message.to_bytes()
    }

    #[test]
    fn messages_round_trip() {
        let message = Challenge { flags: Flags(9), challenge: [7; 8], target: b"T\0", target_info: &[5; 40] };
        let bytes = message.to_bytes();
        let back = Challenge::parse(&bytes).unwrap();
        assert_eq!((back.flags, back.challenge), (Flags(9), [7; 8]));
        assert_eq!((back.target, back.target_info), (&b"T\0"[..], &[5; 40][..]));

        let bytes = authenticate();
        let back = Authenticate::parse(&bytes).unwrap();
        assert_eq!((back.flags, back.lm, back.nt), (Flags(7), &[1; 24][..], &[2; 60][..]));
        assert_eq!((back.domain, back.user, back.workstation), (&b"d\0"[..], &b"u\0s\0"[..], &b"w\0"[..]));
        assert_eq!(back.session_key, [3; 16]);
        assert_eq!(Negotiate::parse(&Negotiate { flags: Flags(5) }.to_bytes()).unwrap().flags, Flags(5));
    }

    #[test]
    fn truncated_message_is_refused() {
        let whole = authenticate();
        for length in 0..whole.len() {
            assert!(Authenticate::parse(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn field_outside_the_payload_is_refused() {
        let whole = authenticate();
        let end = u32::try_from(whole.len()).unwrap();
        for at in [12, 20, 28, 36, 44, 52] {
            for offset in [0, 8, 63, end - 1, end, end + 1, u32::MAX - 1, u32::MAX] {
                let mut bytes = whole.clone();
                bytes[at + 4..at + 8].copy_from_slice(&offset.to_le_bytes());
                assert!(Authenticate::parse(&bytes).is_err(), "{at} {offset}");
            }
            let mut bytes = whole.clone();
            bytes[at..at + 2].copy_from_slice(&u16::MAX.to_le_bytes());
            assert!(Authenticate::parse(&bytes).is_err(), "{at}");
            // In place of the MIC: valid fields, but no MIC.
            let mut bytes = whole.clone();
            bytes[at + 4..at + 8].copy_from_slice(&80_u32.to_le_bytes());
            assert!(Mic::parse(&bytes).is_err(), "{at}");
        }
    }

    #[test]
    fn empty_field_with_any_offset_is_accepted() {
        let mut bytes = authenticate();
        bytes[12..14].fill(0);
        bytes[16..20].fill(0xff);
        assert_eq!(Authenticate::parse(&bytes).unwrap().lm, []);
    }

    #[test]
    fn overlong_name_and_negotiate_are_refused() {
        let long = vec![0; NAME_BYTES_MAX + 2];
        let message = Authenticate {
            flags: Flags(0),
            lm: &[],
            nt: &[],
            domain: &[],
            user: &long,
            workstation: &[],
            session_key: &[],
        };
        assert!(Authenticate::parse(&message.to_bytes()).is_err());
        let mut negotiate = Negotiate { flags: Flags(0) }.to_bytes();
        negotiate.resize(NEGOTIATE_BYTES_MAX, 0);
        assert!(Negotiate::parse(&negotiate).is_ok());
        negotiate.push(0);
        assert_eq!(Negotiate::parse(&negotiate).err(), Some(Refusal::TooLarge));
    }
}
