//! Replications.

use super::{FromBody, ToBody, ToValue, version_text};
use api_client::model::{NewReplication, Replication, Timestamp};
use control::{Error, ReplicationStatus};

impl ToBody for (control::Replication, ReplicationStatus) {
    type Body = Replication;

    fn to_body(&self) -> Replication {
        let (replication, status) = self;
        let last = replication.last_transfer;
        Replication {
            volume: replication.volume.to_string(),
            source: replication.source.to_string(),
            peer: replication.peer.as_ref().map(ToString::to_string),
            schedule: replication.schedule.map(|schedule| schedule.to_body()),
            state: status.state.to_body(),
            mirror_state: status.state.anf_mirror_state().to_owned(),
            relationship_status: status.state.anf_relationship_status().to_owned(),
            healthy: replication.is_healthy,
            last_error: Some(replication.last_error.clone()).filter(|error| !error.is_empty()),
            last_point: status.last_point.as_ref().map(ToString::to_string),
            lag_seconds: status.lag_ms.map(|lag| lag / 1000),
            last_transfer_ended: last.map(|last| Timestamp::from_ms(last.ended_ms)),
            last_transfer_seconds: last.map(|last| last.duration_ms.div_ceil(1000)),
            last_transfer_bytes: last.map(|last| last.bytes),
            total_bytes: replication.total_bytes,
            operation: status.operation.map(|operation| operation.0),
            created: Timestamp::from_ms(replication.created_ms),
            version: version_text(replication.version, replication.created_ms),
        }
    }
}

impl FromBody<NewReplication> for control::NewReplication {
    fn from_body(of: NewReplication) -> Result<Self, Error> {
        Ok(Self {
            volume: of.volume.parse()?,
            source: of.source.parse()?,
            peer: of.peer.map(|peer| peer.parse()).transpose()?,
            schedule: of.schedule.map(ToValue::to_value),
        })
    }
}
