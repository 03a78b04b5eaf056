//! The time until which a process may answer its clients.
//!
//! A process that serves an endpoint under a lease must be silent once another one may have the lease, even if it was
//! frozen meanwhile and wakes up with replies in its hands. So each system call that sends is preceded by a check. The
//! clock counts while the machine is suspended.

use crate::clock;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time without a lease.
const NEVER: u64 = u64::MAX;
static UNLIMITED: AtomicU64 = AtomicU64::new(NEVER);

/// The deadline for replies, as the code that sends sees it. Copies share the time. The default is no deadline.
#[derive(Clone, Copy, Debug)]
pub struct ReplyDeadline(&'static AtomicU64);

/// The lease of a process: it moves the [`ReplyDeadline`].
#[derive(Debug)]
pub struct ReplyLease(&'static AtomicU64);

impl Default for ReplyDeadline {
    fn default() -> Self {
        Self(&UNLIMITED)
    }
}

impl ReplyDeadline {
    /// Whether the deadline has passed.
    #[inline]
    pub fn is_over(self) -> bool {
        // Nothing else is published with the time, and an old value is only stricter.
        let until = self.0.load(Ordering::Relaxed);
        until != NEVER && is_past(until)
    }

    /// Fails after the deadline. Each call that sends to a client comes directly after this.
    #[inline]
    pub fn check(self) -> io::Result<()> {
        if self.is_over() { Err(lease_is_over()) } else { Ok(()) }
    }
}

impl ReplyLease {
    /// A lease until this time ([`clock::boot_ns`]). A process has one, so its word is never freed.
    pub fn new(until_ns: u64) -> Self {
        Self(Box::leak(Box::new(AtomicU64::new(until_ns.min(NEVER - 1)))))
    }

    pub fn deadline(&self) -> ReplyDeadline {
        ReplyDeadline(self.0)
    }

    /// Moves the deadline to a later time. A lease that has ended stays so.
    pub fn extend(&self, until_ns: u64) {
        let later = |now: u64| (now != 0).then(|| now.max(until_ns.min(NEVER - 1)));
        _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    /// Ends the lease now, for good.
    pub fn end(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// Only processes with a lease read the clock.
#[cold]
fn is_past(until_ns: u64) -> bool {
    clock::boot_ns() >= until_ns
}

#[cold]
fn lease_is_over() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the lease of this process is over")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_NS: u64 = 3_600_000_000_000;

    #[test]
    fn default_deadline_never_passes() {
        assert!(!ReplyDeadline::default().is_over());
        assert!(ReplyDeadline::default().check().is_ok());
    }

    #[test]
    fn deadline_passes_with_the_clock_and_moves_only_to_later() {
        let lease = ReplyLease::new(clock::boot_ns());
        let deadline = lease.deadline();
        assert!(deadline.is_over());
        assert_eq!(deadline.check().unwrap_err().kind(), io::ErrorKind::TimedOut);
        lease.extend(clock::boot_ns() + LONG_NS);
        assert!(!deadline.is_over());
        lease.extend(1);
        assert!(!deadline.is_over(), "an earlier time comes from a renewal that was overtaken");
    }

    #[test]
    fn ended_lease_is_not_extended() {
        let lease = ReplyLease::new(clock::boot_ns() + LONG_NS);
        lease.end();
        lease.extend(u64::MAX);
        assert!(lease.deadline().is_over());
    }
}
