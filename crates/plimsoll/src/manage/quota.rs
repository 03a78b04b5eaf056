//! `plimsoll quota …`: limits of users and groups on a volume.

use super::connection::{Reach, Session};
use super::limits::{counted, number, size, stored};
use super::names;
use super::table::Table;
use crate::number::whole;
use api_client::model::{OwnerKind, QuotaLimits, QuotaUse};
use clap::{Args, Subcommand};
use envelope::{Bytes, parse_duration};
use std::time::Duration;

/// Limits of users and groups on a volume.
#[derive(Debug, Args)]
pub(crate) struct QuotaArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set the limits of a user or group, or of all without limits of their own.
    ///
    /// Limits bind present files immediately. Above a limit, only growth fails. Of a user's and a group's limit, the
    /// stricter binds. Root (user 0, group 0) is only counted. The first rule of a volume begins to count its files by
    /// owner; changes of the volume wait until that is done.
    #[command(
        after_help = "Examples:\n  plimsoll quota set v1 --user default --bytes 10GiB\n  plimsoll quota set v1 --user alice --bytes 50GiB --soft-bytes 40GiB --grace 24h"
    )]
    Set {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
        #[command(flatten)]
        owner: Owner,
        #[command(flatten)]
        limits: Limits,
    },
    /// List the quota rules of a volume.
    #[command(visible_alias = "ls")]
    List {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
    },
    /// Delete a quota rule. The default then applies, if there is one.
    #[command(
        after_help = "Examples:\n  plimsoll quota delete v1 --user alice\n  plimsoll quota delete v1 --group default"
    )]
    Delete {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
        #[command(flatten)]
        owner: Owner,
    },
    /// Show what users and groups use. The first report of a volume begins to count its files.
    Report {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
    },
    /// Count all files again and show differences from the running count. Takes as long as listing all files.
    Check {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Owner {
    /// A user: a name of this service, an ID, a security identifier of Windows, or "default"
    #[arg(long, value_name = "USER", add = names::users())]
    user: Option<String>,
    /// A group: a name of this service, an ID, a security identifier of Windows, or "default"
    #[arg(long, value_name = "GROUP", add = names::groups())]
    group: Option<String>,
}

#[derive(Debug, Args)]
struct Limits {
    /// Limit of the sizes of all files
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Bytes>,
    /// Limit of the number of files; directories do not count
    #[arg(long, value_name = "FILES", value_parser = whole(0_u64..))]
    files: Option<u64>,
    /// Limit that may be exceeded for the grace period
    #[arg(long, value_name = "SIZE")]
    soft_bytes: Option<Bytes>,
    /// Limit of files that may be exceeded for the grace period
    #[arg(long, value_name = "FILES", value_parser = whole(0_u64..))]
    soft_files: Option<u64>,
    /// Time above a soft limit after which growth is refused [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    grace: Option<Duration>,
}

impl Limits {
    fn to_body(&self) -> QuotaLimits {
        QuotaLimits {
            limit_bytes: self.bytes.map(|bytes| bytes.0),
            limit_files: self.files,
            soft_limit_bytes: self.soft_bytes.map(|bytes| bytes.0),
            soft_limit_files: self.soft_files,
            grace_seconds: self.grace.map(|grace| grace.as_secs()),
        }
    }
}

impl Owner {
    /// The target as the API names it.
    fn target(&self, session: &Session) -> anyhow::Result<String> {
        let is_number = |text: &str| {
            text == "default" || text.starts_with("S-1-") || text.bytes().all(|byte| byte.is_ascii_digit())
        };
        Ok(match (&self.user, &self.group) {
            (Some(user), _) if is_number(user) => format!("user:{user}"),
            (Some(user), _) => format!("user:{}", session.ask(|client| client.user(user))?.value.uid),
            (None, Some(group)) if is_number(group) => format!("group:{group}"),
            (None, group) => {
                let group = group.as_deref().unwrap_or_default();
                format!("group:{}", session.ask(|client| client.group(group))?.value.gid)
            }
        })
    }
}

pub(crate) fn run(args: QuotaArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::Set { volume, owner, limits } => {
            let target = owner.target(&session)?;
            let rule = session.ask(|client| client.set_quota(&volume, &target, &limits.to_body()))?;
            session.show(&rule, |rule| {
                Ok(format!("Set the quota of {} on {volume}: {}.\n", rule.target, text(&rule.limits)))
            })
        }
        Command::List { volume } => list(&session, &volume),
        Command::Delete { volume, owner } => {
            let target = owner.target(&session)?;
            let done = session.ask(|client| client.delete_quota(&volume, &target))?;
            session.show(&done, |_| Ok(format!("Deleted the quota of {target} on {volume}.\n")))
        }
        Command::Report { volume } => report(&session, &volume),
        Command::Check { volume } => check(&session, &volume),
    }
}

fn bytes_or_none(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), size)
}

fn files_or_none(files: Option<u64>) -> String {
    files.map_or_else(|| "-".to_owned(), number)
}

/// Limits in a sentence.
fn text(limits: &QuotaLimits) -> String {
    let parts = [
        limits.limit_bytes.map(size),
        limits.limit_files.map(|files| counted(files, "file")),
        limits.soft_limit_bytes.map(|bytes| format!("soft {}", size(bytes))),
        limits.soft_limit_files.map(|files| format!("soft {}", counted(files, "file"))),
        limits.grace_seconds.map(|seconds| format!("grace {seconds} s")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn list(session: &Session, volume: &str) -> anyhow::Result<()> {
    let quotas = session.ask(|client| client.quotas(volume))?;
    session.show(&quotas, |quotas| {
        let mut table = Table::new(&["TARGET", ">BYTES", ">FILES", ">SOFT BYTES", ">SOFT FILES", ">GRACE"]);
        for rule in &quotas.quotas {
            let limits = &rule.limits;
            table.row([
                rule.target.clone(),
                bytes_or_none(limits.limit_bytes),
                files_or_none(limits.limit_files),
                bytes_or_none(limits.soft_limit_bytes),
                files_or_none(limits.soft_limit_files),
                limits.grace_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")),
            ]);
        }
        let none = format!("No quotas. Set one: plimsoll quota set {volume} --user default --bytes 10GiB");
        Ok(table.or(&none, session.columns()))
    })
}

fn owner(of: &QuotaUse) -> String {
    name(of.kind, of.id)
}

fn name(kind: OwnerKind, id: u32) -> String {
    match kind {
        OwnerKind::User => format!("user:{id}"),
        OwnerKind::Group => format!("group:{id}"),
    }
}

fn report(session: &Session, volume: &str) -> anyhow::Result<()> {
    let report = session.ask(|client| client.quota_report(volume))?;
    session.show(&report, |report| {
        if report.counting {
            return Ok("The files are being counted. Ask again later.\n".to_owned());
        }
        let mut table = Table::new(&["OWNER", ">USED", ">BYTES", ">FILES", ">LIMIT OF FILES", "RULE"]);
        for of in &report.owners {
            let has_limits = of.limits != QuotaLimits::default();
            let is_over = of.soft_bytes_exceeded_at.is_some() || of.soft_files_exceeded_at.is_some();
            let rule = match (has_limits, of.derived) {
                (false, _) => "-",
                (true, true) => "default",
                (true, false) => "own",
            };
            table.row([
                owner(of),
                stored(of.used_bytes),
                bytes_or_none(of.limits.limit_bytes),
                number(of.used_files),
                files_or_none(of.limits.limit_files),
                if is_over { format!("{rule}, above the soft limit") } else { rule.to_owned() },
            ]);
        }
        Ok(table.or("No files.", session.columns()))
    })
}

fn check(session: &Session, volume: &str) -> anyhow::Result<()> {
    let check = session.ask(|client| client.quota_check(volume))?;
    session.show(&check, |check| {
        let mut table = Table::new(&["OWNER", ">USED", ">FILES", ">RECOUNTED", ">FILES FOUND"]);
        for drift in &check.drifts {
            table.row([
                name(drift.kind, drift.id),
                stored(drift.used_bytes),
                number(drift.used_files),
                stored(drift.recounted_bytes),
                number(drift.recounted_files),
            ]);
        }
        let mut shown = table.or("No differences.", session.columns());
        if !check.unsettled.is_empty() {
            let owners = check.unsettled.join(", ");
            shown.push_str(&format!("Not compared, because their files changed all the time: {owners}\n"));
        }
        Ok(shown)
    })
}
