//! MOUNT version 3, RFC 1813 Appendix I, and version 1, RFC 1094 Appendix A.
//!
//! Both have the same procedures; they differ in the results of MNT only.

use xdr::{Decode, Encode, List, Malformed, Reader, Writer, Xdr};

use crate::rpc::AuthFlavor;

/// Version 1, RFC 1094 Appendix A.2: some clients ask it for DUMP and EXPORT.
pub const VERSION_1: u32 = 1;

xdr::constants! {
    pub CONSTANTS {
        PROGRAM: "MOUNT_PROGRAM" = 100_005,
        VERSION: "MOUNT_V3" = 3,
        PATH_MAX: "MNTPATHLEN" = 1024,
        NAME_MAX: "MNTNAMLEN" = 255,
        FHSIZE: "FHSIZE3" = 64,
    }
}

/// `FHSIZE`, RFC 1094 §2.3.3: a version 1 handle has exactly these bytes.
pub const FHSIZE_1: usize = 32;

/// Flavors decoded from one reply: the RFC sets no bound, so this one is ours, and generous.
const FLAVORS_MAX: u32 = 64;

xdr::open_set! {
    /// The procedures, RFC 1813 §5.2; those of version 1 have the same numbers.
    pub struct Procedure {
        NULL: "MOUNTPROC3_NULL" = 0,
        MNT: "MOUNTPROC3_MNT" = 1,
        DUMP: "MOUNTPROC3_DUMP" = 2,
        UMNT: "MOUNTPROC3_UMNT" = 3,
        UMNTALL: "MOUNTPROC3_UMNTALL" = 4,
        EXPORT: "MOUNTPROC3_EXPORT" = 5,
    }
}

xdr::open_set! {
    /// `mountstat3`, RFC 1813 §5.1.5.
    pub struct Status {
        OK: "MNT3_OK" = 0,
        PERM: "MNT3ERR_PERM" = 1,
        NOENT: "MNT3ERR_NOENT" = 2,
        IO: "MNT3ERR_IO" = 5,
        ACCES: "MNT3ERR_ACCES" = 13,
        NOTDIR: "MNT3ERR_NOTDIR" = 20,
        INVAL: "MNT3ERR_INVAL" = 22,
        NAMETOOLONG: "MNT3ERR_NAMETOOLONG" = 63,
        NOTSUPP: "MNT3ERR_NOTSUPP" = 10004,
        SERVERFAULT: "MNT3ERR_SERVERFAULT" = 10006,
    }
}

/// `dirpath`, RFC 1813 §5.1.4: the argument of MNT and UMNT.
///
/// Decoded up to [`crate::v3::PATH_MAX`], so that a path above `MNTPATHLEN` gets a status instead of
/// `GARBAGE_ARGS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct DirPath<'a>(#[xdr(max = crate::v3::PATH_MAX)] pub &'a [u8]);

/// `mountres3`, RFC 1813 §5.2.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountReply<'a> {
    Ok(MountOk<'a>),
    /// Never [`Status::OK`].
    Err(Status),
}

impl Encode for MountReply<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Ok(ok) => {
                Status::OK.encode(w);
                ok.encode(w);
            }
            Self::Err(status) => status.encode(w),
        }
    }
}

impl<'a> Decode<'a> for MountReply<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match Status::decode(r)? {
            Status::OK => MountOk::decode(r).map(Self::Ok),
            status => Ok(Self::Err(status)),
        }
    }
}

/// `mountres3_ok`, RFC 1813 §5.2.1.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct MountOk<'a> {
    #[xdr(max = FHSIZE)]
    pub fhandle: &'a [u8],
    #[xdr(max = FLAVORS_MAX)]
    pub auth_flavors: Vec<AuthFlavor>,
}

/// `fhstatus`, RFC 1094 Appendix A.5: the result of MNT in version 1. The error is a Unix `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub enum FhStatus {
    #[xdr(tag = 0)]
    Ok([u8; FHSIZE_1]),
    #[xdr(default)]
    Err(u32),
}

/// `mountlist`, RFC 1813 §5.2.2: the result of DUMP.
pub type MountList<'a> = List<MountBody<'a>>;

/// `mountbody`, RFC 1813 §5.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct MountBody<'a> {
    #[xdr(max = NAME_MAX)]
    pub hostname: &'a [u8],
    #[xdr(max = PATH_MAX)]
    pub directory: &'a [u8],
}

/// `exports`, RFC 1813 §5.2.5: the result of EXPORT.
pub type Exports<'a> = List<ExportNode<'a>>;

/// `exportnode`, RFC 1813 §5.2.5. No group means all clients.
#[derive(Clone, Debug, PartialEq, Eq, Xdr)]
pub struct ExportNode<'a> {
    #[xdr(max = PATH_MAX)]
    pub dir: &'a [u8],
    pub groups: List<GroupNode<'a>>,
}

/// `groupnode`, RFC 1813 §5.2.5: a host, network or group that may mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
pub struct GroupNode<'a>(#[xdr(max = NAME_MAX)] pub &'a [u8]);
