//! Locks of NFSv4.1 with a server that is killed again and again. A ledger of granted locks shows that none is lost,
//! and none is granted twice.

#[path = "support/session.rs"]
mod session;

use nfs_wire::v4::{
    Argument, CreateHow, DelegationType, ExistLockOwner, Fattr, LockArgs, LockReply, LockType, Locker,
    LocktArgs, LocktReply, LockuArgs, OpReply, OpenArgs, OpenClaim, OpenFlag, OpenToLockOwner,
    ReclaimCompleteArgs, Reply, ShareAccess, ShareDeny, StateOwner, Stateid, Status,
};
use session::{Session, put, results};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use vfs::sync::Mutex;

const CLIENTS: usize = 6;
const FILES: usize = 3;
/// Ranges in each file.
const RANGES: usize = 16;
const KILLS: u32 = 5;
/// Maximum wait: only a server that hangs takes as long.
const PATIENCE: Duration = Duration::from_secs(120);

const OWNER: StateOwner<'_> = StateOwner { clientid: 0, owner: b"a process" };

struct Server {
    child: Child,
}

impl Server {
    /// The grace period is as long as the slowest machine needs: it ends when all have claimed what they had.
    fn start(dir: &Path, address: SocketAddr) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.arg("export").arg(dir.join("files")).arg("--state").arg(dir.join("state"));
        command.args(["--squash", "none", "--no-portmap", "--listen", &address.to_string()]);
        command.args(["--lease", "60", "--grace-period", "120"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut hint = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hint).unwrap();
        assert!(hint.starts_with("mount -t nfs "), "{hint:?}");
        Self { child }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A range of a file.
type Place = (usize, usize);

/// Locks that clients were granted and have not asked to release, each with its client.
#[derive(Default)]
struct Ledger(Mutex<Vec<((usize, usize), usize)>>);

impl Ledger {
    fn give(&self, place: Place, client: usize) {
        let mut held = self.0.lock();
        let other = held.iter().find(|(given, _)| *given == place).map(|(_, client)| *client);
        assert_eq!(other, None, "client {client} is given {place:?}, which another has");
        held.push((place, client));
    }

    /// Removes a lock before its client asks for the release: from then on its owner is uncertain.
    fn take(&self, place: Place, client: usize) {
        let mut held = self.0.lock();
        let at = held.iter().position(|entry| *entry == (place, client)).expect("it has that");
        held.swap_remove(at);
    }

    fn holder(&self, place: Place) -> Option<usize> {
        self.0.lock().iter().find(|(given, _)| *given == place).map(|(_, client)| *client)
    }
}

struct File {
    handle: Vec<u8>,
    open: Stateid,
    locks: Option<Stateid>,
}

/// A client, with its open files and the locks that the server granted.
struct Client {
    number: usize,
    session: Session,
    files: Vec<File>,
    held: BTreeSet<Place>,
}

/// State that the clients and the test share.
struct Stage {
    address: SocketAddr,
    ledger: Ledger,
    is_over: AtomicBool,
    granted: AtomicUsize,
    reclaimed: AtomicUsize,
}

impl Client {
    fn begin(stage: &Stage, number: usize) -> io::Result<Self> {
        let mut session = Session::over(TcpStream::connect(stage.address)?)?;
        session.begin(format!("client {number}").as_bytes())?;
        let mut client = Self { number, session, files: vec![], held: BTreeSet::new() };
        client.complete()?;
        let dir = client.session.handle(&["files"])?;
        for file in 0..FILES {
            let name = format!("f{file}");
            let claim = OpenClaim::Null(name.as_bytes());
            let openhow = OpenFlag::Create(CreateHow::Unchecked(Fattr::default()));
            client.open(&dir, claim, openhow)?;
        }
        Ok(client)
    }

    fn complete(&mut self) -> io::Result<()> {
        let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let reply = self.session.ask(&[complete])?;
        assert!(
            matches!(&*results(&reply), [_, OpReply::ReclaimComplete(Status::OK)]),
            "{:?}",
            results(&reply)
        );
        Ok(())
    }

    /// Opens a file, and remembers its handle and state id.
    fn open(&mut self, at: &[u8], claim: OpenClaim<'_>, openhow: OpenFlag<'_>) -> io::Result<()> {
        let share_access = ShareAccess(ShareAccess::BOTH.0 | ShareAccess::WANT_NO_DELEG.0);
        let args =
            OpenArgs { seqid: 0, share_access, share_deny: ShareDeny(0), owner: OWNER, openhow, claim };
        loop {
            let reply = self.session.ask(&[put(at), Argument::Open(args), Argument::Getfh])?;
            match &*results(&reply) {
                [.., OpReply::Open(Reply::Ok(open)), OpReply::Getfh(Reply::Ok(file))] => {
                    self.files.push(File { handle: file.object.0.to_vec(), open: open.stateid, locks: None });
                    return Ok(());
                }
                [.., OpReply::Open(Reply::Err(Status::GRACE | Status::DELAY))] => {
                    thread::sleep(Duration::from_millis(20));
                }
                other => panic!("client {}: {other:?}", self.number),
            }
        }
    }

    fn lock(&mut self, place: Place, reclaim: bool) -> io::Result<Status> {
        let (file, range) = place;
        let File { handle, open, locks } = &mut self.files[file];
        let locker = match *locks {
            None => Locker::New(OpenToLockOwner {
                open_seqid: 0,
                open_stateid: *open,
                lock_seqid: 0,
                lock_owner: OWNER,
            }),
            Some(lock_stateid) => Locker::Existing(ExistLockOwner { lock_stateid, lock_seqid: 0 }),
        };
        let args =
            LockArgs { locktype: LockType::Write, reclaim, offset: 10 * range as u64, length: 10, locker };
        let reply = self.session.ask(&[put(handle), Argument::Lock(args)])?;
        match results(&reply).last() {
            Some(OpReply::Lock(LockReply::Ok(stateid))) => {
                *locks = Some(*stateid);
                Ok(Status::OK)
            }
            Some(OpReply::Lock(LockReply::Denied(_))) => Ok(Status::DENIED),
            Some(OpReply::Lock(LockReply::Err(status))) => Ok(*status),
            other => panic!("{other:?}"),
        }
    }

    fn unlock(&mut self, place: Place) -> io::Result<()> {
        let (file, range) = place;
        let File { handle, locks, .. } = &mut self.files[file];
        let (lock_stateid, offset) = (locks.expect("it has locks there"), 10 * range as u64);
        let args = LockuArgs { locktype: LockType::Write, seqid: 0, lock_stateid, offset, length: 10 };
        let reply = self.session.ask(&[put(handle), Argument::Locku(args)])?;
        let all = results(&reply);
        let Some(OpReply::Locku(Reply::Ok(stateid))) = all.last() else { panic!("{all:?}") };
        *locks = Some(*stateid);
        Ok(())
    }

    /// Locks or unlocks a range.
    fn step(&mut self, stage: &Stage, random: u64) -> io::Result<()> {
        let random = usize::try_from(random >> 32).unwrap();
        let place = (random % FILES, random / FILES % RANGES);
        if self.held.remove(&place) {
            stage.ledger.take(place, self.number);
            return self.unlock(place);
        }
        match self.lock(place, false)? {
            Status::OK => {
                stage.ledger.give(place, self.number);
                self.held.insert(place);
                stage.granted.fetch_add(1, Ordering::Relaxed);
            }
            Status::DENIED => {}
            // Others claim what they had.
            Status::GRACE | Status::DELAY => thread::sleep(Duration::from_millis(20)),
            status => panic!("client {}: {place:?}: {status:?}", self.number),
        }
        Ok(())
    }

    /// Reclaims the granted locks from a restarted server.
    fn recover(&mut self, stage: &Stage) -> io::Result<()> {
        self.session = Session::over(TcpStream::connect(stage.address)?)?;
        self.session.begin(format!("client {}", self.number).as_bytes())?;
        for file in std::mem::take(&mut self.files) {
            self.open(&file.handle, OpenClaim::Previous(DelegationType::None), OpenFlag::NoCreate)?;
        }
        for place in self.held.clone() {
            assert_eq!(self.lock(place, true)?, Status::OK, "client {} has lost {place:?}", self.number);
            stage.reclaimed.fetch_add(1, Ordering::Relaxed);
        }
        self.complete()
    }

    fn run(mut self, stage: &Stage) -> Self {
        let (seed, mut steps) = (RandomState::new(), 0);
        while !stage.is_over.load(Ordering::Relaxed) {
            steps += 1;
            if self.step(stage, seed.hash_one(steps)).is_ok() {
                continue;
            }
            let (start, files) = (Instant::now(), self.handles());
            while let Err(error) = self.recover(stage) {
                assert!(start.elapsed() < PATIENCE, "client {}: {error}", self.number);
                self.files =
                    files.iter().map(|handle| File { handle: handle.clone(), ..File::closed() }).collect();
                thread::sleep(Duration::from_millis(20));
            }
        }
        self
    }

    fn handles(&self) -> Vec<Vec<u8>> {
        self.files.iter().map(|file| file.handle.clone()).collect()
    }
}

impl File {
    fn closed() -> Self {
        Self { handle: vec![], open: Stateid::ANONYMOUS, locks: None }
    }
}

/// Asks for the owner of each range, as a client without locks.
fn check(stage: &Stage) {
    let mut observer = Client::begin(stage, CLIENTS).unwrap();
    for place in (0..FILES).flat_map(|file| (0..RANGES).map(move |range| (file, range))) {
        let (file, offset) = (&observer.files[place.0].handle, 10 * place.1 as u64);
        let args = LocktArgs { locktype: LockType::Write, offset, length: 10, owner: OWNER };
        let reply = observer.session.ask(&[put(file), Argument::Lockt(args)]).unwrap();
        let is_held = match results(&reply).last() {
            Some(OpReply::Lockt(LocktReply::Ok)) => false,
            Some(OpReply::Lockt(LocktReply::Denied(_))) => true,
            other => panic!("{other:?}"),
        };
        assert_eq!(is_held, stage.ledger.holder(place).is_some(), "{place:?}");
    }
}

#[test]
fn no_lock_is_lost_or_given_twice_when_the_server_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut server = Server::start(dir.path(), address);
    let stage = Arc::new(Stage {
        address,
        ledger: Ledger::default(),
        is_over: AtomicBool::new(false),
        granted: AtomicUsize::new(0),
        reclaimed: AtomicUsize::new(0),
    });
    let clients: Vec<Client> = (0..CLIENTS).map(|number| Client::begin(&stage, number).unwrap()).collect();
    let start = |client: Client| {
        let stage = Arc::clone(&stage);
        thread::spawn(move || client.run(&stage))
    };
    let threads: Vec<_> = clients.into_iter().map(start).collect();
    for kill in 0..KILLS {
        let before = stage.granted.load(Ordering::Relaxed);
        let begun = Instant::now();
        while stage.granted.load(Ordering::Relaxed) < before + 300 {
            assert!(begun.elapsed() < PATIENCE, "nobody gets a lock after {kill} kills");
            assert!(threads.iter().all(|thread| !thread.is_finished()), "a client has failed");
            thread::sleep(Duration::from_millis(5));
        }
        server.kill();
        server = Server::start(dir.path(), address);
    }
    // Until all are done: a client that is interrupted would not know its locks.
    let (before, begun) = (stage.granted.load(Ordering::Relaxed), Instant::now());
    while stage.granted.load(Ordering::Relaxed) < before + 100 && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    stage.is_over.store(true, Ordering::Relaxed);
    let clients: Vec<Client> =
        threads.into_iter().map(|thread| thread.join().expect("no client fails")).collect();
    check(&stage);
    let held: usize = clients.iter().map(|client| client.held.len()).sum();
    let (granted, reclaimed) =
        (stage.granted.load(Ordering::Relaxed), stage.reclaimed.load(Ordering::Relaxed));
    eprintln!(
        "{granted} locks granted, {reclaimed} claimed again over {KILLS} kills, {held} held at the end"
    );
    assert!(granted >= 300 * KILLS as usize && reclaimed > 0);
}
