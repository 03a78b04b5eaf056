//! `plimsoll bench …`, one file a command.

mod compare;
mod fio;
mod load;
mod measure;
mod report;
mod run;
mod server;
mod summary;

use std::process::ExitCode;

use clap::Subcommand;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drive an NFSv3 server with one kind of call, or a mix of reads and writes, and measure it.
    Load(Box<load::LoadArgs>),
    /// Run a scenario: the tables and plots of a published page, or your own.
    Run(Box<run::RunArgs>),
    /// Show the scenarios.
    List,
    /// Say what fio jobs really measure, and write the equivalent scenario; with --path also run them.
    Fio(fio::FioArgs),
    /// Make a page, tables or data for other programs of what was measured.
    Report(report::ReportArgs),
    /// Say whether a run is better or worse than another, for people and for gates.
    Compare(compare::CompareArgs),
}

/// Runs a command; a measurement without a result ends with a failure.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Load(arguments) => load::run(*arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::List => run::list(),
        Command::Fio(arguments) => fio::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Compare(arguments) => Ok(compare::run(&arguments)),
    }
}
