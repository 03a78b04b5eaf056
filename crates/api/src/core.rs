//! What all requests share, and one request.

use crate::auth::Guard;
use crate::endpoint::Needs;
use crate::model::{NUMBER_MAX, Problem};
use crate::plane::Plane;
use axum::body::Bytes;
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode, Uri};
use control::{Actor, Error, Kind, Service, Terms, Token};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use vfs::SharedNamespace;

/// What all requests share.
pub(crate) struct Core {
    pub(crate) service: Arc<Service>,
    pub(crate) plane: Arc<dyn Plane>,
    pub(crate) namespace: SharedNamespace,
    pub(crate) guard: Guard,
    /// Whether metrics are for everybody.
    pub(crate) metrics_are_open: bool,
}

/// One request, its body read and its sender known.
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    /// Whose token it carries; `None` where none is needed.
    pub(crate) token: Option<Token>,
    /// The parts of the path that are in braces in its pattern, decoded.
    pub(crate) names: Vec<(String, String)>,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Something with a version.
pub(crate) trait Versioned {
    fn version(&self) -> u64;
    fn created_ms(&self) -> u64;

    /// Names this version of this thing: not of one of the same name that was there before.
    fn etag(&self) -> String {
        format!("\"{}-{:x}\"", self.version(), self.created_ms())
    }
}

impl Versioned for control::Pool {
    fn version(&self) -> u64 {
        self.version
    }

    fn created_ms(&self) -> u64 {
        self.created_ms
    }
}

impl Versioned for control::Volume {
    fn version(&self) -> u64 {
        self.version
    }

    fn created_ms(&self) -> u64 {
        self.created_ms
    }
}

impl Core {
    /// Whose token the request carries, if it may ask what `needs` that.
    pub(crate) fn admit(
        &self,
        needs: Needs,
        headers: &HeaderMap,
        from: (IpAddr, Instant),
    ) -> Result<Option<Token>, Problem> {
        let is_open = needs == Needs::Metrics && self.metrics_are_open;
        let needs = if is_open { Needs::Nothing } else { needs };
        self.guard.admit(&self.service, needs, headers, from)
    }
}

/// How often a change without a condition is tried when others change the same thing.
const TRIES: usize = 8;

impl Call {
    /// What is asked.
    pub(crate) fn service(&self) -> &Service {
        &self.core.service
    }

    /// A part of the path; empty if its pattern has no such part.
    pub(crate) fn part(&self, of: &str) -> &str {
        self.names.iter().find(|(name, _)| name == of).map_or("", |(_, value)| value)
    }

    /// The name in the path. What cannot be a name is the name of nothing.
    pub(crate) fn name<T: std::str::FromStr>(&self, kind: Kind) -> Result<T, Problem> {
        let text = self.part("name");
        text.parse().map_err(|_| Error::NotFound { kind, name: text.to_owned() }.into())
    }

    /// On whose behalf, whatever the version.
    pub(crate) fn terms(&self, force: bool) -> Terms {
        let actor = self.token.as_ref().map_or("anonymous", |token| token.name.as_str());
        Terms { actor: Actor::new(actor), version: None, force }
    }

    /// Changes what `look` finds, if it is in the version that `If-Match` names (RFC 9110 §13.1.1). What `change` makes of it
    /// depends on how it is now, so it is asked again if somebody else was faster and no condition says that this matters.
    pub(crate) fn change<T: Versioned, R>(
        &self,
        force: bool,
        look: impl Fn() -> control::Result<T>,
        change: impl Fn(&T, &Terms) -> control::Result<R>,
    ) -> Result<R, Problem> {
        let condition = self.condition()?;
        let mut tries = TRIES;
        loop {
            let now = look()?;
            if let Some(tags) = &condition
                && !tags.contains(&now.etag())
            {
                return Err(Problem::new(
                    StatusCode::PRECONDITION_FAILED,
                    "version",
                    "It has changed meanwhile",
                    format!("it is at version {} now, not at that of If-Match: look again", now.etag()),
                ));
            }
            tries -= 1;
            match change(&now, &self.terms(force).at(now.version())) {
                Err(Error::Version { .. }) if condition.is_none() && tries > 0 => {}
                done => return Ok(done?),
            }
        }
    }

    /// The versions that `If-Match` allows; `None` is any. Weak tags match nothing.
    fn condition(&self) -> Result<Option<Vec<String>>, Problem> {
        let mut tags = Vec::new();
        for line in self.headers.get_all(IF_MATCH) {
            let malformed =
                || Problem::malformed("If-Match; allowed: tags as in ETag, with commas between them, or *");
            let line = line.to_str().map_err(|_| malformed())?;
            if line.trim() == "*" {
                return Ok(None);
            }
            for tag in line.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
                let opaque = tag.strip_prefix("W/").unwrap_or(tag);
                if opaque.len() < 2 || !opaque.starts_with('"') || !opaque.ends_with('"') {
                    return Err(malformed());
                }
                tags.push(tag.to_owned());
            }
        }
        let has_condition = self.headers.contains_key(IF_MATCH);
        Ok(has_condition.then_some(tags))
    }

    /// The body as a `T`.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let malformed = |error: serde_json::Error| Problem::malformed(format!("the body: {error}"));
        let body = serde_json::from_slice(&self.body).map_err(malformed)?;
        // A number that some reader would round must not get in.
        check_numbers(&serde_json::from_slice(&self.body).map_err(malformed)?)?;
        Ok(body)
    }
}

fn check_numbers(value: &Value) -> Result<(), Problem> {
    match value {
        Value::Number(number) if number.as_u64().is_some_and(|number| number > NUMBER_MAX) => {
            Err(Problem::malformed(format!("the body: the number {number}; allowed: at most {NUMBER_MAX}")))
        }
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(items) => items.values().try_for_each(check_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}
