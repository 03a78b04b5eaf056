//! Flags that work and that a help text does not repeat.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::Question;
use crate::manage::ServiceArgs;

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
