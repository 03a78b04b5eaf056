//! Clients of NFSv4 as an operator sees them.

use super::ServiceState;
use super::client::Client;
use super::client_name::name_given_by_client;
use nfs_wire::v4::ClientId;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A client and its usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// Addresses from which it sent an introduction.
    pub addresses: Vec<IpAddr>,
    pub owner: Box<[u8]>,
    pub minors: BTreeSet<u32>,
    /// Number of sessions; version 4.0 has none.
    pub sessions: usize,
    pub slots: usize,
    /// The files that it has open, as often as it has.
    pub opens: usize,
    pub ranges: usize,
    pub delegations: usize,
    /// Time since its last request.
    pub silent: Duration,
}

impl ServiceState {
    pub fn client_infos(&self) -> Vec<ClientInfo> {
        let mut sessions: HashMap<ClientId, Vec<(u32, u32)>> = HashMap::new();
        for session in self.sessions.read().values() {
            sessions.entry(session.client.id).or_default().push((session.minor, session.fore.maxrequests));
        }
        let now = self.second();
        let clients: Vec<_> = self.clients().all().cloned().collect();
        let shown = |client: &Arc<Client>| {
            let sessions = sessions.remove(&client.id).unwrap_or_default();
            let mut minors: BTreeSet<u32> = sessions.iter().map(|(minor, _)| *minor).collect();
            if client.open_owners().is_some() {
                minors.insert(0);
            }
            let (opens, ranges) = client.states().counts();
            ClientInfo {
                addresses: client.addresses(),
                owner: name_given_by_client(&client.owner).into(),
                minors,
                sessions: sessions.len(),
                slots: sessions.iter().map(|(_, slots)| *slots as usize).sum(),
                opens,
                ranges,
                delegations: client.delegations.load(Ordering::Relaxed),
                silent: Duration::from_secs(now.saturating_sub(client.last_seen())),
            }
        };
        clients.iter().map(shown).collect()
    }
}
