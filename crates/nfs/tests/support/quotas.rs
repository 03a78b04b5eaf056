//! Remote quotas: a volume with a limit, and questions about it.

use super::client::system_clock;
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION};
use nfs_wire::rquota::{ExtGetArgs, GetArgs, PROGRAM, Procedure, Quota, QuotaReply, TYPE_USER, VERSION_1};
use vfs::{Backend, QuotaKind, QuotaLimits, QuotaRule, QuotaTarget};
use vfs_testing::MemFs;
use xdr::{Decode, Encode, Reader};

const UID: u32 = 1000;

/// A file system in which each user has 1 MiB.
pub fn limited() -> MemFs {
    let fs = MemFs::new(system_clock());
    let rule = QuotaRule {
        target: QuotaTarget { kind: QuotaKind::User, id: None },
        limits: QuotaLimits { bytes: Some(1 << 20), ..QuotaLimits::default() },
    };
    fs.quotas().unwrap().set_rules(&[rule]).unwrap();
    fs
}

/// A user asks for its own quota.
pub fn question(xid: u32, version: u32, path: &str) -> Vec<u8> {
    let sys = AuthSys { uid: UID, gid: 100, ..AuthSys::default() }.to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let (vers, proc, verf) = (version, Procedure::GETQUOTA.0, OpaqueAuth::default());
    let header = CallHeader { xid, rpcvers: RPC_VERSION, prog: PROGRAM, vers, proc, cred, verf };
    let args = match version {
        VERSION_1 => GetArgs { path: path.as_bytes(), uid: UID }.to_bytes(),
        _ => ExtGetArgs { path: path.as_bytes(), kind: TYPE_USER, id: UID }.to_bytes(),
    };
    [header.to_bytes(), args].concat()
}

pub fn answer(results: &[u8]) -> QuotaReply {
    QuotaReply::decode(&mut Reader::new(results)).unwrap()
}

/// The answer for a user without files.
pub fn unused() -> QuotaReply {
    QuotaReply::Ok(Quota { block_bytes: 1024, active: true, block_hard: 1024, ..Quota::default() })
}
