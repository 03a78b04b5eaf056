//! What ends a run without a result.

use std::{fmt, io};

use nfs::v3::wire::Status;
use xdr::Malformed;

/// Why there is no result. Statuses of single calls during a load are no errors in this sense: the report counts them.
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
    /// Whether a call was refused with this status.
    pub fn is(&self, wanted: Status) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == format!("{wanted:?}"))
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
