//! Reports of file changes: to watchers of the directory, and to clients with a cached listing.

use crate::file_information::{dispose, rename};
use crate::ioctl::copy::{clone, copy, key_of};
use crate::ioctl::ranges::{set_sparse, zero};
use crate::notify::{request, told};
use crate::rig::{Client, Opening, Rig, key, lease_v2, name, unsolicited};
use crate::{extended_attributes, security};
use smb_wire::contexts::AllocationSize;
use smb_wire::create::{CreateContext, CreateContexts, CreateDisposition, CreateRequest};
use smb_wire::dir::CompletionFilter;
use smb_wire::header::Command;
use smb_wire::ioctl::CtlCode;
use smb_wire::oplock::LeaseBreakNotification;
use smb_wire::ranges::{FileLevelTrim, TrimRange};
use smb_wire::security::{Ace, AceFlags, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Encode, FileId, NtStatus};

/// A change: its name, its kind, and its action on an open file.
type Change = (&'static str, CompletionFilter, fn(&mut Client, FileId));

/// The block size of volumes in memory.
const BLOCK: i64 = 4096;

/// Read, write and delete access to an existing file.
fn all() -> Opening {
    Opening { access: AccessMask::MAXIMUM_ALLOWED, ..Opening::by(CreateDisposition::OPEN) }
}

/// A client that caches and watches a directory, and another with an open file in it, with a stream.
fn watched(rig: &Rig, filter: CompletionFilter) -> (Client, Client, FileId) {
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let dir = two.open("dir", Opening::dir());
    two.close(dir);
    two.put("dir\\file", &[7; 8192]);
    two.put("dir\\file:s", b"stream");
    two.put("source", &[8; 8192]);
    let file = two.open("dir\\file", all());
    let opening = Opening { access: AccessMask::LIST_DIRECTORY, ..Opening::dir() };
    let dir = one.open_lease("dir", opening, lease_v2(1, "RH", 0, None));
    dir.assert_state("RH");
    let notify = one.request(Command::CHANGE_NOTIFY, &request(dir.file_id, filter, false, 1000));
    one.send_protected(notify);
    assert_eq!(one.reply().status(), NtStatus::PENDING);
    (one, two, file)
}

/// Asserts that the next two messages, in any order, report the change and break the lease of the listing.
#[track_caller]
fn assert_told(client: &mut Client, change: &str, what: &str) {
    let (mut is_notified, mut is_broken) = (false, false);
    for _ in 0..2 {
        let message = client.reply();
        match message.header.command {
            Command::OPLOCK_BREAK => {
                let told: LeaseBreakNotification = unsolicited(&message);
                assert_eq!(told.lease_key, key(1), "{what}");
                is_broken = true;
            }
            _ => {
                assert_eq!(told(&message), [change], "{what}");
                is_notified = true;
            }
        }
    }
    assert!(is_notified && is_broken, "{what}");
}

/// Makes each change and closes the file, since a close updates the directory entry.
fn assert_each_told(changes: &[Change]) {
    for (what, filter, change) in changes {
        let rig = Rig::new();
        let (mut one, mut two, file) = watched(&rig, *filter);
        change(&mut two, file);
        two.close(file);
        assert_told(&mut one, "*file", what);
    }
}

fn copy_here(client: &mut Client, to: FileId, chunk: (u64, u64, u32)) {
    let from = client.open("source", all());
    let key = key_of(client, from);
    assert_eq!(copy(client, key, to, &[chunk]).status(), NtStatus::SUCCESS);
}

#[test]
fn ioctl_changes_are_reported() {
    assert_each_told(&[
        ("a copy", CompletionFilter::LAST_WRITE, |client, file| copy_here(client, file, (0, 0, 10))),
        ("a longer copy", CompletionFilter::SIZE, |client, file| copy_here(client, file, (0, 8192, 10))),
        ("a clone", CompletionFilter::LAST_WRITE, |client, file| {
            let from = client.open("source", all());
            assert_eq!(clone(client, from, file, [0, 0, BLOCK]), NtStatus::SUCCESS);
        }),
        ("zeros", CompletionFilter::LAST_WRITE, |client, file| {
            assert_eq!(zero(client, file, 0, 10), NtStatus::SUCCESS);
        }),
        ("holes", CompletionFilter::LAST_WRITE, |client, file| {
            let input = FileLevelTrim { ranges: vec![TrimRange { offset: 0, length: 4096 }] }.to_bytes();
            let reply = client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4);
            assert_eq!(reply.status(), NtStatus::SUCCESS);
        }),
    ]);
}

#[test]
fn set_information_is_reported() {
    assert_each_told(&[
        ("sparse", CompletionFilter::ATTRIBUTES, |client, file| {
            assert_eq!(set_sparse(client, file, &[1]), NtStatus::SUCCESS);
        }),
        ("extended attributes", CompletionFilter::EA, |client, file| {
            assert_eq!(extended_attributes::set(client, file, &[(b"name", b"value")]), NtStatus::SUCCESS);
        }),
        ("a list", CompletionFilter::SECURITY, |client, file| {
            let everyone = Sid::new(1, &[0]).unwrap();
            let list = security::list(&[Ace::allow(AceFlags::empty(), AccessMask::GENERIC_ALL, everyone)]);
            let dacl = smb_wire::info::SecurityInformation::DACL;
            assert_eq!(security::set(client, file, dacl, &list), NtStatus::SUCCESS);
        }),
    ]);
}

#[test]
fn truncation_is_reported() {
    assert_each_told(&[
        ("the data", CompletionFilter::LAST_WRITE, |client, _| {
            client.open("dir\\file", Opening::by(CreateDisposition::OVERWRITE));
        }),
        ("a stream", CompletionFilter::SIZE, |client, _| {
            client.open("dir\\file:s", Opening::by(CreateDisposition::OVERWRITE));
        }),
    ]);
}

#[test]
fn allocation_of_new_file_is_reported() {
    let rig = Rig::new();
    let (mut one, mut two, _) = watched(&rig, CompletionFilter::SIZE);
    let (wire, data) = (name("dir\\new"), AllocationSize { allocation_size: 8192 }.to_bytes());
    let contexts = CreateContexts(vec![CreateContext { name: AllocationSize::NAME, data: &data }]);
    let plain = Opening::by(CreateDisposition::CREATE).request(&wire);
    assert_eq!(two.call(Command::CREATE, &CreateRequest { contexts, ..plain }).status(), NtStatus::SUCCESS);
    assert_told(&mut one, "*new", "room");
}

#[test]
fn stream_changes_are_reported_for_their_file() {
    assert_each_told(&[
        ("a new one", CompletionFilter::LAST_WRITE, |client, _| {
            client.open("dir\\file:new", Opening::by(CreateDisposition::CREATE));
        }),
        ("another name", CompletionFilter::LAST_WRITE, |client, _| {
            let stream = client.open("dir\\file:s", Opening::by(CreateDisposition::OPEN));
            assert_eq!(rename(client, stream, ":t", false), NtStatus::SUCCESS);
        }),
        ("none any longer", CompletionFilter::LAST_WRITE, |client, _| {
            let stream = client.open("dir\\file:s", Opening::by(CreateDisposition::OPEN));
            assert_eq!(dispose(client, stream, true), NtStatus::SUCCESS);
            client.close(stream);
        }),
    ]);
}

#[test]
fn deferred_stream_deletion_is_reported() {
    let rig = Rig::new();
    let (mut one, mut two, _) = watched(&rig, CompletionFilter::LAST_WRITE);
    let stream = two.open("dir\\file:s", Opening::by(CreateDisposition::OPEN));
    let last = two.open("dir\\file:s", Opening::by(CreateDisposition::OPEN));
    assert_eq!(dispose(&mut two, stream, true), NtStatus::SUCCESS);
    two.close(stream);
    one.assert_quiet();
    two.close(last);
    assert_told(&mut one, "*file", "a stream");
}
