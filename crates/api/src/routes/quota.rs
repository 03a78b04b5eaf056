//! Quotas of users and groups of a volume.

use crate::convert::{FromBody, ToBody};
use crate::core::Call;
use crate::endpoint::{Docs, Endpoint, Json, Needs, NoBody, NoQuery};
use crate::problem::Result;
use api_client::model::{Operation, QuotaCheck, QuotaLimits, QuotaReport, QuotaRule, Quotas};
use axum::http::Method;
use control::{Kind, Role};

const TAG: &str = "quotas";
const ALL: &str = "/v1/volumes/{name}/quotas";
const ONE: &str = "/v1/volumes/{name}/quotas/{target}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    vec![
        Endpoint::new(
            Method::GET,
            ALL,
            Docs::new(TAG, "listQuotas", "List the quota rules of a volume."),
            look,
            list,
        )
        .refuses(&[422]),
        Endpoint::new(
            Method::PUT,
            ONE,
            Docs::new(
                TAG,
                "setQuota",
                "Set the limits of a user or group, or the default. They bind present files immediately.",
            ),
            operate,
            set,
        )
        .refuses(&[422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deleteQuota", "Delete a quota rule. A default rule then applies, if there is one."),
            operate,
            delete,
        )
        .refuses(&[422]),
        Endpoint::new(
            Method::GET,
            "/v1/volumes/{name}/quota-report",
            Docs::new(
                TAG,
                "getQuotaReport",
                "Get the usage of all users and groups. The first report of a volume begins to count its files.",
            ),
            operate,
            report,
        )
        .refuses(&[422]),
        Endpoint::new(
            Method::GET,
            "/v1/volumes/{name}/quota-check",
            Docs::new(
                TAG,
                "checkQuotas",
                "Count all files again, and get the differences from the running count. Takes as long as listing all files.",
            ),
            operate,
            check,
        )
        .refuses(&[422]),
    ]
}

fn list(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Quotas>> {
    let rules = call.service().quotas(&call.name(Kind::Volume)?)?;
    Ok(Json(Quotas { quotas: rules.iter().map(ToBody::to_body).collect() }))
}

fn set(call: &Call, _: NoQuery, Json(new): Json<QuotaLimits>) -> Result<Json<QuotaRule>> {
    let target = call.service().quota_target(call.part("target"))?;
    let rule = vfs::QuotaRule { target, limits: FromBody::from_body(new)? };
    let done = call.service().set_quota(&call.context(false), &call.name(Kind::Volume)?, &rule)?;
    Ok(Json(done.value.to_body()))
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let target = call.service().quota_target(call.part("target"))?;
    let done = call.service().delete_quota(&call.context(false), &call.name(Kind::Volume)?, target)?;
    Ok(Json(done.to_body()))
}

fn report(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<QuotaReport>> {
    Ok(Json(call.service().quota_report(&call.name(Kind::Volume)?)?.to_body()))
}

fn check(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<QuotaCheck>> {
    Ok(Json(call.service().quota_check(&call.name(Kind::Volume)?)?.to_body()))
}
