//! The coordinator's connection to an agent: one thread receives, another pings each second.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use report::result::Machine;

use super::clock::{Exchange, Offset, wall_clock};
use super::handshake::offer;
use super::limits::{BEAT, SILENCE_MAX};
use super::message::{AgentMessage, Request};
use super::token::Token;
use super::wire::{MESSAGE, Wire};
use crate::error::Error;

/// Clock measurements for one offset, and the pause between two.
const PINGS: usize = 32;
const PINGS_APART: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    wire: Arc<Wire>,
    answers: Receiver<Result<AgentMessage, String>>,
    exchanges: Receiver<Exchange>,
    pace: Arc<Mutex<Pace>>,
    /// Dropping this sender ends the pinging thread.
    _asking: Sender<()>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) heard: Instant,
    pub(super) silence: Duration,
    pub(super) round_trip: Duration,
}

impl Link {
    /// Connects, authenticates, and starts to receive. Also returns the agent's machine.
    pub(super) fn open(name: &str, token: &Token) -> Result<(Self, Machine), Error> {
        let failed = |wrong: String| Error::Agent { agent: name.to_owned(), wrong };
        let stream = connect(name).map_err(failed)?;
        let wire = Arc::new(Wire::new(stream, wall_clock)?);
        let machine = offer(&wire, token).map_err(failed)?;
        let (answer, answers) = mpsc::channel();
        let (exchange, exchanges) = mpsc::channel();
        let (asking, end) = mpsc::channel();
        let pace = Arc::new(Mutex::new(Pace::new()));
        let listener = Listener { wire: Arc::clone(&wire), answer, exchange, pace: Arc::clone(&pace) };
        thread::spawn(move || listener.hear());
        let beating = Arc::clone(&wire);
        thread::spawn(move || {
            while end.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) && ping(&beating).is_ok() {}
        });
        Ok((Self { name: name.to_owned(), wire, answers, exchanges, pace, _asking: asking }, machine))
    }

    pub(super) fn failed(&self, wrong: impl Into<String>) -> Error {
        Error::Agent { agent: self.name.clone(), wrong: wrong.into() }
    }

    fn lost(&self, why: &str) -> Error {
        self.failed(format!("it is lost: {why}"))
    }

    pub(super) fn send(&self, request: &Request) -> Result<(), Error> {
        self.wire.send(request).map_err(|why| {
            // The agent's last message says more than a closed connection.
            let last = self.answers.try_iter().find_map(|heard| live_answer(heard).err());
            self.lost(&last.unwrap_or_else(|| why.into()))
        })
    }

    pub(super) fn next(&self, within: Duration) -> Result<Option<AgentMessage>, Error> {
        match self.answers.recv_timeout(within) {
            Ok(heard) => live_answer(heard).map(Some).map_err(|why| self.lost(&why)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.lost("it closed the connection")),
        }
    }

    pub(super) fn measure(&self) -> Result<Offset, Error> {
        self.exchanges.try_iter().for_each(drop);
        for _ in 0..PINGS {
            ping(&self.wire).map_err(|why| self.lost(&why))?;
            thread::sleep(PINGS_APART);
        }
        let deadline = Instant::now() + SILENCE_MAX;
        let mut exchanges = Vec::with_capacity(PINGS);
        while exchanges.len() < PINGS {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let exchange = self.exchanges.recv_timeout(remaining);
            exchanges.push(exchange.map_err(|_| self.lost("it does not tell its time"))?);
        }
        Offset::of(&exchanges).ok_or_else(|| self.failed("it did not tell its time"))
    }

    /// Resets the response times.
    pub(super) fn pace(&self) -> Pace {
        let mut pace = lock(&self.pace);
        std::mem::replace(&mut *pace, Pace::new())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.wire.close();
    }
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { heard: Instant::now(), silence: Duration::ZERO, round_trip: Duration::ZERO }
    }

    fn receive_loop(&mut self, now: Instant) {
        self.silence = self.silence.max(now.saturating_duration_since(self.heard));
        self.heard = now;
    }
}

struct Listener {
    wire: Arc<Wire>,
    answer: Sender<Result<AgentMessage, String>>,
    exchange: Sender<Exchange>,
    pace: Arc<Mutex<Pace>>,
}

impl Listener {
    /// Returns when the connection ends, or the link is dropped.
    fn hear(&self) {
        loop {
            let heard = self.wire.receive(MESSAGE);
            lock(&self.pace).receive_loop(Instant::now());
            let is_wanted = match heard {
                Ok((AgentMessage::Pong { asked, heard, answered }, back)) => {
                    let exchange = Exchange { asked, heard, answered, back };
                    let mut pace = lock(&self.pace);
                    pace.round_trip = pace.round_trip.max(Duration::from_nanos(exchange.round_trip()));
                    self.exchange.send(exchange).is_ok()
                }
                Ok((answer, _)) => self.answer.send(Ok(answer)).is_ok(),
                Err(why) => {
                    // The link makes no more requests after an error.
                    _ = self.answer.send(Err(why));
                    false
                }
            };
            if !is_wanted {
                return self.wire.close();
            }
        }
    }
}

fn lock(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ping(wire: &Wire) -> Result<(), String> {
    Ok(wire.send(&Request::Ping { asked: wire.now() })?)
}

/// `Bye` becomes the error of a lost agent.
fn live_answer(heard: Result<AgentMessage, String>) -> Result<AgentMessage, String> {
    match heard {
        Ok(AgentMessage::Bye { why }) => Err(why),
        heard => heard,
    }
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let addresses = address.to_socket_addrs().map_err(|wrong| {
        format!(
            "\"{address}\" is not an address of an agent: {wrong}; write HOST:PORT, like 10.0.0.7:{}",
            super::limits::PORT
        )
    })?;
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, SILENCE_MAX) {
            Ok(stream) => return Ok(stream),
            Err(wrong) => last = wrong.to_string(),
        }
    }
    Err(format!("cannot connect: {last}; is `plimsoll agent` running there, and listening on that address?"))
}
