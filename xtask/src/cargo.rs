//! The metadata that cargo has of the workspace, and its builds.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::process;

/// Variables under which every step compiles, so that clippy checks the code while it is compiled. A separate clippy
/// run would compile everything a second time, as would one cargo command without these variables.
pub(crate) const COMPILER: [&str; 2] =
    ["RUSTC_WORKSPACE_WRAPPER=clippy-driver", "CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__"];

#[derive(Clone, Debug)]
pub(crate) struct TestProgram {
    pub(crate) package: String,
    /// The name below `tests`; `None` for the unit tests of the package.
    pub(crate) target: Option<String>,
    pub(crate) directory: PathBuf,
    pub(crate) executable: PathBuf,
}

impl TestProgram {
    pub(crate) fn name(&self) -> String {
        name(&self.package, self.target.as_deref())
    }
}

fn name(package: &str, target: Option<&str>) -> String {
    target.map_or_else(|| package.to_owned(), |target| format!("{package}::{target}"))
}

/// The metadata of a manifest's packages, without their dependencies' own.
pub(crate) fn metadata(manifest: &Path) -> anyhow::Result<Value> {
    let manifest = process::text(manifest)?;
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--manifest-path", manifest];
    Ok(serde_json::from_slice(&process::output(&process::workspace(), &program(), &arguments)?)?)
}

#[cfg(test)]
pub(crate) fn test_targets() -> anyhow::Result<Vec<String>> {
    let metadata = metadata(&process::workspace().join("Cargo.toml"))?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let targets = packages.iter().flat_map(|package| {
        let targets = package["targets"].as_array().into_iter().flatten();
        let tests = targets.filter(|target| target["kind"] == serde_json::json!(["test"]));
        tests.filter_map(|target| Some(name(package["name"].as_str()?, target["name"].as_str())))
    });
    Ok(targets.collect())
}

pub(crate) fn test_programs() -> anyhow::Result<Vec<TestProgram>> {
    let cargo = program();
    let command = ["test", "--locked", "--workspace", "--all-targets", "--no-run", "--message-format=json"];
    let arguments = [&COMPILER[..], &[&cargo], &command].concat();
    let messages = String::from_utf8(process::output(&process::workspace(), "env", &arguments)?)?;
    let mut programs: Vec<TestProgram> = messages.lines().filter_map(test_program).collect();
    programs.sort_by_key(TestProgram::name);
    Ok(programs)
}

fn test_program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    let (target, executable) = (&message["target"], message["executable"].as_str()?);
    let kind = target["kind"][0].as_str()?;
    // Examples and benchmarks are also compiled as tests, but contain none.
    if message["profile"]["test"] != true || ["bench", "example"].contains(&kind) {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    let is_test = kind == "test";
    Some(TestProgram {
        package: directory.file_name()?.to_str()?.to_owned(),
        target: target["name"].as_str().filter(|_| is_test).map(String::from),
        directory: directory.to_owned(),
        executable: executable.into(),
    })
}

pub(crate) fn compiler_libraries() -> anyhow::Result<String> {
    let printed = process::output(&process::workspace(), "rustc", &["--print", "target-libdir"])?;
    Ok(String::from_utf8(printed)?.trim().to_owned())
}

/// Builds the target `name` of the workspace by a command of cargo, and returns the path of its program.
pub(crate) fn program_of(name: &str, command: &[&str]) -> anyhow::Result<PathBuf> {
    let arguments = [command, &["--locked", "--workspace", "--message-format=json"]].concat();
    let messages = String::from_utf8(process::output(&process::workspace(), &program(), &arguments)?)?;
    let program = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let wanted = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| wanted).map(PathBuf::from)
    });
    program.with_context(|| format!("cargo did not report the path of {name}"))
}

fn program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_read_from_messages() {
        let message = |kind: &str, name: &str, is_test: bool| {
            let message = serde_json::json!({
                "manifest_path": "/w/crates/nfs/Cargo.toml", "target": { "kind": [kind], "name": name },
                "profile": { "test": is_test }, "executable": "/w/target/x",
            });
            test_program(&message.to_string()).map(|program| program.name())
        };
        assert_eq!(message("lib", "nfs", true).as_deref(), Some("nfs"));
        assert_eq!(message("test", "server", true).as_deref(), Some("nfs::server"));
        assert_eq!(message("example", "server", true), None);
        assert_eq!(message("bench", "claims", true), None);
        assert_eq!(message("bin", "plimsoll", false), None);
        assert!(test_program("warning: no JSON").is_none());
    }
}
