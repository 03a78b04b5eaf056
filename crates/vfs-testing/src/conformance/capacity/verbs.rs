//! The verbs of a provisioner: each can be repeated, and survives an end.

use super::rig::{BLOCK_BYTES, Case, End, Fixture, ID, MIB, append_until_full};
use crate::UncheckedNode;
use crate::conformance::expect::{attrs, contents, eq, holds, names, refused};
use crate::conformance::rig::{Outcome, name};
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, Capacity, FsError, Root, VolumeId};

pub(super) const CASES: &[Case] = &[
    Case { name: "verbs/making_again_keeps_the_files", run: making_again_keeps_the_files },
    Case { name: "verbs/what_is_not_there_is_not_found", run: what_is_not_there_is_not_found },
    Case { name: "verbs/a_removed_volume_comes_back_empty", run: a_removed_volume_comes_back_empty },
    Case { name: "verbs/volumes_do_not_share_capacity", run: volumes_do_not_share_capacity },
    Case { name: "verbs/the_root_is_as_declared", run: the_root_is_as_declared },
    Case { name: "verbs/all_is_there_after_an_end", run: all_is_there_after_an_end },
    Case { name: "verbs/an_open_volume_opens_as_the_same", run: an_open_volume_opens_as_the_same },
];

const CAPACITY: Capacity = Capacity { bytes: 8 * MIB, files: 100 };

fn making_again_keeps_the_files(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    fixture.file(&volume.root(), "kept")?.write(0, b"kept", KEEP_SET_ID)?;
    drop(volume);
    let volume = fixture.volume(16 * MIB, 50)?;
    let kept = volume.root().lookup(name("kept"), Blocking::Allowed)?.node;
    eq("contents", contents(&kept)?, b"kept".to_vec())?;
    fixture.check_usage("usage", BLOCK_BYTES, 2)?;
    let stat = volume.stat()?;
    eq("the new capacity", (stat.bytes_total, stat.files_total), (16 * MIB, 50))
}

fn what_is_not_there_is_not_found(fixture: Fixture) -> Outcome {
    let provisioner = &fixture.provisioner;
    let missing = &[FsError::NotFound];
    refused("opening", provisioner.open(ID), missing)?;
    refused("asking", provisioner.usage(ID), missing)?;
    refused("a capacity", provisioner.set_capacity(ID, CAPACITY), missing)?;
    refused("a root", provisioner.set_root(ID, &fixture.root()), missing)?;
    provisioner.remove(ID)?;
    eq("volumes", provisioner.list()?, Vec::new())
}

fn a_removed_volume_comes_back_empty(fixture: Fixture) -> Outcome {
    for round in 0..3 {
        let volume = fixture.volume(8 * MIB, 100)?;
        let root = volume.root();
        eq(format!("names in round {round}"), names(&root)?, Vec::new())?;
        fixture.check_usage("at new_inode", 0, 1)?;
        let dir = root.make_dir_unchecked(name("dir"), &fixture.new_inode())?.found.node;
        fixture.file(&dir, "file")?.write(0, &[1; 100_000], KEEP_SET_ID)?;
        drop((volume, root, dir));
        fixture.provisioner.remove(ID)?;
        eq("volumes", fixture.provisioner.list()?, Vec::new())?;
        refused("opening what was removed", fixture.provisioner.open(ID), &[FsError::NotFound])?;
        fixture.provisioner.remove(ID)?;
    }
    Ok(())
}

fn volumes_do_not_share_capacity(fixture: Fixture) -> Outcome {
    let provisioner = &fixture.provisioner;
    let ids = [VolumeId(1), VolumeId(u64::MAX), VolumeId(1 << 32 | 1)];
    for id in ids {
        provisioner.make(id, &fixture.root(), CAPACITY)?;
    }
    let first = provisioner.open(ids[0])?;
    append_until_full(&fixture.file(&first.root(), "full")?)?;
    for &id in &ids[1..] {
        let other = provisioner.open(id)?;
        fixture.file(&other.root(), "file")?.write(0, &[1; 4096], KEEP_SET_ID)?;
        holds("only the first is full", provisioner.usage(id)?.bytes < MIB)?;
    }
    let mut listed = provisioner.list()?;
    listed.sort();
    eq("volumes", listed, vec![ids[0], ids[2], ids[1]])
}

fn the_root_is_as_declared(fixture: Fixture) -> Outcome {
    let root = Root { mode: 0o1770, ..fixture.root() };
    fixture.provisioner.make(ID, &root, CAPACITY)?;
    let volume = fixture.provisioner.open(ID)?;
    let seen = attrs(&volume.root())?;
    eq("a new root", (seen.mode, seen.uid, seen.gid), (root.mode, root.uid, root.gid))?;
    fixture.provisioner.set_root(ID, &Root { mode: 0o2755, ..root })?;
    eq("an open root", attrs(&volume.root())?.mode, 0o2755)?;
    drop(volume);
    fixture.provisioner.set_root(ID, &Root { mode: 0o700, ..root })?;
    eq("a closed root", attrs(&fixture.provisioner.open(ID)?.root())?.mode, 0o700)
}

fn all_is_there_after_an_end(fixture: Fixture) -> Outcome {
    let mut fixture = fixture;
    for end in [End::Orderly, End::Killed] {
        let volume = fixture.volume(8 * MIB, 100)?;
        if end == End::Orderly {
            fixture.file(&volume.root(), "file")?.write(0, &[1; 10_000], KEEP_SET_ID)?;
        }
        volume.sync()?;
        fixture = fixture.after(volume, end);
        eq("volumes", fixture.provisioner.list()?, vec![ID])?;
        let volume = fixture.provisioner.open(ID)?;
        fixture.counted()?;
        let stat = volume.stat()?;
        eq("capacity", (stat.bytes_total, stat.files_total), (8 * MIB, 100))?;
        eq("names", names(&volume.root())?, vec![b"file".to_vec()])?;
        fixture.check_usage("usage", 3 * BLOCK_BYTES, 2)?;
    }
    Ok(())
}

fn an_open_volume_opens_as_the_same(fixture: Fixture) -> Outcome {
    let volume = fixture.volume(8 * MIB, 100)?;
    let file = fixture.file(&volume.root(), "file")?;
    let again = fixture.provisioner.open(ID)?;
    again.node(&file.key(), Blocking::Allowed)?.write(0, &[1; 4096], KEEP_SET_ID)?;
    drop(again);
    file.write(4096, &[1; 4096], KEEP_SET_ID)?;
    fixture.check_usage("both count in one", 2 * BLOCK_BYTES, 2)
}
