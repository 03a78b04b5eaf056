//! All commands with their options, and the exit statuses.

use super::{cell, row};
use crate::help::is_shared;
use crate::{Cli, exit};
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write as _;

const INTRODUCTION: &str = "# Commands

Each command has `--help`. Options that many commands share are listed once, at the end.
[Exit statuses](exit-codes.md) tell what went wrong.
";

pub(super) fn page() -> String {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut page = INTRODUCTION.to_owned();
    for command in children(&root) {
        describe(&mut page, command, 2);
    }
    page.push_str("\n## Shared options\n");
    let shared = root.find_subcommand("volume").into_iter().flat_map(Command::get_arguments);
    options(&mut page, shared.filter(|option| is_shared(option)));
    page
}

fn children(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|child| !child.is_hide_set())
}

fn describe(page: &mut String, command: &Command, depth: usize) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    _ = write!(page, "\n{} `{name}`\n\n{}\n", "#".repeat(depth), sentence(&about));
    let arguments = command.get_arguments().filter(|argument| !is_shared(argument));
    options(page, arguments);
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    if let Some(help) = help {
        _ = write!(page, "\n```\n{}\n```\n", help.to_string().trim());
    }
    for child in children(command) {
        describe(page, child, (depth + 1).min(4));
    }
}

/// Clap takes the period from the end of a summary.
fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with('.') { cell(text) } else { format!("{}.", cell(text)) }
}

fn options<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let shown: Vec<&Arg> = arguments
        .filter(|argument| {
            !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
        })
        .collect();
    if shown.is_empty() {
        return;
    }
    page.push_str("\n| option | meaning |\n|---|---|\n");
    for argument in shown {
        page.push_str(&row(&[&form(argument), &meaning(argument)]));
    }
}

fn form(argument: &Arg) -> String {
    let value = || {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let text = match (argument.get_long(), argument.get_short()) {
        (None, None) => value(),
        (long, short) => {
            let short = short.map(|short| format!("-{short}"));
            let names: Vec<String> = short.into_iter().chain(long.map(|long| format!("--{long}"))).collect();
            let takes = argument.get_action().takes_values();
            if takes { format!("{} {}", names.join(", "), value()) } else { names.join(", ") }
        }
    };
    format!("`{}`", text.replace('|', "\\|"))
}

pub(super) fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    // Clap takes the period from the end of a paragraph.
    let help = help.map(ToString::to_string).unwrap_or_default().replace("\n\n", ". ");
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && !argument.is_hide_possible_values_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let takes = argument.get_action().takes_values();
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let variable = argument.get_env().map(|name| format!("`{}`", name.to_string_lossy()));
    let mut parts = vec![cell(&help)];
    let notes = [
        ("allowed", (takes && !values.is_empty()).then(|| values.join(", "))),
        ("default", (takes && !defaults.is_empty()).then(|| defaults.join(", "))),
        ("variable", variable),
    ];
    parts.extend(notes.into_iter().filter_map(|(name, note)| Some(format!("{name}: {}", note?))));
    parts.join("; ")
}

pub(super) fn exit_codes() -> String {
    let mut page = "# Exit statuses

| status | meaning |
|---|---|
"
    .to_owned();
    let (_, statuses) = exit::HELP.split_once(": ").expect("a list after a colon");
    for status in statuses.trim_end_matches('.').split("; ") {
        let (number, meaning) = status.split_once(' ').expect("a number and its meaning");
        page.push_str(&row(&[number, meaning]));
    }
    page.push_str("\nSome commands have statuses of their own:\n\n| command | status |\n|---|---|\n");
    let mut root = Cli::command();
    root.build();
    own_statuses(&mut page, &root);
    page.push_str("\nWith `--json` the standard error has JSON objects alone, each on a line of its own. An error is\n\
         `{\"error\": {\"message\": …, \"exit_status\": …}}`. A warning has `warning`, a line of the log `log`, the\n\
         progress of a benchmark `progress`, each with its `message`.\n\n\
         If the service refused the command, the error also has `problem`: the body of the [API's\n\
         refusal](api.md#errors). `type` says what kind of refusal it is, `forceable` whether `--force` helps,\n\
         `differs` in which properties an existing object is different.\n",
    );
    page
}

fn own_statuses(page: &mut String, command: &Command) {
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let own = help.split("\n\n").find(|paragraph| paragraph.starts_with("Exit status"));
    if let Some(own) = own.filter(|_| command.get_name() != "plimsoll") {
        let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
        page.push_str(&row(&[&format!("`{name}`"), &cell(own.trim_start_matches("Exit status:"))]));
    }
    children(command).for_each(|child| own_statuses(page, child));
}
