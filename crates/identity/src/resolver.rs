//! Mapping between names, numbers and security identifiers.

use crate::sid::Sid;
use std::fmt;
use std::sync::Arc;
use vfs::Credential;

/// Maps names as clients spell them, numbers as files store them, and security identifiers to each other.
pub trait Resolver: Send + Sync {
    /// The local user for an authenticated name: by a mapping, by the same name, else the default user.
    fn identity(&self, name: &str, domain: &str) -> Result<Identity, NotMapped>;

    /// The security identifier of `uid`; every uid has one.
    fn user_sid(&self, uid: u32) -> Sid;

    /// The security identifier of `gid`; every gid has one.
    fn group_sid(&self, gid: u32) -> Sid;

    /// The number that files store for `sid`. A local user or group need not exist yet: permissions granted to its
    /// number take effect when it is created.
    fn id_of(&self, sid: &Sid) -> Option<Id>;

    fn name_of(&self, sid: &Sid) -> Option<Principal>;

    /// Finds a user or group by name. An empty `domain` matches any.
    fn principal(&self, domain: &str, name: &str) -> Option<Principal>;

    /// The security identifier of this machine, the prefix of its users' and groups'.
    fn machine_sid(&self) -> Sid;
}

/// The local identity of an authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    /// The credential for file access.
    pub credential: Arc<Credential>,
    pub sid: Sid,
    /// The user's groups, the primary group first.
    pub group_sids: Vec<Sid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    User(u32),
    Group(u32),
}

/// A named user, group or domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub kind: PrincipalKind,
    pub domain: String,
    pub name: String,
    pub sid: Sid,
}

/// `SID_NAME_USE`, MS-LSAT §2.2.13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalKind {
    User = 1,
    Group = 2,
    /// A machine or domain.
    Domain = 3,
    /// A group of this machine.
    Alias = 4,
    /// A group that every machine has.
    WellKnownGroup = 5,
}

/// An authenticated name without a local user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotMapped {
    pub name: String,
    pub domain: String,
}

impl fmt::Display for NotMapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, domain } = self;
        write!(
            f,
            "no local user for {name:?} of the domain {domain:?}: no rule, no user with this name, no default user"
        )
    }
}

impl std::error::Error for NotMapped {}

/// The groups that every machine has, by relative identifier below `S-1-5-32`.
pub(crate) const BUILTIN_ALIASES: [(u32, &str); 3] =
    [(544, "Administrators"), (545, "Users"), (546, "Guests")];

/// The principals that every machine has.
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
        of(NT_AUTHORITY, "NETWORK", Sid::from_parts(5, [2])),
        of(NT_AUTHORITY, "ANONYMOUS LOGON", Sid::anonymous()),
        of(NT_AUTHORITY, "Authenticated Users", Sid::authenticated_users()),
        of(NT_AUTHORITY, "SYSTEM", Sid::system()),
    ];
    let aliases =
        BUILTIN_ALIASES.map(|(relative, name)| of(BUILTIN, name, Sid::builtin().with_rid(relative)));
    groups.into_iter().chain(aliases)
}
