//! The port mapper and rpcbind (RFC 1833).
//!
//! The mapper lists the programs of this process only and cannot be changed, so SET and UNSET return false.
//! CALLIT, BCAST and INDIRECT forward a call in our name. They serve reflection attacks, so they are refused unread.

pub mod rpcbind;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::programs::{Registration, Transport};

use crate::call::{Attempt, Call, Outcome};
use crate::programs::{Family, Netid, ServedAddress};
use crate::records::reply::Records;
use nfs_wire::portmap::{IPPROTO_TCP, IPPROTO_UDP, Mapping, PMAP_VERSION, PmapProcedure, RPCB_VERSION_4};
use nfs_wire::portmap::{Rpcb, RpcbEntry, RpcbProcedure, Semantics, Uaddr};
use transport::Outbox;
use xdr::{Decode, Encode, Malformed, Reader, Writer};

const OWNER: &[u8] = b"plimsoll";

pub(crate) fn answer(
    call: &mut Call<'_>,
    version: u32,
    procedure: u32,
    args: &[u8],
    out: &mut Outbox,
) -> Attempt {
    let (mut args, mut w) = (Reader::new(args), out.writer());
    if version == PMAP_VERSION {
        port_mapper(call, PmapProcedure(procedure), &mut args, &mut w)
    } else {
        rpcbind(call, version, RpcbProcedure(procedure), &mut args, &mut w)
    }
}

/// Version 2, RFC 1833 §3. It cannot express IPv6, so it lists IPv4 only.
fn port_mapper(call: &Call<'_>, procedure: PmapProcedure, r: &mut Reader<'_>, w: &mut Writer<'_>) -> Attempt {
    match procedure {
        PmapProcedure::NULL => {}
        PmapProcedure::SET | PmapProcedure::UNSET => w.bool(false),
        PmapProcedure::GETPORT => {
            let wanted = Mapping::decode(r)?;
            let mut mappings = mappings(call);
            let found =
                mappings.find(|m| (m.prog, m.vers, m.prot) == (wanted.prog, wanted.vers, wanted.prot));
            w.u32(found.map_or(0, |mapping| mapping.port));
        }
        PmapProcedure::DUMP => {
            mappings(call).for_each(|mapping| Some(mapping).encode(w));
            w.bool(false);
        }
        _ => return Ok(Outcome::NoProcedure),
    }
    Ok(Outcome::Replied)
}

/// Versions 3 and 4, RFC 1833 §2. Procedures that translate universal and local addresses are unavailable:
/// their argument is a `sockaddr` in the server's memory layout, which is useless to clients.
fn rpcbind(
    call: &Call<'_>,
    version: u32,
    procedure: RpcbProcedure,
    r: &mut Reader<'_>,
    w: &mut Writer<'_>,
) -> Attempt {
    let version_4 = version == RPCB_VERSION_4;
    match procedure {
        RpcbProcedure::NULL => {}
        RpcbProcedure::SET | RpcbProcedure::UNSET => w.bool(false),
        RpcbProcedure::GETADDR => address(call, r, w, true)?,
        RpcbProcedure::GETVERSADDR if version_4 => address(call, r, w, false)?,
        RpcbProcedure::GETADDRLIST if version_4 => address_list(call, r, w)?,
        RpcbProcedure::GETTIME => w.u32(u32::try_from(call.now.seconds).unwrap_or(u32::MAX)),
        RpcbProcedure::DUMP => {
            for served in addresses(call) {
                let Registration { program: prog, version: vers, .. } = *served.registration;
                let (netid, addr) = (served.netid.name().as_bytes(), served.universal_address());
                Some(Rpcb { prog, vers, netid, addr: addr.as_bytes(), owner: OWNER }).encode(w);
            }
            w.bool(false);
        }
        _ => return Ok(Outcome::NoProcedure),
    }
    Ok(Outcome::Replied)
}

/// GETADDR, which accepts another version of the program, and GETVERSADDR, which does not (RFC 1833 §2.2.2).
///
/// The caller names the transport. An unknown name means TCP, which all programs have.
/// The family is that of the caller's address.
fn address(
    call: &Call<'_>,
    r: &mut Reader<'_>,
    w: &mut Writer<'_>,
    any_version: bool,
) -> Result<(), Malformed> {
    let wanted = Rpcb::decode(r)?;
    let inferred = Netid { transport: Transport::Tcp, family: Family::of(call.local) };
    let netid = Netid::parse(wanted.netid).unwrap_or(inferred);
    let offers = || {
        addresses(call).filter(|served| served.netid == netid && served.registration.program == wanted.prog)
    };
    let exact = offers().find(|served| served.registration.version == wanted.vers);
    let found = exact.or_else(|| offers().next().filter(|_| any_version));
    Uaddr(found.map(|served| served.universal_address()).unwrap_or_default().as_bytes()).encode(w);
    Ok(())
}

/// GETADDRLIST: every transport that serves one version of a program.
fn address_list(call: &Call<'_>, r: &mut Reader<'_>, w: &mut Writer<'_>) -> Result<(), Malformed> {
    let wanted = Rpcb::decode(r)?;
    let is_wanted = |served: &ServedAddress<'_>| {
        (served.registration.program, served.registration.version) == (wanted.prog, wanted.vers)
    };
    for served in addresses(call).filter(is_wanted) {
        let (nc_semantics, nc_proto) = match served.netid.transport {
            Transport::Tcp => (Semantics::COTS_ORD, "tcp"),
            Transport::Udp => (Semantics::CLTS, "udp"),
        };
        let nc_protofmly = match served.netid.family {
            Family::V4 => "inet",
            Family::V6 => "inet6",
        };
        let maddr = served.universal_address();
        let entry = RpcbEntry {
            maddr: maddr.as_bytes(),
            nc_netid: served.netid.name().as_bytes(),
            nc_semantics,
            nc_protofmly: nc_protofmly.as_bytes(),
            nc_proto: nc_proto.as_bytes(),
        };
        Some(entry).encode(w);
    }
    w.bool(false);
    Ok(())
}

/// All registrations, once per transport and address family.
fn addresses<'c>(call: &'c Call<'_>) -> impl Iterator<Item = ServedAddress<'c>> {
    call.service.registered.iter().flat_map(|registration| registration.addresses(call.local))
}

/// The registrations that version 2 can express.
fn mappings<'c>(call: &'c Call<'_>) -> impl Iterator<Item = Mapping> + use<'c> {
    addresses(call).filter(|served| served.netid.family == Family::V4).map(|served| Mapping {
        prog: served.registration.program,
        vers: served.registration.version,
        prot: match served.netid.transport {
            Transport::Tcp => IPPROTO_TCP,
            Transport::Udp => IPPROTO_UDP,
        },
        port: served.registration.address.port().into(),
    })
}
