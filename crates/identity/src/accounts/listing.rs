//! Lists of users and groups for MS-SAMR, by relative identifier, with the names that [`Resolver::name_of`] returns.

use super::{Accounts, Group, UserRecord};
use crate::names::{WindowsName, folded};
use crate::resolver::{BUILTIN_ALIASES, Principal, PrincipalKind, Resolver};
use crate::sid::Sid;
use std::collections::BTreeSet;

/// The group of all users on a machine without a domain, as Windows names it.
const DOMAIN_USERS_NAME: &str = "None";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListEntry<'a> {
    pub rid: u32,
    pub name: &'a str,
}

/// The groups that every machine has, ordered by relative identifier below [`Sid::builtin`]. They have no members here.
pub fn builtin_aliases<'a>() -> impl ExactSizeIterator<Item = ListEntry<'a>> {
    BUILTIN_ALIASES.into_iter().map(|(rid, name)| ListEntry { rid, name })
}

impl Accounts {
    /// The machine's name, the domain of its users.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The users, ordered by relative identifier.
    pub fn users(&self) -> impl ExactSizeIterator<Item = ListEntry<'_>> {
        self.user_by_uid.values().map(|&index| self.user_entry(&self.users[index]))
    }

    pub fn users_by_name(&self) -> impl ExactSizeIterator<Item = ListEntry<'_>> {
        self.name_order.iter().map(|&index| self.user_entry(&self.users[index]))
    }

    /// The local groups, ordered by relative identifier.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = ListEntry<'_>> {
        self.group_by_gid.values().map(|&index| self.group_entry(&self.groups[index]))
    }

    /// The group that contains all users and grants nothing.
    pub fn domain_users_group(&self) -> ListEntry<'_> {
        ListEntry { rid: self.machine.domain_users().rid(), name: DOMAIN_USERS_NAME }
    }

    pub fn user_by_rid(&self, rid: u32) -> Option<ListEntry<'_>> {
        self.find_user(rid).map(|record| self.user_entry(record))
    }

    pub fn group_by_rid(&self, rid: u32) -> Option<ListEntry<'_>> {
        self.find_group(rid).map(|group| self.group_entry(group))
    }

    /// The relative identifiers, sorted, of the users in this local group, primary memberships included.
    pub fn member_rids(&self, rid: u32) -> Vec<u32> {
        let Some(&Group { gid, .. }) = self.find_group(rid) else { return Vec::new() };
        let is_in = |record: &UserRecord| record.user.gid == gid || record.groups.contains(&gid);
        let members = self.user_by_uid.values().map(|&index| &self.users[index]);
        members.filter(|record| is_in(record)).map(|record| self.user_entry(record).rid).collect()
    }

    /// The relative identifiers, sorted, of the local groups of this user.
    pub fn group_rids_of(&self, rid: u32) -> Vec<u32> {
        let Some(record) = self.find_user(rid) else { return Vec::new() };
        let all = record.groups.iter().chain([&record.user.gid]);
        let ours: BTreeSet<_> = all.filter(|gid| self.group_by_gid.contains_key(gid)).collect();
        ours.into_iter().map(|&gid| self.machine.group(gid).rid()).collect()
    }

    /// The relative identifier of a SID of this machine.
    pub fn rid_of(&self, sid: &Sid) -> Option<u32> {
        let rid = sid.rid();
        (self.machine.with_rid(rid) == *sid).then_some(rid)
    }

    /// Finds a user or group of this machine by name. Returns its relative identifier and kind.
    pub fn lookup_name(&self, name: &str) -> Option<(u32, PrincipalKind)> {
        let principal = self.principal(&self.domain, name)?;
        Some((self.rid_of(&principal.sid)?, principal.kind))
    }

    pub(super) fn domain_users_principal(&self) -> Principal {
        Principal {
            kind: PrincipalKind::Group,
            domain: self.domain.clone(),
            name: DOMAIN_USERS_NAME.to_owned(),
            sid: self.machine.domain_users(),
        }
    }

    pub(super) fn sort_by_name(&mut self) {
        let mut indexes: Vec<usize> = (0..self.users.len()).collect();
        indexes.sort_by_cached_key(|&index| folded(self.user_entry(&self.users[index]).name));
        self.name_order = indexes;
    }

    fn find_user(&self, rid: u32) -> Option<&UserRecord> {
        let number = self.machine.with_rid(rid).mapped_id(&self.machine).filter(|number| !number.is_group)?;
        self.user_by_uid.get(&number.id).map(|&index| &self.users[index])
    }

    fn find_group(&self, rid: u32) -> Option<&Group> {
        let number = self.machine.with_rid(rid).mapped_id(&self.machine).filter(|number| number.is_group)?;
        self.group_by_gid.get(&number.id).map(|&index| &self.groups[index])
    }

    /// Uses the Windows name, unless that belongs to another domain.
    fn user_entry<'a>(&'a self, record: &'a UserRecord) -> ListEntry<'a> {
        let is_here =
            |domain: &Option<String>| domain.as_ref().is_none_or(|name| folded(name) == folded(&self.domain));
        let name = match &record.windows {
            Some(WindowsName { domain, name }) if is_here(domain) => name,
            _ => record.user.name.as_str(),
        };
        ListEntry { rid: self.machine.user(record.user.uid).rid(), name }
    }

    fn group_entry<'a>(&self, group: &'a Group) -> ListEntry<'a> {
        ListEntry { rid: self.machine.group(group.gid).rid(), name: group.name.as_str() }
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
        Accounts::empty(Sid::machine([1, 2, 3]), "FILES").with_entries(users, groups, mappings, None).unwrap()
    }

    fn all<'a>(listed: impl Iterator<Item = ListEntry<'a>>) -> Vec<(u32, &'a str)> {
        listed.map(|listed| (listed.rid, listed.name)).collect()
    }

    #[test]
    fn listed_users_are_sorted_with_names_of_this_machine() {
        let accounts = accounts();
        let users = all(accounts.users());
        assert_eq!(users, [(1002, "Émile"), (1004, "Bob B"), (1006, "zoë"), (1018, "Al")]);
        let names: Vec<_> = accounts.users_by_name().map(|user| user.name).collect();
        assert_eq!(names, ["Al", "Bob B", "zoë", "Émile"]);
        assert_eq!(all(accounts.groups()), [(1201, "staff"), (5001, "artists")]);
        assert_eq!(all([accounts.domain_users_group()].into_iter()), [(513, "None")]);
        assert_eq!(all(Accounts::empty(Sid::machine([1, 2, 3]), "FILES").users()), []);
    }

    /// Every listed entry is found by its identifier and by its name, and has the same identifier everywhere.
    #[test]
    fn listed_account_is_found_by_rid_and_name() {
        let accounts = accounts();
        let of_all = [accounts.domain_users_group()].into_iter();
        for listed in accounts.users().chain(accounts.groups()).chain(of_all) {
            let (rid, kind) = accounts.lookup_name(listed.name).unwrap();
            let principal = accounts.name_of(&accounts.machine.with_rid(rid)).unwrap();
            assert_eq!((rid, kind), (listed.rid, principal.kind), "{listed:?}");
            assert_eq!(accounts.rid_of(&principal.sid), Some(rid));
            let (user, group) = (accounts.user_by_rid(rid), accounts.group_by_rid(rid));
            assert_eq!(user.is_some(), kind == PrincipalKind::User);
            assert_eq!(group.is_some(), kind == PrincipalKind::Alias);
            assert!(user.or(group).is_none_or(|found| found == listed));
        }
        assert_eq!(accounts.lookup_name("Everyone"), None, "a well-known name belongs to no machine");
        for rid in [0, 500, 999, 1000, 1001, 9999, u32::MAX] {
            assert_eq!((accounts.user_by_rid(rid), accounts.group_by_rid(rid)), (None, None), "{rid}");
        }
        assert_eq!(accounts.rid_of(&Sid::everyone()), None);
        for alias in builtin_aliases() {
            let record = accounts.name_of(&Sid::builtin().with_rid(alias.rid)).unwrap();
            assert_eq!((&*record.name, record.kind), (alias.name, PrincipalKind::Alias));
        }
    }

    #[test]
    fn members_and_groups_match() {
        let accounts = accounts();
        assert_eq!(accounts.member_rids(5001), [1004, 1006]);
        assert_eq!(accounts.member_rids(1201), [1002, 1004], "by their primary group");
        assert_eq!(accounts.member_rids(1002), [], "a user has no members");
        for (user, groups) in
            [(1002, vec![1201]), (1004, vec![1201, 5001]), (1006, vec![5001]), (1018, vec![])]
        {
            assert_eq!(accounts.group_rids_of(user), groups, "{user}");
        }
        assert_eq!(accounts.group_rids_of(5001), [], "a group has no groups");
    }
}
