//! COMPOUND: operations one after another, each on the state that the previous ones set (RFC 8881 §16.2).

use super::compound_state::{CompoundRequest, CompoundState, OpError, ResumeState, RunState, patch};
use super::filehandle::Filehandle;
use super::payment::Payment;
use super::price::PaidOperations;
use super::table::{self, Traits};
use super::{fail_tail, filehandle_ops, run_operation, v40};
use crate::call::Call;
use crate::limits::RETRIES_MAX_V4;
use crate::records::reply::Records;
use crate::state::nfs4::binding::Binding;
use crate::state::nfs4::session::SlotInUse;
use crate::state::nfs4::v40::UnsyncedRequest;
use nfs_wire::v4::{CompoundHead, CompoundReplyHead, Op, Status, WriteHead, WriteOk};
use std::sync::Arc;
use transport::{Outbox, Start};
use vfs::qos::Admission;
use vfs::{Access, Blocking, FsError, OpenFile, Wait};
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// Bytes of a reply before the compound's results.
const HEADER_BYTES: usize = 24;
/// Bytes that suffice for the result of any operation that changes something.
const RESULT_BYTES: usize = 256;

/// A compound that waits, with the state that its operations set so far.
pub(crate) struct Suspended {
    /// Offset of the next operation in the arguments.
    at: usize,
    current: Option<Vec<u8>>,
    saved: Option<Vec<u8>>,
    state: ResumeState,
    /// The results so far, from the compound's own head on.
    results: Vec<u8>,
}

impl Suspended {
    /// Number of earlier retries of a compound that waits for a recall.
    pub(crate) fn retries(&self) -> u32 {
        (RETRIES_MAX_V4 - 1).saturating_sub(self.state.retries_left)
    }

    /// Makes the next conflict fail the operation with NFS4ERR_DELAY instead of waiting.
    pub(crate) fn fail_on_conflict(&mut self) {
        self.state.retries_left = 0;
    }

    /// Makes the next operation fail if it has to pay and cannot.
    pub(crate) fn cannot_pay(&mut self) {
        self.fail_on_conflict();
        self.state.payment.settle();
    }

    /// Takes the admission that a compound waits for with [`Wait::Tokens`].
    pub(crate) fn take_owed(&mut self) -> Option<Admission> {
        self.state.payment.owed.take()
    }

    /// Memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.results.len()
    }

    /// Whether another operation follows.
    pub(crate) fn is_running(&self) -> bool {
        self.state.progress.is_running()
    }

    pub(crate) fn current(&self) -> Option<&[u8]> {
        self.current.as_deref()
    }

    /// Adds the result of the WRITE that is the next operation.
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
        self.state.progress.count(Op::WRITE, status, needs_sync, || before);
        self.state.payment.after_upload();
        if !needs_sync {
            self.state.retries_left = RETRIES_MAX_V4;
        }
    }
}

pub(crate) enum CompoundProgress {
    Replied(Results),
    /// The compound waits for this; nothing is written. With [`Wait::Tokens`], [`Suspended::take_owed`] is set.
    Suspended(Box<Suspended>, Wait),
}

/// Completes a compound once its results are durable, or fails it.
#[derive(Default)]
pub(crate) struct Results {
    slot: Option<SlotInUse>,
    /// In 4.0, the requests of owners that need a flush.
    owners: Vec<UnsyncedRequest>,
    /// The first operation that needs a flush, and the results before it.
    unsynced: Option<(Op, Vec<u8>)>,
}

impl Results {
    /// Caches these results in the session slot.
    pub(crate) fn complete(self, results: Option<&[u8]>) {
        if let Some(slot) = self.slot {
            slot.complete(results);
        }
    }

    /// Writes the results after a failed flush: the first operation that needed it failed, and the later ones have no result.
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

/// The arguments of a COMPOUND, encoded, and the operations in them that were paid for before the run.
#[derive(Clone, Copy)]
pub(crate) struct CompoundArgs<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) paid: Option<PaidOperations>,
}

/// Runs a compound from its beginning, or resumes it.
pub(crate) fn run(
    call: &mut Call<'_>,
    binding: &Binding,
    args: CompoundArgs<'_>,
    suspended: Option<Box<Suspended>>,
    out: &mut Outbox,
) -> Result<CompoundProgress, Malformed> {
    let mut reader = Reader::new(args.bytes);
    let head = CompoundHead::decode(&mut reader)?;
    let mut running = CompoundRun::begin(call, binding, args, head, reader, out);
    if let Some(suspended) = suspended {
        running.resume(*suspended, out);
    }
    Ok(match running.run(0, out) {
        Ok(()) => CompoundProgress::Replied(running.end(out)),
        Err(Pause { at, wait }) => {
            if wait == Wait::Recall {
                running.cx.state.payment.settle();
            }
            CompoundProgress::Suspended(Box::new(running.suspend(at, out)), wait)
        }
    })
}

/// The compound at the WRITE, and the open file of its stateid; `None` for a special stateid.
type BeforeWrite = (Suspended, Result<Option<Arc<OpenFile<'static>>>, Status>);

/// Runs the operations before a WRITE whose data have not arrived, and opens the file of its stateid.
pub(crate) fn run_before(
    call: &mut Call<'_>,
    binding: &Binding,
    args: CompoundArgs<'_>,
    remaining: u32,
    write: &WriteHead,
) -> Result<BeforeWrite, Malformed> {
    let mut out = Outbox::default();
    let mut reader = Reader::new(args.bytes);
    let head = CompoundHead::decode(&mut reader)?;
    let mut running = CompoundRun::begin(call, binding, args, head, reader, &mut out);
    running.cx.state.retries_left = 0;
    // Uploads run on threads that may wait, so the run never pauses.
    let _never_waits = running.run(remaining, &mut out);
    let cx = &mut running.cx;
    cx.at = args.bytes.len();
    let paid = cx.pay_write(write.data_length);
    let opened = paid.and_then(|()| cx.file());
    let opened = opened.and_then(|file| cx.open_by_stateid(&file, &write.stateid, Access::WRITE));
    let opened = opened.map_err(|stop| match stop {
        OpError::Status(status) | OpError::Written(status) => status,
        OpError::Wait(_) | OpError::Replay(_) => Status::DELAY,
    });
    Ok((running.suspend(args.bytes.len(), &mut out), opened))
}

/// The reason why a compound stops, and the offset of the operation that stopped it.
struct Pause {
    at: usize,
    wait: Wait,
}

struct CompoundRun<'o, 'c> {
    cx: CompoundState<'o, 'c>,
    reader: Reader<'o>,
    start: Start,
    first_byte: usize,
}

impl<'o, 'c> CompoundRun<'o, 'c> {
    /// Begins a compound and writes the head of its results. Inlined: the value is large and must not be moved.
    #[inline(always)]
    fn begin(
        call: &'o mut Call<'c>,
        binding: &'o Binding,
        args: CompoundArgs<'o>,
        head: CompoundHead<'o>,
        reader: Reader<'o>,
        out: &mut Outbox,
    ) -> Self {
        let (start, first_byte) = (out.start(), out.bytes().len());
        CompoundReplyHead { status: Status::OK, tag: head.tag, operations: 0 }.encode(&mut out.writer());
        let CompoundHead { minorversion: minor, operations, .. } = head;
        let (remaining, status) = if call.service.v4.minors.contains(&minor) {
            (operations, Status::OK)
        } else {
            (0, Status::MINOR_VERS_MISMATCH)
        };
        Self {
            cx: CompoundState {
                call,
                binding,
                request: CompoundRequest { minor, operations, args: args.bytes },
                current: None,
                saved: None,
                written: None,
                checksum: 0,
                at: 0,
                state: ResumeState {
                    progress: RunState { remaining, done: 0, status, unsynced: None, is_replayed: false },
                    stateid: None,
                    saved_stateid: None,
                    slot: None,
                    unsynced: Vec::new(),
                    payment: Payment::new(args.paid),
                    retries_left: RETRIES_MAX_V4,
                },
            },
            reader,
            start,
            first_byte,
        }
    }

    fn resume(&mut self, before: Suspended, out: &mut Outbox) {
        let Suspended { at, current, saved, state, results } = before;
        out.truncate(self.start);
        out.bytes().extend_from_slice(&results);
        self.reader = Reader::new(self.cx.request.args.get(at..).unwrap_or_default());
        let cx = &mut self.cx;
        cx.state = state;
        cx.state.payment.resume(cx.call.permit);
        // Both were valid when they were set. A file that was removed since is stale to the next operation.
        cx.current = current.and_then(|handle| filehandle_ops::resolve(cx, &handle).ok());
        cx.saved = saved.and_then(|handle| filehandle_ops::resolve(cx, &handle).ok());
    }

    /// Runs operations until `remaining` of them are left.
    fn run(&mut self, remaining: u32, out: &mut Outbox) -> Result<(), Pause> {
        while self.cx.state.progress.remaining > remaining && self.cx.state.progress.is_running() {
            let at = self.cx.request.args.len() - self.reader.remaining();
            self.cx.at = at;
            let flushes = self.cx.call.pending.added();
            let before = OperationStart { compound: self.start, start: out.start(), flushes };
            match next(&mut self.cx, &mut self.reader, before, out) {
                Ok((op, status)) => {
                    let needs_sync = self.cx.call.pending.added() > flushes;
                    let state = &mut self.cx.state;
                    // A compound that waits for a flush replies when the flush is done: it must not pause again.
                    if needs_sync {
                        state.retries_left = 0;
                    }
                    state.payment.next(op == Op::WRITE);
                    let results = || out.between(self.start, before.start).unwrap_or_default().to_vec();
                    state.progress.count(op, status, needs_sync, results);
                }
                Err(OpError::Replay(results)) => {
                    out.truncate(self.start);
                    out.bytes().extend_from_slice(&results);
                    self.cx.state.progress.is_replayed = true;
                }
                Err(stop) => {
                    out.truncate(before.start);
                    let wait = if let OpError::Wait(wait) = stop { wait } else { Wait::Storage };
                    if wait == Wait::Recall {
                        self.cx.state.retries_left -= 1;
                    }
                    return Err(Pause { at, wait });
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Outbox) -> Results {
        let state = &mut self.cx.state;
        let progress = &mut state.progress;
        if progress.is_replayed {
            return Results::default();
        }
        patch(out.bytes(), self.first_byte, progress.status, progress.done);
        Results {
            slot: state.slot.take(),
            owners: std::mem::take(&mut state.unsynced),
            unsynced: progress.unsynced.take(),
        }
    }

    /// Saves the state at an operation. Rare, so it is kept out of the hot function.
    #[inline(never)]
    fn suspend(self, at: usize, out: &mut Outbox) -> Suspended {
        let CompoundState { call, current, saved, mut state, .. } = self.cx;
        state.payment.suspend(call.permit);
        let handle = |filehandle: Option<Filehandle>| filehandle.map(|of| of.handle(call).bytes().to_vec());
        let results = out.since(self.start).unwrap_or_default().to_vec();
        out.truncate(self.start);
        Suspended { at, current: handle(current), saved: handle(saved), state, results }
    }
}

/// Marks before an operation: in the results, and among the flushes.
#[derive(Clone, Copy)]
struct OperationStart {
    /// Start of the compound's results.
    compound: Start,
    /// Start of the operation's result.
    start: Start,
    flushes: usize,
}

/// Runs the next operation and writes its result. Returns its status, which is BADXDR if it cannot be decoded.
#[inline]
fn next(
    cx: &mut CompoundState<'_, '_>,
    reader: &mut Reader<'_>,
    before: OperationStart,
    out: &mut Outbox,
) -> Result<(Op, Status), OpError> {
    let op = match Op::decode(reader) {
        Ok(op) => op,
        Err(Malformed(_)) => return Ok((Op::ILLEGAL, refuse(Op::ILLEGAL, Status::BADXDR, out))),
    };
    let CompoundRequest { minor, operations, .. } = cx.request;
    let facts = table::CompoundFacts { minor, operations, has_session: cx.state.slot.is_some() };
    let traits = match table::check(facts, op, cx.state.progress.done) {
        Ok(traits) => traits,
        Err((op, status)) => return Ok((op, refuse(op, status, out))),
    };
    // An operation that changes something must be refused before it runs; any other can be refused after.
    if traits.has(Traits::LASTS)
        && let Err(status) = cx.check_room(written(before.compound, out) + RESULT_BYTES)
    {
        return Ok((op, refuse(op, status, out)));
    }
    if op != Op::GETATTR {
        cx.written = None;
    }
    // In 4.0, a request with a sequence number pays inside its sequence (`v40::in_sequence`).
    if traits.has(Traits::PAYS)
        && !(minor == 0 && v40::is_numbered(op))
        && let Err(stop) = cx.pay()
    {
        return match stop {
            OpError::Status(status) => Ok((op, refuse(op, status, out))),
            stop => Err(stop),
        };
    }
    Ok((op, perform(cx, op, traits, reader, before, out)?))
}

fn written(compound: Start, out: &Outbox) -> usize {
    out.len_since(compound) + HEADER_BYTES
}

/// Runs an operation and writes its result. Returns its status.
#[inline]
fn perform(
    cx: &mut CompoundState<'_, '_>,
    op: Op,
    traits: Traits,
    reader: &mut Reader<'_>,
    before: OperationStart,
    out: &mut Outbox,
) -> Result<Status, OpError> {
    // The operation, and NFS4_OK.
    out.writer().u64(u64::from(op.0) << 32);
    let end_of_head = out.bytes().len();
    let refused = match run_operation(cx, op, reader, out) {
        Ok(()) if !traits.has(Traits::LASTS) => cx.check_room(written(before.compound, out)).err(),
        Ok(()) => {
            if let Some(slot) = &mut cx.state.slot {
                slot.note_change();
            }
            None
        }
        Err(OpError::Written(status)) => {
            out.writer().patch_u32(end_of_head - 4, status.0);
            return Ok(status);
        }
        Err(OpError::Status(status)) => Some(table::status_in(cx.request.minor, status)),
        // No retries left, or earlier changes wait for a flush: the client retries (RFC 8881 §15.1.1.3).
        Err(OpError::Wait(Wait::Recall))
            if cx.state.retries_left == 0 || cx.call.pending.added() > before.flushes =>
        {
            Some(Status::DELAY)
        }
        // A backend that refuses to wait on a thread that may: the client retries.
        Err(OpError::Wait(Wait::Storage)) if cx.call.blocking == Blocking::Allowed => Some(Status::DELAY),
        Err(stop) => return Err(stop),
    };
    if let Some(status) = refused {
        out.truncate(before.start);
        return Ok(refuse(op, status, out));
    }
    if traits.has(Traits::MOVES) {
        cx.state.stateid = None;
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
    use crate::testing::{TestEnv, export, rule};
    use nfs_wire::v4::{Argument, FileHandle, PutfhArgs, ReadArgs, ReadPlusArgs, Stateid};
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use vfs::qos::{Arbiter, Limits, Pacer, VolumeLimits};
    use vfs::{
        Caller, Disposition, Durability, Export, PendingSync, SetAttrs, Stability, Time, Volume, VolumeId,
    };
    use vfs_testing::MemFs;

    /// `/limited` with a limit of 64 KiB/s, and `/free` without one; `f` in both has 256 KiB.
    fn client() -> Client {
        let all = Limits { bytes: NonZeroU64::new(64 << 10), ..Limits::NONE };
        let bytes = VolumeLimits { all, ..VolumeLimits::default() };
        let gate = Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap()).gate(bytes);
        let fs = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
        let limited = Volume::new(VolumeId(2), "limited", Arc::new(fs), Durability::Sync, 1).with_gate(gate);
        let limited = Export::new("/limited", Arc::new(limited), vec![rule(&[])]);
        let env = TestEnv::new([export("/free", 1, vec![rule(&[])]), limited], vec![]);
        let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        for export in env.service.namespace.load().exports() {
            let root = Arc::clone(export).root();
            let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
            let made = root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
            let (opened, _) = made.file.open(&caller, Access::WRITE, Blocking::Allowed).unwrap();
            opened.write(0, &[7; 256 << 10], Stability::Unstable, &mut pending).unwrap();
        }
        Client::new(env, 2)
    }

    #[test]
    fn no_order_of_handles_takes_data_of_a_limited_volume_for_nothing() {
        let client = client();
        let read = || Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 256 << 10 });
        let read_plus = || {
            let args = ReadPlusArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 256 << 10 };
            Argument::ReadPlus(args)
        };
        let (limited, free) = (client.handle(&[b"limited", b"f"]), client.handle(&[b"free", b"f"]));
        let put = |handle| Argument::Putfh(PutfhArgs { object: FileHandle(handle) });
        let tries = [
            at(&[b"limited", b"f"], [read()]),
            vec![put(&limited), read(), put(&free)],
            vec![put(&limited), read_plus(), put(&free)],
            vec![put(&limited), Argument::Savefh, put(&free), Argument::Restorefh, read()],
        ];
        // These compounds have no permit as a whole. The initial burst is free.
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
