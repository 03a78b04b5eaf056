//! Ranges of files: holes, storage, copies, clones.

use super::expect::{attrs, change, contents, eq, holds, modified, refused, untouched};
use super::oracle::Random;
use super::rig::{Failure, Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use vfs::backend::ranges::COPY_BYTES_MAX;
use vfs::backend::{AuthorizeWrite, CLEAR_SET_ID, KEEP_SET_ID};
use vfs::{
    Blocking, Change, FsError, FsResult, NewInode, NodeRef, Ranges, Seek, SetAttrs, Span, Special, SyncScope,
};

family!("ranges":
    a_backend_says_what_it_has, data_and_holes_are_found, places_outside_the_file_are_refused, storage_is_taken_and_given_back,
    an_allocation_grows_a_file_by_zeros,
    room_is_taken_past_the_end, zeros_reach_as_far_as_asked, operations_match_a_vector, a_copy_goes_to_the_end_of_the_source,
    a_long_copy_comes_in_parts, a_clone_is_a_file_of_its_own, clones_are_of_whole_blocks, a_range_does_not_overlap_itself,
    empty_ranges_change_nothing, ranges_past_the_largest_are_refused, only_regular_files_have_ranges,
    set_id_bits_go_away_on_demand, changes_survive_sync_and_restart, the_files_of_a_backend_lie_in_one_file_system,
);

const TOO_BIG: &[FsError] = &[FsError::FileTooBig, FsError::Invalid, FsError::NoSpace];
const MIB: usize = 1 << 20;

fn file(fixture: &Fixture, data: &[u8]) -> Outcome<NodeRef> {
    let node = fixture.dir()?.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    node.write(0, data, KEEP_SET_ID)?;
    Ok(node)
}

fn of(node: &NodeRef) -> FsResult<&dyn Ranges> {
    node.ranges().ok_or(FsError::NotSupported)
}

/// Bytes that differ from place to place and are never zero.
fn pattern(count: usize, seed: usize) -> Vec<u8> {
    (1..=255).cycle().skip(seed % 255).take(count).collect()
}

fn span(source: u64, target: u64, len: u64) -> Span {
    Span { source, target, len }
}

/// Changes a range of a file of 100,000 bytes; the second node is another file in the same directory.
type Act = fn(&NodeRef, &NodeRef, (u64, u64), AuthorizeWrite<'_>) -> FsResult<Change>;

const ACTS: [(&str, Act); 4] = [
    ("allocate", |file, _, (offset, len), authorize| of(file)?.allocate(offset, len, authorize)),
    ("punch", |file, _, (offset, len), authorize| of(file)?.punch(offset, len, authorize)),
    ("zero", |file, _, (offset, len), authorize| of(file)?.zero(offset, len, authorize)),
    ("copy", |file, other, (offset, len), authorize| {
        Ok(of(other)?.copy_to(file, &span(0, offset, len), authorize)?.1)
    }),
];

fn a_backend_says_what_it_has(fixture: &Fixture) -> Outcome {
    let Some(says) = fixture.backend.capabilities().ranges else {
        return Err(Failure::new("a backend without ranges, which no backend of ours is"));
    };
    eq("clones", says.clone_bytes.is_some(), fixture.can(Lack::Clones))?;
    holds("ranges of a node", file(fixture, b"")?.ranges().is_some())
}

fn data_and_holes_are_found(fixture: &Fixture) -> Outcome {
    let node = file(fixture, b"")?;
    let ends = [(0, 300_000), (MIB, MIB + 1), (3 * MIB + 5000, 3 * MIB + 80_000)];
    for (start, end) in ends {
        node.write(start as u64, &pattern(end - start, 1), KEEP_SET_ID)?;
    }
    node.set_attrs(&SetAttrs { size: Some(5 << 20), ..SetAttrs::default() })?;
    for round in 0..2 {
        let (mut at, size, mut found) = (0, attrs(&node)?.size, Vec::new());
        while let Some(data) = if at < size { of(&node)?.seek(at, Seek::Data)? } else { None } {
            let hole = of(&node)?.seek(data, Seek::Hole)?;
            let Some(hole) = hole else { return Err(Failure::new("a file without a hole at its end")) };
            holds(format!("from {at} on: data at {data}, a hole at {hole}"), at <= data && data < hole)?;
            eq("data at its beginning", of(&node)?.seek(data, Seek::Data)?, Some(data))?;
            found.push((data, hole));
            at = hole;
        }
        holds("no hole lies past the end", at <= size)?;
        for (start, end) in ends {
            let covers = |&(data, hole): &(u64, u64)| data <= start as u64 && end as u64 <= hole;
            holds(format!("{start} to {end} is data in {found:?}"), found.iter().any(covers))?;
        }
        let most: u64 = found.iter().map(|(data, hole)| hole - data).sum();
        let is_sparse = most < 2 << 20 || !fixture.can(Lack::Holes);
        holds(format!("round {round}: holes are left out of {found:?}"), is_sparse)?;
        node.sync(SyncScope::All)?;
    }
    Ok(())
}

fn places_outside_the_file_are_refused(fixture: &Fixture) -> Outcome {
    let node = file(fixture, b"abc")?;
    for what in [Seek::Data, Seek::Hole] {
        for offset in [3, 4, 1 << 40, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX] {
            refused(format!("{what:?} at {offset}"), of(&node)?.seek(offset, what), &[FsError::NoDevice])?;
        }
    }
    eq("data", of(&node)?.seek(2, Seek::Data)?, Some(2))?;
    eq("the hole at the end", of(&node)?.seek(0, Seek::Hole)?, Some(3))?;
    let empty = file(fixture, b"")?;
    refused("an empty file", of(&empty)?.seek(0, Seek::Hole), &[FsError::NoDevice])?;
    if !fixture.can(Lack::Holes) {
        return Ok(());
    }
    empty.set_attrs(&SetAttrs { size: Some(1 << 30), ..SetAttrs::default() })?;
    eq("no data", of(&empty)?.seek(5, Seek::Data)?, None)?;
    eq("all hole", of(&empty)?.seek(5, Seek::Hole)?, Some(5))
}

fn storage_is_taken_and_given_back(fixture: &Fixture) -> Outcome {
    let node = file(fixture, b"abc")?;
    of(&node)?.allocate(0, 4 << 20, KEEP_SET_ID)?;
    node.sync(SyncScope::All)?;
    let used = attrs(&node)?.used;
    holds(format!("an allocation of 4 MiB takes storage: {used}"), used >= 4 << 20)?;
    of(&node)?.punch(1 << 20, 3 << 20, KEEP_SET_ID)?;
    node.sync(SyncScope::All)?;
    let used_after = attrs(&node)?.used;
    let is_released = used_after <= used - (2 << 20) || !fixture.can(Lack::Holes);
    holds(format!("of {used}, {used_after} is left without 3 MiB"), is_released)?;
    eq("size", attrs(&node)?.size, 4 << 20)
}

fn an_allocation_grows_a_file_by_zeros(fixture: &Fixture) -> Outcome {
    let mut want = pattern(10_000, 1);
    let node = file(fixture, &want)?;
    for (offset, len) in [(0, 10_000), (5000, 3), (9_999, 2), (30_000, 12_345), (41_000, 1)] {
        fixture.tick();
        let done =
            change("an allocation", &node, || of(&node)?.allocate(offset as u64, len as u64, KEEP_SET_ID))?;
        want.resize(want.len().max(offset + len), 0);
        eq(format!("size after {len} at {offset}"), done.after.size, want.len() as u64)?;
        holds(format!("contents after {len} at {offset}"), contents(&node)? == want)?;
        if done.after.size > done.before.size {
            modified("an allocation that grows the file", &done)?;
        }
    }
    Ok(())
}

fn room_is_taken_past_the_end(fixture: &Fixture) -> Outcome {
    let want = pattern(10_000, 1);
    let node = file(fixture, &want)?;
    for len in [0, 1, 10_000, 4 << 20] {
        let done = match of(&node)?.preallocate(len, KEEP_SET_ID) {
            Err(FsError::NotSupported) => return Ok(()),
            done => done?,
        };
        eq(format!("size after {len}"), done.after.size, 10_000)?;
        holds(format!("contents after {len}"), contents(&node)? == want)?;
    }
    node.sync(SyncScope::All)?;
    let used = attrs(&node)?.used;
    holds(format!("room of 4 MiB takes storage: {used}"), used >= 4 << 20)?;
    eq("no data past the end", of(&node)?.seek(9_999, Seek::Hole)?, Some(10_000))?;
    // The file grows into it by zeros.
    node.write(20_000, b"x", KEEP_SET_ID)?;
    let mut grown = want;
    grown.resize(20_000, 0);
    grown.push(b'x');
    holds("contents of the grown file", contents(&node)? == grown)?;
    let max = u64::try_from(i64::MAX).unwrap_or(0);
    refused("a huge room", of(&node)?.preallocate(max, KEEP_SET_ID), TOO_BIG)?;
    eq("size after a refusal", attrs(&node)?.size, 20_001)
}

fn zeros_reach_as_far_as_asked(fixture: &Fixture) -> Outcome {
    for (what, act) in [ACTS[1], ACTS[2]] {
        let mut want = pattern(100_000, 1);
        let node = file(fixture, &want)?;
        for (offset, len) in
            [(5, 10), (4000, 200), (8192, 4096), (20_000, 30_000), (99_999, 1), (99_990, 5000), (200_000, 10)]
        {
            fixture.tick();
            let done = change(what, &node, || act(&node, &node, (offset as u64, len as u64), KEEP_SET_ID))?;
            let end = want.len().min(offset + len);
            want[offset.min(end)..end].fill(0);
            eq("size", done.after.size, 100_000)?;
            holds(format!("contents after {what} of {len} at {offset}"), contents(&node)? == want)?;
            if offset < end {
                modified(what, &done)?;
            }
        }
        change(what, &node, || act(&node, &node, (1000, u64::MAX), KEEP_SET_ID))?;
        want[1000..].fill(0);
        holds(format!("contents after {what} of all the rest"), contents(&node)? == want)?;
    }
    Ok(())
}

fn operations_match_a_vector(fixture: &Fixture) -> Outcome {
    let mut random = Random::new(0xca5cade);
    let nodes = [file(fixture, b"")?, file(fixture, b"")?];
    let mut want = [Vec::new(), Vec::new()];
    for round in 0..400 {
        let (one, other) = (random.below(2), random.below(2));
        let [offset, from, len] = [random.below(40_000), random.below(40_000), 1 + random.below(9000)];
        let (at, count) = (offset as u64, len as u64);
        let node = &nodes[one];
        match random.below(6) {
            0 | 1 => {
                let data = pattern(len, round);
                node.write(at, &data, KEEP_SET_ID)?;
                let size = want[one].len().max(offset + len);
                want[one].resize(size, 0);
                want[one][offset..offset + len].copy_from_slice(&data);
            }
            2 => {
                of(node)?.allocate(at, count, KEEP_SET_ID)?;
                let size = want[one].len().max(offset + len);
                want[one].resize(size, 0);
            }
            kind @ (3 | 4) => {
                let act = ACTS[kind - 2].1;
                act(node, node, (at, count), KEEP_SET_ID)?;
                let end = want[one].len().min(offset + len);
                want[one][offset.min(end)..end].fill(0);
            }
            _ => {
                let data =
                    want[other].get(from..).map_or(&[][..], |rest| &rest[..len.min(rest.len())]).to_vec();
                if one == other && from.abs_diff(offset) < data.len() {
                    continue;
                }
                let (copied, _) =
                    of(&nodes[other])?.copy_to(node, &span(from as u64, at, count), KEEP_SET_ID)?;
                eq(format!("round {round}: bytes copied"), copied, data.len() as u64)?;
                let size = if data.is_empty() { 0 } else { offset + data.len() };
                let size = want[one].len().max(size);
                want[one].resize(size, 0);
                want[one][offset.min(size)..][..data.len()].copy_from_slice(&data);
            }
        }
        for (node, want) in nodes.iter().zip(&want) {
            holds(format!("contents after round {round}"), contents(node)? == *want)?;
        }
    }
    Ok(())
}

fn a_copy_goes_to_the_end_of_the_source(fixture: &Fixture) -> Outcome {
    let data = pattern(10_000, 1);
    let (source, target) = (file(fixture, &data)?, file(fixture, b"abc")?);
    let copy = |from, to, len| of(&source)?.copy_to(&target, &span(from, to, len), KEEP_SET_ID);
    fixture.tick();
    let (copied, done) = copy(9_000, 10, 5_000)?;
    eq("bytes copied", copied, 1_000)?;
    modified("a copy", &done)?;
    eq("size", done.after.size, 1_010)?;
    let want = [&b"abc\0\0\0\0\0\0\0"[..], &data[9_000..]].concat();
    holds("contents", contents(&target)? == want)?;
    for from in [10_000, 10_001, 1 << 40, u64::MAX] {
        let (copied, done) = copy(from, 0, 10)?;
        eq(format!("bytes copied from {from}"), (copied, done.before == done.after), (0, true))?;
    }
    eq("bytes copied of a huge range", copy(1, 0, u64::MAX)?.0, 9_999)?;
    holds("contents after it", contents(&target)? == data[1..])?;
    holds("the source", contents(&source)? == data)?;
    let (copied, _) = of(&source)?.copy_to(&source, &span(0, 10_000, 10_000), KEEP_SET_ID)?;
    eq("bytes copied within a file", copied, 10_000)?;
    holds("contents twice", contents(&source)? == [&data[..], &data].concat())
}

fn a_long_copy_comes_in_parts(fixture: &Fixture) -> Outcome {
    let data = pattern(20 * MIB, 3);
    let (source, target) = (file(fixture, &data)?, file(fixture, b"")?);
    let (mut done, mut parts) = (0, 0);
    while done < data.len() as u64 {
        let rest = span(done, done, u64::MAX);
        let (copied, change) = of(&source)?.copy_to(&target, &rest, KEEP_SET_ID)?;
        holds(format!("a part of {copied}"), copied > 0 && copied <= COPY_BYTES_MAX)?;
        done += copied;
        eq("size", change.after.size, done)?;
        parts += 1;
    }
    holds(format!("{parts} parts"), parts > 1)?;
    holds("contents", contents(&target)? == data)
}

/// Returns the alignment of clones; `None` where the backend cannot clone.
fn clone_bytes(fixture: &Fixture) -> Outcome<Option<usize>> {
    let says = fixture.backend.capabilities().ranges.and_then(|ranges| ranges.clone_bytes);
    Ok(says.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
}

fn a_clone_is_a_file_of_its_own(fixture: &Fixture) -> Outcome {
    let (source, target) = (file(fixture, &pattern(100_000, 1))?, file(fixture, b"abc")?);
    let whole = span(0, 0, 100_000);
    let Some(block) = clone_bytes(fixture)? else {
        let none = of(&source)?.clone_to(&target, &whole, KEEP_SET_ID);
        refused("a clone", none, &[FsError::NotSupported])?;
        return eq("contents", contents(&target)?, b"abc".to_vec());
    };
    let mut want = pattern(100_000, 1);
    fixture.tick();
    let done = change("a clone", &target, || of(&source)?.clone_to(&target, &whole, KEEP_SET_ID))?;
    modified("a clone", &done)?;
    holds("a clone shows the same", contents(&target)? == want)?;
    target.write(10, b"target", KEEP_SET_ID)?;
    source.write(20, b"source", KEEP_SET_ID)?;
    want[10..16].copy_from_slice(b"target");
    holds("a clone keeps its own", contents(&target)? == want)?;
    let middle = span(block as u64, 3 * block as u64, 2 * block as u64);
    of(&source)?.clone_to(&target, &middle, KEEP_SET_ID)?;
    let blocks = contents(&source)?[block..3 * block].to_vec();
    want[3 * block..5 * block].copy_from_slice(&blocks);
    holds("a range in the middle", contents(&target)? == want)?;
    // Within one file, and past its end.
    let far = 200_000_u64.next_multiple_of(block as u64);
    change("a clone far out", &target, || {
        of(&target)?.clone_to(&target, &span(0, far, block as u64), KEEP_SET_ID)
    })?;
    let start = usize::try_from(far).unwrap_or(usize::MAX);
    want.resize(start + block, 0);
    want.copy_within(0..block, start);
    holds("contents with a hole between", contents(&target)? == want)
}

fn clones_are_of_whole_blocks(fixture: &Fixture) -> Outcome {
    let Some(block) = clone_bytes(fixture)? else { return Ok(()) };
    let data = pattern(10 * block + 5, 1);
    let (source, target) = (file(fixture, &data)?, file(fixture, &pattern(20 * block, 7))?);
    let want = contents(&target)?;
    let block = block as u64;
    for (from, to, len) in [
        (1, 0, block),
        (0, 1, block),
        (0, 0, block - 1),
        (0, 0, block + 1),
        (10 * block, 0, 5),
        (10 * block, 0, block),
        (11 * block, 0, block),
        (0, 0, 11 * block),
        (1 << 40, 0, block),
        (u64::MAX - block + 1, 0, block),
    ] {
        let clone = of(&source)?.clone_to(&target, &span(from, to, len), KEEP_SET_ID);
        refused(format!("{len} from {from} to {to}"), clone, &[FsError::Invalid, FsError::FileTooBig])?;
        holds("contents", contents(&target)? == want)?;
    }
    of(&source)?.clone_to(&target, &span(10 * block, 20 * block, 5), KEEP_SET_ID)?;
    let tail = usize::try_from(10 * block).unwrap_or(usize::MAX);
    holds(
        "the end of the one is the end of the other",
        contents(&target)? == [&want[..], &data[tail..]].concat(),
    )
}

fn a_range_does_not_overlap_itself(fixture: &Fixture) -> Outcome {
    let data = pattern(100_000, 1);
    let node = file(fixture, &data)?;
    for (from, to, len) in [(0, 4096, 8192), (4096, 0, 8192), (8192, 8192, 4096), (0, 65_536, u64::MAX)] {
        let span = span(from, to, len);
        let wanted = if fixture.can(Lack::Clones) { FsError::Invalid } else { FsError::NotSupported };
        refused("a copy", of(&node)?.copy_to(&node, &span, KEEP_SET_ID), &[FsError::Invalid])?;
        let clone = of(&node)?.clone_to(&node, &span, KEEP_SET_ID);
        refused("a clone", clone, &[FsError::Invalid, FsError::FileTooBig, wanted])?;
        holds("contents", contents(&node)? == data)?;
    }
    let (copied, _) = of(&node)?.copy_to(&node, &span(90_000, 80_000, u64::MAX), KEEP_SET_ID)?;
    eq("what goes up to the end", copied, 10_000)
}

fn empty_ranges_change_nothing(fixture: &Fixture) -> Outcome {
    let (node, other) = (file(fixture, b"abc")?, file(fixture, &pattern(100, 1))?);
    for offset in [0, 2, 3, 1000] {
        for (what, act) in ACTS {
            let done = change(what, &node, || act(&node, &other, (offset, 0), CLEAR_SET_ID))?;
            eq(format!("an empty {what}"), done.after, done.before)?;
        }
        let done = change("clone", &node, || of(&other)?.clone_to(&node, &span(0, offset, 0), CLEAR_SET_ID))?;
        eq("an empty clone", done.after, done.before)?;
    }
    eq("contents", contents(&node)?, b"abc".to_vec())
}

fn ranges_past_the_largest_are_refused(fixture: &Fixture) -> Outcome {
    let (node, other) = (file(fixture, b"abc")?, file(fixture, &pattern(100_000, 1))?);
    let max = fixture.backend.limits().file_bytes_max;
    for (offset, len) in [
        (max, 1),
        (0, max.saturating_add(1)),
        (1, u64::MAX),
        (u64::MAX, u64::MAX),
        (i64::MAX.unsigned_abs(), 4096),
        (1 << 63, 1 << 63),
    ] {
        refused(format!("{len} at {offset}"), of(&node)?.allocate(offset, len, KEEP_SET_ID), TOO_BIG)?;
        let clone = of(&other)?.clone_to(&node, &span(0, offset, len), KEEP_SET_ID);
        refused(
            format!("a clone of {len} to {offset}"),
            clone,
            &[TOO_BIG, &[FsError::NotSupported]].concat(),
        )?;
        if offset > 0 && len > 1 || offset == max {
            let copy = of(&other)?.copy_to(&node, &span(0, offset.max(max), len), KEEP_SET_ID);
            refused(format!("a copy of {len} to {offset}"), copy, TOO_BIG)?;
        }
        for (what, act) in [ACTS[1], ACTS[2]] {
            let outside = (offset.max(3), len);
            change(what, &node, || act(&node, &node, outside, KEEP_SET_ID))?;
        }
        eq("contents", contents(&node)?, b"abc".to_vec())?;
    }
    // More than any storage has, of which nothing stays taken.
    refused("a huge allocation", of(&node)?.allocate(0, max, KEEP_SET_ID), TOO_BIG)?;
    eq("contents", contents(&node)?, b"abc".to_vec())?;
    node.sync(SyncScope::All)?;
    holds("a refused allocation takes nothing", attrs(&node)?.used < 1 << 20)
}

fn only_regular_files_have_ranges(fixture: &Fixture) -> Outcome {
    let (dir, file) = (fixture.dir()?, file(fixture, &pattern(100, 1))?);
    let new_inode = fixture.new_inode();
    let others = [
        (
            dir.make_special_unchecked(name("link"), Special::Symlink(b"file"), &new_inode)?.found.node,
            FsError::Invalid,
        ),
        (dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?.found.node, FsError::Invalid),
        (dir, FsError::IsDirectory),
    ];
    for (node, wanted) in &others {
        let wanted = &[*wanted];
        refused("seek", of(node)?.seek(0, Seek::Data), wanted)?;
        for (what, act) in ACTS {
            refused(what, act(node, &file, (0, 10), KEEP_SET_ID), wanted)?;
        }
        let span = span(0, 0, 10);
        refused("clone to", of(&file)?.clone_to(node, &span, KEEP_SET_ID), wanted)?;
        refused("copy from", of(node)?.copy_to(&file, &span, KEEP_SET_ID), wanted)?;
        refused("clone from", of(node)?.clone_to(&file, &span, KEEP_SET_ID), wanted)?;
    }
    let copy = of(&file)?.copy_to(&elsewhere()?, &span(0, 0, 10), KEEP_SET_ID);
    holds("another kind of backend", matches!(copy, Err(FsError::CrossVolume) | Ok((10, _))))
}

/// A file of another kind of backend.
fn elsewhere() -> FsResult<NodeRef> {
    let fs = crate::MemFs::new(std::sync::Arc::new(vfs::Time::default));
    let new_inode = NewInode { mode: 0o644, uid: 0, gid: 0, times: None, size: 0 };
    Ok(vfs::Backend::root(&fs).create_unchecked(name("file"), &new_inode)?.found.node)
}

fn the_files_of_a_backend_lie_in_one_file_system(fixture: &Fixture) -> Outcome {
    let [one, other] = [file(fixture, b"")?, file(fixture, b"")?];
    holds("two files", of(&one)?.shares_storage(&other) && of(&other)?.shares_storage(&one))?;
    holds("one file", of(&one)?.shares_storage(&one))?;
    holds("a stranger", !of(&one)?.shares_storage(&elsewhere()?))
}

fn set_id_bits_go_away_on_demand(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let other = file(fixture, &pattern(100_000, 1))?;
    let clone: Act = |file, other, (offset, len), authorize| {
        let done = of(other)?.clone_to(file, &span(0, offset, len), authorize)?;
        Ok(done)
    };
    let clones = fixture.can(Lack::Clones).then_some(("clone", clone));
    for (what, act) in ACTS.into_iter().chain(clones) {
        let new_inode = NewInode { mode: 0o6755, ..fixture.new_inode() };
        let node = dir.create_unchecked(name("file"), &new_inode)?.found.node;
        node.write(0, &[7; 65_536], KEEP_SET_ID)?;
        node.set_attrs(&SetAttrs { mode: Some(0o6755), ..SetAttrs::default() })?;
        if fixture.can(Lack::KeptSetId) {
            let done = change(what, &node, || act(&node, &other, (0, 65_536), KEEP_SET_ID))?;
            eq(format!("the mode after {what}"), done.after.mode, 0o6755)?;
        }
        let before = attrs(&node)?;
        let no = act(&node, &other, (0, 65_536), &|_| Err(FsError::Quota));
        refused(what, no, &[FsError::Quota])?;
        untouched(what, &node, &before)?;
        let mode = attrs(&node)?.mode;
        let overlaps = span(0, 4096, 8192);
        for refused in [
            of(&node)?.copy_to(&node, &overlaps, CLEAR_SET_ID).map(drop),
            of(&node)?.clone_to(&node, &overlaps, CLEAR_SET_ID).map(drop),
        ] {
            holds("a range that overlaps itself is refused", refused.is_err())?;
            eq("the mode after a refusal", attrs(&node)?.mode, mode)?;
        }
        let done = change(what, &node, || act(&node, &other, (0, 65_536), CLEAR_SET_ID))?;
        eq(format!("the mode after {what} that clears"), done.after.mode, 0o755)?;
        dir.remove_unchecked(name("file"))?;
    }
    Ok(())
}

fn changes_survive_sync_and_restart(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let source = file(fixture, &pattern(100_000, 1))?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    of(&source)?.copy_to(&node, &span(0, 0, 100_000), KEEP_SET_ID)?;
    of(&node)?.punch(10_000, 20_000, KEEP_SET_ID)?;
    of(&node)?.zero(50_000, 10, KEEP_SET_ID)?;
    of(&node)?.allocate(100_000, 50_000, KEEP_SET_ID)?;
    let want = contents(&node)?;
    eq("size", want.len(), 150_000)?;
    node.sync(SyncScope::All)?;
    of(&node)?.punch(0, 4096, KEEP_SET_ID)?;
    node.sync(SyncScope::Data)?;
    dir.sync(SyncScope::All)?;
    fixture.backend.root().sync(SyncScope::All)?;
    let Some(reopen) = &fixture.reopen else { return Ok(()) };
    let again = reopen().node(&node.key(), Blocking::Allowed)?;
    let got = contents(&again)?;
    holds("contents after a restart", got[4096..] == want[4096..] && got[..4096] == [0; 4096])
}
