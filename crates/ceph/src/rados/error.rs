//! Errors of librados as errors of the standard library.

use rustix::io::Errno;
use std::io::{Error, ErrorKind};

/// The error of an operation. `what` begins the text.
pub(super) fn failed(what: &str, user: &str, errno: Errno) -> Error {
    let (kind, cause) = match errno {
        // EBLOCKLISTED.
        Errno::SHUTDOWN => {
            (ErrorKind::ConnectionAborted, "the Ceph cluster has excluded this client (blocklist)".to_owned())
        }
        Errno::PERM | Errno::ACCESS => (
            ErrorKind::PermissionDenied,
            format!("the Ceph user client.{user} lacks a capability; see: ceph auth get client.{user}"),
        ),
        Errno::NOSPC => (ErrorKind::StorageFull, "the Ceph cluster is full".to_owned()),
        Errno::DQUOT => (ErrorKind::QuotaExceeded, "the quota of the pool is used up".to_owned()),
        Errno::OPNOTSUPP => {
            (ErrorKind::Unsupported, "the pool is not replicated, or its OSDs are too old".to_owned())
        }
        Errno::MSGSIZE => (ErrorKind::InvalidInput, "larger than osd_max_write_size of the OSDs".to_owned()),
        Errno::FBIG => (ErrorKind::InvalidInput, "larger than osd_max_object_size of the OSDs".to_owned()),
        Errno::NAMETOOLONG => (
            ErrorKind::InvalidInput,
            "the OSDs refuse names of this length (osd_max_object_name_len)".to_owned(),
        ),
        errno => {
            let error = Error::from(errno);
            (error.kind(), error.to_string())
        }
    };
    Error::new(kind, format!("{what}: {cause}"))
}

pub(super) fn out_of_bounds(text: String) -> Error {
    Error::new(ErrorKind::InvalidInput, text)
}
