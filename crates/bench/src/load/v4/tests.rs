use std::sync::Arc;
use std::time::Duration;

use nfs_wire::rpc::ReplyHeader;
use nfs_wire::v4::{
    self, AccessOk, Argument, ChangeInfo, CompoundReplyHead, GetattrOk, OpReply, OpenArgs, OpenDelegation,
    OpenOk, OpenResult, PutfhArgs, ReadArgs, ReadOk, ReaddirArgs, RemoveArgs, RenameArgs, Reply,
    SequenceArgs, SequenceStatus, ShareDeny, Status, WriteArgs, WriteOk,
};
use wire_client::nfs4::call::operation;
use wire_client::nfs4::testing::{SESSION, compound, only_call, operations, slot};

use super::*;
use crate::driver::counters::{Clock, OpCounters};
use crate::driver::fault::{Fault, ReplyError};
use crate::driver::generator::{Generator, Reply as Answer, RunContext};
use crate::job::Control;
use crate::load::Op as LoadOp;
use crate::load::dialect::Dialect;
use crate::load::generator::{PlanGenerator, Shared};
use crate::load::plan::Plan;
use crate::load::reply::CallSlot;
use crate::pattern::FileOffset;

const OPEN: Stateid = Stateid { seqid: 1, other: [9; 12] };

fn handle(byte: u8) -> Handle {
    Handle::from(nfs_wire::v3::FileHandle(&[byte; 5]))
}

fn plan(op: LoadOp) -> Plan {
    let target = "nfs://127.0.0.1/x?version=4.2".parse().unwrap();
    Plan { block: 512, size: 512, depth: 1, files: 1, ..Plan::new(target, op) }
}

/// One call at a time, in the third slot of a session.
fn generator(plan: Plan) -> (PlanGenerator, Calls) {
    let file_set = FileSet::with_handles(vec![handle(1)], vec![handle(2)], vec![handle(3)]);
    let identity = Identity::new(0, 0);
    let origin = ClientContext { identity: &identity, minor: 2, client_id: 5, opens: vec![OPEN] };
    let dialect =
        Dialect::V4(Arc::new(Templates::new(&file_set, &origin)), vec![SlotState::new(slot(1), 11)]);
    PlanGenerator::new(Arc::new(Shared::new(plan)), 0, 0, dialect)
}

fn context(plan: &Plan) -> RunContext {
    let control = Control::with_window(0, Duration::ZERO, Duration::from_secs(3600));
    let mut counters = OpCounters::new(Clock::new(&control), 1, plan.target.version);
    Kind::ALL.iter().for_each(|&kind| counters.expect(kind as usize, false).unwrap());
    RunContext::new(counters)
}

/// Passes the operations of the only unsent call to `look`.
fn with_operations(calls: &Calls, look: impl FnOnce(&[Argument<'_>])) {
    let unsent = calls.unsent();
    look(&only_call(&unsent, 2));
}

fn sequence(cachethis: bool, sequenceid: u32) -> Argument<'static> {
    Argument::Sequence(SequenceArgs {
        sessionid: SESSION,
        sequenceid,
        slotid: 2,
        highest_slotid: 8,
        cachethis,
    })
}

fn putfh(object: &[u8]) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: v4::FileHandle(object) })
}

fn getattr(attr_request: Bitmap) -> Argument<'static> {
    Argument::Getattr(GetattrArgs { attr_request })
}

fn first_call(op: LoadOp, is_kept: bool, wanted: &[Argument<'_>]) {
    let plan = plan(op);
    let (mut generator, mut calls) = generator(plan.clone());
    generator.start(&mut calls, &mut context(&plan));
    with_operations(&calls, |found| {
        assert_eq!(found[0], sequence(is_kept, 1), "{op:?}");
        assert_eq!(&found[1..], wanted, "{op:?}");
    });
}

#[test]
fn calls_are_counted_by_the_operation_they_are_made_for() {
    let names = Kind::ALL.map(|kind| format!("{:?}", operation(kind.into())));
    assert_eq!(names[1..4], ["OP_GETATTR", "OP_LOOKUP", "OP_ACCESS"]);
    assert!(names[1..].iter().all(|name| name.starts_with("OP_")), "{names:?}");
}

#[test]
fn calls_equal_those_of_linux() {
    let (file, many, scratch) = ([1; 5], [2; 5], [3; 5]);
    let access = || Argument::Access(AccessArgs { access: RIGHTS });
    let read = ReadArgs { stateid: OPEN, offset: 0, count: 512 };
    first_call(LoadOp::Read, false, &[putfh(&file), Argument::Read(read)]);
    first_call(LoadOp::Getattr, false, &[putfh(&file), getattr(FILE_ATTRIBUTES)]);
    first_call(LoadOp::Access, false, &[putfh(&file), access(), getattr(FILE_ATTRIBUTES)]);
    let commit = CommitArgs { offset: 0, count: 0 };
    first_call(LoadOp::Commit, false, &[putfh(&file), Argument::Commit(commit)]);
    let readdir = ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: LISTING_MAX,
        maxcount: LISTING_MAX,
        attr_request: OF_A_NAME,
    };
    first_call(LoadOp::Readdirplus, false, &[putfh(&many), Argument::Readdir(readdir)]);
    let owner = 11_u64.to_be_bytes();
    let open = |access, openhow, claim| {
        Argument::Open(OpenArgs {
            seqid: 0,
            share_access: access | ShareAccess::WANT_NO_DELEG,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: 5, owner: &owner },
            openhow,
            claim,
        })
    };
    let of_file = open(ShareAccess::READ, OpenFlag::NoCreate, OpenClaim::Fh);
    let opening = [putfh(&file), of_file, access(), getattr(FILE_ATTRIBUTES)];
    first_call(LoadOp::Open, true, &opening);
    first_call(LoadOp::OpenRead, true, &opening);
    let mode = 0o644_u32.to_bytes();
    let how = CreateHow::Unchecked(Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &mode });
    let made = open(ShareAccess::WRITE, OpenFlag::Create(how), OpenClaim::Null(b"000000000000000000000001"));
    let wanted = [putfh(&scratch), made, Argument::Getfh, access(), getattr(FILE_ATTRIBUTES)];
    first_call(LoadOp::Create, true, &wanted);
}

#[test]
fn write_data_lies_between_its_operations() {
    let plan = plan(LoadOp::Write);
    let (mut generator, mut calls) = generator(plan.clone());
    generator.start(&mut calls, &mut context(&plan));
    let data = calls.payloads[0].bytes().to_vec();
    with_operations(&calls, |found| {
        let write = WriteArgs { stateid: OPEN, offset: 0, stable: v4::StableHow::Unstable, data: &data };
        let wanted = [sequence(false, 1), putfh(&[1; 5]), Argument::Write(write), getattr(CACHE_CONSISTENCY)];
        assert_eq!(found, wanted);
    });
}

fn not_sequenced(status: Status) -> Vec<u8> {
    let head = CompoundReplyHead { status, tag: b"", operations: 1 };
    [head.to_bytes(), OpReply::Sequence(Reply::Err(status)).to_bytes()].concat()
}

fn attributes() -> OpReply<'static> {
    let obj_attributes = Fattr { attrmask: Bitmap::EMPTY, attr_vals: b"" };
    OpReply::Getattr(Reply::Ok(GetattrOk { obj_attributes }))
}

fn opened() -> [OpReply<'static>; 3] {
    let cinfo = ChangeInfo { atomic: true, before: 1, after: 1 };
    let ok = OpenOk {
        stateid: OPEN,
        cinfo,
        rflags: OpenResult(0),
        attrset: Bitmap::EMPTY,
        delegation: OpenDelegation::None,
    };
    let access = AccessOk { supported: RIGHTS, access: RIGHTS };
    [OpReply::Open(Reply::Ok(ok)), OpReply::Access(Reply::Ok(access)), attributes()]
}

fn judged(kind: Kind, reply: &[u8]) -> (Result<u64, String>, u32) {
    let file_set = FileSet::with_handles(vec![handle(1)], vec![handle(2)], vec![handle(3)]);
    let origin = ClientContext { identity: &Identity::new(0, 0), minor: 2, client_id: 5, opens: vec![OPEN] };
    let mut dialect =
        Dialect::V4(Arc::new(Templates::new(&file_set, &origin)), vec![SlotState::new(slot(5), 0)]);
    let call = CallSlot { worker: 0, kind, position: FileOffset { file: 0, offset: 0 }, generation: 0 };
    let reply = [&ReplyHeader::success(0)[..], reply].concat();
    let judged = dialect.check(&plan(LoadOp::Read), &call, 0, &Answer { bytes: &reply, missing: 0 });
    let judged = judged.map(|good| good.bytes).map_err(|refusal| match refusal {
        ReplyError::Later => "later".to_owned(),
        ReplyError::Fault(Fault::Counted { what, .. }) => what,
        ReplyError::Fault(Fault::Fatal(wrong)) => wrong.to_string(),
    });
    let Dialect::V4(_, places) = &dialect else { unreachable!("made above") };
    (judged, places[0].slot.sequence)
}

#[test]
fn replies_are_checked() {
    let read = |eof| [OpReply::Read(Reply::Ok(ReadOk { eof, data: &[0; 512] }))];
    assert_eq!(judged(Kind::Read, &compound(Status::OK, 4, &read(true))), (Ok(512), 5));
    let cut = [OpReply::Read(Reply::Ok(ReadOk { eof: true, data: &[0; 8] }))];
    assert_eq!(judged(Kind::Read, &compound(Status::OK, 4, &cut)).0.unwrap_err(), "short");
    let behind = [&compound(Status::OK, 4, &[attributes()])[..], &[0; 4]].concat();
    assert!(judged(Kind::Getattr, &behind).0.unwrap_err().contains("4 bytes behind"));
    let other = compound(Status::OK, 4, &[OpReply::Lookup(Status::OK)]);
    assert!(judged(Kind::Getattr, &other).0.unwrap_err().contains("where one of OP_GETATTR was requested"));
    let stale = compound(Status::STALE, 4, &[OpReply::Getattr(Reply::Err(Status::STALE))]);
    assert_eq!(judged(Kind::Getattr, &stale), (Err("NFS4ERR_STALE".to_owned()), 5));
    let written = WriteOk { count: 512, committed: v4::StableHow::Unstable, writeverf: [1; 8] };
    let written = compound(Status::OK, 4, &[OpReply::Write(Reply::Ok(written)), attributes()]);
    assert_eq!(judged(Kind::Write, &written), (Ok(512), 5));
    // Of another call of the slot.
    let old = judged(Kind::Read, &compound(Status::OK, 3, &read(true))).0.unwrap_err();
    assert!(old.contains("slot 2, call 4: answered for slot 2, call 3"), "{old}");
}

#[test]
fn number_is_reused_after_refused_sequence() {
    let delayed = compound(Status::DELAY, 4, &[OpReply::Getattr(Reply::Err(Status::DELAY))]);
    assert_eq!(judged(Kind::Getattr, &delayed), (Err("later".to_owned()), 5));
    assert_eq!(judged(Kind::Getattr, &not_sequenced(Status::DELAY)), (Err("later".to_owned()), 4));
}

#[test]
fn lost_state_is_reported() {
    for status in [Status::BADSESSION, Status::DEADSESSION, Status::STALE_CLIENTID] {
        let told = judged(Kind::Read, &not_sequenced(status)).0.unwrap_err();
        assert!(told.contains("the session is gone"), "{told}");
        assert!(told.contains("the server restarted, the lease ran out"), "{told}");
    }
    let expired = compound(Status::EXPIRED, 4, &[OpReply::Read(Reply::Err(Status::EXPIRED))]);
    assert!(judged(Kind::Read, &expired).0.unwrap_err().contains("the session is gone (NFS4ERR_EXPIRED)"));
    let mut revoked = compound(Status::OK, 4, &[attributes()]);
    let flags = CompoundReplyHead { status: Status::OK, tag: b"", operations: 0 }.to_bytes().len() + 8 + 32;
    revoked[flags..flags + 4].copy_from_slice(&SequenceStatus::EXPIRED_ALL_STATE_REVOKED.0.to_be_bytes());
    assert!(judged(Kind::Getattr, &revoked).0.unwrap_err().contains("opens are gone"));
    let misordered = judged(Kind::Read, &not_sequenced(Status::SEQ_MISORDERED)).0.unwrap_err();
    assert!(misordered.contains("SEQUENCE") && misordered.contains("NFS4ERR_SEQ_MISORDERED"), "{misordered}");
}

fn answer(
    generator: &mut PlanGenerator,
    calls: &mut Calls,
    context: &mut RunContext,
    now: u64,
    results: &[u8],
) {
    context.now = now;
    let reply = [&ReplyHeader::success(0)[..], results].concat();
    let reply = Answer { bytes: &reply, missing: 0 };
    generator.complete(0, reply, calls, context).unwrap();
}

#[test]
fn delayed_call_is_made_again_and_its_latency_counts_from_the_first() {
    let plan = plan(LoadOp::Getattr);
    let (mut generator, mut calls) = generator(plan.clone());
    let mut context = context(&plan);
    generator.start(&mut calls, &mut context);
    let delayed = compound(Status::DELAY, 1, &[OpReply::Getattr(Reply::Err(Status::DELAY))]);
    answer(&mut generator, &mut calls, &mut context, 1_000_000, &delayed);
    // Nothing is counted, and nothing is sent before its time.
    assert_eq!((context.counters.done, context.counters.errors.len()), ((0, 0), 0));
    let first = calls.unsent().len();
    // The timer of the only worker is 0; the slot's comes behind it.
    generator.begin(1, 0, &mut calls, &mut context);
    assert_eq!(calls.unsent().len(), 2 * first);
    answer(&mut generator, &mut calls, &mut context, 200_000_000, &compound(Status::OK, 2, &[attributes()]));
    let counted = context.counters.operation(Kind::Getattr as usize).unwrap();
    assert_eq!((counted.service.len(), counted.service.max() / 1_000_000), (1, 200));
    assert_eq!(context.counters.wire()["GETATTR"], 2);
}

#[test]
fn small_file_is_opened_read_and_closed_in_one_operation() {
    let plan = plan(LoadOp::OpenRead);
    let (mut generator, mut calls) = generator(plan.clone());
    let mut context = context(&plan);
    generator.start(&mut calls, &mut context);
    let read = [OpReply::Read(Reply::Ok(ReadOk { eof: true, data: &[0; 512] }))];
    let closed = [attributes(), OpReply::Close(Reply::Ok(OPEN))];
    answer(&mut generator, &mut calls, &mut context, 1, &compound(Status::OK, 1, &opened()));
    answer(&mut generator, &mut calls, &mut context, 2, &compound(Status::OK, 2, &read));
    assert_eq!(context.counters.done, (0, 0));
    answer(&mut generator, &mut calls, &mut context, 3, &compound(Status::OK, 3, &closed));
    assert_eq!(context.counters.done, (1, 512));
    assert_eq!(
        context.counters.wire(),
        [("CLOSE", 1), ("OPEN", 1), ("READ", 1)].map(|(name, calls)| (name.to_owned(), calls)).into()
    );
}

#[test]
fn file_is_closed_after_refused_read() {
    let plan = plan(LoadOp::OpenRead);
    let (mut generator, mut calls) = generator(plan.clone());
    let mut context = context(&plan);
    generator.start(&mut calls, &mut context);
    answer(&mut generator, &mut calls, &mut context, 1, &compound(Status::OK, 1, &opened()));
    let refused = compound(Status::IO, 2, &[OpReply::Read(Reply::Err(Status::IO))]);
    answer(&mut generator, &mut calls, &mut context, 2, &refused);
    let closed = [attributes(), OpReply::Close(Reply::Ok(OPEN))];
    answer(&mut generator, &mut calls, &mut context, 3, &compound(Status::OK, 3, &closed));
    assert_eq!(context.counters.done, (0, 0));
    assert_eq!(context.counters.errors, [("READ NFS4ERR_IO".to_owned(), 1)].into());
    // The next operation has begun: OPEN again.
    answer(&mut generator, &mut calls, &mut context, 4, &compound(Status::OK, 4, &opened()));
}

#[test]
fn names_are_renamed_and_removed() {
    let plan = plan(LoadOp::Rename);
    let (mut generator, mut calls) = generator(plan.clone());
    let mut context = context(&plan);
    generator.start(&mut calls, &mut context);
    let getfh = OpReply::Getfh(Reply::Ok(v4::GetfhOk { object: v4::FileHandle(&[4; 6]) }));
    let [open, access, attrs] = opened();
    answer(
        &mut generator,
        &mut calls,
        &mut context,
        1,
        &compound(Status::OK, 1, &[open, getfh, access, attrs]),
    );
    let made = calls.unsent();
    let closed = [attributes(), OpReply::Close(Reply::Ok(OPEN))];
    answer(&mut generator, &mut calls, &mut context, 2, &compound(Status::OK, 2, &closed));
    let renamed = calls.unsent();
    // The last records: CLOSE of what GETFH named, then RENAME to the next name.
    let close = Argument::Close(CloseArgs { seqid: 0, open_stateid: OPEN });
    let closing = [sequence(true, 2), putfh(&[4; 6]), getattr(CACHE_CONSISTENCY), close];
    assert_eq!(operations(&made, 2).last().unwrap(), &closing);
    let (oldname, newname) = (b"000000000000000000000001", b"000000000000000000000002");
    let rename = Argument::Rename(RenameArgs { oldname, newname });
    let renaming = [sequence(true, 3), putfh(&[3; 5]), Argument::Savefh, putfh(&[3; 5]), rename];
    assert_eq!(only_call(&renamed[made.len()..], 2), renaming);
    // The end: what was made goes.
    let cinfo = ChangeInfo { atomic: true, before: 1, after: 2 };
    let ok = v4::RenameOk { source_cinfo: cinfo, target_cinfo: cinfo };
    let after = [OpReply::Savefh(Status::OK), OpReply::Putfh(Status::OK), OpReply::Rename(Reply::Ok(ok))];
    let end = 4_000_000_000_000;
    answer(&mut generator, &mut calls, &mut context, end, &compound(Status::OK, 3, &after));
    let remove = Argument::Remove(RemoveArgs { target: b"000000000000000000000002" });
    let removing = [sequence(true, 4), putfh(&[3; 5]), remove];
    assert_eq!(only_call(&calls.unsent()[renamed.len()..], 2), removing);
}
