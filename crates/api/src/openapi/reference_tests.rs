//! The reference page of the interface, `docs/reference/api.md`.

use super::{TAGS, document};
use crate::page_tests::{check, row, wrapped};
use http_server::limits::{
    BODY_BYTES_MAX, BODY_S_MAX, CHANGE_PATIENCE_S, CHANGES_MAX, CLIENT_CONNECTIONS_MAX, CONNECTIONS_MAX,
    HEAD_BYTES_MAX, HEAD_S_MAX, REQUESTS_MAX,
};
use serde_json::Value;

/// Longer patterns explain nothing to a reader.
const PATTERN_CHARS_MAX: usize = 30;

fn conventions() -> String {
    let values = [
        ("body_bytes_max", BODY_BYTES_MAX.to_string()),
        ("body_s_max", BODY_S_MAX.to_string()),
        ("connections_max", CONNECTIONS_MAX.to_string()),
        ("client_connections_max", CLIENT_CONNECTIONS_MAX.to_string()),
        ("requests_max", REQUESTS_MAX.to_string()),
        ("changes_max", CHANGES_MAX.to_string()),
        ("change_patience_s", CHANGE_PATIENCE_S.to_string()),
        ("head_bytes_max", HEAD_BYTES_MAX.to_string()),
        ("head_s_max", HEAD_S_MAX.to_string()),
    ];
    let text = include_str!("conventions.md").to_owned();
    values.into_iter().fold(text, |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), &value))
}

/// The operations of a family: method, path, and description.
fn operations(tag: &str) -> Vec<(String, String, Value)> {
    let paths = document()["paths"].as_object().unwrap();
    let methods = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation.clone()))
    });
    methods.filter(|(.., operation)| operation["tags"][0] == tag).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn family(tag: &str, about: &str) -> String {
    let mut page = format!("\n## Requests for {tag}\n\n{about}\n\n");
    page.push_str(&row(&["operation", "request", "effect"]));
    page.push_str("|---|---|---|\n");
    let all = operations(tag);
    for (method, path, operation) in &all {
        let name = text(operation, "operationId");
        let link = format!("[{name}](#{})", name.to_ascii_lowercase());
        page.push_str(&row(&[&link, &format!("`{method} {path}`"), text(operation, "summary")]));
    }
    all.iter().for_each(|(method, path, operation)| page.push_str(&detail(method, path, operation)));
    page
}

fn detail(method: &str, path: &str, operation: &Value) -> String {
    let mut page = format!("\n### {}\n\n`{method} {path}`\n\n", text(operation, "operationId"));
    page.push_str(&wrapped(&format!("{}. {}", text(operation, "summary"), text(operation, "description"))));
    let parameters = operation["parameters"].as_array().unwrap();
    if !parameters.is_empty() {
        page.push('\n');
        page.push_str(&row(&["parameter", "in", "type", "meaning"]));
        page.push_str("|---|---|---|---|\n");
    }
    for parameter in parameters {
        let name = format!("`{}`", text(parameter, "name"));
        let kind = kind(&parameter["schema"]);
        page.push_str(&row(&[&name, text(parameter, "in"), &kind, text(parameter, "description")]));
    }
    if let Some((_, body)) = operation["requestBody"]["content"].as_object().and_then(|all| all.iter().next())
    {
        let example = serde_json::to_string_pretty(&body["example"]).unwrap();
        page.push_str(&format!(
            "\nBody: {}, for example\n\n```json\n{example}\n```\n",
            kind(&body["schema"])
        ));
    }
    page.push_str(&replies(&operation["responses"]));
    page
}

fn replies(responses: &Value) -> String {
    let mut page = format!("\n{}|---|---|---|\n", row(&["status", "reply", "meaning"]));
    let mut refusals = Vec::new();
    for (status, reply) in responses.as_object().unwrap() {
        if !status.starts_with('2') {
            refusals.push(status.clone());
            continue;
        }
        let contents = reply["content"].as_object().unwrap();
        let kinds: Vec<String> = contents.values().map(|content| kind(&content["schema"])).collect();
        let headers: Vec<String> =
            reply["headers"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let headers =
            if headers.is_empty() { String::new() } else { format!(" Headers: {}.", headers.join(", ")) };
        page.push_str(&row(&[
            status,
            &kinds.join(", "),
            &(text(reply, "description").to_owned() + &headers),
        ]));
    }
    page + &format!("\nRefusals: {}.\n", refusals.join(", "))
}

fn objects() -> String {
    let mut page = "\n## Objects\n".to_owned();
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        page.push_str(&format!("\n### {name}\n\n{}", wrapped(text(schema, "description"))));
        let Some(properties) = schema["properties"].as_object() else {
            let kind = kind(schema);
            page.push_str(&format!("\n{}", wrapped(&format!("Type: {kind}."))));
            continue;
        };
        page.push('\n');
        page.push_str(&row(&["property", "type", "required", "meaning"]));
        page.push_str("|---|---|---|---|\n");
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (property, of) in properties {
            let is_required = if required.iter().any(|name| name == property) { "yes" } else { "" };
            page.push_str(&row(&[&format!("`{property}`"), &kind(of), is_required, text(of, "description")]));
        }
    }
    page
}

/// The type of a value, in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    let list = |of: &Value, one: &dyn Fn(&Value) -> String| {
        of.as_array().unwrap().iter().map(one).collect::<Vec<_>>().join(" or ")
    };
    if schema["anyOf"].is_array() {
        return list(&schema["anyOf"], &kind);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let is_optional_list = schema["type"].as_array().is_some_and(|types| types.contains(&"array".into()));
    if is_optional_list {
        return format!("array of {} or null", kind(&schema["items"]));
    }
    let name = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        one => one.as_str().unwrap_or("any value").to_owned(),
    };
    match name.as_str() {
        "array" => format!("array of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", kind(&schema["additionalProperties"]))
        }
        _ => name + &bounds(schema),
    }
}

fn bounds(schema: &Value) -> String {
    let most = schema["maximum"].as_u64().filter(|&most| most < api_client::model::NUMBER_MAX);
    let range = match (schema["minimum"].as_u64(), most) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least @ 1..), None) => format!(", {least} or more"),
        (None, Some(most)) => format!(", up to {most}"),
        (Some(0) | None, None) => String::new(),
    };
    let pattern = schema["pattern"].as_str().filter(|pattern| pattern.len() <= PATTERN_CHARS_MAX);
    let pattern = pattern.map_or_else(String::new, |pattern| format!(" matching `{pattern}`"));
    let format = schema["format"].as_str().filter(|format| *format != "int64");
    let format = format.map_or_else(String::new, |format| format!(" ({format})"));
    range + &format + &pattern
}

fn page() -> String {
    let families: String = TAGS.into_iter().map(|(tag, about)| family(tag, about)).collect();
    conventions() + &families + &objects()
}

#[test]
fn api_reference_page_is_up_to_date() {
    let page = page();
    assert!(!page.contains("{{"), "a limit without a value");
    check("api.md", &page);
}
