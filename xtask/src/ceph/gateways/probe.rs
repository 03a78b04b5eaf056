//! A client that asks all the time whether an endpoint answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::setup::RECOVERY_MAX;

const CALL_MAX: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(10);

/// Calls NFSv3's procedure 0 again and again, each time over a new connection.
pub(super) struct Probe {
    address: SocketAddr,
    seen: Arc<Seen>,
    thread: JoinHandle<()>,
}

struct Seen {
    stop: AtomicBool,
    inner: Mutex<Answers>,
}

#[derive(Clone, Copy)]
struct Answers {
    /// The time when the last answered call was sent.
    asked: Instant,
    /// The time when it was answered.
    answered: Instant,
    longest: Duration,
}

impl Probe {
    /// Starts when the endpoint answers.
    pub(super) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let begun = Instant::now();
        while call_null(address).is_err() {
            ensure!(begun.elapsed() < RECOVERY_MAX, "no answer from {address}");
            std::thread::sleep(PAUSE);
        }
        let now = Instant::now();
        let inner = Mutex::new(Answers { asked: begun, answered: now, longest: Duration::ZERO });
        let seen = Arc::new(Seen { stop: AtomicBool::new(false), inner });
        let shared = Arc::clone(&seen);
        Ok(Self { address, seen, thread: std::thread::spawn(move || ask(address, &shared)) })
    }

    /// Waits until a call is answered that was sent after this time. Returns when it was answered.
    pub(super) fn wait_for_answer_after(&self, time: Instant) -> anyhow::Result<Instant> {
        let begun = Instant::now();
        loop {
            let answers = self.answers();
            if answers.asked > time {
                return Ok(answers.answered);
            }
            let silent = answers.answered.elapsed().as_secs();
            ensure!(begun.elapsed() < RECOVERY_MAX, "no answer from {} for {silent} s", self.address);
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the longest time without an answer.
    pub(super) fn finish(self) -> anyhow::Result<Duration> {
        self.seen.stop.store(true, Ordering::SeqCst);
        let answers = self.answers();
        self.thread.join().map_err(|_| anyhow::anyhow!("the probe panicked"))?;
        Ok(answers.longest.max(answers.answered.elapsed()))
    }

    fn answers(&self) -> Answers {
        *self.seen.inner.lock().expect("no probe panics")
    }
}

fn ask(address: SocketAddr, seen: &Seen) {
    while !seen.stop.load(Ordering::SeqCst) {
        let asked = Instant::now();
        if call_null(address).is_ok() {
            let answered = Instant::now();
            let mut answers = seen.inner.lock().expect("no other thread panics");
            answers.longest = answers.longest.max(answered - answers.answered);
            (answers.asked, answers.answered) = (asked, answered);
        }
        std::thread::sleep(PAUSE);
    }
}

fn call_null(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, CALL_MAX)?;
    stream.set_read_timeout(Some(CALL_MAX))?;
    // One fragment; transaction 1, a call, RPC version 2, NFS version 3, procedure 0, no credential, no verifier.
    let words: [u32; 11] = [0x8000_0028, 1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    let call: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    stream.write_all(&call)?;
    let mut reply = [0; 28];
    stream.read_exact(&mut reply)
}
