//! A service over [`MemFs`] for tests of the programs beside NFS: literal requests in, literal replies out, no sockets.

#[cfg(test)]
pub(crate) mod v4;

use crate::call::Call;
use crate::handle::HandleSigner;
use crate::portmap::Registration;
use crate::programs::Programs;
use crate::records::reply::Records;
use crate::server::dispatch::route;
use crate::service::Service;
use nfs_wire::rpc::{
    Accepted, AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, ReplyBody, ReplyHeader,
};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{CallStats, Outbox};
use vfs::qos::Permit;
use vfs::{
    Blocking, Credential, Durability, Export, ExportRule, FsError, Namespace, PendingSync, Protection,
    Squash, Time, Volume, VolumeId, Wait,
};
use vfs_testing::MemFs;
use xdr::{Decode, Encode, Inline, Reader};

/// The time of every call.
pub(crate) const NOW: Time = Time { seconds: 1_000_000_000, nanos: 0 };

/// A service and a client.
pub(crate) struct TestEnv {
    pub service: Service,
    pub peer: SocketAddr,
    /// The address at which they reach us.
    pub local: &'static str,
    pub endpoint: Option<&'static str>,
    pub protection: Protection,
    pub user: (u32, u32),
}

impl TestEnv {
    /// A service of these exports, asked by root at 10.1.0.9.
    pub(crate) fn new(exports: impl IntoIterator<Item = Export>, registered: Vec<Registration>) -> Self {
        let service = Service {
            namespace: Arc::new(Arc::new(Namespace::new(exports)).into()),
            signer: HandleSigner::new([7; 16]),
            replay: None,
            v4: crate::state::nfs4::ServiceState::new(1, b"tests", 30),
            mounts: Default::default(),
            refusals: Default::default(),
            rates: crate::state::call_rates::CallRates::unbounded(),
            locks: Default::default(),
            networks: Default::default(),
            registered,
        };
        Self {
            service,
            peer: "10.1.0.9:700".parse().unwrap(),
            local: "10.1.0.1",
            endpoint: None,
            protection: Protection::Plain,
            user: (0, 0),
        }
    }

    /// Runs `act` in a call that may block.
    pub(crate) fn call<R>(
        &self,
        credential: &Arc<Credential>,
        pending: &mut PendingSync,
        act: impl FnOnce(&mut Call<'_>) -> R,
    ) -> R {
        self.call_paid(credential, pending, &mut None, act)
    }

    pub(crate) fn call_paid<R>(
        &self,
        credential: &Arc<Credential>,
        pending: &mut PendingSync,
        permit: &mut Option<Permit>,
        act: impl FnOnce(&mut Call<'_>) -> R,
    ) -> R {
        act(&mut Call {
            service: &self.service,
            namespace: &self.service.namespace.load_full(),
            peer: self.peer,
            payer: self.peer.ip(),
            local: self.local.parse().unwrap(),
            endpoint: self.endpoint.map(|address| address.parse().unwrap()),
            protocol: crate::v3::PROTOCOL,
            protection: self.protection,
            moves_pages: true,
            credential,
            now: NOW,
            blocking: Blocking::Allowed,
            cache: None,
            pending,
            stats: CallStats::default(),
            permit,
        })
    }

    /// Calls a procedure; its results, or why there are none.
    pub(crate) fn ask(
        &self,
        program: u32,
        version: u32,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<Vec<u8>, Accepted> {
        let record = call_record(self.user, (program, version, procedure), args);
        let mut out = Outbox::default();
        let start = out.start();
        if let Some(routed) = route(PROGRAMS, &record, None, &mut out).unwrap() {
            let mut pending = PendingSync::default();
            let done = self.call(&routed.credential, &mut pending, |call| {
                routed.perform(routed.args(&record), call, &mut out)
            });
            match done {
                Ok(()) => {}
                Err(Wait::Recall) => routed.fail(routed.args(&record), FsError::Wait(Wait::Recall), &mut out),
                Err(wait) => panic!("nothing here may wait: {wait}"),
            }
            pending.sync_all().unwrap();
        }
        let mut reply = Reader::new(out.record(start).unwrap());
        match ReplyHeader::decode(&mut reply).unwrap() {
            ReplyHeader { xid: XID, body: ReplyBody::Accepted(_, Accepted::Success) } => {
                Ok(reply.rest().to_vec())
            }
            ReplyHeader { xid: XID, body: ReplyBody::Accepted(_, refused) } => Err(refused),
            other => panic!("{other:?}"),
        }
    }
}

const PROGRAMS: Programs = Programs { nfs: true, mount: true, portmap: true, locks: true, quotas: true };
const XID: u32 = 0x7e57_ca11;

/// A call as it stands in a record or a datagram.
pub(crate) fn call_record(user: (u32, u32), procedure: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
    let ((uid, gid), (prog, vers, proc)) = (user, procedure);
    let sys = AuthSys { stamp: 1, machinename: b"client", uid, gid, gids: Inline::default() }.to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let header =
        CallHeader { xid: XID, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf: OpaqueAuth::default() };
    [header.to_bytes(), args.to_bytes()].concat()
}

/// An empty volume exported at `path` under these rules.
pub(crate) fn export(path: &str, id: u64, rules: Vec<ExportRule>) -> Export {
    let backend = Arc::new(MemFs::new(Arc::new(|| NOW)));
    let volume = Volume::new(VolumeId(id), path, backend, Durability::Sync, 1);
    Export::new(path, Arc::new(volume), rules)
}

/// A rule for these clients that believes every claim.
pub(crate) fn rule(clients: &[&str]) -> ExportRule {
    let clients = clients.iter().map(|range| range.parse().unwrap()).collect();
    ExportRule { clients, squash: Squash::None, ..ExportRule::everybody() }
}

/// Encodes words.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
