//! Delivery of breaks over changing connections, plain and encrypted.

use crate::channels::{second_of, two_channels};
use crate::rig::{Client, Opening, Rig, chained, lease, message, name, wait_until, write};
use smb_wire::create::{CreateContext, CreateContexts, CreateRequest, OplockLevel};
use smb_wire::file::{CloseFlags, CloseRequest};
use smb_wire::header::{Command, Flags, Header};
use smb_wire::lease::Lease;
use smb_wire::{Encode, FileId, NtStatus};

/// CREATE of a file with a lease, and CLOSE of the result.
fn opened_and_closed(client: &mut Client, path: &str, asked: Lease) -> Vec<Vec<u8>> {
    let (wire, data) = (name(path), asked.to_bytes());
    let plain = Opening::default().request(&wire);
    let contexts = CreateContexts(vec![CreateContext { name: Lease::NAME, data: &data }]);
    let create = CreateRequest { requested_oplock_level: OplockLevel::LEASE, contexts, ..plain };
    let create = client.request(Command::CREATE, &create);
    let header = client.header(Command::CLOSE, 1);
    let related = Header { flags: Flags::RELATED_OPERATIONS, session_id: u64::MAX, ..header };
    let close = CloseRequest { flags: CloseFlags::empty(), file_id: FileId::PREVIOUS };
    vec![create, message(&related, &close)]
}

/// An encrypted request reuses the lease key of a plain request whose reply has not been sent yet.
#[test]
fn break_of_encrypted_lease_is_encrypted_despite_plain_name() {
    let rig = Rig::new();
    let ([mut first, mut second], mut other) = (two_channels(&rig), rig.alice_at(2));
    let theirs = first.open("waits", Opening::default());
    other.open_lease("waits", Opening::default(), lease(1, "RH")).assert_state("RH");
    other.put("file", b"");
    // While any lease exists, the client keeps its lease table entry.
    first.open_lease("kept", Opening::default(), lease(2, "R")).assert_state("R");
    // The replies wait for the last command.
    let mut commands = opened_and_closed(&mut first, "file", lease(1, "RWH"));
    commands.push(first.request(Command::WRITE, &write(theirs, 0, b"x")));
    first.send_protected(chained(commands));
    other.assert_lease_break(1, "RH", "", true);
    second.seals = true;
    second.open_lease("file", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    let mut third = rig.alice_at(3);
    third.ask("file", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(third.reply().status(), NtStatus::PENDING);
    assert_eq!(other.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(first.replies().len(), 3);
    second.assert_lease_break(1, "RWH", "RH", true);
    assert_eq!(second.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    assert_eq!(third.reply().status(), NtStatus::SUCCESS);
}

/// The client connects again before the server notices that its only connection is lost.
#[test]
fn break_on_lost_only_channel_is_repeated_on_the_next() {
    let rig = Rig::new();
    let (mut first, mut other) = (rig.alice_at(1), rig.alice_at(2));
    first.open_lease("read", Opening::default(), lease(1, "R")).assert_state("R");
    let theirs = other.open("read", Opening::default());
    assert_eq!(other.write(theirs, 0, b"new").status(), NtStatus::SUCCESS);
    let mut second = second_of(&rig, &first);
    drop(first);
    second.assert_lease_break(1, "R", "", false);
}

/// A break in the send buffer of a live connection is not repeated. Otherwise a client that binds and drops channels
/// without reading would accumulate breaks.
#[test]
fn break_is_sent_once_despite_lost_channels() {
    let rig = Rig::new();
    let (mut first, mut other) = (rig.alice_at(1), rig.alice_at(2));
    first.open_lease("file", Opening::default(), lease(1, "RWH")).assert_state("RWH");
    other.ask("file", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(other.reply().status(), NtStatus::PENDING);
    first.assert_lease_break(1, "RWH", "RH", true);
    for _ in 0..3 {
        drop(second_of(&rig, &first));
    }
    wait_until(|| rig.connections() == 2);
    first.assert_quiet();
    assert_eq!(first.acknowledge_lease(1, "RH"), NtStatus::SUCCESS);
    assert_eq!(other.reply().status(), NtStatus::SUCCESS);
}
