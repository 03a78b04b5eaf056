//! Random changes against a model: a whole copy of the tree from the time of each snapshot.

use crate::fixture::random_change::{Random, RandomChange};
use crate::fixture::trees::{Seen, anew, assert_same, tree};
use crate::fixture::{Ground, Tree, is_long};
use crate::rig::{CAPACITY, CLONE, ID, Rig, check_count, check_space};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use vfs::{Provisioner, Root, ViewId, unpaced};

/// Snapshots at once.
const SNAPSHOTS_MAX: usize = 5;

/// A run, and the steps between two of its actions: on average, or exactly for `count` and `compare`.
struct Run {
    seeds: u64,
    steps: u32,
    create: u64,
    delete: u64,
    reopen: u64,
    revert: u64,
    clone: u64,
    count: u32,
    /// A comparison of all snapshots. Each is also compared before it is deleted.
    compare: u32,
}

const SHORT: Run = Run {
    seeds: 2,
    steps: 400,
    create: 25,
    delete: 60,
    reopen: 150,
    revert: 70,
    clone: 70,
    count: 20,
    compare: 5,
};
const LONG: Run = Run {
    seeds: 5,
    steps: 100_000,
    create: 150,
    delete: 500,
    reopen: 2000,
    revert: 1000,
    clone: 1000,
    count: 500,
    compare: 1000,
};

struct Model {
    rig: Rig,
    random: Random,
    seed: u64,
    step: u32,
    /// The tree at the time of each snapshot.
    copies: BTreeMap<u32, BTreeMap<String, Seen>>,
    next: u32,
    /// A deletion has left records that the next one frees.
    was_left: bool,
}

impl Model {
    fn new(data: &Path, seed: u64) -> Self {
        let (rig, random) = (Rig::new(data), Random(seed));
        Self { rig, random, seed, step: 0, copies: BTreeMap::new(), next: 1, was_left: false }
    }

    fn run(mut self, run: &Run) {
        let mut done = 0;
        for step in 0..run.steps {
            self.step = step;
            done += u32::from(RandomChange::new(&self.rig.volume.root(), &mut self.random).run().is_ok());
            if self.random.below(run.create) == 0 {
                self.create();
            }
            if self.copies.len() >= SNAPSHOTS_MAX || self.random.below(run.delete) == 0 {
                self.delete();
            }
            if self.random.below(run.reopen) == 0 {
                self.rig = self.rig.reopened();
            }
            if self.random.below(run.revert) == 0 {
                self = self.reverted();
            }
            if self.random.below(run.clone) == 0 {
                self.clone_one();
            }
            if step.is_multiple_of(run.count) {
                check_count(&self.rig);
            }
            let listed: Vec<u32> =
                self.rig.snapshots().list().unwrap().into_iter().map(|view| view.0).collect();
            assert_eq!(listed, self.copies.keys().copied().collect::<Vec<_>>());
            if step.is_multiple_of(run.compare) {
                self.copies.keys().for_each(|view| self.compare(*view));
            }
        }
        assert!(done > run.steps / 10, "{done} of {} changes happened", run.steps);
        check_space(&self.rig, self.copies.keys().copied().collect());
    }

    fn place(&self, what: &str) -> String {
        format!("seed {}, step {}, {what}", self.seed, self.step)
    }

    /// A random snapshot.
    fn some_view(&mut self) -> Option<u32> {
        let place = self.random.below(self.copies.len().max(1) as u64);
        self.copies.keys().nth(usize::try_from(place).unwrap()).copied()
    }

    fn compare(&self, view: u32) {
        let what = self.place(&format!("snapshot {view}"));
        assert_same(&what, &tree(&self.rig.view(view).root()), &self.copies[&view]);
    }

    fn create(&mut self) {
        self.rig.snapshots().create(ViewId(self.next)).unwrap();
        self.copies.insert(self.next, tree(&self.rig.volume.root()));
        self.next += 1;
    }

    fn delete(&mut self) {
        let Some(view) = self.some_view() else { return };
        self.compare(view);
        // Some deletions are stopped, and go on with the next one.
        let mut left = self.random.below(40);
        let stops = self.random.below(3) == 0;
        let used = |rig: &Rig| rig.volumes.usage(ID).unwrap().bytes;
        let (before, own) = (used(&self.rig), self.rig.snapshots().usage(ViewId(view)).unwrap());
        self.rig
            .snapshots()
            .delete(ViewId(view), &mut |_| {
                left = left.saturating_sub(1);
                if stops && left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        self.copies.remove(&view);
        // The records of the latest snapshot stay while an earlier one needs them: the next deletion frees more.
        let is_left = stops || !self.copies.contains_key(&(self.next - 1));
        if !std::mem::replace(&mut self.was_left, is_left) && !stops {
            let freed = before - used(&self.rig);
            assert_eq!(own.own_bytes, Some(freed), "{}", self.place(&format!("snapshot {view}")));
        }
    }

    fn reverted(mut self) -> Self {
        let Some(view) = self.some_view() else { return self };
        self.rig = self.rig.reverted(view);
        let what = self.place(&format!("back at {view}"));
        assert_same(&what, &anew(&tree(&self.rig.volume.root()), true), &anew(&self.copies[&view], true));
        check_count(&self.rig);
        self
    }

    fn clone_one(&mut self) {
        let Some(view) = self.some_view() else { return };
        let volumes = &self.rig.volumes;
        let root = Root { mode: 0o755, ..self.rig.root };
        volumes.clone_volume(ID, ViewId(view), CLONE, &root, CAPACITY, &mut unpaced).unwrap();
        let what = self.place(&format!("clone of {view}"));
        let clone = volumes.open(CLONE).unwrap();
        assert_same(&what, &anew(&tree(&clone.root()), false), &anew(&self.copies[&view], false));
        drop(clone);
        volumes.remove(CLONE).unwrap();
    }
}

fn stay_as_they_were(ground: Ground) {
    let Some(tree) = Tree::new(ground) else { return };
    let run = if is_long() { LONG } else { SHORT };
    for seed in 1..=run.seeds {
        let begun = std::time::Instant::now();
        let data = tree.path.join(format!("data-{seed}"));
        std::fs::create_dir(&data).unwrap();
        Model::new(&data, seed).run(&run);
        std::fs::remove_dir_all(&data).unwrap();
        eprintln!("on {ground:?}, seed {seed}: {} s", begun.elapsed().as_secs());
    }
}

#[test]
fn snapshots_stay_as_they_were_under_random_changes_on_tmpfs() {
    stay_as_they_were(Ground::Tmpfs);
}

#[test]
fn snapshots_stay_as_they_were_under_random_changes_on_ext4() {
    stay_as_they_were(Ground::Ext4);
}

#[test]
fn snapshots_stay_as_they_were_under_random_changes_on_xfs() {
    stay_as_they_were(Ground::Xfs);
}
