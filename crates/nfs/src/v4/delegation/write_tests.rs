//! Delegations to write as clients see them.

use super::tests::change;
use super::*;
use crate::testing::v4::back::{LEASE_S, Rig};
use crate::testing::v4::{at, put};
use nfs_wire::v3;
use nfs_wire::v4::attr;
use nfs_wire::v4::{
    Argument, CreateHow, Fattr, FreeStateidArgs, LinkArgs, LockArgs, LockType, Locker, LocktArgs, OpReply,
    OpenFlag, OpenToLockOwner, ReadArgs, ReadPlusArgs, RemoveArgs, RenameArgs, Reply, SequenceStatus,
    SetattrArgs, ShareDeny, StableHow, StateOwner, WriteArgs,
};
use xdr::Encode;

fn none(why: Refusal) -> Result<OpenDelegation<'static>, Status> {
    Ok(OpenDelegation::NoneExt(why))
}

/// Opening for reading and writing with a wish.
fn wants(want: ShareAccess) -> ShareAccess {
    ShareAccess(ShareAccess::BOTH.0 | want.0)
}

/// Tries an operation of another client on `f`. Returns its status.
fn deed(rig: &Rig, name: &str) -> Status {
    let handle = rig.client.handle(&[b"e", b"f"]);
    let dir = rig.client.handle(&[b"e"]);
    let (stateid, stable) = (Stateid::ANONYMOUS, StableHow::Unstable);
    let size = Fattr { attrmask: Bitmap::of(&[attr::SIZE]), attr_vals: &0_u64.to_bytes() };
    let mode = Fattr { attrmask: Bitmap::of(&[attr::MODE]), attr_vals: &0o600_u32.to_bytes() };
    let operations = match name {
        "OPEN to read" => {
            return rig.open(b"f", ShareAccess::READ).map_or_else(|status| status, |_| Status::OK);
        }
        "OPEN to write" => {
            return rig.open(b"f", ShareAccess::WRITE).map_or_else(|status| status, |_| Status::OK);
        }
        "READ" => vec![put(&handle), Argument::Read(ReadArgs { stateid, offset: 0, count: 1 })],
        "READ_PLUS" => vec![put(&handle), Argument::ReadPlus(ReadPlusArgs { stateid, offset: 7, count: 1 })],
        "WRITE" => vec![put(&handle), Argument::Write(WriteArgs { stateid, offset: 0, stable, data: b"x" })],
        "SETATTR of the size" => {
            vec![put(&handle), Argument::Setattr(SetattrArgs { stateid, obj_attributes: size })]
        }
        "SETATTR of the mode" => {
            vec![put(&handle), Argument::Setattr(SetattrArgs { stateid, obj_attributes: mode })]
        }
        "LINK" => {
            let link = Argument::Link(LinkArgs { newname: b"new" });
            vec![put(&handle), Argument::Savefh, put(&dir), link]
        }
        "REMOVE" => vec![put(&dir), Argument::Remove(RemoveArgs { target: b"f" })],
        "RENAME" => {
            let rename = Argument::Rename(RenameArgs { oldname: b"f", newname: b"new" });
            vec![put(&dir), Argument::Savefh, rename]
        }
        "RENAME over it" => {
            let rename = Argument::Rename(RenameArgs { oldname: b"g", newname: b"f" });
            vec![put(&dir), Argument::Savefh, rename]
        }
        "LOCKT" => {
            let owner = StateOwner { clientid: 0, owner: b"l" };
            let args = LocktArgs { locktype: LockType::Read, offset: 0, length: 1, owner };
            vec![put(&handle), Argument::Lockt(args)]
        }
        other => panic!("{other}"),
    };
    rig.client.status(&operations)
}

/// The operations that need no state.
const STATELESS: [&str; 8] = [
    "READ",
    "WRITE",
    "SETATTR of the size",
    "SETATTR of the mode",
    "LINK",
    "REMOVE",
    "RENAME",
    "RENAME over it",
];

#[test]
fn write_delegation_lasts_until_another_client_looks() {
    for name in ["OPEN to read", "OPEN to write", "LOCKT", "READ_PLUS"].into_iter().chain(STATELESS) {
        let mut rig = Rig::delegating_writes();
        rig.client.set_minor(2);
        let stateid = rig.delegated_to_write(b"f");
        assert_eq!(rig.as_writer(|rig| deed(rig, name)), Status::DELAY, "{name}");
        assert_eq!(rig.next_call().stateid(), stateid, "{name}");
        assert_eq!(rig.as_writer(|rig| deed(rig, name)), Status::DELAY, "{name}: it is not given back yet");
        assert_eq!(rig.give_back(b"f", stateid), Status::OK, "{name}");
        assert_eq!(rig.as_writer(|rig| deed(rig, name)), Status::OK, "{name}");
        assert!(rig.is_silent(), "{name}: it was asked once");
    }
}

#[test]
fn clients_of_version_4_0_and_3_ask_for_it_as_well() {
    for name in STATELESS {
        let mut rig = Rig::delegating_writes();
        let stateid = rig.delegated_to_write(b"f");
        assert_eq!(rig.as_40(|rig| deed(rig, name)), Status::DELAY, "{name}");
        assert_eq!(rig.next_call().stateid(), stateid, "{name}");
        assert_eq!(rig.give_back(b"f", stateid), Status::OK, "{name}");
        assert_eq!(rig.as_40(|rig| deed(rig, name)), Status::OK, "{name}");
    }
    for name in ["READ", "WRITE", "SETATTR", "REMOVE", "RENAME", "RENAME over it", "LINK"] {
        let rig = Rig::delegating_writes();
        let stateid = rig.delegated_to_write(b"f");
        assert_eq!(change(&rig, name), v3::Status::JUKEBOX.0, "{name}");
        assert_eq!(rig.next_call().stateid(), stateid, "{name}");
        assert_eq!(rig.give_back(b"f", stateid), Status::OK);
        assert_eq!(change(&rig, name), 0, "{name}");
    }
}

#[test]
fn locks_of_version_3_ask_for_it() {
    use nfs_wire::nlm::{Lock, LockArgs, Object, Procedure, Reply, Status, TestArgs};
    use xdr::{Decode, Reader};
    for tests in [false, true] {
        let rig = Rig::delegating_writes();
        let stateid = rig.delegated_to_write(b"f");
        let handle = rig.client.handle(&[b"e", b"f"]);
        let cookie = Object(b"c");
        let alock = Lock {
            caller_name: b"host",
            fh: Object(&handle),
            oh: Object(b"o"),
            svid: 1,
            l_offset: 0_u64,
            l_len: 0,
        };
        let ask = || {
            let env = &rig.client.env;
            let reply = if tests {
                env.ask(100_021, 4, Procedure::TEST.0, &TestArgs { cookie, exclusive: false, alock })
            } else {
                let (block, exclusive, reclaim, state) = (false, false, false, 3);
                let args = LockArgs { cookie, block, exclusive, alock, reclaim, state };
                env.ask(100_021, 4, Procedure::LOCK.0, &args)
            };
            Reply::decode(&mut Reader::new(&reply.unwrap())).unwrap().stat
        };
        assert_eq!(ask(), Status::DENIED_GRACE_PERIOD, "ask again");
        assert_eq!(rig.next_call().stateid(), stateid);
        assert_eq!(rig.give_back(b"f", stateid), super::Status::OK);
        assert_eq!(ask(), Status::GRANTED);
    }
}

#[test]
fn holder_of_write_delegation_is_not_recalled_by_itself() {
    for name in ["OPEN to read", "OPEN to write", "LOCKT"].into_iter().chain(STATELESS) {
        let rig = Rig::delegating_writes();
        rig.delegated_to_write(b"f");
        assert_eq!(deed(&rig, name), Status::OK, "{name}");
        assert!(rig.is_silent(), "{name}");
    }
}

#[test]
fn its_stateid_is_good_for_reading_and_writing() {
    let rig = Rig::delegating_writes();
    let stateid = rig.delegated_to_write(b"f");
    let handle = rig.client.handle(&[b"e", b"f"]);
    let write = WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: b"own" };
    assert_eq!(rig.client.status(&[put(&handle), Argument::Write(write)]), Status::OK);
    let read = Argument::Read(ReadArgs { stateid, offset: 0, count: 9 });
    match rig.client.ask(&[put(&handle), read]).all().last() {
        Some(OpReply::Read(Reply::Ok(ok))) => assert_eq!(ok.data, b"own"),
        other => panic!("{other:?}"),
    }
    let elsewhere = rig.client.handle(&[b"e", b"g"]);
    let write = WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: b"own" };
    assert_eq!(rig.client.status(&[put(&elsewhere), Argument::Write(write)]), Status::BAD_STATEID);
}

#[test]
fn one_who_asks_hears_why_there_is_none_to_write() {
    let mut rig = Rig::delegating_writes();
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_NO_DELEG)), none(NOT_WANTED));
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_READ_DELEG)), none(RESOURCE), "it is open for writing");
    rig.as_writer(|rig| rig.open(b"g", ShareAccess::READ)).unwrap();
    assert_eq!(rig.open(b"g", wants(ShareAccess::WANT_WRITE_DELEG)), none(CONTENTION), "another one reads");
    assert_eq!(rig.write(b"g"), Ok(OpenDelegation::None), "nothing of it is left");
    rig.delegated(b"h");
    let upgrade = rig.open(b"h", wants(ShareAccess::WANT_ANY_DELEG));
    assert_eq!(upgrade, none(NOT_SUPP_UPGRADE), "it has one to read");
    let rig = Rig::new();
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_WRITE_DELEG)), none(RESOURCE), "it is not wanted here");
}

#[test]
fn a_client_that_cannot_be_called_has_none() {
    let mut rig = Rig::delegating_writes();
    let opened = rig.as_writer(|rig| rig.open(b"f", wants(ShareAccess::WANT_WRITE_DELEG)));
    assert_eq!(opened, none(RESOURCE));
}

#[test]
fn ranges_that_others_hold_are_in_its_way() {
    let mut rig = Rig::delegating_writes();
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.as_writer(|rig| {
        let (open_stateid, _) = rig.opened(b"f", ShareAccess::READ);
        let owner = StateOwner { clientid: 0, owner: b"l" };
        let new = OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner: owner };
        let (locktype, locker) = (LockType::Read, Locker::New(new));
        let args = LockArgs { locktype, reclaim: false, offset: 0, length: 9, locker };
        assert_eq!(rig.client.status(&[put(&handle), Argument::Lock(args)]), Status::OK);
    });
    assert_eq!(rig.open(b"f", wants(ShareAccess::WANT_WRITE_DELEG)), none(CONTENTION));
}

#[test]
fn write_delegation_of_new_file_limits_its_growth() {
    let rig = Rig::delegating_writes();
    let attrs = Fattr { attrmask: Bitmap::EMPTY, attr_vals: &[] };
    let args = OpenArgs {
        seqid: 0,
        share_access: ShareAccess::WRITE,
        share_deny: ShareDeny::NONE,
        owner: StateOwner { clientid: 0, owner: b"o" },
        openhow: OpenFlag::Create(CreateHow::Guarded(attrs)),
        claim: OpenClaim::Null(b"new"),
    };
    let results = rig.client.ask(&at(&[b"e"], [Argument::Open(args)]));
    let all = results.all();
    let Some(OpReply::Open(Reply::Ok(ok))) = all.last() else { panic!("{all:?}") };
    let OpenDelegation::Write(write) = ok.delegation else { panic!("{ok:?}") };
    let available = rig.volume.stat().unwrap().bytes_available;
    assert_eq!(write.space_limit, SpaceLimit::Size(available / DELEGATIONS_MAX as u64));
    assert!(available / DELEGATIONS_MAX as u64 > 0, "there is room");
    assert_eq!((write.recall, write.permissions.access_mask), (false, Ace::default().access_mask));
}

#[test]
fn quota_of_the_owner_limits_growth_under_a_write_delegation() {
    let rig = Rig::delegating_writes();
    let limit = 100 * DELEGATIONS_MAX as u64;
    let target = vfs::QuotaTarget { kind: vfs::QuotaKind::User, id: Some(7) };
    let limits = vfs::QuotaLimits { bytes: Some(limit), ..vfs::QuotaLimits::default() };
    rig.volume.quotas().unwrap().set_rules(&[vfs::QuotaRule { target, limits }]).unwrap();
    let owner = [&[0, 0, 0, 1][..], b"7\0\0\0"].concat();
    let attrs = Fattr { attrmask: Bitmap::of(&[attr::OWNER]), attr_vals: &owner };
    let args = OpenArgs {
        seqid: 0,
        share_access: ShareAccess::WRITE,
        share_deny: ShareDeny::NONE,
        owner: StateOwner { clientid: 0, owner: b"o" },
        openhow: OpenFlag::Create(CreateHow::Guarded(attrs)),
        claim: OpenClaim::Null(b"new"),
    };
    let results = rig.client.ask(&at(&[b"e"], [Argument::Open(args)]));
    let all = results.all();
    let Some(OpReply::Open(Reply::Ok(ok))) = all.last() else { panic!("{all:?}") };
    let OpenDelegation::Write(write) = ok.delegation else { panic!("{ok:?}") };
    assert_eq!(write.space_limit, SpaceLimit::Size(100));
}

#[test]
fn unreturned_write_delegation_is_revoked_after_a_lease() {
    let mut rig = Rig::delegating_writes();
    let stateid = rig.delegated_to_write(b"f");
    let writers = Arc::clone(&rig.client.env.service.v4.writers);
    assert!(!writers.is_empty());
    assert_eq!(rig.as_writer(|rig| deed(rig, "READ")), Status::DELAY);
    rig.next_call();
    rig.pass(LEASE_S);
    assert_eq!(rig.as_writer(|rig| deed(rig, "READ")), Status::OK);
    assert!(rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
    assert_eq!(rig.state_of(stateid), Status::DELEG_REVOKED);
    let handle = rig.client.handle(&[b"e", b"f"]);
    let write = WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: b"late" };
    assert_eq!(rig.client.status(&[put(&handle), Argument::Write(write)]), Status::DELEG_REVOKED);
    assert_eq!(writers.len(), 1, "until it is freed");
    let free = Argument::FreeStateid(FreeStateidArgs { stateid });
    assert_eq!(rig.client.status(&[free]), Status::OK);
    assert_eq!(writers.len(), 0);
    assert!(!rig.flags().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
}

#[test]
fn write_delegations_are_counted_until_their_client_ends() {
    let mut rig = Rig::delegating_writes();
    let state = &rig.client.env.service.v4;
    let (all, writers) = (Arc::clone(&state.tables.delegations), Arc::clone(&state.writers));
    let counts = || (all.used(), writers.len());
    let stateid = rig.delegated_to_write(b"f");
    rig.delegated_to_write(b"g");
    rig.delegated(b"h");
    assert_eq!(counts(), (3, 2));
    assert_eq!(rig.give_back(b"f", stateid), Status::OK);
    assert_eq!(counts(), (2, 1));
    rig.client.restart(b"reader");
    rig.complete();
    assert_eq!(counts(), (0, 0));
    assert_eq!(rig.write(b"g"), Ok(OpenDelegation::None));
}
