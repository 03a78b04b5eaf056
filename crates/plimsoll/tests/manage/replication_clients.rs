//! Clients that stay mounted while the volumes of a replication change their roles: they hold a file over NFSv3, NFSv4.0,
//! 4.1, 4.2 and SMB.

use crate::quota_writers;
use crate::rig::{Service, eventually};
use crate::smb::{PASSWORD, SMB, set_password};
use nfs_wire::v3::{self, StableHow};
use nfs_wire::v4::{
    self, Argument, CbClient, CompoundHead, CompoundReplyHead, FreeStateidArgs, NetAddr, NfsClientId,
    OpReply, OpenArgs, OpenClaim, OpenConfirmArgs, OpenFlag, ReadArgs, Reply, SetclientidArgs,
    SetclientidConfirmArgs, SetclientidReply, ShareAccess, ShareDeny, StateOwner, Stateid, WriteArgs,
};
use smb_wire::create::{CreateDisposition, CreateRequest, CreateResponse};
use smb_wire::file::{ReadResponse, WriteFlags};
use smb_wire::header::Command;
use smb_wire::types::AccessMask;
use smb_wire::{FileId, NtStatus, Utf16};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use wire_client::nfs4::session::{ClientState, putfh};
use wire_client::smb::requests::{self, OpenMode, utf16};
use wire_client::smb::session::Session;
use wire_client::{Client, Connection, Error, Handle, Identity, Protection, Target, Version};
use xdr::{Decode, Encode, Reader};

const UID: u32 = 1000;
const RETRY: Duration = Duration::from_millis(20);
const ATTEMPTS_MAX: u32 = 1_000;

const PROTOCOLS: [&str; 2] = ["--protocols", "nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb"];

fn make_user(service: &Service) {
    let create = ["user", "create", &format!("user{UID}"), "--uid", &UID.to_string()];
    set_password(service, &create, PASSWORD);
}

/// Serves a volume over every protocol.
pub(crate) fn serve_all(service: &Service, volume: &str) {
    make_user(service);
    service.says(&[&["volume", "update", volume][..], &PROTOCOLS].concat());
}

/// The file `a` as clients of NFSv4.1, NFSv4.2 and SMB read it.
pub(crate) fn read_over_all(service: &Service, volume: &str) -> [String; 3] {
    let [one, two] = [Version::V41, Version::V42].map(|version| {
        let mut client = Client::mount(&target(service, version, volume), &identity()).unwrap();
        let file = client.walk("a").unwrap();
        text(client.read(&file, 0, 100).unwrap().data)
    });
    [one, two, Smb::new(service, volume).read().unwrap()]
}

fn service() -> Service {
    let service = Service::start_with(&[&["--snapshots", "copy"], &SMB[..]].concat());
    make_user(&service);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "64GiB"]);
    for name in ["v1", "v1-copy"] {
        let create = ["volume", "create", name, "--pool", "p1", "--size", "1GiB", "--mode", "0777"];
        let access = ["--allow", "127.0.0.0/8", "--squash", "none"];
        service.says(&[&create[..], &access, &PROTOCOLS].concat());
    }
    service
}

fn target(service: &Service, version: Version, volume: &str) -> Target {
    Target { export: format!("/{volume}"), ..quota_writers::target(service, version, UID) }
}

fn identity() -> Identity {
    quota_writers::identity(UID)
}

/// Answers by the name of their status.
type Outcome<T = ()> = Result<T, String>;

fn text(data: &[u8]) -> String {
    String::from_utf8(data.to_vec()).unwrap()
}

/// A client of NFS that holds the handle of a file.
trait Nfs {
    /// By the handle alone.
    fn read(&mut self) -> Outcome<String>;
    fn write(&mut self, text: &str) -> Outcome;
    /// By the open of before; `None`: the version has none.
    fn read_open(&mut self) -> Option<Outcome<String>>;
    /// Opens the file again, by its handle or under its name.
    fn open(&mut self) -> Outcome;
}

struct V3(Client, Handle);

impl V3 {
    /// Repeats a call while the server says JUKEBOX.
    fn again<T>(&mut self, mut call: impl FnMut(&mut Client, &Handle) -> Result<T, Error>) -> Outcome<T> {
        for _ in 0..ATTEMPTS_MAX {
            match call(&mut self.0, &self.1) {
                Err(error) if error.is(v3::Status::JUKEBOX) => thread::sleep(RETRY),
                done => return done.map_err(refused),
            }
        }
        panic!("JUKEBOX for ever");
    }
}

/// The name of a status; the test ends with any other error.
fn refused(error: Error) -> String {
    match error {
        Error::Refused { status, .. } => status,
        // An open that the server has ended, of a client with a session.
        Error::Protocol(text) if text.contains("opens are gone") => text,
        error => panic!("{error}"),
    }
}

impl Nfs for V3 {
    fn read(&mut self) -> Outcome<String> {
        self.again(|client, file| client.read(file, 0, 100).map(|chunk| text(chunk.data)))
    }

    fn write(&mut self, text: &str) -> Outcome {
        self.again(|client, file| client.write(file, 0, text.as_bytes(), StableHow::FileSync).map(drop))
    }

    fn read_open(&mut self) -> Option<Outcome<String>> {
        None
    }

    fn open(&mut self) -> Outcome {
        Ok(())
    }
}

fn read_args(stateid: Stateid) -> Argument<'static> {
    Argument::Read(ReadArgs { stateid, offset: 0, count: 100 })
}

fn write_args(text: &str) -> Argument<'_> {
    let (stateid, stable) = (Stateid::ANONYMOUS, v4::StableHow::FileSync);
    Argument::Write(WriteArgs { stateid, offset: 0, stable, data: text.as_bytes() })
}

fn data_of(reply: &OpReply<'_>) -> String {
    let OpReply::Read(Reply::Ok(ok)) = reply else { panic!("{reply:?}") };
    text(ok.data)
}

/// NFSv4.1 and 4.2.
struct Sessions {
    state: ClientState,
    file: Handle,
    open: Stateid,
}

impl Sessions {
    fn read_by(&mut self, stateid: Stateid) -> Outcome<String> {
        let operations = [putfh(&self.file), read_args(stateid)];
        self.state.call(&"a read", &operations).map(|reply| data_of(&reply)).map_err(refused)
    }
}

impl Nfs for Sessions {
    fn read(&mut self) -> Outcome<String> {
        self.read_by(Stateid::ANONYMOUS)
    }

    fn write(&mut self, text: &str) -> Outcome {
        let operations = [putfh(&self.file), write_args(text)];
        self.state.call(&"a write", &operations).map(drop).map_err(refused)
    }

    fn read_open(&mut self) -> Option<Outcome<String>> {
        Some(self.read_by(self.open))
    }

    fn open(&mut self) -> Outcome {
        if self.open != Stateid::ANONYMOUS {
            // The server says that it has ended opens until the client has freed them (RFC 8881 §18.38).
            let free = FreeStateidArgs { stateid: self.open };
            self.state.call(&"an open", &[Argument::FreeStateid(free)]).map(drop).map_err(refused)?;
        }
        self.open = self.state.open(&self.file, ShareAccess::READ).map_err(refused)?;
        Ok(())
    }
}

/// NFSv4.0.
struct V40 {
    connection: Connection,
    root: Handle,
    file: Handle,
    client: u64,
    open: Stateid,
    seqid: u32,
}

impl V40 {
    fn new(service: &Service, root: Handle, file: Handle) -> Self {
        static CLIENTS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let connection = Connection::open(service.nfs(), identity()).unwrap();
        let mut new = Self { connection, root, file, client: 0, open: Stateid::ANONYMOUS, seqid: 0 };
        let name = format!("client {}", CLIENTS.fetch_add(1, Ordering::Relaxed));
        let introduction = SetclientidArgs {
            client: NfsClientId { verifier: [1; 8], id: name.as_bytes() },
            callback: CbClient { cb_program: 0, cb_location: NetAddr::default() },
            callback_ident: 0,
        };
        let reply = new.ask(&[Argument::Setclientid(introduction)]).unwrap();
        let OpReply::Setclientid(SetclientidReply::Ok(ok)) = last(&reply) else { panic!() };
        let (clientid, setclientid_confirm) = (ok.clientid, ok.setclientid_confirm);
        let confirm = SetclientidConfirmArgs { clientid, setclientid_confirm };
        new.ask(&[Argument::SetclientidConfirm(confirm)]).unwrap();
        new.client = clientid;
        new
    }

    /// Repeats a compound while the server says DELAY.
    fn ask(&mut self, operations: &[Argument<'_>]) -> Outcome<Vec<u8>> {
        let count = u32::try_from(operations.len()).unwrap();
        let mut args = CompoundHead { tag: b"", minorversion: 0, operations: count }.to_bytes();
        operations.iter().for_each(|operation| args.extend(operation.to_bytes()));
        let args = Encoded(args);
        for _ in 0..ATTEMPTS_MAX {
            let reply = self.connection.call(v4::PROGRAM, v4::VERSION, v4::Procedure::COMPOUND.0, &args);
            let reply = reply.unwrap().rest().to_vec();
            match v4::Status::decode(&mut Reader::new(&reply)).unwrap() {
                v4::Status::OK => return Ok(reply),
                v4::Status::DELAY => thread::sleep(RETRY),
                status => return Err(format!("{status:?}")),
            }
        }
        panic!("DELAY for ever");
    }

    fn read_by(&mut self, stateid: Stateid) -> Outcome<String> {
        let file = self.file.clone();
        self.ask(&[putfh(&file), read_args(stateid)]).map(|reply| data_of(&last(&reply)))
    }
}

struct Encoded(Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, w: &mut xdr::Writer<'_>) {
        w.fixed(&self.0);
    }
}

/// The result of the last operation of a compound.
fn last(reply: &[u8]) -> OpReply<'_> {
    let mut reader = Reader::new(reply);
    let head = CompoundReplyHead::decode(&mut reader).unwrap();
    (0..head.operations).map(|_| OpReply::decode(&mut reader).unwrap()).last().unwrap()
}

impl Nfs for V40 {
    fn read(&mut self) -> Outcome<String> {
        self.read_by(Stateid::ANONYMOUS)
    }

    fn write(&mut self, text: &str) -> Outcome {
        let file = self.file.clone();
        self.ask(&[putfh(&file), write_args(text)]).map(drop)
    }

    fn read_open(&mut self) -> Option<Outcome<String>> {
        Some(self.read_by(self.open))
    }

    fn open(&mut self) -> Outcome {
        let (root, file) = (self.root.clone(), self.file.clone());
        let open = OpenArgs {
            seqid: self.seqid + 1,
            share_access: ShareAccess::READ,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: self.client, owner: b"reader" },
            openhow: OpenFlag::NoCreate,
            claim: OpenClaim::Null(b"a"),
        };
        let reply = self.ask(&[putfh(&root), Argument::Open(open)])?;
        let OpReply::Open(Reply::Ok(ok)) = last(&reply) else { panic!() };
        (self.open, self.seqid) = (ok.stateid, self.seqid + 1);
        if self.seqid == 1 {
            // The first open of an owner is confirmed.
            let confirm = OpenConfirmArgs { open_stateid: self.open, seqid: 2 };
            let reply = self.ask(&[putfh(&file), Argument::OpenConfirm(confirm)])?;
            let OpReply::OpenConfirm(Reply::Ok(stateid)) = last(&reply) else { panic!() };
            (self.open, self.seqid) = (stateid, 2);
        }
        Ok(())
    }
}

/// A client of SMB with an open file.
struct Smb {
    session: Session,
    target: Target,
    file: FileId,
}

impl Smb {
    fn new(service: &Service, volume: &str) -> Self {
        let target = target(service, Version::Smb(Protection::Gmac), volume);
        let session = Session::open(&target, 0, &identity()).unwrap();
        let mut new = Self { session, target, file: FileId::default() };
        new.open().unwrap();
        new
    }

    fn open(&mut self) -> Result<(), NtStatus> {
        let path = utf16("a");
        let request = CreateRequest {
            desired_access: AccessMask::MAXIMUM_ALLOWED,
            create_disposition: CreateDisposition::OPEN,
            ..OpenMode::ATTRIBUTES.request(Utf16::new(&path).unwrap())
        };
        let reply = self.session.call(Command::CREATE, 0, &request, None).unwrap();
        match reply.header.status {
            NtStatus::SUCCESS => self.file = reply.body::<CreateResponse<'_>>().unwrap().file_id,
            status => return Err(status),
        }
        Ok(())
    }

    fn read(&mut self) -> Result<String, NtStatus> {
        let reply = self.session.call(Command::READ, 100, &requests::read(self.file, 0, 100), None).unwrap();
        match reply.header.status {
            NtStatus::SUCCESS => Ok(text(reply.body::<ReadResponse<&[u8]>>().unwrap().data)),
            status => Err(status),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), NtStatus> {
        let body = requests::write(self.file, 0, text.len(), WriteFlags::WRITE_THROUGH);
        let reply = self.session.call(Command::WRITE, 1, &body, Some(text.as_bytes())).unwrap();
        if reply.header.status == NtStatus::SUCCESS { Ok(()) } else { Err(reply.header.status) }
    }

    /// The open ends with the tree. The session stays: the client connects to the share again, and opens the file.
    fn returns(&mut self) {
        eventually("the end of the tree", || self.read() == Err(NtStatus::NETWORK_NAME_DELETED));
        eventually("another open", || {
            self.session.reconnect(&self.target).unwrap();
            match self.open() {
                Ok(()) => true,
                Err(status) => {
                    assert_eq!(status, NtStatus::NETWORK_NAME_DELETED);
                    false
                }
            }
        });
    }
}

/// One client of each protocol and version, of one volume.
struct Clients {
    nfs: Vec<(&'static str, Box<dyn Nfs>)>,
    smb: Smb,
}

impl Clients {
    fn mount(service: &Service, volume: &str) -> Self {
        let mount = |version| Client::mount(&target(service, version, volume), &identity()).unwrap();
        let mut v3 = mount(Version::V3);
        let file = v3.walk("a").unwrap();
        let mut nfs: Vec<(_, Box<dyn Nfs>)> = vec![("v3", Box::new(V3(v3, file)))];
        let mut v42 = mount(Version::V42);
        let (root, file) = (v42.root(), v42.walk("a").unwrap());
        nfs.push(("v4.0", Box::new(V40::new(service, root, file.clone()))));
        for (name, minor, version) in [("v4.1", 1, Version::V41), ("v4.2", 2, Version::V42)] {
            let state = ClientState::new(&target(service, version, volume), 0, &identity(), minor, 0);
            let (state, file, open) = (state.unwrap(), file.clone(), Stateid::ANONYMOUS);
            nfs.push((name, Box::new(Sessions { state, file, open })));
        }
        nfs.iter_mut().for_each(|(_, client)| client.open().unwrap());
        Self { nfs, smb: Smb::new(service, volume) }
    }

    /// All read this by what they hold.
    #[track_caller]
    fn read(&mut self, expected: &str) {
        for (name, client) in &mut self.nfs {
            assert_eq!(client.read().as_deref(), Ok(expected), "{name}");
            if let Some(read) = client.read_open() {
                assert_eq!(read.as_deref(), Ok(expected), "the open of {name}");
            }
        }
        assert_eq!(self.smb.read().as_deref(), Ok(expected), "SMB");
    }

    /// The volume was opened again: handles are as before, opens have ended, and files can be opened again.
    #[track_caller]
    fn returned(&mut self, expected: &str) {
        for (name, client) in &mut self.nfs {
            assert_eq!(client.read().as_deref(), Ok(expected), "{name}");
            if client.read_open().is_some() {
                eventually("the end of an open", || client.read_open().is_some_and(|read| read.is_err()));
            }
            client.open().unwrap();
        }
        self.smb.returns();
        self.read(expected);
    }

    /// All write; the last text stays. All texts of the test have one letter.
    #[track_caller]
    fn write(&mut self) -> String {
        for (place, (name, client)) in self.nfs.iter_mut().enumerate() {
            let written = place.to_string();
            assert_eq!(client.write(&written), Ok(()), "{name}");
            assert_eq!(client.read().as_ref(), Ok(&written), "{name}");
        }
        assert_eq!(self.smb.write("s"), Ok(()));
        "s".to_owned()
    }

    #[track_caller]
    fn write_nothing(&mut self) {
        for (name, client) in &mut self.nfs {
            let refused = client.write("x").unwrap_err();
            assert!(refused.ends_with("ROFS"), "{name}: {refused}");
        }
        let refused = self.smb.write("x").unwrap_err();
        assert!(matches!(refused, NtStatus::ACCESS_DENIED | NtStatus::MEDIA_WRITE_PROTECTED), "{refused:?}");
    }
}

/// Reads without end over NFSv3: every answer is the file, or that it comes later.
fn watch(service: &Service, volume: &str, is_over: &AtomicBool) -> u64 {
    let mut client = Client::mount(&target(service, Version::V3, volume), &identity()).unwrap();
    let (file, mut reads) = (client.walk("a").unwrap(), 0);
    while !is_over.load(Ordering::Relaxed) {
        match client.read(&file, 0, 100) {
            Ok(_) => reads += 1,
            Err(error) => assert!(error.is(v3::Status::JUKEBOX), "{volume}: {error}"),
        }
    }
    reads
}

fn change_roles(service: &Service) {
    let (mut source, mut copy) = (Clients::mount(service, "v1"), Clients::mount(service, "v1-copy"));
    copy.read("1");
    let written = source.write();
    service.says(&["replication", "sync", "v1-copy"]);
    // What is open stays so from point to point.
    copy.read(&written);
    copy.write_nothing();

    service.says(&["replication", "break", "v1-copy"]);
    copy.returned(&written);
    copy.write();
    source.nfs[0].1.write("A").unwrap();

    service.says(&["replication", "resume", "v1-copy", "--force"]);
    service.says(&["replication", "sync", "v1-copy"]);
    copy.returned("A");
    copy.write_nothing();

    service.says(&["replication", "break", "v1-copy"]);
    copy.returned("A");
    copy.nfs[0].1.write("B").unwrap();
    source.read("A");
    service.says(&["replication", "reverse", "v1-copy"]);
    service.says(&["replication", "sync", "v1"]);
    source.returned("B");
    source.write_nothing();
    copy.read("B");
    let written = copy.write();
    service.says(&["replication", "sync", "v1"]);
    source.read(&written);
}

#[test]
fn clients_of_both_volumes_stay_mounted_through_every_change_of_roles() {
    let service = service();
    let mut first = Client::mount(&target(&service, Version::V3, "v1"), &identity()).unwrap();
    let file = first.create(&first.root(), "a", 0o666).unwrap();
    first.write(&file, 0, b"1", StableHow::FileSync).unwrap();
    let mut early = Client::mount(&target(&service, Version::V3, "v1-copy"), &identity()).unwrap();
    let root = early.root();
    service.says(&["replication", "create", "v1-copy", "--source", "v1"]);
    assert_eq!(early.list(&root).unwrap().len(), 1, "the root of a client from before");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watchers = ["v1", "v1-copy"].map(|volume| scope.spawn(|| watch(&service, volume, &is_over)));
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| change_roles(&service)));
        is_over.store(true, Ordering::Relaxed);
        let reads = watchers.map(|watcher| watcher.join().unwrap());
        changed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(reads.iter().all(|&reads| reads > 0), "{reads:?}");
    });
}
