//! Local users and groups.

mod listing;

use crate::limits::{ACCOUNTS_MAX, ID_MAX, MEMBERS_MAX};
use crate::names::{AccountName, WindowsName, folded};
use crate::resolver::{Id, Identity, NotMapped, Principal, PrincipalKind, Resolver, well_known};
use crate::secret::NtHash;
use crate::sid::Sid;
use arc_swap::ArcSwap;
pub use listing::{ListEntry, builtin_aliases};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use vfs::model::caller::INVALID_ID;
use vfs::{Credential, Proof};

/// Samba's domain name for users of the host.
const UNIX_USERS: &str = "Unix User";
/// Samba's domain name for groups of the host.
const UNIX_GROUPS: &str = "Unix Group";

#[derive(Clone, Debug)]
pub struct User {
    pub name: AccountName,
    /// The user's id: 1 to [`ID_MAX`].
    pub uid: u32,
    /// The primary group, which need not be a local group.
    pub gid: u32,
    /// The hash of the password. A user without one cannot log in.
    pub nt_hash: Option<NtHash>,
}

#[derive(Clone, Debug)]
pub struct Group {
    pub name: AccountName,
    /// The group's id: 1 to [`ID_MAX`].
    pub gid: u32,
    pub members: Vec<AccountName>,
}

/// A rule that maps a Windows user to a local user, and shows the local user under the Windows name.
#[derive(Clone, Debug)]
pub struct Mapping {
    pub windows: WindowsName,
    pub user: AccountName,
}

/// An immutable snapshot of all users, groups and mappings.
pub struct Accounts {
    machine: Sid,
    /// The machine's name, the domain of its users.
    domain: String,
    users: Vec<UserRecord>,
    groups: Vec<Group>,
    /// Indexes into `users`, by folded name and by uid.
    user_by_name: HashMap<String, usize>,
    user_by_uid: BTreeMap<u32, usize>,
    group_by_name: HashMap<String, usize>,
    group_by_gid: BTreeMap<u32, usize>,
    /// Indexes into `users`, in the order of listed names.
    name_order: Vec<usize>,
    /// Keyed by folded domain (empty: any) and folded name.
    user_by_windows_name: HashMap<(String, String), usize>,
    default_user: Option<usize>,
}

struct UserRecord {
    user: User,
    groups: Vec<u32>,
    /// The Windows name, if it differs from the local one.
    windows: Option<WindowsName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Two users, or two groups, have names that differ at most by case.
    DuplicateName(String),
    /// Two users, or two groups, have this id.
    DuplicateId(u32),
    /// A id outside of 1 to [`ID_MAX`].
    OutOfRange(u32),
    /// A group or a mapping names an unknown user.
    UnknownUser(String),
    /// Two mappings are for this Windows user.
    DuplicateMapping(String),
    /// A mapping of this Windows user, in any domain, would lock out the local user of that name.
    ShadowedUser(String),
    TooMany(usize),
}

impl Accounts {
    pub fn empty(machine: Sid, domain: &str) -> Self {
        Self {
            machine,
            domain: domain.to_owned(),
            users: Vec::new(),
            groups: Vec::new(),
            user_by_name: HashMap::new(),
            user_by_uid: BTreeMap::new(),
            group_by_name: HashMap::new(),
            group_by_gid: BTreeMap::new(),
            name_order: Vec::new(),
            user_by_windows_name: HashMap::new(),
            default_user: None,
        }
    }

    pub fn with_entries(
        mut self,
        users: Vec<User>,
        groups: Vec<Group>,
        mappings: Vec<Mapping>,
        default: Option<&AccountName>,
    ) -> Result<Self, Conflict> {
        for count in [users.len(), groups.len(), mappings.len()] {
            check_count(count, ACCOUNTS_MAX)?;
        }
        for user in users {
            self.add_user(user)?;
        }
        for group in groups {
            self.add_group(group)?;
        }
        for mapping in mappings {
            self.add_mapping(mapping)?;
        }
        self.check_shadows()?;
        self.sort_by_name();
        self.default_user = default.map(|name| self.user_index(name)).transpose()?;
        Ok(self)
    }

    /// The NT hash of a user's password, found by mapping or by name, regardless of case. `None` for unknown users and
    /// users without a password. The default user has no login here: it is for clients that authenticated elsewhere.
    pub fn nt_hash(&self, name: &str, domain: &str) -> Option<NtHash> {
        self.find_user_by_name(name, domain)?.user.nt_hash
    }

    fn add_user(&mut self, user: User) -> Result<(), Conflict> {
        let index = self.users.len();
        // The primary group may be a group of the host.
        if user.gid > ID_MAX {
            return Err(Conflict::OutOfRange(user.gid));
        }
        insert_unique(&mut self.user_by_name, &mut self.user_by_uid, &user.name, user.uid, index)?;
        self.users.push(UserRecord { user, groups: Vec::new(), windows: None });
        Ok(())
    }

    fn add_group(&mut self, group: Group) -> Result<(), Conflict> {
        check_count(group.members.len(), MEMBERS_MAX)?;
        let index = self.groups.len();
        insert_unique(&mut self.group_by_name, &mut self.group_by_gid, &group.name, group.gid, index)?;
        for member in &group.members {
            let index = self.user_index(member)?;
            self.users[index].groups.push(group.gid);
        }
        self.groups.push(group);
        Ok(())
    }

    fn add_mapping(&mut self, Mapping { windows, user }: Mapping) -> Result<(), Conflict> {
        let index = self.user_index(&user)?;
        let domain = windows.domain.as_deref().map(folded).unwrap_or_default();
        if self.user_by_windows_name.insert((domain, folded(&windows.name)), index).is_some() {
            return Err(Conflict::DuplicateMapping(windows.to_string()));
        }
        self.users[index].windows.get_or_insert(windows);
        Ok(())
    }

    /// Refuses mappings that give one user the name of another in every domain.
    fn check_shadows(&self) -> Result<(), Conflict> {
        let anywhere = self.user_by_windows_name.iter().filter(|((domain, _), _)| domain.is_empty());
        let of_others = anywhere
            .filter(|((_, name), index)| self.user_by_name.get(name).is_some_and(|user| user != *index));
        // The first by name, so that the error does not depend on the order of the map.
        match of_others.map(|((_, name), _)| name).min() {
            Some(name) => Err(Conflict::ShadowedUser(name.clone())),
            None => Ok(()),
        }
    }

    fn user_index(&self, name: &AccountName) -> Result<usize, Conflict> {
        self.user_by_name.get(&name.folded()).copied().ok_or_else(|| Conflict::UnknownUser(name.to_string()))
    }

    /// The user's name in its original spelling.
    pub fn canonical_user_name(&self, name: &AccountName) -> Option<&AccountName> {
        self.user_by_name.get(&name.folded()).map(|&index| &self.users[index].user.name)
    }

    /// The group's name in its original spelling.
    pub fn canonical_group_name(&self, name: &AccountName) -> Option<&AccountName> {
        self.group_by_name.get(&name.folded()).map(|&index| &self.groups[index].name)
    }

    /// Finds a user by mapping or by name.
    fn find_user_by_name(&self, name: &str, domain: &str) -> Option<&UserRecord> {
        let (name, domain) = (folded(name), folded(domain));
        let by_name = self.user_by_name.get(&name);
        let in_domain = self.user_by_windows_name.get(&(domain, name.clone()));
        let anywhere = self.user_by_windows_name.get(&(String::new(), name));
        in_domain.or(anywhere).or(by_name).map(|&index| &self.users[index])
    }

    fn identity_of(&self, record: &UserRecord) -> Identity {
        let UserRecord { user, groups, .. } = record;
        let others = groups.iter().filter(|&&group| group != user.gid);
        Identity {
            name: user.name.to_string(),
            credential: Credential::new(Proof::Proven, user.uid, user.gid, others.clone().copied()),
            sid: self.user_sid(user.uid),
            group_sids: [&user.gid].into_iter().chain(others).map(|&gid| self.group_sid(gid)).collect(),
        }
    }

    fn principal_of_user(&self, record: &UserRecord) -> Principal {
        let (domain, name) = match &record.windows {
            Some(WindowsName { domain, name }) => (domain.as_ref().unwrap_or(&self.domain), &**name),
            None => (&self.domain, record.user.name.as_str()),
        };
        let sid = self.machine.user(record.user.uid);
        Principal { kind: PrincipalKind::User, domain: domain.clone(), name: name.to_owned(), sid }
    }

    fn principal_of_group(&self, group: &Group) -> Principal {
        let sid = self.machine.group(group.gid);
        Principal {
            kind: PrincipalKind::Alias,
            domain: self.domain.clone(),
            name: group.name.to_string(),
            sid,
        }
    }
}

impl Resolver for Accounts {
    fn identity(&self, name: &str, domain: &str) -> Result<Identity, NotMapped> {
        let default = || self.default_user.map(|index| &self.users[index]);
        let not_mapped = || NotMapped { name: name.to_owned(), domain: domain.to_owned() };
        let record = self.find_user_by_name(name, domain).or_else(default).ok_or_else(not_mapped)?;
        Ok(self.identity_of(record))
    }

    fn user_sid(&self, uid: u32) -> Sid {
        let is_local = self.user_by_uid.contains_key(&uid);
        if is_local { self.machine.user(uid) } else { Sid::unix_user(uid) }
    }

    fn group_sid(&self, gid: u32) -> Sid {
        let is_local = self.group_by_gid.contains_key(&gid);
        if is_local { self.machine.group(gid) } else { Sid::unix_group(gid) }
    }

    fn id_of(&self, sid: &Sid) -> Option<Id> {
        let id = sid.mapped_id(&self.machine)?;
        let is_one = if id.is_local { (1..=ID_MAX).contains(&id.id) } else { id.id != INVALID_ID };
        let id = if id.is_group { Id::Group(id.id) } else { Id::User(id.id) };
        is_one.then_some(id)
    }

    fn name_of(&self, sid: &Sid) -> Option<Principal> {
        if *sid == self.machine {
            let (domain, name) = (self.domain.clone(), String::new());
            return Some(Principal { kind: PrincipalKind::Domain, domain, name, sid: sid.clone() });
        }
        if *sid == self.machine.domain_users() {
            return Some(self.domain_users_principal());
        }
        let Some(id) = self.id_of(sid) else {
            return well_known().find(|record| record.sid == *sid);
        };
        let record = match id {
            Id::User(uid) => {
                self.user_by_uid.get(&uid).map(|&index| self.principal_of_user(&self.users[index]))
            }
            Id::Group(gid) => {
                self.group_by_gid.get(&gid).map(|&index| self.principal_of_group(&self.groups[index]))
            }
        };
        let (domain, kind, id) = match id {
            Id::User(uid) => (UNIX_USERS, PrincipalKind::User, uid),
            Id::Group(gid) => (UNIX_GROUPS, PrincipalKind::Alias, gid),
        };
        let is_local = sid.mapped_id(&self.machine).is_some_and(|id| id.is_local);
        let (domain, name) = (domain.to_owned(), id.to_string());
        // A local user or group that does not exist has no name.
        record.or_else(|| (!is_local).then(|| Principal { kind, domain, name, sid: sid.clone() }))
    }

    fn principal(&self, domain: &str, name: &str) -> Option<Principal> {
        let (wanted, of) = (folded(name), folded(domain));
        let unix = |users: &str| of == folded(users);
        if unix(UNIX_USERS) || unix(UNIX_GROUPS) {
            let id = wanted.parse().ok().filter(|&id| id != INVALID_ID)?;
            return self.name_of(&if unix(UNIX_USERS) { self.user_sid(id) } else { self.group_sid(id) });
        }
        let is =
            |one: &Principal| folded(&one.name) == wanted && (of.is_empty() || folded(&one.domain) == of);
        let user = self.find_user_by_name(name, domain).map(|record| self.principal_of_user(record));
        let is_local = of.is_empty() || of == folded(&self.domain);
        let group = self.group_by_name.get(&wanted).filter(|_| is_local);
        let group = group.map(|&index| self.principal_of_group(&self.groups[index]));
        let user = user.filter(|user| is_local || folded(&user.domain) == of);
        let well_known = || [self.domain_users_principal()].into_iter().chain(well_known()).find(is);
        user.or(group).or_else(well_known)
    }

    fn machine_sid(&self) -> Sid {
        self.machine.clone()
    }
}

/// Accounts that are replaced as a whole. Readers keep the snapshot that they have loaded.
#[derive(Clone)]
pub struct SharedAccounts(Arc<ArcSwap<Accounts>>);

impl SharedAccounts {
    pub fn new(accounts: Accounts) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(accounts)))
    }

    pub fn store(&self, accounts: Accounts) {
        self.0.store(Arc::new(accounts));
    }

    pub fn load(&self) -> Arc<Accounts> {
        self.0.load_full()
    }

    /// The current NT hash, as [`Accounts::nt_hash`].
    pub fn nt_hash(&self, name: &str, domain: &str) -> Option<NtHash> {
        self.0.load().nt_hash(name, domain)
    }
}

impl Resolver for SharedAccounts {
    fn identity(&self, name: &str, domain: &str) -> Result<Identity, NotMapped> {
        self.0.load().identity(name, domain)
    }

    fn user_sid(&self, uid: u32) -> Sid {
        self.0.load().user_sid(uid)
    }

    fn group_sid(&self, gid: u32) -> Sid {
        self.0.load().group_sid(gid)
    }

    fn id_of(&self, sid: &Sid) -> Option<Id> {
        self.0.load().id_of(sid)
    }

    fn name_of(&self, sid: &Sid) -> Option<Principal> {
        self.0.load().name_of(sid)
    }

    fn principal(&self, domain: &str, name: &str) -> Option<Principal> {
        self.0.load().principal(domain, name)
    }

    fn machine_sid(&self) -> Sid {
        self.0.load().machine_sid()
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateName(name) => {
                write!(f, "the name {name:?} is already in use; names are compared without case")
            }
            Self::DuplicateId(id) => write!(f, "the number {id} is already in use"),
            Self::OutOfRange(id) => write!(f, "the number {id} is not in 1 to {ID_MAX}"),
            Self::UnknownUser(name) => write!(f, "there is no user {name:?}"),
            Self::DuplicateMapping(name) => write!(f, "the Windows user {name:?} has two mappings"),
            Self::ShadowedUser(name) => {
                write!(f, "{name:?} is a Windows name of one user and the name of another")
            }
            Self::TooMany(most) => write!(f, "there are more than {most}"),
        }
    }
}

impl std::error::Error for Conflict {}

fn check_count(count: usize, most: usize) -> Result<(), Conflict> {
    if count > most { Err(Conflict::TooMany(most)) } else { Ok(()) }
}

/// Indexes an account by name and id; both must be unused.
fn insert_unique(
    named: &mut HashMap<String, usize>,
    numbered: &mut BTreeMap<u32, usize>,
    name: &AccountName,
    id: u32,
    index: usize,
) -> Result<(), Conflict> {
    if !(1..=ID_MAX).contains(&id) {
        return Err(Conflict::OutOfRange(id));
    }
    if named.insert(name.folded(), index).is_some() {
        return Err(Conflict::DuplicateName(name.to_string()));
    }
    if numbered.insert(id, index).is_some() {
        return Err(Conflict::DuplicateId(id));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> AccountName {
        text.parse().unwrap()
    }

    fn user(text: &str, uid: u32) -> User {
        User { name: name(text), uid, gid: 100, nt_hash: Some(NtHash::from_password(text)) }
    }

    fn group(text: &str, gid: u32, members: &[&str]) -> Group {
        Group { name: name(text), gid, members: members.iter().map(|member| name(member)).collect() }
    }

    fn mapping(windows: &str, user: &str) -> Mapping {
        Mapping { windows: windows.parse().unwrap(), user: name(user) }
    }

    fn none() -> Accounts {
        Accounts::empty(Sid::machine([1, 2, 3]), "FILES")
    }

    fn accounts(default: Option<&str>) -> Accounts {
        let users = vec![user("alice", 1000), user("bob", 1001), user("nobody", 9)];
        let groups = vec![group("staff", 100, &["bob"]), group("artists", 2000, &["Alice", "bob"])];
        let mappings = vec![
            mapping(r"CORP\alice", "bob"),
            mapping("Alice Smith", "alice"),
            mapping(r"OTHER\a.smith", "alice"),
        ];
        none().with_entries(users, groups, mappings, default.map(name).as_ref()).unwrap()
    }

    fn who(accounts: &Accounts, name: &str, domain: &str) -> Option<u32> {
        accounts.identity(name, domain).ok().map(|identity| identity.credential.uid)
    }

    #[test]
    fn mapping_precedes_name_precedes_default_user() {
        let strict = accounts(None);
        assert_eq!(who(&strict, "alice", "corp"), Some(1001));
        assert_eq!(who(&strict, "ALICE", "FILES"), Some(1000));
        assert_eq!(who(&strict, "alice smith", "WHEREVER"), Some(1000));
        assert_eq!(who(&strict, "a.smith", "OTHER"), Some(1000));
        assert_eq!(who(&strict, "a.smith", "FILES"), None);
        assert_eq!(who(&strict, "carol", "FILES"), None);
        let lenient = accounts(Some("nobody"));
        assert_eq!(who(&lenient, "carol", "FILES"), Some(9));
        assert_eq!(who(&lenient, "alice", "corp"), Some(1001));
        // The default user's password lets no client in.
        assert!(lenient.nt_hash("carol", "FILES").is_none());
        assert_eq!(lenient.nt_hash("alice", "CORP"), Some(NtHash::from_password("bob")));
    }

    #[test]
    fn identity_includes_every_group() {
        let bob = accounts(None).identity("bob", "").unwrap();
        assert_eq!((bob.credential.gid, bob.credential.groups()), (100, &[2000][..]));
        assert_eq!(bob.credential.proof, Proof::Proven);
        let sids: Vec<_> = bob.group_sids.iter().map(Sid::to_string).collect();
        assert_eq!(sids, ["S-1-5-21-1-2-3-1201", "S-1-5-21-1-2-3-5001"]);
        assert_eq!(bob.sid.to_string(), "S-1-5-21-1-2-3-3002");
    }

    #[test]
    fn sids_and_ids_are_inverse() {
        let accounts = accounts(None);
        for uid in [0, 9, 1000, 77, u32::MAX - 1] {
            assert_eq!(accounts.id_of(&accounts.user_sid(uid)), Some(Id::User(uid)));
        }
        for gid in [0, 100, 2000, 77, u32::MAX - 1] {
            assert_eq!(accounts.id_of(&accounts.group_sid(gid)), Some(Id::Group(gid)));
        }
        assert_eq!(accounts.user_sid(77).to_string(), "S-1-22-1-77");
        // Numbers outside of the range of local accounts, no id at all, and another machine.
        for sid in [
            "S-1-5-21-1-2-3-1000",
            "S-1-5-21-1-2-3-1001",
            "S-1-5-21-1-2-3-4000001002",
            "S-1-22-1-4294967295",
            "S-1-5-21-1-2-4-3000",
        ] {
            assert_eq!(accounts.id_of(&sid.parse().unwrap()), None, "{sid}");
        }
    }

    #[test]
    fn sid_of_absent_local_account_maps_to_its_id() {
        let (before, after) = (none(), accounts(None));
        for (sid, id) in [
            (after.user_sid(1000), Id::User(1000)),
            (after.group_sid(2000), Id::Group(2000)),
            (after.machine.user(ID_MAX), Id::User(ID_MAX)),
        ] {
            assert_eq!((before.id_of(&sid), after.id_of(&sid)), (Some(id), Some(id)));
            assert_eq!(before.name_of(&sid), None, "who is not here has no name");
        }
        assert_eq!(before.id_of(&before.user_sid(1000)), Some(Id::User(1000)));
    }

    #[test]
    fn names_and_sids_are_inverse() {
        let accounts = accounts(None);
        for (domain, name) in [
            ("FILES", "Alice Smith"),
            ("CORP", "alice"),
            ("FILES", "nobody"),
            ("FILES", "artists"),
            ("", "Everyone"),
            ("BUILTIN", "Administrators"),
            ("NT AUTHORITY", "SYSTEM"),
            ("Unix User", "77"),
            ("Unix Group", "0"),
        ] {
            let found = accounts.principal(domain, name).unwrap();
            assert_eq!((&*found.domain, &*found.name), (domain, name));
            assert_eq!(accounts.name_of(&found.sid), Some(found));
        }
        assert_eq!(accounts.principal("", "ARTISTS").unwrap().kind, PrincipalKind::Alias);
        assert_eq!(accounts.principal("CORP", "alice").unwrap().sid, accounts.user_sid(1001));
        assert_eq!(accounts.name_of(&accounts.machine_sid()).unwrap().domain, "FILES");
        for (domain, name) in
            [("CORP", "bob x"), ("ELSEWHERE", "nobody"), ("ELSEWHERE", "artists"), ("Unix User", "x")]
        {
            assert_eq!(accounts.principal(domain, name), None, r"{domain}\{name}");
        }
        assert_eq!(accounts.name_of(&"S-1-5-21-9-9-9-1000".parse().unwrap()), None);
    }

    #[test]
    fn conflicting_accounts_are_refused() {
        let with = |users, groups, mappings| none().with_entries(users, groups, mappings, None).err();
        let name = |text: &str| Some(Conflict::DuplicateName(text.to_owned()));
        assert_eq!(with(vec![user("a", 1), user("A", 2)], vec![], vec![]), name("A"));
        assert_eq!(with(vec![user("a", 1), user("b", 1)], vec![], vec![]), Some(Conflict::DuplicateId(1)));
        for id in [0, ID_MAX + 1, u32::MAX] {
            assert_eq!(with(vec![user("a", id)], vec![], vec![]), Some(Conflict::OutOfRange(id)));
            assert_eq!(with(vec![], vec![group("g", id, &[])], vec![]), Some(Conflict::OutOfRange(id)));
        }
        let stranger = Some(Conflict::UnknownUser("b".to_owned()));
        assert_eq!(with(vec![user("a", 1)], vec![group("g", 1, &["b"])], vec![]), stranger);
        assert_eq!(with(vec![user("a", 1)], vec![], vec![mapping("x", "b")]), stranger);
        let twice = vec![mapping(r"D\x", "a"), mapping(r"d\X", "a")];
        assert_eq!(
            with(vec![user("a", 1)], vec![], twice),
            Some(Conflict::DuplicateMapping(r"d\X".to_owned()))
        );
        let many = (0..=ACCOUNTS_MAX).map(|_| user("a", 1)).collect();
        assert_eq!(with(many, vec![], vec![]), Some(Conflict::TooMany(ACCOUNTS_MAX)));
        assert!(with(vec![user("a", 1)], vec![group("a", 1, &["a"])], vec![]).is_none());
        let two = || vec![user("a", 1), user("b", 2)];
        let shadowed = Some(Conflict::ShadowedUser("A".to_owned()));
        assert_eq!(with(two(), vec![], vec![mapping("a", "b")]), shadowed);
        for fine in [mapping("a", "a"), mapping(r"D\a", "b")] {
            assert_eq!(with(two(), vec![], vec![fine]), None);
        }
    }

    #[test]
    fn shared_accounts_are_replaced_atomically() {
        let shared = SharedAccounts::new(none());
        let before = shared.load();
        shared.store(accounts(None));
        assert!(shared.identity("bob", "").is_ok() && shared.nt_hash("bob", "").is_some());
        assert!(before.identity("bob", "").is_err());
    }
}
