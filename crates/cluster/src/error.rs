//! Refusals of changes of a cluster.

use std::{fmt, io};

#[derive(Debug)]
pub enum Error {
    /// The shared store failed.
    Store(io::Error),
    /// A record that this cluster's key did not sign, or that this version cannot read.
    Unreadable(String),
    /// A request that does not fit the state of the cluster; the text says what is allowed.
    Refused(String),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the store has excluded this client: it must connect again.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Store(error) if error.kind() == io::ErrorKind::ConnectionAborted)
    }

    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the store of the cluster: {error}"),
            Self::Unreadable(what) => write!(
                f,
                "cannot read {what} in the store of the cluster: another key signed it, or a newer version wrote it"
            ),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Store(error)
    }
}
