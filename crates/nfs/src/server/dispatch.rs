//! Dispatch: decodes a record to its procedure, and writes RPC's own errors (RFC 5531 §9).

use super::tls;
use crate::call::{Call, CallResult, Outcome};
use crate::handle::cache::{HandleCache, decode_credential};
use crate::programs::Programs;
use crate::records::reply::Records;
use crate::v4::price::PaidOperations;
use crate::{mount, nlm, nsm, portmap, rquota, v3, v4};
use nfs_wire::rpc::{Accepted, AuthFlavor, AuthStat, CallHeader, RPC_VERSION, Rejected, Versions};
use std::sync::Arc;
use transport::{Dispatch, Outbox};
use vfs::qos::{Kind, Transferred};
use vfs::{Credential, FsError, ProtocolId};
use xdr::{Decode, Malformed, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Nfs(nfs_wire::v3::Procedure),
    Compound(v4::Outline),
    /// A procedure of another program, or one without a file.
    Sideband(Sideband),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sideband {
    Null4,
    Mount(u32, nfs_wire::mount::Procedure),
    /// Version and procedure number of the port mapper or rpcbind.
    Portmap(u32, u32),
    Nlm(u32, nfs_wire::nlm::Procedure),
    Nsm(nfs_wire::nsm::Procedure),
    Rquota(u32, nfs_wire::rquota::Procedure),
    /// A NULL call of any program that asks for TLS.
    StartTls,
}

#[derive(Clone)]
pub struct RpcCall {
    pub xid: u32,
    pub target: Target,
    pub credential: Arc<Credential>,
    /// The operations of a compound paid for in advance.
    pub(crate) paid: Option<PaidOperations>,
    /// Offset of the arguments in the record.
    args: u32,
}

/// Decodes the call in a record, using the credentials of `cache`.
/// `Ok(None)`: the call is refused, and the refusal is in `out`.
/// An error means that the record is not a call: it gets no reply, and the following bytes cannot be trusted.
#[inline]
pub fn route(
    programs: Programs,
    record: &[u8],
    mut cache: Option<&mut HandleCache>,
    out: &mut Outbox,
) -> Result<Option<RpcCall>, Malformed> {
    let mut r = Reader::new(record);
    let header = CallHeader::decode(&mut r)?;
    if header.rpcvers != RPC_VERSION {
        out.reject(header.xid, Rejected::RpcMismatch(Versions { low: RPC_VERSION, high: RPC_VERSION }));
        return Ok(None);
    }
    let target = match target(programs, &header) {
        Ok(target) => target,
        Err(accepted) => {
            out.accept(header.xid, accepted);
            return Ok(None);
        }
    };
    let counts = cache.as_mut().and_then(|cache| cache.counts.as_deref_mut());
    let target = match (target, counts) {
        (Target::Compound(_), counts) => Target::Compound(v4::outline(r.clone().rest(), counts)),
        (Target::Nfs(procedure), Some(counts)) => {
            counts.add_procedure(procedure);
            target
        }
        (target, _) => target,
    };
    let identified = match tls::asks(&header) {
        Ok(false) => credential(&header, cache).map(|credential| (target, credential)),
        Ok(true) => Ok((Target::Sideband(Sideband::StartTls), Credential::none())),
        Err(stat) => Err(stat),
    };
    match identified {
        Ok((target, credential)) => {
            let args = u32::try_from(record.len() - r.remaining()).map_err(|_| Malformed("a long head"))?;
            Ok(Some(RpcCall { xid: header.xid, target, credential, paid: None, args }))
        }
        Err(stat) => {
            out.reject(header.xid, Rejected::AuthError(stat));
            Ok(None)
        }
    }
}

fn target(programs: Programs, header: &CallHeader<'_>) -> Result<Target, Accepted> {
    let mismatch = |low, high| Err(Accepted::ProgMismatch(Versions { low, high }));
    match header.prog {
        nfs_wire::v3::PROGRAM if programs.nfs => match header.vers {
            nfs_wire::v3::VERSION => Ok(Target::Nfs(nfs_wire::v3::Procedure(header.proc))),
            nfs_wire::v4::VERSION => match nfs_wire::v4::Procedure(header.proc) {
                nfs_wire::v4::Procedure::NULL => Ok(Target::Sideband(Sideband::Null4)),
                nfs_wire::v4::Procedure::COMPOUND => Ok(Target::Compound(v4::Outline::default())),
                _ => Err(Accepted::ProcUnavail),
            },
            // Version 2 is not served.
            _ => mismatch(nfs_wire::v3::VERSION, nfs_wire::v4::VERSION),
        },
        nfs_wire::mount::PROGRAM if programs.mount => match header.vers {
            nfs_wire::mount::VERSION_1 | nfs_wire::mount::VERSION => {
                Ok(Target::Sideband(Sideband::Mount(header.vers, nfs_wire::mount::Procedure(header.proc))))
            }
            _ => mismatch(nfs_wire::mount::VERSION_1, nfs_wire::mount::VERSION),
        },
        nfs_wire::portmap::PROGRAM if programs.portmap => match header.vers {
            nfs_wire::portmap::PMAP_VERSION..=nfs_wire::portmap::RPCB_VERSION_4 => {
                Ok(Target::Sideband(Sideband::Portmap(header.vers, header.proc)))
            }
            _ => mismatch(nfs_wire::portmap::PMAP_VERSION, nfs_wire::portmap::RPCB_VERSION_4),
        },
        nfs_wire::nlm::PROGRAM if programs.locks => match header.vers {
            nfs_wire::nlm::VERSION_1 | nfs_wire::nlm::VERSION_3 | nfs_wire::nlm::VERSION_4 => {
                Ok(Target::Sideband(Sideband::Nlm(header.vers, nfs_wire::nlm::Procedure(header.proc))))
            }
            _ => mismatch(nfs_wire::nlm::VERSION_1, nfs_wire::nlm::VERSION_4),
        },
        nfs_wire::nsm::PROGRAM if programs.locks => match header.vers {
            nfs_wire::nsm::VERSION => {
                Ok(Target::Sideband(Sideband::Nsm(nfs_wire::nsm::Procedure(header.proc))))
            }
            _ => mismatch(nfs_wire::nsm::VERSION, nfs_wire::nsm::VERSION),
        },
        nfs_wire::rquota::PROGRAM if programs.quotas => match header.vers {
            nfs_wire::rquota::VERSION_1 | nfs_wire::rquota::VERSION_2 => {
                Ok(Target::Sideband(Sideband::Rquota(header.vers, nfs_wire::rquota::Procedure(header.proc))))
            }
            _ => mismatch(nfs_wire::rquota::VERSION_1, nfs_wire::rquota::VERSION_2),
        },
        _ => Err(Accepted::ProgUnavail),
    }
}

/// The credential of a call. RPCSEC_GSS and unknown flavors get an error after which clients fall back to AUTH_SYS.
#[inline]
fn credential(header: &CallHeader<'_>, cache: Option<&mut HandleCache>) -> Result<Arc<Credential>, AuthStat> {
    let body = header.cred.body;
    let credential = match (header.cred.flavor, cache) {
        (AuthFlavor::NONE, _) => return Ok(Credential::none()),
        (AuthFlavor::SYS, Some(cache)) => cache.credentials.credential(body),
        (AuthFlavor::SYS, None) => decode_credential(body),
        _ => return Err(AuthStat::REJECTEDCRED),
    };
    credential.map_err(|_| AuthStat::BADCRED)
}

impl Sideband {
    fn number(self) -> u32 {
        match self {
            Self::Null4 | Self::StartTls => 0,
            Self::Mount(_, procedure) => procedure.0,
            Self::Portmap(_, procedure) => procedure,
            Self::Nlm(_, procedure) => procedure.0,
            Self::Nsm(procedure) => procedure.0,
            Self::Rquota(_, procedure) => procedure.0,
        }
    }

    fn answer(self, call: &mut Call<'_>, args: &[u8], out: &mut Outbox) -> Result<Outcome, Malformed> {
        match self {
            // A plain reply to a STARTTLS call means that TLS is not available (RFC 9289 §4.1).
            Self::Null4 | Self::StartTls => Ok(Outcome::Replied),
            Self::Mount(version, procedure) => mount::answer(call, version, procedure, args, out),
            Self::Portmap(version, procedure) => portmap::answer(call, version, procedure, args, out),
            Self::Nlm(version, procedure) => nlm::answer(call, version, procedure, args, out),
            Self::Nsm(procedure) => nsm::answer(call, procedure, args, out),
            Self::Rquota(version, procedure) => rquota::answer(call, version, procedure, args, out),
        }
    }

    /// Writes the result of a failed call; false if the procedure has none.
    fn fail(self, args: &[u8], error: FsError, out: &mut Outbox) -> bool {
        match self {
            Self::Nlm(version, procedure) => nlm::fail(version, procedure, args, error, &mut out.writer()),
            _ => false,
        }
    }
}

impl RpcCall {
    #[inline]
    pub fn args<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        record.get(self.args as usize..).unwrap_or_default()
    }

    pub fn is_null(&self) -> bool {
        match self.target {
            Target::Nfs(procedure) => procedure.0 == 0,
            Target::Compound(_) => false,
            Target::Sideband(sideband) => sideband.number() == 0,
        }
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        match self.target {
            Target::Nfs(procedure) => v3::kind(procedure),
            Target::Compound(outline) => outline.kind,
            Target::Sideband(_) => Kind::Other,
        }
    }

    /// Unknown procedures are answered at once.
    #[inline]
    pub fn dispatch(&self) -> Dispatch {
        match self.target {
            Target::Nfs(procedure) => v3::dispatch(procedure),
            Target::Compound(outline) => outline.dispatch,
            Target::Sideband(Sideband::Mount(..) | Sideband::Rquota(..)) => Dispatch::Offload,
            Target::Sideband(_) => Dispatch::Inline,
        }
    }

    /// The protocol, as export rules know it. MOUNT is a part of version 3.
    #[inline]
    pub fn protocol(&self) -> ProtocolId {
        match self.target {
            Target::Compound(outline) => v4::protocol(outline.minor),
            Target::Nfs(_) | Target::Sideband(_) => v3::PROTOCOL,
        }
    }

    /// Whether the data can be written as it arrives.
    #[inline]
    pub fn streams(&self) -> bool {
        match self.target {
            Target::Nfs(procedure) => procedure == nfs_wire::v3::Procedure::WRITE,
            // A compound without a long WRITE is buffered until it is complete.
            Target::Compound(_) => true,
            Target::Sideband(_) => false,
        }
    }

    #[inline]
    pub fn is_idempotent(&self) -> bool {
        match self.target {
            Target::Nfs(procedure) => v3::is_idempotent(procedure),
            Target::Compound(outline) => !outline.is_once,
            Target::Sideband(_) => true,
        }
    }

    /// The procedure number in the key of the replay cache.
    pub(crate) fn procedure(&self) -> Option<u32> {
        match self.target {
            Target::Nfs(procedure) => Some(procedure.0),
            Target::Compound(_) => Some(nfs_wire::v4::Procedure::COMPOUND.0),
            Target::Sideband(_) => None,
        }
    }

    /// Maximum bytes of the reply, if the reply may be long.
    pub fn reply_bytes_max(&self, args: &[u8]) -> u32 {
        match self.target {
            Target::Nfs(procedure) => v3::reply_bytes_max(procedure, args),
            Target::Compound(outline) => outline.reply_bytes_max,
            Target::Sideband(_) => 0,
        }
    }

    /// Bytes that limits count for a call of version 3 with these arguments.
    pub(crate) fn moved(&self, args: &[u8]) -> Transferred {
        match self.target {
            Target::Nfs(procedure) => v3::demand(procedure, args)
                .map_or_else(Transferred::default, |(_, demand)| demand.transferred()),
            Target::Compound(_) | Target::Sideband(_) => Transferred::default(),
        }
    }

    /// Runs the call, blocking if `call` may, and writes the reply. If the call waits, `out` is unchanged.
    #[inline]
    pub fn perform(&self, args: &[u8], call: &mut Call<'_>, out: &mut Outbox) -> CallResult {
        let start = out.begin_success(self.xid);
        let attempt = match self.target {
            Target::Nfs(procedure) => v3::answer(call, procedure, args, out),
            // Compounds resume at an operation, which only `Rpc::compound` knows.
            Target::Compound(_) => Ok(Outcome::NoProcedure),
            Target::Sideband(sideband) => sideband.answer(call, args, out),
        };
        match attempt {
            Ok(Outcome::Replied) => {
                out.finish(start);
            }
            Ok(Outcome::Wait(wait)) => {
                out.truncate(start);
                return Err(wait);
            }
            Ok(Outcome::NoProcedure) => {
                out.truncate(start);
                out.accept(self.xid, Accepted::ProcUnavail);
            }
            Err(Malformed(_)) => {
                out.truncate(start);
                out.accept(self.xid, Accepted::GarbageArgs);
            }
        }
        Ok(())
    }

    /// Writes the reply of a failed call to `out`.
    pub fn fail(&self, args: &[u8], error: FsError, out: &mut Outbox) {
        match self.target {
            Target::Nfs(procedure) => {
                let start = out.begin_success(self.xid);
                v3::fail(procedure, error, &mut out.writer());
                out.finish(start);
            }
            Target::Compound(outline) => {
                let start = out.begin_success(self.xid);
                v4::fail(&outline, error, &mut out.writer());
                out.finish(start);
            }
            Target::Sideband(sideband) => {
                let start = out.begin_success(self.xid);
                if sideband.fail(args, error, out) {
                    out.finish(start);
                } else {
                    out.truncate(start);
                    out.accept(self.xid, Accepted::SystemErr);
                }
            }
        }
    }
}
