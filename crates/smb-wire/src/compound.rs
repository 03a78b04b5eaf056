//! Compounds, several messages in one: MS-SMB2 §3.2.4.1.4 and §3.3.5.2.7.

use crate::header::{HEADER_SIZE, Header, NEXT_COMMAND_OFFSET};
use crate::{Decode, Malformed, Reader, Writer};

/// The alignment of every message but the last, which needs no padding.
pub const ALIGNMENT: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub header: Header,
    /// Header, body, and the padding before the next message: the input of the signature. Offsets count from its start.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// A reader at the message's structure, behind the header.
    pub fn body(&self) -> Reader<'a> {
        Reader::starting_at(self.bytes, HEADER_SIZE)
    }
}

/// Iterates over the messages of `bytes`, which start with a header. A malformed message ends the iteration.
pub fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages { rest: Some(bytes) }
}

#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Messages<'a> {
    fn split(&mut self, bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let header = Header::from_bytes(bytes)?;
        let next = usize::try_from(header.next_command).unwrap_or(usize::MAX);
        if next == 0 {
            return Ok(Message { header, bytes });
        }
        if next < HEADER_SIZE || !next.is_multiple_of(ALIGNMENT) {
            return Err(Malformed("NextCommand points into a message"));
        }
        let (bytes, rest) =
            bytes.split_at_checked(next).ok_or(Malformed("NextCommand points past the end"))?;
        self.rest = Some(rest);
        Ok(Message { header, bytes })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest.take()?;
        Some(self.split(bytes))
    }
}

/// Pads the message that starts at `start` and ends `out`, and sets its `NextCommand`.
///
/// # Panics
/// If no header is at `start`.
pub fn link(out: &mut Vec<u8>, start: usize) {
    let length = (out.len() - start).next_multiple_of(ALIGNMENT);
    out.resize(start + length, 0);
    let next = u32::try_from(length).expect("a message is shorter than 4 GiB");
    out[start + NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&next.to_le_bytes());
}

/// Appends header and body as one message and returns its start.
pub fn push(out: &mut Vec<u8>, header: &Header, body: &(impl crate::Encode + ?Sized)) -> usize {
    let start = out.len();
    let mut w = Writer::new(out);
    crate::Encode::encode(header, &mut w);
    body.encode(&mut w);
    start
}
