//! The one binary.

mod bench;

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
    /// Measure an NFS server, ours or another.
    #[command(subcommand)]
    Bench(bench::Command),
}

fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Bench(command) => bench::run(command),
    };
    ended.unwrap_or_else(|wrong| {
        eprintln!("plimsoll: {wrong:#}");
        ExitCode::FAILURE
    })
}
