//! A process over NFSv4.1 whose server answers NFS4ERR_DELAY, and the end of its load.

use std::time::Duration;

use nfs_wire::rpc::ReplyHeader;
use nfs_wire::v3::FileHandle;
use nfs_wire::v4::{
    AccessOk, Argument, Bitmap, ChangeInfo, Fattr, GetattrOk, Op, OpReply, OpenDelegation, OpenOk,
    OpenResult, ReadOk, Reply as Result4, Stateid, Status, WriteOk,
};

use wire_client::call::Call;
use wire_client::nfs4::compound::RIGHTS;
use wire_client::nfs4::testing::{compound, operations, slot};
use wire_client::smb::channel::Channel;
use wire_client::{Handle, Identity, Protection, Version};

use super::*;
use crate::driver::counters::{Clock, OpCounters};
use crate::eda::mix::{BACKEND, Operation};
use crate::eda::population::Population;
use crate::eda::process::Settings;
use crate::eda::schedule::Schedule;
use crate::job::Control;
use crate::pattern::FileOffset;

const OPEN: Stateid = Stateid { seqid: 1, other: [9; 12] };
const END: u64 = 3_600_000_000_000;

/// One backend process over NFSv4.1 in a load of an hour.
struct Rig {
    generator: ProcessGenerator,
    calls: Calls,
    context: RunContext,
    looked: usize,
    answered: u32,
}

impl Rig {
    fn new() -> Self {
        let places = vec![OwnerSlot::new(slot(1), 3)];
        let dialect = Dialect::V4(Encoder::new(&Identity::new(0, 0), 1, 5), places);
        Self::with(Version::V41, dialect, 1, Calls::new(4, 4))
    }

    fn with(version: Version, dialect: Dialect, processes: usize, mut calls: Calls) -> Self {
        let handle = |number: u8| Handle::from(FileHandle(&[number]));
        let process = || {
            let directories = (100..105).map(handle).collect();
            let files = (0..20).map(handle).collect();
            let population = Population::new(&BACKEND, 0, directories, handle(99), files);
            Process::new(Settings::cached(version), Schedule::new(&BACKEND, 1, 3), population)
        };
        let workers = (0..processes).map(|_| Worker::new(process(), 3)).collect();
        let generator = ProcessGenerator::new(dialect, 0, workers, 1 << 16, 1);
        (0..processes).for_each(|_| _ = calls.add_slot());
        let control = Control::with_window(0, Duration::ZERO, Duration::from_nanos(END));
        let mut counters = OpCounters::new(Clock::new(&control), 1, version);
        Operation::ALL.iter().for_each(|&operation| counters.expect(operation as usize, true).unwrap());
        Self { generator, calls, context: RunContext::new(counters), looked: 0, answered: 0 }
    }

    fn due(&mut self, timer: usize, now: u64) {
        self.context.now = now;
        self.generator.begin(timer, now, &mut self.calls, &mut self.context);
    }

    /// The calls since the last look. Each is named by its last operation besides GETATTR and ACCESS.
    fn sent(&mut self) -> Vec<Op> {
        let unsent = self.calls.unsent();
        let is_main = |op: &Op| ![Op::GETATTR, Op::ACCESS].contains(op);
        let main = |call: &Vec<Argument<'_>>| call.iter().map(Argument::op).rfind(is_main);
        let sent = operations(&unsent[self.looked..], 1).iter().filter_map(main).collect();
        self.looked = unsent.len();
        sent
    }

    fn answer(&mut self, now: u64, status: Status, results: &[OpReply<'_>]) {
        self.context.now = now;
        self.answered += 1;
        let reply = compound(status, self.answered, results);
        let reply = [&ReplyHeader::success(0)[..], &reply].concat();
        let reply = Reply { bytes: &reply, missing: 0 };
        self.generator.complete(0, reply, &mut self.calls, &mut self.context).unwrap();
    }

    fn opened(&mut self, now: u64) {
        let open = OpenOk {
            stateid: OPEN,
            cinfo: ChangeInfo { atomic: true, before: 1, after: 1 },
            rflags: OpenResult(0),
            attrset: Bitmap::EMPTY,
            delegation: OpenDelegation::None,
        };
        let access = AccessOk { supported: RIGHTS, access: RIGHTS };
        let open = OpReply::Open(Result4::Ok(open));
        self.answer(now, Status::OK, &[open, OpReply::Access(Result4::Ok(access)), attributes()]);
    }

    fn moved(&mut self, now: u64) {
        let process = &self.generator.workers[0].process;
        match process.payload() {
            Some((_, count)) => {
                let committed = nfs_wire::v4::StableHow::Unstable;
                let write = WriteOk { count, committed, writeverf: [1; 8] };
                self.answer(now, Status::OK, &[OpReply::Write(Result4::Ok(write)), attributes()]);
            }
            None => {
                let mut payload = Payload::new(44 << 10, UNIT, 1);
                payload.stamp(FileOffset { file: read_file(process), offset: 0 }, 0);
                let data = payload.bytes().to_vec();
                let read = OpReply::Read(Result4::Ok(ReadOk { eof: false, data: &data }));
                self.answer(now, Status::OK, &[read]);
            }
        }
    }
}

/// Handles are the files' numbers.
fn read_file(process: &Process) -> u32 {
    match process.call() {
        Call::Read(arguments) => arguments.file.0[0].into(),
        other => panic!("{other:?}"),
    }
}

fn attributes() -> OpReply<'static> {
    let obj_attributes = Fattr { attrmask: Bitmap::EMPTY, attr_vals: b"" };
    OpReply::Getattr(Result4::Ok(GetattrOk { obj_attributes }))
}

const LATER: &[OpReply<'static>] = &[OpReply::Open(Result4::Err(Status::DELAY))];

#[test]
fn deferred_call_is_repeated_and_timed_from_the_first() {
    let mut rig = Rig::new();
    rig.due(0, 1_000_000);
    assert_eq!(rig.sent(), [Op::OPEN]);
    rig.answer(2_000_000, Status::DELAY, LATER);
    assert!(rig.sent().is_empty() && rig.context.counters.errors.is_empty());
    // The timer of the only worker is 0; that of a call to be made again comes behind it.
    rig.due(1, 102_000_000);
    assert_eq!(rig.sent(), [Op::OPEN]);
    rig.opened(103_000_000);
    rig.sent();
    rig.moved(151_000_000);
    let counted = |operation| rig.context.counters.operation(operation as usize).unwrap();
    let done = [Operation::SequentialRead, Operation::SequentialWrite].map(counted);
    let done = done.into_iter().find(|counts| counts.service.len() == 1).unwrap();
    assert_eq!(done.service.max() / 1_000_000, 150);
    assert_eq!(rig.context.counters.wire()["OPEN"], 2);
}

#[test]
fn end_closes_open_files_once() {
    let mut rig = Rig::new();
    rig.due(0, 1_000_000);
    rig.opened(2_000_000);
    rig.moved(3_000_000);
    rig.sent();
    rig.context.now = END;
    rig.generator.end(&mut rig.calls, &mut rig.context);
    assert_eq!(rig.sent(), [Op::CLOSE]);
    let closed = [attributes(), OpReply::Close(Result4::Ok(OPEN))];
    rig.answer(END + 1_000_000, Status::OK, &closed);
    assert!(rig.sent().is_empty());
    // That was no operation.
    assert_eq!(rig.context.counters.done.0, 1);
}

#[test]
fn operation_under_way_at_the_end_finishes_and_closes() {
    let mut rig = Rig::new();
    rig.due(0, 1_000_000);
    rig.sent();
    rig.context.now = END;
    rig.generator.end(&mut rig.calls, &mut rig.context);
    assert!(rig.sent().is_empty(), "OPEN is in flight");
    rig.opened(END + 1);
    assert_eq!(rig.sent().len(), 1);
    rig.moved(END + 2);
    assert_eq!(rig.sent(), [Op::CLOSE]);
    // A server that puts that off is not waited for.
    rig.answer(END + 3, Status::DELAY, &[OpReply::Getattr(Result4::Err(Status::DELAY))]);
    assert!(rig.sent().is_empty());
}

#[test]
fn call_deferred_at_the_end_is_abandoned_and_file_closed() {
    let mut rig = Rig::new();
    rig.due(0, 1_000_000);
    rig.opened(2_000_000);
    let moves = rig.sent()[1];
    let later = match moves {
        Op::READ => OpReply::Read(Result4::Err(Status::DELAY)),
        _ => OpReply::Write(Result4::Err(Status::DELAY)),
    };
    rig.answer(END, Status::DELAY, &[later]);
    assert_eq!(rig.sent(), [Op::CLOSE]);
    assert_eq!(rig.context.counters.done.0, 0);
}

/// A call over SMB costs at least one credit.
#[test]
fn calls_over_smb_wait_for_credits() {
    for (credits, sent) in [(0, 0), (1, 1), (2, 2)] {
        let dialect = Dialect::Smb(vec![InFlight::default(), InFlight::default()]);
        let calls = Calls::new(4, 4).with_channel(Channel::with_credits(credits));
        let mut rig = Rig::with(Version::Smb(Protection::None), dialect, 2, calls);
        rig.due(0, 1_000_000);
        rig.due(1, 1_000_000);
        assert_eq!((rig.calls.in_flight(), rig.generator.awaiting_credits.len()), (sent, 2 - sent));
        // Who waits is not begun again at the end, and where nothing is on its way nothing will come.
        rig.generator.end(&mut rig.calls, &mut rig.context);
        assert_eq!((rig.calls.in_flight(), rig.generator.awaiting_credits.len()), (sent, 2 - sent));
        let fed = rig.generator.issue_waiting(&mut rig.calls);
        assert_eq!(fed.is_err(), sent == 0, "{credits}: {fed:?}");
    }
}
