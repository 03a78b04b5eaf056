//! Frames of a connection: a length, a payload, and a hash over the number of the frame and its payload.

use crate::error::{Error, Result};
use std::io::{Read, Write};

/// A connection between two services. Both directions are in order, and reads end after a while without any byte.
pub trait Link: Read + Write + Send {}

impl<T: Read + Write + Send> Link for T {}

/// The largest payload: a record of a file with all its extended attributes, or a chunk of data.
const PAYLOAD_BYTES_MAX: usize = crate::format::RECORD_BYTES_MAX + (64 << 10);
const HASH_BYTES: usize = 16;
/// Bytes that are collected before they are sent.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Frames<'l> {
    link: &'l mut dyn Link,
    unsent: Vec<u8>,
    written: u64,
    read: u64,
    /// Bytes of frames in both directions.
    pub(super) bytes: u64,
}

impl<'l> Frames<'l> {
    pub(super) fn new(link: &'l mut dyn Link) -> Self {
        Self { link, unsent: Vec::new(), written: 0, read: 0, bytes: 0 }
    }

    pub(super) fn write(&mut self, payload: &[u8]) -> Result<()> {
        let len = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= PAYLOAD_BYTES_MAX);
        let len = len.ok_or(Error::Peer("a record is larger than a frame"))?;
        self.unsent.extend_from_slice(&len.to_be_bytes());
        self.unsent.extend_from_slice(payload);
        self.unsent.extend_from_slice(&hash(self.written, payload));
        self.written += 1;
        if self.unsent.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.link.write_all(&self.unsent).and_then(|()| self.link.flush()).map_err(Error::Link)?;
        self.bytes += self.unsent.len() as u64;
        self.unsent.clear();
        Ok(())
    }

    pub(super) fn read(&mut self) -> Result<Vec<u8>> {
        let mut len = [0; 4];
        self.link.read_exact(&mut len).map_err(Error::Link)?;
        let len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
        if len > PAYLOAD_BYTES_MAX {
            return Err(Error::Peer("a frame is too long"));
        }
        let mut frame = vec![0; len + HASH_BYTES];
        self.link.read_exact(&mut frame).map_err(Error::Link)?;
        self.bytes += 4 + frame.len() as u64;
        let sent = frame.split_off(len);
        if sent != hash(self.read, &frame) {
            return Err(Error::Peer("a frame was damaged on its way"));
        }
        self.read += 1;
        Ok(frame)
    }
}

fn hash(number: u64, payload: &[u8]) -> [u8; HASH_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_be_bytes());
    hasher.update(payload);
    let mut hash = [0; HASH_BYTES];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..HASH_BYTES]);
    hash
}
