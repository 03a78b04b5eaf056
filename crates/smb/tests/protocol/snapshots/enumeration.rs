//! FSCTL_SRV_ENUMERATE_SNAPSHOTS.

use super::{Past, READS, add, snapshot};
use crate::durable::create;
use crate::rig::{BOB, Client, NOW, Offer, Opening, Rig, SHARE, output};
use smb_wire::create::OplockLevel;
use smb_wire::ioctl::CtlCode;
use smb_wire::snapshots::{GmtToken, SnapshotArray};
use smb_wire::{Decode, FileId, NtStatus};
use vfs::{Backend, Snapshot, SnapshotDirectory, Time, ViewId};

const ROOM: u32 = 1 << 16;

/// The tokens that a file's open lists, and the number and size that a client with less room gets.
#[track_caller]
fn listed(client: &mut Client, file: FileId) -> Vec<String> {
    let reply = client.ioctl(file, CtlCode::SRV_ENUMERATE_SNAPSHOTS, &[], ROOM);
    let array = SnapshotArray::from_bytes(output(&reply)).unwrap();
    let units: Vec<u16> = array.snapshots.units().collect();
    let text = String::from_utf16(&units).unwrap();
    let tokens: Vec<String> =
        text.split_terminator('\0').filter(|token| !token.is_empty()).map(str::to_owned).collect();
    assert_eq!((array.number_of_snapshots, array.number_of_snapshots_returned), (len(&tokens), len(&tokens)));
    assert_eq!(array.snap_shot_array_size, if tokens.is_empty() { 2 } else { 2 * len(&units) });
    let whole = u32::try_from(output(&reply).len()).unwrap();
    for room in [16, 17, whole - 1].into_iter().filter(|room| (16..whole).contains(room)) {
        let reply = client.ioctl(file, CtlCode::SRV_ENUMERATE_SNAPSHOTS, &[], room);
        let counted = SnapshotArray::from_bytes(output(&reply)).unwrap();
        assert_eq!(output(&reply).len(), 16, "{room}");
        assert_eq!(counted.number_of_snapshots, array.number_of_snapshots);
        assert_eq!(
            (counted.number_of_snapshots_returned, counted.snap_shot_array_size),
            (0, array.snap_shot_array_size)
        );
    }
    for room in [0, 15] {
        let reply = client.ioctl(file, CtlCode::SRV_ENUMERATE_SNAPSHOTS, &[], room);
        reply.assert_refused(NtStatus::INVALID_PARAMETER);
    }
    tokens
}

fn len<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap()
}

fn token(view: u32) -> String {
    GmtToken { seconds: NOW.seconds + i64::from(view) }.to_string()
}

#[test]
fn snapshot_list_is_empty() {
    let rig = Rig::new();
    let mut client = rig.alice();
    let file = client.open("file", Opening::default());
    let reply = client.ioctl(file, CtlCode::SRV_ENUMERATE_SNAPSHOTS, &[], 16);
    assert_eq!(output(&reply), [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(listed(&mut client, file), [""; 0]);
}

#[test]
fn file_lists_the_snapshots_that_have_its_path_newest_first() {
    let mut past = Past::new();
    past.snapshot(3, "three");
    past.client.put("later", b"x");
    past.snapshot(2, "two, made later for an earlier time");
    let all = [3, 2, 1].map(token);
    assert_eq!(all[2], "@GMT-2001.09.09-01.46.41");
    for (path, expected) in [
        ("", &all[..]),
        ("doc", &all),
        ("dir\\file", &all),
        ("dir", &all),
        ("young", &all[..2]),
        ("later", &all[1..2]),
        ("DOC", &all),
        ("doc:s", &all),
    ] {
        let file = past.client.open(path, READS);
        assert_eq!(listed(&mut past.client, file), expected, "{path}");
        past.client.close(file);
    }
    // A new file under the name of an old one has the versions of that name.
    let delete = Opening { options: smb_wire::create::CreateOptions::DELETE_ON_CLOSE, ..Opening::default() };
    let doc = past.client.open("doc", delete);
    past.client.close(doc);
    past.client.put("doc", b"another file");
    let doc = past.client.open("doc", READS);
    assert_eq!(listed(&mut past.client, doc), all);
    past.rig.volume.set_snapshot_directory(SnapshotDirectory::Hidden);
    assert_eq!(listed(&mut past.client, doc), [""; 0], "clients may not reach them");
}

#[test]
fn open_in_a_view_lists_the_versions_of_its_path() {
    let mut past = Past::new();
    past.snapshot(2, "two");
    let old = past.open_at(1, "doc", READS);
    assert_eq!(listed(&mut past.client, old), [2, 1].map(token));
    for path in ["~snapshot", "~snapshot\\one", "~snapshot\\one\\doc"] {
        let file = past.client.open(path, READS);
        assert_eq!(listed(&mut past.client, file), [""; 0], "{path}: a snapshot has no snapshots");
    }
}

#[test]
fn all_255_snapshots_are_listed() {
    let past = Past::new();
    (2..=255).for_each(|view| past.snapshot(view, &format!("number{view}")));
    let mut client = past.rig.alice();
    let file = client.open("doc", READS);
    let expected: Vec<String> = (1..=255).rev().map(token).collect();
    assert_eq!(listed(&mut client, file), expected);
}

/// Other programs may make several in a second. A client would show each token once, and open the same file with it.
#[test]
fn snapshots_of_one_second_are_listed_as_the_first_of_them() {
    let mut past = Past::new();
    past.snapshot(3, "three");
    past.disks.docs().snapshots().unwrap().create(ViewId(4)).unwrap();
    let created = Time { seconds: NOW.seconds + 3, nanos: 0 };
    let mut all: Vec<_> = past.rig.volume.snapshots().iter().cloned().collect();
    all.push(Snapshot { view: ViewId(4), name: "four".to_owned(), created });
    past.rig.volume.set_snapshots(all);
    let file = past.client.open("doc", READS);
    assert_eq!(listed(&mut past.client, file), [3, 1].map(token));
    for name in ["three", "four"] {
        let file = past.client.open(&format!("~snapshot\\{name}\\doc"), READS);
        past.client.close(file);
    }
}

#[test]
fn snapshot_that_is_listed_but_gone_is_left_out() {
    let mut past = Past::new();
    add(&past.rig.volume, 9, "vanished");
    let file = past.client.open("doc", READS);
    assert_eq!(listed(&mut past.client, file), [1].map(token));
    past.disks.docs().snapshots().unwrap().create(ViewId(9)).unwrap();
    assert_eq!(listed(&mut past.client, file), [9, 1].map(token));
}

/// Bob could not open the old versions, so he does not learn of them.
#[test]
fn directory_that_was_closed_to_a_user_lists_nothing_to_him() {
    let past = Past::new();
    let root = past.rig.namespace.load().exports()[0].root();
    let dir = root.open_dir(&vfs::Caller::new(0, 0, []), vfs::Blocking::Allowed).unwrap();
    let dir = dir.lookup(b"dir", vfs::Blocking::Allowed).unwrap().file;
    let chmod = |mode| {
        let set = vfs::SetAttrs { mode: Some(mode), ..vfs::SetAttrs::default() };
        dir.set_attrs(&vfs::Caller::new(0, 0, []), &set, None, &mut vfs::PendingSync::default()).unwrap();
    };
    chmod(0o700);
    snapshot(&past.disks, &past.rig.volume, 5, "closed");
    chmod(0o755);
    let mut bob = past.rig.connect();
    bob.negotiate(&Offer::default());
    bob.log_on(BOB);
    bob.mount(SHARE);
    let file = bob.open("dir\\file", READS);
    assert_eq!(listed(&mut bob, file), [1].map(token), "one was open to all");
    create(&mut bob, "dir\\file", READS, OplockLevel::NONE, &[super::at(5)])
        .assert_refused(NtStatus::ACCESS_DENIED);
    let mut alice = past.rig.alice();
    let file = alice.open("dir\\file", READS);
    assert_eq!(listed(&mut alice, file), [5, 1].map(token));
}
