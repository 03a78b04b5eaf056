//! Replies and refusals.

use crate::endpoint::{Endpoint, Needs, OperationSchemas};
use api_client::JSON;
use axum::http::{Method, StatusCode};
use http_server::PROBLEM;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// All replies of an operation, by status.
pub(super) fn all(endpoint: &Endpoint, described: &OperationSchemas, problem: &Value) -> Value {
    let given = &described.replies;
    let has_page_token = described.query.as_value()["properties"].get("page_token").is_some();
    let mut replies = Map::new();
    for given in given {
        let mut reply = json!({
            "description": given.description,
            "content": { given.media: { "schema": given.schema } },
        });
        given.headers.iter().for_each(|name| reply["headers"][name] = header(name));
        replies.insert(given.status.as_str().to_owned(), reply);
    }
    for status in refusals(endpoint, has_page_token) {
        let mut reply = json!({
            "description": meaning(status),
            "content": { PROBLEM: { "schema": problem } },
        });
        let name = match status {
            StatusCode::UNAUTHORIZED => Some("WWW-Authenticate"),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Some("Retry-After"),
            _ => None,
        };
        name.into_iter().for_each(|name| reply["headers"][name] = header(name));
        replies.insert(status.as_str().to_owned(), reply);
    }
    debug_assert!(given.iter().all(|given| given.media == JSON || endpoint.method == Method::GET));
    Value::Object(replies)
}

fn header(name: &str) -> Value {
    let description = match name {
        "ETag" => "The version of the object, for `If-Match`.",
        "Location" => "The path of the object.",
        "WWW-Authenticate" => "The authentication that the service takes.",
        _ => "Seconds to wait before the next attempt.",
    };
    json!({ "required": true, "description": description, "schema": { "type": "string" } })
}

/// The meaning of a refusal, in a sentence.
fn meaning(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "The request does not match this description.",
        StatusCode::UNAUTHORIZED => "The token is missing, wrong or revoked.",
        StatusCode::FORBIDDEN => "The role of the token is too low.",
        StatusCode::NOT_FOUND => "There is no such object.",
        StatusCode::REQUEST_TIMEOUT => "The body did not arrive in time.",
        StatusCode::CONFLICT => {
            "The present state does not allow it. If `forceable` is true, `force=true` does it anyway."
        }
        StatusCode::PRECONDITION_FAILED => "The object has changed since the version in `If-Match`.",
        StatusCode::PAYLOAD_TOO_LARGE => "The body is too large.",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "The body has another content type.",
        StatusCode::UNPROCESSABLE_ENTITY => {
            "A value is not possible, or the service level does not allow it."
        }
        StatusCode::TOO_MANY_REQUESTS => "Too many requests, changes or wrong tokens at once.",
        StatusCode::SERVICE_UNAVAILABLE => "The service is starting or stopping.",
        StatusCode::INSUFFICIENT_STORAGE => "The disk of the service is full, so it can change nothing.",
        _ => "The service failed; its log says more.",
    }
}

/// The refusals of an operation.
fn refusals(endpoint: &Endpoint, has_page_token: bool) -> Vec<StatusCode> {
    let mut refusals: BTreeSet<u16> = endpoint.refusals.iter().copied().collect();
    refusals.extend([400, 429, 500]);
    if endpoint.method != Method::GET {
        refusals.insert(507);
    }
    match endpoint.needs {
        None => {}
        Some(Needs::Metrics | Needs::Role(control::Role::Read)) => refusals.extend([401]),
        Some(Needs::Role(control::Role::Operate | control::Role::Admin)) => refusals.extend([401, 403]),
    }
    if endpoint.path.contains('{') {
        refusals.insert(404);
    }
    if has_page_token {
        refusals.insert(422);
    }
    if endpoint.is_conditional {
        refusals.insert(412);
    }
    if !endpoint.takes.is_empty() {
        refusals.extend([408, 413, 415]);
    }
    refusals.into_iter().filter_map(|status| StatusCode::from_u16(status).ok()).collect()
}
