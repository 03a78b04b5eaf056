//! A backup after another one: what it reads and what it sends.

use crate::rig::{Rig, Volume, name, new_id, noise, plain, seconds, source};
use replicate::{Error, Key, Source};
use std::ops::Range;
use std::sync::atomic::Ordering;
use vfs::backend::KEEP_SET_ID;
use vfs::{ChangedRanges, FileKey, SetAttrs, SetTime};
use vfs_testing::UncheckedNode;

const FILES: u64 = 400;
const FILE_BYTES: usize = 64 << 10;

fn many_files() -> Volume {
    let volume = Volume::new();
    for number in 0..FILES {
        volume.put(&format!("file-{number}"), &noise(number, FILE_BYTES));
    }
    volume.advance(10);
    volume
}

/// Bytes that the store has received during `act`.
fn sent(rig: &Rig, act: impl FnOnce()) -> u64 {
    let before = rig.store.sent.load(Ordering::Relaxed);
    act();
    rig.store.sent.load(Ordering::Relaxed) - before
}

#[test]
fn change_of_one_percent_sends_at_most_1_2_percent() {
    for key in [None, Some(Key([9; 32]))] {
        let (rig, volume) = (Rig::new(key), many_files());
        let mut first = None;
        let all = sent(&rig, || first = Some(rig.back_up(&volume, None)));
        for number in [3, 77, 200, 399] {
            volume.put(&format!("file-{number}"), &noise(number + 10_000, FILE_BYTES));
        }
        let first = first.unwrap();
        let mut last = None;
        let changed = sent(&rig, || {
            last = Some(rig.try_back_up(&volume, new_id(), Some(first.id)).unwrap());
        });
        let (second, progress) = last.unwrap();
        assert!(changed * 1000 <= all * 12, "{changed} of {all}");
        assert_eq!(progress.bytes_read, 4 * FILE_BYTES as u64, "others were not read");
        assert_eq!(progress.bytes_left(), Some(0));
        assert_eq!(Some(progress.files_done), progress.files_total);
        rig.check_restore(&second, &volume);
    }
}

#[test]
fn change_within_a_large_file_sends_its_chunk_only() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let large = volume.put("large", &noise(1, 30 << 20));
    volume.advance(10);
    let first = rig.back_up(&volume, None);
    large.write((7 << 20) + 5, b"changed", KEEP_SET_ID).unwrap();
    let mut second = None;
    let changed = sent(&rig, || second = Some(rig.back_up(&volume, Some(first.id))));
    assert!(changed < (1 << 20) + 20_000, "{changed}");
    let second = second.unwrap();
    rig.check_restore(&second, &volume);
    assert_eq!(second.previous, Some(first.id));
}

#[test]
fn unchanged_volume_sends_next_to_nothing() {
    let (rig, volume) = (Rig::new(None), many_files());
    let first = rig.back_up(&volume, None);
    // Reading is no change.
    volume.advance(100);
    volume
        .root()
        .lookup(name(b"file-1"), vfs::Blocking::Allowed)
        .unwrap()
        .node
        .read_vec(0, 9, vfs::Blocking::Allowed)
        .unwrap();
    let changed = sent(&rig, || drop(rig.back_up(&volume, Some(first.id))));
    assert!(changed < 20_000, "{changed}");
}

#[test]
fn change_that_hides_behind_a_set_time_is_found() {
    let (rig, volume) = (Rig::new(None), many_files());
    let first = rig.back_up(&volume, None);
    let before = volume.root().lookup(name(b"file-1"), vfs::Blocking::Allowed).unwrap();
    volume.advance(10);
    before.node.write(0, b"same size", KEEP_SET_ID).unwrap();
    let modified = Some(SetTime::To(before.attrs.modified));
    before.node.set_attrs(&SetAttrs { modified, ..SetAttrs::default() }).unwrap();
    let second = rig.back_up(&volume, Some(first.id));
    rig.check_restore(&second, &volume);
}

#[test]
fn change_in_the_second_of_the_snapshot_is_found() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let file = volume.put("file", b"before");
    let taken = seconds(volume.now());
    let (first, _) = rig.run(new_id(), &source(&volume, None, taken)).unwrap();
    // The clock shows no difference.
    file.write(0, b"after!", KEEP_SET_ID).unwrap();
    let second = rig.back_up(&volume, Some(first.id));
    rig.check_restore(&second, &volume);
}

#[test]
fn names_move_without_their_data() {
    let (rig, volume) = (Rig::new(None), many_files());
    let first = rig.back_up(&volume, None);
    let root = volume.root();
    let dir = root.make_dir_unchecked(name(b"dir"), &plain()).unwrap().found.node;
    for number in 0..100 {
        let file = format!("file-{number}");
        root.rename_unchecked(name(file.as_bytes()), &dir, name(file.as_bytes())).unwrap();
    }
    let mut second = None;
    let changed = sent(&rig, || second = Some(rig.back_up(&volume, Some(first.id))));
    assert!(changed < FILE_BYTES as u64, "{changed}");
    rig.check_restore(&second.unwrap(), &volume);
}

#[test]
fn ranges_that_the_storage_knows_to_be_equal_are_not_read() {
    struct Third;
    impl ChangedRanges for Third {
        fn may_differ(&self, _: &FileKey, range: Range<u64>) -> bool {
            range.contains(&(3 << 20))
        }
    }
    let (rig, volume) = (Rig::new(None), Volume::new());
    let large = volume.put("large", &noise(1, 10 << 20));
    let first = rig.back_up(&volume, None);
    volume.advance(10);
    large.write(3 << 20, b"changed", KEEP_SET_ID).unwrap();
    let source = Source { changes: Some(&Third), ..source(&volume, Some(first.id), seconds(2_000)) };
    let (second, progress) = rig.run(new_id(), &source).unwrap();
    assert_eq!(progress.bytes_read, 1 << 20);
    rig.check_restore(&second, &volume);
}

#[test]
fn every_backup_of_a_chain_is_restored_alone() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let mut made = Vec::new();
    for round in 0..6_u64 {
        volume.put("grows", &noise(round, 700_000 * (usize::try_from(round).unwrap() + 1)));
        volume.put(&format!("file-{round}"), &noise(round + 50, 5_000));
        volume.advance(10);
        let manifest = rig.back_up(&volume, made.last().map(|last: &replicate::Manifest| last.id));
        rig.check_restore(&manifest, &volume);
        made.push(manifest);
    }
    for (round, manifest) in made.iter().enumerate() {
        let restored = rig.restore(manifest, replicate::Selection::Whole).unwrap();
        let node = restored.root().lookup(name(b"grows"), vfs::Blocking::Allowed).unwrap();
        assert_eq!(node.attrs.size, 700_000 * (round as u64 + 1));
    }
    assert_eq!(rig.vault.list().unwrap().backups, made);
}

#[test]
fn backup_after_one_that_is_gone_is_refused() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let missing = rig.try_back_up(&volume, new_id(), Some(new_id()));
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    assert_eq!(rig.vault.unfinished().unwrap(), []);
}

#[test]
fn backup_after_one_of_another_volume_is_refused() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let first = rig.back_up(&volume, None);
    let other = Source { volume: "v2", ..source(&volume, Some(first.id), seconds(volume.now())) };
    let refused = rig.run(new_id(), &other);
    assert!(matches!(&refused, Err(Error::OtherVolume(_, name)) if name == "v1"), "{refused:?}");
    assert_eq!(rig.vault.unfinished().unwrap(), []);
}
