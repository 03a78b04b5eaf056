//! How breaks reach a client that comes and goes with its connections, and asks in clear and encrypted.

use crate::channels::{second_of, two_channels};
use crate::rig::{Client, Opening, Rig, chained, lease, message, name, wait_until, write};
use smb_wire::create::{CreateContext, CreateContexts, CreateRequest, OplockLevel};
use smb_wire::file::{CloseFlags, CloseRequest};
use smb_wire::header::{Command, Flags, Header};
use smb_wire::lease::Lease;
use smb_wire::{Encode, FileId, NtStatus};

/// CREATE of a file with a lease, and CLOSE of what it has opened.
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

/// A lease that was asked for encrypted has the key of one that was asked for in clear, and whose reply has not left yet.
#[test]
fn break_of_encrypted_lease_is_encrypted_despite_plain_name() {
    let rig = Rig::new();
    let ([mut first, mut second], mut other) = (two_channels(&rig), rig.alice_at(2));
    let theirs = first.open("waits", Opening::default());
    other.open_lease("waits", Opening::default(), lease(1, "RH")).assert_state("RH");
    other.put("file", b"");
    // As long as it has any lease, what it has is known by the same names.
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

/// A client whose only connection is cut makes another one for the same session, before the first has ended.
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

/// What a connection has taken that is still there needs no repetition: who binds channels and lets them go would have what it does
/// not read pile up.
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
