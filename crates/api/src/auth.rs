//! Who asks: bearer tokens (RFC 6750), the first of them, and what happens to those who guess.

use crate::endpoint::Needs;
use crate::problem::Problem;
use api_client::ADMIN_TOKEN_FILE;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use control::{Actor, Role, Service, Terms, Token, TokenName};
use stable::files;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// The first token's name.
const ADMIN: &str = "admin";

/// Wrong tokens from one network before it has to wait.
const GUESSES_MAX: u32 = 20;
/// The time in which one of them is forgiven.
const GUESS_FORGIVEN: Duration = Duration::from_secs(1);
/// Networks whose guesses are remembered, and tokens that were right: one that has used up its guesses gets in with
/// one of these alone.
const REMEMBERED_MAX: usize = 1024;

/// Makes the token with which the first program gets in, if there is none yet: its secret is in [`ADMIN_TOKEN_FILE`] in `dir`,
/// which only its owner may read. The path, if it was made now.
pub fn bootstrap(service: &Service, dir: &Path) -> io::Result<Option<PathBuf>> {
    let path = dir.join(ADMIN_TOKEN_FILE);
    let name: TokenName = ADMIN.parse().map_err(io::Error::other)?;
    let terms = Terms::by(Actor::new("plimsoll"));
    let tokens = service.tokens().map_err(io::Error::other)?;
    // One that never got into its file: the process ended between the two.
    let is_lost = |token: &Token| token.name == name && token.used_ms.is_none() && !path.exists();
    match tokens.as_slice() {
        [] => {}
        [only] if is_lost(only) => drop(service.revoke_token(&terms, &name).map_err(io::Error::other)?),
        _ => return Ok(None),
    }
    let (_, secret) = service.create_token(&terms, &name, Role::Admin).map_err(io::Error::other)?;
    let new = dir.join(format!("{ADMIN_TOKEN_FILE}.new"));
    files::replace(&path, &new, files::PRIVATE, &[secret.expose().as_bytes(), b"\n"])?;
    Ok(Some(path))
}

/// Lets in who has a token.
#[derive(Default)]
pub(crate) struct Guard {
    known: Mutex<Known>,
    hasher: RandomState,
}

#[derive(Default)]
struct Known {
    guesses: HashMap<Network, Guesses>,
    /// Keyed digests of tokens that were right.
    right: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Guesses {
    count: u32,
    since: Instant,
}

impl Guard {
    /// Whose token the request carries, if it may ask what `needs` that.
    pub(crate) fn admit(
        &self,
        service: &Service,
        needs: Needs,
        headers: &HeaderMap,
        (from, now): (IpAddr, Instant),
    ) -> Result<Option<Token>, Problem> {
        let role = match needs {
            Needs::Nothing => return Ok(None),
            Needs::Role(role) => role,
            Needs::Metrics => Role::Read,
        };
        let secret = bearer(headers)
            .ok_or_else(|| unauthorized("a token is needed: Authorization: Bearer plimsoll_…"))?;
        let (digest, from) = (self.hasher.hash_one(secret), Networks::default().of(from));
        let is_known = self.lock().right.contains(&digest);
        if !is_known && self.lock().has_guessed_enough(from, now) {
            let detail = "too many wrong tokens from this address: wait a second for each further one";
            return Err(too_many(detail));
        }
        let Some(token) = service.check_token(secret)? else {
            self.lock().guessed(from, now);
            return Err(unauthorized("the token is none of this service, or was revoked"));
        };
        if !is_known {
            self.lock().was_right(digest);
        }
        if token.role < role {
            let detail = format!("the token {} has the role {}; needed: {role}", token.name, token.role);
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "The token's role is too low",
                detail,
            ));
        }
        Ok(Some(token))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

impl Known {
    fn has_guessed_enough(&self, from: Network, now: Instant) -> bool {
        self.guesses.get(&from).is_some_and(|guesses| guesses.left(now) >= GUESSES_MAX)
    }

    fn guessed(&mut self, from: Network, now: Instant) {
        if self.guesses.len() >= REMEMBERED_MAX {
            self.guesses.retain(|_, guesses| guesses.left(now) > 0);
        }
        if self.guesses.len() >= REMEMBERED_MAX && !self.guesses.contains_key(&from) {
            return;
        }
        let count = self.guesses.get(&from).map_or(0, |guesses| guesses.left(now));
        self.guesses.insert(from, Guesses { count: count + 1, since: now });
    }

    fn was_right(&mut self, digest: u64) {
        if self.right.len() >= REMEMBERED_MAX {
            self.right.remove(0);
        }
        self.right.push(digest);
    }
}

impl Guesses {
    /// Those that are not forgiven yet.
    fn left(&self, now: Instant) -> u32 {
        let forgiven = now.saturating_duration_since(self.since).as_millis() / GUESS_FORGIVEN.as_millis();
        self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

/// The token in the header (RFC 6750 §2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let (scheme, token) = line.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "A token is needed", detail)
}

/// More than is allowed at once.
pub(crate) fn too_many(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "Too much at once", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_gets_slower_and_is_forgiven() {
        let (mut known, start) = (Known::default(), Instant::now());
        let network = |text: &str| Networks::default().of(text.parse().unwrap());
        let (one, other) = (network("2001:db8:0:1::1"), network("10.0.0.2"));
        for _ in 0..GUESSES_MAX {
            assert!(!known.has_guessed_enough(one, start));
            known.guessed(one, start);
        }
        assert!(known.has_guessed_enough(network("2001:db8:0:1::2"), start));
        assert!(!known.has_guessed_enough(other, start));
        assert!(!known.has_guessed_enough(one, start + GUESS_FORGIVEN));
        for number in 0..2 * u32::try_from(REMEMBERED_MAX).unwrap() {
            known.guessed(Networks::default().of(IpAddr::from(number.to_be_bytes())), start);
        }
        assert_eq!(known.guesses.len(), REMEMBERED_MAX);
    }

    #[test]
    fn a_token_stands_in_one_header_of_its_form() {
        let headers = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(AUTHORIZATION, line.parse().unwrap());
            }
            headers
        };
        assert_eq!(bearer(&headers(&["Bearer x"])), Some("x"));
        assert_eq!(bearer(&headers(&["bearer  x "])), Some("x"));
        for bad in [&[][..], &["x"], &["Basic x"], &["Bearer x", "Bearer x"]] {
            assert_eq!(bearer(&headers(bad)), None, "{bad:?}");
        }
    }
}
