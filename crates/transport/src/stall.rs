//! Detection of peers that acknowledge nothing.
//!
//! The kernel retransmits, or probes a full window, at doubling intervals of up to two minutes. It checks
//! `TCP_USER_TIMEOUT` only at such a time, so a timeout that is set in between takes effect late. `tcpi_backoff` of
//! `TCP_INFO` counts the unanswered attempts, and is 0 again after any acknowledgment.

use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::GetStruct;
use std::mem::offset_of;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const BACKOFF: usize = offset_of!(libc::tcp_info, tcpi_backoff);

/// `tcp_info` up to the needed field. Each kernel has a `tcp_info` of another length, and nix panics if the kernel returns
/// fewer bytes than it was asked for.
type Prefix = [u8; BACKOFF + 1];

nix::getsockopt_impl!(TcpInfo, libc::IPPROTO_TCP, libc::TCP_INFO, Prefix, GetStruct<Prefix>);

#[derive(Clone, Copy)]
struct TcpInfo;

/// A peer that had acknowledged nothing for a while when something was sent.
#[derive(Clone, Copy)]
pub(crate) struct Stall {
    /// The unanswered retransmissions at the last check.
    backoff: u8,
    until: Instant,
}

impl Stall {
    /// The current stall of a connection, which may last for `patience`; `None` if there is none.
    pub(crate) fn start(socket: &TcpStream, patience: Duration) -> Option<Self> {
        let backoff = backoff(socket);
        (backoff > 0).then(|| Self { backoff, until: Instant::now() + patience })
    }

    /// The stall with the earlier of both deadlines.
    pub(crate) fn until_earlier_of(self, other: Option<Self>) -> Self {
        let until = other.map_or(self.until, |other| self.until.min(other.until));
        Self { until, ..self }
    }

    /// The stall as of now; `None` if the peer has acknowledged anything since.
    pub(crate) fn current(self, socket: &TcpStream) -> Option<Self> {
        let backoff = backoff(socket);
        (backoff >= self.backoff).then_some(Self { backoff, ..self })
    }

    pub(crate) fn is_overdue(&self) -> bool {
        Instant::now() >= self.until
    }
}

fn backoff(socket: &TcpStream) -> u8 {
    getsockopt(socket, TcpInfo).map_or(0, |info| info[BACKOFF])
}
