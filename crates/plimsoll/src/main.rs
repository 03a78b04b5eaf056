//! The one binary.
//!
//! Layers, top down: `setup`, `page`, `size`, `bench`, `gateway`, `manage`, `certificates`.

#![allow(clippy::print_stdout, reason = "printing is what a command line does")]

mod agent;
mod announcement;
mod arguments;
mod background_tasks;
mod bench;
mod ceph_config;
mod certificates;
mod client_networks;
mod cluster_config;
mod config;
mod demo;
mod descriptors;
mod endpoints;
mod exit;
mod export;
mod form;
mod gateway;
mod gateway_dir;
mod help;
mod host;
mod host_ids;
mod host_snapshots;
mod lease;
mod listen_address;
mod local_socket;
mod man;
mod manage;
mod mounting;
mod nfs_frontend;
mod nodename;
mod notify;
mod number;
mod output;
mod overlap;
mod page;
mod periodic;
mod plane;
mod ports;
#[cfg(test)]
mod reference;
mod replication_listener;
mod serve;
mod setup;
mod shell;
mod signals;
mod size;
mod smb_frontend;
mod smb_users;
mod state;
mod terminal;
#[cfg(test)]
mod testing;
mod tls;
mod toml_file;
mod volume_storage;
mod volumes;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

const TRY_IT: &str = "Try it:
  plimsoll serve
and from another terminal:
  plimsoll pool create p1 --level anf/ultra --size 4TiB
  plimsoll volume create v1 --pool p1 --size 1TiB --allow 127.0.0.1
  plimsoll volume watch v1";

/// Self-hosted file storage over NFS and SMB: cloud service levels, a benchmark, a sizing advisor.
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll",
    version,
    after_help = format!("{TRY_IT}\n\n{}", exit::HELP),
    after_long_help = format!("{TRY_IT}

{}

Logs go to the standard error; PLIMSOLL_LOG=error|warn|info|debug sets their level [default: info].
Colors: none in pipes, with NO_COLOR set, or with CLICOLOR=0; CLICOLOR_FORCE=1 for colors in pipes too.", exit::HELP)
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve pools and volumes with service levels until Ctrl-C.
    Serve(serve::ServeArgs),
    /// Write the configuration of a new service, start it, and create its first user.
    Setup(Box<setup::SetupArgs>),
    #[command(flatten)]
    Manage(manage::Command),
    /// Manage gateways and endpoints, which serve one CephFS together.
    Cluster(gateway::ClusterArgs),
    /// Serve existing directories over NFS or SMB until Ctrl-C, without configuration.
    Export(Box<export::ExportArgs>),
    /// Try it: create and serve volumes, drive them over real sockets, show the figures.
    Demo(demo::DemoArgs),
    /// Measure an NFS or SMB server, this one or another.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Advise level, capacity, volumes and mount options for a workload.
    Size(Box<size::SizeArgs>),
    /// Show the published pages: tables, settings, text, and where they contradict themselves.
    Page(page::PageArgs),
    /// Create certificates for TLS.
    #[command(subcommand)]
    Tls(certificates::Command),
    /// Generate load on this machine for a measurement that another one coordinates.
    Agent(agent::AgentArgs),
    /// Print the script that makes a shell complete commands, flags and names.
    Completions(shell::CompletionsArgs),
    /// Write the manual pages.
    Man(man::ManArgs),
}

fn main() -> ExitCode {
    // Ends here if it is a shell that asks what could follow.
    shell::complete(Cli::command);
    let arguments = arguments::reordered(std::env::args_os());
    let as_json = arguments::ask_for_json(&arguments);
    if as_json {
        terminal::speak_json();
    }
    let filter = match log_filter(std::env::var("PLIMSOLL_LOG").ok()) {
        Ok(filter) => filter,
        Err(error) => return exit::failed(&error, as_json),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(terminal::has_color())
        .with_writer(|| terminal::LogWriter)
        // By default it panics where nobody reads the log any more, a closed terminal for example.
        .log_internal_errors(false)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        tracing::error!(thread = thread.name().unwrap_or("unnamed"), "a defect: {panic}");
    }));
    let done = |ended: anyhow::Result<()>| ended.map(|()| ExitCode::SUCCESS);
    let parsed = help::arranged(Cli::command()).try_get_matches_from(&arguments).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok(arguments::check_repeated(&Cli::command(), &matches).map(|()| cli))
    });
    let cli = match parsed {
        Ok(Ok(cli)) => cli,
        Ok(Err(error)) => return exit::failed(&error, as_json),
        Err(error) => return exit::unparsed(error, &arguments, as_json),
    };
    let ended = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Setup(args) => done(setup::run(&args)),
        Command::Manage(command) => manage::run(command),
        Command::Cluster(args) => done(gateway::run_command(args)),
        Command::Export(args) => export::run(*args),
        Command::Demo(args) => demo::run(args),
        Command::Bench(command) => bench::run(command),
        Command::Size(args) => size::run(*args),
        Command::Page(args) => done(page::run(&args)),
        Command::Tls(command) => done(certificates::run(&command)),
        Command::Agent(args) => agent::run(args),
        Command::Completions(args) => done(shell::completions(&args)),
        Command::Man(args) => done(man::man(Cli::command(), &args)),
    };
    ended.unwrap_or_else(|error| exit::failed(&error, as_json))
}

/// A level, or levels of single crates like `info,nfs=debug`.
fn log_filter(given: Option<String>) -> anyhow::Result<EnvFilter> {
    let given = given.filter(|given| !given.is_empty()).unwrap_or_else(|| "info".to_owned());
    let is_level = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    let refused = || {
        let allowed = "error, warn, info, debug, or levels of parts of the program, like info,nfs=debug";
        exit::usage(format!("PLIMSOLL_LOG is \"{given}\"; allowed: {allowed}"))
    };
    if !given.split(',').all(is_level) {
        return Err(refused());
    }
    EnvFilter::try_new(&given).map_err(|_| refused())
}
