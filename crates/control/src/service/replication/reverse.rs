//! A source follows the destination that it has at a peer.

use super::{Service, refused, transfer};
use crate::error::{Error, Result};
use crate::name::PeerName;
use crate::operation::{ChangeContext, ChangeResult, Verb};
use crate::peer::Authorization;
use crate::replication::{NewReplication, Phase, Replication};
use crate::store;
use crate::volume::Volume;
use replicate::replication::{Means, WorkDir, fetch_maps};
use std::ops::ControlFlow;

impl Service {
    /// The replication of a volume to a peer, if there is one.
    pub(super) fn given_to(&self, volume: &Volume, peer: Option<&PeerName>) -> Result<Option<Authorization>> {
        let Some(peer) = peer else { return Ok(None) };
        let given = self.read(|store| Ok(store::peer::of_volume(store, volume.id)?))?;
        Ok(given.into_iter().find(|one| one.peer == *peer && one.relation.is_some()))
    }

    /// Turns the replication of a volume to a peer round: the volume goes back to the last point that both have, and follows.
    /// The peer's replication has to be stopped, and its volume authorized for this service.
    pub(super) fn reverse_from_peer(
        &self,
        context: &ChangeContext,
        new: &NewReplication,
        of: &Volume,
        given: &Authorization,
    ) -> Result<ChangeResult<Replication>> {
        if self.read(|store| Ok(store::peer::of_volume(store, of.id)?))?.len() > 1 {
            return Err(Error::invalid(
                format!("the volume {} with destinations at several peers", of.name),
                "a volume with one: revoke the other authorizations",
            ));
        }
        let now = self.now_ms();
        let turned = Replication {
            relation: given.relation.unwrap_or_default(),
            volume_id: of.id,
            source_id: None,
            volume: new.volume.clone(),
            source: new.source.clone(),
            peer: new.peer.clone(),
            schedule: new.schedule,
            phase: Phase::Active,
            next_point: self
                .read(|store| Ok(store::peer::next_point(store, given.relation.unwrap_or_default())?))?,
            due_ms: now,
            is_healthy: true,
            last_error: String::new(),
            last_transfer: None,
            total_bytes: 0,
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        let theirs = self.take_maps(&turned)?;
        let put = |store: &rusqlite::Connection| {
            store::peer::revoke(store, given)?;
            Ok(store::replication::insert(store, &turned)?)
        };
        self.follow_from(context, &turned, of, &theirs, &put)?;
        let detail = format!("reverse, from {}", turned.source_text());
        let operation = self.begin_transfer(context, &turned, Verb::Create, &detail)?;
        Ok(ChangeResult { value: turned, operation })
    }

    /// Takes the maps of the points that both sides have over, for this side as the destination. Returns the points of the
    /// peer.
    fn take_maps(&self, turned: &Replication) -> Result<Vec<u64>> {
        let path = self.work_path(turned).with_extension("incoming");
        let incoming = WorkDir::open(&path).map_err(refused)?;
        let mut means = Means {
            scratch: &path,
            pace: &mut |_| ControlFlow::Continue(()),
            progress: &mut |_| ControlFlow::Continue(()),
        };
        let mut link = self.dial_source(turned, None)?;
        let request = transfer::request(turned);
        let theirs = fetch_maps(&mut *link, &request, turned.next_point, &incoming, &mut means);
        let theirs = theirs.and_then(|theirs| {
            let ours = self.points(turned, turned.volume_id).map_err(super::source::unable)?;
            let is_common = |point: &&u64| ours.iter().any(|(number, _)| number == *point);
            let common: Vec<u64> = theirs.iter().filter(is_common).copied().collect();
            incoming.reverse(&self.work_dir(turned).map_err(super::source::unable)?, &common, &path)?;
            Ok(theirs)
        });
        _ = std::fs::remove_dir_all(&path);
        theirs.map_err(refused)
    }
}
