//! Creates, changes, removes and lists users.

use super::account::check_number;
use super::{AccountsState, Page, Service, UNCHANGED, check_version, store};
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::operation::{ChangeContext, ChangeResult, Operation, Verb};
use crate::user::{NewUser, User, UserChange, WINDOWS_NAMES_MAX};
use identity::{AccountName, NtHash, WindowsName};

impl Service {
    /// Creates a user. Succeeds without a change if an identical user exists.
    pub fn create_user(&self, context: &ChangeContext, new: &NewUser) -> Result<ChangeResult<User>> {
        new.windows_names.as_deref().map_or(Ok(()), check_windows_names)?;
        let mut state = self.accounts_state.lock();
        let thing = (Kind::User, new.name.as_str());
        if let Some(user) = self.read(|store| Ok(store::user::find(store, &new.name)?))? {
            let differs = new.differs_from(&user, self.password_of(&state, &user)?.as_ref());
            if !differs.is_empty() {
                return Err(Error::Conflict { kind: Kind::User, name: new.name.to_string(), differs });
            }
            let operation =
                self.change(|store| self.record(store, context, Verb::Create, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: user, operation });
        }
        let now = self.now_ms();
        let mut user = User {
            row: 0,
            name: new.name.clone(),
            uid: new.uid,
            gid: new.gid.unwrap_or(new.uid),
            windows_names: new.windows_names.clone().unwrap_or_default(),
            groups: Vec::new(),
            has_password: new.password.is_some(),
            version: 1,
            created_ms: now,
            changed_ms: now,
        };
        let sealed = self.sealed_for(&mut state, &new.name, new.password.as_ref())?;
        let detail = format!("uid {}, gid {}", user.uid, user.gid);
        let operation = self.change_accounts(&mut state, |store| {
            check_number(Kind::User, user.uid, store::user::name_of_uid(store, user.uid)?)?;
            store::user::insert(store, &mut user)?;
            store::user::set_nt_hash(store, &user, sealed.as_deref())?;
            self.record(store, context, Verb::Create, thing, &detail)
        })?;
        Ok(ChangeResult { value: user, operation })
    }

    pub fn update_user(
        &self,
        context: &ChangeContext,
        name: &AccountName,
        change: &UserChange,
    ) -> Result<ChangeResult<User>> {
        change.windows_names.as_deref().map_or(Ok(()), check_windows_names)?;
        let mut state = self.accounts_state.lock();
        let before = self.find_user(name)?;
        let name = &before.name;
        let thing = (Kind::User, name.as_str());
        check_version(context, Kind::User, name.as_str(), before.version)?;
        let (mut user, changes) = before.changed(change);
        if changes.is_empty() {
            let operation =
                self.change(|store| self.record(store, context, Verb::Update, thing, UNCHANGED))?;
            return Ok(ChangeResult { value: before, operation });
        }
        (user.version, user.changed_ms) = (before.version + 1, self.now_ms());
        let sealed = self.sealed_for(&mut state, name, change.password.flatten().as_ref())?;
        let operation = self.change_accounts(&mut state, |store| {
            store::user::update(store, &user)?;
            if change.password.is_some() {
                store::user::set_nt_hash(store, &user, sealed.as_deref())?;
            }
            self.record(store, context, Verb::Update, thing, &changes.join(", "))
        })?;
        Ok(ChangeResult { value: user, operation })
    }

    /// Removes a user, also from its groups. Files keep the number.
    pub fn delete_user(&self, context: &ChangeContext, name: &AccountName) -> Result<Operation> {
        let mut state = self.accounts_state.lock();
        let user = self.find_user(name)?;
        check_version(context, Kind::User, user.name.as_str(), user.version)?;
        self.change_accounts(&mut state, |store| {
            store::user::delete(store, &user)?;
            self.record(store, context, Verb::Delete, (Kind::User, user.name.as_str()), "")
        })
    }

    pub fn user(&self, name: &AccountName) -> Result<User> {
        self.find_user(name)
    }

    /// Lists users by name after `after`, the [`Page::next`] of the previous page.
    pub fn users(&self, after: Option<&str>, most: usize) -> Result<Page<User>> {
        let after = after.unwrap_or("");
        self.page(most, |store, most| store::user::list(store, after, most), |user| user.name.to_string())
    }

    pub(super) fn find_user(&self, name: &AccountName) -> Result<User> {
        let found = self.read(|store| Ok(store::user::find(store, &self.user_name(name))?))?;
        found.ok_or_else(|| Error::not_found(Kind::User, name))
    }

    /// Returns the stored spelling: case does not distinguish users.
    pub(super) fn user_name(&self, name: &AccountName) -> AccountName {
        self.accounts.load().canonical_user_name(name).unwrap_or(name).clone()
    }

    fn sealed_for(
        &self,
        state: &mut AccountsState,
        name: &AccountName,
        password: Option<&NtHash>,
    ) -> Result<Option<Vec<u8>>> {
        password.map(|hash| self.sealed(state, name.as_str(), hash)).transpose()
    }

    fn password_of(&self, state: &AccountsState, user: &User) -> Result<Option<NtHash>> {
        let sealed = self.read(|store| Ok(store::user::nt_hash(store, user)?))?;
        Ok(sealed.and_then(|sealed| state.seal.as_ref()?.open(user.name.as_str(), &sealed)))
    }
}

fn check_windows_names(names: &[WindowsName]) -> Result<()> {
    if names.len() > WINDOWS_NAMES_MAX {
        let what = format!("{} Windows names of a user", names.len());
        return Err(Error::invalid(what, format!("at most {WINDOWS_NAMES_MAX}")));
    }
    Ok(())
}
