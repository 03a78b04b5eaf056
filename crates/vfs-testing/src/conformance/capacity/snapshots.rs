//! Volumes that go back to a snapshot, or come from one.

use super::rig::{BLOCK_BYTES, Case, End, Fixture, ID, MIB, append_until_full};
use crate::conformance::expect::{attrs, contents, eq, holds, names, refused};
use crate::conformance::rig::{Failure, Outcome, name};
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, Capacity, FileKey, FsError, NodeRef, Root, Snapshots, ViewId, VolumeId, unpaced,
};

pub(super) const CASES: &[Case] = &[
    Case { name: "snapshots/a_revert_brings_the_files_back", run: a_revert_brings_the_files_back },
    Case { name: "snapshots/an_open_volume_is_not_reverted", run: an_open_volume_is_not_reverted },
    Case { name: "snapshots/what_is_not_there_is_not_found", run: what_is_not_there_is_not_found },
    Case { name: "snapshots/new_files_after_a_revert_are_new", run: new_files_after_a_revert_are_new },
    Case { name: "snapshots/change_numbers_rise_over_reverts", run: change_numbers_rise_over_reverts },
    Case { name: "snapshots/a_clone_is_a_volume_of_its_own", run: a_clone_is_a_volume_of_its_own },
    Case { name: "snapshots/a_clone_outlives_its_source", run: a_clone_outlives_its_source },
    Case { name: "snapshots/they_go_with_their_volume", run: they_go_with_their_volume },
    Case { name: "snapshots/all_is_there_after_an_end", run: all_is_there_after_an_end },
];

const CLONE: VolumeId = VolumeId(77);

#[track_caller]
fn of(volume: &Arc<dyn Backend>) -> Outcome<&dyn Snapshots> {
    volume.snapshots().ok_or_else(|| Failure::new("no snapshots"))
}

/// A volume with a snapshot of `old`, 10,000 bytes, and another of `old`, 5 bytes, and `new`, 5,000 bytes. The keys of the
/// two. `None` if the storage has no snapshots.
fn volume(fixture: &Fixture) -> Outcome<Option<[FileKey; 2]>> {
    let volume = fixture.volume(8 * MIB, 100)?;
    if volume.snapshots().is_none() {
        return Ok(None);
    }
    let old = fixture.file(&volume.root(), "old")?;
    old.write(0, &[1; 10_000], KEEP_SET_ID)?;
    of(&volume)?.create(ViewId(1))?;
    old.set_attrs(&vfs::SetAttrs { size: Some(0), ..vfs::SetAttrs::default() })?;
    old.write(0, b"small", KEEP_SET_ID)?;
    let new = fixture.file(&volume.root(), "new")?;
    new.write(0, &[2; 5000], KEEP_SET_ID)?;
    of(&volume)?.create(ViewId(2))?;
    Ok(Some([old.key(), new.key()]))
}

/// The volume has the files of snapshot 1 or 2 of [`volume`], under the same keys.
fn is_as_in(fixture: &Fixture, id: VolumeId, view: u32, [old, new]: &[FileKey; 2]) -> Outcome {
    let volume = fixture.provisioner.open(id)?;
    fixture.counted()?;
    let seen = volume.node(old, Blocking::Allowed)?;
    eq("a key by name", volume.root().lookup(name("old"), Blocking::Allowed)?.node.key(), seen.key())?;
    let after = volume.node(new, Blocking::Allowed);
    if view == 1 {
        refused("a file made later", after, &[FsError::Stale])?;
    } else {
        holds("contents", contents(&after?)? == [2; 5000])?;
    }
    has_files_of(fixture, id, view)
}

/// The volume has the files of snapshot 1 or 2 of [`volume`].
fn has_files_of(fixture: &Fixture, id: VolumeId, view: u32) -> Outcome {
    let volume = fixture.provisioner.open(id)?;
    fixture.counted()?;
    let old = volume.root().lookup(name("old"), Blocking::Allowed)?.node;
    if view == 1 {
        eq("names", names(&volume.root())?, vec![b"old".to_vec()])?;
        holds("contents", contents(&old)? == [1; 10_000])?;
    } else {
        eq("names", names(&volume.root())?, vec![b"new".to_vec(), b"old".to_vec()])?;
        eq("contents", contents(&old)?, b"small".to_vec())?;
    }
    let files = u64::from(view) + 1;
    if !fixture.is_exact() {
        // The kernel's count is a little late.
        fixture.settle(&|| Ok(fixture.provisioner.usage(id)?.files == files))?;
    }
    eq("used files", fixture.provisioner.usage(id)?.files, files)?;
    eq("used bytes", blocks(&volume.root())?, 3 * BLOCK_BYTES)?;
    if id == ID {
        fixture.check_usage("usage", 3 * BLOCK_BYTES, u64::from(view) + 1)?;
    }
    Ok(())
}

/// The blocks of all files in a directory.
fn blocks(dir: &NodeRef) -> Outcome<u64> {
    names(dir)?.iter().try_fold(0, |sum, text| {
        let text = vfs::Name::new(text).map_err(|_| FsError::Invalid)?;
        let size = dir.lookup(text, Blocking::Allowed)?.attrs.size;
        Ok(sum + size.next_multiple_of(BLOCK_BYTES))
    })
}

fn a_revert_brings_the_files_back(fixture: Fixture) -> Outcome {
    let Some(keys) = volume(&fixture)? else { return Ok(()) };
    // The last one twice: as after a crash just before the answer.
    for view in [1, 2, 1, 1] {
        fixture.provisioner.revert(ID, ViewId(view), &mut unpaced)?;
        is_as_in(&fixture, ID, view, &keys)?;
        let volume = fixture.provisioner.open(ID)?;
        eq("snapshots", of(&volume)?.list()?, vec![ViewId(1), ViewId(2)])?;
        let stat = volume.stat()?;
        eq("the capacity", (stat.bytes_total, stat.files_total), (8 * MIB, 100))?;
        let second = of(&volume)?.open(ViewId(2))?;
        let old = second.node(&keys[0], Blocking::Allowed)?;
        eq("in the other snapshot", contents(&old)?, b"small".to_vec())?;
        // What is written now is gone after the next revert.
        volume.node(&keys[0], Blocking::Allowed)?.write(0, b"other", KEEP_SET_ID)?;
        fixture.file(&volume.root(), "lost")?;
    }
    append_until_full(&fixture.file(&fixture.provisioner.open(ID)?.root(), "full")?)?;
    let usage = fixture.provisioner.usage(ID)?;
    holds("full", usage.bytes <= 8 * MIB && (!fixture.is_exact() || usage.bytes > 8 * MIB - 4 * BLOCK_BYTES))
}

fn an_open_volume_is_not_reverted(fixture: Fixture) -> Outcome {
    let Some(keys) = volume(&fixture)? else { return Ok(()) };
    let open = fixture.provisioner.open(ID)?;
    refused("a volume", fixture.provisioner.revert(ID, ViewId(1), &mut unpaced), &[FsError::Locked])?;
    let file = open.node(&keys[0], Blocking::Allowed)?;
    drop(open);
    refused("a file", fixture.provisioner.revert(ID, ViewId(1), &mut unpaced), &[FsError::Locked])?;
    eq("contents", contents(&file)?, b"small".to_vec())?;
    drop(file);
    let root = fixture.provisioner.open(ID)?.root();
    // What a file in use looks up does not keep the volume open.
    eq("names", names(&root)?.len(), 2)?;
    drop(root.lookup(name("new"), Blocking::Allowed)?);
    drop(root);
    fixture.provisioner.revert(ID, ViewId(1), &mut unpaced)?;
    is_as_in(&fixture, ID, 1, &keys)
}

fn what_is_not_there_is_not_found(fixture: Fixture) -> Outcome {
    let Some(keys) = volume(&fixture)? else { return Ok(()) };
    let (missing, capacity) = (&[FsError::NotFound], Capacity { bytes: MIB, files: 10 });
    let provisioner = &fixture.provisioner;
    for view in [ViewId(3), ViewId::LIVE] {
        refused("a snapshot", provisioner.revert(ID, view, &mut unpaced), missing)?;
        let root = fixture.root();
        refused(
            "a clone",
            provisioner.clone_volume(ID, view, CLONE, &root, capacity, &mut unpaced),
            missing,
        )?;
    }
    let root = fixture.root();
    refused("a volume", provisioner.revert(CLONE, ViewId(1), &mut unpaced), missing)?;
    let other = VolumeId(78);
    refused(
        "a clone",
        provisioner.clone_volume(CLONE, ViewId(1), other, &root, capacity, &mut unpaced),
        missing,
    )?;
    eq("volumes", provisioner.list()?, vec![ID])?;
    is_as_in(&fixture, ID, 2, &keys)
}

fn new_files_after_a_revert_are_new(fixture: Fixture) -> Outcome {
    let Some(keys) = volume(&fixture)? else { return Ok(()) };
    let mut known = Vec::from(keys);
    for _ in 0..4 {
        fixture.provisioner.revert(ID, ViewId(1), &mut unpaced)?;
        let volume = fixture.provisioner.open(ID)?;
        fixture.counted()?;
        for number in 0..5 {
            let key = fixture.file(&volume.root(), &format!("new-{number}"))?.key();
            holds(format!("{key:?} is new"), !known.contains(&key))?;
            known.push(key);
        }
        for key in &known[1..known.len() - 5] {
            refused("a file before the revert", volume.node(key, Blocking::Allowed), &[FsError::Stale])?;
        }
    }
    Ok(())
}

/// A client takes attributes with a lower number for an old answer.
fn change_numbers_rise_over_reverts(fixture: Fixture) -> Outcome {
    let mut fixture = fixture;
    let Some([key, _]) = volume(&fixture)? else { return Ok(()) };
    let mut last = [0, 0];
    for view in [1, 2, 1, 1, 2] {
        let volume = fixture.provisioner.open(ID)?;
        fixture.counted()?;
        let file = volume.node(&key, Blocking::Allowed)?;
        for _ in 0..3 {
            file.write(0, b"other", KEEP_SET_ID)?;
            let made = fixture.file(&volume.root(), "made")?;
            drop(made);
            volume.root().remove(name("made"), &|_| Ok(()))?;
            for (last, node) in last.iter_mut().zip([&file, &volume.root()]) {
                let now = attrs(node)?.change;
                holds(format!("{now} is above {last}"), now > *last)?;
                *last = now;
            }
        }
        drop(file);
        fixture = fixture.after(volume, End::Orderly);
        fixture.provisioner.revert(ID, ViewId(view), &mut unpaced)?;
        let volume = fixture.provisioner.open(ID)?;
        let file = volume.root().lookup(name("old"), Blocking::Allowed)?;
        eq("the number of a lookup", file.attrs.change, attrs(&file.node)?.change)?;
        for (last, node) in last.iter_mut().zip([&file.node, &volume.root()]) {
            let now = attrs(node)?.change;
            holds(format!("{now} after a revert is above {last}"), now > *last)?;
            *last = now;
        }
    }
    Ok(())
}

fn a_clone_is_a_volume_of_its_own(fixture: Fixture) -> Outcome {
    let Some(keys) = volume(&fixture)? else { return Ok(()) };
    let root = Root { mode: 0o1770, ..fixture.root() };
    let provisioner = &fixture.provisioner;
    for bytes in [MIB, 2 * MIB] {
        // The second call is one after a crash.
        provisioner.clone_volume(ID, ViewId(1), CLONE, &root, Capacity { bytes, files: 50 }, &mut unpaced)?;
    }
    has_files_of(&fixture, CLONE, 1)?;
    is_as_in(&fixture, ID, 2, &keys)?;
    let (clone, source) = (provisioner.open(CLONE)?, provisioner.open(ID)?);
    eq("the root", attrs(&clone.root())?.mode, 0o1770)?;
    eq("the root of the source", attrs(&source.root())?.mode, fixture.root().mode)?;
    eq("the capacity", (clone.stat()?.bytes_total, clone.stat()?.files_total), (2 * MIB, 50))?;
    eq("snapshots of a clone", of(&clone)?.list()?, Vec::new())?;
    // Where clones are copies, their files have keys of their own.
    let key = clone.root().lookup(name("old"), Blocking::Allowed)?.node.key();
    clone.node(&key, Blocking::Allowed)?.write(0, b"clone", KEEP_SET_ID)?;
    of(&clone)?.create(ViewId(1))?;
    let of_source = of(&source)?.open(ViewId(1))?;
    holds("the snapshot stays", contents(&of_source.node(&keys[0], Blocking::Allowed)?)? == [1; 10_000])?;
    eq("the source stays", contents(&source.node(&keys[0], Blocking::Allowed)?)?, b"small".to_vec())?;
    let of_clone = of(&clone)?.open(ViewId(1))?;
    eq("a snapshot of the clone", &contents(&of_clone.node(&key, Blocking::Allowed)?)?[..5], b"clone")?;
    append_until_full(&fixture.file(&clone.root(), "full")?)?;
    holds("a limit of its own", provisioner.usage(CLONE)?.bytes > MIB)?;
    fixture.file(&source.root(), "more")?.write(0, &[1; 4096], KEEP_SET_ID)?;
    // An existing volume keeps its files.
    drop((clone, of_clone));
    provisioner.clone_volume(
        ID,
        ViewId(2),
        CLONE,
        &root,
        Capacity { bytes: MIB, files: 50 },
        &mut unpaced,
    )?;
    let clone = provisioner.open(CLONE)?;
    eq("contents", &contents(&clone.node(&key, Blocking::Allowed)?)?[..5], b"clone")
}

fn a_clone_outlives_its_source(fixture: Fixture) -> Outcome {
    if volume(&fixture)?.is_none() {
        return Ok(());
    }
    let provisioner = &fixture.provisioner;
    let capacity = Capacity { bytes: MIB, files: 50 };
    provisioner.clone_volume(ID, ViewId(1), CLONE, &fixture.root(), capacity, &mut unpaced)?;
    let source = provisioner.open(ID)?;
    of(&source)?.delete(ViewId(1), &mut |_| ControlFlow::Continue(()))?;
    drop(source);
    has_files_of(&fixture, CLONE, 1)?;
    provisioner.remove(ID)?;
    has_files_of(&fixture, CLONE, 1)?;
    eq("volumes", provisioner.list()?, vec![CLONE])
}

fn they_go_with_their_volume(fixture: Fixture) -> Outcome {
    for _ in 0..2 {
        if volume(&fixture)?.is_none() {
            return Ok(());
        }
        // The storage may not know how much they hold.
        fixture.provisioner.snapshot_bytes(ID)?;
        fixture.provisioner.remove(ID)?;
        eq("volumes", fixture.provisioner.list()?, Vec::new())?;
        refused("their bytes", fixture.provisioner.snapshot_bytes(ID), &[FsError::NotFound])?;
        let volume = fixture.volume(8 * MIB, 100)?;
        eq("snapshots", of(&volume)?.list()?, Vec::new())?;
        eq("bytes of no snapshot", fixture.provisioner.snapshot_bytes(ID)?, Some(0))?;
        refused("a snapshot", of(&volume)?.open(ViewId(1)).map(drop), &[FsError::NotFound])?;
        drop(volume);
        fixture.provisioner.remove(ID)?;
    }
    Ok(())
}

fn all_is_there_after_an_end(fixture: Fixture) -> Outcome {
    let mut fixture = fixture;
    let Some(keys) = volume(&fixture)? else { return Ok(()) };
    for end in [End::Orderly, End::Killed] {
        let volume = fixture.provisioner.open(ID)?;
        fixture = fixture.after(volume, end);
        is_as_in(&fixture, ID, 2, &keys)?;
        eq("snapshots", of(&fixture.provisioner.open(ID)?)?.list()?, vec![ViewId(1), ViewId(2)])?;
        fixture.provisioner.revert(ID, ViewId(1), &mut unpaced)?;
        let volume = fixture.provisioner.open(ID)?;
        fixture = fixture.after(volume, end);
        is_as_in(&fixture, ID, 1, &keys)?;
        fixture.provisioner.revert(ID, ViewId(2), &mut unpaced)?;
    }
    Ok(())
}
