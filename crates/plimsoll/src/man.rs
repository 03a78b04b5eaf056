//! Manual pages, one a command, from the same declarations as the commands.

use crate::{exit, output};
use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use stable::files;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  plimsoll man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Directory to write plimsoll.1, plimsoll-volume.1, plimsoll-volume-create.1 and so on to; it is created if needed
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Writes a page for each command.
pub(crate) fn man(commands: Command, args: &ManArgs) -> anyhow::Result<()> {
    let dir = &args.dir;
    files::make_dirs(dir, files::PUBLIC_DIR)
        .with_context(|| format!("cannot create the directory {}", dir.display()))?;
    let mut commands = commands.disable_help_subcommand(true);
    commands.build();
    write_pages(&commands, None, dir)
}

fn write_pages(command: &Command, parent: Option<&Command>, dir: &Path) -> anyhow::Result<()> {
    output::write(&dir.join(format!("{}.1", name(command))), page(command, parent)?)?;
    children(command).try_for_each(|child| write_pages(child, Some(command), dir))
}

/// `plimsoll-volume-create`
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn children(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|child| !child.is_hide_set())
}

fn page(command: &Command, parent: Option<&Command>) -> anyhow::Result<Vec<u8>> {
    // The pages have the text of options, too, that the short help leaves out.
    let man = Man::new(command.clone().mut_args(|arg| arg.hide_short_help(false)))
        .source(concat!("plimsoll ", env!("CARGO_PKG_VERSION")))
        .manual("Plimsoll manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // Long words, such as the usage of an option, cannot be spread to both margins.
    Roff::new().control("ad", ["l"]).to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    if children(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    man.render_options_section(&mut page)?;
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    further(&help).to_writer(&mut page)?;
    see_also(command, parent).to_writer(&mut page)?;
    page.flush()?;
    Ok(page)
}

/// The usage of the help.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for line in usage.trim_start_matches("Usage: ").lines() {
        roff.text([roman(line.trim())]);
        roff.control("br", []);
    }
    roff
}

/// The sections of the help below the flags. Indented lines are examples, with the line before them. All else are notes,
/// except the exit status.
fn further(help: &str) -> Roff {
    const STATUS: &str = "Exit status: ";
    let (mut examples, mut notes, mut status) = (Vec::new(), Vec::new(), exit::HELP);
    for paragraph in help.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        match paragraph.starts_with(STATUS) {
            true => status = paragraph,
            false if paragraph.lines().any(|line| line.starts_with("  ")) => examples.push(paragraph),
            false => notes.push(paragraph),
        }
    }
    let mut roff = Roff::new();
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for paragraph in examples {
        roff.control("PP", []);
        roff.control("nf", []);
        let lines = paragraph.lines().filter(|line| !["Example:", "Examples:"].contains(line));
        lines.for_each(|line| _ = roff.text([roman(line)]));
        roff.control("fi", []);
    }
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for paragraph in notes {
        roff.control("PP", []);
        paragraph.lines().for_each(|line| _ = roff.text([roman(line)]));
    }
    roff.control("SH", ["EXIT STATUS"]);
    for line in status.trim_start_matches(STATUS).lines() {
        roff.text([roman(line)]);
    }
    roff
}

/// The command that this one belongs to, those that belong to it too, and those that belong to this one.
fn see_also(command: &Command, parent: Option<&Command>) -> Roff {
    let siblings = parent.into_iter().flat_map(children).filter(|one| one.get_name() != command.get_name());
    let others: Vec<&Command> = parent.into_iter().chain(children(command)).chain(siblings).collect();
    let mut line: Vec<Inline> = Vec::new();
    for other in others {
        let comma = if line.is_empty() { "" } else { ", " };
        line.extend([roman(comma), bold(name(other)), roman("(1)")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(line);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    fn check(command: &Command, parent: Option<&Command>) {
        let page = String::from_utf8(page(command, parent).unwrap()).unwrap().replace(r"\-", "-");
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let help = argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string);
            let first =
                help.as_deref().and_then(|help| help.split(['\n', '\'', '\\']).next()).unwrap_or_default();
            assert!(!first.is_empty() && page.contains(first), "{}: {argument:?}", name(command));
        }
        children(command).for_each(|child| check(child, Some(command)));
    }

    #[test]
    fn pages_have_the_text_of_every_option() {
        let mut commands = Cli::command().disable_help_subcommand(true);
        commands.build();
        check(&commands, None);
    }
}
