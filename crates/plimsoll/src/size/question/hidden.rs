//! Flags that work and that a help text does not repeat.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::Question;
use crate::manage::ServiceArgs;
use crate::shell::quoted;

/// The line that the help of a subcommand ends with.
pub(in crate::size) const ELSEWHERE: &str = "The flags of the workload: plimsoll size --help";

/// A question with flags that the help does not repeat, except those of the service if `SERVICE`.
#[derive(Debug)]
pub(in crate::size) struct HiddenQuestion<const SERVICE: bool = false>(pub(in crate::size) Question);

impl<const SERVICE: bool> FromArgMatches for HiddenQuestion<SERVICE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Question::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<const SERVICE: bool> Args for HiddenQuestion<SERVICE> {
    fn augment_args(command: Command) -> Command {
        let service = ServiceArgs::augment_args(Command::new("service"));
        let shown = command.get_arguments().chain(service.get_arguments().filter(|_| SERVICE));
        let shown: Vec<_> = shown.map(|arg| arg.get_id().clone()).collect();
        Question::augment_args(command)
            .mut_args(|arg| if shown.contains(arg.get_id()) { arg } else { arg.hide(true) })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flags of a question in the order of the command line, to ask it again.
#[derive(Debug)]
pub(in crate::size) struct GivenFlags(String);

impl GivenFlags {
    /// A command of `plimsoll size` with the same question, ready for a shell.
    pub(in crate::size) fn command(&self, verb: &str, more: &str) -> String {
        let words = ["plimsoll size", verb, &self.0, more];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl FromArgMatches for GivenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut words: Vec<(usize, String)> = Vec::new();
        for arg in Question::augment_args(Command::new("question")).get_arguments() {
            let (id, long) = (arg.get_id().as_str(), arg.get_long().unwrap_or_default());
            let is_given = matches.try_contains_id(id).unwrap_or_default()
                && matches.value_source(id) == Some(ValueSource::CommandLine);
            if !is_given {
                continue;
            }
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_raw(id).into_iter().flatten();
            for (place, value) in places.zip(values) {
                let value = quoted(&value.to_string_lossy()).into_owned();
                let has_value = arg.get_action().takes_values();
                words
                    .push((place, if has_value { format!("--{long} {value}") } else { format!("--{long}") }));
            }
        }
        words.sort();
        Ok(Self(words.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(" ")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for GivenFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// Flags that the long help alone lists.
#[derive(Debug)]
pub(in crate::size) struct LongHelp<T>(pub(in crate::size) T);

impl<T: FromArgMatches> FromArgMatches for LongHelp<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for LongHelp<T> {
    fn augment_args(command: Command) -> Command {
        let shown: Vec<_> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
        T::augment_args(command)
            .mut_args(|arg| if shown.contains(arg.get_id()) { arg } else { arg.hide_short_help(true) })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
