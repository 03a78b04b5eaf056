//! What rules of exports let clients keep others from, in every minor version, and for how long.

use super::testing::back::Rig as CalledRig;
use super::testing::{Client, at, opening, put};
use crate::testing::{Desk, NOW, rule};
use nfs_wire::v4::{
    Argument, CbClient, CreateHow, Fattr, FreeStateidArgs, LockArgs, LockReply, LockType, Locker, NetAddr,
    NfsClientId, OpReply, OpenArgs, OpenClaim, OpenConfirmArgs, OpenFlag, OpenToLockOwner, ReadArgs,
    ReclaimCompleteArgs, Reply, SequenceStatus, SetclientidArgs, SetclientidConfirmArgs, SetclientidReply,
    ShareAccess, ShareDeny, StateOwner, Stateid, Status,
};
use std::cell::Cell;
use std::sync::Arc;
use vfs::{
    Caller, Disposition, Durability, Export, ExportId, ExportRule, MemFs, Namespace, PendingSync, SetAttrs,
    Volume, VolumeId,
};

const MINORS: [u32; 3] = [0, 1, 2];
const ROOT: (u32, u32) = (0, 0);
const READER: (u32, u32) = (1000, 100);
const DENY_BOTH: ShareDeny = ShareDeny(3);

/// A volume by two exports, `/w` and `/r`, with a file `f` of root's that all may read.
struct Rig {
    client: Client,
    minor: u32,
    id: u64,
    volume: Arc<Volume>,
    owners: Cell<u32>,
}

impl Rig {
    fn new(minor: u32) -> Self {
        let fs = Arc::new(MemFs::new(Arc::new(|| NOW)));
        let volume = Arc::new(Volume::new(VolumeId(1), "v", fs, Durability::Sync, 1));
        let root = Arc::new(Export::new("/w", Arc::clone(&volume), vec![])).root();
        let (set, mut pending) =
            (SetAttrs { mode: Some(0o644), ..SetAttrs::default() }, PendingSync::default());
        root.create(&Caller::new(0, 0, []), b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
        let client = Client::new(Desk::new([], vec![]), minor);
        let mut rig = Self { client, minor, id: 0, volume, owners: Cell::new(0) };
        if minor == 0 {
            rig.id = rig.introduce();
        } else {
            let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
            assert_eq!(rig.client.status(&[complete]), Status::OK);
        }
        rig.serve(Some(rule(&[])));
        rig
    }

    /// Serves `/w` by this rule, if by any, and `/r` to be read.
    fn serve(&self, writes: Option<ExportRule>) {
        let volume = || Arc::clone(&self.volume);
        let reads = ExportRule { read_only: true, ..rule(&[]) };
        let reads = Export { id: ExportId(2), ..Export::new("/r", volume(), vec![reads]) };
        let writes = writes.map(|rule| Export::new("/w", volume(), vec![rule]));
        let namespace = Namespace::new(writes.into_iter().chain([reads]));
        self.client.desk.service.namespace.store(Arc::new(namespace));
    }

    fn introduce(&self) -> u64 {
        let ask = Argument::Setclientid(SetclientidArgs {
            client: NfsClientId { verifier: [1; 8], id: b"host" },
            callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
            callback_ident: 0,
        });
        let results = self.client.ask(&[ask]);
        let [OpReply::Setclientid(SetclientidReply::Ok(ok))] = &*results.all() else { panic!() };
        let (clientid, setclientid_confirm) = (ok.clientid, ok.setclientid_confirm);
        let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
        assert_eq!(self.client.status(&[Argument::SetclientidConfirm(confirm)]), Status::OK);
        clientid
    }

    /// OPEN of `f` by an owner of its own.
    fn open(&self, export: &[u8], access: ShareAccess, share_deny: ShareDeny) -> Result<Stateid, Status> {
        self.open_as(export, access, share_deny, OpenFlag::NoCreate)
    }

    fn open_as(
        &self,
        export: &[u8],
        share_access: ShareAccess,
        share_deny: ShareDeny,
        openhow: OpenFlag<'_>,
    ) -> Result<Stateid, Status> {
        self.owners.set(self.owners.get() + 1);
        let owner = self.owners.get().to_be_bytes();
        let args = OpenArgs {
            seqid: 1,
            share_access,
            share_deny,
            owner: StateOwner { clientid: self.id, owner: &owner },
            openhow,
            claim: OpenClaim::Null(b"f"),
        };
        let results = self.client.ask(&at(&[export], [Argument::Open(args)]));
        let open_stateid = match results.all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => ok.stateid,
            _ => return Err(results.status()),
        };
        if self.minor > 0 {
            return Ok(open_stateid);
        }
        let confirm = Argument::OpenConfirm(OpenConfirmArgs { open_stateid, seqid: 2 });
        let results = self.client.ask(&at(&[export, b"f"], [confirm]));
        match results.all().last() {
            Some(OpReply::OpenConfirm(Reply::Ok(stateid))) => Ok(*stateid),
            _ => Err(results.status()),
        }
    }

    /// Whether a caller through `/w` may open `f` to read and write.
    fn writes(&self) -> Result<(), Status> {
        self.open(b"w", ShareAccess::BOTH, ShareDeny::NONE).map(drop)
    }

    fn read(&self, handle: &[u8], stateid: Stateid) -> Status {
        self.client.status(&[put(handle), Argument::Read(ReadArgs { stateid, offset: 0, count: 1 })])
    }

    fn lock(&self, handle: &[u8], open_stateid: Stateid) -> Result<Stateid, Status> {
        let lock_owner = StateOwner { clientid: self.id, owner: b"l" };
        let new = OpenToLockOwner { open_seqid: 3, open_stateid, lock_seqid: 1, lock_owner };
        let locker = Locker::New(new);
        let args = LockArgs { locktype: LockType::Write, reclaim: false, offset: 0, length: 1, locker };
        let results = self.client.ask(&[put(handle), Argument::Lock(args)]);
        match results.all().last() {
            Some(OpReply::Lock(LockReply::Ok(stateid))) => Ok(*stateid),
            _ => Err(results.status()),
        }
    }

    /// What a stateid is good for that was withdrawn.
    fn withdrawn(&self) -> Status {
        if self.minor == 0 { Status::BAD_STATEID } else { Status::ADMIN_REVOKED }
    }
}

#[test]
fn open_that_denies_under_a_read_only_rule_is_refused() {
    for rig in MINORS.map(Rig::new) {
        for deny in [1, 2, 3].map(ShareDeny) {
            let refused = rig.open(b"r", ShareAccess::READ, deny);
            assert_eq!(refused, Err(Status::ROFS), "4.{} {deny:?}", rig.minor);
        }
        rig.open(b"r", ShareAccess::READ, ShareDeny::NONE).unwrap();
        assert_eq!(rig.writes(), Ok(()), "4.{}", rig.minor);
    }
}

#[test]
fn caller_that_may_not_write_denies_nobody_to_read() {
    for mut rig in MINORS.map(Rig::new) {
        rig.client.desk.user = READER;
        for deny in [1, 3].map(ShareDeny) {
            let refused = rig.open(b"w", ShareAccess::READ, deny);
            assert_eq!(refused, Err(Status::ACCESS), "4.{} {deny:?}", rig.minor);
        }
        rig.client.desk.user = ROOT;
        assert_eq!(rig.writes(), Ok(()));
    }
}

#[test]
fn caller_that_may_write_denies_what_it_wants() {
    for rig in MINORS.map(Rig::new) {
        rig.open(b"w", ShareAccess::READ, DENY_BOTH).unwrap();
        assert_eq!(rig.writes(), Err(Status::SHARE_DENIED));
        let reader = rig.open(b"r", ShareAccess::READ, ShareDeny::NONE);
        assert_eq!(reader, Err(Status::SHARE_DENIED), "by whatever export");
    }
}

#[test]
fn open_that_denies_a_file_it_makes_needs_no_mode() {
    for rig in MINORS.map(Rig::new) {
        let root = Arc::clone(&rig.client.desk.service.namespace.load().exports()[0]).root();
        root.remove(&Caller::new(0, 0, []), b"f", &mut PendingSync::default()).unwrap();
        let attrmask = nfs_wire::v4::Bitmap::of(&[nfs_wire::v4::attr::MODE]);
        let how = CreateHow::Guarded(Fattr { attrmask, attr_vals: &0o400_u32.to_be_bytes() });
        let opened = rig.open_as(b"w", ShareAccess::READ, DENY_BOTH, OpenFlag::Create(how));
        assert!(opened.is_ok(), "4.{}: {opened:?}", rig.minor);
    }
}

#[test]
fn rule_that_becomes_read_only_ends_opens_that_change_or_deny() {
    for rig in MINORS.map(Rig::new) {
        let reads = rig.open(b"w", ShareAccess::READ, ShareDeny::NONE).unwrap();
        let writes = rig.open(b"w", ShareAccess::BOTH, ShareDeny(2)).unwrap();
        let handle = rig.client.handle(&[b"w", b"f"]);
        let lock = rig.lock(&handle, writes).unwrap();
        // A change of rules that leaves it as it was ends nothing.
        rig.serve(Some(rule(&["10.0.0.0/8"])));
        rig.client.desk.service.tick();
        assert_eq!(rig.read(&handle, lock), Status::OK);
        rig.serve(Some(ExportRule { read_only: true, ..rule(&[]) }));
        rig.client.desk.service.tick();
        assert_eq!(rig.read(&handle, reads), Status::OK, "4.{}", rig.minor);
        for stateid in [writes, lock] {
            assert_eq!(rig.read(&handle, stateid), rig.withdrawn(), "4.{}", rig.minor);
        }
        if rig.minor > 0 {
            assert!(rig.client.sequence_flags().contains(SequenceStatus::ADMIN_STATE_REVOKED));
            for stateid in [lock, writes] {
                let free = Argument::FreeStateid(FreeStateidArgs { stateid });
                assert_eq!(rig.client.status(&[free]), Status::OK);
            }
            assert_eq!(rig.client.sequence_flags(), SequenceStatus::default());
        }
        // Nobody is kept from anything by what has ended.
        rig.serve(Some(rule(&[])));
        let writes = rig.open(b"w", ShareAccess::BOTH, ShareDeny::NONE).unwrap();
        assert!(rig.lock(&handle, writes).is_ok(), "4.{}", rig.minor);
    }
}

#[test]
fn export_that_goes_ends_all_that_was_held_by_it() {
    for rig in MINORS.map(Rig::new) {
        rig.open(b"w", ShareAccess::READ, DENY_BOTH).unwrap();
        rig.serve(None);
        rig.client.desk.service.tick();
        assert!(rig.open(b"r", ShareAccess::READ, ShareDeny::NONE).is_ok(), "4.{}", rig.minor);
    }
}

#[test]
fn open_that_an_older_rule_has_admitted_ends_at_the_next_look() {
    let rig = Rig::new(1);
    rig.client.desk.service.tick();
    let (before, handle) = (rig.client.desk.service.namespace.load_full(), rig.client.handle(&[b"w", b"f"]));
    rig.serve(None);
    rig.client.desk.service.tick();
    // A call that has begun with the namespace of before, and is slow.
    let now = rig.client.desk.service.namespace.swap(before);
    let held = rig.open(b"w", ShareAccess::READ, DENY_BOTH).unwrap();
    let service = &rig.client.desk.service;
    let old = service.namespace.swap(now);
    service.v4.followed.note(&old, &service.namespace);
    rig.client.desk.service.tick();
    assert_eq!(rig.open(b"r", ShareAccess::READ, ShareDeny::NONE).map(drop), Ok(()));
    assert_eq!(rig.read(&handle, held), Status::STALE, "the export has gone");
}

#[test]
fn delegation_ends_with_the_rule_that_admits_it() {
    let rig = CalledRig::new();
    let delegated = rig.client.ask(&at(
        &[b"e"],
        [Argument::Open(opening(OpenClaim::Null(b"f"), ShareAccess::READ)), Argument::Getfh],
    ));
    let all = delegated.all();
    let [.., OpReply::Open(Reply::Ok(open)), OpReply::Getfh(Reply::Ok(handle))] = &*all else {
        panic!("{all:?}")
    };
    let nfs_wire::v4::OpenDelegation::Read(delegation) = &open.delegation else { panic!("{open:?}") };
    let (handle, service) = (handle.object.0.to_vec(), &rig.client.desk.service);
    let read = |stateid| {
        let read = Argument::Read(ReadArgs { stateid, offset: 0, count: 1 });
        rig.client.status(&[put(&handle), read])
    };
    assert_eq!(read(delegation.stateid), Status::OK);
    let before = service.namespace.load_full();
    service.namespace.store(Arc::default());
    service.tick();
    service.namespace.store(before);
    assert_eq!(read(delegation.stateid), Status::DELEG_REVOKED);
    assert_eq!(read(open.stateid), Status::ADMIN_REVOKED);
    assert!(rig.volume.claims().is_empty());
}
