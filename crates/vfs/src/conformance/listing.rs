//! Listings: every entry once, whatever happens meanwhile.

use super::expect::{Seen, attrs, eq, holds, list, list_some, same};
use super::rig::{Failure, Fixture, Outcome, family, name};
use crate::backend::KEEP_SET_ID;
use crate::{Blocking, FsResult, Name, NodeRef, SetAttrs, Special, UncheckedNode};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

family!("listing":
    an_empty_directory_has_its_dots, five_thousand_entries_once_each, a_listing_goes_on_from_any_cookie,
    what_does_not_fit_comes_again, plus_tells_key_and_attributes, a_listing_tells_what_was_changed_before_it, a_listing_that_removes_what_it_saw_empties_the_directory,
    cookies_outlive_other_changes, entries_that_stay_are_listed_once_under_change,
);

/// Makes empty files `prefix-0`, `prefix-1`, …
fn fill(fixture: &Fixture, dir: &NodeRef, prefix: &str, count: usize) -> Outcome<Vec<Vec<u8>>> {
    let mut names = Vec::with_capacity(count);
    for number in 0..count {
        let text = format!("{prefix}-{number}");
        dir.create_unchecked(name(&text), &fixture.new_inode())?;
        names.push(text.into_bytes());
    }
    Ok(names)
}

/// The listing has both dots and exactly these names, each once, each with a cookie of its own.
#[track_caller]
fn complete(what: &str, seen: &[Seen], names: &[Vec<u8>]) -> Outcome {
    let mut want: Vec<&[u8]> = names.iter().map(Vec::as_slice).chain([&b"."[..], b".."]).collect();
    let mut got: Vec<&[u8]> = seen.iter().map(|entry| entry.name.as_slice()).collect();
    want.sort_unstable();
    got.sort_unstable();
    if got != want {
        let only = |a: &[&[u8]], b: &HashSet<&[u8]>| a.iter().filter(|name| !b.contains(*name)).count();
        let (missing, strange) =
            (only(&want, &got.iter().copied().collect()), only(&got, &want.iter().copied().collect()));
        let (got, want) = (got.len(), want.len());
        return Err(Failure::new(format!("{what}: {got} of {want}: {missing} missing, {strange} strange")));
    }
    let cookies: HashSet<u64> = seen.iter().map(|entry| entry.cookie).collect();
    eq(format!("{what}: different cookies"), cookies.len(), seen.len())?;
    holds(format!("{what}: no cookie is 0"), !cookies.contains(&0))
}

fn an_empty_directory_has_its_dots(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for plus in [false, true] {
        for room in [1, 2, 3] {
            let seen = list(&dir, 0, plus, room)?;
            complete("empty", &seen, &[])?;
            for entry in seen {
                let want = if entry.name == b"." { attrs(&dir)? } else { dir.parent()?.attrs };
                eq("number of a dot", entry.file_id, want.file_id)?;
                holds("nothing is told of ..", entry.name == b"." || entry.object.is_none())?;
            }
        }
    }
    Ok(())
}

fn five_thousand_entries_once_each(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let names = fill(fixture, &dir, "entry", 5000)?;
    let whole = list(&dir, 0, false, usize::MAX)?;
    complete("in one go", &whole, &names)?;
    for room in [1, 7, 100, 1021, 4999, 5002] {
        let seen = list(&dir, 0, false, room)?;
        complete(&format!("by {room}"), &seen, &names)?;
        holds(format!("by {room}: as in one go"), seen == whole)?;
    }
    for entry in whole.iter().filter(|entry| !entry.name.starts_with(b".")).step_by(50) {
        let found = dir.lookup(Name::new(&entry.name)?, Blocking::Allowed)?;
        eq("file number", entry.file_id, found.attrs.file_id)?;
    }
    Ok(())
}

fn a_listing_goes_on_from_any_cookie(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    fill(fixture, &dir, "entry", 700)?;
    let whole = list(&dir, 0, true, usize::MAX)?;
    for (at, entry) in whole.iter().enumerate().rev() {
        let rest = list(&dir, entry.cookie, at % 2 == 0, 200 + at)?;
        let got = rest.iter().map(|entry| (&entry.name, entry.cookie));
        let want = whole[at + 1..].iter().map(|entry| (&entry.name, entry.cookie));
        holds(format!("after entry {at}: got {} entries", rest.len()), got.eq(want))?;
    }
    Ok(())
}

fn what_does_not_fit_comes_again(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let names = fill(fixture, &dir, "entry", 300)?;
    let (seen, end) = list_some(&dir, 0, false, 0)?;
    eq("nothing fits", (seen.len(), end), (0, false))?;
    let whole = list(&dir, 0, false, usize::MAX)?;
    complete("whole", &whole, &names)?;
    for (at, entry) in whole.iter().enumerate().step_by(13) {
        let mut refused = None;
        let mut room = at;
        let end = dir.read_dir(0, false, &mut |entry| {
            if room == 0 {
                assert!(refused.is_none(), "a sink that had enough is not asked again");
                refused = Some(entry.name.to_vec());
                return ControlFlow::Break(());
            }
            room -= 1;
            ControlFlow::Continue(())
        })?;
        eq("the end", end, false)?;
        eq("the entry that did not fit", refused.as_ref(), Some(&entry.name))?;
        let before = at.checked_sub(1).map_or(0, |before| whole[before].cookie);
        let (again, _) = list_some(&dir, before, false, 1)?;
        eq("comes first the next time", &again[0], entry)?;
    }
    let last = whole.last().map_or(0, |entry| entry.cookie);
    eq("after the last one", list_some(&dir, last, false, 10)?, (Vec::new(), true))
}

fn plus_tells_key_and_attributes(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    fill(fixture, &dir, "entry", 200)?;
    let new_inode = fixture.new_inode();
    dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?
        .found
        .node
        .make_dir_unchecked(name("below"), &new_inode)?;
    dir.make_special_unchecked(name("link"), Special::Symlink(b"target"), &new_inode)?;
    dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?;
    dir.lookup(name("entry-7"), Blocking::Allowed)?.node.write(0, b"some bytes", KEEP_SET_ID)?;
    dir.link_unchecked(name("second"), &dir.lookup(name("entry-8"), Blocking::Allowed)?.node)?;
    for entry in list(&dir, 0, true, 50)? {
        let text = String::from_utf8_lossy(&entry.name).into_owned();
        let found = match Name::new(&entry.name) {
            Ok(name) => dir.lookup(name, Blocking::Allowed)?,
            Err(_) if entry.name == b"." => crate::Lookup { node: dir.clone(), attrs: attrs(&dir)? },
            Err(_) => continue,
        };
        eq(format!("number of {text}"), entry.file_id, found.attrs.file_id)?;
        match entry.object {
            Some((key, seen)) => {
                eq(format!("key of {text}"), key, found.node.key())?;
                same(format!("attributes of {text}"), &seen, &found.attrs)?;
                eq("the key finds it", fixture.backend.node(&key, Blocking::Allowed)?.key(), key)?;
            }
            None => holds(format!("{text} has key and attributes"), text == ".")?,
        }
    }
    holds(
        "without plus nothing is told",
        list(&dir, 0, false, 50)?.iter().all(|entry| entry.object.is_none()),
    )
}

/// What `rm -r` does over the network.
fn a_listing_tells_what_was_changed_before_it(fixture: &Fixture) -> Outcome {
    let (dir, aside) = (fixture.dir()?, fixture.dir()?);
    let (new_inode, new_dir) = (fixture.new_inode(), fixture.new_dir());
    let file = dir.create_unchecked(name("file"), &new_inode)?.found.node;
    let sub = dir.make_dir_unchecked(name("sub"), &new_dir)?.found.node;
    let check = |what: &str, act: &dyn Fn() -> FsResult<()>| {
        // Time enough that a backend which remembers listings takes the directory for quiet.
        std::thread::sleep(Duration::from_millis(30));
        list(&dir, 0, true, 100)?;
        act()?;
        for entry in list(&dir, 0, true, 100)? {
            let Ok(name) = Name::new(&entry.name) else { continue };
            let found = dir.lookup(name, Blocking::Allowed)?;
            let text = String::from_utf8_lossy(&entry.name);
            let Some((key, seen)) = entry.object else {
                return Err(Failure::new(format!("nothing told of {text}")));
            };
            eq(format!("key of {text} after {what}"), key, found.node.key())?;
            same(format!("{text} after {what}"), &seen, &found.attrs)?;
        }
        Ok(())
    };
    let set = |set: SetAttrs| file.set_attrs(&set).map(|_| ());
    check("nothing", &|| Ok(()))?;
    check("a write", &|| file.write(0, b"some bytes", KEEP_SET_ID).map(|_| ()))?;
    check("a cut", &|| set(SetAttrs { size: Some(3), ..SetAttrs::default() }))?;
    check("a mode", &|| set(SetAttrs { mode: Some(0o600), ..SetAttrs::default() }))?;
    check("a new_inode in a directory", &|| sub.make_dir_unchecked(name("below"), &new_dir).map(|_| ()))?;
    check("a removal in a directory", &|| sub.remove_dir_unchecked(name("below")).map(|_| ()))?;
    check("a name elsewhere", &|| aside.link_unchecked(name("other"), &file).map(|_| ()))?;
    check("a move elsewhere", &|| aside.rename_unchecked(name("other"), &sub, name("moved")).map(|_| ()))?;
    check("a removal elsewhere", &|| sub.remove_unchecked(name("moved")).map(|_| ()))?;
    check("a replacement", &|| {
        aside.create_unchecked(name("new"), &new_inode)?;
        aside.rename_unchecked(name("new"), &dir, name("file")).map(|_| ())
    })
}

fn a_listing_that_removes_what_it_saw_empties_the_directory(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for room in [1, 10, 333] {
        fill(fixture, &dir, "entry", 1500)?;
        let mut cookie = 0;
        for call in 0.. {
            holds("a listing comes to an end", call <= 1502)?;
            let (seen, end) = list_some(&dir, cookie, false, room)?;
            for entry in &seen {
                cookie = entry.cookie;
                if let Ok(name) = Name::new(&entry.name) {
                    dir.remove_unchecked(name)?;
                }
            }
            if end {
                break;
            }
        }
        complete(&format!("removed by {room}"), &list(&dir, 0, false, 100)?, &[])?;
    }
    Ok(())
}

fn cookies_outlive_other_changes(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    fill(fixture, &dir, "stays", 300)?;
    fill(fixture, &dir, "goes", 300)?;
    fill(fixture, &dir, "stays-too", 300)?;
    let staying = |all: Vec<Seen>| all.into_iter().filter(|entry| !entry.name.starts_with(b"goes"));
    let before: Vec<Seen> = staying(list(&dir, 0, false, 100)?).collect();
    for number in 0..300 {
        let text = format!("goes-{number}");
        match number % 3 {
            0 => drop(dir.remove_unchecked(name(&text))?),
            1 => drop(dir.rename_unchecked(name(&text), &dir, name(&format!("goes-{}", number + 1000)))?),
            _ => drop(dir.create_unchecked(name(&format!("goes-{}", number + 2000)), &fixture.new_inode())?),
        }
    }
    for (at, entry) in before.iter().enumerate() {
        let rest = staying(list(&dir, entry.cookie, false, 500)?).map(|entry| entry.name);
        let want = before[at + 1..].iter().map(|entry| entry.name.clone());
        holds(format!("an old cookie goes on after entry {at} of {}", before.len()), rest.eq(want))?;
    }
    Ok(())
}

fn entries_that_stay_are_listed_once_under_change(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let stay = fill(fixture, &dir, "stays", 2000)?;
    let new_inode = fixture.new_inode();
    let done = AtomicBool::new(false);
    // Every name of the churn is used once, so a listing may not show one twice either.
    let churn = |thread: usize| -> Outcome {
        let mut round = 0_u64;
        while !done.load(Ordering::Relaxed) {
            let [a, b] = ["a", "b"].map(|kind| format!("churn-{thread}-{round}-{kind}"));
            dir.create_unchecked(name(&a), &new_inode)?;
            dir.rename_unchecked(name(&a), &dir, name(&b))?;
            // Few are left behind, or a slow listing would never come to its end.
            if !round.is_multiple_of(4) || round > 1000 {
                dir.remove_unchecked(name(&b))?;
            }
            round += 1;
        }
        Ok(())
    };
    let watch = || -> Outcome {
        for round in 0..24 {
            let seen = list(&dir, 0, round % 2 == 0, [17, 200, 701][round % 3])?;
            let mut count = HashMap::new();
            seen.iter().for_each(|entry| *count.entry(&entry.name[..]).or_insert(0) += 1);
            let twice = count.values().filter(|&&count| count > 1).count();
            let missing = stay.iter().filter(|name| !count.contains_key(&name[..])).count();
            eq(
                format!("round {round}: names listed twice, names that stay but are missing"),
                (twice, missing),
                (0, 0),
            )?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| scope.spawn(move || churn(thread)));
        let watched = watch();
        done.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| Failure::new("a thread panicked"))??;
        }
        watched
    })
}
