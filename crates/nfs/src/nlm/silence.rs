//! Clients that hold something and show no sign of life: what they hold yields to whoever wants it.
//!
//! A host that is switched off tells nobody. Signs of life are calls to the lock manager, a connection to us, and a port mapper that
//! answers us. One that comes back has what nobody wanted meanwhile.

use super::locks::{Locks, Shared};
use super::state::Host;
use crate::limits::{LOCK_HOST_ASK_S, LOCK_HOST_GONE_S, LOCK_HOST_LAPSE_S, LOCK_HOST_SILENT_S};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vfs::Volume;
use vfs::claims::HolderId;

/// Questions in vain before what a client holds yields.
const QUESTIONS_MIN: u32 = 3;

/// When a client was heard last, and what was done about its silence.
#[derive(Default)]
pub(super) struct Life {
    heard: Option<Instant>,
    asked: Option<Instant>,
    /// Questions since then that had no answer.
    unanswered: u32,
    /// What it holds yields.
    has_lapsed: bool,
}

/// Connections by the clients that have them.
#[derive(Clone, Default)]
pub(crate) struct Present(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection of a client, until it is dropped.
pub(crate) struct Presence(Present, IpAddr);

impl Present {
    fn change(&self, client: IpAddr, change: impl FnOnce(usize) -> usize) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = change(clients.remove(&client).unwrap_or(0));
        if now > 0 {
            clients.insert(client, now);
        }
    }

    fn has(&self, client: IpAddr) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&client)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.change(self.1, |connections| connections - 1);
    }
}

impl Life {
    fn hear(&mut self, now: Instant) -> bool {
        let had_lapsed = self.has_lapsed;
        *self = Self { heard: Some(now), ..Self::default() };
        had_lapsed
    }

    /// Whether the client is to be asked whether it is there.
    fn asks(&mut self, now: Instant) -> bool {
        let silent_since = *self.heard.get_or_insert(now);
        let since = self.asked.map_or(silent_since + Duration::from_secs(LOCK_HOST_SILENT_S), |asked| {
            asked + Duration::from_secs(LOCK_HOST_ASK_S)
        });
        let asks = since <= now;
        if asks {
            self.asked = Some(now);
        }
        asks
    }

    fn is_silent_for(&self, seconds: u64, now: Instant) -> bool {
        let is_long = self.heard.is_some_and(|heard| heard + Duration::from_secs(seconds) <= now);
        is_long && self.unanswered >= QUESTIONS_MIN
    }
}

impl Locks {
    /// A client has a connection from now on.
    pub(crate) fn arrive(&self, client: IpAddr) -> Presence {
        self.0.present.change(client, |connections| connections + 1);
        Presence(self.0.present.clone(), client)
    }

    /// A client has called the lock manager.
    pub(super) fn hear(&self, client: IpAddr) {
        self.0.hear(client, Instant::now());
    }
}

impl Shared {
    fn hear(&self, client: IpAddr, now: Instant) {
        let mut state = self.state();
        let Some(host) = state.hosts.get_mut(&client) else { return };
        if host.life.hear(now) {
            host.holders().for_each(|(volume, holder)| volume.claims().renew(holder));
        }
    }

    /// Asks clients that are silent, has what they hold yield if they do not answer, and forgets those that come back no more.
    pub(super) fn tend_silent(self: &Arc<Self>, now: Instant) {
        let (mut silent, mut lapsed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (&client, host) in &mut self.state().hosts {
            if host.is_idle() || self.present.has(client) {
                if host.life.hear(now) {
                    host.holders().for_each(|(volume, holder)| volume.claims().renew(holder));
                }
                continue;
            }
            if host.life.asks(now) {
                silent.push(client);
            }
            if host.life.is_silent_for(LOCK_HOST_GONE_S, now) {
                gone.push(client);
            } else if host.life.is_silent_for(LOCK_HOST_LAPSE_S, now) && !host.life.has_lapsed {
                host.life.has_lapsed = true;
                lapsed.extend(host.holders());
            }
        }
        for (volume, holder) in lapsed {
            let effects = volume.claims().lapse(volume.now(), holder);
            volume.claims().dispatch(effects);
        }
        let is_gone = |host: &Host| host.life.is_silent_for(LOCK_HOST_GONE_S, now);
        gone.into_iter().for_each(|client| self.free_all(client, is_gone));
        silent.into_iter().for_each(|client| self.ask_whether_alive(client, now));
    }

    fn ask_whether_alive(self: &Arc<Self>, client: IpAddr, now: Instant) {
        let shared = Arc::clone(self);
        let ask = move || match shared.caller.reaches(client) {
            true => shared.hear(client, now),
            false => {
                if let Some(host) = shared.state().hosts.get_mut(&client) {
                    host.life.unanswered += 1;
                }
            }
        };
        // A question that nobody can put now is put later.
        self.askers.submit(client, ask);
    }
}

impl Host {
    /// The volumes in which it is a holder of claims.
    fn holders(&self) -> impl Iterator<Item = (Arc<Volume>, HolderId)> {
        let attached = self.volumes.values();
        attached.filter_map(|attached| Some((attached.volume.upgrade()?, attached.holder)))
    }
}
