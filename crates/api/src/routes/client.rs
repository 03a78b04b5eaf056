//! Connected clients.

use super::paging::page_of;
use crate::convert::protocols_of;
use crate::core::Call;
use crate::endpoint::{Docs, Endpoint, Json, Needs, NoBody};
use crate::plane::{self, Nfs4State};
use crate::problem::Result;
use api_client::model::{ConnectedClient, Nfs4Client, Page, PageQuery, ReachedEndpoint, UsedVolume};
use axum::http::Method;
use control::Role;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![Endpoint::new(
        Method::GET,
        "/v1/clients",
        Docs::new("clients", "listClients", "List connected clients, their connections and volumes."),
        Needs::Role(Role::Read),
        list,
    )]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<ConnectedClient>>> {
    let mut clients = call.core.plane.clients();
    clients.sort_by_key(|client| client.address);
    let (clients, next_page_token) = page_of(clients, &asked, |client| client.address)?;
    Ok(Json(Page { items: clients.iter().map(|client| shown(call, client)).collect(), next_page_token }))
}

fn shown(call: &Call, of: &plane::ConnectedClient) -> ConnectedClient {
    let used = of.volumes.iter().filter_map(|(&id, &connections)| {
        Some(UsedVolume { name: served_name(call, id)?, connections: number(connections) })
    });
    let reached = of.endpoints.iter().map(|(address, &connections)| ReachedEndpoint {
        address: address.to_string(),
        connections: number(connections),
    });
    ConnectedClient {
        address: of.address.to_string(),
        connections: number(of.connections),
        connected_seconds: of.connected.as_secs(),
        encrypted_connections: number(of.encrypted),
        verified_connections: number(of.verified),
        waiting_calls: of.waiting,
        endpoints: reached.collect(),
        volumes: used.collect(),
        nfs4_clients: of.nfs4.iter().map(nfs4_client).collect(),
    }
}

fn nfs4_client(of: &Nfs4State) -> Nfs4Client {
    Nfs4Client {
        name: of.owner.clone(),
        protocols: protocols_of(of.protocols),
        sessions: number(of.sessions),
        slots: number(of.slots),
        open_files: number(of.opens),
        locked_ranges: number(of.ranges),
        delegations: number(of.delegations),
        silent_seconds: of.silent.as_secs(),
    }
}

fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The name of a volume that is served.
fn served_name(call: &Call, id: vfs::VolumeId) -> Option<String> {
    call.core.namespace.load().volume(id).map(|export| export.volume.name().to_owned())
}
