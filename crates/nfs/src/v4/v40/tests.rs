use super::*;
use crate::testing::v4::{Client as Asker, at, put};
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::{
    CbClient, CloseArgs, CreateArgs, CreateHow, CreateType, DestroyClientidArgs, ExistLockOwner, Fattr,
    LockReply, LockType, LocktArgs, LockuArgs, NetAddr, NfsClientId, OpReply, OpenDowngradeArgs, OpenResult,
    ReadArgs, ReleaseLockownerArgs, RemoveArgs, RenewArgs, Reply as Result4, SetclientidArgs,
    SetclientidConfirmArgs, SetclientidReply, ShareDeny, StableHow, StateOwner, WriteArgs,
};
use vfs::Protection;

const E: &[u8] = b"e";
const PEER: &str = "10.1.0.9:700";
const LEASE_S: u64 = 30;

/// A client of 4.0 that has confirmed its introduction, and `/e` for it.
struct Host {
    asker: Asker,
    id: u64,
}

fn set_client_id(id: &[u8], verifier: u8) -> Argument<'_> {
    Argument::Setclientid(SetclientidArgs {
        client: NfsClientId { verifier: [verifier; 8], id },
        callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
        callback_ident: 0,
    })
}

fn close(open_stateid: Stateid, seqid: u32) -> Argument<'static> {
    Argument::Close(CloseArgs { seqid, open_stateid })
}

fn confirm(open_stateid: Stateid, seqid: u32) -> Argument<'static> {
    Argument::OpenConfirm(OpenConfirmArgs { open_stateid, seqid })
}

fn unlock(lock_stateid: Stateid, seqid: u32) -> Argument<'static> {
    Argument::Locku(LockuArgs { locktype: LockType::Write, seqid, lock_stateid, offset: 0, length: 10 })
}

fn relock(lock_stateid: Stateid, lock_seqid: u32, offset: u64) -> Argument<'static> {
    let locker = Locker::Existing(ExistLockOwner { lock_stateid, lock_seqid });
    Argument::Lock(LockArgs { locktype: LockType::Write, reclaim: false, offset, length: 10, locker })
}

fn read(stateid: Stateid) -> Argument<'static> {
    Argument::Read(ReadArgs { stateid, offset: 0, count: 10 })
}

impl Host {
    fn new() -> Self {
        Self::at(TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]))
    }

    fn at(env: TestEnv) -> Self {
        let mut host = Self { asker: Asker::new(env, 0), id: 0 };
        host.id = host.introduce(b"host", 1);
        host
    }

    /// The number of a client that introduces itself and confirms it.
    fn introduce(&self, name: &[u8], verifier: u8) -> u64 {
        let (clientid, setclientid_confirm) = self.ask_id(name, verifier).unwrap();
        let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
        assert_eq!(self.asker.status(&[Argument::SetclientidConfirm(confirm)]), Status::OK);
        clientid
    }

    fn ask_id(&self, name: &[u8], verifier: u8) -> Result<(u64, [u8; 8]), Vec<u8>> {
        match &*self.asker.ask(&[set_client_id(name, verifier)]).all() {
            [OpReply::Setclientid(SetclientidReply::Ok(ok))] => Ok((ok.clientid, ok.setclientid_confirm)),
            [OpReply::Setclientid(SetclientidReply::InUse(user))] => Err(user.r_addr.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    fn open_args<'a>(&self, owner: &'a [u8], seqid: u32, name: &'a [u8]) -> OpenArgs<'a> {
        OpenArgs {
            seqid,
            share_access: ShareAccess::BOTH,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: self.id, owner },
            openhow: OpenFlag::Create(CreateHow::Unchecked(Fattr::default())),
            claim: OpenClaim::Null(name),
        }
    }

    fn open(&self, args: OpenArgs<'_>) -> Result<(Stateid, OpenResult), Status> {
        match self.asker.ask(&at(&[E], [Argument::Open(args)])).all().last() {
            Some(OpReply::Open(Result4::Ok(ok))) => Ok((ok.stateid, ok.rflags)),
            Some(OpReply::Open(Result4::Err(status))) => Err(*status),
            other => panic!("{other:?}"),
        }
    }

    /// A confirmed open of an owner; its next sequence number is 3.
    fn opened(&self, owner: &[u8], name: &[u8]) -> Stateid {
        let (stateid, flags) = self.open(self.open_args(owner, 1, name)).unwrap();
        assert!(flags.contains(OpenResult::CONFIRM));
        self.asker.confirm_open(&[E, name], stateid, 2).unwrap()
    }

    fn on(&self, name: &[u8], argument: Argument<'_>) -> crate::testing::v4::Results {
        self.asker.ask(&at(&[E, name], [argument]))
    }

    fn status(&self, name: &[u8], argument: Argument<'_>) -> Status {
        self.on(name, argument).status()
    }

    fn lock<'a>(&self, open: Stateid, open_seqid: u32, owner: &'a [u8], lock_seqid: u32) -> Argument<'a> {
        let lock_owner = StateOwner { clientid: self.id, owner };
        let locker = Locker::New(OpenToLockOwner { open_seqid, open_stateid: open, lock_seqid, lock_owner });
        Argument::Lock(LockArgs { locktype: LockType::Write, reclaim: false, offset: 0, length: 10, locker })
    }

    fn locked(&self, argument: Argument<'_>) -> Stateid {
        match self.on(b"f", argument).all().last() {
            Some(OpReply::Lock(LockReply::Ok(stateid))) => *stateid,
            other => panic!("{other:?}"),
        }
    }

    fn renew(&self) -> Status {
        self.asker.status(&[Argument::Renew(RenewArgs { clientid: self.id })])
    }

    fn wait(&self, seconds: u64) {
        (0..seconds).for_each(|_| self.asker.env.service.v4.tick());
    }
}

#[test]
fn a_file_is_opened_confirmed_used_and_closed() {
    let host = Host::new();
    let (stateid, flags) = host.open(host.open_args(b"o", 7, b"f")).unwrap();
    assert!(flags.contains(OpenResult::CONFIRM));
    assert_eq!(host.status(b"f", close(stateid, 8)), Status::BAD_STATEID, "it is not confirmed");
    assert_eq!(host.status(b"f", confirm(stateid, 9)), Status::BAD_SEQID);
    assert_eq!(host.status(b"f", confirm(stateid, 8)), Status::OK);
    let confirmed = Stateid { seqid: 2, ..stateid };
    assert_eq!(host.status(b"f", confirm(confirmed, 9)), Status::BAD_STATEID, "once");
    let write = WriteArgs { stateid: confirmed, offset: 0, stable: StableHow::Unstable, data: b"0123456789" };
    assert_eq!(host.status(b"f", Argument::Write(write)), Status::OK);
    assert_eq!(host.status(b"f", read(stateid)), Status::OLD_STATEID);
    assert_eq!(host.status(b"f", read(Stateid { seqid: 0, ..stateid })), Status::BAD_STATEID, "no newest");
    assert_eq!(host.status(b"f", read(Stateid::ANONYMOUS)), Status::OK);
    assert_eq!(host.status(b"f", read(Stateid::READ_BYPASS)), Status::OK);
    let (again, flags) = host.open(host.open_args(b"o", 9, b"f")).unwrap();
    assert_eq!((again, flags.contains(OpenResult::CONFIRM)), (Stateid { seqid: 3, ..stateid }, false));
    assert_eq!(host.status(b"f", close(again, 10)), Status::OK);
    assert_eq!(host.status(b"f", read(again)), Status::BAD_STATEID);
}

#[test]
fn repeated_request_runs_once_and_gets_the_same_reply() {
    let host = Host::new();
    let open = || at(&[E], [Argument::Open(host.open_args(b"o", 1, b"f")), Argument::Getfh]);
    let first = host.asker.ask(&open());
    let again = host.asker.ask(&open());
    assert_eq!(first.all(), again.all(), "with the filehandle that it gave");
    let opened = host.opened(b"p", b"f");
    let downgrade = || {
        Argument::OpenDowngrade(OpenDowngradeArgs {
            open_stateid: opened,
            seqid: 3,
            share_access: ShareAccess::BOTH,
            share_deny: ShareDeny::NONE,
        })
    };
    assert_eq!(host.on(b"f", downgrade()).all(), host.on(b"f", downgrade()).all());
    let stateid = Stateid { seqid: 3, ..opened };
    let lock = || host.lock(stateid, 4, b"l", 50);
    let states = host.on(b"f", lock());
    assert_eq!((states.status(), states.all()), (Status::OK, host.on(b"f", lock()).all()));
    let denied = || host.lock(stateid, 5, b"m", 0);
    let refused = host.on(b"f", denied());
    assert_eq!((refused.status(), refused.all()), (Status::DENIED, host.on(b"f", denied()).all()));
    let Some(OpReply::Lock(LockReply::Ok(lock))) = states.all().last().cloned() else { panic!() };
    let unlocked = host.on(b"f", unlock(lock, 51));
    assert_eq!((unlocked.status(), unlocked.all()), (Status::OK, host.on(b"f", unlock(lock, 51)).all()));
    let closed = host.on(b"f", close(stateid, 6));
    assert_eq!((closed.status(), closed.all()), (Status::OK, host.on(b"f", close(stateid, 6)).all()));
    assert_eq!(host.status(b"f", close(stateid, 7)), Status::BAD_STATEID, "that is another request");
}

#[test]
fn another_request_with_the_same_number_is_no_repetition() {
    let host = Host::new();
    host.opened(b"o", b"f");
    let other = OpenArgs { share_access: ShareAccess::READ, ..host.open_args(b"o", 3, b"f") };
    assert!(host.open(host.open_args(b"o", 3, b"f")).is_ok());
    assert_eq!(host.open(other), Err(Status::BAD_SEQID));
    assert_eq!(host.open(host.open_args(b"o", 5, b"f")), Err(Status::BAD_SEQID), "one is missing");
    assert!(host.open(host.open_args(b"o", 4, b"f")).is_ok());
}

#[test]
fn failures_use_numbers_unless_they_are_of_the_request_itself() {
    let host = Host::new();
    let stateid = host.opened(b"o", b"f");
    let nowhere = OpenArgs { openhow: OpenFlag::NoCreate, ..host.open_args(b"o", 3, b"none") };
    assert_eq!(host.open(nowhere), Err(Status::NOENT));
    assert_eq!(host.open(nowhere), Err(Status::NOENT), "the reply is kept");
    assert_eq!(host.open(OpenArgs { seqid: 4, ..nowhere }), Err(Status::NOENT));
    let wishes = OpenArgs { share_access: ShareAccess::WANT_READ_DELEG | ShareAccess::READ, ..nowhere };
    assert_eq!(host.open(OpenArgs { seqid: 5, ..wishes }), Err(Status::INVAL), "4.0 has no wishes");
    assert_eq!(host.status(b"f", close(Stateid { seqid: 1, ..stateid }, 6)), Status::OLD_STATEID);
    let later = OpenArgs { claim: OpenClaim::Fh, ..host.open_args(b"o", 7, b"") };
    assert_eq!(host.status(b"f", Argument::Open(later)), Status::BADXDR, "nor claims of later versions");
    assert_eq!(host.asker.status(&[close(stateid, 7)]), Status::NOFILEHANDLE);
    assert_eq!(host.status(b"f", close(Stateid::ANONYMOUS, 7)), Status::BAD_STATEID);
    assert_eq!(host.status(b"f", close(stateid, 7)), Status::OK, "these have used none");
}

#[test]
fn an_owner_that_never_confirms_gives_way_to_its_next_open() {
    let host = Host::new();
    let denies = |seqid, name| OpenArgs { share_deny: ShareDeny::BOTH, ..host.open_args(b"o", seqid, name) };
    host.open(denies(1, b"f")).unwrap();
    let other = || host.open(host.open_args(b"p", 1, b"f"));
    assert_eq!(other(), Err(Status::SHARE_DENIED));
    host.open(denies(80, b"g")).unwrap();
    assert!(other().is_ok());
    assert_eq!(host.open(host.open_args(b"q", 1, b"g")), Err(Status::SHARE_DENIED));
    // Each client is checked once per lease.
    for _ in 0..3 {
        host.wait(LEASE_S / 2 + 6);
        assert_eq!(host.renew(), Status::OK);
    }
    assert!(host.open(host.open_args(b"q", 1, b"g")).is_ok(), "and is forgotten after a lease");
}

#[test]
fn lock_owners_number_their_own_requests() {
    let host = Host::new();
    let open = host.opened(b"o", b"f");
    let lock = host.locked(host.lock(open, 3, b"l", 9));
    assert_eq!(host.status(b"f", relock(lock, 12, 20)), Status::BAD_SEQID);
    let lock = host.locked(relock(lock, 10, 20));
    assert_eq!(host.status(b"f", relock(Stateid { seqid: 1, ..lock }, 11, 40)), Status::OLD_STATEID);
    let lock = host.locked(relock(lock, 12, 40));
    assert_eq!(host.status(b"f", host.lock(open, 4, b"l", 9)), Status::BAD_SEQID, "known by name, too");
    let lock = {
        let again = host.locked(host.lock(open, 4, b"l", 13));
        assert_eq!(again.other, lock.other);
        again
    };
    assert_eq!(host.status(b"f", unlock(lock, 14)), Status::OK);
    let stranger = Locker::New(OpenToLockOwner {
        open_seqid: 5,
        open_stateid: open,
        lock_seqid: 0,
        lock_owner: StateOwner { clientid: host.introduce(b"other", 1), owner: b"x" },
    });
    let args =
        LockArgs { locktype: LockType::Write, reclaim: false, offset: 0, length: 10, locker: stranger };
    assert_eq!(host.status(b"f", Argument::Lock(args)), Status::BAD_STATEID, "of another client");
}

#[test]
fn lock_owners_are_released_once_they_hold_nothing() {
    let host = Host::new();
    let open = host.opened(b"o", b"f");
    let lock = host.locked(host.lock(open, 3, b"l", 9));
    let owner = StateOwner { clientid: host.id, owner: b"l" };
    let release = || Argument::ReleaseLockowner(ReleaseLockownerArgs { lock_owner: owner });
    assert_eq!(host.asker.status(&[release()]), Status::LOCKS_HELD);
    assert_eq!(host.status(b"f", unlock(lock, 10)), Status::OK);
    assert_eq!(host.asker.status(&[release()]), Status::OK);
    assert_eq!(host.status(b"f", unlock(lock, 11)), Status::BAD_STATEID);
    assert_eq!(host.asker.status(&[release()]), Status::OK, "nobody of that name");
    host.locked(host.lock(open, 4, b"l", 1));
    let unknown = ReleaseLockownerArgs { lock_owner: StateOwner { clientid: 5, owner: b"l" } };
    assert_eq!(host.asker.status(&[Argument::ReleaseLockowner(unknown)]), Status::STALE_CLIENTID);
}

#[test]
fn stateids_tell_of_their_time() {
    let host = Host::new();
    let stateid = host.opened(b"o", b"f");
    let of = |client: u64| {
        let mut other = stateid.other;
        other[..8].copy_from_slice(&client.to_be_bytes());
        Stateid { other, ..stateid }
    };
    assert_eq!(host.status(b"f", read(of(host.id - (1 << 32)))), Status::STALE_STATEID, "an earlier start");
    assert_eq!(host.status(b"f", read(of(host.id + 1))), Status::STALE_STATEID, "no client yet");
    let (never_confirmed, _) = host.ask_id(b"other", 1).unwrap();
    assert_eq!(host.status(b"f", read(of(never_confirmed))), Status::EXPIRED);
    let mut args = host.open_args(b"o", 3, b"f");
    args.owner.clientid = never_confirmed;
    assert_eq!(host.open(args), Err(Status::EXPIRED));
    args.owner.clientid = 0;
    assert_eq!(host.open(args), Err(Status::STALE_CLIENTID));
    assert_eq!(host.status(b"f", read(stateid)), Status::OK);
}

#[test]
fn a_restarted_client_has_nothing() {
    let mut host = Host::new();
    let stateid = host.opened(b"o", b"f");
    assert_eq!(host.introduce(b"host", 1), host.id, "the same instance keeps all");
    assert_eq!(host.status(b"f", read(stateid)), Status::OK);
    let before = std::mem::replace(&mut host.id, 0);
    host.id = host.introduce(b"host", 2);
    assert_ne!(host.id, before);
    assert_eq!(host.status(b"f", read(stateid)), Status::EXPIRED);
    assert_eq!(host.renew(), Status::OK);
}

#[test]
fn a_stateid_is_of_no_use_to_other_hosts() {
    let mut host = Host::new();
    let stateid = host.opened(b"o", b"f");
    host.asker.reconnect("10.1.0.66:700");
    assert_eq!(host.status(b"f", read(stateid)), Status::EXPIRED);
    assert_eq!(host.renew(), Status::EXPIRED);
    assert_eq!(host.open(host.open_args(b"o", 3, b"f")), Err(Status::EXPIRED));
    assert_eq!(host.ask_id(b"host", 2), Err(b"10.1.0.9.0.0".to_vec()), "nor its name");
    assert_eq!(host.introduce(b"host", 1), host.id, "who knows its verifier has moved");
    assert_eq!(host.status(b"f", read(stateid)), Status::OK);
    host.asker.reconnect(PEER);
    host.asker.env.user = (5, 5);
    assert!(host.ask_id(b"host", 1).is_err(), "another user");
}

#[test]
fn state_made_under_tls_is_unusable_in_clear() {
    let mut host = Host::new();
    host.asker.env.protection = Protection::Encrypted;
    host.id = host.introduce(b"host", 1);
    let stateid = host.opened(b"o", b"f");
    assert_eq!(host.renew(), Status::OK);
    for other in [Protection::Plain, Protection::Verified] {
        host.asker.env.protection = other;
        host.asker.reconnect(PEER);
        assert_eq!(host.renew(), Status::EXPIRED, "{other:?}");
        assert_eq!(host.status(b"f", read(stateid)), Status::EXPIRED);
        assert_eq!(host.status(b"f", close(stateid, 2)), Status::EXPIRED);
    }
    host.asker.env.protection = Protection::Encrypted;
    host.asker.reconnect(PEER);
    assert_eq!(host.status(b"f", read(stateid)), Status::OK);
}

#[test]
fn an_expired_client_keeps_all_until_somebody_wants_some_of_it() {
    let mut host = Host::new();
    let stateid = host.opened(b"o", b"f");
    let lock = host.locked(host.lock(stateid, 3, b"l", 0));
    host.wait(LEASE_S + 2);
    assert_eq!(host.status(b"f", read(stateid)), Status::OK, "nobody did");
    host.wait(LEASE_S + 2);
    let first = host.id;
    host.id = host.introduce(b"other", 1);
    let open = host.opened(b"o", b"f");
    host.locked(host.lock(open, 3, b"l", 0));
    assert_eq!(host.renew(), Status::OK);
    host.id = first;
    assert_eq!(host.status(b"f", unlock(lock, 1)), Status::EXPIRED);
    assert_eq!(host.renew(), Status::EXPIRED);
    assert_eq!(host.status(b"f", read(stateid)), Status::EXPIRED, "all of it has gone");
}

#[test]
fn leases_are_kept_by_whatever_names_the_client() {
    let host = Host::new();
    let stateid = host.opened(b"o", b"f");
    let lockt = || {
        let owner = StateOwner { clientid: host.id, owner: b"t" };
        Argument::Lockt(LocktArgs { locktype: LockType::Read, offset: 0, length: 1, owner })
    };
    let denies = |seqid| OpenArgs { share_deny: ShareDeny::WRITE, ..host.open_args(b"x", seqid, b"f") };
    for argument in [read(stateid), lockt(), Argument::Renew(RenewArgs { clientid: host.id })] {
        host.wait(LEASE_S - 1);
        assert_eq!(host.status(b"f", argument), Status::OK);
    }
    host.wait(2);
    assert_eq!(host.open(denies(1)), Err(Status::SHARE_DENIED), "it was heard within a lease");
}

#[test]
fn a_client_of_one_kind_is_none_of_the_other() {
    let host = Host::new();
    assert_eq!(host.asker.env.service.v4.client(host.id).err(), Some(Status::STALE_CLIENTID));
    let destroy = Argument::DestroyClientid(DestroyClientidArgs { clientid: host.id });
    let mut host = host;
    host.asker.set_minor(1);
    assert_eq!(host.asker.run_alone(&destroy).status(), Status::STALE_CLIENTID);
}

#[test]
fn a_file_that_has_gone_can_be_closed() {
    let host = Host::new();
    let stateid = host.opened(b"o", b"f");
    let handle = host.asker.handle(&[E, b"f"]);
    let remove = Argument::Remove(RemoveArgs { target: b"f" });
    assert_eq!(host.asker.status(&at(&[E], [remove])), Status::OK);
    assert_eq!(host.asker.status(&[put(&handle), close(stateid, 3)]), Status::OK);
    assert_eq!(host.asker.status(&[put(&handle), close(stateid, 3)]), Status::STALE);
}

#[test]
fn deny_mode_binds_its_owner_and_anonymous_stateids() {
    let host = Host::new();
    let args = OpenArgs { share_deny: ShareDeny::READ, ..host.open_args(b"o", 1, b"f") };
    let (stateid, _) = host.open(args).unwrap();
    assert_eq!(host.status(b"f", confirm(stateid, 2)), Status::OK);
    let stateid = Stateid { seqid: 2, ..stateid };
    let again = OpenArgs { share_access: ShareAccess::READ, ..host.open_args(b"o", 3, b"f") };
    assert_eq!(host.open(again), Err(Status::SHARE_DENIED));
    assert_eq!(host.status(b"f", read(Stateid::ANONYMOUS)), Status::LOCKED);
    assert_eq!(host.status(b"f", read(stateid)), Status::OK);
}

#[test]
fn another_user_may_with_a_stateid_what_the_mode_lets_it_do() {
    let mut host = Host::new();
    let stateid = host.opened(b"o", b"f");
    let write = || WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: b"x" };
    host.asker.env.user = (5, 5);
    assert_eq!(host.status(b"f", Argument::Write(write())), Status::ACCESS);
    assert_eq!(host.status(b"f", read(stateid)), Status::OK, "all may");
    host.asker.env.user = (0, 0);
    assert_eq!(host.status(b"f", Argument::Write(write())), Status::OK);
}

#[test]
fn an_open_that_waits_for_a_delegation_uses_its_number_once_it_is_refused() {
    let rig = crate::testing::v4::back::Rig::new();
    rig.delegated(b"f");
    let host = Host::at(rig.client.env);
    host.opened(b"o", b"g");
    let open = |seqid, name| host.open(host.open_args(b"o", seqid, name)).map(drop);
    assert_eq!(open(3, b"f"), Err(Status::DELAY), "although it was put off");
    assert_eq!(open(3, b"f"), Err(Status::DELAY), "that was the reply");
    assert_eq!(open(4, b"f"), Err(Status::DELAY));
    assert_eq!(open(5, b"h"), Ok(()));
    let call = rig.calls.recv_timeout(std::time::Duration::from_secs(20));
    assert!(call.is_ok(), "its holder was asked");
}

#[test]
fn locks_are_of_regular_files() {
    let host = Host::new();
    let owner = || StateOwner { clientid: host.id, owner: b"t" };
    let lockt = || LocktArgs { locktype: LockType::Read, offset: 0, length: 1, owner: owner() };
    let make = |objname, objtype| {
        let args = CreateArgs { objtype, objname, createattrs: Fattr::default() };
        assert_eq!(host.asker.status(&at(&[E], [Argument::Create(args)])), Status::OK);
    };
    make(b"dir", CreateType::Directory);
    make(b"link", CreateType::Symlink(b"f"));
    make(b"fifo", CreateType::Fifo);
    for (name, status) in [(&b"dir"[..], Status::ISDIR), (b"link", Status::SYMLINK), (b"fifo", Status::INVAL)]
    {
        assert_eq!(host.status(name, Argument::Lockt(lockt())), status);
    }
}

#[test]
fn a_client_that_has_lost_something_begins_anew() {
    let mut host = Host::new();
    let stateid = host.opened(b"o", b"f");
    host.wait(LEASE_S + 2);
    let first = std::mem::replace(&mut host.id, 0);
    host.id = host.introduce(b"other", 1);
    let denies = OpenArgs { share_deny: ShareDeny::BOTH, ..host.open_args(b"o", 1, b"f") };
    host.open(denies).unwrap();
    host.id = host.introduce(b"host", 1);
    assert_ne!(host.id, first);
    assert_eq!(host.status(b"f", read(stateid)), Status::EXPIRED);
    assert_eq!(host.renew(), Status::OK, "it has heard that with its new number");
}

#[test]
fn compounds_are_bounded_where_no_session_bounds_them() {
    use crate::limits::{COMPOUND_OPERATIONS_MAX, RECORD_BYTES_MAX};
    let host = Host::new();
    let count = COMPOUND_OPERATIONS_MAX as usize;
    let ask = |operations: usize| {
        let results = host.asker.ask(&vec![Argument::Putrootfh; operations]);
        (results.status(), results.all().len())
    };
    assert_eq!(ask(count), (Status::OK, count));
    assert_eq!(ask(count + 1), (Status::RESOURCE, 1));
    let stateid = host.opened(b"o", b"f");
    let data = vec![7; 400 << 10];
    let write = WriteArgs { stateid, offset: 0, stable: StableHow::Unstable, data: &data };
    assert_eq!(host.status(b"f", Argument::Write(write)), Status::OK);
    let read = || Argument::Read(ReadArgs { stateid, offset: 0, count: 400 << 10 });
    let results = host.asker.ask(&at(&[E, b"f"], [read(), read(), read()]));
    let bytes: usize = results.all().iter().map(|result| result.to_bytes().len()).sum();
    assert_eq!(results.status(), Status::RESOURCE);
    assert!(bytes < RECORD_BYTES_MAX && bytes > 800 << 10, "{bytes}");
}

#[test]
fn a_flood_of_introductions_from_one_address_drives_out_nobody_else() {
    let mut host = Host::new();
    host.asker.reconnect("10.1.0.7:700");
    let (clientid, setclientid_confirm) = host.ask_id(b"slow", 1).unwrap();
    host.asker.reconnect("10.1.0.66:700");
    for number in 0..4000u32 {
        host.ask_id(&number.to_be_bytes(), 1).unwrap();
    }
    host.asker.reconnect("10.1.0.7:700");
    let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
    assert_eq!(host.asker.status(&[Argument::SetclientidConfirm(confirm)]), Status::OK);
    host.asker.reconnect(PEER);
    assert_eq!(host.renew(), Status::OK);
}

#[test]
fn no_status_of_later_versions_is_said() {
    use crate::v4::table::status_in;
    assert_eq!(status_in(0, Status::WRONG_TYPE), Status::INVAL);
    assert_eq!(status_in(0, Status::OP_NOT_IN_SESSION), Status::SERVERFAULT);
    for status in [Status::CB_PATH_DOWN, Status::NOENT, Status::DELAY, Status::RESOURCE] {
        assert_eq!(status_in(0, status), status);
    }
    assert_eq!(status_in(1, Status::WRONG_TYPE), Status::WRONG_TYPE);
}
