//! A service over [`MemFs`] for tests: literal requests and replies, with a manual clock.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod client;
pub mod gate;
pub mod object;
pub mod quotas;

pub use object::Object;

use nfs::call::Call;
use nfs::handle::HandleSigner;
use nfs::handle::cache::HandleCache;
use nfs::programs::Programs;
use nfs::records::reply::Records;
use nfs::server::dispatch::route;
use nfs::service::Service;
use nfs::state::call_rates::CallRates;
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, ReplyHeader};
use nfs_wire::v3::{self, FileHandle, Procedure};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use transport::Outbox;
use vfs::backend::KEEP_SET_ID;
use vfs::{
    Backend, Blocking, Durability, Export, ExportRule, FsError, Namespace, PendingSync, Squash, Time, Volume,
    VolumeId, Wait,
};
use vfs_testing::{MemFs, UncheckedNode, memfs};
use xdr::{Decode, Encode, Inline, Reader};

/// The volume of most tests.
pub const VOLUME: VolumeId = VolumeId(0x0101);
/// A second volume.
pub const OTHER: VolumeId = VolumeId(0x0202);
/// The write verifier of both volumes.
pub const INSTANCE: u64 = 0x1122_3344_5566_7788;
pub const PROGRAMS: Programs = Programs { nfs: true, mount: true, portmap: true, locks: true, quotas: true };
/// The client's address.
pub const PEER: &str = "192.0.2.7:700";

/// The credential of a call.
#[derive(Clone, Copy, Debug)]
pub enum Auth {
    /// AUTH_SYS: user, group, supplementary groups.
    Sys(u32, u32, &'static [u32]),
    None,
}

pub const ROOT: Auth = Auth::Sys(0, 0, &[]);
pub const ALICE: Auth = Auth::Sys(1000, 100, &[]);
/// Member of Alice's group through a supplementary group.
pub const GREG: Auth = Auth::Sys(1001, 101, &[7, 100]);
pub const BOB: Auth = Auth::Sys(1002, 102, &[]);

/// A clock that the test advances.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows 2001-09-09 01:46:40.
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000_000_000_000_000)))
    }

    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }

    pub fn now(&self) -> Time {
        let nanos = self.0.load(Ordering::Relaxed);
        let seconds = i64::try_from(nanos / 1_000_000_000).unwrap();
        Time { seconds, nanos: u32::try_from(nanos % 1_000_000_000).unwrap() }
    }

    pub fn volume_clock(&self) -> memfs::Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// A rule that admits all hosts and squashes no user.
pub fn trusting() -> ExportRule {
    ExportRule { squash: Squash::None, ..ExportRule::everybody() }
}

pub fn volume(id: VolumeId, backend: Arc<dyn Backend>, durability: Durability) -> Arc<Volume> {
    Arc::new(Volume::new(id, "vol", backend, durability, INSTANCE))
}

pub fn service(namespace: Arc<Namespace>) -> Service {
    Service {
        namespace: Arc::new(namespace.into()),
        signer: HandleSigner::new([7; 16]),
        replay: Some(Default::default()),
        v4: nfs::state::nfs4::ServiceState::new(1, b"tests", 30),
        mounts: Default::default(),
        refusals: Default::default(),
        rates: CallRates::unbounded(),
        locks: Default::default(),
        networks: Default::default(),
        registered: Vec::new(),
    }
}

/// A service, its volumes, and its caller.
pub struct World {
    pub clock: ManualClock,
    pub fs: MemFs,
    pub other: MemFs,
    pub service: Service,
    pub namespace: Arc<Namespace>,
    pub pending: PendingSync,
    pub peer: SocketAddr,
    /// The server's address of the call, if it is an endpoint.
    pub endpoint: Option<std::net::IpAddr>,
    pub blocking: Blocking,
    pub cache: Option<HandleCache>,
    xid: u32,
}

impl World {
    pub fn new() -> Self {
        Self::with(trusting(), Durability::Sync, memfs::Options::default())
    }

    pub fn with_rule(rule: ExportRule) -> Self {
        Self::with(rule, Durability::Sync, memfs::Options::default())
    }

    pub fn with(rule: ExportRule, durability: Durability, options: memfs::Options) -> Self {
        let clock = ManualClock::new();
        let fs = MemFs::with_options(clock.volume_clock(), options);
        let other = MemFs::new(clock.volume_clock());
        let export = |path: &str, id, fs: &MemFs| {
            Export::new(path, volume(id, Arc::new(fs.clone()), durability), vec![rule.clone()])
        };
        let namespace =
            Arc::new(Namespace::new([export("/vol", VOLUME, &fs), export("/other", OTHER, &other)]));
        Self {
            service: service(Arc::clone(&namespace)),
            clock,
            fs,
            other,
            namespace,
            pending: PendingSync::default(),
            peer: PEER.parse().unwrap(),
            endpoint: None,
            blocking: Blocking::Allowed,
            cache: None,
            xid: 0x0100,
        }
    }

    pub fn root(&self) -> Object {
        self.object(self.fs.root())
    }

    pub fn other_root(&self) -> Object {
        Object::new(&self.service.signer, OTHER, self.other.root())
    }

    pub fn object(&self, node: vfs::NodeRef) -> Object {
        Object::new(&self.service.signer, VOLUME, node)
    }

    /// A regular file created directly in the backend, with time passing before and after.
    pub fn file(&self, dir: &Object, name: &str, mode: u32, data: &[u8]) -> Object {
        self.clock.advance_ms(1000);
        let made = dir.node.create_unchecked(object::name(name), &object::new_inode(mode)).unwrap();
        made.found.node.write(0, data, KEEP_SET_ID).unwrap();
        self.clock.advance_ms(1000);
        self.object(made.found.node)
    }

    /// A directory created directly in the backend, with time passing before and after.
    pub fn dir(&self, dir: &Object, name: &str, mode: u32) -> Object {
        self.clock.advance_ms(1000);
        let made = dir.node.make_dir_unchecked(object::name(name), &object::new_inode(mode)).unwrap();
        self.clock.advance_ms(1000);
        self.object(made.found.node)
    }

    /// Another object created directly in the backend, with time passing before and after.
    pub fn special(&self, dir: &Object, name: &str, special: vfs::Special<'_>) -> Object {
        self.clock.advance_ms(1000);
        let made =
            dir.node.make_special_unchecked(object::name(name), special, &object::new_inode(0o644)).unwrap();
        self.clock.advance_ms(1000);
        self.object(made.found.node)
    }

    /// Looks `name` up in the backend.
    pub fn find(&self, dir: &Object, name: &str) -> Object {
        Object::new(
            &self.service.signer,
            dir.volume,
            dir.node.lookup(object::name(name), Blocking::Allowed).unwrap().node,
        )
    }

    /// The results of a call that RPC accepts.
    pub fn ask(&mut self, auth: Auth, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
        self.try_ask(auth, procedure, args).expect("this call need not wait")
    }

    /// The results of a call; `None` if it would have to wait.
    pub fn try_ask(&mut self, auth: Auth, procedure: Procedure, args: &impl Encode) -> Option<Vec<u8>> {
        self.xid += 1;
        let record = call(self.xid, auth, procedure, args);
        let reply = self.perform(&record)?;
        let (head, results) = reply.split_at(24);
        assert_eq!(head, ReplyHeader::success(self.xid), "{procedure:?} was not accepted");
        Some(results.to_vec())
    }

    /// The reply to a record; `None` if the call would have to wait.
    pub fn perform(&mut self, record: &[u8]) -> Option<Vec<u8>> {
        let mut out = Outbox::default();
        let start = out.start();
        if let Some(routed) = route(PROGRAMS, record, self.cache.as_mut(), &mut out).expect("a call") {
            let mut call = Call {
                service: &self.service,
                namespace: &self.namespace,
                peer: self.peer,
                payer: self.peer.ip(),
                local: std::net::IpAddr::from([192, 0, 2, 1]),
                endpoint: self.endpoint,
                protocol: routed.protocol(),
                protection: vfs::Protection::Plain,
                moves_pages: true,
                credential: &routed.credential,
                now: self.clock.now(),
                blocking: self.blocking,
                cache: self.cache.as_mut(),
                pending: &mut self.pending,
                stats: Default::default(),
                permit: &mut None,
            };
            if let Err(again) = routed.perform(routed.args(record), &mut call, &mut out) {
                assert!(out.is_empty(), "a call that waits has written something");
                match again {
                    Wait::Storage | Wait::Tokens | Wait::Event => return None,
                    Wait::Recall => routed.fail(routed.args(record), FsError::Wait(Wait::Recall), &mut out),
                }
            }
        }
        Some(out.record(start).expect("a whole reply").to_vec())
    }

    /// The number of flushes that `act` requires.
    pub fn added(&mut self, act: impl FnOnce(&mut Self)) -> usize {
        let before = self.pending.added();
        act(self);
        self.pending.added() - before
    }
}

/// The record of a call of NFSv3.
pub fn call(xid: u32, auth: Auth, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    [head(xid, auth, v3::VERSION, procedure.0), args.to_bytes()].concat()
}

/// The header of an NFS call.
pub fn head(xid: u32, auth: Auth, version: u32, procedure: u32) -> Vec<u8> {
    let body;
    let cred = match auth {
        Auth::Sys(uid, gid, gids) => {
            let sys = AuthSys { stamp: 1, machinename: b"ship", uid, gid, gids: Inline::new(gids).unwrap() };
            body = sys.to_bytes();
            OpaqueAuth { flavor: AuthFlavor::SYS, body: &body }
        }
        Auth::None => OpaqueAuth::default(),
    };
    let header = CallHeader {
        xid,
        rpcvers: RPC_VERSION,
        prog: v3::PROGRAM,
        vers: version,
        proc: procedure,
        cred,
        verf: OpaqueAuth::default(),
    };
    header.to_bytes()
}

/// Decodes all of `bytes`.
pub fn decode<'a, T: Decode<'a>>(bytes: &'a [u8]) -> T {
    let mut r = Reader::new(bytes);
    let value = T::decode(&mut r).expect("results of the right form");
    assert_eq!(r.remaining(), 0, "bytes after the results");
    value
}

/// The handle in a reply, which must contain one.
pub fn some_handle(handle: Option<FileHandle<'_>>) -> Vec<u8> {
    handle.expect("a handle").0.to_vec()
}
