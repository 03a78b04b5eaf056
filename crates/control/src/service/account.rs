//! The common part of users and groups: each change is checked as a whole, and the next login sees it.

use super::{AccountsState, Service};
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::seal::Seal;
use crate::store;
use identity::{Accounts, Conflict, ID_MAX, NtHash, ServerNames, SharedAccounts};
use rusqlite::Connection;

struct LoadedAccounts {
    accounts: Accounts,
    /// Users whose passwords the key of this directory does not open.
    unreadable_passwords: usize,
}

impl Service {
    /// Returns the users and groups for logins. The value follows each change.
    pub fn accounts(&self) -> SharedAccounts {
        self.accounts.clone()
    }

    pub(crate) fn load_accounts(&self) -> Result<()> {
        let state = &mut *self.accounts_state.lock();
        state.seal = Seal::find(&self.dependencies.dir)?;
        let loaded = self.read(|store| self.loaded(store, state.seal.as_ref()))?;
        self.show_accounts(state, loaded);
        Ok(())
    }

    /// Changes users or groups in one transaction. An inconsistent result is not committed.
    pub(super) fn change_accounts<T>(
        &self,
        state: &mut AccountsState,
        change: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let seal = state.seal.as_ref();
        let (value, loaded) = self.change(|store| Ok((change(store)?, self.loaded(store, seal)?)))?;
        self.show_accounts(state, loaded);
        Ok(value)
    }

    /// Seals a password of the user `name` for the store. The first password creates the key.
    pub(super) fn sealed(&self, state: &mut AccountsState, name: &str, hash: &NtHash) -> Result<Vec<u8>> {
        let (random, dir) = (&self.dependencies.entropy, &self.dependencies.dir);
        let seal = match state.seal.take() {
            Some(seal) => seal,
            None => {
                let _lent = self.dependencies.provisioner.lend_room();
                Seal::find_or_make(dir, self.replica(), random)?
            }
        };
        state.seal.insert(seal).seal(name, hash, random)
    }

    fn show_accounts(&self, state: &mut AccountsState, loaded: LoadedAccounts) {
        self.accounts.store(loaded.accounts);
        state.unreadable_passwords = loaded.unreadable_passwords;
    }

    fn loaded(&self, store: &Connection, seal: Option<&Seal>) -> Result<LoadedAccounts> {
        let mut unreadable_passwords = 0;
        let mut users = Vec::new();
        for (mut user, sealed) in store::account::users(store)? {
            if let Some(sealed) = sealed {
                user.nt_hash = seal.and_then(|seal| seal.open(user.name.as_str(), &sealed));
                unreadable_passwords += usize::from(user.nt_hash.is_none());
            }
            users.push(user);
        }
        let domain = ServerNames::for_host(&self.dependencies.host).netbios;
        let none = Accounts::empty(store::account::machine(store)?, &domain);
        let (groups, mappings) = (store::account::groups(store)?, store::account::mappings(store)?);
        Ok(LoadedAccounts {
            accounts: none.with_entries(users, groups, mappings, None)?,
            unreadable_passwords,
        })
    }
}

/// Refuses a number that belongs to another user or group, or is out of range.
pub(super) fn check_number(kind: Kind, number: u32, taken_by: Option<String>) -> Result<()> {
    let word = if kind == Kind::Group { "gid" } else { "uid" };
    match taken_by {
        Some(name) => Err(Error::NumberInUse { kind, word, number, name }),
        None if !(1..=ID_MAX).contains(&number) => {
            Err(Error::invalid(format!("the {word} {number}"), format!("1 to {ID_MAX}")))
        }
        None => Ok(()),
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        let allowed = match &conflict {
            Conflict::DuplicateName(_) => "a name that differs by more than case".to_owned(),
            Conflict::DuplicateId(_) => "an unused number".to_owned(),
            Conflict::OutOfRange(_) => format!("numbers from 1 to {ID_MAX}; 0 for a primary group too"),
            Conflict::UnknownUser(_) => "a user of this service".to_owned(),
            Conflict::ShadowedUser(_) => "DOMAIN\\NAME, or a name that no other user has".to_owned(),
            Conflict::DuplicateMapping(_) => "each Windows name once".to_owned(),
            Conflict::TooMany(most) => format!("at most {most} users, groups, and Windows names, each"),
        };
        Self::invalid(conflict.to_string(), allowed)
    }
}
