//! `plimsoll status` and `plimsoll warning list`: the state of the service.

use super::connection::{Reach, Session, advice};
use super::limits::room;
use super::table::{Cell, Facts, Table};
use crate::terminal::{Tone, fold, printable};
use api_client::model::{Nfs, Smb, V3Locks, Version, Warning};
use clap::{Args, Subcommand};
use serde::Serialize;

/// The arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  plimsoll status")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    reach: Reach,
}

/// Show the warnings of the service.
#[derive(Debug, Args)]
pub(crate) struct WarningArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the warnings: conditions that may be unexpected, but are not errors.
    #[command(visible_alias = "ls")]
    List,
}

/// The prefix of a warning.
const WARNING: &str = "warning: ";

/// The state of a service, collected from several replies.
#[derive(Serialize)]
struct Status {
    url: String,
    version: Version,
    nfs: Nfs,
    smb: Smb,
    is_ready: bool,
    /// The progress of the recount of used space after a crash; `None` if there is no recount.
    #[serde(skip_serializing_if = "Option::is_none")]
    counting: Option<String>,
    pools: usize,
    pools_bytes: u64,
    volumes: usize,
    volumes_bytes: u64,
    clients: usize,
    warnings: Vec<Warning>,
}

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    let status = gather(&session)?;
    session.show(&status, |status| {
        let mut facts = Facts::default();
        facts.add("Service", format!("{}, version {}", status.url, status.version.version));
        if let (Some(endpoint), Some(gateway)) = (&status.version.endpoint, &status.version.gateway) {
            facts.add("Endpoint", format!("{endpoint}, at the gateway {gateway}"));
        }
        let protocols: Vec<&str> = status.nfs.protocols.iter().map(|protocol| protocol.as_str()).collect();
        facts.add("NFS", format!("{}: {}", status.nfs.address, protocols.join(", ")));
        facts.add("NFSv3 locks", locks(&status.nfs.v3_locks));
        match &status.smb.address {
            Some(address) => facts.add(
                "SMB",
                format!("{address}: {} sessions, {} open files", status.smb.sessions, status.smb.open_files),
            ),
            None => facts.add("SMB", "not served: see --smb-listen of \"plimsoll serve\""),
        }
        match status.is_ready {
            true => facts.add("Ready", "yes"),
            false => facts.add_cell("Ready", Cell::from("no: clients cannot mount").tone(Tone::Bad)),
        }
        if let Some(counting) = &status.counting {
            facts.add(
                "Counting",
                format!("{counting}; a volume can be read before it is counted, not changed"),
            );
        }
        facts.add("Pools", format!("{}, {}", status.pools, room(status.pools_bytes)));
        facts.add("Volumes", format!("{}, {}", status.volumes, room(status.volumes_bytes)));
        facts.add("Clients", status.clients);
        let columns = session.columns();
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(WARNING.len()));
        let warnings = status.warnings.iter().map(|warning| {
            let text = fold(&advice(warning), room).join(&format!("\n{:1$}", "", WARNING.len()));
            format!("{}{text}\n", Tone::Warning.paint(WARNING))
        });
        Ok(facts.fit(columns) + &warnings.collect::<String>())
    })
}

/// Whether NFSv3 clients can lock files, in words.
fn locks(of: &V3Locks) -> String {
    match &of.reason {
        None => "clients find them through the port mapper on port 111".to_owned(),
        Some(why) => format!("out of reach, mount with nolock: {}", printable(why)),
    }
}

fn gather(session: &Session) -> anyhow::Result<Status> {
    let pools = session.ask(|client| client.pools())?;
    let volumes = session.ask(|client| client.volumes())?;
    let readiness = session.ask(|client| Ok(client.readiness()))?;
    Ok(Status {
        url: session.url().to_owned(),
        version: session.ask(|client| client.version())?,
        nfs: session.ask(|client| client.nfs())?,
        smb: session.ask(|client| client.smb())?,
        is_ready: readiness.is_ok(),
        counting: readiness.ok().flatten(),
        pools: pools.len(),
        pools_bytes: pools.iter().fold(0, |sum, pool| pool.size_bytes.saturating_add(sum)),
        volumes: volumes.len(),
        volumes_bytes: volumes.iter().fold(0, |sum, volume| volume.size_bytes.saturating_add(sum)),
        clients: session.ask(|client| client.clients())?.len(),
        warnings: session.ask(|client| client.warnings())?,
    })
}

pub(crate) fn list(args: WarningArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    let Command::List = args.command;
    let warnings = session.ask(|client| client.warnings())?;
    session.show_all(warnings, |warnings| {
        let mut table = Table::new(&["KIND", "WARNING"]).folding(&["WARNING"]);
        warnings.iter().for_each(|warning| table.row([warning.kind.clone(), advice(warning)]));
        Ok(table.or("No warnings.", session.columns()))
    })
}
