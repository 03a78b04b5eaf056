//! Peers, and the volumes that they may replicate.

use crate::difference::Difference;
use crate::error::{Error, Result};
use crate::key_file::KeyFile;
use crate::kind::Kind;
use crate::name::{PeerName, VolumeName};
use crate::operation::{ChangeContext, ChangeResult, Operation, Verb};
use crate::peer::{Authorization, NewPeer, PEERS_MAX, Peer, PeerChange, PublicKey, check_address};
use crate::replication::ReplicationError;
use crate::service::{Page, Service, UNCHANGED, check_version};
use crate::snapshot::Snapshot;
use crate::store;
use replicate::link::Identity;

/// The file with the private key of the service.
const KEY_FILE: &str = "replication.key";

impl Service {
    /// The key of this service, which is made when it is first needed.
    pub fn identity(&self) -> Result<Identity> {
        let path = self.dependencies.dir.join(KEY_FILE);
        let file = KeyFile::<32>::new(path, "the key lets others pose as this service to its peers")
            .with_replica(self.replica());
        let seed = file.read_or_make(&self.dependencies.entropy)?;
        let unusable = |error: std::io::Error| ReplicationError::Failed { reason: error.to_string() };
        Ok(Identity::from_seed(seed).map_err(unusable)?)
    }

    /// Whether a service with this key may connect.
    pub fn is_peer(&self, key: &PublicKey) -> bool {
        self.peer_keys.read().contains(key)
    }

    /// Creates a peer. Succeeds without a change if an identical peer exists.
    pub fn create_peer(&self, context: &ChangeContext, new: &NewPeer) -> Result<ChangeResult<Peer>> {
        check_address(new.address.as_deref())?;
        let _state = self.state();
        let thing = (Kind::Peer, new.name.as_str());
        if let Some(found) = self.read(|store| Ok(store::peer::find(store, &new.name)?))? {
            let address = |of: &Option<String>| of.clone().unwrap_or_else(|| "none".to_owned());
            let differs: Vec<Difference> = [
                Difference::of("key", &found.key, &new.key, ToString::to_string),
                Difference::of("address", &found.address, &new.address, address),
            ]
            .into_iter()
            .flatten()
            .collect();
            if !differs.is_empty() {
                return Err(Error::Conflict { kind: Kind::Peer, name: new.name.to_string(), differs });
            }
            let operation =
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: found, operation });
        }
        if self.read(|store| Ok(store::peer::list(store, "", PEERS_MAX)?))?.len() >= PEERS_MAX {
            return Err(Error::invalid("another peer", format!("at most {PEERS_MAX}: delete some")));
        }
        self.check_new_key(&new.key)?;
        let now = self.now_ms();
        let NewPeer { name, key, address } = new.clone();
        let peer = Peer { name, key, address, version: 1, created_ms: now, changed_ms: now };
        let operation = self.change(|store| {
            store::peer::put(store, &peer)?;
            self.record(store, context, Verb::Create, thing, &peer.key.to_string())
        })?;
        self.load_peer_keys()?;
        Ok(ChangeResult { value: peer, operation })
    }

    fn check_new_key(&self, key: &PublicKey) -> Result<()> {
        if self.identity()?.public() == *key {
            return Err(ReplicationError::KeyInUse { by: "this service".to_owned() }.into());
        }
        match self.read(|store| Ok(store::peer::find_key(store, key)?))? {
            None => Ok(()),
            Some(other) => Err(ReplicationError::KeyInUse { by: format!("the peer {}", other.name) }.into()),
        }
    }

    /// Changes a peer. Connections with an earlier key end.
    pub fn update_peer(
        &self,
        context: &ChangeContext,
        name: &PeerName,
        change: &PeerChange,
    ) -> Result<ChangeResult<Peer>> {
        let _state = self.state();
        let before = self.peer(name)?;
        check_version(context, Kind::Peer, name.as_str(), before.version)?;
        let key = change.key.unwrap_or(before.key);
        let address = change.address.clone().unwrap_or_else(|| before.address.clone());
        let mut changes = Vec::new();
        if key != before.key {
            self.check_new_key(&key)?;
            changes.push(format!("key {key}"));
        }
        if address != before.address {
            check_address(address.as_deref())?;
            changes.push(format!("address {}", address.as_deref().unwrap_or("none")));
        }
        let (detail, changed_ms) = (changes.join(", "), self.now_ms());
        let after = match changes.is_empty() {
            true => before,
            false => Peer { key, address, version: before.version + 1, changed_ms, ..before },
        };
        let detail = if detail.is_empty() { UNCHANGED } else { &detail };
        let operation = self.change(|store| {
            store::peer::put(store, &after)?;
            self.record(store, context, Verb::Update, (Kind::Peer, name.as_str()), detail)
        })?;
        self.load_peer_keys()?;
        self.end_serving(|serving| serving.peer == *name && serving.key != after.key);
        Ok(ChangeResult { value: after, operation })
    }

    /// Deletes a peer that nothing uses.
    pub fn delete_peer(&self, context: &ChangeContext, name: &PeerName) -> Result<Operation> {
        let _state = self.state();
        let peer = self.peer(name)?;
        check_version(context, Kind::Peer, name.as_str(), peer.version)?;
        let (destinations, authorizations) = self.read(|store| {
            Ok((store::peer::destinations(store, name)?, store::peer::authorizations(store)?))
        })?;
        let authorized = authorizations.iter().find(|one| one.peer == *name);
        let by = match (destinations.first(), authorized) {
            (Some(volume), _) => Some(format!("the replication to {volume}")),
            (None, Some(one)) => Some(format!("the authorization for the volume {}", one.volume)),
            (None, None) => None,
        };
        if let Some(by) = by {
            return Err(ReplicationError::PeerInUse { peer: name.to_string(), by }.into());
        }
        let operation = self.change(|store| {
            store::peer::delete(store, name)?;
            self.record(store, context, Verb::Delete, (Kind::Peer, name.as_str()), "")
        })?;
        self.load_peer_keys()?;
        self.end_serving(|serving| serving.peer == *name);
        Ok(operation)
    }

    pub fn peer(&self, name: &PeerName) -> Result<Peer> {
        let found = self.read(|store| Ok(store::peer::find(store, name)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Peer, name))
    }

    /// Lists peers by name after `after`, the [`Page::next`] of the previous page.
    pub fn peers(&self, after: Option<&str>, most: usize) -> Result<Page<Peer>> {
        let after = after.unwrap_or("");
        self.page(most, |store, most| store::peer::list(store, after, most), |one| one.name.to_string())
    }

    pub(in crate::service) fn load_peer_keys(&self) -> Result<()> {
        let peers = self.read(|store| Ok(store::peer::list(store, "", PEERS_MAX)?))?;
        *self.peer_keys.write() = peers.into_iter().map(|peer| peer.key).collect();
        Ok(())
    }

    /// Lets a peer replicate a volume to one destination. Succeeds without a change if it may already.
    pub fn authorize(
        &self,
        context: &ChangeContext,
        volume: &VolumeName,
        peer: &PeerName,
    ) -> Result<ChangeResult<Authorization>> {
        let _locked = self.lock_volume(volume, None)?;
        self.peer(peer)?;
        let of = self.find_volume(volume)?;
        let detail = format!("authorize {peer}");
        let thing = (Kind::Volume, volume.as_str());
        let known = self.read(|store| Ok(store::peer::of_volume(store, of.id)?))?;
        if let Some(found) = known.into_iter().find(|one| one.peer == *peer) {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: found, operation });
        }
        let authorization = Authorization {
            volume_id: of.id,
            volume: volume.clone(),
            peer: peer.clone(),
            relation: None,
            confirmed_ms: None,
            created_ms: self.now_ms(),
        };
        let operation = self.change(|store| {
            store::peer::authorize(store, &authorization)?;
            self.record(store, context, Verb::Update, thing, &detail)
        })?;
        Ok(ChangeResult { value: authorization, operation })
    }

    /// Ends the replication of a volume to a peer. Its points are deleted, so that a later one begins with a full copy.
    pub fn revoke(&self, context: &ChangeContext, volume: &VolumeName, peer: &PeerName) -> Result<Operation> {
        let locked = self.lock_volume(volume, None)?;
        let of = self.find_volume(volume)?;
        let known = self.read(|store| Ok(store::peer::of_volume(store, of.id)?))?;
        let Some(found) = known.into_iter().find(|one| one.peer == *peer) else {
            let (volume, peer) = (volume.to_string(), peer.to_string());
            return Err(ReplicationError::NotAuthorized { volume, peer }.into());
        };
        let detail = format!("revoke {peer}");
        let operation = self.change(|store| {
            store::peer::revoke(store, &found)?;
            self.record(store, context, Verb::Update, (Kind::Volume, volume.as_str()), &detail)
        })?;
        drop(locked);
        let Some(relation) = found.relation else { return Ok(operation) };
        self.end_serving(|serving| serving.relation == relation);
        self.remove_points(context, self.points_of(relation, of.id)?)?;
        Ok(operation)
    }

    /// Lists what peers may replicate, by volume and peer.
    pub fn authorizations(&self) -> Result<Vec<Authorization>> {
        self.read(|store| Ok(store::peer::authorizations(store)?))
    }

    /// The last point that a peer has been offered.
    pub fn last_offered(&self, authorization: &Authorization) -> Result<Option<Snapshot>> {
        let Some(relation) = authorization.relation else { return Ok(None) };
        Ok(self.points_of(relation, authorization.volume_id)?.pop().map(|(_, point)| point))
    }
}
