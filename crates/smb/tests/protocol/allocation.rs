//! Allocation sizes (MS-SMB2 §3.3.5.9.2, MS-FSA §2.1.5.15.1).

use crate::rig::{Client, Opening, Reply, Rig, SHARE, name};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{BasicInformation, SizeInformation};
use smb_wire::contexts::AllocationSize;
use smb_wire::create::{CreateContext, CreateContexts, CreateDisposition, CreateRequest, CreateResponse};
use smb_wire::header::Command;
use smb_wire::types::AccessMask;
use smb_wire::{Decode, Encode, FileTime, NtStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use vfs::{Durability, ExportRule, Time, Volume, VolumeId};
use vfs_testing::MemFs;

/// More than the volume has.
const TOO_MUCH: u64 = 1 << 60;

/// Creates or opens a file with this allocation size.
fn create(client: &mut Client, path: &str, opening: Opening, allocation_size: u64) -> Reply {
    let (wire, data) = (name(path), AllocationSize { allocation_size }.to_bytes());
    let contexts = CreateContexts(vec![CreateContext { name: AllocationSize::NAME, data: &data }]);
    let request = CreateRequest { contexts, ..opening.request(&wire) };
    client.call(Command::CREATE, &request)
}

/// Allocation size and end of file.
fn sizes(reply: &Reply) -> (u64, u64) {
    let body = reply.body::<CreateResponse<'_>>();
    (body.allocation_size, body.end_of_file)
}

#[test]
fn create_reserves_allocation_size() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let made = create(&mut client, "file", Opening::default(), 1 << 20);
    assert_eq!(sizes(&made), (1 << 20, 0));
    let file = made.body::<CreateResponse<'_>>().file_id;
    client.write(file, 0, b"data");
    client.close(file);
    assert_eq!(client.get("file"), b"data");
    let opened = create(&mut client, "file", Opening::default(), 2 << 20);
    assert_eq!(sizes(&opened), (1 << 20, 4), "a file that is there is left alone");
    let emptied = create(&mut client, "file", Opening::by(CreateDisposition::OVERWRITE), 8192);
    assert_eq!(sizes(&emptied), (8192, 0));
    let read_only = Opening { access: AccessMask::READ_ATTRIBUTES, ..Opening::default() };
    assert_eq!(sizes(&create(&mut client, "other", read_only, 4096)), (4096, 0));
    assert_eq!(sizes(&create(&mut client, "third", Opening::default(), 0)), (0, 0));
}

#[test]
fn short_context_name_is_refused() {
    let rig = Rig::new();
    let mut client = rig.alice();
    for (context, status) in [
        (&b"AlS"[..], NtStatus::INVALID_PARAMETER),
        (b"None", NtStatus::SUCCESS),
        (b"Nobody", NtStatus::SUCCESS),
    ] {
        let wire = name("file");
        let contexts = CreateContexts(vec![CreateContext { name: context, data: b"" }]);
        let request = CreateRequest { contexts, ..Opening::default().request(&wire) };
        assert_eq!(client.call(Command::CREATE, &request).status(), status, "{context:?}");
    }
}

#[test]
fn create_without_space_changes_nothing() {
    let rig = Rig::new();
    let mut client = rig.alice();
    create(&mut client, "file", Opening::default(), TOO_MUCH).assert_refused(NtStatus::DISK_FULL);
    client
        .create("file", Opening::by(CreateDisposition::OPEN))
        .assert_refused(NtStatus::OBJECT_NAME_NOT_FOUND);
    client.put("file", b"data");
    for disposition in [CreateDisposition::OVERWRITE, CreateDisposition::SUPERSEDE] {
        create(&mut client, "file", Opening::by(disposition), TOO_MUCH).assert_refused(NtStatus::DISK_FULL);
    }
    create(&mut client, "other", Opening::default(), u64::MAX).assert_refused(NtStatus::INVALID_PARAMETER);
    assert_eq!(client.get("file"), b"data");
    let file = client.open("file", Opening::default());
    let size = i64::try_from(TOO_MUCH).unwrap();
    assert_eq!(client.set(file, FileClass::ALLOCATION, &SizeInformation { size }), NtStatus::DISK_FULL);
    assert_eq!(client.get("file"), b"data");
}

#[test]
fn setting_allocation_below_size_truncates() {
    let rig = Rig::new();
    let mut client = rig.alice();
    client.put("file", b"some data");
    let file = client.open("file", Opening::default());
    for (size, left) in [(10_000, &b"some data"[..]), (9, b"some data"), (4, b"some")] {
        assert_eq!(client.set(file, FileClass::ALLOCATION, &SizeInformation { size }), NtStatus::SUCCESS);
        assert_eq!(client.get("file"), left, "{size}");
    }
    for size in [0, 4097] {
        assert_eq!(client.set(file, FileClass::ALLOCATION, &SizeInformation { size }), NtStatus::SUCCESS);
    }
    let shown = client.info(file, FileClass::STANDARD);
    assert_eq!((&shown[..8], &shown[8..16]), (&8192_u64.to_le_bytes()[..], &[0; 8][..]));
    let reader = Opening { access: AccessMask::GENERIC_READ, ..Opening::default() };
    let reading = client.open("file", reader);
    let refused = client.set(reading, FileClass::ALLOCATION, &SizeInformation { size: 1 });
    assert_eq!(refused, NtStatus::ACCESS_DENIED);
}

/// A client that sets the last write time disables automatic updates. The time belongs to the file, so streams keep it
/// as well.
#[test]
fn stream_allocation_keeps_a_set_write_time() {
    let seconds = AtomicI64::new(1000);
    // The clock advances a second at every reading.
    let clock = move || Time { seconds: seconds.fetch_add(1, Ordering::SeqCst), nanos: 0 };
    let storage = Arc::new(MemFs::new(Arc::new(clock)));
    let rig = Rig::with(ExportRule::everybody(), |_| {
        Volume::new(VolumeId(0x0101), SHARE, storage, Durability::Sync, 7)
    });
    let mut client = rig.alice();
    client.put("file:s", b"stream");
    let stream = client.open("file:s", Opening::default());
    let last_write_time = FileTime::from_unix(77, 0);
    let set = BasicInformation { last_write_time, ..BasicInformation::default() };
    assert_eq!(client.set(stream, FileClass::BASIC, &set), NtStatus::SUCCESS);
    assert_eq!(
        client.set(stream, FileClass::ALLOCATION, &SizeInformation { size: 10_000 }),
        NtStatus::SUCCESS
    );
    let told = BasicInformation::from_bytes(&client.info(stream, FileClass::BASIC)).unwrap();
    assert_eq!(told.last_write_time, last_write_time);
}
