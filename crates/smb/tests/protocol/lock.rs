//! LOCK.

use crate::rig::{Client, Opening, Rig, lease};
use smb_wire::create::CreateDisposition;
use smb_wire::header::Command;
use smb_wire::lock::{LockElement, LockFlags, LockRequest, LockSequence};
use smb_wire::{FileId, NtStatus};

pub(crate) const ALONE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);
const SHARED: LockFlags = LockFlags(LockFlags::SHARED_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);
const UNLOCK: LockFlags = LockFlags::UNLOCK;

pub(crate) fn lock(client: &mut Client, file_id: FileId, ranges: &[(u64, u64, LockFlags)]) -> NtStatus {
    let element = |&(offset, length, flags): &_| LockElement { offset, length, flags };
    let locks = ranges.iter().map(element).collect();
    let request = LockRequest { lock_sequence: LockSequence(0), file_id, locks };
    client.call(Command::LOCK, &request).status()
}

#[test]
fn locks_apply_to_every_other_open() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    one.put("file", b"0123456789");
    let (mine, theirs) = (one.open("file", Opening::default()), two.open("file", Opening::default()));
    assert_eq!(lock(&mut one, mine, &[(2, 3, ALONE)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut two, theirs, &[(4, 1, SHARED)]), NtStatus::LOCK_NOT_GRANTED);
    two.read(theirs, 0, 10).assert_refused(NtStatus::FILE_LOCK_CONFLICT);
    two.write(theirs, 4, b"x").assert_refused(NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(two.data(theirs, 5, 5), b"56789");
    assert_eq!(one.data(mine, 2, 3), b"234");
    // Another open of the same client has separate locks.
    let second = one.open("file", Opening::default());
    one.read(second, 2, 1).assert_refused(NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(lock(&mut one, mine, &[(2, 2, UNLOCK)]), NtStatus::RANGE_NOT_LOCKED);
    assert_eq!(lock(&mut one, mine, &[(2, 3, UNLOCK)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut two, theirs, &[(2, 3, SHARED)]), NtStatus::SUCCESS);
    assert_eq!(one.data(mine, 2, 3), b"234");
    one.write(mine, 2, b"x").assert_refused(NtStatus::FILE_LOCK_CONFLICT);
    two.close(theirs);
    assert_eq!(one.write(mine, 2, b"x").status(), NtStatus::SUCCESS);
}

#[test]
fn failed_lock_locks_nothing() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    let (mine, theirs) = (one.open("file", Opening::default()), two.open("file", Opening::default()));
    assert_eq!(lock(&mut two, theirs, &[(10, 1, ALONE)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut one, mine, &[(0, 5, ALONE), (10, 1, ALONE)]), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&mut two, theirs, &[(0, 5, ALONE)]), NtStatus::SUCCESS);
    // The failed request keeps earlier locks with the same bounds.
    assert_eq!(lock(&mut one, mine, &[(20, 5, ALONE)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut one, mine, &[(20, 5, SHARED), (10, 1, ALONE)]), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&mut two, theirs, &[(20, 5, SHARED)]), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&mut one, mine, &[(20, 5, UNLOCK)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut one, mine, &[(20, 5, UNLOCK)]), NtStatus::RANGE_NOT_LOCKED);
}

/// Caching by others is not a lock: it is broken first, even for a request that must not wait.
#[test]
fn immediate_lock_still_breaks_leases() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    let theirs = two.open_lease("file", Opening::default(), lease(1, "RH"));
    theirs.assert_state("RH");
    let mine = one.open("file", Opening::default());
    let element = |offset| LockElement { offset, length: 5, flags: ALONE };
    let locks = vec![element(0), element(10)];
    let request = LockRequest { lock_sequence: LockSequence(0), file_id: mine, locks };
    let request = one.request(Command::LOCK, &request);
    one.send_protected(request);
    two.assert_lease_break(1, "RH", "", true);
    assert_eq!(two.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(one.reply().status(), NtStatus::SUCCESS);
    assert_eq!(lock(&mut two, theirs.file_id, &[(10, 1, SHARED)]), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&mut one, mine, &[(0, 5, UNLOCK), (10, 5, UNLOCK)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut one, mine, &[(0, 5, UNLOCK)]), NtStatus::RANGE_NOT_LOCKED, "it was taken once");
}

#[test]
fn invalid_locks_are_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let wrong = NtStatus::INVALID_PARAMETER;
    assert_eq!(lock(&mut client, file, &[]), wrong);
    assert_eq!(lock(&mut client, file, &[(0, 1, LockFlags(0))]), wrong);
    assert_eq!(lock(&mut client, file, &[(0, 1, ALONE), (2, 1, UNLOCK)]), wrong);
    // Unlocks before the invalid one take effect.
    assert_eq!(lock(&mut client, file, &[(0, 1, UNLOCK), (2, 1, ALONE)]), NtStatus::RANGE_NOT_LOCKED);
    assert_eq!(lock(&mut client, file, &[(0, 1, ALONE)]), NtStatus::SUCCESS);
    assert_eq!(lock(&mut client, file, &[(0, 1, UNLOCK), (2, 1, ALONE)]), wrong);
    assert_eq!(lock(&mut client, file, &[(0, 1, UNLOCK)]), NtStatus::RANGE_NOT_LOCKED);
    assert_eq!(lock(&mut client, file, &[(0, 1, LockFlags(UNLOCK.0 | 1))]), wrong);
    assert_eq!(lock(&mut client, file, &[(u64::MAX, 2, ALONE)]), NtStatus::INVALID_LOCK_RANGE);
    let many = vec![(0, 1, SHARED); smb::limits::LOCKS_MAX + 1];
    assert_eq!(lock(&mut client, file, &many), wrong);
    let dir = client.open("dir", Opening::dir());
    assert_eq!(lock(&mut client, dir, &[(0, 1, ALONE)]), NtStatus::INVALID_DEVICE_REQUEST);
}

#[test]
fn locked_file_can_be_replaced() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice(), rig.alice());
    for disposition in [CreateDisposition::OVERWRITE, CreateDisposition::SUPERSEDE] {
        one.put("file", b"0123456789");
        let mine = one.open("file", Opening::default());
        assert_eq!(lock(&mut one, mine, &[(0, 5, ALONE)]), NtStatus::SUCCESS);
        let theirs = two.open("file", Opening::by(disposition));
        assert_eq!(one.data(mine, 0, 0), b"");
        // The range is still locked.
        two.write(theirs, 0, b"x").assert_refused(NtStatus::FILE_LOCK_CONFLICT);
        two.close(theirs);
        one.close(mine);
    }
}
