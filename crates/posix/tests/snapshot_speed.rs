//! The cost of a snapshot of 100,000 files while writers and creators are at work, beside the same time without one.
//!
//! ```text
//! cargo test -p posix --test snapshot_speed -- --ignored --nocapture
//! ```

mod fixture;

use fixture::{Ground, Tree, name, new_inode};
use posix::{Options, Volumes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Capacity, NodeRef, Provisioner, Root, ViewId, VolumeId};
use vfs_testing::UncheckedNode;

const ROUND: Duration = Duration::from_secs(10);
const FILES: u32 = 100_000;
const SNAPSHOTS: u32 = 10;

/// Times of calls in microseconds, sorted.
type Times = Vec<u128>;

fn timed(ended: &AtomicBool, mut call: impl FnMut(u64)) -> Times {
    let mut times = Vec::new();
    for number in 0.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        call(number);
        times.push(begun.elapsed().as_micros());
    }
    times
}

/// Three writers of 64 KiB at random places and a creator, for one round. Meanwhile `act` runs.
fn round(volume: &Arc<dyn Backend>, files: &[NodeRef], dir: &NodeRef, act: impl FnOnce()) -> [Times; 2] {
    let ended = AtomicBool::new(false);
    let ended = &ended;
    let [mut writes, mut creates] = std::thread::scope(|scope| {
        let writers: Vec<_> = files
            .iter()
            .map(|file| {
                scope.spawn(move || {
                    timed(ended, |number| {
                        let block = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
                        file.write(block << 16, &[7; 1 << 16], KEEP_SET_ID).expect("a write");
                        // Not faster than a fast network.
                        std::thread::sleep(Duration::from_micros(500));
                    })
                })
            })
            .collect();
        let creator = scope.spawn(move || {
            timed(ended, |_| {
                dir.create_unchecked(name("new"), &new_inode(0o644)).expect("a file");
                dir.remove_unchecked(name("new")).expect("a file");
                std::thread::sleep(Duration::from_micros(500));
            })
        });
        let begun = Instant::now();
        act();
        std::thread::sleep(ROUND.saturating_sub(begun.elapsed()));
        ended.store(true, Ordering::Relaxed);
        let writes = writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect();
        [writes, creator.join().expect("a creator")]
    });
    volume.sync().expect("a flush");
    writes.sort_unstable();
    creates.sort_unstable();
    [writes, creates]
}

/// A volume with 100,000 files.
fn large_volume(volumes: &Volumes) -> Arc<dyn Backend> {
    let own = new_inode(0o755);
    let root = Root { mode: own.mode, uid: own.uid, gid: own.gid };
    volumes.make(VolumeId(1), &root, Capacity { bytes: 1 << 40, files: 1 << 20 }).expect("a volume");
    let volume = volumes.open(VolumeId(1)).expect("a volume");
    let dir = volume.root();
    for sub in 0..FILES / 1000 {
        let sub = dir.make_dir_unchecked(name(&format!("d{sub}")), &own).expect("a directory").found.node;
        for file in 0..1000 {
            sub.create_unchecked(name(&format!("f{file}")), &new_inode(0o644)).expect("a file");
        }
    }
    volume
}

#[test]
#[ignore = "measures"]
fn snapshot_beside_writers() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let volumes = Volumes::open(&tree.path, Options::default()).expect("volumes");
    let volume = large_volume(&volumes);
    let dir = volume.root();
    let files: Vec<_> = ["one", "two", "three"]
        .map(|text| dir.create_unchecked(name(text), &new_inode(0o644)).expect("a file").found.node)
        .into();
    volume.sync().expect("a flush");
    let snapshots = volume.snapshots().expect("snapshots");
    let mut view = 0;
    for repeat in 0..2 {
        for what in ["nothing", "flushes", "snapshots"] {
            let mut took = Vec::new();
            let times = round(&volume, &files, &dir, || {
                for _ in 0..SNAPSHOTS {
                    let begun = Instant::now();
                    match what {
                        "flushes" => volume.sync().expect("a flush"),
                        "snapshots" => {
                            view += 1;
                            snapshots.create(ViewId(view)).expect("a snapshot");
                        }
                        _ => {}
                    }
                    took.push(begun.elapsed().as_micros());
                    std::thread::sleep(ROUND / (SNAPSHOTS + 1));
                }
            });
            took.sort_unstable();
            eprintln!("{repeat} {what}: median {} us, longest {:?} us", took[took.len() / 2], took.last());
            for (kind, times) in ["write", "create+remove"].iter().zip(times) {
                let at = |per_mille: usize| times[times.len() * per_mille / 1000];
                let max = times.last().copied().unwrap_or(0);
                eprintln!(
                    "  {kind}: {} calls, median {}, 99 % {}, 99.9 % {}, longest {max} us",
                    times.len(),
                    at(500),
                    at(990),
                    at(999)
                );
            }
        }
    }
}

#[test]
#[ignore = "measures"]
fn many_snapshots_of_idle_volume() {
    let Some(tree) = Tree::new(Ground::Btrfs) else { return };
    let volumes = Volumes::open(&tree.path, Options::default()).expect("volumes");
    let volume = large_volume(&volumes);
    volume.sync().expect("a flush");
    let snapshots = volume.snapshots().expect("snapshots");
    let mut took = Vec::new();
    for view in 1..=255 {
        let begun = Instant::now();
        snapshots.create(ViewId(view)).expect("a snapshot");
        took.push(begun.elapsed().as_micros());
    }
    let mean = |took: &[u128]| took.iter().sum::<u128>() / took.len() as u128;
    eprintln!("first {}, first ten {}, last ten {} us", took[0], mean(&took[..10]), mean(&took[245..]));
    let begun = Instant::now();
    for view in 1..=255 {
        snapshots.delete(ViewId(view), &mut |_| std::ops::ControlFlow::Continue(())).expect("a deletion");
    }
    eprintln!("deleted all in {} ms", begun.elapsed().as_millis());
}
