//! Access to results in JSON.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

pub(super) fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", path.display()))
}

pub(super) fn list(value: &Value) -> anyhow::Result<&[Value]> {
    value.as_array().map(Vec::as_slice).with_context(|| format!("not a list: {value}"))
}

pub(super) fn number(value: &Value) -> anyhow::Result<f64> {
    value.as_f64().with_context(|| format!("not a number: {value}"))
}
