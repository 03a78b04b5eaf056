//! The calls of one connection: which is next, what is in flight, and what its reply means for it.

use nfs::rpc::wire::ReplyHeader;
use nfs::v3::wire::{Access, CreateHow, PROGRAM, Sattr, VERSION, WriteVerf};
use xdr::{Decode, Encode, Reader};

use super::plan::{DEPTH_MAX, Kind, Op, Order, Plan};
use super::reply::{self, Fault, Good};
use super::stage::{Stage, entry_name};
use super::tally::Tally;
use super::wire::Outbox;
use crate::Error;
use crate::client::{self, Identity};
use crate::pattern::{Payload, Place, Random};

/// Most bytes of one READDIRPLUS reply.
pub(super) const LISTING_MAX: u32 = 64 << 10;
/// In the ledger: a call on this block is in flight.
const IN_FLIGHT: u32 = 1 << 31;

/// Encoded beginnings of calls: record mark, header, credentials, handle. Of one client, since its name is in them.
#[derive(Debug)]
pub(super) struct Templates([Vec<Vec<u8>>; Kind::ALL.len()]);

impl Templates {
    pub(super) fn new(stage: &Stage, identity: &Identity) -> Self {
        Self(Kind::ALL.map(|kind| {
            let handles = match kind {
                Kind::Null => return vec![begin(identity, kind, &())],
                Kind::Lookup | Kind::Readdirplus => std::slice::from_ref(&stage.many),
                Kind::Create | Kind::Remove => std::slice::from_ref(&stage.scratch),
                Kind::Getattr | Kind::Access | Kind::Read | Kind::Write | Kind::Commit => &stage.files,
            };
            handles.iter().map(|handle| begin(identity, kind, &handle.wire())).collect()
        }))
    }
}

fn begin(identity: &Identity, kind: Kind, handle: &impl Encode) -> Vec<u8> {
    let mark = [0; 4];
    [mark.to_vec(), identity.header(PROGRAM, VERSION, kind.procedure().0), handle.to_bytes()].concat()
}

/// A place for one call in flight.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    xid: u32,
    in_flight: bool,
    pub(super) kind: Kind,
    pub(super) issued: u64,
    pub(super) place: Place,
    /// The write that a READ must find, or that a WRITE makes; zero if any will do.
    pub(super) generation: u32,
    /// Which of the region's blocks.
    block: usize,
    /// Counts the names this slot creates.
    pub(super) serial: u32,
    /// The name of this serial exists.
    created: bool,
    cookie: u64,
    cookieverf: [u8; 8],
    listed: u64,
}

/// The blocks of one connection's own.
#[derive(Clone, Copy, Debug)]
struct Region {
    first: u64,
    blocks: u64,
}

/// The calls of one connection.
#[derive(Debug)]
pub(super) struct Calls<'p> {
    plan: &'p Plan,
    templates: &'p Templates,
    number: usize,
    slots: Vec<Slot>,
    pub(super) payloads: Vec<Payload>,
    pub(super) outbox: Outbox,
    pub(super) in_flight: usize,
    random: Random,
    region: Region,
    cursor: u64,
    /// Of each block in the region the last write acknowledged, zero where unknown. Kept by verifying writers, who
    /// never have two calls on one block, so that what a READ must find is certain.
    pub(super) ledger: Vec<u32>,
    verf: Option<WriteVerf>,
    /// How often the server's verifier changed: it restarted.
    pub(super) restarts: u64,
    create_tail: Vec<u8>,
}

impl<'p> Calls<'p> {
    pub(super) fn new(plan: &'p Plan, templates: &'p Templates, number: usize) -> Self {
        let share = (plan.blocks() / plan.connections_total() as u64).max(1);
        let region = Region { first: share * number as u64, blocks: share };
        let block = usize::try_from(plan.block).unwrap_or(0);
        let seed = plan.seed.wrapping_mul(0x1_0000_0001).wrapping_add(number as u64);
        let payload = |slot: usize| Payload::new(block, plan.unit(), seed ^ (slot as u64 + 1) << 40);
        let payloads = if plan.op.writes() { (0..plan.depth).map(payload).collect() } else { Vec::new() };
        let keeps_ledger = plan.verify && plan.op.writes();
        let blocks = if keeps_ledger { usize::try_from(region.blocks).unwrap_or(0) } else { 0 };
        let slot = Slot {
            xid: 0,
            in_flight: false,
            kind: Kind::Null,
            issued: 0,
            place: Place { file: 0, offset: 0 },
            generation: 0,
            block: 0,
            serial: 0,
            created: false,
            cookie: 0,
            cookieverf: [0; 8],
            listed: 0,
        };
        // The xid's low bits name the slot; the high ones begin anywhere.
        let start = client::first_xid() & XID_MASK;
        Self {
            plan,
            templates,
            number,
            slots: (0..plan.depth).map(|index| Slot { xid: start | low(index), ..slot.clone() }).collect(),
            payloads,
            outbox: Outbox::new(plan.depth),
            in_flight: 0,
            random: Random::new(seed),
            region,
            cursor: 0,
            ledger: vec![0; blocks],
            verf: None,
            restarts: 0,
            create_tail: CreateHow::Unchecked(Sattr { mode: Some(0o644), ..Sattr::default() }).to_bytes(),
        }
    }

    /// Fills every slot.
    pub(super) fn issue_all(&mut self, now: u64) {
        (0..self.slots.len()).for_each(|slot| self.issue(slot, now));
    }

    /// Puts the slot's next call into the outbox.
    #[inline]
    fn issue(&mut self, index: usize, now: u64) {
        let kind = self.next_kind(index);
        self.slots[index].kind = kind;
        let object = match kind {
            Kind::Read | Kind::Write => {
                self.choose_place(index);
                self.slots[index].place.file as usize
            }
            Kind::Getattr | Kind::Access | Kind::Commit => {
                let file = self.random.below(self.plan.files as u64);
                usize::try_from(file).unwrap_or(0)
            }
            Kind::Null | Kind::Lookup | Kind::Create | Kind::Remove | Kind::Readdirplus => 0,
        };
        let slot = &mut self.slots[index];
        slot.xid = slot.xid.wrapping_add(low(DEPTH_MAX));
        (slot.in_flight, slot.issued) = (true, now);
        let start = self.outbox.begin(&self.templates.0[kind as usize][object]);
        self.push_arguments(index);
        let length = u32::try_from(self.plan.block).unwrap_or(u32::MAX);
        let payload = (kind == Kind::Write).then_some((index, length));
        self.outbox.finish(start, self.slots[index].xid, payload);
        self.in_flight += 1;
    }

    /// Appends the arguments behind the handle.
    #[inline]
    fn push_arguments(&mut self, index: usize) {
        let (slot, out) = (&self.slots[index], &mut self.outbox);
        let count = u32::try_from(self.plan.block).unwrap_or(u32::MAX).to_be_bytes();
        match slot.kind {
            Kind::Null | Kind::Getattr => {}
            Kind::Access => out.push(&Access::NAMED.iter().fold(0, |all, (_, bit)| all | bit).to_be_bytes()),
            Kind::Read => {
                out.push(&slot.place.offset.to_be_bytes());
                out.push(&count);
            }
            Kind::Write => {
                out.push(&slot.place.offset.to_be_bytes());
                out.push(&count);
                out.push(&(self.plan.stability.wire() as u32).to_be_bytes());
                out.push(&count);
                self.payloads[index].stamp(slot.place, slot.generation);
            }
            Kind::Commit => out.push(&[0; 12]),
            Kind::Lookup => {
                let name = entry_name(self.random.below(self.plan.entries as u64));
                push_name(out, &name);
            }
            Kind::Create => {
                push_name(out, &scratch_name(self.number, index, slot.serial));
                out.push(&self.create_tail);
            }
            Kind::Remove => push_name(out, &scratch_name(self.number, index, slot.serial)),
            Kind::Readdirplus => {
                out.push(&slot.cookie.to_be_bytes());
                out.push(&slot.cookieverf);
                out.push(&LISTING_MAX.to_be_bytes());
                out.push(&LISTING_MAX.to_be_bytes());
            }
        }
    }

    /// Takes a reply: finds its call, judges it, counts it, and, unless the load is ending, issues the slot's next.
    #[inline]
    pub(super) fn complete(
        &mut self,
        record: &[u8],
        missing: usize,
        now: u64,
        tally: &mut Tally,
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
        let (kind, issued) = (slot.kind, slot.issued);
        let judged = reply::accepted(&header).and_then(|()| reply::judge(self.plan, slot, results, missing));
        match judged {
            Ok(good) => {
                tally.count(kind, issued, now, good.bytes, good.entries);
                self.settle(index, Some(good), tally);
            }
            Err(Fault::Counted { what, detail }) => {
                tally.error(kind, &what, || detail);
                self.settle(index, None, tally);
            }
            Err(Fault::Fatal(wrong)) => return Err(wrong),
        }
        let last_remove = self.slots[index].created;
        if now < tally.clock.end || last_remove {
            self.issue(index, now);
        }
        Ok(())
    }

    /// Notes what the reply means for the slot; `None` is a call that failed.
    #[inline]
    fn settle(&mut self, index: usize, good: Option<Good>, tally: &mut Tally) {
        let slot = &mut self.slots[index];
        if let Some(entry) = self.ledger.get_mut(slot.block) {
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
            Kind::Create => slot.created = good.is_some(),
            Kind::Remove => slot.created = false,
            Kind::Readdirplus => turn_page(slot, good, self.plan.entries, tally),
            Kind::Null
            | Kind::Getattr
            | Kind::Lookup
            | Kind::Access
            | Kind::Read
            | Kind::Write
            | Kind::Commit => {}
        }
    }

    #[inline]
    fn next_kind(&mut self, index: usize) -> Kind {
        match self.plan.op {
            Op::Read => Kind::Read,
            Op::Write => Kind::Write,
            Op::Mix if self.random.below(100) < u64::from(self.plan.read_percent) => Kind::Read,
            Op::Mix => Kind::Write,
            Op::Getattr => Kind::Getattr,
            Op::Lookup => Kind::Lookup,
            Op::Access => Kind::Access,
            Op::Create if self.slots[index].created => Kind::Remove,
            Op::Create => {
                self.slots[index].serial += 1;
                Kind::Create
            }
            Op::Readdirplus => Kind::Readdirplus,
            Op::Commit => Kind::Commit,
            Op::Null => Kind::Null,
        }
    }

    /// Chooses the block of a READ or WRITE.
    #[inline]
    fn choose_place(&mut self, index: usize) {
        let own = self.plan.order == Order::Sequential || !self.ledger.is_empty();
        let region = if own { self.region } else { Region { first: 0, blocks: self.plan.blocks() } };
        let mut at = match self.plan.order {
            Order::Random => self.random.below(region.blocks),
            Order::Sequential => self.cursor,
        };
        if at >= region.blocks {
            at = 0;
        }
        let slot = &mut self.slots[index];
        slot.generation = 0;
        if !self.ledger.is_empty() {
            // There are twice as many blocks as calls in flight (`Plan::check`), so this ends.
            let mut block = usize::try_from(at).unwrap_or(0);
            while self.ledger[block] & IN_FLIGHT != 0 {
                block = (block + 1) % self.ledger.len();
            }
            (at, slot.block) = (block as u64, block);
            slot.generation = self.ledger[block];
            if slot.kind == Kind::Write {
                slot.generation = (slot.generation + 1) & !IN_FLIGHT;
            }
            self.ledger[block] |= IN_FLIGHT;
        }
        self.cursor = at + 1;
        let (block, per_file) = (region.first + at, self.plan.blocks_per_file());
        let file = u32::try_from(block / per_file).unwrap_or(u32::MAX);
        slot.place = Place { file, offset: block % per_file * self.plan.block };
    }
}

/// The xid's bits above the slot's number.
const XID_MASK: u32 = !(low(DEPTH_MAX) - 1);

/// A slot's number as a part of an xid.
#[expect(clippy::cast_possible_truncation, reason = "slots are at most DEPTH_MAX, 1024")]
const fn low(slot: usize) -> u32 {
    slot as u32
}

/// Sets a listing's slot to the next page, or to the first one when the listing ended, failed or is wrong.
fn turn_page(slot: &mut Slot, good: Option<Good>, entries: usize, tally: &mut Tally) {
    let Some((cookie, cookieverf, eof)) = good.and_then(|good| good.listing) else {
        (slot.cookie, slot.cookieverf, slot.listed) = (0, [0; 8], 0);
        return;
    };
    slot.listed += good.map_or(0, |good| good.entries);
    if !eof {
        (slot.cookie, slot.cookieverf) = (cookie, cookieverf);
        return;
    }
    if slot.listed != entries as u64 {
        tally.error(Kind::Readdirplus, "incomplete", || format!("{} names listed of {entries}", slot.listed));
    }
    (slot.cookie, slot.cookieverf, slot.listed) = (0, [0; 8], 0);
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
