//! Oplocks: grants, breaks and acknowledgments (MS-SMB2 §3.3.4.6, §3.3.5.22.1).

use crate::rig::{Opening, Rig, unsolicited};
use smb_wire::create::{CreateDisposition, OplockLevel};
use smb_wire::header::Command;
use smb_wire::oplock::OplockBreak;
use smb_wire::{FileId, NtStatus};

#[test]
fn first_open_gets_requested_oplock() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for level in [OplockLevel::NONE, OplockLevel::II, OplockLevel::EXCLUSIVE, OplockLevel::BATCH] {
        let open = client.open_oplock("file", Opening::default(), level);
        assert_eq!((open.level, open.lease), (level, None));
        client.close(open.file_id);
    }
    let unknown = client.open_oplock("file", Opening::default(), OplockLevel(0x55));
    assert_eq!(unknown.level, OplockLevel::NONE);
    let dir = client.open_oplock("dir", Opening::dir(), OplockLevel::BATCH);
    assert_eq!(dir.level, OplockLevel::NONE);
}

#[test]
fn open_waits_for_flushed_writes() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let mine = one.open_oplock("file", Opening::default(), OplockLevel::BATCH);
    two.ask("file", Opening::default(), OplockLevel::BATCH, None);
    let told = one.oplock_break();
    assert_eq!((told.oplock_level, told.file_id), (OplockLevel::II, mine.file_id));
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    one.write(mine.file_id, 0, b"late");
    assert_eq!(one.acknowledge_oplock(mine.file_id, OplockLevel::II), NtStatus::SUCCESS);
    let theirs = crate::rig::granted(&two.reply());
    assert_eq!(theirs.level, OplockLevel::II, "both read from now on");
    assert_eq!(two.data(theirs.file_id, 0, 8), b"late");
    // A write ends level II, including that of its own open, without waiting.
    let write = two.request(Command::WRITE, &crate::rig::write(theirs.file_id, 0, b"anew"));
    two.send_protected(write);
    assert_eq!(one.oplock_break().oplock_level, OplockLevel::NONE);
    // The break of its own oplock comes before the reply or after it.
    let mut heard = [two.reply(), two.reply()];
    heard.sort_by_key(|reply| reply.header.command == Command::WRITE);
    assert_eq!(unsolicited::<OplockBreak>(&heard[0]).oplock_level, OplockLevel::NONE);
    assert_eq!((heard[1].header.command, heard[1].status()), (Command::WRITE, NtStatus::SUCCESS));
    two.assert_quiet();
}

#[test]
fn attribute_open_and_close_break_no_oplock() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let mine = one.open_oplock("file", Opening::default(), OplockLevel::EXCLUSIVE);
    let access = smb_wire::types::AccessMask::READ_ATTRIBUTES;
    let theirs = two.open("file", Opening { access, ..Opening::by(CreateDisposition::OPEN) });
    two.close(theirs);
    one.assert_quiet();
    one.close(mine.file_id);
    assert_eq!(one.acknowledge_oplock(mine.file_id, OplockLevel::NONE), NtStatus::FILE_CLOSED);
}

#[test]
fn close_acknowledges_break() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let mine = one.open_oplock("file", Opening::alone(), OplockLevel::BATCH);
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(one.oplock_break().file_id, mine.file_id);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    one.close(mine.file_id);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
}

#[test]
fn share_mode_after_break_refuses_open() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let mine = one.open_oplock("file", Opening::alone(), OplockLevel::BATCH);
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(one.oplock_break().oplock_level, OplockLevel::II);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    assert_eq!(one.acknowledge_oplock(mine.file_id, OplockLevel::II), NtStatus::SUCCESS);
    two.reply().assert_refused(NtStatus::SHARING_VIOLATION);
}

#[test]
fn invalid_acknowledgments_change_nothing() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let mine = one.open_oplock("file", Opening::default(), OplockLevel::BATCH);
    let ack = |client: &mut crate::rig::Client, level| client.acknowledge_oplock(mine.file_id, level);
    // No break is in progress.
    assert_eq!(ack(&mut one, OplockLevel::II), NtStatus::INVALID_OPLOCK_PROTOCOL);
    assert_eq!(ack(&mut one, OplockLevel::NONE), NtStatus::INVALID_DEVICE_STATE);
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    assert_eq!(one.oplock_break().oplock_level, OplockLevel::II);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    // Another session with a guessed id; an invalid level.
    let mut other = rig.alice();
    assert_eq!(ack(&mut other, OplockLevel::NONE), NtStatus::FILE_CLOSED);
    assert_eq!(ack(&mut one, OplockLevel::LEASE), NtStatus::INVALID_PARAMETER);
    assert_eq!(ack(&mut one, OplockLevel(0x55)), NtStatus::INVALID_PARAMETER);
    let nothing = FileId { persistent: 77, volatile: 77 };
    assert_eq!(one.acknowledge_oplock(nothing, OplockLevel::NONE), NtStatus::FILE_CLOSED);
    two.assert_quiet();
    // An acknowledgment that keeps too much loses the oplock.
    assert_eq!(ack(&mut one, OplockLevel::BATCH), NtStatus::INVALID_OPLOCK_PROTOCOL);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    assert_eq!(ack(&mut one, OplockLevel::II), NtStatus::INVALID_OPLOCK_PROTOCOL, "it was answered");
}

#[test]
fn break_of_encrypted_request_is_encrypted() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    one.seals = true;
    let mine = one.open_oplock("file", Opening::default(), OplockLevel::BATCH);
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    // The test client now accepts only encrypted messages.
    assert_eq!(one.oplock_break().file_id, mine.file_id);
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    assert_eq!(one.acknowledge_oplock(mine.file_id, OplockLevel::NONE), NtStatus::SUCCESS);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
}

#[test]
fn lost_client_ends_break_wait() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    one.open_oplock("file", Opening::alone(), OplockLevel::BATCH);
    two.ask("file", Opening::default(), OplockLevel::NONE, None);
    one.oplock_break();
    assert_eq!(two.reply().status(), NtStatus::PENDING);
    drop(one);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
}

#[test]
fn level_ii_breaks_on_own_writes_and_locks() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let mine = client.open_oplock("file", Opening::default(), OplockLevel::II).file_id;
    let write = client.request(Command::WRITE, &crate::rig::write(mine, 0, b"data"));
    client.send_protected(write);
    assert_eq!(client.oplock_break().oplock_level, OplockLevel::NONE);
    assert_eq!(client.reply().status(), NtStatus::SUCCESS);
    let answer = client.acknowledge_oplock(mine, OplockLevel::NONE);
    assert_eq!(answer, NtStatus::INVALID_OPLOCK_PROTOCOL, "nothing is left to give back");
    client.close(mine);
    // A client that overwrites the file gets an oplock on the new contents.
    let opening = Opening::by(CreateDisposition::OVERWRITE);
    let mine = client.open_oplock("file", opening, OplockLevel::II);
    assert_eq!(mine.level, OplockLevel::II);
    client.assert_quiet();
    client.close(mine.file_id);
    // An exclusive writer does not lose it.
    for level in [OplockLevel::EXCLUSIVE, OplockLevel::BATCH] {
        let mine = client.open_oplock("file", Opening::default(), level).file_id;
        assert_eq!(client.write(mine, 0, b"data").status(), NtStatus::SUCCESS);
        assert_eq!(crate::lock::lock(&mut client, mine, &[(0, 1, crate::lock::ALONE)]), NtStatus::SUCCESS);
        client.close(mine);
    }
}

#[test]
fn allocation_breaks_other_caches() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let (mine, theirs) = (Opening::default(), Opening::default());
    let mine = one.open_oplock("file", mine, OplockLevel::II).file_id;
    let theirs = two.open("file", theirs);
    let size = smb_wire::classes::file::SizeInformation { size: 1 << 20 };
    assert_eq!(two.set(theirs, smb_wire::classes::FileClass::ALLOCATION, &size), NtStatus::SUCCESS);
    let told = one.oplock_break();
    assert_eq!((told.file_id, told.oplock_level), (mine, OplockLevel::NONE));
}
