//! Trees with everything that a volume can have.

use crate::everything::fill_tree;
use crate::rig::{Rig, Volume, name, noise, seconds};
use replicate::{Error, Key, Selection};
use vfs::volume::streams;
use vfs::{Backend, Blocking, FsError, Name, NodeRef};
use vfs_testing::UncheckedNode;

/// Makes one of everything.
pub(crate) fn fill(volume: &Volume) {
    fill_tree(&volume.root(), &|| volume.advance(3));
}

#[test]
fn restore_equals_source_with_and_without_encryption() {
    for key in [None, Some(Key([9; 32]))] {
        let (rig, volume) = (Rig::new(key), Volume::new());
        fill(&volume);
        let manifest = rig.back_up(&volume, None);
        let restored = rig.check_restore(&manifest, &volume);
        // Holes are holes there, too.
        let used = |volume: &Volume| volume.fs.usage().bytes;
        assert!(used(&restored) <= used(&volume) + 4_000_000, "{} {}", used(&restored), used(&volume));
        assert_eq!(manifest.totals.skipped, 0);
        // The mark of the hidden tree is that of its new place.
        let tree = restored.root().lookup(Name::STREAMS, Blocking::Allowed).unwrap().node;
        assert!(streams::tree_of(&restored.root()).unwrap().is_some_and(|found| found.key() == tree.key()));
    }
}

#[test]
fn restored_volume_makes_the_same_backup_again() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let restored = rig.restore(&manifest, Selection::Whole).unwrap();
    let again = rig.back_up(&restored, None);
    assert_eq!((again.totals.files, again.totals.bytes), (manifest.totals.files, manifest.totals.bytes));
    rig.check_restore(&again, &restored);
}

#[test]
fn snapshot_is_backed_up_while_the_live_volume_changes() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let snapshots = volume.fs.snapshots().unwrap();
    snapshots.create(vfs::ViewId(7)).unwrap();
    volume.put("linked", b"changed after the snapshot");
    volume.root().remove_unchecked(name(b"third")).unwrap();
    let opened = snapshots.open(vfs::ViewId(7)).unwrap();
    let source = replicate::Source { backend: &*opened, ..crate::rig::source(&volume, None, seconds(9_000)) };
    let (manifest, _) = rig.run(crate::rig::new_id(), &source).unwrap();
    let restored = rig.restore(&manifest, Selection::Whole).unwrap();
    let found =
        replicate::compare(&rig.vault, &manifest, &*opened, 9, &mut || std::ops::ControlFlow::Continue(()));
    assert_eq!(found.unwrap(), []);
    assert!(restored.root().lookup(name(b"third"), Blocking::Allowed).is_ok());
}

#[test]
fn single_paths_are_restored_with_their_directories() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let paths: [&[u8]; 3] = [b"dir/again", b"deeper/deeper", b"/set-id"];
    let restored = rig.restore(&manifest, Selection::Paths(&paths)).unwrap();
    let root = restored.root();
    let look_up = |path: &[u8]| {
        let mut names = path.split(|&byte| byte == b'/');
        names.try_fold(root.clone(), |dir: NodeRef, part| {
            Ok::<_, FsError>(dir.lookup(name(part), Blocking::Allowed)?.node)
        })
    };
    let again = look_up(b"dir/again").unwrap();
    assert_eq!(again.read_vec(0, 200_000, Blocking::Allowed).unwrap(), noise(51, 100_000));
    assert_eq!(again.attrs(Blocking::Allowed).unwrap().links, 1, "its other names were not asked for");
    assert!(
        again
            .acls()
            .unwrap()
            .access_acl(&again.attrs(Blocking::Allowed).unwrap(), Blocking::Allowed)
            .unwrap()
            .is_some()
    );
    assert!(look_up(b"deeper/deeper/deeper/deeper").is_ok());
    assert_eq!(look_up(b"set-id").unwrap().attrs(Blocking::Allowed).unwrap().mode, 0o6755);
    assert_eq!(look_up(b"dir").unwrap().attrs(Blocking::Allowed).unwrap().mode & 0o7000, 0o2000);
    assert!(look_up(b"dir/fifo").is_err() && look_up(b"sparse").is_err());
    // What exists stays.
    let again = rig.restore_to(&manifest, Selection::Paths(&[b"set-id"]), &restored);
    assert!(matches!(again, Err(Error::File(_, FsError::Exists))), "{again:?}");
    let missing = rig.restore_to(&manifest, Selection::Paths(&[b"dir/missing"]), &restored);
    assert!(matches!(missing, Err(Error::NoPath(_))), "{missing:?}");
}

#[test]
fn whole_restore_needs_an_empty_target() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let used = rig.restore_to(&manifest, Selection::Whole, &volume);
    assert!(matches!(used, Err(Error::TargetNotEmpty)), "{used:?}");
}

#[test]
fn empty_volume_is_backed_up() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let manifest = rig.back_up(&volume, None);
    assert_eq!((manifest.totals.files, manifest.totals.bytes), (1, 0));
    rig.check_restore(&manifest, &volume);
}

#[test]
fn streams_without_their_file_are_left_out() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    let gone = volume.put("gone", b"x");
    streams::restore_stream(&volume.root(), &gone.key(), b"s", &gone.attrs(Blocking::Allowed).unwrap())
        .unwrap();
    volume.put("stays", b"y");
    volume.root().remove_unchecked(name(b"gone")).unwrap();
    let manifest = rig.back_up(&volume, None);
    assert_eq!(manifest.totals.files, 2);
    rig.check_restore(&manifest, &volume);
}
