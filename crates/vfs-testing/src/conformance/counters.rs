//! Change numbers and birth times.

use super::expect::{attrs, contents, eq, holds, list};
use super::rig::{Failure, Fixture, Outcome, family, name};
use crate::UncheckedNode;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, FsResult, NodeRef, SetAttrs, SetTime, SyncScope, Time};

family!("counters":
    every_change_has_a_number_of_its_own, every_change_of_a_directory_too, what_changes_nothing_keeps_the_number,
    everybody_is_told_the_same_number, a_birth_time_stays,
);

/// One after another, with nothing between them for a clock to move.
const ROUNDS: u8 = 50;

/// Runs a change of `node`; checks that its change number rises from `last` and is visible.
fn step(what: &str, node: &NodeRef, last: &mut u64, act: impl FnOnce() -> FsResult<()>) -> Outcome {
    act().map_err(|error| Failure::from(error).during(what))?;
    let now = attrs(node)?.change;
    holds(format!("{what} raises the number {last} to {now}"), now > *last)?;
    *last = now;
    Ok(())
}

fn every_change_has_a_number_of_its_own(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let mut last = attrs(&node)?.change;
    let set = |set: SetAttrs| node.set_attrs(&set).map(drop);
    let moment = SetTime::To(Time { seconds: 1_000_000_000, nanos: 0 });
    for round in 0..ROUNDS {
        let done = node.write(0, &[round], KEEP_SET_ID)?;
        eq("the number before", done.before.change, last)?;
        step("a write", &node, &mut last, || Ok(()))?;
        eq("the number after", done.after.change, last)?;
        step("the same write again", &node, &mut last, || node.write(0, &[round], KEEP_SET_ID).map(drop))?;
        let size = SetAttrs { size: Some(100 + u64::from(round)), ..SetAttrs::default() };
        step("a new size", &node, &mut last, || set(size))?;
        step("a mode", &node, &mut last, || set(SetAttrs { mode: Some(0o640), ..SetAttrs::default() }))?;
        let time = SetAttrs { modified: Some(moment), ..SetAttrs::default() };
        step("a time", &node, &mut last, || set(time))?;
        step("a link", &node, &mut last, || dir.link_unchecked(name("link"), &node).map(drop))?;
        step("one link less", &node, &mut last, || dir.remove_unchecked(name("link")).map(drop))?;
    }
    Ok(())
}

fn every_change_of_a_directory_too(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let [mut last, mut other_last] = [attrs(&dir)?.change, attrs(&other)?.change];
    for _ in 0..ROUNDS {
        step("a new file", &dir, &mut last, || {
            dir.create_unchecked(name("a"), &fixture.new_inode()).map(drop)
        })?;
        step("a move", &dir, &mut last, || dir.rename_unchecked(name("a"), &dir, name("b")).map(drop))?;
        step("a loss", &dir, &mut last, || dir.rename_unchecked(name("b"), &other, name("b")).map(drop))?;
        step("a gain", &other, &mut other_last, || Ok(()))?;
        step("a directory", &dir, &mut last, || {
            dir.make_dir_unchecked(name("sub"), &fixture.new_dir()).map(drop)
        })?;
        step("a removal", &dir, &mut last, || dir.remove_dir_unchecked(name("sub")).map(drop))?;
        step("a removal elsewhere", &other, &mut other_last, || other.remove_unchecked(name("b")).map(drop))?;
    }
    Ok(())
}

fn what_changes_nothing_keeps_the_number(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    node.write(0, b"contents", KEEP_SET_ID)?;
    let [number, dir_number] = [attrs(&node)?.change, attrs(&dir)?.change];
    for _ in 0..ROUNDS {
        contents(&node)?;
        list(&dir, 0, true, 10)?;
        node.write(3, b"", KEEP_SET_ID)?;
        holds("a refused write", node.write(0, b"x", &|_| Err(vfs::FsError::Access)).is_err())?;
        dir.lookup(name("file"), Blocking::Allowed)?;
        node.sync(SyncScope::All)?;
        fixture.backend.node(&node.key(), Blocking::Allowed)?;
    }
    eq("the number of the file", attrs(&node)?.change, number)?;
    eq("the number of the directory", attrs(&dir)?.change, dir_number)
}

fn everybody_is_told_the_same_number(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    for round in 0..ROUNDS {
        let number = node.write(0, &[round], KEEP_SET_ID)?.after.change;
        eq("by its name", dir.lookup(name("file"), Blocking::Allowed)?.attrs.change, number)?;
        let by_key = fixture.backend.node(&node.key(), Blocking::Allowed)?;
        eq("by its key", attrs(&by_key)?.change, number)?;
        let listed = list(&dir, 0, true, 10)?.into_iter().find(|seen| seen.name == b"file");
        let listed = listed.and_then(|seen| seen.object).map(|(_, attrs)| attrs.change);
        eq("in a listing", listed, Some(number))?;
    }
    Ok(())
}

fn a_birth_time_stays(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let made = dir.create_unchecked(name("file"), &fixture.new_inode())?.found;
    let born = made.attrs.born;
    fixture.tick();
    let later = dir.create_unchecked(name("later"), &fixture.new_inode())?.found.attrs;
    if born.is_none() {
        return eq("no file has a new_inode time", later.born, None);
    }
    holds(format!("{:?} is born after {born:?}", later.born), later.born > born)?;
    made.node.write(0, b"contents", KEEP_SET_ID)?;
    made.node.set_attrs(&SetAttrs {
        mode: Some(0o600),
        modified: Some(SetTime::Now),
        ..Default::default()
    })?;
    dir.rename_unchecked(name("file"), &dir, name("moved"))?;
    let found = dir.lookup(name("moved"), Blocking::Allowed)?.attrs.born;
    eq("the new_inode time after all that", [attrs(&made.node)?.born, found], [born; 2])?;
    let listed = list(&dir, 0, true, 10)?.into_iter().find(|seen| seen.name == b"moved");
    eq("and in a listing", listed.and_then(|seen| seen.object).and_then(|(_, attrs)| attrs.born), born)?;
    made.node.sync(SyncScope::All)?;
    dir.sync(SyncScope::All)?;
    let Some(reopen) = &fixture.reopen else { return Ok(()) };
    fixture.backend.root().sync(SyncScope::All)?;
    let again = reopen().node(&made.node.key(), Blocking::Allowed)?;
    eq("the new_inode time after a restart", attrs(&again)?.born, born)
}
