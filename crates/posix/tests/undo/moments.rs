//! A snapshot of a volume in use is one moment of it, and so is a clone.

use crate::fixture::{Tree, name, new_inode};
use crate::rig::{ALLOWED, ANY, CAPACITY, CLONE, GROUNDS, ID, Rig, check_count};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use vfs::backend::KEEP_SET_ID;
use vfs::{NodeRef, Provisioner, ViewId, unpaced};
use vfs_testing::UncheckedNode;

/// Writes of one thread: to its first file, then the same number to its second, and a new name each time.
struct Writer {
    files: [NodeRef; 2],
    dir: NodeRef,
    /// The last number that both files have.
    done: Arc<AtomicU64>,
}

const WRITE_BYTES: usize = 24 << 10;
/// Names that a writer leaves.
const NAMES: u64 = 3;

impl Writer {
    fn new(root: &NodeRef, number: usize) -> Self {
        let dir = root.make_dir_unchecked(name(&format!("w{number}")), &new_inode(0o755)).unwrap().found.node;
        let files = ["a", "b"].map(|file| {
            let file = dir.create_unchecked(name(file), &new_inode(0o644)).unwrap().found.node;
            file.write(0, &[0; WRITE_BYTES], KEEP_SET_ID).unwrap();
            file
        });
        Self { files, dir, done: Arc::default() }
    }

    fn run(&self, stop: &AtomicBool) {
        let mut number = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            for file in &self.files {
                let data = number.to_be_bytes().repeat(WRITE_BYTES / 8);
                file.write(0, &data, KEEP_SET_ID).unwrap();
            }
            self.dir.create_unchecked(name(&format!("n{number}")), &new_inode(0o644)).unwrap();
            if number > NAMES {
                self.dir.remove(name(&format!("n{}", number - NAMES)), ANY).unwrap();
            }
            // A second name of the second file.
            self.dir.link(name(&format!("l{number}")), &self.files[1], &|_| Ok(())).unwrap();
            if number > 1 {
                self.dir.remove(name(&format!("l{}", number - 1)), ANY).unwrap();
            }
            self.done.store(number, Ordering::SeqCst);
        }
    }
}

/// The numbers in the two files of a writer, and those of its names.
fn seen_of(root: &NodeRef, number: usize) -> ([u64; 2], Vec<u64>) {
    let dir = root.lookup(name(&format!("w{number}")), ALLOWED).unwrap().node;
    let files = ["a", "b"].map(|file| {
        let file = dir.lookup(name(file), ALLOWED).unwrap().node;
        let mut data = Vec::new();
        file.read(0, WRITE_BYTES, &mut data, ALLOWED).unwrap();
        let (words, rest) = data.as_chunks::<8>();
        assert!(rest.is_empty() && words.len() == WRITE_BYTES / 8);
        assert!(words.iter().all(|word| *word == words[0]), "a write is in a snapshot whole or not at all");
        u64::from_be_bytes(words[0])
    });
    let (mut names, mut links) = (Vec::new(), 1);
    dir.read_dir(0, false, &mut |entry| {
        links += u32::from(entry.name.starts_with(b"l"));
        names.extend(
            std::str::from_utf8(entry.name).unwrap().strip_prefix('n').map(|n| n.parse::<u64>().unwrap()),
        );
        ControlFlow::Continue(())
    })
    .unwrap();
    names.sort_unstable();
    let second = dir.lookup(name("b"), ALLOWED).unwrap();
    assert_eq!(second.attrs.links, links, "a link is in a snapshot with its count");
    (files, names)
}

#[test]
fn snapshot_is_one_moment_of_concurrent_changes() {
    const WRITERS: usize = 4;
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let rig = Rig::new(&tree.path);
        let writers: Vec<_> = (0..WRITERS).map(|number| Writer::new(&rig.volume.root(), number)).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            writers.iter().for_each(|writer| drop(scope.spawn(|| writer.run(&stop))));
            let mut first = BTreeMap::new();
            for view in 1..=20 {
                let before: Vec<_> =
                    writers.iter().map(|writer| writer.done.load(Ordering::SeqCst)).collect();
                rig.snapshots().create(ViewId(view)).unwrap();
                let root = rig.view(view).root();
                for (number, before) in before.into_iter().enumerate() {
                    let seen = seen_of(&root, number);
                    let ([a, b], names) = &seen;
                    assert!(*a == *b || *a == b + 1, "{ground:?}: {a} before {b}");
                    assert!(*b >= before, "{ground:?}: {b} has lost {before}");
                    assert!(names.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ground:?}: {names:?}");
                    assert!(names.last().is_none_or(|last| (b - 1..=*b).contains(last)), "{b}: {names:?}");
                    first.insert((view, number), seen);
                }
            }
            stop.store(true, Ordering::Relaxed);
            for ((view, number), seen) in &first {
                assert_eq!(seen_of(&rig.view(*view).root(), *number), *seen, "{ground:?}: snapshot {view}");
            }
        });
        check_count(&rig);
    }
}

#[test]
fn clone_of_a_volume_in_use_is_one_moment() {
    for ground in GROUNDS {
        let Some(tree) = Tree::new(ground) else { continue };
        let rig = Rig::new(&tree.path);
        let writers: Vec<_> = (0..2).map(|number| Writer::new(&rig.volume.root(), number)).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            writers.iter().for_each(|writer| drop(scope.spawn(|| writer.run(&stop))));
            for view in 1..=5 {
                rig.snapshots().create(ViewId(view)).unwrap();
                rig.volumes.clone_volume(ID, ViewId(view), CLONE, &rig.root, CAPACITY, &mut unpaced).unwrap();
                let (root, clone) = (rig.view(view).root(), rig.volumes.open(CLONE).unwrap().root());
                for number in 0..2 {
                    assert_eq!(seen_of(&clone, number), seen_of(&root, number), "{ground:?}");
                }
                drop(clone);
                rig.volumes.remove(CLONE).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
