//! Verbs on files of the wrong type, and the verbs that every type knows.

use super::expect::{attrs, eq, refused, untouched};
use super::rig::{Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use std::ops::ControlFlow;
use vfs::backend::{CLEAR_SET_ID, KEEP_SET_ID};
use vfs::{Blocking, Device, FsError, NodeRef, Special, SyncScope, Wait};

family!("types": directory_verbs_need_a_directory, reading_and_writing_need_a_regular_file, only_links_have_targets, sync_works_on_all);

fn others(fixture: &Fixture, dir: &NodeRef) -> Outcome<Vec<(&'static str, NodeRef)>> {
    let new_inode = fixture.new_inode();
    let mut specials =
        vec![("link", Special::Symlink(b".")), ("fifo", Special::Fifo), ("socket", Special::Socket)];
    if fixture.can(Lack::Devices) {
        specials.push(("null", Special::Character(Device { major: 1, minor: 3 })));
        specials.push(("block", Special::Block(Device { major: 7, minor: 250 })));
    }
    let make =
        |(text, special)| Ok((text, dir.make_special_unchecked(name(text), special, &new_inode)?.found.node));
    specials.into_iter().map(make).collect()
}

fn directory_verbs_need_a_directory(fixture: &Fixture) -> Outcome {
    const WANT: &[FsError] = &[FsError::NotDirectory];
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    let file = dir.create_unchecked(name("file"), &new_inode)?.found.node;
    let mut nodes = others(fixture, &dir)?;
    nodes.push(("file", file.clone()));
    let before = attrs(&dir)?;
    for (text, node) in nodes {
        refused(format!("lookup in a {text}"), node.lookup(name("x"), Blocking::Allowed), WANT)?;
        refused(format!("parent of a {text}"), node.parent(), WANT)?;
        let sink = &mut |_: &vfs::Entry<'_>| ControlFlow::Continue(());
        refused(format!("listing of a {text}"), node.read_dir(0, false, sink), WANT)?;
        refused(format!("listing of a {text}"), node.read_dir(0, true, sink), WANT)?;
        refused(format!("create in a {text}"), node.create_unchecked(name("x"), &new_inode), WANT)?;
        refused(format!("make_dir in a {text}"), node.make_dir_unchecked(name("x"), &new_inode), WANT)?;
        refused(
            format!("special in a {text}"),
            node.make_special_unchecked(name("x"), Special::Fifo, &new_inode),
            WANT,
        )?;
        refused(format!("link in a {text}"), node.link_unchecked(name("x"), &file), WANT)?;
        refused(format!("remove in a {text}"), node.remove_unchecked(name("x")), WANT)?;
        refused(format!("remove_dir in a {text}"), node.remove_dir_unchecked(name("x")), WANT)?;
        refused(format!("rename out of a {text}"), node.rename_unchecked(name("x"), &dir, name("y")), WANT)?;
        refused(format!("rename into a {text}"), dir.rename_unchecked(name("file"), &node, name("y")), WANT)?;
    }
    untouched("a refused verb", &dir, &before)
}

fn reading_and_writing_need_a_regular_file(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let before = attrs(&dir)?;
    let mut into = b"before".to_vec();
    for blocking in [Blocking::Allowed, Blocking::Never] {
        let wanted = if blocking == Blocking::Never {
            &[FsError::IsDirectory, FsError::Wait(Wait::Storage)][..]
        } else {
            &[FsError::IsDirectory]
        };
        refused("read of a directory", dir.read(0, 10, &mut into, blocking), wanted)?;
        refused("read of a directory past all", dir.read(u64::MAX, 10, &mut into, blocking), wanted)?;
    }
    refused("write to a directory", dir.write(0, b"x", KEEP_SET_ID), &[FsError::IsDirectory])?;
    untouched("a refused write", &dir, &before)?;
    for (text, node) in others(fixture, &dir)? {
        let before = attrs(&node)?;
        refused(
            format!("read of a {text}"),
            node.read(0, 10, &mut into, Blocking::Allowed),
            &[FsError::Invalid],
        )?;
        refused(format!("write to a {text}"), node.write(0, b"x", CLEAR_SET_ID), &[FsError::Invalid])?;
        untouched("a refused write", &node, &before)?;
    }
    eq("a refused read appends nothing", into, b"before".to_vec())?;
    Ok(())
}

fn only_links_have_targets(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let file = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    refused("read_link of a file", file.read_link(), &[FsError::Invalid])?;
    refused("read_link of a directory", dir.read_link(), &[FsError::Invalid])?;
    for (text, node) in others(fixture, &dir)? {
        if text == "link" {
            eq("target", node.read_link()?, b".".to_vec())?;
        } else {
            refused(format!("read_link of a {text}"), node.read_link(), &[FsError::Invalid])?;
        }
    }
    Ok(())
}

fn sync_works_on_all(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let mut nodes = others(fixture, &dir)?;
    nodes.push(("file", dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node));
    nodes.push(("directory", dir));
    nodes.push(("root", fixture.backend.root()));
    for (text, node) in &nodes {
        for scope in [SyncScope::Data, SyncScope::All] {
            let synced = node.sync(scope);
            synced
                .map_err(|error| super::rig::Failure::from(error).during(format!("{scope:?} of a {text}")))?;
        }
    }
    fixture.backend.sync()?;
    Ok(())
}
