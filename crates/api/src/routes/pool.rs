//! Pools.

use super::paging::{limit, page};
use crate::convert::{FromBody, ToBody, pool_change};
use crate::core::Call;
use crate::endpoint::{Endpoint, Force, Json, Made, Needs, NoBody, Patch, Plain, Tagged};
use crate::problem::Result;
use api_client::model::{NewPool, Operation, Page, PageAsked, Pool, PoolPatch};
use axum::http::Method;
use control::{Kind, PoolName, Role};

const TAG: &str = "pools";
const ALL: &str = "/v1/pools";
const ONE: &str = "/v1/pools/{name}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    vec![
        Endpoint::new((Method::GET, ALL), (TAG, "listPools", "Pools by name."), look, list),
        Endpoint::new(
            (Method::POST, ALL),
            (TAG, "createPool", "Makes a pool. One of that name that is as asked for is left as it is."),
            operate,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new((Method::GET, ONE), (TAG, "getPool", "A pool."), look, one),
        Endpoint::new(
            (Method::PATCH, ONE),
            (TAG, "changePool", "Changes a pool; its volumes get what it then promises at once."),
            operate,
            change,
        )
        .conditional()
        .refuses(&[409, 422]),
        Endpoint::new(
            (Method::DELETE, ONE),
            (TAG, "deletePool", "Removes a pool without volumes."),
            operate,
            delete,
        )
        .conditional()
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageAsked, _: NoBody) -> Result<Json<Page<Pool>>> {
    let pools = call.service().pools(asked.page_token.as_deref(), limit(&asked)?)?;
    Ok(Json(page(&pools)))
}

fn create(call: &Call, _: Plain, Json(new): Json<NewPool>) -> Result<Made<Pool>> {
    let done = call.service().create_pool(&call.terms(false), &FromBody::from_body(new)?)?;
    Ok(Made::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: Plain, _: NoBody) -> Result<Tagged<Pool>> {
    let pool = call.service().pool(&call.name(Kind::Pool)?)?;
    Ok(Tagged::of(&pool))
}

fn change(call: &Call, asked: Force, Patch(patch): Patch<PoolPatch>) -> Result<Tagged<Pool>> {
    let (service, name): (_, PoolName) = (call.service(), call.name(Kind::Pool)?);
    let look = || service.pool(&name);
    let done = call.change(asked.force, look, |pool, terms| {
        service.update_pool(terms, &name, &pool_change(&patch, pool)?)
    })?;
    Ok(Tagged::of(&done.value))
}

fn delete(call: &Call, _: Plain, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, PoolName) = (call.service(), call.name(Kind::Pool)?);
    let look = || service.pool(&name);
    let operation = call.change(false, look, |_, terms| service.delete_pool(terms, &name))?;
    Ok(Json(operation.to_body()))
}
