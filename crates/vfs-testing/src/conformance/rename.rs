//! Moving and replacing, as rename(2) does.

use super::expect::{attrs, contents, eq, holds, modified, names, refused, same, untouched};
use super::rig::{Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, Change, FileType, FsError, FsResult, NodeRef, Special};

family!("rename":
    every_type_over_every_type, same_file_is_left_alone, a_missing_name_is_not_found, not_into_its_own_subtree,
    not_over_an_ancestor, both_directories_change, one_directory_changes_once, the_moved_file_stays_itself,
    a_replaced_name_leaves_the_other_links, links_of_directories_follow,
);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Absent,
    File,
    EmptyDir,
    FullDir,
    Symlink,
    Fifo,
}

const KINDS: [Kind; 6] = [Kind::Absent, Kind::File, Kind::EmptyDir, Kind::FullDir, Kind::Symlink, Kind::Fifo];

fn place(fixture: &Fixture, dir: &NodeRef, text: &str, kind: Kind) -> Outcome<Option<NodeRef>> {
    let (new_inode, name) = (fixture.new_inode(), name(text));
    let made = match kind {
        Kind::Absent => return Ok(None),
        Kind::File => dir.create_unchecked(name, &new_inode)?,
        Kind::EmptyDir | Kind::FullDir => dir.make_dir_unchecked(name, &fixture.new_dir())?,
        Kind::Symlink => dir.make_special_unchecked(name, Special::Symlink(b"nowhere"), &new_inode)?,
        Kind::Fifo => dir.make_special_unchecked(name, Special::Fifo, &new_inode)?,
    };
    if kind == Kind::FullDir {
        made.found.node.create_unchecked(super::rig::name("inside"), &new_inode)?;
    }
    Ok(Some(made.found.node))
}

/// The result of rename(2) of `from` over `to`.
fn verdict(from: Kind, to: Kind) -> Result<(), FsError> {
    let is_dir = |kind| matches!(kind, Kind::EmptyDir | Kind::FullDir);
    match (from, to) {
        (Kind::Absent, _) => Err(FsError::NotFound),
        (_, Kind::Absent) => Ok(()),
        _ if is_dir(from) && !is_dir(to) => Err(FsError::NotDirectory),
        _ if !is_dir(from) && is_dir(to) => Err(FsError::IsDirectory),
        (_, Kind::FullDir) => Err(FsError::NotEmpty),
        _ => Ok(()),
    }
}

fn every_type_over_every_type(fixture: &Fixture) -> Outcome {
    for across in [false, true] {
        for (from, to) in KINDS.into_iter().flat_map(|from| KINDS.map(|to| (from, to))) {
            let what = format!("{from:?} over {to:?}, across directories: {across}");
            let dir = fixture.dir()?;
            let to_dir = if across { fixture.dir()? } else { dir.clone() };
            let moved = place(fixture, &dir, "from", from)?;
            let replaced = place(fixture, &to_dir, "to", to)?;
            let before = [attrs(&dir)?, attrs(&to_dir)?];
            let result = dir.rename_unchecked(name("from"), &to_dir, name("to"));
            match verdict(from, to) {
                Err(error) => {
                    refused(&what, result, &[error])?;
                    untouched(&what, &dir, &before[0])?;
                    untouched(&what, &to_dir, &before[1])?;
                }
                Ok(()) => check_moved(&what, result, [&dir, &to_dir], moved.as_ref(), replaced.as_ref())?,
            }
        }
    }
    Ok(())
}

fn check_moved(
    what: &str,
    result: FsResult<(Change, Change)>,
    [dir, to_dir]: [&NodeRef; 2],
    moved: Option<&NodeRef>,
    replaced: Option<&NodeRef>,
) -> Outcome {
    let (change, to_change) = result.map_err(|error| super::rig::Failure::from(error).during(what))?;
    same(format!("{what}: from after"), &change.after, &attrs(dir)?)?;
    same(format!("{what}: to after"), &to_change.after, &attrs(to_dir)?)?;
    refused(what, dir.lookup(name("from"), Blocking::Allowed), &[FsError::NotFound])?;
    let found = to_dir.lookup(name("to"), Blocking::Allowed)?;
    eq(what, Some(found.node.key()), moved.map(|node| node.key()))?;
    if found.attrs.file_type == FileType::Directory {
        let inside = names(&found.node)?;
        holds(format!("{what}: what was inside moved along"), inside.iter().all(|name| name == b"inside"))?;
    }
    let replaced = replaced.map(|node| node.attrs(Blocking::Allowed));
    holds(format!("{what}: the replaced is gone"), replaced.is_none_or(|got| got == Err(FsError::Stale)))
}

fn same_file_is_left_alone(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let node = dir.create_unchecked(name("a"), &fixture.new_inode())?.found.node;
    dir.link_unchecked(name("b"), &node)?;
    other.link_unchecked(name("c"), &node)?;
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    fixture.tick();
    let before = [attrs(&dir)?, attrs(&other)?, attrs(&node)?, attrs(&sub)?];
    for (from, to_dir, to) in [("a", &dir, "b"), ("a", &other, "c"), ("a", &dir, "a"), ("sub", &dir, "sub")] {
        let (change, to_change) = dir.rename_unchecked(name(from), to_dir, name(to))?;
        for change in [change, to_change] {
            same(format!("{from} over {to} changes nothing"), &change.after, &change.before)?;
        }
    }
    for (node, before) in [&dir, &other, &node, &sub].into_iter().zip(&before) {
        untouched("a rename onto itself", node, before)?;
    }
    eq("names", names(&dir)?, vec![b"a".to_vec(), b"b".to_vec(), b"sub".to_vec()])
}

fn a_missing_name_is_not_found(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    dir.create_unchecked(name("there"), &fixture.new_inode())?;
    let before = attrs(&dir)?;
    refused("onto a file", dir.rename_unchecked(name("none"), &dir, name("there")), &[FsError::NotFound])?;
    refused("onto itself", dir.rename_unchecked(name("none"), &dir, name("none")), &[FsError::NotFound])?;
    refused("away", dir.rename_unchecked(name("none"), &other, name("x")), &[FsError::NotFound])?;
    untouched("a refused rename", &dir, &before)
}

fn not_into_its_own_subtree(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let a = dir.make_dir_unchecked(name("a"), &fixture.new_dir())?.found.node;
    let b = a.make_dir_unchecked(name("b"), &fixture.new_dir())?.found.node;
    let c = b.make_dir_unchecked(name("c"), &fixture.new_dir())?.found.node;
    for below in [&a, &b, &c] {
        refused(
            "into its own subtree",
            dir.rename_unchecked(name("a"), below, name("x")),
            &[FsError::Invalid],
        )?;
    }
    refused("over its own subtree", dir.rename_unchecked(name("a"), &b, name("c")), &[FsError::Invalid])?;
    eq("the tree stands", c.parent()?.node.parent()?.node.key(), a.key())
}

fn not_over_an_ancestor(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let a = dir.make_dir_unchecked(name("a"), &fixture.new_dir())?.found.node;
    let b = a.make_dir_unchecked(name("b"), &fixture.new_dir())?.found.node;
    b.make_dir_unchecked(name("c"), &fixture.new_dir())?;
    b.create_unchecked(name("file"), &fixture.new_inode())?;
    refused("a directory", b.rename_unchecked(name("c"), &a, name("b")), &[FsError::NotEmpty])?;
    refused("a directory, two up", b.rename_unchecked(name("c"), &dir, name("a")), &[FsError::NotEmpty])?;
    // Linux looks at the ancestry before the type.
    let wanted = &[FsError::NotEmpty, FsError::IsDirectory];
    refused("a file", b.rename_unchecked(name("file"), &a, name("b")), wanted)?;
    eq("the tree stands", names(&b)?.len(), 2)
}

fn both_directories_change(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    for kind in [Kind::File, Kind::EmptyDir, Kind::Symlink] {
        let node = place(fixture, &dir, "moving", kind)?;
        fixture.tick();
        let before = [attrs(&dir)?, attrs(&other)?];
        let moving_before = node.as_ref().map(attrs).transpose()?;
        let (change, to_change) = dir.rename_unchecked(name("moving"), &other, name(&format!("{kind:?}")))?;
        same("this directory before", &change.before, &before[0])?;
        same("the other before", &to_change.before, &before[1])?;
        same("this directory after", &change.after, &attrs(&dir)?)?;
        same("the other after", &to_change.after, &attrs(&other)?)?;
        modified(format!("a {kind:?} that goes"), &change)?;
        modified(format!("a {kind:?} that comes"), &to_change)?;
        let moving_after = node.as_ref().map(attrs).transpose()?;
        let forward = moving_before.zip(moving_after).is_some_and(|(a, b)| b.changed > a.changed);
        holds(format!("the change time of a moved {kind:?} moves"), forward)?;
    }
    Ok(())
}

fn one_directory_changes_once(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    dir.create_unchecked(name("a"), &fixture.new_inode())?;
    dir.create_unchecked(name("b"), &fixture.new_inode())?;
    for (from, to) in [("a", "c"), ("b", "c")] {
        fixture.tick();
        let before = attrs(&dir)?;
        let (change, to_change) = dir.rename_unchecked(name(from), &dir, name(to))?;
        same("both tell the same before", &change.before, &to_change.before)?;
        same("both tell the same after", &change.after, &to_change.after)?;
        same("before", &change.before, &before)?;
        same("after", &change.after, &attrs(&dir)?)?;
        modified("a rename", &change)?;
    }
    Ok(())
}

fn the_moved_file_stays_itself(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    node.write(0, b"contents", KEEP_SET_ID)?;
    let before = attrs(&node)?;
    dir.rename_unchecked(name("file"), &other, name("moved"))?;
    let after = attrs(&node)?;
    same(
        "but for the change time",
        &vfs::Attrs { changed: before.changed, change: before.change, ..after },
        &before,
    )?;
    eq("contents", contents(&node)?, b"contents".to_vec())?;
    let found = other.lookup(name("moved"), Blocking::Allowed)?;
    same("looked up", &found.attrs, &after)
}

fn a_replaced_name_leaves_the_other_links(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let [old, new] = ["old", "new"].map(|text| dir.create_unchecked(name(text), &fixture.new_inode()));
    let [old, new] = [old?.found.node, new?.found.node];
    dir.link_unchecked(name("old-too"), &old)?;
    fixture.tick();
    let before = attrs(&old)?;
    dir.rename_unchecked(name("new"), &dir, name("old"))?;
    let after = attrs(&old)?;
    eq("a name less", after.links, 1)?;
    holds("and a new change time", after.changed > before.changed)?;
    eq("the new one", attrs(&new)?.links, 1)?;
    eq("the other name", dir.lookup(name("old-too"), Blocking::Allowed)?.node.key(), old.key())
}

fn links_of_directories_follow(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::DirectoryLinks) {
        return Ok(());
    }
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let links = || Ok::<_, super::rig::Failure>((attrs(&dir)?.links, attrs(&other)?.links));
    for text in ["a", "b", "c"] {
        dir.make_dir_unchecked(name(text), &fixture.new_dir())?;
    }
    other.make_dir_unchecked(name("x"), &fixture.new_dir())?;
    eq("at first", links()?, (5, 3))?;
    dir.rename_unchecked(name("a"), &other, name("a"))?;
    eq("one moved", links()?, (4, 4))?;
    dir.rename_unchecked(name("b"), &other, name("x"))?;
    eq("one moved over another", links()?, (3, 4))?;
    other.rename_unchecked(name("a"), &other, name("x"))?;
    eq("one over another in one directory", links()?, (3, 3))?;
    dir.rename_unchecked(name("c"), &dir, name("d"))?;
    eq("another name only", links()?, (3, 3))
}
