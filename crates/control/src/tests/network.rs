//! Connections between services in memory, which can be cut.

use super::rig::Killed;
use crate::{Dialer, PublicKey, Service};
use replicate::link::{Identity, Stop};
use replicate::replication::Link;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use vfs::sync::Mutex;

#[derive(Default)]
pub(super) struct FakeNetwork {
    pub(super) services: Mutex<HashMap<String, Weak<Service>>>,
    /// Cuts the next connections after so many bytes; 0 cuts none.
    pub(super) cut: AtomicUsize,
    /// Connections that were made.
    pub(super) dialed: AtomicUsize,
    serving: Mutex<Vec<JoinHandle<()>>>,
}

impl FakeNetwork {
    /// Waits until the sources have ended their part. Returns whether one of them was killed.
    pub(super) fn settle(&self) -> bool {
        let serving = std::mem::take(&mut *self.serving.lock());
        let ended = serving.into_iter().filter_map(|thread| thread.join().err());
        ended.fold(false, |_, payload| payload.is::<Killed>() || std::panic::resume_unwind(payload))
    }
}

impl Dialer for FakeNetwork {
    fn dial(&self, identity: &Identity, address: &str, key: PublicKey, _: Stop) -> io::Result<Box<dyn Link>> {
        self.dialed.fetch_add(1, Ordering::SeqCst);
        let found = self.services.lock().get(address).and_then(Weak::upgrade);
        let service = found.ok_or(ErrorKind::ConnectionRefused)?;
        if service.identity().unwrap().public() != key {
            return Err(io::Error::other("the service there does not have the key"));
        }
        let (ours, mut theirs) = UnixStream::pair()?;
        let client = identity.public();
        // A stranger learns in the handshake that it is one.
        if service.is_peer(&client) {
            let serve = move || _ = service.serve_peer(&client, &mut theirs);
            self.serving.lock().push(std::thread::spawn(serve));
        }
        let left = Some(self.cut.load(Ordering::SeqCst)).filter(|&cut| cut > 0);
        Ok(Box::new(Cut { stream: ours, left }))
    }
}

struct Cut {
    stream: UnixStream,
    left: Option<usize>,
}

impl Cut {
    fn take(&mut self, len: usize) -> io::Result<usize> {
        let len = self.left.map_or(len, |left| left.min(len));
        if len == 0 { Err(ErrorKind::ConnectionReset.into()) } else { Ok(len) }
    }

    fn passed(&mut self, len: usize) -> usize {
        self.left = self.left.map(|left| left - len);
        len
    }
}

impl Read for Cut {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.take(into.len())?;
        let len = self.stream.read(&mut into[..len])?;
        Ok(self.passed(len))
    }
}

impl Write for Cut {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let len = self.take(from.len())?;
        let len = self.stream.write(&from[..len])?;
        Ok(self.passed(len))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
