//! User and group IDs of accounts for which none was given.

use super::connection::Session;
use anyhow::{Context, ensure};
use api_client::model::{Group, User};
use control::ACCOUNT_ID_MAX;
use identity::folded;
use nix::unistd;
use std::collections::HashSet;

/// The first ID of ordinary users and groups on Linux.
const FIRST: u32 = 1000;

/// The user ID of a new user: that of the user who has the name already, in the service or on this machine, else a free one.
pub(crate) fn uid(session: &Session, name: &str) -> anyhow::Result<u32> {
    let users = session.ask(|client| client.users())?;
    let groups = session.ask(|client| client.groups())?;
    choose_uid(name, &users, &groups)
}

/// The user ID of a new user of a new service.
pub(crate) fn uid_of_first(name: &str) -> anyhow::Result<u32> {
    choose_uid(name, &[], &[])
}

fn choose_uid(name: &str, users: &[User], groups: &[Group]) -> anyhow::Result<u32> {
    let own = || unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
    let known =
        users.iter().find(|user| folded(&user.name) == folded(name)).map(|user| user.uid).or_else(own);
    ensure!(known != Some(0), "{name} is root (user ID 0): choose another user, or give --uid");
    known.map_or_else(|| free(users, groups), Ok)
}

/// The group ID of a new group, as [`uid`] chooses that of a user.
pub(super) fn gid(session: &Session, name: &str) -> anyhow::Result<u32> {
    let groups = session.ask(|client| client.groups())?;
    let own = || unistd::Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
    let known =
        groups.iter().find(|group| folded(&group.name) == folded(name)).map(|group| group.gid).or_else(own);
    ensure!(known != Some(0), "{name} is root's group (group ID 0): choose another group, or give --gid");
    if let Some(known) = known {
        return Ok(known);
    }
    free(&session.ask(|client| client.users())?, &groups)
}

/// The lowest ID from 1000 that no user and no group has. A user's ID is also the ID of their primary group.
fn free(users: &[User], groups: &[Group]) -> anyhow::Result<u32> {
    let taken: HashSet<u32> = users
        .iter()
        .flat_map(|user| [user.uid, user.gid])
        .chain(groups.iter().map(|group| group.gid))
        .collect();
    let is_free = |id: &u32| {
        !taken.contains(id)
            && matches!(unistd::User::from_uid((*id).into()), Ok(None))
            && matches!(unistd::Group::from_gid((*id).into()), Ok(None))
    };
    (FIRST..=ACCOUNT_ID_MAX).find(is_free).context("no ID is free: give one")
}
