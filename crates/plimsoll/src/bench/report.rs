//! `plimsoll bench report`: runs for people and for other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use report::document::{self, Report, fio};
use report::result::Run;

use crate::output;

/// The arguments of `bench report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Files that `plimsoll bench run` wrote
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,
    /// What to make of them
    #[arg(long, value_enum, default_value = "md")]
    format: Format,
    /// Where to write it; for fio-json a directory, in which each point gets a file [default: the standard output, as `-`]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A page with tables and plots, in one file.
    Html,
    /// Tables, as Markdown.
    Md,
    /// One line a point, with every figure.
    Csv,
    /// As fio would have written it; of one run.
    FioJson,
}

/// Makes the report.
pub(crate) fn run(arguments: &ReportArgs) -> anyhow::Result<ExitCode> {
    let runs = arguments.runs.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<Run>>>()?;
    let output = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    if arguments.format == Format::FioJson {
        ensure!(runs.len() == 1, "fio-json is made of one run, not of {}", runs.len());
        match output {
            Some(directory) => write_files(directory, fio::files(&runs[0]))?,
            None => print!("{}", fio::document(&runs[0])),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut reports: Vec<Report> = runs.iter().map(Report::of).collect();
    if arguments.format != Format::Csv {
        document::cases(&runs).into_iter().for_each(|cases| reports.insert(0, cases));
    }
    let text = match arguments.format {
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
        None => print!("{text}"),
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
        fs::create_dir_all(parent).with_context(|| format!("{}", parent.display()))?;
        output::write(&path, file.text)?;
    }
    Ok(())
}
