//! The messages of one connection: ids and credits, signatures and encryption.

use std::collections::HashMap;
use std::sync::Arc;

use smb_wire::compound;
use smb_wire::crypto::sealing::{Opener, Sealer};
use smb_wire::crypto::signing;
use smb_wire::header::{Command, Flags, Header};
use smb_wire::transform::TRANSFORM_SIZE;
use smb_wire::{Encode, NtStatus};

use crate::error::Error;

/// Bytes of the length field before a message, MS-SMB2 §2.1.
const FRAMING: usize = 4;
/// Credits that a connection tries to hold.
const CREDITS_TARGET: u32 = 512;
/// Bytes that one credit pays for, MS-SMB2 §3.1.5.2.
const CREDIT_BYTES: u32 = 64 << 10;
/// The message id of unsolicited messages, MS-SMB2 §2.2.1.2.
const UNSOLICITED: u64 = u64::MAX;

#[inline]
pub fn charge(bytes: u32) -> u16 {
    u16::try_from(bytes.div_ceil(CREDIT_BYTES).max(1)).unwrap_or(u16::MAX)
}

/// A request without its header.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub command: Command,
    pub charge: u16,
    /// Follows the header and precedes the data.
    pub body: &'a dyn Encode,
}

/// Messages are signed with the connection's own key, or encrypted with the keys that all connections of a
/// session share.
#[derive(Clone)]
pub(super) enum Keys {
    None,
    Signing(Arc<signing::Key>),
    Sealing(Arc<(Sealer, Opener)>),
}

pub struct Channel {
    pub(super) session_id: u64,
    pub(super) tree_id: u32,
    pub(super) keys: Keys,
    next_id: u64,
    credits: u32,
    /// Call slots by message id; a compound counts by its first id.
    in_flight: HashMap<u64, usize>,
}

impl Channel {
    pub(super) fn new() -> Self {
        Self {
            session_id: 0,
            tree_id: 0,
            keys: Keys::None,
            next_id: 0,
            credits: 1,
            in_flight: HashMap::new(),
        }
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn with_credits(credits: u32) -> Self {
        Self { credits, ..Self::new() }
    }

    #[inline]
    pub fn affords(&self, charge: u16) -> bool {
        self.credits >= u32::from(charge)
    }

    /// Whether data can follow a message without a copy. Signing and encryption need the whole message.
    #[inline]
    pub fn sends_data_separately(&self) -> bool {
        matches!(self.keys, Keys::None)
    }

    /// Appends requests as one message for the call in `slot`. `data` belongs to the last request. If
    /// [`sends_data_separately`](Self::sends_data_separately), the caller sends the data right after the
    /// message.
    pub fn push(
        &mut self,
        requests: &[Request<'_>],
        data: Option<&[u8]>,
        slot: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let start = out.len();
        // Sealing works in place and needs room for the transform header before the message.
        let room = if matches!(self.keys, Keys::Sealing(_)) { TRANSFORM_SIZE } else { 0 };
        out.resize(start + FRAMING + room, 0);
        self.in_flight.insert(self.next_id, slot);
        let mut last = None;
        for request in requests {
            if let Some(last) = last {
                compound::link(out, last);
            }
            let header = self.header(request, last.is_some())?;
            last = Some(compound::push(out, &header, request.body));
        }
        let behind = match data {
            Some(data) if self.sends_data_separately() => data.len(),
            data => {
                out.extend_from_slice(data.unwrap_or_default());
                0
            }
        };
        self.protect(&mut out[start + FRAMING..])?;
        let length = u32::try_from(out.len() - start - FRAMING + behind).unwrap_or(u32::MAX);
        out[start..start + FRAMING].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn header(&mut self, request: &Request<'_>, is_related: bool) -> Result<Header, Error> {
        let charge = u32::from(request.charge);
        let Some(remaining) = self.credits.checked_sub(charge) else {
            return Err(Error::Protocol(format!(
                "{:?} takes {charge} credits; the server has granted {}",
                request.command, self.credits
            )));
        };
        // Requests at least its own charge back, so that the credits never shrink.
        let missing = CREDITS_TARGET.saturating_sub(remaining).max(charge);
        let header = Header {
            credit_charge: request.charge,
            credits: u16::try_from(missing).unwrap_or(u16::MAX),
            flags: if is_related { Flags::RELATED_OPERATIONS } else { Flags::empty() },
            ..Header::request(request.command, self.next_id, self.session_id, self.tree_id)
        };
        // A request uses as many consecutive message ids as credits.
        (self.credits, self.next_id) = (remaining, self.next_id + u64::from(charge));
        Ok(header)
    }

    fn protect(&self, message: &mut [u8]) -> Result<(), Error> {
        match &self.keys {
            Keys::None => Ok(()),
            Keys::Sealing(keys) => {
                let sealed = keys.0.seal(self.session_id, message);
                sealed.map_err(|used_up| Error::Protocol(used_up.to_string()))
            }
            Keys::Signing(key) => {
                let lengths: Vec<usize> =
                    compound::messages(message).flatten().map(|message| message.bytes.len()).collect();
                let mut rest = message;
                for length in lengths {
                    let (message, more) = rest.split_at_mut(length);
                    key.sign(message);
                    rest = more;
                }
                Ok(())
            }
        }
    }

    /// Decrypts or verifies a frame. Returns the slot of the answered call and the messages. `None` for an
    /// interim response, and for one that answers no request. The end of an unprotected message may be
    /// missing.
    pub fn take_reply<'b>(&mut self, frame: &'b mut [u8]) -> Result<Option<(usize, &'b [u8])>, Error> {
        let plain = self.unprotect(frame)?;
        let mut first = None;
        for message in compound::messages(plain) {
            let header = message?.header;
            self.credits = self.credits.saturating_add(header.credits.into());
            first.get_or_insert(header);
        }
        let Some(first) = first.filter(|first| first.message_id != UNSOLICITED) else { return Ok(None) };
        // The call stays in flight: its final response has the same message id.
        if is_interim(&first) {
            return Ok(None);
        }
        let slot = self.in_flight.remove(&first.message_id).ok_or_else(|| {
            Error::Protocol(format!("a response to message {}, which is not in flight", first.message_id))
        })?;
        Ok(Some((slot, plain)))
    }

    fn unprotect<'b>(&self, frame: &'b mut [u8]) -> Result<&'b [u8], Error> {
        let forged = |_| Error::Protocol("a response that the session's key does not vouch for".to_owned());
        match &self.keys {
            Keys::None => Ok(frame),
            Keys::Sealing(keys) => keys.1.open(frame).map(|plain| &*plain).map_err(forged),
            Keys::Signing(key) => {
                for message in compound::messages(frame) {
                    let message = message?;
                    // Neither unsolicited nor interim responses are signed: MS-SMB2 §3.2.5.1.3.
                    if message.header.message_id != UNSOLICITED && !is_interim(&message.header) {
                        key.verify(message.bytes).map_err(forged)?;
                    }
                }
                Ok(frame)
            }
        }
    }
}

/// Whether a response only announces a later one, MS-SMB2 §3.2.5.1.5.
fn is_interim(header: &Header) -> bool {
    header.status == NtStatus::PENDING && header.async_id().is_some()
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { session_id, tree_id, next_id, credits, .. } = self;
        write!(
            f,
            "Channel(session {session_id:#x}, tree {tree_id}, next message {next_id}, credits {credits})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::Decode;
    use smb_wire::negotiate::SigningAlgorithm;
    use smb_wire::session::Empty;

    fn signed() -> Channel {
        let key = signing::Key::new(SigningAlgorithm::AES_GMAC, &[7; 16]).unwrap();
        Channel {
            keys: Keys::Signing(Arc::new(key)),
            credits: 10,
            session_id: 5,
            tree_id: 6,
            ..Channel::new()
        }
    }

    fn echo() -> Request<'static> {
        Request { command: Command::ECHO, charge: 1, body: &Empty }
    }

    fn answer(message_id: u64, change: impl FnOnce(&mut Header)) -> Vec<u8> {
        let request = Header::request(Command::ECHO, message_id, 5, 6);
        let mut header = Header { credits: 3, ..request.response(NtStatus::SUCCESS) };
        change(&mut header);
        let mut frame = Vec::new();
        compound::push(&mut frame, &header, &Empty);
        let Keys::Signing(key) = signed().keys else { unreachable!("signed") };
        key.sign(&mut frame);
        frame
    }

    #[test]
    fn compound_is_related_and_signed_by_request() {
        let (mut channel, mut out) = (signed(), Vec::new());
        channel.push(&[echo(), echo()], None, 4, &mut out).unwrap();
        assert_eq!(out[..4], u32::try_from(out.len() - 4).unwrap().to_be_bytes());
        let Keys::Signing(key) = &channel.keys else { unreachable!("signed") };
        let parts: Vec<_> = compound::messages(&out[4..]).map(Result::unwrap).collect();
        let flags: Vec<bool> =
            parts.iter().map(|part| part.header.flags.contains(Flags::RELATED_OPERATIONS)).collect();
        assert_eq!((flags, channel.credits), (vec![false, true], 8));
        assert_eq!(parts.iter().map(|part| part.header.message_id).collect::<Vec<_>>(), [0, 1]);
        assert!(parts.iter().all(|part| key.verify(part.bytes).is_ok()));
    }

    #[test]
    fn reply_completes_its_call_once_and_grants_credits() {
        let (mut channel, mut out) = (signed(), Vec::new());
        channel.push(&[echo()], None, 4, &mut out).unwrap();
        let pending = |header: &mut Header| {
            header.status = NtStatus::PENDING;
            header.routing = smb_wire::header::Routing::Async { async_id: 9 };
        };
        assert!(channel.take_reply(&mut answer(0, pending)).unwrap().is_none(), "an interim response");
        assert!(
            channel.take_reply(&mut answer(UNSOLICITED, |_| ())).unwrap().is_none(),
            "an unsolicited message"
        );
        let mut frame = answer(0, |_| ());
        let (slot, bytes) = channel.take_reply(&mut frame).unwrap().unwrap();
        assert_eq!((slot, Header::from_bytes(bytes).unwrap().command), (4, Command::ECHO));
        assert_eq!(channel.credits, 9 + 3 * 3);
        let twice = channel.take_reply(&mut answer(0, |_| ())).unwrap_err().to_string();
        assert!(twice.contains("not in flight"), "{twice}");
    }

    #[test]
    fn unsigned_or_modified_reply_is_rejected() {
        let (mut channel, mut out) = (signed(), Vec::new());
        channel.push(&[echo()], None, 4, &mut out).unwrap();
        let mut changed = answer(0, |_| ());
        *changed.last_mut().unwrap() ^= 1;
        let wrong = channel.take_reply(&mut changed).unwrap_err().to_string();
        assert!(wrong.contains("does not vouch"), "{wrong}");
        let mut unsigned = Vec::new();
        let header = Header::request(Command::ECHO, 0, 5, 6).response(NtStatus::SUCCESS);
        compound::push(&mut unsigned, &header, &Empty);
        assert!(channel.take_reply(&mut unsigned).is_err());
    }

    #[test]
    fn request_without_credits_fails() {
        let (mut channel, mut out) = (Channel { credits: 1, ..signed() }, Vec::new());
        assert!(channel.affords(1) && !channel.affords(2));
        channel.push(&[echo()], None, 0, &mut out).unwrap();
        let refused = channel.push(&[echo()], None, 0, &mut out).unwrap_err().to_string();
        assert!(refused.contains("ECHO takes 1 credits; the server has granted 0"), "{refused}");
        assert_eq!([0, 1, 65_536, 65_537, 1 << 20].map(charge), [1, 1, 1, 2, 16]);
    }
}
