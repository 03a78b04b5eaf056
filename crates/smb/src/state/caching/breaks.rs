//! Breaks of leases and oplocks: notifications to the client of a tree connect (MS-SMB2 §3.3.4.6, §3.3.4.7).
//!
//! A break follows the reply to the CREATE that granted the cache: a client ignores a break of a cache that it does
//! not know yet.

use crate::framing::{self, FRAMING};
use crate::limits::DELIVERY_ALONE;
use smb_wire::create::OplockLevel;
use smb_wire::header::{Command, Flags, Header};
use smb_wire::oplock::{
    BreakReason, LeaseBreakFlags, LeaseBreakNotification, LeaseKey, LeaseState, OplockBreak,
};
use smb_wire::transform::TRANSFORM_SIZE;
use smb_wire::{FileId, compound};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use transport::Outbox;
use vfs::claims::{self, Caching, OpenId};
use vfs::sync::Mutex;

/// The message id of an unsolicited message (MS-SMB2 §3.3.4.6).
const UNSOLICITED: u64 = u64::MAX;

/// A session, as the target of breaks.
pub(crate) trait Client: Send + Sync {
    fn session_id(&self) -> u64;

    /// Encrypts the bytes behind the transform header at `start`. False without usable keys.
    fn seal(&self, message: &mut [u8], start: usize) -> bool;

    /// Sends a message over the first connection that accepts it: `first`, then the oldest. Does not wait. `note`
    /// receives the connection's number before that connection can count as gone. Messages that a connection loses are
    /// sent over others, present or future.
    fn send(&self, first: u64, message: &mut Outbox, note: &dyn Fn(Option<u64>));
}

/// The caches of a tree connect's client, with the breaks to be sent.
pub(crate) struct Breaks {
    client: Weak<dyn Client>,
    caches: Mutex<Caches>,
}

#[derive(Default)]
struct Caches {
    entries: HashMap<claims::LeaseKey, CacheEntry>,
    /// CREATEs that request an oplock, and whose open is not known yet.
    pending_oplocks: usize,
    /// Breaks of the oplocks of such CREATEs.
    early_breaks: HashMap<OpenId, Break>,
    /// Requests whose replies must precede breaks.
    pauses: usize,
    /// Breaks that wait for such replies.
    paused_breaks: Vec<(claims::LeaseKey, BreakTarget, Break)>,
}

struct CacheEntry {
    target: BreakTarget,
    /// Opens that have the cache, and CREATEs that request it.
    uses: usize,
    /// CREATEs whose replies have not left.
    unsent_replies: usize,
    /// The break that follows those replies. The last one suffices.
    deferred_break: Option<Break>,
    /// The last break that a connection has accepted.
    last_sent: Option<SentBreak>,
}

/// A break that may not have arrived.
struct SentBreak {
    step: Break,
    connection: u64,
    at: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct BreakTarget {
    pub(crate) name: CacheName,
    pub(crate) confidentiality: Confidentiality,
    /// The connection of the CREATE, which is tried first.
    pub(crate) connection: u64,
}

/// Whether a cache was requested in an encrypted message. The flag stays set, also for other tree connects and
/// sessions that share the lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confidentiality(Arc<AtomicBool>);

/// The client's name of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CacheName {
    Oplock(FileId),
    Lease {
        key: LeaseKey,
        /// Whether the lease is of version 2, which has an epoch.
        has_epoch: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    pub(crate) from: Caching,
    pub(crate) to: Caching,
    pub(crate) epoch: u16,
    pub(crate) acknowledge: bool,
}

/// A CREATE that requests an oplock.
pub(crate) struct PendingOplock(Arc<Breaks>);

/// A reference to a cache: of an open, or of a request whose reply has not left. A pause defers all breaks instead.
pub(crate) struct CacheGuard {
    breaks: Arc<Breaks>,
    kind: GuardKind,
}

#[derive(Clone, Copy)]
enum GuardKind {
    Cache { key: claims::LeaseKey, is_reply: bool },
    Pause,
}

/// The references of a CREATE to its cache.
pub(crate) struct NewCache {
    pub(crate) open: CacheGuard,
    pub(crate) reply: CacheGuard,
}

impl Breaks {
    pub(crate) fn new(client: Weak<dyn Client>) -> Arc<Self> {
        Arc::new(Self { client, caches: Mutex::default() })
    }

    /// Announces a claim of an oplock, so that an early break is not lost.
    pub(crate) fn begin_oplock(self: &Arc<Self>) -> PendingOplock {
        self.caches.lock().pending_oplocks += 1;
        PendingOplock(Arc::clone(self))
    }

    /// Adds references of a CREATE to a cache that it requests or was granted.
    pub(crate) fn add(self: &Arc<Self>, key: claims::LeaseKey, target: BreakTarget) -> NewCache {
        let mut caches = self.caches.lock();
        let deferred_break = match key {
            claims::LeaseKey::Oplock(open) => caches.early_breaks.remove(&open),
            claims::LeaseKey::Shared { .. } | claims::LeaseKey::Delegation(_) => None,
        };
        let new = CacheEntry { target, uses: 0, unsent_replies: 0, deferred_break, last_sent: None };
        let cache = match caches.entries.entry(key) {
            Entry::Occupied(entry) => {
                let cache = entry.into_mut();
                // The key of an ended lease stays in use until the last reply about it has left.
                if !cache.target.confidentiality.is_same(&new.target.confidentiality) {
                    (cache.target, cache.deferred_break, cache.last_sent) = (new.target, None, None);
                }
                cache
            }
            Entry::Vacant(entry) => entry.insert(new),
        };
        cache.uses += 2;
        cache.unsent_replies += 1;
        let new =
            |is_reply| CacheGuard { breaks: Arc::clone(self), kind: GuardKind::Cache { key, is_reply } };
        NewCache { open: new(false), reply: new(true) }
    }

    /// Defers breaks until the reply to a request has left.
    pub(crate) fn pause(self: &Arc<Self>) -> CacheGuard {
        self.caches.lock().pauses += 1;
        CacheGuard { breaks: Arc::clone(self), kind: GuardKind::Pause }
    }

    /// Ends a pause, and sends the deferred breaks after the last one.
    fn resume(&self) {
        let mut caches = self.caches.lock();
        caches.pauses -= 1;
        let due = if caches.pauses == 0 { std::mem::take(&mut caches.paused_breaks) } else { Vec::new() };
        drop(caches);
        due.iter().for_each(|(key, target, step)| self.send(*key, target, *step));
    }

    /// Sends a break, or defers it until the client knows the cache.
    pub(crate) fn notify(&self, key: claims::LeaseKey, step: Break) {
        let mut caches = self.caches.lock();
        let target = match caches.entries.get_mut(&key) {
            Some(cache) if cache.unsent_replies > 0 => {
                cache.deferred_break = Some(step);
                return;
            }
            Some(cache) => cache.target.clone(),
            None => {
                if let claims::LeaseKey::Oplock(open) = key
                    && caches.pending_oplocks > 0
                {
                    caches.early_breaks.insert(open, step);
                }
                return;
            }
        };
        if caches.pauses > 0 {
            return caches.paused_breaks.push((key, target, step));
        }
        drop(caches);
        self.send(key, &target, step);
    }

    /// A client that misses the break loses the cache when the deadline of the acknowledgment passes.
    fn send(&self, key: claims::LeaseKey, target: &BreakTarget, step: Break) {
        let Some(client) = self.client.upgrade() else { return };
        let Some(mut message) = notification(&*client, target, step) else { return };
        client.send(target.connection, &mut message, &|connection| {
            if let Some(cache) = self.caches.lock().entries.get_mut(&key) {
                cache.last_sent =
                    connection.map(|connection| SentBreak { step, connection, at: Instant::now() });
            }
        });
    }

    /// Sends breaks again that a lost connection may have dropped. Breaks with an acknowledgment are left to the table
    /// of claims.
    pub(crate) fn resend(&self, gone: u64) {
        let is_lost = |sent: &mut SentBreak| {
            sent.connection == gone && !sent.step.acknowledge && sent.at.elapsed() <= 2 * DELIVERY_ALONE
        };
        let mut caches = self.caches.lock();
        let entries = caches.entries.iter_mut();
        let lost: Vec<_> = entries
            .filter_map(|(&key, cache)| {
                Some((key, cache.target.clone(), cache.last_sent.take_if(is_lost)?.step))
            })
            .collect();
        drop(caches);
        lost.iter().for_each(|(key, target, step)| self.send(*key, target, *step));
    }

    /// Whether a lost connection may have dropped the last break of a cache.
    pub(crate) fn may_be_lost(&self, key: claims::LeaseKey, gone: u64) -> bool {
        let caches = self.caches.lock();
        let sent = caches.entries.get(&key).and_then(|cache| cache.last_sent.as_ref());
        sent.is_none_or(|sent| sent.connection == gone)
    }

    fn release(&self, key: claims::LeaseKey, is_reply: bool) {
        let mut caches = self.caches.lock();
        let Some(cache) = caches.entries.get_mut(&key) else { return };
        cache.uses -= 1;
        cache.unsent_replies -= usize::from(is_reply);
        let target = cache.target.clone();
        let due = if cache.unsent_replies == 0 { cache.deferred_break.take() } else { None };
        if cache.uses == 0 {
            caches.entries.remove(&key);
            return;
        }
        drop(caches);
        if let Some(step) = due {
            self.send(key, &target, step);
        }
    }
}

impl Confidentiality {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether both flags belong to the same lease or oplock.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for PendingOplock {
    fn drop(&mut self) {
        let mut caches = self.0.caches.lock();
        caches.pending_oplocks -= 1;
        if caches.pending_oplocks == 0 {
            caches.early_breaks.clear();
        }
    }
}

impl Drop for CacheGuard {
    fn drop(&mut self) {
        match self.kind {
            GuardKind::Cache { key, is_reply } => self.breaks.release(key, is_reply),
            GuardKind::Pause => self.breaks.resume(),
        }
    }
}

/// Encodes a break: unsigned, and encrypted if the CREATE was.
fn notification(client: &dyn Client, target: &BreakTarget, step: Break) -> Option<Outbox> {
    let mut outbox = Outbox::default();
    let out = outbox.bytes();
    let is_sealed = target.confidentiality.is_set();
    out.resize(FRAMING + if is_sealed { TRANSFORM_SIZE } else { 0 }, 0);
    let header = |session_id| Header {
        credit_charge: 0,
        credits: 0,
        flags: Flags::SERVER_TO_REDIR,
        ..Header::request(Command::OPLOCK_BREAK, UNSOLICITED, session_id, 0)
    };
    match target.name {
        CacheName::Oplock(file_id) => {
            let oplock_level = level_of(step.to);
            compound::push(out, &header(client.session_id()), &OplockBreak { oplock_level, file_id });
        }
        CacheName::Lease { key, has_epoch } => {
            let flags =
                if step.acknowledge { LeaseBreakFlags::ACK_REQUIRED } else { LeaseBreakFlags::empty() };
            let body = LeaseBreakNotification {
                new_epoch: if has_epoch { step.epoch } else { 0 },
                flags,
                lease_key: key,
                current_lease_state: state_of(step.from),
                new_lease_state: state_of(step.to),
                break_reason: BreakReason(0),
                access_mask_hint: 0,
                share_mask_hint: 0,
            };
            compound::push(out, &header(0), &body);
        }
    }
    if is_sealed && !client.seal(out, FRAMING) {
        return None;
    }
    framing::finish(out, 0, 0);
    Some(outbox)
}

pub(crate) fn level_of(caching: Caching) -> OplockLevel {
    if caching.contains(Caching::HANDLE) {
        OplockLevel::BATCH
    } else if caching.contains(Caching::WRITE) {
        OplockLevel::EXCLUSIVE
    } else if caching.contains(Caching::READ) {
        OplockLevel::II
    } else {
        OplockLevel::NONE
    }
}

/// None for a level that is not an oplock.
pub(crate) fn caching_of_level(level: OplockLevel) -> Option<Caching> {
    Some(match level {
        OplockLevel::NONE => Caching::NONE,
        OplockLevel::II => Caching::READ,
        OplockLevel::EXCLUSIVE => Caching::READ | Caching::WRITE,
        OplockLevel::BATCH => Caching::READ | Caching::WRITE | Caching::HANDLE,
        _ => return None,
    })
}

const STATES: [(LeaseState, Caching); 3] = [
    (LeaseState::READ_CACHING, Caching::READ),
    (LeaseState::WRITE_CACHING, Caching::WRITE),
    (LeaseState::HANDLE_CACHING, Caching::HANDLE),
];

pub(crate) fn state_of(caching: Caching) -> LeaseState {
    let has = STATES.into_iter().filter(|(_, bit)| caching.contains(*bit));
    has.fold(LeaseState::empty(), |all, (state, _)| all | state)
}

pub(crate) fn caching_of_state(state: LeaseState) -> Caching {
    let has = STATES.into_iter().filter(|(bit, _)| state.contains(*bit));
    has.fold(Caching::NONE, |all, (_, bit)| all | bit)
}
