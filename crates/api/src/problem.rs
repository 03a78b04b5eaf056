//! From errors to problems: the one place where a status is chosen for what management says.

use axum::http::StatusCode;
use control::{Error, StoreError};
use serde::Serialize;
use vfs::FsError;

/// An error as a reply (RFC 9457). Clients read it as [`api_client::model::Problem`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) status: u16,
    pub(crate) detail: String,
    pub(crate) forceable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) differs: Vec<String>,
}

impl Problem {
    /// A problem of this kind; `title` is what all of the kind share.
    pub(crate) fn new(status: StatusCode, word: &str, title: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:plimsoll:problem:{word}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            forceable: false,
            differs: Vec::new(),
        }
    }

    /// The request is none that the interface describes.
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", "The request is not as described", detail)
    }

    /// It is not in the version that the request is for.
    pub(crate) fn stale(detail: impl Into<String>) -> Self {
        let (status, title) = (StatusCode::PRECONDITION_FAILED, "It has changed meanwhile");
        Self::new(status, "version", title, detail)
    }

    /// There is nothing at this path.
    pub(crate) fn no_such_path(path: &str) -> Self {
        let detail = format!("there is nothing at {path}; /openapi.json says what there is");
        Self::new(StatusCode::NOT_FOUND, "not-found", "There is no such thing", detail)
    }

    /// Something of ours failed that should not.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The service failed", detail)
    }

    /// The status; that of a failure if it is none.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, word, title) = match &error {
            Error::NotFound { .. } => (StatusCode::NOT_FOUND, "not-found", "There is no such thing"),
            Error::Conflict { .. } => {
                (StatusCode::CONFLICT, "conflict", "There is another thing of that name")
            }
            Error::Invalid { .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "The request asks for what cannot be")
            }
            Error::Refused(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "refused", "The service level does not have it")
            }
            Error::Taken { .. } => (StatusCode::CONFLICT, "taken", "The path is another volume's"),
            Error::NumberTaken { .. } => (StatusCode::CONFLICT, "number-taken", "The number is another's"),
            Error::Version { .. } => return Self::stale(error.to_string()),
            Error::Busy { .. } => (StatusCode::CONFLICT, "busy", "Clients use the volume"),
            Error::InUse { .. } => (StatusCode::CONFLICT, "in-use", "There are volumes in the pool"),
            Error::Changing { .. } => (StatusCode::CONFLICT, "changing", "Another change is not finished"),
            Error::BelowUse { .. } => (StatusCode::CONFLICT, "below-use", "The volume holds more"),
            Error::PoolFull { .. } => (StatusCode::CONFLICT, "pool-full", "The pool has not so much"),
            Error::Store(StoreError::Full(_)) | Error::Storage { error: FsError::NoSpace, .. } => {
                (StatusCode::INSUFFICIENT_STORAGE, "disk-full", "The disk is full")
            }
            Error::Storage { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "storage", "The storage failed"),
            Error::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "store", "The store failed"),
        };
        let mut problem = Self::new(status, word, title, error.to_string());
        problem.forceable = error.may_be_forced();
        if let Error::Conflict { differs, .. } = error {
            problem.differs = differs.into_iter().map(str::to_owned).collect();
        }
        problem
    }
}
