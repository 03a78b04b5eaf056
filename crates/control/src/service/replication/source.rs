//! The source of a replication: for a destination here, and for peers.

use super::{ReplicationError, SidePoint, taken};
use crate::error::Error;
use crate::name::{PeerName, VolumeName};
use crate::operation::{Actor, ChangeContext};
use crate::peer::{Authorization, PublicKey, Serving};
use crate::replication::{Phase, Replication};
use crate::service::Service;
use crate::store;
use replicate::replication::{
    Link, Means, Origin, POINT_NUMBER_MAX, Point, Purpose, Request, WorkDir, serve,
};
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{Backend, ChangedRanges, FsError, FsResult, Snapshots, ViewId, VolumeId};

/// Points that stay on each side.
const POINTS_KEPT: usize = 2;

/// An error of the management as one of a side.
pub(super) fn unable(error: Error) -> replicate::Error {
    replicate::Error::Refused(error.to_string())
}

/// The volume that a replication reads.
pub(super) struct SourceSide<'s> {
    service: &'s Service,
    relation: u64,
    volume_id: VolumeId,
    volume: VolumeName,
    /// The destination, for records.
    destination: String,
    take_point: fn(&Connection, u64) -> rusqlite::Result<u64>,
    /// Whether a peer has the destination.
    is_remote: bool,
    /// The state of the destination that this volume was.
    maps: Option<WorkDir>,
}

impl<'s> SourceSide<'s> {
    /// The source of a destination of this service.
    pub(super) fn here(service: &'s Service, replication: &Replication, volume_id: VolumeId) -> Self {
        Self {
            service,
            relation: replication.relation,
            volume_id,
            volume: replication.source.clone(),
            destination: replication.volume.to_string(),
            take_point: store::replication::take_point,
            is_remote: false,
            maps: None,
        }
    }

    fn of_peer(service: &'s Service, authorization: &Authorization, relation: u64) -> Self {
        Self {
            service,
            relation,
            volume_id: authorization.volume_id,
            volume: authorization.volume.clone(),
            destination: authorization.peer.to_string(),
            take_point: store::peer::take_point,
            is_remote: true,
            maps: None,
        }
    }

    fn side(&self) -> replicate::Result<Vec<SidePoint>> {
        self.service.points_of(self.relation, self.volume_id).map_err(unable)
    }

    /// Asks the storage for something about the snapshots of points.
    fn ask<T, const N: usize>(
        &self,
        points: [u64; N],
        ask: impl FnOnce(&dyn Snapshots, [ViewId; N]) -> FsResult<T>,
    ) -> replicate::Result<T> {
        let shown = || format!("point {} of the source", points.map(|point| point.to_string()).join(" or "));
        let failed = |error| replicate::Error::File(shown(), error);
        let side = self.side()?;
        let view = |point| side.iter().find(|(number, _)| *number == point).map(|found| found.1.view);
        let mut views = [ViewId::LIVE; N];
        for (found, point) in views.iter_mut().zip(points) {
            *found = view(point).ok_or_else(|| failed(FsError::NotFound))?;
        }
        let served = self.service.served(&self.volume).ok_or_else(|| failed(FsError::Io))?;
        let snapshots = served.snapshot_storage().ok_or_else(|| failed(FsError::NotSupported))?;
        ask(snapshots, views).map_err(failed)
    }
}

impl Origin for SourceSide<'_> {
    fn points(&self) -> replicate::Result<Vec<Point>> {
        Ok(self
            .side()?
            .iter()
            .map(|(number, point)| Point { number: *number, taken: taken(point) })
            .collect())
    }

    fn make(&self) -> replicate::Result<Point> {
        let (service, relation) = (self.service, self.relation);
        let number = service.change(|store| Ok((self.take_point)(store, relation)?)).map_err(unable)?;
        let point = service.make_point(relation, &self.destination, &self.volume, number).map_err(unable)?;
        Ok(Point { number, taken: taken(&point) })
    }

    fn open(&self, point: u64) -> replicate::Result<Arc<dyn Backend>> {
        self.ask([point], |snapshots, [view]| snapshots.open(view))
    }

    fn changes(&self, from: u64, to: u64) -> replicate::Result<Option<Arc<dyn ChangedRanges>>> {
        self.ask([from, to], |snapshots, [from, to]| snapshots.changes(from, to))
    }

    fn maps(&self) -> replicate::Result<WorkDir> {
        let none = || replicate::Error::Refused("the volume was not the destination".to_owned());
        self.maps.clone().ok_or_else(none)
    }

    fn confirm(&self, point: Option<u64>) -> replicate::Result<()> {
        let service = self.service;
        if self.is_remote && point.is_some() {
            let now = service.now_ms();
            let confirmed = service.change(|store| Ok(store::peer::confirm(store, self.relation, now)?));
            confirmed.map_err(unable)?;
        }
        service.prune_points(&self.destination, &self.side()?, point).map_err(unable)
    }
}

/// A connection in the list of those of peers; leaves it when dropped, also after a panic.
struct Listed<'s> {
    service: &'s Service,
    connection: Arc<AtomicBool>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.service.serving.lock().retain(|one| !Arc::ptr_eq(&one.is_ended, &self.connection));
    }
}

impl Service {
    /// Serves a peer with this key, which has connected, until the transfer ends. Its newer connection, and the end of its
    /// authorization, end it.
    pub fn serve_peer(&self, key: &PublicKey, link: &mut dyn Link) -> replicate::Result<()> {
        let ended = Arc::new(AtomicBool::new(false));
        let _listed = Listed { service: self, connection: Arc::clone(&ended) };
        let find = |request: &Request, purpose: Purpose| {
            let side = self.find_source(key, request, purpose)?;
            let (peer, relation) = (side.destination.clone(), side.relation);
            let peer = PeerName::stored(peer);
            let serving = Serving { peer, key: *key, relation, is_ended: Arc::clone(&ended) };
            self.end_serving(|other| other.relation == relation);
            self.serving.lock().push(serving);
            Ok(Box::new(side) as Box<dyn Origin + '_>)
        };
        let go_on = || match ended.load(Ordering::SeqCst) || self.jobs.is_closed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let scratch = self.dependencies.dir.join("replication");
        let made = stable::files::make_dirs(&scratch, 0o700).map_err(replicate::Error::Scratch);
        let mut means = Means { scratch: &scratch, pace: &mut |_| go_on(), progress: &mut |_| go_on() };
        made.and_then(|()| serve(link, &find, &mut means)).map(drop)
    }

    /// Ends connections of peers at their next step.
    pub(super) fn end_serving(&self, is_it: impl Fn(&Serving) -> bool) {
        let serving = self.serving.lock();
        serving.iter().filter(|one| is_it(one)).for_each(|one| one.is_ended.store(true, Ordering::SeqCst));
    }

    /// The volume that a peer asks for. A peer learns of no volume that it may not have.
    fn find_source(
        &self,
        key: &PublicKey,
        request: &Request,
        purpose: Purpose,
    ) -> replicate::Result<SourceSide<'_>> {
        let relation = u64::from_be_bytes(request.relation.0);
        let unknown = || {
            replicate::Error::Refused(format!(
                "the source has no volume {:?} that this service may replicate: authorize it there, with \"plimsoll \
                 replication authorize\"",
                request.volume
            ))
        };
        let name: VolumeName = request.volume.parse().map_err(|_| unknown())?;
        let found = self.read(|store| {
            let Some(peer) = store::peer::find_key(store, key)? else { return Ok(None) };
            if let Some(known) = store::peer::of_relation(store, relation)? {
                return Ok(Some((known, None)).filter(|(known, _)| known.peer == peer.name));
            }
            let all = store::peer::authorizations(store)?;
            let found = all.into_iter().find(|one| one.peer == peer.name && one.volume == name);
            let own = store::replication::find_relation(store, relation)?;
            let own = own.filter(|own| own.volume == name && own.peer.as_ref() == Some(&peer.name));
            Ok(found.map(|found| match found.relation {
                None => (found, own),
                Some(_) => (found, None),
            }))
        });
        let (authorization, own) = found.map_err(unable)?.ok_or_else(unknown)?;
        if let Some(own) = own {
            return self.turn_source(&authorization, &own, purpose);
        }
        if matches!(purpose, Purpose::Turn(_)) {
            return Err(unknown());
        }
        let of = self.find_volume(&authorization.volume).map_err(unable)?;
        self.check_writable_volume(&of, "become a source").map_err(unable)?;
        match authorization.relation {
            Some(known) if known == relation => {}
            Some(_) => {
                return Err(replicate::Error::Refused(format!(
                    "the volume {} has another destination at this service already: revoke its authorization at the source \
                     and authorize it again, to begin anew",
                    authorization.volume
                )));
            }
            None => self.begin_relation(&authorization, relation).map_err(unable)?,
        }
        Ok(SourceSide::of_peer(self, &authorization, relation))
    }

    /// The destination of a replication that is stopped becomes its source: the peer that has its former source asks.
    fn turn_source(
        &self,
        authorization: &Authorization,
        own: &Replication,
        purpose: Purpose,
    ) -> replicate::Result<SourceSide<'_>> {
        if own.phase != Phase::Stopped {
            return Err(replicate::Error::Refused(format!(
                "the replication to {} there is not stopped: break it there first",
                own.volume
            )));
        }
        let side = SourceSide::of_peer(self, authorization, own.relation);
        match purpose {
            Purpose::Points => Ok(side),
            Purpose::Turn(next) if next > POINT_NUMBER_MAX => {
                Err(replicate::Error::Peer("the number of its next point is too large"))
            }
            Purpose::Turn(next) => {
                let after = Replication { next_point: own.next_point.max(next), ..own.clone() };
                let noted = self.change(|store| Ok(store::replication::update(store, &after)?));
                noted.map_err(unable)?;
                let maps = self.work_dir(own).map_err(unable)?;
                Ok(SourceSide { maps: Some(maps), ..side })
            }
            Purpose::Transfer => {
                let last = side.side()?.last().map_or(0, |(number, _)| *number);
                let next = own.next_point.max(last.saturating_add(1));
                let turned = self.change(|store| {
                    store::replication::delete(store, own.relation)?;
                    store::peer::set_relation(store, authorization, own.relation)?;
                    Ok(store::peer::set_next_point(store, own.relation, next)?)
                });
                turned.map_err(unable)?;
                _ = std::fs::remove_dir_all(self.work_path(own));
                Ok(side)
            }
        }
    }

    fn begin_relation(&self, authorization: &Authorization, relation: u64) -> crate::Result<()> {
        self.change(|store| {
            // The number is a peer's choice, and names snapshots: it must be nothing of this service's own.
            if store::replication::find_relation(store, relation)?.is_some()
                || store::peer::of_relation(store, relation)?.is_some()
            {
                let reason = "the replication has the number of another one".to_owned();
                return Err(ReplicationError::Failed { reason }.into());
            }
            Ok(store::peer::set_relation(store, authorization, relation)?)
        })
    }

    /// Deletes the points of one side that are no longer needed: all but the last two up to `last`.
    pub(super) fn prune_points(
        &self,
        destination: &str,
        points: &[SidePoint],
        last: Option<u64>,
    ) -> crate::Result<()> {
        let context = ChangeContext::by(Actor::new(format!("replication to {destination}")));
        let kept: Vec<u64> =
            points.iter().map(|(number, _)| *number).filter(|&number| Some(number) <= last).collect();
        let kept = &kept[kept.len().saturating_sub(POINTS_KEPT)..];
        let gone = points.iter().filter(|(number, _)| !kept.contains(number)).cloned().collect();
        self.remove_points(&context, gone)
    }

    /// Deletes points. One that is locked stays.
    pub(super) fn remove_points(&self, context: &ChangeContext, points: Vec<SidePoint>) -> crate::Result<()> {
        // A version in the context is not that of a snapshot.
        let context = ChangeContext::by(context.actor.clone());
        for (_, point) in points {
            match self.remove_snapshot(&context, &point.volume, &point.name) {
                // A lock ends some day, and the next transfer tries again.
                Ok(_) | Err(Error::Locked { .. } | Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
