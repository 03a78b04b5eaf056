//! The description of the interface (OpenAPI 3.1), made of the same declarations that serve it.

mod nulls;

use crate::endpoint::{Endpoint, Needs, OperationSchemas};
use crate::routes;
use api_client::JSON;
use api_client::model::{NAME, NUMBER_MAX, Problem};
use axum::http::{Method, StatusCode};
use http_server::PROBLEM;
use http_server::limits::BODY_BYTES_MAX;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

const ABOUT: &str = "Pools, volumes and export rules of a Plimsoll service. Sizes are whole bytes, rates whole bytes \
    or operations for each second. Times are UTC. Replies omit absent values and never contain \
    `null`. Errors are problems (RFC 9457) that name the fault and the allowed values. To make a \
    change depend on a version, send `If-Match` with the `ETag` of an earlier reply. Creating an \
    identical resource again succeeds and changes nothing. All operations need a token, except those \
    for the state of the process.";

/// The description.
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(make)
}

fn make() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>().to_value();
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in routes::all() {
        let operation = operation(&endpoint, &mut generator, &problem);
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_ascii_lowercase()] = operation;
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Plimsoll",
            "version": "1",
            "description": ABOUT,
            "license": { "name": "Apache 2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    bound_numbers(&mut document);
    nulls::keep_to_requests(&mut document);
    document
}

fn operation(endpoint: &Endpoint, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let described = (endpoint.describe)(generator);
    let mut parameters = path_parameters(endpoint.path);
    parameters.extend(query_parameters(described.query.as_value()));
    if endpoint.is_conditional {
        parameters.push(json!({
            "name": "If-Match", "in": "header", "required": false,
            "description": "Apply the change only if the current version is one of these: tags from `ETag`, or `*`.",
            "schema": {
                "type": "string",
                "pattern": "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$",
                "examples": ["\"3-19bd2f8a3c1\""],
            },
        }));
    }
    let mut operation = json!({
        "operationId": endpoint.docs.name,
        "summary": endpoint.docs.summary,
        "tags": [endpoint.docs.tag],
        "security": match endpoint.needs {
            None => json!([]),
            Some(Needs::Role(_) | Needs::Metrics) => json!([{ "token": [] }]),
        },
        "parameters": parameters,
        "responses": replies(endpoint, &described, problem),
    });
    if let Some(Needs::Role(role)) = endpoint.needs {
        operation["description"] = json!(format!("Requires a token with the role {role} or a higher one."));
    }
    if let Some(schema) = described.body {
        let content: Map<String, Value> =
            endpoint.takes.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect();
        operation["requestBody"] = json!({
            "required": true,
            "description": format!("At most {BODY_BYTES_MAX} bytes."),
            "content": content,
        });
    }
    operation
}

/// The parts of the path that are in braces.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let schema = match name {
            "id" => json!({ "type": "integer", "minimum": 1, "maximum": NUMBER_MAX }),
            "provider" => json!({ "type": "string", "enum": ["anf", "filestore", "gcnv", "plimsoll"] }),
            "level" => json!({ "type": "string", "pattern": "^[a-z0-9-]+$", "examples": ["premium"] }),
            _ => json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": NAME }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    };
    names.map(parameter).collect()
}

fn query_parameters(query: &Value) -> Vec<Value> {
    let Some(properties) = query["properties"].as_object() else { return Vec::new() };
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
    };
    properties.iter().map(parameter).collect()
}

fn replies(endpoint: &Endpoint, described: &OperationSchemas, problem: &Value) -> Value {
    let given = &described.replies;
    let has_page_token = described.query.as_value()["properties"].get("page_token").is_some();
    let mut replies = Map::new();
    for given in given {
        let mut reply = json!({
            "description": given.description,
            "content": { given.media: { "schema": given.schema } },
        });
        for header in given.headers {
            reply["headers"][header] = json!({ "required": true, "schema": { "type": "string" } });
        }
        replies.insert(given.status.as_str().to_owned(), reply);
    }
    for status in refusals(endpoint, has_page_token) {
        let mut reply = json!({
            "description": status.canonical_reason().unwrap_or_default(),
            "content": { PROBLEM: { "schema": problem } },
        });
        let header = match status {
            StatusCode::UNAUTHORIZED => Some("WWW-Authenticate"),
            StatusCode::TOO_MANY_REQUESTS => Some("Retry-After"),
            _ => None,
        };
        if let Some(header) = header {
            reply["headers"][header] = json!({ "required": true, "schema": { "type": "string" } });
        }
        replies.insert(status.as_str().to_owned(), reply);
    }
    debug_assert!(given.iter().all(|given| given.media == JSON || endpoint.method == Method::GET));
    Value::Object(replies)
}

/// The ways in which an operation may fail.
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

/// Says of every number how great it may be.
fn bound_numbers(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let bounds = match map.get("format").and_then(Value::as_str) {
                Some("uint64") => Some((NUMBER_MAX, "int64")),
                Some("uint32" | "uint16") => Some((u64::from(u32::MAX), "int64")),
                _ => None,
            };
            if let Some((most, format)) = bounds {
                map.entry("maximum").or_insert(json!(most));
                map.insert("format".to_owned(), json!(format));
            }
            map.values_mut().for_each(bound_numbers);
        }
        Value::Array(items) => items.iter_mut().for_each(bound_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
