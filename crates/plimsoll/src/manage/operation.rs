//! `plimsoll operation …`: who changed what.

use super::connection::Reach;
use super::table::{Facts, Table};
use api::model::Operation;
use clap::{Args, Subcommand};

/// The record of changes.
#[derive(Debug, Args)]
pub(crate) struct OperationArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the last changes, the newest first.
    List {
        /// Changes at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Show a change.
    Show {
        /// Its number
        id: u64,
    },
}

/// Does what is asked.
pub(crate) fn run(args: OperationArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::List { limit } => {
            let operations = session.ask(|client| client.operations(limit))?;
            session.show_all(operations, |operations| {
                let mut table = Table::new(&[">ID", "STARTED", "BY", "WHAT", "OUTCOME", "DETAIL"]);
                for operation in operations {
                    table.row([
                        operation.id.to_string(),
                        second(&operation.started.0),
                        operation.actor.clone(),
                        what(operation),
                        operation.outcome.clone(),
                        operation.detail.clone(),
                    ]);
                }
                Ok(table.or("Nothing was changed yet."))
            })
        }
        Command::Show { id } => {
            let operation = session.ask(|client| client.operation(id))?;
            session.show(&operation, |operation| Ok(described(operation)))
        }
    }
}

fn what(of: &Operation) -> String {
    format!("{} {} {}", of.verb, of.kind, of.name)
}

/// A moment without its fraction.
fn second(moment: &str) -> String {
    moment.split('.').next().unwrap_or(moment).replace('T', " ")
}

fn described(of: &Operation) -> String {
    let mut facts = Facts::default();
    facts.add("Operation", of.id);
    facts.add("What", what(of));
    facts.maybe("Detail", Some(&of.detail).filter(|detail| !detail.is_empty()));
    facts.add("By", &of.actor);
    facts.add("Outcome", &of.outcome);
    facts.maybe("Reason", of.reason.as_ref());
    facts.add("Started", &of.started);
    facts.maybe("Ended", of.ended.as_ref());
    facts.to_string()
}
