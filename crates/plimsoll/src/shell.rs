//! Completions, from the same declarations as the commands.

use crate::terminal::print;
use anyhow::bail;
use clap::{Args, Command};
use clap_complete::env::{CompleteEnv, Shells};
use std::borrow::Cow;

/// The arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bash: echo 'source <(plimsoll completions bash)' >> ~/.bashrc
  zsh:  echo 'source <(plimsoll completions zsh)' >> ~/.zshrc
  fish: plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish

Names of volumes, snapshots, vaults and all other objects are completed from the service that PLIMSOLL_DATA or PLIMSOLL_URL names, \
or the default one.")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// The variable by which the shell's script says that it asks.
const VARIABLE: &str = "PLIMSOLL_COMPLETE";
/// The program, as the shell finds it.
const PROGRAM: &str = "plimsoll";

/// A word as a shell takes it: in quotes where it has other characters than those that mean nothing to shells.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_to_a_shell_what_they_are() {
        for plain in ["/v1", "tools-2026.a_b", "größe"] {
            assert_eq!(quoted(plain), plain);
        }
        for word in ["", "/a;reboot", "/$(id)", "/it's", "/a&b", "/*", "/~x", "`id`", "a\\b", "!x", "#x"] {
            let line = format!("printf %s {}", quoted(word));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{line}");
        }
    }
}
