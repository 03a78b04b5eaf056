//! The port mapper (version 2) and rpcbind (versions 3 and 4), RFC 1833.
//!
//! CALLIT, BCAST and INDIRECT have no types here: relaying calls is an amplifier, so they are refused unread. Nor has
//! GETSTAT, which no client of ours asks.

use xdr::{List, Xdr};

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "PMAP_PROG" = 100_000,
        PMAP_VERSION: "PMAP_VERS" = 2,
        // The same program: rpcbind is the successor of the port mapper.
        RPCB_PROGRAM: "RPCBPROG" = PROGRAM,
        RPCB_VERSION_3: "RPCBVERS" = 3,
        RPCB_VERSION_4: "RPCBVERS4" = 4,
        PORT: "PMAP_PORT" = 111,
        RPCB_PORT: "RPCB_PORT" = PORT,
        IPPROTO_TCP: "IPPROTO_TCP" = 6,
        IPPROTO_UDP: "IPPROTO_UDP" = 17,
    }
}

/// Strings have no bound in RFC 1833; this one is ours. Universal addresses and network ids are far shorter.
pub const STRING_MAX: u32 = 1024;

xdr::open_set! {
    /// The procedures of version 2, RFC 1833 §3.1.
    pub struct PmapProcedure {
        NULL: "PMAPPROC_NULL" = 0,
        SET: "PMAPPROC_SET" = 1,
        UNSET: "PMAPPROC_UNSET" = 2,
        GETPORT: "PMAPPROC_GETPORT" = 3,
        DUMP: "PMAPPROC_DUMP" = 4,
        CALLIT: "PMAPPROC_CALLIT" = 5,
    }
}

xdr::open_set! {
    /// The procedures of versions 3 and 4, RFC 1833 §2.1. Version 3 ends with `TADDR2UADDR`; its `CALLIT` is version 4's
    /// `BCAST`.
    pub struct RpcbProcedure {
        SET: "RPCBPROC_SET" = 1,
        UNSET: "RPCBPROC_UNSET" = 2,
        GETADDR: "RPCBPROC_GETADDR" = 3,
        DUMP: "RPCBPROC_DUMP" = 4,
        BCAST: "RPCBPROC_BCAST" = 5,
        CALLIT: "RPCBPROC_CALLIT" = 5,
        GETTIME: "RPCBPROC_GETTIME" = 6,
        UADDR2TADDR: "RPCBPROC_UADDR2TADDR" = 7,
        TADDR2UADDR: "RPCBPROC_TADDR2UADDR" = 8,
        GETVERSADDR: "RPCBPROC_GETVERSADDR" = 9,
        INDIRECT: "RPCBPROC_INDIRECT" = 10,
        GETADDRLIST: "RPCBPROC_GETADDRLIST" = 11,
        GETSTAT: "RPCBPROC_GETSTAT" = 12,
    }
}

impl RpcbProcedure {
    /// Procedure 0 does nothing in every program (RFC 5531 §12.1); RFC 1833 does not list it.
    pub const NULL: Self = Self(0);
}

/// `mapping`, RFC 1833 §3.1: the argument of SET, UNSET and GETPORT. The result of GETPORT is a `u32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Mapping {
    pub prog: u32,
    pub vers: u32,
    /// [`IPPROTO_TCP`] or [`IPPROTO_UDP`].
    pub prot: u32,
    /// Ignored in GETPORT.
    pub port: u32,
}

/// `pmaplist`, RFC 1833 §3.1: the result of DUMP in version 2.
pub type MappingList = List<Mapping>;

/// `rpcb`, RFC 1833 §2.1: the argument of SET, UNSET, GETADDR, GETVERSADDR and GETADDRLIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Rpcb<'a> {
    pub prog: u32,
    pub vers: u32,
    /// `tcp`, `udp`, `tcp6`, `udp6`, …
    #[xdr(max = STRING_MAX)]
    pub netid: &'a [u8],
    /// A universal address: `127.0.0.1.8.1` is port 8 × 256 + 1.
    #[xdr(max = STRING_MAX)]
    pub addr: &'a [u8],
    #[xdr(max = STRING_MAX)]
    pub owner: &'a [u8],
}

/// `rpcblist`, RFC 1833 §2.1: the result of DUMP in versions 3 and 4.
pub type RpcbList<'a> = List<Rpcb<'a>>;

/// The result of GETADDR and GETVERSADDR, RFC 1833 §2.1: a universal address, empty where nothing is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct Uaddr<'a>(#[xdr(max = STRING_MAX)] pub &'a [u8]);

/// `rpcb_entry`, RFC 1833 §2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct RpcbEntry<'a> {
    #[xdr(max = STRING_MAX)]
    pub maddr: &'a [u8],
    #[xdr(max = STRING_MAX)]
    pub nc_netid: &'a [u8],
    pub nc_semantics: Semantics,
    /// `inet`, `inet6`, …
    #[xdr(max = STRING_MAX)]
    pub nc_protofmly: &'a [u8],
    /// `tcp`, `udp`, …
    #[xdr(max = STRING_MAX)]
    pub nc_proto: &'a [u8],
}

/// `rpcb_entry_list`, RFC 1833 §2.1: the result of GETADDRLIST.
pub type RpcbEntryList<'a> = List<RpcbEntry<'a>>;

xdr::open_set! {
    /// The values of `r_nc_semantics`, RFC 1833 §2.1: UDP is `CLTS`, TCP is `COTS_ORD`.
    pub struct Semantics {
        CLTS: "NC_TPI_CLTS" = 1,
        COTS: "NC_TPI_COTS" = 2,
        COTS_ORD: "NC_TPI_COTS_ORD" = 3,
        RAW: "NC_TPI_RAW" = 4,
    }
}
