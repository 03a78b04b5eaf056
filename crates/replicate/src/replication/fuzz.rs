//! Entry points for the fuzzer and the smoke test: what a peer sends, and the log of a transfer.

use super::frame::Frames;
use super::log::Entry;
use super::message::Message;
use std::io::{self, Read, Write};

/// A connection in memory: bytes to read, and those that were written.
#[derive(Default)]
struct Wire {
    incoming: Vec<u8>,
    at: usize,
    outgoing: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = (&self.incoming[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn message(bytes: &[u8]) -> bool {
    let Some(message) = Message::decode(bytes) else { return false };
    assert_eq!(Message::decode(&message.encode()), Some(message), "an encoded message decodes");
    true
}

pub(crate) fn log_entry(bytes: &[u8]) -> bool {
    let Some(entry) = Entry::decode(bytes) else { return false };
    assert_eq!(Entry::decode(&entry.encode()), Some(entry), "an encoded entry decodes");
    true
}

/// Receives arbitrary bytes. Then sends the bytes behind the first two, which select a bit to flip, as two frames.
/// Returns `false` if there are too few.
///
/// # Panics
/// If arbitrary or changed frames are received, or unchanged ones are not.
pub(crate) fn frames(bytes: &[u8]) -> bool {
    let mut wire = Wire { incoming: bytes.to_vec(), ..Wire::default() };
    assert!(Frames::new(&mut wire).read().is_err(), "no frame has a hash by chance");
    let Some((&[high, low], content)) = bytes.split_first_chunk() else { return false };
    let (first, second) = content.split_at(content.len() / 2);
    let mut wire = Wire::default();
    let mut sender = Frames::new(&mut wire);
    let sent = sender.write(first).and_then(|()| sender.write(second)).and_then(|()| sender.flush());
    sent.expect("frames of this size can be sent");
    let whole = wire.outgoing;
    let receive = |incoming: &[u8]| {
        let mut wire = Wire { incoming: incoming.to_vec(), ..Wire::default() };
        let mut receiver = Frames::new(&mut wire);
        Ok::<_, crate::Error>([receiver.read()?, receiver.read()?])
    };
    assert_eq!(receive(&whole).expect("unchanged frames arrive"), [first, second]);
    let mut changed = whole;
    let bit = usize::from(u16::from_be_bytes([high, low])) % (changed.len() * 8);
    changed[bit / 8] ^= 1 << (bit % 8);
    assert!(receive(&changed).is_err(), "a flipped bit is found");
    true
}
