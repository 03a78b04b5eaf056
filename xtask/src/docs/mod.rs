//! `cargo xtask docs`: the README and the guide, with their commands run as a reader runs them.
//!
//! Each document gets a sandbox and an empty directory, where its blocks of commands run in order. Comments before a
//! block state its preconditions, and the reason if it cannot run here (`block.rs`).

mod block;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::packages;
use crate::process;
use crate::sandbox::{Sandbox, ScriptResult, run_concurrently};
use block::{Block, Role};

const README: &str = "README.md";
const FOLDERS: [&str; 5] = ["docs", "docs/start", "docs/how-to", "docs/concepts", "docs/reference"];
/// Addresses of the examples, and their replacements on a machine with only loopback.
const EXAMPLES: [(&str, &str); 4] = [
    ("10.0.0.7", "127.0.0.1"),
    ("10.0.0.11", "127.0.0.1"),
    ("10.1.0.0/16", "127.0.0.0/8"),
    ("nfs://HOST/", "nfs://127.0.0.1/"),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Only documents with this in their paths.
    #[arg(long)]
    only: Option<String>,
}

struct Outcome {
    path: String,
    run: usize,
    not_run: Vec<(usize, String)>,
    fault: Option<String>,
    time: Duration,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    packages::require(packages::FOR_TESTS)?;
    let binary = process::binary(args.binary.as_deref());
    let mut paths = vec![README.to_owned()];
    for folder in FOLDERS {
        for entry in fs::read_dir(process::workspace().join(folder))? {
            let name = entry?.file_name().into_string().ok().context("name is not UTF-8")?;
            paths.extend(name.ends_with(".md").then(|| format!("{folder}/{name}")));
        }
    }
    paths.retain(|path| args.only.as_ref().is_none_or(|only| path.contains(only.as_str())));
    ensure!(!paths.is_empty(), "no document matches --only");
    paths.sort();
    let results = run_concurrently(&paths, |path| document(&binary, path));
    let mut faults = Vec::new();
    for result in results {
        let Outcome { path, run, not_run, fault, time } = result?;
        let outcome = if fault.is_some() { "FAILS" } else { "ok" };
        println!("{path:<36}{run:>3} blocks run{:>6.0} s  {outcome}", time.as_secs_f64());
        not_run.iter().for_each(|(line, why)| println!("{:36}not run, line {line}: {why}", ""));
        faults.extend(fault.map(|fault| format!("{path}: {fault}")));
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n\n"));
    Ok(())
}

fn document(binary: &Path, path: &str) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let text = fs::read_to_string(process::workspace().join(path))?;
    let blocks = block::blocks(&text).with_context(|| path.to_owned())?;
    let scripts: Vec<(&Block, String)> = blocks.iter().flat_map(scripts).collect();
    let texts: Vec<String> = scripts.iter().map(|(_, script)| script.clone()).collect();
    let work = process::target_dir().join("docs").join(path.replace('/', "-"));
    let sandbox = Sandbox { binary, work, is_brief: true, ends_at_failure: true };
    let ended = if texts.is_empty() { Vec::new() } else { sandbox.run(&texts)? };
    let failed = scripts.iter().zip(ended).find_map(|((block, script), ended)| match ended {
        Some(ScriptResult { status: 0, .. }) => None,
        other => Some((block, script, other)),
    });
    let fault = failed.map(|(block, script, ended)| {
        let printed = ended.map_or(String::new(), |ended| ended.printed);
        format!("the block at line {} fails:\n{script}\nIt prints:\n{printed}", block.line)
    });
    let not_run = blocks.iter().filter_map(|block| match &block.role {
        Role::NotRun(why) => Some((block.line, why.clone())),
        _ => None,
    });
    let run = blocks.iter().filter(|block| block.role == Role::Commands).count();
    Ok(Outcome { path: path.to_owned(), run, not_run: not_run.collect(), fault, time: begun.elapsed() })
}

fn scripts(block: &Block) -> impl Iterator<Item = (&Block, String)> {
    let own = match &block.role {
        Role::Commands => Some(
            EXAMPLES.iter().fold(block.text.clone(), |text, (example, here)| text.replace(example, here)),
        ),
        Role::File(name) => {
            Some(format!("cat > {name} <<'END OF THE FILE'\n{}END OF THE FILE\n", block.text))
        }
        Role::NotRun(_) | Role::Shown => None,
    };
    block.preparation.iter().cloned().chain(own).map(move |script| (block, script))
}
