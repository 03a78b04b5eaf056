//! Replications.

use super::paging::{after, limit};
use crate::convert::{FromBody, ToBody, ToValue};
use crate::core::{Call, Versioned};
use crate::endpoint::{Created, Docs, Endpoint, Force, Json, Needs, NoBody, NoQuery, Patch, Started, Tagged};
use crate::problem::Result;
use api_client::encoded;
use api_client::model::{NewReplication, Operation, Page, PageQuery, Replication, ReplicationPatch};
use axum::http::Method;
use control::{ChangeContext, ChangeResult, Kind, Role, Service, VolumeName};

const TAG: &str = "replications";
const ALL: &str = "/v1/replications";
const ONE: &str = "/v1/replications/{name}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    let docs = |name, text| Docs::new(TAG, name, text);
    let mut all = vec![
        Endpoint::new(
            Method::GET,
            ALL,
            docs("listReplications", "List replications by the name of their destination."),
            look,
            list,
        ),
        Endpoint::new(
            Method::POST,
            ALL,
            docs(
                "createReplication",
                "Let a volume without files follow another one, and start the first transfer. A volume that a peer replicates \
                 follows its destination there, once that is stopped: the problem says what it would lose; force accepts \
                 that. Succeeds without a change if an identical replication exists.",
            ),
            operate,
            create,
        )
        .refuses(&[404, 409, 422]),
        Endpoint::new(Method::GET, ONE, docs("getReplication", "Get the replication to a volume."), look, one),
        Endpoint::new(
            Method::PATCH,
            ONE,
            docs("changeReplication", "Change the schedule of a replication."),
            operate,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            docs(
                "deleteReplication",
                "Delete a replication that is stopped. Both volumes stay and are writable; its points are deleted.",
            ),
            operate,
            delete,
        )
        .conditional()
        .refuses(&[409]),
    ];
    all.extend(actions());
    all
}

fn actions() -> [Endpoint; 4] {
    let operate = || Needs::Role(Role::Operate);
    let docs = |name, text| Docs::new(TAG, name, text);
    [
        Endpoint::new(
            Method::POST,
            "/v1/replications/{name}/sync",
            docs("syncReplication", "Transfer now. If a transfer runs, its operation is the reply."),
            operate(),
            sync,
        )
        .refuses(&[409]),
        Endpoint::new(
            Method::POST,
            "/v1/replications/{name}/break",
            docs(
                "breakReplication",
                "Make the destination writable at its last point. With force, a transfer that runs is dropped. If the reply \
                 has an operation, the destination is writable when that ends; clients wait meanwhile.",
            ),
            operate(),
            break_off,
        )
        .conditional()
        .refuses(&[409]),
        Endpoint::new(
            Method::POST,
            "/v1/replications/{name}/resume",
            docs(
                "resumeReplication",
                "Let the destination follow its source again. The problem says what it would lose; force accepts that.",
            ),
            operate(),
            resume,
        )
        .conditional()
        .refuses(&[409]),
        Endpoint::new(
            Method::POST,
            "/v1/replications/{name}/reverse",
            docs(
                "reverseReplication",
                "Let the source follow the destination, which has to be writable. The problem says what the source would \
                 lose; force accepts that. The replication then has the name of its new destination.",
            ),
            operate(),
            reverse,
        )
        .conditional()
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Replication>>> {
    let page = call.service().replications(after::<VolumeName>(&asked)?, limit(&asked)?)?;
    let items = page.items.into_iter().map(|one| shown(call, one)).collect::<Result<Vec<_>>>()?;
    Ok(Json(Page { items, next_page_token: page.next }))
}

/// A replication with its present state.
fn shown(call: &Call, replication: control::Replication) -> Result<Replication> {
    let status = call.service().replication_status(&replication)?;
    Ok((replication, status).to_body())
}

fn tagged(call: &Call, replication: control::Replication) -> Result<Tagged<Replication>> {
    Ok(Tagged { etag: replication.etag(), value: shown(call, replication)? })
}

fn create(
    call: &Call,
    Force { force }: Force,
    Json(new): Json<NewReplication>,
) -> Result<Created<Replication>> {
    let done = call.service().create_replication(&call.context(force), &FromBody::from_body(new)?)?;
    Ok(Created {
        is_new: done.operation.has_changed(),
        location: format!("{ALL}/{}", encoded(done.value.volume.as_str())),
        etag: done.value.etag(),
        value: shown(call, done.value)?,
    })
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Replication>> {
    tagged(call, call.service().replication(&call.name(Kind::Replication)?)?)
}

fn change(call: &Call, _: NoQuery, Patch(patch): Patch<ReplicationPatch>) -> Result<Tagged<Replication>> {
    let (service, name): (_, VolumeName) = (call.service(), call.name(Kind::Replication)?);
    let look = || service.replication(&name);
    let done = call.change(false, look, |now, context| {
        let schedule = patch.schedule.map_or(now.schedule, |schedule| schedule.map(ToValue::to_value));
        service.update_replication(context, &name, schedule)
    })?;
    tagged(call, done.value)
}

fn sync(call: &Call, _: NoQuery, _: NoBody) -> Result<Started> {
    let name: VolumeName = call.name(Kind::Replication)?;
    Ok(Started(call.service().sync_replication(&call.context(false), &name)?.to_body()))
}

type Act = fn(&Service, &ChangeContext, &VolumeName) -> control::Result<ChangeResult<control::Replication>>;

fn act(call: &Call, force: bool, act: Act) -> Result<Tagged<Replication>> {
    let (service, name): (_, VolumeName) = (call.service(), call.name(Kind::Replication)?);
    let look = || service.replication(&name);
    let done = call.change(force, look, |_, context| act(service, context, &name))?;
    tagged(call, done.value)
}

fn break_off(call: &Call, Force { force }: Force, _: NoBody) -> Result<Tagged<Replication>> {
    act(call, force, Service::break_replication)
}

fn resume(call: &Call, Force { force }: Force, _: NoBody) -> Result<Tagged<Replication>> {
    act(call, force, Service::resume_replication)
}

fn reverse(call: &Call, Force { force }: Force, _: NoBody) -> Result<Tagged<Replication>> {
    act(call, force, Service::reverse_replication)
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, VolumeName) = (call.service(), call.name(Kind::Replication)?);
    let look = || service.replication(&name);
    let operation = call.change(false, look, |_, context| service.delete_replication(context, &name))?;
    Ok(Json(operation.to_body()))
}
