//! Replayed requests, and requests from a lost connection.

use crate::channels::channel_of;
use crate::rig::{Client, Offer, Opening, Reply, Rig};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::SizeInformation;
use smb_wire::header::Command;
use smb_wire::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::negotiate::Capabilities;
use smb_wire::session::Empty;
use smb_wire::types::Dialect;
use smb_wire::{FileId, NtStatus};

const ALONE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

fn lock(client: &mut Client, file_id: FileId, flags: LockFlags, sequence: u32) -> NtStatus {
    let locks = vec![LockElement { offset: 0, length: 1, flags }];
    let request = LockRequest { lock_sequence: LockSequence(sequence), file_id, locks };
    client.call(Command::LOCK, &request).status()
}

fn object_id(client: &mut Client, file_id: FileId) -> Reply {
    let request = IoctlRequest {
        ctl_code: CtlCode::CREATE_OR_GET_OBJECT_ID,
        file_id,
        max_input_response: 0,
        max_output_response: 64,
        flags: IoctlFlags::IS_FSCTL,
        input: &[],
        output: &[],
    };
    client.call(Command::IOCTL, &request)
}

#[test]
fn stale_channel_sequence_refuses_changes() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let late = NtStatus::FILE_NOT_AVAILABLE;
    let ok = NtStatus::SUCCESS;
    let steps = [
        (0, ok),
        (0x8000, late),
        (0xffff, late),
        (0x7fff, ok),
        (0x7ffe, late),
        (0, late),
        (0x8000, ok),
        (0xffff, ok),
        (0, ok),
        (0xffff, late),
    ];
    for (sequence, status) in steps {
        client.channel_sequence = sequence;
        for replays in [false, true] {
            client.replays = replays;
            assert_eq!(client.write(file, 0, b"x").status(), status, "{sequence:x} {replays}");
            assert_eq!(object_id(&mut client, file).status(), status, "{sequence:x} {replays}");
            // Operations without changes are harmless.
            assert_eq!(client.read(file, 0, 1).status(), ok, "{sequence:x} {replays}");
        }
    }
}

/// Late requests of a lost channel are refused, since the client has sent them again elsewhere.
#[test]
fn late_request_of_lost_channel_is_refused() {
    let rig = Rig::new();
    let mut first = rig.alice();
    let mut second = channel_of(&rig, &first, &Offer::default());
    let (file, other) = (first.open("file", Opening::default()), first.open("other", Opening::default()));
    assert_eq!(first.write(file, 0, b"first").status(), NtStatus::SUCCESS);
    second.channel_sequence = 1;
    assert_eq!(second.write(file, 0, b"again").status(), NtStatus::SUCCESS);
    let late = NtStatus::FILE_NOT_AVAILABLE;
    let end = SizeInformation { size: 0 };
    for seals in [false, true] {
        first.seals = seals;
        first.write(file, 0, b"first").assert_refused(late);
        assert_eq!(first.set(file, FileClass::END_OF_FILE, &end), late);
        object_id(&mut first, file).assert_refused(late);
        // The same in a compound.
        let write = crate::rig::write(file, 0, b"first");
        let commands = vec![first.request(Command::ECHO, &Empty), first.request(Command::WRITE, &write)];
        let replies = first.chain(commands);
        assert_eq!((replies[0].status(), replies[1].status()), (NtStatus::SUCCESS, late));
        assert_eq!(first.data(file, 0, 5), b"again");
    }
    first.seals = false;
    assert_eq!(
        first.write(other, 0, b"x").status(),
        NtStatus::SUCCESS,
        "each open has a sequence of its own"
    );
    first.channel_sequence = 1;
    assert_eq!(first.write(file, 0, b"newer").status(), NtStatus::SUCCESS);
}

#[test]
fn smb_2_1_ignores_channel_sequence() {
    let rig = Rig::new();
    let mut client = rig.alice_with(&Offer::of(Dialect::SMB210));
    let file = client.open("file", Opening::default());
    for sequence in [0, 0x8000, 1] {
        client.channel_sequence = sequence;
        assert_eq!(client.write(file, 0, b"x").status(), NtStatus::SUCCESS);
    }
}

/// A pending request might still run after its replay.
#[test]
fn replay_with_outstanding_request_is_refused() {
    let rig = Rig::new();
    let (mut first, mut other) = (rig.alice(), rig.alice());
    let mut second = channel_of(&rig, &first, &Offer::default());
    let (file, theirs) = (first.open("file", Opening::default()), other.open("file", Opening::default()));
    assert_eq!(lock(&mut other, theirs, ALONE, 0), NtStatus::SUCCESS);
    let waits = LockRequest {
        lock_sequence: LockSequence(0),
        file_id: file,
        locks: vec![LockElement { offset: 0, length: 1, flags: LockFlags::EXCLUSIVE_LOCK }],
    };
    let waits = first.request(Command::LOCK, &waits);
    first.send_protected(waits);
    assert_eq!(first.reply().status(), NtStatus::PENDING);
    (second.channel_sequence, second.replays) = (1, true);
    assert_eq!(second.write(file, 10, b"x").status(), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(second.write(file, 10, b"x").status(), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(second.read(file, 10, 1).status(), NtStatus::END_OF_FILE, "reading does no harm");
    second.replays = false;
    assert_eq!(second.write(file, 10, b"y").status(), NtStatus::SUCCESS, "a new request");
    assert_eq!(lock(&mut other, theirs, LockFlags::UNLOCK, 0), NtStatus::SUCCESS);
    assert_eq!(first.reply().status(), NtStatus::SUCCESS);
    second.replays = true;
    assert_eq!(second.write(file, 10, b"x").status(), NtStatus::SUCCESS);
}

#[test]
fn replayed_lock_is_not_repeated() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let of = |index: u32, number: u32| index << 4 | number;
    for index in [1, 64] {
        assert_eq!(lock(&mut client, file, ALONE, of(index, 1)), NtStatus::SUCCESS);
        assert_eq!(lock(&mut client, file, ALONE, of(index, 1)), NtStatus::SUCCESS, "again");
        assert_eq!(lock(&mut client, file, ALONE, of(index, 2)), NtStatus::LOCK_NOT_GRANTED);
        assert_eq!(lock(&mut client, file, ALONE, of(index, 2)), NtStatus::LOCK_NOT_GRANTED, "it failed");
        assert_eq!(lock(&mut client, file, LockFlags::UNLOCK, of(index, 3)), NtStatus::SUCCESS);
        assert_eq!(lock(&mut client, file, LockFlags::UNLOCK, of(index, 3)), NtStatus::SUCCESS, "again");
        assert_eq!(lock(&mut client, file, LockFlags::UNLOCK, of(index, 4)), NtStatus::RANGE_NOT_LOCKED);
    }
    // An invalid index, and another open, have no stored sequence.
    for index in [0, 65] {
        assert_eq!(lock(&mut client, file, ALONE, of(index, 1)), NtStatus::SUCCESS);
        assert_eq!(lock(&mut client, file, ALONE, of(index, 1)), NtStatus::LOCK_NOT_GRANTED);
        assert_eq!(lock(&mut client, file, LockFlags::UNLOCK, 0), NtStatus::SUCCESS);
    }
    assert_eq!(lock(&mut client, file, ALONE, of(2, 1)), NtStatus::SUCCESS);
    let other = client.open("file", Opening::default());
    assert_eq!(lock(&mut client, other, ALONE, of(2, 1)), NtStatus::LOCK_NOT_GRANTED);
}

#[test]
fn lock_sequence_needs_multichannel_or_durability() {
    let rig = Rig::new();
    let single = Offer { capabilities: Capabilities::LARGE_MTU, ..Offer::default() };
    let mut client = rig.alice_with(&single);
    let file = client.open("file", Opening::default());
    assert_eq!(lock(&mut client, file, ALONE, 0x11), NtStatus::SUCCESS);
    assert_eq!(lock(&mut client, file, ALONE, 0x11), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(client.call(Command::ECHO, &Empty).status(), NtStatus::SUCCESS);
}
