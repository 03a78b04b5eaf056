use super::*;
use crate::handle::HandleSigner;
use crate::testing::v4::{Client, at, opening};
use crate::testing::{Desk, NOW, export, rule, words};
use nfs_wire::v4::attr::{ModeUmask, SetTime};
use nfs_wire::v4::{
    Argument, CreateArgs, CreateType, GetattrOk, NfsTime, Op, OpReply, OpenClaim, ReaddirArgs,
    ReclaimCompleteArgs, Reply, ShareAccess, Stateid,
};
use std::sync::Arc;
use vfs::{Caller, Disposition, Export, ExportId, FileKey, PendingSync, SetAttrs, ViewId};

/// `/e` with a file `f` of user 7 and group 100, mode 0640, and five bytes.
fn client(minor: u32) -> Client {
    let desk = Desk::new([export("/e", 1, vec![rule(&[])])], vec![]);
    let root = served(&desk).root();
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let set = SetAttrs { mode: Some(0o640), uid: Some(7), gid: Some(100), ..SetAttrs::default() };
    let made = root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
    let opened = made.file.authorize_write(&caller).unwrap();
    opened.write(0, b"bytes", vfs::Stability::Unstable, &mut pending).unwrap();
    Client::new(desk, minor)
}

fn served(desk: &Desk) -> Arc<Export> {
    Arc::clone(&desk.service.namespace.load().exports()[0])
}

/// Attributes of `f`, read past the protocol.
fn attrs_of_f(client: &Client) -> vfs::Attrs {
    let root = served(&client.desk).root();
    let dir = root.open_dir(&Caller::new(0, 0, []), vfs::Blocking::Allowed).unwrap();
    dir.lookup(b"f", vfs::Blocking::Allowed).unwrap().attrs
}

const F: &[&[u8]] = &[b"e", b"f"];

fn setattr<'a>(numbers: &[u32], attr_vals: &'a [u8]) -> Argument<'a> {
    let obj_attributes = Fattr { attrmask: Bitmap::of(numbers), attr_vals };
    Argument::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, obj_attributes })
}

fn set(client: &Client, numbers: &[u32], values: &[u8]) -> Status {
    let results = client.ask(&at(F, [setattr(numbers, values)]));
    let all = results.all();
    let Some(OpReply::Setattr(reply)) = all.last() else { panic!("{all:?}") };
    let expected = if reply.status == Status::OK { Bitmap::of(numbers) } else { Bitmap::EMPTY };
    assert_eq!(reply.attrsset, expected, "{:?}", reply.status);
    reply.status
}

#[test]
fn attributes_of_a_file_byte_by_byte() {
    let client = client(0);
    let now = attrs_of_f(&client);
    let (change, file_id) = (now.change.to_be_bytes(), now.file_id.to_be_bytes());
    let time = words(&[0, 1_000_000_000, 0]);
    assert_eq!(NOW.seconds, 1_000_000_000);
    let expected = [
        (attr::TYPE, words(&[1])),
        (attr::CHANGE, change.to_vec()),
        (attr::SIZE, words(&[0, 5])),
        (attr::FSID, words(&[0, 1, 0, 0])),
        (attr::LEASE_TIME, words(&[30])),
        (attr::FILEID, file_id.to_vec()),
        (attr::MAXREAD, words(&[0, 1 << 20])),
        (attr::MODE, words(&[0o640])),
        (attr::NUMLINKS, words(&[1])),
        (attr::OWNER, [words(&[1]), b"7\0\0\0".to_vec()].concat()),
        (attr::OWNER_GROUP, [words(&[3]), b"100\0".to_vec()].concat()),
        (attr::RAWDEV, words(&[0, 0])),
        (attr::SPACE_USED, now.used.to_be_bytes().to_vec()),
        (attr::TIME_ACCESS, time.clone()),
        (attr::TIME_DELTA, words(&[0, 0, 1])),
        (attr::TIME_METADATA, time.clone()),
        (attr::TIME_MODIFY, time),
        (attr::MOUNTED_ON_FILEID, file_id.to_vec()),
    ];
    let numbers = expected.each_ref().map(|(number, _)| *number);
    let values: Vec<u8> = expected.into_iter().flat_map(|(_, value)| value).collect();
    assert_eq!(client.attrs(F, &numbers), (Bitmap::of(&numbers), values));
}

#[test]
fn what_is_not_there_is_not_given() {
    let client = client(2);
    let unknown = [attr::SIZE, attr::MIMETYPE, attr::SEC_LABEL, 127];
    assert_eq!(client.attrs(F, &unknown), (Bitmap::of(&[attr::SIZE]), words(&[0, 5])));
    assert_eq!(client.attrs(F, &[attr::RDATTR_ERROR]), (Bitmap::EMPTY, vec![]), "of listings alone");
    for write_only in [attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET, attr::MODE_UMASK] {
        let request = GetattrArgs { attr_request: Bitmap::of(&[attr::SIZE, write_only]) };
        assert_eq!(client.status(&at(F, [Argument::Getattr(request)])), Status::INVAL, "{write_only}");
    }
}

#[test]
fn numbers_that_nobody_knows_are_not_supported() {
    let client = client(0);
    let beyond = |first: u32| [words(&[33, first]), words(&[0; 31]), words(&[1])].concat();
    let root = words(&[Op::PUTROOTFH.0]);
    let getattr = [root.clone(), words(&[Op::GETATTR.0]), beyond(1 << attr::TYPE)].concat();
    let results = client.ask_encoded(2, &getattr);
    let given = Fattr { attrmask: Bitmap::of(&[attr::TYPE]), attr_vals: &words(&[2]) };
    assert_eq!(results.all()[1], OpReply::Getattr(Reply::Ok(GetattrOk { obj_attributes: given })));
    let verify = [root, words(&[Op::VERIFY.0]), beyond(1 << attr::TYPE), words(&[8, 2, 9])].concat();
    assert_eq!(client.ask_encoded(2, &verify).status(), Status::ATTRNOTSUPP, "RFC 8881 §18.31.3");
}

#[test]
fn every_attribute_of_every_minor_version_is_encoded() {
    for minor in 0..=2 {
        let client = client(minor);
        for path in [&[], &F[..1], F] {
            let (_, bytes) = client.attrs(path, &[attr::SUPPORTED_ATTRS]);
            let supported = <Bitmap as xdr::Decode>::decode(&mut xdr::Reader::new(&bytes)).unwrap();
            let readable = supported.without(&Bitmap::of(&[
                attr::RDATTR_ERROR,
                attr::TIME_ACCESS_SET,
                attr::TIME_MODIFY_SET,
                attr::MODE_UMASK,
            ]));
            let numbers: Vec<u32> = readable.iter().collect();
            let (given, values) = client.attrs(path, &numbers);
            assert_eq!(given, readable, "{minor} {path:?}");
            let alone: Vec<u8> = numbers.iter().flat_map(|&number| client.attrs(path, &[number]).1).collect();
            assert_eq!(alone, values, "{minor} {path:?}: values follow each other by number");
            let latest = numbers.last().copied();
            let expected = [attr::MOUNTED_ON_FILEID, attr::SUPPATTR_EXCLCREAT, attr::OPEN_ARGUMENTS];
            assert_eq!(latest, Some(expected[minor as usize]), "each minor version has its own");
        }
    }
}

#[test]
fn a_root_tells_what_it_covers() {
    let client = client(1);
    let number = |path: &[&[u8]], number| client.attrs(path, &[number]).1;
    let covered = client.desk.service.signer.number("pseudo:/e").to_be_bytes();
    assert_eq!(number(&[b"e"], attr::MOUNTED_ON_FILEID), covered);
    assert_ne!(number(&[b"e"], attr::FILEID), covered);
    assert_eq!(number(F, attr::MOUNTED_ON_FILEID), number(F, attr::FILEID));
    let top = number(&[], attr::FILEID);
    assert_eq!(number(&[], attr::MOUNTED_ON_FILEID), top);
    assert_ne!(top, [0; 8], "a file id of 0 is none to some clients");
    assert_eq!(number(&[], attr::FSID), words(&[0; 4]));
    assert_eq!(number(&[b"e"], attr::FSID), words(&[0, 1, 0, 0]));
}

#[test]
fn setattr_sets_what_it_says() {
    let client = client(1);
    let client_time = |seconds: i64, nseconds| SetTime::ClientTime(NfsTime { seconds, nseconds }).to_bytes();
    assert_eq!(set(&client, &[attr::SIZE, attr::MODE], &words(&[0, 3, 0o4755])), Status::OK);
    let owner = [words(&[9]), b"8@example\0\0\0".to_vec(), words(&[1]), b"9\0\0\0".to_vec()].concat();
    assert_eq!(set(&client, &[attr::OWNER, attr::OWNER_GROUP], &owner), Status::OK);
    let times = [client_time(-5, 7), SetTime::ServerTime.to_bytes()].concat();
    assert_eq!(set(&client, &[attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET], &times), Status::OK);
    let now = attrs_of_f(&client);
    assert_eq!((now.size, now.uid, now.gid), (3, 8, 9));
    assert_eq!((now.accessed, now.modified), (vfs::Time { seconds: -5, nanos: 7 }, NOW));
}

#[test]
fn lists_are_set_and_shown_as_modes() {
    let client = client(2);
    let entry = |rights: u32, flag: u32, who: &[u8]| [words(&[0, flag, rights]), (&who).to_bytes()].concat();
    let list =
        [words(&[3]), entry(0x27, 0, b"OWNER@"), entry(0x21, 0x40, b"GROUP@"), entry(1, 0, b"EVERYONE@")]
            .concat();
    assert_eq!(set(&client, &[attr::MODE], &words(&[0o4000])), Status::OK);
    assert_eq!(set(&client, &[attr::ACL], &list), Status::OK);
    assert_eq!(attrs_of_f(&client).mode, 0o4754, "set-id bits are no list's");
    assert_eq!(
        set(&client, &[attr::ACL, attr::MODE], &[&words(&[0])[..], &words(&[0o2777])].concat()),
        Status::OK
    );
    assert_eq!(attrs_of_f(&client).mode, 0o2000, "of both the list counts");
    assert_eq!(set(&client, &[attr::DACL], &[&words(&[0])[..], &list].concat()), Status::OK);
    assert_eq!(attrs_of_f(&client).mode, 0o2754);
    // What is read can be set again, and changes nothing.
    for number in [attr::ACL, attr::DACL] {
        let (_, shown) = client.attrs(F, &[number]);
        assert_eq!(set(&client, &[number], &shown), Status::OK);
        assert_eq!((attrs_of_f(&client).mode, client.attrs(F, &[number]).1), (0o2754, shown));
    }
}

#[test]
fn setattr_says_why_not() {
    let client = client(2);
    let text = |text: &[u8]| (&text).to_bytes();
    let time = SetTime::ClientTime(NfsTime { seconds: 0, nseconds: 1_000_000_000 }).to_bytes();
    let umask = ModeUmask { mode: 0o666, umask: 0o22 }.to_bytes();
    let cases: &[(&[u32], Vec<u8>, Status)] = &[
        (&[attr::MIMETYPE], text(b"x"), Status::ATTRNOTSUPP),
        (&[attr::ACL], [words(&[1, 0, 0, 1]), text(b"alice@example.org")].concat(), Status::ATTRNOTSUPP),
        (&[attr::ACL], words(&[1, 0, 0]), Status::BADXDR),
        (&[attr::DACL], words(&[1, 0]), Status::ATTRNOTSUPP),
        (&[attr::ACL, attr::DACL], words(&[0, 0, 0]), Status::INVAL),
        (&[attr::ACLSUPPORT], words(&[3]), Status::INVAL),
        (&[attr::FILEID], words(&[0, 1]), Status::INVAL),
        (&[attr::MODE_UMASK], umask, Status::INVAL),
        (&[attr::SIZE], words(&[0]), Status::BADXDR),
        (&[attr::SIZE], words(&[0, 1, 2]), Status::BADXDR),
        (&[], words(&[0]), Status::BADXDR),
        (&[attr::TIME_MODIFY_SET], words(&[7]), Status::BADXDR),
        (&[attr::TIME_MODIFY_SET], time, Status::INVAL),
        (&[attr::OWNER], text(b""), Status::INVAL),
        (&[attr::OWNER], text(b"\xff"), Status::INVAL),
        (&[attr::OWNER], text(b"root@example"), Status::BADOWNER),
        (&[attr::OWNER], text(b"+1"), Status::BADOWNER),
        (&[attr::OWNER], text(b"4294967296"), Status::BADOWNER),
        (&[attr::OWNER], text(b"4294967295"), Status::INVAL),
        (&[attr::OWNER_GROUP], text(b"@x"), Status::BADOWNER),
        (&[attr::SIZE], words(&[0x8000_0000, 0]), Status::FBIG),
    ];
    let before = attrs_of_f(&client);
    for (numbers, values, status) in cases {
        assert_eq!(set(&client, numbers, values), *status, "{numbers:?} {values:?}");
    }
    assert_eq!(attrs_of_f(&client), before, "and nothing was set");
    assert_eq!(client.status(&at(&[], [setattr(&[attr::MODE], &words(&[0]))])), Status::ROFS);
}

#[test]
fn a_umask_counts_for_what_is_new() {
    let client = client(2);
    let make = |numbers: &[u32], attr_vals: &[u8]| {
        let createattrs = Fattr { attrmask: Bitmap::of(numbers), attr_vals };
        let create = CreateArgs { objtype: CreateType::Directory, objname: b"d", createattrs };
        client.status(&at(&[b"e"], [Argument::Create(create)]))
    };
    let umask = ModeUmask { mode: 0o777, umask: 0o027 }.to_bytes();
    assert_eq!(make(&[attr::MODE, attr::MODE_UMASK], &[words(&[0]), umask.clone()].concat()), Status::INVAL);
    assert_eq!(make(&[attr::MODE_UMASK], &umask), Status::OK);
    assert_eq!(client.attrs(&[b"e", b"d"], &[attr::MODE]).1, words(&[0o750]));
}

#[test]
fn verify_compares() {
    let client = client(1);
    let verdicts = |numbers: &[u32], values: &[u8]| {
        let obj_attributes = Fattr { attrmask: Bitmap::of(numbers), attr_vals: values };
        let args = NverifyArgs { obj_attributes };
        [Argument::Verify(args), Argument::Nverify(args)].map(|op| client.status(&at(F, [op])))
    };
    assert_eq!(verdicts(&[attr::TYPE, attr::SIZE], &words(&[1, 0, 5])), [Status::OK, Status::SAME]);
    assert_eq!(verdicts(&[attr::TYPE, attr::SIZE], &words(&[1, 0, 6])), [Status::NOT_SAME, Status::OK]);
    assert_eq!(verdicts(&[], &[]), [Status::OK, Status::SAME]);
    assert_eq!(verdicts(&[attr::RDATTR_ERROR], &words(&[0])), [Status::INVAL; 2]);
    assert_eq!(verdicts(&[attr::TIME_ACCESS_SET], &words(&[0])), [Status::INVAL; 2]);
    assert_eq!(verdicts(&[attr::MIMETYPE], &words(&[0])), [Status::ATTRNOTSUPP; 2]);
    assert_eq!(verdicts(&[attr::CLONE_BLKSIZE], &words(&[0])), [Status::ATTRNOTSUPP; 2], "not in 4.1");
}

#[test]
fn access_tells_of_what_it_knows() {
    let ask = |client: &Client, path: &[&'static [u8]], access: u32| {
        let results = client.ask(&at(path, [Argument::Access(AccessArgs { access: Access(access) })]));
        match results.all().last() {
            Some(OpReply::Access(Reply::Ok(ok))) => Ok((ok.supported.0, ok.access.0)),
            Some(OpReply::Access(Reply::Err(status))) => Err(*status),
            other => panic!("{other:?}"),
        }
    };
    let mut old = client(0);
    old.desk.user = (8, 100);
    assert_eq!(ask(&old, F, 0x3f), Ok((0x2d, 0x01)), "the group reads");
    assert_eq!(ask(&old, F, 0x04), Ok((0x04, 0)), "only what is asked for");
    assert_eq!(ask(&old, &[], 0x3f), Ok((0x1f, 0x03)), "the top is for reading");
    assert_eq!(ask(&old, F, 0x40), Err(Status::INVAL), "there are no extended attributes in 4.0");
    let mut new = client(2);
    new.desk.user = (7, 100);
    assert_eq!(ask(&new, F, 0x1ff), Ok((0x1ed, 0x1cd)), "the owner writes");
    assert_eq!(ask(&new, F, 0x200), Err(Status::INVAL));
}

#[test]
fn nobody_makes_a_handle_of_the_top_up() {
    let key = FileKey::new(&[1; 8]).unwrap();
    let stranger = HandleSigner::new([8; 16]).sign(ExportId(u64::MAX), &key);
    let own = HandleSigner::new([7; 16]).sign(ExportId(u64::MAX), &key);
    let client = client(1);
    assert_eq!(client.status(&[crate::testing::v4::put(stranger.bytes())]), Status::BADHANDLE);
    assert_eq!(client.status(&[crate::testing::v4::put(own.bytes())]), Status::STALE);
}

#[test]
fn files_of_a_view_that_the_volume_does_not_have_are_stale() {
    for minor in 0..=2 {
        let client = client(minor);
        let root = served(&client.desk).root();
        let handle = |key: FileKey| client.desk.service.signer.sign(root.export().id, &key);
        let live = handle(root.key());
        let snapshot = handle(root.key().in_view(ViewId(1)));
        assert_eq!(client.status(&[crate::testing::v4::put(live.bytes())]), Status::OK, "4.{minor}");
        assert_eq!(client.status(&[crate::testing::v4::put(snapshot.bytes())]), Status::STALE, "4.{minor}");
    }
}

#[test]
fn who_has_a_file_open_sets_its_size_whatever_the_mode() {
    let mut client = client(1);
    client.desk.user = (8, 100);
    let chmod = |client: &Client, mode| {
        let root = served(&client.desk).root();
        let caller = Caller::new(0, 0, []);
        let found = root.open_dir(&caller, vfs::Blocking::Allowed).unwrap();
        let file = found.lookup(b"f", vfs::Blocking::Allowed).unwrap().file;
        let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
        file.set_attrs(&caller, &set, None, &mut PendingSync::default()).unwrap();
    };
    let open = |client: &Client, share_access| {
        let args = opening(OpenClaim::Null(b"f"), share_access);
        match client.ask(&at(&F[..1], [Argument::Open(args)])).all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => ok.stateid,
            other => panic!("{other:?}"),
        }
    };
    let cut = |client: &Client, stateid| {
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[attr::SIZE]), attr_vals: &words(&[0, 2]) };
        client.status(&at(F, [Argument::Setattr(SetattrArgs { stateid, obj_attributes })]))
    };
    let done = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(client.status(&[done]), Status::OK);
    let reads = open(&client, ShareAccess::READ);
    assert_eq!(cut(&client, reads), Status::OPENMODE);
    chmod(&client, 0o660);
    let writes = open(&client, ShareAccess::WRITE);
    chmod(&client, 0o600);
    assert_eq!(cut(&client, Stateid::ANONYMOUS), Status::ACCESS);
    assert_eq!(attrs_of_f(&client).size, 5);
    assert_eq!(cut(&client, writes), Status::OK);
    assert_eq!(attrs_of_f(&client).size, 2);
    let unknown = Stateid { other: [9; 12], ..writes };
    assert_eq!(cut(&client, unknown), Status::BAD_STATEID);
}

#[test]
fn what_linux_asks_for_is_what_each_attribute_is_by_itself() {
    let client = client(1);
    let numbers_of = |usual: u128| (0..Bitmap::CAPACITY).filter(move |number| usual & 1 << number != 0);
    let one = |number| match number {
        attr::RDATTR_ERROR => words(&[0]),
        _ => client.attrs(F, &[number]).1,
    };
    for usual in [table::OF_A_FILE, table::OF_A_CHANGE] {
        let numbers: Vec<u32> = numbers_of(usual).collect();
        let one_by_one = numbers.iter().flat_map(|&number| one(number)).collect();
        assert_eq!(client.attrs(F, &numbers), (Bitmap::of(&numbers), one_by_one));
    }
    let numbers: Vec<u32> = numbers_of(table::OF_A_NAME).collect();
    let attr_request = Bitmap::of(&numbers);
    let list = ReaddirArgs { cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 4096, attr_request };
    let results = client.ask(&at(&F[..1], [Argument::Readdir(list)]));
    let all = results.all();
    let Some(OpReply::Readdir(Reply::Ok(listed))) = all.last() else { panic!("{all:?}") };
    let listed: Vec<_> = listed.entries.iter().map(|entry| (entry.name, entry.attrs)).collect();
    let one_by_one: Vec<u8> = numbers.iter().flat_map(|&number| one(number)).collect();
    assert_eq!(listed, [(&b"f"[..], Fattr { attrmask: attr_request, attr_vals: &one_by_one })]);
}

/// SIZE and CHANGE of what GETATTR has told in these results.
fn told(results: &crate::testing::v4::Results) -> Vec<(u64, u64)> {
    let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let of = |reply: &OpReply<'_>| match reply {
        OpReply::Getattr(Reply::Ok(ok)) => {
            let (change, size) = ok.obj_attributes.attr_vals.split_at(8);
            Some((word(size), word(change)))
        }
        _ => None,
    };
    results.all().iter().filter_map(of).collect()
}

#[test]
fn getattr_behind_a_write_tells_what_the_write_has_left_and_of_no_other_file() {
    let client = client(1);
    let look = || Argument::Getattr(GetattrArgs { attr_request: Bitmap::of(&[attr::CHANGE, attr::SIZE]) });
    let write = |offset, data| {
        let (stateid, stable) = (Stateid::ANONYMOUS, nfs_wire::v4::StableHow::Unstable);
        Argument::Write(nfs_wire::v4::WriteArgs { stateid, offset, stable, data })
    };
    let before = told(&client.ask(&at(F, [look()])))[0];
    let all = told(&client.ask(&at(F, [write(5, b"more"), look(), look(), write(9, b"!"), look()])));
    let now = attrs_of_f(&client);
    assert_eq!(all[0], all[1], "asked again, nothing has changed");
    assert!(before.1 < all[0].1 && all[0].1 < all[2].1, "{before:?} {all:?}");
    assert_eq!((all[0].0, all[2]), (9, (now.size, now.change)));

    let two = words(&[0, 2]);
    let cut = setattr(&[attr::SIZE], &two);
    let all =
        told(&client.ask(&at(F, [write(0, b"x"), cut, look(), write(20, b"y"), Argument::Lookupp, look()])));
    let dir = told(&client.ask(&at(&[b"e"], [look()])));
    assert_eq!(all, [(2, all[0].1)], "a file has no parent, and the rest is not done");
    let (file, parent) = (client.handle(F), client.handle(&[b"e"]));
    let put = crate::testing::v4::put;
    let all = told(&client.ask(&[put(&file), write(0, b"z"), put(&parent), look()]));
    assert_eq!(all, dir, "the directory's own");
}
