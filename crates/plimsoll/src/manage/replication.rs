//! `plimsoll replication …`: volumes that follow other volumes.

use super::connection::{Reach, Session, TermsArgs, VersionArgs, YesArgs, check_change};
use super::limits::stored;
use super::operation::{second, wait};
use super::table::{Cell, Facts, Table};
use super::{authorization, names, words};
use crate::terminal::Tone;
use api_client::Tagged;
use api_client::model::{
    NewReplication, Replication, ReplicationPatch, ReplicationSchedule, ReplicationState,
};
use clap::{Args, Subcommand};

/// Manage replications: volumes that follow other volumes.
#[derive(Debug, Args)]
#[command(after_help = "\
A destination has no files of its own: it follows its source, point after point. Clients read its last complete point. After a \
failure of the source, \"replication break\" makes it writable. The states are those of Google Cloud NetApp Volumes. Both \
volumes need snapshots: Btrfs, XFS with reflinks, or --snapshots copy.")]
pub(crate) struct ReplicationArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let a volume without files follow another one, and start the first transfer. Does nothing if it does so already.
    #[command(after_help = "Examples:
  plimsoll replication create v1-copy --source v1 --schedule hourly
  plimsoll replication create v1 --source v1 --peer site-a --schedule 10minutely

A volume that a peer replicates follows its destination there, if that is stopped and authorized for this service. The volume goes \
back to the last point that both have. If it has changed since, this says what is lost and needs --force.")]
    Create {
        /// The destination: a volume without files, snapshots and policy
        #[arg(add = names::volumes())]
        volume: String,
        /// The volume to follow
        #[arg(long, value_name = "VOLUME", add = names::volumes())]
        source: String,
        /// The service of that volume, which has to authorize it ("plimsoll peer") [default: this one]
        #[arg(long, value_name = "NAME", add = names::peers())]
        peer: Option<String>,
        /// When transfers begin [default: only with \"replication sync\"]
        #[arg(long, value_parser = words::replication_schedule())]
        schedule: Option<ReplicationSchedule>,
        /// Lose the changes of a volume that turns round
        #[arg(long)]
        force: bool,
        /// Do not wait for the end of the first transfer
        #[arg(long)]
        no_wait: bool,
    },
    /// List the replications.
    #[command(visible_alias = "ls")]
    List,
    /// Show a replication: its state, its lag and its last transfer.
    Show(Named),
    /// Change the schedule of a replication.
    #[command(after_help = "Examples:
  plimsoll replication update v1-copy --schedule 10minutely
  plimsoll replication update v1-copy --no-schedule")]
    Update {
        #[command(flatten)]
        of: Named,
        /// When transfers begin
        #[arg(long, value_parser = words::replication_schedule())]
        schedule: Option<ReplicationSchedule>,
        /// Transfer only with \"replication sync\"
        #[arg(long, conflicts_with = "schedule")]
        no_schedule: bool,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Transfer now, and wait for the end.
    #[command(after_help = "Example:\n  plimsoll replication sync v1-copy")]
    Sync {
        #[command(flatten)]
        of: Named,
        /// Do not wait for the end of the transfer
        #[arg(long)]
        no_wait: bool,
    },
    /// Make the destination writable at its last point.
    #[command(after_help = "Examples:
  plimsoll replication break v1-copy
  plimsoll replication break v1-copy --force

While a transfer runs, this needs --force: the transfer is dropped. Stopped before its first point, a replication is aborted; \
\"resume\" goes on with it. Files that clients have open at the destination are closed.")]
    Break(Act),
    /// Let the destination follow its source again, after \"break\".
    #[command(after_help = "Examples:
  plimsoll replication resume v1-copy
  plimsoll replication resume v1-copy --force

The destination goes back to the last point that both volumes have. If it has changed since, this says what is lost and needs \
--force. Without such a point everything is transferred again, which needs --force too.")]
    Resume(Act),
    /// Let the source follow the destination, after \"break\".
    #[command(after_help = "Examples:
  plimsoll replication reverse v1-copy
  plimsoll replication reverse v1-copy --force

The source goes back to the last point that both volumes have. If it has changed since, this says what is lost and needs \
--force. The replication then has the name of the old source. To go back, break and reverse it again.")]
    Reverse(Act),
    /// Let a peer replicate a volume of this service.
    #[command(after_help = "Example:\n  plimsoll replication authorize v1 --peer site-b")]
    Authorize(authorization::Pair),
    /// List what peers may replicate.
    Authorizations,
    /// End the replication of a volume to a peer. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Example:\n  plimsoll replication revoke v1 --peer site-b --yes

The points for the peer are deleted, so that a later replication begins with a full copy.")]
    Revoke(authorization::Revoke),
    /// Delete a replication that is stopped. Both volumes stay. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Example:\n  plimsoll replication delete v1-copy --yes")]
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
    /// The destination
    #[arg(add = names::replications())]
    volume: String,
}

#[derive(Debug, Args)]
struct Act {
    #[command(flatten)]
    of: Named,
    #[command(flatten)]
    terms: TermsArgs,
}

pub(crate) fn run(args: ReplicationArgs) -> anyhow::Result<()> {
    let open = || args.reach.open();
    match args.command {
        Command::Create { volume, source, peer, schedule, force, no_wait } => {
            create(&open()?, &NewReplication { volume, source, peer, schedule }, force, no_wait)
        }
        Command::Authorize(pair) => authorization::authorize(&open()?, pair),
        Command::Authorizations => authorization::list(&open()?),
        Command::Revoke(of) => authorization::revoke(open, of),
        Command::List => list(&open()?),
        Command::Show(of) => show(&open()?, &of.volume),
        Command::Update { of, schedule, no_schedule, version } => {
            let schedule = if no_schedule { Some(None) } else { schedule.map(Some) };
            let patch = ReplicationPatch { schedule };
            check_change(&patch)?;
            let session = open()?;
            let changed =
                session.ask(|client| client.change_replication(&version.terms(), &of.volume, &patch))?;
            session.show(&changed.value, |one| Ok(format!("Updated replication {}\n", line(one))))
        }
        Command::Sync { of, no_wait } => sync(&open()?, &of.volume, no_wait),
        Command::Break(Act { of, terms }) => {
            let session = open()?;
            let begun = session.ask(|client| client.break_replication(&terms.terms(), &of.volume))?;
            let done = match begun.value.operation {
                None => begun,
                Some(operation) => {
                    wait(&session, operation)?;
                    session.ask(|client| client.replication(&of.volume))?
                }
            };
            session.show(&done.value, |one| {
                Ok(match one.state {
                    ReplicationState::Aborted => format!("Stopped replication {}\n", line(one)),
                    _ => format!("Broke replication {}\nThe volume {} is writable.\n", line(one), one.volume),
                })
            })
        }
        Command::Resume(Act { of, terms }) => {
            let session = open()?;
            let done = session.ask(|client| client.resume_replication(&terms.terms(), &of.volume))?;
            session.show(&done.value, |one| Ok(format!("Resumed replication {}\n", line(one))))
        }
        Command::Reverse(Act { of, terms }) => {
            let session = open()?;
            let done = session.ask(|client| client.reverse_replication(&terms.terms(), &of.volume))?;
            session.show(&done.value, |one| Ok(format!("Reversed replication {}\n", line(one))))
        }
        Command::Delete { of, yes, version } => {
            yes.confirm(&format!("replication to volume {}", of.volume))?;
            let session = open()?;
            let done = session.ask(|client| client.delete_replication(&version.terms(), &of.volume))?;
            let text = format!("Deleted replication to volume {}. Both volumes stay.\n", of.volume);
            session.show(&done, |_| Ok(text.clone()))
        }
    }
}

fn create(session: &Session, new: &NewReplication, force: bool, no_wait: bool) -> anyhow::Result<()> {
    let made = session.ask(|client| match force {
        true => client.force_replication(new),
        false => client.create_replication(new),
    })?;
    if let Some(operation) = made.value.operation.filter(|_| made.is_new && !no_wait) {
        wait(session, operation)?;
    }
    let now = session.ask(|client| client.replication(&new.volume))?.value;
    session.show(&now, |one| {
        Ok(match made.is_new {
            true => format!("Created replication {}\n", line(one)),
            false => format!("Exists already, unchanged: replication {}\n", line(one)),
        })
    })
}

fn sync(session: &Session, volume: &str, no_wait: bool) -> anyhow::Result<()> {
    let begun = session.ask(|client| client.sync_replication(volume))?;
    let done = if no_wait { begun } else { wait(session, begun.id)? };
    let now = session.ask(|client| client.replication(volume))?.value;
    session.show(&done, |done| {
        Ok(match (no_wait, now.last_transfer_bytes) {
            (false, Some(bytes)) => {
                format!("Transferred {} to volume {volume}.\n", stored(bytes))
            }
            _ => format!(
                "Started operation {}: \"plimsoll operation show {0}\" shows its progress.\n",
                done.id
            ),
        })
    })
}

/// A replication in a sentence.
fn line(of: &Replication) -> String {
    let schedule = of.schedule.map_or_else(|| "on request".to_owned(), |schedule| schedule.to_string());
    format!("to {}: from {}, {schedule}, {}.", of.volume, source(of), of.state)
}

fn source(of: &Replication) -> String {
    match &of.peer {
        Some(peer) => format!("{} of {peer}", of.source),
        None => of.source.clone(),
    }
}

fn list(session: &Session) -> anyhow::Result<()> {
    let replications = session.ask(|client| client.replications())?;
    session.show_all(replications, |replications| {
        let mut table = Table::new(&["VOLUME", "SOURCE", "SCHEDULE", "STATE", "HEALTHY", "LAG"]);
        for one in replications {
            let schedule =
                one.schedule.map_or_else(|| "on request".to_owned(), |schedule| schedule.to_string());
            let healthy = if one.healthy {
                Cell::from("yes".to_owned())
            } else {
                Cell::from("no".to_owned()).tone(Tone::Bad)
            };
            table.row([
                Cell::from(&one.volume),
                source(one).into(),
                schedule.into(),
                one.state.to_string().into(),
                healthy,
                one.lag_seconds.map_or_else(|| "-".to_owned(), age).into(),
            ]);
        }
        let nothing = "No replications. Create one: plimsoll replication create v1-copy --source v1";
        Ok(table.or(nothing, session.columns()))
    })
}

/// A duration for people: two units.
fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

fn show(session: &Session, volume: &str) -> anyhow::Result<()> {
    let Tagged { value: replication, etag } = session.ask(|client| client.replication(volume))?;
    session.show(&replication, |one| {
        let mut facts = Facts::default();
        facts.add("Destination", &one.volume);
        facts.add("Source", source(one));
        facts.add("Schedule", one.schedule.map_or_else(|| "on request".to_owned(), |it| it.to_string()));
        facts.add("State", one.state);
        facts.add("In Azure's words", format!("{}, {}", one.mirror_state, one.relationship_status));
        facts.add("Healthy", if one.healthy { "yes" } else { "no" });
        one.last_error.iter().for_each(|error| facts.add("Last error", error));
        facts.add("Last point", one.last_point.as_deref().unwrap_or("none"));
        one.lag_seconds.into_iter().for_each(|lag| facts.add("Lag", age(lag)));
        if let (Some(ended), Some(seconds), Some(bytes)) =
            (&one.last_transfer_ended, one.last_transfer_seconds, one.last_transfer_bytes)
        {
            let ended = second(&ended.0);
            facts.add("Last transfer", format!("{ended}: {} in {}", stored(bytes), age(seconds)));
        }
        facts.add("Transferred", stored(one.total_bytes));
        one.operation.into_iter().for_each(|operation| facts.add("Operation", operation));
        facts.add("Created", &one.created);
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let ages = [0, 59, 60, 3_599, 3_600, 86_399, 90_000].map(age);
        assert_eq!(ages, ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "23 h 59 min", "1 d 1 h"]);
    }
}
