//! The form of an answer, and the option that it selects.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use envelope::{Advice, Choice};

use super::answer;
use super::question::{GivenFlags, LongHelp};
use crate::exit::usage;
use crate::form::Form;
use crate::number::whole;

/// The form of the answer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Shown {
    /// List all options and all skipped levels, each with its reason
    #[arg(long, hide_short_help = true)]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) form: LongHelp<Form>,
    /// Write a page with the recommendation, its costs and a plot
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) option: LongHelp<OptionArg>,
}

/// The selected option.
#[derive(Debug, Args)]
pub(super) struct OptionArg {
    /// Option to show in full, by its number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<usize>(1..))]
    pub(super) option: usize,
}

/// The exit status if no option carries the workload.
pub(super) const NOTHING_FITS: u8 = 3;

/// The choice if no option carries the workload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nothing {
    /// The nearest option.
    Nearest,
    /// No option: an error.
    Refused,
}

impl OptionArg {
    /// The commands that explain and create this option of the question.
    pub(super) fn next(&self, given: &GivenFlags) -> Vec<String> {
        let option = if self.option == 1 { String::new() } else { format!("--option {} ", self.option) };
        let create = format!("{option}--name NAME --allow CLIENT");
        vec![given.command("explain", option.trim_end()), given.command("apply", &create)]
    }

    /// The option with this number.
    pub(super) fn of<'a>(&self, advice: &'a Advice, nothing: Nothing) -> anyhow::Result<&'a Choice> {
        if let Some(choice) = self.option.checked_sub(1).and_then(|index| advice.options.get(index)) {
            return Ok(choice);
        }
        match (advice.options.len(), advice.misses.first()) {
            (0, Some(miss)) if nothing == Nothing::Nearest => Ok(miss),
            (0, Some(miss)) => {
                bail!("nothing carries this workload; {}", answer::missed(miss, &advice.workload))
            }
            (0, None) => {
                let why = advice.left_out.iter().map(|one| format!("{} {}", one.level, one.why));
                bail!("nothing was left to choose from: {}", why.collect::<Vec<_>>().join("; "))
            }
            (count, _) => Err(usage(format!("there is no option {}; allowed: 1 to {count}", self.option))),
        }
    }
}
