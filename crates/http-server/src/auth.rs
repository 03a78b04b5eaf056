//! Authentication by bearer tokens (RFC 6750), and a delay for clients that guess them.

use crate::problem::Problem;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use vfs::bounds::{Network, Networks};
use vfs::sync::Mutex;

/// The valid tokens, and the operations that each permits.
pub trait Authority: Send + Sync + 'static {
    type Token: Send + 'static;
    /// A requirement of an operation, such as a role.
    type Need: Copy + Send + Sync + 'static;

    /// Whether any token is valid.
    fn has_tokens(&self) -> io::Result<bool>;

    /// Whether the operation is open to clients without a token.
    fn is_open(&self, need: Self::Need) -> bool;

    /// Returns the token with this secret.
    fn find(&self, secret: &str) -> Result<Option<Self::Token>, Problem>;

    /// Refuses a token that does not permit the operation.
    fn check(&self, token: &Self::Token, need: Self::Need) -> Result<(), Problem>;
}

/// Wrong tokens from one network before further ones are refused for a while.
const GUESSES_MAX: u32 = 20;
/// The time after which one wrong token is forgiven.
const GUESS_FORGIVEN: Duration = Duration::from_secs(1);
/// Networks with wrong tokens, and valid tokens, in memory. A network that has used up its guesses is admitted with these
/// tokens alone.
const REMEMBERED_MAX: usize = 1024;

/// The sender of a request.
#[derive(Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) address: IpAddr,
    pub(crate) at: Instant,
}

/// Admits requests with valid tokens.
#[derive(Default)]
pub(crate) struct Guard {
    attempts: Mutex<Attempts>,
    hasher: RandomState,
}

#[derive(Default)]
struct Attempts {
    guesses: HashMap<Network, Guesses>,
    /// Keyed digests of valid tokens.
    valid: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Guesses {
    count: u32,
    since: Instant,
}

impl Guard {
    /// Returns the request's token if it permits the operation, or `None` if the operation is open.
    pub(crate) fn admit<A: Authority>(
        &self,
        authority: &A,
        need: A::Need,
        headers: &HeaderMap,
        sender: Sender,
    ) -> Result<Option<A::Token>, Problem> {
        if authority.is_open(need) {
            return Ok(None);
        }
        let secret = bearer(headers).map_err(|lack| {
            let allowed = "allowed: Bearer and a token, as in \"Bearer plimsoll_…\"";
            Problem::unauthorized(format!("the header Authorization {lack}; {allowed}"))
        })?;
        let (digest, network) = (self.hasher.hash_one(secret), Networks::default().of(sender.address));
        let is_known = self.attempts.lock().valid.contains(&digest);
        if !is_known && self.attempts.lock().is_exhausted(network, sender.at) {
            let detail = "too many wrong tokens from this address: wait a second before each further one";
            return Err(Problem::too_many(detail));
        }
        let Some(token) = authority.find(secret)? else {
            self.attempts.lock().add_guess(network, sender.at);
            return Err(Problem::unauthorized("invalid or revoked token"));
        };
        if !is_known {
            self.attempts.lock().add_valid(digest);
        }
        authority.check(&token, need)?;
        Ok(Some(token))
    }
}

impl Attempts {
    fn is_exhausted(&self, from: Network, now: Instant) -> bool {
        self.guesses.get(&from).is_some_and(|guesses| guesses.remaining(now) >= GUESSES_MAX)
    }

    fn add_guess(&mut self, from: Network, now: Instant) {
        if self.guesses.len() >= REMEMBERED_MAX {
            self.guesses.retain(|_, guesses| guesses.remaining(now) > 0);
        }
        if self.guesses.len() >= REMEMBERED_MAX && !self.guesses.contains_key(&from) {
            return;
        }
        let count = self.guesses.get(&from).map_or(0, |guesses| guesses.remaining(now));
        self.guesses.insert(from, Guesses { count: count + 1, since: now });
    }

    fn add_valid(&mut self, digest: u64) {
        if self.valid.len() >= REMEMBERED_MAX {
            self.valid.remove(0);
        }
        self.valid.push(digest);
    }
}

impl Guesses {
    /// The guesses that are not forgiven yet.
    fn remaining(&self, now: Instant) -> u32 {
        let forgiven = now.saturating_duration_since(self.since).as_millis() / GUESS_FORGIVEN.as_millis();
        self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

/// Returns the token in the header (RFC 6750 §2.1).
fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let line = match (lines.next(), lines.next()) {
        (None, _) => return Err("is missing"),
        (Some(line), None) => line,
        (Some(_), Some(_)) => return Err("occurs twice"),
    };
    let parts = line.to_str().ok().and_then(|line| line.split_once(' '));
    let bearer = parts.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let token = bearer.map(|(_, token)| token.trim()).filter(|token| !token.is_empty());
    token.ok_or("is not a Bearer token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_limited_and_forgiven() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let network = |text: &str| Networks::default().of(text.parse().unwrap());
        let (one, other) = (network("2001:db8:0:1::1"), network("10.0.0.2"));
        for _ in 0..GUESSES_MAX {
            assert!(!attempts.is_exhausted(one, start));
            attempts.add_guess(one, start);
        }
        assert!(attempts.is_exhausted(network("2001:db8:0:1::2"), start));
        assert!(!attempts.is_exhausted(other, start));
        assert!(!attempts.is_exhausted(one, start + GUESS_FORGIVEN));
        for number in 0..2 * u32::try_from(REMEMBERED_MAX).unwrap() {
            attempts.add_guess(Networks::default().of(IpAddr::from(number.to_be_bytes())), start);
        }
        assert_eq!(attempts.guesses.len(), REMEMBERED_MAX);
    }

    #[test]
    fn bearer_token_needs_one_well_formed_header() {
        let headers = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(AUTHORIZATION, line.parse().unwrap());
            }
            headers
        };
        assert_eq!(bearer(&headers(&["Bearer x"])), Ok("x"));
        assert_eq!(bearer(&headers(&["bearer  x "])), Ok("x"));
        for (bad, fault) in [
            (&[][..], "is missing"),
            (&["x"], "is not a Bearer token"),
            (&["Basic x"], "is not a Bearer token"),
            (&["Bearer "], "is not a Bearer token"),
            (&["Bearer x", "Bearer x"], "occurs twice"),
        ] {
            assert_eq!(bearer(&headers(bad)), Err(fault), "{bad:?}");
        }
    }
}
