//! `plimsoll peer …`: other services, for replications between them.

use super::connection::{Reach, Session, VersionArgs, YesArgs, check_change};
use super::names;
use super::table::{Cell, Facts, Table};
use api_client::Tagged;
use api_client::model::{NewPeer, Peer, PeerPatch};
use clap::{Args, Subcommand};

/// Manage peers: other services, for replications between them.
#[derive(Debug, Args)]
#[command(after_help = "\
Two services know each other by their keys, which the operator tells each of them: \"plimsoll peer key\" shows one. The service \
with the source listens (\"plimsoll serve --replication-listen\"), and the one with the destination connects, so only the latter \
needs an address. All connections are encrypted, and other keys are refused.")]
pub(crate) struct PeerArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the key of this service, for its peers.
    #[command(after_help = "Example:\n  plimsoll peer key")]
    Key,
    /// Create a peer. Does nothing if it exists with these properties.
    #[command(after_help = "Examples:
  plimsoll peer create site-a --key $KEY --address site-a.example.org:2052
  plimsoll peer create site-b --key $KEY")]
    Create {
        /// Name of the peer here
        name: String,
        /// The key that \"plimsoll peer key\" shows there
        #[arg(long)]
        key: String,
        /// Host and port of its listener for replications; needed for sources there [default: none]
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
    },
    /// List the peers.
    #[command(visible_alias = "ls")]
    List,
    /// Show a peer.
    Show(Named),
    /// Change the key or the address of a peer.
    #[command(after_help = "Examples:
  plimsoll peer update site-a --address 10.2.0.7:2052
  plimsoll peer update site-a --key $KEY")]
    Update {
        #[command(flatten)]
        of: Named,
        /// The key that it has now. Connections with another one end
        #[arg(long)]
        key: Option<String>,
        /// Host and port of its listener for replications
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
        /// No address
        #[arg(long, conflicts_with = "address")]
        no_address: bool,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Delete a peer without replications and authorizations. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Example:\n  plimsoll peer delete site-a --yes")]
    Delete {
        #[command(flatten)]
        of: Named,
        #[command(flatten)]
        yes: YesArgs,
        #[command(flatten)]
        version: VersionArgs,
    },
}

#[derive(Debug, Args)]
struct Named {
    /// The peer
    #[arg(add = names::peers())]
    name: String,
}

pub(crate) fn run(args: PeerArgs) -> anyhow::Result<()> {
    let open = || args.reach.open();
    match args.command {
        Command::Key => {
            let session = open()?;
            let key = session.ask(|client| client.service_key())?;
            session.show(&key, |key| Ok(format!("{}\n", key.key)))
        }
        Command::Create { name, key, address } => {
            let session = open()?;
            let made = session.ask(|client| {
                client.create_peer(&NewPeer {
                    name: name.clone(),
                    key: key.clone(),
                    address: address.clone(),
                })
            })?;
            session.show(&made.value, |peer| {
                Ok(match made.is_new {
                    true => format!("Created peer {}\n", line(peer)),
                    false => format!("Exists already, unchanged: peer {}\n", line(peer)),
                })
            })
        }
        Command::List => list(&open()?),
        Command::Show(of) => show(&open()?, &of.name),
        Command::Update { of, key, address, no_address, version } => {
            let address = if no_address { Some(None) } else { address.map(Some) };
            let patch = PeerPatch { key, address };
            check_change(&patch)?;
            let session = open()?;
            let changed = session.ask(|client| client.change_peer(&version.terms(), &of.name, &patch))?;
            session.show(&changed.value, |peer| Ok(format!("Updated peer {}\n", line(peer))))
        }
        Command::Delete { of, yes, version } => {
            yes.confirm(&format!("peer {}", of.name))?;
            let session = open()?;
            let done = session.ask(|client| client.delete_peer(&version.terms(), &of.name))?;
            session.show(&done, |_| Ok(format!("Deleted peer {}.\n", of.name)))
        }
    }
}

/// A peer in a sentence.
fn line(of: &Peer) -> String {
    let address = of.address.as_deref().map_or_else(|| "no address".to_owned(), |at| format!("at {at}"));
    format!("{}: {address}, key {}.", of.name, of.key)
}

fn list(session: &Session) -> anyhow::Result<()> {
    let peers = session.ask(|client| client.peers())?;
    session.show_all(peers, |peers| {
        let mut table = Table::new(&["NAME", "ADDRESS", "KEY"]).folding(&["KEY"]);
        for peer in peers {
            table.row([
                Cell::from(&peer.name),
                Cell::from(peer.address.as_deref().unwrap_or("-").to_owned()),
                Cell::from(&peer.key),
            ]);
        }
        let nothing = "No peers. Create one: plimsoll peer create site-b --key KEY";
        Ok(table.or(nothing, session.columns()))
    })
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let Tagged { value: peer, etag } = session.ask(|client| client.peer(name))?;
    session.show(&peer, |peer| {
        let mut facts = Facts::default();
        facts.add("Name", &peer.name);
        facts.add("Key", &peer.key);
        facts.add("Address", peer.address.as_deref().unwrap_or("none"));
        facts.add("Created", &peer.created);
        facts.add("Changed", &peer.changed);
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}
