//! Groups of users.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody};
use crate::core::Call;
use crate::endpoint::{Created, Docs, Endpoint, Json, Needs, NoBody, NoQuery, Tagged};
use crate::problem::Result;
use api_client::model::{Group, NewGroup, Operation, Page, PageQuery};
use axum::http::Method;
use control::{AccountName, ChangeContext, ChangeResult, Error, Kind, Role, Service};

const TAG: &str = "groups";
const ALL: &str = "/v1/groups";
const ONE: &str = "/v1/groups/{name}";
const MEMBER: &str = "/v1/groups/{name}/members/{user}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, admin) = (Needs::Role(Role::Read), Needs::Role(Role::Admin));
    vec![
        Endpoint::new(Method::GET, ALL, Docs::new(TAG, "listGroups", "List groups by name."), look, list),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createGroup",
                "Create a group. Succeeds without a change if an identical group exists.",
            ),
            admin,
            create,
        )
        .refuses(&[404, 409, 422]),
        Endpoint::new(Method::GET, ONE, Docs::new(TAG, "getGroup", "Get a group."), look, one),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deleteGroup", "Delete a group. Its members remain; files keep its gid."),
            admin,
            delete,
        )
        .conditional(),
        Endpoint::new(
            Method::PUT,
            MEMBER,
            Docs::new(
                TAG,
                "addMember",
                "Add a user to a group. Succeeds without a change if the user is already a member.",
            ),
            admin,
            |call: &Call, _: NoQuery, _: NoBody| change(call, Service::add_member),
        )
        .conditional()
        .refuses(&[422]),
        Endpoint::new(
            Method::DELETE,
            MEMBER,
            Docs::new(
                TAG,
                "removeMember",
                "Remove a user from a group. Succeeds without a change if the user is not a member.",
            ),
            admin,
            |call: &Call, _: NoQuery, _: NoBody| change(call, Service::remove_member),
        )
        .conditional(),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Group>>> {
    let groups = call.service().groups(after::<AccountName>(&asked)?, limit(&asked)?)?;
    Ok(Json(page(&groups)))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewGroup>) -> Result<Created<Group>> {
    let done = call.service().create_group(&call.context(false), &FromBody::from_body(new)?)?;
    Ok(Created::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Group>> {
    Ok(Tagged::of(&call.service().group(&call.name(Kind::Group)?)?))
}

fn delete(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, AccountName) = (call.service(), call.name(Kind::Group)?);
    let look = || service.group(&name);
    let operation = call.change(false, look, |_, context| service.delete_group(context, &name))?;
    Ok(Json(operation.to_body()))
}

/// A change of a group and one user.
type Step =
    fn(&Service, &ChangeContext, &AccountName, &AccountName) -> control::Result<ChangeResult<control::Group>>;

fn change(call: &Call, step: Step) -> Result<Tagged<Group>> {
    let (service, name): (_, AccountName) = (call.service(), call.name(Kind::Group)?);
    let user = call.part("user");
    let user = user.parse().map_err(|_| Error::NotFound { kind: Kind::User, name: user.to_owned() })?;
    let look = || service.group(&name);
    let done = call.change(false, look, |_, context| step(service, context, &name, &user))?;
    Ok(Tagged::of(&done.value))
}
