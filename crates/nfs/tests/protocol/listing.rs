//! READDIR and READDIRPLUS: limits, cookies, and directories that change between two pages.

use crate::support::object::{name, new_inode};
use crate::support::{ALICE, Auth, BOB, Object, World, decode};
use nfs_wire::v3::{
    DirListEnd, Entry, EntryPlus, Fattr, Procedure, ReaddirArgs, ReaddirFail, ReaddirReply, ReaddirplusArgs,
    ReaddirplusReply, Reply, Status,
};
use std::collections::BTreeSet;
use vfs::Special;
use vfs_testing::UncheckedNode;

/// Bytes of the results before the first entry: attributes and verifier.
const HEAD: usize = 4 + Fattr::SIZE + 8;

fn readdir(w: &mut World, auth: Auth, dir: &Object, cookie: u64, count: u32) -> Vec<u8> {
    w.ask(auth, Procedure::READDIR, &ReaddirArgs { dir: dir.fh(), cookie, cookieverf: [0; 8], count })
}

fn readdirplus(
    w: &mut World,
    auth: Auth,
    dir: &Object,
    cookie: u64,
    dircount: u32,
    maxcount: u32,
) -> Vec<u8> {
    let args = ReaddirplusArgs { dir: dir.fh(), cookie, cookieverf: [0; 8], dircount, maxcount };
    w.ask(auth, Procedure::READDIRPLUS, &args)
}

/// The names and cookies of one page, and whether it is the last.
fn page(reply: &[u8]) -> (Vec<(String, u64)>, bool) {
    let Reply::Ok(ok) = decode::<ReaddirReply<'_>>(reply) else { panic!("{reply:?}") };
    let entries =
        ok.entries.iter().map(|entry| (String::from_utf8(entry.name.into()).unwrap(), entry.cookie));
    (entries.collect(), ok.eof)
}

fn refused(reply: &[u8], status: Status, dir_attributes: Option<Fattr>) {
    assert_eq!(decode::<ReaddirReply<'_>>(reply), Reply::Err(status, ReaddirFail { dir_attributes }));
}

fn populated(w: &World) -> Object {
    let dir = w.dir(&w.root(), "dir", 0o755);
    w.file(&dir, "file", 0o640, b"hello");
    w.dir(&dir, "sub", 0o700);
    w.special(&dir, "link", Special::Symlink(b"file"));
    dir
}

#[test]
fn readdir_lists_every_entry_with_its_file_id() {
    let mut w = World::new();
    let dir = populated(&w);
    let attributes = dir.post();
    let reply = readdir(&mut w, BOB, &dir, 0, 4096);
    let Reply::Ok(ok) = decode::<ReaddirReply<'_>>(&reply) else { panic!() };
    assert_eq!((ok.dir_attributes, ok.cookieverf, ok.eof), (attributes, [0; 8], true));
    let entries: Vec<Entry<'_>> = ok.entries.iter().collect();
    let mut expected = vec![(&b"."[..], dir.fattr().fileid), (b"..", w.root().fattr().fileid)];
    let others = ["file", "sub", "link"].map(|text| (text, w.find(&dir, text).fattr().fileid));
    expected.extend(others.iter().map(|(text, id)| (text.as_bytes(), *id)));
    assert_eq!(entries.iter().map(|entry| (entry.name, entry.fileid)).collect::<Vec<_>>(), expected);
    let cookies: BTreeSet<u64> = entries.iter().map(|entry| entry.cookie).collect();
    assert_eq!((cookies.len(), cookies.contains(&0)), (5, false));
}

#[test]
fn readdirplus_adds_the_results_of_lookup() {
    let mut w = World::new();
    let dir = populated(&w);
    let attributes = dir.post();
    let reply = readdirplus(&mut w, BOB, &dir, 0, 4096, 4096);
    let Reply::Ok(ok) = decode::<ReaddirplusReply<'_>>(&reply) else { panic!() };
    assert_eq!((ok.dir_attributes, ok.cookieverf, ok.eof), (attributes, [0; 8], true));
    let entries: Vec<EntryPlus<'_>> = ok.entries.iter().collect();
    assert_eq!(entries.len(), 5);
    assert_eq!((entries[0].name, entries[0].name_handle), (&b"."[..], Some(dir.fh())));
    assert_eq!(entries[0].name_attributes, attributes);
    assert_eq!((entries[1].name, entries[1].fileid), (&b".."[..], w.root().fattr().fileid));
    assert_eq!((entries[1].name_handle, entries[1].name_attributes), (None, None));
    for (entry, text) in entries[2..].iter().zip(["file", "sub", "link"]) {
        let object = w.find(&dir, text);
        assert_eq!((entry.name, entry.fileid), (text.as_bytes(), object.fattr().fileid));
        assert_eq!((entry.name_handle, entry.name_attributes), (Some(object.fh()), object.post()));
    }
}

#[test]
fn readdirplus_without_search_permission_returns_only_names() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o704);
    w.file(&dir, "file", 0o777, b"");
    let reply = readdirplus(&mut w, BOB, &dir, 0, 4096, 4096);
    let Reply::Ok(ok) = decode::<ReaddirplusReply<'_>>(&reply) else { panic!() };
    let entries: Vec<EntryPlus<'_>> = ok.entries.iter().collect();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|entry| entry.name_handle.is_none() && entry.name_attributes.is_none()));
}

#[test]
fn listing_errors_are_as_specified() {
    let mut w = World::new();
    let root = w.root();
    let closed = w.dir(&root, "closed", 0o711);
    let file = w.file(&root, "file", 0o777, b"");
    let gone = w.dir(&root, "gone", 0o777);
    root.node.remove_dir_unchecked(name("gone")).unwrap();
    for (dir, status, attributes) in [
        (&closed, Status::ACCES, closed.post()),
        (&file, Status::NOTDIR, file.post()),
        (&gone, Status::STALE, None),
    ] {
        refused(&readdir(&mut w, BOB, dir, 0, 4096), status, attributes);
        refused(&readdirplus(&mut w, BOB, dir, 0, 4096, 4096), status, attributes);
    }
}

#[test]
fn a_page_never_exceeds_its_limit() {
    let mut w = World::new();
    let dir = populated(&w);
    for number in 0..20 {
        w.file(&dir, &format!("{}-{number}", "n".repeat(number * 11)), 0o644, b"");
    }
    let all = page(&readdir(&mut w, BOB, &dir, 0, 1 << 20)).0;
    for limit in 0..1200 {
        for (plus, smallest) in [(false, 24), (true, 24 + 4 + Fattr::SIZE + 4 + 4 + 28)] {
            let reply = if plus {
                readdirplus(&mut w, BOB, &dir, 0, u32::MAX, limit)
            } else {
                readdir(&mut w, BOB, &dir, 0, limit)
            };
            let limit = usize::try_from(limit).unwrap();
            if limit < HEAD + 4 + smallest + DirListEnd::SIZE {
                refused(&reply, Status::TOOSMALL, dir.post());
                continue;
            }
            // The limit applies to the results without the status.
            assert!(reply.len() - 4 <= limit, "{} bytes for {limit}", reply.len() - 4);
            if !plus {
                let (names, eof) = page(&reply);
                assert_eq!(names, all[..names.len()], "{limit}");
                assert_eq!(eof, names.len() == all.len(), "{limit}");
                let next = all
                    .get(names.len())
                    .map_or(0, |(name, _)| 4 + 8 + 4 + name.len().next_multiple_of(4) + 8);
                assert!(eof || reply.len() - 4 + next > limit, "room for one more at {limit}");
            }
        }
    }
}

#[test]
fn a_limit_without_room_for_the_end_is_too_small() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o755);
    let last = page(&readdir(&mut w, BOB, &dir, 0, 4096)).0[1].1;
    let least = u32::try_from(HEAD + DirListEnd::SIZE).unwrap();
    assert_eq!(page(&readdir(&mut w, BOB, &dir, last, least)), (vec![], true));
    refused(&readdir(&mut w, BOB, &dir, last, least - 1), Status::TOOSMALL, dir.post());
    refused(&readdirplus(&mut w, BOB, &dir, last, 0, 0), Status::TOOSMALL, dir.post());
}

#[test]
fn dircount_limits_names_but_allows_at_least_one() {
    let mut w = World::new();
    let dir = populated(&w);
    for (dircount, expected) in [(0, 1), (1, 1), (25, 1), (50, 1), (51, 2), (79, 3), (u32::MAX, 5)] {
        let reply = readdirplus(&mut w, BOB, &dir, 0, dircount, 1 << 20);
        let Reply::Ok(ok) = decode::<ReaddirplusReply<'_>>(&reply) else { panic!() };
        assert_eq!((ok.entries.iter().count(), ok.eof), (expected, expected == 5), "dircount {dircount}");
    }
}

#[test]
fn a_listing_continues_from_every_cookie() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o755);
    // More entries than a backend reads at a time.
    for number in 0..150 {
        dir.node.create_unchecked(name(&format!("{number}")), &new_inode(0o644)).unwrap();
    }
    let (all, eof) = page(&readdir(&mut w, BOB, &dir, 0, 1 << 20));
    assert_eq!((all.len(), eof), (152, true));
    for (place, (_, cookie)) in all.iter().enumerate() {
        let (rest, eof) = page(&readdir(&mut w, BOB, &dir, *cookie, 1 << 20));
        assert_eq!((&rest[..], eof), (&all[place + 1..], true), "from entry {place}");
    }
    assert_eq!(page(&readdir(&mut w, BOB, &dir, u64::MAX, 4096)), (vec![], true), "past every entry");
}

/// Lists a directory in small pages and returns all names. `between` runs after each page.
fn walk(w: &mut World, dir: &Object, mut between: impl FnMut(&mut World, &[(String, u64)])) -> Vec<String> {
    let mut seen = Vec::new();
    let mut cookie = 0;
    loop {
        let (entries, eof) = page(&readdir(w, ALICE, dir, cookie, 300));
        cookie = entries.last().map_or(cookie, |(_, cookie)| *cookie);
        seen.extend(entries.iter().map(|(name, _)| name.clone()));
        if eof {
            return seen;
        }
        assert!(!entries.is_empty(), "a page without entries that is not the last");
        between(w, &entries);
    }
}

#[test]
fn unchanged_entries_are_listed_once_while_others_change() {
    let mut w = World::new();
    let dir = w.dir(&w.root(), "dir", 0o777);
    let stays: BTreeSet<String> = (0..60).map(|number| format!("stays-{number}")).collect();
    for number in 0..60 {
        for kind in ["stays", "goes", "moves"] {
            dir.node.create_unchecked(name(&format!("{kind}-{number}")), &new_inode(0o644)).unwrap();
        }
    }
    let mut turn = 0;
    let seen = walk(&mut w, &dir, |w, entries| {
        // Also entries that were just listed, including the last one of the page.
        for (text, _) in entries.iter().filter(|(text, _)| text.starts_with("goes")) {
            dir.node.remove_unchecked(name(text)).unwrap();
        }
        let far = format!("goes-{}", 59 - turn);
        let _ = dir.node.remove_unchecked(name(&far));
        let _ = dir.node.rename_unchecked(
            name(&format!("moves-{turn}")),
            &dir.node,
            name(&format!("moved-{turn}")),
        );
        dir.node.create_unchecked(name(&format!("new-{turn}")), &new_inode(0o644)).unwrap();
        w.clock.advance_ms(10);
        turn += 1;
    });
    assert!(turn > 5, "{turn} pages");
    let unique: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(unique.len(), seen.len(), "nothing twice");
    assert!(unique.is_superset(&stays));
    assert!(unique.contains(".") && unique.contains(".."));
}

#[test]
fn any_cookie_verifier_is_accepted() {
    let mut w = World::new();
    let dir = populated(&w);
    let first = page(&readdir(&mut w, BOB, &dir, 0, 4096)).0;
    let args = ReaddirArgs { dir: dir.fh(), cookie: first[0].1, cookieverf: [9; 8], count: 4096 };
    let reply = w.ask(BOB, Procedure::READDIR, &args);
    assert_eq!(page(&reply).0, first[1..]);
    let plus =
        ReaddirplusArgs { dir: dir.fh(), cookie: 0, cookieverf: [9; 8], dircount: 4096, maxcount: 4096 };
    let reply = w.ask(BOB, Procedure::READDIRPLUS, &plus);
    assert!(matches!(decode::<ReaddirplusReply<'_>>(&reply), Reply::Ok(_)));
}
