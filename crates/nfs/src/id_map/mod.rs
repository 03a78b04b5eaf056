//! [`IdNames`]: users and groups as NFSv4 strings, `alice@example.org`, from the host's names (RFC 8881 §5.9).
//!
//! The host may query a directory over the network. So names are cached and lookups run on storage threads only.
//! At most [`LOOKUPS_MAX`] lookups run at the same time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use vfs::model::caller::INVALID_ID;
use vfs::sync::RwLock;
use vfs::{Blocking, FsError, FsResult, Wait};

/// Cached names of users, cached numbers of users, and the same of groups: one bound for each.
const REMEMBERED_MAX: usize = 16_384;
/// Lifetimes in seconds of a name, of an absence, and of a failed lookup.
const FOUND_S: u64 = 600;
const MISSING_S: u64 = 60;
const FAILED_S: u64 = 10;
/// Concurrent lookups. Further callers use numbers.
const LOOKUPS_MAX: usize = 4;
const DOMAIN_BYTES_MAX: usize = 255;
const NAME_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    User,
    Group,
}

/// The users and groups of the host. Lookups may block for long.
pub trait HostIds: Send + Sync {
    /// `None`: the number has no name.
    fn name(&self, kind: IdKind, id: u32) -> io::Result<Option<String>>;

    /// `None`: the name does not exist.
    fn id(&self, kind: IdKind, name: &str) -> io::Result<Option<u32>>;
}

pub struct IdNames {
    domain: Box<str>,
    host: Box<dyn HostIds>,
    users: IdCache,
    groups: IdCache,
    lookups: AtomicUsize,
    /// Failures before this second are not logged: clients control the rate of lookups.
    quiet_until: AtomicU64,
}

/// A string that is not a valid domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDomain(String);

#[derive(Default)]
struct IdCache {
    /// Names as sent, with the domain.
    names: TtlMap<u32, Arc<str>>,
    ids: TtlMap<Box<str>, u32>,
}

/// Answers, each with the last second of its validity.
struct TtlMap<K, V>(RwLock<HashMap<K, (Option<V>, u64)>>);

impl IdNames {
    pub fn new(domain: &str, host: Box<dyn HostIds>) -> Result<Self, BadDomain> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if domain.is_empty() || domain.len() > DOMAIN_BYTES_MAX || !domain.bytes().all(is_good) {
            return Err(BadDomain(domain.to_owned()));
        }
        let [users, groups] = [IdCache::default(), IdCache::default()];
        Ok(Self {
            domain: domain.into(),
            host,
            users,
            groups,
            lookups: AtomicUsize::new(0),
            quiet_until: AtomicU64::new(0),
        })
    }

    /// The name with the domain; `None` if no name can be sent, or if the host's lookup fails.
    pub(crate) fn name(
        &self,
        kind: IdKind,
        id: u32,
        now: u64,
        blocking: Blocking,
    ) -> FsResult<Option<Arc<str>>> {
        let names = &self.cache(kind).names;
        if let Some(cached) = names.recall(&id, now) {
            return Ok(cached);
        }
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        // Too many lookups are running: the number is sent instead.
        let Some(_permit) = LookupPermit::take(&self.lookups) else { return Ok(None) };
        let (name, holds_s) = match self.host.name(kind, id) {
            Ok(Some(name)) if is_sendable(&name) => (Some(format!("{name}@{}", self.domain).into()), FOUND_S),
            Ok(_) => (None, MISSING_S),
            Err(error) => {
                if self.should_log(now) {
                    tracing::warn!(?kind, id, %error, "cannot look up the name of an id");
                }
                (None, FAILED_S)
            }
        };
        names.remember(id, name.clone(), now, holds_s);
        Ok(name)
    }

    /// The number of a name with a domain; `None` if the name does not exist.
    /// `FsError::Wait(Wait::Recall)` while lookups fail.
    pub(crate) fn id(&self, kind: IdKind, text: &str, now: u64, blocking: Blocking) -> FsResult<Option<u32>> {
        let Some((name, domain)) = text.rsplit_once('@') else { return Ok(None) };
        if !domain.eq_ignore_ascii_case(&self.domain) || !is_sendable(name) {
            return Ok(None);
        }
        let ids = &self.cache(kind).ids;
        if let Some(cached) = ids.recall(name, now) {
            return Ok(cached);
        }
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        // A name must never be set as the wrong id, so the client retries.
        let _permit = LookupPermit::take(&self.lookups).ok_or(FsError::Wait(Wait::Recall))?;
        let id = self.host.id(kind, name).map_err(|error| {
            if self.should_log(now) {
                tracing::warn!(?kind, name, %error, "cannot look up the id of a name");
            }
            FsError::Wait(Wait::Recall)
        })?;
        let id = id.filter(|&id| id != INVALID_ID);
        ids.remember(name.into(), id, now, if id.is_some() { FOUND_S } else { MISSING_S });
        Ok(id)
    }

    /// Whether a failure is logged: one in some seconds.
    fn should_log(&self, now: u64) -> bool {
        let is_due = |until: u64| (until <= now).then_some(now + FAILED_S);
        self.quiet_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
    }

    fn cache(&self, kind: IdKind) -> &IdCache {
        match kind {
            IdKind::User => &self.users,
            IdKind::Group => &self.groups,
        }
    }
}

fn is_sendable(name: &str) -> bool {
    let is_good = |letter: char| letter != '@' && !letter.is_control();
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_good)
}

impl<K: Hash + Eq, V: Clone> TtlMap<K, V> {
    fn recall<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: u64) -> Option<Option<V>>
    where
        K: std::borrow::Borrow<Q>,
    {
        let cached = self.0.read();
        cached.get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    fn remember(&self, key: K, value: Option<V>, now: u64, holds_s: u64) {
        let mut cached = self.0.write();
        if cached.len() >= REMEMBERED_MAX {
            cached.retain(|_, (_, until)| now < *until);
        }
        if cached.len() >= REMEMBERED_MAX {
            cached.clear();
        }
        cached.insert(key, (value, now + holds_s));
    }
}

impl<K, V> Default for TtlMap<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

struct LookupPermit<'t>(&'t AtomicUsize);

impl<'t> LookupPermit<'t> {
    fn take(lookups: &'t AtomicUsize) -> Option<Self> {
        let is_free = |count: usize| (count < LOOKUPS_MAX).then_some(count + 1);
        lookups.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).ok().map(|_| Self(lookups))
    }
}

impl Drop for LookupPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Display for BadDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = DOMAIN_BYTES_MAX;
        write!(f, "'{}' is not a valid domain: use at most {most} letters, digits, '.', '-' and '_'", self.0)
    }
}

impl std::error::Error for BadDomain {}

#[cfg(test)]
mod tests;
