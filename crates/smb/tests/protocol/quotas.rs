//! Quotas of users: what is left, the limits, and the refusals.

use crate::rig::{BOB, Client, Offer, Opening, Rig, SHARE, query};
use smb_wire::classes::file::SizeInformation;
use smb_wire::classes::file_system::{
    AttributeInformation, ControlInformation, FileSystemAttributes, FullSizeInformation,
    SizeInformation as FsSize,
};
use smb_wire::classes::{FileClass, FileSystemClass};
use smb_wire::create::CreateDisposition;
use smb_wire::dir::OutputResponse;
use smb_wire::header::Command;
use smb_wire::info::{InfoType, QueryInfoRequest};
use smb_wire::quota::{QueryQuota, QuotaControlFlags, QuotaInformation, entries};
use smb_wire::security::Sid;
use smb_wire::{Decode, Encode, FileId, NtStatus};
use vfs::{QuotaKind, QuotaLimits, QuotaRule, QuotaTarget};

const UNIT: u64 = 4096;
const ALICE_ID: u32 = 1000;
const BOB_ID: u32 = 1001;

fn limit(rig: &Rig, rules: &[(Option<u32>, u64, Option<u64>)]) {
    let rule = |&(id, bytes, soft_bytes): &(Option<u32>, u64, Option<u64>)| QuotaRule {
        target: QuotaTarget { kind: QuotaKind::User, id },
        limits: QuotaLimits { bytes: Some(bytes), soft_bytes, ..QuotaLimits::default() },
    };
    let rules: Vec<_> = rules.iter().map(rule).collect();
    rig.volume.quotas().unwrap().set_rules(&rules).unwrap();
}

fn bob(rig: &Rig) -> Client {
    let mut client = rig.connect();
    client.negotiate(&Offer::default());
    client.log_on(BOB);
    client.mount(SHARE);
    client
}

fn of_volume<T: for<'b> Decode<'b>>(client: &mut Client, file: FileId, class: FileSystemClass) -> T {
    let reply = client.call(Command::QUERY_INFO, &query(InfoType::FILESYSTEM, file, class.0, 4096));
    T::from_bytes(reply.body::<OutputResponse<&[u8]>>().output).unwrap()
}

fn attributes(client: &mut Client, file: FileId) -> FileSystemAttributes {
    let asked = query(InfoType::FILESYSTEM, file, FileSystemClass::ATTRIBUTE.0, 4096);
    let reply = client.call(Command::QUERY_INFO, &asked);
    let output = reply.body::<OutputResponse<&[u8]>>().output;
    AttributeInformation::from_bytes(output).unwrap().file_system_attributes
}

fn all() -> QueryQuota {
    QueryQuota { return_single: false, restart_scan: true, sids: Vec::new(), start: None }
}

fn ask(
    client: &mut Client,
    file_id: FileId,
    asked: &QueryQuota,
    room: u32,
) -> Result<Vec<QuotaInformation>, NtStatus> {
    let input = asked.to_bytes();
    let request = QueryInfoRequest { input: &input, ..query(InfoType::QUOTA, file_id, 0, room) };
    let reply = client.call(Command::QUERY_INFO, &request);
    if reply.status() != NtStatus::SUCCESS {
        return Err(reply.status());
    }
    Ok(entries(reply.body::<OutputResponse<&[u8]>>().output).collect::<Result<_, _>>().unwrap())
}

#[test]
fn space_of_a_volume_is_the_caller_s_quota() {
    let rig = Rig::new();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    alice.put("file", &[1; 8192]);
    let file = alice.open("file", Opening::by(CreateDisposition::OPEN));
    let of_bob = bob.open("of-bob", Opening::default());
    let before: FullSizeInformation = of_volume(&mut bob, of_bob, FileSystemClass::FULL_SIZE);
    assert!(!attributes(&mut alice, file).contains(FileSystemAttributes::VOLUME_QUOTAS));
    limit(&rig, &[(Some(ALICE_ID), 10 * UNIT, None)]);
    assert!(attributes(&mut alice, file).contains(FileSystemAttributes::VOLUME_QUOTAS));
    let full: FullSizeInformation = of_volume(&mut alice, file, FileSystemClass::FULL_SIZE);
    assert_eq!((full.total_allocation_units, full.caller_available_allocation_units), (10, 8));
    assert_eq!(full.actual_available_allocation_units, before.actual_available_allocation_units);
    let size: FsSize = of_volume(&mut alice, file, FileSystemClass::SIZE);
    assert_eq!((size.total_allocation_units, size.available_allocation_units), (10, 8));
    let unlimited: FullSizeInformation = of_volume(&mut bob, of_bob, FileSystemClass::FULL_SIZE);
    assert_eq!(unlimited, before);
}

#[test]
fn growth_past_a_quota_is_disk_full() {
    let rig = Rig::new();
    let mut alice = rig.alice();
    let file = alice.open("file", Opening::default());
    limit(&rig, &[(None, 2 * UNIT, None)]);
    assert_eq!(alice.write(file, 0, &[1; 8192]).status(), NtStatus::SUCCESS);
    alice.write(file, 8192, b"x").assert_refused(NtStatus::DISK_FULL);
    let larger = SizeInformation { size: 8193 };
    assert_eq!(alice.set(file, FileClass::END_OF_FILE, &larger), NtStatus::DISK_FULL);
    alice.create("file:stream", Opening::default());
    let stream = alice.open("file:stream", Opening::by(CreateDisposition::OPEN));
    alice.write(stream, 0, b"x").assert_refused(NtStatus::DISK_FULL);
}

#[test]
fn control_information_has_the_default_limits() {
    let rig = Rig::new();
    let mut alice = rig.alice();
    let file = alice.open("file", Opening::default());
    let control = |client: &mut Client| {
        let control: ControlInformation = of_volume(client, file, FileSystemClass::CONTROL);
        (control.default_quota_threshold, control.default_quota_limit, control.file_system_control_flags)
    };
    assert_eq!(control(&mut alice), (-1, -1, QuotaControlFlags::empty()));
    let ruled = QuotaControlFlags::TRACK | QuotaControlFlags::ENFORCE;
    limit(&rig, &[(Some(ALICE_ID), 5000, None)]);
    assert_eq!(control(&mut alice), (-1, -1, ruled));
    limit(&rig, &[(None, 9000, Some(7000))]);
    assert_eq!(control(&mut alice), (7000, 9000, ruled));
}

#[test]
fn users_see_their_own_quota_alone() {
    let rig = Rig::new();
    let (mut alice, mut bob) = (rig.alice(), bob(&rig));
    alice.put("file", &[1; 5000]);
    let file = alice.open("file", Opening::by(CreateDisposition::OPEN));
    let of_bob = bob.open("of-bob", Opening::default());
    assert_eq!(ask(&mut alice, file, &all(), 4096), Err(NtStatus::NOT_SUPPORTED));
    limit(&rig, &[(None, 1 << 20, Some(1 << 19)), (Some(BOB_ID), 1 << 21, None)]);
    let listed = ask(&mut alice, file, &all(), 4096).unwrap();
    let [own] = listed[..] else { panic!("{listed:?}") };
    assert_eq!((own.quota_used, own.quota_threshold, own.quota_limit), (8192, 1 << 19, 1 << 20));
    let next = QueryQuota { restart_scan: false, ..all() };
    assert_eq!(ask(&mut alice, file, &next, 4096), Err(NtStatus::NO_MORE_ENTRIES));
    let other = ask(&mut bob, of_bob, &all(), 4096).unwrap()[0];
    assert_eq!((other.quota_used, other.quota_threshold, other.quota_limit), (0, -1, 1 << 21));
    let of = |sids: &[Sid]| QueryQuota { sids: sids.to_vec(), ..all() };
    assert_eq!(ask(&mut alice, file, &of(&[own.sid]), 4096), Ok(vec![own]));
    assert_eq!(ask(&mut alice, file, &of(&[other.sid]), 4096), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(ask(&mut alice, file, &of(&[own.sid, other.sid]), 4096), Err(NtStatus::ACCESS_DENIED));
    let stranger = Sid::new(5, &[21, 9, 9, 9, 9]).unwrap();
    assert_eq!(ask(&mut alice, file, &of(&[stranger]), 4096), Err(NtStatus::NO_MORE_ENTRIES));
    let start = QueryQuota { start: Some(own.sid), ..all() };
    assert_eq!(ask(&mut alice, file, &start, 4096), Ok(vec![own]));
    assert_eq!(ask(&mut alice, file, &all(), 40), Err(NtStatus::BUFFER_TOO_SMALL));
    let short = query(InfoType::QUOTA, file, 0, 4096);
    alice.call(Command::QUERY_INFO, &short).assert_refused(NtStatus::INVALID_PARAMETER);
}
