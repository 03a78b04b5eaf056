//! `plimsoll clone …`: volumes made from snapshots.

use super::connection::{Reach, Session};
use super::limits::size;
use super::names;
use super::operation::wait;
use super::table::{Cell, Table};
use super::words::Label;
use api_client::ChangeOptions;
use api_client::model::{NewClone, Volume};
use clap::{Args, Subcommand};
use envelope::Bytes;

/// Make volumes from snapshots.
#[derive(Debug, Args)]
#[command(after_help = "\
A clone is a volume of its own: it depends neither on the snapshot nor on the volume that it was made from, and there is nothing to \
split. Its size counts in full. On Btrfs and XFS both share the storage of what neither has changed.
Use \"plimsoll volume …\" to show, change and delete it.")]
pub(crate) struct CloneArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a volume with the files of a snapshot, and wait for it. Does nothing if the same clone exists.
    #[command(after_help = "Examples:
  plimsoll clone create v1 before-upgrade v1-test
  plimsoll clone create v1 before-upgrade v1-test --pool p2 --size 2TiB

The new volume has the protocols, rules and other settings of the old one, but no policy, quotas or snapshots.
While the clone is made, the snapshot cannot be deleted.")]
    Create(Create),
    /// List the volumes that were made from snapshots.
    #[command(visible_alias = "ls")]
    List,
}

#[derive(Debug, Args)]
struct Create {
    /// The volume of the snapshot
    #[arg(add = names::volumes())]
    volume: String,
    /// The snapshot
    #[arg(add = names::snapshots())]
    snapshot: String,
    /// Name of the new volume
    name: String,
    /// Pool that provides the capacity [default: that of the volume]
    #[arg(long, add = names::pools())]
    pool: Option<String>,
    /// Size, at least that of the volume then [default: the greater of its sizes now and then]
    #[arg(long)]
    size: Option<Bytes>,
    /// Last part of the path that clients mount [default: the new volume's name]
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// Label to attach, repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Make the clone even if the pool is then overbooked
    #[arg(long)]
    force: bool,
    /// Do not wait until clients can mount the new volume
    #[arg(long)]
    no_wait: bool,
}

pub(crate) fn run(args: CloneArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::Create(args) => create(&session, args),
        Command::List => list(&session),
    }
}

fn create(session: &Session, args: Create) -> anyhow::Result<()> {
    let new = NewClone {
        name: args.name.clone(),
        pool: args.pool,
        size_bytes: args.size.map(|size| size.0),
        share: args.share,
        labels: args.label.into_iter().map(|Label(key, value)| (key, value)).collect(),
    };
    let terms = ChangeOptions::none().forced(args.force);
    let begun = session.ask(|client| client.clone_volume(&terms, &args.volume, &args.snapshot, &new))?;
    if args.no_wait {
        return session.show(&begun, |begun| {
            Ok(format!("Making volume {}. Wait for it: plimsoll operation wait {}\n", args.name, begun.id))
        });
    }
    let is_new = begun.outcome == "running";
    wait(session, begun.id)?;
    let volume = session.ask(|client| client.volume(&args.name))?.value;
    session.show(&volume, |volume| {
        let done = if is_new { "Created volume" } else { "Exists already, unchanged: volume" };
        let commands = session.mount_commands(volume, "")?.join("\n  ");
        let Volume { name, size_bytes, pool, .. } = volume;
        let line = format!("{name}: {} in pool {pool}, from {}.", size(*size_bytes), origin(volume));
        Ok(format!("{done} {line}\nMount as root, with one of:\n  {commands}\n"))
    })
}

fn origin(of: &Volume) -> &str {
    of.clone_of.as_deref().unwrap_or_default()
}

fn list(session: &Session) -> anyhow::Result<()> {
    let mut volumes = session.ask(|client| client.volumes())?;
    volumes.retain(|volume| volume.clone_of.is_some());
    session.show_all(volumes, |volumes| {
        let mut table =
            Table::new(&["NAME", "FROM", "POOL", ">SIZE", "STATE"]).leaving_out(&["STATE", "POOL"]);
        for volume in volumes {
            table.row([
                Cell::from(&volume.name),
                Cell::from(origin(volume)),
                Cell::from(&volume.pool),
                size(volume.size_bytes).into(),
                volume.state.to_string().into(),
            ]);
        }
        let nothing = "No clones. Create one: plimsoll clone create VOLUME SNAPSHOT NAME";
        Ok(table.or(nothing, session.columns()))
    })
}
