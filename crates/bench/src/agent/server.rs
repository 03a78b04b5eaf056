//! The agent: listens, and serves one coordinator at a time with engines of this machine.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock::Now;
use super::handshake::{admit, refuse, welcome};
use super::message::AgentMessage;
use super::session::{MakeEngine, Session};
use super::token::Token;
use super::unauthenticated::Unauthenticated;
use super::wire::Wire;
use super::wrong_tokens::WrongTokens;
use crate::error::Error;
use crate::machine::machine_facts;

/// The listening thread checks for a stop at this interval.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const STOP_TIMEOUT: Duration = Duration::from_secs(35);

#[derive(Debug)]
pub struct Agent {
    shared: Arc<Shared>,
    address: SocketAddr,
    listening: JoinHandle<()>,
}

struct Shared {
    token: Token,
    make_engine: MakeEngine,
    now: Now,
    wrong_tokens: Mutex<WrongTokens>,
    unauthenticated: Mutex<Unauthenticated>,
    coordinator: Mutex<Option<Coordinator>>,
    ending: AtomicBool,
}

struct Coordinator {
    from: SocketAddr,
    wire: Arc<Wire>,
}

/// Serves coordinators that have the token, one at a time. `make_engine` opens the engines that they request.
/// `now` is this machine's clock, by which the engines begin.
///
/// # Errors
/// The listener does not work.
pub fn serve(listener: TcpListener, token: Token, make_engine: MakeEngine, now: Now) -> Result<Agent, Error> {
    let address = listener.local_addr().map_err(Error::io("find the listener's address"))?;
    listener.set_nonblocking(true).map_err(Error::io("set the listener's options"))?;
    let shared = Arc::new(Shared {
        token,
        make_engine,
        now,
        wrong_tokens: Mutex::default(),
        unauthenticated: Mutex::default(),
        coordinator: Mutex::default(),
        ending: AtomicBool::new(false),
    });
    let listening = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || listen(&listener, &shared))
    };
    Ok(Agent { shared, address, listening })
}

impl Agent {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses new coordinators, disconnects the current one, and ends its load.
    pub fn stop(self) {
        self.shared.ending.store(true, Ordering::Release);
        if let Some(coordinator) = &*self.shared.coordinator() {
            // The coordinator may be gone.
            _ = coordinator.wire.send(&AgentMessage::Bye { why: "it was told to end".to_owned() });
            coordinator.wire.close();
        }
        // A panicked thread has ended too.
        _ = self.listening.join();
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.shared.coordinator().is_some() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.ending.load(Ordering::Acquire) {
        let mut listening = [PollFd::new(listener, PollFlags::IN)];
        // An error shows again at the accept.
        _ = poll(&mut listening, Some(&POLL));
        match listener.accept() {
            Ok((stream, from)) => shared.take(stream, from),
            Err(wrong) if wrong.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

impl Shared {
    fn coordinator(&self) -> MutexGuard<'_, Option<Coordinator>> {
        self.coordinator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unauthenticated(&self) -> MutexGuard<'_, Unauthenticated> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let Some(pending) = self.unauthenticated().add(&stream, from) else {
            tracing::warn!(%from, "too many connections at a time: closed");
            return;
        };
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let accepted = shared.authenticate(stream, from);
            shared.unauthenticated().remove(pending);
            match accepted {
                Ok(wire) => shared.attend(&wire, from),
                Err(why) => tracing::warn!(%from, "refused: {why}"),
            }
        });
    }

    fn authenticate(&self, stream: TcpStream, from: SocketAddr) -> Result<Arc<Wire>, String> {
        let wire = Arc::new(Wire::new(stream, self.now).map_err(|wrong| wrong.to_string())?);
        let address: IpAddr = from.ip();
        let proven = admit(&wire, &self.token, address, &self.wrong_tokens)?;
        self.claim(Coordinator { from, wire: Arc::clone(&wire) }).map_err(|why| refuse(&wire, &why))?;
        tracing::info!(%from, version = proven.program, "a coordinator connected");
        welcome(&wire, &proven, machine_facts()).inspect_err(|_| *self.coordinator() = None)?;
        Ok(wire)
    }

    fn claim(&self, coordinator: Coordinator) -> Result<(), String> {
        let mut current = self.coordinator();
        match &*current {
            Some(Coordinator { from, wire }) if wire.is_closed() => {
                Err(format!("the agent still stops the load of the lost coordinator {from}"))
            }
            Some(Coordinator { from, .. }) => Err(format!("another coordinator, {from}, uses this agent")),
            None if self.ending.load(Ordering::Acquire) => Err("the agent is ending".to_owned()),
            None => {
                *current = Some(coordinator);
                Ok(())
            }
        }
    }

    fn attend(&self, wire: &Wire, from: SocketAddr) {
        let why = Session::new(wire, &self.make_engine).serve();
        wire.close();
        *self.coordinator() = None;
        tracing::info!(%from, "the coordinator is gone: {why}");
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("ending", &self.ending).finish_non_exhaustive()
    }
}
