//! Attributes that others see of a file with a write delegation.

use super::*;
use crate::testing::v4::back::{Called, LEASE_S, Rig, SECOND};
use crate::testing::v4::put;
use nfs_wire::v3;
use nfs_wire::v4::callback::{self, OpReply as CallbackReply};
use nfs_wire::v4::{
    Argument, Fattr, FileHandle, GetattrArgs, GetattrOk, OpReply, ReaddirArgs, Reply, StableHow, Status,
    VerifyArgs, WriteArgs,
};
use std::sync::atomic::Ordering;
use xdr::{Decode, Encode, Reader};

fn getattr(numbers: &[u32]) -> Argument<'static> {
    Argument::Getattr(GetattrArgs { attr_request: Bitmap::of(numbers) })
}

/// Change counter and size of `f` that the client sees.
fn change_and_size(rig: &Rig) -> Result<(u64, u64), Status> {
    let handle = rig.client.handle(&[b"e", b"f"]);
    let results = rig.client.ask(&[put(&handle), getattr(&[attr::CHANGE, attr::SIZE])]);
    match results.all().last() {
        Some(OpReply::Getattr(Reply::Ok(GetattrOk { obj_attributes }))) => {
            let mut r = Reader::new(obj_attributes.attr_vals);
            Ok((r.u64().unwrap(), r.u64().unwrap()))
        }
        _ => Err(results.status()),
    }
}

fn look_as_another(rig: &mut Rig) -> Result<(u64, u64), Status> {
    rig.as_writer(change_and_size)
}

fn report_attrs(rig: &Rig, call: &Called, change: u64, size: u64) {
    let values = [change.to_bytes(), size.to_bytes()].concat();
    let attributes = Fattr { attrmask: Bitmap::of(&[attr::CHANGE, attr::SIZE]), attr_vals: &values };
    rig.reply(&call.getattr_reply(attributes));
}

fn wait(rig: &Rig, nanos: u64) {
    rig.clock.fetch_add(nanos, Ordering::Relaxed);
}

#[test]
fn writer_without_changes_keeps_the_delegation() {
    let mut rig = Rig::delegating_writes();
    rig.delegated_to_write(b"f");
    let (change, size) = change_and_size(&rig).unwrap();
    assert!(rig.is_silent(), "who has it is not asked by itself");
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY), "although it was put off");
    let call = rig.next_call();
    let handle = rig.client.handle(&[b"e", b"f"]);
    let attr_request = Bitmap::of(&[attr::CHANGE, attr::SIZE]);
    let args = callback::GetattrArgs { fh: FileHandle(&handle), attr_request };
    assert_eq!(call.operation, callback::Argument::Getattr(args).to_bytes());
    for _ in 0..20 {
        assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    }
    assert!(rig.is_silent(), "it was asked once");
    report_attrs(&rig, &call, change, size);
    assert_eq!(look_as_another(&mut rig), Ok((change, size)));
    wait(&rig, SECOND - 1);
    assert_eq!(look_as_another(&mut rig), Ok((change, size)));
    assert!(rig.is_silent(), "what it has said is good for a second");
    wait(&rig, 1);
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    assert!(rig.next_call().is_question());
}

#[test]
fn others_see_the_size_and_that_something_has_changed() {
    let mut rig = Rig::delegating_writes();
    let stateid = rig.delegated_to_write(b"f");
    let (first, _) = change_and_size(&rig).unwrap();
    let mut before = first;
    for size in [5, 5, 7] {
        assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
        // A client increments the counter once, however often it writes.
        report_attrs(&rig, &rig.next_call(), first + 1, size);
        let (change, seen) = look_as_another(&mut rig).unwrap();
        assert_eq!(seen, size);
        assert!(change > before, "{change} {before}");
        assert_eq!(look_as_another(&mut rig), Ok((change, size)), "it has written once");
        before = change;
        wait(&rig, SECOND);
    }
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    let (change, size) = look_as_another(&mut rig).unwrap();
    assert!(change >= before && size == 0, "nothing was sent");
}

#[test]
fn written_back_data_is_not_a_new_change() {
    let mut rig = Rig::delegating_writes();
    let stateid = rig.delegated_to_write(b"f");
    let (first, _) = change_and_size(&rig).unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    let write = WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: b"sent" };
    assert_eq!(rig.client.status(&[put(&handle), Argument::Write(write)]), Status::OK);
    let (change, _) = change_and_size(&rig).unwrap();
    assert!(change > first);
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    report_attrs(&rig, &rig.next_call(), first, 4);
    assert_eq!(look_as_another(&mut rig), Ok((change, 4)));
}

#[test]
fn silent_writer_is_recalled_after_a_second() {
    let mut rig = Rig::delegating_writes();
    let stateid = rig.delegated_to_write(b"f");
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    let question = rig.next_call();
    wait(&rig, SECOND - 1);
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    assert!(rig.is_silent());
    wait(&rig, 1);
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    assert_eq!(rig.next_call().stateid(), stateid);
    let (change, _) = change_and_size(&rig).unwrap();
    report_attrs(&rig, &question, change, 9);
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY), "it is too late");
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    assert_eq!(look_as_another(&mut rig), Ok((change, 0)));
}

#[test]
fn an_answer_that_cannot_be_is_none() {
    let both = Bitmap::of(&[attr::CHANGE, attr::SIZE]);
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let answers = [
        (both, words(&[1, u64::MAX])),
        (both, words(&[1])),
        (both, words(&[1, 2, 3])),
        (Bitmap::EMPTY, vec![]),
        (Bitmap::of(&[attr::SIZE]), words(&[1])),
        (Bitmap::of(&[attr::CHANGE, attr::SIZE, attr::FILEID]), words(&[1, 2, 3])),
    ];
    for (number, (attrmask, values)) in answers.iter().enumerate() {
        let mut rig = Rig::delegating_writes();
        let stateid = rig.delegated_to_write(b"f");
        assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
        let reply = rig.next_call().getattr_reply(Fattr { attrmask: *attrmask, attr_vals: values });
        rig.reply(&reply);
        assert_eq!(look_as_another(&mut rig), Err(Status::DELAY), "{number}");
        wait(&rig, SECOND);
        assert_eq!(look_as_another(&mut rig), Err(Status::DELAY), "{number}");
        assert_eq!(rig.next_call().stateid(), stateid, "{number}");
    }
}

#[test]
fn a_refusal_is_no_answer() {
    for status in [Status::BADHANDLE, Status::DELAY, Status::SERVERFAULT] {
        let mut rig = Rig::delegating_writes();
        let stateid = rig.delegated_to_write(b"f");
        assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
        let call = rig.next_call();
        let refused = CallbackReply::Getattr(Reply::Err(status));
        rig.reply(&call.reply(status, &[call.sequence_reply(), refused]));
        rig.pass(1);
        assert!(rig.is_silent(), "{status:?}: who has asked looks again");
        assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
        assert_eq!(rig.next_call().stateid(), stateid, "{status:?}");
    }
}

#[test]
fn nobody_else_answers() {
    let mut rig = Rig::delegating_writes();
    rig.delegated_to_write(b"f");
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    let call = rig.next_call();
    let values = [1_u64.to_bytes(), 77_u64.to_bytes()].concat();
    let attributes = Fattr { attrmask: Bitmap::of(&[attr::CHANGE, attr::SIZE]), attr_vals: &values };
    let forged = call.getattr_reply(attributes);
    assert!(rig.as_writer(|rig| rig.client.binding.wire.take_reply(&forged)), "dropped");
    rig.reply(&Called { xid: call.xid.wrapping_add(1), ..call.clone() }.getattr_reply(attributes));
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    let (change, _) = change_and_size(&rig).unwrap();
    report_attrs(&rig, &call, change, 3);
    assert_eq!(look_as_another(&mut rig).map(|(_, size)| size), Ok(3));
    rig.reply(&forged);
    assert_eq!(look_as_another(&mut rig).map(|(_, size)| size), Ok(3), "one reply is one reply");
}

#[test]
fn unreachable_writer_is_recalled() {
    let mut rig = Rig::delegating_writes();
    rig.delegated_to_write(b"f");
    rig.calls = rig.client.listen();
    assert_eq!(look_as_another(&mut rig), Err(Status::DELAY));
    rig.pass(LEASE_S);
    assert_eq!(look_as_another(&mut rig).map(|(_, size)| size), Ok(0), "it has lost it");
}

#[test]
fn a_client_of_version_4_0_asks_as_well() {
    let mut rig = Rig::delegating_writes();
    rig.delegated_to_write(b"f");
    assert_eq!(rig.as_40(change_and_size), Err(Status::DELAY));
    let (change, _) = change_and_size(&rig).unwrap();
    report_attrs(&rig, &rig.next_call(), change, 6);
    assert_eq!(rig.as_40(change_and_size).map(|(_, size)| size), Ok(6));
}

#[test]
fn sizes_are_compared_with_what_the_client_has() {
    let mut rig = Rig::delegating_writes();
    rig.delegated_to_write(b"f");
    let (change, _) = change_and_size(&rig).unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    let is_long = |rig: &Rig, size: u64| {
        let values = size.to_bytes();
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[attr::SIZE]), attr_vals: &values };
        rig.client.status(&[put(&handle), Argument::Verify(VerifyArgs { obj_attributes })])
    };
    assert_eq!(rig.as_writer(|rig| is_long(rig, 0)), Status::DELAY);
    report_attrs(&rig, &rig.next_call(), change + 1, 8);
    assert_eq!(rig.as_writer(|rig| is_long(rig, 0)), Status::NOT_SAME);
    assert_eq!(rig.as_writer(|rig| is_long(rig, 8)), Status::OK);
}

#[test]
fn listings_and_what_does_not_change_are_told_without_asking() {
    let mut rig = Rig::delegating_writes();
    rig.delegated_to_write(b"f");
    let handle = rig.client.handle(&[b"e", b"f"]);
    let ask = [put(&handle), getattr(&[attr::TYPE, attr::MODE, attr::FILEID])];
    assert_eq!(rig.as_writer(|rig| rig.client.status(&ask)), Status::OK);
    let other = rig.client.handle(&[b"e", b"g"]);
    assert_eq!(rig.as_writer(|rig| rig.client.status(&[put(&other), getattr(&[attr::SIZE])])), Status::OK);
    let dir = rig.client.handle(&[b"e"]);
    let list = ReaddirArgs {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 4096,
        maxcount: 4096,
        attr_request: Bitmap::of(&[attr::SIZE, attr::CHANGE]),
    };
    assert_eq!(rig.as_writer(|rig| rig.client.status(&[put(&dir), Argument::Readdir(list)])), Status::OK);
    assert!(rig.is_silent());
}

#[test]
fn version_3_asks_for_the_file_before_it_tells_where_that_ends() {
    let rig = Rig::delegating_writes();
    let stateid = rig.delegated_to_write(b"f");
    let handle = rig.client.handle(&[b"e", b"f"]);
    let args = v3::GetattrArgs { object: v3::FileHandle(&handle) };
    let getattr = |rig: &Rig| {
        let results = rig.client.env.ask(100_003, 3, 1, &args).unwrap();
        v3::Status::decode(&mut Reader::new(&results)).unwrap()
    };
    assert_eq!(getattr(&rig), v3::Status::JUKEBOX);
    assert_eq!(rig.next_call().stateid(), stateid);
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    assert_eq!(getattr(&rig), v3::Status::OK);
}
