use crate::testing::v4::{Client, at, put};
use crate::testing::{TestEnv, export, rule, words};
use nfs_wire::rpc::AuthFlavor;
use nfs_wire::v4::{
    Argument, Bitmap, CreateArgs, CreateOk, CreateType, Entry, Fattr, GetattrArgs, LinkArgs, LookupArgs,
    OpReply, ReaddirArgs, ReaddirOk, RemoveArgs, RenameArgs, Reply, Secinfo, SecinfoArgs, SecinfoOk,
    SecinfoStyle, SpecData, Status, attr,
};
use std::sync::Arc;
use vfs::{Blocking, Caller, Disposition, PendingSync, SetAttrs};

/// `/e` for all clients with directories `a` and `b` and a file `f`; below it `/e/inner` and, without a directory on
/// the way, `/e/gap/deep`; `/x/y` for all clients; `/lan/secret` for others.
fn client(minor: u32) -> Client {
    let exports = [
        export("/e", 1, vec![rule(&[])]),
        export("/e/inner", 2, vec![rule(&[])]),
        export("/e/gap/deep", 3, vec![rule(&[])]),
        export("/x/y", 4, vec![rule(&[])]),
        export("/lan/secret", 5, vec![rule(&["192.0.2.0/24"])]),
    ];
    let env = TestEnv::new(exports, vec![]);
    let root = Arc::clone(&env.service.namespace.load().exports()[0]).root();
    let (caller, mut pending, set) = (Caller::new(0, 0, []), PendingSync::default(), SetAttrs::default());
    for name in [&b"a"[..], b"b", b"inner"] {
        root.make_dir(&caller, name, &set, &mut pending).unwrap();
    }
    root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
    Client::new(env, minor)
}

const E: &[u8] = b"e";

fn lookup(objname: &[u8]) -> Argument<'_> {
    Argument::Lookup(LookupArgs { objname })
}

fn create<'a>(objname: &'a [u8], objtype: CreateType<'a>) -> Argument<'a> {
    Argument::Create(CreateArgs { objtype, objname, createattrs: Fattr::default() })
}

fn remove(target: &[u8]) -> Argument<'_> {
    Argument::Remove(RemoveArgs { target })
}

fn link(newname: &[u8]) -> Argument<'_> {
    Argument::Link(LinkArgs { newname })
}

fn number(client: &Client, path: &[&[u8]], number: u32) -> Vec<u8> {
    client.attrs(path, &[number]).1
}

#[test]
fn a_path_leads_over_the_top_into_exports() {
    let client = client(0);
    let fsid = |path: &[&[u8]]| number(&client, path, attr::FSID);
    assert_eq!(fsid(&[b"x"]), words(&[0; 4]));
    assert_eq!(fsid(&[b"x", b"y"]), words(&[0, 4, 0, 0]));
    assert_eq!(fsid(&[E, b"a"]), words(&[0, 1, 0, 0]));
    assert_eq!(fsid(&[E, b"inner"]), words(&[0, 2, 0, 0]), "an export covers a directory of another");
    assert_eq!(fsid(&[E, b"gap"]), words(&[0; 4]), "what no volume has leads on");
    assert_eq!(fsid(&[E, b"gap", b"deep"]), words(&[0, 3, 0, 0]));
    let covered = number(&client, &[E, b"inner"], attr::MOUNTED_ON_FILEID);
    assert_eq!(covered, client.env.service.signer.number("pseudo:/e/inner").to_be_bytes());
    for path in [&[&b"lan"[..]][..], &[b"y"], &[b"\xff"], &[E, b"gap", b"f"], &[E, b"absent"]] {
        assert_eq!(client.status(&at(path, [])), Status::NOENT, "{path:?}");
    }
}

#[test]
fn exports_that_deny_a_client_are_invisible() {
    let mut client = client(0);
    let names =
        |client: &Client| listed(client, &[], 0, 4096).unwrap().into_iter().map(|(name, _)| name).collect();
    let sorted = |mut names: Vec<Vec<u8>>| {
        names.sort();
        names
    };
    assert_eq!(sorted(names(&client)), [b"e".to_vec(), b"x".to_vec()]);
    client.env.peer = "192.0.2.1:700".parse().unwrap();
    assert_eq!(sorted(names(&client)), [b"e".to_vec(), b"lan".to_vec(), b"x".to_vec()]);
    let lan = client.handle(&[b"lan"]);
    assert_eq!(client.status(&[put(&lan), lookup(b"secret")]), Status::OK);
    let other = number(&client, &[], attr::CHANGE);
    client.env.peer = "10.1.0.9:700".parse().unwrap();
    assert_eq!(client.status(&[put(&lan)]), Status::STALE);
    assert_ne!(number(&client, &[], attr::CHANGE), other, "another view is another state");
}

#[test]
fn lookupp_leads_back() {
    let client = client(1);
    let up = |path: &[&[u8]]| {
        let results = client.ask(&at(path, [Argument::Lookupp, Argument::Getfh]));
        match results.all().last() {
            Some(OpReply::Getfh(Reply::Ok(ok))) => Ok(ok.object.0.to_vec()),
            _ => Err(results.status()),
        }
    };
    for path in
        [&[&b"x"[..], b"y"][..], &[E, b"a"], &[E, b"inner"], &[E, b"gap", b"deep"], &[E, b"gap"], &[E]]
    {
        assert_eq!(up(path), Ok(client.handle(&path[..path.len() - 1])), "{path:?}");
    }
    assert_eq!(up(&[]), Err(Status::NOENT));
    assert_eq!(up(&[E, b"f"]), Err(Status::NOTDIR));
}

#[test]
fn names_are_checked_alike_everywhere() {
    let client = client(1);
    let long = [b'x'; 256];
    let bad: &[(&[u8], Status)] = &[
        (b"", Status::INVAL),
        (b".", Status::BADNAME),
        (b"..", Status::BADNAME),
        (b"a/b", Status::BADCHAR),
        (b"a\0", Status::BADCHAR),
        (&long, Status::NAMETOOLONG),
    ];
    for &(name, status) in bad {
        let rename = |oldname, newname| Argument::Rename(RenameArgs { oldname, newname });
        for operation in [
            lookup(name),
            create(name, CreateType::Directory),
            remove(name),
            link(name),
            rename(name, b"z"),
            rename(b"a", name),
            Argument::Secinfo(SecinfoArgs { name }),
        ] {
            let saved: &[&[u8]] = if matches!(operation, Argument::Link(_)) { &[E, b"f"] } else { &[E] };
            let mut requested = at(saved, [Argument::Savefh]);
            requested.extend(at(&[E], [operation]));
            assert_eq!(client.status(&requested), status, "{:?}", requested.last());
        }
    }
}

#[test]
fn create_makes_all_but_files() {
    let client = client(0);
    let device = SpecData { specdata1: 1, specdata2: 3 };
    let kinds = [
        (CreateType::Directory, 2u32),
        (CreateType::BlockDevice(device), 3),
        (CreateType::CharDevice(device), 4),
        (CreateType::Symlink(b"target"), 5),
        (CreateType::Socket, 6),
        (CreateType::Fifo, 7),
    ];
    for (objtype, number) in kinds {
        let before = self::number(&client, &[E], attr::CHANGE);
        let fattr = Fattr { attrmask: Bitmap::of(&[attr::TYPE]), attr_vals: &[] };
        let args = CreateArgs { objtype, objname: b"new", createattrs: fattr };
        assert_eq!(client.status(&at(&[E], [Argument::Create(args)])), Status::INVAL, "a type is not set");
        let request = GetattrArgs { attr_request: Bitmap::of(&[attr::TYPE]) };
        let results = client.ask(&at(&[E], [create(b"new", objtype), Argument::Getattr(request)]));
        let all = results.all();
        let OpReply::Create(Reply::Ok(CreateOk { cinfo, attrset })) = all[2] else { panic!("{all:?}") };
        let after = self::number(&client, &[E], attr::CHANGE);
        assert_eq!((cinfo.atomic, &cinfo.before.to_be_bytes()[..], attrset), (true, &*before, Bitmap::EMPTY));
        assert_eq!(cinfo.after.to_be_bytes(), *after);
        let OpReply::Getattr(Reply::Ok(ok)) = &all[3] else { panic!("{all:?}") };
        assert_eq!(ok.obj_attributes.attr_vals, words(&[number]), "it is the current object");
        assert_eq!(client.status(&at(&[E], [create(b"new", objtype)])), Status::EXIST);
        assert_eq!(client.status(&at(&[E], [remove(b"new")])), Status::OK);
    }
    for other in [1, 8, 99] {
        assert_eq!(client.status(&at(&[E], [create(b"new", CreateType::Other(other))])), Status::BADTYPE);
    }
    assert_eq!(client.status(&at(&[E, b"f"], [create(b"new", CreateType::Fifo)])), Status::NOTDIR);
    assert_eq!(client.status(&at(&[], [create(b"new", CreateType::Directory)])), Status::ROFS);
}

#[test]
fn create_tells_which_wishes_came_true() {
    let mut client = client(0);
    let numbers = [attr::MODE, attr::OWNER, attr::OWNER_GROUP];
    let values = [words(&[0o777, 1]), b"7\0\0\0".to_vec(), words(&[1]), b"8\0\0\0".to_vec()].concat();
    let fattr = Fattr { attrmask: Bitmap::of(&numbers), attr_vals: &values };
    let made = |client: &Client, objname: &[u8], objtype| {
        let args = CreateArgs { objtype, objname, createattrs: fattr };
        let path = if objname == b"top" { vec![E] } else { vec![E, b"top"] };
        match client.ask(&at(&path, [Argument::Create(args)])).all().last() {
            Some(OpReply::Create(Reply::Ok(ok))) => ok.attrset.iter().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(made(&client, b"top", CreateType::Directory), numbers);
    client.env.user = (7, 9);
    assert_eq!(made(&client, b"own", CreateType::Directory), [attr::MODE, attr::OWNER], "not in that group");
    assert_eq!(made(&client, b"link", CreateType::Symlink(b"t")), [attr::OWNER], "links have no mode");
}

#[test]
fn remove_takes_files_and_directories() {
    let client = client(1);
    let on_e = |operation| client.status(&at(&[E], [operation]));
    assert_eq!(client.status(&at(&[E, b"a"], [create(b"in", CreateType::Fifo)])), Status::OK);
    assert_eq!(on_e(remove(b"a")), Status::NOTEMPTY);
    let results = client.ask(&at(&[E], [remove(b"f")]));
    let all = results.all();
    let Some(OpReply::Remove(Reply::Ok(ok))) = all.last() else { panic!("{all:?}") };
    assert!(ok.cinfo.atomic && ok.cinfo.before < ok.cinfo.after);
    assert_eq!((on_e(remove(b"b")), on_e(remove(b"b"))), (Status::OK, Status::NOENT));
    assert_eq!(client.status(&at(&[], [remove(b"e")])), Status::ROFS);
    assert_eq!(client.status(&[remove(b"e")]), Status::NOFILEHANDLE);
}

#[test]
fn rename_and_link_are_from_the_saved_to_the_current() {
    let client = client(1);
    let (e, a, f) = (client.handle(&[E]), client.handle(&[E, b"a"]), client.handle(&[E, b"f"]));
    let inner = client.handle(&[E, b"inner"]);
    let rename = |from: &[u8], oldname, to: &[u8], newname| {
        client.status(&[
            put(from),
            Argument::Savefh,
            put(to),
            Argument::Rename(RenameArgs { oldname, newname }),
        ])
    };
    let link =
        |target: &[u8], to: &[u8], name| client.status(&[put(target), Argument::Savefh, put(to), link(name)]);
    assert_eq!(link(&f, &a, b"g"), Status::OK);
    assert_eq!(client.handle(&[E, b"a", b"g"]), f);
    assert_eq!(link(&f, &a, b"g"), Status::EXIST);
    assert_eq!(link(&a, &e, b"g"), Status::ISDIR);
    assert_eq!(link(&f, &inner, b"g"), Status::XDEV);
    assert_eq!(rename(&a, b"g", &e, b"h"), Status::OK);
    assert_eq!(client.handle(&[E, b"h"]), f);
    assert_eq!(rename(&e, b"h", &inner, b"h"), Status::XDEV);
    assert_eq!(rename(&e, b"h", &e, b"a"), Status::EXIST, "a file takes no directory's place");
    assert_eq!(rename(&e, b"b", &e, b"h"), Status::EXIST, "nor a directory a file's");
    assert_eq!(rename(&f, b"h", &e, b"z"), Status::NOTDIR);
    assert_eq!(rename(&e, b"h", &f, b"z"), Status::NOTDIR);
    let rename = Argument::Rename(RenameArgs { oldname: b"h", newname: b"i" });
    assert_eq!(client.status(&[put(&e), rename.clone()]), Status::NOFILEHANDLE);
    assert_eq!(client.status(&[Argument::Putrootfh, Argument::Savefh, put(&e), rename]), Status::ROFS);
}

#[test]
fn links_are_read_and_not_walked() {
    for (minor, not_one) in [(0, Status::INVAL), (1, Status::WRONG_TYPE)] {
        let client = client(minor);
        assert_eq!(client.status(&at(&[E], [create(b"l", CreateType::Symlink(b"a/b"))])), Status::OK);
        let results = client.ask(&at(&[E, b"l"], [Argument::Readlink]));
        let all = results.all();
        let Some(OpReply::Readlink(Reply::Ok(ok))) = all.last() else { panic!("{all:?}") };
        assert_eq!(ok.link, b"a/b");
        assert_eq!(client.status(&at(&[E, b"l"], [lookup(b"x")])), Status::SYMLINK);
        assert_eq!(client.status(&at(&[E, b"f"], [lookup(b"x")])), Status::NOTDIR);
        for path in [&[][..], &[E], &[E, b"f"]] {
            assert_eq!(client.status(&at(path, [Argument::Readlink])), not_one);
        }
    }
}

#[test]
fn secinfo_takes_the_current_filehandle_since_4_1() {
    for minor in [0, 1] {
        let client = client(minor);
        let results = client.ask(&at(&[], [Argument::Secinfo(SecinfoArgs { name: E }), Argument::Getfh]));
        let all = results.all();
        let flavors = SecinfoOk(vec![Secinfo::Flavor(AuthFlavor::SYS), Secinfo::Flavor(AuthFlavor::NONE)]);
        assert_eq!(all[1], OpReply::Secinfo(Reply::Ok(flavors)));
        let expected = if minor == 0 { Status::OK } else { Status::NOFILEHANDLE };
        assert_eq!(results.status(), expected);
        let absent = Argument::Secinfo(SecinfoArgs { name: b"absent" });
        assert_eq!(client.status(&at(&[E], [absent])), Status::NOENT);
    }
    let client = client(1);
    let no_name = |path: &[&'static [u8]], style| client.status(&at(path, [Argument::SecinfoNoName(style)]));
    assert_eq!(no_name(&[], SecinfoStyle::CurrentFh), Status::OK);
    assert_eq!(no_name(&[], SecinfoStyle::Parent), Status::NOENT);
    assert_eq!(no_name(&[E], SecinfoStyle::Parent), Status::OK);
}

#[test]
fn saved_and_restored() {
    for (minor, nothing) in [(0, Status::RESTOREFH), (1, Status::NOFILEHANDLE)] {
        let client = client(minor);
        assert_eq!(client.status(&at(&[], [Argument::Restorefh])), nothing);
        assert_eq!(client.status(&[Argument::Savefh]), Status::NOFILEHANDLE);
        let e = client.handle(&[E]);
        let results =
            client.ask(&at(&[E], [Argument::Savefh, lookup(b"a"), Argument::Restorefh, Argument::Getfh]));
        let all = results.all();
        let Some(OpReply::Getfh(Reply::Ok(ok))) = all.last() else { panic!("{all:?}") };
        assert_eq!(ok.object.0, e);
    }
}

/// An entry with its attributes: file system, file id and the covered file id.
type Listed = (Vec<u8>, Vec<u8>);

fn listed(
    client: &Client,
    path: &[&'static [u8]],
    dircount: u32,
    maxcount: u32,
) -> Result<Vec<Listed>, Status> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let attr_request = Bitmap::of(&[attr::FSID, attr::FILEID, attr::MOUNTED_ON_FILEID]);
        let args = ReaddirArgs { cookie, cookieverf: [0; 8], dircount, maxcount, attr_request };
        let results = client.ask(&at(path, [Argument::Readdir(args)]));
        let replies = results.all();
        let Some(OpReply::Readdir(Reply::Ok(ReaddirOk { entries, eof, .. }))) = replies.last() else {
            return Err(results.status());
        };
        for Entry { cookie: at, name, attrs } in entries.iter() {
            all.push((name.to_vec(), attrs.attr_vals.to_vec()));
            cookie = at;
        }
        if *eof {
            return Ok(all);
        }
    }
}

#[test]
fn readdir_lists_each_entry_once() {
    let client = client(1);
    let all = listed(&client, &[E], 0, 1 << 16).unwrap();
    let names: Vec<&[u8]> = all.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, [&b"a"[..], b"b", b"inner", b"f"], "neither `.` nor `..`");
    for (name, values) in &all {
        let path = [E, name];
        let numbers = [attr::FSID, attr::FILEID, attr::MOUNTED_ON_FILEID];
        assert_eq!(client.attrs(&path, &numbers).1, *values, "{}", name.escape_ascii());
    }
    for (dircount, maxcount) in [(0, 120), (1, 1 << 16), (40, 4096)] {
        assert_eq!(listed(&client, &[E], dircount, maxcount), Ok(all.clone()), "{dircount} {maxcount}");
    }
    let top = listed(&client, &[], 0, 1 << 16).unwrap();
    assert_eq!(listed(&client, &[], 1, 1 << 16), Ok(top));
}

#[test]
fn readdir_says_why_not() {
    let client = client(0);
    let readdir = |path: &[&'static [u8]], cookie, maxcount, numbers: &[u32]| {
        let attr_request = Bitmap::of(numbers);
        let args = ReaddirArgs { cookie, cookieverf: [0; 8], dircount: 0, maxcount, attr_request };
        client.status(&at(path, [Argument::Readdir(args)]))
    };
    for (path, empty) in [(&[E, b"a"][..], true), (&[E], false), (&[], false)] {
        assert_eq!(readdir(path, 0, 15, &[]), Status::TOOSMALL);
        assert_eq!(readdir(path, 0, 16, &[]), if empty { Status::OK } else { Status::TOOSMALL });
        assert_eq!(readdir(path, 1, 4096, &[]), Status::BAD_COOKIE);
        assert_eq!(readdir(path, 2, 4096, &[]), Status::BAD_COOKIE);
        assert_eq!(readdir(path, 0, 4096, &[attr::TIME_MODIFY_SET]), Status::INVAL);
    }
    assert_eq!(readdir(&[E, b"f"], 0, 4096, &[]), Status::NOTDIR);
}

#[test]
fn inaccessible_entries_are_listed_with_their_error() {
    let mut client = client(0);
    let root = Arc::clone(&client.env.service.namespace.load().exports()[0]).root();
    let mode = SetAttrs { mode: Some(0o744), ..SetAttrs::default() };
    root.set_attrs(&Caller::new(0, 0, []), &mode, None, &mut PendingSync::default()).unwrap();
    let entries = |client: &Client, numbers: &[u32]| {
        let attr_request = Bitmap::of(numbers);
        let args = ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount: 4096, attr_request };
        let results = client.ask(&at(&[E], [Argument::Readdir(args)]));
        match results.all().last() {
            Some(OpReply::Readdir(Reply::Ok(ok))) => ok
                .entries
                .iter()
                .map(|entry| (entry.attrs.attrmask, entry.attrs.attr_vals.to_vec()))
                .next()
                .unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let requested = [attr::TYPE, attr::RDATTR_ERROR, attr::MOUNTED_ON_FILEID];
    let (_, known) = entries(&client, &requested);
    assert_eq!(known[..8], words(&[2, 0]), "a directory, and no error");
    client.env.user = (7, 7);
    let (mask, values) = entries(&client, &requested);
    assert_eq!(mask, Bitmap::of(&[attr::RDATTR_ERROR, attr::MOUNTED_ON_FILEID]));
    assert_eq!(values, [words(&[Status::ACCESS.0]), known[8..].to_vec()].concat());
    let light = [attr::RDATTR_ERROR, attr::MOUNTED_ON_FILEID];
    assert_eq!(entries(&client, &light).1, [words(&[0]), known[8..].to_vec()].concat(), "no look is needed");
}

#[test]
fn a_listing_begins_with_a_verifier_of_zeros() {
    let client = client(0);
    let args = ReaddirArgs {
        cookie: 0,
        cookieverf: [9; 8],
        dircount: 0,
        maxcount: 4096,
        attr_request: Bitmap::EMPTY,
    };
    let results = client.ask(&at(&[E, b"a"], [Argument::Readdir(args)]));
    let all = results.all();
    let Some(OpReply::Readdir(Reply::Ok(ok))) = all.last() else { panic!("{all:?}") };
    assert_eq!((ok.cookieverf, ok.eof, ok.entries.iter().count()), ([0; 8], true, 0));
}

#[test]
fn blocking_operations_resume_where_they_may_block() {
    for minor in [0, 1] {
        let mut client = client(minor);
        client.blocking = Blocking::Never;
        let getattr = || Argument::Getattr(GetattrArgs { attr_request: Bitmap::of(&[attr::FILEID]) });
        assert!(!client.ask(&at(&[E, b"a"], [getattr()])).waited, "all of it is in memory");
        let capacity = Argument::Getattr(GetattrArgs { attr_request: Bitmap::of(&[attr::SPACE_FREE]) });
        assert!(client.ask(&at(&[E], [capacity])).waited, "storage is asked for room");
        let results =
            client.ask(&at(&[E], [Argument::Savefh, create(b"n", CreateType::Directory), getattr()]));
        assert!(results.waited);
        assert_eq!(results.status(), Status::OK, "it is made once");
        let all = results.all();
        let Some(OpReply::Getattr(Reply::Ok(ok))) = all.last() else { panic!("{all:?}") };
        assert_eq!(ok.obj_attributes.attr_vals, number(&client, &[E, b"n"], attr::FILEID));
        for operation in [link(b"m"), remove(b"n"), Argument::Lookupp, Argument::Readlink] {
            assert!(
                client.ask(&at(&[E, b"a"], [Argument::Savefh, operation.clone()])).waited,
                "{operation:?}"
            );
        }
    }
}
