//! The load of a plan on one connection: the next call, and the effect of its reply.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::v3::WriteVerf;
use report::scenario::limits::DEPTH_MAX;
use wire_client::Version;
use wire_client::nfs4::compound::RETRY_NS;

use super::call::{Call, to_u32};
use super::dialect::{self, Dialect};
use super::plan::{Kind, Op, Placement, Plan};
use super::reply::{CallOutcome, CallSlot};
use super::stream::{ReadMix, Stream};
use crate::driver::calls::Calls;
use crate::driver::counters::{Completed, OpCounters, nanoseconds};
use crate::driver::fault::{Fault, ReplyError};
use crate::driver::generator::{Generator, Reply, RunContext};
use crate::error::Error;
use crate::pattern::{FileOffset, Payload, Random};

/// Marks a block in the ledger with a call in flight.
const IN_FLIGHT: u32 = 1 << 31;

/// A worker has one operation of the application at a time: one call, or the calls of its parts.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    stream: usize,
    /// The kind of the operation, as the application sees it.
    kind: Kind,
    issued: u64,
    due: u64,
    calls_remaining: usize,
    failed: bool,
    bytes: u64,
    /// An index into the region, if a ledger exists.
    block: usize,
    /// Counts the worker's own names, or is random for LOOKUP.
    serial: u32,
    exists: bool,
    /// Set while created files are being removed.
    cleaning_up: bool,
    owes_commit: bool,
    cookie: u64,
    cookieverf: [u8; 8],
    listed: u64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    streams: Vec<Stream>,
    read_mix: ReadMix,
    /// Nanoseconds between two operations of a worker on a schedule.
    interval: Option<u64>,
    /// The plan's parts of an operation, stored to avoid a division for each call.
    parts: usize,
    transfer: u32,
    blocks_per_file: u64,
    numbers: [u32; Kind::ALL.len()],
}

impl Shared {
    pub(super) fn new(plan: Plan) -> Self {
        let workers = match plan.placement {
            Placement::Jobs(jobs) => plan.clients * jobs * plan.depth,
            Placement::Shared => plan.connections_total() * plan.depth,
        };
        let interval = plan.rate.map(|rate| nanoseconds(Duration::from_secs_f64(workers as f64 / rate)));
        let (parts, blocks_per_file) = (plan.parts(), plan.blocks_per_file().max(1));
        let transfer = u32::try_from(plan.transfer()).unwrap_or(u32::MAX);
        let (streams, read_mix) = (Stream::all(&plan), ReadMix::default());
        let numbers = Kind::ALL.map(|kind| dialect::number(kind, plan.target.version));
        Self { plan, streams, read_mix, interval, parts, transfer, blocks_per_file, numbers }
    }
}

#[derive(Debug)]
pub(super) struct PlanGenerator {
    shared: Arc<Shared>,
    /// Unique over all generators.
    number: usize,
    pub(super) client: usize,
    slots: Vec<CallSlot>,
    dialect: Dialect,
    /// Slots whose calls wait for credits.
    awaiting_credits: VecDeque<usize>,
    workers: Vec<Worker>,
    pub(super) ops: u64,
    random: Random,
    /// The generation of the last acknowledged write of each block in the region; zero if unknown. Only
    /// verifying writers keep a ledger. They never have two calls on one block, so a READ's expected data is
    /// certain.
    pub(super) ledger: Vec<u32>,
    verf: Option<WriteVerf>,
    /// Changes of the server's write verifier: restarts.
    pub(super) restarts: u64,
}

impl PlanGenerator {
    pub(super) fn new(
        shared: Arc<Shared>,
        client: usize,
        connection: usize,
        dialect: Dialect,
    ) -> (Self, Calls) {
        let plan = &shared.plan;
        let number = client * plan.connections + connection;
        let streams = Stream::of_connection(plan, client, connection);
        let slots = streams.len() * plan.parts();
        let transfer = usize::try_from(plan.transfer()).unwrap_or(0);
        let seed = plan
            .seed
            .wrapping_mul(0x1_0000_0001)
            .wrapping_add((plan.first_client * plan.connections + number) as u64);
        let mut calls = Calls::new(DEPTH_MAX, slots);
        // `Plan::check` has bounded the number of slots.
        (0..slots).for_each(|_| _ = calls.add_slot());
        let payload = |slot: usize| Payload::new(transfer, plan.unit(), seed ^ (slot as u64 + 1) << 40);
        if plan.op.writes() {
            calls.payloads.extend((0..slots).map(payload));
        }
        let blocks = if plan.keeps_ledger() { shared.streams[number].blocks } else { 0 };
        let slot = |index| CallSlot {
            worker: to_u32(index / plan.parts()),
            kind: Kind::Null,
            position: FileOffset { file: 0, offset: 0 },
            generation: 0,
        };
        let generator = Self {
            number: plan.first_client * plan.connections + number,
            client,
            slots: (0..slots).map(slot).collect(),
            workers: streams.into_iter().map(Worker::new).collect(),
            ops: 0,
            random: Random::new(seed),
            ledger: vec![0; usize::try_from(blocks).unwrap_or(0)],
            verf: None,
            restarts: 0,
            dialect,
            awaiting_credits: VecDeque::new(),
            shared,
        };
        (generator, calls)
    }

    pub(super) fn slots(plan: &Plan, client: usize, connection: usize) -> usize {
        Stream::of_connection(plan, client, connection).len() * plan.parts()
    }

    #[inline]
    fn next_operation(&mut self, index: usize, due: u64, now: u64, calls: &mut Calls) {
        let kind = self.next_kind(index);
        let worker = &mut self.workers[index];
        (worker.kind, worker.due, worker.issued) = (kind, due, now);
        (worker.failed, worker.bytes) = (false, 0);
        let parts = if matches!(kind, Kind::Read | Kind::Write) { self.shared.parts } else { 1 };
        let first = index * self.shared.parts;
        if matches!(kind, Kind::Read | Kind::Write) {
            let block = self.choose_block(index);
            (0..parts).for_each(|part| self.set_position(first + part, block, part));
        }
        // OPEN and READ are one operation.
        match self.opening() {
            Some(opening) => self.issue_parts(first, opening, 1, calls),
            None => self.issue_parts(first, kind, parts, calls),
        }
    }

    /// The call that opens a file before a READ.
    #[inline]
    fn opening(&self) -> Option<Kind> {
        let plan = &self.shared.plan;
        match (plan.op, plan.target.version) {
            (Op::OpenRead, Version::V41 | Version::V42 | Version::Smb(_)) => Some(Kind::Open),
            (Op::OpenRead, Version::V3) if !plan.attribute_cache => Some(Kind::Getattr),
            _ => None,
        }
    }

    #[inline]
    fn issue_parts(&mut self, first: usize, kind: Kind, parts: usize, calls: &mut Calls) {
        self.workers[self.slots[first].worker as usize].calls_remaining = parts;
        (first..first + parts).for_each(|slot| self.issue(slot, kind, calls));
    }

    /// The next call of the same operation, and the number of its parts.
    #[inline]
    fn following(&self, first: usize, kind: Kind) -> Option<(Kind, usize)> {
        let failed = self.workers[self.slots[first].worker as usize].failed;
        let is_open = self.dialect.has_open(first);
        match (self.shared.plan.op, kind) {
            (Op::OpenRead, Kind::Getattr | Kind::Open) if !failed => Some((Kind::Read, self.shared.parts)),
            (Op::OpenRead, Kind::Read) | (_, Kind::Create) if is_open => Some((Kind::Close, 1)),
            _ => None,
        }
    }

    #[inline]
    fn issue(&mut self, index: usize, kind: Kind, calls: &mut Calls) {
        self.slots[index].kind = kind;
        // A call queues behind waiting calls even if its credits suffice; otherwise small calls would starve
        // large ones.
        if self.awaiting_credits.is_empty() && self.dialect.affords(kind, self.shared.transfer, calls) {
            self.push(index, kind, calls);
        } else {
            self.awaiting_credits.push_back(index);
        }
    }

    /// Makes waiting calls in order while credits suffice.
    #[inline]
    fn issue_waiting(&mut self, calls: &mut Calls) -> Result<(), Error> {
        while let Some(&index) = self.awaiting_credits.front() {
            let kind = self.slots[index].kind;
            if self.dialect.affords(kind, self.shared.transfer, calls) {
                self.awaiting_credits.pop_front();
                self.push(index, kind, calls);
            // Only responses grant credits, so the calls would wait forever.
            } else if calls.in_flight() == 0 {
                return Err(Error::Protocol("every call is answered, and there are no credits".to_owned()));
            } else {
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, index: usize, kind: Kind, calls: &mut Calls) {
        let worker = self.slots[index].worker as usize;
        let object = self.object(index, kind);
        let other = if kind == Kind::Rename { self.own_directory(index, 1) } else { 0 };
        let (slot, worker) = (&self.slots[index], &self.workers[worker]);
        if kind == Kind::Write {
            calls.payloads[index].stamp(slot.position, slot.generation);
        }
        let call = Call {
            kind,
            slot: index,
            object,
            other,
            position: &slot.position,
            transfer: self.shared.transfer,
            stability: self.shared.plan.stability,
            cookie: worker.cookie,
            cookieverf: &worker.cookieverf,
            connection: self.number,
            serial: worker.serial,
        };
        self.dialect.push(&call, calls);
    }

    #[inline]
    fn object(&mut self, index: usize, kind: Kind) -> usize {
        let op = self.shared.plan.op;
        match kind {
            Kind::Read | Kind::Write => self.file(index),
            Kind::Getattr | Kind::Open if op == Op::OpenRead => self.file(index),
            Kind::Commit if op != Op::Commit => self.file(index),
            Kind::Getattr | Kind::Access | Kind::Commit | Kind::Open => {
                let file = self.random.below(self.shared.plan.files as u64);
                usize::try_from(file).unwrap_or(0)
            }
            Kind::Lookup => self.directory(self.workers[self.slots[index].worker as usize].serial as usize),
            Kind::Create | Kind::Remove | Kind::Rename => self.own_directory(index, 0),
            Kind::Null | Kind::Readdirplus | Kind::Close => 0,
        }
    }

    #[inline]
    fn file(&self, index: usize) -> usize {
        (self.slots[index].position.file - self.shared.plan.first_file) as usize
    }

    /// Continues after all calls of a worker: with the rest of the operation, a COMMIT, or the next
    /// operation.
    #[inline]
    fn finish(&mut self, slot: usize, kind: Kind, entries: u64, calls: &mut Calls, context: &mut RunContext) {
        let index = self.slots[slot].worker as usize;
        let first = index * self.shared.parts;
        if let Some((kind, parts)) = self.following(first, kind) {
            return self.issue_parts(first, kind, parts, calls);
        }
        let worker = &mut self.workers[index];
        let (now, ending) = (context.now, context.is_ending());
        let is_own_commit = kind == Kind::Commit && self.shared.plan.op != Op::Commit;
        // A COMMIT that follows unstable WRITEs belongs to no single operation.
        if !worker.failed && !is_own_commit {
            let Worker { kind, due, issued, bytes, .. } = *worker;
            let completed = Completed {
                operation: kind as usize,
                direction: kind.direction(),
                client: self.client,
                service: now - issued,
                response: now - due.min(now),
                bytes,
                entries,
            };
            self.ops += u64::from(context.counters.count(&completed, now));
        }
        if worker.owes_commit && !ending {
            worker.owes_commit = false;
            worker.calls_remaining = 1;
            return self.issue(slot, Kind::Commit, calls);
        }
        // A created name must be removed even after the load's end.
        if ending && !worker.exists {
            return;
        }
        worker.cleaning_up = ending;
        match self.shared.interval {
            // A late worker works off its backlog; no operation is skipped.
            Some(interval) if worker.due + interval > now => {
                context.arm(worker.due + interval, index);
            }
            Some(interval) => self.next_operation(index, self.workers[index].due + interval, now, calls),
            None => self.next_operation(index, now, now, calls),
        }
    }

    /// `None` is a failed call.
    #[inline]
    fn apply(&mut self, index: usize, good: Option<CallOutcome>, counters: &mut OpCounters) {
        let slot = &self.slots[index];
        let worker = &mut self.workers[slot.worker as usize];
        if matches!(slot.kind, Kind::Read | Kind::Write)
            && let Some(entry) = self.ledger.get_mut(worker.block)
        {
            *entry &= !IN_FLIGHT;
            if slot.kind == Kind::Write {
                // A failed WRITE may still have written data.
                *entry = if good.is_some() { slot.generation } else { 0 };
            }
        }
        if let Some(verf) = good.and_then(|good| good.verf)
            && *self.verf.get_or_insert(verf) != verf
        {
            self.verf = Some(verf);
            self.restarts += 1;
        }
        match slot.kind {
            Kind::Create => worker.exists = good.is_some(),
            Kind::Remove => worker.exists = false,
            Kind::Open if self.shared.plan.op == Op::Open => worker.exists = good.is_some(),
            // A file that could not be closed is closed with the client.
            Kind::Close if self.shared.plan.op == Op::Open => worker.exists = false,
            Kind::Rename => worker.serial = worker.serial.wrapping_add(u32::from(good.is_some())),
            Kind::Readdirplus => turn_page(worker, good, self.shared.plan.entries, counters),
            Kind::Write => {
                if let (Some(every), Some(good)) = (self.shared.plan.commit_every, good) {
                    worker.owes_commit |= self.shared.streams[worker.stream].owes_commit(good.bytes, every);
                }
            }
            Kind::Null
            | Kind::Getattr
            | Kind::Lookup
            | Kind::Access
            | Kind::Read
            | Kind::Commit
            | Kind::Open
            | Kind::Close => {}
        }
    }

    #[inline]
    fn directory(&self, number: usize) -> usize {
        number % self.shared.plan.directories
    }

    /// The directory of the slot's name `after` names after the current one.
    #[inline]
    fn own_directory(&self, slot: usize, after: usize) -> usize {
        let serial = self.workers[self.slots[slot].worker as usize].serial as usize;
        self.directory(self.number + slot + serial + after)
    }

    #[inline]
    fn next_kind(&mut self, index: usize) -> Kind {
        match self.shared.plan.op {
            Op::Read | Op::OpenRead => Kind::Read,
            Op::Write => Kind::Write,
            Op::Mix if self.shared.read_mix.is_read(self.shared.plan.read_percent) => Kind::Read,
            Op::Mix => Kind::Write,
            Op::Getattr => Kind::Getattr,
            Op::Lookup => {
                let name = self.random.below(self.shared.plan.entries as u64);
                self.workers[index].serial = u32::try_from(name).unwrap_or(0);
                Kind::Lookup
            }
            Op::Access => Kind::Access,
            Op::Open if self.workers[index].exists => Kind::Close,
            Op::Open => Kind::Open,
            Op::Rename if self.workers[index].exists && !self.workers[index].cleaning_up => Kind::Rename,
            Op::Create | Op::Rename if self.workers[index].exists => Kind::Remove,
            Op::Create | Op::Rename => {
                self.workers[index].serial += 1;
                Kind::Create
            }
            Op::Readdirplus => Kind::Readdirplus,
            Op::Commit => Kind::Commit,
            Op::Null => Kind::Null,
        }
    }

    #[inline]
    fn choose_block(&mut self, index: usize) -> u64 {
        let worker = &mut self.workers[index];
        let stream = &self.shared.streams[worker.stream];
        let at = stream.next(self.shared.plan.order, &mut self.random);
        if self.ledger.is_empty() {
            return stream.first + at;
        }
        // There are twice as many blocks as calls in flight (`Plan::check`), so this ends.
        let mut block = usize::try_from(at).unwrap_or(0);
        while self.ledger[block] & IN_FLIGHT != 0 {
            block = (block + 1) % self.ledger.len();
        }
        worker.block = block;
        let mut generation = self.ledger[block];
        if worker.kind == Kind::Write {
            generation = (generation + 1) & !IN_FLIGHT;
        }
        self.slots[index].generation = generation;
        self.ledger[block] |= IN_FLIGHT;
        stream.first + block as u64
    }

    #[inline]
    fn set_position(&mut self, slot: usize, block: u64, part: usize) {
        let per_file = self.shared.blocks_per_file;
        let file = u32::try_from(block / per_file).unwrap_or(u32::MAX) + self.shared.plan.first_file;
        let offset =
            block % per_file * self.shared.plan.block + part as u64 * u64::from(self.shared.transfer);
        self.slots[slot].position = FileOffset { file, offset };
    }
}

impl Generator for PlanGenerator {
    /// Begins every worker, at once or spread over the schedule's interval.
    fn start(&mut self, calls: &mut Calls, context: &mut RunContext) {
        let now = context.now;
        for worker in 0..self.workers.len() {
            match self.shared.interval {
                Some(interval) => context.arm(now + self.random.below(interval.max(1)), worker),
                None => self.next_operation(worker, now, now, calls),
            }
        }
    }

    fn begin(&mut self, worker: usize, due: u64, calls: &mut Calls, context: &mut RunContext) {
        // Timers beyond the workers' are those of deferred calls.
        if let Some(slot) = worker.checked_sub(self.workers.len()) {
            return self.issue(slot, self.slots[slot].kind, calls);
        }
        context.count_lateness(due);
        self.next_operation(worker, due, context.now, calls);
    }

    /// Removes created names that a schedule would have removed later.
    fn end(&mut self, calls: &mut Calls, context: &mut RunContext) {
        for index in 0..self.workers.len() {
            let worker = &mut self.workers[index];
            if worker.exists && worker.calls_remaining == 0 {
                worker.cleaning_up = true;
                self.next_operation(index, context.now, context.now, calls);
            }
        }
    }

    /// When the reply completes the operation, counts it and begins the next, unless the load is ending.
    #[inline]
    fn complete(
        &mut self,
        slot: usize,
        reply: Reply<'_>,
        calls: &mut Calls,
        context: &mut RunContext,
    ) -> Result<(), Error> {
        let call = &self.slots[slot];
        let (worker, kind) = (call.worker as usize, call.kind);
        let plan = &self.shared.plan;
        let good = match self.dialect.check(plan, call, slot, &reply) {
            Ok(good) => {
                context.counters.count_call(self.shared.numbers[kind as usize], context.now);
                Some(good)
            }
            Err(ReplyError::Later) => {
                context.counters.count_call(self.shared.numbers[kind as usize], context.now);
                context.arm(context.now + RETRY_NS, self.workers.len() + slot);
                return self.issue_waiting(calls);
            }
            Err(ReplyError::Fault(Fault::Counted { what, detail })) => {
                context.counters.error(&kind.name(plan.target.version), &what, &detail);
                None
            }
            Err(ReplyError::Fault(Fault::Fatal(wrong))) => return Err(wrong),
        };
        self.apply(slot, good, &mut context.counters);
        let state = &mut self.workers[worker];
        state.calls_remaining -= 1;
        state.failed |= good.is_none();
        state.bytes += good.map_or(0, |good| good.bytes);
        if state.calls_remaining == 0 {
            let entries = good.and_then(|good| good.listing).map_or(0, |page| page.entries);
            self.finish(slot, kind, entries, calls, context);
        }
        self.issue_waiting(calls)
    }
}

impl Worker {
    fn new(stream: usize) -> Self {
        Self {
            stream,
            kind: Kind::Null,
            issued: 0,
            due: 0,
            calls_remaining: 0,
            failed: false,
            bytes: 0,
            block: 0,
            serial: 0,
            exists: false,
            cleaning_up: false,
            owes_commit: false,
            cookie: 0,
            cookieverf: [0; 8],
            listed: 0,
        }
    }
}

/// The first page follows the last one, or an error.
fn turn_page(worker: &mut Worker, good: Option<CallOutcome>, entries: usize, counters: &mut OpCounters) {
    let Some(page) = good.and_then(|good| good.listing) else {
        (worker.cookie, worker.cookieverf, worker.listed) = (0, [0; 8], 0);
        return;
    };
    worker.listed += page.entries;
    if !page.eof {
        (worker.cookie, worker.cookieverf) = (page.cookie, page.cookieverf);
        return;
    }
    if worker.listed != entries as u64 {
        counters.error("READDIRPLUS", "incomplete", &format!("{} names listed of {entries}", worker.listed));
    }
    (worker.cookie, worker.cookieverf, worker.listed) = (0, [0; 8], 0);
}
