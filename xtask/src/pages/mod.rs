//! `cargo xtask pages`: every statement of the published pages, checked by commands.
//!
//! The statements and the commands are in `conformance/pages`, whose README describes the format.

mod page;
mod shows;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::packages;
use crate::process;
use crate::sandbox::{Sandbox, ScriptResult, run_concurrently};
use page::{Page, Row, Run};
use shows::matches_pattern;

const STATEMENT_WIDTH: usize = 100;
const LINES_MAX: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Check only rows whose names begin with one of these, like `gcnv` or `gcnv-03`; separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    only: Vec<String>,
    /// Also print the commands' output.
    #[arg(long)]
    show: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Holds,
    /// The testable part is true; the rest needs a missing feature.
    Waits(String),
    /// Verified by hand.
    Long(String),
    Fails(Vec<String>),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    packages::require(packages::FOR_TESTS)?;
    let files = files(&process::workspace().join("conformance/pages"), &args.only)?;
    ensure!(!files.is_empty(), "no row matches --only");
    let binary = process::binary(args.binary.as_deref());
    let results = run_concurrently(&files, |(stem, page)| run_page(args, &binary, stem, page));
    let mut totals = [0; 4];
    let mut faults = Vec::new();
    for ((_, page), result) in files.iter().zip(results) {
        println!("\n{}\n", page.title);
        for (row, outcome) in page.rows.iter().zip(result?) {
            println!("{:<15}{}", row.id, outcome.line(&row.says));
            totals[outcome.index()] += 1;
            if let Outcome::Fails(why) = outcome {
                faults.extend(why.into_iter().map(|why| format!("{}: {why}", row.id)));
            }
        }
    }
    let [holds, waits, long, fails] = totals;
    println!("\n{holds} true, {waits} waiting, {long} measured by hand, {fails} failed");
    ensure!(faults.is_empty(), "{}", faults.join("\n\n"));
    Ok(())
}

fn files(directory: &Path, only: &[String]) -> anyhow::Result<Vec<(String, Page)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("{}", directory.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let mut page = Page::read(&path)?;
        page.rows.retain(|row| only.is_empty() || only.iter().any(|wanted| row.id.starts_with(wanted)));
        if !page.rows.is_empty() {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            files.push((stem.to_owned(), page));
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(files)
}

fn run_page(args: &Args, binary: &Path, stem: &str, page: &Page) -> anyhow::Result<Vec<Outcome>> {
    let work = process::target_dir().join("pages").join(stem);
    let sandbox = Sandbox { binary, work, is_brief: false, ends_at_failure: false };
    let commands = page.rows.iter().flat_map(|row| &row.runs).map(|run| run.command.clone());
    let scripts: Vec<String> = std::iter::once(page.setup.clone()).chain(commands).collect();
    let mut ended = sandbox.run(&scripts)?.into_iter();
    let setup = ended.next().flatten().context("the sandbox did not run")?;
    // The rows run nevertheless: they report missing preparations.
    if setup.status != 0 {
        println!("{stem}: the setup ended with {}:\n{}", setup.status, setup.printed);
    }
    let mut results = Vec::new();
    for row in &page.rows {
        let outcomes: Vec<(&Run, Option<ScriptResult>)> =
            row.runs.iter().map(|run| (run, ended.next().flatten())).collect();
        if args.show {
            for (run, ended) in &outcomes {
                println!(
                    "{}: {}\n{}",
                    row.id,
                    run.command,
                    ended.as_ref().map_or("", |ended| &ended.printed)
                );
            }
        }
        let faults = outcomes.iter().flat_map(|(run, ended)| faults(run, ended.as_ref())).collect();
        results.push(Outcome::of(row, faults));
    }
    Ok(results)
}

fn faults(run: &Run, ended: Option<&ScriptResult>) -> Vec<String> {
    let Some(ScriptResult { status, printed }) = ended else {
        return vec![format!("`{}` was not run", run.command)];
    };
    let mut wrong = Vec::new();
    if *status != run.status {
        wrong.push(format!("it ended with {status}, not with {}", run.status));
    }
    let missing = run.shows.iter().filter(|wanted| !matches_pattern(printed, wanted));
    wrong.extend(missing.map(|wanted| format!("it does not show \"{wanted}\"")));
    let unwanted = run.lacks.iter().filter(|unwanted| matches_pattern(printed, unwanted));
    wrong.extend(unwanted.map(|unwanted| format!("it shows \"{unwanted}\"")));
    if wrong.is_empty() {
        return wrong;
    }
    let mut lines: Vec<&str> = printed.lines().take(LINES_MAX + 1).collect();
    if lines.len() > LINES_MAX {
        lines[LINES_MAX] = "…";
    }
    vec![format!("`{}`:\n  {}\n{}", run.command, wrong.join("\n  "), lines.join("\n"))]
}

impl Outcome {
    fn of(row: &Row, faults: Vec<String>) -> Self {
        match (&row.waiting, &row.long) {
            _ if !faults.is_empty() => Self::Fails(faults),
            (Some(waiting), _) => Self::Waits(waiting.clone()),
            (None, Some(long)) => Self::Long(format!("{}, `{}`: {}", long.date, long.command, long.result)),
            (None, None) => Self::Holds,
        }
    }

    fn index(&self) -> usize {
        match self {
            Self::Holds => 0,
            Self::Waits(_) => 1,
            Self::Long(_) => 2,
            Self::Fails(_) => 3,
        }
    }

    fn line(&self, says: &str) -> String {
        let (word, more) = match self {
            Self::Holds => ("holds", None),
            Self::Waits(why) => ("waits", Some(why)),
            Self::Long(how) => ("by hand", Some(how)),
            Self::Fails(_) => ("FAILS", None),
        };
        let cut = says
            .char_indices()
            .nth(STATEMENT_WIDTH)
            .map_or(says.to_owned(), |(at, _)| format!("{}…", &says[..at]));
        let more = more.map_or(String::new(), |more| format!("\n{:24}{more}", ""));
        format!("{word:<9}{cut}{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(command: &str) -> Run {
        let [shows, lacks] = ["a … b", "c"].map(|pattern| vec![pattern.to_owned()]);
        Run { command: command.to_owned(), shows, lacks, status: 0 }
    }

    fn faults_of(status: i32, printed: &str) -> String {
        faults(&run_of("x"), Some(&ScriptResult { status, printed: printed.to_owned() })).join("\n")
    }

    #[test]
    fn a_command_must_have_the_expected_output_and_status() {
        assert_eq!(faults_of(0, "a 1 b\n"), "");
        assert!(faults_of(1, "a 1 b\n").contains("ended with 1, not with 0"));
        assert!(faults_of(0, "a 1 d\n").contains("does not show \"a … b\""));
        assert!(faults_of(0, "a b c\n").contains("it shows \"c\"\na b c"));
        assert_eq!(faults(&run_of("x"), None), ["`x` was not run"]);
    }

    #[test]
    fn a_waiting_row_must_be_true_in_its_testable_part() {
        let row = Row {
            id: "p-01".to_owned(),
            says: "s".to_owned(),
            runs: vec![run_of("x")],
            long: None,
            waiting: Some("for b".to_owned()),
        };
        assert_eq!(Outcome::of(&row, Vec::new()), Outcome::Waits("for b".to_owned()));
        assert_eq!(Outcome::of(&row, vec!["f".to_owned()]), Outcome::Fails(vec!["f".to_owned()]));
        let holds = Outcome::of(&Row { waiting: None, ..row }, Vec::new());
        assert_eq!((holds.line("says"), holds.index()), ("holds    says".to_owned(), 0));
    }

    #[test]
    fn the_rows_of_all_five_pages_exist() {
        let files = files(&process::workspace().join("conformance/pages"), &[]).unwrap();
        let counts: Vec<(&str, usize)> =
            files.iter().map(|(stem, page)| (stem.as_str(), page.rows.len())).collect();
        let wanted =
            [("anf-eda", 23), ("anf-large", 21), ("anf-regular", 29), ("filestore", 24), ("gcnv", 33)];
        assert_eq!(counts, wanted);
    }
}
