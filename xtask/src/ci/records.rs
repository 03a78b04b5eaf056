//! Results of the lanes of `full`. Each is valid while the lane's inputs are unchanged, so that an interrupted run
//! continues where it stopped.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::step::Step;
use super::summary::minutes;
use super::timeline::Span;
use crate::process;

const INPUTS: [&str; 6] = [".cargo", "Cargo.lock", "Cargo.toml", "conformance", "crates", "xtask"];
/// Files among them that no lane reads.
const IGNORED_INPUTS: [&str; 5] = [
    ":(exclude)conformance/pages",
    ":(exclude)xtask/src/docs",
    ":(exclude)xtask/src/pages",
    ":(exclude)xtask/src/perf",
    ":(exclude)xtask/src/tidy",
];

pub(super) struct Records {
    directory: PathBuf,
    inputs: String,
}

impl Records {
    pub(super) fn open(directory: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&directory)?;
        Ok(Self { directory, inputs: inputs()? })
    }

    /// Minutes of a lane that passed with these inputs and this command.
    pub(super) fn passed(&self, step: &Step) -> Option<f64> {
        let record: Value = serde_json::from_slice(&fs::read(self.path(step)).ok()?).ok()?;
        let is_same = record["inputs"] == self.inputs.as_str() && record["command"] == command(step);
        record["minutes"].as_f64().filter(|_| is_same)
    }

    pub(super) fn save(&self, step: &Step, span: &Span) -> anyhow::Result<()> {
        let record = json!({
            "inputs": self.inputs, "command": command(step), "minutes": minutes(span.length),
            "outcome": span.outcome.to_string(),
        });
        let path = self.path(step);
        fs::write(&path, record.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn path(&self, step: &Step) -> PathBuf {
        self.directory.join(format!("{}.json", step.file_stem()))
    }
}

/// Without the path of this program, which may differ.
fn command(step: &Step) -> String {
    step.argv[1..].join(" ")
}

/// Covers names and contents of all inputs, including uncommitted files.
fn inputs() -> anyhow::Result<String> {
    let workspace = process::workspace();
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
    let list = [&list[..], &INPUTS, &IGNORED_INPUTS].concat();
    let listed =
        process::output(&workspace, "git", &list).context("cannot list the inputs of lanes with git")?;
    let names = String::from_utf8(listed)?;
    // The index still lists deleted files, which git cannot hash.
    let mut files: Vec<&str> = names.split('\0').filter(|name| workspace.join(name).is_file()).collect();
    files.sort_unstable();
    files.dedup();
    let names = files.join("\n");
    let hashes = hash_object(&["--stdin-paths"], &names)?;
    hash_object(&["--stdin"], &(names + &hashes))
}

fn hash_object(how: &[&str], input: &str) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.arg("hash-object").args(how).current_dir(process::workspace());
    let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = git.stdin.take().context("no input")?;
    let input = input.to_owned();
    // A thread writes, because git answers before it has read all input.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = git.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    ensure!(output.status.success(), "git hash-object ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ci::step::Outcome;

    #[test]
    fn a_result_is_valid_while_inputs_and_command_are_unchanged() {
        let directory = std::env::temp_dir().join(format!("xtask-records-{}", std::process::id()));
        let records = |inputs: &str| Records { directory: directory.clone(), inputs: inputs.to_owned() };
        let step = |argument: &str| Step::new("a lane", vec!["xtask".into(), argument.into()], 1);
        fs::create_dir_all(&directory).unwrap();
        let (start, length) = (Duration::ZERO, Duration::from_secs(90));
        let span = Span { name: "a lane", start, length, outcome: Outcome::Passed, parts: Vec::new() };
        assert_eq!(records("one").passed(&step("x")), None);
        records("one").save(&step("x"), &span).unwrap();
        assert_eq!(records("one").passed(&step("x")), Some(1.5));
        assert_eq!(records("two").passed(&step("x")), None);
        assert_eq!(records("one").passed(&step("y")), None);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_hash_of_unchanged_inputs_is_stable() {
        let hash = inputs().unwrap();
        assert!(hash.len() >= 40 && hash.chars().all(|digit| digit.is_ascii_hexdigit()), "{hash}");
        assert_eq!(inputs().unwrap(), hash);
    }
}
