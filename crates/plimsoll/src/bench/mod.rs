//! `plimsoll bench …`, one file a command.

mod compare;
mod fio;
mod load;
mod measure;
mod password;
mod progress;
mod report;
mod run;
mod screen;
mod server;
mod summary;

use std::process::ExitCode;

use clap::Subcommand;

use crate::form::Form;

pub(crate) use password::PasswordArgs;
pub(crate) use report::read as read_run;

/// The commands of the benchmark.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drive a server of NFS or SMB with one kind of call, or a mix of reads and writes, and measure it.
    Load(Box<load::LoadArgs>),
    /// Run a scenario: the measurements of a published page, or your own.
    Run(Box<run::RunArgs>),
    /// List the scenarios.
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Explain what fio jobs really measure, and write the equivalent scenario; with --path run them too.
    Fio(fio::FioArgs),
    /// Turn results into a page with plots, tables, or data for other programs.
    Report(report::ReportArgs),
    /// Compare two results: is the second better, worse or the same? For people and for CI gates.
    Compare(compare::CompareArgs),
}

/// Runs a command; a measurement without a result ends with a failure.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Load(arguments) => load::run(*arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::List { form } => run::list(&form),
        Command::Fio(arguments) => fio::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Compare(arguments) => Ok(compare::run(&arguments)),
    }
}
