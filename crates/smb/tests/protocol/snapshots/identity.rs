//! Numbers of files and volumes, attributes, and listings of views.

use super::{Past, READS, at};
use crate::durable::create;
use crate::query_directory::{ask, names_in, output, scan};
use crate::rig::{Client, Opening, query};
use smb_wire::classes::file::{AttributeTagInformation, InternalInformation};
use smb_wire::classes::file_system::{
    AttributeInformation, DeviceCharacteristics, DeviceInformation, FileSystemAttributes, VolumeInformation,
};
use smb_wire::classes::{FileClass, FileSystemClass};
use smb_wire::contexts::OnDiskId;
use smb_wire::create::{CreateResponse, OplockLevel};
use smb_wire::dir::{DirectoryClass, OutputResponse, QueryDirectoryFlags};
use smb_wire::header::Command;
use smb_wire::info::InfoType;
use smb_wire::ioctl::CtlCode;
use smb_wire::types::FileAttributes;
use smb_wire::{Decode, FileId, chain};
use std::collections::BTreeSet;

fn number(client: &mut Client, file: FileId) -> u64 {
    let number = InternalInformation::from_bytes(&client.info(file, FileClass::INTERNAL)).unwrap();
    let all = client.info(file, FileClass::ALL);
    assert_eq!(all[64..72], number.index_number.to_le_bytes(), "in FileAllInformation");
    number.index_number
}

fn file_system(client: &mut Client, file: FileId, class: FileSystemClass) -> Vec<u8> {
    let reply = client.call(Command::QUERY_INFO, &query(InfoType::FILESYSTEM, file, class.0, 1024));
    reply.body::<OutputResponse<&[u8]>>().output.to_vec()
}

fn serial(client: &mut Client, file: FileId) -> u32 {
    let bytes = file_system(client, file, FileSystemClass::VOLUME);
    VolumeInformation::from_bytes(&bytes).unwrap().volume_serial_number
}

/// The number of the file in the listing of its directory.
fn listed(client: &mut Client, dir: FileId, name: &str) -> u64 {
    let flags = QueryDirectoryFlags::RESTART_SCANS;
    let reply = ask(client, dir, "*", DirectoryClass::ID_BOTH_DIRECTORY, flags, 1 << 16);
    let names = names_in(&reply, DirectoryClass::ID_BOTH_DIRECTORY);
    let place = names.iter().position(|listed| listed == name).unwrap_or_else(|| panic!("{names:?}"));
    let entry = chain::entries(8, output(&reply)).nth(place).unwrap().unwrap();
    let number = u64::from_le_bytes(entry[96..104].try_into().unwrap());
    if name != "." {
        let single = ask(client, dir, name, DirectoryClass::ID_BOTH_DIRECTORY, flags, 1 << 16);
        assert_eq!(output(&single)[96..104], number.to_le_bytes(), "by its name");
    }
    number
}

#[test]
fn file_has_another_number_in_each_snapshot_and_the_same_everywhere_in_it() {
    let mut past = Past::new();
    past.snapshot(2, "two");
    let mut numbers = BTreeSet::new();
    let mut serials = BTreeSet::new();
    for view in [0, 1, 2] {
        let contexts: Vec<_> =
            (view > 0).then(|| at(view)).into_iter().chain([(OnDiskId::NAME, vec![])]).collect();
        let reply = create(&mut past.client, "dir\\file", READS, OplockLevel::NONE, &contexts);
        let body = reply.body::<CreateResponse<'_>>();
        let on_disk = OnDiskId::from_bytes(body.contexts.find(OnDiskId::NAME).unwrap()).unwrap();
        let file = body.file_id;
        let client = &mut past.client;
        let seen = number(client, file);
        assert_eq!(on_disk.disk_file_id, seen);
        assert_eq!(on_disk.volume_id, u64::from(serial(client, file)));
        let object =
            crate::rig::output(&client.ioctl(file, CtlCode::CREATE_OR_GET_OBJECT_ID, &[], 64)).to_vec();
        assert_eq!(object[8..16], seen.to_le_bytes());
        let contexts = &contexts[..usize::from(view > 0)];
        let reply = create(client, "dir", READS, OplockLevel::NONE, contexts);
        let dir = reply.body::<CreateResponse<'_>>().file_id;
        assert_eq!(listed(client, dir, "file"), seen);
        assert_eq!(listed(client, dir, "."), number(client, dir));
        assert_eq!(serial(client, dir), serial(client, file));
        numbers.insert(seen);
        serials.insert(serial(client, file));
    }
    assert_eq!((numbers.len(), serials.len()), (3, 3));
    // The way does not matter.
    let old = past.open_at(1, "dir\\file", READS);
    for path in ["~snapshot\\one\\dir\\file", "dir\\~snapshot\\one\\file"] {
        let file = past.client.open(path, READS);
        assert_eq!(number(&mut past.client, file), number(&mut past.client, old), "{path}");
    }
}

#[test]
fn directory_of_snapshots_is_hidden_and_lists_directories_with_their_times() {
    let mut past = Past::new();
    past.snapshot(2, "two");
    let top = past.client.open("dir\\~snapshot", READS);
    let tag = past.client.info(top, FileClass::ATTRIBUTE_TAG);
    let attributes = AttributeTagInformation::from_bytes(&tag).unwrap().file_attributes;
    assert!(attributes.contains(FileAttributes::HIDDEN | FileAttributes::DIRECTORY));
    assert_eq!(scan(&mut past.client, top, "*", 1 << 16).unwrap(), [".", "..", "one", "two"]);
    assert_eq!(scan(&mut past.client, top, "T*", 1 << 16).unwrap(), ["two"]);
    let reply = ask(
        &mut past.client,
        top,
        "*",
        DirectoryClass::ID_BOTH_DIRECTORY,
        QueryDirectoryFlags::RESTART_SCANS,
        1 << 16,
    );
    let entries: Vec<_> = chain::entries(8, output(&reply)).map(|entry| entry.unwrap().to_vec()).collect();
    for entry in &entries[..2] {
        let attributes = u32::from_le_bytes(entry[56..60].try_into().unwrap());
        assert!(FileAttributes(attributes).contains(FileAttributes::DIRECTORY));
    }
    for (entry, view) in entries[2..].iter().zip([1, 2]) {
        let attributes = u32::from_le_bytes(entry[56..60].try_into().unwrap());
        assert!(FileAttributes(attributes).contains(FileAttributes::DIRECTORY));
        let time = smb_wire::FileTime::from_unix(crate::rig::NOW.seconds + view, 0);
        assert_eq!(entry[8..16], time.0.to_le_bytes(), "the creation time");
    }
    for name in ["one", "two", "."] {
        let path = if name == "." { "dir\\~snapshot".to_owned() } else { format!("dir\\~snapshot\\{name}") };
        let dir = past.client.open(&path, READS);
        let own = number(&mut past.client, dir);
        assert_eq!(listed(&mut past.client, top, name), own, "{name}");
        assert_eq!(listed(&mut past.client, dir, "."), own);
        past.client.close(dir);
    }
}

#[test]
fn volume_is_read_only_as_seen_from_a_view() {
    let mut past = Past::new();
    let old = past.open_at(1, "doc", READS);
    let live = past.client.open("doc", Opening::default());
    for (file, is_read_only) in [(old, true), (live, false)] {
        let bytes = file_system(&mut past.client, file, FileSystemClass::ATTRIBUTE);
        let attributes = AttributeInformation::from_bytes(&bytes).unwrap().file_system_attributes;
        assert_eq!(attributes.contains(FileSystemAttributes::READ_ONLY_VOLUME), is_read_only);
        let bytes = file_system(&mut past.client, file, FileSystemClass::DEVICE);
        let device = DeviceInformation::from_bytes(&bytes).unwrap().characteristics;
        assert_eq!(device.contains(DeviceCharacteristics::READ_ONLY), is_read_only);
        for class in [FileSystemClass::SIZE, FileSystemClass::FULL_SIZE, FileSystemClass::SECTOR_SIZE] {
            assert!(!file_system(&mut past.client, file, class).is_empty());
        }
    }
    let name = past.client.info(old, FileClass::NORMALIZED_NAME);
    assert_eq!(name[4..], crate::rig::name("doc"), "the path in the share");
    let streams = past.client.info(old, FileClass::STREAM);
    assert!(streams.windows(4).any(|bytes| bytes == crate::rig::name(":s")));
    for class in
        [FileClass::BASIC, FileClass::STANDARD, FileClass::NETWORK_OPEN, FileClass::EA, FileClass::ACCESS]
    {
        assert!(!past.client.info(old, class).is_empty());
    }
}
