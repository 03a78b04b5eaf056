//! Every attribute that is advertised and can be set, set in every way and read back, in every minor version.

use super::*;
use crate::testing::v4::minors::{MINORS, Rig};
use crate::testing::v4::{at, put};
use nfs_wire::v4::attr::{Acl41, AclFlag, ModeUmask, SetTime};
use nfs_wire::v4::{
    Argument, CreatVerfAttr, CreateArgs, CreateHow, CreateType, NfsTime, OpReply, OpenFlag, Reply,
    ShareAccess, ShareDeny, Stateid,
};
use std::sync::Arc;
use vfs::FileType;
use vfs_testing::MemFs;

/// Attributes that can be set by RFC 8881 §5 and its successors.
const CAN_BE_SET: &[u32] = &[
    attr::SIZE,
    attr::ACL,
    14,
    25,
    32,
    attr::MODE,
    attr::OWNER,
    attr::OWNER_GROUP,
    46,
    attr::TIME_ACCESS_SET,
    49,
    attr::TIME_CREATE,
    attr::TIME_MODIFY_SET,
    attr::DACL,
    59,
    67,
    68,
    69,
    70,
    74,
    80,
    attr::MODE_UMASK,
];

const TIME: NfsTime = NfsTime { seconds: 86_400, nseconds: 77 };

/// A value to set, and the attribute and value to read back.
fn value(number: u32) -> (Vec<u8>, u32, Vec<u8>) {
    let list = || acl::from_mode(0o640, FileType::Regular);
    let same = |bytes: Vec<u8>| (bytes.clone(), number, bytes);
    match number {
        attr::SIZE => same(5_u64.to_bytes()),
        attr::ACL => same(list().to_bytes()),
        attr::DACL => same(Acl41 { flag: AclFlag(0), aces: list() }.to_bytes()),
        attr::MODE => same(0o640_u32.to_bytes()),
        attr::OWNER | attr::OWNER_GROUP => same((&b"1234"[..]).to_bytes()),
        attr::TIME_CREATE => same(TIME.to_bytes()),
        attr::TIME_ACCESS_SET => (SetTime::ClientTime(TIME).to_bytes(), attr::TIME_ACCESS, TIME.to_bytes()),
        attr::TIME_MODIFY_SET => (SetTime::ClientTime(TIME).to_bytes(), attr::TIME_MODIFY, TIME.to_bytes()),
        attr::MODE_UMASK => {
            (ModeUmask { mode: 0o666, umask: 0o026 }.to_bytes(), attr::MODE, 0o640_u32.to_bytes())
        }
        other => panic!("attribute {other} is advertised, and nobody has tried to set it"),
    }
}

impl Rig {
    fn bitmap(&self, path: &[&[u8]], number: u32) -> Bitmap {
        let (_, value) = self.client.attrs(path, &[number]);
        <Bitmap as xdr::Decode>::decode(&mut xdr::Reader::new(&value)).unwrap()
    }

    /// Sets an attribute of `/w/f`, or of a new file or directory, in one of several ways. Returns the attributes set.
    fn set(&self, way: &str, name: &[u8], number: u32, attr_vals: &[u8]) -> Result<Bitmap, Status> {
        let fattr = Fattr { attrmask: Bitmap::of(&[number]), attr_vals };
        let open = |how| {
            let opened =
                self.open_as((b"w", name), ShareAccess::BOTH, ShareDeny::NONE, OpenFlag::Create(how));
            opened.map(|(_, set)| set)
        };
        match way {
            "unchecked" => open(CreateHow::Unchecked(fattr)),
            "guarded" => open(CreateHow::Guarded(fattr)),
            "exclusive" => open(CreateHow::Exclusive41(CreatVerfAttr { verf: *b"verifier", attrs: fattr })),
            "directory" => {
                let args = CreateArgs { objtype: CreateType::Directory, objname: name, createattrs: fattr };
                let results = self.client.ask(&at(&[b"w"], [Argument::Create(args)]));
                match results.all().last() {
                    Some(OpReply::Create(Reply::Ok(ok))) => Ok(ok.attrset),
                    _ => Err(results.status()),
                }
            }
            _ => {
                let handle = self.client.handle(&[b"w", b"f"]);
                let args = SetattrArgs { stateid: Stateid::ANONYMOUS, obj_attributes: fattr };
                let results = self.client.ask(&[put(&handle), Argument::Setattr(args)]);
                match results.all().last() {
                    Some(OpReply::Setattr(reply)) if reply.status == Status::OK => Ok(reply.attrsset),
                    _ => Err(results.status()),
                }
            }
        }
    }

    /// Sets every attribute in one way, and reads it back.
    fn check_way(&self, way: &str, advertised: Bitmap) {
        for &number in CAN_BE_SET.iter().filter(|&&number| advertised.contains(number)) {
            if way == "setattr" && number == attr::MODE_UMASK {
                // RFC 8275 §4: only in a creation.
                continue;
            }
            let what = format!("attribute {number} by {way} in 4.{}", self.minor);
            let (set, read, expected) = value(number);
            let name = if way == "setattr" { b"f".to_vec() } else { format!("{way}{number}").into_bytes() };
            let done =
                self.set(way, &name, number, &set).unwrap_or_else(|status| panic!("{what}: {status:?}"));
            if way == "directory" && number == attr::SIZE {
                assert!(!done.contains(number), "a directory has none of its client's");
                continue;
            }
            assert!(done.contains(number), "{what}");
            let has = self.client.attrs(&[b"w", &name], &[read]).1;
            if way == "directory" && [attr::ACL, attr::DACL].contains(&number) {
                let mode = self.client.attrs(&[b"w", &name], &[attr::MODE]).1;
                assert_eq!(mode, 0o640_u32.to_bytes(), "{what}");
            } else {
                assert_eq!(has, expected, "{what}");
            }
            self.check_verified(&name, read, &expected);
        }
    }

    /// Checks the value with VERIFY and NVERIFY.
    fn check_verified(&self, name: &[u8], number: u32, attr_vals: &[u8]) {
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[number]), attr_vals };
        let same = Argument::Verify(VerifyArgs { obj_attributes });
        let other = Argument::Nverify(NverifyArgs { obj_attributes });
        if number != attr::ACL && number != attr::DACL {
            assert_eq!(self.client.status(&at(&[b"w", name], [same])), Status::OK, "attribute {number}");
            assert_eq!(self.client.status(&at(&[b"w", name], [other])), Status::SAME, "attribute {number}");
        }
    }
}

#[test]
fn every_attribute_that_is_advertised_is_set_in_every_way_and_read_back() {
    for rig in MINORS.map(Rig::new) {
        let supported = rig.bitmap(&[b"w"], attr::SUPPORTED_ATTRS);
        assert!(supported.contains(attr::TIME_CREATE));
        for way in ["setattr", "unchecked", "guarded", "directory"] {
            rig.check_way(way, supported);
        }
        if rig.minor > 0 {
            let exclusive = rig.bitmap(&[b"w"], attr::SUPPATTR_EXCLCREAT);
            assert!(exclusive.contains(attr::TIME_CREATE) && supported.contains_all(&exclusive));
            rig.check_way("exclusive", exclusive);
        }
    }
}

#[test]
fn time_of_creation_is_told_in_listings_and_taken_from_a_symbolic_link() {
    for rig in MINORS.map(Rig::new) {
        rig.set("setattr", b"f", attr::TIME_CREATE, &TIME.to_bytes()).unwrap();
        let attr_request = Bitmap::of(&[attr::TIME_CREATE]);
        let list = nfs_wire::v4::ReaddirArgs {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 4096,
            attr_request,
        };
        let results = rig.client.ask(&at(&[b"w"], [Argument::Readdir(list)]));
        let all = results.all();
        let Some(OpReply::Readdir(Reply::Ok(listed))) = all.last() else { panic!("{all:?}") };
        let listed: Vec<_> = listed.entries.iter().map(|entry| entry.attrs).collect();
        assert_eq!(listed[0], Fattr { attrmask: attr_request, attr_vals: &TIME.to_bytes() });
        // Created as macOS does: the attribute is accepted, and the reply shows that it was not set.
        let createattrs = Fattr { attrmask: attr_request, attr_vals: &TIME.to_bytes() };
        let args = CreateArgs { objtype: CreateType::Symlink(b"f"), objname: b"link", createattrs };
        let results = rig.client.ask(&at(&[b"w"], [Argument::Create(args)]));
        let all = results.all();
        let Some(OpReply::Create(Reply::Ok(made))) = all.last() else { panic!("{all:?}") };
        assert_eq!(made.attrset, Bitmap::EMPTY);
        let of_link = rig.bitmap(&[b"w", b"link"], attr::SUPPORTED_ATTRS);
        assert!(!of_link.contains(attr::TIME_CREATE));
    }
}

#[test]
fn time_of_creation_is_set_by_the_owner_and_to_a_time_that_there_is() {
    for mut rig in MINORS.map(Rig::new) {
        let wrong = NfsTime { seconds: 0, nseconds: 1_000_000_000 }.to_bytes();
        assert_eq!(rig.set("setattr", b"f", attr::TIME_CREATE, &wrong), Err(Status::INVAL));
        assert_eq!(rig.set("guarded", b"new", attr::TIME_CREATE, &wrong), Err(Status::INVAL));
        let mode = 0o666_u32.to_bytes();
        rig.set("setattr", b"f", attr::MODE, &mode).unwrap();
        rig.client.env.user = (1000, 100);
        let refused = rig.set("setattr", b"f", attr::TIME_CREATE, &TIME.to_bytes());
        assert_eq!(refused, Err(Status::PERM), "who may write it is not who has it");
        rig.serve(Some(vfs::ExportRule { read_only: true, ..crate::testing::rule(&[]) }));
        rig.client.env.user = (0, 0);
        let refused = rig.set("setattr", b"f", attr::TIME_CREATE, &TIME.to_bytes());
        assert_eq!(refused, Err(Status::ROFS));
    }
}

#[test]
fn time_of_creation_is_not_advertised_where_it_is_not_kept() {
    for minor in MINORS {
        let fs = MemFs::new(Arc::new(|| crate::testing::NOW));
        let rig = Rig::over(minor, fs.without_xattrs());
        let of = |path: &[&[u8]], number| rig.bitmap(path, number).contains(attr::TIME_CREATE);
        assert!(!of(&[b"w"], attr::SUPPORTED_ATTRS) && !of(&[b"w", b"f"], attr::SUPPORTED_ATTRS));
        if minor > 0 {
            assert!(!of(&[b"w"], attr::SUPPATTR_EXCLCREAT));
        }
        for way in ["setattr", "unchecked", "guarded", "directory"] {
            let refused = rig.set(way, b"new", attr::TIME_CREATE, &TIME.to_bytes());
            assert_eq!(refused, Err(Status::ATTRNOTSUPP), "{way}");
        }
    }
}
