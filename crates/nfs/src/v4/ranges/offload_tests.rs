//! Background copies.

use super::*;
use crate::limits::CLIENT_COPIES_MAX;
use crate::testing::v4::back::Rig;
use crate::testing::v4::{copying, put};
use nfs_wire::v4::callback::{self, OffloadArgs, OffloadInfo};
use nfs_wire::v4::{Argument, CopyReply, FileHandle, OpReply, Reply};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};
use vfs::qos::{Arbiter, Limits, Pacer, VolumeLimits};
use vfs::{Caller, Volume};

/// More bytes than one foreground COPY.
const LONG: u64 = COPY_BYTES_MAX + 1;
const SIZE: usize = 5 << 20;

/// The handles of `f` and `g`, found before limits are set.
type Handles = [Vec<u8>; 2];

/// `f` has data, `g` and `h` have none.
fn rig(change: impl FnOnce(Volume) -> Volume) -> (Rig, Handles) {
    let mut rig = Rig::with(change);
    rig.client.set_minor(2);
    let root = rig.client.env.service.namespace.load().exports()[0].root();
    let caller = Caller::new(0, 0, []);
    let dir = root.open_dir(&caller, Blocking::Allowed).unwrap();
    let file = dir.lookup(b"f", Blocking::Allowed).unwrap().file;
    let opened = file.authorize_write(&caller).unwrap();
    opened.write(0, &vec![7; SIZE], Stability::Unstable, &mut PendingSync::default()).unwrap();
    let handles = [&b"f"[..], b"g"].map(|name| rig.client.handle(&[b"e", name]));
    (rig, handles)
}

/// A volume with so little that a copy does not end soon.
fn limited(volume: Volume) -> Volume {
    let all = Limits { bytes: NonZeroU64::new(64 << 10), ..Limits::NONE };
    let limits = VolumeLimits { all, ..VolumeLimits::default() };
    volume.with_gate(Arbiter::new(&Limits::NONE.into(), &Pacer::start().unwrap()).gate(limits))
}

fn copy(rig: &Rig, files: &Handles, count: u64, synchronous: bool) -> CopyOk {
    try_copy(rig, files, count, synchronous).unwrap()
}

fn try_copy(rig: &Rig, [from, to]: &Handles, count: u64, synchronous: bool) -> Result<CopyOk, Status> {
    let asked = [put(from), Argument::Savefh, put(to), Argument::Copy(copying(count, synchronous))];
    match rig.client.ask(&asked).all().last() {
        Some(OpReply::Copy(CopyReply::Ok(ok))) => Ok(*ok),
        Some(OpReply::Copy(CopyReply::Err(status))) => Err(*status),
        other => panic!("{other:?}"),
    }
}

fn begin(rig: &Rig, files: &Handles) -> Stateid {
    let ok = copy(rig, files, LONG, false);
    assert!(!ok.requirements.synchronous && ok.requirements.consecutive);
    assert_eq!(ok.response.count, 0);
    ok.response.callback_id.expect("it goes on")
}

fn progress(rig: &Rig, stateid: Stateid) -> Result<OffloadStatusOk, Status> {
    let results = rig.client.ask(&[Argument::OffloadStatus(OffloadStatusArgs { stateid })]);
    match results.all().last() {
        Some(OpReply::OffloadStatus(Reply::Ok(ok))) => Ok(*ok),
        _ => Err(results.status()),
    }
}

fn cancel(rig: &Rig, stateid: Stateid) -> Status {
    rig.client.status(&[Argument::OffloadCancel(OffloadCancelArgs { stateid })])
}

/// Waits until no copy is running.
fn wait_for_end(rig: &Rig) {
    let began = Instant::now();
    while rig.client.env.service.v4.tables.copies.used() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_long_copy_goes_on_and_the_client_is_told_of_its_end() {
    let (mut rig, files) = rig(|volume| volume);
    let stateid = begin(&rig, &files);
    let record = rig.calls.recv_timeout(Duration::from_secs(20)).unwrap();
    let handle = &files[1];
    let writeverf = rig.volume.write_verifier().to_be_bytes();
    let (count, committed) = (SIZE as u64, StableHow::Unstable);
    let response = WriteResponse { callback_id: None, count, committed, writeverf };
    let offload_info = OffloadInfo::Ok(response);
    let args = OffloadArgs { fh: FileHandle(handle), stateid, offload_info };
    assert!(record.ends_with(&xdr::Encode::to_bytes(&callback::Argument::Offload(args))));
    wait_for_end(&rig);
    let done = OffloadStatusOk { count, complete: Some(Status::OK) };
    assert_eq!(progress(&rig, stateid), Ok(done));
    assert_eq!(rig.as_writer(|rig| progress(rig, stateid)), Err(Status::BAD_STATEID), "another's");
    assert_eq!(rig.as_writer(|rig| cancel(rig, stateid)), Status::BAD_STATEID);
    assert!(rig.reader().states().is_empty(), "it holds nothing");
    assert_eq!(cancel(&rig, stateid), Status::OK);
    assert_eq!(progress(&rig, stateid), Err(Status::BAD_STATEID));
    assert!(rig.is_silent());
}

#[test]
fn a_copy_is_done_at_once_where_the_client_wants_that_or_cannot_be_told() {
    let (mut rig, files) = rig(|volume| volume);
    let at_once = |ok: CopyOk| {
        assert!(ok.requirements.synchronous);
        assert_eq!((ok.response.callback_id, ok.response.count), (None, SIZE as u64));
    };
    at_once(copy(&rig, &files, LONG, true));
    at_once(copy(&rig, &files, LONG - 1, false));
    at_once(rig.as_writer(|rig| copy(rig, &files, LONG, false)));
}

#[test]
fn cancel_or_end_of_client_ends_a_copy() {
    let (mut rig, files) = rig(limited);
    let stateid = begin(&rig, &files);
    std::thread::sleep(Duration::from_millis(50));
    let so_far = progress(&rig, stateid).unwrap();
    assert_eq!(so_far.complete, None);
    assert!(so_far.count < SIZE as u64, "half a MiB at a time, and then the limit");
    assert_eq!(cancel(&rig, stateid), Status::OK);
    assert_eq!(progress(&rig, stateid), Err(Status::BAD_STATEID));
    assert!(rig.is_silent(), "it is not told of what it has ended");
    let other = begin(&rig, &files);
    let reader = Arc::downgrade(&rig.reader());
    rig.client.restart(b"reader");
    assert_eq!(progress(&rig, other), Err(Status::BAD_STATEID));
    assert!(reader.upgrade().is_none(), "a copy keeps no client");
}

#[test]
fn background_copies_per_client_are_bounded() {
    let (rig, files) = rig(limited);
    let copies: Vec<Stateid> = (0..CLIENT_COPIES_MAX).map(|_| begin(&rig, &files)).collect();
    // One copy too many runs in the foreground, and pays on its own.
    match try_copy(&rig, &files, LONG, false) {
        Ok(ok) => assert!(ok.requirements.synchronous),
        Err(status) => assert_eq!(status, Status::DELAY),
    }
    assert_eq!(cancel(&rig, copies[3]), Status::OK);
    begin(&rig, &files);
}
