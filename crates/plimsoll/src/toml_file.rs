//! Files in TOML. Errors name the file, the line, the key and the allowed values.

use api_client::json;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the text of a file.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, file: &Path) -> Result<T, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| syntax(text, file, &error))?;
    let value = serde_json::to_value(table).map_err(|error| format!("{}: {error}", file.display()))?;
    json::from_value(value).map_err(|error| {
        // TOML has tables in place of objects.
        let message = error.at(&key(error.pointer())).replace("an object", "a table");
        located(text, file, error.pointer(), &message)
    })
}

/// The message for a value that is wrong for another reason than its type.
pub(crate) fn fault(text: &str, file: &Path, pointer: &str, message: &str) -> String {
    located(text, file, pointer, &format!("{} {message}", key(pointer)))
}

/// The JSON pointer of the first key of a table; `None` if the table is missing or empty.
pub(crate) fn first_key(text: &str, table: &str) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    let keys = root.get_ref().get(table)?.get_ref().as_table()?.iter();
    let (first, _) = keys.min_by_key(|(key, _)| key.span().start)?;
    Some(format!("/{table}/{}", first.get_ref()))
}

/// The words of the parser alone, without the line itself: a password may be there.
fn syntax(text: &str, file: &Path, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| line(text, span.start));
    let message = error.message().replace('\n', ", ").replace('`', "\"");
    format!("{}: line {line}: not valid TOML: {message}", file.display())
}

/// The message with the file, and with the line of the innermost part of the pointer that the file has.
pub(crate) fn located(text: &str, file: &Path, pointer: &str, message: &str) -> String {
    match start(text, pointer) {
        Some(start) => format!("{}: line {}: {message}", file.display(), line(text, start)),
        None => format!("{}: {message}", file.display()),
    }
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// A key as the file has it: `nfs.tls.mode`, `level."anf/premium".per_gib`. The line tells the places of an array apart.
fn key(pointer: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let named = segments(pointer).filter(|segment| segment.parse::<usize>().is_err());
    let quoted = |name: String| if name.chars().all(is_plain) { name } else { format!("\"{name}\"") };
    named.map(quoted).collect::<Vec<_>>().join(".")
}

/// The first byte of the innermost key or value of the pointer that the file has. None if it has not even the first one.
fn start(text: &str, pointer: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut found = None;
    let mut value: Option<&Spanned<DeValue<'_>>> = None;
    for segment in segments(pointer) {
        let table = match value.map(Spanned::get_ref) {
            None => Some(root.get_ref()),
            Some(DeValue::Table(table)) => Some(table),
            Some(DeValue::Array(items)) => {
                let Some(item) = segment.parse().ok().and_then(|place: usize| items.get(place)) else {
                    break;
                };
                (found, value) = (Some(item.span().start), Some(item));
                continue;
            }
            Some(_) => None,
        };
        let entry = table.and_then(|table| table.iter().find(|(key, _)| *key.get_ref() == segment));
        let Some((key, inner)) = entry else { break };
        (found, value) = (Some(key.span().start), Some(inner));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Prices {
        #[serde(rename = "currency")]
        _currency: String,
        #[serde(default, rename = "level")]
        _level: BTreeMap<String, Price>,
        #[serde(default, rename = "user")]
        _user: Vec<User>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Price {
        #[serde(rename = "per_gib")]
        _per_gib: f64,
    }

    #[derive(Debug, Deserialize)]
    struct User {
        #[serde(rename = "password")]
        _password: String,
    }

    #[test]
    fn faults_name_file_line_key_and_allowed_values() {
        parse::<Prices>("currency = \"EUR\"\n[level.\"anf/premium\"]\nper_gib = 1\n", Path::new("p"))
            .unwrap();
        for (text, expected) in [
            ("", "p.toml: currency is missing"),
            ("currency = 5", "p.toml: line 1: currency is 5; allowed: a string"),
            (
                "currency = \"E\"\ncolor = 1",
                "p.toml: line 2: color is unknown; allowed: currency, level, user",
            ),
            (
                "currency = \"E\"\n\n[level.\"anf/premium\"]\nper_gib = \"cheap\"",
                "p.toml: line 4: level.\"anf/premium\".per_gib is \"cheap\"; allowed: a number",
            ),
            (
                "currency = \"E\"\n[level.\"anf/premium\"]\n",
                "p.toml: line 2: level.\"anf/premium\".per_gib is missing",
            ),
            ("currency = \"E\"\nlevel = 3", "p.toml: line 2: level is 3; allowed: a table"),
            (
                "currency = \"E\"\n[[user]]\npassword = \"a\"\n[[user]]\npassword = 12345",
                "p.toml: line 5: user.password has a wrong type; allowed: a string",
            ),
        ] {
            assert_eq!(parse::<Prices>(text, Path::new("p.toml")).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn fault_of_the_syntax_has_its_line_and_not_the_text() {
        let said =
            parse::<Prices>("currency = \"E\"\n[[user]]\npassword = hush", Path::new("p.toml")).unwrap_err();
        assert!(said.starts_with("p.toml: line 3: not valid TOML: ") && !said.contains("hush"), "{said}");
    }
}
