//! `plimsoll token …`: the tokens for the API.

use super::connection::Reach;
use super::operation::second;
use super::table::Table;
use super::{names, words};
use api_client::model::{NewToken, Role, Secret};
use clap::{Args, Subcommand};

/// Manage tokens, which give access to the API.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token, and print its secret, which cannot be shown again.
    #[command(
        after_help = "Example:\n  (umask 077; plimsoll token create backup --role read > backup.token)"
    )]
    Create {
        /// Name of the token, which also appears in the record of changes
        name: String,
        /// Role of the token
        #[arg(long, value_parser = words::role())]
        role: Role,
    },
    /// List the tokens.
    #[command(visible_alias = "ls")]
    List,
    /// Revoke a token. The service refuses it immediately.
    Revoke {
        /// Name of the token
        #[arg(add = names::tokens())]
        name: String,
    },
}

pub(crate) fn run(args: TokenArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::Create { name, role } => {
            let made = session.ask(|client| client.create_token(&NewToken { name, role }))?;
            // Print nothing else, so that the output can be redirected into a token file.
            session.show(&made, |Secret { secret, .. }| Ok(format!("{secret}\n")))
        }
        Command::List => {
            let tokens = session.ask(|client| client.tokens())?;
            session.show_all(tokens, |tokens| {
                let mut table = Table::new(&["NAME", "ROLE", "CREATED", "LAST USED"]);
                for token in tokens {
                    let used = token.used.as_ref().map_or_else(|| "never".to_owned(), |used| second(&used.0));
                    let created = second(&token.created.0);
                    table.row([token.name.clone(), token.role.to_string(), created, used]);
                }
                Ok(table.or("No tokens.", session.columns()))
            })
        }
        Command::Revoke { name } => {
            let done = session.ask(|client| client.revoke_token(&name))?;
            session.show(&done, |_| Ok(format!("Revoked token {name}.\n")))
        }
    }
}
