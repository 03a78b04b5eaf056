//! Keys: they find their file again, for ever, and never another one.

use super::expect::{attrs, contents, eq, holds, list, refused, same, same_again};
use super::rig::{Fixture, Outcome, family, name};
use crate::UncheckedNode;
use std::collections::HashSet;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, FileKey, FsError, NodeRef, SetAttrs, Special, SyncScope, Wait};

family!("identity":
    a_key_finds_its_file, keys_differ, keys_outlive_renames, keys_outlive_restarts, keys_never_come_back,
    a_removed_file_is_stale, a_pinned_file_outlives_its_name, a_file_with_a_name_left_is_not_stale, a_replaced_file_is_stale, a_removed_directory_is_stale,
    foreign_keys_find_nothing, the_root_is_its_own_parent, a_moved_directory_has_a_new_parent,
);

const GONE: &[FsError] = &[FsError::Stale];
const NO_KEY: &[FsError] = &[FsError::BadHandle, FsError::Stale];
/// The errors of a lookup in a deleted directory.
const NOT_THERE: &[FsError] = &[FsError::Stale, FsError::NotFound];

/// The key finds `node`, waiting or not.
fn finds(fixture: &Fixture, node: &NodeRef) -> Outcome {
    let again = fixture.backend.node(&node.key(), Blocking::Allowed)?;
    eq("key", again.key(), node.key())?;
    same("attributes", &attrs(&again)?, &attrs(node)?)?;
    match fixture.backend.node(&node.key(), Blocking::Never) {
        Ok(again) => eq("key at once", again.key(), node.key()),
        Err(error) => eq("at once", error, FsError::Wait(Wait::Storage)),
    }
}

/// Neither the node nor its `key` is valid any more.
fn gone(fixture: &Fixture, what: &str, node: &NodeRef, key: FileKey) -> Outcome {
    refused(format!("attributes of {what}"), node.attrs(Blocking::Allowed), GONE)?;
    refused(
        format!("{what} at once"),
        node.attrs(Blocking::Never),
        &[FsError::Stale, FsError::Wait(Wait::Storage)],
    )?;
    refused(format!("the key of {what}"), fixture.backend.node(&key, Blocking::Allowed), GONE)
}

/// One file of each type that needs no privilege.
fn zoo(fixture: &Fixture, dir: &NodeRef) -> Outcome<Vec<NodeRef>> {
    let new_inode = fixture.new_inode();
    Ok(vec![
        dir.create_unchecked(name("file"), &new_inode)?.found.node,
        dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node,
        dir.make_special_unchecked(name("link"), Special::Symlink(b"nowhere"), &new_inode)?.found.node,
        dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?.found.node,
        dir.make_special_unchecked(name("socket"), Special::Socket, &new_inode)?.found.node,
    ])
}

fn a_key_finds_its_file(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    finds(fixture, &fixture.backend.root())?;
    finds(fixture, &dir)?;
    for node in zoo(fixture, &dir)? {
        finds(fixture, &node)?;
    }
    let file = dir.lookup(name("file"), Blocking::Allowed)?.node;
    let again = fixture.backend.node(&file.key(), Blocking::Allowed)?;
    again.write(0, b"through the key", KEEP_SET_ID)?;
    eq("contents", contents(&file)?, b"through the key".to_vec())?;
    again.set_attrs(&SetAttrs { mode: Some(0o600), ..SetAttrs::default() })?;
    finds(fixture, &file)?;
    let sub =
        fixture.backend.node(&dir.lookup(name("sub"), Blocking::Allowed)?.node.key(), Blocking::Allowed)?;
    let below = sub.create_unchecked(name("below"), &fixture.new_inode())?.found.node;
    finds(fixture, &below)
}

fn keys_differ(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let mut keys: HashSet<FileKey> = zoo(fixture, &dir)?.iter().map(|node| node.key()).collect();
    keys.extend([dir.key(), fixture.backend.root().key()]);
    let mut ids = HashSet::new();
    for number in 0..100 {
        let text = format!("file-{number}");
        let found = dir.create_unchecked(name(&text), &fixture.new_inode())?.found;
        keys.insert(found.node.key());
        ids.insert(found.attrs.file_id);
    }
    eq("different keys and file numbers", (keys.len(), ids.len()), (107, 100))
}

fn keys_outlive_renames(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let nodes = zoo(fixture, &dir)?;
    for (text, node) in ["file", "sub", "link", "fifo", "socket"].into_iter().zip(&nodes) {
        let key = node.key();
        dir.rename_unchecked(name(text), &dir, name("moved"))?;
        finds(fixture, node)?;
        dir.rename_unchecked(name("moved"), &other, name(text))?;
        finds(fixture, node)?;
        eq("the key", other.lookup(name(text), Blocking::Allowed)?.node.key(), key)?;
    }
    let sub = &nodes[1];
    let below = sub.create_unchecked(name("below"), &fixture.new_inode())?.found.node;
    other.rename_unchecked(name("sub"), &dir, name("sub"))?;
    finds(fixture, &below)
}

fn keys_outlive_restarts(fixture: &Fixture) -> Outcome {
    let Some(reopen) = &fixture.reopen else { return Ok(()) };
    let dir = fixture.dir()?;
    let mut nodes = zoo(fixture, &dir)?;
    let sub = nodes[1].clone();
    sub.create_unchecked(name("below"), &fixture.new_inode())?;
    sub.rename_unchecked(name("below"), &sub, name("renamed"))?;
    nodes.push(sub.lookup(name("renamed"), Blocking::Allowed)?.node);
    nodes[0].write(0, b"contents", KEEP_SET_ID)?;
    sub.link_unchecked(name("second"), &nodes[0])?;
    dir.remove_unchecked(name("file"))?;
    let dead = dir.create_unchecked(name("dead"), &fixture.new_inode())?.found.node.key();
    dir.remove_unchecked(name("dead"))?;
    nodes.push(dir.clone());
    nodes.push(fixture.backend.root());
    fixture.backend.sync()?;
    let want: Vec<_> = list(&dir, 0, false, 2)?;

    let backend = reopen();
    eq("the root's key", backend.root().key(), fixture.backend.root().key())?;
    for node in &nodes {
        let again = backend.node(&node.key(), Blocking::Allowed)?;
        eq("the key", again.key(), node.key())?;
        same_again("attributes", &attrs(&again)?, &attrs(node)?)?;
    }
    eq("contents", contents(&backend.node(&nodes[0].key(), Blocking::Allowed)?)?, b"contents".to_vec())?;
    let dir = backend.node(&dir.key(), Blocking::Allowed)?;
    let sub = dir.lookup(name("sub"), Blocking::Allowed)?.node;
    eq("a key by name", sub.key(), nodes[1].key())?;
    eq("a parent by key", sub.parent()?.node.key(), dir.key())?;
    eq("entries and cookies", list(&dir, 0, false, 3)?, want)?;
    refused("a dead key", backend.node(&dead, Blocking::Allowed), GONE)?;
    let fresh = dir.create_unchecked(name("fresh"), &fixture.new_inode())?.found.node;
    holds("keys do not come back after a restart", fresh.key() != dead)
}

fn keys_never_come_back(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let mut keys = HashSet::new();
    for round in 0..300 {
        let node = match round % 3 {
            0 => dir.make_dir_unchecked(name("again"), &fixture.new_dir()),
            1 => dir.make_special_unchecked(name("again"), Special::Symlink(b"x"), &fixture.new_inode()),
            _ => dir.create_unchecked(name("again"), &fixture.new_inode()),
        };
        let key = node?.found.node.key();
        holds(format!("round {round}: {key:?} is new"), keys.insert(key))?;
        let removed = if round % 3 == 0 {
            dir.remove_dir_unchecked(name("again"))
        } else {
            dir.remove_unchecked(name("again"))
        };
        removed?;
        refused(format!("round {round}: the dead key"), fixture.backend.node(&key, Blocking::Allowed), GONE)?;
    }
    for number in 0..50 {
        dir.create_unchecked(name(&format!("live-{number}")), &fixture.new_inode())?;
    }
    for key in &keys {
        refused("a dead key", fixture.backend.node(key, Blocking::Allowed), GONE)?;
    }
    Ok(())
}

fn a_removed_file_is_stale(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let nodes = zoo(fixture, &dir)?;
    let retained = dir.lookup(name("file"), Blocking::Allowed)?.node;
    let held_key = retained.key();
    for (text, node) in ["file", "link", "fifo", "socket"].into_iter().zip([0, 2, 3, 4].map(|n| &nodes[n])) {
        let key = node.key();
        dir.remove_unchecked(name(text))?;
        gone(fixture, text, node, key)?;
        let new = dir.create_unchecked(name(text), &fixture.new_inode())?.found.node;
        holds("the new one has a new key", new.key() != key)?;
        gone(fixture, "the one before", node, key)?;
    }
    gone(fixture, "another node of the file", &retained, held_key)?;
    refused("a link to what is gone", dir.link_unchecked(name("revived"), &retained), NOT_THERE)?;
    refused("no name", dir.lookup(name("revived"), Blocking::Allowed), &[FsError::NotFound])
}

fn a_pinned_file_outlives_its_name(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for how in ["removed", "replaced"] {
        let node = dir.create_unchecked(name("one"), &fixture.new_inode())?.found.node;
        node.write(0, b"before", KEEP_SET_ID)?;
        let key = node.key();
        node.pin();
        node.pin();
        if how == "removed" {
            dir.remove_unchecked(name("one"))?;
        } else {
            dir.create_unchecked(name("other"), &fixture.new_inode())?;
            dir.rename_unchecked(name("other"), &dir, name("one"))?;
        }
        node.unpin();
        finds(fixture, &node)?;
        eq(format!("links of the {how}"), attrs(&node)?.links, 0)?;
        fixture.backend.node(&key, Blocking::Allowed)?.write(6, b" and after", KEEP_SET_ID)?;
        eq("contents", contents(&node)?, b"before and after".to_vec())?;
        node.set_attrs(&SetAttrs { size: Some(3), ..SetAttrs::default() })?;
        node.sync(SyncScope::All)?;
        eq("size", attrs(&node)?.size, 3)?;
        refused("a link to it", dir.link_unchecked(name("revived"), &node), NOT_THERE)?;
        node.unpin();
        gone(fixture, how, &node, key)?;
    }
    let late = dir.lookup(name("one"), Blocking::Allowed)?.node;
    dir.remove_unchecked(name("one"))?;
    late.pin();
    gone(fixture, "what was pinned too late", &late, late.key())?;
    late.unpin();
    gone(fixture, "what was pinned too late", &late, late.key())
}

fn a_file_with_a_name_left_is_not_stale(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let node = dir.create_unchecked(name("one"), &fixture.new_inode())?.found.node;
    node.write(0, b"data", KEEP_SET_ID)?;
    other.link_unchecked(name("two"), &node)?;
    dir.remove_unchecked(name("one"))?;
    finds(fixture, &node)?;
    eq("contents", contents(&node)?, b"data".to_vec())?;
    eq("key", other.lookup(name("two"), Blocking::Allowed)?.node.key(), node.key())?;
    let key = node.key();
    other.remove_unchecked(name("two"))?;
    gone(fixture, "the last name", &node, key)
}

fn a_replaced_file_is_stale(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let [old, new] = ["old", "new"].map(|text| dir.create_unchecked(name(text), &fixture.new_inode()));
    let [old, new] = [old?.found.node, new?.found.node];
    let key = old.key();
    dir.rename_unchecked(name("new"), &dir, name("old"))?;
    gone(fixture, "the replaced file", &old, key)?;
    finds(fixture, &new)?;
    let [old, new] =
        ["old-dir", "new-dir"].map(|text| dir.make_dir_unchecked(name(text), &fixture.new_dir()));
    let [old, new] = [old?.found.node, new?.found.node];
    let key = old.key();
    dir.rename_unchecked(name("new-dir"), &dir, name("old-dir"))?;
    gone(fixture, "the replaced directory", &old, key)?;
    finds(fixture, &new)
}

fn a_removed_directory_is_stale(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    let file = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let key = sub.key();
    dir.remove_dir_unchecked(name("sub"))?;
    gone(fixture, "the directory", &sub, key)?;
    let new_inode = fixture.new_inode();
    refused("create", sub.create_unchecked(name("x"), &new_inode), GONE)?;
    refused("make_dir", sub.make_dir_unchecked(name("x"), &new_inode), GONE)?;
    refused("make_special", sub.make_special_unchecked(name("x"), Special::Fifo, &new_inode), GONE)?;
    refused("link", sub.link_unchecked(name("x"), &file), GONE)?;
    refused("rename into", dir.rename_unchecked(name("file"), &sub, name("x")), GONE)?;
    refused("rename out of", sub.rename_unchecked(name("x"), &dir, name("x")), NOT_THERE)?;
    refused("lookup", sub.lookup(name("x"), Blocking::Allowed), NOT_THERE)?;
    refused("remove", sub.remove_unchecked(name("x")), NOT_THERE)?;
    refused("parent", sub.parent(), NOT_THERE)?;
    finds(fixture, &file)
}

fn foreign_keys_find_nothing(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    for byte in [0x00, 0x01, 0x55, 0x80, 0xff] {
        for len in [1, 4, 8, 9, 12, 16, 20, 28, 32, 40] {
            let key = FileKey::new(&vec![byte; len])?;
            refused(format!("{key:?}"), fixture.backend.node(&key, Blocking::Allowed), NO_KEY)?;
        }
    }
    let bytes = node.key().bytes().to_vec();
    let cut = FileKey::new(&bytes[..bytes.len() - 1]);
    if let Ok(cut) = cut {
        refused("a key cut short", fixture.backend.node(&cut, Blocking::Allowed), NO_KEY)?;
    }
    for bit in 0..bytes.len() * 8 {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let forged = FileKey::new(&forged)?;
        match fixture.backend.node(&forged, Blocking::Allowed) {
            Ok(other) => eq("what a forged key finds has that key", other.key(), forged)?,
            Err(error) => holds(format!("{error:?} for a forged key"), NO_KEY.contains(&error))?,
        }
    }
    Ok(())
}

fn the_root_is_its_own_parent(fixture: &Fixture) -> Outcome {
    let root = fixture.backend.root();
    let parent = root.parent()?;
    eq("key", parent.node.key(), root.key())?;
    same("attributes", &parent.attrs, &attrs(&root)?)?;
    let dots = list(&root, 0, false, 100)?;
    let dots: Vec<_> = dots.into_iter().filter(|seen| seen.name == b"." || seen.name == b"..").collect();
    eq("dots", dots.len(), 2)?;
    for dot in dots {
        eq("the number of a dot of the root", dot.file_id, parent.attrs.file_id)?;
    }
    root.sync(SyncScope::All)?;
    Ok(())
}

fn a_moved_directory_has_a_new_parent(fixture: &Fixture) -> Outcome {
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    let below = sub.make_dir_unchecked(name("below"), &fixture.new_dir())?.found.node;
    let parent_is = |node: &NodeRef, want: &NodeRef| {
        let parent = node.parent()?;
        eq("parent", parent.node.key(), want.key())?;
        same("its attributes", &parent.attrs, &attrs(want)?)?;
        let entries = list(node, 0, false, 100)?;
        let dots = entries.iter().find(|seen| seen.name == b"..").map(|seen| seen.file_id);
        eq("the number of ..", dots, Some(parent.attrs.file_id))
    };
    parent_is(&dir, &fixture.backend.root())?;
    parent_is(&sub, &dir)?;
    dir.rename_unchecked(name("sub"), &other, name("elsewhere"))?;
    parent_is(&sub, &other)?;
    parent_is(&below, &sub)?;
    other.rename_unchecked(name("elsewhere"), &other, name("here"))?;
    parent_is(&sub, &other)
}
