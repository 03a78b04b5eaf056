//! The users and groups of this service.

mod listing;

use crate::limits::{ACCOUNTS_MAX, ID_MAX, MEMBERS_MAX};
use crate::names::{AccountName, WindowsName, folded};
use crate::resolver::{Id, Identity, NotMapped, Principal, PrincipalKind, Resolver, well_known};
use crate::secret::NtHash;
use crate::sid::Sid;
use arc_swap::ArcSwap;
pub use listing::{Listed, builtin_aliases};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use vfs::model::caller::INVALID_ID;
use vfs::{Credential, Proof};

/// Where users of the host have their names, as Samba has it.
const UNIX_USERS: &str = "Unix User";
/// The same of groups.
const UNIX_GROUPS: &str = "Unix Group";

/// A user of ours.
#[derive(Clone, Debug)]
pub struct User {
    /// Its name.
    pub name: AccountName,
    /// Its number: 1 to [`ID_MAX`].
    pub uid: u32,
    /// The number of its primary group, which need not be one of ours.
    pub gid: u32,
    /// The hash of its password. Without one nobody can be this user by a password.
    pub nt_hash: Option<NtHash>,
}

/// A group of ours.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: AccountName,
    /// Its number: 1 to [`ID_MAX`].
    pub gid: u32,
    /// Users of ours that are in it.
    pub members: Vec<AccountName>,
}

/// A rule: this Windows user is this user of ours, and is shown by that name.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Who it is to Windows.
    pub windows: WindowsName,
    /// Who it is here.
    pub user: AccountName,
}

/// All of them, as they are at one moment.
pub struct Accounts {
    machine: Sid,
    /// The name of the machine, which is the domain of its users.
    domain: String,
    users: Vec<Known>,
    groups: Vec<Group>,
    /// Places in `users`, by folded name and by number.
    user_named: HashMap<String, usize>,
    user_numbered: BTreeMap<u32, usize>,
    group_named: HashMap<String, usize>,
    group_numbered: BTreeMap<u32, usize>,
    /// Places in `users`, in the order of the names that lists have.
    users_by_name: Vec<usize>,
    /// By folded domain, empty for any, and folded name.
    mapped: HashMap<(String, String), usize>,
    default: Option<usize>,
}

/// A user with what follows of the rest.
struct Known {
    user: User,
    /// The groups that it is in.
    groups: Vec<u32>,
    /// The name by which Windows knows it, if that is another one.
    windows: Option<WindowsName>,
}

/// Why users and groups do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Two users, or two groups, have a name that differs at most by case.
    Name(String),
    /// Two users, or two groups, have this number.
    Number(u32),
    /// A number that no user or group can have.
    OutOfRange(u32),
    /// A group or a rule names a user whom there is not.
    NoUser(String),
    /// Two rules are for this Windows user.
    Mapping(String),
    /// A rule for this Windows user, of whatever domain, would keep another user of the name out.
    Shadowed(String),
    /// There are too many of something.
    TooMany(usize),
}

impl Accounts {
    /// Nobody.
    pub fn none(machine: Sid, domain: &str) -> Self {
        Self {
            machine,
            domain: domain.to_owned(),
            users: Vec::new(),
            groups: Vec::new(),
            user_named: HashMap::new(),
            user_numbered: BTreeMap::new(),
            group_named: HashMap::new(),
            group_numbered: BTreeMap::new(),
            users_by_name: Vec::new(),
            mapped: HashMap::new(),
            default: None,
        }
    }

    /// These users, groups and rules.
    pub fn with(
        mut self,
        users: Vec<User>,
        groups: Vec<Group>,
        mappings: Vec<Mapping>,
        default: Option<&AccountName>,
    ) -> Result<Self, Conflict> {
        for count in [users.len(), groups.len(), mappings.len()] {
            at_most(count, ACCOUNTS_MAX)?;
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
        self.default = default.map(|name| self.place(name)).transpose()?;
        Ok(self)
    }

    /// The NT hash of a user's password, by rule or name, or `None` for nobody and for users without one. `name` is as the client spells
    /// it; case does not tell users apart. The default user lets nobody in: that is for those who have proven elsewhere who they are.
    pub fn nt_hash(&self, name: &str, domain: &str) -> Option<NtHash> {
        self.find(name, domain)?.user.nt_hash
    }

    fn add_user(&mut self, user: User) -> Result<(), Conflict> {
        let place = self.users.len();
        // The primary group may be one of the host's.
        if user.gid > ID_MAX {
            return Err(Conflict::OutOfRange(user.gid));
        }
        index(&mut self.user_named, &mut self.user_numbered, (&user.name, user.uid), place)?;
        self.users.push(Known { user, groups: Vec::new(), windows: None });
        Ok(())
    }

    fn add_group(&mut self, group: Group) -> Result<(), Conflict> {
        at_most(group.members.len(), MEMBERS_MAX)?;
        let place = self.groups.len();
        index(&mut self.group_named, &mut self.group_numbered, (&group.name, group.gid), place)?;
        for member in &group.members {
            let place = self.place(member)?;
            self.users[place].groups.push(group.gid);
        }
        self.groups.push(group);
        Ok(())
    }

    fn add_mapping(&mut self, Mapping { windows, user }: Mapping) -> Result<(), Conflict> {
        let place = self.place(&user)?;
        let domain = windows.domain.as_deref().map(folded).unwrap_or_default();
        if self.mapped.insert((domain, folded(&windows.name)), place).is_some() {
            return Err(Conflict::Mapping(windows.to_string()));
        }
        self.users[place].windows.get_or_insert(windows);
        Ok(())
    }

    /// Refuses rules by which one user has the name of another everywhere.
    fn check_shadows(&self) -> Result<(), Conflict> {
        let anywhere = self.mapped.iter().filter(|((domain, _), _)| domain.is_empty());
        let of_others = anywhere
            .filter(|((_, name), place)| self.user_named.get(name).is_some_and(|user| user != *place));
        // The first by name, so that it does not depend on the order of the map.
        match of_others.map(|((_, name), _)| name).min() {
            Some(name) => Err(Conflict::Shadowed(name.clone())),
            None => Ok(()),
        }
    }

    fn place(&self, name: &AccountName) -> Result<usize, Conflict> {
        self.user_named.get(&name.folded()).copied().ok_or_else(|| Conflict::NoUser(name.to_string()))
    }

    /// The name of a user as it was given, by one that may differ by case.
    pub fn user_named(&self, name: &AccountName) -> Option<&AccountName> {
        self.user_named.get(&name.folded()).map(|&place| &self.users[place].user.name)
    }

    /// The same of a group.
    pub fn group_named(&self, name: &AccountName) -> Option<&AccountName> {
        self.group_named.get(&name.folded()).map(|&place| &self.groups[place].name)
    }

    /// The user that somebody is by a rule or by name.
    fn find(&self, name: &str, domain: &str) -> Option<&Known> {
        let (name, domain) = (folded(name), folded(domain));
        let by_name = self.user_named.get(&name);
        let in_domain = self.mapped.get(&(domain, name.clone()));
        let anywhere = self.mapped.get(&(String::new(), name));
        in_domain.or(anywhere).or(by_name).map(|&place| &self.users[place])
    }

    fn identity_of(&self, known: &Known) -> Identity {
        let Known { user, groups, .. } = known;
        let others = groups.iter().filter(|&&group| group != user.gid);
        Identity {
            name: user.name.to_string(),
            credential: Credential::new(Proof::Proven, user.uid, user.gid, others.clone().copied()),
            sid: self.user_sid(user.uid),
            group_sids: [&user.gid].into_iter().chain(others).map(|&gid| self.group_sid(gid)).collect(),
        }
    }

    fn principal_of_user(&self, known: &Known) -> Principal {
        let (domain, name) = match &known.windows {
            Some(WindowsName { domain, name }) => (domain.as_ref().unwrap_or(&self.domain), &**name),
            None => (&self.domain, known.user.name.as_str()),
        };
        let sid = self.machine.user(known.user.uid);
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
        let default = || self.default.map(|place| &self.users[place]);
        let not_mapped = || NotMapped { name: name.to_owned(), domain: domain.to_owned() };
        let known = self.find(name, domain).or_else(default).ok_or_else(not_mapped)?;
        Ok(self.identity_of(known))
    }

    fn user_sid(&self, uid: u32) -> Sid {
        let is_ours = self.user_numbered.contains_key(&uid);
        if is_ours { self.machine.user(uid) } else { Sid::unix_user(uid) }
    }

    fn group_sid(&self, gid: u32) -> Sid {
        let is_ours = self.group_numbered.contains_key(&gid);
        if is_ours { self.machine.group(gid) } else { Sid::unix_group(gid) }
    }

    fn id_of(&self, sid: &Sid) -> Option<Id> {
        let number = sid.number(&self.machine)?;
        let is_one = if number.is_ours { (1..=ID_MAX).contains(&number.id) } else { number.id != INVALID_ID };
        let id = if number.is_group { Id::Group(number.id) } else { Id::User(number.id) };
        is_one.then_some(id)
    }

    fn name_of(&self, sid: &Sid) -> Option<Principal> {
        if *sid == self.machine {
            let (domain, name) = (self.domain.clone(), String::new());
            return Some(Principal { kind: PrincipalKind::Domain, domain, name, sid: sid.clone() });
        }
        if *sid == self.machine.all_users() {
            return Some(self.all_users());
        }
        let Some(id) = self.id_of(sid) else {
            return well_known().find(|known| known.sid == *sid);
        };
        let known = match id {
            Id::User(uid) => {
                self.user_numbered.get(&uid).map(|&place| self.principal_of_user(&self.users[place]))
            }
            Id::Group(gid) => {
                self.group_numbered.get(&gid).map(|&place| self.principal_of_group(&self.groups[place]))
            }
        };
        let (domain, kind, id) = match id {
            Id::User(uid) => (UNIX_USERS, PrincipalKind::User, uid),
            Id::Group(gid) => (UNIX_GROUPS, PrincipalKind::Alias, gid),
        };
        let is_ours = sid.number(&self.machine).is_some_and(|number| number.is_ours);
        let (domain, name) = (domain.to_owned(), id.to_string());
        // A user or group of ours that is not there has no name.
        known.or_else(|| (!is_ours).then(|| Principal { kind, domain, name, sid: sid.clone() }))
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
        let user = self.find(name, domain).map(|known| self.principal_of_user(known));
        let is_ours = of.is_empty() || of == folded(&self.domain);
        let group = self.group_named.get(&wanted).filter(|_| is_ours);
        let group = group.map(|&place| self.principal_of_group(&self.groups[place]));
        let user = user.filter(|user| is_ours || folded(&user.domain) == of);
        let well_known = || [self.all_users()].into_iter().chain(well_known()).find(is);
        user.or(group).or_else(well_known)
    }

    fn machine_sid(&self) -> Sid {
        self.machine.clone()
    }
}

/// Users and groups that can be replaced as a whole, while those who ask go on with what they have.
#[derive(Clone)]
pub struct SharedAccounts(Arc<ArcSwap<Accounts>>);

impl SharedAccounts {
    /// These, for now.
    pub fn new(accounts: Accounts) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(accounts)))
    }

    /// Replaces them.
    pub fn store(&self, accounts: Accounts) {
        self.0.store(Arc::new(accounts));
    }

    /// As they are now.
    pub fn load(&self) -> Arc<Accounts> {
        self.0.load_full()
    }

    /// The NT hash of a user's password now, as of [`Accounts::nt_hash`].
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
            Self::Name(name) => write!(f, "there is {name:?} already; case does not tell names apart"),
            Self::Number(id) => write!(f, "the number {id} is taken"),
            Self::OutOfRange(id) => write!(f, "the number {id} is not in 1 to {ID_MAX}"),
            Self::NoUser(name) => write!(f, "there is no user {name:?}"),
            Self::Mapping(name) => write!(f, "there are two rules for the Windows user {name:?}"),
            Self::Shadowed(name) => {
                write!(f, "{name:?} is a Windows name of one user and the name of another")
            }
            Self::TooMany(most) => write!(f, "there are more than {most}"),
        }
    }
}

impl std::error::Error for Conflict {}

fn at_most(count: usize, most: usize) -> Result<(), Conflict> {
    if count > most { Err(Conflict::TooMany(most)) } else { Ok(()) }
}

/// Makes something be found by name and number, which nothing else may have.
fn index(
    named: &mut HashMap<String, usize>,
    numbered: &mut BTreeMap<u32, usize>,
    (name, id): (&AccountName, u32),
    place: usize,
) -> Result<(), Conflict> {
    if !(1..=ID_MAX).contains(&id) {
        return Err(Conflict::OutOfRange(id));
    }
    if named.insert(name.folded(), place).is_some() {
        return Err(Conflict::Name(name.to_string()));
    }
    if numbered.insert(id, place).is_some() {
        return Err(Conflict::Number(id));
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
        User { name: name(text), uid, gid: 100, nt_hash: Some(NtHash::of_password(text)) }
    }

    fn group(text: &str, gid: u32, members: &[&str]) -> Group {
        Group { name: name(text), gid, members: members.iter().map(|member| name(member)).collect() }
    }

    fn mapping(windows: &str, user: &str) -> Mapping {
        Mapping { windows: windows.parse().unwrap(), user: name(user) }
    }

    fn none() -> Accounts {
        Accounts::none(Sid::machine([1, 2, 3]), "FILES")
    }

    fn accounts(default: Option<&str>) -> Accounts {
        let users = vec![user("alice", 1000), user("bob", 1001), user("nobody", 9)];
        let groups = vec![group("staff", 100, &["bob"]), group("artists", 2000, &["Alice", "bob"])];
        let mappings = vec![
            mapping(r"CORP\alice", "bob"),
            mapping("Alice Smith", "alice"),
            mapping(r"OTHER\a.smith", "alice"),
        ];
        none().with(users, groups, mappings, default.map(name).as_ref()).unwrap()
    }

    fn who(accounts: &Accounts, name: &str, domain: &str) -> Option<u32> {
        accounts.identity(name, domain).ok().map(|identity| identity.credential.uid)
    }

    #[test]
    fn a_rule_comes_before_the_name_and_that_before_the_default() {
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
        // Nobody comes in by the password of the default user.
        assert!(lenient.nt_hash("carol", "FILES").is_none());
        assert_eq!(lenient.nt_hash("alice", "CORP"), Some(NtHash::of_password("bob")));
    }

    #[test]
    fn a_user_has_all_its_groups() {
        let bob = accounts(None).identity("bob", "").unwrap();
        assert_eq!((bob.credential.gid, bob.credential.groups()), (100, &[2000][..]));
        assert_eq!(bob.credential.proof, Proof::Proven);
        let sids: Vec<_> = bob.group_sids.iter().map(Sid::to_string).collect();
        assert_eq!(sids, ["S-1-5-21-1-2-3-1201", "S-1-5-21-1-2-3-5001"]);
        assert_eq!(bob.sid.to_string(), "S-1-5-21-1-2-3-3002");
    }

    #[test]
    fn identifiers_and_numbers_are_each_other_s() {
        let accounts = accounts(None);
        for uid in [0, 9, 1000, 77, u32::MAX - 1] {
            assert_eq!(accounts.id_of(&accounts.user_sid(uid)), Some(Id::User(uid)));
        }
        for gid in [0, 100, 2000, 77, u32::MAX - 1] {
            assert_eq!(accounts.id_of(&accounts.group_sid(gid)), Some(Id::Group(gid)));
        }
        assert_eq!(accounts.user_sid(77).to_string(), "S-1-22-1-77");
        // Numbers that nobody of ours can have, no number at all, and another machine.
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
    fn who_is_not_here_yet_has_its_number() {
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
    fn names_and_identifiers_are_each_other_s() {
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
    fn what_does_not_go_together_is_refused() {
        let with = |users, groups, mappings| none().with(users, groups, mappings, None).err();
        let name = |text: &str| Some(Conflict::Name(text.to_owned()));
        assert_eq!(with(vec![user("a", 1), user("A", 2)], vec![], vec![]), name("A"));
        assert_eq!(with(vec![user("a", 1), user("b", 1)], vec![], vec![]), Some(Conflict::Number(1)));
        for id in [0, ID_MAX + 1, u32::MAX] {
            assert_eq!(with(vec![user("a", id)], vec![], vec![]), Some(Conflict::OutOfRange(id)));
            assert_eq!(with(vec![], vec![group("g", id, &[])], vec![]), Some(Conflict::OutOfRange(id)));
        }
        let stranger = Some(Conflict::NoUser("b".to_owned()));
        assert_eq!(with(vec![user("a", 1)], vec![group("g", 1, &["b"])], vec![]), stranger);
        assert_eq!(with(vec![user("a", 1)], vec![], vec![mapping("x", "b")]), stranger);
        let twice = vec![mapping(r"D\x", "a"), mapping(r"d\X", "a")];
        assert_eq!(with(vec![user("a", 1)], vec![], twice), Some(Conflict::Mapping(r"d\X".to_owned())));
        let many = (0..=ACCOUNTS_MAX).map(|_| user("a", 1)).collect();
        assert_eq!(with(many, vec![], vec![]), Some(Conflict::TooMany(ACCOUNTS_MAX)));
        assert!(with(vec![user("a", 1)], vec![group("a", 1, &["a"])], vec![]).is_none());
        let two = || vec![user("a", 1), user("b", 2)];
        let shadowed = Some(Conflict::Shadowed("A".to_owned()));
        assert_eq!(with(two(), vec![], vec![mapping("a", "b")]), shadowed);
        for fine in [mapping("a", "a"), mapping(r"D\a", "b")] {
            assert_eq!(with(two(), vec![], vec![fine]), None);
        }
    }

    #[test]
    fn accounts_are_replaced_as_a_whole() {
        let shared = SharedAccounts::new(none());
        let before = shared.load();
        shared.store(accounts(None));
        assert!(shared.identity("bob", "").is_ok() && shared.nt_hash("bob", "").is_some());
        assert!(before.identity("bob", "").is_err());
    }
}
