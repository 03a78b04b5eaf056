//! The one binary.

#![allow(clippy::print_stdout, reason = "printing is what a command line does")]

mod bench;
mod demo;
mod export;
mod ports;
mod serving;
mod state;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Self-hosted file storage whose volumes declare, hold and prove their performance.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve existing directories over NFSv3, at once and without configuration.
    Export(export::ExportArgs),
    /// Try it: make a volume, serve it, drive it over real sockets, show the figures, go on serving.
    Demo(demo::DemoArgs),
    /// Measure an NFS server, ours or another.
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
        Command::Export(args) => export::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Bench(command) => bench::run(command),
    };
    ended.unwrap_or_else(|wrong| {
        eprintln!("plimsoll: {wrong:#}");
        ExitCode::FAILURE
    })
}
