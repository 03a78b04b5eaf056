//! Several messages in one: compounds, MS-SMB2 §3.2.4.1.4 and §3.3.5.2.7.

use crate::header::{HEADER_SIZE, Header, NEXT_COMMAND_OFFSET};
use crate::{Decode, Malformed, Reader, Writer};

/// Every message but the last is filled up to a multiple of this.
pub const ALIGNMENT: usize = 8;

/// One message of a compound, or the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The header.
    pub header: Header,
    /// All of the message: header, body, and the padding before the next one. Signatures are over these bytes; offsets count
    /// from their start.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// A reader behind the header, at the message's structure.
    pub fn body(&self) -> Reader<'a> {
        Reader::starting_at(self.bytes, HEADER_SIZE)
    }
}

/// The messages of `bytes`, which start with a header. A malformed one is the last.
pub fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages { rest: Some(bytes) }
}

/// Iterates over the messages of a compound.
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

/// Fills the message that starts at `start` and ends `out` up, and says in its header that another one follows.
///
/// # Panics
/// If no header is at `start`.
pub fn link(out: &mut Vec<u8>, start: usize) {
    let length = (out.len() - start).next_multiple_of(ALIGNMENT);
    out.resize(start + length, 0);
    let next = u32::try_from(length).expect("a message is shorter than 4 GiB");
    out[start + NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&next.to_le_bytes());
}

/// Appends header and body as one message and returns where it starts.
pub fn push(out: &mut Vec<u8>, header: &Header, body: &(impl crate::Encode + ?Sized)) -> usize {
    let start = out.len();
    let mut w = Writer::new(out);
    crate::Encode::encode(header, &mut w);
    body.encode(&mut w);
    start
}
