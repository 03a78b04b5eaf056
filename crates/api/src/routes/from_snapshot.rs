//! Uses of snapshots: reverts, clones, restores of files. Each is a long operation.

use super::snapshot::names;
use crate::convert::ToBody;
use crate::core::Call;
use crate::endpoint::{Docs, Endpoint, Force, Json, Needs, NoBody, NoQuery, Started};
use crate::problem::Result;
use api_client::model::{NewClone, Restore};
use axum::http::Method;
use control::Role;

const TAG: &str = "snapshots";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let operate = Needs::Role(Role::Operate);
    vec![
        Endpoint::new(
            Method::POST,
            "/v1/volumes/{name}/snapshots/{snapshot}/revert",
            Docs::new(
                TAG,
                "revertVolume",
                "Replace the files of a volume with those of a snapshot, and delete all newer snapshots. Clients wait, and \
                 lose their open files and locks.",
            ),
            operate,
            revert,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::POST,
            "/v1/volumes/{name}/snapshots/{snapshot}/clone",
            Docs::new(
                TAG,
                "cloneVolume",
                "Make a volume with the files of a snapshot. It has the other properties of the snapshot's volume, but no \
                 policy. Succeeds without a change if the same clone exists.",
            ),
            operate,
            clone,
        )
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::POST,
            "/v1/volumes/{name}/snapshots/{snapshot}/restore",
            Docs::new(
                TAG,
                "restoreFiles",
                "Restore files of a snapshot in its volume, with data, streams, permissions and times. Each file replaces \
                 its target in one step.",
            ),
            operate,
            restore,
        )
        .refuses(&[409, 422]),
    ]
}

fn revert(call: &Call, asked: Force, _: NoBody) -> Result<Started> {
    let (service, (volume, name)) = (call.service(), names(call)?);
    let look = || service.snapshot(&volume, &name);
    let begun =
        call.change(asked.force, look, |_, context| service.revert_volume(context, &volume, &name))?;
    Ok(Started(begun.to_body()))
}

fn clone(call: &Call, asked: Force, Json(new): Json<NewClone>) -> Result<Started> {
    let (source, snapshot) = names(call)?;
    let NewClone { name, pool, size_bytes, share, labels } = new;
    let new = control::NewClone {
        source,
        snapshot,
        name: name.parse()?,
        pool: pool.map(|pool| pool.parse()).transpose()?,
        size: size_bytes.map(envelope::Bytes),
        share: share.map(|share| share.parse()).transpose()?,
        labels,
    };
    let begun = call.service().clone_volume(&call.context(asked.force), &new)?;
    Ok(Started(begun.operation.to_body()))
}

fn restore(call: &Call, _: NoQuery, Json(asked): Json<Restore>) -> Result<Started> {
    let (volume, name) = names(call)?;
    let context = call.context(false);
    let begun = call.service().restore_files(&context, &volume, &name, &asked.paths, asked.to.as_deref())?;
    Ok(Started(begun.to_body()))
}
