//! Opens and locks over a restart of the service.

use super::*;
use crate::state::nfs4;
use crate::state::nfs4::records::ClientRecords;
use crate::testing::v4::{Client, at, opening, put};
use crate::testing::{NOW, TestEnv, rule};
use nfs_wire::v4::{
    Argument, CbClient, DelegationType, DelegreturnArgs, LinkArgs, LockArgs, LockType, Locker, NetAddr,
    NfsClientId, OpReply, OpenConfirmArgs, OpenDelegation, OpenToLockOwner, ReadArgs, ReclaimCompleteArgs,
    RemoveArgs, RenameArgs, Reply, SetclientidArgs, SetclientidConfirmArgs, SetclientidOk, SetclientidReply,
};
use stable::TestDir;
use std::cell::Cell;
use vfs::claims::Grace;
use vfs::qos::Nanos;
use vfs::{Durability, Export, Namespace, Volume, VolumeId};
use vfs_testing::MemFs;

/// A service with a volume, its records, and a client.
struct Rig {
    fs: MemFs,
    dir: TestDir,
    grace: Grace,
    client: Client,
    /// In 4.0, the client's number and that of its owner's last request.
    clientid: u64,
    seqid: Cell<u32>,
}

const END: Nanos = Nanos(45_000_000_000);

impl Rig {
    fn new() -> Self {
        let fs = MemFs::new(Arc::new(|| NOW));
        let client = Client::new(TestEnv::new([], vec![]), 0);
        let (clientid, seqid) = (0, Cell::new(0));
        let mut rig = Self { fs, dir: TestDir::new(), grace: Grace::default(), client, clientid, seqid };
        rig.restart();
        rig
    }

    /// Ends the service and starts it again: only files and records stay.
    fn restart(&mut self) {
        // The directory can be reopened once the service is dropped.
        (self.client, self.grace) = (Client::new(TestEnv::new([], vec![]), 0), Grace::default());
        let records = Arc::new(ClientRecords::open(&self.dir.open(), 1).unwrap());
        let recorded = Arc::clone(&records);
        let grace = Grace::ending_with(END, records.expected(), move || recorded.end_grace().is_ok());
        let volume = Volume::new(VolumeId(1), "e", Arc::new(self.fs.clone()), Durability::Sync, 1);
        let export = Export::new("/e", Arc::new(volume.with_grace(grace.clone())), vec![rule(&[])]);
        let mut env = TestEnv::new([], vec![]);
        env.service.namespace.store(Arc::new(Namespace::new([export])));
        env.service.v4 = nfs4::ServiceState::new(0, b"tests", 30).restarted_with(records, grace.clone());
        (self.client, self.grace) = (Client::new(env, 1), grace);
    }

    /// From now on it is the client of 4.0 with this name.
    fn speak_40(&mut self, id: &[u8]) {
        let idle = Client::new(TestEnv::new([], vec![]), 0);
        self.client = Client::new(std::mem::replace(&mut self.client, idle).env, 0);
        let introduction = SetclientidArgs {
            client: NfsClientId { verifier: [1; 8], id },
            callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
            callback_ident: 0,
        };
        let introduced = self.client.ask(&[Argument::Setclientid(introduction)]);
        let [OpReply::Setclientid(SetclientidReply::Ok(ok))] = &*introduced.all() else { panic!() };
        let SetclientidOk { clientid, setclientid_confirm } = *ok;
        let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
        assert_eq!(self.client.status(&[Argument::SetclientidConfirm(confirm)]), Status::OK);
        (self.clientid, self.seqid) = (clientid, Cell::new(0));
    }

    fn next_seqid(&self) -> u32 {
        self.seqid.set(self.seqid.get() + 1);
        self.seqid.get()
    }

    fn confirm(&self, handle: &[u8], open_stateid: Stateid) -> Stateid {
        let confirm = OpenConfirmArgs { open_stateid, seqid: self.next_seqid() };
        match self.client.ask(&[put(handle), Argument::OpenConfirm(confirm)]).all().last() {
            Some(OpReply::OpenConfirm(Reply::Ok(stateid))) => *stateid,
            other => panic!("{other:?}"),
        }
    }

    fn complete(&self) -> Status {
        self.client.status(&[Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })])
    }

    fn open(&self, path: &[&[u8]], claim: OpenClaim<'_>, openhow: OpenFlag<'_>) -> Result<Stateid, Status> {
        self.open_at(&at(path, []), claim, openhow)
    }

    fn open_at(
        &self,
        place: &[Argument<'_>],
        claim: OpenClaim<'_>,
        openhow: OpenFlag<'_>,
    ) -> Result<Stateid, Status> {
        let args = OpenArgs {
            seqid: self.next_seqid(),
            share_access: ShareAccess(3),
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: self.clientid, owner: b"o" },
            openhow,
            claim,
        };
        let all: Vec<_> = place.iter().cloned().chain([Argument::Open(args)]).collect();
        let results = self.client.ask(&all);
        match results.all().last() {
            Some(OpReply::Open(Reply::Ok(ok))) => Ok(ok.stateid),
            _ => Err(results.status()),
        }
    }

    fn open_new(&self) -> Result<Stateid, Status> {
        let attrs = nfs_wire::v4::Fattr { attrmask: Bitmap::EMPTY, attr_vals: &[] };
        self.open(&[b"e"], OpenClaim::Null(b"f"), OpenFlag::Create(CreateHow::Unchecked(attrs)))
    }

    fn reclaim(&self, handle: &[u8]) -> Result<Stateid, Status> {
        self.open_at(&[put(handle)], OpenClaim::Previous(DelegationType::None), OpenFlag::NoCreate)
    }

    fn lock(&self, handle: &[u8], open_stateid: Stateid, reclaim: bool) -> Status {
        let lock_owner = StateOwner { clientid: self.clientid, owner: b"l" };
        let new = OpenToLockOwner { open_seqid: self.next_seqid(), open_stateid, lock_seqid: 0, lock_owner };
        let locker = Locker::New(new);
        let args = LockArgs { locktype: LockType::Write, reclaim, offset: 0, length: 9, locker };
        self.client.status(&[put(handle), Argument::Lock(args)])
    }
}

#[test]
fn lock_before_a_restart_is_reclaimed_by_its_client_only() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    let open = rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    assert_eq!(rig.lock(&handle, open, false), Status::OK);

    rig.restart();
    rig.client.be(b"other");
    assert_eq!(rig.reclaim(&handle), Err(Status::NO_GRACE), "it was not there");
    assert_eq!(rig.complete(), Status::OK);
    assert_eq!(rig.open_new(), Err(Status::GRACE));
    let read = Argument::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count: 9 });
    assert_eq!(rig.client.status(&[put(&handle), read.clone()]), Status::GRACE);
    assert_eq!(rig.reclaim(&handle), Err(Status::NO_GRACE));

    rig.client.be(b"client");
    assert_eq!(rig.open_new(), Err(Status::GRACE), "it has not said that it has all");
    let open = rig.reclaim(&handle).unwrap();
    assert_eq!(rig.lock(&handle, open, true), Status::OK);
    assert_eq!(rig.complete(), Status::OK);
    assert!(!rig.grace.is_active(), "nobody is waited for any longer");
    assert_eq!(rig.reclaim(&handle), Err(Status::NO_GRACE), "too late");

    rig.client.be(b"other");
    let open = rig.open_new().unwrap();
    assert_eq!(rig.lock(&handle, open, false), Status::DENIED);
    assert_eq!(rig.client.status(&[put(&handle), read]), Status::OK);
}

impl Rig {
    /// From now on the export is for 10.1.0.0/16 alone.
    fn admit_some(&self) {
        let namespace = self.client.env.service.namespace.load_full();
        let served = &namespace.exports()[0];
        let export = Export::new("/e", Arc::clone(&served.volume), vec![rule(&["10.1.0.0/16"])]);
        self.client.env.service.namespace.store(Arc::new(Namespace::new([export])));
    }
}

#[test]
fn a_stranger_takes_no_name_of_a_client_that_comes_back_after_a_restart() {
    let mut rig = Rig::new();
    rig.client.be(b"host");
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.restart();
    rig.admit_some();
    rig.client.reconnect("192.0.2.1:700");
    rig.client.restart(b"host");
    assert_eq!(rig.complete(), Status::OK);
    assert!(rig.grace.is_active(), "the one that it says to be is still waited for");
    rig.client.reconnect("10.1.0.10:700");
    assert_eq!(
        rig.client.try_session(b"host"),
        Err(Status::DELAY),
        "nor does a host that may mount, for now"
    );
    rig.client.reconnect("10.1.0.9:701");
    rig.client.be(b"host");
    assert!(rig.reclaim(&handle).is_ok());
    rig.grace.expire(END);
    rig.client.reconnect("10.1.0.10:700");
    rig.client.lose_memory();
    assert_eq!(rig.client.try_session(b"host"), Err(Status::CLID_INUSE));
}

#[test]
fn a_stranger_takes_no_name_of_a_client_of_40_that_comes_back_after_a_restart() {
    let mut rig = Rig::new();
    rig.speak_40(b"host");
    let open = rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.confirm(&handle, open);
    rig.restart();
    rig.admit_some();
    rig.client.env.peer = "192.0.2.1:700".parse().unwrap();
    rig.speak_40(b"host");
    rig.client.env.peer = "10.1.0.9:701".parse().unwrap();
    rig.speak_40(b"host");
    assert!(rig.reclaim(&handle).is_ok());
}

#[test]
fn a_stranger_is_recorded_once_it_may_open_a_file() {
    let mut rig = Rig::new();
    rig.admit_some();
    rig.client.reconnect("192.0.2.1:700");
    rig.client.restart(b"host");
    assert_eq!(rig.complete(), Status::OK);
    let recorded = |rig: &mut Rig| {
        rig.restart();
        rig.client.env.service.v4.are_opens_reclaimed()
    };
    assert!(!recorded(&mut rig), "what no rule admits costs no flush");
    rig.admit_some();
    rig.client.reconnect("192.0.2.1:700");
    rig.client.restart(b"host");
    assert_eq!(rig.complete(), Status::OK);
    let all = rig.client.env.service.namespace.load().exports()[0].volume.clone();
    let export = Export::new("/e", all, vec![rule(&[])]);
    rig.client.env.service.namespace.store(Arc::new(Namespace::new([export])));
    rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    assert!(recorded(&mut rig));
    rig.client.reconnect("192.0.2.1:700");
    rig.client.be(b"host");
    assert!(rig.reclaim(&handle).is_ok(), "it is the one that was recorded");
}

#[test]
fn a_client_of_40_has_the_whole_time_to_claim_what_it_had() {
    let mut rig = Rig::new();
    rig.speak_40(b"host");
    let open = rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    let open = rig.confirm(&handle, open);
    assert_eq!(rig.lock(&handle, open, false), Status::OK);

    rig.restart();
    rig.speak_40(b"other");
    assert_eq!(rig.reclaim(&handle), Err(Status::NO_GRACE), "it was not there");
    rig.speak_40(b"stranger");
    assert_eq!(rig.open_new(), Err(Status::GRACE));
    rig.speak_40(b"host");
    let open = rig.reclaim(&handle).unwrap();
    assert_eq!(rig.lock(&handle, open, true), Status::OK, "there is nothing to confirm");
    assert!(rig.grace.is_active(), "it does not say when it has all");
    rig.grace.expire(END);
    assert_eq!(rig.reclaim(&handle), Err(Status::NO_GRACE), "too late");

    rig.speak_40(b"new");
    let open = rig.open_new().unwrap();
    let open = rig.confirm(&handle, open);
    assert_eq!(rig.lock(&handle, open, false), Status::DENIED);
    rig.restart();
    rig.speak_40(b"host");
    assert!(rig.reclaim(&handle).is_ok(), "what it claimed it may claim again");
}

#[test]
fn late_clients_cannot_reclaim_after_the_next_restart() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.restart();
    assert!(rig.grace.is_active());
    rig.grace.expire(END);
    rig.client.be(b"other");
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    rig.restart();
    assert_eq!(rig.reclaim(&handle), Err(Status::NO_GRACE), "others may have had it meanwhile");
    rig.client.be(b"other");
    rig.reclaim(&handle).unwrap();
}

#[test]
fn expired_client_cannot_reclaim_after_a_restart() {
    for is_back in [false, true] {
        let mut rig = Rig::new();
        assert_eq!(rig.complete(), Status::OK);
        rig.open_new().unwrap();
        let handle = rig.client.handle(&[b"e", b"f"]);
        (0..31).for_each(|_| rig.client.env.service.v4.tick());
        if is_back {
            assert_eq!(rig.client.status(&[Argument::Putrootfh]), Status::OK);
        }
        rig.restart();
        assert_eq!(rig.reclaim(&handle).is_ok(), is_back);
    }
}

#[test]
fn client_seen_during_expiry_keeps_its_state() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    let open = rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    assert_eq!(rig.lock(&handle, open, false), Status::OK);
    let state = &rig.client.env.service.v4;
    let client = Arc::clone(&state.session(&rig.client.session_id()).unwrap().client);
    (0..30).for_each(|_| state.tick());
    // The next tick found it silent just before this request.
    assert_eq!(rig.client.status(&[Argument::Putrootfh]), Status::OK);
    state.expire_lease(&client);
    rig.client.be(b"other");
    assert_eq!(rig.complete(), Status::OK);
    let theirs = rig.open_new().unwrap();
    assert_eq!(rig.lock(&handle, theirs, false), Status::DENIED);
    rig.restart();
    assert!(rig.reclaim(&handle).is_ok(), "it is on record");
}

#[test]
fn nothing_is_made_while_opens_are_claimed_again() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    rig.restart();
    let make = |rig: &Rig, name: &[u8]| {
        let attrs = nfs_wire::v4::Fattr { attrmask: Bitmap::EMPTY, attr_vals: &[] };
        let guarded = OpenFlag::Create(CreateHow::Guarded(attrs));
        rig.open(&[b"e"], OpenClaim::Null(name), guarded).map(drop)
    };
    rig.client.be(b"other");
    assert_eq!(rig.complete(), Status::OK);
    assert_eq!(make(&rig, b"new"), Err(Status::GRACE));
    rig.speak_40(b"another");
    assert_eq!(make(&rig, b"newer"), Err(Status::GRACE));
    rig.grace.expire(END);
    assert_eq!([make(&rig, b"new"), make(&rig, b"newer")], [Ok(()), Ok(())]);
}

/// Opens a file as before a restart, with the delegation of it that there was.
fn claim(rig: &Rig, handle: &[u8], access: u32, kind: DelegationType) -> Option<(DelegationType, Stateid)> {
    let args = opening(OpenClaim::Previous(kind), ShareAccess(access));
    let results = rig.client.ask(&[put(handle), Argument::Open(args)]);
    match results.all().last() {
        Some(OpReply::Open(Reply::Ok(ok))) => match ok.delegation {
            OpenDelegation::Read(read) => Some((DelegationType::Read, read.stateid)),
            OpenDelegation::Write(write) => Some((DelegationType::Write, write.stateid)),
            other => {
                assert_eq!(other, OpenDelegation::None);
                None
            }
        },
        _ => panic!("{:?}", results.status()),
    }
}

#[test]
fn a_delegation_to_write_is_claimed_again_where_there_are_any() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.restart();
    rig.client.env.service.v4.delegates_writing = true;
    let (kind, _) = claim(&rig, &handle, 1, DelegationType::Write).expect("it was opened to read later");
    assert_eq!(kind, DelegationType::Write);
    assert_eq!(claim(&rig, &handle, 3, DelegationType::Write), None, "it has it");
    assert_eq!(rig.complete(), Status::OK);
}

#[test]
fn a_delegation_to_read_is_claimed_again() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);
    rig.restart();
    let claim = |access, kind| claim(&rig, &handle, access, kind).map(|(_, stateid)| stateid);
    assert_eq!(claim(1, DelegationType::None), None);
    assert_eq!(claim(1, DelegationType::Write), None, "nobody had one");
    let deleg_stateid = claim(1, DelegationType::Read).unwrap();
    assert_eq!(claim(1, DelegationType::Read), None, "it has it");
    let give_back = Argument::Delegreturn(DelegreturnArgs { deleg_stateid });
    assert_eq!(rig.client.status(&[put(&handle), give_back]), Status::OK);
    assert_eq!(claim(3, DelegationType::Read), None, "opened for writing");
}

impl Rig {
    /// Tries to link, rename and remove `f`.
    fn name_changes(&self) -> [Status; 3] {
        let (top, file) = (self.client.handle(&[b"e"]), self.client.handle(&[b"e", b"f"]));
        let moves = Argument::Rename(RenameArgs { oldname: b"f", newname: b"g" });
        let links = Argument::Link(LinkArgs { newname: b"h" });
        let removes = Argument::Remove(RemoveArgs { target: b"h" });
        [
            self.client.status(&[put(&file), Argument::Savefh, put(&top), links]),
            self.client.status(&[put(&top), Argument::Savefh, put(&top), moves]),
            self.client.status(&[put(&top), removes]),
        ]
    }
}

#[test]
fn names_stay_while_opens_are_claimed_again() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    let handle = rig.client.handle(&[b"e", b"f"]);

    rig.restart();
    rig.client.be(b"other");
    assert_eq!(rig.complete(), Status::OK);
    assert_eq!(rig.name_changes(), [Status::GRACE; 3]);
    rig.client.be(b"client");
    rig.reclaim(&handle).unwrap();
    assert_eq!(rig.complete(), Status::OK);
    assert_eq!(rig.name_changes(), [Status::OK; 3], "the grace period has ended");
}

#[test]
fn names_change_where_only_hosts_of_nfsv3_are_waited_for() {
    let mut rig = Rig::new();
    assert_eq!(rig.complete(), Status::OK);
    rig.open_new().unwrap();
    let grace = Grace::new(END, [vfs::claims::RecordId(1)]);
    let state = nfs4::ServiceState::new(0, b"tests", 30);
    rig.client.env.service.v4 = state.restarted_with(Arc::new(ClientRecords::in_memory(1)), grace.clone());
    rig.client.restart(b"client");
    assert!(grace.is_active());
    assert_eq!(rig.name_changes(), [Status::OK; 3]);
}
