//! Wrong snapshots.

use super::{Bug, Mutant, assert_caught};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use vfs::{Backend, ChangedRanges, FileKey, FsResult, Pace, SnapshotUsage, Snapshots, ViewId};

impl Snapshots for Mutant {
    fn create(&self, view: ViewId) -> FsResult<()> {
        if self.0.bug == Bug::ReusesViews {
            self.0.fs.delete(view, &mut |_| ControlFlow::Continue(()))?;
        }
        self.0.fs.create(view)
    }

    fn list(&self) -> FsResult<Vec<ViewId>> {
        self.0.fs.list()
    }

    fn open(&self, view: ViewId) -> FsResult<Arc<dyn Backend>> {
        let snapshot = self.0.fs.open(view)?;
        if self.0.bug == Bug::SnapshotsFollow { Ok(Arc::new(self.0.fs.clone())) } else { Ok(snapshot) }
    }

    fn delete(&self, view: ViewId, pace: &mut Pace<'_>) -> FsResult<bool> {
        let before = self.list()?.into_iter().rev().find(|&other| other < view);
        if let Some(before) = before.filter(|_| self.0.bug == Bug::DeletesTwoSnapshots) {
            self.0.fs.delete(before, pace)?;
        }
        self.0.fs.delete(view, pace)
    }

    fn usage(&self, view: ViewId) -> FsResult<SnapshotUsage> {
        Snapshots::usage(&self.0.fs, view)
    }

    fn changes(&self, from: ViewId, to: ViewId) -> FsResult<Option<Arc<dyn ChangedRanges>>> {
        struct Nothing;
        impl ChangedRanges for Nothing {
            fn may_differ(&self, _: &FileKey, _: Range<u64>) -> bool {
                false
            }
        }
        match self.0.bug {
            Bug::MissesChanges => Ok(Some(Arc::new(Nothing))),
            _ => self.0.fs.changes(from, to),
        }
    }
}

#[test]
fn wrong_snapshots_are_noticed() {
    assert_caught(
        Bug::SnapshotsFollow,
        &[
            "snapshots/no_change_of_a_live_file_shows",
            "snapshots/an_open_file_without_a_name_is_left_out",
            "snapshots/each_has_the_state_of_its_time",
            "snapshots/random_operations_leave_them_alone",
        ],
    );
    assert_caught(
        Bug::DeletesTwoSnapshots,
        &["snapshots/the_others_stay_when_one_is_deleted", "snapshots/random_operations_leave_them_alone"],
    );
    assert_caught(Bug::MissesChanges, &["snapshots/changed_ranges_have_every_change"]);
    assert_caught(Bug::ReusesViews, &["snapshots/a_number_is_used_once"]);
}
