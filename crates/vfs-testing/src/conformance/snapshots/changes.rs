//! The data that changed between two snapshots, as the storage tells it.

use super::{delete, of};
use crate::UncheckedNode;
use crate::conformance::expect::{eq, holds};
use crate::conformance::rig::{Fixture, Lack, Outcome, name};
use std::ops::Range;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, ChangedRanges, FsError, NodeRef, SetAttrs, Snapshots, Span, ViewId};

const BLOCK: u64 = 4096;
const SIZE: u64 = 600 * BLOCK;
const STEPS: u64 = 60;
/// Sizes of the ranges that are asked for.
const GRAINS: [u64; 3] = [512, BLOCK, 256 * BLOCK];

struct Files {
    big: NodeRef,
    other: NodeRef,
    random: u64,
}

impl Files {
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % end
    }

    /// Changes something in the first two thirds of the large file.
    fn change(&mut self, fixture: &Fixture) -> Outcome {
        let (offset, len) = (self.below(400 * BLOCK), 1 + self.below(3 * BLOCK));
        let fill = u8::try_from(1 + self.below(250)).unwrap_or(1);
        match (self.below(8), self.big.ranges()) {
            (0, Some(ranges)) => _ = ranges.punch(offset, len, KEEP_SET_ID)?,
            (1, Some(ranges)) => _ = ranges.zero(offset, len, KEEP_SET_ID)?,
            (2, Some(_)) if fixture.can(Lack::Clones) => {
                let place = offset - offset % BLOCK;
                let span = Span { source: 0, target: place, len: BLOCK };
                self.other.write(0, &[fill; 8192], KEEP_SET_ID)?;
                let from = self.other.ranges().ok_or(FsError::NotSupported)?;
                from.clone_to(&self.big, &span, KEEP_SET_ID)?;
            }
            (3, _) => {
                let mode = 0o600 + u32::from(fill % 8);
                self.big.set_attrs(&SetAttrs { mode: Some(mode), ..SetAttrs::default() })?;
            }
            _ => {
                let len = usize::try_from(len).unwrap_or(1);
                self.big.write(offset, &vec![fill; len], KEEP_SET_ID)?;
            }
        }
        Ok(())
    }
}

pub(super) fn changed_ranges_have_every_change(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let dir = fixture.dir()?;
    let file =
        |text: &str| dir.create_unchecked(name(text), &fixture.new_inode()).map(|made| made.found.node);
    let (big, small, same) = (file("big")?, file("small")?, file("same")?);
    big.write(0, &vec![1; usize::try_from(SIZE).unwrap_or(0)], KEEP_SET_ID)?;
    small.write(0, &[2; 5000], KEEP_SET_ID)?;
    same.write(0, &[3; 50_000], KEEP_SET_ID)?;
    let mut files = Files { big: big.clone(), other: file("other")?, random: 7 };
    snapshots.create(ViewId(1))?;
    for view in 2..=5 {
        for _ in 0..STEPS / 4 {
            files.change(fixture)?;
        }
        // Grows within its last block, past it, and shrinks.
        let size = [5000, 5003, 9000, 100, 100][usize::try_from(view - 1).unwrap_or(0)];
        small.set_attrs(&SetAttrs { size: Some(size), ..SetAttrs::default() })?;
        small.write(size, b"more", KEEP_SET_ID)?;
        snapshots.create(ViewId(view))?;
    }
    let views: Vec<ViewId> = (1..=5).map(ViewId).collect();
    check_all(snapshots, &views, &[&big, &small, &same])?;
    // Changes since a deleted snapshot are changes since the one before it.
    delete(snapshots, ViewId(3))?;
    check_all(snapshots, &[1, 2, 4, 5].map(ViewId), &[&big, &small, &same])?;
    let known = snapshots.changes(ViewId(1), ViewId(5))?;
    if let Some(changes) = &known {
        let last = SIZE - 10 * BLOCK..SIZE;
        holds("unchanged blocks of a changed file are known", !changes.may_differ(&key(&big), last))?;
    }
    let gone = snapshots.changes(ViewId(1), ViewId(3)).map(|changes| changes.is_some());
    eq(
        "changes up to a deleted snapshot",
        gone,
        if known.is_some() { Err(FsError::NotFound) } else { Ok(false) },
    )
}

fn key(node: &NodeRef) -> vfs::FileKey {
    node.key().in_view(ViewId::LIVE)
}

/// Compares what the storage says of every two snapshots with their data.
fn check_all(snapshots: &dyn Snapshots, views: &[ViewId], files: &[&NodeRef]) -> Outcome {
    for (number, &from) in views.iter().enumerate() {
        for &to in &views[number + 1..] {
            let Some(changes) = snapshots.changes(from, to)? else { continue };
            let [old, new] = [from, to].map(|view| snapshots.open(view));
            let (old, new) = (old?, new?);
            for file in files {
                let key = key(file);
                let data = |side: &dyn vfs::Backend| {
                    let node = side.node(&key, Blocking::Allowed)?;
                    node.read_vec(0, usize::try_from(SIZE).unwrap_or(0), Blocking::Allowed)
                };
                check(&*changes, &key, &data(&*old)?, &data(&*new)?)?;
            }
        }
    }
    Ok(())
}

fn check(changes: &dyn ChangedRanges, key: &vfs::FileKey, old: &[u8], new: &[u8]) -> Outcome {
    let part = |data: &[u8], range: &Range<u64>| -> Vec<u8> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(data.len());
        data[place(range.start)..place(range.end)].to_vec()
    };
    for grain in GRAINS {
        for start in (0..new.len() as u64).step_by(usize::try_from(grain).unwrap_or(1)) {
            let range = start..(start + grain).min(new.len() as u64);
            let is_said_equal = !changes.may_differ(key, range.clone());
            let is_equal = part(old, &range) == part(new, &range);
            holds(format!("{range:?} of {key:?} is said to be equal"), is_equal || !is_said_equal)?;
        }
    }
    Ok(())
}
