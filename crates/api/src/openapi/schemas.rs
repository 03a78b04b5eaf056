//! Changes of generated schemas that generators of clients need.

use api_client::model::NUMBER_MAX;
use serde_json::{Map, Value, json};

/// Bounds all numbers, also those without a range of their own.
pub(super) fn bound_numbers(value: &mut Value) {
    each_object(value, &|map| {
        let bounds = match map.get("format").and_then(Value::as_str) {
            Some("uint64") => Some((NUMBER_MAX, "int64")),
            Some("uint32" | "uint16") => Some((u64::from(u32::MAX), "int64")),
            _ => None,
        };
        if let Some((most, format)) = bounds {
            map.entry("maximum").or_insert(json!(most));
            map.insert("format".to_owned(), json!(format));
        }
    });
}

/// Makes an `enum` of alternatives that are single words: generators make one type of it, and a union of the alternatives. The
/// description lists the meaning of each word.
pub(super) fn fold_words(value: &mut Value) {
    each_object(value, &|map| {
        let Some(Value::Array(alternatives)) = map.get("oneOf") else { return };
        let words: Vec<Value> = alternatives.iter().filter_map(|one| one.get("const").cloned()).collect();
        if words.is_empty() || words.len() != alternatives.len() {
            return;
        }
        let meaning = |one: &Value| {
            let (word, text) = (one["const"].as_str()?, one["description"].as_str()?);
            Some(format!("`{word}`: {text}"))
        };
        let meanings: Vec<String> = alternatives.iter().filter_map(meaning).collect();
        let about = map.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = format!("{about} {}", meanings.join(" "));
        map.remove("oneOf");
        map.insert("type".to_owned(), json!("string"));
        map.insert("enum".to_owned(), Value::Array(words));
        map.insert("description".to_owned(), json!(description.trim()));
    });
}

/// Moves the defaults of properties into their descriptions: openapi-typescript makes a property with a default required.
pub(super) fn describe_defaults(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object_mut().into_iter().flat_map(Map::values_mut);
    let properties = schemas.filter_map(|schema| schema.get_mut("properties")?.as_object_mut());
    for property in properties.flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        let Some(default) = property.remove("default") else { continue };
        let is_plain =
            default.is_null() || default == json!(false) || default == json!([]) || default == json!({});
        let text = property.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !is_plain && !text.contains("left out") {
            let words: Vec<String> = default
                .as_array()
                .map_or_else(|| vec![word(&default)], |items| items.iter().map(word).collect());
            let default = words.join(", ");
            property.insert("description".to_owned(), json!(format!("{text} {default} if left out.").trim()));
        }
    }
}

fn word(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Puts each description on one line.
pub(super) fn join_lines(value: &mut Value) {
    each_object(value, &|map| {
        if let Some(Value::String(text)) = map.get_mut("description") {
            *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
    });
}

fn each_object(value: &mut Value, change: &dyn Fn(&mut Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            change(map);
            map.values_mut().for_each(|member| each_object(member, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_object(item, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_of_words_become_an_enum() {
        let mut schema = json!({ "description": "Access.", "oneOf": [
            { "const": "read-write", "description": "Both.", "type": "string" },
            { "const": "read-only", "description": "Read.", "type": "string" },
        ] });
        fold_words(&mut schema);
        let expected = json!({
            "description": "Access. `read-write`: Both. `read-only`: Read.",
            "type": "string",
            "enum": ["read-write", "read-only"],
        });
        assert_eq!(schema, expected);
        let mut union = json!({ "oneOf": [{ "const": "all" }, { "type": "integer" }] });
        let before = union.clone();
        fold_words(&mut union);
        assert_eq!(union, before);
    }
}
