//! Changes that ask first: what the decision sees, and what its refusal leaves.

use super::expect::{attrs, contents, eq, holds, names, refused, same, untouched};
use super::rig::{Failure, Fixture, Outcome, family, name};
use super::threads::together;
use crate::UncheckedNode;
use std::cell::Cell;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Attrs, Blocking, Change, EntryRef, FsError, FsResult, NewInode, NodeRef, Ranges, SetAttrs, Span, Special,
};

family!("decisions":
    a_refusal_leaves_all_as_it_was, a_decision_sees_what_the_change_begins_with, an_object_is_what_has_the_name,
    what_was_looked_at_goes_like_any_other, only_stale_comes_before_a_refusal, threads_decide_on_what_they_change,
);

/// No backend refuses the calls of these cases with this error by itself.
const NO: FsError = FsError::Quota;

/// Two directories; in the first a file and an empty directory.
struct Stage {
    dir: NodeRef,
    other: NodeRef,
    file: NodeRef,
    sub: NodeRef,
    new_inode: NewInode,
}

/// Requests a decision with the attributes of the object to change, then changes it.
type Act = fn(&Stage, &dyn Fn(&Attrs) -> FsResult<()>) -> FsResult<Change>;

fn ranges(node: &NodeRef) -> FsResult<&dyn Ranges> {
    node.ranges().ok_or(FsError::NotSupported)
}

const ACTS: &[(&str, Act)] = &[
    ("create", |s, ask| {
        let made = s.dir.create(name("new"), &|dir| ask(dir).map(|()| s.new_inode));
        made.map(|made| made.dir)
    }),
    ("make_dir", |s, ask| {
        let made = s.dir.make_dir(name("new"), &|dir| ask(dir).map(|()| s.new_inode));
        made.map(|made| made.dir)
    }),
    ("make_special", |s, ask| {
        let made = s.dir.make_special(name("new"), Special::Fifo, &|dir| ask(dir).map(|()| s.new_inode));
        made.map(|made| made.dir)
    }),
    ("create with times", |s, ask| {
        let new_inode = NewInode { times: Some(Default::default()), ..s.new_inode };
        s.dir.create(name("new"), &|dir| ask(dir).map(|()| new_inode)).map(|made| made.dir)
    }),
    ("link", |s, ask| s.dir.link(name("new"), &s.file, ask).map(|made| made.dir)),
    ("remove", |s, ask| s.dir.remove(name("file"), &|entry| ask(entry.dir))),
    ("remove_dir", |s, ask| s.dir.remove_dir(name("sub"), &|entry| ask(entry.dir))),
    ("rename, from", |s, ask| {
        s.dir.rename(name("file"), &s.other, name("new"), &|from, _| ask(from.dir)).map(|(from, _)| from)
    }),
    ("rename, to", |s, ask| {
        s.dir.rename(name("file"), &s.other, name("new"), &|_, to| ask(to.dir)).map(|(_, to)| to)
    }),
    ("rename within", |s, ask| {
        s.dir.rename(name("file"), &s.dir, name("new"), &|_, to| ask(to.dir)).map(|(_, to)| to)
    }),
    ("write", |s, ask| s.file.write(2, b"new", &|file| ask(file).map(|()| false))),
    ("allocate", |s, ask| ranges(&s.file)?.allocate(0, 9, &|file| ask(file).map(|()| false))),
    ("punch", |s, ask| ranges(&s.file)?.punch(0, 2, &|file| ask(file).map(|()| false))),
    ("zero", |s, ask| ranges(&s.file)?.zero(0, 2, &|file| ask(file).map(|()| false))),
    ("copy", |s, ask| {
        let span = Span { source: 0, target: 3, len: 3 };
        Ok(ranges(&s.file)?.copy_to(&s.file, &span, &|file| ask(file).map(|()| false))?.1)
    }),
    ("change_attrs", |s, ask| {
        s.file.change_attrs(&|file| {
            ask(file)?;
            Ok(SetAttrs { size: Some(1), ..SetAttrs::default() })
        })
    }),
];

impl Stage {
    fn new(fixture: &Fixture) -> Outcome<Self> {
        let (dir, new_inode) = (fixture.dir()?, fixture.new_inode());
        let file = dir.create_unchecked(name("file"), &new_inode)?.found.node;
        file.write(0, b"old", KEEP_SET_ID)?;
        let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
        fixture.tick();
        Ok(Self { dir, other: fixture.dir()?, file, sub, new_inode })
    }

    fn all(&self) -> Outcome<[Attrs; 4]> {
        Ok([attrs(&self.dir)?, attrs(&self.other)?, attrs(&self.file)?, attrs(&self.sub)?])
    }
}

fn a_refusal_leaves_all_as_it_was(fixture: &Fixture) -> Outcome {
    for (what, act) in ACTS {
        let stage = Stage::new(fixture)?;
        let before = stage.all()?;
        refused(what, act(&stage, &|_| Err(NO)), &[NO])?;
        for (node, before) in [&stage.dir, &stage.other, &stage.file, &stage.sub].into_iter().zip(&before) {
            untouched(format!("a refused {what}"), node, before)?;
        }
        eq(
            format!("names after a refused {what}"),
            names(&stage.dir)?,
            vec![b"file".to_vec(), b"sub".to_vec()],
        )?;
        eq(format!("names elsewhere after a refused {what}"), names(&stage.other)?.len(), 0)?;
        eq("contents", contents(&stage.file)?, b"old".to_vec())?;
        act(&stage, &|_| Ok(())).map_err(|error| Failure::from(error).during(what))?;
        holds(format!("{what} changes something, once let"), stage.all().ok() != Some(before))?;
    }
    Ok(())
}

fn a_decision_sees_what_the_change_begins_with(fixture: &Fixture) -> Outcome {
    for (what, act) in ACTS {
        let stage = Stage::new(fixture)?;
        let seen = Cell::new(None);
        let change = act(&stage, &|attrs| {
            let first = seen.replace(Some(*attrs)).is_none();
            if first { Ok(()) } else { Err(NO) }
        });
        let change = change.map_err(|error| Failure::from(error).during(what))?;
        eq(format!("what {what} was decided on"), seen.get(), Some(change.before))?;
    }
    Ok(())
}

fn an_object_is_what_has_the_name(fixture: &Fixture) -> Outcome {
    let stage = Stage::new(fixture)?;
    let [_, _, file, sub] = stage.all()?;
    let looked = |entry: &EntryRef<'_>, want: FsResult<Attrs>| -> FsResult<()> {
        let settled = |got: FsResult<Attrs>| got.map(|attrs| super::expect::settled(&attrs));
        if settled((entry.object)()) == settled(want) { Err(NO) } else { Ok(()) }
    };
    let none = Err(FsError::NotFound);
    let dir = &stage.dir;
    for (text, want) in [("file", Ok(file)), ("sub", Ok(sub)), ("none", none)] {
        let authorize = |entry: &EntryRef<'_>| looked(entry, want);
        refused(format!("remove {text}"), dir.remove(name(text), &authorize), &[NO])?;
        refused(format!("remove_dir {text}"), dir.remove_dir(name(text), &authorize), &[NO])?;
        for (to_dir, to, to_want) in [
            (dir, "file", Ok(file)),
            (dir, "sub", Ok(sub)),
            (dir, "none", none),
            (&stage.other, "file", none),
        ] {
            let authorize = |from: &EntryRef<'_>, to: &EntryRef<'_>| match looked(from, want) {
                Err(NO) => looked(to, to_want),
                other => other,
            };
            refused(format!("{text} to {to}"), dir.rename(name(text), to_dir, name(to), &authorize), &[NO])?;
        }
    }
    Ok(())
}

fn what_was_looked_at_goes_like_any_other(fixture: &Fixture) -> Outcome {
    let Stage { dir, other, file, sub, new_inode } = &Stage::new(fixture)?;
    let look = |entry: &EntryRef<'_>| (entry.object)().map(drop);
    let over = other.create_unchecked(name("over"), new_inode)?.found.node;
    dir.rename(name("file"), other, name("over"), &|from, to| look(from).and_then(|()| look(to)))?;
    refused("the replaced", over.attrs(Blocking::Allowed), &[FsError::Stale])?;
    dir.link_unchecked(name("second"), file)?;
    dir.remove(name("second"), &look)?;
    eq("links left", attrs(file)?.links, 1)?;
    other.remove(name("over"), &look)?;
    refused("the removed", file.attrs(Blocking::Allowed), &[FsError::Stale])?;
    refused("its key", fixture.backend.node(&file.key(), Blocking::Allowed).map(drop), &[FsError::Stale])?;
    dir.remove_dir(name("sub"), &look)?;
    refused("the removed directory", sub.attrs(Blocking::Allowed), &[FsError::Stale])
}

fn only_stale_comes_before_a_refusal(fixture: &Fixture) -> Outcome {
    let Stage { dir, file, sub, .. } = &Stage::new(fixture)?;
    sub.create_unchecked(name("below"), &fixture.new_inode())?;
    let calls = |place: &NodeRef, text: &str| {
        let name = name(text);
        [
            place.create(name, &|_| Err(NO)).map(drop),
            place.make_dir(name, &|_| Err(NO)).map(drop),
            place.make_special(name, Special::Symlink(b""), &|_| Err(NO)).map(drop),
            place.link(name, file, &|_| Err(NO)).map(drop),
            place.link(name, dir, &|_| Err(NO)).map(drop),
            place.remove(name, &|_| Err(NO)).map(drop),
            place.remove_dir(name, &|_| Err(NO)).map(drop),
            place.rename(name, dir, name, &|_, _| Err(NO)).map(drop),
            dir.rename(name, place, name, &|_, _| Err(NO)).map(drop),
        ]
    };
    for (place, text) in [(dir, "file"), (dir, "sub"), (dir, "none"), (file, "none")] {
        eq(format!("refusals of {text}"), calls(place, text), [Err(NO); 9])?;
    }
    let removed = fixture.dir()?;
    removed.make_dir_unchecked(name("gone"), &fixture.new_dir())?;
    let dead = removed.lookup(name("gone"), Blocking::Allowed)?.node;
    removed.remove_dir_unchecked(name("gone"))?;
    eq("refusals of what is gone", calls(&dead, "file"), [Err(FsError::Stale); 9])
}

fn threads_decide_on_what_they_change(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let new_inode = fixture.new_inode();
    together(|thread| {
        for round in 0..60 {
            let [a, b] = ["a", "b"].map(|kind| format!("{thread}-{round}-{kind}"));
            let seen = Cell::new(None);
            let see = |attrs: &Attrs| {
                seen.set(Some(*attrs));
                Ok(())
            };
            let decided = |what, change: Change| eq(what, seen.take(), Some(change.before));
            let made = dir.create(name(&a), &|dir| see(dir).map(|()| new_inode))?;
            decided("create", made.dir)?;
            let file = &made.found.node;
            decided("link", dir.link(name(&b), file, &see)?.dir)?;
            decided("remove", dir.remove(name(&a), &|entry| see(entry.dir))?)?;
            let moved = dir.rename(name(&b), &other, name(&b), &|_, to| see(to.dir))?;
            decided("rename", moved.1)?;
            same("and one file", &other.lookup(name(&b), Blocking::Allowed)?.attrs, &attrs(file)?)?;
        }
        Ok(())
    })
    .map(drop)
}
