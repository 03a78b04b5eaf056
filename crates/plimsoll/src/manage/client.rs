//! `plimsoll client …`: the connected clients, and a check of this host as a client.

use super::client_check::{self, CheckArgs};
use super::connection::Reach;
use super::table::Table;
use api_client::model::{ConnectedClient, Nfs4Client};
use clap::Subcommand;
use std::process::ExitCode;

/// Linux renews its lease every two thirds of the lease time; a longer silence is shown.
const SILENT_S: u64 = 60;

/// Commands about NFS clients.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the connected clients, with their connections, the addresses they reached, and the volumes they used.
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Check this host, and a mount on it, against the providers' recommendations for clients. Changes nothing, and needs no running service.
    #[command(after_help = "Examples:
  plimsoll client check
  plimsoll client check /mnt --provider anf --eda

Exit status: 0 if nothing is lacking, 3 if something is; 1 and 2 as with all commands.")]
    Check(CheckArgs),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List { reach } => list(&reach).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => client_check::run(&args),
    }
}

fn list(reach: &Reach) -> anyhow::Result<()> {
    let session = reach.open()?;
    let clients = session.ask(|client| client.clients())?;
    session.show_all(clients, |clients| {
        let heads =
            ["ADDRESS", ">CONNECTIONS", "XPRTSEC", ">SINCE", ">WAITING", "REACHED AT", "VOLUMES", "NFSV4"];
        let mut table = Table::new(&heads).folding(&["REACHED AT", "VOLUMES", "NFSV4"]);
        for client in clients {
            let reached = client.endpoints.iter().map(|at| format!("{} ({})", at.address, at.connections));
            let volumes = client.volumes.iter().map(|used| format!("{} ({})", used.name, used.connections));
            table.row([
                client.address.clone(),
                client.connections.to_string(),
                protection(client),
                ago(client.connected_seconds),
                client.waiting_calls.to_string(),
                reached.collect::<Vec<_>>().join(", "),
                volumes.collect::<Vec<_>>().join(", "),
                client.nfs4_clients.iter().map(nfs4).collect::<Vec<_>>().join("; "),
            ]);
        }
        Ok(table.or("No client is connected.", session.columns()))
    })
}

/// The protection of a client's connections, in the words of the mount option `xprtsec`.
/// Connections that differ are counted.
fn protection(client: &ConnectedClient) -> String {
    let (all, encrypted, verified) =
        (client.connections, client.encrypted_connections, client.verified_connections);
    let of = [
        ("none", all.saturating_sub(encrypted)),
        ("tls", encrypted.saturating_sub(verified)),
        ("mtls", verified),
    ];
    let present = of.iter().filter(|(_, count)| *count > 0);
    let shown = present.map(|(word, count)| match *count {
        count if count == all => (*word).to_owned(),
        count => format!("{word} ({count})"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The state that an NFSv4 client holds, in words.
fn nfs4(client: &Nfs4Client) -> String {
    let versions: Vec<&str> =
        client.protocols.iter().map(|name| name.as_str().trim_start_matches("nfsv")).collect();
    let counted = |count: u64, what: &str| {
        let several = if count == 1 { "" } else { "s" };
        format!("{count} {what}{several}")
    };
    let parts = [
        (client.sessions > 0).then(|| counted(client.sessions, "session")),
        (client.slots > 0).then(|| counted(client.slots, "slot")),
        Some(format!("{} open", client.open_files)),
        Some(counted(client.locked_ranges, "lock")),
        Some(counted(client.delegations, "delegation")),
        (client.silent_seconds >= SILENT_S).then(|| format!("silent for {}", ago(client.silent_seconds))),
    ];
    format!("{}: {}", versions.join("/"), parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
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
    use api_client::model::Protocol;

    #[test]
    fn protection_of_connections_that_differ_is_counted() {
        let of = |connections, encrypted_connections, verified_connections| {
            protection(&ConnectedClient {
                address: String::new(),
                connections,
                connected_seconds: 0,
                encrypted_connections,
                verified_connections,
                waiting_calls: 0,
                endpoints: Vec::new(),
                volumes: Vec::new(),
                nfs4_clients: Vec::new(),
            })
        };
        assert_eq!([of(2, 0, 0), of(2, 2, 0), of(4, 4, 4)], ["none", "tls", "mtls"]);
        assert_eq!(of(4, 3, 1), "none (1), tls (2), mtls (1)");
    }

    #[test]
    fn nfs4_client_is_described_by_versions_sessions_and_state() {
        let client = Nfs4Client {
            name: "Linux".into(),
            protocols: vec![Protocol::NfsV41, Protocol::NfsV42],
            sessions: 2,
            slots: 128,
            open_files: 1,
            locked_ranges: 1,
            delegations: 0,
            silent_seconds: 3,
        };
        assert_eq!(nfs4(&client), "4.1/4.2: 2 sessions, 128 slots, 1 open, 1 lock, 0 delegations");
        let old = Nfs4Client {
            protocols: vec![Protocol::NfsV40],
            sessions: 0,
            slots: 0,
            silent_seconds: 90,
            ..client
        };
        assert_eq!(nfs4(&old), "4.0: 1 open, 1 lock, 0 delegations, silent for 1 min 30 s");
    }

    #[test]
    fn times_have_two_units() {
        let texts = [59, 60, 3661, 90_000].map(ago);
        assert_eq!(texts, ["59 s", "1 min 0 s", "1 h 1 min", "1 d 1 h"]);
    }
}
