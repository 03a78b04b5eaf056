//! Further names and their removal.

use super::expect::{attrs, change, contents, eq, holds, modified, names, refused, same, untouched};
use super::rig::{Fixture, Outcome, family, name};
use crate::UncheckedNode;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, FsError, NodeRef, Special};

family!("links":
    a_link_is_the_same_file, links_are_counted, a_link_needs_a_free_name, directories_have_one_name,
    a_removal_changes_the_directory_and_the_file, a_removal_needs_the_right_type, a_full_directory_stays,
    a_link_count_has_its_limit,
);

fn a_link_is_the_same_file(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let new_inode = fixture.new_inode();
    let nodes = [
        dir.create_unchecked(name("file"), &new_inode)?.found.node,
        dir.make_special_unchecked(name("link"), Special::Symlink(b"target"), &new_inode)?.found.node,
        dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?.found.node,
    ];
    for node in &nodes {
        fixture.tick();
        let before = attrs(&other)?;
        let made = other.link_unchecked(name("second"), node)?;
        eq("key", made.found.node.key(), node.key())?;
        same("the file", &made.found.attrs, &attrs(node)?)?;
        same("the directory before", &made.dir.before, &before)?;
        same("the directory after", &made.dir.after, &attrs(&other)?)?;
        modified("a link", &made.dir)?;
        eq("looked up", other.lookup(name("second"), Blocking::Allowed)?.node.key(), node.key())?;
        other.remove_unchecked(name("second"))?;
    }
    let second = dir.link_unchecked(name("second"), &nodes[0])?.found.node;
    second.write(0, b"shared", KEEP_SET_ID)?;
    eq("contents", contents(&nodes[0])?, b"shared".to_vec())
}

fn links_are_counted(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("0"), &fixture.new_inode())?.found.node;
    for count in 1..20 {
        fixture.tick();
        let before = attrs(&node)?;
        let made = dir.link_unchecked(name(&count.to_string()), &node)?;
        eq("links", made.found.attrs.links, count + 1)?;
        holds("a link moves the change time", made.found.attrs.changed > before.changed)?;
        eq("but not the modification time", made.found.attrs.modified, before.modified)?;
    }
    for count in (1..20).rev() {
        fixture.tick();
        let before = attrs(&node)?;
        dir.remove_unchecked(name(&count.to_string()))?;
        let after = attrs(&node)?;
        eq("links", after.links, count)?;
        holds("a removal moves the change time", after.changed > before.changed)?;
    }
    Ok(())
}

fn a_link_needs_a_free_name(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    dir.make_dir_unchecked(name("dir"), &fixture.new_dir())?;
    dir.create_unchecked(name("other"), &fixture.new_inode())?;
    let before = attrs(&node)?;
    for text in ["file", "other", "dir"] {
        refused(format!("a link over {text}"), dir.link_unchecked(name(text), &node), &[FsError::Exists])?;
    }
    untouched("a refused link", &node, &before)?;
    refused("a link in a file", node.link_unchecked(name("x"), &node), &[FsError::NotDirectory])
}

fn directories_have_one_name(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    let wanted = &[FsError::NotOwner, FsError::IsDirectory];
    refused("a link to a directory", dir.link_unchecked(name("second"), &sub), wanted)?;
    refused("a link to itself", sub.link_unchecked(name("self"), &sub), wanted)?;
    eq("names", names(&dir)?, vec![b"sub".to_vec()])
}

fn a_removal_changes_the_directory_and_the_file(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    dir.create_unchecked(name("file"), &new_inode)?;
    dir.make_special_unchecked(name("link"), Special::Symlink(b"file"), &new_inode)?;
    dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?;
    for text in ["link", "fifo", "file"] {
        fixture.tick();
        let done = change(format!("removing {text}"), &dir, || dir.remove_unchecked(name(text)))?;
        modified(format!("removing {text}"), &done)?;
        refused(text, dir.lookup(name(text), Blocking::Allowed), &[FsError::NotFound])?;
        refused(format!("{text} again"), dir.remove_unchecked(name(text)), &[FsError::NotFound])?;
    }
    dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?;
    fixture.tick();
    let done = change("removing a directory", &dir, || dir.remove_dir_unchecked(name("sub")))?;
    modified("removing a directory", &done)?;
    refused("again", dir.remove_dir_unchecked(name("sub")), &[FsError::NotFound])?;
    eq("names", names(&dir)?.len(), 0)
}

fn a_removal_needs_the_right_type(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    dir.create_unchecked(name("file"), &new_inode)?;
    dir.make_special_unchecked(name("to-sub"), Special::Symlink(b"sub"), &new_inode)?;
    dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?;
    let before = attrs(&dir)?;
    refused("remove of a directory", dir.remove_unchecked(name("sub")), &[FsError::IsDirectory])?;
    sub.create_unchecked(name("below"), &new_inode)?;
    refused("remove of a full directory", dir.remove_unchecked(name("sub")), &[FsError::IsDirectory])?;
    for text in ["file", "to-sub", "fifo"] {
        refused(
            format!("remove_dir of {text}"),
            dir.remove_dir_unchecked(name(text)),
            &[FsError::NotDirectory],
        )?;
    }
    untouched("a refused removal", &dir, &before)
}

fn a_full_directory_stays(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    let below =
        |text| -> Outcome<NodeRef> { Ok(sub.create_unchecked(name(text), &fixture.new_inode())?.found.node) };
    below("file")?;
    refused("with a file", dir.remove_dir_unchecked(name("sub")), &[FsError::NotEmpty])?;
    sub.remove_unchecked(name("file"))?;
    sub.make_dir_unchecked(name("dir"), &fixture.new_dir())?;
    refused("with a directory", dir.remove_dir_unchecked(name("sub")), &[FsError::NotEmpty])?;
    sub.remove_dir_unchecked(name("dir"))?;
    dir.remove_dir_unchecked(name("sub"))?;
    Ok(())
}

/// Only where the limit is near enough to be reached.
fn a_link_count_has_its_limit(fixture: &Fixture) -> Outcome {
    let max = fixture.backend.limits().links_max;
    if max > 70_000 {
        return Ok(());
    }
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("0"), &fixture.new_inode())?.found.node;
    for count in 1..max {
        dir.link_unchecked(name(&count.to_string()), &node)?;
    }
    eq("links", attrs(&node)?.links, max)?;
    let result = dir.link_unchecked(name("one too many"), &node);
    refused("one too many", result, &[FsError::TooManyLinks])?;
    eq("links", attrs(&node)?.links, max)
}
