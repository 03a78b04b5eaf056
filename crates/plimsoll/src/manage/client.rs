//! `plimsoll client …`: who is connected.

use super::connection::Reach;
use super::table::Table;
use clap::{Args, Subcommand};

/// Machines that are connected over NFS.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the connected clients: their connections, where they have reached the service, and the volumes they have used.
    #[command(visible_alias = "ls")]
    List,
}

/// Does what is asked.
pub(crate) fn run(args: ClientArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    let Command::List = args.command;
    let clients = session.ask(|client| client.clients())?;
    session.show_all(clients, |clients| {
        let heads = ["ADDRESS", ">CONNECTIONS", ">SINCE", ">WAITING", "REACHED AT", "VOLUMES"];
        let mut table = Table::new(&heads).folding(&["REACHED AT", "VOLUMES"]);
        for client in clients {
            let reached = client.endpoints.iter().map(|at| format!("{} ({})", at.address, at.connections));
            let volumes = client.volumes.iter().map(|used| format!("{} ({})", used.name, used.connections));
            table.row([
                client.address.clone(),
                client.connections.to_string(),
                ago(client.connected_seconds),
                client.waiting_calls.to_string(),
                reached.collect::<Vec<_>>().join(", "),
                volumes.collect::<Vec<_>>().join(", "),
            ]);
        }
        Ok(table.or("No client is connected.", session.columns()))
    })
}

/// A time in its two largest units.
fn ago(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days} d {} h", hours % 24),
        () if hours > 0 => format!("{hours} h {} min", minutes % 60),
        () if minutes > 0 => format!("{minutes} min {} s", seconds % 60),
        () => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        let said = [59, 60, 3661, 90_000].map(ago);
        assert_eq!(said, ["59 s", "1 min 0 s", "1 h 1 min", "1 d 1 h"]);
    }
}
