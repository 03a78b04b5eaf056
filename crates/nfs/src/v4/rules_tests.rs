//! Rules of exports: the state that they allow in every minor version, and for how long.

use crate::testing::rule;
use crate::testing::v4::back::Rig as CalledRig;
use crate::testing::v4::minors::{MINORS, Rig};
use crate::testing::v4::{at, opening, put};
use nfs_wire::v4::{
    Argument, CreateHow, Fattr, FreeStateidArgs, LockArgs, LockReply, LockType, Locker, LookupArgs, OpReply,
    OpenClaim, OpenFlag, OpenToLockOwner, ReadArgs, Reply, SequenceStatus, ShareAccess, ShareDeny,
    StateOwner, Stateid, Status,
};
use std::sync::Arc;
use vfs::{Caller, Export, ExportRule, Namespace, PendingSync, Volume};

const ROOT: (u32, u32) = (0, 0);
const READER: (u32, u32) = (1000, 100);
const DENY_BOTH: ShareDeny = ShareDeny(3);

impl Rig {
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

    /// The status of a withdrawn stateid.
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
        rig.client.env.user = READER;
        for deny in [1, 3].map(ShareDeny) {
            let refused = rig.open(b"w", ShareAccess::READ, deny);
            assert_eq!(refused, Err(Status::ACCESS), "4.{} {deny:?}", rig.minor);
        }
        rig.client.env.user = ROOT;
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
        let root = Arc::clone(&rig.client.env.service.namespace.load().exports()[0]).root();
        root.remove(&Caller::new(0, 0, []), b"f", &mut PendingSync::default()).unwrap();
        let attrmask = nfs_wire::v4::Bitmap::of(&[nfs_wire::v4::attr::MODE]);
        let how = CreateHow::Guarded(Fattr { attrmask, attr_vals: &0o400_u32.to_be_bytes() });
        let opened = rig.open_as((b"w", b"f"), ShareAccess::READ, DENY_BOTH, OpenFlag::Create(how));
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
        // A change of rules that still admits the client ends nothing.
        rig.serve(Some(rule(&["10.0.0.0/8"])));
        rig.client.env.service.tick(Default::default);
        assert_eq!(rig.read(&handle, lock), Status::OK);
        rig.serve(Some(ExportRule { read_only: true, ..rule(&[]) }));
        rig.client.env.service.tick(Default::default);
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
        // Ended state blocks no other client.
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
        rig.client.env.service.tick(Default::default);
        assert!(rig.open(b"r", ShareAccess::READ, ShareDeny::NONE).is_ok(), "4.{}", rig.minor);
    }
}

#[test]
fn open_that_an_older_rule_has_admitted_ends_at_the_next_look() {
    let rig = Rig::new(1);
    rig.client.env.service.tick(Default::default);
    let (before, handle) = (rig.client.env.service.namespace.load_full(), rig.client.handle(&[b"w", b"f"]));
    rig.serve(None);
    rig.client.env.service.tick(Default::default);
    // A slow call that began with the earlier namespace.
    let now = rig.client.env.service.namespace.swap(before);
    let states = rig.open(b"w", ShareAccess::READ, DENY_BOTH).unwrap();
    let service = &rig.client.env.service;
    let old = service.namespace.swap(now);
    service.v4.namespace_tracker.note_grant(&old, &service.namespace);
    rig.client.env.service.tick(Default::default);
    assert_eq!(rig.open(b"r", ShareAccess::READ, ShareDeny::NONE).map(drop), Ok(()));
    assert_eq!(rig.read(&handle, states), Status::STALE, "the export has gone");
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
    let (handle, service) = (handle.object.0.to_vec(), &rig.client.env.service);
    let read = |stateid| {
        let read = Argument::Read(ReadArgs { stateid, offset: 0, count: 1 });
        rig.client.status(&[put(&handle), read])
    };
    assert_eq!(read(delegation.stateid), Status::OK);
    let before = service.namespace.load_full();
    service.namespace.store(Arc::default());
    service.tick(Default::default);
    service.namespace.store(before);
    assert_eq!(read(delegation.stateid), Status::DELEG_REVOKED);
    assert_eq!(read(open.stateid), Status::ADMIN_REVOKED);
    assert!(rig.volume.claims().is_empty());
}

#[test]
fn refused_mount_is_known_to_the_log_in_every_minor_version() {
    for rig in MINORS.map(Rig::new) {
        let lookup = |name: &'static [u8]| {
            rig.client.status(&[Argument::Putrootfh, Argument::Lookup(LookupArgs { objname: name })])
        };
        let service = &rig.client.env.service;
        let origin = vfs::Origin::of(rig.client.env.peer.ip());
        assert_eq!(lookup(b"w"), Status::OK);
        assert!(service.refusals.add(origin, Some(&service.namespace.load().exports()[0])).is_some());
        assert_eq!(lookup(b"none"), Status::NOENT);
        assert_eq!(service.refusals.add(origin, None), None, "4.{} has logged it", rig.minor);
    }
}

#[test]
fn volume_that_closes_makes_clients_wait_and_ends_their_state() {
    for rig in MINORS.map(Rig::new) {
        let service = &rig.client.env.service;
        let export = |volume| Export::new("/w", volume, vec![rule(&[])]);
        let serve = |volume| service.namespace.store(Arc::new(Namespace::new([export(volume)])));
        serve(Arc::clone(&rig.volume));
        let opened = rig.open(b"w", ShareAccess::BOTH, ShareDeny(2)).unwrap();
        let handle = rig.client.handle(&[b"w", b"f"]);
        let lock = rig.lock(&handle, opened).unwrap();
        serve(Arc::new(placeholder(&rig.volume)));
        let getattr = || Argument::Getattr(nfs_wire::v4::GetattrArgs { attr_request: Default::default() });
        assert_eq!(rig.client.status(&[put(&handle), getattr()]), Status::DELAY, "4.{}", rig.minor);
        assert_eq!(rig.client.status(&at(&[b"w"], [getattr()])), Status::DELAY, "4.{}", rig.minor);
        assert_eq!(rig.open(b"w", ShareAccess::READ, ShareDeny::NONE), Err(Status::DELAY));
        service.tick(Default::default);
        assert_eq!(Arc::strong_count(&rig.volume), 1, "4.{}: it can close", rig.minor);
        assert!(rig.volume.claims().is_empty(), "4.{}", rig.minor);
        // The same storage, opened again.
        serve(Arc::new(rig.reopened()));
        for stateid in [opened, lock] {
            assert_eq!(rig.read(&handle, stateid), rig.withdrawn(), "4.{}", rig.minor);
        }
        rig.open(b"w", ShareAccess::BOTH, ShareDeny::NONE).unwrap();
    }
}

fn placeholder(volume: &Volume) -> Volume {
    Volume::placeholder(volume.id(), volume.name(), volume.durability(), 1)
}
