//! Peers, and what they may replicate.

use super::{ChangeOptions, Client, Created, Result, Tagged, path, to_json};
use crate::MERGE_PATCH;
use crate::client::transport::Request;
use crate::model::{
    Authorization, Authorizations, NewAuthorization, NewPeer, Operation, Peer, PeerPatch, ServiceKey,
};
use crate::path::encoded;

impl Client {
    /// All peers, by name.
    pub fn peers(&self) -> Result<Vec<Peer>> {
        self.all(&Request::get("/v1/peers"))
    }

    pub fn peer(&self, name: &str) -> Result<Tagged<Peer>> {
        self.tagged(Request::get(path("peers", name)))
    }

    pub fn create_peer(&self, new: &NewPeer) -> Result<Created<Peer>> {
        self.made(Request::post("/v1/peers"), new)
    }

    pub fn change_peer(
        &self,
        options: &ChangeOptions,
        name: &str,
        patch: &PeerPatch,
    ) -> Result<Tagged<Peer>> {
        let request = options.apply(Request::patch(path("peers", name)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    pub fn delete_peer(&self, options: &ChangeOptions, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("peers", name))))
    }

    /// The key of the service, for its peers.
    pub fn service_key(&self) -> Result<ServiceKey> {
        self.value(&Request::get("/v1/replication-key"))
    }

    /// All authorizations, by volume and peer.
    pub fn authorizations(&self) -> Result<Vec<Authorization>> {
        self.value(&Request::get("/v1/authorizations")).map(|all: Authorizations| all.items)
    }

    /// Lets a peer replicate a volume.
    pub fn authorize(&self, new: &NewAuthorization) -> Result<Created<Authorization>> {
        self.made(Request::post("/v1/authorizations"), new)
    }

    /// Ends the replication of a volume to a peer.
    pub fn revoke_authorization(&self, volume: &str, peer: &str) -> Result<Operation> {
        let of = format!("{}/{}", path("authorizations", volume), encoded(peer));
        self.value(&Request::delete(of))
    }
}
