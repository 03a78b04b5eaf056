//! `plimsoll snapshot …`: read-only states of a volume.

use super::back::{self, RestoreArgs, RevertArgs};
use super::connection::{Reach, Session, VersionArgs, YesArgs, check_change};
use super::limits::{size, stored};
use super::operation::{second, wait};
use super::table::{Cell, Facts, Table};
use super::{names, words};
use crate::shell::quoted;
use crate::terminal::Tone;
use api_client::Tagged;
use api_client::model::{NewSnapshot, Snapshot, SnapshotDirectory, SnapshotPatch, SnapshotState, Timestamp};
use clap::{Args, Subcommand};

/// Manage snapshots: read-only states of a volume.
#[derive(Debug, Args)]
#[command(after_help = "\
A snapshot takes no space at first. It retains what clients change or delete later, and counts against the size of its \
volume: deleting files that a snapshot has frees nothing.
Users find old files in .snapshot/NAME of every directory (NFS), in ~snapshot\\NAME and in Previous Versions (SMB).
Snapshots need a data directory on Btrfs, or on XFS with reflinks; on other file systems \
\"plimsoll serve --snapshots copy\", which copies each 4 KiB at its first change.")]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a snapshot with every acknowledged change. Does nothing if it exists with these properties.
    #[command(after_help = "Examples:
  plimsoll snapshot create v1
  plimsoll snapshot create v1 before-upgrade --description \"Version 4 is next\"
  plimsoll snapshot create v1 audit --lock-until 2027-01-31

Nobody can delete a locked snapshot, or its volume, before the lock ends.")]
    Create {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
        /// Name of the snapshot [default: the time, as in manual-2026-11-29-235500]
        name: Option<String>,
        /// Text to attach
        #[arg(long, value_name = "TEXT", default_value_t)]
        description: String,
        /// End of the lock, in UTC, like 2027-01-31 or 2027-01-31T09:00:00Z
        #[arg(long, value_name = "TIME", value_parser = words::time)]
        lock_until: Option<Timestamp>,
    },
    /// List the snapshots of a volume, the oldest first.
    #[command(visible_alias = "ls")]
    List {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
    },
    /// Show a snapshot, with the space that its deletion would free.
    Show(Named),
    /// Change the description or the lock of a snapshot. A lock can only be made longer until it ends.
    #[command(after_help = "Examples:
  plimsoll snapshot update v1 before-upgrade --description \"Version 4 works\"
  plimsoll snapshot update v1 audit --lock-until 2028-01-31")]
    Update {
        #[command(flatten)]
        of: Named,
        /// New text
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// New end of the lock, in UTC, like 2027-01-31 or 2027-01-31T09:00:00Z
        #[arg(long, value_name = "TIME", value_parser = words::time)]
        lock_until: Option<Timestamp>,
        /// Remove a lock that has ended
        #[arg(long, conflicts_with = "lock_until")]
        unlock: bool,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Replace the files of a volume with those of a snapshot. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Examples:
  plimsoll snapshot revert v1 before-upgrade
  plimsoll snapshot revert v1 before-upgrade --yes --no-wait

All changes since the snapshot are lost, and all newer snapshots are deleted: create a clone instead to keep both.
Clients wait until the files are back. Their mounts stay; what they have open and locked is lost. If the volume was larger then, it
gets that size again. The revert is an operation of the service, which goes on after a restart.")]
    Revert(RevertArgs),
    /// Restore up to 10 files of a snapshot in its volume.
    #[command(after_help = "Examples:
  plimsoll snapshot restore v1 daily.2026-11-29_0100 reports/2026.ods
  plimsoll snapshot restore v1 daily.2026-11-29_0100 a/1.txt b/2.txt --to restored

Each file comes back with its data, streams, permissions, extended attributes and times. It replaces the file that is there in one
step, for which the volume needs room for both. Programs that have the old file open keep that until they open it again.")]
    Restore(RestoreArgs),
    /// Delete a snapshot, and wait until its space is free. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Examples:
  plimsoll snapshot delete v1 before-upgrade
  plimsoll snapshot delete v1 before-upgrade --yes --no-wait

The deletion is an operation of the service. It goes on if this command ends, and after a restart of the service.")]
    Delete {
        #[command(flatten)]
        of: Named,
        #[command(flatten)]
        yes: YesArgs,
        /// Do not wait for the end of the deletion
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        version: VersionArgs,
    },
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The volume
    #[arg(add = names::volumes())]
    pub(super) volume: String,
    /// The snapshot
    #[arg(add = names::snapshots())]
    pub(super) name: String,
}

pub(crate) fn run(args: SnapshotArgs) -> anyhow::Result<()> {
    let open = || args.reach.open();
    match args.command {
        Command::Create { volume, name, description, lock_until } => {
            create(&open()?, &volume, &NewSnapshot { name, description, locked_until: lock_until })
        }
        Command::List { volume } => list(&open()?, &volume),
        Command::Show(of) => show(&open()?, &of),
        Command::Update { of: Named { volume, name }, description, lock_until, unlock, version } => {
            let locked_until = if unlock { Some(None) } else { lock_until.map(Some) };
            let patch = SnapshotPatch { description, locked_until };
            check_change(&patch)?;
            let session = open()?;
            let changed =
                session.ask(|client| client.change_snapshot(&version.terms(), &volume, &name, &patch))?;
            session.show(&changed.value, |one| Ok(format!("Updated snapshot {}\n", line(one))))
        }
        Command::Revert(args) => back::revert(&open()?, args),
        Command::Restore(args) => back::restore(&open()?, args),
        Command::Delete { of, yes, no_wait, version } => {
            yes.confirm(&format!("snapshot {} of volume {}", of.name, of.volume))?;
            delete(&open()?, &of, &version, no_wait)
        }
    }
}

fn create(session: &Session, volume: &str, new: &NewSnapshot) -> anyhow::Result<()> {
    let made = session.ask(|client| client.create_snapshot(volume, new))?;
    session.show(&made.value, |one| {
        let done = match made.is_new {
            true => "Created snapshot",
            false => "Exists already, unchanged: snapshot",
        };
        let directory = session.ask(|client| client.volume(volume))?.value.snapshot_directory;
        let place = match directory {
            SnapshotDirectory::Hidden => {
                "Clients do not reach it: the volume's snapshot directory is hidden.".to_owned()
            }
            SnapshotDirectory::Reachable | SnapshotDirectory::Listed => {
                format!("Clients find it in .snapshot/{0} (NFS) and ~snapshot\\{0} (SMB).", one.name)
            }
        };
        Ok(format!("{done} {}\n{place}\n", line(one)))
    })
}

/// A snapshot in a sentence.
fn line(one: &Snapshot) -> String {
    let lock = one.locked_until.as_ref();
    let lock = lock.map_or_else(String::new, |until| format!(", locked until {} UTC", second(&until.0)));
    format!("{} of volume {}, of {} UTC{lock}.", one.name, one.volume, second(&one.created.0))
}

fn list(session: &Session, volume: &str) -> anyhow::Result<()> {
    let mut snapshots = session.ask(|client| client.snapshots(volume))?;
    snapshots.sort_by(|one, other| one.created.cmp(&other.created));
    session.show_all(snapshots, |snapshots| {
        let heads = ["NAME", "CREATED (UTC)", "KIND", "STATE", "LOCKED UNTIL", "DESCRIPTION"];
        let table = Table::new(&heads).folding(&["DESCRIPTION"]);
        let mut table = table.leaving_out(&["DESCRIPTION", "KIND", "LOCKED UNTIL"]);
        for one in snapshots {
            table.row([
                Cell::from(&one.name),
                second(&one.created.0).into(),
                one.kind.to_string().into(),
                state(one.state),
                one.locked_until.as_ref().map_or_else(String::new, |until| second(&until.0)).into(),
                Cell::from(&one.description),
            ]);
        }
        let nothing = format!("No snapshots. Create one: plimsoll snapshot create {}", quoted(volume));
        Ok(table.or(&nothing, session.columns()))
    })
}

fn state(of: SnapshotState) -> Cell {
    let tone = match of {
        SnapshotState::Ready => Tone::Plain,
        SnapshotState::Creating | SnapshotState::Deleting => Tone::Warning,
        SnapshotState::Error => Tone::Bad,
    };
    Cell::from(of.to_string()).tone(tone)
}

fn show(session: &Session, Named { volume, name }: &Named) -> anyhow::Result<()> {
    let Tagged { value: one, etag } = session.ask(|client| client.snapshot(volume, name))?;
    session.show(&one, |one| {
        let mut facts = Facts::default();
        facts.add("Snapshot", &one.name);
        facts.add("Volume", &one.volume);
        facts.maybe("Description", Some(&one.description).filter(|text| !text.is_empty()));
        facts.add("Kind", one.kind.to_string());
        facts.add_cell("State", state(one.state));
        facts.maybe("Reason", one.reason.as_ref());
        let own = one.own_bytes.map_or_else(|| "not known by the file system".to_owned(), stored);
        facts.add("Freed by deletion", own);
        facts.maybe("Volume's size", one.volume_size_bytes.map(size));
        facts.add("Created", &one.created);
        facts.maybe("Locked until", one.locked_until.as_ref());
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}

fn delete(session: &Session, of: &Named, version: &VersionArgs, no_wait: bool) -> anyhow::Result<()> {
    let Named { volume, name } = of;
    let begun = session.ask(|client| client.delete_snapshot(&version.terms(), volume, name))?;
    if no_wait {
        return session.show(&begun, |begun| {
            Ok(format!(
                "Deleting snapshot {name} of volume {volume}. Wait for it: plimsoll operation wait {}\n",
                begun.id
            ))
        });
    }
    let ended = wait(session, begun.id)?;
    session.show(&ended, |_| Ok(format!("Deleted snapshot {name} of volume {volume}.\n")))
}
