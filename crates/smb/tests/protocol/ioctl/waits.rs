//! IOCTLs that change data wait for other clients' caches, like WRITE.

use super::copy::key_of;
use crate::rig::{Client, Opening, Rig, ioctl, lease, message, wait_until};
use smb_wire::copy::{CopyChunk, CopyChunkCopy, DuplicateExtents};
use smb_wire::header::{Command, Header};
use smb_wire::ioctl::CtlCode;
use smb_wire::ranges::{FileLevelTrim, TrimRange, ZeroData};
use smb_wire::session::Empty;
use smb_wire::{Decode, Encode, FileId, NtStatus};

/// The block size of volumes in memory.
const BLOCK: u32 = 4096;

/// Sends an IOCTL and returns its message id.
fn send(client: &mut Client, file: FileId, code: CtlCode, input: &[u8]) -> u64 {
    let request = client.request(Command::IOCTL, &ioctl(file, code, input, 12));
    let id = Header::from_bytes(&request).unwrap().message_id;
    client.send_protected(request);
    id
}

/// Cancels a pending request, retrying until the request waits.
fn cancel(client: &mut Client, message_id: u64) {
    wait_until(|| {
        let header = Header::request(Command::CANCEL, message_id, client.session_id, 0);
        client.send_protected(message(&header, &Empty));
        client.hears_something()
    });
}

/// Asserts that a change of the file's first block waits until another client has given up its cache. CANCEL works only
/// on a real wait, not on a retry loop.
fn assert_waits(code: CtlCode, input: impl FnOnce(&mut Client, FileId) -> Vec<u8>) {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.alice_at(1), rig.alice_at(2));
    two.put("from", &[8; 4096]);
    two.put("file", &[7; 4096]);
    let (from, file) = (two.open("from", Opening::default()), two.open("file", Opening::default()));
    let theirs = one.open_lease("file", Opening::default(), lease(1, "RH"));
    theirs.assert_state("RH");
    let input = input(&mut two, from);
    let id = send(&mut two, file, code, &input);
    one.assert_lease_break(1, "RH", "", true);
    cancel(&mut two, id);
    two.reply().assert_refused(NtStatus::CANCELLED);
    assert_eq!(one.data(theirs.file_id, 0, BLOCK), [7; 4096], "nothing was done yet");
    send(&mut two, file, code, &input);
    assert_eq!(one.acknowledge_lease(1, ""), NtStatus::SUCCESS);
    assert_eq!(two.reply().status(), NtStatus::SUCCESS);
    assert_ne!(one.data(theirs.file_id, 0, BLOCK), [7; 4096]);
}

#[test]
fn copy_waits_for_other_caches() {
    assert_waits(CtlCode::SRV_COPYCHUNK, |client, from| {
        let chunk = CopyChunk { source_offset: 0, target_offset: 0, length: BLOCK };
        CopyChunkCopy { source_key: key_of(client, from), chunks: vec![chunk] }.to_bytes()
    });
}

#[test]
fn clone_waits_for_other_caches() {
    assert_waits(CtlCode::DUPLICATE_EXTENTS_TO_FILE, |_, source_file_id| {
        let byte_count = i64::from(BLOCK);
        DuplicateExtents { source_file_id, source_file_offset: 0, target_file_offset: 0, byte_count }
            .to_bytes()
    });
}

#[test]
fn zeroing_waits_for_other_caches() {
    assert_waits(CtlCode::SET_ZERO_DATA, |_, _| {
        ZeroData { file_offset: 0, beyond_final_zero: i64::from(BLOCK) }.to_bytes()
    });
}

#[test]
fn trim_waits_for_other_caches() {
    assert_waits(CtlCode::FILE_LEVEL_TRIM, |_, _| {
        FileLevelTrim { ranges: vec![TrimRange { offset: 0, length: u64::from(BLOCK) }] }.to_bytes()
    });
}
