//! Snapshots of the whole volume.

mod changes;
mod state;

use super::expect::{attrs, contents, eq, holds, names, refused};
use super::oracle;
use super::rig::{AclKind, Failure, Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use changes::changed_ranges_have_every_change;
use state::{State, in_snapshot, same};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Attrs, Blocking, Device, FsError, FsResult, Name, NewInode, NodeRef, PosixAcl, SetAttrs, SetTime,
    SetXattr, Snapshots, Span, Special, Time, ViewId, XattrName,
};

family!("snapshots":
    no_change_of_a_live_file_shows, numbers_are_listed_in_order, unknown_numbers_are_refused,
    a_number_is_used_once, unstable_data_is_in_it, an_open_file_without_a_name_is_left_out,
    each_has_the_state_of_its_time, the_others_stay_when_one_is_deleted, a_deletion_goes_on_after_a_break,
    two_opens_are_one_state, they_survive_a_restart, a_change_under_way_is_in_it_whole_or_not_at_all,
    random_operations_leave_them_alone, changed_ranges_have_every_change,
);

/// The snapshots of the backend, if it has any.
fn of(fixture: &Fixture) -> Option<&dyn Snapshots> {
    fixture.backend.snapshots()
}

fn live(fixture: &Fixture, dir: &NodeRef) -> Outcome<State> {
    state::of(&*fixture.backend, dir)
}

/// Deletes a snapshot, however many steps it takes.
fn delete(snapshots: &dyn Snapshots, view: ViewId) -> Outcome {
    holds("a deletion without a break ends", snapshots.delete(view, &mut |_| ControlFlow::Continue(()))?)
}

/// A directory with objects of every type, and with all that they may have.
fn build(fixture: &Fixture) -> Outcome<(String, NodeRef)> {
    let (path, dir) = fixture.named_dir()?;
    let new_inode = fixture.new_inode();
    let file = dir.create_unchecked(name("file"), &NewInode { size: 300_000, ..new_inode })?.found.node;
    file.write(0, &[1; 20_000], KEEP_SET_ID)?;
    file.write(200_000, &[2; 10_000], KEEP_SET_ID)?;
    let sub = dir.make_dir_unchecked(name("sub"), &fixture.new_dir())?.found.node;
    sub.link_unchecked(name("hard"), &file)?;
    sub.create_unchecked(name("deep"), &new_inode)?.found.node.write(5, b"deep", KEEP_SET_ID)?;
    dir.make_dir_unchecked(name("empty"), &fixture.new_dir())?;
    dir.create_unchecked(name("none"), &new_inode)?;
    dir.create_unchecked(name("other"), &NewInode { mode: 0o4750, ..new_inode })?.found.node.write(
        0,
        &[3; 8192],
        KEEP_SET_ID,
    )?;
    dir.make_special_unchecked(name("link"), Special::Symlink(b"../target"), &new_inode)?;
    dir.make_special_unchecked(name("fifo"), Special::Fifo, &new_inode)?;
    dir.make_special_unchecked(name("socket"), Special::Socket, &new_inode)?;
    if fixture.can(Lack::Devices) {
        let null = Special::Character(Device { major: 1, minor: 3 });
        dir.make_special_unchecked(name("null"), null, &new_inode)?;
    }
    for node in [&file, &sub] {
        set_xattr(fixture, node, XattrName::new(b"kept")?, b"first")?;
        set_xattr(fixture, node, XattrName::EXTRA_ATTRS, b"own")?;
    }
    set_acl(fixture, &format!("{path}/file"), AclKind::Access, Some(5));
    set_acl(fixture, &format!("{path}/sub"), AclKind::Default, Some(6));
    Ok((path, dir))
}

fn set_xattr(fixture: &Fixture, node: &NodeRef, key: XattrName<'_>, value: &[u8]) -> Outcome {
    if let Some(xattrs) = node.xattrs().filter(|_| fixture.can(Lack::Xattrs)) {
        xattrs.set(key, value, SetXattr::Either, &|_| Ok(()))?;
    }
    Ok(())
}

fn set_acl(fixture: &Fixture, path: &str, kind: AclKind, bits: Option<u32>) {
    if let Some(set_acl) = &fixture.set_acl {
        let acl = bits.map(|bits| PosixAcl {
            owner: 6,
            group: 4,
            mask: Some(7),
            other: 0,
            users: [(77, bits)].into(),
            groups: [].into(),
        });
        set_acl(path, kind, acl.as_ref());
    }
}

/// A change of the tree that [`build`] has made: of the fixture, the path of the tree, its top, its file and its
/// subdirectory.
type LiveChange = fn(&Ground<'_>) -> Outcome;

struct Ground<'f> {
    fixture: &'f Fixture,
    path: &'f str,
    dir: NodeRef,
    file: NodeRef,
    sub: NodeRef,
}

const CHANGES: &[(&str, LiveChange)] = &[
    ("write", |on| done(on.file.write(1000, &[9; 9000], KEEP_SET_ID))),
    ("write into a hole", |on| done(on.file.write(100_000, &[9; 9000], KEEP_SET_ID))),
    ("write at the end", |on| done(on.file.write(300_000, &[9; 9], KEEP_SET_ID))),
    ("cut", |on| set(&on.file, SetAttrs { size: Some(10), ..SetAttrs::default() })),
    ("cut and grow", |on| {
        set(&on.file, SetAttrs { size: Some(0), ..SetAttrs::default() })?;
        set(&on.file, SetAttrs { size: Some(300_000), ..SetAttrs::default() })
    }),
    ("punch", |on| match on.file.ranges() {
        Some(ranges) => done(ranges.punch(0, 12_288, KEEP_SET_ID)),
        None => on.touch(),
    }),
    ("clone over it", |on| match on.file.ranges().filter(|_| on.fixture.can(Lack::Clones)) {
        Some(_) => {
            let other = on.dir.lookup(name("other"), Blocking::Allowed)?.node;
            let ranges = other.ranges().ok_or(FsError::NotSupported)?;
            done(ranges.clone_to(&on.file, &Span { source: 0, target: 0, len: 8192 }, KEEP_SET_ID))
        }
        None => on.touch(),
    }),
    ("mode", |on| set(&on.file, SetAttrs { mode: Some(0o600), ..SetAttrs::default() })),
    ("mode of a directory", |on| set(&on.sub, SetAttrs { mode: Some(0o1777), ..SetAttrs::default() })),
    ("owner", |on| match on.fixture.can(Lack::Owners) {
        true => set(&on.file, SetAttrs { uid: Some(7), gid: Some(8), ..SetAttrs::default() }),
        false => on.touch(),
    }),
    ("times", |on| on.touch()),
    ("attribute set", |on| {
        on.xattr(|on| set_xattr(on.fixture, &on.file, XattrName::new(b"kept")?, b"second"))
    }),
    ("attribute of the service", |on| {
        on.xattr(|on| set_xattr(on.fixture, &on.file, XattrName::EXTRA_ATTRS, b"other"))
    }),
    ("attribute removed", |on| {
        on.xattr(|on| {
            let xattrs = on.sub.xattrs().ok_or(FsError::NotSupported)?;
            done(xattrs.remove(XattrName::new(b"kept")?, &|_| Ok(())))
        })
    }),
    ("list", |on| {
        set_acl(on.fixture, &format!("{}/file", on.path), AclKind::Access, Some(2));
        set_acl(on.fixture, &format!("{}/sub", on.path), AclKind::Default, None);
        on.touch()
    }),
    ("create", |on| done(on.sub.create_unchecked(name("new"), &on.fixture.new_inode()))),
    ("rename", |on| done(on.dir.rename_unchecked(name("file"), &on.sub, name("moved")))),
    ("rename of a directory", |on| done(on.dir.rename_unchecked(name("sub"), &on.dir, name("moved")))),
    ("replace", |on| done(on.dir.rename_unchecked(name("none"), &on.dir, name("other")))),
    ("unlink of one name", |on| done(on.dir.remove_unchecked(name("file")))),
    ("unlink", |on| {
        on.dir.remove_unchecked(name("file"))?;
        done(on.sub.remove_unchecked(name("hard")))
    }),
    ("unlink of the others", |on| {
        ["link", "fifo", "socket", "other", "none"]
            .iter()
            .try_for_each(|text| done(on.dir.remove_unchecked(name(text))))
    }),
    ("rmdir", |on| done(on.dir.remove_dir_unchecked(name("empty")))),
    ("link", |on| done(on.dir.link_unchecked(name("third"), &on.file))),
    ("another file of the same name", |on| {
        on.dir.remove_unchecked(name("other"))?;
        let new = on.dir.create_unchecked(name("other"), &on.fixture.new_inode())?.found.node;
        done(new.write(0, b"another", KEEP_SET_ID))
    }),
];

impl Ground<'_> {
    /// A change that every backend can make.
    fn touch(&self) -> Outcome {
        let time = Some(SetTime::To(Time { seconds: 77, nanos: 0 }));
        set(&self.file, SetAttrs { modified: time, ..SetAttrs::default() })
    }

    fn xattr(&self, act: impl FnOnce(&Self) -> Outcome) -> Outcome {
        if self.fixture.can(Lack::Xattrs) { act(self) } else { self.touch() }
    }
}

/// The outcome of a change that must succeed.
#[track_caller]
fn done<T>(result: FsResult<T>) -> Outcome {
    match result {
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn set(node: &NodeRef, set: SetAttrs) -> Outcome {
    done(node.set_attrs(&set))
}

fn no_change_of_a_live_file_shows(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let mut seen = Vec::new();
    for ((what, change), number) in CHANGES.iter().zip(1..) {
        let (path, dir) = build(fixture)?;
        let [file, sub] = ["file", "sub"].map(|text| dir.lookup(name(text), Blocking::Allowed));
        let ground = Ground { fixture, path: &path, dir: dir.clone(), file: file?.node, sub: sub?.node };
        let before = live(fixture, &dir)?;
        snapshots.create(ViewId(number))?;
        change(&ground).map_err(|failure| failure.during(what))?;
        holds(format!("{what} changes the live files"), live(fixture, &dir)? != before)?;
        same(what, &in_snapshot(snapshots, ViewId(number), &dir)?, &before)?;
        fixture.backend.sync()?;
        same(&format!("{what}, flushed"), &in_snapshot(snapshots, ViewId(number), &dir)?, &before)?;
        seen.push((ViewId(number), dir, before));
    }
    // Each is in all later snapshots, and in no earlier one.
    let root = fixture.backend.root();
    for (view, dir, before) in &seen {
        same("at the end", &in_snapshot(snapshots, *view, dir)?, before)?;
        eq("the root's key", snapshots.open(*view)?.root().key(), root.key())?;
        if view.0 > 1 {
            let earlier = snapshots.open(ViewId(view.0 - 1))?;
            refused("in an earlier one", earlier.node(&dir.key(), Blocking::Allowed), &[FsError::Stale])?;
        }
    }
    Ok(())
}

fn numbers_are_listed_in_order(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    eq("at first", snapshots.list()?, Vec::new())?;
    for number in [1, 4, 7, 300, ViewId::MAX.0] {
        snapshots.create(ViewId(number))?;
    }
    eq("numbers", snapshots.list()?, [1, 4, 7, 300, ViewId::MAX.0].map(ViewId).to_vec())?;
    delete(snapshots, ViewId(7))?;
    eq("without one", snapshots.list()?, [1, 4, 300, ViewId::MAX.0].map(ViewId).to_vec())
}

fn unknown_numbers_are_refused(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    snapshots.create(ViewId(2))?;
    for view in [ViewId(1), ViewId(3), ViewId::MAX] {
        refused("open", snapshots.open(view).map(drop), &[FsError::NotFound])?;
        refused("usage", snapshots.usage(view), &[FsError::NotFound])?;
        delete(snapshots, view)?;
    }
    refused("the live files", snapshots.create(ViewId::LIVE), &[FsError::Invalid])?;
    refused("the live files", snapshots.open(ViewId::LIVE).map(drop), &[FsError::NotFound])?;
    snapshots.usage(ViewId(2))?;
    eq("numbers", snapshots.list()?, vec![ViewId(2)])
}

fn a_number_is_used_once(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let (_, dir) = build(fixture)?;
    let before = live(fixture, &dir)?;
    snapshots.create(ViewId(5))?;
    dir.remove_unchecked(name("file"))?;
    refused("the number again", snapshots.create(ViewId(5)), &[FsError::Exists])?;
    same("the first", &in_snapshot(snapshots, ViewId(5), &dir)?, &before)
}

fn unstable_data_is_in_it(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let dir = fixture.dir()?;
    let file = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    for number in 1..8u8 {
        let all = vec![number; 100_000];
        file.write(0, &all, KEEP_SET_ID)?;
        let new = dir.create_unchecked(name(&format!("new-{number}")), &fixture.new_inode())?.found.node;
        new.write(0, &[number], KEEP_SET_ID)?;
        let view = ViewId(number.into());
        snapshots.create(view)?;
        let snapshot = snapshots.open(view)?;
        holds(
            "a write that nothing flushed",
            contents(&snapshot.node(&file.key(), Blocking::Allowed)?)? == all,
        )?;
        eq("a new file", contents(&snapshot.node(&new.key(), Blocking::Allowed)?)?, vec![number])?;
    }
    Ok(())
}

fn an_open_file_without_a_name_is_left_out(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let dir = fixture.dir()?;
    let file = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    file.write(0, b"open", KEEP_SET_ID)?;
    snapshots.create(ViewId(1))?;
    file.pin();
    dir.remove_unchecked(name("file"))?;
    snapshots.create(ViewId(2))?;
    eq("the open file", contents(&file)?, b"open".to_vec())?;
    let before = snapshots.open(ViewId(1))?.node(&file.key(), Blocking::Allowed)?;
    eq("in the snapshot before", contents(&before)?, b"open".to_vec())?;
    let after = snapshots.open(ViewId(2))?;
    refused("in the snapshot after", after.node(&file.key(), Blocking::Allowed), &[FsError::Stale])?;
    file.unpin();
    eq("after the last close", contents(&before)?, b"open".to_vec())
}

/// Five snapshots of a directory, each of another state.
fn five(fixture: &Fixture, snapshots: &dyn Snapshots) -> Outcome<(NodeRef, Vec<(ViewId, State)>)> {
    let (_, dir) = build(fixture)?;
    let file = dir.lookup(name("file"), Blocking::Allowed)?.node;
    let mut states = Vec::new();
    for number in 1..=5u8 {
        file.write(4096 * u64::from(number), &[number; 9000], KEEP_SET_ID)?;
        dir.create_unchecked(name(&format!("new-{number}")), &fixture.new_inode())?;
        dir.rename_unchecked(name("other"), &dir, name("swap"))?;
        dir.rename_unchecked(name("none"), &dir, name("other"))?;
        dir.rename_unchecked(name("swap"), &dir, name("none"))?;
        let view = ViewId(number.into());
        snapshots.create(view)?;
        states.push((view, live(fixture, &dir)?));
    }
    dir.remove_unchecked(name("file"))?;
    Ok((dir, states))
}

fn all_are(snapshots: &dyn Snapshots, dir: &NodeRef, states: &[(ViewId, State)]) -> Outcome {
    states
        .iter()
        .try_for_each(|(view, want)| same(&format!("{view:?}"), &in_snapshot(snapshots, *view, dir)?, want))
}

fn each_has_the_state_of_its_time(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let (dir, states) = five(fixture, snapshots)?;
    all_are(snapshots, &dir, &states)
}

fn the_others_stay_when_one_is_deleted(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let (dir, mut states) = five(fixture, snapshots)?;
    for middle in [2, 0, 2, 1] {
        let (view, _) = states.remove(middle);
        delete(snapshots, view)?;
        refused("a deleted one", snapshots.open(view).map(drop), &[FsError::NotFound])?;
        all_are(snapshots, &dir, &states)?;
        eq("numbers", snapshots.list()?, states.iter().map(|(view, _)| *view).collect())?;
    }
    holds("the live files stay", dir.lookup(name("new-5"), Blocking::Allowed).is_ok())
}

fn a_deletion_goes_on_after_a_break(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let (dir, states) = five(fixture, snapshots)?;
    let many = fixture.dir()?;
    for number in 0..500 {
        many.create_unchecked(name(&format!("file-{number}")), &fixture.new_inode())?;
    }
    snapshots.create(ViewId(9))?;
    let mut calls = 0;
    let mut rounds = 0;
    while !snapshots.delete(ViewId(9), &mut |_| {
        calls += 1;
        ControlFlow::Break(())
    })? {
        rounds += 1;
        holds("each call deletes something", rounds < 2000)?;
        refused("a half-deleted one", snapshots.open(ViewId(9)).map(drop), &[FsError::NotFound])?;
        eq("numbers", snapshots.list()?, states.iter().map(|(view, _)| *view).collect())?;
    }
    holds("a deletion reports its progress", calls > 0)?;
    delete(snapshots, ViewId(9))?;
    all_are(snapshots, &dir, &states)
}

fn two_opens_are_one_state(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let (_, dir) = build(fixture)?;
    let before = live(fixture, &dir)?;
    snapshots.create(ViewId(1))?;
    let [one, two] = [snapshots.open(ViewId(1))?, snapshots.open(ViewId(1))?];
    let [file, again] = [&one, &two].map(|opened| {
        opened.node(&dir.key(), Blocking::Allowed).and_then(|dir| dir.lookup(name("file"), Blocking::Allowed))
    });
    let (file, again) = (file?.node, again?.node);
    dir.remove_unchecked(name("file"))?;
    eq("attributes", attrs(&file)?, attrs(&again)?)?;
    holds("contents", contents(&file)? == contents(&again)?)?;
    drop((one, file));
    same("the other one", &state::of(&*two, &two.node(&dir.key(), Blocking::Allowed)?)?, &before)
}

fn they_survive_a_restart(fixture: &Fixture) -> Outcome {
    let (Some(snapshots), Some(reopen)) = (of(fixture), &fixture.reopen) else { return Ok(()) };
    let (dir, mut states) = five(fixture, snapshots)?;
    delete(snapshots, states.remove(1).0)?;
    fixture.backend.sync()?;
    let after = live(fixture, &dir)?;
    let backend = reopen();
    let again = backend.snapshots().ok_or_else(|| Failure::new("no snapshots after a restart"))?;
    let live_dir = backend.node(&dir.key(), Blocking::Allowed)?;
    same("the live files", &state::of(&*backend, &live_dir)?, &after)?;
    eq("numbers", again.list()?, states.iter().map(|(view, _)| *view).collect())?;
    all_are(again, &dir, &states)?;
    again.create(ViewId(8))?;
    same("a new one", &in_snapshot(again, ViewId(8), &dir)?, &after)
}

/// Writers that always fill a whole file with one byte: no snapshot has a file of two. New directories have all their
/// attributes, and a file that is renamed has one name.
fn a_change_under_way_is_in_it_whole_or_not_at_all(fixture: &Fixture) -> Outcome {
    const BYTES: usize = 1 << 20;
    // Each snapshot is listed whole.
    const DIRS_MAX: u32 = 1000;
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let dir = fixture.dir()?;
    let mut files = Vec::new();
    for text in ["one", "two"] {
        let file = dir.create_unchecked(name(text), &fixture.new_inode())?.found.node;
        file.write(0, &vec![1; BYTES], KEEP_SET_ID)?;
        files.push(file);
    }
    dir.create_unchecked(name("left"), &fixture.new_inode())?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for file in &files {
            let ended = &ended;
            scope.spawn(move || {
                for byte in (1..=255u8).cycle() {
                    if ended.load(Ordering::Relaxed)
                        || file.write(0, &vec![byte; BYTES], KEEP_SET_ID).is_err()
                    {
                        return;
                    }
                }
            });
        }
        let (ended, dir) = (&ended, &dir);
        let new_dir = NewInode { mode: 0o2750, ..fixture.new_dir() };
        scope.spawn(move || {
            for number in 0.. {
                let text = format!("dir-{number}");
                let other = if number % 2 == 0 { ["left", "right"] } else { ["right", "left"] };
                let is_room = number < DIRS_MAX;
                if ended.load(Ordering::Relaxed)
                    || is_room && dir.make_dir_unchecked(name(&text), &new_dir).is_err()
                    || dir.rename_unchecked(name(other[0]), dir, name(other[1])).is_err()
                {
                    return;
                }
            }
        });
        let outcome = (1..=12).try_for_each(|number| {
            snapshots.create(ViewId(number))?;
            let snapshot = snapshots.open(ViewId(number))?;
            let top = snapshot.node(&dir.key(), Blocking::Allowed)?;
            let mut moving = 0;
            for text in names(&top)? {
                let Attrs { mode, uid, gid, .. } =
                    top.lookup(Name::new(&text).map_err(|_| FsError::Invalid)?, Blocking::Allowed)?.attrs;
                if text.starts_with(b"dir-") {
                    eq("a new directory", (mode, uid, gid), (new_dir.mode, new_dir.uid, new_dir.gid))?;
                }
                moving += u32::from(text == b"left" || text == b"right");
            }
            eq("names of a file that is renamed", moving, 1)?;
            files.iter().try_for_each(|file| {
                let seen = contents(&snapshot.node(&file.key(), Blocking::Allowed)?)?;
                let first = seen.first().copied();
                let torn = seen.iter().position(|&byte| Some(byte) != first);
                eq(format!("where a file of {first:?} becomes another in {number}"), torn, None)
            })
        });
        ended.store(true, Ordering::Relaxed);
        outcome
    })
}

fn random_operations_leave_them_alone(fixture: &Fixture) -> Outcome {
    let Some(snapshots) = of(fixture) else { return Ok(()) };
    let mut view = ViewId::LIVE;
    (1..=3).try_for_each(|seed| oracle::soak_with_snapshots(fixture, snapshots, seed, 400, &mut view))
}
