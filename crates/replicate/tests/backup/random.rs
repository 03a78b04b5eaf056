//! Random changes, backups, deletions, sweeps and interruptions, compared with copies of the volume.

use crate::rig::{Rig, Volume, new_id, noise, random, seconds};
use proptest::prelude::*;
use replicate::{BackupId, Error, Key, Manifest, delete};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Blocking, SetAttrs, ViewId};
use vfs_testing::UncheckedNode;

#[derive(Clone, Debug)]
enum Step {
    Write {
        file: u8,
        offset: u32,
        len: u32,
    },
    Truncate {
        file: u8,
        size: u32,
    },
    Punch {
        file: u8,
        offset: u32,
        len: u32,
    },
    Remove {
        file: u8,
    },
    Link {
        file: u8,
        to: u8,
    },
    Rename {
        file: u8,
        to: u8,
    },
    /// Interrupted before so many changes of the store; goes on afterwards.
    BackUp {
        interrupted_after: Option<i64>,
    },
    Delete {
        which: u8,
    },
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let (file, at) = (0..12_u8, 0..5_000_000_u32);
    prop_oneof![
        6 => (file.clone(), at.clone(), 1..2_500_000_u32)
            .prop_map(|(file, offset, len)| Step::Write { file, offset, len }),
        2 => (file.clone(), at.clone()).prop_map(|(file, size)| Step::Truncate { file, size }),
        2 => (file.clone(), at, 1..3_000_000_u32)
            .prop_map(|(file, offset, len)| Step::Punch { file, offset, len }),
        2 => file.clone().prop_map(|file| Step::Remove { file }),
        2 => (file.clone(), file.clone()).prop_map(|(file, to)| Step::Link { file, to }),
        2 => (file.clone(), file.clone()).prop_map(|(file, to)| Step::Rename { file, to }),
        4 => proptest::option::of(0..8_i64).prop_map(|interrupted_after| Step::BackUp { interrupted_after }),
        1 => file.prop_map(|which| Step::Delete { which }),
        1 => Just(Step::Sweep),
    ]
}

struct Model {
    rig: Rig,
    volume: Volume,
    /// Each backup with a snapshot of what it must be.
    made: Vec<(Manifest, ViewId)>,
    views: u32,
    seed: u64,
    now: i64,
}

impl Model {
    fn apply(&mut self, step: &Step) {
        self.seed += 1;
        let root = self.volume.root();
        let text = |file: u8| format!("file-{file}");
        let look_up = |file: u8| {
            let name = text(file);
            root.lookup(crate::rig::name(name.as_bytes()), Blocking::Allowed).ok().map(|found| found.node)
        };
        match *step {
            Step::Write { file, offset, len } => {
                let node = look_up(file).unwrap_or_else(|| self.volume.put(&text(file), b""));
                node.write(offset.into(), &noise(self.seed, len as usize), KEEP_SET_ID).unwrap();
            }
            Step::Truncate { file, size } => {
                if let Some(node) = look_up(file) {
                    node.set_attrs(&SetAttrs { size: Some(size.into()), ..SetAttrs::default() }).unwrap();
                }
            }
            Step::Punch { file, offset, len } => {
                if let Some(node) = look_up(file) {
                    node.ranges().unwrap().punch(offset.into(), len.into(), KEEP_SET_ID).unwrap();
                }
            }
            Step::Remove { file } => {
                let _ = root.remove_unchecked(crate::rig::name(text(file).as_bytes()));
            }
            Step::Link { file, to } => {
                if let Some(node) = look_up(file) {
                    let _ = root.link_unchecked(crate::rig::name(text(to).as_bytes()), &node);
                }
            }
            Step::Rename { file, to } => {
                let (from, to) = (text(file), text(to));
                let to = crate::rig::name(to.as_bytes());
                let _ = root.rename_unchecked(crate::rig::name(from.as_bytes()), &root, to);
            }
            Step::BackUp { interrupted_after } => self.back_up(interrupted_after),
            Step::Delete { which } if !self.made.is_empty() => {
                let at = usize::from(which) % self.made.len();
                let (manifest, _) = self.made.remove(at);
                delete(&self.rig.vault, manifest.id, seconds(1), &mut random).unwrap();
            }
            Step::Delete { .. } => {}
            Step::Sweep => {
                self.now += 10_000;
                self.rig.sweep_at(self.now).unwrap();
            }
        }
        // Often the clock does not move between a change and a backup.
        self.volume.advance(i64::try_from(self.seed % 3).unwrap() * 2);
    }

    fn back_up(&mut self, interrupted_after: Option<i64>) {
        let previous = self.made.last().map(|(manifest, _)| manifest.id);
        let id: BackupId = new_id();
        if let Some(changes) = interrupted_after {
            self.rig.store.fail_after(changes);
            match self.rig.try_back_up(&self.volume, id, previous) {
                Ok(_) | Err(Error::Store(..)) => {}
                Err(error) => panic!("{error}"),
            }
            self.rig.store.heal();
        }
        let (manifest, _) = self.rig.try_back_up(&self.volume, id, previous).unwrap();
        self.views += 1;
        let view = ViewId(self.views);
        self.volume.fs.snapshots().unwrap().create(view).unwrap();
        self.made.push((manifest, view));
    }

    fn check(&self) {
        let listed: Vec<_> = self.rig.vault.list().unwrap().backups.iter().map(|found| found.id).collect();
        assert_eq!(listed.len(), self.made.len());
        for (manifest, view) in &self.made {
            let expected = self.volume.fs.snapshots().unwrap().open(*view).unwrap();
            let restored = self.rig.restore(manifest, replicate::Selection::Whole).unwrap();
            for fs in [&*expected, &restored.fs as &dyn Backend] {
                let found = replicate::compare(&self.rig.vault, manifest, fs, 9, &mut || {
                    std::ops::ControlFlow::Continue(())
                });
                assert_eq!(found.unwrap(), []);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_backup_stays_what_the_volume_was(
        steps in proptest::collection::vec(step(), 1..120),
        is_encrypted in any::<bool>(),
    ) {
        let rig = Rig::new(is_encrypted.then_some(Key([5; 32])));
        let mut model = Model { rig, volume: Volume::new(), made: Vec::new(), views: 0, seed: 0, now: 1 };
        steps.iter().for_each(|step| model.apply(step));
        model.check();
    }
}
