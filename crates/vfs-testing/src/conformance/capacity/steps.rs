//! Reverts and clones end at their steps, whole or to be continued.

use super::rig::{BLOCK_BYTES, Case, Fixture, ID, MIB};
use crate::UncheckedNode;
use crate::conformance::expect::{contents, eq, holds, names, refused};
use crate::conformance::rig::{Failure, Outcome, name};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, Capacity, FileType, FsError, Name, NodeRef, Progress, ViewId, VolumeId, unpaced};

pub(super) const CASES: &[Case] = &[
    Case { name: "steps/a_revert_ends_at_a_step_and_goes_on", run: a_revert_ends_at_a_step_and_goes_on },
    Case { name: "steps/a_clone_that_ends_leaves_no_volume", run: a_clone_that_ends_leaves_no_volume },
];

const CLONE: VolumeId = VolumeId(77);
const CAPACITY: Capacity = Capacity { bytes: 8 * MIB, files: 200 };

/// The contents of the files below a root, by path.
type Tree = BTreeMap<String, Vec<u8>>;

fn tree(root: &NodeRef) -> Outcome<Tree> {
    let (mut tree, mut dirs) = (Tree::new(), vec![(String::new(), NodeRef::clone(root))]);
    while let Some((path, dir)) = dirs.pop() {
        for entry in names(&dir)? {
            let found = dir.lookup(Name::new(&entry).map_err(|_| FsError::Invalid)?, Blocking::Allowed)?;
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry));
            if found.attrs.file_type == FileType::Directory {
                dirs.push((path, found.node));
            } else {
                tree.insert(path, contents(&found.node)?);
            }
        }
    }
    Ok(tree)
}

fn tree_of(fixture: &Fixture, id: VolumeId) -> Outcome<Tree> {
    let volume = fixture.provisioner.open(id)?;
    fixture.counted()?;
    tree(&volume.root())
}

/// The volume has two snapshots with many differences. The trees of the two; `None` if the storage has no snapshots.
fn volume(fixture: &Fixture) -> Outcome<Option<[Tree; 2]>> {
    let volume = fixture.volume(CAPACITY.bytes, CAPACITY.files)?;
    let Some(snapshots) = volume.snapshots() else { return Ok(None) };
    let root = volume.root();
    let mut files = Vec::new();
    for number in 0..6 {
        let made = root.make_dir_unchecked(name(&format!("dir-{number}")), &fixture.new_inode());
        let dir = made?.found.node;
        for text in ["kept", "changed", "removed"] {
            let file = fixture.file(&dir, text)?;
            file.write(0, &vec![number; 3 * usize::try_from(BLOCK_BYTES).unwrap_or(0)], KEEP_SET_ID)?;
            files.push((NodeRef::clone(&dir), text, file));
        }
    }
    snapshots.create(ViewId(1))?;
    let first = tree(&root)?;
    for (dir, text, file) in files {
        match text {
            "changed" => _ = file.write(BLOCK_BYTES, b"other", KEEP_SET_ID)?,
            "removed" => _ = dir.remove(name(text), &|_| Ok(()))?,
            _ => drop(fixture.file(&dir, "new")?),
        }
    }
    snapshots.create(ViewId(2))?;
    Ok(Some([first, tree(&root)?]))
}

/// A pace that breaks at its call number `at`, from 0, and checks the progress.
struct Breaker {
    at: u64,
    calls: u64,
    last: Progress,
    is_sound: bool,
}

impl Breaker {
    fn at(at: u64) -> Self {
        Self { at, calls: 0, last: Progress::default(), is_sound: true }
    }

    fn pace(&mut self, progress: Progress) -> ControlFlow<()> {
        let in_order = progress.done >= self.last.done;
        self.is_sound &= in_order && progress.total.is_none_or(|total| progress.done <= total);
        self.last = progress;
        self.calls += 1;
        if self.calls > self.at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn a_revert_ends_at_a_step_and_goes_on(fixture: Fixture) -> Outcome {
    let Some([first, second]) = volume(&fixture)? else { return Ok(()) };
    let provisioner = &fixture.provisioner;
    for at in 0..1_000 {
        let mut breaker = Breaker::at(at);
        let is_done = provisioner.revert(ID, ViewId(1), &mut |progress| breaker.pace(progress))?;
        holds(format!("progress {:?}", breaker.last), breaker.is_sound)?;
        if at == 0 {
            eq("a revert that ends at once", is_done, false)?;
            holds("the files", tree_of(&fixture, ID)? == second)?;
            continue;
        }
        if !is_done && at % 2 == 0 {
            eq("a revert that goes on", provisioner.revert(ID, ViewId(1), &mut unpaced)?, true)?;
        }
        // Otherwise the opening finishes it.
        holds(format!("the files after step {at}"), tree_of(&fixture, ID)? == first)?;
        if is_done && breaker.calls <= at {
            return Ok(());
        }
        eq("a revert", provisioner.revert(ID, ViewId(2), &mut unpaced)?, true)?;
        holds(format!("the files again after step {at}"), tree_of(&fixture, ID)? == second)?;
    }
    Err(Failure::new("it has no last step"))
}

fn a_clone_that_ends_leaves_no_volume(fixture: Fixture) -> Outcome {
    let Some([first, _]) = volume(&fixture)? else { return Ok(()) };
    let (provisioner, root) = (&fixture.provisioner, fixture.root());
    for at in 0..1_000 {
        let mut breaker = Breaker::at(at);
        let pace = &mut |progress| breaker.pace(progress);
        let is_done = provisioner.clone_volume(ID, ViewId(1), CLONE, &root, CAPACITY, pace)?;
        holds(format!("progress {:?}", breaker.last), breaker.is_sound)?;
        if !is_done {
            eq("volumes", provisioner.list()?, vec![ID])?;
            refused("a clone that ended", provisioner.open(CLONE).map(drop), &[FsError::NotFound])?;
            // What was made goes with a removal, or with the next clone.
            if at % 2 == 0 {
                provisioner.remove(CLONE)?;
            }
            let made = provisioner.clone_volume(ID, ViewId(1), CLONE, &root, CAPACITY, &mut unpaced)?;
            eq("a clone", made, true)?;
        }
        holds(format!("the files after step {at}"), tree_of(&fixture, CLONE)? == first)?;
        provisioner.remove(CLONE)?;
        if is_done && breaker.calls <= at {
            return Ok(());
        }
    }
    Err(Failure::new("it has no last step"))
}
