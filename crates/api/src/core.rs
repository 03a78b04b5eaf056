//! The context of all requests, and one request.

use crate::convert::version_text;
use crate::plane::DataPlane;
use crate::problem::Result;
use axum::http::header::IF_MATCH;
use control::{Actor, ChangeContext, Error, Kind, Service, Token};
use http_server::{Problem, Request, VersionMismatch};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use vfs::SharedNamespace;

/// The context of all requests.
pub(crate) struct Core {
    pub(crate) service: Arc<Service>,
    pub(crate) plane: Arc<dyn DataPlane>,
    pub(crate) namespace: SharedNamespace,
    /// The description of the interface (OpenAPI).
    pub(crate) description: &'static Value,
}

/// One request.
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) request: Request<Token>,
}

/// An object with a version.
pub(crate) trait Versioned {
    const KIND: Kind;

    /// The name in messages.
    fn object_name(&self) -> String;

    /// Names this version of this object, not of an earlier object with the same name.
    fn version_text(&self) -> String;

    fn version(&self) -> u64;

    fn etag(&self) -> String {
        format!("\"{}\"", self.version_text())
    }
}

macro_rules! versioned {
    ($($kind:ident)*) => {$(
        impl Versioned for control::$kind {
            const KIND: Kind = Kind::$kind;

            fn object_name(&self) -> String {
                self.name.to_string()
            }

            fn version_text(&self) -> String {
                version_text(self.version, self.created_ms)
            }

            fn version(&self) -> u64 {
                self.version
            }
        }
    )*};
}

versioned! { Pool Volume Policy Vault User Group }

impl Versioned for control::Snapshot {
    const KIND: Kind = Kind::Snapshot;

    fn object_name(&self) -> String {
        self.full_name()
    }

    fn version_text(&self) -> String {
        version_text(self.version, self.created_ms)
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for control::Backup {
    const KIND: Kind = Kind::Backup;

    fn object_name(&self) -> String {
        self.full_name()
    }

    fn version_text(&self) -> String {
        version_text(self.version, self.created_ms)
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for control::Peer {
    const KIND: Kind = Kind::Peer;

    fn object_name(&self) -> String {
        self.name.to_string()
    }

    fn version_text(&self) -> String {
        version_text(self.version, self.created_ms)
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for control::Replication {
    const KIND: Kind = Kind::Replication;

    fn object_name(&self) -> String {
        format!("to the volume {}", self.volume)
    }

    fn version_text(&self) -> String {
        version_text(self.version, self.created_ms)
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Core {
    /// Returns a volume as the data plane has it. An exported volume is found without a lock of management.
    pub(crate) fn served(&self, volume: &control::Volume) -> Option<Arc<vfs::Volume>> {
        let exported = self.namespace.load().volume(volume.id).map(|export| Arc::clone(&export.volume));
        exported.or_else(|| self.service.served(&volume.name))
    }
}

/// Attempts of a change without a condition when other clients change the same object.
const TRIES: usize = 8;

impl Call {
    pub(crate) fn service(&self) -> &Service {
        &self.core.service
    }

    /// Returns a segment of the path; empty if its pattern has no such segment.
    pub(crate) fn part(&self, of: &str) -> &str {
        self.request.names.iter().find(|(name, _)| name == of).map_or("", |(_, value)| value)
    }

    /// Returns the name in the path. A text that cannot be a name names nothing, so it is not found.
    pub(crate) fn name<T: std::str::FromStr>(&self, kind: Kind) -> Result<T> {
        let text = self.part("name");
        text.parse().map_err(|_| Error::NotFound { kind, name: text.to_owned() }.into())
    }

    /// The terms of a change for any version.
    pub(crate) fn context(&self, force: bool) -> ChangeContext {
        let actor = self.request.token.as_ref().map_or("anonymous", |token| token.name.as_str());
        ChangeContext { actor: Actor::new(actor), version: None, force }
    }

    /// Changes what `look` finds, if it is in the version that `If-Match` names (RFC 9110 §13.1.1). What `change` makes of it
    /// depends on how it is now, so it is asked again if somebody else was faster and no condition says that this matters.
    pub(crate) fn change<T: Versioned, R>(
        &self,
        force: bool,
        look: impl Fn() -> control::Result<T>,
        change: impl Fn(&T, &ChangeContext) -> control::Result<R>,
    ) -> Result<R> {
        let condition = self.condition()?;
        let mut tries = TRIES;
        loop {
            let now = look()?;
            if let Some(tags) = &condition
                && !tags.contains(&now.etag())
            {
                return Err(stale(&now, tags).into());
            }
            tries -= 1;
            match change(&now, &self.context(force).at(now.version())) {
                Err(Error::Version { .. }) if condition.is_none() && tries > 0 => {}
                done => return Ok(done?),
            }
        }
    }

    /// The versions that `If-Match` allows; `None` is any. Weak tags match nothing.
    fn condition(&self) -> Result<Option<Vec<String>>, Problem> {
        let mut all = Vec::new();
        for line in self.request.headers.get_all(IF_MATCH) {
            let line = line.to_str().unwrap_or("");
            if line.trim() == "*" {
                return Ok(None);
            }
            let malformed = || {
                Problem::malformed(
                    "the header If-Match is not a list of tags; allowed: tags from ETag in quotation marks, separated by commas, or *",
                )
            };
            all.extend(tags(line).ok_or_else(malformed)?);
        }
        let has_condition = self.request.headers.contains_key(IF_MATCH);
        Ok(has_condition.then_some(all))
    }

    /// The body as a `T`.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        api_client::json::read(&self.request.body).map_err(|error| Problem::malformed(error.to_string()))
    }
}

fn stale<T: Versioned>(now: &T, expected: &[String]) -> Problem {
    let (kind, name, current) = (T::KIND, now.object_name(), now.version_text());
    let expected = expected.join(", ");
    let detail = format!(
        "{kind} {name} has changed since version {expected} (it is now at {current:?}): read it again"
    );
    let mismatch = VersionMismatch { kind: kind.to_string(), name, current };
    Problem { version: Some(Box::new(mismatch)), ..Problem::stale(detail) }
}

/// The tags in a line of `If-Match` (RFC 9110 §8.8.3, §5.6.1.2), weak ones with their mark; `None` if it is no list of tags.
fn tags(line: &str) -> Option<Vec<String>> {
    let (mut tags, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return Some(tags);
        }
        let (mark, opaque) =
            if let Some(opaque) = rest.strip_prefix("W/") { ("W/", opaque) } else { ("", rest) };
        let (tag, after) = opaque.strip_prefix('"')?.split_once('"')?;
        let is_end = after.trim_start().is_empty() || after.trim_start().starts_with(',');
        if !is_end || !tag.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        tags.push(format!("{mark}\"{tag}\""));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken_apart() {
        let read = |line: &str| tags(line).map(|tags| tags.join(";"));
        assert_eq!(read("\"a\"").as_deref(), Some("\"a\""));
        assert_eq!(read(" \"a,b\" ,W/\"\", \"c\" ").as_deref(), Some("\"a,b\";W/\"\";\"c\""));
        assert_eq!(read(" , \"a\",,").as_deref(), Some("\"a\""));
        assert_eq!(read("").as_deref(), Some(""), "a list without tags: nothing matches");
        for bad in ["a", "\"a", "\"a\"b", "\"a\" \"b\"", "\"a b\"", "*, \"a\"", "w/\"a\""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
