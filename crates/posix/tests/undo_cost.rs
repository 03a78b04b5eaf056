//! The cost of snapshots, measured beside the same work without one: `cargo test --release -p posix --test undo_cost -- --ignored --nocapture`.

mod fixture;

use fixture::{Ground, Tree, name, new_inode};
use posix::{Options, Volumes};
use std::time::Instant;
use vfs::backend::KEEP_SET_ID;
use vfs::{Capacity, NodeRef, Provisioner, Root, ViewId, VolumeId};
use vfs_testing::UncheckedNode;

const BLOCK: usize = 4096;
const BLOCKS: usize = 8192;

fn us(begun: Instant, count: u64) -> f64 {
    begun.elapsed().as_secs_f64() * 1e6 / count as f64
}

fn overwrite(file: &NodeRef, fill: u8) -> f64 {
    let data = vec![fill; BLOCK];
    let begun = Instant::now();
    let mut at = 1;
    for _ in 0..BLOCKS {
        // A permutation of the blocks.
        at = (at * 5 + 3) % BLOCKS;
        file.write((at * BLOCK) as u64, &data, KEEP_SET_ID).unwrap();
    }
    us(begun, BLOCKS as u64)
}

fn churn(root: &NodeRef, prefix: &str, count: u64) -> (f64, f64) {
    let begun = Instant::now();
    for number in 0..count {
        root.create_unchecked(name(&format!("{prefix}{number}")), &new_inode(0o644)).unwrap();
    }
    let made = us(begun, count);
    let begun = Instant::now();
    for number in 0..count {
        root.remove(name(&format!("{prefix}{number}")), &|_| Ok(())).unwrap();
    }
    (made, us(begun, count))
}

#[test]
#[ignore = "a measurement, to be read"]
fn costs() {
    for ground in [Ground::Tmpfs, Ground::Ext4, Ground::Xfs] {
        let Some(tree) = Tree::new(ground) else { continue };
        let volumes =
            Volumes::open(&tree.path, Options { copy_snapshots: true, ..Options::default() }).unwrap();
        let own = new_inode(0o755);
        let capacity = Capacity { bytes: 1 << 30, files: 1 << 20 };
        volumes.make(VolumeId(1), &Root { mode: 0o755, uid: own.uid, gid: own.gid }, capacity).unwrap();
        let volume = volumes.open(VolumeId(1)).unwrap();
        let root = volume.root();
        let file = root.create_unchecked(name("big"), &new_inode(0o644)).unwrap().found.node;
        file.write(0, &vec![1; BLOCK * BLOCKS], KEEP_SET_ID).unwrap();
        volume.sync().unwrap();
        for number in 0..2000 {
            let old = root.create_unchecked(name(&format!("old{number}")), &new_inode(0o644)).unwrap();
            old.found.node.write(0, &[1; 8192], KEEP_SET_ID).unwrap();
        }
        overwrite(&file, 2);
        let plain = overwrite(&file, 3);
        let names = churn(&root, "a", 2000);
        volume.sync().unwrap();
        let begun = Instant::now();
        volume.snapshots().unwrap().create(ViewId(1)).unwrap();
        let created = us(begun, 1);
        let first = overwrite(&file, 4);
        let second = overwrite(&file, 5);
        let third = overwrite(&file, 6);
        let names_with = churn(&root, "b", 2000);
        let begun = Instant::now();
        for number in 0..2000 {
            root.remove(name(&format!("old{number}")), &|_| Ok(())).unwrap();
        }
        let retained = us(begun, 2000);
        println!(
            "{ground:?}: create {created:.0} us; 4 KiB: plain {plain:.1}, first {first:.1}, second {second:.1}, third {third:.1}"
        );
        println!(
            "  create/remove: plain {:.1}/{:.1}, with a snapshot {:.1}/{:.1}; remove old files {retained:.1}",
            names.0, names.1, names_with.0, names_with.1
        );
    }
}
