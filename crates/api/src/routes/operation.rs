//! The record of changes.

use super::paging::{bad_page_token, limit, page};
use crate::convert::ToBody;
use crate::core::Call;
use crate::endpoint::{Docs, Endpoint, Json, Needs, NoBody, NoQuery};
use crate::problem::Result;
use api_client::model::{Operation, Page, PageQuery};
use axum::http::Method;
use control::{Error, Kind, OperationId, Role};

const TAG: &str = "operations";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let look = Needs::Role(Role::Read);
    vec![
        Endpoint::new(
            Method::GET,
            "/v1/operations",
            Docs::new(TAG, "listOperations", "List changes, the newest first."),
            look,
            list,
        ),
        Endpoint::new(
            Method::GET,
            "/v1/operations/{id}",
            Docs::new(TAG, "getOperation", "Get a change."),
            look,
            one,
        ),
        Endpoint::new(
            Method::POST,
            "/v1/operations/{id}/cancel",
            Docs::new(
                TAG,
                "cancelOperation",
                "End a long operation at its next step. A deletion that has begun stays unfinished: delete again to go on.",
            ),
            Needs::Role(Role::Operate),
            cancel,
        )
        .refuses(&[409]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Operation>>> {
    let before = asked.page_token.as_ref().map(|token| id(token).ok_or_else(bad_page_token)).transpose()?;
    let operations = call.service().operations(before, limit(&asked)?)?;
    Ok(Json(page(&operations)))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    Ok(Json(call.service().operation(id_in_path(call)?)?.to_body()))
}

fn cancel(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    Ok(Json(call.service().cancel_operation(id_in_path(call)?)?.to_body()))
}

fn id_in_path(call: &Call) -> Result<OperationId> {
    let text = call.part("id");
    let no_such = || Error::NotFound { kind: Kind::Operation, name: text.to_owned() };
    Ok(id(text).ok_or_else(no_such)?)
}

/// Parses an id in the range of the store's integers.
fn id(text: &str) -> Option<OperationId> {
    text.parse().ok().filter(|id: &OperationId| id.0 <= i64::MAX.unsigned_abs())
}
