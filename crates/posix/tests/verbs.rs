//! Every verb on every file system, checked against the kernel's view.

mod fixture;

use fixture::{GROUNDS, Ground, Served, Tree, name, new_inode};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::time::Duration;
use vfs::backend::{CLEAR_SET_ID, KEEP_SET_ID};
use vfs::{
    Backend, Blocking, Device, FileType, FsError, NewInode, NodeRef, SetAttrs, SetTime, Special, SyncScope,
    Time, Wait,
};
use vfs_testing::UncheckedNode;

fn everywhere(test: impl Fn(&Tree, &Served)) {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("on {ground:?}");
        let served = tree.open();
        test(&tree, &served);
    }
}

/// Names with their cookies, and whether each came with an object.
fn list(dir: &NodeRef, cookie: u64, plus: bool, max: usize) -> (Vec<(String, u64, bool)>, bool) {
    let mut entries = Vec::new();
    let end = dir
        .read_dir(cookie, plus, &mut |entry| {
            if entries.len() == max {
                return ControlFlow::Break(());
            }
            if let Some((_, attrs)) = entry.object {
                assert_eq!(attrs.file_id, entry.file_id);
            }
            entries.push((
                String::from_utf8_lossy(entry.name).into_owned(),
                entry.cookie,
                entry.object.is_some(),
            ));
            ControlFlow::Continue(())
        })
        .expect("a listing");
    (entries, end)
}

#[test]
fn written_data_reads_back_with_new_attributes() {
    everywhere(|tree, served| {
        let root = served.root();
        let file = served.file(&root, "data");
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let change = file.write(1000, &data, KEEP_SET_ID).unwrap();
        assert_eq!((change.before.size, change.after.size), (0, 201_000));
        let read = file.read_vec(500, 300_000, Blocking::Allowed).unwrap();
        assert_eq!((&read[..500], read.len()), (&[0; 500][..], 200_500));
        assert_eq!(read[500..], data);
        assert_eq!(fs::metadata(tree.path.join("data")).unwrap().len(), 201_000);
        assert_eq!(file.read_vec(201_000, 300_000, Blocking::Allowed), Ok(vec![]));
        assert_eq!(file.read_vec(u64::MAX, 300_000, Blocking::Allowed), Ok(vec![]));
        assert_eq!(file.write(u64::MAX - 1, b"xx", KEEP_SET_ID), Err(FsError::FileTooBig));
        assert_eq!(root.write(0, b"x", KEEP_SET_ID), Err(FsError::IsDirectory));
        assert_eq!(root.read_vec(0, 10, Blocking::Allowed), Err(FsError::IsDirectory));
        for scope in [SyncScope::Data, SyncScope::All] {
            assert_eq!(file.sync(scope), Ok(()));
            assert_eq!(root.sync(scope), Ok(()));
        }
        assert_eq!(served.sync(), Ok(()));
    });
}

#[test]
fn cached_data_reads_without_waiting() {
    everywhere(|_, served| {
        let file = served.file(&served.root(), "data");
        // The kernel may have evicted the pages before the check: write again.
        let is_so_once_cached = |holds: &dyn Fn() -> bool| {
            (0..100).any(|_| {
                file.write(0, &[7; 100_000], KEEP_SET_ID).unwrap();
                holds()
            })
        };
        let reads = |offset| file.read_vec(offset, 4096, Blocking::Never);
        assert!(is_so_once_cached(&|| reads(8192) == Ok(vec![7; 4096])));
        assert!(is_so_once_cached(&|| reads(99_000) == Ok(vec![7; 1000])), "short at the end is an answer");
        let is_there = |offset| file.descriptor(offset, 65_536, Blocking::Never).is_some();
        assert!(is_so_once_cached(&|| is_there(0)));
        assert!(is_so_once_cached(&|| is_there(50_000)), "the end of the file bounds the range");
    });
}

/// Whether `is_so` holds once while a file is not in the page cache. The kernel may keep busy pages, or read others
/// ahead: try again.
fn holds_when_cold(file: &fs::File, mut holds: impl FnMut() -> bool) -> bool {
    (0..500).any(|_| {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        holds()
    })
}

#[test]
fn uncached_data_would_wait() {
    let Some(tree) = Tree::new(Ground::Disk) else { return };
    fs::write(tree.path.join("cold"), vec![1; 1 << 20]).unwrap();
    let served = tree.open();
    let file = served.root().lookup(name("cold"), Blocking::Allowed).unwrap().node;
    file.sync(SyncScope::All).unwrap();
    let opened = fs::File::open(tree.path.join("cold")).unwrap();
    assert!(holds_when_cold(&opened, || file.descriptor(0, 65_536, Blocking::Never).is_none()));
    let mut read = Vec::new();
    assert!(holds_when_cold(&opened, || {
        read = b"before".to_vec();
        file.read(0, 4096, &mut read, Blocking::Never) == Err(FsError::Wait(Wait::Storage))
    }));
    assert_eq!(read, b"before", "nothing of it stays");
    assert!(file.descriptor(0, 65_536, Blocking::Allowed).is_some());
    // The kernel may have evicted the page again before the check: read again.
    let is_there_once_read = (0..100).any(|_| {
        read = b"before".to_vec();
        assert_eq!(file.read(0, 4096, &mut read, Blocking::Allowed), Ok(4096));
        file.read(0, 4096, &mut read, Blocking::Never) == Ok(4096)
    });
    assert!(is_there_once_read, "now it is in memory");
    assert_eq!(read[6..], [1; 8192]);
}

#[test]
fn new_inode_has_exact_attributes() {
    everywhere(|tree, served| {
        let root = served.root();
        let times = (Time { seconds: 1000, nanos: 5 }, Time { seconds: -7, nanos: 9 });
        let new_inode = NewInode { mode: 0o4640, uid: 1234, gid: 4321, times: Some(times), size: 0 };
        let made = root.create_unchecked(name("file"), &new_inode).unwrap();
        let attrs = made.found.attrs;
        assert_eq!((attrs.mode, attrs.uid, attrs.gid), (0o4640, 1234, 4321));
        assert_eq!((attrs.accessed, attrs.modified), times);
        assert!(made.dir.after.modified >= made.dir.before.modified);
        let found = fs::metadata(tree.path.join("file")).unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o4640, 1234, 4321));

        let plain = NewInode { mode: 0o1750, uid: 5, gid: 6, times: None, size: 0 };
        let dir = root.make_dir_unchecked(name("dir"), &plain).unwrap().found;
        assert_eq!((dir.attrs.mode, dir.attrs.uid, dir.attrs.gid), (0o1750, 5, 6));
        assert_eq!(dir.attrs.file_type, FileType::Directory);
        let specials = [
            ("link", Special::Symlink(b"to/where"), FileType::Symlink),
            ("fifo", Special::Fifo, FileType::Fifo),
            ("socket", Special::Socket, FileType::Socket),
            ("block", Special::Block(Device { major: 7, minor: 300 }), FileType::Block),
            ("char", Special::Character(Device { major: 1, minor: 3 }), FileType::Character),
        ];
        for (text, special, file_type) in specials {
            let found = root.make_special_unchecked(name(text), special, &plain).unwrap().found;
            assert_eq!(found.attrs.file_type, file_type);
            assert_eq!((found.attrs.uid, found.attrs.gid), (5, 6));
            if file_type != FileType::Symlink {
                assert_eq!(found.attrs.mode, 0o1750, "{text}");
            }
            assert_eq!(
                found.node.read_vec(0, 8, Blocking::Allowed),
                Err(FsError::Invalid),
                "{text} is never opened"
            );
            assert_eq!(found.node.sync(SyncScope::All), Ok(()));
            let set = SetAttrs { uid: Some(77), modified: Some(SetTime::To(times.0)), ..SetAttrs::default() };
            let after = found.node.set_attrs(&set).unwrap().after;
            assert_eq!((after.uid, after.modified), (77, times.0), "{text}");
        }
        let block = root.lookup(name("block"), Blocking::Allowed).unwrap().attrs.device;
        assert_eq!(block, Device { major: 7, minor: 300 });
        assert_eq!(
            root.lookup(name("link"), Blocking::Allowed).unwrap().node.read_link(),
            Ok(b"to/where".to_vec())
        );
        assert_eq!(dir.node.read_link(), Err(FsError::Invalid));
        assert!(matches!(root.create_unchecked(name("link"), &plain), Err(FsError::Exists)));
        assert!(matches!(root.make_dir_unchecked(name("file"), &plain), Err(FsError::Exists)));
    });
}

#[test]
fn attributes_set_without_opening() {
    everywhere(|tree, served| {
        let root = served.root();
        let file = served.file(&root, "file");
        let set = SetAttrs {
            mode: Some(0o6755),
            uid: Some(1),
            gid: Some(2),
            size: Some(5000),
            ..SetAttrs::default()
        };
        let change = file.set_attrs(&set).unwrap();
        assert_eq!(
            (change.after.mode, change.after.uid, change.after.gid, change.after.size),
            (0o6755, 1, 2, 5000)
        );
        assert_eq!((change.before.mode, change.before.size), (0o644, 0));
        let after = file.write(0, b"x", CLEAR_SET_ID).unwrap().after;
        assert_eq!(after.mode, 0o755, "set-id bits go with the write");
        assert_eq!(
            root.set_attrs(&SetAttrs { size: Some(0), ..SetAttrs::default() }),
            Err(FsError::IsDirectory)
        );
        // Uses a node that has only an O_PATH descriptor.
        fs::write(tree.path.join("other"), "text").unwrap();
        let other = root.lookup(name("other"), Blocking::Allowed).unwrap().node;
        let set = SetAttrs { mode: Some(0o600), accessed: Some(SetTime::Now), ..SetAttrs::default() };
        assert_eq!(other.set_attrs(&set).unwrap().after.mode, 0o600);
        assert_eq!(
            other.set_attrs(&SetAttrs { size: Some(1 << 63), ..SetAttrs::default() }),
            Err(FsError::FileTooBig)
        );
    });
}

#[test]
fn file_has_one_node_and_stable_key() {
    everywhere(|tree, served| {
        let root = served.root();
        let dir = served.dir(&root, "dir");
        let file = served.file(&dir, "a");
        file.write(0, b"content", KEEP_SET_ID).unwrap();
        let again = dir.lookup(name("a"), Blocking::Allowed).unwrap().node;
        assert!(Arc::ptr_eq(&file, &again));
        assert!(Arc::ptr_eq(&file, &dir.lookup(name("a"), Blocking::Never).unwrap().node));
        fs::rename(tree.path.join("dir/a"), tree.path.join("b")).unwrap();
        let key = file.key();
        drop((file, again, dir, root));
        let fresh = tree.open();
        assert!(matches!(fresh.node(&key, Blocking::Never), Err(FsError::Wait(Wait::Storage))));
        let file = fresh.node(&key, Blocking::Allowed).unwrap();
        assert_eq!(file.read_vec(0, 7, Blocking::Allowed), Ok(b"content".to_vec()));
        assert!(fresh.node(&key, Blocking::Never).is_ok());
    });
}

#[test]
fn removed_file_is_stale_and_frees_space() {
    everywhere(|tree, served| {
        let root = served.root();
        let retained = served.node_count();
        let file = served.file(&root, "file");
        let key = file.key();
        root.remove_unchecked(name("file")).unwrap();
        assert_eq!(file.attrs(Blocking::Never), Err(FsError::Stale));
        assert_eq!(served.node_count(), retained);
        drop(file);
        assert!(matches!(served.node(&key, Blocking::Allowed), Err(FsError::Stale)));
        assert!(matches!(root.lookup(name("file"), Blocking::Allowed), Err(FsError::NotFound)));
        // Removed by another process: the sweep drops the node.
        served.file(&root, "outside");
        assert_eq!(served.node_count(), retained + 1);
        fs::remove_file(tree.path.join("outside")).unwrap();
        served.sweep(2);
        served.sweep(2);
        assert_eq!(served.node_count(), retained + 1, "not yet idle");
        served.sweep(2);
        assert_eq!(served.node_count(), retained);
    });
}

#[test]
fn names_link_rename_and_remove() {
    everywhere(|tree, served| {
        let root = served.root();
        let (a, b) = (served.dir(&root, "a"), served.dir(&root, "b"));
        let file = served.file(&a, "file");
        let made = b.link_unchecked(name("other"), &file).unwrap();
        assert_eq!(made.found.attrs.links, 2);
        assert!(matches!(b.link_unchecked(name("other"), &file), Err(FsError::Exists)));
        assert!(matches!(b.link_unchecked(name("dir"), &a), Err(FsError::NotOwner)));
        // Two names of one file: rename has no effect.
        a.rename_unchecked(name("file"), &b, name("other")).unwrap();
        assert_eq!(file.attrs(Blocking::Never).unwrap().links, 2);
        let victim = served.file(&b, "victim");
        a.rename_unchecked(name("file"), &b, name("victim")).unwrap();
        assert_eq!(victim.attrs(Blocking::Never), Err(FsError::Stale));
        assert!(!tree.path.join("a/file").exists());

        let link = root
            .make_special_unchecked(name("link"), Special::Symlink(b"b/victim"), &new_inode(0o777))
            .unwrap();
        root.link_unchecked(name("link2"), &link.found.node).unwrap();
        assert_eq!(fs::read_link(tree.path.join("link2")).unwrap().to_str(), Some("b/victim"));

        assert_eq!(root.remove_unchecked(name("a")), Err(FsError::IsDirectory));
        assert_eq!(root.remove_dir_unchecked(name("b")), Err(FsError::NotEmpty));
        assert_eq!(root.remove_dir_unchecked(name("link")), Err(FsError::NotDirectory));
        assert_eq!(root.remove_dir_unchecked(name("none")), Err(FsError::NotFound));
        assert_eq!(root.rename_unchecked(name("a"), &root, name("b")), Err(FsError::NotEmpty));
        assert_eq!(root.rename_unchecked(name("a"), &a, name("b")), Err(FsError::Invalid), "not into itself");
        assert_eq!(root.rename_unchecked(name("link"), &root, name("a")), Err(FsError::IsDirectory));
        assert_eq!(root.rename_unchecked(name("a"), &root, name("link")), Err(FsError::NotDirectory));
        let (from, to) = root.rename_unchecked(name("link"), &b, name("link")).unwrap();
        assert_eq!(
            (from.before.file_id, to.before.file_id),
            (
                served.root().attrs(Blocking::Never).unwrap().file_id,
                b.attrs(Blocking::Never).unwrap().file_id
            )
        );
        root.remove_dir_unchecked(name("a")).unwrap();
        assert_eq!(a.attrs(Blocking::Never), Err(FsError::Stale));
        assert!(matches!(a.create_unchecked(name("x"), &new_inode(0o600)), Err(FsError::Stale)));
        let long = "x".repeat(255);
        served.file(&root, &long);
        assert!(tree.path.join(long).exists());
    });
}

#[test]
fn parent_stops_at_root() {
    everywhere(|tree, served| {
        let root = served.root();
        let a = served.dir(&root, "a");
        let b = served.dir(&a, "b");
        assert!(Arc::ptr_eq(&b.parent().unwrap().node, &a));
        assert!(Arc::ptr_eq(&a.parent().unwrap().node, &root));
        assert!(Arc::ptr_eq(&root.parent().unwrap().node, &root));
        drop((a, b, root));
        // A store of a subdirectory: a directory moved out of it has no parent there.
        fs::create_dir_all(tree.path.join("a/inner/deep")).unwrap();
        let inner = posix::Store::open(&tree.path.join("a"), posix::Options::default()).unwrap();
        let deep = inner
            .root()
            .lookup(name("inner"), Blocking::Allowed)
            .unwrap()
            .node
            .lookup(name("deep"), Blocking::Allowed)
            .unwrap();
        assert!(deep.node.parent().is_ok());
        fs::rename(tree.path.join("a/inner"), tree.path.join("moved")).unwrap();
        assert!(matches!(deep.node.parent(), Err(FsError::Stale)));
    });
}

#[test]
fn symlinks_are_returned_never_followed() {
    everywhere(|tree, served| {
        symlink("/", tree.path.join("out")).unwrap();
        let root = served.root();
        let link = root.lookup(name("out"), Blocking::Allowed).unwrap();
        assert_eq!(link.attrs.file_type, FileType::Symlink);
        assert!(matches!(link.node.lookup(name("etc"), Blocking::Allowed), Err(FsError::NotDirectory)));
        assert!(matches!(
            link.node.create_unchecked(name("x"), &new_inode(0o600)),
            Err(FsError::NotDirectory)
        ));
        assert!(matches!(root.create_unchecked(name("out"), &new_inode(0o600)), Err(FsError::Exists)));
        let mode = SetAttrs { mode: Some(0), ..SetAttrs::default() };
        assert_eq!(link.node.set_attrs(&mode), Err(FsError::NotSupported));
        assert_ne!(fs::metadata("/").unwrap().permissions().mode() & 0o7777, 0);
    });
}

#[test]
fn listing_resumes_at_cookie() {
    everywhere(|tree, served| {
        let root = served.root();
        for i in 0..3000 {
            fs::write(tree.path.join(format!("file-{i:05}")), "").unwrap();
        }
        for settled in [false, true] {
            if settled {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            for max in [100, 1111, 100_000] {
                let (mut names, mut cookie) = (Vec::new(), 0);
                loop {
                    let (entries, end) = list(&root, cookie, true, max);
                    for (text, at, has_object) in entries {
                        assert_ne!(at, 0);
                        assert_eq!(has_object, text != "..", "{text}");
                        names.push(text);
                        cookie = at;
                    }
                    if end {
                        break;
                    }
                }
                names.sort();
                names.dedup();
                assert_eq!(names.len(), 3002);
            }
        }
        // A cached page never shows old attributes or old entries.
        fs::write(tree.path.join("file-00007"), "longer").unwrap();
        fs::remove_file(tree.path.join("file-00008")).unwrap();
        let mut sizes = Vec::new();
        root.read_dir(0, true, &mut |entry| {
            assert_ne!(entry.name, b"file-00008");
            if let Some((_, attrs)) = entry.object.filter(|_| entry.name == b"file-00007") {
                sizes.push(attrs.size);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(sizes, [6]);
    });
}

#[test]
fn node_table_stays_within_budget() {
    let Some(tree) = Tree::new(Ground::Tmpfs) else { return };
    let served = tree
        .open_with(posix::Options { budget: posix::ResourceBudget::new(64, 16 << 20), ..Default::default() });
    let root = served.root();
    let referenced = served.file(&root, "held");
    for i in 0..1000 {
        served.file(&root, &format!("f{i}"));
    }
    // One per shard, plus one where the root and the referenced node are.
    assert!(served.node_count() <= 64 + 2, "{}", served.node_count());
    assert!(
        Arc::ptr_eq(&referenced, &root.lookup(name("held"), Blocking::Allowed).unwrap().node),
        "held nodes stay"
    );
}

#[test]
fn mount_point_is_not_crossed() {
    let Some(tree) = Tree::new(Ground::Tmpfs) else { return };
    let served = tree.open();
    let root = served.root();
    served.dir(&root, "covered");
    served.dir(&root, "aside");
    served.file(&root, "beside");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(list(&root, 0, true, 100).0.iter().all(|(text, _, object)| *object == (text != "..")));
    // The same file system mounted again: only the mount id differs.
    let covered = tree.path.join("covered");
    let mount = |command: &str, what: &[&std::path::Path]| {
        let status = std::process::Command::new(command).args(what).status().expect("a command");
        assert!(status.success(), "{command}");
    };
    mount("mount", &["--bind".as_ref(), &tree.path, &covered]);
    let found = (
        root.lookup(name("covered"), Blocking::Allowed).err(),
        root.lookup(name("covered"), Blocking::Never).err(),
        root.remove_dir_unchecked(name("covered")).err(),
        list(&root, 0, true, 100).0,
        root.rename_unchecked(name("covered"), &root, name("moved")).err(),
        root.rename_unchecked(name("aside"), &root, name("covered")).err(),
    );
    mount("umount", &[&covered]);
    assert_eq!(found.0, Some(FsError::CrossVolume));
    assert!(matches!(found.1, Some(FsError::CrossVolume | FsError::Wait(Wait::Storage))), "{:?}", found.1);
    assert_eq!(found.2, Some(FsError::Access));
    assert_eq!([found.4, found.5], [Some(FsError::CrossVolume); 2]);
    for (text, _, object) in found.3 {
        assert_eq!(object, text != ".." && text != "covered", "{text}");
    }
}

#[test]
fn index_finds_file_renamed_by_others() {
    let Some(tree) = Tree::new(Ground::Disk) else { return };
    let options =
        posix::Options { index: true, budget: posix::ResourceBudget::new(1, 16 << 20), ..Default::default() };
    let served = tree.open_with(options.clone());
    let root = served.root();
    let deep = served.dir(&served.dir(&root, "a"), "b");
    let keys: Vec<_> = (0..10).map(|i| served.file(&deep, &format!("f{i}")).key()).collect();
    drop(deep);
    served.sweep(0);
    assert_eq!(served.node_count(), 1, "only the root is held");
    assert!(served.node(&keys[3], Blocking::Allowed).is_ok(), "by its known place");
    fs::rename(tree.path.join("a"), tree.path.join("z")).unwrap();
    fs::rename(tree.path.join("z/b/f5"), tree.path.join("f5")).unwrap();
    fs::remove_file(tree.path.join("z/b/f6")).unwrap();
    served.sweep(0);
    for (number, key) in keys.iter().enumerate() {
        assert!(matches!(served.node(key, Blocking::Never), Err(FsError::Wait(Wait::Storage))));
        let found = served.node(key, Blocking::Allowed).err();
        assert_eq!(found, (number == 6).then_some(FsError::Stale), "f{number}");
        served.sweep(0);
    }
    // After a restart, and with an upward link that a scan must not follow.
    symlink("..", tree.path.join("z/up")).unwrap();
    let fresh = tree.open_with(options);
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(fresh.node(key, Blocking::Allowed).is_ok(), number != 6);
    }
}

#[test]
fn stores_share_node_budget() {
    const MOST: usize = 100;
    let Some(tree) = Tree::new(Ground::Tmpfs) else { return };
    let options = posix::Options { budget: posix::ResourceBudget::new(MOST, 16 << 20), ..Default::default() };
    let [busy, calm] = [(); 2].map(|()| tree.open_with(options.clone()));
    let quiet = calm.dir(&calm.root(), "quiet");
    for i in 0..3 * MOST {
        busy.file(&busy.root(), &format!("f{i}"));
    }
    assert!(busy.node_count() > MOST - 10, "one that is alone at work has nearly all: {}", busy.node_count());
    let retained: Vec<_> = (0..MOST / 4).map(|i| calm.file(&quiet, &format!("c{i}"))).collect();
    assert!(busy.node_count() + calm.node_count() <= MOST + 2, "the one with most gave them up");
    options.budget.set_nodes_max(MOST / 2);
    assert!(busy.node_count() + calm.node_count() <= MOST / 2 + 2);
    assert!(retained.iter().all(|node| node.attrs(Blocking::Allowed).is_ok()), "what is held stays");
}

/// More names than the index caches: for most files and directories it knows the parent only.
#[test]
fn index_finds_file_with_evicted_name() {
    const FILES: usize = 70_000;
    let Some(tree) = Tree::new(Ground::Tmpfs) else { return };
    let served = tree.open_with(posix::Options {
        index: true,
        budget: posix::ResourceBudget::new(1, 16 << 20),
        ..Default::default()
    });
    let root = served.root();
    let deep = served.dir(&served.dir(&served.dir(&root, "a"), "b"), "c");
    let keys: Vec<_> = (0..10).map(|i| served.file(&deep, &format!("f{i}")).key()).collect();
    let wide = served.dir(&root, "wide");
    for i in 0..FILES {
        fs::File::create(tree.path.join(format!("wide/{i}"))).unwrap();
    }
    let mut listed = Vec::new();
    wide.read_dir(0, true, &mut |entry| {
        listed.extend(entry.object.map(|(key, _)| (entry.name.to_vec(), *key)));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(listed.len(), FILES + 1);
    drop((deep, wide));
    served.sweep(0);
    for key in &keys {
        assert_eq!(served.node(key, Blocking::Allowed).unwrap().key(), *key);
        served.sweep(0);
    }
    for (text, key) in listed.iter().step_by(9_999) {
        let found = served.node(key, Blocking::Allowed).unwrap().attrs(Blocking::Allowed).unwrap().file_id;
        let path = tree.path.join("wide").join(String::from_utf8_lossy(text).as_ref());
        assert_eq!(found, fs::metadata(path).unwrap().ino());
    }
}

#[test]
fn listing_without_cache_is_complete() {
    let Some(tree) = Tree::new(Ground::Tmpfs) else { return };
    let served =
        tree.open_with(posix::Options { budget: posix::ResourceBudget::new(1000, 0), ..Default::default() });
    let root = served.root();
    for i in 0..2000 {
        served.file(&root, &format!("file-{i}"));
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (mut count, mut cookie) = (0, 0);
    loop {
        let (entries, end) = list(&root, cookie, true, 300);
        count += entries.len();
        cookie = entries.last().map_or(cookie, |(_, at, _)| *at);
        if end {
            break;
        }
    }
    assert_eq!(count, 2002);
}

/// Cached attributes are listed for a moment; excluded entries have none.
#[test]
fn filtered_listing_stats_no_other_files() {
    everywhere(|tree, served| {
        let root = served.root();
        for text in ["wanted", "other"] {
            served.file(&root, text);
        }
        // A page read so soon after a change is not cached.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (mut names, mut end) = (Vec::new(), false);
        for _ in 0..2 {
            names.clear();
            end = root
                .read_dir_of(0, true, &|name| name.starts_with(b"w"), &mut |entry| {
                    names.push((entry.name.to_vec(), entry.object.is_some()));
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
        assert!(end);
        assert_eq!(names, [(b"wanted".to_vec(), true)]);
        fs::write(tree.path.join("other"), "longer").unwrap();
        assert_eq!(listed_size(&root, "other"), Some(6));
        let stops = root.read_dir_of(0, true, &|_| true, &mut |_| ControlFlow::Break(()));
        assert_eq!(stops, Ok(false));
    });
}

fn listed_size(dir: &NodeRef, wanted: &str) -> Option<u64> {
    let mut size = None;
    dir.read_dir(0, true, &mut |entry| {
        if entry.name == wanted.as_bytes() {
            size = entry.object.map(|(_, attrs)| attrs.size);
        }
        ControlFlow::Continue(())
    })
    .expect("a listing");
    size
}

#[test]
fn listing_shows_changes_by_others() {
    everywhere(|tree, served| {
        let root = served.root();
        let file = served.file(&root, "file");
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(listed_size(&root, "file"), Some(0));
        let other = tree.open();
        let same_file = other.root().lookup(name("file"), Blocking::Allowed).unwrap().node;
        same_file.write(0, b"12345", KEEP_SET_ID).unwrap();
        assert_eq!(listed_size(&root, "file"), Some(5), "through another store of this process: at once");
        fs::write(tree.path.join("file"), b"by another process").unwrap();
        std::thread::sleep(Duration::from_millis(1010));
        assert_eq!(listed_size(&root, "file"), Some(18), "by another process: after a second");
        drop(file);
    });
}

#[test]
fn nonblocking_read_without_nowait_would_wait() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let Some(tree) = Tree::new(Ground::Disk) else { return };
    let served = tree.open();
    let file = served.file(&served.store.root(), "file");
    file.write(0, b"data", KEEP_SET_ID).unwrap();
    let read = |blocking| file.read_vec(0, 4, blocking);
    std::thread::scope(|scope| {
        // Simulates a file system without RWF_NOWAIT for this thread.
        let blind = scope.spawn(|| {
            let refusal = SeccompAction::Errno(libc::EOPNOTSUPP.unsigned_abs());
            let calls = [(libc::SYS_preadv2, Vec::new())].into();
            let arch = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(calls, SeccompAction::Allow, refusal, arch).unwrap();
            let program: BpfProgram = filter.try_into().unwrap();
            seccompiler::apply_filter(&program).unwrap();
            assert_eq!(read(Blocking::Never), Err(FsError::Wait(Wait::Storage)));
            assert_eq!(read(Blocking::Allowed).unwrap(), b"data");
        });
        blind.join().unwrap();
    });
    assert!(!served.store.knows_memory());
    assert_eq!(read(Blocking::Never), Err(FsError::Wait(Wait::Storage)));
}

/// A local user who may write a served directory can swap a new object for another one before its owner is set. That
/// object must keep its owner.
#[test]
fn swapped_in_object_keeps_its_owner() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering};
    everywhere(|tree, served| {
        let root = served.root();
        let (new, planted) = (tree.path.join("new"), tree.path.join("planted"));
        fs::create_dir(&planted).unwrap();
        // rmdir(2) fails on a directory that is not empty, wherever it is.
        fs::write(planted.join("kept"), "").unwrap();
        let retained = fs::File::open(&planted).unwrap();
        let done = AtomicBool::new(false);
        let owners = || retained.metadata().map(|found| (found.uid(), found.gid())).unwrap();
        let before = owners();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Fails while there is no new object.
                    let _ = renameat_with(CWD, &planted, CWD, &new, RenameFlags::EXCHANGE);
                }
            });
            for _ in 0..2000 {
                let _ = root
                    .make_dir_unchecked(name("new"), &NewInode { uid: 1000, gid: 1000, ..new_inode(0o755) });
                let _ = fs::remove_dir(&new);
                let _ = fs::remove_dir(&planted);
                let _ = fs::rename(&new, &planted);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(owners(), before, "a directory of root's was given away");
    });
}
