//! Compounds at volumes with limits: each operation pays, and an operation in the middle of a compound waits in line.

use super::limits::{FILE_BYTES, Host};
use super::v40::{Results, record};
use crate::support::client::{Client, wait_until};
use crate::support::{ROOT, trusting};
use nfs_wire::v4::{
    Argument, Bitmap, CreateArgs, CreateType, DelegreturnArgs, Fattr, FileHandle, GetattrArgs, LookupArgs,
    PutfhArgs, ReadArgs, StableHow, Stateid, Status, WriteArgs, attr,
};
use std::iter;
use std::num::NonZeroU64;
use vfs::qos::{Limits, VolumeLimits};

const READER: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

fn limits(all: Limits) -> VolumeLimits {
    VolumeLimits { all, ..VolumeLimits::default() }
}

fn put(handle: &[u8]) -> Argument<'_> {
    Argument::Putfh(PutfhArgs { object: FileHandle(handle) })
}

fn read(count: u32) -> Argument<'static> {
    Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count })
}

fn write(data: &[u8]) -> Argument<'_> {
    Argument::Write(WriteArgs { stateid: Stateid::ANONYMOUS, offset: 0, stable: StableHow::Unstable, data })
}

fn getattr() -> Argument<'static> {
    Argument::Getattr(GetattrArgs { attr_request: Bitmap::EMPTY })
}

fn getattrs(file: &[u8], count: usize) -> Vec<Argument<'_>> {
    iter::once(put(file)).chain(iter::repeat_n(getattr(), count)).collect()
}

/// The lookups of a mount, from the root.
fn mount() -> [Argument<'static>; 4] {
    [Argument::Putrootfh, Argument::Lookup(LookupArgs { objname: b"vol" }), Argument::Getfh, getattr()]
}

fn send(client: &mut Client, xid: u32, operations: &[Argument<'_>]) {
    client.send_bytes(&record(xid, ROOT, operations)).unwrap();
}

fn status(client: &mut Client) -> Status {
    Results(client.receive().results).status()
}

pub(crate) fn waiting(host: &Host) -> usize {
    host.gate.throttled().1
}

/// Charges a number of operations in advance, so that later ones wait.
pub(crate) fn owe(host: &Host, operations: usize) {
    let mut client = host.running.connect();
    send(&mut client, 0, &getattrs(&host.file, operations));
    assert_eq!(status(&mut client), Status::OK);
}

#[test]
fn a_mount_waits_in_line_at_a_volume_at_its_limit() {
    let host = Host::new(trusting());
    let ops = NonZeroU64::new(20);
    for all in [Limits { bytes: NonZeroU64::new(1), ..Limits::NONE }, Limits { ops, ..Limits::NONE }] {
        host.gate.set_limits(limits(all));
        let address = host.running.address;
        let mut reader = Client::connect_as(READER, address);
        for xid in 0..60 {
            send(&mut reader, xid, &[put(&host.file), read(4096)]);
        }
        wait_until("READs that wait", || waiting(&host) > 50);
        let mut other = Client::connect_as(OTHER, address);
        for xid in 0..3 {
            send(&mut other, xid, &mount());
            assert_eq!(status(&mut other), Status::OK);
        }
        assert!(waiting(&host) > 20, "the reader is not done yet: {}", waiting(&host));
        host.gate.set_limits(VolumeLimits::default());
        for _ in 0..60 {
            assert_eq!(status(&mut reader), Status::OK);
        }
    }
}

#[test]
fn a_read_after_a_failed_write_pays_as_a_read() {
    let host = Host::new(trusting());
    let (read_bytes, write_bytes) = (NonZeroU64::new(1), NonZeroU64::new(1 << 40));
    host.gate.set_limits(limits(Limits { read_bytes, write_bytes, ..Limits::NONE }));
    let mut client = host.running.connect();
    for xid in 0..3 {
        // A directory cannot be written.
        send(&mut client, xid, &[put(&host.file), read(FILE_BYTES), put(&host.root), write(&[7; 1000])]);
    }
    assert_eq!(status(&mut client), Status::ISDIR);
    wait_until("two that wait", || waiting(&host) == 2);
    // Meanwhile the volume admits writes.
    let mut other = host.running.connect();
    send(&mut other, 9, &[put(&host.file), write(&[7; 1000])]);
    assert_eq!(status(&mut other), Status::OK);
}

#[test]
fn operations_after_a_long_write_pay_for_themselves() {
    let host = Host::new(trusting());
    let read_bytes = NonZeroU64::new(1);
    host.gate.set_limits(limits(Limits { read_bytes, ..Limits::NONE }));
    let data = vec![7; 300 << 10];
    let mut client = host.running.connect();
    for xid in 0..2 {
        send(&mut client, xid, &[put(&host.file), write(&data), read(FILE_BYTES), getattr()]);
    }
    assert_eq!(status(&mut client), Status::OK, "it owes nothing yet");
    wait_until("a READ that waits", || waiting(&host) == 1);
    host.gate.set_limits(VolumeLimits::default());
    assert_eq!(status(&mut client), Status::OK);
    // A client's GETATTR is free with its WRITE.
    let ops = NonZeroU64::new(1);
    host.gate.set_limits(limits(Limits { ops, ..Limits::NONE }));
    send(&mut client, 7, &[put(&host.file), write(&data), getattr()]);
    assert_eq!(status(&mut client), Status::OK);
    assert_eq!(waiting(&host), 0);
}

#[test]
fn free_operations_pass_waiting_ones() {
    let host = Host::new(trusting());
    let ops = NonZeroU64::new(1);
    host.gate.set_limits(limits(Limits { ops, ..Limits::NONE }));
    let mut client = host.running.connect();
    let long = getattrs(&host.file, 60);
    send(&mut client, 0, &long);
    assert_eq!(status(&mut client), Status::OK);
    send(&mut client, 1, &long);
    wait_until("one that waits", || waiting(&host) == 1);
    let delegreturn = Argument::Delegreturn(DelegreturnArgs { deleg_stateid: Stateid::ANONYMOUS });
    send(&mut client, 2, &[put(&host.file), delegreturn]);
    assert_eq!(status(&mut client), Status::BAD_STATEID, "others may wait for it");
    send(&mut client, 3, &[put(&host.file), Argument::Getfh]);
    assert_eq!(status(&mut client), Status::OK);
    assert_eq!(waiting(&host), 1, "a minute's worth of attributes");
}

#[test]
fn access_control_lists_count_as_data() {
    let host = Host::new(trusting());
    host.limit(1);
    let mut client = host.running.connect();
    let mut ask = |attribute| {
        let attr_request = Bitmap::of(&[attribute]);
        for xid in 0..2 {
            send(&mut client, xid, &[put(&host.file), Argument::Getattr(GetattrArgs { attr_request })]);
        }
        assert_eq!(status(&mut client), Status::OK);
    };
    ask(attr::MODE);
    assert_eq!(waiting(&host), 0);
    ask(attr::ACL);
    // The first reply has used all tokens for minutes.
    wait_until("the second one to wait", || waiting(&host) == 1);
}

#[test]
fn each_operation_of_a_compound_counts() {
    let host = Host::new(trusting());
    // The rate of one second, and the burst of a twentieth.
    let ops = NonZeroU64::new(64);
    host.gate.set_limits(limits(Limits { ops, ..Limits::NONE }));
    let mut client = host.running.connect();
    send(&mut client, 0, &getattrs(&host.file, 63));
    assert_eq!(status(&mut client), Status::OK);
    send(&mut client, 1, &[put(&host.file), getattr()]);
    wait_until("the next one to wait", || waiting(&host) == 1);
    host.gate.set_limits(VolumeLimits::default());
    assert_eq!(status(&mut client), Status::OK);
}

#[test]
fn a_compound_without_room_to_wait_gets_delay() {
    let host = Host::new(trusting());
    host.limit(1);
    let mut client = host.running.connect();
    send(&mut client, 0, &[put(&host.file), read(FILE_BYTES)]);
    assert_eq!(status(&mut client), Status::OK);
    // After a change that waits for its flush, the reply must not wait for a limit.
    let createattrs = Fattr { attrmask: Bitmap::EMPTY, attr_vals: b"" };
    let dir = CreateArgs { objtype: CreateType::Directory, objname: b"made", createattrs };
    let change = [put(&host.free_root), Argument::Create(dir), put(&host.file), read(FILE_BYTES)];
    send(&mut client, 1, &change);
    assert_eq!(status(&mut client), Status::DELAY);
}
