//! Random changes, cuts and crashes.

use crate::rig::{Destination, Source, check, sync, transfer};
use crate::volume::{name, noise, plain};
use proptest::prelude::*;
use replicate::Error;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, NodeRef, SetAttrs};
use vfs_testing::UncheckedNode;

#[derive(Clone, Debug)]
enum Step {
    Write { dir: u8, file: u8, offset: u32, len: u32 },
    Truncate { dir: u8, file: u8, size: u32 },
    Punch { dir: u8, file: u8, offset: u32, len: u32 },
    Remove { dir: u8, file: u8 },
    Link { dir: u8, file: u8, to_dir: u8, to: u8 },
    Rename { dir: u8, file: u8, to_dir: u8, to: u8 },
    MakeDir { dir: u8, file: u8 },
    Sync { cut: Option<usize>, is_killed: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let (dir, file, at) = (0..4_u8, 0..6_u8, 0..600_000_u32);
    let place = (dir, file);
    prop_oneof![
        5 => (place.clone(), at.clone(), 1..300_000_u32)
            .prop_map(|((dir, file), offset, len)| Step::Write { dir, file, offset, len }),
        2 => (place.clone(), at.clone()).prop_map(|((dir, file), size)| Step::Truncate { dir, file, size }),
        2 => (place.clone(), at, 1..300_000_u32)
            .prop_map(|((dir, file), offset, len)| Step::Punch { dir, file, offset, len }),
        3 => place.clone().prop_map(|(dir, file)| Step::Remove { dir, file }),
        3 => (place.clone(), place.clone())
            .prop_map(|((dir, file), (to_dir, to))| Step::Link { dir, file, to_dir, to }),
        5 => (place.clone(), place.clone())
            .prop_map(|((dir, file), (to_dir, to))| Step::Rename { dir, file, to_dir, to }),
        3 => place.prop_map(|(dir, file)| Step::MakeDir { dir, file }),
        4 => (proptest::option::of(0..400_000_usize), any::<bool>())
            .prop_map(|(cut, is_killed)| Step::Sync { cut, is_killed }),
    ]
}

struct Model {
    source: Source,
    destination: Destination,
    /// Directories that were made, wherever they are now.
    dirs: Vec<NodeRef>,
    seed: u64,
}

impl Model {
    fn dir(&self, dir: u8) -> NodeRef {
        let dir = &self.dirs[usize::from(dir) % self.dirs.len()];
        if dir.attrs(Blocking::Allowed).is_ok() { dir.clone() } else { self.source.volume.root() }
    }

    fn apply(mut self, step: &Step) -> Self {
        self.seed += 1;
        let text = |file: u8| format!("file-{file}");
        let look_up = |dir: &NodeRef, file: u8| {
            dir.lookup(name(text(file).as_bytes()), Blocking::Allowed).ok().map(|found| found.node)
        };
        match *step {
            Step::Write { dir, file, offset, len } => {
                let dir = self.dir(dir);
                let node = look_up(&dir, file).unwrap_or_else(|| {
                    dir.create_unchecked(name(text(file).as_bytes()), &plain()).unwrap().found.node
                });
                let _ = node.write(offset.into(), &noise(self.seed, len as usize), KEEP_SET_ID);
            }
            Step::Truncate { dir, file, size } => {
                if let Some(node) = look_up(&self.dir(dir), file) {
                    let _ = node.set_attrs(&SetAttrs { size: Some(size.into()), ..SetAttrs::default() });
                }
            }
            Step::Punch { dir, file, offset, len } => {
                if let Some(node) = look_up(&self.dir(dir), file) {
                    let _ = node.ranges().unwrap().punch(offset.into(), len.into(), KEEP_SET_ID);
                }
            }
            Step::Remove { dir, file } => {
                let (dir, file) = (self.dir(dir), text(file));
                let file = name(file.as_bytes());
                let _ = dir.remove_unchecked(file).or_else(|_| dir.remove_dir_unchecked(file));
            }
            Step::Link { dir, file, to_dir, to } => {
                if let Some(node) = look_up(&self.dir(dir), file) {
                    let _ = self.dir(to_dir).link_unchecked(name(text(to).as_bytes()), &node);
                }
            }
            Step::Rename { dir, file, to_dir, to } => {
                let (from, to) = (text(file), text(to));
                let to_dir = self.dir(to_dir);
                let to = name(to.as_bytes());
                let _ = self.dir(dir).rename_unchecked(name(from.as_bytes()), &to_dir, to);
            }
            Step::MakeDir { dir, file } => {
                let made = self.dir(dir).make_dir_unchecked(name(text(file).as_bytes()), &plain());
                self.dirs.extend(made.map(|made| made.found.node));
            }
            Step::Sync { cut, is_killed } => {
                match transfer(&self.source, &self.destination, cut).received {
                    Ok((point, _)) => check(&self.source, &self.destination, point.number),
                    Err(Error::Link(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                if is_killed {
                    self.destination = self.destination.crash();
                }
                if let Some(last) = self.destination.last() {
                    crate::rig::assert_same(&self.source.describe(last), &self.destination.describe(last));
                }
            }
        }
        // Often the clock does not move between a change and a point.
        self.source.volume.advance(i64::try_from(self.seed % 3).unwrap() * 2);
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn destination_is_always_one_point_of_the_source(steps in proptest::collection::vec(step(), 1..120)) {
        let source = Source::new();
        let dirs = vec![vfs::Backend::root(&source.volume.fs)];
        let destination = Destination::safe_after(150_000);
        let mut model = Model { source, destination, dirs, seed: 0 };
        for step in &steps {
            model = model.apply(step);
        }
        sync(&model.source, &model.destination);
    }
}
