//! Times that clients keep, as they and others see them.

use crate::testing::NOW;
use crate::testing::v4::back::{Rig, SECOND};
use crate::testing::v4::{at, put};
use nfs_wire::v4::attr::{self, OpenArguments};
use nfs_wire::v4::{
    Argument, Bitmap, DelegreturnArgs, Fattr, NfsTime, OpReply, OpenDelegation, OpenResult, ReadArgs, Reply,
    SetattrArgs, ShareAccess, StableHow, Stateid, Status, WriteArgs,
};
use std::sync::atomic::Ordering;
use xdr::{Decode, Encode, Reader};

const TIMES: ShareAccess = ShareAccess(ShareAccess::BOTH.0 | ShareAccess::WANT_DELEG_TIMESTAMPS.0);

fn rig() -> Rig {
    let mut rig = Rig::delegating_writes();
    rig.client.set_minor(2);
    rig
}

/// Opens `f` for writing and has it delegated with its times.
fn delegated(rig: &Rig) -> Stateid {
    match rig.open(b"f", TIMES) {
        Ok(OpenDelegation::WriteAttrs(write)) => write.stateid,
        other => panic!("{other:?}"),
    }
}

fn time(seconds: i64) -> NfsTime {
    NfsTime { seconds, nseconds: 5 }
}

/// Sets times of `name` that a client keeps: of access and of modification.
fn set(rig: &Rig, name: &[u8], stateid: Stateid, accessed: NfsTime, modified: NfsTime) -> Status {
    let values = [accessed.to_bytes(), modified.to_bytes()].concat();
    let attrmask = Bitmap::of(&[attr::TIME_DELEG_ACCESS, attr::TIME_DELEG_MODIFY]);
    let obj_attributes = Fattr { attrmask, attr_vals: &values };
    rig.client.status(&at(&[b"e", name], [Argument::Setattr(SetattrArgs { stateid, obj_attributes })]))
}

/// Times of access and modification, and the change counter, of `f`.
fn times(rig: &Rig) -> (NfsTime, NfsTime, u64) {
    let (_, values) = rig.client.attrs(&[b"e", b"f"], &[attr::CHANGE, attr::TIME_ACCESS, attr::TIME_MODIFY]);
    let mut r = Reader::new(&values);
    let change = r.u64().unwrap();
    (NfsTime::decode(&mut r).unwrap(), NfsTime::decode(&mut r).unwrap(), change)
}

#[test]
fn delegated_times_are_set_before_the_return() {
    let rig = rig();
    let deleg_stateid = delegated(&rig);
    let (_, _, before) = times(&rig);
    assert_eq!(set(&rig, b"f", deleg_stateid, time(200), time(100)), Status::OK);
    let (accessed, modified, change) = times(&rig);
    assert_eq!((accessed, modified), (time(200), time(100)));
    assert!(change > before);
    let give_back = Argument::Delegreturn(DelegreturnArgs { deleg_stateid });
    assert_eq!(rig.client.status(&at(&[b"e", b"f"], [give_back])), Status::OK);
    assert_eq!(set(&rig, b"f", deleg_stateid, time(300), time(300)), Status::BAD_STATEID);
}

#[test]
fn times_of_before_are_of_no_use_and_there_are_none_of_tomorrow() {
    let rig = rig();
    let stateid = delegated(&rig);
    assert_eq!(set(&rig, b"f", stateid, time(100), time(100)), Status::OK);
    let known = times(&rig);
    assert_eq!(set(&rig, b"f", stateid, time(99), time(-9)), Status::OK);
    assert_eq!(times(&rig), known, "nothing is changed");
    assert_eq!(set(&rig, b"f", stateid, time(NOW.seconds + 1), time(i64::MAX)), Status::OK);
    let now = NfsTime { seconds: NOW.seconds, nseconds: 0 };
    let (accessed, modified, _) = times(&rig);
    assert_eq!((accessed, modified), (now, now));
    let broken = NfsTime { seconds: 100, nseconds: 1_000_000_000 };
    assert_eq!(set(&rig, b"f", stateid, broken, time(1)), Status::INVAL);
}

#[test]
fn nobody_else_sets_them() {
    let mut rig = rig();
    let stateid = delegated(&rig);
    let before = times(&rig);
    for other in [Stateid::ANONYMOUS, rig.opened(b"g", ShareAccess::BOTH).0, rig.delegated(b"h")] {
        for name in [b"f", b"g", b"h"] {
            assert_eq!(set(&rig, name, other, time(7), time(7)), Status::BAD_STATEID);
        }
    }
    assert_eq!(set(&rig, b"g", stateid, time(7), time(7)), Status::BAD_STATEID, "of another file");
    let as_another = rig.as_writer(|rig| set(rig, b"f", stateid, time(7), time(7)));
    assert_eq!(as_another, Status::BAD_STATEID);
    assert_eq!(times(&rig), before);
    // A delegation without delegated timestamps.
    let OpenDelegation::Write(plain) = rig.open(b"g", ShareAccess::BOTH).unwrap() else { panic!() };
    assert_eq!(set(&rig, b"g", plain.stateid, time(7), time(7)), Status::BAD_STATEID);
    rig.client.env.service.v4.delegates_writing = false;
    assert_eq!(set(&rig, b"f", stateid, time(7), time(7)), Status::ATTRNOTSUPP);
}

#[test]
fn delegated_times_are_set_alone_and_complete() {
    let rig = rig();
    let stateid = delegated(&rig);
    let ask = |numbers: &[u32], attr_vals: &[u8]| {
        let obj_attributes = Fattr { attrmask: Bitmap::of(numbers), attr_vals };
        rig.client.status(&at(&[b"e", b"f"], [Argument::Setattr(SetattrArgs { stateid, obj_attributes })]))
    };
    let one = time(70).to_bytes();
    assert_eq!(ask(&[attr::TIME_DELEG_MODIFY], &one), Status::OK);
    assert_eq!(ask(&[attr::TIME_DELEG_MODIFY], &one[..8]), Status::BADXDR);
    assert_eq!(ask(&[attr::TIME_DELEG_ACCESS, attr::TIME_DELEG_MODIFY], &one), Status::BADXDR);
    assert_eq!(ask(&[attr::TIME_DELEG_MODIFY], &[&one[..], &one].concat()), Status::BADXDR);
    let with_size = [8_u64.to_bytes(), one.clone()].concat();
    assert_eq!(ask(&[attr::SIZE, attr::TIME_DELEG_MODIFY], &with_size), Status::INVAL);
}

#[test]
fn others_are_told_the_times_that_the_client_has() {
    let mut rig = rig();
    delegated(&rig);
    let (_, _, change_before) = times(&rig);
    let answers = [
        (change_before, time(50), time(40)),
        (change_before + 1, time(60), NfsTime { seconds: i64::MAX, nseconds: 0 }),
    ];
    let reported = [time(40), NfsTime { seconds: NOW.seconds, nseconds: 0 }];
    for ((change, accessed, modified), reported) in answers.into_iter().zip(reported) {
        let handle = rig.client.handle(&[b"e", b"f"]);
        let request = Bitmap::of(&[attr::TIME_MODIFY]);
        let ask = [put(&handle), Argument::Getattr(nfs_wire::v4::GetattrArgs { attr_request: request })];
        assert_eq!(rig.as_writer(|rig| rig.client.status(&ask)), Status::DELAY);
        let values = [change.to_bytes(), 0_u64.to_bytes(), accessed.to_bytes(), modified.to_bytes()].concat();
        let attrmask =
            Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::TIME_DELEG_ACCESS, attr::TIME_DELEG_MODIFY]);
        rig.reply(&rig.next_call().getattr_reply(Fattr { attrmask, attr_vals: &values }));
        let (seen_access, seen, _) = rig.as_writer(times);
        assert_eq!((seen_access, seen), (accessed, reported));
        rig.clock.fetch_add(SECOND, Ordering::Relaxed);
    }
}

#[test]
fn attributes_say_what_is_there() {
    let mut rig = rig();
    let has = |rig: &Rig| {
        let (_, values) = rig.client.attrs(&[b"e", b"f"], &[attr::SUPPORTED_ATTRS]);
        let supported = Bitmap::decode(&mut Reader::new(&values)).unwrap();
        let (_, values) = rig.client.attrs(&[b"e", b"f"], &[attr::OPEN_ARGUMENTS]);
        let arguments = OpenArguments::decode(&mut Reader::new(&values)).unwrap();
        let wants = arguments.share_access_want;
        let times =
            supported.contains(attr::TIME_DELEG_ACCESS) && supported.contains(attr::TIME_DELEG_MODIFY);
        (times, wants.contains(20), wants.contains(21))
    };
    assert_eq!(has(&rig), (true, true, true));
    rig.client.env.service.v4.delegates_writing = false;
    assert_eq!(has(&rig), (false, false, false));
}

#[test]
fn version_4_1_has_no_times_to_keep() {
    let rig = Rig::delegating_writes();
    assert!(matches!(rig.open(b"f", TIMES), Ok(OpenDelegation::Write(_))));
}

/// Opens `name` so that a delegation replaces the open. Returns the result.
fn opened_or_delegated(
    rig: &Rig,
    name: &[u8],
    access: ShareAccess,
) -> (Stateid, OpenResult, Option<Stateid>) {
    let access = ShareAccess(access.0 | ShareAccess::WANT_OPEN_XOR_DELEGATION.0);
    match rig.ask_open(name, access).all().last() {
        Some(OpReply::Open(Reply::Ok(ok))) => {
            let delegated = match ok.delegation {
                OpenDelegation::Write(write) => Some(write.stateid),
                OpenDelegation::Read(read) => Some(read.stateid),
                _ => None,
            };
            (ok.stateid, ok.rflags, delegated)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_delegation_may_stand_for_the_open() {
    let mut rig = rig();
    let (stateid, flags, delegated) = opened_or_delegated(&rig, b"f", ShareAccess::BOTH);
    assert!(flags.contains(OpenResult::NO_OPEN_STATEID));
    assert_eq!(delegated, Some(stateid));
    assert_eq!(rig.reader().states().counts().0, 0, "nothing is open");
    let handle = rig.client.handle(&[b"e", b"f"]);
    let write = WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: b"own" };
    assert_eq!(rig.client.status(&[put(&handle), Argument::Write(write)]), Status::OK);
    let (stateid, flags, delegated) = opened_or_delegated(&rig, b"g", ShareAccess::READ);
    assert!(flags.contains(OpenResult::NO_OPEN_STATEID) && delegated == Some(stateid));
    let handle = rig.client.handle(&[b"e", b"g"]);
    let read = Argument::Read(ReadArgs { stateid, offset: 0, count: 9 });
    assert_eq!(rig.client.status(&[put(&handle), read]), Status::OK);
    rig.write(b"h").unwrap();
    let (_, flags, delegated) = opened_or_delegated(&rig, b"h", ShareAccess::READ);
    assert!(!flags.contains(OpenResult::NO_OPEN_STATEID) && delegated.is_none(), "there is none");
    assert_eq!(rig.reader().states().counts().0, 1);
}

#[test]
fn an_open_that_there_was_stays() {
    let rig = rig();
    rig.opened(b"f", ShareAccess::READ);
    let (stateid, flags, delegated) = opened_or_delegated(&rig, b"f", ShareAccess::BOTH);
    assert!(!flags.contains(OpenResult::NO_OPEN_STATEID));
    assert!(delegated.is_some_and(|delegated| delegated != stateid));
    assert_eq!(rig.reader().states().counts().0, 1);
}
