//! The interface of the code that decides which call of a connection is next, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nfs_wire::rpc::ReplyHeader;
use xdr::{Decode, Reader};

use super::calls::Calls;
use super::counters::OpCounters;
use super::fault::{Fault, check_accepted};
use crate::error::Error;

/// The load of one connection, made by workers that each have one operation at a time.
///
/// The driver calls it at the beginning, when a timer is due and when a reply has come; it puts what follows
/// from that into `calls`, arms timers for what is to begin later, and counts.
pub(crate) trait Generator: Send {
    /// The load begins: operations that begin at once, timers of the others.
    fn start(&mut self, calls: &mut Calls, context: &mut RunContext);

    /// The operation of a worker is due.
    fn begin(&mut self, worker: usize, due: u64, calls: &mut Calls, context: &mut RunContext);

    /// The load ends, and no operation begins any more: timers are gone. What is to be left behind in order is
    /// called for here, and where a reply comes later, then.
    fn end(&mut self, _calls: &mut Calls, _context: &mut RunContext) {}

    /// Takes the reply to the call in `slot`.
    ///
    /// # Errors
    /// What no server may send, or wrong data. What the server refuses is counted instead.
    fn complete(
        &mut self,
        slot: usize,
        reply: Reply<'_>,
        calls: &mut Calls,
        context: &mut RunContext,
    ) -> Result<(), Error>;
}

/// A reply as it came: a record of RPC, or the messages that one frame of SMB holds, in the clear.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of a READ's data that the kernel dropped.
    pub(crate) missing: usize,
}

impl<'a> Reply<'a> {
    /// The results of an accepted call of RPC.
    #[inline]
    pub(crate) fn results(&self) -> Result<Reader<'a>, Fault> {
        let mut results = Reader::new(self.bytes);
        check_accepted(&ReplyHeader::decode(&mut results)?)?;
        Ok(results)
    }
}

/// The start of a worker's next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) due: u64,
    pub(super) connection: usize,
    pub(super) worker: usize,
}

/// The state of a thread, and its counters.
#[derive(Debug)]
pub(crate) struct RunContext {
    /// The time of the last look at the clock.
    pub(crate) now: u64,
    pub(crate) counters: OpCounters,
    /// The connection whose generator is called.
    pub(super) connection: usize,
    timers: BinaryHeap<Reverse<Timer>>,
}

impl RunContext {
    pub(crate) fn new(counters: OpCounters) -> Self {
        Self { now: 0, counters, connection: 0, timers: BinaryHeap::new() }
    }

    /// Calls [`Generator::begin`] at `due`, unless the load ends before.
    #[inline]
    pub(crate) fn arm(&mut self, due: u64, worker: usize) {
        self.timers.push(Reverse(Timer { due, connection: self.connection, worker }));
    }

    /// Whether no further operation begins.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.now >= self.counters.clock.end
    }

    /// Counts an operation that the generator began late although it could begin at `could`.
    #[inline]
    pub(crate) fn count_lateness(&mut self, could: u64) {
        /// Delay from which an operation counts as late.
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
