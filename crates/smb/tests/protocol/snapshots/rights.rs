//! Rights in views: those of the time of the snapshot, without any change.

use super::{Past, READS, at, snapshot};
use crate::durable::{Context, create};
use crate::extended_attributes;
use crate::file_information::{dispose, rename};
use crate::ioctl::copy::{copy, key_of};
use crate::ioctl::reparse;
use crate::lock::{ALONE, lock};
use crate::query_directory::scan;
use crate::rename::link;
use crate::rig::{BOB, Client, Disks, Offer, Opening, Rig, SHARE};
use crate::settings::{DEFAULT, set};
use smb_wire::classes::FileClass;
use smb_wire::classes::file::{AccessInformation, BasicInformation, SizeInformation};
use smb_wire::contexts::MaximalAccess;
use smb_wire::copy::DuplicateExtents;
use smb_wire::create::{CreateDisposition, CreateOptions, CreateResponse, OplockLevel, ShareAccess};
use smb_wire::header::Command;
use smb_wire::info::{InfoType, SecurityInformation, SetInfoRequest};
use smb_wire::ioctl::CtlCode;
use smb_wire::ranges::{FileLevelTrim, TrimRange};
use smb_wire::security::{Control, SecurityDescriptor, Sid};
use smb_wire::types::{AccessMask, FileAttributes};
use smb_wire::{Decode, Encode, FileId, NtStatus};
use vfs::{Caller, ExportRule, PendingSync, SetAttrs, ShareSettings};

const PROTECTED: NtStatus = NtStatus::MEDIA_WRITE_PROTECTED;
const DENIED: NtStatus = NtStatus::ACCESS_DENIED;

/// The ways to name `name` in the snapshot.
fn ways(name: &str) -> [(String, Vec<Context>); 2] {
    [(name.to_owned(), vec![at(1)]), (format!("~snapshot\\one\\{name}"), vec![])]
}

#[test]
fn nothing_is_made_replaced_or_deleted_in_a_view() {
    let mut past = Past::new();
    let mut status = |name: &str, opening: Opening| {
        let all = ways(name).map(|(path, contexts)| {
            create(&mut past.client, &path, opening, OplockLevel::NONE, &contexts).status()
        });
        assert_eq!(all[0], all[1], "{name} {opening:?}");
        all[0]
    };
    use CreateDisposition as By;
    for disposition in [By::SUPERSEDE, By::OVERWRITE, By::OVERWRITE_IF] {
        assert_eq!(status("doc", Opening::by(disposition)), PROTECTED, "{disposition:?}");
    }
    assert_eq!(status("doc", Opening::by(By::CREATE)), NtStatus::OBJECT_NAME_COLLISION);
    for disposition in [By::CREATE, By::OPEN_IF, By::OVERWRITE_IF, By::SUPERSEDE] {
        assert_eq!(status("new", Opening::by(disposition)), PROTECTED, "{disposition:?}");
    }
    assert_eq!(status("new", Opening { disposition: By::CREATE, ..Opening::dir() }), PROTECTED);
    assert_eq!(status("doc:new", Opening::default()), PROTECTED);
    assert_eq!(status("new:stream", Opening::default()), PROTECTED);
    let options = CreateOptions::DELETE_ON_CLOSE;
    for access in [AccessMask::DELETE, AccessMask::GENERIC_READ | AccessMask::DELETE, AccessMask::GENERIC_ALL]
    {
        for name in ["doc", "dir"] {
            assert_eq!(status(name, Opening { access, options, ..READS }), PROTECTED, "{access:?}");
        }
    }
    for top in ["~snapshot\\new", "~snapshot"] {
        let made = past.client.create(top, Opening { disposition: By::CREATE, ..Opening::dir() }).status();
        let expected = if top == "~snapshot" { NtStatus::OBJECT_NAME_COLLISION } else { PROTECTED };
        assert_eq!(made, expected, "{top}");
    }
    assert_eq!(past.get_at(1, "doc"), b"old");
    assert_eq!(past.read("doc"), Ok(b"newer".to_vec()));
}

/// Windows does the same (smb2.twrp.write): programs that always ask for the right to write can read old versions.
#[test]
fn open_with_all_rights_reads_and_its_changes_are_refused() {
    let mut past = Past::new();
    for (path, contexts) in ways("doc") {
        for access in [AccessMask::GENERIC_READ | AccessMask::GENERIC_WRITE, AccessMask::GENERIC_ALL] {
            let opening = Opening { access, disposition: CreateDisposition::OPEN_IF, ..READS };
            let reply = create(&mut past.client, &path, opening, OplockLevel::NONE, &contexts);
            let (client, file) = (&mut past.client, reply.body::<CreateResponse<'_>>().file_id);
            assert_eq!(client.data(file, 0, 100), b"old");
            client.write(file, 0, b"x").assert_refused(PROTECTED);
            let size = SizeInformation { size: 0 };
            assert_eq!(client.set(file, FileClass::END_OF_FILE, &size), PROTECTED);
            assert_eq!(
                client.set(file, FileClass::ALLOCATION, &SizeInformation { size: 1 << 20 }),
                PROTECTED
            );
            let last_write_time = smb_wire::FileTime(1 << 50);
            let basic = BasicInformation { last_write_time, ..BasicInformation::default() };
            assert_eq!(client.set(file, FileClass::BASIC, &basic), PROTECTED);
            let attribute =
                BasicInformation { file_attributes: FileAttributes::HIDDEN, ..BasicInformation::default() };
            assert_eq!(client.set(file, FileClass::BASIC, &attribute), PROTECTED);
            for (code, input) in [
                (CtlCode::SET_SPARSE, vec![1]),
                (CtlCode::SET_ZERO_DATA, [0_u64.to_le_bytes(), 3_u64.to_le_bytes()].concat()),
            ] {
                client.ioctl(file, code, &input, 0).assert_refused(PROTECTED);
            }
            let of_all = |status| if access == AccessMask::GENERIC_ALL { status } else { DENIED };
            assert_eq!(dispose(client, file, true), of_all(PROTECTED));
            assert_eq!(rename(client, file, "moved", false), of_all(NtStatus::NOT_SAME_DEVICE));
            assert_eq!(set_owner(client, file), of_all(PROTECTED));
            assert_eq!(lock(client, file, &[(0, 1, ALONE)]), DENIED, "as in a read-only export");
            client.close(file);
        }
    }
    for (path, contexts) in ways("dir") {
        let all = Opening { access: AccessMask::GENERIC_ALL, ..READS };
        let reply = create(&mut past.client, &path, all, OplockLevel::NONE, &contexts);
        let file = reply.body::<CreateResponse<'_>>().file_id;
        assert_eq!(dispose(&mut past.client, file, true), PROTECTED);
        assert_eq!(rename(&mut past.client, file, "moved", false), NtStatus::NOT_SAME_DEVICE);
    }
    assert_eq!(past.get_at(1, "doc"), b"old");
    assert_eq!(past.get_at(1, "dir\\file"), b"old");
}

#[test]
fn requests_that_change_data_or_attributes_of_a_view_are_refused() {
    let mut past = Past::new();
    let live = past.client.open("doc", Opening::default());
    let all = Opening { access: AccessMask::GENERIC_ALL, ..READS };
    let (file, dir) = (past.open_at(1, "doc", all), past.open_at(1, "dir", all));
    let client = &mut past.client;
    let key = key_of(client, live);
    copy(client, key, file, &[(0, 0, 3)]).assert_refused(PROTECTED);
    let extents = DuplicateExtents {
        source_file_id: live,
        source_file_offset: 0,
        target_file_offset: 0,
        byte_count: 3,
    };
    client.ioctl(file, CtlCode::DUPLICATE_EXTENTS_TO_FILE, &extents.to_bytes(), 0).assert_refused(PROTECTED);
    let trim = FileLevelTrim { ranges: vec![TrimRange { offset: 0, length: 3 }] };
    client.ioctl(file, CtlCode::FILE_LEVEL_TRIM, &trim.to_bytes(), 12).assert_refused(PROTECTED);
    for open in [file, dir] {
        assert_eq!(extended_attributes::set(client, open, &[(b"name", b"value")]), PROTECTED);
        assert_eq!(reparse::set(client, open, &reparse::link("target")), PROTECTED);
    }
    assert_eq!(past.get_at(1, "doc"), b"old");
}

/// Sets the owner.
fn set_owner(client: &mut Client, file_id: FileId) -> NtStatus {
    let owner = Sid::unix_user(1000);
    let descriptor = SecurityDescriptor {
        control: Control::empty(),
        owner: Some(owner),
        group: None,
        sacl: None,
        dacl: None,
    };
    let buffer = descriptor.to_bytes();
    let request = SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_info_class: 0,
        buffer: &buffer[..],
        additional_information: SecurityInformation::OWNER,
        file_id,
    };
    client.call(Command::SET_INFO, &request).status()
}

#[test]
fn maximum_allowed_gives_the_rights_to_read() {
    let mut past = Past::new();
    for (path, mut contexts) in ways("doc").into_iter().chain(ways("dir")) {
        contexts.push((MaximalAccess::NAME, vec![]));
        let most = Opening { access: AccessMask::MAXIMUM_ALLOWED, ..READS };
        let reply = create(&mut past.client, &path, most, OplockLevel::NONE, &contexts);
        let body = reply.body::<CreateResponse<'_>>();
        let told = MaximalAccess::from_bytes(body.contexts.find(MaximalAccess::NAME).unwrap()).unwrap();
        let access = past.client.info(body.file_id, FileClass::ACCESS);
        let granted = AccessInformation::from_bytes(&access).unwrap().access_flags;
        // The context tells the rights of the descriptor, as on Windows.
        assert!(
            told.maximal_access.contains(granted | AccessMask::WRITE_DATA | AccessMask::WRITE_DAC),
            "{path}"
        );
        let changes = AccessMask::GENERIC_WRITE
            | AccessMask::WRITE_DATA
            | AccessMask::APPEND_DATA
            | AccessMask::WRITE_EA
            | AccessMask::WRITE_ATTRIBUTES
            | AccessMask::WRITE_DAC
            | AccessMask::WRITE_OWNER
            | AccessMask::DELETE
            | AccessMask::DELETE_CHILD;
        assert!(!granted.intersects(changes), "{path}: {granted:?}");
        assert!(granted.contains(AccessMask::READ_DATA | AccessMask::READ_CONTROL));
    }
}

#[test]
fn files_are_not_moved_or_linked_across_the_border_of_a_view() {
    let mut past = Past::new();
    let live = past.client.open("doc", Opening::default());
    for target in ["~snapshot\\one\\moved", "~snapshot\\one\\dir\\moved", "~snapshot\\moved"] {
        let refused = [PROTECTED, NtStatus::NOT_SAME_DEVICE];
        let status = rename(&mut past.client, live, target, false);
        assert!(refused.contains(&status), "{target}: {status:?}");
        let status = link(&mut past.client, live, target);
        assert!(refused.contains(&status), "{target}: {status:?}");
    }
    assert_eq!(rename(&mut past.client, live, "~snapshot", true), DENIED, "no directory is replaced");
    assert_eq!(rename(&mut past.client, live, "~snapshot", false), NtStatus::OBJECT_NAME_COLLISION);
    let old = past.open_at(1, "doc", READS);
    let status = link(&mut past.client, old, "linked");
    assert_eq!(status, NtStatus::NOT_SAME_DEVICE);
    assert_eq!(past.read("doc"), Ok(b"newer".to_vec()));
}

fn bob(rig: &Rig) -> Client {
    let mut bob = rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    bob
}

fn chmod(rig: &Rig, name: &[u8], mode: u32) {
    let (root, caller) = (rig.namespace.load().exports()[0].root(), Caller::new(0, 0, []));
    let dir = root.open_dir(&caller, vfs::Blocking::Allowed).unwrap();
    let file = dir.lookup(name, vfs::Blocking::Allowed).unwrap().file;
    let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
    file.set_attrs(&caller, &set, None, &mut PendingSync::default()).unwrap();
}

fn open_at(client: &mut Client, view: u32, path: &str, opening: Opening) -> Result<FileId, NtStatus> {
    let reply = create(client, path, opening, OplockLevel::NONE, &[at(view)]);
    if reply.status().is_error() {
        Err(reply.status())
    } else {
        Ok(reply.body::<CreateResponse<'_>>().file_id)
    }
}

#[test]
fn rights_are_those_of_the_time_of_the_snapshot() {
    let past = Past::new();
    let rig = &past.rig;
    chmod(rig, b"doc", 0o600);
    chmod(rig, b"dir", 0o700);
    snapshot(&past.disks, &rig.volume, 2, "two");
    chmod(rig, b"doc", 0o666);
    chmod(rig, b"dir", 0o777);
    let mut bob = bob(rig);
    assert!(open_at(&mut bob, 1, "doc", READS).is_ok());
    let write = Opening { access: AccessMask::WRITE_DATA, ..READS };
    assert_eq!(open_at(&mut bob, 1, "doc", write), Err(DENIED), "he could only read");
    for access in [READS.access, AccessMask::WRITE_DATA, AccessMask::DELETE | AccessMask::READ_DATA] {
        assert_eq!(open_at(&mut bob, 2, "doc", Opening { access, ..READS }), Err(DENIED), "{access:?}");
    }
    assert_eq!(open_at(&mut bob, 2, "dir\\file", READS), Err(DENIED));
    assert_eq!(bob.create("dir\\~snapshot\\two\\file", READS).status(), DENIED);
    assert!(bob.create("dir\\~snapshot\\one\\file", READS).status() == NtStatus::SUCCESS);
    // Closed since: the live directory leads nowhere, the snapshot does.
    chmod(rig, b"dir", 0o700);
    assert_eq!(bob.create("dir\\~snapshot", READS).status(), DENIED);
    assert!(open_at(&mut bob, 1, "dir\\file", READS).is_ok());
}

#[test]
fn access_based_listing_of_a_view_hides_by_its_rights() {
    let past = Past::new();
    let rig = &past.rig;
    chmod(rig, b"doc", 0o600);
    snapshot(&past.disks, &rig.volume, 2, "two");
    chmod(rig, b"doc", 0o644);
    set(rig, ShareSettings { access_based_enumeration: true, ..DEFAULT });
    let mut bob = bob(rig);
    for (view, sees) in [(1, true), (2, false)] {
        let root = open_at(&mut bob, view, "", READS).unwrap();
        let names = scan(&mut bob, root, "*", 1 << 16).unwrap();
        assert_eq!(names.contains(&"doc".to_owned()), sees, "{names:?}");
        assert_eq!(scan(&mut bob, root, "doc", 1 << 16).is_ok_and(|names| names.len() == 1), sees);
    }
    let top = bob.open("~snapshot", READS);
    assert_eq!(scan(&mut bob, top, "*", 1 << 16).unwrap(), [".", "..", "one", "two"]);
}

#[test]
fn read_only_export_serves_views_like_its_files() {
    let disks = Disks::default();
    {
        let rig = Rig::over(&disks);
        rig.alice().put("doc", b"old");
        snapshot(&disks, &rig.volume, 1, "one");
    }
    let rig = Rig::over(&disks);
    super::add(&rig.volume, 1, "one");
    let rule = ExportRule { read_only: true, ..ExportRule::everybody() };
    let docs = vfs::Export::new("/docs", std::sync::Arc::clone(&rig.volume), vec![rule]);
    let spare = std::sync::Arc::clone(&rig.namespace.load().exports()[1]);
    rig.namespace.store(std::sync::Arc::new(vfs::Namespace::new([std::sync::Arc::new(docs), spare])));
    let mut client = rig.alice();
    let file = open_at(&mut client, 1, "doc", Opening { share: ShareAccess::empty(), ..READS }).unwrap();
    assert_eq!(client.data(file, 0, 100), b"old");
    let write = Opening { access: AccessMask::WRITE_DATA, ..READS };
    assert_eq!(open_at(&mut client, 1, "doc", write), Err(DENIED), "as without a view");
    assert_eq!(open_at(&mut client, 1, "new", Opening::default()), Err(DENIED), "as without a view");
}
