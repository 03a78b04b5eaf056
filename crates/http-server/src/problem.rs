//! Errors as replies (RFC 9457).

use axum::http::StatusCode;
use serde::Serialize;

/// The media type of a problem.
pub const PROBLEM: &str = "application/problem+json";

/// An error, as a reply shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// `urn:plimsoll:problem:` and a word.
    #[serde(rename = "type")]
    pub kind: String,
    /// One text for all problems of a kind.
    pub title: String,
    pub status: u16,
    /// The fault of this request, and the allowed values.
    pub detail: String,
    /// Whether the same request succeeds with `force=true`.
    pub forceable: bool,
    /// The version that a conditional change expected, and the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<VersionMismatch>>,
    /// The properties in which an existing thing of that name differs from the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
}

/// The object of a conditional change, and its present version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionMismatch {
    /// The kind of object, such as `volume`.
    pub kind: String,
    pub name: String,
    pub current: String,
}

impl Problem {
    /// Makes a problem of the kind `word`.
    pub fn new(status: StatusCode, word: &str, title: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:plimsoll:problem:{word}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            forceable: false,
            version: None,
            differs: Vec::new(),
        }
    }

    /// The request does not match the description of the interface.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", "The request is not as described", detail)
    }

    /// The thing has another version than the request is for.
    pub fn stale(detail: impl Into<String>) -> Self {
        let (status, title) = (StatusCode::PRECONDITION_FAILED, "The object has changed");
        Self::new(status, "version", title, detail)
    }

    /// There is nothing at this path.
    pub fn no_such_path(path: &str) -> Self {
        let detail = format!("there is nothing at {path}: /openapi.json lists all paths");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// A bound on simultaneous work is reached.
    pub fn too_many(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "Too many requests", detail)
    }

    /// The request has no valid token.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "A token is needed", detail)
    }

    /// The server failed.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The service failed", detail)
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}
