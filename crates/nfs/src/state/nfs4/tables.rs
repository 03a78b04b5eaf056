//! [`Tables`]: bounds on the state of clients of version 4, and eviction.

use super::ServiceState;
use super::client::Client;
use crate::limits::{
    CACHED_REPLY_BYTES_MAX, CLIENTS_MAX, COPIES_MAX, DELEGATIONS_MAX, INTRODUCTIONS_MAX, OPEN_OWNERS_MAX,
    RANGES_MAX, SESSIONS_MAX, STATES_MAX, STRANGERS,
};
use nfs_wire::v4::{ClientId, Status};
use std::sync::Arc;
use vfs::bounds::{Bounds, Full, Party, Slot};

pub(crate) struct Tables {
    /// Confirmed clients.
    pub(crate) clients: Arc<Bounds>,
    /// Unconfirmed clients.
    pub(crate) introductions: Arc<Bounds>,
    /// Unconfirmed clients of 4.0.
    pub(crate) introductions_40: Arc<Bounds>,
    pub(crate) sessions: Arc<Bounds>,
    /// Bytes of replies that sessions keep, and of those that they may have to keep.
    pub(crate) cached_replies: Arc<Bounds>,
    /// Stateids: open files, locks in them, delegations, copies, locks that are waited for.
    pub(crate) states: Arc<Bounds>,
    pub(crate) ranges: Arc<Bounds>,
    pub(crate) delegations: Arc<Bounds>,
    pub(crate) open_owners: Arc<Bounds>,
    pub(crate) copies: Arc<Bounds>,
}

/// A table from which clients with expired leases are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Clients,
    Sessions,
    States,
    Ranges,
    Delegations,
    OpenOwners,
}

impl Default for Tables {
    fn default() -> Self {
        let bounds = |all: usize| Bounds::new(all, all / STRANGERS);
        Self {
            clients: bounds(CLIENTS_MAX),
            introductions: bounds(INTRODUCTIONS_MAX),
            introductions_40: bounds(INTRODUCTIONS_MAX),
            sessions: bounds(SESSIONS_MAX),
            cached_replies: bounds(CACHED_REPLY_BYTES_MAX),
            states: bounds(STATES_MAX),
            ranges: bounds(RANGES_MAX),
            delegations: bounds(DELEGATIONS_MAX),
            open_owners: bounds(OPEN_OWNERS_MAX),
            copies: bounds(COPIES_MAX),
        }
    }
}

impl Tables {
    fn bounds(&self, table: Table) -> &Arc<Bounds> {
        match table {
            Table::Clients => &self.clients,
            Table::Sessions => &self.sessions,
            Table::States => &self.states,
            Table::Ranges => &self.ranges,
            Table::Delegations => &self.delegations,
            Table::OpenOwners => &self.open_owners,
        }
    }
}

impl Table {
    fn has(self, client: &Client) -> bool {
        match self {
            Self::Clients => true,
            Self::Sessions => client.has_sessions(),
            Self::States => !client.states().is_empty(),
            Self::Ranges => client.states().counts().1 > 0,
            Self::Delegations => client.has_delegations(),
            Self::OpenOwners => client.open_owners().is_some_and(|owners| !owners.is_empty()),
        }
    }
}

impl ServiceState {
    /// Reserves room for an entry, evicting clients with expired leases if needed. No client may be locked.
    #[inline]
    pub(crate) fn reserve(&self, table: Table, party: &Party, client: &Client) -> Result<Slot, Status> {
        self.reserve_for(table, party, client.id)
    }

    /// Like [`ServiceState::reserve`], for a client that may not exist yet.
    pub(crate) fn reserve_for(&self, table: Table, party: &Party, client: ClientId) -> Result<Slot, Status> {
        loop {
            match self.tables.bounds(table).take(party, 1) {
                Ok(slot) => return Ok(slot),
                Err(full) if self.evict_silent(table, party, client, full) => {}
                Err(_) => return Err(Status::DELAY),
            }
        }
    }

    /// Ends the client of a table that has been silent for longest, if any may be ended for this party.
    fn evict_silent(&self, table: Table, party: &Party, client: ClientId, full: Full) -> bool {
        let bounds = self.tables.bounds(table);
        let may_end = |other: &Arc<Client>| {
            let is_in_the_way = match full {
                Full::All | Full::Strangers => other.party.is_stranger == party.is_stranger,
                // A large client must not evict the small clients of other networks.
                Full::Network | Full::Principal => {
                    other.party.network == party.network || bounds.is_large(&other.party)
                }
            };
            is_in_the_way && other.id != client && self.is_silent(other) && table.has(other)
        };
        let mut silent: Vec<Arc<Client>> =
            self.clients().all().filter(|other| self.is_silent(other)).cloned().collect();
        silent.sort_unstable_by_key(|other| other.last_seen());
        let Some(oldest) = silent.iter().find(|other| may_end(other)) else { return false };
        tracing::debug!(client = oldest.id, ?table, "evicting a client with an expired lease");
        self.clients().remove(oldest);
        self.end(oldest);
        true
    }

    /// Whether the client's lease has expired and its state is retained as a courtesy.
    fn is_silent(&self, client: &Client) -> bool {
        self.second().saturating_sub(client.last_seen()) > u64::from(self.lease_s)
    }
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile_tests;
