//! Creates, fills, removes and lists groups.

use super::account::check_number;
use super::{Page, Service, UNCHANGED, check_version, store};
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::operation::{ChangeContext, ChangeResult, Operation, Verb};
use crate::user::{GROUPS_OF_USER_MAX, Group, MEMBERSHIPS_MAX, NewGroup, User};
use identity::AccountName;
use rusqlite::Connection;

impl Service {
    /// Creates a group. Succeeds without a change if an identical group exists.
    pub fn create_group(&self, context: &ChangeContext, new: &NewGroup) -> Result<ChangeResult<Group>> {
        let mut state = self.accounts_state.lock();
        let thing = (Kind::Group, new.name.as_str());
        if let Some(group) = self.read(|store| Ok(store::group::find(store, &new.name)?))? {
            let differs = new.differs_from(&group);
            if !differs.is_empty() {
                return Err(Error::Conflict { kind: Kind::Group, name: new.name.to_string(), differs });
            }
            let operation =
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: group, operation });
        }
        let now = self.now_ms();
        let members = new.members.iter().flatten().map(|name| self.user_name(name));
        let mut members: Vec<_> = members.collect();
        members.sort();
        members.dedup();
        let mut group = Group {
            row: 0,
            name: new.name.clone(),
            gid: new.gid,
            members,
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        let operation = self.change_accounts(&mut state, |store| {
            check_number(Kind::Group, group.gid, store::group::name_of_gid(store, group.gid)?)?;
            store::group::insert(store, &mut group)?;
            check_memberships(store, group.members.len())?;
            for name in &group.members {
                let found = store::user::find(store, name)?;
                put_in(store, &group, &found.ok_or_else(|| Error::not_found(Kind::User, name))?)?;
            }
            self.record(store, context, Verb::Create, thing, &format!("gid {}", group.gid))
        })?;
        Ok(ChangeResult { value: group, operation })
    }

    pub fn add_member(
        &self,
        context: &ChangeContext,
        name: &AccountName,
        member: &AccountName,
    ) -> Result<ChangeResult<Group>> {
        self.change_members(context, name, member, "added", |group, user| {
            (!group.members.contains(&user.name)).then_some(add as Step)
        })
    }

    pub fn remove_member(
        &self,
        context: &ChangeContext,
        name: &AccountName,
        member: &AccountName,
    ) -> Result<ChangeResult<Group>> {
        self.change_members(context, name, member, "removed", |group, user| {
            group.members.contains(&user.name).then_some(remove as Step)
        })
    }

    /// Files keep the group's number.
    pub fn delete_group(&self, context: &ChangeContext, name: &AccountName) -> Result<Operation> {
        let mut state = self.accounts_state.lock();
        let group = self.find_group(name)?;
        check_version(context, Kind::Group, group.name.as_str(), group.version)?;
        self.change_accounts(&mut state, |store| {
            store::group::delete(store, &group)?;
            self.record(store, context, Verb::Delete, (Kind::Group, group.name.as_str()), "")
        })
    }

    pub fn group(&self, name: &AccountName) -> Result<Group> {
        self.find_group(name)
    }

    /// Lists groups by name after `after`, the [`Page::next`] of the previous page.
    pub fn groups(&self, after: Option<&str>, most: usize) -> Result<Page<Group>> {
        let after = after.unwrap_or("");
        self.page(most, |store, most| store::group::list(store, after, most), |group| group.name.to_string())
    }

    fn change_members(
        &self,
        context: &ChangeContext,
        name: &AccountName,
        member: &AccountName,
        what: &str,
        step: impl FnOnce(&Group, &User) -> Option<Step>,
    ) -> Result<ChangeResult<Group>> {
        let mut state = self.accounts_state.lock();
        let (mut group, user) = (self.find_group(name)?, self.find_user(member)?);
        let name = &group.name.clone();
        let (thing, detail) = ((Kind::Group, name.as_str()), format!("{} {what}", user.name));
        check_version(context, Kind::Group, name.as_str(), group.version)?;
        let Some(step) = step(&group, &user) else {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: group, operation });
        };
        (group.version, group.changed_ms) = (group.version + 1, self.now_ms());
        let operation = self.change_accounts(&mut state, |store| {
            step(store, &group, &user)?;
            store::group::update(store, &group)?;
            self.record(store, context, Verb::Update, thing, &detail)
        })?;
        Ok(ChangeResult { value: self.find_group(name)?, operation })
    }

    fn find_group(&self, name: &AccountName) -> Result<Group> {
        let accounts = self.accounts.load();
        // Case does not distinguish groups.
        let named = accounts.canonical_group_name(name).unwrap_or(name);
        let found = self.read(|store| Ok(store::group::find(store, named)?))?;
        found.ok_or_else(|| Error::not_found(Kind::Group, name))
    }
}

type Step = fn(&Connection, &Group, &User) -> Result<()>;

fn add(store: &Connection, group: &Group, user: &User) -> Result<()> {
    check_memberships(store, 1)?;
    put_in(store, group, user)
}

/// Refuses more memberships than [`crate::user::MEMBERSHIPS_MAX`].
fn check_memberships(store: &Connection, further: usize) -> Result<()> {
    if store::group::memberships(store)? + further > MEMBERSHIPS_MAX {
        let allowed = format!("at most {MEMBERSHIPS_MAX} memberships in total");
        return Err(Error::invalid("another member", allowed));
    }
    Ok(())
}

fn put_in(store: &Connection, group: &Group, user: &User) -> Result<()> {
    if user.groups.len() >= GROUPS_OF_USER_MAX {
        let what = format!("a further group of the user {}", user.name);
        return Err(Error::invalid(what, format!("at most {GROUPS_OF_USER_MAX}, besides the primary one")));
    }
    Ok(store::group::add_member(store, group, user)?)
}

fn remove(store: &Connection, group: &Group, user: &User) -> Result<()> {
    Ok(store::group::remove_member(store, group, user)?)
}
