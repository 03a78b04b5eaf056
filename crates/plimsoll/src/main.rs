//! The one binary.

#![allow(clippy::print_stdout, reason = "printing is what a command line does")]

mod bench;
mod config;
mod demo;
mod export;
mod front;
mod host;
mod ports;
mod serve;
mod state;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Self-hosted file storage: serves directories over NFSv3, and measures NFS servers.
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll",
    version,
    after_help = "Logs go to the standard error; PLIMSOLL_LOG=error|warn|info|debug says how much [default: info]."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve pools and volumes with service levels, managed with the other commands, until Ctrl-C.
    Serve(serve::ServeArgs),
    /// Serve existing directories over NFSv3 until Ctrl-C, without configuration.
    Export(export::ExportArgs),
    /// Try it: make a volume, serve it, drive it over real sockets, show the figures, go on serving.
    Demo(demo::DemoArgs),
    /// Measure an NFSv3 server, this one or another.
    #[command(subcommand)]
    Bench(bench::Command),
}

fn main() -> ExitCode {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("PLIMSOLL_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr)
        .init();
    let ended = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Export(args) => export::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Bench(command) => bench::run(command),
    };
    ended.unwrap_or_else(|wrong| {
        eprintln!("plimsoll: {wrong:#}");
        ExitCode::FAILURE
    })
}
