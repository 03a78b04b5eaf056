//! Points, one after the other.

use crate::everything::fill_tree;
use crate::rig::{Destination, Source, check, sync, transfer};
use crate::volume::{name, noise, plain, seconds};
use replicate::Error;
use vfs::backend::KEEP_SET_ID;
use vfs::volume::streams;
use vfs::{Attrs, Blocking, Name, NodeRef, SetAttrs};
use vfs_testing::UncheckedNode;

fn attrs(node: &NodeRef) -> Attrs {
    node.attrs(Blocking::Allowed).unwrap()
}

#[test]
fn first_point_has_everything_that_a_volume_can_have() {
    let (source, destination) = (Source::new(), Destination::new());
    fill_tree(&source.volume.root(), &|| source.volume.advance(3));
    assert_eq!(sync(&source, &destination), 1);
}

#[test]
fn later_points_send_what_has_changed() {
    let (source, destination) = (Source::new(), Destination::new());
    fill_tree(&source.volume.root(), &|| source.volume.advance(3));
    let large = source.volume.put("large", &noise(1, 20 << 20));
    source.volume.advance(10);
    sync(&source, &destination);
    source.volume.advance(10);
    let quiet = transfer(&source, &destination, None);
    assert_eq!(quiet.received.unwrap().0.number, 2);
    assert!(quiet.passed < 1000, "{}", quiet.passed);

    large.write(5 << 20, &noise(2, 5000), KEEP_SET_ID).unwrap();
    source.volume.put("new", b"new");
    source.volume.advance(10);
    let changed = transfer(&source, &destination, None);
    assert_eq!(changed.served.unwrap().0.number, 3);
    check(&source, &destination, 3);
    // Three blocks of 4 KiB, and some records.
    assert!((8_000..20_000).contains(&changed.passed), "{}", changed.passed);
    // Two points stay on both sides.
    assert_eq!(*destination.points.lock(), [2, 3]);
    assert_eq!(source.points.lock().iter().map(|point| point.number).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn names_that_swap_move_and_nest_arrive() {
    let (source, destination) = (Source::new(), Destination::new());
    let root = source.volume.root();
    let dir = |parent: &vfs::NodeRef, dir: &[u8]| {
        parent.make_dir_unchecked(name(dir), &plain()).unwrap().found.node
    };
    let (a, b) = (dir(&root, b"a"), dir(&root, b"b"));
    let c = dir(&a, b"c");
    source.volume.put("x", b"one");
    source.volume.put("y", b"two");
    c.link_unchecked(name(b"z"), &source.volume.put("z", b"three")).unwrap();
    let doomed = dir(&b, b"doomed");
    dir(&doomed, b"below").create_unchecked(name(b"file"), &plain()).unwrap();
    sync(&source, &destination);

    // Two files swap.
    root.rename_unchecked(name(b"x"), &root, name(b"t")).unwrap();
    root.rename_unchecked(name(b"y"), &root, name(b"x")).unwrap();
    root.rename_unchecked(name(b"t"), &root, name(b"y")).unwrap();
    // A directory becomes the parent of its parent.
    a.rename_unchecked(name(b"c"), &root, name(b"c")).unwrap();
    root.rename_unchecked(name(b"a"), &c, name(b"a")).unwrap();
    // A file loses one of its names, and another gets it.
    root.remove_unchecked(name(b"z")).unwrap();
    root.create_unchecked(name(b"z"), &plain()).unwrap();
    // A directory takes the name of a file.
    root.remove_unchecked(name(b"x")).unwrap();
    root.rename_unchecked(name(b"b"), &root, name(b"x")).unwrap();
    // A tree goes, and a part of it stays elsewhere.
    let below = doomed.lookup(name(b"below"), Blocking::Allowed).unwrap().node;
    below.rename_unchecked(name(b"file"), &root, name(b"kept")).unwrap();
    doomed.remove_dir_unchecked(name(b"below")).unwrap();
    b.remove_dir_unchecked(name(b"doomed")).unwrap();
    sync(&source, &destination);
}

#[test]
fn handles_stay_valid_from_point_to_point() {
    let (source, destination) = (Source::new(), Destination::new());
    source.volume.put("file", b"one");
    sync(&source, &destination);
    let key = |destination: &Destination| {
        destination.backend().root().lookup(name(b"file"), Blocking::Allowed).unwrap().node.key()
    };
    let before = key(&destination);
    let root = source.volume.root();
    source.volume.put("file", b"three");
    root.rename_unchecked(name(b"file"), &root, name(b"file")).unwrap();
    sync(&source, &destination);
    assert_eq!(key(&destination), before);
}

#[test]
fn changes_without_a_later_time_arrive() {
    let (source, destination) = (Source::new(), Destination::new());
    let file = source.volume.put("file", &noise(1, 100_000));
    sync(&source, &destination);
    // The clock stands still, so the file has the same times and size.
    file.write(50_000, b"changed", KEEP_SET_ID).unwrap();
    sync(&source, &destination);
    // A clock that goes back does not matter.
    source.volume.advance(-500);
    file.write(60_000, b"again", KEEP_SET_ID).unwrap();
    sync(&source, &destination);
    file.set_attrs(&SetAttrs { size: Some(10), ..SetAttrs::default() }).unwrap();
    file.set_attrs(&SetAttrs { size: Some(90_000), ..SetAttrs::default() }).unwrap();
    sync(&source, &destination);
}

#[test]
fn streams_come_change_and_go() {
    let (source, destination) = (Source::new(), Destination::new());
    let root = source.volume.root();
    let (file, other) = (source.volume.put("file", b"data"), source.volume.put("other", b"data"));
    let stream = streams::restore_stream(&root, &file.key(), b"stream", &attrs(&file)).unwrap();
    streams::restore_stream(&root, &other.key(), b"gone", &attrs(&other)).unwrap();
    stream.write(0, &noise(3, 10_000), KEEP_SET_ID).unwrap();
    sync(&source, &destination);

    source.volume.advance(10);
    stream.write(5_000, b"changed", KEEP_SET_ID).unwrap();
    streams::restore_stream(&root, &file.key(), b"second", &attrs(&file))
        .unwrap()
        .write(0, b"new", KEEP_SET_ID)
        .unwrap();
    root.remove_unchecked(name(b"other")).unwrap();
    let tree = root.lookup(Name::STREAMS, Blocking::Allowed).unwrap().node;
    let dir_name = streams::dir_name(&other.key());
    let dir = tree.lookup(name(dir_name.as_bytes()), Blocking::Allowed).unwrap().node;
    dir.remove_unchecked(name(b":gone")).unwrap();
    tree.remove_dir_unchecked(name(dir_name.as_bytes())).unwrap();
    sync(&source, &destination);
    // Neither the streams of the removed file nor their directory stay.
    let tree = streams::tree_of(&destination.backend().root()).unwrap().unwrap();
    let dirs = crate::tree::names(&tree).iter().filter(|name| streams::key_of(name).is_some()).count();
    assert_eq!(dirs, 1);
}

#[test]
fn destination_with_files_is_refused_until_it_is_empty() {
    let (source, destination) = (Source::new(), Destination::new());
    source.volume.put("file", b"data");
    let root = destination.backend().root();
    let dir = root.make_dir_unchecked(name(b"dir"), &plain()).unwrap().found.node;
    dir.create_unchecked(name(b"file"), &plain()).unwrap();
    streams::restore_stream(&root, &dir.key(), b"stream", &attrs(&dir)).unwrap();
    let refused = transfer(&source, &destination, None).received;
    assert!(matches!(refused, Err(Error::GoBack(None))), "{refused:?}");
    destination.go_back(None);
    sync(&source, &destination);
}

#[test]
fn times_of_the_source_arrive_whatever_the_clock_of_the_destination_says() {
    let (source, destination) = (Source::new(), Destination::new());
    source.volume.put("file", b"data");
    sync(&source, &destination);
    let found = destination.backend().root().lookup(name(b"file"), Blocking::Allowed).unwrap();
    assert_eq!(found.attrs.modified, seconds(source.volume.now()));
}
