//! Pools.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody, pool_change};
use crate::core::Call;
use crate::endpoint::{Created, Docs, Endpoint, Force, Json, Needs, NoBody, NoQuery, Patch, Tagged};
use crate::problem::Result;
use api_client::model::{NewPool, Operation, Page, PageQuery, Pool, PoolPatch};
use axum::http::Method;
use control::{Kind, PoolName, Role};

const TAG: &str = "pools";
const ALL: &str = "/v1/pools";
const ONE: &str = "/v1/pools/{name}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listPools", "List pools by name."), look, list),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createPool",
                "Create a pool. Succeeds without a change if an identical pool exists.",
            ),
            operate,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new(Method::GET, ONE, Docs::new(TAG, "getPool", "Get a pool."), look, one),
        Endpoint::new(
            Method::PATCH,
            ONE,
            Docs::new(TAG, "changePool", "Change a pool. Its volumes get its new limits immediately."),
            operate,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deletePool", "Delete a pool without volumes."),
            operate,
            delete,
        )
        .conditional()
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Pool>>> {
    let pools = call.service().pools(after::<PoolName>(&asked)?, limit(&asked)?)?;
    Ok(Json(page(&pools)))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewPool>) -> Result<Created<Pool>> {
    let done = call.service().create_pool(&call.context(false), &FromBody::from_body(new)?)?;
    Ok(Created::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Pool>> {
    let pool = call.service().pool(&call.name(Kind::Pool)?)?;
    Ok(Tagged::of(&pool))
}

fn change(call: &Call, asked: Force, Patch(patch): Patch<PoolPatch>) -> Result<Tagged<Pool>> {
    let (service, name): (_, PoolName) = (call.service(), call.name(Kind::Pool)?);
    let look = || service.pool(&name);
    let done = call.change(asked.force, look, |pool, context| {
        service.update_pool(context, &name, &pool_change(&patch, pool)?)
    })?;
    Ok(Tagged::of(&done.value))
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, PoolName) = (call.service(), call.name(Kind::Pool)?);
    let look = || service.pool(&name);
    let operation = call.change(false, look, |_, context| service.delete_pool(context, &name))?;
    Ok(Json(operation.to_body()))
}
