//! The description of the interface (OpenAPI 3.1), made of the same declarations that serve it.

mod examples;
mod nulls;
mod parameters;
#[cfg(test)]
mod reference_tests;
mod replies;
mod schemas;

use crate::endpoint::{Endpoint, Needs, OperationSchemas};
use crate::routes;
use api_client::model::Problem;
use control::Role;
use http_server::limits::BODY_BYTES_MAX;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

const ABOUT: &str = "Pools, volumes, export rules and users of a Plimsoll service. Sizes are whole bytes, rates whole bytes \
    or operations per second. Times are UTC. Replies omit absent values and never contain `null`. Errors are problems \
    (RFC 9457) that name the fault and the allowed values. To make a change depend on a version, send `If-Match` with \
    the `ETag` of an earlier reply. Creating an identical resource again succeeds and changes nothing. All operations \
    need a token, except those for the state of the process.";

/// The families of operations.
const TAGS: [(&str, &str); 16] = [
    ("pools", "Capacity at a service level, shared by volumes."),
    ("volumes", "Directories that clients mount."),
    ("snapshots", "Read-only states of a volume."),
    ("policies", "Schedules of snapshots or of backups, for any number of volumes."),
    ("vaults", "Places of backups, in a directory or in a bucket of an S3-compatible store."),
    ("backups", "States of volumes in a vault, and their restores."),
    ("replications", "Volumes that follow other volumes, point after point, and the services of these."),
    ("rules", "Access of clients to a volume."),
    ("quotas", "Limits of users and groups on a volume."),
    ("users", "Users that log in with a password, over SMB."),
    ("groups", "Groups of users."),
    ("levels", "The catalog of service levels, and the limits that each gives."),
    ("operations", "The record of changes."),
    ("clients", "Connected machines."),
    ("tokens", "Tokens of this interface."),
    ("process", "The state of the service, its version, metrics and warnings."),
];

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
    let tags = TAGS.map(|(name, description)| json!({ "name": name, "description": description }));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Plimsoll",
            "version": "1",
            "description": ABOUT,
            "license": { "name": "Apache 2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The service that this document comes from." }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer", "description": "A token of the service: `plimsoll_…`.",
            } },
        },
    });
    schemas::bound_numbers(&mut document);
    schemas::fold_words(&mut document);
    schemas::describe_defaults(&mut document);
    schemas::join_lines(&mut document);
    nulls::keep_to_requests(&mut document);
    document
}

fn operation(endpoint: &Endpoint, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let described = (endpoint.describe)(generator);
    let (summary, more) = endpoint.docs.summary.split_once(". ").unwrap_or((endpoint.docs.summary, ""));
    let description = format!("{more} {}", needed(endpoint.needs));
    let mut operation = json!({
        "operationId": endpoint.docs.name,
        "summary": summary.trim_end_matches('.'),
        "description": description.trim(),
        "tags": [endpoint.docs.tag],
        "security": match endpoint.needs {
            None => json!([]),
            Some(Needs::Role(_) | Needs::Metrics) => json!([{ "token": [] }]),
        },
        "parameters": parameters::all(endpoint, described.query.as_value()),
        "responses": replies::all(endpoint, &described, problem),
    });
    if let Some(body) = body(endpoint, &described) {
        operation["requestBody"] = body;
    }
    operation
}

/// The token that an operation needs, in a sentence.
fn needed(needs: Option<Needs>) -> String {
    match needs {
        None => "Needs no token.".to_owned(),
        Some(Needs::Metrics) => {
            "Needs a token of any role, unless the configuration opens metrics.".to_owned()
        }
        Some(Needs::Role(Role::Admin)) => format!("Needs a token with the role {}.", Role::Admin),
        Some(Needs::Role(role)) => format!("Needs a token with the role {role} or a higher one."),
    }
}

fn body(endpoint: &Endpoint, described: &OperationSchemas) -> Option<Value> {
    let schema = described.body.as_ref()?;
    let mut media_type = json!({ "schema": schema });
    if let Some(example) = examples::request(endpoint.docs.name) {
        media_type["example"] = example;
    }
    let content: Map<String, Value> =
        endpoint.takes.iter().map(|media| ((*media).to_owned(), media_type.clone())).collect();
    Some(json!({
        "required": true,
        "description": format!("At most {BODY_BYTES_MAX} bytes."),
        "content": content,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations() -> Vec<(String, Value)> {
        let paths = document()["paths"].as_object().unwrap();
        let named = |path: &String, item: &Value| {
            let methods = item.as_object().unwrap().clone();
            let path = path.clone();
            methods.into_iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
        };
        paths.iter().flat_map(|(path, item)| named(path, item)).collect()
    }

    #[test]
    fn operations_and_parameters_have_descriptions() {
        let is_text = |of: &Value| of["description"].as_str().is_some_and(|text| text.ends_with('.'));
        for (name, operation) in operations() {
            assert!(is_text(&operation), "{name}: {operation}");
            let tag = operation["tags"][0].as_str().unwrap();
            assert!(TAGS.iter().any(|(known, _)| *known == tag), "{name}: {tag}");
            for parameter in operation["parameters"].as_array().unwrap() {
                assert!(is_text(parameter), "{name}: {parameter}");
            }
            for (status, reply) in operation["responses"].as_object().unwrap() {
                assert!(is_text(reply), "{name} {status}: {reply}");
            }
        }
    }

    #[test]
    fn properties_and_schemas_have_descriptions() {
        for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{name}");
            for (property, of) in schema["properties"].as_object().into_iter().flatten() {
                assert!(of["description"].is_string(), "{name}.{property}");
            }
        }
    }

    #[test]
    fn bodies_have_examples() {
        for (name, operation) in operations() {
            for (media, of) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
                assert!(of["example"].is_object(), "{name} {media}");
            }
        }
    }

    /// Generators refuse a schema that is `true` or `false`. `additionalProperties` may be, since OpenAPI 3.0.
    #[test]
    fn no_schema_is_a_boolean() {
        fn check(place: &str, value: &Value) {
            match value {
                Value::Object(members) => {
                    for (name, member) in members {
                        let is_schema = ["schema", "items", "propertyNames", "not"].contains(&name.as_str())
                            || ["/properties", "/schemas"].iter().any(|list| place.ends_with(list));
                        assert!(!(is_schema && member.is_boolean()), "{place}/{name}");
                        check(&format!("{place}/{name}"), member);
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| check(place, item)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        check("", document());
    }

    /// openapi-typescript makes a property with a default required.
    #[test]
    fn no_property_has_a_default() {
        for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
            for (property, of) in schema["properties"].as_object().into_iter().flatten() {
                assert!(of.get("default").is_none(), "{name}.{property}");
            }
        }
        let access =
            document()["components"]["schemas"]["Rule"]["properties"]["access"]["description"].clone();
        assert_eq!(access, "The access of these clients. `read-write` if left out.");
    }

    /// Go and Python declare these names for themselves.
    #[test]
    fn schema_names_are_free_in_generated_clients() {
        let schemas = document()["components"]["schemas"].as_object().unwrap();
        for taken in ["Client", "Error", "Response", "Request", "Unset", "HttpRequestDoer", "RequestEditorFn"]
        {
            assert!(!schemas.contains_key(taken), "{taken}");
        }
    }
}
