//! Users.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody, user_change};
use crate::core::Call;
use crate::endpoint::{Created, Docs, Endpoint, Json, Needs, NoBody, NoQuery, Patch, Tagged};
use crate::problem::Result;
use api_client::model::{NewUser, Operation, Page, PageQuery, User, UserPatch};
use axum::http::Method;
use control::{AccountName, Kind, Role};

const TAG: &str = "users";
const ALL: &str = "/v1/users";
const ONE: &str = "/v1/users/{name}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, admin) = (Needs::Role(Role::Read), Needs::Role(Role::Admin));
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listUsers", "List users by name."), look, list),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createUser",
                "Create a user. Succeeds without a change if an identical user exists.",
            ),
            admin,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new(Method::GET, ONE, Docs::new(TAG, "getUser", "Get a user."), look, one),
        Endpoint::new(
            Method::PATCH,
            ONE,
            Docs::new(TAG, "changeUser", "Change a user: password, primary group, Windows names."),
            admin,
            change,
        )
        .conditional()
        .refuses(&[422]),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deleteUser", "Delete a user and its memberships. Files keep its uid."),
            admin,
            delete,
        )
        .conditional(),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<User>>> {
    let users = call.service().users(after::<AccountName>(&asked)?, limit(&asked)?)?;
    Ok(Json(page(&users)))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewUser>) -> Result<Created<User>> {
    let done = call.service().create_user(&call.context(false), &FromBody::from_body(new)?)?;
    Ok(Created::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<User>> {
    Ok(Tagged::of(&call.service().user(&call.name(Kind::User)?)?))
}

fn change(call: &Call, _: NoQuery, Patch(patch): Patch<UserPatch>) -> Result<Tagged<User>> {
    let (service, name): (_, AccountName) = (call.service(), call.name(Kind::User)?);
    let change = user_change(&patch)?;
    let look = || service.user(&name);
    let done = call.change(false, look, |_, context| service.update_user(context, &name, &change))?;
    Ok(Tagged::of(&done.value))
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, AccountName) = (call.service(), call.name(Kind::User)?);
    let look = || service.user(&name);
    let operation = call.change(false, look, |_, context| service.delete_user(context, &name))?;
    Ok(Json(operation.to_body()))
}
