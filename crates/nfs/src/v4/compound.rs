//! COMPOUND: operations one after another, each on what those before it have left (RFC 8881 §16.2).

use super::filehandle::Place;
use super::ops::{Kept, Ops, Stop};
use super::payment::Payment;
use super::price::Covered;
use super::table::{self, Traits};
use super::{fail_tail, filehandle_ops, run_operation, v40};
use crate::call::Call;
use crate::limits::PAUSES_MAX_V4;
use crate::records::reply::Records;
use crate::state::nfs4::binding::Binding;
use crate::state::nfs4::session::SlotInUse;
use crate::state::nfs4::v40::Unsynced;
use nfs_wire::v4::{CompoundHead, CompoundReplyHead, Op, Stateid, Status, WriteHead, WriteOk};
use transport::{Outbox, Start};
use vfs::qos::Admission;
use vfs::{Access, Blocking, FsError};
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// Bytes of a reply before the compound's results, and bytes enough for the result of any operation that changes something.
const HEADER_BYTES: usize = 24;
const RESULT_BYTES: usize = 256;

/// A compound that waits for storage or for data, with all that its operations have left.
pub(crate) struct Suspended {
    /// Where in the arguments the next operation begins.
    at: usize,
    progress: Progress,
    current: Option<Vec<u8>>,
    saved: Option<Vec<u8>>,
    stateid: Option<Stateid>,
    saved_stateid: Option<Stateid>,
    slot: Option<SlotInUse>,
    owners: Vec<Unsynced>,
    payment: Payment,
    patience: u32,
    /// The results so far, from the compound's own head on.
    results: Vec<u8>,
}

/// How far a compound is.
struct Progress {
    /// Operations that are not begun.
    left: u32,
    done: u32,
    status: Status,
    /// The first operation that needs a flush, and what was written before it.
    unsynced: Option<(Op, Vec<u8>)>,
    /// The results are those of an earlier time.
    is_replayed: bool,
}

impl Progress {
    pub(crate) fn is_running(&self) -> bool {
        self.left > 0 && self.status == Status::OK && !self.is_replayed
    }

    /// Counts an operation that is done; `results` are those before it if it is the first one that needs a flush.
    fn count(&mut self, op: Op, status: Status, needs_sync: bool, results: impl FnOnce() -> Vec<u8>) {
        self.status = status;
        self.done += 1;
        self.left -= 1;
        if needs_sync && self.unsynced.is_none() {
            let mut results = results();
            patch(&mut results, 0, status, self.done);
            self.unsynced = Some((op, results));
        }
    }
}

/// Writes into the results that begin at `start` how the compound ended and how many there are.
fn patch(bytes: &mut Vec<u8>, start: usize, status: Status, done: u32) {
    let tag =
        bytes.get(start + 4..start + 8).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes);
    let mut w = Writer::new(bytes);
    w.patch_u32(start, status.0);
    w.patch_u32(start + 8 + (tag as usize).next_multiple_of(4), done);
}

impl Suspended {
    /// How often it was put off, if it is [`Ended::Held`] now.
    pub(crate) fn pauses(&self) -> u32 {
        (PAUSES_MAX_V4 - 1).saturating_sub(self.patience)
    }

    /// It is not put off any more: an operation that finds something in its way is refused.
    pub(crate) fn lose_patience(&mut self) {
        self.patience = 0;
    }

    /// It has not paid and cannot wait for that: its next operation is refused.
    pub(crate) fn cannot_pay(&mut self) {
        self.lose_patience();
        self.payment.settle();
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.results.len()
    }

    /// Whether it goes on with its next operation.
    pub(crate) fn is_running(&self) -> bool {
        self.progress.is_running()
    }

    /// The current filehandle.
    pub(crate) fn current(&self) -> Option<&[u8]> {
        self.current.as_deref()
    }

    /// Its next operation was a WRITE, which is done.
    pub(crate) fn add_write(&mut self, written: Result<WriteOk, Status>, needs_sync: bool) {
        let before = self.results.clone();
        let mut w = Writer::new(&mut self.results);
        Op::WRITE.encode(&mut w);
        let status = match &written {
            Ok(_) => Status::OK,
            Err(status) => *status,
        };
        status.encode(&mut w);
        if let Ok(ok) = &written {
            ok.encode(&mut w);
        }
        self.progress.count(Op::WRITE, status, needs_sync, || before);
        self.payment.after_upload();
        if !needs_sync {
            self.patience = PAUSES_MAX_V4;
        }
    }
}

/// How an attempt at a compound ended.
pub(crate) enum Ended {
    /// The results are written.
    Replied(Results),
    /// It goes on where it may wait; nothing is written.
    WouldBlock(Box<Suspended>),
    /// It goes on after a while, when somebody else may have given back what is in its way; nothing is written.
    Held(Box<Suspended>),
    /// It goes on once this is paid; nothing is written.
    Unpaid(Box<Suspended>, Admission),
}

/// What there is to do once the results of a compound are durable, or are not.
#[derive(Default)]
pub(crate) struct Results {
    /// The slot in which it was done.
    slot: Option<SlotInUse>,
    /// In 4.0, the requests of owners that need a flush.
    owners: Vec<Unsynced>,
    /// The first operation that needs a flush, and what was written before it.
    unsynced: Option<(Op, Vec<u8>)>,
}

impl Results {
    /// The results are these, and leave.
    pub(crate) fn complete(self, results: Option<&[u8]>) {
        if let Some(slot) = self.slot {
            slot.complete(results);
        }
    }

    /// The flushes have failed: the first operation that needs one has, too, and nothing is said of those behind it.
    pub(crate) fn fail(self, error: FsError, w: &mut Writer<'_>) {
        let start = w.len();
        let status = crate::status::nfs4::status(error);
        if let Some((op, before)) = self.unsynced {
            w.buffer().extend_from_slice(&before);
            w.patch_u32(start, status.0);
            op.encode(w);
            status.encode(w);
            fail_tail(op, w);
        }
        self.owners.into_iter().for_each(|owner| owner.fail(status));
        if let Some(slot) = self.slot {
            slot.complete(Some(&w.buffer()[start..]));
        }
    }
}

/// Runs a compound from its beginning, or goes on with it.
pub(crate) fn run(
    call: &mut Call<'_>,
    binding: &Binding,
    (args, covered): (&[u8], Option<Covered>),
    suspended: Option<Box<Suspended>>,
    out: &mut Outbox,
) -> Result<Ended, Malformed> {
    let mut reader = Reader::new(args);
    let head = CompoundHead::decode(&mut reader)?;
    let mut running = Running::begin(call, binding, (args, covered), (head, reader), out);
    if let Some(suspended) = suspended {
        running.resume(*suspended, out);
    }
    Ok(match running.run(0, out) {
        Ok(()) => Ended::Replied(running.end(out)),
        Err(Pause::Blocks(at)) => Ended::WouldBlock(Box::new(running.suspend(at, out))),
        Err(Pause::Held(at)) => {
            running.ops.payment.settle();
            Ended::Held(Box::new(running.suspend(at, out)))
        }
        Err(Pause::Unpaid(at, toll)) => Ended::Unpaid(Box::new(running.suspend(at, out)), toll),
    })
}

/// Runs the operations before a WRITE whose data are yet to come, and finds out what its stateid allows.
pub(crate) fn run_before(
    call: &mut Call<'_>,
    binding: &Binding,
    (args, covered): (&[u8], Option<Covered>),
    left: u32,
    write: &WriteHead,
) -> Result<(Suspended, Result<Kept, Status>), Malformed> {
    let mut out = Outbox::default();
    let mut reader = Reader::new(args);
    let head = CompoundHead::decode(&mut reader)?;
    let mut running = Running::begin(call, binding, (args, covered), (head, reader), &mut out);
    running.ops.patience = 0;
    // Uploads are done where they may wait.
    let _never_waits = running.run(left, &mut out);
    let ops = &mut running.ops;
    ops.at = args.len();
    let paid = ops.pay_write(write.data_length);
    let opened = paid.and_then(|()| ops.file());
    let opened = opened.and_then(|file| ops.opened(&file, &write.stateid, Access::WRITE));
    let opened = opened.map_err(|stop| match stop {
        Stop::Status(status) | Stop::Written(status) => status,
        Stop::WouldWait | Stop::Held | Stop::Unpaid(_) | Stop::Replay(_) => Status::DELAY,
    });
    Ok((running.suspend(args.len(), &mut out), opened))
}

/// Why a compound does not go on now, and where in the arguments the operation begins that has stopped it.
enum Pause {
    /// It would wait for storage.
    Blocks(usize),
    /// Somebody else has to give something back first.
    Held(usize),
    /// It has to pay for it first.
    Unpaid(usize, Admission),
}

/// A compound being run.
struct Running<'o, 'c> {
    ops: Ops<'o, 'c>,
    reader: Reader<'o>,
    progress: Progress,
    /// Where its results begin.
    start: Start,
    first_byte: usize,
}

impl<'o, 'c> Running<'o, 'c> {
    /// Begins a compound whose head was read, and writes that of its results. It is large, and made where it stays.
    #[inline(always)]
    fn begin(
        call: &'o mut Call<'c>,
        binding: &'o Binding,
        (args, covered): (&'o [u8], Option<Covered>),
        (head, reader): (CompoundHead<'o>, Reader<'o>),
        out: &mut Outbox,
    ) -> Self {
        let (start, first_byte) = (out.start(), out.bytes().len());
        CompoundReplyHead { status: Status::OK, tag: head.tag, operations: 0 }.encode(&mut out.writer());
        let (left, status) = if call.service.v4.minors.contains(&head.minorversion) {
            (head.operations, Status::OK)
        } else {
            (0, Status::MINOR_VERS_MISMATCH)
        };
        Self {
            ops: Ops {
                minor: head.minorversion,
                current: None,
                saved: None,
                stateid: None,
                saved_stateid: None,
                written: None,
                slot: None,
                unsynced: Vec::new(),
                operations: head.operations,
                bytes: args.len(),
                checksum: 0,
                args,
                at: 0,
                left,
                payment: Payment::new(covered),
                patience: PAUSES_MAX_V4,
                is_last: false,
                call,
                binding,
            },
            reader,
            progress: Progress { left, done: 0, status, unsynced: None, is_replayed: false },
            start,
            first_byte,
        }
    }

    /// Goes on where a compound was suspended.
    fn resume(&mut self, before: Suspended, out: &mut Outbox) {
        let Suspended { at, progress, current, saved, stateid, saved_stateid, slot, .. } = before;
        let Suspended { owners, payment, patience, results, .. } = before;
        out.abandon(self.start);
        out.bytes().extend_from_slice(&results);
        self.reader = Reader::new(self.ops.args.get(at..).unwrap_or_default());
        self.progress = progress;
        let ops = &mut self.ops;
        (ops.stateid, ops.saved_stateid, ops.slot) = (stateid, saved_stateid, slot);
        (ops.unsynced, ops.payment, ops.patience) = (owners, payment, patience);
        ops.payment.resume(ops.call.charge);
        // Both were good when they were put there; what has gone since is stale to the next operation.
        ops.current = current.and_then(|handle| filehandle_ops::place(ops, &handle).ok());
        ops.saved = saved.and_then(|handle| filehandle_ops::place(ops, &handle).ok());
    }

    /// Does the operations until so many are left.
    fn run(&mut self, left: u32, out: &mut Outbox) -> Result<(), Pause> {
        while self.progress.left > left && self.progress.is_running() {
            let at = self.ops.args.len() - self.reader.remaining();
            (self.ops.at, self.ops.left) = (at, self.progress.left);
            let before = Before { start: out.start(), flushes: self.ops.call.pending.added() };
            self.ops.is_last = self.progress.left == 1;
            match next(&mut self.ops, &mut self.reader, self.progress.done, (self.start, before), out) {
                Ok((op, status)) => {
                    let needs_sync = self.ops.call.pending.added() > before.flushes;
                    // What waits for a flush is told of when that is done, not after a pause.
                    if needs_sync {
                        self.ops.patience = 0;
                    }
                    self.ops.payment.next(op == Op::WRITE);
                    let results = || out.between(self.start, before.start).unwrap_or_default().to_vec();
                    self.progress.count(op, status, needs_sync, results);
                }
                Err(Stop::Replay(results)) => {
                    out.abandon(self.start);
                    out.bytes().extend_from_slice(&results);
                    self.progress.is_replayed = true;
                }
                Err(Stop::Held) => {
                    out.abandon(before.start);
                    self.ops.patience -= 1;
                    return Err(Pause::Held(at));
                }
                Err(Stop::Unpaid(toll)) => {
                    out.abandon(before.start);
                    return Err(Pause::Unpaid(at, toll));
                }
                Err(Stop::WouldWait | Stop::Status(_) | Stop::Written(_)) => {
                    out.abandon(before.start);
                    return Err(Pause::Blocks(at));
                }
            }
        }
        Ok(())
    }

    /// Says how it ended and how many results there are.
    fn end(&mut self, out: &mut Outbox) -> Results {
        let progress = &mut self.progress;
        if progress.is_replayed {
            return Results::default();
        }
        patch(out.bytes(), self.first_byte, progress.status, progress.done);
        Results {
            slot: self.ops.slot.take(),
            owners: std::mem::take(&mut self.ops.unsynced),
            unsynced: progress.unsynced.take(),
        }
    }

    /// What is left of it. Seldom done: apart, so that it is not made ready for.
    #[inline(never)]
    fn suspend(self, at: usize, out: &mut Outbox) -> Suspended {
        let mut ops = self.ops;
        ops.payment.suspend(ops.call.charge);
        let handle = |place: Option<Place>| place.map(|place| place.handle(ops.call).bytes().to_vec());
        let results = out.since(self.start).unwrap_or_default().to_vec();
        out.abandon(self.start);
        Suspended {
            at,
            progress: self.progress,
            current: handle(ops.current),
            saved: handle(ops.saved),
            stateid: ops.stateid,
            saved_stateid: ops.saved_stateid,
            slot: ops.slot,
            owners: ops.unsynced,
            payment: ops.payment,
            patience: ops.patience,
            results,
        }
    }
}

/// Where an operation begins: in the results, and among the flushes that were added before it.
#[derive(Clone, Copy)]
struct Before {
    start: Start,
    flushes: usize,
}

/// Does the next operation of the compound whose results begin at `compound`, and writes its own: its status. Of a call that
/// cannot be read, that is BADXDR.
#[inline]
fn next(
    ops: &mut Ops<'_, '_>,
    reader: &mut Reader<'_>,
    done: u32,
    (compound, before): (Start, Before),
    out: &mut Outbox,
) -> Result<(Op, Status), Stop> {
    let op = match Op::decode(reader) {
        Ok(op) => op,
        Err(Malformed(_)) => return Ok((Op::ILLEGAL, refuse(Op::ILLEGAL, Status::BADXDR, out))),
    };
    let (minor, operations) = (ops.minor, ops.operations);
    let of = table::Compound { minor, operations, has_session: ops.slot.is_some() };
    let traits = match table::check(of, op, done) {
        Ok(traits) => traits,
        Err((op, status)) => return Ok((op, refuse(op, status, out))),
    };
    // What changes something is refused before, what does not after its result is there.
    if traits.has(Traits::LASTS)
        && let Err(status) = ops.check_room(written(compound, out) + RESULT_BYTES)
    {
        return Ok((op, refuse(op, status, out)));
    }
    if op != Op::GETATTR {
        ops.written = None;
    }
    // A request that an owner of 4.0 numbers pays where its end counts.
    if traits.has(Traits::PAYS)
        && !(ops.minor == 0 && v40::is_numbered(op))
        && let Err(stop) = ops.pay()
    {
        return match stop {
            Stop::Status(status) => Ok((op, refuse(op, status, out))),
            stop => Err(stop),
        };
    }
    Ok((op, perform(ops, (op, traits), reader, (compound, before), out)?))
}

/// How long the reply is so far.
fn written(compound: Start, out: &Outbox) -> usize {
    out.len_since(compound) + HEADER_BYTES
}

/// Does an operation and writes its result: its status.
#[inline]
fn perform(
    ops: &mut Ops<'_, '_>,
    (op, traits): (Op, Traits),
    reader: &mut Reader<'_>,
    (compound, before): (Start, Before),
    out: &mut Outbox,
) -> Result<Status, Stop> {
    // The operation, and NFS4_OK.
    out.writer().u64(u64::from(op.0) << 32);
    let end_of_head = out.bytes().len();
    let refused = match run_operation(ops, op, reader, out) {
        Ok(()) if !traits.has(Traits::LASTS) => ops.check_room(written(compound, out)).err(),
        Ok(()) => {
            if let Some(slot) = &mut ops.slot {
                slot.note_change();
            }
            None
        }
        Err(Stop::Written(status)) => {
            out.writer().patch_u32(end_of_head - 4, status.0);
            return Ok(status);
        }
        Err(Stop::Status(status)) => Some(table::status_in(ops.minor, status)),
        // The client asks again.
        Err(Stop::Held) if ops.patience == 0 || ops.call.pending.added() > before.flushes => {
            Some(Status::DELAY)
        }
        // A backend that will not wait where it may: the same.
        Err(Stop::WouldWait) if ops.call.blocking == Blocking::Allowed => Some(Status::DELAY),
        Err(stop) => return Err(stop),
    };
    if let Some(status) = refused {
        out.abandon(before.start);
        return Ok(refuse(op, status, out));
    }
    if traits.has(Traits::MOVES) {
        ops.stateid = None;
    }
    Ok(Status::OK)
}

fn refuse(op: Op, status: Status, out: &mut Outbox) -> Status {
    let w = &mut out.writer();
    op.encode(w);
    status.encode(w);
    fail_tail(op, w);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::v4::{Client, at};
    use crate::testing::{Desk, export, rule};
    use nfs_wire::v4::{Argument, FileHandle, PutfhArgs, ReadArgs, ReadPlusArgs};
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use vfs::qos::{Arbiter, Limits, Pacer, VolumeLimits};
    use vfs::{
        Caller, Disposition, Durability, Export, MemFs, PendingSync, SetAttrs, Stability, Time, Volume,
        VolumeId,
    };

    /// `/held` with a limit of 64 KiB/s, and `/free` without one; `f` in both has 256 KiB.
    fn client() -> Client {
        let all = Limits { bytes: NonZeroU64::new(64 << 10), ..Limits::NONE };
        let bytes = VolumeLimits { all, ..VolumeLimits::default() };
        let gate = Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap()).gate(bytes);
        let fs = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
        let held = Volume::new(VolumeId(2), "held", Arc::new(fs), Durability::Sync, 1).with_gate(gate);
        let held = Export::new("/held", Arc::new(held), vec![rule(&[])]);
        let desk = Desk::new([export("/free", 1, vec![rule(&[])]), held], vec![]);
        let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        for export in desk.service.namespace.load().exports() {
            let root = Arc::clone(export).root();
            let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
            let made = root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
            let (opened, _) = made.file.open(&caller, Access::WRITE, Blocking::Allowed).unwrap();
            opened.write(0, &[7; 256 << 10], Stability::Unstable, &mut pending).unwrap();
        }
        Client::new(desk, 2)
    }

    #[test]
    fn no_order_of_handles_takes_data_of_a_limited_volume_for_nothing() {
        let client = client();
        let read = || Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 256 << 10 });
        let read_plus = || {
            let args = ReadPlusArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 256 << 10 };
            Argument::ReadPlus(args)
        };
        let (held, free) = (client.handle(&[b"held", b"f"]), client.handle(&[b"free", b"f"]));
        let put = |handle| Argument::Putfh(PutfhArgs { object: FileHandle(handle) });
        let tries = [
            at(&[b"held", b"f"], [read()]),
            vec![put(&held), read(), put(&free)],
            vec![put(&held), read_plus(), put(&free)],
            vec![put(&held), Argument::Savefh, put(&free), Argument::Restorefh, read()],
        ];
        // Nothing has paid for these compounds as a whole here. What is there at once may be taken once.
        let mut done = 0;
        for operations in tries.iter().cycle().take(60) {
            match client.status(operations) {
                Status::OK => done += 1,
                status => assert_eq!(status, Status::DELAY),
            }
        }
        assert!(done <= 12, "{done} of 60, each of four seconds' worth");
        assert_eq!(client.status(&[put(&free), read()]), Status::OK, "next door");
    }
}
