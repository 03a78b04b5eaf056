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
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Operation>>> {
    let before = asked.page_token.as_ref().map(|token| id(token).ok_or_else(bad_page_token)).transpose()?;
    let operations = call.service().operations(before, limit(&asked)?)?;
    Ok(Json(page(&operations)))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Json<Operation>> {
    let text = call.part("id");
    let no_such = || Error::NotFound { kind: Kind::Operation, name: text.to_owned() };
    let operation = call.service().operation(id(text).ok_or_else(no_such)?)?;
    Ok(Json(operation.to_body()))
}

/// Parses an id in the range of the store's integers.
fn id(text: &str) -> Option<OperationId> {
    text.parse().ok().filter(|id: &OperationId| id.0 <= i64::MAX.unsigned_abs())
}
