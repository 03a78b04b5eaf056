//! Costs of calls on cached files. Not run by default: `cargo test --release -p posix --test speed -- --ignored
//! --nocapture`.

mod fixture;

use fixture::{GROUNDS, Tree, name, new_inode};
use posix::{Options, Store, Volumes};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use vfs::backend::{CLEAR_SET_ID, KEEP_SET_ID};
use vfs::{Backend, Blocking, Capacity, NewInode, Provisioner, Root, SetAttrs, VolumeId};
use vfs_testing::UncheckedNode;

/// Runs `act` many times and prints the nanoseconds of one call, the best of five rounds.
fn cost(what: &str, count: u32, mut act: impl FnMut(u32)) -> Duration {
    let round = |_| {
        let start = Instant::now();
        (0..count).for_each(&mut act);
        start.elapsed() / count
    };
    let best = (0..5).map(round).min().expect("five rounds");
    eprintln!("  {what:<32} {:>8} ns", best.as_nanos());
    best
}

#[test]
#[ignore = "figures, which another load on the machine may spoil"]
fn cached_calls_cost_little() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("{ground:?}");
        let served = tree.open();
        let root = served.root();
        let file = served.file(&root, "file");
        file.write(0, &[1; 1 << 20], KEEP_SET_ID).unwrap();
        let mut buffer = [0; 4096];
        let top = std::fs::File::open(&tree.path).unwrap();
        let bare = std::fs::File::open(tree.path.join("file")).unwrap();
        cost("bare fstat", 100_000, |_| assert!(rustix::fs::fstat(&bare).is_ok()));
        cost("bare pread 4 KiB", 100_000, |i| {
            assert_eq!(rustix::io::pread(&bare, &mut buffer, u64::from(i % 256) * 4096), Ok(4096));
        });
        cost("bare statat", 100_000, |_| {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            assert!(rustix::fs::statat(&top, "file", flags).is_ok());
        });
        cost("attrs", 100_000, |_| assert!(file.attrs(Blocking::Never).is_ok()));
        let mut read = Vec::new();
        cost("read 4 KiB, now", 100_000, |i| {
            read.clear();
            assert_eq!(file.read(u64::from(i % 256) * 4096, 4096, &mut read, Blocking::Never), Ok(4096));
        });
        cost("write 4 KiB", 50_000, |i| {
            assert!(file.write(u64::from(i % 256) * 4096, &buffer, CLEAR_SET_ID).is_ok());
        });
        cost("descriptor 64 KiB, now", 100_000, |_| {
            assert!(file.descriptor(0, 65_536, Blocking::Never).is_some())
        });
        cost("lookup, now", 50_000, |_| drop(root.lookup(name("file"), Blocking::Never).unwrap()));
        cost("lookup, wait", 50_000, |_| drop(root.lookup(name("file"), Blocking::Allowed).unwrap()));
        let key = file.key();
        cost("node by key", 100_000, |_| drop(served.node(&key, Blocking::Never).unwrap()));
        cost("create and remove, own", 2000, |_| {
            root.create_unchecked(name("new"), &new_inode(0o644)).unwrap();
            root.remove_unchecked(name("new")).unwrap();
        });
        let other = NewInode { uid: 1234, gid: 1234, ..new_inode(0o644) };
        cost("create and remove, other's", 2000, |_| {
            root.create_unchecked(name("new"), &other).unwrap();
            root.remove_unchecked(name("new")).unwrap();
        });
        let dir = served.dir(&root, "dir");
        for i in 0..10_000 {
            dir.create_unchecked(name(&format!("some-file-{i}")), &new_inode(0o644)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        let list = || {
            let mut entries = 0u32;
            dir.read_dir(0, true, &mut |_| {
                entries += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
            entries
        };
        let start = Instant::now();
        assert_eq!(list(), 10_002);
        eprintln!("  {:<32} {:>8} ns", "entry of a first listing", (start.elapsed() / 10_002).as_nanos());
        let warm = cost("listing of 10,000, again", 1, |_| assert_eq!(list(), 10_002));
        eprintln!("  {:<32} {:>8} ns", "entry of it", (warm / 10_002).as_nanos());
    }
}

#[test]
#[ignore = "figures, which another load on the machine may spoil"]
fn counting_costs_little() {
    const CALLS: u32 = 20_000;
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        eprintln!("{ground:?}");
        let [plain, data] = ["plain", "data"].map(|dir| tree.path.join(dir));
        std::fs::create_dir(&plain).unwrap();
        std::fs::create_dir(&data).unwrap();
        let plain = Store::open(&plain, Options::default()).unwrap();
        let volumes = Volumes::open(&data, Options::default()).unwrap();
        let own = new_inode(0o755);
        let root = Root { mode: own.mode, uid: own.uid, gid: own.gid };
        volumes.make(VolumeId(1), &root, Capacity { bytes: 1 << 40, files: 1 << 30 }).unwrap();
        let counted = volumes.open_store(VolumeId(1)).unwrap();
        let roots = [("plain", plain.root()), ("counted", counted.root())];
        let files =
            roots.each_ref().map(|(_, root)| root.create_unchecked(name("file"), &own).unwrap().found.node);
        let mut best = [[Duration::MAX; 3]; 2];
        for _ in 0..9 {
            for (((_, root), file), best) in roots.iter().zip(&files).zip(&mut best) {
                let mut measure = |which: usize, act: &dyn Fn(u64)| {
                    let start = Instant::now();
                    (0..u64::from(CALLS)).for_each(act);
                    best[which] = best[which].min(start.elapsed() / CALLS);
                };
                file.set_attrs(&SetAttrs { size: Some(0), ..SetAttrs::default() }).unwrap();
                measure(0, &|i| assert!(file.write(i * 4096, &[1; 4096], CLEAR_SET_ID).is_ok()));
                measure(1, &|i| assert!(file.write(i % 4096 * 4096, &[2; 4096], CLEAR_SET_ID).is_ok()));
                measure(2, &|i| {
                    if i % 10 == 0 {
                        root.create_unchecked(name("new"), &own).unwrap();
                        root.remove_unchecked(name("new")).unwrap();
                    }
                });
            }
        }
        for (what, (plain, counted)) in
            ["write 4 KiB at the end", "write 4 KiB again", "create and remove, a tenth"]
                .iter()
                .zip(best[0].iter().zip(&best[1]))
        {
            let [plain, counted] = [plain, counted].map(|cost| cost.as_nanos());
            eprintln!("  {what:<32} {plain:>8} ns plain, {counted:>8} ns counted");
        }
    }
}
