//! `plimsoll snapshot revert` and `plimsoll snapshot restore`: the ways back to a snapshot.

use super::connection::{Session, VersionArgs, YesArgs};
use super::operation::{second, wait};
use super::snapshot::Named;
use api_client::model::{Operation, Restore, Snapshot};
use clap::Args;

/// Newer snapshots that a question names.
const NAMED_MAX: usize = 8;

#[derive(Debug, Args)]
pub(super) struct RevertArgs {
    #[command(flatten)]
    of: Named,
    #[command(flatten)]
    yes: YesArgs,
    /// Revert even if the pool is then overbooked, because the volume gets its larger size of then
    #[arg(long)]
    force: bool,
    /// Do not wait for the end of the revert
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    version: VersionArgs,
}

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    of: Named,
    /// Files to restore, at most 10, by their paths from the root of the volume on
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Directory for the files, which must exist [default: each goes to its own place]
    #[arg(long, value_name = "DIR")]
    to: Option<String>,
    /// Do not wait for the end of the restore
    #[arg(long)]
    no_wait: bool,
}

pub(super) fn revert(session: &Session, args: RevertArgs) -> anyhow::Result<()> {
    let Named { volume, name } = &args.of;
    let target = session.ask(|client| client.snapshot(volume, name))?.value;
    let mut newer = session.ask(|client| client.snapshots(volume))?;
    newer.retain(|one| one.created > target.created);
    newer.sort_by(|one, other| one.created.cmp(&other.created));
    args.yes.confirm(&lost(&target, &newer))?;
    let terms = args.version.terms().forced(args.force);
    let begun = session.ask(|client| client.revert(&terms, volume, name))?;
    if args.no_wait {
        let id = begun.id;
        let said = format!(
            "Reverting volume {volume} to snapshot {name}. Wait for it: plimsoll operation wait {id}\n"
        );
        return session.show(&begun, |_| Ok(said));
    }
    let ended = wait(session, begun.id)?;
    session.show(&ended, |_| {
        let time = second(&target.created.0);
        Ok(format!("Reverted volume {volume} to snapshot {name} of {time} UTC.\n"))
    })
}

/// The losses of a revert, in words.
fn lost(target: &Snapshot, newer: &[Snapshot]) -> String {
    let changes = format!("all changes of volume {} since {} UTC", target.volume, second(&target.created.0));
    let named: Vec<&str> = newer.iter().take(NAMED_MAX).map(|one| one.name.as_str()).collect();
    let others = newer.len() - named.len();
    let named = named.join(", ");
    match (newer.len(), others) {
        (0, _) => changes,
        (1, _) => format!("{changes}, and the newer snapshot {named},"),
        (all, 0) => format!("{changes}, and {all} newer snapshots ({named})"),
        (all, others) => format!("{changes}, and {all} newer snapshots ({named} and {others} more)"),
    }
}

pub(super) fn restore(session: &Session, args: RestoreArgs) -> anyhow::Result<()> {
    let Named { volume, name } = &args.of;
    let files = Restore { paths: args.paths, to: args.to };
    let begun = session.ask(|client| client.restore_files(volume, name, &files))?;
    if args.no_wait {
        let id = begun.id;
        let said = format!("Restoring from snapshot {name}. Wait for it: plimsoll operation wait {id}\n");
        return session.show(&begun, |_| Ok(said));
    }
    let ended: Operation = wait(session, begun.id)?;
    session.show(&ended, |_| {
        let count = files.paths.len();
        let files_word = if count == 1 { "file" } else { "files" };
        let to = files.to.as_ref().map_or_else(String::new, |to| format!(" to {to}"));
        Ok(format!("Restored {count} {files_word} from snapshot {name} of volume {volume}{to}.\n"))
    })
}
