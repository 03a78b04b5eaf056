//! What ends a run without a result.

use std::{fmt, io};

use nfs_wire::mount::Status as MountStatus;
use nfs_wire::v3::Status;
use nfs_wire::v4;
use smb_wire::NtStatus;
use xdr::Malformed;

/// With these a server says that the caller may not do it.
const DENIED: [Status; 3] = [Status::ACCES, Status::PERM, Status::ROFS];
/// The same in NFSv4.
const DENIED_4: [v4::Status; 3] = [v4::Status::ACCESS, v4::Status::PERM, v4::Status::ROFS];

/// The same over SMB.
const DENIED_SMB: [NtStatus; 2] = [NtStatus::ACCESS_DENIED, NtStatus::MEDIA_WRITE_PROTECTED];
/// What is asked for of refusals, and what SMB says in its place.
const SAME: [(Status, NtStatus); 2] =
    [(Status::NOENT, NtStatus::OBJECT_NAME_NOT_FOUND), (Status::EXIST, NtStatus::OBJECT_NAME_COLLISION)];

/// Whether a text that ends with a status ends with one of these.
pub(crate) fn tells_denial(text: &str) -> bool {
    let by_mount = format!("{:?}", MountStatus::ACCES);
    let since_4 = DENIED_4.iter().map(|status| format!("{status:?}"));
    let over_smb = DENIED_SMB.iter().map(|status| format!("{status:?}"));
    let by_status = DENIED.iter().map(|status| format!("{status:?}"));
    let mut denials = by_status.chain([by_mount]).chain(since_4).chain(over_smb);
    denials.any(|status| text.ends_with(&status))
}

/// Why there is no result. Statuses of single calls during a load are no errors in this sense: the report
/// counts them.
#[derive(Debug)]
pub enum Error {
    /// What was asked for cannot be done: what is wrong, and what is allowed.
    Plan(String),
    /// The operating system said no.
    Io {
        /// What was being done.
        doing: String,
        /// What it said.
        source: io::Error,
    },
    /// The server sent what no server may send, or nothing any more.
    Protocol(String),
    /// The server refused a call that the run cannot do without.
    Refused {
        /// The call and its object.
        doing: String,
        /// The status by its name in the specification.
        status: String,
    },
    /// The caller may not write there.
    NoAccess {
        /// Where.
        target: String,
        /// What was refused, and how.
        wrong: String,
    },
    /// Data came back other than it was written.
    Mismatch(String),
    /// Somebody asked it to end.
    Stopped,
    /// A generator on another machine failed, or was lost.
    Agent {
        /// Its address as it was given.
        agent: String,
        /// What went wrong.
        wrong: String,
    },
}

impl Error {
    /// Whether a call was refused with this status, in whatever version: those that are asked for here have the
    /// same name in all.
    pub fn is(&self, wanted: Status) -> bool {
        let Self::Refused { status, .. } = self else { return false };
        let name = |status: &str| status.split_once("ERR_").map(|(_, name)| name.to_owned());
        let over_smb = SAME.iter().any(|(one, other)| *one == wanted && format!("{other:?}") == *status);
        over_smb || name(status).is_some_and(|said| Some(said) == name(&format!("{wanted:?}")))
    }

    /// Whether the target does not let the caller change anything; also where an agent says so.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Self::NoAccess { .. } => true,
            Self::Refused { status, .. } => tells_denial(status),
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
            }
            Self::Agent { wrong, .. } => tells_denial(wrong),
            Self::Plan(_) | Self::Protocol(_) | Self::Mismatch(_) | Self::Stopped => false,
        }
    }

    /// This error, met with at `target`: with what to do, where the caller may not write there.
    #[must_use]
    pub fn at(self, target: &str) -> Self {
        if matches!(self, Self::NoAccess { .. }) || !self.is_denied() {
            return self;
        }
        Self::NoAccess { target: target.to_owned(), wrong: self.to_string() }
    }

    /// Says what was being done when the operating system refused; for `map_err`.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing: doing.into(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(wrong) => f.write_str(wrong),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Protocol(wrong) => write!(f, "protocol error: {wrong}"),
            Self::Refused { doing, status } => write!(f, "{doing}: the server answered {status}"),
            Self::NoAccess { target, wrong } if target.starts_with("smb://") => {
                write!(
                    f,
                    "the user may not write to {target} ({wrong}): allow it, or work in a directory of the user's"
                )?;
                if target.contains("seal=") {
                    return Ok(());
                }
                f.write_str("; where the share wants encryption, add seal=gcm")
            }
            Self::NoAccess { target, wrong } => write!(
                f,
                "the caller may not write to {target} ({wrong}): allow it (of a Plimsoll volume: plimsoll export set VOLUME \
                 --allow CLIENT --squash none), or call as the owner of its directory with --uid and --gid"
            ),
            Self::Mismatch(wrong) => write!(f, "data mismatch: {wrong}"),
            Self::Stopped => f.write_str("stopped before the end"),
            Self::Agent { agent, wrong } => write!(f, "agent {agent}: {wrong}"),
        }
    }
}

// What the system said is in the words of `Io`: it has no source of its own that would say it again.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_may_not_do_is_told_with_what_to_do() {
        let refused = |status| Error::Refused { doing: "make x".to_owned(), status: format!("{status:?}") };
        let refused_smb =
            |status| Error::Refused { doing: "CREATE of x".to_owned(), status: format!("{status:?}") };
        let agent = |wrong: &str| Error::Agent { agent: "a:1".to_owned(), wrong: wrong.to_owned() };
        let io = |kind: io::ErrorKind| Error::io("open x")(kind.into());
        for denied in [
            refused(Status::ACCES),
            refused(Status::PERM),
            refused(Status::ROFS),
            agent(&refused(Status::ACCES).to_string()),
            io(io::ErrorKind::PermissionDenied),
            io(io::ErrorKind::ReadOnlyFilesystem),
        ] {
            let said = denied.at("nfs://h/v").at("again").to_string();
            assert!(said.starts_with("the caller may not write to nfs://h/v ("), "{said}");
        }
        let over_smb = |target: &str| refused_smb(NtStatus::ACCESS_DENIED).at(target).to_string();
        let said = over_smb("smb://a@h/v?sign=none");
        assert!(said.starts_with("the user may not write to smb://a@h/v?sign=none ("), "{said}");
        assert!(said.ends_with("add seal=gcm") && !over_smb("smb://a@h/v?seal=gcm").contains("encryption"));
        for other in
            [refused(Status::NOSPC), agent("it is gone"), io(io::ErrorKind::NotFound), Error::Stopped]
        {
            let before = other.to_string();
            assert_eq!(other.at("nfs://h/v").to_string(), before);
        }
    }
}
