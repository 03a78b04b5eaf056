//! Zeroing, allocated ranges, and TRIM.

use crate::lock::{ALONE, lock};
use crate::rig::{Client, Opening, Rig, output};
use smb::limits::TRIM_RANGES_MAX;
use smb_wire::classes::FileClass;
use smb_wire::classes::file::BasicInformation;
use smb_wire::ioctl::CtlCode;
use smb_wire::ranges::{
    AllocatedRange, FileLevelTrim, FileRegion, RegionRequest, RegionUsage, TrimRange, ZeroData,
};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, Encode, FileId, NtStatus};

/// The page size of volumes in memory.
const PAGE: i64 = 4096;
const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;
const DENIED: NtStatus = NtStatus::ACCESS_DENIED;

/// A file with `count` pages of sevens.
fn pages(client: &mut Client, count: usize) -> FileId {
    client.put("file", &vec![7; count * 4096]);
    client.open("file", Opening::default())
}

pub(crate) fn zero(client: &mut Client, file: FileId, file_offset: i64, beyond_final_zero: i64) -> NtStatus {
    let input = ZeroData { file_offset, beyond_final_zero }.to_bytes();
    client.ioctl(file, CtlCode::SET_ZERO_DATA, &input, 0).status()
}

/// The allocated ranges that fit in the buffer.
fn allocated(client: &mut Client, file: FileId, range: (i64, i64), room: u32) -> (NtStatus, Vec<(i64, i64)>) {
    let (file_offset, length) = range;
    let input = AllocatedRange { file_offset, length }.to_bytes();
    let reply = client.ioctl(file, CtlCode::QUERY_ALLOCATED_RANGES, &input, room);
    if reply.status().is_error() {
        return (reply.status(), Vec::new());
    }
    let decode = |bytes: &[u8]| {
        let AllocatedRange { file_offset, length } = AllocatedRange::from_bytes(bytes).unwrap();
        (file_offset, length)
    };
    (reply.status(), output(&reply).chunks(16).map(decode).collect())
}

#[test]
fn zeroing_stops_at_end_of_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"0123456789");
    let file = client.open("file", Opening::default());
    assert_eq!(zero(&mut client, file, 2, 4), NtStatus::SUCCESS);
    assert_eq!(zero(&mut client, file, 8, i64::MAX), NtStatus::SUCCESS);
    assert_eq!(zero(&mut client, file, 5, 5), NtStatus::SUCCESS);
    assert_eq!(zero(&mut client, file, 100, 200), NtStatus::SUCCESS);
    assert_eq!(client.get("file"), b"01\0\x004567\0\0");
    for (start, end) in [(4, 3), (-1, 3), (-2, -1), (i64::MIN, i64::MAX), (0, i64::MIN)] {
        assert_eq!(zero(&mut client, file, start, end), INVALID, "{start} to {end}");
    }
    client.ioctl(file, CtlCode::SET_ZERO_DATA, &[0; 15], 0).assert_refused(INVALID);
    let dir = client.open("dir", Opening::dir());
    assert_eq!(zero(&mut client, dir, 0, 1), INVALID);
}

pub(crate) fn set_sparse(client: &mut Client, file: FileId, input: &[u8]) -> NtStatus {
    client.ioctl(file, CtlCode::SET_SPARSE, input, 0).status()
}

fn is_sparse(client: &mut Client, file: FileId) -> bool {
    let basic = BasicInformation::from_bytes(&client.info(file, FileClass::BASIC)).unwrap();
    basic.file_attributes.contains(FileAttributes::SPARSE_FILE)
}

#[test]
fn set_sparse_marks_file() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let attributes = FileAttributes::SPARSE_FILE;
    let file = client.open("file", Opening { attributes, ..Opening::default() });
    assert!(!is_sparse(&mut client, file), "CREATE does not make it so");
    for (input, sparse) in
        [(&[][..], true), (&[], true), (&[0], false), (&[0xff, 0], true), (&[0; 100], false)]
    {
        assert_eq!(set_sparse(&mut client, file, input), NtStatus::SUCCESS);
        assert_eq!(is_sparse(&mut client, file), sparse, "{input:?}");
    }
    assert_eq!(set_sparse(&mut client, file, &[1]), NtStatus::SUCCESS);
    let file_attributes = FileAttributes::HIDDEN;
    let hidden = BasicInformation { file_attributes, ..BasicInformation::default() };
    assert_eq!(client.set(file, FileClass::BASIC, &hidden), NtStatus::SUCCESS);
    assert!(is_sparse(&mut client, file), "zeroing does not clear the attribute");
    for access in [AccessMask::WRITE_DATA, AccessMask::APPEND_DATA, AccessMask::WRITE_ATTRIBUTES] {
        let file = client.open("file", Opening { access, ..Opening::default() });
        assert_eq!(set_sparse(&mut client, file, &[]), NtStatus::SUCCESS, "{access:?}");
    }
    for access in [AccessMask::READ_DATA, AccessMask::WRITE_EA] {
        let file = client.open("file", Opening { access, ..Opening::default() });
        assert_eq!(set_sparse(&mut client, file, &[0]), DENIED, "{access:?}");
    }
    let dir = client.open("dir", Opening::dir());
    assert_eq!(set_sparse(&mut client, dir, &[]), INVALID);
}

#[test]
fn zeroing_sparse_file_frees_storage() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = pages(&mut client, 3);
    let whole = (0, 3 * PAGE);
    assert_eq!(zero(&mut client, file, 0, PAGE), NtStatus::SUCCESS);
    assert_eq!(allocated(&mut client, file, whole, 100), (NtStatus::SUCCESS, vec![whole]));
    assert_eq!(set_sparse(&mut client, file, &[]), NtStatus::SUCCESS);
    assert_eq!(zero(&mut client, file, 0, PAGE), NtStatus::SUCCESS);
    let left = (NtStatus::SUCCESS, vec![(PAGE, 2 * PAGE)]);
    assert_eq!(allocated(&mut client, file, whole, 100), left);
    assert_eq!(set_sparse(&mut client, file, &[0]), NtStatus::SUCCESS);
    assert_eq!(allocated(&mut client, file, whole, 100), (NtStatus::SUCCESS, vec![whole]));
    assert_eq!(client.get("file"), [vec![0; 4096], vec![7; 8192]].concat());
}

#[test]
fn allocated_ranges_fill_the_buffer() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = pages(&mut client, 5);
    let whole = (0, i64::MAX);
    assert_eq!(allocated(&mut client, file, whole, 16), (NtStatus::SUCCESS, vec![(0, 5 * PAGE)]));
    assert_eq!(set_sparse(&mut client, file, &[]), NtStatus::SUCCESS);
    assert_eq!(allocated(&mut client, file, whole, 16), (NtStatus::SUCCESS, vec![(0, 5 * PAGE)]));
    let trim = |page: i64| TrimRange { offset: u64::try_from(page * PAGE).unwrap(), length: 4096 };
    let input = FileLevelTrim { ranges: vec![trim(1), trim(3)] }.to_bytes();
    let reply = client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4);
    assert_eq!((reply.status(), output(&reply)), (NtStatus::SUCCESS, &[2, 0, 0, 0][..]));
    let all = vec![(0, PAGE), (2 * PAGE, PAGE), (4 * PAGE, PAGE)];
    assert_eq!(allocated(&mut client, file, whole, 1000), (NtStatus::SUCCESS, all.clone()));
    for (room, count) in [(16, 1), (47, 2)] {
        let some = all[..count].to_vec();
        assert_eq!(allocated(&mut client, file, whole, room), (NtStatus::BUFFER_OVERFLOW, some));
    }
    assert_eq!(allocated(&mut client, file, whole, 15).0, NtStatus::BUFFER_TOO_SMALL);
    let inside = (NtStatus::SUCCESS, vec![(2 * PAGE + 1, 2)]);
    assert_eq!(allocated(&mut client, file, (2 * PAGE + 1, 2), 16), inside);
    let nothing = (NtStatus::SUCCESS, vec![]);
    for range in [(PAGE, PAGE), (0, 0), (5 * PAGE, 1), (i64::MAX, 0)] {
        assert_eq!(allocated(&mut client, file, range, 0), nothing, "{range:?}");
    }
    for range in [(-1, 5), (0, -1), (1, i64::MAX), (512, -1)] {
        assert_eq!(allocated(&mut client, file, range, 1000).0, INVALID, "{range:?}");
    }
    client.ioctl(file, CtlCode::QUERY_ALLOCATED_RANGES, &[], 1000).assert_refused(INVALID);
}

#[test]
fn locks_apply_to_zeroing_but_not_queries() {
    let rig = Rig::new();
    let (mut client, mut other) = (rig.alice(), rig.alice());
    let file = pages(&mut client, 2);
    let theirs = other.open("file", Opening::default());
    assert_eq!(lock(&mut other, theirs, &[(0, 10, ALONE)]), NtStatus::SUCCESS);
    assert_eq!(zero(&mut client, file, 9, 20), NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(zero(&mut client, file, 10, 20), NtStatus::SUCCESS);
    let input = FileLevelTrim { ranges: vec![TrimRange { offset: 0, length: 4096 }] }.to_bytes();
    client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4).assert_refused(NtStatus::FILE_LOCK_CONFLICT);
    let found = allocated(&mut client, file, (0, PAGE), 16);
    assert_eq!(found, (NtStatus::SUCCESS, vec![(0, PAGE)]));
}

#[test]
fn range_requests_need_data_access() {
    let rig = Rig::new();
    let mut client = rig.alice();
    pages(&mut client, 1);
    let trim = FileLevelTrim { ranges: vec![TrimRange { offset: 0, length: 4096 }] }.to_bytes();
    for access in [AccessMask::WRITE_ATTRIBUTES, AccessMask::APPEND_DATA, AccessMask::READ_ATTRIBUTES] {
        let file = client.open("file", Opening { access, ..Opening::default() });
        assert_eq!(zero(&mut client, file, 0, 1), DENIED, "{access:?}");
        assert_eq!(allocated(&mut client, file, (0, 1), 16).0, DENIED, "{access:?}");
        client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &trim, 4).assert_refused(DENIED);
        client.ioctl(file, CtlCode::QUERY_FILE_REGIONS, &[], 100).assert_refused(DENIED);
    }
    let file = client.open("file", Opening { access: AccessMask::READ_DATA, ..Opening::default() });
    assert_eq!(zero(&mut client, file, 0, 1), DENIED);
    assert_eq!(allocated(&mut client, file, (0, 1), 16).0, NtStatus::SUCCESS);
    client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &trim, 4).assert_refused(DENIED);
    assert_eq!(client.get("file"), [7; 4096]);
}

#[test]
fn trim_reports_processed_ranges() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = pages(&mut client, 1);
    let range = TrimRange { offset: 0, length: 0 };
    let input = FileLevelTrim { ranges: vec![range; TRIM_RANGES_MAX + 1] }.to_bytes();
    let reply = client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4);
    assert_eq!(u32::from_bytes(output(&reply)), Ok(u32::try_from(TRIM_RANGES_MAX).unwrap()));
    let mut input = FileLevelTrim { ranges: vec![range] }.to_bytes();
    assert_eq!(output(&client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 0)), []);
    client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 3).assert_refused(NtStatus::BUFFER_TOO_SMALL);
    input[4..8].fill(0xff);
    client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4).assert_refused(INVALID);
    let wraps = TrimRange { offset: u64::MAX, length: 2 };
    let input = FileLevelTrim { ranges: vec![wraps] }.to_bytes();
    client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4).assert_refused(INVALID);
    let far = TrimRange { offset: u64::MAX - 1, length: 1 };
    let input = FileLevelTrim { ranges: vec![far] }.to_bytes();
    assert_eq!(client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &input, 4).status(), NtStatus::SUCCESS);
    assert_eq!(client.get("file"), [7; 4096]);
}

#[test]
fn file_has_one_region() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = pages(&mut client, 1);
    let usage = RegionUsage::VALID_CACHED_DATA;
    let mut regions = |file_offset, length, desired_usage| {
        let input = RegionRequest { file_offset, length, desired_usage }.to_bytes();
        let reply = client.ioctl(file, CtlCode::QUERY_FILE_REGIONS, &input, 100);
        if reply.status().is_error() {
            return Err(reply.status());
        }
        let region = |bytes: &[u8]| FileRegion::from_bytes(bytes).unwrap();
        Ok(output(&reply)[16..].chunks(24).map(region).collect::<Vec<_>>())
    };
    let region = |file_offset, length| Ok(vec![FileRegion { file_offset, length, usage }]);
    assert_eq!(regions(0, i64::MAX, usage), region(0, PAGE));
    assert_eq!(regions(10, 5, usage), region(10, 5));
    assert_eq!(regions(PAGE, 5, usage), Ok(vec![]));
    assert_eq!(regions(0, 5, RegionUsage::VALID_NONCACHED_DATA), Err(INVALID));
    assert_eq!(regions(-1, 5, usage), Err(INVALID));
    assert_eq!(regions(5, -1, usage), Err(INVALID));
    let all = client.ioctl(file, CtlCode::QUERY_FILE_REGIONS, &[], 40);
    assert_eq!((output(&all)[4], output(&all)[8], output(&all).len()), (1, 1, 40));
    let short = client.ioctl(file, CtlCode::QUERY_FILE_REGIONS, &[], 39);
    short.assert_refused(NtStatus::BUFFER_TOO_SMALL);
}
