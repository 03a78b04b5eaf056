//! Who somebody is here.

use crate::sid::Sid;
use std::fmt;
use std::sync::Arc;
use vfs::Credential;

/// Says who is who: names as clients spell them, numbers as files have them, and security identifiers.
pub trait Resolver: Send + Sync {
    /// Who an authenticated user is here: by an explicit rule, by the same name, else the default user.
    fn identity(&self, name: &str, domain: &str) -> Result<Identity, NotMapped>;

    /// Who owns what this user owns: there is always one.
    fn user_sid(&self, uid: u32) -> Sid;

    /// The same of a group.
    fn group_sid(&self, gid: u32) -> Sid;

    /// The number that files have of somebody. A user or group of ours has it whether or not it is there yet: what is said of it holds
    /// for whoever is made with the number.
    fn id_of(&self, sid: &Sid) -> Option<Id>;

    /// The name of somebody.
    fn name_of(&self, sid: &Sid) -> Option<Principal>;

    /// Somebody by name. An empty `domain` is any.
    fn principal(&self, domain: &str, name: &str) -> Option<Principal>;

    /// What the identifiers of this machine begin with.
    fn machine_sid(&self) -> Sid;
}

/// Who an authenticated user is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the user.
    pub name: String,
    /// What files are opened with.
    pub credential: Arc<Credential>,
    /// The user.
    pub sid: Sid,
    /// Its groups, the primary one first.
    pub group_sids: Vec<Sid>,
}

/// The number of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Of a user.
    User(u32),
    /// Of a group.
    Group(u32),
}

/// Somebody with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// What it is.
    pub kind: PrincipalKind,
    /// Where it has its name.
    pub domain: String,
    /// Its name there.
    pub name: String,
    /// Its identifier.
    pub sid: Sid,
}

/// `SID_NAME_USE`, MS-LSAT §2.2.13: what has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalKind {
    /// A user.
    User = 1,
    /// A group.
    Group = 2,
    /// A machine or domain.
    Domain = 3,
    /// A group of this machine.
    Alias = 4,
    /// A group that every machine has.
    WellKnownGroup = 5,
}

/// Somebody who has proven a name, and is nobody here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotMapped {
    /// The name.
    pub name: String,
    /// Its domain.
    pub domain: String,
}

impl fmt::Display for NotMapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, domain } = self;
        write!(
            f,
            "the user {name:?} of the domain {domain:?} has no user here: no rule, no user of this name, no default user"
        )
    }
}

impl std::error::Error for NotMapped {}

/// The groups that every machine has, by relative identifier below `S-1-5-32`.
pub(crate) const BUILTIN_ALIASES: [(u32, &str); 3] =
    [(544, "Administrators"), (545, "Users"), (546, "Guests")];

/// Who every machine has.
pub(crate) fn well_known() -> impl Iterator<Item = Principal> {
    const NT_AUTHORITY: &str = "NT AUTHORITY";
    const BUILTIN: &str = "BUILTIN";
    let of = |domain: &str, name: &str, sid| Principal {
        kind: if domain == BUILTIN { PrincipalKind::Alias } else { PrincipalKind::WellKnownGroup },
        domain: domain.to_owned(),
        name: name.to_owned(),
        sid,
    };
    let groups = [
        of("", "Everyone", Sid::everyone()),
        of("", "CREATOR OWNER", Sid::creator_owner()),
        of("", "CREATOR GROUP", Sid::creator_group()),
        of("", "OWNER RIGHTS", Sid::owner_rights()),
        of(NT_AUTHORITY, "NETWORK", Sid::of(5, [2])),
        of(NT_AUTHORITY, "ANONYMOUS LOGON", Sid::anonymous()),
        of(NT_AUTHORITY, "Authenticated Users", Sid::authenticated_users()),
        of(NT_AUTHORITY, "SYSTEM", Sid::system()),
    ];
    let aliases = BUILTIN_ALIASES.map(|(relative, name)| of(BUILTIN, name, Sid::builtin().below(relative)));
    groups.into_iter().chain(aliases)
}
