//! Export rules of a volume.

use crate::convert::{ToBody, to_rules};
use crate::core::{Call, Versioned};
use crate::endpoint::{Docs, Endpoint, Json, Needs, NoBody, NoQuery, Tagged};
use crate::problem::Result;
use api_client::model::Rules;
use axum::http::Method;
use control::{Kind, Role, Volume, VolumeChange, VolumeName};

const TAG: &str = "rules";
const ALL: &str = "/v1/volumes/{name}/rules";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(
            Method::GET,
            ALL,
            Docs::new(TAG, "listRules", "List the export rules of a volume."),
            Needs::Role(Role::Read),
            list,
        ),
        Endpoint::new(
            Method::PUT,
            ALL,
            Docs::new(
                TAG,
                "replaceRules",
                "Replace the export rules of a volume, immediately for all its clients.",
            ),
            Needs::Role(Role::Operate),
            replace,
        )
        .conditional()
        .refuses(&[409, 422]),
    ]
}

fn rules(volume: &Volume) -> Tagged<Rules> {
    Tagged { etag: volume.etag(), value: Rules { rules: volume.rules.iter().map(ToBody::to_body).collect() } }
}

fn list(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Rules>> {
    Ok(rules(&call.service().volume(&call.name(Kind::Volume)?)?))
}

fn replace(call: &Call, _: NoQuery, Json(new): Json<Rules>) -> Result<Tagged<Rules>> {
    let (service, name): (_, VolumeName) = (call.service(), call.name(Kind::Volume)?);
    let change = VolumeChange { rules: Some(to_rules(&new.rules)?), ..VolumeChange::default() };
    let look = || service.volume(&name);
    let done = call.change(false, look, |_, context| service.update_volume(context, &name, &change))?;
    Ok(rules(&done.value))
}
