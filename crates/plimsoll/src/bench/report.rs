//! `plimsoll bench report`: runs for people and for other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use report::document::{self, NamedRun, Report, fio};
use report::result::{InvalidRun, Run};

use super::screen;
use crate::exit::usage;
use crate::output;
use crate::terminal::{self, printable_lines, unpainted};

/// The arguments of `bench report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Files that `plimsoll bench run` wrote
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,
    /// Name of a run in the report, once for each file in their order [default: the file's name]
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Form of the report [default: table on a terminal, md in files and pipes]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write, or for svg, csv and fio-json a directory [default: the standard output, as `-`]
    #[arg(long, short, value_name = "FILE|DIR")]
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
    /// One line a point, with every figure; in a directory also a file with the data of each table and plot.
    Csv,
    /// Each plot as a picture, in a directory.
    Svg,
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
        if runs.len() != 1 {
            return Err(usage(format!("fio-json is made of one run, not of {}", runs.len())));
        }
        match output {
            Some(directory) => {
                let files = fio::files(&runs[0]).into_iter().map(|file| (file.path, file.text));
                write_files(directory, files.collect())?;
            }
            None => terminal::print(&fio::document(&runs[0]))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names = names(&arguments.runs, &arguments.name)?;
    let reports = reports(&runs, &names, format);
    if let Some(directory) = output.filter(|path| format == Format::Svg || is_directory(path, format)) {
        let made = if format == Format::Svg { document::svg_files } else { document::csv_files };
        let files = made(&reports).into_iter().map(|file| (file.name, file.text));
        write_files(directory, files.collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match format {
        Format::Svg => {
            return Err(usage("svg makes a file of each plot: give their directory with --output DIR"));
        }
        Format::Table if output.is_some() => unpainted(&screen::of(&reports, columns)),
        Format::Table => printable_lines(&screen::of(&reports, columns)),
        Format::Html => {
            if arguments.output.is_none() {
                return Err(usage("an HTML page wants --output FILE, or --output - for the standard output"));
            }
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

/// One report of each run, behind one of all if there are several.
fn reports(runs: &[Run], names: &[String], format: Format) -> Vec<Report> {
    let mut reports: Vec<Report> = runs.iter().map(Report::of).collect();
    if runs.len() < 2 {
        return reports;
    }
    reports = reports.into_iter().zip(names).map(|(report, name)| report.named(name)).collect();
    if format != Format::Csv {
        let named: Vec<NamedRun<'_>> = names.iter().map(String::as_str).zip(runs).collect();
        let all = document::cases(runs).or_else(|| document::side_by_side(&named));
        all.into_iter().for_each(|all| reports.insert(0, all));
    }
    reports
}

/// Distinct names: those given, or those of the files.
fn names(paths: &[PathBuf], given: &[String]) -> anyhow::Result<Vec<String>> {
    if !given.is_empty() {
        if given.len() != paths.len() {
            let (names, files) = (given.len(), paths.len());
            return Err(usage(format!(
                "--name is there {names} times, the files are {files}: give one name for each"
            )));
        }
        return Ok(given.to_vec());
    }
    let short =
        |path: &PathBuf| path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let all: Vec<String> = paths.iter().map(short).collect();
    let is_own = |name: &String| all.iter().filter(|other| *other == name).count() == 1;
    let mut names: Vec<String> = Vec::new();
    for (path, short) in paths.iter().zip(&all) {
        let name = if is_own(short) { short.clone() } else { path.display().to_string() };
        // The same file twice.
        let numbered = |number: usize| if number == 1 { name.clone() } else { format!("{name} ({number})") };
        names.extend((1..).map(numbered).find(|name| !names.contains(name)));
    }
    Ok(names)
}

/// A run from its file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Run> {
    let name = || format!("{}", path.display());
    let bytes = fs::read(path).with_context(name)?;
    let text = String::from_utf8(bytes).map_err(|_| usage(format!("{} is not a text file", name())))?;
    text.parse().map_err(|wrong: InvalidRun| usage(format!("{} is {wrong}", name())))
}

/// CSV goes into a directory that exists, or whose name ends with a slash.
fn is_directory(path: &Path, format: Format) -> bool {
    let is_named = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    format == Format::Csv && (is_named || path.is_dir())
}

fn write_files(directory: &Path, files: Vec<(String, String)>) -> anyhow::Result<()> {
    ensure!(!files.is_empty(), "no point has a result, so there is no file to write");
    output::write_files(directory, files)
}
