//! The commands as parsed: options that a family of commands shares are in the help of the family alone.

use clap::{Arg, Command};

/// Headings of options that many commands share.
const SHARED: [&str; 2] = ["Output", "Service"];

/// Hides shared options in the help of commands below a family. They work there as before.
pub(crate) fn arranged(mut root: Command) -> Command {
    // Clap hands shared options down when it builds.
    root.build();
    root.mut_subcommands(|family| {
        let name = family.get_name().to_owned();
        if has_shared(&family) {
            family.mut_subcommands(|command| with_pointer(command, &name))
        } else {
            family
        }
    })
}

pub(crate) fn is_shared(option: &Arg) -> bool {
    option.get_help_heading().is_some_and(|heading| SHARED.contains(&heading))
}

fn has_shared(command: &Command) -> bool {
    command.get_arguments().any(is_shared)
}

fn with_pointer(command: Command, family: &str) -> Command {
    let points = has_shared(&command) && !command.has_subcommands();
    let hidden = |option: Arg| if is_shared(&option) { option.hide(true) } else { option };
    let command = command.mut_args(hidden).mut_subcommands(|child| with_pointer(child, family));
    if !points {
        return command;
    }
    let before = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
    let pointer = format!("{before}Further options, like --json and --url: \"plimsoll {family} --help\"");
    command.after_help(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    /// Lines of a screen, at this many columns.
    const LINES_MAX: usize = 40;
    const COLUMNS: usize = 100;
    /// The list of all commands.
    const ROOT_LINES_MAX: usize = 53;

    fn check(command: &mut Command, path: &str, too_long: &mut Vec<String>) {
        let help = command.clone().term_width(COLUMNS).render_help().to_string();
        let most = if path.is_empty() { ROOT_LINES_MAX } else { LINES_MAX };
        let path = format!("{path} {}", command.get_name());
        if help.lines().count() > most {
            too_long.push(format!("{path}: {} lines", help.lines().count()));
        }
        command.get_subcommands_mut().for_each(|child| check(child, &path, too_long));
    }

    #[test]
    fn short_help_of_every_command_fits_a_screen() {
        let mut too_long = Vec::new();
        check(&mut arranged(Cli::command()), "", &mut too_long);
        assert_eq!(too_long, [""; 0]);
    }

    #[test]
    fn hidden_options_work_and_the_help_says_where_they_are() {
        let mut root = arranged(Cli::command());
        let given = ["plimsoll", "volume", "access", "list", "v1", "--json", "--url", "http://x"];
        root.try_get_matches_from_mut(given).unwrap();
        let list = root.find_subcommand_mut("volume").unwrap().find_subcommand_mut("list").unwrap();
        let help = list.render_help().to_string();
        assert!(help.contains("\"plimsoll volume --help\"") && !help.contains("--token-file"), "{help}");
    }
}
