//! Groups of users.

use super::paging::{limit, page};
use crate::convert::{FromBody, ToBody};
use crate::core::Call;
use crate::endpoint::{Endpoint, Json, Made, Needs, NoBody, Plain, Tagged};
use crate::problem::Result;
use api_client::model::{Group, NewGroup, Operation, Page, PageAsked};
use axum::http::Method;
use control::{AccountName, Done, Error, Kind, Role, Service, Terms};

const TAG: &str = "groups";
const ALL: &str = "/v1/groups";
const ONE: &str = "/v1/groups/{name}";
const MEMBER: &str = "/v1/groups/{name}/members/{user}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, admin) = (Needs::Role(Role::Read), Needs::Role(Role::Admin));
    vec![
        Endpoint::new((Method::GET, ALL), (TAG, "listGroups", "Groups by name."), look, list),
        Endpoint::new(
            (Method::POST, ALL),
            (TAG, "createGroup", "Makes a group. One of that name that is as asked for is left as it is."),
            admin,
            create,
        )
        .refuses(&[404, 409, 422]),
        Endpoint::new((Method::GET, ONE), (TAG, "getGroup", "A group."), look, one),
        Endpoint::new(
            (Method::DELETE, ONE),
            (TAG, "deleteGroup", "Removes a group. Its members stay, and files keep its number."),
            admin,
            delete,
        )
        .conditional(),
        Endpoint::new(
            (Method::PUT, MEMBER),
            (TAG, "addMember", "Puts a user into a group. One that is in it already is left there."),
            admin,
            |call: &Call, _: Plain, _: NoBody| change(call, Service::add_member),
        )
        .conditional()
        .refuses(&[422]),
        Endpoint::new(
            (Method::DELETE, MEMBER),
            (TAG, "removeMember", "Takes a user out of a group, if it is in it."),
            admin,
            |call: &Call, _: Plain, _: NoBody| change(call, Service::remove_member),
        )
        .conditional(),
    ]
}

fn list(call: &Call, asked: PageAsked, _: NoBody) -> Result<Json<Page<Group>>> {
    let groups = call.service().groups(asked.page_token.as_deref(), limit(&asked)?)?;
    Ok(Json(page(&groups)))
}

fn create(call: &Call, _: Plain, Json(new): Json<NewGroup>) -> Result<Made<Group>> {
    let done = call.service().create_group(&call.terms(false), &FromBody::from_body(new)?)?;
    Ok(Made::of(&done, ALL, done.value.name.as_str()))
}

fn one(call: &Call, _: Plain, _: NoBody) -> Result<Tagged<Group>> {
    Ok(Tagged::of(&call.service().group(&call.name(Kind::Group)?)?))
}

fn delete(call: &Call, _: Plain, _: NoBody) -> Result<Json<Operation>> {
    let (service, name): (_, AccountName) = (call.service(), call.name(Kind::Group)?);
    let look = || service.group(&name);
    let operation = call.change(false, look, |_, terms| service.delete_group(terms, &name))?;
    Ok(Json(operation.to_body()))
}

/// A change of a group and one user.
type Step = fn(&Service, &Terms, &AccountName, &AccountName) -> control::Result<Done<control::Group>>;

fn change(call: &Call, step: Step) -> Result<Tagged<Group>> {
    let (service, name): (_, AccountName) = (call.service(), call.name(Kind::Group)?);
    let user = call.part("user");
    let user = user.parse().map_err(|_| Error::NotFound { kind: Kind::User, name: user.to_owned() })?;
    let look = || service.group(&name);
    let done = call.change(false, look, |_, terms| step(service, terms, &name, &user))?;
    Ok(Tagged::of(&done.value))
}
