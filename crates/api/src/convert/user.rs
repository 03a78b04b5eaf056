//! Users and groups.

use super::{FromBody, ToBody, version_text};
use api_client::model::{Group, NewGroup, NewUser, Password, Timestamp, User, UserPatch};
use control::{Error, UserChange, WindowsName, account_name, password, windows_name};

impl ToBody for control::User {
    type Body = User;

    fn to_body(&self) -> User {
        User {
            name: self.name.to_string(),
            uid: self.uid,
            gid: self.gid,
            windows_names: texts(&self.windows_names),
            groups: texts(&self.groups),
            has_password: self.has_password,
            created: Timestamp::from_ms(self.created_ms),
            changed: Timestamp::from_ms(self.changed_ms),
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl ToBody for control::Group {
    type Body = Group;

    fn to_body(&self) -> Group {
        Group {
            name: self.name.to_string(),
            gid: self.gid,
            members: texts(&self.members),
            created: Timestamp::from_ms(self.created_ms),
            changed: Timestamp::from_ms(self.changed_ms),
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl FromBody<NewUser> for control::NewUser {
    fn from_body(of: NewUser) -> Result<Self, Error> {
        Ok(Self {
            name: account_name(&of.name)?,
            uid: of.uid,
            gid: of.gid,
            windows_names: some_windows_names(of.windows_names.as_ref())?,
            password: of.password.map(|text| password(&text.0)).transpose()?,
        })
    }
}

impl FromBody<NewGroup> for control::NewGroup {
    fn from_body(of: NewGroup) -> Result<Self, Error> {
        let members = of.members.map(|members| all(&members, account_name)).transpose()?;
        Ok(Self { name: account_name(&of.name)?, gid: of.gid, members })
    }
}

/// The change that `patch` is.
pub(crate) fn user_change(patch: &UserPatch) -> Result<UserChange, Error> {
    let hashed = |text: &Option<Password>| text.as_ref().map(|text| password(&text.0)).transpose();
    Ok(UserChange {
        gid: patch.gid,
        windows_names: some_windows_names(patch.windows_names.as_ref())?,
        password: patch.password.as_ref().map(hashed).transpose()?,
    })
}

fn texts(names: &[impl ToString]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn some_windows_names(texts: Option<&Vec<String>>) -> Result<Option<Vec<WindowsName>>, Error> {
    texts.map(|texts| all(texts, windows_name)).transpose()
}

fn all<T>(texts: &[String], read: fn(&str) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    texts.iter().map(|text| read(text)).collect()
}
