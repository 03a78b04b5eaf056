//! Snapshots during a random sequence of operations: each stays as the model of its time says.

use super::{File, Oracle};
use crate::conformance::expect::holds;
use crate::conformance::rig::{Failure, Fixture, Outcome};
use std::ops::ControlFlow;
use vfs::{Backend, Blocking, NodeRef, Snapshots, ViewId};

/// Steps between two snapshots.
const STEPS: usize = 30;
/// Steps between two comparisons of all snapshots.
const COMPARE_STEPS: usize = 10;
const SNAPSHOTS_MAX: usize = 4;

/// [`super::soak`] with snapshots above the number `last`, which is raised. Some are deleted on the way.
pub fn soak_with_snapshots(
    fixture: &Fixture,
    snapshots: &dyn Snapshots,
    seed: u64,
    steps: usize,
    last: &mut ViewId,
) -> Outcome {
    let mut oracle = Oracle::new(fixture, seed)?;
    let mut known: Vec<(ViewId, Vec<File>)> = Vec::new();
    let mut run = |step: usize| {
        oracle.step()?;
        if step.is_multiple_of(STEPS) {
            last.0 += 1;
            snapshots.create(*last)?;
            known.push((*last, oracle.files.clone()));
        }
        if known.len() > SNAPSHOTS_MAX {
            let (view, _) = known.remove(oracle.random.below(known.len()));
            holds("deleted", snapshots.delete(view, &mut |_| ControlFlow::Continue(()))?)?;
        }
        if step.is_multiple_of(COMPARE_STEPS) {
            oracle.walk()?;
            known.iter().try_for_each(|(view, files)| {
                compare(fixture, &*snapshots.open(*view)?, files)
                    .map_err(|failure| failure.during(format!("in {view:?}")))
            })?;
        }
        Ok(())
    };
    (0..steps).try_for_each(|step| {
        run(step).map_err(|failure: Failure| failure.during(format!("seed {seed}, step {step}")))
    })
}

/// Compares a snapshot with the model of its time.
fn compare(fixture: &Fixture, snapshot: &dyn Backend, files: &[File]) -> Outcome {
    let in_snapshot = |file: &File| -> Outcome<File> {
        let node = match file.links {
            0 => NodeRef::clone(&file.node),
            _ => snapshot.node(&file.key, Blocking::Allowed)?,
        };
        Ok(File { node, ..file.clone() })
    };
    let files = files.iter().map(in_snapshot).collect::<Outcome<_>>()?;
    Oracle { fixture, random: super::Random::new(0), files }.walk()
}
