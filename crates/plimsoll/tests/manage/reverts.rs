//! A volume is reverted while clients of three protocols use it: one of NFSv3 with handles, one of NFSv4.2 with a
//! delegation, one of SMB with a lease. All go on, and see the old data.

use crate::counters::client;
use crate::quota_writers::{furnished, identity, target};
use crate::rig::{Service, eventually};
use crate::session::{Session, put, results};
use crate::skip::skip;
use crate::smb::SMB;
use api_client::ChangeOptions;
use nfs_wire::v3::StableHow;
use nfs_wire::v4::{
    Argument, FreeStateidArgs, OpReply, OpenArgs, OpenClaim, OpenDelegation, OpenFlag, ReadArgs,
    ReclaimCompleteArgs, Reply, SequenceStatus, ShareAccess, ShareDeny, StateOwner, Stateid, Status,
    TestStateidArgs,
};
use smb_wire::create::{CreateContext, CreateContexts, CreateRequest, CreateResponse, OplockLevel};
use smb_wire::file::ReadResponse;
use smb_wire::header::Command;
use smb_wire::lease::{Lease, LeaseFlags, LeaseV1};
use smb_wire::oplock::{LeaseKey, LeaseState};
use smb_wire::{Decode, Encode, FileId, NtStatus, Utf16};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use wire_client::smb::requests::{self, OpenMode, utf16};
use wire_client::smb::session::Session as SmbSession;
use wire_client::{Client, Error, Handle, Identity, Protection, Version};

const UID: u32 = 2001;
const LEN: u32 = 100_000;

fn data(byte: u8) -> Vec<u8> {
    vec![byte; LEN as usize]
}

/// A client of NFSv3 with the handles of a file and of one that is younger than the snapshot.
struct V3 {
    client: Client,
    file: Handle,
    younger: Option<Handle>,
}

impl V3 {
    fn new(service: &Service, name: &str) -> Self {
        let mut client = Client::mount(&target(service, Version::V3, UID), &Identity::new(0, 0)).unwrap();
        let root = client.root();
        let file = client.create(&root, name, 0o666).unwrap();
        Self { client, file, younger: None }
    }

    fn write(&mut self, byte: u8) {
        self.client.write(&self.file, 0, &data(byte), StableHow::FileSync).unwrap();
    }

    fn make_younger(&mut self) {
        let root = self.client.root();
        self.younger = Some(self.client.create(&root, "younger", 0o666).unwrap());
    }

    /// The byte that the whole file consists of.
    fn byte(&mut self) -> u8 {
        let read = self.client.read(&self.file, 0, LEN).unwrap().data;
        assert!(read == data(read[0]), "a file of two states");
        read[0]
    }

    fn goes_on(&mut self, old: u8) {
        assert_eq!(self.byte(), old, "by the handle of before");
        let younger = self.younger.take().unwrap();
        match self.client.read(&younger, 0, 1) {
            Err(Error::Refused { status, .. }) => assert_eq!(status, "NFS3ERR_STALE"),
            other => panic!("a file that is gone: {other:?}"),
        }
        let root = self.client.root();
        assert!(self.client.lookup(&root, "younger").is_err());
    }
}

/// A client of NFSv4.2 with an open file and a delegation of it.
struct Delegated {
    session: Session,
    file: Vec<u8>,
    open: Stateid,
    delegation: Stateid,
}

impl Delegated {
    fn new(service: &Service, name: &str) -> Self {
        let mut session = Session::over(TcpStream::connect(service.nfs()).unwrap()).unwrap();
        session.minor = 2;
        session.begin_with_callbacks(b"a client with a delegation").unwrap();
        session.ask(&[Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]).unwrap();
        let file = session.handle(&["v1", name]).unwrap();
        let mut delegated = Self { session, file, open: Stateid::ANONYMOUS, delegation: Stateid::ANONYMOUS };
        delegated.open();
        delegated
    }

    /// Opens the file; the server must grant a delegation.
    fn open(&mut self) {
        let open = OpenArgs {
            seqid: 0,
            share_access: ShareAccess::READ,
            share_deny: ShareDeny::NONE,
            owner: StateOwner { clientid: 0, owner: b"a process" },
            openhow: OpenFlag::NoCreate,
            claim: OpenClaim::Fh,
        };
        let reply = self.session.ask(&[put(&self.file), Argument::Open(open)]).unwrap();
        match results(&reply).last() {
            Some(OpReply::Open(Reply::Ok(ok))) => match ok.delegation {
                OpenDelegation::Read(read) => (self.open, self.delegation) = (ok.stateid, read.stateid),
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The flags of SEQUENCE, and the byte that the file consists of or the refusal.
    fn read(&mut self, stateid: Stateid) -> (SequenceStatus, Result<u8, Status>) {
        let read = Argument::Read(ReadArgs { stateid, offset: 0, count: LEN });
        let reply = self.session.ask(&[put(&self.file), read]).unwrap();
        let all = results(&reply);
        let Some(OpReply::Sequence(Reply::Ok(sequence))) = all.first() else { panic!("{all:?}") };
        match all.last() {
            Some(OpReply::Read(Reply::Ok(ok))) => {
                assert!(ok.data == data(ok.data[0]), "a file of two states");
                (sequence.status_flags, Ok(ok.data[0]))
            }
            Some(OpReply::Read(Reply::Err(status)) | OpReply::Putfh(status)) => {
                (sequence.status_flags, Err(*status))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Recovers as clients do: it looks which state is revoked, frees it, and opens the file again.
    fn goes_on(&mut self, old: u8) {
        let (flags, read) = self.read(self.delegation);
        let is_told = flags.0 & SequenceStatus::ADMIN_STATE_REVOKED.0 != 0;
        assert!(is_told, "the client must learn that its state is gone: {flags:?}, {read:?}");
        assert!(matches!(read, Err(Status::ADMIN_REVOKED | Status::DELEG_REVOKED)), "{read:?}");
        let all = [self.open, self.delegation];
        let test = Argument::TestStateid(TestStateidArgs { stateids: all.to_vec() });
        let reply = self.session.ask(&[test]).unwrap();
        let Some(OpReply::TestStateid(Reply::Ok(tested))) = results(&reply).pop() else { panic!() };
        assert!(tested.status_codes.iter().all(|status| *status != Status::OK), "{tested:?}");
        for stateid in all {
            self.session.ask(&[Argument::FreeStateid(FreeStateidArgs { stateid })]).unwrap();
        }
        let (flags, _) = self.read(Stateid::ANONYMOUS);
        assert_eq!(flags, SequenceStatus(0), "nothing is left to recover");
        self.open();
        assert_eq!(self.read(self.delegation).1, Ok(old));
        assert_eq!(self.read(self.open).1, Ok(old));
    }
}

/// A client of SMB with an open file and a lease of it.
struct Leased<'s> {
    service: &'s Service,
    name: &'static str,
    session: SmbSession,
    file: FileId,
}

impl<'s> Leased<'s> {
    fn new(service: &'s Service, name: &'static str) -> Self {
        let mut session = Self::connect(service);
        let file = Self::open(&mut session, name);
        Self { service, name, session, file }
    }

    fn connect(service: &Service) -> SmbSession {
        let target = target(service, Version::Smb(Protection::Gmac), UID);
        SmbSession::open(&target, 0, &identity(UID)).unwrap()
    }

    /// Opens the file with a lease; the server must grant it whole.
    fn open(session: &mut SmbSession, name: &str) -> FileId {
        let lease_state = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
        let lease = LeaseV1 { lease_key: LeaseKey([7; 16]), lease_state, lease_flags: LeaseFlags::empty() };
        let (path, bytes) = (utf16(name), Lease::V1(lease).to_bytes());
        let request = CreateRequest {
            requested_oplock_level: OplockLevel::LEASE,
            contexts: CreateContexts(vec![CreateContext { name: Lease::NAME, data: &bytes }]),
            ..OpenMode::DATA.request(Utf16::new(&path).unwrap())
        };
        let reply = session.call(Command::CREATE, 0, &request, None).unwrap();
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
        let opened = reply.body::<CreateResponse<'_>>().unwrap();
        let granted = opened.contexts.find(Lease::NAME).map(|bytes| Lease::from_bytes(bytes).unwrap());
        assert_eq!(granted.map(|lease| lease.lease_state()), Some(lease_state));
        opened.file_id
    }

    fn write(&mut self, byte: u8) {
        let bytes = data(byte);
        let body = requests::write(self.file, 0, bytes.len(), smb_wire::file::WriteFlags::empty());
        let reply = self.session.call(Command::WRITE, LEN, &body, Some(&bytes)).unwrap();
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
    }

    fn read(&mut self) -> Result<u8, NtStatus> {
        let reply = self.session.call(Command::READ, LEN, &requests::read(self.file, 0, LEN), None).unwrap();
        if reply.header.status != NtStatus::SUCCESS {
            return Err(reply.header.status);
        }
        let read = reply.body::<ReadResponse<&[u8]>>().unwrap();
        assert!(read.data == data(read.data[0]), "a file of two states");
        Ok(read.data[0])
    }

    /// Connects again, as clients do whose share is gone.
    fn goes_on(&mut self, old: u8) {
        assert_eq!(self.read(), Err(NtStatus::NETWORK_NAME_DELETED), "its open is gone");
        self.session = Self::connect(self.service);
        self.file = Self::open(&mut self.session, self.name);
        assert_eq!(self.read(), Ok(old));
    }
}

fn service() -> Option<Service> {
    if !rustix::process::geteuid().is_root() {
        skip("files of several users need root");
        return None;
    }
    Some(furnished(Service::start_with(&[&["--snapshots", "copy"], &SMB[..]].concat())))
}

/// Reads a file again and again while `act` runs; returns each state that it saw.
fn reading<T>(service: &Service, name: &str, act: impl FnOnce() -> T) -> (Vec<u8>, T) {
    let is_done = AtomicBool::new(false);
    let mut client = Client::mount(&target(service, Version::V3, UID), &Identity::new(0, 0)).unwrap();
    let root = client.root();
    let file = client.lookup(&root, name).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen, mut is_last) = (Vec::new(), false);
            while !is_last {
                is_last = is_done.load(Ordering::SeqCst);
                match client.read(&file, 0, LEN) {
                    Ok(read) => {
                        assert!(read.data == data(read.data[0]), "a file of two states");
                        seen.push(read.data[0]);
                    }
                    // Clients repeat it.
                    Err(Error::Refused { status, .. }) if status == "NFS3ERR_JUKEBOX" => is_last = false,
                    Err(other) => panic!("{other}"),
                }
            }
            seen.dedup();
            seen
        });
        let done = act();
        is_done.store(true, Ordering::SeqCst);
        (reader.join().unwrap(), done)
    })
}

#[test]
fn clients_of_all_protocols_go_on_after_a_revert_and_see_the_old_data() {
    let Some(service) = service() else { return };
    let mut v3 = V3::new(&service, "a");
    for name in ["b", "c"] {
        V3::new(&service, name).write(b'1');
    }
    v3.write(b'1');
    service.says(&["snapshot", "create", "v1", "s1"]);
    let mut v4 = Delegated::new(&service, "b");
    let mut smb = Leased::new(&service, "c");
    let api = client(&service);
    for round in 0..2 {
        // The delegation is one for reading, so nobody writes its file.
        v3.write(b'2');
        v3.make_younger();
        smb.write(b'2');
        assert_eq!((v4.read(v4.delegation).1, smb.read(), v3.byte()), (Ok(b'1'), Ok(b'2'), b'2'));
        let (seen, ()) = reading(&service, "a", || {
            if round == 0 {
                let said = service.says(&["snapshot", "revert", "v1", "s1", "--yes"]);
                assert!(said.contains("s1"), "{said}");
                return;
            }
            let begun = api.revert(&ChangeOptions::none().forced(true), "v1", "s1").unwrap();
            eventually("the revert ends", || api.operation(begun.id).unwrap().outcome == "succeeded");
        });
        assert!(matches!(seen[..], [b'2', b'1'] | [b'1'] | [b'2']), "{seen:?}");
        v3.goes_on(b'1');
        v4.goes_on(b'1');
        smb.goes_on(b'1');
    }
}
