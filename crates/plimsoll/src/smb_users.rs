//! Users of SMB where no service is managed: a file of them, for `plimsoll export` (`docs/how-to/users.md`).

use crate::toml_file;
use anyhow::{Context, anyhow, bail};
use identity::{AccountName, Accounts, Group, Mapping, NtHash, SharedAccounts, Sid, User};
use nfs::handle::HandleSigner;
use serde::Deserialize;
use stable::files::read_secret;
use std::path::Path;

/// The whole file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UsersFile {
    user: Vec<UserEntry>,
    group: Vec<GroupEntry>,
    map: Vec<MapEntry>,
    default_user: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserEntry {
    name: String,
    uid: u32,
    /// The group id, by default the number of `uid`.
    gid: Option<u32>,
    password: Option<String>,
    /// In place of a password: 32 hexadecimal digits.
    nt_hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupEntry {
    name: String,
    gid: u32,
    #[serde(default)]
    members: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MapEntry {
    windows: String,
    user: String,
}

/// The users in the file `path`, which only its owner may read. `host` is the name of this machine, the domain of its users;
/// their identifiers are made with the key that signs handles, and stay as long as that.
pub(crate) fn read(path: &Path, host: &str, signer: &HandleSigner) -> anyhow::Result<SharedAccounts> {
    let text = read_secret(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, path, machine_sid(signer), host).map(SharedAccounts::new)
}

fn machine_sid(signer: &HandleSigner) -> Sid {
    let number = |name| u32::try_from(signer.number(name) >> 32).unwrap_or_default();
    Sid::machine(["machine sid 1", "machine sid 2", "machine sid 3"].map(number))
}

fn parse(text: &str, path: &Path, machine: Sid, host: &str) -> anyhow::Result<Accounts> {
    let file: UsersFile = toml_file::parse(text, path).map_err(|fault| anyhow!("the users in {fault}"))?;
    accounts(file, machine, host).with_context(|| format!("the users in {}", path.display()))
}

fn accounts(file: UsersFile, machine: Sid, host: &str) -> anyhow::Result<Accounts> {
    let users = file.user.into_iter().map(UserEntry::user).collect::<anyhow::Result<_>>()?;
    let groups = file.group.into_iter().map(GroupEntry::group).collect::<anyhow::Result<_>>()?;
    let mappings = file.map.into_iter().map(MapEntry::mapping).collect::<anyhow::Result<_>>()?;
    let default = file.default_user.as_deref().map(name).transpose()?;
    Ok(Accounts::empty(machine, host).with_entries(users, groups, mappings, default.as_ref())?)
}

fn name(text: &str) -> anyhow::Result<AccountName> {
    text.parse().map_err(anyhow::Error::msg)
}

impl UserEntry {
    fn user(self) -> anyhow::Result<User> {
        let nt_hash = match (&self.password, &self.nt_hash) {
            (Some(_), Some(_)) => {
                bail!("the user {:?} has a password and an nt_hash: give one of them", self.name)
            }
            (Some(password), None) if password.is_empty() => {
                bail!("the password of the user {:?} is empty", self.name)
            }
            (Some(password), None) => Some(NtHash::from_password(password)),
            (None, Some(digits)) => Some(nt_hash(digits).with_context(|| {
                format!("the nt_hash of the user {:?} has not 32 hexadecimal digits", self.name)
            })?),
            (None, None) => None,
        };
        Ok(User { name: name(&self.name)?, uid: self.uid, gid: self.gid.unwrap_or(self.uid), nt_hash })
    }
}

impl GroupEntry {
    fn group(self) -> anyhow::Result<Group> {
        let members = self.members.iter().map(|member| name(member)).collect::<anyhow::Result<_>>()?;
        Ok(Group { name: name(&self.name)?, gid: self.gid, members })
    }
}

impl MapEntry {
    fn mapping(self) -> anyhow::Result<Mapping> {
        let windows = self.windows.parse().map_err(anyhow::Error::msg)?;
        Ok(Mapping { windows, user: name(&self.user)? })
    }
}

fn nt_hash(digits: &str) -> Option<NtHash> {
    let is_hex = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(digits, 16).ok()).flatten()?;
    Some(NtHash::from_bytes(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::Resolver;

    fn parsed(text: &str) -> Result<Accounts, String> {
        parse(text, Path::new("users.toml"), Sid::machine([1, 2, 3]), "FILES")
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn users_groups_and_rules_are_read() {
        let accounts = parsed(
            r#"
            default_user = "nobody"
            [[user]]
            name = "alice"
            uid = 1000
            gid = 100
            password = "Password"
            [[user]]
            name = "bob"
            uid = 1001
            nt_hash = "A4F49C406510BDCAB6824EE7C30FD852"
            [[user]]
            name = "nobody"
            uid = 65534
            [[group]]
            name = "staff"
            gid = 2000
            members = ["bob"]
            [[map]]
            windows = 'CORP\b.smith'
            user = "bob"
            "#,
        )
        .unwrap();
        assert_eq!(accounts.nt_hash("bob", ""), Some(NtHash::from_password("Password")));
        assert_eq!(accounts.nt_hash("bob", ""), accounts.nt_hash("alice", ""));
        let bob = accounts.identity("B.Smith", "corp").unwrap().credential;
        assert_eq!((bob.uid, bob.gid, bob.groups()), (1001, 1001, &[2000][..]));
        assert_eq!(accounts.identity("carol", "").unwrap().credential.uid, 65534);
    }

    #[test]
    fn error_is_reported_without_the_password() {
        for (text, said) in [
            ("[[user]]\nname = \"a\"\nuid = 1\npassword = \"hush\"\nnt_hash = \"\"", "give one of them"),
            ("[[user]]\nname = \"a\"\nuid = 1\nnt_hash = \"hush\"", "32 hexadecimal digits"),
            ("[[user]]\nname = \"a\"\nuid = 1\npassword = \"\"", "is empty"),
            ("[[user]]\nname = \"a b\"\nuid = 1\npassword = \"hush\"", "letters, digits"),
            ("[[user]]\nname = \"a\"\nuid = 0", "1 to 2000000000"),
            (
                "[[user]]\nname = \"a\"\nuid = 1\npasword = \"hush\"",
                "users.toml: line 4: user.pasword is unknown; allowed: name, uid",
            ),
            ("[[user]]\nname = \"a\"\nuid = 1\npassword = hush", ""),
            ("[[group]]\nname = \"g\"\ngid = 1\nmembers = [\"a\"]", "no user \"a\""),
        ] {
            let error = parsed(text).err().unwrap();
            assert!(error.contains(said) && !error.contains("hush"), "{error}");
        }
    }
}
