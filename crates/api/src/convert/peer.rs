//! Peers, and what they may replicate.

use super::{FromBody, ToBody, version_text};
use api_client::model::{Authorization, NewPeer, Peer, PeerPatch, Timestamp};
use control::{Error, PeerChange, PublicKey};

impl ToBody for control::Peer {
    type Body = Peer;

    fn to_body(&self) -> Peer {
        Peer {
            name: self.name.to_string(),
            key: self.key.to_string(),
            address: self.address.clone(),
            created: Timestamp::from_ms(self.created_ms),
            changed: Timestamp::from_ms(self.changed_ms),
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl ToBody for (control::Authorization, Option<control::Snapshot>) {
    type Body = Authorization;

    fn to_body(&self) -> Authorization {
        let (of, point) = self;
        Authorization {
            volume: of.volume.to_string(),
            peer: of.peer.to_string(),
            last_point: point.as_ref().map(|point| point.name.to_string()),
            last_transfer_ended: of.confirmed_ms.map(Timestamp::from_ms),
            created: Timestamp::from_ms(of.created_ms),
        }
    }
}

impl FromBody<NewPeer> for control::NewPeer {
    fn from_body(of: NewPeer) -> Result<Self, Error> {
        Ok(Self { name: of.name.parse()?, key: key(&of.key)?, address: of.address })
    }
}

impl FromBody<PeerPatch> for PeerChange {
    fn from_body(of: PeerPatch) -> Result<Self, Error> {
        Ok(Self { key: of.key.as_deref().map(key).transpose()?, address: of.address })
    }
}

fn key(text: &str) -> Result<PublicKey, Error> {
    text.parse().map_err(|()| Error::Invalid {
        what: format!("{text:?} as the key of a peer"),
        allowed: "64 hexadecimal digits, as the peer shows its own key".to_owned(),
    })
}
