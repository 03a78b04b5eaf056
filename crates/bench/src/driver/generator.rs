//! The interface that decides which call of a connection is next, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nfs_wire::rpc::ReplyHeader;
use xdr::{Decode, Reader};

use super::calls::Calls;
use super::counters::OpCounters;
use super::fault::{Fault, check_accepted};
use crate::error::Error;

/// The load of one connection. Each worker has one operation at a time.
///
/// The driver calls the generator at the beginning, when a timer is due and when a reply arrives. The
/// generator puts new calls into `calls`, arms timers for later operations, and counts.
pub(crate) trait Generator: Send {
    /// Begins the load: starts the first operations, and arms timers for the others.
    fn start(&mut self, calls: &mut Calls, context: &mut RunContext);

    fn begin(&mut self, worker: usize, due: u64, calls: &mut Calls, context: &mut RunContext);

    /// Ends the load: no operation begins any more, and timers are gone. The generator makes the calls that
    /// clean up, here or when later replies arrive.
    fn end(&mut self, _calls: &mut Calls, _context: &mut RunContext) {}

    /// Handles the reply to the call in `slot`.
    ///
    /// # Errors
    /// The reply violates the protocol, or contains wrong data. Refused calls are counted instead.
    fn complete(
        &mut self,
        slot: usize,
        reply: Reply<'_>,
        calls: &mut Calls,
        context: &mut RunContext,
    ) -> Result<(), Error>;
}

/// One RPC record, or the decrypted messages of one SMB frame.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) missing: usize,
}

impl<'a> Reply<'a> {
    /// Fails unless the RPC call was accepted.
    #[inline]
    pub(crate) fn results(&self) -> Result<Reader<'a>, Fault> {
        let mut results = Reader::new(self.bytes);
        check_accepted(&ReplyHeader::decode(&mut results)?)?;
        Ok(results)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) due: u64,
    pub(super) connection: usize,
    pub(super) worker: usize,
}

#[derive(Debug)]
pub(crate) struct RunContext {
    /// When the thread last read the clock.
    pub(crate) now: u64,
    pub(crate) counters: OpCounters,
    pub(super) connection: usize,
    timers: BinaryHeap<Reverse<Timer>>,
}

impl RunContext {
    pub(crate) fn new(counters: OpCounters) -> Self {
        Self { now: 0, counters, connection: 0, timers: BinaryHeap::new() }
    }

    /// Calls [`Generator::begin`] at `due`, unless the load ends first.
    #[inline]
    pub(crate) fn arm(&mut self, due: u64, worker: usize) {
        self.timers.push(Reverse(Timer { due, connection: self.connection, worker }));
    }

    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.now >= self.counters.clock.end
    }

    /// Counts an operation that began late although it could begin at `could`.
    #[inline]
    pub(crate) fn count_lateness(&mut self, could: u64) {
        /// A longer delay counts as late.
        const LATE_NS: u64 = 1_000_000;
        self.counters.late += u64::from(self.now > could + LATE_NS && self.counters.clock.has(self.now));
    }

    #[inline]
    pub(super) fn next_due(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse(first)| first.due)
    }

    #[inline]
    pub(super) fn take_due(&mut self, now: u64) -> Option<Timer> {
        self.next_due().filter(|due| *due <= now)?;
        self.timers.pop().map(|Reverse(first)| first)
    }

    pub(super) fn cancel_timers(&mut self) {
        self.timers.clear();
    }
}
