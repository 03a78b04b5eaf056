//! Files that a client of another protocol deletes by closing them: NFS acknowledges nothing that vanishes with the close.

use super::*;
use crate::testing::v4::{Client, at, put};
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::{Argument, Fattr, ReclaimCompleteArgs, SetattrArgs, StableHow, WriteArgs};
use nfs_wire::{v3, v4};
use vfs::claims::{Access, Effect, Holder, OpenId, OpenRequest, Request, Rights, Stream};
use vfs::{Blocking, Caller, Disposition, PendingSync, SetAttrs};

/// A client of another protocol without callbacks.
struct Neighbor;

impl Holder for Neighbor {
    fn deliver(&self, _: Effect) {}
}

/// `/e/f`, which the neighbor has open and deletes by closing it.
struct Rig {
    client: Client,
    file: vfs::File,
    open: OpenId,
    _neighbor: Arc<Neighbor>,
}

impl Rig {
    /// `decides`: the file is deleted at its last close.
    fn new(minor: u32, decides: bool) -> Self {
        let client = Client::new(TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]), minor);
        if minor > 0 {
            let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
            assert_eq!(client.status(&[complete]), Status::OK);
        }
        let root = client.env.service.namespace.load().exports()[0].root();
        let caller = Caller::new(client.env.user.0, client.env.user.1, []);
        let set = SetAttrs { mode: Some(0o666), ..SetAttrs::default() };
        let mut pending = PendingSync::default();
        let made = root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending);
        let file = made.unwrap().file;
        let neighbor = Arc::new(Neighbor);
        let holder = file.volume().claims().attach(Arc::clone(&neighbor) as _);
        let request = OpenRequest {
            holder,
            stream: Stream::default(),
            access: Access { rights: Rights::DELETE, deny: Rights::NONE },
            truncates: false,
            is_mandatory: true,
            is_advisory: false,
            lease: None,
            reclaims: false,
            waits: false,
        };
        let Verdict::Granted(granted) = file.claim(&Request::Open(request)) else { panic!("nobody has it") };
        let open = granted.open.unwrap();
        let link = vfs::claims::Link { parent: root.key(), name: (*b"f").into(), listing: None };
        let request = match decides {
            true => Request::SetDelete { open, link: Some(link), waits: false },
            false => Request::DeleteOnClose { open, link },
        };
        assert!(matches!(file.claim(&request), Verdict::Granted(_)));
        Self { client, file, open, _neighbor: neighbor }
    }

    fn v3(&self, procedure: u32, args: &impl xdr::Encode) -> v3::Status {
        let results = self.client.env.ask(100_003, 3, procedure, args).unwrap();
        v3::Status(u32::from_be_bytes(results[..4].try_into().unwrap()))
    }

    fn has_file(&self) -> bool {
        let root = self.client.env.service.namespace.load().exports()[0].root();
        let dir = root.open_dir(&Caller::new(0, 0, []), Blocking::Allowed).unwrap();
        dir.lookup(b"f", Blocking::Allowed).is_ok()
    }
}

fn each() -> impl Iterator<Item = (u32, bool)> {
    [0, 1, 2].into_iter().flat_map(|minor| [(minor, false), (minor, true)])
}

#[test]
fn version_3_is_refused_what_would_vanish() {
    for decides in [false, true] {
        let rig = Rig::new(1, decides);
        let (dir, file) = (rig.client.handle(&[b"e"]), rig.client.handle(&[b"e", b"f"]));
        let object = v3::FileHandle(&file);
        let place = v3::DirOpArgs { dir: v3::FileHandle(&dir), name: b"f" };
        let refused = v3::Status::ACCES;
        for size in [None, Some(0)] {
            let how = v3::CreateHow::Unchecked(v3::Sattr { size, ..v3::Sattr::default() });
            assert_eq!(rig.v3(8, &v3::CreateArgs { place, how }), refused, "{size:?}");
        }
        let stable = v3::StableHow::FileSync;
        let write = v3::WriteArgs { file: object, offset: 0, count: 1, stable, data: b"x" };
        assert_eq!(rig.v3(7, &write), refused);
        let new_attributes = v3::Sattr { size: Some(9), ..v3::Sattr::default() };
        let set = v3::SetattrArgs { object, new_attributes, guard: None };
        assert_eq!(rig.v3(2, &set), refused);
        rig.file.claim(&Request::Close(rig.open));
        rig.file.volume().remove_closed(&rig.file.key()).unwrap();
        assert!(!rig.has_file());
        let how = v3::CreateHow::Unchecked(v3::Sattr::default());
        assert_eq!(rig.v3(8, &v3::CreateArgs { place, how }), v3::Status::OK);
        assert!(rig.has_file());
    }
}

#[test]
fn version_4_is_refused_what_would_vanish() {
    for (minor, decides) in each() {
        let rig = Rig::new(minor, decides);
        let handle = rig.client.handle(&[b"e", b"f"]);
        let (stable, data) = (StableHow::FileSync, &b"x"[..]);
        let write = WriteArgs { stateid: Stateid::ANONYMOUS, offset: 0, stable, data };
        assert_eq!(rig.client.status(&[put(&handle), Argument::Write(write)]), Status::ACCESS, "4.{minor}");
        let size = 9_u64.to_be_bytes();
        let obj_attributes = Fattr { attrmask: Bitmap::of(&[v4::attr::SIZE]), attr_vals: &size };
        let set = SetattrArgs { stateid: Stateid::ANONYMOUS, obj_attributes };
        assert_eq!(rig.client.status(&[put(&handle), Argument::Setattr(set)]), Status::ACCESS, "4.{minor}");
        if minor == 0 {
            continue;
        }
        let nothing = Fattr { attrmask: Bitmap::EMPTY, attr_vals: &[] };
        let empty = Fattr { attrmask: Bitmap::of(&[v4::attr::SIZE]), attr_vals: &[0; 8] };
        for openhow in [
            OpenFlag::Create(CreateHow::Unchecked(nothing)),
            OpenFlag::Create(CreateHow::Unchecked(empty)),
            OpenFlag::NoCreate,
        ] {
            let open = Argument::Open(OpenArgs {
                seqid: 0,
                share_access: ShareAccess(3),
                share_deny: ShareDeny::NONE,
                owner: StateOwner { clientid: 0, owner: b"o" },
                openhow,
                claim: OpenClaim::Null(b"f"),
            });
            let status = rig.client.status(&at(&[b"e"], [open]));
            assert!(
                matches!(status, Status::ACCESS | Status::FILE_OPEN),
                "4.{minor} {openhow:?}: {status:?}"
            );
        }
    }
}
