//! The part of a volume that is reserved for its snapshots.

use super::rig::{BLOCK_BYTES, Case, End, Fixture, ID, MIB, append_until_full};
use crate::UncheckedNode;
use crate::conformance::expect::{contents, eq, holds, refused};
use crate::conformance::rig::{Failure, Outcome, name};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, FsError, NodeRef, Snapshots, ViewId};

pub(super) const CASES: &[Case] = &[
    Case { name: "reserve/files_leave_it_to_snapshots", run: files_leave_it_to_snapshots },
    Case { name: "reserve/snapshots_go_on_beyond_it", run: snapshots_go_on_beyond_it },
    Case { name: "reserve/files_above_it_stay", run: files_above_it_stay },
    Case { name: "reserve/writers_share_it_exactly", run: writers_share_it_exactly },
    Case { name: "reserve/usage_is_without_it_after_an_end", run: usage_is_without_it_after_an_end },
];

const RESERVE: u64 = 2 * MIB;

/// The kernel needs this much more for a moment to change blocks that files share with snapshots. Files may take as much
/// of the reserve.
const KERNEL_BYTES: u64 = MIB;

/// An open volume of 8 MiB with [`RESERVE`]; `None` if the storage cannot reserve.
fn volume(fixture: &Fixture) -> Outcome<Option<Arc<dyn Backend>>> {
    let volume = fixture.volume(8 * MIB, 100)?;
    match fixture.provisioner.set_snapshot_reserve(ID, RESERVE) {
        Ok(()) => Ok(Some(volume)),
        Err(FsError::NotSupported) => {
            fixture.provisioner.set_snapshot_reserve(ID, 0)?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

#[track_caller]
fn of(volume: &Arc<dyn Backend>) -> Outcome<&dyn Snapshots> {
    volume.snapshots().ok_or_else(|| Failure::new("no snapshots"))
}

/// The bytes by which a volume may be full sooner or later.
fn slack(fixture: &Fixture) -> u64 {
    if fixture.is_exact() { 0 } else { KERNEL_BYTES }
}

/// The space that clients see is that of the storage's count: used is what files and snapshots need, and available is
/// without the reserve. The kernel's count may change meanwhile.
#[track_caller]
fn check_space(fixture: &Fixture, volume: &Arc<dyn Backend>, reserve: u64) -> Outcome {
    if !fixture.is_exact() {
        fixture.settle(&|| Ok(space_is_right(fixture, volume, reserve).is_ok()))?;
        return Ok(());
    }
    space_is_right(fixture, volume, reserve)
}

#[track_caller]
fn space_is_right(fixture: &Fixture, volume: &Arc<dyn Backend>, reserve: u64) -> Outcome {
    let (usage, stat) = (fixture.usage()?, volume.stat()?);
    let held = fixture.provisioner.snapshot_bytes(ID)?.unwrap_or(0);
    eq("used", stat.bytes_total - stat.bytes_free, usage.bytes.min(stat.bytes_total))?;
    let files = usage.bytes - held;
    let available = stat.bytes_total.saturating_sub(files + held.max(reserve));
    eq("available", stat.bytes_available, available)
}

fn files_leave_it_to_snapshots(fixture: Fixture) -> Outcome {
    let Some(volume) = volume(&fixture)? else { return Ok(()) };
    check_space(&fixture, &volume, RESERVE)?;
    let full = fixture.file(&volume.root(), "full")?;
    append_until_full(&full)?;
    let usage = fixture.usage()?;
    let of_files = 8 * MIB - RESERVE;
    let rounding = slack(&fixture).max(BLOCK_BYTES);
    holds(format!("{usage:?}"), usage.bytes <= of_files && usage.bytes > of_files - rounding)?;
    check_space(&fixture, &volume, RESERVE)?;
    fixture.provisioner.set_snapshot_reserve(ID, 0)?;
    check_space(&fixture, &volume, 0)?;
    let more = append_until_full(&full)?;
    holds(format!("{more} blocks"), more > (RESERVE - slack(&fixture)) / BLOCK_BYTES - 3)?;
    check_space(&fixture, &volume, 0)
}

/// Overwrites the blocks of a file in turn until one is refused, and returns their number.
fn overwrite_until_full(file: &NodeRef, blocks: u64) -> Outcome<u64> {
    for block in 0..blocks {
        match file.write(block * BLOCK_BYTES, &[9; 4096], KEEP_SET_ID) {
            Ok(_) => {}
            Err(FsError::NoSpace) => return Ok(block),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(blocks)
}

fn snapshots_go_on_beyond_it(fixture: Fixture) -> Outcome {
    let Some(volume) = volume(&fixture)? else { return Ok(()) };
    if volume.snapshots().is_none() {
        return Ok(());
    }
    let file = fixture.file(&volume.root(), "file")?;
    // 5 MiB, so that 1 MiB of the part for files is left.
    let blocks = 5 * MIB / BLOCK_BYTES;
    file.write(0, &vec![7; usize::try_from(5 * MIB).unwrap_or(0)], KEEP_SET_ID)?;
    of(&volume)?.create(ViewId(1))?;
    let done = overwrite_until_full(&file, blocks)?;
    check_space(&fixture, &volume, RESERVE)?;
    if fixture.provisioner.snapshot_bytes(ID)?.is_none() {
        return eq("overwritten blocks, if snapshots are not counted", done, blocks);
    }
    // The reserve and the rest of the volume, less what records need.
    let (most, rounding) = (3 * MIB / BLOCK_BYTES, slack(&fixture) / BLOCK_BYTES);
    holds(format!("{done} of {most} blocks"), done <= most && done > most - 8 - rounding)?;
    let now = contents(&file)?;
    let at = usize::try_from(done * BLOCK_BYTES).unwrap_or(0);
    holds(
        "the refused block",
        now[at..].iter().all(|&byte| byte == 7) && now[..at].iter().all(|&byte| byte == 9),
    )?;
    holds("no room", volume.stat()?.bytes_available < slack(&fixture).max(BLOCK_BYTES))?;
    // Blocks that are preserved already need nothing more.
    file.write(0, &[8; 4096], KEEP_SET_ID)?;
    of(&volume)?.delete(ViewId(1), &mut |_| ControlFlow::Continue(()))?;
    check_space(&fixture, &volume, RESERVE)?;
    if !fixture.is_exact() {
        fixture.settle(&|| Ok(fixture.provisioner.snapshot_bytes(ID)? == Some(0)))?;
    }
    eq("bytes of no snapshot", fixture.provisioner.snapshot_bytes(ID)?, Some(0))?;
    eq("overwritten blocks", overwrite_until_full(&file, blocks)?, blocks)?;
    let more = append_until_full(&fixture.file(&volume.root(), "more")?)?;
    holds(
        format!("{more} blocks of the part for files"),
        more <= MIB / BLOCK_BYTES + rounding && more + rounding > MIB / BLOCK_BYTES - 4,
    )
}

fn files_above_it_stay(fixture: Fixture) -> Outcome {
    let Some(volume) = volume(&fixture)? else { return Ok(()) };
    fixture.provisioner.set_snapshot_reserve(ID, 0)?;
    let file = fixture.file(&volume.root(), "file")?;
    append_until_full(&file)?;
    let before = fixture.usage()?;
    fixture.provisioner.set_snapshot_reserve(ID, RESERVE)?;
    if fixture.is_exact() {
        eq("usage", fixture.usage()?, before)?;
        refused("growth", fixture.file(&volume.root(), "more").map(drop), &[FsError::NoSpace])?;
    }
    eq("available", volume.stat()?.bytes_available, 0)?;
    file.write(0, &[8; 4096], KEEP_SET_ID)?;
    eq("growth", append_until_full(&file)?, 0)?;
    file.set_attrs(&vfs::SetAttrs { size: Some(5 * MIB), ..vfs::SetAttrs::default() })?;
    holds("growth", append_until_full(&file)? > 0)?;
    check_space(&fixture, &volume, RESERVE)?;
    // It follows the capacity alone where management says so.
    fixture.provisioner.set_snapshot_reserve(ID, 16 * MIB)?;
    eq("available", volume.stat()?.bytes_available, 0)?;
    fixture.provisioner.set_snapshot_reserve(ID, 0)?;
    check_space(&fixture, &volume, 0)
}

/// Writers that grow files beside writers that overwrite what a snapshot has: together they never get more than there is,
/// and no overwrite is refused while the reserve has room.
fn writers_share_it_exactly(fixture: Fixture) -> Outcome {
    let Some(volume) = volume(&fixture)? else { return Ok(()) };
    if volume.snapshots().is_none() {
        return Ok(());
    }
    let old: Vec<NodeRef> = (0..4)
        .map(|number| {
            let file = fixture.file(&volume.root(), &format!("old-{number}"))?;
            file.write(0, &vec![7; 256 << 10], KEEP_SET_ID)?;
            Ok(file)
        })
        .collect::<Outcome<_>>()?;
    append_until_full(&fixture.file(&volume.root(), "full")?)?;
    if fixture.is_exact() {
        // Files without contents take what is left.
        let is_made = |number: &u32| fixture.file(&volume.root(), &format!("rest-{number}")).is_ok();
        holds("files", (0..50).take_while(is_made).count() < 50)?;
    }
    of(&volume)?.create(ViewId(1))?;
    let (root, new_inode, is_exact) = (volume.root(), fixture.new_inode(), fixture.is_exact());
    let (refusals, grown) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for file in &old {
            scope.spawn(|| {
                let done = overwrite_until_full(file, (256 << 10) / BLOCK_BYTES);
                refusals.fetch_add(u64::from(!matches!(done, Ok(64))), Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            for number in 0..200 {
                let made = root.create_unchecked(name("new"), &new_inode);
                let more = made.is_ok_and(|made| {
                    is_exact || made.found.node.write(number * BLOCK_BYTES, &[7; 4096], KEEP_SET_ID).is_ok()
                });
                grown.fetch_add(u64::from(more), Ordering::Relaxed);
            }
        });
    });
    eq("refused overwrites", refusals.into_inner(), 0)?;
    let grown = grown.into_inner() * BLOCK_BYTES;
    holds(format!("{grown} bytes of files in the reserve"), grown <= slack(&fixture))?;
    if fixture.provisioner.snapshot_bytes(ID)?.is_some() {
        let usage = fixture.usage()?;
        let held = fixture.provisioner.snapshot_bytes(ID)?.unwrap_or(0);
        holds(format!("{held} held"), (MIB..=RESERVE).contains(&held))?;
        holds("files", usage.bytes - held <= 8 * MIB - RESERVE + slack(&fixture))?;
        holds("files and snapshots", usage.bytes <= 8 * MIB)?;
    }
    check_space(&fixture, &volume, RESERVE)
}

fn usage_is_without_it_after_an_end(fixture: Fixture) -> Outcome {
    let mut fixture = fixture;
    if volume(&fixture)?.is_none() {
        return Ok(());
    }
    for end in [End::Orderly, End::Killed] {
        let volume = fixture.provisioner.open(ID)?;
        fixture.provisioner.set_snapshot_reserve(ID, RESERVE)?;
        let file = fixture.file(&volume.root(), &format!("{end:?}"))?;
        file.write(0, &[7; 8192], KEEP_SET_ID)?;
        let before = fixture.usage()?;
        drop(file);
        fixture = fixture.after(volume, end);
        let volume = fixture.provisioner.open(ID)?;
        fixture.counted()?;
        if fixture.is_exact() {
            eq(format!("usage, {end:?}"), fixture.usage()?, before)?;
        }
        // Management says it again at each opening.
        fixture.provisioner.set_snapshot_reserve(ID, RESERVE)?;
        check_space(&fixture, &volume, RESERVE)?;
    }
    Ok(())
}
