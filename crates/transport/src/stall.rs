//! Connections whose other side confirms nothing.
//!
//! The kernel sends again, or probes a window that is full, after twice as long each time, up to two minutes. Only then does it look at
//! `TCP_USER_TIMEOUT`, so a time that is set in between does not hold. `tcpi_backoff` of `TCP_INFO` counts how often it has tried in
//! vain, and is 0 again as soon as anything is confirmed.

use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::GetStruct;
use std::net::TcpStream;
use std::time::{Duration, Instant};

nix::getsockopt_impl!(TcpInfo, libc::IPPROTO_TCP, libc::TCP_INFO, libc::tcp_info, GetStruct<libc::tcp_info>);

#[derive(Clone, Copy)]
struct TcpInfo;

/// That the other side had confirmed nothing for a while when something was sent.
#[derive(Clone, Copy)]
pub(crate) struct Stall {
    /// How often the kernel had tried in vain when we last looked.
    backoff: u8,
    until: Instant,
}

impl Stall {
    /// The stall of a connection, which may last so long from now on; `None` where it has none.
    pub(crate) fn start(socket: &TcpStream, patience: Duration) -> Option<Self> {
        let backoff = backoff(socket);
        (backoff > 0).then(|| Self { backoff, until: Instant::now() + patience })
    }

    /// This stall, which has to end when `other` does if that is sooner.
    pub(crate) fn until_earlier_of(self, other: Option<Self>) -> Self {
        let until = other.map_or(self.until, |other| self.until.min(other.until));
        Self { until, ..self }
    }

    /// This stall as it is now; `None` if anything has been confirmed since.
    pub(crate) fn current(self, socket: &TcpStream) -> Option<Self> {
        let backoff = backoff(socket);
        (backoff >= self.backoff).then_some(Self { backoff, ..self })
    }

    /// Whether it lasts for too long.
    pub(crate) fn is_overdue(&self) -> bool {
        Instant::now() >= self.until
    }
}

fn backoff(socket: &TcpStream) -> u8 {
    getsockopt(socket, TcpInfo).map_or(0, |info| info.tcpi_backoff)
}
