//! `plimsoll policy …`: schedules of snapshots and of backups.

use super::connection::{Reach, Session, VersionArgs, YesArgs, check_change};
use super::names;
use super::schedule::{ScheduleFlags, described};
use super::table::{Cell, Facts, Table};
use api_client::Tagged;
use api_client::model::{NewPolicy, Policy, PolicyPatch};
use clap::{Args, Subcommand};

/// Manage policies, which make snapshots or backups on schedules.
#[derive(Debug, Args)]
#[command(after_help = "\
Give a volume its policy with \"plimsoll volume update v1 --policy nightly\". The service makes the snapshots at the times of \
the policy, names them in UTC, as in daily.2026-11-29_0100, and deletes the oldest beyond the number to keep. It never deletes \
snapshots that you made, or locked ones. After downtime each schedule runs once. \"plimsoll operation list\" shows what ran and \
what failed.
With --vault a policy makes backups instead. Give it to a volume with \"plimsoll volume update v1 --backup-policy offsite-nightly\". \
It never deletes the latest backup of a volume.")]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a policy. Does nothing if it exists with these properties.
    #[command(after_help = "Examples:
  plimsoll policy create nightly --daily 7 --daily-at 01:00 --time-zone Europe/Berlin
  plimsoll policy create offsite-nightly --vault offsite --daily 30 --monthly 12
  plimsoll policy create often --hourly 24 --daily 7 --weekly 4 --weekly-on saturday --monthly 12")]
    Create {
        /// Name of the policy
        name: String,
        /// Vault for backups; without it the policy makes snapshots
        #[arg(long, add = names::vaults())]
        vault: Option<String>,
        /// Time zone of the schedules, like Europe/Berlin [default: UTC]
        #[arg(long, value_name = "ZONE")]
        time_zone: Option<String>,
        /// Make no snapshots or backups until \"policy update --enable\"
        #[arg(long)]
        disabled: bool,
        #[command(flatten)]
        schedules: Box<ScheduleFlags>,
    },
    /// List the policies.
    #[command(visible_alias = "ls")]
    List,
    /// Show a policy and its volumes.
    Show {
        /// The policy
        #[arg(add = names::policies())]
        name: String,
    },
    /// Change a policy. New schedules hold from now on.
    #[command(after_help = "Examples:
  plimsoll policy update nightly --daily 14 --no-weekly
  plimsoll policy update nightly --daily-at 02:30
  plimsoll policy update nightly --disable")]
    Update(Box<Update>),
    /// Delete a policy that no volume has. Its snapshots stay. Asks first; without a terminal it needs --yes.
    #[command(after_help = "Example:\n  plimsoll policy delete nightly --yes")]
    Delete {
        /// The policy
        #[arg(add = names::policies())]
        name: String,
        #[command(flatten)]
        yes: YesArgs,
        #[command(flatten)]
        version: VersionArgs,
    },
}

#[derive(Debug, Args)]
struct Update {
    /// The policy
    #[arg(add = names::policies())]
    name: String,
    /// New time zone of the schedules, like Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Make snapshots again
    #[arg(long)]
    enable: bool,
    /// Make no more snapshots
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Remove the hourly schedule
    #[arg(long, conflicts_with_all = ["hourly", "hourly_minute"])]
    no_hourly: bool,
    /// Remove the daily schedule
    #[arg(long, conflicts_with_all = ["daily", "daily_at"])]
    no_daily: bool,
    /// Remove the weekly schedule
    #[arg(long, conflicts_with_all = ["weekly", "weekly_on", "weekly_at"])]
    no_weekly: bool,
    /// Remove the monthly schedule
    #[arg(long, conflicts_with_all = ["monthly", "monthly_on", "monthly_at"])]
    no_monthly: bool,
    #[command(flatten)]
    schedules: ScheduleFlags,
    #[command(flatten)]
    version: VersionArgs,
}

pub(crate) fn run(args: PolicyArgs) -> anyhow::Result<()> {
    let open = || args.reach.open();
    match args.command {
        Command::Create { name, vault, time_zone, disabled, schedules } => {
            let new = NewPolicy {
                name,
                vault,
                enabled: !disabled,
                time_zone: time_zone.unwrap_or_else(|| "UTC".to_owned()),
                hourly: schedules.hourly(None)?,
                daily: schedules.daily(None)?,
                weekly: schedules.weekly(None)?,
                monthly: schedules.monthly(None)?,
            };
            let session = open()?;
            let made = session.ask(|client| client.create_policy(&new))?;
            session.show(&made.value, |policy| {
                Ok(match made.is_new {
                    true => format!("Created policy {}\n", line(policy)),
                    false => format!("Exists already, unchanged: policy {}\n", line(policy)),
                })
            })
        }
        Command::List => list(&open()?),
        Command::Show { name } => show(&open()?, &name),
        Command::Update(update) => {
            let session = open()?;
            let before = session.ask(|client| client.policy(&update.name))?.value;
            let patch = update.patch(before)?;
            check_change(&patch)?;
            let changed =
                session.ask(|client| client.change_policy(&update.version.terms(), &update.name, &patch))?;
            session.show(&changed.value, |policy| Ok(format!("Updated policy {}\n", line(policy))))
        }
        Command::Delete { name, yes, version } => {
            yes.confirm(&format!("policy {name}"))?;
            let session = open()?;
            let done = session.ask(|client| client.delete_policy(&version.terms(), &name))?;
            session.show(&done, |_| Ok(format!("Deleted policy {name}. Its snapshots stay.\n")))
        }
    }
}

impl Update {
    /// The changes of a policy that is now `before`.
    fn patch(&self, before: Policy) -> anyhow::Result<PolicyPatch> {
        fn patched<T>(removes: bool, new: Option<T>) -> Option<Option<T>> {
            if removes { Some(None) } else { new.map(Some) }
        }
        let flags = &self.schedules;
        Ok(PolicyPatch {
            enabled: if self.enable { Some(true) } else { self.disable.then_some(false) },
            time_zone: self.time_zone.clone(),
            hourly: patched(self.no_hourly, flags.hourly(before.hourly)?),
            daily: patched(self.no_daily, flags.daily(before.daily)?),
            weekly: patched(self.no_weekly, flags.weekly(before.weekly)?),
            monthly: patched(self.no_monthly, flags.monthly(before.monthly)?),
        })
    }
}

/// A policy in a sentence.
fn line(policy: &Policy) -> String {
    let disabled = if policy.enabled { "" } else { ", disabled" };
    let vault = policy.vault.as_ref().map_or_else(String::new, |vault| format!(", backups in vault {vault}"));
    format!(
        "{}: {}, times of {}{vault}{disabled}.",
        policy.name,
        described(policy).join(", "),
        policy.time_zone
    )
}

fn list(session: &Session) -> anyhow::Result<()> {
    let policies = session.ask(|client| client.policies())?;
    session.show_all(policies, |policies| {
        let heads = ["NAME", "ENABLED", "TIME ZONE", "KEEPS", "VOLUMES"];
        let mut table = Table::new(&heads).folding(&["KEEPS", "VOLUMES"]);
        for policy in policies {
            table.row([
                Cell::from(&policy.name),
                if policy.enabled { "yes" } else { "no" }.to_owned().into(),
                Cell::from(&policy.time_zone),
                described(policy).join(", ").into(),
                policy.volumes.join(", ").into(),
            ]);
        }
        let nothing = "No policies. Create one: plimsoll policy create nightly --daily 7";
        Ok(table.or(nothing, session.columns()))
    })
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let Tagged { value: policy, etag } = session.ask(|client| client.policy(name))?;
    session.show(&policy, |policy| {
        let mut facts = Facts::default();
        facts.add("Policy", &policy.name);
        facts.maybe("Vault", policy.vault.as_ref());
        facts.add("Enabled", if policy.enabled { "yes" } else { "no: it makes nothing" });
        facts.add("Time zone", &policy.time_zone);
        for (place, schedule) in described(policy).into_iter().enumerate() {
            facts.add(if place == 0 { "Keeps" } else { "" }, schedule);
        }
        let volumes = policy.volumes.join(", ");
        facts.add("Volumes", if volumes.is_empty() { "none".to_owned() } else { volumes });
        facts.add("Created", &policy.created);
        facts.add("Changed", &policy.changed);
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}
