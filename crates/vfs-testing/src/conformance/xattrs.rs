//! Extended attributes.

use super::expect::{attrs, change, eq, holds, refused, same, untouched};
use super::rig::{Failure, Fixture, Lack, Outcome, family, name};
use crate::UncheckedNode;
use std::cell::Cell;
use std::ops::ControlFlow;
use vfs::backend::xattrs::{RESERVED, XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX};
use vfs::{
    Attrs, Blocking, FsError, FsResult, NewInode, NodeRef, SetXattr, Special, SyncScope, XattrName, Xattrs,
};

family!("xattrs":
    a_backend_says_whether_it_has_them, a_value_is_read_back, create_and_replace_look_first, a_removed_attribute_is_gone,
    names_are_bytes, a_list_comes_in_pages, values_are_bounded, nothing_else_carries_any, only_the_change_shows,
    a_refusal_leaves_all_as_it_was, attributes_go_with_the_file, a_removed_file_has_none,
    what_the_service_keeps_is_apart,
);

/// A file and a directory; none if the backend keeps no attributes.
fn carriers(fixture: &Fixture) -> Outcome<Vec<NodeRef>> {
    if !fixture.can(Lack::Xattrs) {
        return Ok(Vec::new());
    }
    let dir = fixture.dir()?;
    let new_inode = NewInode { mode: 0o4755, ..fixture.new_inode() };
    Ok(vec![
        dir.create_unchecked(name("file"), &new_inode)?.found.node,
        dir.make_dir_unchecked(name("sub"), &new_inode)?.found.node,
    ])
}

#[track_caller]
fn of(node: &NodeRef) -> Outcome<&dyn Xattrs> {
    node.xattrs().ok_or_else(|| Failure::new("a node without attributes"))
}

fn key(text: &str) -> XattrName<'_> {
    XattrName::new(text.as_bytes()).expect("the suite's own names are valid")
}

fn set(node: &NodeRef, text: &str, value: &[u8]) -> Outcome {
    of(node)?.set(key(text), value, SetXattr::Either, &|_| Ok(()))?;
    Ok(())
}

/// A name out of a list, with its cookie.
type Seen = (Vec<u8>, u64);

/// Up to `room` names after `cookie`, and whether that was the end.
fn list_some(node: &NodeRef, cookie: u64, room: usize) -> Outcome<(Vec<Seen>, bool)> {
    let mut seen = Vec::new();
    let end = of(node)?.list(cookie, &mut |name, cookie| {
        if seen.len() == room {
            return ControlFlow::Break(());
        }
        seen.push((name.bytes().to_vec(), cookie));
        ControlFlow::Continue(())
    })?;
    Ok((seen, end))
}

/// All names, sorted.
fn names(node: &NodeRef) -> Outcome<Vec<Vec<u8>>> {
    let (seen, end) = list_some(node, 0, usize::MAX)?;
    holds("a list into endless room ends", end)?;
    let mut names: Vec<_> = seen.into_iter().map(|(name, _)| name).collect();
    names.sort();
    Ok(names)
}

fn a_backend_says_whether_it_has_them(fixture: &Fixture) -> Outcome {
    let says = fixture.backend.capabilities().xattrs;
    let node = fixture.dir()?;
    eq("the capability", says.is_some(), fixture.can(Lack::Xattrs))?;
    eq("attributes of a node", node.xattrs().is_some(), says.is_some())
}

fn a_value_is_read_back(fixture: &Fixture) -> Outcome {
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    for node in carriers(fixture)? {
        eq("names at first", names(&node)?.len(), 0)?;
        for value in [&b"value"[..], b"", &bytes, b"\0", b"shorter"] {
            set(&node, "key", value)?;
            eq("the value", of(&node)?.get(key("key"))?, value.to_vec())?;
        }
        set(&node, "other", b"x")?;
        eq("a value beside another", of(&node)?.get(key("key"))?, b"shorter".to_vec())?;
        eq("names", names(&node)?, vec![b"key".to_vec(), b"other".to_vec()])?;
        refused("what is not there", of(&node)?.get(key("none")), &[FsError::NotFound])?;
    }
    Ok(())
}

fn create_and_replace_look_first(fixture: &Fixture) -> Outcome {
    for node in carriers(fixture)? {
        let set = |value, how| of(&node)?.set(key("key"), value, how, &|_| Ok(())).map_err(Failure::from);
        let refused_set = |value, how, error| {
            refused("a look first", of(&node)?.set(key("key"), value, how, &|_| Ok(())), &[error])
        };
        refused_set(b"1", SetXattr::Replace, FsError::NotFound)?;
        eq("names", names(&node)?.len(), 0)?;
        set(b"2", SetXattr::Create)?;
        refused_set(b"3", SetXattr::Create, FsError::Exists)?;
        eq("the value", of(&node)?.get(key("key"))?, b"2".to_vec())?;
        set(b"4", SetXattr::Replace)?;
        eq("the value replaced", of(&node)?.get(key("key"))?, b"4".to_vec())?;
    }
    Ok(())
}

fn a_removed_attribute_is_gone(fixture: &Fixture) -> Outcome {
    for node in carriers(fixture)? {
        set(&node, "key", b"value")?;
        set(&node, "stays", b"value")?;
        change("a removal", &node, || node.xattrs().ok_or(FsError::Io)?.remove(key("key"), &|_| Ok(())))?;
        refused("the removed", of(&node)?.get(key("key")), &[FsError::NotFound])?;
        refused("again", of(&node)?.remove(key("key"), &|_| Ok(())), &[FsError::NotFound])?;
        eq("names", names(&node)?, vec![b"stays".to_vec()])?;
    }
    Ok(())
}

fn names_are_bytes(fixture: &Fixture) -> Outcome {
    let Some(limits) = fixture.backend.capabilities().xattrs else { return Ok(()) };
    let longest = vec![b'n'; limits.name_bytes_max];
    for node in carriers(fixture)? {
        let mut odd: Vec<&[u8]> =
            vec![b".", b"..", b"/", b"a/b", b"Case", b"case", b"\xff\x01", b" ", &longest];
        odd.extend([
            &b"user.key"[..],
            b"user.plimsoll.owner",
            b"security.capability",
            b"trusted.x",
            b"system.",
        ]);
        odd.extend([&b"plimsoll"[..], b"Plimsoll.owner"]);
        for name in &odd {
            let set = of(&node)?.set(XattrName::new(name)?, name, SetXattr::Create, &|_| Ok(()));
            set.map_err(|error| Failure::from(error).during(name.escape_ascii()))?;
        }
        for name in &odd {
            eq(name.escape_ascii(), of(&node)?.get(XattrName::new(name)?)?, name.to_vec())?;
        }
        odd.sort_unstable();
        eq("names", names(&node)?, odd.iter().map(|name| name.to_vec()).collect())?;
        holds("no name of this service", !names(&node)?.iter().any(|name| name.starts_with(RESERVED)))?;
        if limits.name_bytes_max < vfs::backend::xattrs::XATTR_NAME_BYTES_MAX {
            let long = vec![b'n'; limits.name_bytes_max + 1];
            let long = XattrName::new(&long)?;
            let set = of(&node)?.set(long, b"", SetXattr::Either, &|_| Ok(()));
            refused("a longer name", set, &[FsError::NameTooLong])?;
            refused("a longer name", of(&node)?.get(long), &[FsError::NameTooLong, FsError::NotFound])?;
        }
    }
    Ok(())
}

fn a_list_comes_in_pages(fixture: &Fixture) -> Outcome {
    for node in carriers(fixture)? {
        let stays: Vec<String> = (0..60).map(|number| format!("stays{number}")).collect();
        for text in &stays {
            set(&node, text, b"")?;
        }
        let (mut all, mut cookie, mut round) = (Vec::new(), 0, 0);
        loop {
            let (seen, end) = list_some(&node, cookie, 7)?;
            holds("a page that is not the last is full", end || seen.len() == 7)?;
            for (name, at) in seen {
                holds(format!("cookie {at} comes after {cookie}"), at > cookie)?;
                cookie = at;
                all.push(name);
            }
            if end {
                break;
            }
            // What comes and goes meanwhile does not hide what stays, nor show it twice.
            set(&node, &format!("comes{round}"), b"")?;
            if round > 0 {
                of(&node)?.remove(key(&format!("comes{}", round - 1)), &|_| Ok(()))?;
            }
            round += 1;
        }
        all.retain(|name| name.starts_with(b"stays"));
        all.sort();
        let mut want: Vec<_> = stays.iter().map(|text| text.as_bytes().to_vec()).collect();
        want.sort();
        eq("the names that stay", all, want)?;
        let (none, end) = list_some(&node, cookie, 7)?;
        eq("after the end", (none.len(), end), (0, true))?;
        eq("far after it", list_some(&node, u64::MAX, 7)?.0.len(), 0)?;
    }
    Ok(())
}

fn values_are_bounded(fixture: &Fixture) -> Outcome {
    let largest = vec![7; XATTR_VALUE_BYTES_MAX];
    for node in carriers(fixture)? {
        set(&node, "key", b"small")?;
        let try_set = |text: &str, value: &[u8]| -> FsResult<()> {
            let xattrs = node.xattrs().ok_or(FsError::Io)?;
            xattrs.set(key(text), value, SetXattr::Either, &|_| Ok(())).map(drop)
        };
        refused(
            "a value that is too large",
            try_set("key", &[&largest[..], b"x"].concat()),
            &[FsError::FileTooBig],
        )?;
        eq("the value", of(&node)?.get(key("key"))?, b"small".to_vec())?;
        // Fewer of them where the backend scans all for each.
        let value = vec![1; if fixture.can(Lack::LargeXattrs) { 1000 } else { 100 }];
        let many: usize =
            (0..10_000).take_while(|number| try_set(&format!("{number}"), &value).is_ok()).count();
        holds(format!("{many} attributes"), many >= 8 && many * value.len() <= XATTRS_BYTES_MAX)?;
        refused("one more", try_set("more", &value), &[FsError::NoSpace])?;
        eq("names", names(&node)?.len(), many + 1)?;
        for number in 0..many {
            of(&node)?.remove(key(&format!("{number}")), &|_| Ok(()))?;
        }
        if fixture.can(Lack::LargeXattrs) {
            try_set("large", &largest)?;
            holds("the largest value", of(&node)?.get(key("large"))? == largest)?;
            refused("a second one", try_set("second", &largest), &[FsError::NoSpace])?;
        } else {
            refused("the largest value", try_set("large", &largest), &[FsError::NoSpace])?;
        }
        eq("the first value", of(&node)?.get(key("key"))?, b"small".to_vec())?;
    }
    Ok(())
}

fn nothing_else_carries_any(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::Xattrs) {
        return Ok(());
    }
    let dir = fixture.dir()?;
    for (text, special) in [("link", Special::Symlink(b"file")), ("fifo", Special::Fifo)] {
        let node = dir.make_special_unchecked(name(text), special, &fixture.new_inode())?.found.node;
        let xattrs = of(&node)?;
        let none = &[FsError::NotSupported];
        refused("a value", xattrs.get(key("key")), none)?;
        refused("a list", xattrs.list(0, &mut |_, _| ControlFlow::Continue(())), none)?;
        refused("a setting", xattrs.set(key("key"), b"", SetXattr::Either, &|_| Ok(())), none)?;
        refused("a removal", xattrs.remove(key("key"), &|_| Ok(())), none)?;
    }
    Ok(())
}

fn only_the_change_shows(fixture: &Fixture) -> Outcome {
    for node in carriers(fixture)? {
        fixture.tick();
        let xattrs = of(&node)?;
        let done =
            change("a setting", &node, || xattrs.set(key("key"), b"value", SetXattr::Either, &|_| Ok(())))?;
        let again = change("a removal", &node, || xattrs.remove(key("key"), &|_| Ok(())))?;
        for (what, done) in [("a setting", done), ("a removal", again)] {
            let Attrs { changed, change, .. } = done.after;
            holds(format!("{what} raises the number"), change > done.before.change)?;
            same(
                format!("{what} changes nothing else"),
                &done.after,
                &Attrs { changed, change, ..done.before },
            )?;
        }
        holds("a setting moves the change time", done.after.changed > done.before.changed)?;
    }
    Ok(())
}

fn a_refusal_leaves_all_as_it_was(fixture: &Fixture) -> Outcome {
    for node in carriers(fixture)? {
        set(&node, "key", b"value")?;
        let (before, xattrs) = (attrs(&node)?, of(&node)?);
        let no = |_: &Attrs| Err(FsError::Quota);
        for text in ["key", "new"] {
            refused("a setting", xattrs.set(key(text), b"x", SetXattr::Either, &no), &[FsError::Quota])?;
            refused("a removal", xattrs.remove(key(text), &no), &[FsError::Quota])?;
        }
        untouched("a refusal", &node, &before)?;
        eq("the value", xattrs.get(key("key"))?, b"value".to_vec())?;
        eq("names", names(&node)?, vec![b"key".to_vec()])?;
        let seen = Cell::new(None);
        let see = |attrs: &Attrs| {
            seen.set(Some(*attrs));
            Ok(())
        };
        let done = xattrs.set(key("key"), b"x", SetXattr::Either, &see)?;
        eq("what a setting was decided on", seen.take(), Some(done.before))?;
        let done = xattrs.remove(key("key"), &see)?;
        eq("what a removal was decided on", seen.take(), Some(done.before))?;
    }
    Ok(())
}

fn attributes_go_with_the_file(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::Xattrs) {
        return Ok(());
    }
    let [dir, other] = [fixture.dir()?, fixture.dir()?];
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    set(&node, "key", b"value")?;
    dir.link_unchecked(name("link"), &node)?;
    let by_link = dir.lookup(name("link"), Blocking::Allowed)?.node;
    eq("by another name", of(&by_link)?.get(key("key"))?, b"value".to_vec())?;
    dir.rename_unchecked(name("file"), &other, name("moved"))?;
    let moved = other.lookup(name("moved"), Blocking::Allowed)?.node;
    eq("after a move", of(&moved)?.get(key("key"))?, b"value".to_vec())?;
    let new = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    refused("of a new file", of(&new)?.get(key("key")), &[FsError::NotFound])?;
    node.sync(SyncScope::All)?;
    for dir in [&dir, &other, &fixture.backend.root()] {
        dir.sync(SyncScope::All)?;
    }
    let Some(reopen) = &fixture.reopen else { return Ok(()) };
    let again = reopen().node(&node.key(), Blocking::Allowed)?;
    eq("after a restart", of(&again)?.get(key("key"))?, b"value".to_vec())?;
    eq("names after a restart", names(&again)?, vec![b"key".to_vec()])
}

fn a_removed_file_has_none(fixture: &Fixture) -> Outcome {
    if !fixture.can(Lack::Xattrs) {
        return Ok(());
    }
    let dir = fixture.dir()?;
    let node = dir.create_unchecked(name("file"), &fixture.new_inode())?.found.node;
    set(&node, "key", b"value")?;
    dir.remove_unchecked(name("file"))?;
    let (xattrs, gone) = (of(&node)?, &[FsError::Stale]);
    refused("a value", xattrs.get(key("key")), gone)?;
    refused("a list", xattrs.list(0, &mut |_, _| ControlFlow::Continue(())), gone)?;
    refused("a setting", xattrs.set(key("key"), b"", SetXattr::Either, &|_| Ok(())), gone)?;
    refused("a removal", xattrs.remove(key("key"), &|_| Ok(())), gone)
}

fn what_the_service_keeps_is_apart(fixture: &Fixture) -> Outcome {
    for node in carriers(fixture)? {
        let xattrs = of(&node)?;
        let own = XattrName::EXTRA_ATTRS;
        refused("what was not kept", xattrs.get(own), &[FsError::NotFound])?;
        for record in [&b"record"[..], b"", &[1; 300]] {
            change("a record", &node, || xattrs.set(own, record, SetXattr::Either, &|_| Ok(())))?;
            eq("the record", xattrs.get(own)?, record.to_vec())?;
        }
        eq("names", names(&node)?.len(), 0)?;
        set(&node, "kept", b"value")?;
        eq("names", names(&node)?, vec![b"kept".to_vec()])?;
        let again = fixture.backend.node(&node.key(), Blocking::Allowed)?;
        eq("the record by its key", of(&again)?.get(own)?.len(), 300)?;
        xattrs.remove(own, &|_| Ok(()))?;
        refused("a removed record", xattrs.get(own), &[FsError::NotFound])?;
    }
    Ok(())
}
