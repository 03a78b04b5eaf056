//! What cargo knows of the workspace, and what it builds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::process;

/// The metadata of a manifest's packages, without their dependencies' own.
pub(crate) fn metadata(manifest: &Path) -> anyhow::Result<Value> {
    let manifest = manifest.to_str().context("a path that is not UTF-8")?;
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--manifest-path", manifest];
    Ok(serde_json::from_slice(&process::output(&process::workspace(), &program(), &arguments)?)?)
}

/// The names of all test targets of the workspace: the files and folders `tests/NAME`.
pub(crate) fn test_targets() -> anyhow::Result<BTreeSet<String>> {
    let metadata = metadata(&process::workspace().join("Cargo.toml"))?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let tests = targets.filter(|target| target["kind"] == serde_json::json!(["test"]));
    Ok(tests.filter_map(|target| target["name"].as_str()).map(String::from).collect())
}

/// Builds the target `name` of the workspace by a command of cargo, and tells where its program is.
pub(crate) fn program_of(name: &str, command: &[&str]) -> anyhow::Result<PathBuf> {
    let arguments = [command, &["--locked", "--workspace", "--message-format=json"]].concat();
    let messages = String::from_utf8(process::output(&process::workspace(), &program(), &arguments)?)?;
    let program = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let wanted = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| wanted).map(PathBuf::from)
    });
    program.with_context(|| format!("cargo does not say where {name} is"))
}

fn program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
