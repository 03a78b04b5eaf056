//! The project's automation; run as `cargo xtask COMMAND`.
//!
//! Layers, top down: `ci`, `ceph`, `docs`, `guest`, `package`, `pages`, `perf`, `tidy`, `torture`, `ledger`, `sandbox`, `interop`,
//! `generators`.

#![allow(clippy::print_stdout, reason = "printing is what a command line does")]

mod cargo;
mod ceph;
mod checks;
mod ci;
mod crash;
mod debian;
mod debs;
mod dist;
mod docs;
mod generators;
mod guest;
mod interop;
mod ledger;
mod loop_fs;
mod managed;
mod map;
mod namespace;
mod package;
mod packages;
mod pages;
mod part;
mod perf;
mod plimsoll;
mod process;
mod programs;
mod prove;
mod random;
mod samba;
mod sandbox;
mod server;
mod tidy;
mod torture;

use std::process::ExitCode;

use clap::Parser;

/// The project's automation.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Check format, rules and lints, and run unit, storage and protocol tests. Without root, list the skipped tests.
    Test(ci::Args),
    /// Test with real clients, crashes and documents, and run a short form of every long suite; as root, on Debian 12.
    Ci(ci::Args),
    /// Run the long suites, in lanes: a lane that has passed runs again when its inputs change. As root, on Debian 12.
    Full(ci::FullArgs),
    /// Run the test programs of the workspace, one after another.
    Programs(programs::Args),
    /// Check the project's rules that no compiler checks.
    Tidy(tidy::Args),
    /// Print each source file with the first sentence of its documentation.
    Map,
    /// Test independent clients, libnfs and nfs-rs, against a server of this tree.
    Interop(checks::Args),
    /// Generate clients of the API in Python, Go and TypeScript, compile them, and run them against a service of this tree.
    Generators(checks::Args),
    /// Run Samba's SMB tests against a server of this tree.
    Smbtorture(torture::Args),
    /// Build the program that ships, with its debug information in a separate file.
    Dist,
    /// Build a Debian package, and check it with lintian.
    Package(package::Args),
    /// Compare the server with NFS-Ganesha and other builds in one interleaved run.
    Perf(Box<perf::Args>),
    /// Run a program without an auxiliary vector from the kernel, as `perf` needs for valgrind.
    #[command(hide = true)]
    WithoutAuxv(perf::callgrind::Program),
    /// Kill a server under load repeatedly, and check all acknowledged operations.
    Crash(crash::Args),
    /// Test volumes on CephFS, on a cluster that it starts. As root, on Debian 12.
    Ceph(ceph::Args),
    /// Check every statement of the published pages, by the commands that show it.
    Pages(pages::Args),
    /// Run the commands of the README and the guide as a reader runs them.
    Docs(docs::Args),
    /// Measure limits, published curves and a load curve with the benchmark.
    Prove(prove::Args),
    /// Run tests that need their own machine: a Linux guest under QEMU.
    #[command(subcommand)]
    Guest(guest::Task),
}

fn main() -> ExitCode {
    let ended = match Task::parse() {
        Task::Test(args) => ci::test(&args),
        Task::Ci(args) => ci::ci(&args),
        Task::Full(args) => ci::full(&args),
        Task::Programs(args) => programs::run(&args),
        Task::Tidy(args) => tidy::run(&args),
        Task::Map => map::run(),
        Task::Interop(args) => interop::run(&args),
        Task::Generators(args) => generators::run(&args),
        Task::Smbtorture(args) => torture::run(&args),
        Task::Dist => dist::run(),
        Task::Package(args) => package::run(&args),
        Task::Perf(args) => perf::run(&args),
        Task::WithoutAuxv(program) => perf::callgrind::run_without_auxv(&program),
        Task::Crash(args) => crash::run(&args),
        Task::Ceph(args) => ceph::run(&args),
        Task::Pages(args) => pages::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Prove(args) => prove::run(&args),
        Task::Guest(task) => guest::run(&task),
    };
    ended.map_or_else(
        |wrong| {
            eprintln!("xtask: {wrong:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
