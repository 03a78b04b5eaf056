//! Users and groups of the service's own: who logs in with a password (SMB), and as which numbers.

use crate::error::{Error, Result};
use identity::{AccountName, NtHash, WindowsName};
use std::collections::BTreeSet;

/// UTF-16 units of a password, as many as Windows takes.
pub const PASSWORD_UNITS_MAX: usize = 256;
pub const WINDOWS_NAMES_MAX: usize = 16;
/// Groups that a user is in besides the primary one.
pub const GROUPS_OF_USER_MAX: usize = 256;
/// Memberships of all users in all groups.
pub const MEMBERSHIPS_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(crate) row: i64,
    /// Case does not distinguish users.
    pub name: AccountName,
    /// The owner of files.
    pub uid: u32,
    /// The number of its primary group, which may be one of the clients' own.
    pub gid: u32,
    /// Further names of the user on Windows, with or without a domain.
    pub windows_names: Vec<WindowsName>,
    pub groups: Vec<AccountName>,
    /// Whether it has a password. Without one it cannot log in.
    pub has_password: bool,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it was last changed.
    pub changed_ms: u64,
}

/// A user to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    pub name: AccountName,
    pub uid: u32,
    /// The number of its primary group; that of the user if it is left out.
    pub gid: Option<u32>,
    /// Further names of the user on Windows; none if left out.
    pub windows_names: Option<Vec<WindowsName>>,
    pub password: Option<NtHash>,
}

/// Changes of a user; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    /// Another primary group.
    pub gid: Option<u32>,
    /// Other Windows names, all of them.
    pub windows_names: Option<Vec<WindowsName>>,
    /// Another password; `Some(None)` takes it away.
    pub password: Option<Option<NtHash>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub(crate) row: i64,
    /// Case does not distinguish groups.
    pub name: AccountName,
    /// The group of files.
    pub gid: u32,
    pub members: Vec<AccountName>,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it was last changed.
    pub changed_ms: u64,
}

/// A group to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub name: AccountName,
    pub gid: u32,
    /// The users in it: none if left out.
    pub members: Option<Vec<AccountName>>,
}

pub fn account_name(text: &str) -> Result<AccountName> {
    let allowed = || format!("{}, and no dot at the end", AccountName::ALLOWED);
    text.parse().map_err(|_| Error::invalid(format!("{text:?} cannot name a user or group"), allowed()))
}

pub fn windows_name(text: &str) -> Result<WindowsName> {
    let what = || format!("{text:?} cannot be the name of a Windows user");
    text.parse().map_err(|_| Error::invalid(what(), WindowsName::ALLOWED))
}

/// The hash of a password, which is all that is kept of it.
pub fn password(text: &str) -> Result<NtHash> {
    let units = text.encode_utf16().count();
    if !(1..=PASSWORD_UNITS_MAX).contains(&units) || text.contains(char::is_control) {
        let allowed = format!("1 to {PASSWORD_UNITS_MAX} characters without control characters");
        return Err(Error::invalid("this password", allowed));
    }
    Ok(NtHash::from_password(text))
}

impl NewUser {
    /// A user with a group of its own, and without a password.
    pub fn new(name: AccountName, uid: u32) -> Self {
        Self { name, uid, gid: None, windows_names: None, password: None }
    }

    /// The properties in which `user`, whose password is `known`, is another. What is left open is not compared.
    pub(crate) fn differs_from(&self, user: &User, known: Option<&NtHash>) -> Vec<&'static str> {
        crate::volume::those([
            ("uid", self.uid != user.uid),
            ("gid", self.gid.is_some_and(|gid| gid != user.gid)),
            ("windows names", self.windows_names.as_ref().is_some_and(|names| *names != user.windows_names)),
            ("password", self.password.as_ref().is_some_and(|password| known != Some(password))),
        ])
    }
}

impl User {
    /// Returns the user after `change`, and the changed properties in words. A password in the change always counts as changed:
    /// nobody finds out so what it was.
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
    /// A group without members.
    pub fn new(name: AccountName, gid: u32) -> Self {
        Self { name, gid, members: None }
    }

    /// The properties in which `group` is another.
    pub(crate) fn differs_from(&self, group: &Group) -> Vec<&'static str> {
        let set = |names: &[AccountName]| names.iter().map(AccountName::folded).collect::<BTreeSet<_>>();
        let members = self.members.as_ref().is_some_and(|members| set(members) != set(&group.members));
        crate::volume::those([("gid", self.gid != group.gid), ("members", members)])
    }
}
