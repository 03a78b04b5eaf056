//! Quotas of users: what is left, the limits, and the refusals.

use crate::rig::{BOB, Client, Offer, Opening, Rig, SHARE, name, query};
use smb_wire::classes::file::{DispositionInformation, RenameInformation, SizeInformation};
use smb_wire::classes::file_system::{
    AttributeInformation, ControlInformation, FileSystemAttributes, FullSizeInformation,
    SizeInformation as FsSize,
};
use smb_wire::classes::{FileClass, FileSystemClass};
use smb_wire::create::{CreateDisposition, CreateOptions, ShareAccess};
use smb_wire::dir::{DirectoryClass, OutputResponse, QueryDirectoryFlags, QueryDirectoryRequest};
use smb_wire::header::Command;
use smb_wire::info::{InfoType, QueryInfoRequest, SecurityInformation, SetInfoRequest};
use smb_wire::quota::{QueryQuota, QuotaControlFlags, QuotaInformation, entries};
use smb_wire::security::Sid;
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, FileId, NtStatus, Utf16};
use vfs::{ExportRule, QuotaKind, QuotaLimits, QuotaRule, QuotaTarget, Squash};

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

/// The index of quotas as Windows and Samba name it.
const INDEX: &str = "$Extend\\$Quota:$Q:$INDEX_ALLOCATION";

/// The open by which Samba's `smbcquotas` asks: it would write, too.
fn index() -> Opening {
    let share = ShareAccess::READ | ShareAccess::WRITE;
    Opening { access: AccessMask(0x0002_019f), share, ..Opening::by(CreateDisposition::OPEN) }
}

#[test]
fn quotas_are_asked_for_at_the_index_of_quotas() {
    let rig = Rig::new();
    let mut alice = rig.alice();
    alice.put("file", &[1; 5000]);
    alice.create(INDEX, index()).assert_refused(NtStatus::OBJECT_NAME_INVALID);
    limit(&rig, &[(None, 1 << 20, None)]);
    for name in [INDEX, "$EXTEND\\$quota:$q:$Index_Allocation"] {
        let file = alice.open(name, index());
        let listed = ask(&mut alice, file, &all(), 4096).unwrap();
        let [own] = listed[..] else { panic!("{listed:?}") };
        assert_eq!((own.quota_used, own.quota_limit), (8192, 1 << 20));
        let one = QueryQuota { sids: vec![own.sid], ..all() };
        assert_eq!(ask(&mut alice, file, &one, 4096), Ok(vec![own]));
        assert_eq!(alice.close(file).status(), NtStatus::SUCCESS);
    }
    for other in ["$Extend\\$Quota", "$Extend\\$Quota:$Q", "$Extend\\$Quota:$Q:$INDEX_ALLOCATION:$DATA"] {
        let refused = alice.create(other, index()).status();
        assert_ne!(refused, NtStatus::SUCCESS, "{other}");
    }
}

#[test]
fn index_of_quotas_gives_no_right_to_the_root() {
    let rig = Rig::new();
    limit(&rig, &[(None, 1 << 20, None)]);
    let mut alice = rig.alice();
    for disposition in
        [CreateDisposition::SUPERSEDE, CreateDisposition::CREATE, CreateDisposition::OVERWRITE_IF]
    {
        alice.create(INDEX, Opening { disposition, ..index() }).assert_refused(NtStatus::ACCESS_DENIED);
    }
    let deletes = Opening { options: CreateOptions::DELETE_ON_CLOSE, ..Opening::by(CreateDisposition::OPEN) };
    alice.create(INDEX, deletes).assert_refused(NtStatus::ACCESS_DENIED);
    let file = alice.open(INDEX, index());
    let pattern = name("*");
    let list = QueryDirectoryRequest {
        file_information_class: DirectoryClass::NAMES,
        flags: QueryDirectoryFlags::empty(),
        file_index: 0,
        file_id: file,
        file_name: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 4096,
    };
    alice.call(Command::QUERY_DIRECTORY, &list).assert_refused(NtStatus::ACCESS_DENIED);
    let hidden = DispositionInformation { delete_pending: true };
    assert_eq!(alice.set(file, FileClass::DISPOSITION, &hidden), NtStatus::ACCESS_DENIED);
    let target = name("moved");
    let rename = RenameInformation {
        replace_if_exists: false,
        root_directory: 0,
        file_name: Utf16::new(&target).unwrap(),
    };
    assert_eq!(alice.set(file, FileClass::RENAME, &rename), NtStatus::ACCESS_DENIED);
    // It shares with every other open of the root.
    let all = Opening { share: ShareAccess::empty(), access: AccessMask::MAXIMUM_ALLOWED, ..Opening::dir() };
    assert_eq!(alice.create("", all).status(), NtStatus::SUCCESS);
    assert_eq!(alice.create(INDEX, index()).status(), NtStatus::SUCCESS);
}

#[test]
fn rules_are_not_set_over_smb() {
    let rig = Rig::new();
    let mut alice = rig.alice();
    let file = alice.open("file", Opening::default());
    let set = |client: &mut Client, info_type, class: u8, buffer: &[u8]| {
        let request = SetInfoRequest {
            info_type,
            file_info_class: class,
            buffer,
            additional_information: SecurityInformation::empty(),
            file_id: file,
        };
        client.call(Command::SET_INFO, &request).status()
    };
    let control = ControlInformation { default_quota_limit: 1 << 30, ..ControlInformation::default() };
    let (control, class) = (control.to_bytes(), FileSystemClass::CONTROL.0);
    assert_eq!(set(&mut alice, InfoType::QUOTA, 0, &[0; 48]), NtStatus::NOT_SUPPORTED, "no quotas");
    assert_eq!(set(&mut alice, InfoType::FILESYSTEM, class, &control), NtStatus::NOT_SUPPORTED);
    limit(&rig, &[(None, 1 << 20, None)]);
    assert_eq!(set(&mut alice, InfoType::QUOTA, 0, &[0; 48]), NtStatus::ACCESS_DENIED);
    assert_eq!(set(&mut alice, InfoType::FILESYSTEM, class, &control), NtStatus::ACCESS_DENIED);
    let rules = rig.volume.quotas().unwrap().rules();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].limits.bytes, Some(1 << 20));
}

/// A rule that makes every user root: an administrator.
#[test]
fn root_lists_all_users_in_any_number_of_replies() {
    let rule = ExportRule { squash: Squash::All, anonymous_uid: 0, ..ExportRule::everybody() };
    let rig = Rig::with_rule(rule);
    let rules: Vec<_> = (0..40).map(|id| (Some(2000 + id), u64::from(id + 1) << 20, None)).collect();
    limit(&rig, &rules);
    let mut root = rig.alice();
    let file = root.open(INDEX, index());
    let mut limits = Vec::new();
    for round in 0.. {
        match ask(&mut root, file, &QueryQuota { restart_scan: round == 0, ..all() }, 300) {
            Ok(page) => limits.extend(page.iter().map(|entry| entry.quota_limit)),
            Err(end) => {
                assert_eq!(end, NtStatus::NO_MORE_ENTRIES);
                break;
            }
        }
        assert!(round < 100, "the listing does not end");
    }
    limits.retain(|&limit| limit != -1);
    let expected: Vec<i64> = (1..=40).map(|mib| mib << 20).collect();
    assert_eq!(limits, expected);
    let single = QueryQuota { return_single: true, ..all() };
    assert_eq!(ask(&mut root, file, &single, 4096).unwrap().len(), 1);
}
