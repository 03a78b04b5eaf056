//! Peers, and what they may replicate.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody};
use crate::core::Call;
use crate::endpoint::{Created, Docs, Endpoint, Json, Needs, NoBody, NoQuery, Patch, Tagged};
use crate::problem::Result;
use api_client::encoded;
use api_client::model::{
    Authorization, Authorizations, NewAuthorization, NewPeer, Operation, Page, PageQuery, Peer, PeerPatch,
    ServiceKey,
};
use axum::http::Method;
use control::{Error, Kind, PeerChange, PeerName, Role, VolumeName};

const TAG: &str = "replications";
const ALL: &str = "/v1/peers";
const ONE: &str = "/v1/peers/{name}";
const AUTHORIZATIONS: &str = "/v1/authorizations";
const AUTHORIZATION: &str = "/v1/authorizations/{name}/{peer}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, admin) = (Needs::Role(Role::Read), Needs::Role(Role::Admin));
    let docs = |name, text| Docs::new(TAG, name, text);
    let mut all = vec![
        Endpoint::new(Method::GET, ALL, docs("listPeers", "List peers by name."), look, list),
        Endpoint::new(
            Method::POST,
            ALL,
            docs(
                "createPeer",
                "Create a peer: another service, known by its key. Succeeds without a change if an identical peer exists.",
            ),
            admin,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new(Method::GET, ONE, docs("getPeer", "Get a peer."), look, one),
        Endpoint::new(
            Method::PATCH,
            ONE,
            docs("changePeer", "Change the key or the address of a peer. Connections with another key end."),
            admin,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            docs("deletePeer", "Delete a peer without replications and authorizations."),
            admin,
            delete,
        )
        .conditional()
        .refuses(&[409]),
        Endpoint::new(
            Method::GET,
            "/v1/replication-key",
            docs("getReplicationKey", "Get the key of this service, for its peers."),
            look,
            own_key,
        ),
    ];
    all.extend(authorizations());
    all
}

fn authorizations() -> [Endpoint; 3] {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    let docs = |name, text| Docs::new(TAG, name, text);
    [
        Endpoint::new(
            Method::GET,
            AUTHORIZATIONS,
            docs("listAuthorizations", "List what peers may replicate, by volume and peer."),
            look,
            list_authorizations,
        ),
        Endpoint::new(
            Method::POST,
            AUTHORIZATIONS,
            docs(
                "createAuthorization",
                "Let a peer replicate a volume to one destination. Succeeds without a change if it may already.",
            ),
            operate,
            authorize,
        )
        .refuses(&[404, 409, 422]),
        Endpoint::new(
            Method::DELETE,
            AUTHORIZATION,
            docs(
                "deleteAuthorization",
                "End the replication of a volume to a peer. Its points are deleted, so that a later one begins with a full copy.",
            ),
            operate,
            revoke,
        )
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Peer>>> {
    Ok(Json(page(&call.service().peers(after::<PeerName>(&asked)?, limit(&asked)?)?)))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewPeer>) -> Result<Created<Peer>> {
    let done = call.service().create_peer(&call.context(false), &FromBody::from_body(new)?)?;
    Ok(Created::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Peer>> {
    Ok(Tagged::of(&call.service().peer(&call.name(Kind::Peer)?)?))
}

fn change(call: &Call, _: NoQuery, Patch(patch): Patch<PeerPatch>) -> Result<Tagged<Peer>> {
    let (service, name): (_, PeerName) = (call.service(), call.name(Kind::Peer)?);
    let change = PeerChange::from_body(patch)?;
    let look = || service.peer(&name);
    let done = call.change(false, look, |_, context| service.update_peer(context, &name, &change))?;
    Ok(Tagged::of(&done.value))
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, PeerName) = (call.service(), call.name(Kind::Peer)?);
    let look = || service.peer(&name);
    Ok(Json(call.change(false, look, |_, context| service.delete_peer(context, &name))?.to_body()))
}

fn own_key(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<ServiceKey>> {
    Ok(Json(ServiceKey { key: call.service().identity()?.public().to_string() }))
}

fn shown(call: &Call, of: control::Authorization) -> Result<Authorization> {
    let point = call.service().last_offered(&of)?;
    Ok((of, point).to_body())
}

fn list_authorizations(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Authorizations>> {
    let all = call.service().authorizations()?;
    let items = all.into_iter().map(|one| shown(call, one)).collect::<Result<_>>()?;
    Ok(Json(Authorizations { items }))
}

fn authorize(call: &Call, _: NoQuery, Json(new): Json<NewAuthorization>) -> Result<Created<Authorization>> {
    let (volume, peer) = (new.volume.parse()?, new.peer.parse()?);
    let done = call.service().authorize(&call.context(false), &volume, &peer)?;
    let one = AUTHORIZATION.replace("{name}", &encoded(volume.as_str()));
    Ok(Created {
        is_new: done.operation.has_changed(),
        location: one.replace("{peer}", &encoded(peer.as_str())),
        // An authorization never changes.
        etag: "\"1\"".to_owned(),
        value: shown(call, done.value)?,
    })
}

fn revoke(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let volume: VolumeName = call.name(Kind::Volume)?;
    let text = call.part("peer");
    let peer = text.parse().map_err(|_| Error::NotFound { kind: Kind::Peer, name: text.to_owned() })?;
    Ok(Json(call.service().revoke(&call.context(false), &volume, &peer)?.to_body()))
}
