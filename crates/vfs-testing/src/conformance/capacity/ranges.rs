//! Charges of operations on ranges against a capacity.

use super::rig::{BLOCK_BYTES, Case, Charging, End, FILE_BYTES, Fixture, ID, MIB};
use crate::UncheckedNode;
use crate::conformance::expect::{attrs, contents, eq, holds, refused};
use crate::conformance::rig::{Outcome, name};
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{Backend, Capacity, FsError, FsResult, NodeRef, Ranges, Span, VolumeId};

pub(super) const CASES: &[Case] = &[
    Case { name: "ranges/an_allocation_counts_at_once", run: an_allocation_counts_at_once },
    Case { name: "ranges/holes_are_given_back_as_declared", run: holes_are_given_back_as_declared },
    Case { name: "ranges/copies_count_in_full", run: copies_count_in_full },
    Case { name: "ranges/copies_count_where_they_go", run: copies_count_where_they_go },
    Case { name: "ranges/a_recount_finds_ranges", run: a_recount_finds_ranges },
];

fn of(node: &NodeRef) -> FsResult<&dyn Ranges> {
    node.ranges().ok_or(FsError::NotSupported)
}

fn an_allocation_counts_at_once(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB + 2 * FILE_BYTES, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    file.write(0, &[7; 5000], KEEP_SET_ID)?;
    of(&file)?.allocate(0, 2 * MIB, KEEP_SET_ID)?;
    fixture.check_usage("an allocation", 2 * MIB, 2)?;
    of(&file)?.allocate(MIB, MIB, KEEP_SET_ID)?;
    fixture.check_usage("what is there already", 2 * MIB, 2)?;
    for (offset, len) in [(0, 9 * MIB), (2 * MIB, 1 << 40), (1 << 40, MIB), (0, i64::MAX.unsigned_abs())] {
        if offset > 8 * MIB && fixture.charging != Charging::Sizes {
            // A hole before it takes nothing.
            continue;
        }
        let allocation = of(&file)?.allocate(offset, len, KEEP_SET_ID);
        refused("more than all", allocation, &[FsError::NoSpace, FsError::FileTooBig])?;
        eq("size", attrs(&file)?.size, 2 * MIB)?;
    }
    fixture.check_usage("after the refusals", 2 * MIB, 2)?;
    let other = fixture.file(&volume.root(), "other")?;
    if fixture.is_exact() {
        of(&other)?.allocate(0, 6 * MIB, KEEP_SET_ID)?;
        let byte = of(&other)?.allocate(6 * MIB, 1, KEEP_SET_ID);
        refused("one byte more than all", byte, &[FsError::NoSpace])?;
        other.write(0, &vec![1; 6 << 20], KEEP_SET_ID)?;
    }
    volume.root().remove_unchecked(name("other"))?;
    drop(other);
    fixture.check_usage("without the other", 2 * MIB, 2)
}

fn holes_are_given_back_as_declared(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    file.write(0, &vec![7; 4 << 20], KEEP_SET_ID)?;
    file.sync(vfs::SyncScope::All)?;
    let full = fixture.usage()?.bytes;
    of(&file)?.punch(0, 3 * MIB, KEEP_SET_ID)?;
    file.sync(vfs::SyncScope::All)?;
    match fixture.charging {
        Charging::Sizes => fixture.check_usage("after a hole", 4 * MIB, 2)?,
        Charging::Blocks => fixture.check_usage("after a hole", MIB, 2)?,
        // What is kept ready behind the file stays.
        Charging::Kernel => holds("a hole gives back", fixture.usage()?.bytes + 2 * MIB <= full)?,
    }
    let used = fixture.usage()?.bytes;
    of(&file)?.zero(3 * MIB, MIB, KEEP_SET_ID)?;
    holds("zeros take no more", fixture.usage()?.bytes <= used + MIB / 2)?;
    eq("size", attrs(&file)?.size, 4 * MIB)
}

fn copies_count_in_full(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(7 * MIB, 100)?;
    let root = volume.root();
    let [file, copy, clone] = ["file", "copy", "clone"].map(|text| fixture.file(&root, text));
    let (file, copy, clone) = (file?, copy?, clone?);
    file.write(0, &vec![7; 2 << 20], KEEP_SET_ID)?;
    let whole = Span { source: 0, target: 0, len: 2 * MIB };
    let (copied, _) = of(&file)?.copy_to(&copy, &whole, KEEP_SET_ID)?;
    eq("bytes copied", copied, 2 * MIB)?;
    copy.sync(vfs::SyncScope::All)?;
    fixture.check_usage("a copy", 4 * MIB, 4)?;
    let clones = of(&file)?.clone_to(&clone, &whole, KEEP_SET_ID).is_ok();
    let used = if clones { 6 * MIB } else { 4 * MIB };
    fixture.check_usage("a clone", used, 4)?;
    if fixture.is_exact() {
        let far = Span { target: 7 * MIB, ..whole };
        refused("a copy past all", of(&file)?.copy_to(&copy, &far, KEEP_SET_ID), &[FsError::NoSpace])?;
        let clone = of(&file)?.clone_to(&clone, &far, KEEP_SET_ID);
        refused("a clone past all", clone, &[FsError::NoSpace, FsError::NotSupported])?;
        eq("size", attrs(&copy)?.size, 2 * MIB)?;
        fixture.check_usage("after the refusals", used, 4)?;
    }
    Ok(())
}

fn copies_count_where_they_go(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(3 * MIB, 100)?;
    let other = VolumeId(ID.0 + 1);
    fixture.provisioner.make(other, &fixture.root(), Capacity { bytes: 8 * MIB, files: 100 })?;
    let elsewhere = fixture.provisioner.open(other)?;
    let (copy, source) = (fixture.file(&volume.root(), "copy")?, fixture.file(&elsewhere.root(), "file")?);
    source.write(0, &vec![7; 4 << 20], KEEP_SET_ID)?;
    let span = |target| Span { source: 0, target, len: 2 * MIB };
    eq("bytes copied", of(&source)?.copy_to(&copy, &span(0), KEEP_SET_ID)?.0, 2 * MIB)?;
    copy.sync(vfs::SyncScope::All)?;
    fixture.check_usage("a copy", 2 * MIB, 2)?;
    if fixture.is_exact() {
        eq("the source", fixture.provisioner.usage(other)?.bytes, 4 * MIB + FILE_BYTES)?;
        let more = of(&source)?.copy_to(&copy, &span(2 * MIB), KEEP_SET_ID);
        refused("more than there is room for", more, &[FsError::NoSpace])?;
        let clone = of(&source)?.clone_to(&copy, &span(2 * MIB), KEEP_SET_ID);
        refused(
            "the same as a clone",
            clone,
            &[FsError::NoSpace, FsError::NotSupported, FsError::CrossVolume],
        )?;
        fixture.check_usage("after the refusals", 2 * MIB, 2)?;
    }
    Ok(())
}

fn a_recount_finds_ranges(fixture: Fixture) -> Outcome {
    let mut fixture = fixture;
    let change = |volume: &Arc<dyn Backend>, file: &NodeRef| -> Outcome {
        of(file)?.allocate(10_000, 100_000, KEEP_SET_ID)?;
        of(file)?.punch(0, 50_000, KEEP_SET_ID)?;
        of(file)?.copy_to(file, &Span { source: 0, target: 200_000, len: 60_000 }, KEEP_SET_ID)?;
        let past = of(file)?.allocate(0, 1 << 40, KEEP_SET_ID);
        refused("more than all", past, &[FsError::NoSpace])?;
        Ok(volume.sync()?)
    };
    for end in [End::Killed, End::Orderly, End::Killed] {
        let volume = fixture.volume(8 * MIB, 100)?;
        fixture.counted()?;
        let root = volume.root();
        let file = match fixture.file(&root, "file") {
            Err(FsError::Exists) => root.lookup(name("file"), vfs::Blocking::Allowed)?.node,
            made => made?,
        };
        change(&volume, &file)?;
        let (usage, want) = (fixture.usage()?, contents(&file)?);
        if fixture.charging == Charging::Sizes {
            eq("usage", usage.bytes, 260_000_u64.next_multiple_of(BLOCK_BYTES) + FILE_BYTES)?;
        }
        drop((root, file));
        fixture = fixture.after(volume, end);
        let volume = fixture.provisioner.open(ID)?;
        fixture.counted()?;
        fixture.check_usage("usage after the end", usage.bytes.saturating_sub(FILE_BYTES), usage.files)?;
        let file = volume.root().lookup(name("file"), vfs::Blocking::Allowed)?.node;
        holds("contents after the end", contents(&file)? == want)?;
    }
    Ok(())
}
