//! Errors of calls and of connection setup.

use std::{fmt, io};

use nfs_wire::mount::Status as MountStatus;
use nfs_wire::v3::Status;
use nfs_wire::v4;
use smb_wire::NtStatus;
use xdr::Malformed;

const DENIED_NFS3: [Status; 3] = [Status::ACCES, Status::PERM, Status::ROFS];
const DENIED_NFS4: [v4::Status; 3] = [v4::Status::ACCESS, v4::Status::PERM, v4::Status::ROFS];
const DENIED_SMB: [NtStatus; 2] = [NtStatus::ACCESS_DENIED, NtStatus::MEDIA_WRITE_PROTECTED];
/// Statuses of NFS that callers test for, and their counterparts in SMB.
const SMB_EQUIVALENTS: [(Status, NtStatus); 2] =
    [(Status::NOENT, NtStatus::OBJECT_NAME_NOT_FOUND), (Status::EXIST, NtStatus::OBJECT_NAME_COLLISION)];

#[derive(Debug)]
pub enum Error {
    /// The request cannot be carried out. The text names the fault and the allowed values.
    Unsupported(String),
    Io {
        doing: String,
        source: io::Error,
    },
    /// The server violated the protocol, or closed the connection.
    Protocol(String),
    Refused {
        /// The call and its object, for people.
        doing: String,
        /// The name in the specification.
        status: String,
    },
}

impl Error {
    /// Whether the server refused a call with this status, in any version. The statuses that callers test for
    /// have the same name in NFSv3 and NFSv4.
    pub fn is(&self, wanted: Status) -> bool {
        let Self::Refused { status, .. } = self else { return false };
        let name = |status: &str| status.split_once("ERR_").map(|(_, name)| name.to_owned());
        let over_smb =
            SMB_EQUIVALENTS.iter().any(|(nfs, smb)| *nfs == wanted && format!("{smb:?}") == *status);
        over_smb
            || name(status).is_some_and(|name_in_status| Some(name_in_status) == name(&format!("{wanted:?}")))
    }

    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing: doing.into(), source }
    }
}

/// The causes of refusals, by the names in the specifications. NFSv3 and NFSv4 share most names behind the prefix.
const CAUSES: [(&str, &str); 21] = [
    ("MNT3ERR_NOENT", "there is no such export"),
    ("MNT3ERR_ACCES", "this client may not mount the export"),
    ("NFS3ERR_ACCES", "permission denied"),
    ("NFS4ERR_ACCESS", "permission denied"),
    ("NFS3ERR_PERM", "not the owner"),
    ("NFS4ERR_PERM", "not the owner"),
    ("NFS3ERR_ROFS", "the export is read-only"),
    ("NFS4ERR_ROFS", "the export is read-only"),
    ("NFS3ERR_NOENT", "there is no such file or directory"),
    ("NFS4ERR_NOENT", "there is no such file or directory"),
    ("NFS3ERR_NOSPC", "no space left"),
    ("NFS4ERR_NOSPC", "no space left"),
    ("NFS4ERR_WRONGSEC", "the export needs another protection, like TLS"),
    ("NFS4ERR_MINOR_VERS_MISMATCH", "the server does not serve this version of NFSv4"),
    ("LOGON_FAILURE", "wrong user or password"),
    ("ACCOUNT_LOCKED_OUT", "too many wrong passwords; wait"),
    ("BAD_NETWORK_NAME", "there is no such share"),
    ("ACCESS_DENIED", "permission denied"),
    ("MEDIA_WRITE_PROTECTED", "the share is read-only"),
    ("OBJECT_NAME_NOT_FOUND", "there is no such file or directory"),
    ("DISK_FULL", "no space left"),
];

/// The message for a refused call. It ends with the status, by which [`is_denial`] knows it.
pub fn refusal(doing: &str, status: &str) -> String {
    match CAUSES.iter().find(|(name, _)| *name == status) {
        Some((_, cause)) => format!("{doing}: {cause}: the server answered {status}"),
        None => format!("{doing}: the server answered {status}"),
    }
}

/// Whether `text` ends with a status by which a server denies access.
pub fn is_denial(text: &str) -> bool {
    let by_mount = format!("{:?}", MountStatus::ACCES);
    let by_nfs3 = DENIED_NFS3.iter().map(|status| format!("{status:?}"));
    let by_nfs4 = DENIED_NFS4.iter().map(|status| format!("{status:?}"));
    let by_smb = DENIED_SMB.iter().map(|status| format!("{status:?}"));
    let mut denials = by_nfs3.chain([by_mount]).chain(by_nfs4).chain(by_smb);
    denials.any(|status| text.ends_with(&status))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(wrong) => f.write_str(wrong),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Protocol(wrong) => write!(f, "protocol error: {wrong}"),
            Self::Refused { doing, status } => f.write_str(&refusal(doing, status)),
        }
    }
}

// `Display` prints the source of `Io`; `source()` would print it a second time.
impl std::error::Error for Error {}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::Protocol(malformed.to_string())
    }
}

impl From<smb_wire::Malformed> for Error {
    fn from(malformed: smb_wire::Malformed) -> Self {
        Self::Protocol(malformed.to_string())
    }
}
