//! Volumes, and what they do.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody, volume_change};
use crate::core::Call;
use crate::endpoint::{Created, Docs, Endpoint, Force, Json, Needs, NoBody, NoQuery, Patch, Tagged};
use crate::plane::RECENT_USE;
use crate::problem::Result;
use api_client::model::{
    EndpointStats, Limits, MountTarget, MountTargets, NewVolume, Operation, Page, PageQuery, Stats,
    Timestamp, Volume, VolumePatch,
};
use axum::http::Method;
use control::{Kind, Role, VolumeName};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use vfs::qos;

const TAG: &str = "volumes";
const ALL: &str = "/v1/volumes";
const ONE: &str = "/v1/volumes/{name}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listVolumes", "List volumes by name."), look, list),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createVolume",
                "Create a volume and serve it. Succeeds without a change if an identical volume exists.",
            ),
            operate,
            create,
        )
        .refuses(&[404, 409, 422]),
        Endpoint::new(Method::GET, ONE, Docs::new(TAG, "getVolume", "Get a volume."), look, one),
        Endpoint::new(
            Method::PATCH,
            ONE,
            Docs::new(
                TAG,
                "changeVolume",
                "Change a volume, mounted or not. New limits take effect immediately.",
            ),
            operate,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deleteVolume", "Delete a volume and all its files."),
            operate,
            delete,
        )
        .conditional()
        .refuses(&[409]),
        Endpoint::new(
            Method::GET,
            "/v1/volumes/{name}/stats",
            Docs::new(TAG, "getVolumeStats", "Get traffic, contents and limits of a volume."),
            look,
            stats,
        ),
        Endpoint::new(
            Method::GET,
            "/v1/volumes/{name}/mount-targets",
            Docs::new(
                TAG,
                "getMountTargets",
                "Get the mount options of a volume, for each protocol and address.",
            ),
            look,
            mount_targets,
        ),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Volume>>> {
    let volumes = call.service().volumes(after::<VolumeName>(&asked)?, limit(&asked)?)?;
    Ok(Json(page(&volumes)))
}

fn create(call: &Call, asked: Force, Json(new): Json<NewVolume>) -> Result<Created<Volume>> {
    let done = call.service().create_volume(&call.context(asked.force), &FromBody::from_body(new)?)?;
    Ok(Created::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Volume>> {
    let volume = call.service().volume(&call.name(Kind::Volume)?)?;
    Ok(Tagged::of(&volume))
}

fn change(call: &Call, asked: Force, Patch(patch): Patch<VolumePatch>) -> Result<Tagged<Volume>> {
    let (service, name): (_, VolumeName) = (call.service(), call.name(Kind::Volume)?);
    let look = || service.volume(&name);
    let done = call.change(asked.force, look, |volume, context| {
        service.update_volume(context, &name, &volume_change(&patch, volume)?)
    })?;
    Ok(Tagged::of(&done.value))
}

fn delete(call: &Call, asked: Force, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, VolumeName) = (call.service(), call.name(Kind::Volume)?);
    let look = || service.volume(&name);
    let operation = call.change(asked.force, look, |_, context| service.delete_volume(context, &name))?;
    Ok(Json(operation.to_body()))
}

fn stats(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Stats>> {
    let (service, name): (_, VolumeName) = (call.service(), call.name(Kind::Volume)?);
    let volume = service.volume(&name)?;
    let pool = service.pool(&volume.pool)?;
    let space = service.space(&name)?;
    let served = call.core.served(&volume);
    let (throttled, waiting) = served.as_ref().map(|served| served.gate().throttled()).unwrap_or_default();
    let counted = |kind: qos::Kind| {
        let counted =
            served.as_ref().map(|served| served.traffic().operation_counts(kind)).unwrap_or_default();
        crate::convert::counted(kind, &counted, &throttled)
    };
    let endpoints = endpoint_stats(call, &volume);
    Ok(Json(Stats {
        volume: name.to_string(),
        at: Timestamp::now(),
        size_bytes: volume.size.0,
        used_bytes: space.used.bytes,
        live_bytes: space.live_bytes(),
        snapshot_bytes: space.snapshot_bytes,
        reserve_bytes: space.reserve_bytes,
        available_bytes: space.available_bytes,
        used_files: space.used.files,
        snapshots: service.snapshot_count(&name)?.try_into().unwrap_or(u64::MAX),
        read: counted(qos::Kind::Read),
        write: counted(qos::Kind::Write),
        other: counted(qos::Kind::Other),
        waiting_calls: waiting.try_into().unwrap_or(u64::MAX),
        endpoints,
        pool_limits: Limits::from(pool.limits()?),
        limits: Limits::from(volume.limits(&pool)?),
    }))
}

fn mount_targets(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<MountTargets>> {
    let volume = call.service().volume(&call.name(Kind::Volume)?)?;
    // The service's own address serves all volumes.
    let addresses = volume.endpoints.iter().copied().map(Some).chain([None]);
    let protocols = volume.mountable(call.service().protocols());
    // Clients of different rules may need different protection.
    let each: Vec<_> = protocols
        .iter()
        .flat_map(|protocol| protections(&volume, protocol).into_iter().map(move |least| (protocol, least)))
        .collect();
    let at = |endpoint: Option<IpAddr>, protocol, least| {
        let target = call.core.plane.mount_target(protocol, endpoint, least)?;
        // SMB is at the service's own address alone. NFS has the endpoints where that is not known or one of them.
        let is_beside_endpoints =
            endpoint.is_none() && !volume.endpoints.is_empty() && protocol != envelope::Protocol::Smb;
        let adds_nothing = target.address.is_unspecified() || volume.endpoints.contains(&target.address);
        (!is_beside_endpoints || !adds_nothing).then_some(target)
    };
    let at = &at;
    let targets = addresses
        .flat_map(|endpoint| each.iter().filter_map(move |&(protocol, least)| at(endpoint, protocol, least)));
    let shown = |target: crate::plane::MountTarget| MountTarget {
        protocol: target.protocol.into(),
        address: Some(target.address).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string()),
        path: volume.path(),
        options: target.options,
        locks: target.has_locks,
    };
    Ok(Json(MountTargets { mount_targets: targets.map(shown).collect() }))
}

/// The protections that rules ask of clients, the least first. Clients of SMB encrypt where they must, without an option.
fn protections(volume: &control::Volume, protocol: envelope::Protocol) -> BTreeSet<vfs::Protection> {
    let is_for = |rule: &&control::ExportRule| {
        rule.protocols.contains(protocol) && rule.access != control::Access::NoAccess
    };
    let asked: BTreeSet<_> = volume.rules.iter().filter(is_for).map(|rule| rule.protection).collect();
    let needs_no_option = protocol == envelope::Protocol::Smb || asked.is_empty();
    if needs_no_option { [vfs::Protection::Plain].into() } else { asked }
}

fn endpoint_stats(call: &Call, volume: &control::Volume) -> Vec<EndpointStats> {
    let (failures, users) = match volume.endpoints.is_empty() {
        true => (BTreeMap::new(), BTreeMap::new()),
        false => {
            let mut users = call.core.plane.volume_connections(RECENT_USE);
            (call.service().not_listening(), users.remove(&volume.id).unwrap_or_default())
        }
    };
    let stats = |address| EndpointStats {
        address: format!("{address}"),
        connections: users.get(address).copied().unwrap_or_default().try_into().unwrap_or(u64::MAX),
        failure: failures.get(address).cloned(),
    };
    volume.endpoints.iter().map(stats).collect()
}
