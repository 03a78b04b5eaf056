//! One valid value of every structure that messages carry.

use smb_wire::apple::*;
use smb_wire::copy::*;
use smb_wire::durable::*;
use smb_wire::ea::{EaFlags, FullEa};
use smb_wire::error::ReparseTag;
use smb_wire::lease::{Lease, LeaseFlags, LeaseV2};
use smb_wire::notify::{NotifyAction, NotifyInformation, NotifyWriter};
use smb_wire::oplock::{LeaseKey, LeaseState};
use smb_wire::posix::*;
use smb_wire::quota::{QueryQuota, QuotaInformation};
use smb_wire::ranges::*;
use smb_wire::reparse::{ReparseData, SymbolicLink};
use smb_wire::rpc::{Syntax, samr, srvsvc};
use smb_wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use smb_wire::snapshots::*;
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Encode, FileTime, Guid, Writer};

use crate::samples::{FILE_ID, name};

pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    [contexts(), controls(), others()].concat()
}

fn contexts() -> Vec<(&'static str, Vec<u8>)> {
    let create_guid = Guid([8; 16]);
    let flags = DurableFlags::PERSISTENT;
    let version = AppInstanceVersion { app_instance_version_high: 1, app_instance_version_low: 2 };
    let lease = Lease::V2(LeaseV2 {
        lease_key: LeaseKey([6; 16]),
        lease_state: LeaseState(7),
        flags: LeaseFlags::PARENT_LEASE_KEY_SET,
        parent_lease_key: LeaseKey([7; 16]),
        epoch: 3,
    });
    vec![
        ("lease::Lease", lease.to_bytes()),
        ("durable::DurableRequest", DurableRequest.to_bytes()),
        ("durable::DurableResponse", DurableResponse.to_bytes()),
        ("durable::DurableReconnect", DurableReconnect { file_id: FILE_ID }.to_bytes()),
        ("durable::DurableRequestV2", DurableRequestV2 { timeout: 9, flags, create_guid }.to_bytes()),
        ("durable::DurableResponseV2", DurableResponseV2 { timeout: 9, flags }.to_bytes()),
        (
            "durable::DurableReconnectV2",
            DurableReconnectV2 { file_id: FILE_ID, create_guid, flags }.to_bytes(),
        ),
        ("durable::AppInstanceId", AppInstanceId { app_instance_id: Guid([4; 16]) }.to_bytes()),
        ("durable::AppInstanceVersion", version.to_bytes()),
        ("security::SecurityDescriptor", security_descriptor().to_bytes()),
    ]
}

fn security_descriptor() -> SecurityDescriptor {
    let owner = Sid::new(22, &[1, 1000]).unwrap();
    let entries = vec![
        Ace::deny(AceFlags::CONTAINER_INHERIT, AccessMask::DELETE, Sid::new(1, &[0]).unwrap()),
        Ace::allow(AceFlags::INHERITED, AccessMask::FILE_ALL, owner),
    ];
    SecurityDescriptor {
        control: Control::DACL_PROTECTED,
        owner: Some(owner),
        group: Sid::new(22, &[2, 1000]),
        sacl: None,
        dacl: Acl::new(entries),
    }
}

fn controls() -> Vec<(&'static str, Vec<u8>)> {
    let chunk = CopyChunk { source_offset: 1, target_offset: 2, length: 3 };
    let copy = CopyChunkCopy { source_key: ResumeKey([7; 24]), chunks: vec![chunk; 2] };
    let written = CopyChunkResponse { chunks_written: 1, chunk_bytes_written: 2, total_bytes_written: 3 };
    let extents = DuplicateExtents {
        source_file_id: FILE_ID,
        source_file_offset: 3,
        target_file_offset: 4,
        byte_count: 5,
    };
    let ex = DuplicateExtentsEx { extents, flags: DuplicateExtentsFlags::SOURCE_ATOMIC };
    let snapshots = SnapshotArray {
        number_of_snapshots: 1,
        number_of_snapshots_returned: 1,
        snap_shot_array_size: u32::try_from(name().bytes().len()).unwrap(),
        snapshots: name(),
    };
    let timewarp = TimewarpToken { timestamp: FileTime(0x01da_1744_f560_0a00) };
    let sids = vec![Sid::unix_user(7), Sid::unix_user(8)];
    let query = QueryQuota { return_single: false, restart_scan: true, sids, start: None };
    let quota = QuotaInformation {
        change_time: FileTime(1),
        quota_used: 2,
        quota_threshold: 3,
        quota_limit: 4,
        sid: Sid::unix_user(7),
    };
    let usage = RegionUsage::VALID_CACHED_DATA;
    let trim = FileLevelTrim { ranges: vec![TrimRange { offset: 2, length: 3 }; 2] };
    let link = SymbolicLink {
        substitute_name: name(),
        print_name: name(),
        flags: smb_wire::error::SymlinkFlags::RELATIVE,
    };
    vec![
        ("reparse::ReparseData<'_>", ReparseData::SymbolicLink(link).to_bytes()),
        ("ranges::ZeroData", ZeroData { file_offset: 1, beyond_final_zero: 2 }.to_bytes()),
        ("ranges::AllocatedRange", AllocatedRange { file_offset: 1, length: 2 }.to_bytes()),
        ("ranges::FileLevelTrim", trim.to_bytes()),
        (
            "ranges::RegionRequest",
            RegionRequest { file_offset: 1, length: 2, desired_usage: usage }.to_bytes(),
        ),
        ("ranges::FileRegion", FileRegion { file_offset: 1, length: 2, usage }.to_bytes()),
        ("copy::ResumeKeyResponse", ResumeKeyResponse { resume_key: ResumeKey([7; 24]) }.to_bytes()),
        ("copy::CopyChunkCopy", copy.to_bytes()),
        ("copy::CopyChunkResponse", written.to_bytes()),
        ("copy::DuplicateExtents", extents.to_bytes()),
        ("copy::DuplicateExtentsEx", ex.to_bytes()),
        ("snapshots::SnapshotArray<'_>", snapshots.to_bytes()),
        ("snapshots::TimewarpToken", timewarp.to_bytes()),
        ("quota::QueryQuota", query.to_bytes()),
        ("quota::QuotaInformation", quota.to_bytes()),
    ]
}

fn others() -> Vec<(&'static str, Vec<u8>)> {
    let owner = Sid::new(22, &[1, 1000]).unwrap();
    let unix = PosixResponse { hard_links: 1, reparse_tag: ReparseTag(0), mode: 0o644, owner, group: owner };
    let information = PosixInformation {
        creation_time: FileTime(1),
        last_access_time: FileTime(2),
        last_write_time: FileTime(3),
        change_time: FileTime(4),
        end_of_file: 5,
        allocation_size: 6,
        file_attributes: FileAttributes::NORMAL,
        inode: 7,
        device_id: 8,
        unix,
    };
    let query = ServerQuery {
        request_bitmap: QueryBitmap::SERVER_CAPS,
        client_capabilities: AppleCapabilities::SUPPORTS_READ_DIR_ATTR,
    };
    let answer = ServerQueryResponse {
        server_capabilities: Some(AppleCapabilities::UNIX_BASED),
        volume_capabilities: Some(AppleVolumeCapabilities::SUPPORTS_FULL_SYNC),
        model: Some(name()),
    };
    let attribute = FullEa { flags: EaFlags::NEED_EA, name: b"NAME", value: b"value" };
    let change = NotifyInformation { action: NotifyAction::ADDED, file_name: name() };
    let file_system = FileSystemPosixInformation { block_size: 4096, ..Default::default() };
    vec![
        ("posix::PosixRequest", PosixRequest { mode: 0o755 }.to_bytes()),
        ("posix::PosixInformation", information.to_bytes()),
        ("posix::FileSystemPosixInformation", file_system.to_bytes()),
        ("apple::ServerQuery", query.to_bytes()),
        ("apple::ServerQueryResponse<'_>", answer.to_bytes()),
        ("ea::FullEa<'_>", attribute.to_bytes()),
        ("notify::NotifyInformation<'_>", change.to_bytes()),
    ]
}

pub fn chain() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    let mut writer = NotifyWriter::new(&w, 100);
    for action in [NotifyAction::RENAMED_OLD_NAME, NotifyAction::RENAMED_NEW_NAME] {
        assert!(writer.push(&NotifyInformation { action, file_name: name() }, &mut w));
    }
    bytes
}

/// A client's write to a pipe: a bind to the server service, and a call of `NetrShareEnum`.
pub fn pipe() -> Vec<u8> {
    pipe_of(srvsvc::INTERFACE, 15, &[0, 1, 1, 4, 0, 0, u32::MAX, 0])
}

/// A client's write to the accounts pipe: a call of `SamrLookupIdsInDomain`.
pub fn accounts_pipe() -> Vec<u8> {
    pipe_of(samr::INTERFACE, 18, &[0, 1, 2, 3, 4, 2, 1000, 0, 2, 3000, 513])
}

fn pipe_of(interface: Syntax, opnum: u8, numbers: &[u32]) -> Vec<u8> {
    let length = u8::try_from(24 + 4 * numbers.len()).unwrap();
    let alloc_hint = length - 24;
    let head =
        |pdu_type, length: u8, call_id| [5, 0, pdu_type, 3, 0x10, 0, 0, 0, length, 0, 0, 0, call_id, 0, 0, 0];
    let ndr = Syntax { uuid: Guid::new(0x8a88_5d04, 0x1ceb, 0x11c9, 0x9fe8_0800_2b10_4860), version: 2 };
    let mut bytes = Vec::new();
    bytes.extend(head(11, 72, 1));
    bytes.extend([0xb8, 0x10, 0xb8, 0x10, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]);
    bytes.extend(interface.to_bytes());
    bytes.extend(ndr.to_bytes());
    bytes.extend(head(0, length, 2));
    bytes.extend([alloc_hint, 0, 0, 0, 0, 0, opnum, 0]);
    for number in numbers {
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

/// The negotiated algorithms, and a message with every kind of payload.
pub fn compressed() -> Vec<u8> {
    let text = b"all work and no play makes jack a dull boy. ".repeat(20);
    let message = [&[1; 64][..], &[0; 70], &text, &[7; 80]].concat();
    let agreed = smb_wire::compression::Compression { is_chained: true, lz77: true, pattern: true };
    [vec![7], agreed.compress(&message, 64).unwrap()].concat()
}
