//! The load of the processes that share a connection.

use std::collections::VecDeque;

use wire_client::call::{CallKind, CallResult, OpenId};
use wire_client::nfs3::call::Headers;
use wire_client::nfs4::call::{Encoder, OwnerSlot};
use wire_client::nfs4::compound::RETRY_NS;
use wire_client::smb::call::InFlight;
use wire_client::{first_xid, nfs3, nfs4, smb};
use xdr::Encode;

use super::numbers::number;
use super::process::{Event, Process, UNIT};
use crate::driver::calls::Calls;
use crate::driver::counters::{Completed, SECOND_NS};
use crate::driver::fault::{Fault, ReplyError, counted};
use crate::driver::generator::{Generator, Reply, RunContext};
use crate::error::Error;
use crate::pattern::Payload;

pub(super) const WORKERS_MAX: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) process: Process,
    /// Unique among all job sets.
    pub(super) number: u64,
    pub(super) good: u64,
    /// Counts WRITEs, so that their data differ.
    generation: u32,
    payload: Option<usize>,
    in_flight: bool,
    idle_since: u64,
}

#[derive(Debug)]
pub(super) enum Dialect {
    V3(Headers),
    V4(Encoder, Vec<OwnerSlot>),
    Smb(Vec<InFlight>),
}

impl Dialect {
    fn decode<'a>(
        &'a mut self,
        kind: CallKind,
        worker: usize,
        reply: &Reply<'a>,
    ) -> Result<CallResult<'a>, ReplyError> {
        let decoded = match self {
            Self::V3(_) => nfs3::call::decode(kind, reply.results()?),
            Self::V4(_, slots) => nfs4::call::decode(kind, &mut slots[worker].slot, reply.results()?),
            Self::Smb(in_flight) => smb::call::decode_in_flight(kind, &in_flight[worker], reply.bytes),
        };
        let refused = |status| counted(status, "refused".to_owned());
        decoded.map_err(|rejection| ReplyError::new(rejection, refused))
    }
}

#[derive(Debug)]
pub(super) struct ProcessGenerator {
    pub(super) workers: Vec<Worker>,
    pub(super) absorbed: u64,
    client: usize,
    dialect: Dialect,
    free: Vec<usize>,
    awaiting_credits: VecDeque<usize>,
    transfer_max: usize,
    seed: u64,
}

impl Worker {
    pub(super) fn new(process: Process, number: u64) -> Self {
        // A random start, so that every run writes other data.
        let generation = first_xid();
        Self { process, number, good: 0, generation, payload: None, in_flight: false, idle_since: 0 }
    }

    /// The achieved share of the process's rate in a window of this many nanoseconds, in thousandths.
    pub(super) fn share(&self, window: u64) -> u32 {
        let wanted = u128::from(self.process.population().role.rate) * u128::from(window);
        let share = u128::from(self.good) * 1000 * u128::from(SECOND_NS) / wanted.max(1);
        u32::try_from(share).unwrap_or(u32::MAX)
    }
}

impl ProcessGenerator {
    pub(super) fn new(
        dialect: Dialect,
        client: usize,
        workers: Vec<Worker>,
        transfer_max: usize,
        seed: u64,
    ) -> Self {
        let (free, starved) = (Vec::new(), VecDeque::new());
        Self { workers, absorbed: 0, client, dialect, free, awaiting_credits: starved, transfer_max, seed }
    }

    pub(super) fn restart(&mut self) -> &mut [Worker] {
        self.absorbed = 0;
        for worker in &mut self.workers {
            (worker.good, worker.idle_since) = (0, 0);
        }
        &mut self.workers
    }

    fn handle_event(&mut self, index: usize, event: Event, calls: &mut Calls, context: &mut RunContext) {
        let mut tidies = false;
        match event {
            Event::Call => return self.send(index, calls),
            Event::Completed(done) => {
                let completed = Completed {
                    operation: done.operation as usize,
                    direction: done.operation.direction(),
                    client: self.client,
                    service: done.service,
                    response: done.response,
                    bytes: u64::from(done.bytes),
                    entries: 0,
                };
                if context.counters.count(&completed, context.now) {
                    self.workers[index].good += 1;
                    self.absorbed += u64::from(done.calls == 0);
                }
                tidies = true;
            }
            Event::Failed { operation, what, detail } => {
                context.counters.error(operation, &what, &format!("{what}, {detail}"));
            }
            Event::CleanedUp => {}
        }
        let worker = &mut self.workers[index];
        worker.idle_since = context.now;
        // A failed operation may leave a file open.
        if worker.process.release(context.is_ending()) {
            return self.send(index, calls);
        }
        if context.is_ending() {
            return;
        }
        let due = worker.process.due();
        // Only if that does not delay the next operation.
        if tidies && due > context.now && worker.process.remove_surplus() {
            return self.send(index, calls);
        }
        context.arm(due, index);
    }

    fn send(&mut self, index: usize, calls: &mut Calls) {
        self.workers[index].in_flight = true;
        if self.awaiting_credits.is_empty() && self.affords(index, calls) {
            self.push(index, calls);
        } else {
            self.awaiting_credits.push_back(index);
        }
    }

    /// Only SMB has credits.
    fn affords(&self, index: usize, calls: &Calls) -> bool {
        let charge = || smb::call::charge(&self.workers[index].process.call());
        calls.channel().is_none_or(|channel| channel.affords(charge()))
    }

    /// Sends waiting calls in order while credits suffice.
    fn issue_waiting(&mut self, calls: &mut Calls) -> Result<(), Error> {
        while let Some(&index) = self.awaiting_credits.front() {
            if self.affords(index, calls) {
                self.awaiting_credits.pop_front();
                self.push(index, calls);
            } else if calls.in_flight() == 0 {
                return Err(Error::Protocol("every call is answered, and there are no credits".to_owned()));
            } else {
                break;
            }
        }
        Ok(())
    }

    fn push(&mut self, index: usize, calls: &mut Calls) {
        let worker = &mut self.workers[index];
        let call = worker.process.call();
        let payload = worker.process.payload().map(|(position, count)| {
            let free = self.free.pop().unwrap_or_else(|| {
                let seed = self.seed ^ (calls.payloads.len() as u64 + 1) << 40;
                calls.payloads.push(Payload::new(self.transfer_max, UNIT, seed));
                calls.payloads.len() - 1
            });
            worker.generation = worker.generation.wrapping_add(1);
            calls.payloads[free].stamp(position, worker.generation);
            (free, count)
        });
        match &mut self.dialect {
            Dialect::V3(headers) => {
                let start = calls.begin(headers.of(call.kind()));
                calls.encode_with(|w| call.encode(w));
                calls.finish(start, index, payload, &[]);
            }
            Dialect::V4(encoder, slots) => {
                let open = OpenId::stateid(worker.process.open_id());
                let start = calls.begin(encoder.header());
                calls.encode_with(|w| encoder.encode(&call, open, &mut slots[index], w));
                calls.finish(start, index, payload, encoder.tail(call.kind()));
            }
            Dialect::Smb(in_flight) => {
                let open = worker.process.open_id().and_then(OpenId::file_id);
                smb::call::with_requests(&call, open, &mut in_flight[index], |requests| {
                    calls.send(index, requests, payload);
                });
            }
        }
        worker.payload = payload.map(|(buffer, _)| buffer);
    }

    /// Repeats the call later, unless the load is ending.
    fn defer(&mut self, index: usize, calls: &mut Calls, context: &mut RunContext) {
        if !context.is_ending() {
            return context.arm(context.now + RETRY_NS, self.workers.len() + index);
        }
        // Timers are gone after the load's end, so a repetition would never begin.
        self.workers[index].process.abandon_call();
        self.clean_up(index, calls);
    }

    fn clean_up(&mut self, index: usize, calls: &mut Calls) {
        if self.workers[index].process.release(true) {
            self.send(index, calls);
        }
    }
}

impl Generator for ProcessGenerator {
    fn start(&mut self, _calls: &mut Calls, context: &mut RunContext) {
        for (index, worker) in self.workers.iter().enumerate() {
            context.arm(worker.process.due(), index);
        }
    }

    fn begin(&mut self, index: usize, due: u64, calls: &mut Calls, context: &mut RunContext) {
        // Timers beyond the workers' are those of deferred calls.
        if let Some(index) = index.checked_sub(self.workers.len()) {
            return self.send(index, calls);
        }
        let worker = &mut self.workers[index];
        context.count_lateness(due.max(worker.idle_since));
        let event = worker.process.begin(context.now);
        self.handle_event(index, event, calls, context);
    }

    fn end(&mut self, calls: &mut Calls, _context: &mut RunContext) {
        for index in 0..self.workers.len() {
            if !self.workers[index].in_flight {
                self.clean_up(index, calls);
            }
        }
    }

    fn complete(
        &mut self,
        index: usize,
        reply: Reply<'_>,
        calls: &mut Calls,
        context: &mut RunContext,
    ) -> Result<(), Error> {
        let worker = &mut self.workers[index];
        // The call is answered, so another worker may overwrite the buffer.
        self.free.extend(worker.payload.take());
        worker.in_flight = false;
        let call = worker.process.call();
        context.counters.count_call(number(&call, worker.process.version()), context.now);
        let event = match self.dialect.decode(call.kind(), index, &reply) {
            Ok(result) => worker.process.complete(result, context.now)?,
            Err(ReplyError::Later) => {
                self.defer(index, calls, context);
                return Ok(());
            }
            Err(ReplyError::Fault(Fault::Counted { what, detail })) => worker.process.failed(what, detail),
            Err(ReplyError::Fault(Fault::Fatal(wrong))) => return Err(wrong),
        };
        self.handle_event(index, event, calls, context);
        self.issue_waiting(calls)
    }
}

#[cfg(test)]
mod tests;
