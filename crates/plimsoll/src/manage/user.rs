//! `plimsoll user …`: the users that log in with a password.

use super::connection::{Reach, Session, VersionArgs, YesArgs, check_change};
use super::password::PasswordArgs;
use super::table::{Facts, Table};
use super::{ids, names};
use crate::number::whole;
use api_client::Tagged;
use api_client::model::{NewUser, Password, User, UserPatch};
use clap::{Args, Subcommand};
use control::ACCOUNT_ID_MAX;

/// Manage users, which log in over SMB with a password.
#[derive(Debug, Args)]
#[command(
    after_help = "Users log in over SMB, if \"plimsoll serve\" serves it (--smb-listen). NFS clients send user IDs instead."
)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a user. Does nothing if the user exists with these properties.
    #[command(after_help = "Examples:
  plimsoll user create alice
  plimsoll user create bob --uid 1001 --windows-name 'CORP\\bob' --password-file bob.secret
  plimsoll user create svc --uid 1002 --no-password

The command asks for the password, or reads it from the standard input if that is not a terminal. The password is \
never an argument: other users of this machine would see it.")]
    Create(Box<Create>),
    /// List the users.
    #[command(visible_alias = "ls")]
    List,
    /// Show a user.
    Show {
        /// The user
        #[arg(add = names::users())]
        name: String,
    },
    /// Set or remove a user's password.
    #[command(after_help = "Examples:
  plimsoll user set-password alice
  plimsoll user set-password alice --no-password")]
    SetPassword {
        /// The user
        #[arg(add = names::users())]
        name: String,
        #[command(flatten)]
        password: PasswordArgs,
        #[command(flatten)]
        version: VersionArgs,
    },
    /// Change a user's primary group or Windows names.
    #[command(after_help = "Examples:
  plimsoll user update alice --gid 2000
  plimsoll user update alice --windows-name alice.smith --windows-name 'CORP\\asmith'")]
    Update(Update),
    /// Delete a user. The user's files stay, and keep the user ID. Asks first; without a terminal it needs --yes.
    Delete {
        /// The user
        #[arg(add = names::users())]
        name: String,
        #[command(flatten)]
        yes: YesArgs,
        #[command(flatten)]
        version: VersionArgs,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the user; case is ignored
    name: String,
    /// User ID, as files have it: the same as on NFS clients [default: that of this machine's user of the name, or the next free one from 1000]
    #[arg(long, value_parser = whole::<u32>(1..=ACCOUNT_ID_MAX))]
    uid: Option<u32>,
    /// ID of the primary group [default: the user ID]
    #[arg(long, value_parser = whole::<u32>(0..=ACCOUNT_ID_MAX))]
    gid: Option<u32>,
    /// Windows name of the user in addition to its name, repeatable: NAME, or DOMAIN\NAME
    #[arg(long, value_name = "NAME")]
    windows_name: Vec<String>,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Debug, Args)]
struct Update {
    /// The user
    #[arg(add = names::users())]
    name: String,
    /// ID of the new primary group
    #[arg(long, value_parser = whole::<u32>(0..=ACCOUNT_ID_MAX))]
    gid: Option<u32>,
    /// Windows name of the user, repeatable; replaces all earlier ones: NAME, or DOMAIN\NAME
    #[arg(long, value_name = "NAME", conflicts_with = "no_windows_names")]
    windows_name: Vec<String>,
    /// Remove all Windows names
    #[arg(long)]
    no_windows_names: bool,
    #[command(flatten)]
    version: VersionArgs,
}

pub(crate) fn run(args: UserArgs) -> anyhow::Result<()> {
    let session = args.reach.open()?;
    match args.command {
        Command::Create(new) => create(&session, *new),
        Command::List => list(&session),
        Command::Show { name } => show(&session, &name),
        Command::SetPassword { name, password, version } => {
            set_password(&session, &name, &password, &version)
        }
        Command::Update(update) => {
            let patch = update.patch();
            check_change(&patch)?;
            let changed =
                session.ask(|client| client.change_user(&update.version.terms(), &update.name, &patch))?;
            session.show(&changed.value, |user| Ok(format!("Updated user {}\n", line(user))))
        }
        Command::Delete { name, yes, version } => {
            yes.confirm(&format!("user {name}"))?;
            let done = session.ask(|client| client.delete_user(&version.terms(), &name))?;
            session.show(&done, |_| Ok(format!("Deleted user {name}.\n")))
        }
    }
}

fn create(session: &Session, args: Create) -> anyhow::Result<()> {
    let password = args.password.read(&args.name)?.map(Password);
    let windows_names = Some(args.windows_name).filter(|names| !names.is_empty());
    let uid = args.uid.map_or_else(|| ids::uid(session, &args.name), Ok)?;
    let new = NewUser { name: args.name, uid, gid: args.gid, windows_names, password };
    let made = session.ask(|client| client.create_user(&new))?;
    session.show(&made.value, |user| {
        Ok(match made.is_new {
            true => format!("Created user {}\n", line(user)),
            false => format!("Exists already, unchanged: user {}\n", line(user)),
        })
    })
}

fn set_password(
    session: &Session,
    name: &str,
    password: &PasswordArgs,
    version: &VersionArgs,
) -> anyhow::Result<()> {
    let password = password.read(name)?.map(Password);
    let patch = UserPatch { password: Some(password), ..UserPatch::default() };
    let changed = session.ask(|client| client.change_user(&version.terms(), name, &patch))?;
    session.show(&changed.value, |user| {
        Ok(match user.has_password {
            true => format!("Set the password of user {}.\n", user.name),
            false => format!("User {} has no password now and cannot log in.\n", user.name),
        })
    })
}

/// A user in a sentence.
fn line(user: &User) -> String {
    let password = if user.has_password { "" } else { ", no password: it cannot log in" };
    format!("{}: uid {}, gid {}{password}.", user.name, user.uid, user.gid)
}

fn list(session: &Session) -> anyhow::Result<()> {
    let users = session.ask(|client| client.users())?;
    session.show_all(users, |users| {
        let heads = ["NAME", ">UID", ">GID", "PASSWORD", "GROUPS", "WINDOWS NAMES"];
        let mut table = Table::new(&heads).folding(&["GROUPS"]).leaving_out(&["WINDOWS NAMES", "GROUPS"]);
        for user in users {
            let password = if user.has_password { "yes" } else { "no" };
            table.row([
                user.name.clone(),
                user.uid.to_string(),
                user.gid.to_string(),
                password.to_owned(),
                user.groups.join(", "),
                user.windows_names.join(", "),
            ]);
        }
        Ok(table.or("No users. Create one: plimsoll user create alice", session.columns()))
    })
}

fn show(session: &Session, name: &str) -> anyhow::Result<()> {
    let Tagged { value: user, etag } = session.ask(|client| client.user(name))?;
    session.show(&user, |user| {
        let listed = |names: &[String]| Some(names.join(", ")).filter(|text| !text.is_empty());
        let mut facts = Facts::default();
        facts.add("User", &user.name);
        facts.add("uid", user.uid.to_string());
        facts.add("gid", user.gid.to_string());
        facts.maybe("Groups", listed(&user.groups));
        facts.maybe("Windows names", listed(&user.windows_names));
        facts.add("Password", if user.has_password { "set" } else { "none: it cannot log in" });
        facts.add("Created", &user.created);
        facts.add("Changed", &user.changed);
        facts.add("Version", etag.trim_matches('"'));
        Ok(facts.fit(session.columns()))
    })
}

impl Update {
    fn patch(&self) -> UserPatch {
        let has_names = self.no_windows_names || !self.windows_name.is_empty();
        UserPatch {
            gid: self.gid,
            windows_names: has_names.then(|| self.windows_name.clone()),
            ..UserPatch::default()
        }
    }
}
