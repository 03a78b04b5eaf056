//! Parameters in the path, the query and the header.

use crate::endpoint::Endpoint;
use api_client::model::{NAME, NUMBER_MAX};
use serde_json::{Value, json};

/// All parameters of an operation; `query` is the schema of its query.
pub(super) fn all(endpoint: &Endpoint, query: &Value) -> Vec<Value> {
    let mut parameters = in_path(endpoint.path, endpoint.docs.tag);
    parameters.extend(in_query(query));
    parameters.extend(endpoint.is_conditional.then(if_match));
    parameters
}

/// The segments of the path that are in braces.
fn in_path(path: &str, tag: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let (description, schema) = match name {
            "id" => (
                "Number of the operation.".to_owned(),
                json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": NUMBER_MAX }),
            ),
            "provider" => (
                "Provider whose service the level copies.".to_owned(),
                json!({ "$ref": "#/components/schemas/Provider" }),
            ),
            "level" => (
                "Level of that provider.".to_owned(),
                json!({ "type": "string", "pattern": "^[a-z0-9-]+$", "examples": ["premium"] }),
            ),
            "backup" => ("Name of the backup.".to_owned(), name_schema()),
            "snapshot" => ("Name of the snapshot.".to_owned(), name_schema()),
            "target" => (
                "Target of the rule: `user:ID`, `group:ID`, `user:default` or `group:default`. An ID is a number or a security identifier.".to_owned(),
                json!({ "type": "string", "pattern": "^(user|group):([0-9]{1,10}|default)$", "examples": ["user:1001"] }),
            ),
            "user" => ("Name of the user.".to_owned(), name_schema()),
            _ => (format!("Name of the {}.", object(tag)), name_schema()),
        };
        json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
    };
    names.map(parameter).collect()
}

fn name_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": NAME })
}

/// The object that operations of this family name in their path.
fn object(tag: &str) -> &str {
    match tag {
        "rules" | "snapshots" | "quotas" => "volume",
        "backups" => "vault",
        "policies" => "policy",
        plural => plural.strip_suffix('s').unwrap_or(plural),
    }
}

fn in_query(query: &Value) -> Vec<Value> {
    let Some(properties) = query["properties"].as_object() else { return Vec::new() };
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
    };
    properties.iter().map(parameter).collect()
}

fn if_match() -> Value {
    json!({
        "name": "If-Match", "in": "header", "required": false,
        "description": "Apply the change only if the current version is one of these: tags from `ETag`, or `*`.",
        "schema": {
            "type": "string",
            "pattern": "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$",
            "examples": ["\"3-19bd2f8a3c1\""],
        },
    })
}
