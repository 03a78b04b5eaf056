//! `plimsoll group …`: groups of users.

use super::connection::{Reach, Session, VersionArgs, YesArgs};
use super::limits::counted;
use super::table::{Facts, Table};
use super::{ids, names};
use crate::number::whole;
use api_client::model::{Group, NewGroup};
use api_client::{ChangeOptions, Client, Tagged};
use clap::{Args, Subcommand};
use control::ACCOUNT_ID_MAX;

/// Groups of users.
#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a group. Does nothing if the group exists with these properties.
    #[command(after_help = "Example:\n  plimsoll group create artists --member alice --member bob")]
    Create {
        /// Name of the group; case is ignored
        name: String,
        /// Group ID, as files have it: the same as on NFS clients [default: that of this machine's group of the name, or the next free one from 1000]
        #[arg(long, value_parser = whole::<u32>(1..=ACCOUNT_ID_MAX))]
        gid: Option<u32>,
        /// Member of the group, repeatable
        #[arg(long, value_name = "USER", add = names::users())]
        member: Vec<String>,
    },
    /// List the groups.
    #[command(visible_alias = "ls")]
    List,
    /// Show a group and its members.
    Show {
        /// The group
        #[arg(add = names::groups())]
        name: String,
    },
    /// Add users to a group.
    #[command(after_help = "Example:\n  plimsoll group add artists carol dave")]
    Add(Members),
    /// Remove users from a group.
    #[command(after_help = "Example:\n  plimsoll group remove artists bob")]
    Remove(Members),
    /// Delete a group. Its members stay, and files keep its ID. Asks first; without a terminal it needs --yes.
    Delete {
        /// The group
        #[arg(add = names::groups())]
        name: String,
        #[command(flatten)]
        yes: YesArgs,
        #[command(flatten)]
        version: VersionArgs,
    },
}

#[derive(Debug, Args)]
struct Members {
    /// The group
    #[arg(add = names::groups())]
    group: String,
    /// The users
    #[arg(required = true, add = names::users())]
    users: Vec<String>,
}

pub(crate) fn run(args: GroupArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::Create { name, gid, member } => {
            let members = Some(member).filter(|members| !members.is_empty());
            let gid = gid.map_or_else(|| ids::gid(&session, &name), Ok)?;
            let made = session.ask(|client| client.create_group(&NewGroup { name, gid, members }))?;
            session.show(&made.value, |group| {
                Ok(match made.is_new {
                    true => format!("Created group {}\n", line(group)),
                    false => format!("Exists already, unchanged: group {}\n", line(group)),
                })
            })
        }
        Command::List => list(&session),
        Command::Show { name } => show(&session, &name),
        Command::Add(members) => change(&session, &members, Client::add_member),
        Command::Remove(members) => change(&session, &members, Client::remove_member),
        Command::Delete { name, yes, version } => {
            yes.confirm(&format!("group {name}"))?;
            let done = session.ask(|client| client.delete_group(&version.terms(), &name))?;
            session.show(&done, |_| Ok(format!("Deleted group {name}.\n")))
        }
    }
}

/// A change of one member of a group.
type Step = fn(&Client, &ChangeOptions, &str, &str) -> api_client::Result<Tagged<Group>>;

fn change(session: &Session, Members { group, users }: &Members, step: Step) -> anyhow::Result<()> {
    let mut last = None;
    for user in users {
        last = Some(session.ask(|client| step(client, &ChangeOptions::none(), group, user))?.value);
    }
    // The command line requires at least one user.
    let Some(group) = last else { return Ok(()) };
    session.show(&group, |group| Ok(format!("Updated group {}\n", line(group))))
}

/// A group in a sentence.
fn line(group: &Group) -> String {
    format!("{}: gid {}, {}.", group.name, group.gid, members(group))
}

fn members(group: &Group) -> String {
    counted(u64::try_from(group.members.len()).unwrap_or(u64::MAX), "member")
}

fn list(session: &Session) -> anyhow::Result<()> {
    let groups = session.ask(|client| client.groups())?;
    session.show_all(groups, |groups| {
        let mut table = Table::new(&["NAME", ">GID", "MEMBERS"]).folding(&["MEMBERS"]);
        for group in groups {
            table.row([group.name.clone(), group.gid.to_string(), group.members.join(", ")]);
        }
        Ok(table.or("No groups. Create one: plimsoll group create artists", session.columns()))
    })
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let Tagged { value: group, etag } = session.ask(|client| client.group(name))?;
    session.show(&group, |group| {
        let mut facts = Facts::default();
        facts.add("Group", &group.name);
        facts.add("gid", group.gid.to_string());
        facts.add(
            "Members",
            if group.members.is_empty() { "none".to_owned() } else { group.members.join(", ") },
        );
        facts.add("Created", &group.created);
        facts.add("Changed", &group.changed);
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}
