//! Messages on a connection: a length of four bytes, big endian, then JSON of this length.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::clock::Now;
use super::limits::SILENCE_MAX;
use crate::error::Error;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    bytes: usize,
    /// Bounds the time until the last byte. Each pause is bounded by [`SILENCE_MAX`].
    time: Duration,
}

pub(super) const HANDSHAKE: Bounds = Bounds { bytes: 1 << 10, time: Duration::from_secs(5) };
/// The longest message is a result, with seconds by client and distributions by operation.
pub(super) const MESSAGE: Bounds = Bounds { bytes: 64 << 20, time: Duration::from_secs(120) };

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    sending: Mutex<()>,
    closed: AtomicBool,
    now: Now,
}

#[derive(Debug)]
pub(super) enum Unsent {
    /// The message is longer than the other side accepts; nothing was sent.
    TooLong(String),
    Lost(String),
}

impl Wire {
    pub(super) fn new(stream: TcpStream, now: Now) -> Result<Self, Error> {
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))
        };
        set().map_err(Error::io("set the options of a connection"))?;
        Ok(Self { stream, sending: Mutex::new(()), closed: AtomicBool::new(false), now })
    }

    pub(super) fn now(&self) -> u64 {
        (self.now)()
    }

    pub(super) fn send(&self, message: &impl Serialize) -> Result<(), Unsent> {
        let mut bytes = vec![0; 4];
        let written = serde_json::to_writer(&mut bytes, message);
        written.map_err(|wrong| Unsent::TooLong(format!("a message cannot be written: {wrong}")))?;
        let length = bytes.len() - 4;
        let too_long = || {
            let most = MESSAGE.bytes >> 20;
            Unsent::TooLong(format!("a message would have {length} bytes; it may have {most} MiB"))
        };
        let mark = u32::try_from(length).ok().filter(|_| length <= MESSAGE.bytes).ok_or_else(too_long)?;
        bytes[..4].copy_from_slice(&mark.to_be_bytes());
        // Several threads send; messages must not interleave.
        let _alone = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.stream).write_all(&bytes).map_err(|wrong| {
            // A part may be sent: the other side would take the next message for the rest of this one.
            self.close();
            Unsent::Lost(why(&wrong))
        })
    }

    pub(super) fn receive<M: DeserializeOwned>(&self, bounds: Bounds) -> Result<(M, u64), String> {
        let deadline = Instant::now() + bounds.time;
        let mut mark = [0; 4];
        self.fill(&mut mark, deadline)?;
        let length = usize::try_from(u32::from_be_bytes(mark)).unwrap_or(usize::MAX);
        if length > bounds.bytes {
            return Err(format!("it sent a message of {length} bytes; {} are allowed", bounds.bytes));
        }
        let mut body = vec![0; length];
        self.fill(&mut body, deadline)?;
        let at = self.now();
        let message =
            serde_json::from_slice(&body).map_err(|wrong| format!("it sent no message: {wrong}"))?;
        Ok((message, at))
    }

    fn fill(&self, mut room: &mut [u8], deadline: Instant) -> Result<(), String> {
        while !room.is_empty() {
            if Instant::now() > deadline {
                return Err("a message did not come whole in time".to_owned());
            }
            match (&self.stream).read(room) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(count) => room = &mut room[count..],
                Err(wrong) if wrong.kind() == ErrorKind::Interrupted => {}
                Err(wrong) => return Err(why(&wrong)),
            }
        }
        Ok(())
    }

    /// Affects both sides and all threads.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // The connection may already be closed.
        _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Whether this side closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

fn why(wrong: &std::io::Error) -> String {
    match wrong.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no message for {} s", SILENCE_MAX.as_secs())
        }
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => "it closed the connection".to_owned(),
        _ => wrong.to_string(),
    }
}

impl From<Unsent> for String {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::TooLong(why) | Unsent::Lost(why) => why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Wire::new(near, crate::agent::wall_clock).unwrap(), listener.accept().unwrap().0)
    }

    #[test]
    fn message_is_its_length_and_json() {
        let (wire, mut far) = pair();
        wire.send(&["é"]).unwrap();
        let mut bytes = [0; 10];
        far.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0\0\x06[\"\xc3\xa9\"]");
        far.write_all(&bytes).unwrap();
        let (message, at) = wire.receive::<Vec<String>>(HANDSHAKE).unwrap();
        assert_eq!(message, ["é"]);
        assert!(wire.now() - at < 5_000_000_000);
    }

    #[test]
    fn message_that_is_sent_in_part_closes_the_connection() {
        let (wire, mut far) = pair();
        wire.stream.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
        // More than the buffers of both sides.
        let long = "x".repeat(32 << 20);
        assert!(matches!(wire.send(&long), Err(Unsent::Lost(_))));
        assert!(wire.is_closed() && matches!(wire.send(&"short"), Err(Unsent::Lost(_))));
        let mut received = Vec::new();
        far.read_to_end(&mut received).unwrap();
        assert!(received.len() < long.len(), "the connection ends inside the message");
    }

    #[test]
    fn malformed_message_ends_the_connection() {
        for (bytes, wanted) in [
            (&b"\0\0\x04\x01"[..], "1025 bytes; 1024 are allowed"),
            (b"\0\0\0\x02{]", "no message"),
            (b"\0\0\0\x02[", "closed the connection"),
            (b"\0", "closed the connection"),
            (b"", "closed the connection"),
        ] {
            let (wire, mut far) = pair();
            far.write_all(bytes).unwrap();
            far.shutdown(Shutdown::Write).unwrap();
            let error = wire.receive::<Vec<String>>(HANDSHAKE).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        let (wire, _far) = pair();
        let long = "x".repeat(MESSAGE.bytes);
        assert!(matches!(wire.send(&long), Err(Unsent::TooLong(why)) if why.contains("64 MiB")));
        wire.send(&"short").unwrap();
    }
}
