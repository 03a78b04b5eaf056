//! `plimsoll bench …`, one file a command.

mod fio;
mod load;
mod run;
mod server;

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
}

/// Runs a command; a measurement without a result ends with a failure.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Load(arguments) => load::run(*arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::List => run::list(),
        Command::Fio(arguments) => fio::run(&arguments),
    }
}
