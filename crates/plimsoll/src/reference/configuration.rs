//! The keys of the configuration, from the types that read it.

use super::{cell, row};
use crate::config::Config;
use serde_json::Value;
use std::fmt::Write as _;

const INTRODUCTION: &str = "# Configuration

`plimsoll serve --config FILE` reads one TOML file. As root it reads `/etc/plimsoll/plimsoll.toml` by
default, if the file exists. `--config /dev/null` reads none. Every key is optional, and an unknown
key is refused. Flags of `plimsoll serve` override the file. Pools, volumes, rules, users and tokens
are not in it: the [commands](commands.md) and the [API](api.md) manage them.

The service reads the file at its start only. After a change, restart it ([what needs a
restart](../how-to/change-addresses.md#what-needs-a-restart)). The level of the log is not in the
file: set the variable `PLIMSOLL_LOG` ([logs](../how-to/logs.md#change-the-level)).
";

pub(super) fn page() -> String {
    let schema = schemars::schema_for!(Config).to_value();
    let mut page = INTRODUCTION.to_owned();
    table(&mut page, &schema, &schema, "");
    page
}

/// The keys of a table, then the tables in it.
fn table(page: &mut String, schema: &Value, whole: &Value, name: &str) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let heading = if name.is_empty() { "Outside all tables".to_owned() } else { format!("`[{name}]`") };
    let resolved = |property: &Value| -> Value {
        let reference = property["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        reference.and_then(|path| whole.pointer(path)).cloned().unwrap_or_else(|| property.clone())
    };
    let is_table = |property: &Value| resolved(property)["properties"].is_object();
    _ = write!(page, "\n## {heading}\n\n| key | default | meaning |\n|---|---|---|\n");
    for (key, property) in properties.iter().filter(|(_, property)| !is_table(property)) {
        let default = property.get("default").filter(|default| !default.is_null());
        let default = default.map_or_else(String::new, |default| format!("`{default}`"));
        let about = property["description"].as_str().unwrap_or_default();
        page.push_str(&row(&[&format!("`{key}`"), &default, &cell(about)]));
    }
    for (key, property) in properties.iter().filter(|(_, property)| is_table(property)) {
        let inner = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        table(page, &resolved(property), whole, &inner);
    }
}
