//! Policies of snapshots.

use super::paging::{after, limit};
use crate::convert::{FromBody, ToBody};
use crate::core::{Call, Versioned};
use crate::endpoint::{Created, Docs, Endpoint, Json, Needs, NoBody, NoQuery, Patch, Tagged};
use crate::problem::Result;
use api_client::encoded;
use api_client::model::{NewPolicy, Operation, Page, PageQuery, Policy, PolicyPatch};
use axum::http::Method;
use control::{Kind, PolicyChange, PolicyName, Role};

const TAG: &str = "policies";
const ALL: &str = "/v1/policies";
const ONE: &str = "/v1/policies/{name}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listPolicies", "List policies by name."), look, list),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createPolicy",
                "Create a policy. Succeeds without a change if an identical policy exists.",
            ),
            operate,
            create,
        )
        .refuses(&[404, 409, 422]),
        Endpoint::new(Method::GET, ONE, Docs::new(TAG, "getPolicy", "Get a policy."), look, one),
        Endpoint::new(
            Method::PATCH,
            ONE,
            Docs::new(TAG, "changePolicy", "Change a policy. Its schedules hold from now on."),
            operate,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deletePolicy", "Delete a policy that no volume has. Its snapshots stay."),
            operate,
            delete,
        )
        .conditional()
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Policy>>> {
    let policies = call.service().policies(after::<PolicyName>(&asked)?, limit(&asked)?)?;
    let items = policies.items.into_iter().map(|policy| shown(call, policy)).collect::<Result<Vec<_>>>()?;
    Ok(Json(Page { items, next_page_token: policies.next }))
}

/// A policy with its volumes.
fn shown(call: &Call, policy: control::Policy) -> Result<Policy> {
    let volumes = call.service().policy_volumes(&policy)?;
    Ok((policy, volumes).to_body())
}

fn tagged(call: &Call, policy: control::Policy) -> Result<Tagged<Policy>> {
    Ok(Tagged { etag: policy.etag(), value: shown(call, policy)? })
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewPolicy>) -> Result<Created<Policy>> {
    let done = call.service().create_policy(&call.context(false), &FromBody::from_body(new)?)?;
    Ok(Created {
        is_new: done.operation.has_changed(),
        location: format!("{ALL}/{}", encoded(done.value.name.as_str())),
        etag: done.value.etag(),
        value: shown(call, done.value)?,
    })
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Policy>> {
    tagged(call, call.service().policy(&call.name(Kind::Policy)?)?)
}

fn change(call: &Call, _: NoQuery, Patch(patch): Patch<PolicyPatch>) -> Result<Tagged<Policy>> {
    let (service, name): (_, PolicyName) = (call.service(), call.name(Kind::Policy)?);
    let change = PolicyChange::from_body(patch)?;
    let look = || service.policy(&name);
    let done = call.change(false, look, |_, context| service.update_policy(context, &name, &change))?;
    tagged(call, done.value)
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, PolicyName) = (call.service(), call.name(Kind::Policy)?);
    let look = || service.policy(&name);
    let operation = call.change(false, look, |_, context| service.delete_policy(context, &name))?;
    Ok(Json(operation.to_body()))
}
