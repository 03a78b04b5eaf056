//! How objects are created, and under which names.

use super::expect::{attrs, contents, eq, holds, modified, names, refused, same, untouched};
use super::rig::{Fixture, Lack, Outcome, family, name};
use crate::model::caller::INVALID_ID;
use crate::{
    Blocking, CreatedEntry, Device, FileType, FsError, FsResult, Lookup, Name, NewInode, NodeRef, Special,
    Time, UncheckedNode,
};

family!("create":
    the_new_inode_is_honored, a_set_group_id_parent_changes_nothing, given_times_are_kept,
    a_given_size_is_a_hole, specials_are_what_they_are,
    devices_keep_their_numbers, symlinks_keep_their_target, a_taken_name_exists, names_are_any_bytes, long_names,
    names_that_look_alike_differ, directories_count_subdirectories, the_directory_changes,
    nothing_is_created_for_an_invalid_owner,
);

/// Makes one of each type of file that needs no privilege.
fn kinds(fixture: &Fixture) -> Vec<(FileType, Option<Special<'static>>)> {
    let mut kinds = vec![
        (FileType::Regular, None),
        (FileType::Directory, None),
        (FileType::Symlink, Some(Special::Symlink(b"a/target"))),
        (FileType::Fifo, Some(Special::Fifo)),
        (FileType::Socket, Some(Special::Socket)),
    ];
    if fixture.can(Lack::Devices) {
        let device = Device { major: 1, minor: 3 };
        kinds.push((FileType::Block, Some(Special::Block(device))));
        kinds.push((FileType::Character, Some(Special::Character(device))));
    }
    kinds
}

fn make(
    dir: &NodeRef,
    name: Name<'_>,
    kind: &(FileType, Option<Special<'_>>),
    new_inode: &NewInode,
) -> FsResult<CreatedEntry> {
    match kind {
        (_, Some(special)) => dir.make_special_unchecked(name, *special, new_inode),
        (FileType::Directory, None) => dir.make_dir_unchecked(name, new_inode),
        (_, None) => dir.create_unchecked(name, new_inode),
    }
}

/// What was returned is what a look-up finds.
fn check_found(dir: &NodeRef, name: Name<'_>, made: &Lookup) -> Outcome {
    let found = dir.lookup(name, Blocking::Allowed)?;
    eq(format!("key of {name}"), found.node.key(), made.node.key())?;
    same(format!("{name} looked up"), &found.attrs, &made.attrs)?;
    same(format!("{name} asked"), &attrs(&made.node)?, &made.attrs)
}

fn the_new_inode_is_honored(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for kind in kinds(fixture) {
        let file_type = kind.0;
        let plain = matches!(file_type, FileType::Regular | FileType::Directory);
        for mode in [0o777, 0o666, 0o7777, 0o4755, 0o2755, 0o1700, 0o600, 0o2745] {
            let text = format!("{file_type:?}-{mode:o}");
            let owned = fixture.can(if plain { Lack::Owners } else { Lack::SpecialOwners });
            let (uid, gid) = if owned { (mode + 10, mode + 20) } else { fixture.own_ids() };
            let made = make(&dir, name(&text), &kind, &NewInode { mode, uid, gid, times: None, size: 0 })?;
            let created = made.found.attrs;
            eq(format!("type of {text}"), created.file_type, file_type)?;
            eq(format!("owners of {text}"), (created.uid, created.gid), (uid, gid))?;
            if file_type != FileType::Symlink {
                eq(format!("mode of {text}"), created.mode, mode)?;
            }
            if file_type == FileType::Regular {
                eq("an empty file", (created.size, created.links), (0, 1))?;
            }
            check_found(&dir, name(&text), &made.found)?;
        }
    }
    Ok(())
}

fn nothing_is_created_for_an_invalid_owner(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let NewInode { uid, gid, .. } = fixture.new_inode();
    let times = Some((Time { seconds: 1, nanos: 0 }, Time { seconds: 2, nanos: 0 }));
    let before = attrs(&dir)?;
    fixture.tick();
    for kind in kinds(fixture) {
        for (uid, gid) in [(INVALID_ID, INVALID_ID), (INVALID_ID, gid), (uid, INVALID_ID)] {
            for times in [None, times] {
                let what = format!("{:?} of {uid}:{gid}", kind.0);
                let made =
                    make(&dir, name("new"), &kind, &NewInode { mode: 0o644, uid, gid, size: 0, times });
                refused(&what, made, &[FsError::Invalid])?;
                eq(format!("names after {what}"), names(&dir)?.len(), 0)?;
                untouched(what, &dir, &before)?;
            }
        }
    }
    Ok(())
}

fn a_set_group_id_parent_changes_nothing(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let parent = NewInode { mode: 0o2777, ..fixture.new_inode() };
    let sub = dir.make_dir_unchecked(name("parent"), &parent)?.found.node;
    let gid = if fixture.can(Lack::Owners) { parent.gid + 1 } else { parent.gid };
    let new_inode = NewInode { mode: 0o751, gid, ..parent };
    for (text, made) in [
        ("file", sub.create_unchecked(name("file"), &new_inode)?),
        ("dir", sub.make_dir_unchecked(name("dir"), &new_inode)?),
    ] {
        let created = made.found.attrs;
        eq(
            format!("{text} is created as told"),
            (created.mode, created.gid),
            (new_inode.mode, new_inode.gid),
        )?;
    }
    Ok(())
}

fn a_given_size_is_a_hole(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = NewInode { mode: 0o400, size: 10_000, ..fixture.new_inode() };
    let made = dir.create_unchecked(name("sized"), &new_inode)?.found;
    eq("size and mode", (made.attrs.size, made.attrs.mode), (10_000, 0o400))?;
    check_found(&dir, name("sized"), &made)?;
    eq("contents", contents(&made.node)?, vec![0; 10_000])?;
    for size in [fixture.backend.limits().file_bytes_max.saturating_add(1), u64::MAX] {
        let before = attrs(&dir)?;
        let big = dir.create_unchecked(name("big"), &NewInode { size, ..new_inode });
        refused("a size past the largest", big, &[FsError::FileTooBig])?;
        refused("what was not made", dir.lookup(name("big"), Blocking::Allowed), &[FsError::NotFound])?;
        eq("links of the directory", attrs(&dir)?.links, before.links)?;
    }
    Ok(())
}

fn given_times_are_kept(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let before = attrs(&dir)?;
    let step = fixture.backend.limits().time_step_ns.max(1);
    let [accessed, modified] =
        [987_654_321, 123_456_789].map(|n: u32| Time { seconds: i64::from(n), nanos: n - n % step });
    let new_inode = NewInode { times: Some((accessed, modified)), ..fixture.new_inode() };
    let made = dir.create_unchecked(name("timed"), &new_inode)?.found;
    eq("times", (made.attrs.accessed, made.attrs.modified), (accessed, modified))?;
    holds("the change time is now", made.attrs.changed >= before.changed)?;
    check_found(&dir, name("timed"), &made)?;
    fixture.tick();
    let before = attrs(&dir)?.changed;
    let plain = dir.create_unchecked(name("plain"), &fixture.new_inode())?.found.attrs;
    holds(
        "without, all times are now",
        plain.accessed > before && plain.modified > before && plain.changed > before,
    )
}

fn specials_are_what_they_are(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for kind in kinds(fixture) {
        let text = format!("{:?}", kind.0);
        let made = make(&dir, name(&text), &kind, &fixture.new_inode())?;
        eq(&text, made.found.attrs.file_type, kind.0)?;
        let links = if kind.0 == FileType::Directory { made.found.attrs.links } else { 1 };
        eq(format!("links of {text}"), made.found.attrs.links, links)?;
        check_found(&dir, name(&text), &made.found)?;
    }
    eq("entries", names(&dir)?.len(), kinds(fixture).len())
}

fn devices_keep_their_numbers(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::Devices) {
        return Ok(());
    }
    let dir = fixture.dir()?;
    for (major, minor) in [(1, 3), (0, 0), (255, 255), (300, 1000), (511, 262_143), (4095, 1_048_575)] {
        if minor > 262_143 && !fixture.can(Lack::LargeDevices) {
            continue;
        }
        let device = Device { major, minor };
        for special in [Special::Block(device), Special::Character(device)] {
            let text = format!("{special:?}");
            let made = dir.make_special_unchecked(name(&text), special, &fixture.new_inode())?;
            eq(&text, made.found.attrs.device, device)?;
            check_found(&dir, name(&text), &made.found)?;
        }
    }
    let file = dir.create_unchecked(name("file"), &fixture.new_inode())?.found;
    eq("a file has no device numbers", file.attrs.device, Device::default())
}

fn symlinks_keep_their_target(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let bytes: Vec<u8> = (1..=255).collect();
    let long = vec![b'x'; if fixture.can(Lack::LongTargets) { 4095 } else { 1023 }];
    for target in [&b"x"[..], b"../../etc/passwd", b"/", b"//..//.", b"\xff\xfe not UTF-8", &bytes, &long] {
        let made =
            dir.make_special_unchecked(name("link"), Special::Symlink(target), &fixture.new_inode())?;
        eq("target", made.found.node.read_link()?, target.to_vec())?;
        eq("size", made.found.attrs.size, target.len() as u64)?;
        let found = dir.lookup(name("link"), Blocking::Allowed)?;
        eq("a link is not followed", found.attrs.file_type, FileType::Symlink)?;
        eq("target looked up", found.node.read_link()?, target.to_vec())?;
        dir.remove_unchecked(name("link"))?;
    }
    Ok(())
}

fn a_taken_name_exists(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for old in kinds(fixture) {
        let node = make(&dir, name("taken"), &old, &fixture.new_inode())?.found.node;
        let [before, dir_before] = [attrs(&node)?, attrs(&dir)?];
        fixture.tick();
        for new in kinds(fixture) {
            let result = make(&dir, name("taken"), &new, &fixture.new_inode());
            refused(format!("{:?} over {:?}", new.0, old.0), result, &[FsError::Exists])?;
        }
        untouched("a refused creation", &node, &before)?;
        untouched("a refused creation", &dir, &dir_before)?;
        let removed = if old.0 == FileType::Directory {
            dir.remove_dir_unchecked(name("taken"))
        } else {
            dir.remove_unchecked(name("taken"))
        };
        removed?;
    }
    Ok(())
}

fn names_are_any_bytes(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let mut want = Vec::new();
    for byte in (1..=255_u8).filter(|&byte| byte != b'/' && byte != b'.') {
        for bytes in [vec![byte], vec![byte, b'.', byte], vec![0xc3, byte]] {
            let made = dir.create_unchecked(Name::new(&bytes)?, &fixture.new_inode())?;
            check_found(&dir, Name::new(&bytes)?, &made.found)?;
            want.push(bytes);
        }
    }
    for bytes in [&b"..."[..], b".hidden", b"trailing.", b"a\\b", b"c:d", b"*?<>|"] {
        dir.create_unchecked(Name::new(bytes)?, &fixture.new_inode())?;
        want.push(bytes.to_vec());
    }
    want.sort();
    eq("names listed", names(&dir)?, want)
}

fn long_names(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let mut want = Vec::new();
    for len in [1, 2, 63, 64, 100, 127, 128, 200, 253, 254, 255] {
        for byte in [b'x', 0xe4] {
            let bytes = vec![byte; len];
            let made = dir.create_unchecked(Name::new(&bytes)?, &fixture.new_inode())?;
            check_found(&dir, Name::new(&bytes)?, &made.found)?;
            want.push(bytes);
        }
    }
    want.sort();
    eq("names listed", names(&dir)?, want)?;
    let [from, to] = [vec![b'x'; 255], vec![b'y'; 255]];
    dir.rename_unchecked(Name::new(&from)?, &dir, Name::new(&to)?)?;
    refused("the old name", dir.lookup(Name::new(&from)?, Blocking::Allowed), &[FsError::NotFound])?;
    dir.remove_unchecked(Name::new(&to)?)?;
    Ok(())
}

fn names_that_look_alike_differ(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    // Upper and lower case; composed and decomposed; with a space.
    for text in ["a", "A", "\u{e9}", "e\u{301}", "a ", " a", "\u{df}", "ss", "SS"] {
        dir.create_unchecked(name(text), &fixture.new_inode())?;
    }
    eq("names", names(&dir)?.len(), 9)
}

fn directories_count_subdirectories(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::DirectoryLinks) {
        return Ok(());
    }
    let dir = fixture.dir()?;
    eq("an empty directory", attrs(&dir)?.links, 2)?;
    for count in 1..=5 {
        let text = format!("sub-{count}");
        let made = dir.make_dir_unchecked(name(&text), &fixture.new_dir())?;
        eq("the new one", made.found.attrs.links, 2)?;
        eq("its parent", (made.dir.before.links, made.dir.after.links), (1 + count, 2 + count))?;
    }
    dir.create_unchecked(name("file"), &fixture.new_inode())?;
    eq("files do not count", attrs(&dir)?.links, 7)?;
    let change = dir.remove_dir_unchecked(name("sub-1"))?;
    eq("one less", (change.before.links, change.after.links), (7, 6))
}

fn the_directory_changes(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    for kind in kinds(fixture) {
        let text = format!("{:?}", kind.0);
        fixture.tick();
        let before = attrs(&dir)?;
        let made = make(&dir, name(&text), &kind, &fixture.new_inode())?;
        same(format!("{text}: before"), &made.dir.before, &before)?;
        same(format!("{text}: after"), &made.dir.after, &attrs(&dir)?)?;
        modified(format!("making a {text}"), &made.dir)?;
    }
    Ok(())
}
