//! Replies.

use crate::problem::{PROBLEM, Problem};
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};

/// A reply whose body is in memory.
pub type Answer = Response<Bytes>;

/// Makes a reply with this body.
pub fn answer(status: StatusCode, media: &str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Answer::new(body.into());
    *answer.status_mut() = status;
    if let Ok(media) = HeaderValue::from_str(media) {
        answer.headers_mut().insert(CONTENT_TYPE, media);
    }
    answer
}

impl Problem {
    /// Returns the problem as a reply.
    pub fn answer(&self) -> Answer {
        // A problem has only texts and numbers, so serialization cannot fail.
        answer(self.status(), PROBLEM, serde_json::to_vec(self).unwrap_or_default())
    }
}
