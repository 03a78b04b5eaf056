//! Copies and clones.

use crate::lock::{ALONE, lock};
use crate::rig::{Client, OTHER, Opening, Reply, Rig, SHARE, output};
use crate::settings;
use smb::limits::{COPY_BYTES_MAX, COPY_CHUNK_BYTES_MAX, COPY_CHUNKS_MAX};
use smb_wire::copy::{
    CopyChunk, CopyChunkCopy, CopyChunkResponse, DuplicateExtents, DuplicateExtentsEx, DuplicateExtentsFlags,
    ResumeKey, ResumeKeyResponse,
};
use smb_wire::create::CreateDisposition;
use smb_wire::ioctl::CtlCode;
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, FileId, NtStatus};
use std::sync::Arc;
use vfs::{Namespace, ShareSettings};

const DENIED: NtStatus = NtStatus::ACCESS_DENIED;

#[track_caller]
pub(crate) fn key_of(client: &mut Client, file: FileId) -> ResumeKey {
    let reply = client.ioctl(file, CtlCode::SRV_REQUEST_RESUME_KEY, &[], 32);
    ResumeKeyResponse::from_bytes(output(&reply)).unwrap().resume_key
}

/// Copies chunks of `(source, target, length)`.
pub(crate) fn copy(client: &mut Client, key: ResumeKey, to: FileId, chunks: &[(u64, u64, u32)]) -> Reply {
    let chunk =
        |&(source_offset, target_offset, length): &_| CopyChunk { source_offset, target_offset, length };
    let asked = CopyChunkCopy { source_key: key, chunks: chunks.iter().map(chunk).collect() };
    client.ioctl(to, CtlCode::SRV_COPYCHUNK, &asked.to_bytes(), 12)
}

/// Asserts chunks, bytes of the last one, and total bytes.
#[track_caller]
pub(crate) fn assert_copied(reply: &Reply, status: NtStatus, done: [u32; 3]) {
    let [chunks_written, chunk_bytes_written, total_bytes_written] = done;
    let expected = CopyChunkResponse { chunks_written, chunk_bytes_written, total_bytes_written };
    assert_eq!((reply.status(), CopyChunkResponse::from_bytes(output(reply))), (status, Ok(expected)));
}

/// A file with these bytes, an empty one, and the key of the first.
fn two_files(client: &mut Client, data: &[u8]) -> (FileId, FileId, ResumeKey) {
    client.put("from", data);
    let (from, to) = (client.open("from", Opening::default()), client.open("to", Opening::default()));
    let key = key_of(client, from);
    (from, to, key)
}

#[test]
fn chunks_are_copied_in_order() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let (_, to, key) = two_files(&mut client, b"0123456789");
    let reply = copy(&mut client, key, to, &[(2, 0, 4), (0, 4, 2), (9, 1, 1)]);
    assert_copied(&reply, NtStatus::SUCCESS, [3, 0, 7]);
    assert_eq!(client.data(to, 0, 100), b"294501");
    assert_eq!(
        client.ioctl(to, CtlCode::SRV_REQUEST_RESUME_KEY, &[], 31).status(),
        NtStatus::INVALID_PARAMETER
    );
}

#[test]
fn overlapping_chunk_is_read_before_written() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let (from, _, key) = two_files(&mut client, b"0123456789");
    assert_copied(&copy(&mut client, key, from, &[(0, 4, 6)]), NtStatus::SUCCESS, [1, 0, 6]);
    assert_eq!(client.data(from, 0, 100), b"0123012345");
    assert_copied(&copy(&mut client, key, from, &[(4, 0, 6)]), NtStatus::SUCCESS, [1, 0, 6]);
    assert_eq!(client.data(from, 0, 100), b"0123452345");
}

#[test]
fn chunk_past_source_end_stops_the_copy() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let (_, to, key) = two_files(&mut client, b"0123456789");
    for beyond in [(8, 50, 3), (10, 50, 1), (u64::MAX, 50, 1), (1 << 63, 50, 1)] {
        let reply = copy(&mut client, key, to, &[(0, 0, 2), beyond, (4, 4, 2)]);
        assert_copied(&reply, NtStatus::INVALID_VIEW_SIZE, [1, 0, 2]);
        assert_eq!(client.data(to, 0, 100), b"01");
    }
    for far in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let reply = copy(&mut client, key, to, &[(0, 0, 2), (0, far, 4)]);
        assert_copied(&reply, NtStatus::INVALID_PARAMETER, [1, 0, 2]);
    }
    assert_eq!(client.data(to, 0, 100), b"01");
}

#[test]
fn copy_beyond_limits_returns_limits() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let (_, to, key) = two_files(&mut client, b"0123456789");
    let many = vec![(0, 0, 1); usize::try_from(COPY_CHUNKS_MAX).unwrap() + 1];
    let long = [(0, 0, COPY_CHUNK_BYTES_MAX); 17];
    let wrong: [&[_]; 6] = [
        &many,
        &long,
        &[(0, 0, COPY_CHUNK_BYTES_MAX + 1)],
        &[(0, 0, u32::MAX)],
        &[(0, 0, 1), (0, 0, 0)],
        &[],
    ];
    for chunks in wrong {
        let limits = [COPY_CHUNKS_MAX, COPY_CHUNK_BYTES_MAX, COPY_BYTES_MAX];
        assert_copied(&copy(&mut client, key, to, chunks), NtStatus::INVALID_PARAMETER, limits);
    }
    let all = vec![(0, 0, 1); usize::try_from(COPY_CHUNKS_MAX).unwrap()];
    assert_copied(
        &copy(&mut client, key, to, &all),
        NtStatus::SUCCESS,
        [COPY_CHUNKS_MAX, 0, COPY_CHUNKS_MAX],
    );
    // A chunk count without chunks, and without room for the reply.
    let mut asked = CopyChunkCopy { source_key: key, chunks: Vec::new() }.to_bytes();
    for count in [1_u32, 256, u32::MAX] {
        asked[24..28].copy_from_slice(&count.to_le_bytes());
        client.ioctl(to, CtlCode::SRV_COPYCHUNK, &asked, 12).assert_refused(NtStatus::INVALID_PARAMETER);
    }
    let chunk = CopyChunk { source_offset: 0, target_offset: 0, length: 1 };
    let asked = CopyChunkCopy { source_key: key, chunks: vec![chunk] }.to_bytes();
    for room in [0, 11] {
        client.ioctl(to, CtlCode::SRV_COPYCHUNK, &asked, room).assert_refused(NtStatus::INVALID_PARAMETER);
    }
}

#[test]
fn resume_key_belongs_to_its_session() {
    let rig = Rig::new();
    let (mut alice, mut other) = (rig.alice(), rig.alice());
    let (from, _, key) = two_files(&mut alice, b"0123456789");
    let theirs = other.open("theirs", Opening::default());
    let none = NtStatus::OBJECT_NAME_NOT_FOUND;
    copy(&mut other, key, theirs, &[(0, 0, 1)]).assert_refused(none);
    let to = alice.open("to", Opening::default());
    for guess in [ResumeKey([0; 24]), ResumeKey([0xff; 24]), ResumeKey(*b"deadbeefdeadbeefdeadbeef")] {
        copy(&mut alice, guess, to, &[(0, 0, 1)]).assert_refused(none);
    }
    assert_copied(&copy(&mut alice, key, to, &[(0, 0, 1)]), NtStatus::SUCCESS, [1, 0, 1]);
    alice.close(from);
    copy(&mut alice, key, to, &[(0, 0, 1)]).assert_refused(none);
    copy(&mut alice, key, from, &[(0, 0, 1)]).assert_refused(NtStatus::FILE_CLOSED);
}

#[test]
fn copy_needs_read_and_write_access() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let (_, to, key) = two_files(&mut client, b"0123456789");
    let open = |access| Opening { access, ..Opening::default() };
    let (read, write) = (AccessMask::READ_DATA, AccessMask::WRITE_DATA);
    let blind = client.open("from", open(AccessMask::READ_ATTRIBUTES));
    let blind = key_of(&mut client, blind);
    copy(&mut client, blind, to, &[(0, 0, 1)]).assert_refused(DENIED);
    let executed = client.open("from", open(AccessMask::EXECUTE));
    let executed = key_of(&mut client, executed);
    assert_copied(&copy(&mut client, executed, to, &[(0, 0, 1)]), NtStatus::SUCCESS, [1, 0, 1]);
    for access in [read, AccessMask::APPEND_DATA | read, AccessMask::READ_ATTRIBUTES, write] {
        let to = client.open("to", open(access));
        copy(&mut client, key, to, &[(0, 0, 1)]).assert_refused(DENIED);
    }
    let to = client.open("to", open(write));
    let chunk = CopyChunk { source_offset: 5, target_offset: 0, length: 1 };
    let asked = CopyChunkCopy { source_key: key, chunks: vec![chunk] }.to_bytes();
    let reply = client.ioctl(to, CtlCode::SRV_COPYCHUNK_WRITE, &asked, 12);
    assert_copied(&reply, NtStatus::SUCCESS, [1, 0, 1]);
    assert_eq!(client.get("to"), b"5");
    let dir = client.open("dir", Opening::dir());
    copy(&mut client, key, dir, &[(0, 0, 1)]).assert_refused(NtStatus::INVALID_DEVICE_REQUEST);
    let dir = key_of(&mut client, dir);
    copy(&mut client, dir, to, &[(0, 0, 1)]).assert_refused(NtStatus::INVALID_DEVICE_REQUEST);
}

#[test]
fn locks_apply_to_copies() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let (_, to, key) = two_files(&mut client, b"0123456789");
    for name in ["from", "to"] {
        let locked = other.open(name, Opening::default());
        assert_eq!(lock(&mut other, locked, &[(4, 1, ALONE)]), NtStatus::SUCCESS);
        let reply = copy(&mut client, key, to, &[(0, 0, 4), (4, 4, 4), (0, 8, 1)]);
        assert_copied(&reply, NtStatus::FILE_LOCK_CONFLICT, [1, 0, 4]);
        other.close(locked);
    }
    assert_copied(&copy(&mut client, key, to, &[(0, 0, 10)]), NtStatus::SUCCESS, [1, 0, 10]);
}

#[test]
fn files_are_copied_between_served_shares() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let (_, _, key) = two_files(&mut client, b"0123456789");
    client.mount(OTHER);
    let to = client.open("to", Opening::default());
    assert_copied(&copy(&mut client, key, to, &[(1, 0, 9)]), NtStatus::SUCCESS, [1, 0, 9]);
    assert_eq!(client.data(to, 0, 100), b"123456789");
    // The source's share has changed.
    let spare = Arc::clone(&rig.namespace.load().exports()[1]);
    rig.namespace.store(Arc::new(Namespace::new([spare])));
    copy(&mut client, key, to, &[(1, 0, 9)]).assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
}

/// The block size of volumes in memory.
const BLOCK: usize = 4096;

pub(crate) fn clone(client: &mut Client, from: FileId, to: FileId, range: [i64; 3]) -> NtStatus {
    let [source_file_offset, target_file_offset, byte_count] = range;
    let extents =
        DuplicateExtents { source_file_id: from, source_file_offset, target_file_offset, byte_count };
    let status = client.ioctl(to, CtlCode::DUPLICATE_EXTENTS_TO_FILE, &extents.to_bytes(), 0).status();
    let ex = DuplicateExtentsEx { extents, flags: DuplicateExtentsFlags::SOURCE_ATOMIC };
    let again = client.ioctl(to, CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX, &ex.to_bytes(), 0).status();
    assert_eq!(status, again, "one is answered as the other");
    status
}

#[test]
fn clone_needs_whole_blocks() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let block = i64::try_from(BLOCK).unwrap();
    let (from, to, _) = two_files(&mut client, &[7; 3 * BLOCK]);
    client.put("to", &[1; 3 * BLOCK]);
    assert_eq!(clone(&mut client, from, to, [block, 0, block]), NtStatus::SUCCESS);
    assert_eq!(client.get("to"), [vec![7; BLOCK], vec![1; 2 * BLOCK]].concat());
    assert_eq!(clone(&mut client, from, to, [0, 0, 0]), NtStatus::SUCCESS);
    let unaligned = NtStatus::INVALID_PARAMETER;
    for range in [[1, 0, block], [0, 1, block], [0, 0, block - 1], [-block, 0, block], [0, 0, -block]] {
        assert_eq!(clone(&mut client, from, to, range), unaligned, "{range:?}");
    }
    let last = i64::MAX / block * block;
    let outside = NtStatus::NOT_SUPPORTED;
    for range in [[0, 0, 4 * block], [0, 3 * block, block], [last, 0, block], [0, last, block], [0, 0, last]]
    {
        assert_eq!(clone(&mut client, from, to, range), outside, "{range:?}");
    }
    assert_eq!(clone(&mut client, from, from, [0, block, 2 * block]), outside, "it overlaps itself");
    assert_eq!(client.get("to"), [vec![7; BLOCK], vec![1; 2 * BLOCK]].concat());
    assert_eq!(clone(&mut client, from, from, [0, block, block]), NtStatus::SUCCESS);
}

/// The source's share requires encryption, the target's does not.
#[test]
fn copy_from_encrypted_share_needs_encryption() {
    let rig = Rig::new();
    settings::set(&rig, ShareSettings { encryption: true, ..settings::DEFAULT });
    let mut client = rig.alice();
    client.seals = true;
    let (from, _, key) = two_files(&mut client, &[7; BLOCK]);
    client.mount(OTHER);
    let to = client.open("to", Opening::default());
    client.seals = false;
    let ioctl = |client: &mut Client, code, input: &[u8]| client.ioctl(to, code, input, 12).status();
    let chunk = CopyChunk { source_offset: 0, target_offset: 0, length: 1 };
    let chunks = CopyChunkCopy { source_key: key, chunks: vec![chunk] }.to_bytes();
    let byte_count = i64::try_from(BLOCK).unwrap();
    let extents =
        DuplicateExtents { source_file_id: from, source_file_offset: 0, target_file_offset: 0, byte_count };
    let ex = DuplicateExtentsEx { extents, flags: DuplicateExtentsFlags::SOURCE_ATOMIC };
    for (code, input) in [
        (CtlCode::SRV_COPYCHUNK, &chunks[..]),
        (CtlCode::SRV_COPYCHUNK_WRITE, &chunks),
        (CtlCode::DUPLICATE_EXTENTS_TO_FILE, &extents.to_bytes()),
        (CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX, &ex.to_bytes()),
    ] {
        assert_eq!(ioctl(&mut client, code, input), DENIED, "{code:?}");
    }
    client.read(to, 0, 100).assert_refused(NtStatus::END_OF_FILE);
    client.seals = true;
    assert_eq!(ioctl(&mut client, CtlCode::SRV_COPYCHUNK, &chunks), NtStatus::SUCCESS);
    client.seals = false;
    assert_eq!(client.data(to, 0, 100), [7]);
}

#[test]
fn clone_between_streams_of_one_file_works() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let block = i64::try_from(BLOCK).unwrap();
    let (data, _, _) = two_files(&mut client, &[7; 2 * BLOCK]);
    client.put("from:s", &[1; 2 * BLOCK]);
    let stream = client.open("from:s", Opening::default());
    assert_eq!(clone(&mut client, data, stream, [0, 0, block]), NtStatus::SUCCESS);
    assert_eq!(client.get("from:s"), [[7; BLOCK], [1; BLOCK]].concat());
    assert_eq!(clone(&mut client, stream, data, [block, block, block]), NtStatus::SUCCESS);
    assert_eq!(client.get("from"), [[7; BLOCK], [1; BLOCK]].concat());
    let overlapping = [0, 0, 2 * block];
    assert_eq!(clone(&mut client, stream, stream, overlapping), NtStatus::NOT_SUPPORTED);
    let again = client.open("from:s", Opening::default());
    assert_eq!(clone(&mut client, stream, again, overlapping), NtStatus::NOT_SUPPORTED, "the same one");
}

#[test]
fn clone_needs_rights_of_copy() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let (from, to, _) = two_files(&mut client, &[7; BLOCK]);
    client.put("to", &[1; BLOCK]);
    let range = [0, 0, i64::try_from(BLOCK).unwrap()];
    let theirs = other.open("from", Opening::default());
    assert_eq!(clone(&mut client, theirs, to, range), NtStatus::INVALID_HANDLE, "another session's");
    let open = |access| Opening { access, ..Opening::by(CreateDisposition::OPEN) };
    let blind = client.open("from", open(AccessMask::READ_ATTRIBUTES));
    assert_eq!(clone(&mut client, blind, to, range), DENIED);
    let appending = client.open("to", open(AccessMask::APPEND_DATA));
    assert_eq!(clone(&mut client, from, appending, range), DENIED);
    assert_eq!(lock(&mut other, theirs, &[(0, 1, ALONE)]), NtStatus::SUCCESS);
    assert_eq!(clone(&mut client, from, to, range), NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(client.get("to"), [1; BLOCK]);
    other.close(theirs);
    client.close(from);
    assert_eq!(clone(&mut client, from, to, range), NtStatus::INVALID_HANDLE);
    client.mount(SHARE);
    assert_eq!(clone(&mut client, to, to, range), NtStatus::FILE_CLOSED, "of another tree connect");
}
