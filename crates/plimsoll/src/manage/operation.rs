//! `plimsoll operation …`: the record of changes.

use super::connection::Reach;
use super::table::{Cell, Facts, Table};
use crate::number::whole;
use crate::terminal::Tone;
use api_client::model::Operation;
use clap::{Args, Subcommand};

/// Show the record of changes.
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

fn described(of: &Operation) -> Facts {
    let mut facts = Facts::default();
    facts.add("Operation", of.id);
    facts.add("What", what(of));
    facts.maybe("Detail", Some(&of.detail).filter(|detail| !detail.is_empty()));
    facts.add("By", &of.actor);
    facts.add_cell("Outcome", outcome(of));
    facts.maybe("Reason", of.reason.as_ref());
    facts.add("Started", &of.started);
    facts.maybe("Ended", of.ended.as_ref());
    facts
}
