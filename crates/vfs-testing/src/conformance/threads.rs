//! Many threads on one file or directory.

use super::expect::{attrs, contents, eq, holds, names, settled};
use super::rig::{Failure, Fixture, Outcome, family, name};
use crate::UncheckedNode;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::backend::{CLEAR_SET_ID, KEEP_SET_ID};
use vfs::{Attrs, Blocking, Change, FsError, FsResult, NewInode, NodeRef, SetAttrs};

family!("threads":
    changes_of_a_directory_chain, changes_of_a_file_chain, nothing_lies_between_decision_and_change, one_of_many_creators_wins, nobody_sees_a_half_made_file,
    a_name_that_is_replaced_is_always_there, a_removed_directory_has_no_children, crossing_moves_keep_the_tree,
);

const THREADS: usize = 4;

pub(super) fn together<T: Send>(work: impl Fn(usize) -> Outcome<T> + Sync) -> Outcome<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<T>>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Checks that isolated changes form a chain from `first` to `last`: each state is left as often as it is reached.
#[track_caller]
fn chain(changes: &[Change], first: &Attrs, last: &Attrs) -> Outcome {
    let state = |attrs: &Attrs| {
        let Attrs { mode, links, uid, gid, size, modified, changed, change, .. } = settled(attrs);
        (change, changed, modified, size, links, mode, uid, gid)
    };
    let mut states_before: Vec<_> =
        changes.iter().map(|change| state(&change.before)).chain([state(last)]).collect();
    let mut reached: Vec<_> =
        changes.iter().map(|change| state(&change.after)).chain([state(first)]).collect();
    states_before.sort_unstable();
    reached.sort_unstable();
    let breaks = states_before.iter().zip(&reached).filter(|(before, reached)| before != reached).count();
    eq(format!("breaks in a chain of {} changes", changes.len()), breaks, 0)
}

/// Takes a result that may lose a race with one of `losses`.
fn or_lost<T>(result: FsResult<T>, losses: &[FsError]) -> Outcome<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if losses.contains(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn changes_of_a_directory_chain(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let (new_inode, new_dir) = (fixture.new_inode(), fixture.new_dir());
    let first = attrs(&dir)?;
    let changes = together(|thread| {
        let mut changes = Vec::new();
        for round in 0..60 {
            let [a, b, sub] = ["a", "b", "sub"].map(|kind| format!("{thread}-{round}-{kind}"));
            let made = dir.create_unchecked(name(&a), &new_inode)?;
            changes.push(made.dir);
            changes.push(dir.link_unchecked(name(&b), &made.found.node)?.dir);
            changes.push(dir.remove_unchecked(name(&a))?);
            changes.push(dir.rename_unchecked(name(&b), &dir, name(&a))?.0);
            changes.push(dir.make_dir_unchecked(name(&sub), &new_dir)?.dir);
            if round % 2 == 0 {
                changes.push(dir.remove_dir_unchecked(name(&sub))?);
            }
            if round % 16 == 0 {
                changes.push(dir.set_attrs(&SetAttrs { mode: Some(0o700), ..SetAttrs::default() })?);
            }
        }
        Ok(changes)
    })?;
    eq("names left", names(&dir)?.len(), THREADS * (60 + 30))?;
    chain(&changes.concat(), &first, &attrs(&dir)?)
}

fn changes_of_a_file_chain(fixture: &Fixture) -> Outcome {
    const BLOCK: usize = 1000;
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let first = attrs(&node)?;
    let changes = together(|thread| {
        let mut changes = Vec::new();
        let byte = u8::try_from(thread + 1).unwrap_or(0);
        for round in 0..100 {
            let block = round * THREADS + thread;
            changes.push(node.write(
                (block * BLOCK) as u64,
                &[byte; BLOCK],
                if round % 2 == 0 { CLEAR_SET_ID } else { KEEP_SET_ID },
            )?);
            if round % 10 == 0 {
                let mode = Some(if round % 20 == 0 { 0o640 } else { 0o4755 });
                changes.push(node.set_attrs(&SetAttrs { mode, ..SetAttrs::default() })?);
            }
        }
        Ok(changes)
    })?;
    let data = contents(&node)?;
    eq("size", data.len(), 100 * THREADS * BLOCK)?;
    for (block, bytes) in data.chunks(BLOCK).enumerate() {
        let byte = u8::try_from(block % THREADS + 1).unwrap_or(0);
        holds(format!("block {block} is as written"), bytes.iter().all(|&got| got == byte))?;
    }
    chain(&changes.concat(), &first, &attrs(&node)?)
}

fn nothing_lies_between_decision_and_change(fixture: &Fixture) -> Outcome {
    const ROUNDS: u32 = 100;
    let dir = fixture.dir()?;
    let file = dir.create_unchecked(name("file"), &NewInode { mode: 0, ..fixture.new_inode() })?.found.node;
    together(|_| {
        for _ in 0..ROUNDS {
            file.change_attrs(&|attrs| Ok(SetAttrs { mode: Some(attrs.mode + 1), ..SetAttrs::default() }))?;
        }
        Ok(())
    })?;
    let threads = u32::try_from(THREADS).map_err(|_| Failure::new("threads"))?;
    eq("changes counted by the mode", attrs(&file)?.mode, ROUNDS * threads)?;
    let before = attrs(&file)?;
    eq("a refusal", file.change_attrs(&|_| Err(FsError::GuardMismatch)), Err(FsError::GuardMismatch))?;
    eq("attributes after a refusal", settled(&attrs(&file)?), settled(&before))
}

fn one_of_many_creators_wins(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    let other = dir.create_unchecked(name("other"), &new_inode)?.found.node;
    let won = together(|thread| {
        let mut won = 0;
        for round in 0..100 {
            let text = format!("round-{round}");
            let made = match thread {
                0 => dir.make_dir_unchecked(name(&text), &new_inode),
                1 => dir.link_unchecked(name(&text), &other),
                _ => dir.create_unchecked(name(&text), &new_inode),
            };
            won += usize::from(or_lost(made, &[FsError::Exists])?.is_some());
        }
        Ok(won)
    })?;
    eq("one each round", won.iter().sum::<usize>(), 100)?;
    eq("names", names(&dir)?.len(), 101)
}

fn nobody_sees_a_half_made_file(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let time = vfs::Time { seconds: 1000, nanos: 0 };
    let new_inode = NewInode { mode: 0o6751, times: Some((time, time)), ..fixture.new_inode() };
    let done = AtomicBool::new(false);
    together(|thread| {
        if thread == 0 {
            let made = (0..300).try_for_each(|_| {
                dir.create_unchecked(name("file"), &new_inode)?;
                dir.lookup(name("file"), Blocking::Allowed)?;
                dir.remove_unchecked(name("file"))?;
                Ok(())
            });
            done.store(true, Ordering::Relaxed);
            return made;
        }
        while !done.load(Ordering::Relaxed) {
            let found =
                or_lost(dir.lookup(name("file"), Blocking::Allowed), &[FsError::NotFound, FsError::Stale])?;
            let Some(found) = found else { continue };
            let Attrs { mode, uid, gid, modified, .. } = found.attrs;
            eq(
                "as created",
                (mode, uid, gid, modified),
                (new_inode.mode, new_inode.uid, new_inode.gid, time),
            )?;
        }
        Ok(())
    })
    .map(drop)
}

fn a_name_that_is_replaced_is_always_there(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    dir.create_unchecked(name("goal"), &new_inode)?;
    together(|thread| {
        for round in 0..150 {
            if thread % 2 == 0 {
                let text = format!("{thread}-{round}");
                dir.create_unchecked(name(&text), &new_inode)?;
                dir.rename_unchecked(name(&text), &dir, name("goal"))?;
            } else {
                // Lookup, though by the time of the answer it may have been replaced already.
                or_lost(dir.lookup(name("goal"), Blocking::Allowed), &[FsError::Stale])?;
            }
        }
        Ok(())
    })?;
    eq("names", names(&dir)?, vec![b"goal".to_vec()])?;
    eq("links", dir.lookup(name("goal"), Blocking::Allowed)?.attrs.links, 1)
}

fn a_removed_directory_has_no_children(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let (new_inode, new_dir) = (fixture.new_inode(), fixture.new_dir());
    together(|thread| {
        let text = format!("file-{thread}");
        for _ in 0..150 {
            if thread == 0 {
                or_lost(dir.make_dir_unchecked(name("sub"), &new_dir), &[FsError::Exists])?;
                or_lost(dir.remove_dir_unchecked(name("sub")), &[FsError::NotEmpty])?;
                continue;
            }
            let found =
                or_lost(dir.lookup(name("sub"), Blocking::Allowed), &[FsError::NotFound, FsError::Stale])?;
            let Some(sub) = found.map(|found| found.node) else { continue };
            if let Some(made) = or_lost(sub.create_unchecked(name(&text), &new_inode), &[FsError::Stale])? {
                holds("a directory with a child is alive", sub.attrs(Blocking::Allowed).is_ok())?;
                holds("and so is the child", made.found.node.attrs(Blocking::Allowed).is_ok())?;
                sub.remove_unchecked(name(&text))?;
            }
        }
        Ok(())
    })?;
    or_lost(dir.make_dir_unchecked(name("sub"), &new_dir), &[FsError::Exists])?;
    dir.remove_dir_unchecked(name("sub"))?;
    eq("names", names(&dir)?.len(), 0)
}

/// Threads that move directories into each other's: no move may cut a subtree off.
fn crossing_moves_keep_the_tree(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let subs: Vec<NodeRef> = (0..THREADS)
        .map(|number| {
            Ok(dir.make_dir_unchecked(name(&format!("sub-{number}")), &fixture.new_dir())?.found.node)
        })
        .collect::<Outcome<_>>()?;
    let places: Vec<&NodeRef> = subs.iter().chain([&dir]).collect();
    together(|thread| {
        let mut random = super::oracle::Random::new(thread as u64 + 1);
        for _ in 0..200 {
            let [from, to] = [random.below(places.len()), random.below(places.len())];
            let text = format!("sub-{}", random.below(THREADS));
            let losses = &[FsError::NotFound, FsError::Invalid, FsError::NotEmpty];
            or_lost(places[from].rename_unchecked(name(&text), places[to], name(&text)), losses)?;
        }
        Ok(())
    })?;
    for sub in &subs {
        let mut at = sub.clone();
        let mut steps = 0;
        while at.key() != dir.key() {
            at = at.parent()?.node;
            steps += 1;
            holds("every directory is reached from the top", steps <= THREADS)?;
        }
    }
    let count: usize = places.iter().map(|place| Ok(names(place)?.len())).sum::<Outcome<usize>>()?;
    eq("names", count, THREADS)
}
