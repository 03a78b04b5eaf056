//! Lists of POSIX beside mode bits, which others set.

use super::expect::{attrs, change, eq, holds};
use super::rig::{AclKind, Failure, Fixture, Outcome, family, name};
use crate::UncheckedNode;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::{Acls, Blocking, FileType, FsError, NewInode, NodeRef, PosixAcl, SetAttrs, Special, Time, Wait};

family!("acls":
    a_backend_says_whether_it_has_them, a_list_of_others_is_seen_at_once, a_list_is_found_by_every_look,
    a_new_mode_sets_the_mask, a_list_stays_whatever_else_is_set, what_is_made_inherits, what_is_made_obeys_the_list_above,
    decisions_may_ask_for_lists, a_restored_list_is_seen_and_inherited,
);

/// A directory with its path; `None` if the backend has no POSIX ACLs.
fn ground(fixture: &Fixture) -> Outcome<Option<(String, NodeRef)>> {
    if fixture.set_acl.is_some() { fixture.named_dir().map(Some) } else { Ok(None) }
}

fn set(fixture: &Fixture, path: &str, kind: AclKind, acl: Option<&PosixAcl>) {
    if let Some(set_acl) = &fixture.set_acl {
        set_acl(path, kind, acl);
    }
}

#[track_caller]
fn of(node: &NodeRef) -> Outcome<&dyn Acls> {
    node.acls().ok_or_else(|| Failure::new("a node without lists"))
}

/// A list with two users and a group.
fn list() -> PosixAcl {
    let (users, groups) = ([(77, 7), (78, 0)].into(), [(88, 5)].into());
    PosixAcl { owner: 6, group: 4, mask: Some(6), other: 1, users, groups }
}

/// The current access ACL, with the classes of the mode.
#[track_caller]
fn seen(node: &NodeRef) -> Outcome<Option<PosixAcl>> {
    let now = attrs(node)?;
    let acl = of(node)?.access_acl(&now, Blocking::Allowed)?;
    Ok(acl.map(|acl| acl.with_mode(now.mode)))
}

fn a_backend_says_whether_it_has_them(fixture: &Fixture) -> Outcome {
    let says = fixture.backend.capabilities().acls;
    eq("the capability", says, fixture.set_acl.is_some())?;
    eq("lists of a node", fixture.dir()?.acls().is_some(), says)
}

fn a_list_of_others_is_seen_at_once(fixture: &Fixture) -> Outcome {
    let Some((path, dir)) = ground(fixture)? else { return Ok(()) };
    for text in ["file", "sub"] {
        let new_inode = NewInode { mode: 0o4640, ..fixture.new_inode() };
        let node = match text {
            "file" => dir.create_unchecked(name(text), &new_inode)?.found.node,
            _ => dir.make_dir_unchecked(name(text), &new_inode)?.found.node,
        };
        let path = format!("{path}/{text}");
        for round in 0..20 {
            eq("at first", seen(&node)?, None)?;
            let acl = PosixAcl { group: round % 8, ..list() };
            set(fixture, &path, AclKind::Access, Some(&acl));
            eq("the list", seen(&node)?, Some(acl.with_mode(attrs(&node)?.mode)))?;
            let other = PosixAcl { users: [(round, 3)].into(), ..acl };
            set(fixture, &path, AclKind::Access, Some(&other));
            eq("another", seen(&node)?, Some(other.with_mode(attrs(&node)?.mode)))?;
            set(fixture, &path, AclKind::Access, None);
        }
        eq("without one", seen(&node)?, None)?;
        eq("a list to hand on", of(&node)?.default_acl()?, None)?;
    }
    Ok(())
}

fn a_list_is_found_by_every_look(fixture: &Fixture) -> Outcome {
    let Some((path, dir)) = ground(fixture)? else { return Ok(()) };
    let made = dir.create_unchecked(name("file"), &NewInode { mode: 0o660, ..fixture.new_inode() })?.found;
    // As long as others may have found; this one has more than are worth remembering.
    for count in [0, 1, 40, 400] {
        let users = (1000..1000 + count).map(|uid| (uid, 6)).collect();
        let acl = PosixAcl { users, ..list() };
        set(fixture, &format!("{path}/file"), AclKind::Access, Some(&acl));
        let acl = acl.with_mode(attrs(&made.node)?.mode);
        for _ in 0..3 {
            eq("the list", seen(&made.node)?.as_ref(), Some(&acl))?;
            let now = attrs(&made.node)?;
            match of(&made.node)?.access_acl(&now, Blocking::Never) {
                Err(FsError::Wait(Wait::Storage)) => {}
                got => eq("without waiting", got?.map(|acl| acl.with_mode(now.mode)).as_ref(), Some(&acl))?,
            }
        }
        eq("by its name", seen(&dir.lookup(name("file"), Blocking::Allowed)?.node)?.as_ref(), Some(&acl))?;
        let by_key = fixture.backend.node(&made.node.key(), Blocking::Allowed)?;
        eq("by its key", seen(&by_key)?.as_ref(), Some(&acl))?;
    }
    Ok(())
}

fn a_new_mode_sets_the_mask(fixture: &Fixture) -> Outcome {
    let Some((path, dir)) = ground(fixture)? else { return Ok(()) };
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    set(fixture, &format!("{path}/file"), AclKind::Access, Some(&list()));
    for mode in [0o770, 0o604, 0o640] {
        let new = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        let after = change("a new mode", &node, || node.set_attrs(&new))?.after;
        eq("the mode", after.mode, mode)?;
        let want = PosixAcl { owner: mode >> 6, mask: Some(mode >> 3 & 7), other: mode & 7, ..list() };
        eq("the list", seen(&node)?, Some(want))?;
    }
    Ok(())
}

fn a_list_stays_whatever_else_is_set(fixture: &Fixture) -> Outcome {
    let Some((path, dir)) = ground(fixture)? else { return Ok(()) };
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    set(fixture, &format!("{path}/file"), AclKind::Access, Some(&list()));
    let want = seen(&node)?;
    holds("there is a list", want.is_some())?;
    node.write(0, b"data", KEEP_SET_ID)?;
    eq("after a write", seen(&node)?, want.clone())?;
    node.set_attrs(&SetAttrs { size: Some(1), ..SetAttrs::default() })?;
    eq("after a cut", seen(&node)?, want.clone())?;
    let (uid, gid) = (fixture.new_inode().uid, fixture.new_inode().gid);
    node.set_attrs(&SetAttrs { uid: Some(uid), gid: Some(gid), ..SetAttrs::default() })?;
    eq("after a change of owner", seen(&node)?, want.clone())?;
    dir.rename_unchecked(name("file"), &dir, name("moved"))?;
    eq("after a move", seen(&node)?, want)
}

fn what_is_made_inherits(fixture: &Fixture) -> Outcome {
    let Some((path, dir)) = ground(fixture)? else { return Ok(()) };
    let handed_on = PosixAcl { owner: 7, group: 5, other: 0, ..list() };
    set(fixture, &path, AclKind::Default, Some(&handed_on));
    eq("the list to hand on", of(&dir)?.default_acl()?, Some(Arc::new(handed_on.clone())))?;
    eq("the directory's own", seen(&dir)?, None)?;
    let times = Some((Time { seconds: 5, nanos: 0 }, Time { seconds: 6, nanos: 0 }));
    let plain = fixture.new_inode();
    let wishes = [
        NewInode { mode: 0o666, ..plain },
        NewInode { mode: 0o640, ..plain },
        NewInode { mode: 0o4777, times, ..plain },
        NewInode { mode: 0o664, size: 5000, ..plain },
        NewInode { mode: 0o060, ..plain },
    ];
    for (number, wish) in wishes.into_iter().enumerate() {
        let mode = wish.mode & (handed_on.mode() | 0o7000);
        let [file, sub, fifo] = ["file", "sub", "fifo"].map(|text| format!("{text}-{number}"));
        let file = dir.create_unchecked(name(&file), &wish)?.found;
        let sub = dir.make_dir_unchecked(name(&sub), &NewInode { size: 0, ..wish })?.found;
        let fifo_wish = NewInode { size: 0, times: None, ..wish };
        let fifo = dir.make_special_unchecked(name(&fifo), Special::Fifo, &fifo_wish)?.found;
        for found in [file, sub, fifo] {
            let what = format!("{:?} of mode {:o}", found.attrs.file_type, wish.mode);
            eq(format!("the mode of a {what}"), found.attrs.mode, mode)?;
            eq(format!("the mode of a {what} seen later"), attrs(&found.node)?.mode, mode)?;
            eq(format!("the list of a {what}"), seen(&found.node)?, Some(handed_on.with_mode(mode)))?;
            let is_dir = found.attrs.file_type == FileType::Directory;
            let default = of(&found.node)?.default_acl()?;
            eq("the list that it hands on", default.as_deref(), is_dir.then_some(&handed_on))?;
        }
    }
    let link = dir.make_special_unchecked(name("link"), Special::Symlink(b"to"), &plain)?.found;
    eq("the mode of a link", link.attrs.mode, 0o777)?;
    eq("the list of a link", seen(&link.node)?, None)
}

fn what_is_made_obeys_the_list_above(fixture: &Fixture) -> Outcome {
    let Some((path, dir)) = ground(fixture)? else { return Ok(()) };
    let minimal = PosixAcl { owner: 7, group: 4, mask: None, other: 0, users: [].into(), groups: [].into() };
    set(fixture, &path, AclKind::Default, Some(&minimal));
    let wish = NewInode { mode: 0o6777, ..fixture.new_inode() };
    let file = dir.create_unchecked(name("file"), &wish)?.found;
    eq("the mode of a file", (file.attrs.mode, seen(&file.node)?), (0o6740, None))?;
    let sub = dir.make_dir_unchecked(name("sub"), &wish)?.found;
    eq("the mode of a directory", (sub.attrs.mode, seen(&sub.node)?), (0o6740, None))?;
    let deep = sub.node.create_unchecked(name("deep"), &wish)?.found;
    eq("the mode of a file below", deep.attrs.mode, 0o6740)?;
    set(fixture, &path, AclKind::Default, None);
    let later = dir.create_unchecked(name("later"), &wish)?.found;
    eq("the mode without a list above", later.attrs.mode, 0o6777)
}

fn decisions_may_ask_for_lists(fixture: &Fixture) -> Outcome {
    let Some((path, dir)) = ground(fixture)? else { return Ok(()) };
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    set(fixture, &format!("{path}/file"), AclKind::Access, Some(&list()));
    let ask = |node: &NodeRef, now: &_| {
        let acls = node.acls().ok_or(FsError::Io)?;
        Ok::<_, FsError>((acls.access_acl(now, Blocking::Allowed)?.is_some(), acls.default_acl()?.is_some()))
    };
    let is =
        |node: &NodeRef, now: &_, want| if ask(node, now)? == want { Ok(()) } else { Err(FsError::Access) };
    node.write(0, b"data", &|now| is(&node, now, (true, false)).map(|()| false))?;
    node.change_attrs(&|now| is(&node, now, (true, false)).map(|()| SetAttrs::default()))?;
    dir.create(name("other"), &|now| is(&dir, now, (false, false)).map(|()| fixture.new_inode()))?;
    dir.link(name("link"), &node, &|now| is(&dir, now, (false, false)))?;
    let both = |now: &vfs::EntryRef<'_>| {
        is(&dir, now.dir, (false, false)).and(is(&node, &(now.object)()?, (true, false)))
    };
    dir.rename(name("link"), &dir, name("moved"), &|from, _| both(from))?;
    dir.remove(name("moved"), &both)?;
    Ok(())
}

fn a_restored_list_is_seen_and_inherited(fixture: &Fixture) -> Outcome {
    let Some((_, dir)) = ground(fixture)? else { return Ok(()) };
    let file = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    for node in [&file, &dir] {
        of(node)?.set_access_acl(&list())?;
        eq("the list", seen(node)?, Some(list()))?;
        eq("the mode", attrs(node)?.mode & 0o777, list().mode())?;
        let minimal = PosixAcl { mask: None, users: [].into(), groups: [].into(), ..list() };
        of(node)?.set_access_acl(&minimal)?;
        eq("after a list that is a mode", (seen(node)?, attrs(node)?.mode & 0o777), (None, minimal.mode()))?;
    }
    of(&dir)?.set_default_acl(Some(&list()))?;
    eq("the list to hand on", of(&dir)?.default_acl()?, Some(Arc::new(list())))?;
    let heir =
        dir.create_unchecked(name("heir"), &NewInode { mode: 0o666, ..fixture.new_inode() })?.found.node;
    holds("it was handed on", seen(&heir)?.is_some())?;
    of(&dir)?.set_default_acl(None)?;
    of(&dir)?.set_default_acl(None)?;
    eq("after its removal", of(&dir)?.default_acl()?, None)?;
    eq("a file's list to hand on", of(&file)?.set_default_acl(Some(&list())), Err(FsError::NotDirectory))
}
