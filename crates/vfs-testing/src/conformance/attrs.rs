//! Setting attributes, and what other verbs do to them.

use super::expect::{attrs, change, eq, holds, refused, same, untouched};
use super::rig::{Failure, Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use vfs::backend::KEEP_SET_ID;
use vfs::model::caller::INVALID_ID;
use vfs::{Attrs, Blocking, FsError, NewInode, SetAttrs, SetTime, Special, Time, Wait};

family!("attrs":
    mode_is_set, owners_are_set, invalid_owners_are_refused, times_are_set, now_is_the_clock, all_fields_at_once, nothing_set_leaves_all,
    size_needs_a_regular_file, size_and_given_times, mode_bits_do_not_bind_the_backend, limits_and_space_make_sense,
    a_read_changes_no_attributes, pace_now_answers_right_or_not_at_all,
);

const SET: SetAttrs =
    SetAttrs { mode: None, umask: 0, uid: None, gid: None, size: None, accessed: None, modified: None };

/// Applies to `before` the attributes that a setting may touch.
fn with_changed(before: &Attrs, after: &Attrs) -> Attrs {
    Attrs { changed: after.changed, change: after.change, ..*before }
}

fn mode_is_set(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let file = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    for node in [&file, &sub] {
        for mode in [0o755, 0o644, 0o777, 0o4755, 0o2755, 0o1777, 0o7777, 0o700] {
            fixture.tick();
            let set = SetAttrs { mode: Some(mode), ..SET };
            let done = change(format!("chmod {mode:o}"), node, || node.set_attrs(&set))?;
            eq("mode", done.after.mode, mode)?;
            holds("chmod moves the change time", done.after.changed > done.before.changed)?;
            let want = Attrs { mode, ..with_changed(&done.before, &done.after) };
            same("chmod changes nothing else", &done.after, &want)?;
        }
    }
    Ok(())
}

fn owners_are_set(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::Owners) {
        return Ok(());
    }
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    let mut nodes = vec![
        dir.create_unchecked(name("file"), &new_inode)?.found.node,
        dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node,
    ];
    if fixture.can(Lack::SpecialOwners) {
        nodes.push(
            dir.make_special_unchecked(name("link"), Special::Symlink(b"target"), &new_inode)?.found.node,
        );
        nodes.push(dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?.found.node);
    }
    for node in nodes {
        for (uid, gid) in [(Some(7), None), (None, Some(8)), (Some(0), Some(0)), (Some(70_000), Some(80_000))]
        {
            fixture.tick();
            let done = change("chown", &node, || node.set_attrs(&SetAttrs { uid, gid, ..SET }))?;
            let Attrs { uid: old_uid, gid: old_gid, .. } = done.before;
            let want = Attrs {
                uid: uid.unwrap_or(old_uid),
                gid: gid.unwrap_or(old_gid),
                ..with_changed(&done.before, &done.after)
            };
            same("chown changes owners only", &done.after, &want)?;
            holds("chown moves the change time", done.after.changed > done.before.changed)?;
        }
    }
    Ok(())
}

fn invalid_owners_are_refused(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = NewInode { mode: 0o2755, ..fixture.new_inode() };
    let nodes = [
        dir.create_unchecked(name("file"), &new_inode)?.found.node,
        dir.make_dir_unchecked(name("sub"), &new_inode)?.found.node,
        dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?.found.node,
    ];
    fixture.tick();
    for node in nodes {
        let before = attrs(&node)?;
        for (uid, gid) in [(INVALID_ID, INVALID_ID), (INVALID_ID, new_inode.gid), (new_inode.uid, INVALID_ID)]
        {
            for mode in [None, Some(0o644)] {
                let set = SetAttrs { mode, uid: Some(uid), gid: Some(gid), ..SET };
                refused(format!("chown {uid}:{gid}"), node.set_attrs(&set), &[FsError::Invalid])?;
                untouched("a refused chown", &node, &before)?;
            }
        }
    }
    Ok(())
}

fn times_are_set(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    let step = fixture.backend.limits().time_step_ns.max(1);
    let nodes = [
        dir.create_unchecked(name("file"), &new_inode)?.found.node,
        dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node,
        dir.make_special_unchecked(name("link"), Special::Symlink(b"target"), &new_inode)?.found.node,
        dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?.found.node,
    ];
    for node in &nodes {
        for (seconds, nanos) in [(0, 0), (1_000_000_000, 123_456_789), (2_147_483_647, 999_999_999)] {
            let time = Time { seconds, nanos: nanos - nanos % step };
            fixture.tick();
            let set = SetAttrs { accessed: Some(SetTime::To(time)), ..SET };
            let done = change("setting the access time", node, || node.set_attrs(&set))?;
            eq("access time", done.after.accessed, time)?;
            same("nothing else", &done.after, &with_changed(&done.before, &done.after))?;
            holds("setting times moves the change time", done.after.changed > done.before.changed)?;

            let time = Time { seconds: seconds / 2, ..time };
            let set = SetAttrs { modified: Some(SetTime::To(time)), ..SET };
            let done = change("setting the modification time", node, || node.set_attrs(&set))?;
            let want = Attrs { modified: time, ..with_changed(&done.before, &done.after) };
            same("modification time and nothing else", &done.after, &want)?;
            eq("access time stays", done.after.accessed, done.before.accessed)?;
        }
    }
    Ok(())
}

fn now_is_the_clock(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let born = attrs(&node)?.changed;
    let old = Some(SetTime::To(Time { seconds: 1, nanos: 0 }));
    node.set_attrs(&SetAttrs { accessed: old, modified: old, ..SET })?;
    fixture.tick();
    let now = Some(SetTime::Now);
    let done = change("now", &node, || node.set_attrs(&SetAttrs { modified: now, ..SET }))?;
    holds("the modification time is now", done.after.modified > born)?;
    eq("the access time stays", done.after.accessed.seconds, 1)?;
    let done = change("now", &node, || node.set_attrs(&SetAttrs { accessed: now, ..SET }))?;
    holds("the access time is now", done.after.accessed > born)?;
    holds("now is not after the change", done.after.accessed <= done.after.changed)
}

fn all_fields_at_once(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    let node = dir.create_unchecked(name("file"), &new_inode)?.found.node;
    node.write(0, &[1; 100], KEEP_SET_ID)?;
    let (uid, gid) = if fixture.can(Lack::Owners) { (11, 12) } else { (new_inode.uid, new_inode.gid) };
    let [accessed, modified] = [1_000, 2_000].map(|seconds| Time { seconds, nanos: 0 });
    let set = SetAttrs {
        mode: Some(0o6755),
        umask: 0,
        uid: Some(uid),
        gid: Some(gid),
        size: Some(10),
        accessed: Some(SetTime::To(accessed)),
        modified: Some(SetTime::To(modified)),
    };
    let done = change("setting everything", &node, || node.set_attrs(&set))?;
    let want =
        Attrs { mode: 0o6755, uid, gid, size: 10, modified, ..with_changed(&done.before, &done.after) };
    same("a change of owner does not undo the mode, nor a cut the time", &done.after, &want)?;
    eq("access time", done.after.accessed, accessed)
}

fn nothing_set_leaves_all(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node =
        dir.create_unchecked(name("file"), &NewInode { mode: 0o4750, ..fixture.new_inode() })?.found.node;
    let done = change("setting nothing", &node, || node.set_attrs(&SET))?;
    same("nothing is set", &done.after, &with_changed(&done.before, &done.after))
}

fn size_needs_a_regular_file(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let new_inode = fixture.new_inode();
    let set = SetAttrs { size: Some(0), ..SET };
    let before = attrs(&dir)?;
    refused("size of a directory", dir.set_attrs(&set), &[FsError::IsDirectory])?;
    same("the directory", &attrs(&dir)?, &before)?;
    for special in [Special::Symlink(b"x"), Special::Fifo, Special::Socket] {
        let node = dir.make_special_unchecked(name("special"), special, &new_inode)?.found.node;
        refused(format!("size of a {special:?}"), node.set_attrs(&set), &[FsError::Invalid])?;
        dir.remove_unchecked(name("special"))?;
    }
    Ok(())
}

fn size_and_given_times(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let time = Time { seconds: 77, nanos: 0 };
    for size in [1000, 10, 0] {
        let set = SetAttrs { size: Some(size), modified: Some(SetTime::To(time)), ..SET };
        let after = change("size with time", &node, || node.set_attrs(&set))?.after;
        eq("the given time wins over the cut's", (after.size, after.modified), (size, time))?;
    }
    Ok(())
}

fn mode_bits_do_not_bind_the_backend(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::ForbiddenModes) {
        return Ok(());
    }
    let dir = fixture.dir()?;
    let sub = dir.make_dir_unchecked(name("sub"), &NewInode { mode: 0, ..fixture.new_inode() })?.found.node;
    let node = sub.create_unchecked(name("file"), &NewInode { mode: 0, ..fixture.new_inode() })?.found.node;
    node.write(0, b"data", KEEP_SET_ID)?;
    let found = sub.lookup(name("file"), Blocking::Allowed)?;
    eq("contents", super::expect::contents(&found.node)?, b"data".to_vec())?;
    eq("names", super::expect::names(&sub)?.len(), 1)?;
    node.set_attrs(&SetAttrs { size: Some(2), ..SET })?;
    eq("mode", attrs(&node)?.mode, 0)?;
    sub.remove_unchecked(name("file"))?;
    Ok(())
}

fn limits_and_space_make_sense(fixture: &Fixture) -> Outcome {
    let limits = fixture.backend.limits();
    holds(format!("limits: {limits:?}"), limits.links_max >= 1 && limits.file_bytes_max >= 1 << 31)?;
    eq("the longest name", limits.name_bytes_max, 255)?;
    eq("limits never change", fixture.backend.limits(), limits)?;
    let stat = fixture.backend.stat()?;
    let bytes = stat.bytes_available <= stat.bytes_free && stat.bytes_free <= stat.bytes_total;
    let files = stat.files_available <= stat.files_free && stat.files_free <= stat.files_total;
    holds(format!("free is part of all: {stat:?}"), bytes && files && stat.bytes_total > 0)
}

fn a_read_changes_no_attributes(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    let link = dir
        .make_special_unchecked(name("link"), Special::Symlink(b"target"), &fixture.new_inode())?
        .found
        .node;
    node.write(0, &[7; 5000], KEEP_SET_ID)?;
    let [file_before, dir_before, link_before] = [attrs(&node)?, attrs(&dir)?, attrs(&link)?];
    fixture.tick();
    super::expect::contents(&node)?;
    super::expect::list(&dir, 0, true, 10)?;
    dir.lookup(name("file"), Blocking::Allowed)?;
    link.read_link()?;
    same("after a read", &attrs(&node)?, &file_before)?;
    same("after a listing", &attrs(&dir)?, &dir_before)?;
    same("after a read of the link", &attrs(&link)?, &link_before)?;
    holds("the access time goes forward", attrs(&node)?.accessed >= file_before.accessed)
}

fn pace_now_answers_right_or_not_at_all(fixture: &Fixture) -> Outcome {
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    node.write(0, &[9; 9000], KEEP_SET_ID)?;
    let want = attrs(&node)?;
    let patient = |error| -> Outcome {
        if error == FsError::Wait(Wait::Storage) { Ok(()) } else { Err(Failure::from(error)) }
    };
    for _ in 0..3 {
        node.attrs(Blocking::Never).map_or_else(patient, |got| same("attributes", &got, &want))?;
        let found = dir.lookup(name("file"), Blocking::Never);
        found.map_or_else(patient, |found| eq("key", found.node.key(), node.key()))?;
        let found = fixture.backend.node(&node.key(), Blocking::Never);
        found.map_or_else(patient, |found| eq("key", found.key(), node.key()))?;
        match node.read_vec(0, 9001, Blocking::Never) {
            Ok(read) => eq("bytes", read, vec![9; 9000])?,
            Err(error) => patient(error)?,
        }
        refused(
            "no such name",
            dir.lookup(name("none"), Blocking::Never),
            &[FsError::NotFound, FsError::Wait(Wait::Storage)],
        )?;
        refused("no such name", dir.lookup(name("none"), Blocking::Allowed), &[FsError::NotFound])?;
        dir.lookup(name("file"), Blocking::Allowed)?;
        super::expect::contents(&node)?;
    }
    Ok(())
}
