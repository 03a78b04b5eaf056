//! Completions and manual pages, from the same declarations as the commands.

use crate::manage::print;
use anyhow::{Context, bail};
use clap::{Args, Command};
use clap_complete::env::{CompleteEnv, Shells};
use std::fs;
use std::path::PathBuf;

/// The arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bash: echo 'source <(plimsoll completions bash)' >> ~/.bashrc
  zsh:  echo 'source <(plimsoll completions zsh)' >> ~/.zshrc
  fish: plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish

Names of pools, volumes and tokens are those of the service that PLIMSOLL_DATA or PLIMSOLL_URL names, or the default.")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// The arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  plimsoll man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Where to write them: plimsoll.1, plimsoll-volume.1, plimsoll-volume-create.1 and so on; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// The variable by which the shell's script says that it asks.
const VARIABLE: &str = "PLIMSOLL_COMPLETE";
/// The program, as the shell finds it.
const PROGRAM: &str = "plimsoll";

/// If a shell asks what could follow, answers and ends.
pub(crate) fn complete(commands: fn() -> Command) {
    CompleteEnv::with_factory(commands).var(VARIABLE).bin(PROGRAM).complete();
}

/// Prints the script for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else { bail!("no completions for {}", args.shell) };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    print(&String::from_utf8(script)?)
}

/// Writes a page for each command.
pub(crate) fn man(commands: Command, args: &ManArgs) -> anyhow::Result<()> {
    let dir = args.dir.display();
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot make the directory {dir}"))?;
    clap_mangen::generate_to(commands, &args.dir).with_context(|| format!("cannot write into {dir}"))
}
