//! The project's own automation; run as `cargo xtask COMMAND`.

mod crash;
mod guest;
mod ledger;
mod process;
mod random;
mod server;

use clap::Parser;

/// The project's own automation.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Kill a server with SIGKILL under load, again and again, and check what it acknowledged.
    Crash(crash::Args),
    /// Tests that need a machine of their own: a Linux guest under QEMU.
    #[command(subcommand)]
    Guest(guest::Task),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Crash(args) => crash::run(&args),
        Task::Guest(task) => guest::run(&task),
    }
}
