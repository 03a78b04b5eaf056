//! The contents of regular files.

use super::expect::{attrs, change, contents, eq, holds, modified, refused, same, same_again};
use super::rig::{Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use std::fs::File;
use std::os::unix::fs::FileExt;
use vfs::backend::{CLEAR_SET_ID, KEEP_SET_ID};
use vfs::{Blocking, FsError, NewInode, NodeRef, SetAttrs, SyncScope};

family!("data":
    a_write_is_read_back, a_large_write_is_done_whole, reads_end_at_the_end, holes_read_as_zeros,
    cutting_and_growing_fills_with_zeros, writes_match_a_vector, a_write_changes_times_and_size, an_empty_write_does_nothing,
    offsets_past_the_largest_are_refused, set_id_bits_go_away_on_demand, a_descriptor_shows_the_same,
    data_survives_sync_and_restart, a_size_is_that_of_the_attributes,
);

const TOO_BIG: &[FsError] = &[FsError::FileTooBig, FsError::Invalid];

fn file(fixture: &Fixture) -> Outcome<NodeRef> {
    Ok(fixture.dir()?.create_unchecked(name("file"), &fixture.new_inode())?.found.node)
}

fn size(size: u64) -> SetAttrs {
    SetAttrs { size: Some(size), ..SetAttrs::default() }
}

/// Bytes that differ from place to place and are never zero.
fn pattern(count: usize, seed: usize) -> Vec<u8> {
    (1..=255).cycle().skip(seed % 255).take(count).collect()
}

fn read(node: &NodeRef, offset: u64, count: usize) -> Outcome<Vec<u8>> {
    let mut read = Vec::with_capacity(count + 64);
    read.push(0x5a);
    let got = node.read(offset, count, &mut read, Blocking::Allowed)?;
    holds("a read gives no more than is asked", got <= count)?;
    eq("a read appends what it says", read.len(), 1 + got)?;
    eq("a read leaves what was there", read.remove(0), 0x5a)?;
    Ok(read)
}

fn a_write_is_read_back(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    let done = change("a write", &node, || node.write(0, b"hello", KEEP_SET_ID))?;
    eq("sizes", (done.before.size, done.after.size), (0, 5))?;
    node.write(2, b"LLO, world", KEEP_SET_ID)?;
    eq("contents", contents(&node)?, b"heLLO, world".to_vec())?;
    eq("a part", read(&node, 4, 3)?, b"O, ".to_vec())?;
    eq("nothing", read(&node, 4, 0)?, Vec::new())
}

fn a_large_write_is_done_whole(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    let data = pattern(3 << 20, 5);
    let done = change("a large write", &node, || node.write(12_345, &data, KEEP_SET_ID))?;
    eq("size", done.after.size, 12_345 + (3 << 20))?;
    holds("one read returns it all", read(&node, 12_345, 4 << 20)? == data)
}

fn reads_end_at_the_end(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    eq("an empty file", read(&node, 0, 10)?, Vec::new())?;
    let data = pattern(10_000, 1);
    node.write(0, &data, KEEP_SET_ID)?;
    eq("over the end", read(&node, 9_990, 100)?, data[9_990..].to_vec())?;
    eq("up to the end", read(&node, 9_990, 10)?.len(), 10)?;
    for offset in [10_000, 10_001, 1 << 20, 1 << 40, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX] {
        let got = read(&node, offset, 100).map_err(|failure| failure.during(format!("at {offset}")))?;
        eq(format!("at {offset}"), got, Vec::new())?;
    }
    Ok(())
}

fn holes_read_as_zeros(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    node.write(1 << 30, b"x", KEEP_SET_ID)?;
    node.sync(SyncScope::All)?;
    let after = attrs(&node)?;
    eq("size", after.size, (1 << 30) + 1)?;
    let is_free = after.used < 1 << 24 || !fixture.can(Lack::Holes);
    holds(format!("a hole takes no storage: {}", after.used), is_free)?;
    for offset in [0, 4000, 1 << 20, (1 << 30) - 5000] {
        eq(format!("the hole at {offset}"), read(&node, offset, 5000)?, vec![0; 5000])?;
    }
    eq("behind the hole", read(&node, 1 << 30, 10)?, b"x".to_vec())?;
    node.write(5000, b"y", KEEP_SET_ID)?;
    eq("in the hole", read(&node, 4999, 3)?, vec![0, b'y', 0])
}

fn cutting_and_growing_fills_with_zeros(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    let mut want = pattern(20_000, 3);
    node.write(0, &want, KEEP_SET_ID)?;
    for new in [15_000, 18_000, 4096, 8192, 4095, 4097, 1, 12_288, 0, 300, 20_000] {
        fixture.tick();
        let done = change(format!("size {new}"), &node, || node.set_attrs(&size(new as u64)))?;
        eq("size", done.after.size, new as u64)?;
        modified(format!("size {new}"), &done)?;
        want.resize(new, 0);
        holds(format!("what was cut to {new} does not come back"), contents(&node)? == want)?;
        if new > 10 {
            node.write((new - 5) as u64, b"abc", KEEP_SET_ID)?;
            want[new - 5..new - 2].copy_from_slice(b"abc");
        }
    }
    node.set_attrs(&size(1 << 32))?;
    eq("past 4 GiB", read(&node, (1 << 32) - 3, 10)?, vec![0; 3])
}

fn writes_match_a_vector(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    let mut random = super::oracle::Random::new(0x5eed);
    let mut want: Vec<u8> = Vec::new();
    for round in 0..300 {
        let [offset, count] = [random.below(40_000), random.below(9000)];
        let data = pattern(count, round);
        node.write(offset as u64, &data, KEEP_SET_ID)?;
        if count > 0 {
            want.resize(want.len().max(offset + count), 0);
            want[offset..offset + count].copy_from_slice(&data);
        }
        let [from, room] = [random.below(50_000), random.below(20_000)];
        let part = want.get(from..).map_or(&[][..], |rest| &rest[..room.min(rest.len())]);
        holds(format!("round {round}: {room} bytes at {from}"), read(&node, from as u64, room)? == part)?;
    }
    holds("the whole", contents(&node)? == want)
}

fn a_write_changes_times_and_size(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    for (offset, count, want) in [(0, 100, 100), (50, 20, 100), (50, 100, 150), (99_999, 1, 100_000)] {
        fixture.tick();
        let done = change("a write", &node, || node.write(offset, &pattern(count, 1), KEEP_SET_ID))?;
        eq(format!("size after {count} at {offset}"), done.after.size, want)?;
        modified("a write", &done)?;
        let rest = vfs::Attrs {
            size: done.before.size,
            modified: done.before.modified,
            changed: done.before.changed,
            change: done.before.change,
            ..done.after
        };
        same("a write changes nothing else", &rest, &done.before)?;
    }
    Ok(())
}

fn an_empty_write_does_nothing(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    node.write(0, b"abc", KEEP_SET_ID)?;
    for offset in [0, 2, 3, 1000] {
        let done = change("an empty write", &node, || node.write(offset, b"", KEEP_SET_ID))?;
        eq("size", done.after.size, 3)?;
    }
    eq("contents", contents(&node)?, b"abc".to_vec())
}

fn offsets_past_the_largest_are_refused(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    node.write(0, b"abc", KEEP_SET_ID)?;
    let max = fixture.backend.limits().file_bytes_max;
    let before = attrs(&node)?;
    for offset in [max, max.saturating_add(1), i64::MAX.unsigned_abs(), 1 << 63, u64::MAX - 1, u64::MAX] {
        refused(format!("a write at {offset}"), node.write(offset, b"xy", KEEP_SET_ID), TOO_BIG)?;
    }
    for new in [max.saturating_add(1), 1 << 63, u64::MAX] {
        refused(format!("size {new}"), node.set_attrs(&size(new)), TOO_BIG)?;
    }
    eq("contents", contents(&node)?, b"abc".to_vec())?;
    eq("size", attrs(&node)?.size, before.size)
}

fn set_id_bits_go_away_on_demand(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for (mode, cleared) in
        [(0o6755, 0o755), (0o4644, 0o644), (0o2711, 0o711), (0o2745, 0o2745), (0o1644, 0o1644)]
    {
        let node = dir.create_unchecked(name("file"), &NewInode { mode, ..fixture.new_inode() })?.found.node;
        if fixture.can(Lack::KeptSetId) {
            let done = change("a write", &node, || node.write(0, b"x", KEEP_SET_ID))?;
            eq(format!("mode {mode:o} stays"), done.after.mode, mode)?;
        }
        let done = change("a clearing write", &node, || node.write(0, b"x", CLEAR_SET_ID))?;
        eq(format!("mode after {mode:o}"), done.after.mode, cleared)?;
        dir.remove_unchecked(name("file"))?;
    }
    Ok(())
}

fn a_descriptor_shows_the_same(fixture: &Fixture) -> Outcome {
    let node = file(fixture)?;
    let data = pattern(100_000, 9);
    node.write(0, &data, KEEP_SET_ID)?;
    for blocking in [Blocking::Never, Blocking::Allowed] {
        for (offset, len) in [(0, 100_000), (0, 1), (4096, 8192), (99_999, 1)] {
            let Some(fd) = node.descriptor(offset, len, blocking) else { continue };
            let spliced = File::from(fd.try_clone().map_err(|_| FsError::Io)?);
            let mut buffer = vec![0; len];
            spliced.read_exact_at(&mut buffer, offset).map_err(|_| FsError::Io)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            holds(format!("{len} bytes at {offset}"), buffer == data[start..start + len])?;
        }
    }
    Ok(())
}

fn data_survives_sync_and_restart(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let data = pattern(50_000, 2);
    node.write(0, &data, KEEP_SET_ID)?;
    let set = SetAttrs { mode: Some(0o4711), ..SetAttrs::default() };
    let want = node.set_attrs(&set)?.after;
    node.sync(SyncScope::Data)?;
    node.sync(SyncScope::All)?;
    dir.sync(SyncScope::All)?;
    fixture.backend.root().sync(SyncScope::All)?;
    let Some(reopen) = &fixture.reopen else { return Ok(()) };
    let again = reopen().node(&node.key(), Blocking::Allowed)?;
    same_again("attributes", &attrs(&again)?, &want)?;
    holds("contents after a restart", contents(&again)? == data)
}

fn a_size_is_that_of_the_attributes(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let current_size = |node: &NodeRef| node.size(Blocking::Allowed);
    eq("of an empty file", current_size(&node)?, 0)?;
    node.write(5000, b"bytes", KEEP_SET_ID)?;
    eq("after a write", current_size(&node)?, 5005)?;
    node.set_attrs(&size(17))?;
    eq("after a cut", current_size(&node)?, 17)?;
    eq("of the attributes", attrs(&node)?.size, 17)?;
    node.pin();
    dir.remove_unchecked(name("file"))?;
    eq("without a name", current_size(&node)?, 17)?;
    node.unpin();
    Ok(())
}
