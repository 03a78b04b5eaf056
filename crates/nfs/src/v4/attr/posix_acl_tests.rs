//! Lists of POSIX beside mode bits, in every minor version.

use super::*;
use crate::testing::v4::{Client, Results, at};
use crate::testing::{NOW, TestEnv, rule, words};
use nfs_wire::v4::attr::ModeUmask;
use nfs_wire::v4::{
    Argument, CbClient, CreateHow, NetAddr, NfsClientId, OpReply, OpenArgs, OpenClaim, OpenFlag, ReadArgs,
    ReclaimCompleteArgs, Reply, SetclientidArgs, SetclientidConfirmArgs, SetclientidReply, ShareAccess,
    ShareDeny, StableHow, StateOwner, Stateid, WriteArgs,
};
use std::sync::Arc;
use vfs::{
    Attrs, Blocking, Caller, Disposition, Durability, Export, PendingSync, PosixAcl, SetAttrs, Volume,
    VolumeId,
};
use vfs_testing::MemFs;

/// The owner, a member of its group, and a user of the list.
const OWNER: (u32, u32) = (7, 100);
const MEMBER: (u32, u32) = (9, 100);
const NAMED: (u32, u32) = (8, 1);
const F: &[&[u8]] = &[b"e", b"f"];

/// `/e`, in which all users may create files, with a file `f` of mode 0660. Its ACL gives the group nothing and user 8
/// everything.
struct Rig {
    fs: MemFs,
    root: vfs::File,
    client: Client,
    id: u64,
}

fn list(group: u32, users: &[(u32, u32)]) -> PosixAcl {
    PosixAcl { owner: 6, group, mask: Some(6), other: 0, users: users.into(), groups: [].into() }
}

impl Rig {
    fn new(minor: u32) -> Self {
        let fs = MemFs::new(Arc::new(|| NOW));
        let volume = Volume::new(VolumeId(1), "e", Arc::new(fs.clone()), Durability::Sync, 1);
        let export = Export::new("/e", Arc::new(volume), vec![rule(&[])]);
        let env = TestEnv::new([export], vec![]);
        let root = env.service.namespace.load().exports()[0].root();
        let (service, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
        let open = SetAttrs { mode: Some(0o777), ..SetAttrs::default() };
        root.set_attrs(&service, &open, None, &mut pending).unwrap();
        let set = SetAttrs { mode: Some(0o660), uid: Some(7), gid: Some(100), ..SetAttrs::default() };
        let made = root.create(&service, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
        let opened = made.file.authorize_write(&service).unwrap();
        opened.write(0, b"bytes", vfs::Stability::Unstable, &mut pending).unwrap();
        fs.set_access_acl("f", Some(&list(0, &[(8, 6)]))).unwrap();
        let mut rig = Self { fs, root, client: Client::new(env, minor), id: 0 };
        rig.id = if minor == 0 { rig.introduce() } else { 0 };
        if minor > 0 {
            let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
            assert_eq!(rig.client.status(&[complete]), Status::OK);
        }
        rig
    }

    fn introduce(&self) -> u64 {
        let introduction = SetclientidArgs {
            client: NfsClientId { verifier: [1; 8], id: b"host" },
            callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
            callback_ident: 0,
        };
        let results = self.client.ask(&[Argument::Setclientid(introduction)]);
        let [OpReply::Setclientid(SetclientidReply::Ok(ok))] = &*results.all() else { panic!("no client") };
        let (clientid, setclientid_confirm) = (ok.clientid, ok.setclientid_confirm);
        let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
        assert_eq!(self.client.status(&[Argument::SetclientidConfirm(confirm)]), Status::OK);
        clientid
    }

    /// Runs operations on the object at a path, as this user.
    fn on(&mut self, user: (u32, u32), path: &[&[u8]], operation: Argument<'_>) -> Results {
        self.client.env.user = user;
        self.client.ask(&at(path, [operation]))
    }

    fn status(&mut self, user: (u32, u32), operation: Argument<'_>) -> Status {
        self.on(user, F, operation).status()
    }

    fn open(&mut self, user: (u32, u32), share_access: ShareAccess) -> Status {
        let owner = [user.0, share_access.0].map(u32::to_be_bytes).concat();
        let open = OpenArgs {
            seqid: 1,
            share_access,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: self.id, owner: &owner },
            openhow: OpenFlag::NoCreate,
            claim: OpenClaim::Null(b"f"),
        };
        self.on(user, &[b"e"], Argument::Open(open)).status()
    }

    fn access(&mut self, user: (u32, u32), path: &[&[u8]]) -> Access {
        let all = Access(0x3f);
        let results = self.on(user, path, Argument::Access(AccessArgs { access: all }));
        match results.all().last() {
            Some(OpReply::Access(Reply::Ok(ok))) => ok.access,
            other => panic!("{other:?}"),
        }
    }

    fn attrs(&self, name: &[u8]) -> Attrs {
        let dir = self.root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).unwrap();
        dir.lookup(name, Blocking::Allowed).unwrap().attrs
    }
}

fn read() -> Argument<'static> {
    Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 10 })
}

fn write() -> Argument<'static> {
    let (stateid, stable) = (Stateid::ANONYMOUS, StableHow::FileSync);
    Argument::Write(WriteArgs { stateid, offset: 0, stable, data: b"other" })
}

fn setattr<'a>(numbers: &[u32], attr_vals: &'a [u8]) -> Argument<'a> {
    let obj_attributes = Fattr { attrmask: Bitmap::of(numbers), attr_vals };
    Argument::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, obj_attributes })
}

#[test]
fn callers_get_what_the_list_gives_in_every_minor_version() {
    for minor in 0..=2 {
        let mut rig = Rig::new(minor);
        let modes = [ShareAccess::READ, ShareAccess::WRITE, ShareAccess::BOTH];
        assert_eq!(rig.access(MEMBER, F), Access(0), "4.{minor}");
        for operation in [read(), write()] {
            assert_eq!(rig.status(MEMBER, operation.clone()), Status::ACCESS, "4.{minor}: {operation:?}");
            assert_eq!(rig.status(NAMED, operation.clone()), Status::OK, "4.{minor}: {operation:?}");
            assert_eq!(rig.status(OWNER, operation), Status::OK, "4.{minor}");
        }
        for mode in modes {
            assert_eq!(rig.open(MEMBER, mode), Status::ACCESS, "4.{minor}: {mode:?}");
            assert_eq!(rig.open(NAMED, mode), Status::OK, "4.{minor}: {mode:?}");
        }
        let all = Access::READ | Access::MODIFY | Access::EXTEND;
        assert!(rig.access(NAMED, F).contains(all), "4.{minor}");
        rig.fs.set_access_acl("", Some(&PosixAcl { owner: 7, mask: Some(7), ..list(0, &[(8, 7)]) })).unwrap();
        assert_eq!(rig.access(MEMBER, &[b"e"]), Access(0), "4.{minor}: root's group is another");
        assert_eq!(rig.status(MEMBER, read()), Status::ACCESS);
        assert_eq!(rig.on(MEMBER, F, Argument::Getfh).status(), Status::ACCESS, "4.{minor}: LOOKUP");
        assert_eq!(rig.status(NAMED, read()), Status::OK, "4.{minor}");
    }
}

#[test]
fn size_and_times_are_set_by_who_may_write() {
    let mut rig = Rig::new(2);
    let size = words(&[0, 3]);
    assert_eq!(rig.status(MEMBER, setattr(&[attr::SIZE], &size)), Status::ACCESS);
    assert_eq!(rig.status(NAMED, setattr(&[attr::SIZE], &size)), Status::OK);
    let now = words(&[0]);
    assert_eq!(rig.status(MEMBER, setattr(&[attr::TIME_MODIFY_SET], &now)), Status::ACCESS);
    assert_eq!(rig.status(NAMED, setattr(&[attr::TIME_MODIFY_SET], &now)), Status::OK);
    assert_eq!(rig.status(NAMED, setattr(&[attr::MODE], &words(&[0o666]))), Status::PERM);
}

#[test]
fn shown_list_says_what_is_given() {
    let rig = Rig::new(1);
    rig.fs.set_access_acl("f", Some(&PosixAcl { other: 4, ..list(0, &[(8, 6)]) })).unwrap();
    let text = |text: &[u8]| [words(&[u32::try_from(text.len()).unwrap()]), text.to_vec()].concat();
    let entry = |kind, flag, mask, who: &[u8]| [words(&[kind, flag, mask]), who.to_vec()].concat();
    let (owner, everyone) = (text(b"OWNER@\0\0")[4..].to_vec(), text(b"EVERYONE@\0\0\0")[4..].to_vec());
    let (owner, everyone) = ([words(&[6]), owner].concat(), [words(&[9]), everyone].concat());
    let group = [words(&[6]), b"GROUP@\0\0".to_vec()].concat();
    let user = [words(&[1]), b"8\0\0\0".to_vec()].concat();
    let expected = [
        words(&[5]),
        entry(0, 0, 0x16_0187, &owner),
        entry(0, 0, 0x12_0087, &user),
        entry(0, 0x40, 0x12_0080, &group),
        entry(1, 0x40, 0x1, &group),
        entry(0, 0, 0x12_0081, &everyone),
    ]
    .concat();
    assert_eq!(rig.client.attrs(F, &[attr::ACL]), (Bitmap::of(&[attr::ACL]), expected.clone()));
    let dacl = [words(&[0]), expected].concat();
    assert_eq!(rig.client.attrs(F, &[attr::DACL]), (Bitmap::of(&[attr::DACL]), dacl));
    let users: Vec<_> = (0..300).map(|uid| (uid, 6)).collect();
    rig.fs.set_access_acl("f", Some(&list(6, &users))).unwrap();
    let long = [words(&[1]), entry(0, 0, 0x16_0187, &owner)].concat();
    assert_eq!(rig.client.attrs(F, &[attr::ACL]).1, long, "a long list shows the owner only");
}

#[test]
fn list_is_not_set_as_the_mask_of_another() {
    for minor in 0..=2 {
        let mut rig = Rig::new(minor);
        let entry = [words(&[1, 0, 0, 0x16_0187, 6]), b"OWNER@\0\0".to_vec()].concat();
        let status = rig.status(OWNER, setattr(&[attr::ACL], &entry));
        assert_eq!((status, rig.attrs(b"f").mode), (Status::ATTRNOTSUPP, 0o660), "4.{minor}");
        assert_eq!(rig.status(OWNER, setattr(&[attr::MODE], &words(&[0o640]))), Status::OK);
        assert_eq!(rig.status(NAMED, write()), Status::ACCESS, "4.{minor}: a mode is the mask");
        assert_eq!(rig.status(NAMED, read()), Status::OK);
        assert_eq!(rig.status(MEMBER, read()), Status::ACCESS);
        rig.fs.set_access_acl("f", None).unwrap();
        assert_eq!(rig.status(OWNER, setattr(&[attr::ACL], &entry)), Status::OK, "4.{minor}");
    }
}

#[test]
fn umask_gives_way_to_a_list_that_is_handed_on() {
    let mut rig = Rig::new(2);
    let umask = ModeUmask { mode: 0o666, umask: 0o022 };
    let values = xdr::Encode::to_bytes(&umask);
    let make = |rig: &mut Rig, name: &[u8]| {
        let createattrs = Fattr { attrmask: Bitmap::of(&[attr::MODE_UMASK]), attr_vals: &values };
        let open = OpenArgs {
            seqid: 0,
            share_access: ShareAccess::READ,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: 0, owner: name },
            openhow: OpenFlag::Create(CreateHow::Guarded(createattrs)),
            claim: OpenClaim::Null(name),
        };
        assert_eq!(rig.on(NAMED, &[b"e"], Argument::Open(open)).status(), Status::OK);
        rig.attrs(name).mode
    };
    assert_eq!(make(&mut rig, b"masked"), 0o644);
    rig.fs.set_default_acl("", Some(&list(0, &[(9, 6)]))).unwrap();
    assert_eq!(make(&mut rig, b"listed"), 0o660);
    rig.client.env.user = MEMBER;
    let path: &[&[u8]] = &[b"e", b"listed"];
    assert_eq!(rig.on(MEMBER, path, write()).status(), Status::OK, "what it inherits names this user");
    assert_eq!(rig.on(OWNER, path, read()).status(), Status::ACCESS);
}
