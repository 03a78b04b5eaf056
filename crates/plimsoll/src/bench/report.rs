//! `plimsoll bench report`: runs for people and for other programs.

use stable::files;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use report::document::{self, Report, fio};
use report::result::Run;

use super::screen;
use crate::output;
use crate::terminal::{self, printable_lines, unpainted};

/// The arguments of `bench report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Files that `plimsoll bench run` wrote
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,
    /// Form of the report [default: table on a terminal, md in files and pipes]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write; for fio-json a directory, in which each point gets a file [default: the standard output, as `-`]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables as the other commands have them.
    Table,
    /// A page with tables and plots, in one file.
    Html,
    /// Tables, as Markdown.
    Md,
    /// One line a point, with every figure.
    Csv,
    /// The output that fio would have written, for one run.
    FioJson,
}

/// Makes the report.
pub(crate) fn run(arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    let runs = arguments.runs.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<Run>>>()?;
    let output = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    let columns = if output.is_none() { terminal::columns() } else { None };
    let usual = if columns.is_some() { Format::Table } else { Format::Md };
    let format = arguments.format.unwrap_or(usual);
    if format == Format::FioJson {
        ensure!(runs.len() == 1, "fio-json is made of one run, not of {}", runs.len());
        match output {
            Some(directory) => write_files(directory, fio::files(&runs[0]))?,
            None => terminal::print(&fio::document(&runs[0]))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut reports: Vec<Report> = runs.iter().map(Report::of).collect();
    if format != Format::Csv {
        document::cases(&runs).into_iter().for_each(|cases| reports.insert(0, cases));
    }
    let text = match format {
        Format::Table if output.is_some() => unpainted(&screen::of(&reports, columns)),
        Format::Table => printable_lines(&screen::of(&reports, columns)),
        Format::Html => {
            ensure!(
                arguments.output.is_some(),
                "an HTML page wants --output FILE, or --output - for the terminal"
            );
            document::html(&reports)
        }
        Format::Csv => document::csv(&reports),
        Format::Md | Format::FioJson => document::markdown(&reports),
    };
    match output {
        Some(path) => output::write(path, text)?,
        None => terminal::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A run from its file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Run> {
    let name = || format!("{}", path.display());
    let text = fs::read_to_string(path).with_context(name)?;
    text.parse().with_context(name)
}

fn write_files(directory: &Path, files: Vec<fio::File>) -> anyhow::Result<()> {
    ensure!(!files.is_empty(), "no point has a result, so there is no file to write");
    for file in files {
        let path = directory.join(&file.path);
        let parent = path.parent().unwrap_or(directory);
        files::make_dirs(parent, files::PUBLIC_DIR).with_context(|| format!("{}", parent.display()))?;
        output::write(&path, file.text)?;
    }
    Ok(())
}
