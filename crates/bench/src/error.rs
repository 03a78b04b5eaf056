//! Errors that end a run without a result.

use std::{fmt, io};

use wire_client::{is_denial, refusal};
use xdr::Malformed;

/// Reasons why there is no result. A load counts refused calls in its report; they are not errors here.
#[derive(Debug)]
pub enum Error {
    /// The request cannot be carried out. The text names the fault and the allowed values.
    Plan(String),
    Io {
        doing: String,
        source: io::Error,
    },
    Protocol(String),
    /// The server refused a call that the run needs.
    Refused {
        /// The call and its object, for people.
        doing: String,
        /// The name in the specification.
        status: String,
    },
    NoAccess {
        target: String,
        wrong: String,
    },
    Mismatch(String),
    Stopped,
    /// A generator on another machine failed, or its connection was lost.
    Agent {
        agent: String,
        wrong: String,
    },
}

impl Error {
    /// Whether the target denies changes. Includes denials that an agent reports.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Self::NoAccess { .. } => true,
            Self::Refused { status, .. } => is_denial(status),
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
            }
            Self::Agent { wrong, .. } => is_denial(wrong),
            Self::Plan(_) | Self::Protocol(_) | Self::Mismatch(_) | Self::Stopped => false,
        }
    }

    /// Adds the target, and advice if the target denies writes.
    #[must_use]
    pub fn at(self, target: &str) -> Self {
        if matches!(self, Self::NoAccess { .. }) || !self.is_denied() {
            return self;
        }
        Self::NoAccess { target: target.to_owned(), wrong: self.to_string() }
    }

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
            Self::Refused { doing, status } => f.write_str(&refusal(doing, status)),
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
                "the caller may not write to {target} ({wrong}): allow it (of a Plimsoll volume: plimsoll volume access set VOLUME \
                 --allow CLIENT --squash none), or call as the owner of its directory with --uid and --gid"
            ),
            Self::Mismatch(wrong) => write!(f, "data mismatch: {wrong}"),
            Self::Stopped => f.write_str("stopped before the end"),
            Self::Agent { agent, wrong } => write!(f, "agent {agent}: {wrong}"),
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

impl From<wire_client::Error> for Error {
    fn from(error: wire_client::Error) -> Self {
        match error {
            wire_client::Error::Unsupported(wrong) => Self::Plan(wrong),
            wire_client::Error::Io { doing, source } => Self::Io { doing, source },
            wire_client::Error::Protocol(wrong) => Self::Protocol(wrong),
            wire_client::Error::Refused { doing, status } => Self::Refused { doing, status },
        }
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::v3::Status;
    use smb_wire::NtStatus;

    use super::*;

    #[test]
    fn denied_access_is_reported_with_advice() {
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
            let message = denied.at("nfs://h/v").at("again").to_string();
            assert!(message.starts_with("the caller may not write to nfs://h/v ("), "{message}");
        }
        let over_smb = |target: &str| refused_smb(NtStatus::ACCESS_DENIED).at(target).to_string();
        let message = over_smb("smb://a@h/v?sign=none");
        assert!(message.starts_with("the user may not write to smb://a@h/v?sign=none ("), "{message}");
        assert!(
            message.ends_with("add seal=gcm") && !over_smb("smb://a@h/v?seal=gcm").contains("encryption")
        );
        for other in
            [refused(Status::NOSPC), agent("it is gone"), io(io::ErrorKind::NotFound), Error::Stopped]
        {
            let before = other.to_string();
            assert_eq!(other.at("nfs://h/v").to_string(), before);
        }
    }
}
