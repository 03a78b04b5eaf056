//! `plimsoll backup …`: backups of volumes, and restores.

use super::RuleFlags;
use super::connection::{Reach, Session, VersionArgs, YesArgs};
use super::limits::stored;
use super::operation::{second, wait};
use super::table::{Cell, Facts, Table};
use super::{names, words};
use crate::terminal::Tone;
use api_client::Tagged;
use api_client::model::{
    Backup, BackupCheck, BackupFileRestore, BackupState, LevelName, NewBackup, NewVolume, Operation,
    Protocol, Timestamp,
};
use clap::{Args, Subcommand};
use envelope::Bytes;

/// Back up volumes, and restore volumes and files.
#[derive(Debug, Args)]
#[command(after_help = "\
A backup is complete alone: it can be restored when its volume, its service and all other backups are gone. It sends what changed \
since the last backup of the volume. Back up on a schedule: \"plimsoll policy create nightly --vault offsite --daily 30\", then \
\"plimsoll volume update v1 --backup-policy nightly\".
Each command starts an operation of the service and waits for it. The operation goes on if the command ends, and after a restart \
of the service. \"plimsoll operation show 17\" shows what is left and how fast it is, \"plimsoll operation cancel 17\" ends it.")]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Back up a volume. Goes on with a backup of that name that failed.
    #[command(after_help = "Examples:
  plimsoll backup create v1 --vault offsite
  plimsoll backup create v1 before-upgrade --vault offsite --snapshot before-upgrade
  plimsoll backup create v1 audit --vault offsite --lock-until 2027-01-31

Nobody can delete a locked backup before the lock ends.")]
    Create {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
        /// Name of the backup [default: the volume and the time, as in v1.2026-11-29_235500]
        name: Option<String>,
        /// Vault that gets the backup
        #[arg(long, add = names::vaults())]
        vault: String,
        /// Snapshot of the volume to back up [default: a new one, deleted afterwards]
        #[arg(long, value_name = "NAME", add = names::snapshots())]
        snapshot: Option<String>,
        /// End of the lock, in UTC, like 2027-01-31 or 2027-01-31T09:00:00Z
        #[arg(long, value_name = "TIME", value_parser = words::time)]
        lock_until: Option<Timestamp>,
        /// Do not wait for the end of the backup
        #[arg(long)]
        no_wait: bool,
    },
    /// List backups, the oldest first.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  plimsoll backup list\n  plimsoll backup list --vault offsite --volume v1"
    )]
    List {
        /// List the backups of this vault only
        #[arg(long, add = names::vaults())]
        vault: Option<String>,
        /// List the backups of this volume only
        #[arg(long, add = names::volumes())]
        volume: Option<String>,
    },
    /// Show a backup.
    Show(Named),
    /// Delete a backup, and wait until its space is free. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Example:
  plimsoll backup delete offsite v1.2026-11-29_235500 --yes

The latest backup of a volume needs --force: the next backup then sends all data again.")]
    Delete {
        #[command(flatten)]
        of: Named,
        #[command(flatten)]
        yes: YesArgs,
        /// Delete the backup even if it is the latest of its volume
        #[arg(long)]
        force: bool,
        /// Do not wait for the end of the deletion
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Restore a backup to a new volume, or files of it to a volume that exists.
    #[command(after_help = "Examples:
  plimsoll backup restore offsite v1.2026-11-29_235500 --to v2 --pool p1 --size 1TiB
  plimsoll backup restore offsite v1.2026-11-29_235500 --to v1 --path /projects/plan.txt --directory /restored

Clients reach a new volume once it is complete. Restored files never replace others: a name that exists ends the operation.")]
    Restore(Box<Restore>),
    /// Check a backup: read all of its data from the vault. Fails if it finds damage.
    #[command(after_help = "Examples:
  plimsoll backup verify offsite v1.2026-11-29_235500
  plimsoll backup verify offsite v1.2026-11-29_235500 --quick")]
    Verify {
        #[command(flatten)]
        of: Named,
        /// Look only whether all objects are there, with their sizes
        #[arg(long)]
        quick: bool,
        /// Do not wait for the end of the check
        #[arg(long)]
        no_wait: bool,
    },
}

#[derive(Debug, Args)]
struct Named {
    /// The vault
    #[arg(add = names::vaults())]
    vault: String,
    /// The backup
    #[arg(add = names::backups())]
    name: String,
}

#[derive(Debug, Args)]
struct Restore {
    #[command(flatten)]
    of: Named,
    /// Name of the new volume, or with --path of the volume that gets the files
    #[arg(long, value_name = "VOLUME", add = names::volumes())]
    to: String,
    /// Pool that provides the capacity of the new volume
    #[arg(long, add = names::pools(), required_unless_present = "path", requires = "size")]
    pool: Option<String>,
    /// Size of the new volume, like 1TiB
    #[arg(long, requires = "pool")]
    size: Option<Bytes>,
    /// Last part of the path that clients mount [default: the new volume's name]
    #[arg(long, value_name = "NAME", hide_short_help = true, requires = "pool")]
    share: Option<String>,
    /// Service level, in pools whose volumes choose their level
    #[arg(long, value_parser = words::level(), hide_possible_values = true, hide_short_help = true, requires = "pool")]
    level: Option<LevelName>,
    /// Protocols to serve the new volume over [default: nfsv3 and the latest NFSv4 that the level has]
    #[arg(long, value_delimiter = ',', value_parser = words::protocol(), requires = "pool")]
    protocols: Vec<Protocol>,
    /// Create the volume even if the pool is then overbooked
    #[arg(long, hide_short_help = true, requires = "pool")]
    force: bool,
    #[command(flatten)]
    rule: RuleFlags,
    /// File or directory in the backup, repeatable, up to 10
    #[arg(long, value_name = "PATH", conflicts_with = "pool")]
    path: Vec<String>,
    /// Directory of the volume that gets the files; it must exist [default: its root]
    #[arg(long, value_name = "PATH", requires = "path")]
    directory: Option<String>,
    /// Do not wait for the end of the restore
    #[arg(long)]
    no_wait: bool,
}

pub(crate) fn run(args: BackupArgs) -> anyhow::Result<()> {
    let open = || args.reach.open();
    match args.command {
        Command::Create { volume, name, vault, snapshot, lock_until, no_wait } => {
            let new = NewBackup { volume, name, snapshot, locked_until: lock_until };
            let session = open()?;
            let begun = session.ask(|client| client.create_backup(&vault, &new))?;
            create(&session, &vault, begun, no_wait)
        }
        Command::List { vault, volume } => list(&open()?, vault.as_deref(), volume.as_deref()),
        Command::Show(of) => show(&open()?, &of),
        Command::Delete { of: Named { vault, name }, yes, force, no_wait, version } => {
            yes.confirm(&format!("backup {name} of vault {vault}"))?;
            let (session, terms) = (open()?, version.terms().forced(force));
            let begun = session.ask(|client| client.delete_backup(&terms, &vault, &name))?;
            end(&session, begun, no_wait, &format!("Deleted backup {name} of vault {vault}."))
        }
        Command::Restore(restore) => restore.run(&open()?),
        Command::Verify { of: Named { vault, name }, quick, no_wait } => {
            let (session, check) = (open()?, BackupCheck { data: !quick });
            let begun = session.ask(|client| client.verify_backup(&vault, &name, &check))?;
            end(&session, begun, no_wait, &format!("Backup {name} of vault {vault} is intact."))
        }
    }
}

/// Waits for an operation, unless asked not to.
fn end(session: &Session, begun: Operation, no_wait: bool, done: &str) -> anyhow::Result<()> {
    if no_wait {
        return session.show(&begun, |begun| {
            Ok(format!("Started operation {0}. Wait for it: plimsoll operation wait {0}\n", begun.id))
        });
    }
    let ended = wait(session, begun.id)?;
    session.show(&ended, |_| Ok(format!("{done}\n")))
}

fn create(session: &Session, vault: &str, begun: Operation, no_wait: bool) -> anyhow::Result<()> {
    if no_wait {
        return end(session, begun, true, "");
    }
    let ended = wait(session, begun.id)?;
    let name = ended.name.strip_prefix(vault).and_then(|name| name.strip_prefix('/')).unwrap_or(&ended.name);
    let made = session.ask(|client| client.backup(vault, name))?.value;
    session.show(&made, |made| {
        let skipped = match made.skipped {
            0 => String::new(),
            count => format!("It lacks {count} names, such as mount points.\n"),
        };
        let (bytes, sent) = (stored(made.bytes), stored(made.sent_bytes));
        Ok(format!(
            "Backed up volume {} as {} in vault {vault}: {bytes} in {} files, of which it added {sent}.\n{skipped}",
            made.volume, made.name, made.files
        ))
    })
}

impl Restore {
    fn run(self, session: &Session) -> anyhow::Result<()> {
        let Named { vault, name } = &self.of;
        let to = &self.to;
        let (Some(pool), Some(size)) = (&self.pool, self.size) else {
            let directory = self.directory.unwrap_or_default();
            let request = BackupFileRestore { volume: to.clone(), paths: self.path, directory };
            let begun = session.ask(|client| client.restore_backup_files(vault, name, &request))?;
            return end(session, begun, self.no_wait, &format!("Restored the files to volume {to}."));
        };
        let new = NewVolume {
            share: self.share,
            level: self.level,
            protocols: Some(self.protocols).filter(|protocols| !protocols.is_empty()),
            rules: self.rule.rule().map(|rule| vec![rule]),
            ..NewVolume::new(to, pool, size.0)
        };
        let terms = api_client::ChangeOptions::none().forced(self.force);
        let begun = session.ask(|client| client.restore_volume(&terms, vault, name, &new))?;
        let done = format!("Restored backup {name} of vault {vault} to volume {to}.");
        end(session, begun, self.no_wait, &done)
    }
}

fn list(session: &Session, vault: Option<&str>, volume: Option<&str>) -> anyhow::Result<()> {
    let vaults = match vault {
        Some(vault) => vec![vault.to_owned()],
        None => session.ask(|client| client.vaults())?.into_iter().map(|vault| vault.name).collect(),
    };
    let mut backups = Vec::new();
    for vault in &vaults {
        backups.extend(session.ask(|client| client.backups(vault))?);
    }
    backups.retain(|one: &Backup| volume.is_none_or(|volume| one.volume == volume));
    backups.sort_by(|one, other| one.taken.cmp(&other.taken));
    session.show_all(backups, |backups| {
        let heads =
            ["NAME", "VAULT", "VOLUME", "TAKEN (UTC)", "KIND", "STATE", ">SIZE", ">ADDED", "LOCKED UNTIL"];
        let mut table = Table::new(&heads).leaving_out(&["LOCKED UNTIL", "KIND", "ADDED", "VOLUME"]);
        for one in backups {
            table.row([
                Cell::from(&one.name),
                Cell::from(&one.vault),
                Cell::from(&one.volume),
                second(&one.taken.0).into(),
                one.kind.to_string().into(),
                state(one),
                stored(one.bytes).into(),
                stored(one.sent_bytes).into(),
                one.locked_until.as_ref().map_or_else(String::new, |until| second(&until.0)).into(),
            ]);
        }
        let nothing = "No backups. Make one: plimsoll backup create v1 --vault offsite";
        Ok(table.or(nothing, session.columns()))
    })
}

fn state(of: &Backup) -> Cell {
    match (of.state, &of.damage) {
        (BackupState::Ready, Some(_)) => Cell::from("damaged".to_owned()).tone(Tone::Bad),
        (BackupState::Ready, None) => Cell::from(of.state.to_string()),
        (BackupState::Creating | BackupState::Deleting, _) => {
            Cell::from(of.state.to_string()).tone(Tone::Warning)
        }
        (BackupState::Error, _) => Cell::from(of.state.to_string()).tone(Tone::Bad),
    }
}

fn show(session: &Session, Named { vault, name }: &Named) -> anyhow::Result<()> {
    let Tagged { value: one, etag } = session.ask(|client| client.backup(vault, name))?;
    session.show(&one, |one| {
        let mut facts = Facts::default();
        facts.add("Backup", &one.name);
        facts.add("Vault", &one.vault);
        facts.add("Volume", &one.volume);
        facts.add("Snapshot", &one.snapshot);
        facts.add("Kind", one.kind.to_string());
        facts.add_cell("State", state(one));
        facts.maybe("Reason", one.reason.as_ref());
        facts.maybe("Damage", one.damage.as_ref());
        facts.add("Files", one.files);
        facts.add("Size", stored(one.bytes));
        facts.add("Added to the vault", stored(one.sent_bytes));
        facts.maybe("Skipped names", Some(one.skipped).filter(|&count| count > 0));
        facts.add("Taken", &one.taken);
        facts.maybe("Finished", one.finished.as_ref());
        let verified = one.verified.as_ref().map_or("never", |time| time.0.as_str());
        facts.add("Verified", verified);
        facts.maybe("Locked until", one.locked_until.as_ref());
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}
