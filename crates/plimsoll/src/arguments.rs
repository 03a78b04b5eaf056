//! The command line as given: options that all commands share may precede the command.

use crate::exit::usage;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::collections::HashSet;
use std::ffi::OsString;

/// Options of `--json`'s kind, which take no value.
const SWITCHES: [&str; 2] = ["--json", "--wide"];
const WITH_VALUE: [&str; 7] = ["--data", "--config", "--url", "--token-file", "--ca", "--output", "-o"];

/// Moves shared options in front of the command to its end, where the command declares them.
pub(crate) fn reordered(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut rest: Vec<OsString> = arguments.collect();
    let mut leading = 0;
    while let Some(argument) = rest.get(1 + leading) {
        let text = argument.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        leading += match (SWITCHES.contains(&name), WITH_VALUE.contains(&name)) {
            (true, _) => 1,
            (_, true) if text.contains('=') => 1,
            (_, true) => 2,
            _ => break,
        };
    }
    // Without a command there is nothing to move behind.
    if rest.len() <= 1 + leading {
        return rest;
    }
    let moved: Vec<OsString> = rest.drain(1..1 + leading).collect();
    // Arguments after "--" are no options.
    let end = rest.iter().position(|argument| argument == "--").unwrap_or(rest.len());
    rest.splice(end..end, moved);
    rest
}

/// Whether results and errors are to be JSON.
pub(crate) fn ask_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

/// Refuses options like `--limit NAME=VALUE` that have a name twice: one of its values would be lost.
pub(crate) fn check_repeated(command: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    // Options that commands share are in the matches of the innermost one, too.
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        return check_repeated(command, matches);
    }
    for option in command.get_arguments().filter(|option| is_assignment(option)) {
        let values = matches.get_raw(option.get_id().as_str()).into_iter().flatten();
        let mut names = HashSet::new();
        for value in values {
            let value = value.to_string_lossy();
            let (name, _) = value.split_once('=').unwrap_or((&value, ""));
            if !names.insert(name.to_owned()) {
                let flag = option.get_long().unwrap_or_default();
                return Err(usage(format!("--{flag} has {name} twice; allowed: each once")));
            }
        }
    }
    Ok(())
}

/// Whether an option takes `NAME=VALUE`, or the name of a protocol, more than once.
fn is_assignment(option: &Arg) -> bool {
    let names = option.get_value_names().unwrap_or_default();
    let takes_pair = names.iter().any(|name| name.contains('=') && !name.starts_with('['));
    (takes_pair || option.get_id() == "protocols") && matches!(option.get_action(), ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_options_move_behind_the_command() {
        for (given, expected) in [
            ("p pool list", "p pool list"),
            ("p --ca X --json pool list", "p pool list --ca X --json"),
            ("p --data=D export -- dir", "p export --data=D -- dir"),
            ("p --ca", "p --ca"),
            ("p --json", "p --json"),
            ("p --version", "p --version"),
            ("p -o f volume show --json", "p volume show --json -o f"),
        ] {
            let words = reordered(given.split(' ').map(OsString::from));
            assert_eq!(words, expected.split(' ').collect::<Vec<_>>(), "{given}");
        }
    }
}
