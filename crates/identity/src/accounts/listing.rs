//! Who there is, as clients are told that list the users and groups of a machine (MS-SAMR): by relative identifiers, and with the names
//! that [`Resolver::name_of`] gives.

use super::{Accounts, Group, Known};
use crate::names::{WindowsName, folded};
use crate::resolver::{BUILTIN_ALIASES, Principal, PrincipalKind, Resolver};
use crate::sid::Sid;
use std::collections::BTreeSet;

/// What the group of all users is called where there is no domain, as Windows calls it.
const ALL_USERS: &str = "None";

/// A user or group in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Its relative identifier.
    pub rid: u32,
    /// Its name in the domain of the machine.
    pub name: &'a str,
}

/// The groups that every machine has, in the order of their relative identifiers below [`Sid::builtin`]. Nobody is in them here.
pub fn builtin_aliases<'a>() -> impl ExactSizeIterator<Item = Listed<'a>> {
    BUILTIN_ALIASES.into_iter().map(|(rid, name)| Listed { rid, name })
}

impl Accounts {
    /// The name of the machine, which is the domain of its users.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The users in the order of their relative identifiers.
    pub fn users(&self) -> impl ExactSizeIterator<Item = Listed<'_>> {
        self.user_numbered.values().map(|&place| self.listed_user(&self.users[place]))
    }

    /// The users in the order of their names.
    pub fn users_by_name(&self) -> impl ExactSizeIterator<Item = Listed<'_>> {
        self.users_by_name.iter().map(|&place| self.listed_user(&self.users[place]))
    }

    /// The groups of ours in the order of their relative identifiers.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = Listed<'_>> {
        self.group_numbered.values().map(|&place| self.listed_group(&self.groups[place]))
    }

    /// The group that all users are in, which grants nothing.
    pub fn group_of_all(&self) -> Listed<'_> {
        Listed { rid: self.machine.all_users().relative(), name: ALL_USERS }
    }

    /// The user with this relative identifier.
    pub fn user_listed(&self, rid: u32) -> Option<Listed<'_>> {
        self.known(rid).map(|known| self.listed_user(known))
    }

    /// The group of ours with this relative identifier.
    pub fn group_listed(&self, rid: u32) -> Option<Listed<'_>> {
        self.group(rid).map(|group| self.listed_group(group))
    }

    /// The users in the group of ours with this relative identifier, also by their primary group: their relative identifiers, in order.
    pub fn members(&self, rid: u32) -> Vec<u32> {
        let Some(&Group { gid, .. }) = self.group(rid) else { return Vec::new() };
        let is_in = |known: &Known| known.user.gid == gid || known.groups.contains(&gid);
        let members = self.user_numbered.values().map(|&place| &self.users[place]);
        members.filter(|known| is_in(known)).map(|known| self.listed_user(known).rid).collect()
    }

    /// The groups of ours that the user with this relative identifier is in: their relative identifiers, in order.
    pub fn groups_of(&self, rid: u32) -> Vec<u32> {
        let Some(known) = self.known(rid) else { return Vec::new() };
        let all = known.groups.iter().chain([&known.user.gid]);
        let ours: BTreeSet<_> = all.filter(|gid| self.group_numbered.contains_key(gid)).collect();
        ours.into_iter().map(|&gid| self.machine.group(gid).relative()).collect()
    }

    /// The relative identifier of an identifier of this machine.
    pub fn rid_of(&self, sid: &Sid) -> Option<u32> {
        let rid = sid.relative();
        (self.machine.below(rid) == *sid).then_some(rid)
    }

    /// The user or group of this machine with this name: its relative identifier and what it is.
    pub fn named(&self, name: &str) -> Option<(u32, PrincipalKind)> {
        let principal = self.principal(&self.domain, name)?;
        Some((self.rid_of(&principal.sid)?, principal.kind))
    }

    pub(super) fn all_users(&self) -> Principal {
        Principal {
            kind: PrincipalKind::Group,
            domain: self.domain.clone(),
            name: ALL_USERS.to_owned(),
            sid: self.machine.all_users(),
        }
    }

    pub(super) fn sort_by_name(&mut self) {
        let mut places: Vec<usize> = (0..self.users.len()).collect();
        places.sort_by_cached_key(|&place| folded(self.listed_user(&self.users[place]).name));
        self.users_by_name = places;
    }

    fn known(&self, rid: u32) -> Option<&Known> {
        let number = self.machine.below(rid).number(&self.machine).filter(|number| !number.is_group)?;
        self.user_numbered.get(&number.id).map(|&place| &self.users[place])
    }

    fn group(&self, rid: u32) -> Option<&Group> {
        let number = self.machine.below(rid).number(&self.machine).filter(|number| number.is_group)?;
        self.group_numbered.get(&number.id).map(|&place| &self.groups[place])
    }

    /// By the name that Windows knows it by, unless that is one of another domain.
    fn listed_user<'a>(&'a self, known: &'a Known) -> Listed<'a> {
        let is_here =
            |domain: &Option<String>| domain.as_ref().is_none_or(|name| folded(name) == folded(&self.domain));
        let name = match &known.windows {
            Some(WindowsName { domain, name }) if is_here(domain) => name,
            _ => known.user.name.as_str(),
        };
        Listed { rid: self.machine.user(known.user.uid).relative(), name }
    }

    fn listed_group<'a>(&self, group: &'a Group) -> Listed<'a> {
        Listed { rid: self.machine.group(group.gid).relative(), name: group.name.as_str() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{Mapping, User};

    fn name<T: std::str::FromStr<Err = String>>(text: &str) -> T {
        text.parse().unwrap()
    }

    fn accounts() -> Accounts {
        let user = |text, uid, gid| User { name: name(text), uid, gid, nt_hash: None };
        let users =
            vec![user("zoë", 3, 2000), user("bob", 2, 100), user("Émile", 1, 100), user("alice", 9, 77)];
        let group = |text, gid, members: &[&str]| Group {
            name: name(text),
            gid,
            members: members.iter().map(|member| name(member)).collect(),
        };
        let groups = vec![group("artists", 2000, &["bob", "zoë", "bob"]), group("staff", 100, &[])];
        let mapping = |windows, user| Mapping { windows: name(windows), user: name(user) };
        let mappings =
            vec![mapping(r"files\Bob B", "bob"), mapping(r"CORP\z", "zoë"), mapping("Al", "alice")];
        Accounts::none(Sid::machine([1, 2, 3]), "FILES").with(users, groups, mappings, None).unwrap()
    }

    fn all<'a>(listed: impl Iterator<Item = Listed<'a>>) -> Vec<(u32, &'a str)> {
        listed.map(|listed| (listed.rid, listed.name)).collect()
    }

    #[test]
    fn lists_are_in_order_and_have_the_names_of_this_machine() {
        let accounts = accounts();
        let users = all(accounts.users());
        assert_eq!(users, [(1002, "Émile"), (1004, "Bob B"), (1006, "zoë"), (1018, "Al")]);
        let names: Vec<_> = accounts.users_by_name().map(|user| user.name).collect();
        assert_eq!(names, ["Al", "Bob B", "zoë", "Émile"]);
        assert_eq!(all(accounts.groups()), [(1201, "staff"), (5001, "artists")]);
        assert_eq!(all([accounts.group_of_all()].into_iter()), [(513, "None")]);
        assert_eq!(all(Accounts::none(Sid::machine([1, 2, 3]), "FILES").users()), []);
    }

    /// What is listed is found by its identifier and its name, and has the identifier that it has elsewhere.
    #[test]
    fn what_is_listed_is_found() {
        let accounts = accounts();
        let of_all = [accounts.group_of_all()].into_iter();
        for listed in accounts.users().chain(accounts.groups()).chain(of_all) {
            let (rid, kind) = accounts.named(listed.name).unwrap();
            let principal = accounts.name_of(&accounts.machine.below(rid)).unwrap();
            assert_eq!((rid, kind), (listed.rid, principal.kind), "{listed:?}");
            assert_eq!(accounts.rid_of(&principal.sid), Some(rid));
            let (user, group) = (accounts.user_listed(rid), accounts.group_listed(rid));
            assert_eq!(user.is_some(), kind == PrincipalKind::User);
            assert_eq!(group.is_some(), kind == PrincipalKind::Alias);
            assert!(user.or(group).is_none_or(|found| found == listed));
        }
        assert_eq!(accounts.named("Everyone"), None, "it is of no machine");
        for rid in [0, 500, 999, 1000, 1001, 9999, u32::MAX] {
            assert_eq!((accounts.user_listed(rid), accounts.group_listed(rid)), (None, None), "{rid}");
        }
        assert_eq!(accounts.rid_of(&Sid::everyone()), None);
        for alias in builtin_aliases() {
            let known = accounts.name_of(&Sid::builtin().below(alias.rid)).unwrap();
            assert_eq!((&*known.name, known.kind), (alias.name, PrincipalKind::Alias));
        }
    }

    #[test]
    fn members_are_of_the_groups_that_are_theirs() {
        let accounts = accounts();
        assert_eq!(accounts.members(5001), [1004, 1006]);
        assert_eq!(accounts.members(1201), [1002, 1004], "by their primary group");
        assert_eq!(accounts.members(1002), [], "it is a user");
        for (user, groups) in
            [(1002, vec![1201]), (1004, vec![1201, 5001]), (1006, vec![5001]), (1018, vec![])]
        {
            assert_eq!(accounts.groups_of(user), groups, "{user}");
        }
        assert_eq!(accounts.groups_of(5001), [], "it is a group");
    }
}
