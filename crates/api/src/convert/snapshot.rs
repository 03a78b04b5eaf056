//! Snapshots.

use super::{FromBody, ToBody, version_text};
use api_client::model::{NewSnapshot, Snapshot, SnapshotPatch, Timestamp};
use control::{Error, SnapshotChange};

impl ToBody for control::Snapshot {
    type Body = Snapshot;

    fn to_body(&self) -> Snapshot {
        Snapshot {
            name: self.name.to_string(),
            volume: self.volume.to_string(),
            kind: self.kind.to_body(),
            description: self.description.clone(),
            state: self.state.to_body(),
            reason: Some(self.reason.clone()).filter(|reason| !reason.is_empty()),
            created: Timestamp::from_ms(self.created_ms),
            locked_until: self.locked_until_ms.map(Timestamp::from_ms),
            volume_size_bytes: Some(self.volume_size.0).filter(|&size| size > 0),
            own_bytes: None,
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl FromBody<NewSnapshot> for control::NewSnapshot {
    fn from_body(of: NewSnapshot) -> Result<Self, Error> {
        Ok(Self {
            name: of.name.map(|name| name.parse()).transpose()?,
            description: of.description,
            locked_until_ms: of.locked_until.as_ref().map(time).transpose()?,
        })
    }
}

impl FromBody<&SnapshotPatch> for SnapshotChange {
    fn from_body(of: &SnapshotPatch) -> Result<Self, Error> {
        let lock = |until: &Option<Timestamp>| until.as_ref().map(time).transpose();
        Ok(Self {
            description: of.description.clone(),
            locked_until_ms: of.locked_until.as_ref().map(lock).transpose()?,
        })
    }
}

/// The time of a request, in milliseconds since 1970.
pub(super) fn time(text: &Timestamp) -> Result<u64, Error> {
    text.to_ms().ok_or_else(|| Error::Invalid {
        what: format!("the time {:?}", text.0),
        allowed: "a time in UTC from 1970 on, as in 2027-01-31T00:00:00Z".to_owned(),
    })
}
