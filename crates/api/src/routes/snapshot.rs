//! Snapshots of a volume.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody};
use crate::core::Call;
use crate::endpoint::{Created, Docs, Endpoint, Json, Needs, NoBody, NoQuery, Patch, Started, Tagged};
use crate::problem::Result;
use api_client::encoded;
use api_client::model::{NewSnapshot, Page, PageQuery, Snapshot, SnapshotPatch};
use axum::http::Method;
use control::{Error, Kind, Role, SnapshotChange, SnapshotName, VolumeName};

const TAG: &str = "snapshots";
const ALL: &str = "/v1/volumes/{name}/snapshots";
const ONE: &str = "/v1/volumes/{name}/snapshots/{snapshot}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    vec![
        Endpoint::new(
            Method::GET,
            ALL,
            Docs::new(TAG, "listSnapshots", "List the snapshots of a volume by name."),
            look,
            list,
        ),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createSnapshot",
                "Create a snapshot with every acknowledged change. Succeeds without a change if an identical snapshot exists.",
            ),
            operate,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::GET,
            ONE,
            Docs::new(TAG, "getSnapshot", "Get a snapshot, with the bytes that its deletion would free."),
            look,
            one,
        ),
        Endpoint::new(
            Method::PATCH,
            ONE,
            Docs::new(TAG, "changeSnapshot", "Change the description or the lock of a snapshot."),
            operate,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(
                TAG,
                "deleteSnapshot",
                "Delete a snapshot. Clients cannot read it from the reply on. An operation frees its space.",
            ),
            operate,
            delete,
        )
        .conditional()
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Snapshot>>> {
    let volume: VolumeName = call.name(Kind::Volume)?;
    let snapshots = call.service().snapshots(&volume, after::<SnapshotName>(&asked)?, limit(&asked)?)?;
    Ok(Json(page(&snapshots)))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewSnapshot>) -> Result<Created<Snapshot>> {
    let volume: VolumeName = call.name(Kind::Volume)?;
    let new = FromBody::from_body(new)?;
    let done = call.service().create_snapshot(&call.context(false), &volume, &new)?;
    let collection = ALL.replace("{name}", &encoded(volume.as_str()));
    Ok(Created::of(&done, &collection, done.value.name.as_str()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Snapshot>> {
    let (volume, name) = names(call)?;
    let found = call.service().snapshot(&volume, &name)?;
    let tagged = Tagged::of(&found);
    let own_bytes = call.service().snapshot_usage(&found).own_bytes;
    Ok(Tagged { value: Snapshot { own_bytes, ..tagged.value }, ..tagged })
}

fn change(call: &Call, _: NoQuery, Patch(patch): Patch<SnapshotPatch>) -> Result<Tagged<Snapshot>> {
    let (service, (volume, name)) = (call.service(), names(call)?);
    let change = SnapshotChange::from_body(&patch)?;
    let look = || service.snapshot(&volume, &name);
    let done =
        call.change(false, look, |_, context| service.update_snapshot(context, &volume, &name, &change))?;
    Ok(Tagged::of(&done.value))
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Started> {
    let (service, (volume, name)) = (call.service(), names(call)?);
    let look = || service.snapshot(&volume, &name);
    let begun = call.change(false, look, |_, context| service.delete_snapshot(context, &volume, &name))?;
    Ok(Started(begun.to_body()))
}

/// The names in the path.
pub(super) fn names(call: &Call) -> Result<(VolumeName, SnapshotName)> {
    let volume: VolumeName = call.name(Kind::Volume)?;
    let text = call.part("snapshot");
    let no_such = |_| Error::NotFound { kind: Kind::Snapshot, name: format!("{volume}/{text}") };
    let name = text.parse().map_err(no_such)?;
    Ok((volume, name))
}
