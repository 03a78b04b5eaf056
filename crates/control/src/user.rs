//! The service's own users and groups: SMB logins with a password, and their uids and gids.

use crate::difference::{Difference, listed};
use crate::error::{Error, Result};
use identity::{AccountName, NtHash, WindowsName};
use std::collections::BTreeSet;

/// UTF-16 units of a password, as many as Windows permits.
pub const PASSWORD_UNITS_MAX: usize = 256;
pub const WINDOWS_NAMES_MAX: usize = 16;
/// Groups of a user besides the primary one.
pub const GROUPS_OF_USER_MAX: usize = 256;
/// Memberships of all users in all groups.
pub const MEMBERSHIPS_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(crate) row: i64,
    /// Case does not distinguish users.
    pub name: AccountName,
    pub uid: u32,
    /// The primary group. It can be a gid that only the clients know.
    pub gid: u32,
    /// Names of the user on Windows, with or without a domain.
    pub windows_names: Vec<WindowsName>,
    pub groups: Vec<AccountName>,
    /// A user without a password cannot log in.
    pub has_password: bool,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    pub name: AccountName,
    pub uid: u32,
    /// The user's number by default.
    pub gid: Option<u32>,
    pub windows_names: Option<Vec<WindowsName>>,
    pub password: Option<NtHash>,
}

/// Changes of a user; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    pub gid: Option<u32>,
    /// Replaces all Windows names.
    pub windows_names: Option<Vec<WindowsName>>,
    /// `Some(None)` removes the password.
    pub password: Option<Option<NtHash>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub(crate) row: i64,
    pub name: AccountName,
    pub gid: u32,
    pub members: Vec<AccountName>,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub name: AccountName,
    pub gid: u32,
    pub members: Option<Vec<AccountName>>,
}

pub fn account_name(text: &str) -> Result<AccountName> {
    let allowed = || format!("{}, and no dot at the end", AccountName::ALLOWED);
    text.parse().map_err(|_| Error::invalid(format!("{text:?} cannot name a user or group"), allowed()))
}

pub fn windows_name(text: &str) -> Result<WindowsName> {
    // Backslashes as they are: the names have one.
    let what = || format!("\"{}\" cannot be the name of a Windows user", text.replace(char::is_control, "?"));
    text.parse().map_err(|_| Error::invalid(what(), WindowsName::ALLOWED))
}

/// Hashes a password. The service stores only the hash.
pub fn password(text: &str) -> Result<NtHash> {
    let units = text.encode_utf16().count();
    if !(1..=PASSWORD_UNITS_MAX).contains(&units) || text.contains(char::is_control) {
        let allowed = format!("1 to {PASSWORD_UNITS_MAX} characters without control characters");
        return Err(Error::invalid("the password cannot be used", allowed));
    }
    Ok(NtHash::from_password(text))
}

impl NewUser {
    /// A user with its own group and without a password.
    pub fn new(name: AccountName, uid: u32) -> Self {
        Self { name, uid, gid: None, windows_names: None, password: None }
    }

    /// Properties that differ from `user`, whose password is `known`. Omitted properties are not compared.
    pub(crate) fn differs_from(&self, user: &User, known: Option<&NtHash>) -> Vec<Difference> {
        let names = |names: &Vec<WindowsName>| listed(names);
        let has_other_password = self.password.as_ref().is_some_and(|password| known != Some(password));
        let differing = [
            Difference::of("uid", &user.uid, &self.uid, ToString::to_string),
            Difference::if_set("gid", &user.gid, self.gid.as_ref(), ToString::to_string),
            Difference::if_set("windows names", &user.windows_names, self.windows_names.as_ref(), names),
            has_other_password.then(|| Difference::secret("password")),
        ];
        differing.into_iter().flatten().collect()
    }
}

impl User {
    /// Returns the user after `change`, and the changed properties in words.
    /// A password in the change always counts as changed: otherwise the result would confirm a guess.
    pub(crate) fn changed(&self, change: &UserChange) -> (Self, Vec<String>) {
        let user = Self {
            gid: change.gid.unwrap_or(self.gid),
            windows_names: change.windows_names.clone().unwrap_or_else(|| self.windows_names.clone()),
            has_password: change.password.map_or(self.has_password, |password| password.is_some()),
            ..self.clone()
        };
        let mut changes = Vec::new();
        if user.gid != self.gid {
            changes.push(format!("gid {} → {}", self.gid, user.gid));
        }
        changes.extend((user.windows_names != self.windows_names).then(|| "windows names".to_owned()));
        match change.password {
            Some(Some(_)) => changes.push("password".to_owned()),
            Some(None) if self.has_password => changes.push("no password".to_owned()),
            Some(None) | None => {}
        }
        (user, changes)
    }
}

impl NewGroup {
    pub fn new(name: AccountName, gid: u32) -> Self {
        Self { name, gid, members: None }
    }

    pub(crate) fn differs_from(&self, group: &Group) -> Vec<Difference> {
        let set = |names: &[AccountName]| names.iter().map(AccountName::folded).collect::<BTreeSet<_>>();
        let other_members = self.members.as_ref().filter(|members| set(members) != set(&group.members));
        let names = |names: &Vec<AccountName>| listed(names);
        let differing = [
            Difference::of("gid", &group.gid, &self.gid, ToString::to_string),
            Difference::if_set("members", &group.members, other_members, names),
        ];
        differing.into_iter().flatten().collect()
    }
}
