//! Buffers of a connection: calls gathered for one send, replies split from one receive.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use nfs_wire::rpc::RecordMark;
use rustix::net::RecvFlags;
use xdr::Writer;

use crate::error::Error;
use crate::pattern::Payload;

const PIECES: usize = 128;
/// A READ reply fits into this many bytes up to its data.
const PEEK: usize = 256;

#[derive(Clone, Debug)]
enum Segment {
    Head(Range<usize>),
    Payload { slot: usize, range: Range<usize> },
}

/// Unsent calls: heads are copied one after another, payloads stay in place.
///
/// A payload stays unchanged until its call is answered, so no copy is needed.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    heads: Vec<u8>,
    segments: Vec<Segment>,
}

impl Outbox {
    pub(crate) fn new(depth: usize) -> Self {
        Self { heads: Vec::with_capacity(depth * 512), segments: Vec::with_capacity(depth * 2 + 2) }
    }

    /// `template` contains a record mark, an xid, and the bytes that all such calls share.
    #[inline]
    pub(crate) fn begin(&mut self, template: &[u8]) -> usize {
        let start = self.heads.len();
        self.heads.extend_from_slice(template);
        start
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.heads.extend_from_slice(bytes);
    }

    /// `write` frames and protects the message; a slot's payload follows it.
    #[inline]
    pub(crate) fn push_message(&mut self, payload: Option<(usize, u32)>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.heads.len();
        write(&mut self.heads);
        self.add(start, payload);
    }

    #[inline]
    fn add(&mut self, start: usize, payload: Option<(usize, u32)>) {
        let end = self.heads.len();
        match self.segments.last_mut() {
            Some(Segment::Head(range)) if range.end == start => range.end = end,
            _ => self.segments.push(Segment::Head(start..end)),
        }
        if let Some((slot, length)) = payload {
            self.segments.push(Segment::Payload { slot, range: 0..length as usize });
        }
    }

    /// Replaces unsent bytes. `at` comes from [`Self::begin`].
    #[inline]
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.heads[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn encode_with(&mut self, encode: impl FnOnce(&mut Writer<'_>)) {
        encode(&mut Writer::new(&mut self.heads));
    }

    /// Ends the call that began at `start`. `payload` bytes of the slot's payload follow, then `tail`.
    #[inline]
    pub(crate) fn finish(&mut self, start: usize, xid: u32, payload: Option<(usize, u32)>, tail: &[u8]) {
        let end = self.heads.len();
        // Head and tail are a few hundred bytes, a payload at most 1 MiB.
        let head = u32::try_from(end - start - RecordMark::SIZE + tail.len()).unwrap_or(u32::MAX);
        let mark = RecordMark { last: true, length: head + payload.map_or(0, |(_, length)| length) };
        self.heads[start..start + 4].copy_from_slice(&mark.to_word().to_be_bytes());
        self.heads[start + 4..start + 8].copy_from_slice(&xid.to_be_bytes());
        self.add(start, payload);
        if !tail.is_empty() {
            self.heads.extend_from_slice(tail);
            match self.segments.last_mut() {
                Some(Segment::Head(range)) => range.end += tail.len(),
                _ => self.segments.push(Segment::Head(end..end + tail.len())),
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn unsent(&self, payloads: &[Payload]) -> Vec<u8> {
        let bytes = |segment: &Segment| match segment {
            Segment::Head(range) => self.heads[range.clone()].to_vec(),
            Segment::Payload { slot, range } => payloads[*slot].bytes()[range.clone()].to_vec(),
        };
        self.segments.iter().flat_map(bytes).collect()
    }

    /// Sends as much as the socket takes. Returns whether everything was sent.
    pub(crate) fn flush(&mut self, mut stream: &TcpStream, payloads: &[Payload]) -> io::Result<bool> {
        let mut first = 0;
        while first < self.segments.len() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let waiting = &self.segments[first..];
            for (piece, segment) in pieces.iter_mut().zip(waiting) {
                *piece = IoSlice::new(match segment {
                    Segment::Head(range) => &self.heads[range.clone()],
                    Segment::Payload { slot, range } => &payloads[*slot].bytes()[range.clone()],
                });
            }
            match stream.write_vectored(&pieces[..waiting.len().min(PIECES)]) {
                Ok(sent) => first += self.advance(first, sent),
                Err(wrong) if wrong.kind() == io::ErrorKind::Interrupted => {}
                Err(wrong) if wrong.kind() == io::ErrorKind::WouldBlock => {
                    self.keep_from(first);
                    return Ok(false);
                }
                Err(wrong) => return Err(wrong),
            }
        }
        self.segments.clear();
        self.heads.clear();
        Ok(true)
    }

    /// Removes `sent` bytes from the segments from `first` on. Returns the number of complete segments.
    fn advance(&mut self, first: usize, mut sent: usize) -> usize {
        let mut done = 0;
        for segment in &mut self.segments[first..] {
            let (Segment::Head(range) | Segment::Payload { range, .. }) = segment;
            if sent < range.len() {
                range.start += sent;
                break;
            }
            sent -= range.len();
            done += 1;
        }
        done
    }

    /// Drops sent bytes, so that the buffer of a busy connection does not grow.
    fn keep_from(&mut self, first: usize) {
        self.segments.drain(..first);
        let heads = |segment: &Segment| match segment {
            Segment::Head(range) => Some(range.start),
            Segment::Payload { .. } => None,
        };
        let sent = self.segments.iter().find_map(heads).unwrap_or(self.heads.len());
        self.heads.drain(..sent);
        for segment in &mut self.segments {
            if let Segment::Head(range) = segment {
                *range = range.start - sent..range.end - sent;
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Whole(Range<usize>),
    /// The first bytes of a reply, and the number of dropped bytes after them.
    Cut(Range<usize>, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Before each fragment, RFC 5531 §11.
    RecordMark,
    /// A zero byte and three bytes of length, MS-SMB2 §2.1.
    Smb,
}

impl Framing {
    #[inline]
    fn mark(self, word: u32) -> RecordMark {
        match self {
            Self::RecordMark => RecordMark::from_word(word),
            // A nonzero type byte gives a length above the limit, which is refused.
            Self::Smb => RecordMark { last: true, length: word },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    framing: Framing,
    /// Whether the kernel drops the bytes of a record after the first ones.
    discards: bool,
    /// Remaining bytes to drop of the record whose first `end` bytes are here.
    dropping: usize,
    dropped: usize,
}

impl Inbox {
    /// Holds records of up to `longest` bytes. See [`crate::load::Plan::discards`].
    pub(crate) fn new(longest: usize, framing: Framing, discards: bool) -> Self {
        let room = (2 * (longest + RecordMark::SIZE)).max(256 << 10);
        Self { bytes: vec![0; room], start: 0, end: 0, framing, discards, dropping: 0, dropped: 0 }
    }

    /// A single receive. `Ok(0)` is the end of the stream.
    pub(crate) fn receive(&mut self, mut stream: &TcpStream) -> io::Result<usize> {
        if self.dropping > 0 {
            let room = self.dropping.min(self.bytes.len() - self.end);
            let (_, received) =
                rustix::net::recv(stream, &mut self.bytes[self.end..][..room], RecvFlags::TRUNC)?;
            self.dropping -= received;
            return Ok(received);
        }
        let room = if self.discards { PEEK } else { self.bytes.len() };
        let limit = self.bytes.len().min(self.end + room);
        let received = stream.read(&mut self.bytes[self.end..limit])?;
        self.end += received;
        Ok(received)
    }

    /// `None` until more arrives. The bytes stay in place until the next receive.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, Error> {
        if self.dropped > 0 {
            return Ok((self.dropping == 0).then(|| {
                let cut = Record::Cut(self.start..self.end, std::mem::take(&mut self.dropped));
                (self.start, self.end) = (0, 0);
                cut
            }));
        }
        loop {
            let have = self.end - self.start;
            let Some(word) = self.bytes[self.start..self.end].first_chunk() else { break };
            let mark = self.framing.mark(u32::from_be_bytes(*word));
            let length = RecordMark::SIZE + mark.length as usize;
            // Twice the longest record, so that a record in the first half always fits.
            if length > self.bytes.len() / 2 {
                return Err(Error::Protocol(format!(
                    "a reply of {} bytes, longer than any requested",
                    mark.length
                )));
            }
            if !mark.last {
                if have < length + RecordMark::SIZE {
                    break;
                }
                self.join(length, mark.length);
            } else if have >= length {
                let record = self.start + RecordMark::SIZE..self.start + length;
                self.start += length;
                return Ok(Some(Record::Whole(record)));
            } else if self.discards && have >= PEEK && length > 4 * PEEK {
                self.start += RecordMark::SIZE;
                self.dropping = length - have;
                self.dropped = self.dropping;
                return Ok(None);
            } else {
                break;
            }
        }
        self.make_room();
        Ok(None)
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range]
    }

    /// Joins the first fragment, its mark and `length` bytes, with the next one (RFC 5531 §11).
    fn join(&mut self, length: usize, first: u32) {
        let second = self.start + length;
        let mark = self.bytes[second..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let mark = RecordMark::from_word(mark);
        // The sum overflows 31 bits only for a length that is refused right after.
        let joined =
            RecordMark { last: mark.last, length: first.saturating_add(mark.length) & !RecordMark::LAST };
        self.bytes.copy_within(second + RecordMark::SIZE..self.end, second);
        self.end -= RecordMark::SIZE;
        self.bytes[self.start..self.start + RecordMark::SIZE]
            .copy_from_slice(&joined.to_word().to_be_bytes());
    }

    /// Moves a partial record to the front if the rest might not fit after it.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}
