//! The calls of one connection: which is next, what is in flight, and what its reply means for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::rpc::ReplyHeader;
use nfs_wire::v3::{Access, CreateHow, PROGRAM, Sattr, VERSION, WriteVerf};
use report::scenario::limits::DEPTH_MAX;
use xdr::{Decode, Encode, Reader};

use super::counters::{Completed, OpCounters, nanoseconds};
use super::file_set::{FileSet, entry_name};
use super::plan::{Kind, Op, Placement, Plan, stable_how};
use super::reply::{self, Fault, Good};
use super::stream::{ReadMix, Stream};
use super::wire::Outbox;
use crate::client::{self, Identity};
use crate::error::Error;
use crate::pattern::{FileOffset, Payload, Random};

/// Most bytes of one READDIRPLUS reply.
pub(super) const LISTING_MAX: u32 = 64 << 10;
/// Sent so much later than due, an operation is late.
const LATE_NS: u64 = 1_000_000;
/// In the ledger: a call on this block is in flight.
const IN_FLIGHT: u32 = 1 << 31;

/// Encoded beginnings of calls: record mark, header, credentials, handle. Of one client, since its name is in them.
#[derive(Debug)]
pub(super) struct Templates([Vec<Vec<u8>>; Kind::ALL.len()]);

impl Templates {
    pub(super) fn new(file_set: &FileSet, identity: &Identity) -> Self {
        Self(Kind::ALL.map(|kind| {
            let handles = match kind {
                Kind::Null => return vec![begin(identity, kind, &())],
                Kind::Lookup | Kind::Readdirplus => std::slice::from_ref(&file_set.many),
                Kind::Create | Kind::Remove => std::slice::from_ref(&file_set.scratch),
                Kind::Getattr | Kind::Access | Kind::Read | Kind::Write | Kind::Commit => &file_set.files,
            };
            handles.iter().map(|handle| begin(identity, kind, &handle.wire())).collect()
        }))
    }
}

fn begin(identity: &Identity, kind: Kind, handle: &impl Encode) -> Vec<u8> {
    let mark = [0; 4];
    [mark.to_vec(), identity.header(PROGRAM, VERSION, kind.procedure().0), handle.to_bytes()].concat()
}

/// One call in flight.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    xid: u32,
    /// Whose operation it is part of.
    group: u32,
    in_flight: bool,
    pub(super) kind: Kind,
    pub(super) position: FileOffset,
    /// The write that a READ must find, or that a WRITE makes; zero if any will do.
    pub(super) generation: u32,
}

/// One operation at a time of the application: one call, or the calls of its parts.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Whose blocks it works on.
    stream: usize,
    /// What the application asked for.
    kind: Kind,
    issued: u64,
    /// When it should have been issued.
    due: u64,
    /// Calls not yet answered.
    left: usize,
    failed: bool,
    bytes: u64,
    /// Which of the region's blocks, where a ledger is kept.
    block: usize,
    /// Counts the names this group creates.
    serial: u32,
    /// The name of this serial exists.
    created: bool,
    owes_commit: bool,
    cookie: u64,
    cookieverf: [u8; 8],
    listed: u64,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    /// Of each client.
    templates: Vec<Templates>,
    streams: Vec<Stream>,
    read_mix: ReadMix,
    /// Nanoseconds between two operations of a group, where there is a schedule.
    interval: Option<u64>,
    /// Of the plan, which would have to divide for each call.
    parts: usize,
    transfer: u32,
    blocks_per_file: u64,
}

impl Shared {
    pub(super) fn new(plan: Plan, templates: Vec<Templates>) -> Self {
        let groups = match plan.placement {
            Placement::Jobs(jobs) => plan.clients * jobs * plan.depth,
            Placement::Shared => plan.connections_total() * plan.depth,
        };
        let interval = plan.rate.map(|rate| nanoseconds(Duration::from_secs_f64(groups as f64 / rate)));
        let (parts, blocks_per_file) = (plan.parts(), plan.blocks_per_file().max(1));
        let transfer = u32::try_from(plan.transfer()).unwrap_or(u32::MAX);
        let (streams, read_mix) = (Stream::all(&plan), ReadMix::default());
        Self { plan, templates, streams, read_mix, interval, parts, transfer, blocks_per_file }
    }
}

/// The calls of one connection.
#[derive(Debug)]
pub(super) struct Calls {
    shared: Arc<Shared>,
    /// Of all connections of this generator, which.
    number: usize,
    pub(super) client: usize,
    slots: Vec<Slot>,
    pub(super) groups: Vec<Group>,
    /// Groups that wait for their time.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    pub(super) payloads: Vec<Payload>,
    pub(super) outbox: Outbox,
    pub(super) in_flight: usize,
    /// Good operations in the window.
    pub(super) ops: u64,
    random: Random,
    /// Of each block in the region the last write acknowledged, zero where unknown. Kept by verifying writers, who
    /// never have two calls on one block, so that what a READ must find is certain.
    pub(super) ledger: Vec<u32>,
    verf: Option<WriteVerf>,
    /// How often the server's verifier changed: it restarted.
    pub(super) restarts: u64,
    create_tail: Vec<u8>,
}

impl Calls {
    /// The calls of connection `connection` of this generator's client `client`.
    pub(super) fn new(shared: Arc<Shared>, client: usize, connection: usize) -> Self {
        let plan = &shared.plan;
        let number = client * plan.connections + connection;
        let streams = Stream::of_connection(plan, client, connection);
        let slots = streams.len() * plan.parts();
        let transfer = usize::try_from(plan.transfer()).unwrap_or(0);
        let seed = plan
            .seed
            .wrapping_mul(0x1_0000_0001)
            .wrapping_add((plan.first_client * plan.connections + number) as u64);
        let payload = |slot: usize| Payload::new(transfer, plan.unit(), seed ^ (slot as u64 + 1) << 40);
        let payloads = if plan.op.writes() { (0..slots).map(payload).collect() } else { Vec::new() };
        let blocks = if plan.keeps_ledger() { shared.streams[number].blocks } else { 0 };
        let (position, generation) = (FileOffset { file: 0, offset: 0 }, 0);
        let slot = Slot { xid: 0, group: 0, in_flight: false, kind: Kind::Null, position, generation };
        // The xid's low bits name the slot; the high ones begin anywhere.
        let start = client::first_xid() & XID_MASK;
        Self {
            number,
            client,
            slots: (0..slots)
                .map(|index| Slot {
                    xid: start | low(index),
                    group: low(index / plan.parts()),
                    ..slot.clone()
                })
                .collect(),
            groups: streams.into_iter().map(Group::new).collect(),
            timers: BinaryHeap::new(),
            payloads,
            outbox: Outbox::new(slots),
            in_flight: 0,
            ops: 0,
            random: Random::new(seed),
            ledger: vec![0; usize::try_from(blocks).unwrap_or(0)],
            verf: None,
            restarts: 0,
            create_tail: CreateHow::Unchecked(Sattr { mode: Some(0o644), ..Sattr::default() }).to_bytes(),
            shared,
        }
    }

    /// Begins every group: at once, or spread over the interval of the schedule.
    pub(super) fn begin_all(&mut self, now: u64) {
        for group in 0..self.groups.len() {
            match self.shared.interval {
                Some(interval) => {
                    self.timers.push(Reverse((now + self.random.below(interval.max(1)), group)))
                }
                None => self.begin(group, now, now),
            }
        }
    }

    /// When the next operation is due, where there is a schedule.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Begins what is due by `now`; nothing more once the window has ended.
    pub(super) fn begin_due(&mut self, now: u64, counters: &mut OpCounters) {
        while let Some(&Reverse((due, group))) = self.timers.peek() {
            if now >= counters.clock.end {
                self.timers.clear();
            } else if due <= now {
                self.timers.pop();
                counters.late += u64::from(now - due > LATE_NS && counters.clock.has(now));
                self.begin(group, due, now);
            } else {
                break;
            }
        }
    }

    /// Begins the group's next operation, due at `due`.
    #[inline]
    fn begin(&mut self, index: usize, due: u64, now: u64) {
        let kind = self.next_kind(index);
        let group = &mut self.groups[index];
        (group.kind, group.due, group.issued) = (kind, due, now);
        (group.failed, group.bytes) = (false, 0);
        let (first, parts) = match kind {
            Kind::Read | Kind::Write => (self.choose_block(index), self.shared.parts),
            _ => (0, 1),
        };
        // Opening comes before reading, and both are one operation.
        let opens = self.shared.plan.op == Op::OpenRead && !self.shared.plan.attribute_cache;
        self.groups[index].left = parts;
        for part in 0..parts {
            let slot = index * self.shared.parts + part;
            if matches!(kind, Kind::Read | Kind::Write) {
                self.set_place(slot, first, part);
            }
            self.issue(slot, if opens { Kind::Getattr } else { kind });
        }
    }

    /// Puts a call into the outbox.
    #[inline]
    fn issue(&mut self, index: usize, kind: Kind) {
        let slot = &mut self.slots[index];
        slot.kind = kind;
        slot.xid = slot.xid.wrapping_add(low(DEPTH_MAX));
        slot.in_flight = true;
        let object = match kind {
            Kind::Read | Kind::Write => (slot.position.file - self.shared.plan.first_file) as usize,
            Kind::Getattr if self.shared.plan.op == Op::OpenRead => {
                (slot.position.file - self.shared.plan.first_file) as usize
            }
            Kind::Commit if self.shared.plan.op != Op::Commit => {
                (slot.position.file - self.shared.plan.first_file) as usize
            }
            Kind::Getattr | Kind::Access | Kind::Commit => {
                let file = self.random.below(self.shared.plan.files as u64);
                usize::try_from(file).unwrap_or(0)
            }
            Kind::Null | Kind::Lookup | Kind::Create | Kind::Remove | Kind::Readdirplus => 0,
        };
        let start = self.outbox.begin(&self.shared.templates[self.client].0[kind as usize][object]);
        self.push_arguments(index);
        let length = self.shared.transfer;
        let payload = (kind == Kind::Write).then_some((index, length));
        self.outbox.finish(start, self.slots[index].xid, payload);
        self.in_flight += 1;
    }

    /// Appends the arguments behind the handle.
    #[inline]
    fn push_arguments(&mut self, index: usize) {
        let (slot, out) = (&self.slots[index], &mut self.outbox);
        let group = &self.groups[slot.group as usize];
        let count = self.shared.transfer.to_be_bytes();
        match slot.kind {
            Kind::Null | Kind::Getattr => {}
            Kind::Access => out.push(&Access::NAMED.iter().fold(0, |all, (_, bit)| all | bit).to_be_bytes()),
            Kind::Read => {
                out.push(&slot.position.offset.to_be_bytes());
                out.push(&count);
            }
            Kind::Write => {
                out.push(&slot.position.offset.to_be_bytes());
                out.push(&count);
                out.push(&(stable_how(self.shared.plan.stability) as u32).to_be_bytes());
                out.push(&count);
                self.payloads[index].stamp(slot.position, slot.generation);
            }
            Kind::Commit => out.push(&[0; 12]),
            Kind::Lookup => {
                let name = entry_name(self.random.below(self.shared.plan.entries as u64));
                push_name(out, &name);
            }
            Kind::Create => {
                push_name(out, &scratch_name(self.number, index, group.serial));
                out.push(&self.create_tail);
            }
            Kind::Remove => push_name(out, &scratch_name(self.number, index, group.serial)),
            Kind::Readdirplus => {
                out.push(&group.cookie.to_be_bytes());
                out.push(&group.cookieverf);
                out.push(&LISTING_MAX.to_be_bytes());
                out.push(&LISTING_MAX.to_be_bytes());
            }
        }
    }

    /// Takes a reply: finds its call, judges it, and, where its operation is done with it, counts that and begins the
    /// group's next, unless the load is ending.
    #[inline]
    pub(super) fn complete(
        &mut self,
        record: &[u8],
        missing: usize,
        now: u64,
        counters: &mut OpCounters,
    ) -> Result<(), Error> {
        let mut results = Reader::new(record);
        let header = ReplyHeader::decode(&mut results)?;
        let index = header.xid as usize % DEPTH_MAX;
        match self.slots.get_mut(index) {
            Some(slot) if slot.in_flight && slot.xid == header.xid => slot.in_flight = false,
            Some(_) | None => {
                return Err(Error::Protocol(format!(
                    "a reply to call {:#010x}, which is not in flight",
                    header.xid
                )));
            }
        }
        self.in_flight -= 1;
        let slot = &self.slots[index];
        let group = slot.group as usize;
        let kind = slot.kind;
        let judged =
            reply::accepted(&header).and_then(|()| reply::judge(&self.shared.plan, slot, results, missing));
        let good = match judged {
            Ok(good) => {
                counters.count_call(kind, now);
                Some(good)
            }
            Err(Fault::Counted { what, detail }) => {
                counters.error(kind, &what, || detail);
                None
            }
            Err(Fault::Fatal(wrong)) => return Err(wrong),
        };
        self.apply(index, good, counters);
        let state = &mut self.groups[group];
        state.left -= 1;
        state.failed |= good.is_none();
        state.bytes += good.map_or(0, |good| good.bytes);
        if state.left == 0 {
            self.finish(index, kind, good.map_or(0, |good| good.entries), now, counters);
        }
        Ok(())
    }

    /// All calls of a group are answered: what follows is the rest of its operation, a COMMIT, or the next one.
    #[inline]
    fn finish(&mut self, slot: usize, kind: Kind, entries: u64, now: u64, counters: &mut OpCounters) {
        let index = self.slots[slot].group as usize;
        let group = &mut self.groups[index];
        let ending = now >= counters.clock.end;
        if kind == Kind::Getattr && self.shared.plan.op == Op::OpenRead && !group.failed {
            group.left = 1;
            return self.issue(slot, Kind::Read);
        }
        let is_own_commit = kind == Kind::Commit && self.shared.plan.op != Op::Commit;
        if !group.failed && !is_own_commit {
            let Group { kind, due, issued, bytes, .. } = *group;
            let client = self.client;
            self.ops +=
                u64::from(counters.count(Completed { kind, client, due, issued, bytes, entries }, now));
        }
        if group.owes_commit && !ending {
            group.owes_commit = false;
            group.left = 1;
            return self.issue(slot, Kind::Commit);
        }
        if ending && !group.created {
            return;
        }
        match self.shared.interval {
            // A group that is behind works its backlog off; nothing is left out.
            Some(interval) if group.due + interval > now => {
                self.timers.push(Reverse((group.due + interval, index)))
            }
            Some(interval) => self.begin(index, self.groups[index].due + interval, now),
            None => self.begin(index, now, now),
        }
    }

    /// Notes what the reply means for the group; `None` is a call that failed.
    #[inline]
    fn apply(&mut self, index: usize, good: Option<Good>, counters: &mut OpCounters) {
        let slot = &self.slots[index];
        let group = &mut self.groups[slot.group as usize];
        if matches!(slot.kind, Kind::Read | Kind::Write)
            && let Some(entry) = self.ledger.get_mut(group.block)
        {
            *entry &= !IN_FLIGHT;
            if slot.kind == Kind::Write {
                // A WRITE that failed may have written something all the same.
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
            Kind::Create => group.created = good.is_some(),
            Kind::Remove => group.created = false,
            Kind::Readdirplus => turn_page(group, good, self.shared.plan.entries, counters),
            Kind::Write => {
                if let (Some(every), Some(good)) = (self.shared.plan.commit_every, good) {
                    group.owes_commit |= self.shared.streams[group.stream].owes_commit(good.bytes, every);
                }
            }
            Kind::Null | Kind::Getattr | Kind::Lookup | Kind::Access | Kind::Read | Kind::Commit => {}
        }
    }

    #[inline]
    fn next_kind(&mut self, index: usize) -> Kind {
        match self.shared.plan.op {
            Op::Read | Op::OpenRead => Kind::Read,
            Op::Write => Kind::Write,
            Op::Mix if self.shared.read_mix.is_read(self.shared.plan.read_percent) => Kind::Read,
            Op::Mix => Kind::Write,
            Op::Getattr => Kind::Getattr,
            Op::Lookup => Kind::Lookup,
            Op::Access => Kind::Access,
            Op::Create if self.groups[index].created => Kind::Remove,
            Op::Create => {
                self.groups[index].serial += 1;
                Kind::Create
            }
            Op::Readdirplus => Kind::Readdirplus,
            Op::Commit => Kind::Commit,
            Op::Null => Kind::Null,
        }
    }

    /// Chooses the block of an operation, counted over all files.
    #[inline]
    fn choose_block(&mut self, index: usize) -> u64 {
        let group = &mut self.groups[index];
        let stream = &self.shared.streams[group.stream];
        let at = stream.next(self.shared.plan.order, &mut self.random);
        if self.ledger.is_empty() {
            return stream.first + at;
        }
        // There are twice as many blocks as calls in flight (`Plan::check`), so this ends.
        let mut block = usize::try_from(at).unwrap_or(0);
        while self.ledger[block] & IN_FLIGHT != 0 {
            block = (block + 1) % self.ledger.len();
        }
        group.block = block;
        let mut generation = self.ledger[block];
        if group.kind == Kind::Write {
            generation = (generation + 1) & !IN_FLIGHT;
        }
        self.slots[index].generation = generation;
        self.ledger[block] |= IN_FLIGHT;
        stream.first + block as u64
    }

    #[inline]
    fn set_place(&mut self, slot: usize, block: u64, part: usize) {
        let per_file = self.shared.blocks_per_file;
        let file = u32::try_from(block / per_file).unwrap_or(u32::MAX) + self.shared.plan.first_file;
        let offset =
            block % per_file * self.shared.plan.block + part as u64 * u64::from(self.shared.transfer);
        self.slots[slot].position = FileOffset { file, offset };
    }
}

impl Group {
    fn new(stream: usize) -> Self {
        Self {
            stream,
            kind: Kind::Null,
            issued: 0,
            due: 0,
            left: 0,
            failed: false,
            bytes: 0,
            block: 0,
            serial: 0,
            created: false,
            owes_commit: false,
            cookie: 0,
            cookieverf: [0; 8],
            listed: 0,
        }
    }
}

/// The xid's bits above the slot's number.
const XID_MASK: u32 = !(low(DEPTH_MAX) - 1);

/// A slot's number as a part of an xid.
#[expect(clippy::cast_possible_truncation, reason = "slots are at most DEPTH_MAX, 1024")]
const fn low(slot: usize) -> u32 {
    slot as u32
}

/// Sets a listing's group to the next page, or to the first one when the listing ended, failed or is wrong.
fn turn_page(group: &mut Group, good: Option<Good>, entries: usize, counters: &mut OpCounters) {
    let Some((cookie, cookieverf, eof)) = good.and_then(|good| good.listing) else {
        (group.cookie, group.cookieverf, group.listed) = (0, [0; 8], 0);
        return;
    };
    group.listed += good.map_or(0, |good| good.entries);
    if !eof {
        (group.cookie, group.cookieverf) = (cookie, cookieverf);
        return;
    }
    if group.listed != entries as u64 {
        counters
            .error(Kind::Readdirplus, "incomplete", || format!("{} names listed of {entries}", group.listed));
    }
    (group.cookie, group.cookieverf, group.listed) = (0, [0; 8], 0);
}

#[inline]
fn push_name(out: &mut Outbox, name: &[u8]) {
    out.push(&low(name.len()).to_be_bytes());
    out.push(name);
    out.push(&[0; 3][..name.len().next_multiple_of(4) - name.len()]);
}

/// A name no other slot uses, of 24 hexadecimal digits.
fn scratch_name(connection: usize, slot: usize, serial: u32) -> [u8; 24] {
    let mut rest = (connection as u128) << 64 | (slot as u128) << 32 | u128::from(serial);
    let mut name = [0; 24];
    for digit in name.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 0xF) as usize];
        rest >>= 4;
    }
    name
}
