//! `plimsoll operation …`: the record of changes, and long operations.

use super::connection::{Reach, Session};
use super::limits::stored;
use super::table::{Cell, Facts, Table};
use crate::number::whole;
use crate::terminal::Tone;
use anyhow::bail;
use api_client::model::{Operation, Progress};
use clap::{Args, Subcommand};
use std::thread::sleep;
use std::time::Duration;

/// The time between two questions whether an operation has ended.
const POLL: Duration = Duration::from_millis(200);

/// Show the record of changes, and cancel long operations.
#[derive(Debug, Args)]
pub(crate) struct OperationArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the latest changes, the newest first.
    #[command(visible_alias = "ls")]
    List {
        /// Greatest number of changes to list
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<usize>(1..))]
        limit: usize,
    },
    /// Show a change.
    Show {
        /// Number of the change
        #[arg(value_parser = whole::<u64>(1..))]
        id: u64,
    },
    /// End a long operation at its next step.
    #[command(after_help = "Example:
  plimsoll operation cancel 17

A deletion that has not begun is undone. One that has begun stays unfinished: delete again to go on.")]
    Cancel {
        /// Number of the operation
        #[arg(value_parser = whole::<u64>(1..))]
        id: u64,
    },
    /// Wait until an operation ends. Fails if the operation failed or was cancelled.
    #[command(after_help = "Example:\n  plimsoll operation wait 17")]
    Wait {
        /// Number of the operation
        #[arg(value_parser = whole::<u64>(1..))]
        id: u64,
    },
}

pub(crate) fn run(args: OperationArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::List { limit } => {
            let operations = session.ask(|client| client.operations(limit))?;
            session.show_all(operations, |operations| {
                let heads = [">ID", "STARTED", "BY", "WHAT", "OUTCOME", "DETAIL"];
                let mut table = Table::new(&heads).folding(&["DETAIL"]).leaving_out(&["BY", "DETAIL"]);
                for operation in operations {
                    table.row([
                        operation.id.to_string().into(),
                        second(&operation.started.0).into(),
                        Cell::from(&operation.actor),
                        what(operation).into(),
                        outcome(operation),
                        Cell::from(&operation.detail),
                    ]);
                }
                Ok(table.or("Nothing has been changed yet.", session.columns()))
            })
        }
        Command::Show { id } => {
            let operation = session.ask(|client| client.operation(id))?;
            session.show(&operation, |operation| Ok(described(operation).fit(session.columns())))
        }
        Command::Cancel { id } => {
            let operation = session.ask(|client| client.cancel_operation(id))?;
            session.show(&operation, |operation| {
                Ok(match operation.outcome.as_str() {
                    "cancelled" => format!("Cancelled operation {id}.\n"),
                    _ => format!("Operation {id} ends at its next step.\n"),
                })
            })
        }
        Command::Wait { id } => {
            let operation = wait(&session, id)?;
            session.show(&operation, |operation| Ok(described(operation).fit(session.columns())))
        }
    }
}

/// Waits until an operation ends. An error if it has not succeeded.
pub(super) fn wait(session: &Session, id: u64) -> anyhow::Result<Operation> {
    loop {
        let now = session.ask(|client| client.operation(id))?;
        match (now.outcome.as_str(), &now.reason) {
            ("running", _) => sleep(POLL),
            ("failed", Some(reason)) => bail!("operation {id} failed ({}): {reason}", what(&now)),
            ("cancelled", _) => bail!("operation {id} was cancelled ({})", what(&now)),
            _ => return Ok(now),
        }
    }
}

fn what(of: &Operation) -> String {
    format!("{} {} {}", of.verb, of.kind, of.name)
}

fn outcome(of: &Operation) -> Cell {
    let tone = match of.outcome.as_str() {
        "succeeded" => Tone::Plain,
        "failed" => Tone::Bad,
        _ => Tone::Warning,
    };
    Cell::from(&of.outcome).tone(tone)
}

/// A timestamp without its fraction of a second.
pub(super) fn second(moment: &str) -> String {
    moment.split('.').next().unwrap_or(moment).replace('T', " ")
}

fn progress(of: &Progress) -> String {
    let amount = |of_unit: u64, unit: &str| match unit {
        "bytes" => stored(of_unit),
        unit => format!("{of_unit} {unit}"),
    };
    let unit = of.unit.as_str();
    let mut text = match of.total {
        Some(total) if unit == "bytes" => format!("{} of {}", stored(of.done), stored(total)),
        Some(total) => format!("{} of {total} {unit}", of.done),
        None => amount(of.done, unit),
    };
    if let Some(speed) = of.per_second {
        text += &format!(", {} per second", amount(speed, unit));
    }
    if let Some(left) = of.seconds_left {
        text += &format!(", {left} s left");
    }
    text
}

fn described(of: &Operation) -> Facts {
    let mut facts = Facts::default();
    facts.add("Operation", of.id);
    facts.add("What", what(of));
    facts.maybe("Detail", Some(&of.detail).filter(|detail| !detail.is_empty()));
    facts.add("By", &of.actor);
    facts.add_cell("Outcome", outcome(of));
    facts.maybe("Reason", of.reason.as_ref());
    facts.maybe("Progress", of.progress.as_ref().map(progress));
    facts.maybe("Cancel", of.cancel_requested.then_some("requested"));
    facts.add("Started", &of.started);
    facts.maybe("Ended", of.ended.as_ref());
    facts
}
