//! Limits `null` in the description to requests: there it equals leaving a property out. Replies never contain it.
//!
//! A type has one declaration for both. Where that admits `null`, the schema of replies is without it, and requests have one of their
//! own, named `…Input`.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

const SCHEMAS: &str = "#/components/schemas/";

/// Takes `null` out of all that replies have.
pub(super) fn keep_to_requests(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let mut in_requests = BTreeSet::new();
    let mut in_replies = BTreeSet::new();
    let operations = document["paths"].as_object().into_iter().flat_map(Map::values);
    for operation in operations.filter_map(Value::as_object).flat_map(Map::values) {
        collect_references(&operation["requestBody"], &schemas, &mut in_requests);
        collect_references(&operation["responses"], &schemas, &mut in_replies);
    }
    let in_both: BTreeSet<String> = in_requests
        .intersection(&in_replies)
        .filter(|name| admits_null(&schemas[*name], &schemas))
        .cloned()
        .collect();
    let operations = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in operations.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        operation.get_mut("requestBody").into_iter().for_each(|body| rename(body, &in_both));
    }
    let mut made = Map::new();
    for (name, mut schema) in schemas {
        if in_both.contains(&name) || !in_replies.contains(&name) {
            let mut schema = schema.clone();
            rename(&mut schema, &in_both);
            made.insert(request_name(&name, &in_both), schema);
        }
        if in_replies.contains(&name) {
            strip(&mut schema);
            made.insert(name, schema);
        }
    }
    document["components"]["schemas"] = Value::Object(made);
}

fn request_name(name: &str, in_both: &BTreeSet<String>) -> String {
    if in_both.contains(name) { format!("{name}Input") } else { name.to_owned() }
}

/// The names of the schemas that a part of the description refers to, and those they refer to.
fn collect_references(part: &Value, schemas: &Map<String, Value>, found: &mut BTreeSet<String>) {
    if let Some(name) = reference(part)
        && found.insert(name.to_owned())
    {
        collect_references(&schemas[name], schemas, found);
    }
    parts(part).for_each(|part| collect_references(part, schemas, found));
}

fn admits_null(part: &Value, schemas: &Map<String, Value>) -> bool {
    let is_null = |part: &Value| {
        part["type"] == "null" || part["type"].as_array().is_some_and(|all| all.contains(&"null".into()))
    };
    is_null(part)
        || reference(part).is_some_and(|name| admits_null(&schemas[name], schemas))
        || parts(part).any(|part| admits_null(part, schemas))
}

fn reference(part: &Value) -> Option<&str> {
    part["$ref"].as_str()?.strip_prefix(SCHEMAS)
}

fn parts(of: &Value) -> impl Iterator<Item = &Value> {
    let members = of.as_object().into_iter().flat_map(Map::values);
    members.chain(of.as_array().into_iter().flatten())
}

fn parts_mut(of: &mut Value) -> Vec<&mut Value> {
    match of {
        Value::Object(map) => map.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Refers to the schemas of requests.
fn rename(part: &mut Value, in_both: &BTreeSet<String>) {
    if let Some(name) = reference(part).map(|name| request_name(name, in_both)) {
        part["$ref"] = format!("{SCHEMAS}{name}").into();
    }
    parts_mut(part).into_iter().for_each(|part| rename(part, in_both));
}

fn strip(part: &mut Value) {
    parts_mut(part).into_iter().for_each(strip);
    let Value::Object(schema) = part else { return };
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            schema.remove("anyOf");
            schema.extend(only);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replies_have_no_null_and_requests_keep_theirs() {
        let schema = |name: &str| json!({ "$ref": format!("{SCHEMAS}{name}") });
        let mut document = json!({
            "paths": { "/pools": { "post": {
                "requestBody": { "schema": schema("New") },
                "responses": { "201": { "schema": schema("Pool") } },
            } } },
            "components": { "schemas": {
                "New": { "properties": { "settings": schema("Settings"), "level": { "type": ["string", "null"] } } },
                "Pool": { "properties": { "settings": schema("Settings"), "ended": { "type": ["string", "null"] } } },
                "Settings": { "properties": {
                    "rates": { "anyOf": [schema("Rates"), { "type": "null" }], "description": "They hold." },
                } },
                "Rates": { "properties": { "all": { "type": "integer" } } },
            } },
        });
        keep_to_requests(&mut document);
        let schemas = &document["components"]["schemas"];
        assert_eq!(document["paths"]["/pools"]["post"]["requestBody"]["schema"], schema("New"));
        assert_eq!(schemas["New"]["properties"]["settings"], schema("SettingsInput"));
        assert_eq!(schemas["New"]["properties"]["level"]["type"], json!(["string", "null"]));
        assert_eq!(schemas["SettingsInput"]["properties"]["rates"]["anyOf"][0], schema("Rates"));
        assert_eq!(
            schemas["Pool"]["properties"],
            json!({ "settings": schema("Settings"), "ended": { "type": "string" } })
        );
        let rates = json!({ "$ref": format!("{SCHEMAS}Rates"), "description": "They hold." });
        assert_eq!(schemas["Settings"]["properties"]["rates"], rates);
        let names: Vec<&String> = schemas.as_object().unwrap().keys().collect();
        assert_eq!(
            names,
            ["New", "Pool", "Rates", "Settings", "SettingsInput"],
            "a type without null has one schema"
        );
    }
}
