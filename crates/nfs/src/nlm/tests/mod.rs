use crate::limits::{CLIENT_LOCK_WAITS_MAX, CLIENT_LOCKS_MAX, LOCK_OFFER_S, LOCK_OWNER_BYTES_MAX};
use crate::outgoing::tests::{Host, LONG};
use crate::state::nlm::Locks;
use crate::testing::{TestEnv, rule, words};
use nfs_wire::nlm::*;
use nfs_wire::nsm;
use nfs_wire::rpc::{Accepted, Versions};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vfs::claims::{Grace, RecordId};
use vfs::qos::Nanos;
use vfs::{Backend, Durability, Export, ExportRule, Name, NewInode, Time, Volume, VolumeId};
use vfs_testing::UncheckedNode;
use xdr::{Decode, Encode, Reader};

mod hostile;
mod rules;
mod snapshots;

const NOW: Time = crate::testing::NOW;
/// Two clients of the export, and an address that it does not admit.
const ANN: &str = "10.1.0.9:700";
const BEN: &str = "10.1.0.10:701";
const EVE: &str = "192.0.2.1:702";

struct LockTest {
    env: TestEnv,
    volume: Arc<Volume>,
    fs: vfs_testing::MemFs,
    clock: Arc<AtomicU64>,
    file: Vec<u8>,
    dir: Vec<u8>,
}

#[derive(Clone, Copy)]
struct LockSpec {
    svid: u32,
    range: (u64, u64),
    exclusive: bool,
    block: bool,
    reclaim: bool,
    state: u32,
}

const WHOLE: LockSpec =
    LockSpec { svid: 1, range: (0, 0), exclusive: true, block: false, reclaim: false, state: 3 };

fn bytes(start: u64, len: u64) -> LockSpec {
    LockSpec { range: (start, len), ..WHOLE }
}

impl LockTest {
    fn new() -> Self {
        Self::with(Grace::default(), Locks::default(), rule(&["10.1.0.0/16", "127.0.0.0/8"]))
    }

    fn with(grace: Grace, locks: Locks, rule: ExportRule) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let fs = vfs_testing::MemFs::new(Arc::new(|| NOW));
        let inode = NewInode { mode: 0o644, uid: 1000, gid: 100, times: None, size: 0 };
        let made = fs.root().create_unchecked(Name::new(b"file").unwrap(), &inode).unwrap();
        let time = Arc::clone(&clock);
        let volume = Volume::new(VolumeId(1), "v", Arc::new(fs.clone()), Durability::Sync, 1)
            .with_clock(move || Nanos(time.load(Ordering::SeqCst)))
            .with_grace(grace);
        let volume = Arc::new(volume);
        let export = Export::new("/v", Arc::clone(&volume), vec![rule]);
        let id = export.id;
        let mut env = TestEnv::new([export], Vec::new());
        env.service.locks = locks;
        env.user = (1000, 100);
        let handle = |key| env.service.signer.sign(id, &key).bytes().to_vec();
        let (file, dir) = (handle(made.found.node.key()), handle(fs.root().key()));
        Self { volume, fs, clock, file, dir, env }
    }

    fn more_files(&self, count: usize) -> Vec<Vec<u8>> {
        let inode = NewInode { mode: 0o666, uid: 1000, gid: 100, times: None, size: 0 };
        let id = self.env.service.namespace.load().exports().iter().next().unwrap().id;
        let make = |number| {
            let name = format!("more{number}");
            let made = self.fs.root().create_unchecked(Name::new(name.as_bytes()).unwrap(), &inode).unwrap();
            self.env.service.signer.sign(id, &made.found.node.key()).bytes().to_vec()
        };
        (0..count).map(make).collect()
    }

    fn locks(&self) -> &Locks {
        &self.env.service.locks
    }

    fn at(&mut self, peer: &str) -> &mut Self {
        self.env.peer = peer.parse().unwrap();
        self
    }

    fn call(&self, version: u32, procedure: Procedure, args: &impl Encode) -> Result<Vec<u8>, Accepted> {
        self.env.ask(PROGRAM, version, procedure.0, args)
    }

    fn lock_with<O: Offset>(&self, version: u32, spec: LockSpec, fh: &[u8]) -> Result<Vec<u8>, Accepted> {
        let LockSpec { exclusive, block, reclaim, state, .. } = spec;
        let alock = alock::<O>(spec, fh);
        let args = LockArgs { cookie: COOKIE, block, exclusive, alock, reclaim, state };
        self.call(version, Procedure::LOCK, &args)
    }

    fn lock(&self, spec: LockSpec) -> Status {
        status(self.lock_with::<u64>(VERSION_4, spec, &self.file))
    }

    fn unlock(&self, spec: LockSpec) -> Status {
        let args = UnlockArgs { cookie: COOKIE, alock: alock::<u64>(spec, &self.file) };
        status(self.call(VERSION_4, Procedure::UNLOCK, &args))
    }

    fn cancel(&self, spec: LockSpec) -> Status {
        let LockSpec { exclusive, block, .. } = spec;
        let args = CancelArgs { cookie: COOKIE, block, exclusive, alock: alock::<u64>(spec, &self.file) };
        status(self.call(VERSION_4, Procedure::CANCEL, &args))
    }

    fn test(&self, spec: LockSpec) -> Option<(bool, u32, Vec<u8>, u64, u64)> {
        let args =
            TestArgs { cookie: COOKIE, exclusive: spec.exclusive, alock: alock::<u64>(spec, &self.file) };
        let reply = self.call(VERSION_4, Procedure::TEST, &args).unwrap();
        match TestReply::<u64>::decode(&mut Reader::new(&reply)).unwrap() {
            TestReply { cookie: COOKIE, stat: TestStatus::Other(Status::GRANTED) } => None,
            TestReply { cookie: COOKIE, stat: TestStatus::Denied(holder) } => {
                Some((holder.exclusive, holder.svid, holder.oh.0.to_vec(), holder.l_offset, holder.l_len))
            }
            other => panic!("{other:?}"),
        }
    }

    fn share(&self, procedure: Procedure, mode: ShareMode, access: ShareAccess) -> Status {
        let share = Share { caller_name: b"client", fh: Object(&self.file), oh: OWNER, mode, access };
        let reply = self.call(VERSION_3, procedure, &ShareArgs { cookie: COOKIE, share, reclaim: false });
        let reply = reply.unwrap();
        let reply = ShareReply::decode(&mut Reader::new(&reply)).unwrap();
        assert_eq!((reply.cookie, reply.sequence), (COOKIE, 0));
        reply.stat
    }

    fn notify(&self, name: &[u8], state: u32) {
        let args = nsm::StatusChange { mon_name: name, state };
        let reply = self.env.ask(nsm::PROGRAM, nsm::VERSION, nsm::Procedure::NOTIFY.0, &args);
        assert_eq!(reply, Ok(Vec::new()));
    }

    #[track_caller]
    fn assert_empty(&self) {
        assert!(self.volume.claims().is_empty());
        self.locks().0.state().assert_empty();
    }
}

const COOKIE: Object<'_> = Object(b"\x01\x02\x03\x04");
const OWNER: Object<'_> = Object(b"1@client");

fn alock<O: Offset>(spec: LockSpec, fh: &[u8]) -> Lock<'_, O> {
    let width = |value: u64| O::try_from(value).unwrap_or(O::MAX);
    let (l_offset, l_len) = (width(spec.range.0), width(spec.range.1));
    Lock { caller_name: b"client", fh: Object(fh), oh: OWNER, svid: spec.svid, l_offset, l_len }
}

fn status(reply: Result<Vec<u8>, Accepted>) -> Status {
    let reply = reply.unwrap();
    let reply = Reply::decode(&mut Reader::new(&reply)).unwrap();
    assert_eq!(reply.cookie, COOKIE);
    reply.stat
}

#[test]
fn a_lock_keeps_other_clients_out_until_it_is_given_back() {
    let mut test = LockTest::new();
    let literal = [words(&[4, 0x0102_0304]), words(&[0])].concat();
    test.at(ANN);
    assert_eq!(test.lock_with::<u64>(VERSION_4, bytes(10, 20), &test.file), Ok(literal));
    test.at(BEN);
    assert_eq!(test.test(bytes(29, 1)), Some((true, 1, b"1@client".to_vec(), 10, 20)));
    assert_eq!(test.test(bytes(30, 1)), None);
    assert_eq!(test.lock(bytes(0, 11)), Status::DENIED);
    assert_eq!(test.lock(bytes(0, 10)), Status::GRANTED);
    assert_eq!(test.unlock(bytes(0, 0)), Status::GRANTED, "of his own");
    assert_eq!(
        test.lock(bytes(12, 1)),
        Status::DENIED,
        "who names the owner of another client frees nothing"
    );
    test.at(ANN);
    assert_eq!(test.lock(LockSpec { svid: 2, ..bytes(12, 1) }), Status::DENIED, "another process");
    assert_eq!(test.lock(bytes(12, 1)), Status::GRANTED, "the same");
    assert_eq!(test.unlock(bytes(12, 4)), Status::GRANTED);
    assert_eq!(test.at(BEN).lock(bytes(12, 4)), Status::GRANTED);
    assert_eq!(test.test(bytes(16, 0)), Some((true, 1, b"1@client".to_vec(), 16, 14)));
    assert_eq!(test.at(ANN).unlock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(BEN).unlock(WHOLE), Status::GRANTED);
    test.assert_known_only();
    assert_eq!(test.unlock(WHOLE), Status::GRANTED, "what is not held is no error");
}

impl LockTest {
    fn assert_known_only(&self) {
        assert!(self.volume.claims().is_empty());
        self.locks().0.state().assert_idle();
    }
}

#[test]
fn shared_locks_go_together_and_become_exclusive_when_alone() {
    let mut test = LockTest::new();
    let shared = LockSpec { exclusive: false, ..WHOLE };
    assert_eq!(test.at(ANN).lock(shared), Status::GRANTED);
    assert_eq!(test.at(BEN).lock(shared), Status::GRANTED);
    assert_eq!(test.lock(WHOLE), Status::DENIED);
    assert_eq!(test.test(WHOLE), Some((false, 1, b"1@client".to_vec(), 0, 0)));
    assert_eq!(test.at(ANN).unlock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(BEN).lock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(ANN).lock(shared), Status::DENIED);
}

#[test]
fn all_versions_lock_the_same_bytes() {
    let mut test = LockTest::new();
    let top = u64::from(u32::MAX);
    for version in [VERSION_1, VERSION_3] {
        let lock = |test: &LockTest, spec| status(test.lock_with::<u32>(version, spec, &test.file));
        assert_eq!(lock(test.at(ANN), bytes(top - 1, 1)), Status::GRANTED);
        assert_eq!(test.at(BEN).lock(bytes(top - 1, 1)), Status::DENIED);
        assert_eq!(test.lock(bytes(top, 1)), Status::GRANTED);
        test.at(ANN);
        let args = TestArgs { cookie: COOKIE, exclusive: true, alock: alock::<u32>(bytes(5, 0), &test.file) };
        let reply = test.call(version, Procedure::TEST, &args).unwrap();
        let own = "1@client".to_owned().into_bytes();
        let expected = [words(&[4, 0x0102_0304, 1, 1, 1, 8]), own, words(&[u32::MAX, 1])].concat();
        assert_eq!(reply, expected);
        assert_eq!(lock(&test, bytes(0, 0)), Status::DENIED);
        test.at(ANN).unlock(WHOLE);
        test.at(BEN).unlock(WHOLE);
    }
    let mismatch = Err(Accepted::ProgMismatch(Versions { low: 1, high: 4 }));
    for version in [0, 2, 5] {
        assert_eq!(test.call(version, Procedure::NULL, &()), mismatch.clone());
    }
    for procedure in [Procedure::SHARE, Procedure::NM_LOCK, Procedure::FREE_ALL] {
        assert_eq!(test.call(VERSION_1, procedure, &()), Err(Accepted::ProcUnavail));
        assert_eq!(test.call(VERSION_3, procedure, &()), Err(Accepted::GarbageArgs));
    }
    for version in [1, 3, 4] {
        assert_eq!(test.call(version, Procedure::NULL, &()), Ok(Vec::new()));
        for procedure in [16, 19, 24] {
            assert_eq!(test.call(version, Procedure(procedure), &()), Err(Accepted::ProcUnavail));
        }
    }
}

#[test]
fn locks_need_the_rights_to_the_file() {
    let mut test = LockTest::new();
    let shared = LockSpec { exclusive: false, ..WHOLE };
    test.at(ANN).env.user = (2000, 200);
    assert_eq!(test.lock(WHOLE), Status::FAILED, "others may read");
    assert_eq!(test.lock(shared), Status::GRANTED);
    test.env.user = (1000, 100);
    assert_eq!(status(test.lock_with::<u64>(VERSION_4, WHOLE, &test.dir)), Status::FAILED);
    assert_eq!(status(test.lock_with::<u32>(VERSION_3, WHOLE, &test.dir)), Status::DENIED_NOLOCKS);
    assert_eq!(test.at(EVE).lock(shared), Status::FAILED, "the export does not admit it");
    assert_eq!(test.at(ANN).unlock(shared), Status::GRANTED);
    let mut forged = test.file.clone();
    forged[12] ^= 1;
    assert_eq!(status(test.lock_with::<u64>(VERSION_4, WHOLE, &forged)), Status::STALE_FH);
    assert_eq!(status(test.lock_with::<u64>(VERSION_4, WHOLE, &[7; 1024])), Status::STALE_FH);
    let past_the_end = bytes(u64::MAX, 2);
    assert_eq!(test.lock(past_the_end), Status::FBIG);
    let long = vec![b'x'; LOCK_OWNER_BYTES_MAX + 1];
    let alock = Lock { oh: Object(&long), ..alock::<u64>(WHOLE, &test.file) };
    let args = LockArgs { cookie: COOKIE, block: false, exclusive: true, alock, reclaim: false, state: 1 };
    assert_eq!(status(test.call(VERSION_4, Procedure::LOCK, &args)), Status::FAILED);
    test.assert_known_only();
    let read_only = ExportRule { read_only: true, ..rule(&[]) };
    let test = LockTest::with(Grace::default(), Locks::default(), read_only);
    assert_eq!([test.lock(WHOLE), test.lock(shared)], [Status::ROFS, Status::GRANTED]);
}

#[test]
fn only_the_client_itself_ends_all_its_locks() {
    let mut test = LockTest::new();
    let free_all = |test: &LockTest| {
        let args = Notify { name: b"10.1.0.9", state: 0 };
        assert_eq!(test.call(VERSION_4, Procedure::FREE_ALL, &args), Ok(Vec::new()));
    };
    assert_eq!(test.at(ANN).lock(WHOLE), Status::GRANTED);
    free_all(test.at(BEN));
    free_all(test.at(EVE));
    test.at(BEN).notify(b"10.1.0.9", 5);
    test.at(EVE).notify(b"client", 5);
    assert_eq!(test.at(BEN).lock(WHOLE), Status::DENIED);
    test.at(ANN).notify(b"whatever", 3);
    assert_eq!(test.at(BEN).lock(WHOLE), Status::DENIED, "the lock was taken with this state");
    test.at("[::ffff:10.1.0.9]:9").notify(b"whatever", 5);
    assert_eq!(test.at(BEN).lock(WHOLE), Status::GRANTED, "the client has restarted");
    free_all(&test);
    test.assert_empty();
}

/// Two clients that can be called, with the ports of their lock managers on one number.
fn hosts(answer: Option<Status>) -> (Host, Host, LockTest) {
    let reply = move |_, args: &[u8]| {
        let asked = TestArgs::<u64>::decode(&mut Reader::new(args)).ok()?;
        answer.map(|stat| Reply { cookie: asked.cookie, stat }.to_bytes())
    };
    let first = Host::start(2, 0, reply);
    let second = Host::start(3, first.port, reply);
    let mut test = LockTest::with(Grace::default(), Locks::new(None, first.port), rule(&["127.0.0.0/8"]));
    test.env.local = "127.0.0.1";
    (first, second, test)
}

const FIRST: &str = "127.0.0.2:700";
const SECOND: &str = "127.0.0.3:700";

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl LockTest {
    fn waits(&self, peer: &str) -> bool {
        let client = peer.parse::<std::net::SocketAddr>().unwrap().ip();
        self.locks().0.state().hosts.get(&client).is_some_and(|host| !host.waiting.is_empty())
    }
}

#[test]
fn waiting_client_is_called_when_the_lock_is_granted() {
    let (_first, second, mut test) = hosts(Some(Status::GRANTED));
    let waiting = LockSpec { block: true, svid: 7, ..bytes(5, 10) };
    assert_eq!(test.at(FIRST).lock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(SECOND).lock(waiting), Status::BLOCKED);
    assert_eq!(test.lock(waiting), Status::BLOCKED, "asked again");
    assert_eq!(test.at(FIRST).unlock(bytes(0, 5)), Status::GRANTED);
    assert!(second.called.try_recv().is_err());
    assert_eq!(test.unlock(bytes(0, 15)), Status::GRANTED);
    let (program, version, procedure, args) = second.called.recv_timeout(LONG).unwrap();
    assert_eq!((program, version, Procedure(procedure)), (PROGRAM, VERSION_4, Procedure::GRANTED));
    let granted = TestArgs::<u64>::decode(&mut Reader::new(&args)).unwrap();
    assert_eq!((granted.exclusive, granted.alock), (true, alock(waiting, &test.file)), "as it was asked for");
    wait_until(|| !test.waits(SECOND));
    assert_eq!(test.lock(bytes(5, 10)), Status::DENIED);
    assert_eq!(test.test(bytes(5, 1)), Some((true, 7, b"1@client".to_vec(), 5, 10)));
    assert_eq!(test.at(SECOND).unlock(waiting), Status::GRANTED);
    assert_eq!(test.at(FIRST).unlock(WHOLE), Status::GRANTED);
    test.assert_known_only();
}

#[test]
fn refused_grant_releases_the_lock() {
    let (_first, second, mut test) = hosts(Some(Status::DENIED));
    assert_eq!(test.at(FIRST).lock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(SECOND).lock(LockSpec { block: true, ..WHOLE }), Status::BLOCKED);
    assert_eq!(test.at(FIRST).unlock(WHOLE), Status::GRANTED);
    second.called.recv_timeout(LONG).unwrap();
    wait_until(|| test.volume.claims().is_empty());
    test.assert_known_only();
}

#[test]
fn client_that_does_not_answer_gets_the_lock_by_polling() {
    let (_first, second, mut test) = hosts(None);
    let waiting = LockSpec { block: true, ..WHOLE };
    assert_eq!(test.at(FIRST).lock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(SECOND).lock(waiting), Status::BLOCKED);
    assert_eq!(test.at(FIRST).unlock(WHOLE), Status::GRANTED);
    second.called.recv_timeout(LONG).unwrap();
    assert_eq!(test.lock(WHOLE), Status::DENIED, "it is kept for the one that waits");
    assert_eq!(test.at(SECOND).lock(waiting), Status::GRANTED);
    assert!(!test.waits(SECOND));

    assert_eq!(test.at(FIRST).lock(waiting), Status::BLOCKED);
    assert_eq!(test.at(SECOND).unlock(WHOLE), Status::GRANTED);
    let age = |test: &LockTest| {
        let mut state = test.locks().0.state();
        let host = state.hosts.get_mut(&[127, 0, 0, 2].into()).unwrap();
        let granted = host.waiting.first_mut()?.granted.as_mut()?;
        granted.since -= Duration::from_secs(LOCK_OFFER_S);
        Some(())
    };
    wait_until(|| age(&test).is_some());
    wait_until(|| test.volume.claims().is_empty());
    test.assert_known_only();
}

#[test]
fn canceled_wait_gets_no_lock() {
    let mut test = LockTest::new();
    let waiting = LockSpec { block: true, ..WHOLE };
    assert_eq!(test.at(ANN).lock(WHOLE), Status::GRANTED);
    assert_eq!(test.at(BEN).lock(waiting), Status::BLOCKED);
    assert_eq!(test.at(ANN).cancel(waiting), Status::DENIED, "nobody cancels what another waits for");
    assert_eq!(test.at(BEN).cancel(LockSpec { svid: 2, ..waiting }), Status::DENIED);
    assert_eq!(test.cancel(waiting), Status::GRANTED);
    assert_eq!(test.cancel(waiting), Status::DENIED);
    assert_eq!(test.at(ANN).unlock(WHOLE), Status::GRANTED);
    test.assert_known_only();
}

#[test]
fn asynchronous_calls_are_answered_by_calls() {
    let (first, _second, mut test) = hosts(None);
    test.at(FIRST);
    let file = test.file.clone();
    let alock = alock::<u64>(WHOLE, &file);
    let lock = LockArgs { cookie: COOKIE, block: false, exclusive: true, alock, reclaim: false, state: 3 };
    assert_eq!(test.call(VERSION_4, Procedure::LOCK_MSG, &lock), Ok(Vec::new()));
    let result = first.called.recv_timeout(LONG).unwrap();
    let granted = Reply { cookie: COOKIE, stat: Status::GRANTED }.to_bytes();
    assert_eq!(result, (PROGRAM, VERSION_4, Procedure::LOCK_RES.0, granted));
    test.at(SECOND);
    let args = TestArgs { cookie: COOKIE, exclusive: true, alock };
    let tested = test.call(VERSION_4, Procedure::TEST, &args).unwrap();
    test.at(FIRST);
    let other = TestArgs { alock: Lock { svid: 9, ..alock }, ..args };
    assert_eq!(test.call(VERSION_4, Procedure::TEST_MSG, &other), Ok(Vec::new()));
    let result = first.called.recv_timeout(LONG).unwrap();
    assert_eq!(result, (PROGRAM, VERSION_4, Procedure::TEST_RES.0, tested));
    let unlock = UnlockArgs { cookie: COOKIE, alock };
    assert_eq!(test.call(VERSION_4, Procedure::UNLOCK_MSG, &unlock), Ok(Vec::new()));
    assert_eq!(first.called.recv_timeout(LONG).unwrap().2, Procedure::UNLOCK_RES.0);
    assert_eq!(test.call(VERSION_4, Procedure::GRANTED_RES, &()), Ok(Vec::new()));
    assert_eq!(test.call(VERSION_4, Procedure::LOCK_MSG, &()), Err(Accepted::GarbageArgs));
    assert_eq!(status(test.call(VERSION_4, Procedure::GRANTED, &args)), Status::DENIED);
    test.assert_known_only();
}

#[test]
fn a_client_that_wants_all_locks_gets_a_bounded_number_and_others_theirs() {
    let mut test = LockTest::new();
    let files = test.more_files(64);
    test.at(ANN);
    let mut granted = 0;
    for number in 0..100_000_u64 {
        let file = &files[usize::try_from(number).unwrap() % files.len()];
        let spec = LockSpec { svid: u32::try_from(number % 7).unwrap(), ..bytes(2 * number, 1) };
        match status(test.lock_with::<u64>(VERSION_4, spec, file)) {
            Status::GRANTED => granted += 1,
            refused => assert_eq!(refused, Status::DENIED_NOLOCKS),
        }
    }
    assert_eq!(granted, CLIENT_LOCKS_MAX);
    assert_eq!(test.at(BEN).lock(WHOLE), Status::GRANTED);
    test.at(ANN).notify(b"", 99);
    assert_eq!(test.at(BEN).unlock(WHOLE), Status::GRANTED);
    test.assert_known_only();
    // Unlocking the middle of a range splits it.
    assert_eq!(test.at(ANN).lock(WHOLE), Status::GRANTED);
    let refused = (0..).find(|at| test.unlock(bytes(2 * at + 1, 1)) == Status::DENIED_NOLOCKS);
    assert_eq!(refused, Some(CLIENT_LOCKS_MAX as u64 / 2 - 1), "half of what one file has");
    assert_eq!(test.unlock(WHOLE), Status::GRANTED);
    test.assert_known_only();
}

#[test]
fn waits_are_bounded() {
    let mut test = LockTest::new();
    assert_eq!(test.at(ANN).lock(WHOLE), Status::GRANTED);
    test.at(BEN);
    let waiting = |svid| LockSpec { block: true, svid, ..bytes(svid.into(), 1) };
    let bound = u32::try_from(CLIENT_LOCK_WAITS_MAX).unwrap();
    for svid in 0..bound {
        assert_eq!(test.lock(waiting(svid)), Status::BLOCKED);
    }
    assert_eq!(test.lock(waiting(bound)), Status::DENIED_NOLOCKS);
    test.notify(b"", 99);
    assert_eq!(test.at(ANN).unlock(WHOLE), Status::GRANTED);
    test.assert_known_only();
}

/// Thousands of calls wait for one byte, and all clients restart, the holder first.
#[test]
fn thousands_of_calls_for_one_byte_end_with_their_clients() {
    let mut test = LockTest::new();
    assert_eq!(test.at(ANN).lock(WHOLE), Status::GRANTED);
    let peers: Vec<String> = (1..=24).map(|host| format!("10.1.7.{host}:700")).collect();
    for peer in &peers {
        test.at(peer);
        for svid in 0..250 {
            assert_eq!(test.lock(LockSpec { block: true, svid, ..bytes(3, 1) }), Status::BLOCKED);
        }
    }
    test.at(ANN).notify(b"", 99);
    for peer in &peers {
        test.at(peer).notify(b"", 99);
    }
    test.assert_known_only();
}

#[test]
fn in_the_grace_period_only_what_was_held_is_locked() {
    let second = 1_000_000_000;
    let grace = Grace::new(Nanos(45 * second), [RecordId(1)]);
    let mut test = LockTest::with(grace, Locks::default(), rule(&[]));
    test.at(ANN);
    assert_eq!(test.lock(WHOLE), Status::DENIED_GRACE_PERIOD);
    let args = TestArgs { cookie: COOKIE, exclusive: true, alock: alock::<u64>(WHOLE, &test.file) };
    let reply = TestReply::<u64> { cookie: COOKIE, stat: TestStatus::Other(Status::DENIED_GRACE_PERIOD) };
    assert_eq!(test.call(VERSION_4, Procedure::TEST, &args), Ok(reply.to_bytes()));
    assert_eq!(
        test.share(Procedure::SHARE, ShareMode::DENY_NONE, ShareAccess::READ),
        Status::DENIED_GRACE_PERIOD
    );
    assert_eq!(test.lock(LockSpec { reclaim: true, ..WHOLE }), Status::GRANTED);
    assert_eq!(test.at(BEN).lock(LockSpec { reclaim: true, ..WHOLE }), Status::DENIED);
    test.clock.store(45 * second, Ordering::SeqCst);
    test.volume.expire_claims(Nanos(45 * second)).unwrap();
    assert_eq!(test.lock(WHOLE), Status::DENIED);
    assert_eq!(test.at(ANN).unlock(WHOLE), Status::GRANTED);
    assert_eq!(test.lock(LockSpec { reclaim: true, ..WHOLE }), Status::DENIED, "too late");
    assert_eq!(test.lock(WHOLE), Status::GRANTED);
}

#[test]
fn share_modes_bind_other_shares_and_no_writes() {
    let mut test = LockTest::new();
    let (share, unshare) = (Procedure::SHARE, Procedure::UNSHARE);
    assert_eq!(test.at(ANN).share(share, ShareMode::DENY_WRITE, ShareAccess::READ), Status::GRANTED);
    test.at(BEN);
    assert_eq!(test.share(share, ShareMode::DENY_NONE, ShareAccess::WRITE), Status::DENIED);
    assert_eq!(
        test.share(share, ShareMode::DENY_READ, ShareAccess::NONE),
        Status::GRANTED,
        "it is for nothing"
    );
    assert_eq!(test.share(unshare, ShareMode::DENY_READ, ShareAccess::NONE), Status::GRANTED);
    assert_eq!(test.share(unshare, ShareMode::DENY_READ, ShareAccess::NONE), Status::GRANTED);
    assert_eq!(
        test.share(share, ShareMode(4), ShareAccess::READ),
        Status::DENIED_NOLOCKS,
        "FAILED in version 3"
    );
    test.assert_writable();
    test.at(ANN);
    assert_eq!(
        test.share(share, ShareMode::DENY_BOTH, ShareAccess::BOTH),
        Status::GRANTED,
        "in place of the first"
    );
    assert_eq!(test.at(BEN).share(share, ShareMode::DENY_NONE, ShareAccess::READ), Status::DENIED);
    test.assert_writable();
    test.at(ANN).notify(b"", 99);
    assert_eq!(test.at(BEN).share(share, ShareMode::DENY_BOTH, ShareAccess::READ), Status::GRANTED);
    assert_eq!(test.at(ANN).share(share, ShareMode::DENY_NONE, ShareAccess::READ), Status::DENIED);
    test.at(BEN).share(unshare, ShareMode::DENY_BOTH, ShareAccess::READ);
    test.assert_known_only();
}

impl LockTest {
    #[track_caller]
    fn assert_writable(&self) {
        let export = Arc::clone(self.env.service.namespace.load().exports().iter().next().unwrap());
        let (_, key) = self.env.service.signer.verify(&self.file).unwrap();
        let file = export.file(&key, vfs::Blocking::Allowed).unwrap();
        let caller = vfs::Caller::new(1000, 100, []);
        let opened = file.authorize_write(&caller).unwrap();
        let mut pending = vfs::PendingSync::default();
        opened.write(0, b"x", vfs::Stability::Unstable, &mut pending).unwrap();
    }
}

/// The hosts in `dir`. A thread that called one of them may hold them for a moment longer.
fn reopened(dir: &std::path::Path) -> crate::nsm::LockHosts {
    let start = std::time::Instant::now();
    loop {
        match stable::StableDir::open(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                assert!(start.elapsed() < LONG, "somebody keeps the hosts");
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return crate::nsm::LockHosts::open(&Arc::new(opened.unwrap())).unwrap(),
        }
    }
}

#[test]
fn hosts_with_locks_are_notified_of_a_restart_and_reclaim() {
    let dir = tempdir();
    let reply = |_, _: &[u8]| Some(Vec::new());
    let (first, second) = {
        let first = Host::start(2, 0, reply);
        let second = Host::start(3, first.port, reply);
        (first, second)
    };
    let grace = Duration::from_secs(45);
    let open = || {
        let hosts = Arc::new(reopened(&dir));
        let until = Nanos(u64::try_from(grace.as_nanos()).unwrap());
        let (state, grace) = (hosts.state(), Grace::new(until, hosts.expected()));
        let mut test = LockTest::with(grace, Locks::new(Some(hosts), first.port), rule(&[]));
        test.env.local = "127.0.0.1";
        (test, state)
    };
    let (mut test, before) = open();
    assert_eq!(test.at(FIRST).lock(bytes(0, 9)), Status::GRANTED);
    assert_eq!(test.at(SECOND).lock(bytes(9, 9)), Status::GRANTED);
    assert_eq!(test.unlock(WHOLE), Status::GRANTED);
    test.notify(b"", 9);
    test.locks().tick(HashSet::new);
    drop(test);

    let (mut test, after) = open();
    assert_eq!((after % 2, after > before), (1, true));
    test.locks().notify_restart(grace);
    test.locks().tick(HashSet::new);
    let args = nsm::StatusChange { mon_name: b"127.0.0.1", state: after }.to_bytes();
    let notice = (nsm::PROGRAM, nsm::VERSION, nsm::Procedure::NOTIFY.0, args);
    assert_eq!(first.called.recv_timeout(LONG), Ok(notice));
    assert!(second.called.try_recv().is_err(), "it had none any more");
    assert_eq!(test.at(SECOND).lock(bytes(0, 9)), Status::DENIED_GRACE_PERIOD);
    assert_eq!(test.at(FIRST).lock(LockSpec { reclaim: true, ..bytes(0, 9) }), Status::GRANTED);
    drop(test);

    let (test, _) = open();
    *test.locks().0.restart() = None;
    test.locks().tick(HashSet::new);
    drop(test);
    let (mut test, _) = open();
    assert_eq!(
        test.at(FIRST).lock(WHOLE),
        Status::GRANTED,
        "nobody claimed anything, so there is no grace period"
    );
    drop(test);
    std::fs::remove_dir_all(dir).unwrap();
}

fn tempdir() -> std::path::PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("plimsoll-nlm-{}-{number}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    dir
}

#[test]
fn a_client_that_cannot_be_recorded_gets_no_lock() {
    let dir = tempdir().join("hosts");
    std::fs::create_dir(&dir).unwrap();
    let hosts = Arc::new(reopened(&dir));
    hosts.fill();
    let mut test = LockTest::with(Grace::default(), Locks::new(Some(hosts), 111), rule(&[]));
    assert_eq!(test.at(ANN).lock(WHOLE), Status::DENIED_NOLOCKS);
    let alock = alock::<u64>(WHOLE, &test.file);
    let args = LockArgs { cookie: COOKIE, block: false, exclusive: true, alock, reclaim: false, state: 0 };
    assert_eq!(status(test.call(VERSION_4, Procedure::NM_LOCK, &args)), Status::GRANTED, "it wants none");
    test.locks().tick(HashSet::new);
    assert_eq!(test.unlock(WHOLE), Status::GRANTED);
    assert_eq!(test.lock(WHOLE), Status::GRANTED, "there is room again");
    std::fs::remove_dir_all(dir.parent().unwrap()).unwrap();
}

#[test]
fn monitors_nobody_for_others() {
    let test = LockTest::new();
    let ask = |procedure: nsm::Procedure, args: &dyn Fn() -> Vec<u8>| {
        struct Raw(Vec<u8>);
        impl Encode for Raw {
            fn encode(&self, w: &mut xdr::Writer<'_>) {
                w.buffer().extend_from_slice(&self.0);
            }
        }
        test.env.ask(nsm::PROGRAM, nsm::VERSION, procedure.0, &Raw(args()))
    };
    let my_id = nsm::MyId { my_name: b"me", my_prog: 1, my_vers: 2, my_proc: 3 };
    let mon_id = nsm::MonitorId { mon_name: b"host", my_id };
    assert_eq!(ask(nsm::Procedure::NULL, &Vec::new), Ok(Vec::new()));
    assert_eq!(ask(nsm::Procedure::STAT, &|| nsm::Name(b"host").to_bytes()), Ok(words(&[1, 1])));
    let monitor = nsm::MonitorArgs { mon_id, private: [0; 16] };
    assert_eq!(ask(nsm::Procedure::MON, &|| monitor.to_bytes()), Ok(words(&[1, 1])));
    assert_eq!(ask(nsm::Procedure::UNMON, &|| mon_id.to_bytes()), Ok(words(&[1])));
    assert_eq!(ask(nsm::Procedure::UNMON_ALL, &|| my_id.to_bytes()), Ok(words(&[1])));
    assert_eq!(ask(nsm::Procedure::SIMU_CRASH, &Vec::new), Ok(Vec::new()));
    assert_eq!(ask(nsm::Procedure::NOTIFY, &Vec::new), Err(Accepted::GarbageArgs));
    assert_eq!(ask(nsm::Procedure(7), &Vec::new), Err(Accepted::ProcUnavail));
}
