//! Vaults: places for backups, in a directory or in a bucket of an S3-compatible store.

use crate::difference::{Difference, option};
use crate::error::{Error, Result};
use crate::name::{VaultName, steers_terminal};
use replicate::Key;
use replicate::store::{Directory, ObjectStore, S3, S3Options};
use serde::{Deserialize, Serialize};
use stable::files;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Days for which a vault can lock its backups: a century.
pub const LOCK_DAYS_MAX: u32 = 36_525;
/// Bytes of a text of a vault's place.
const PLACE_BYTES_MAX: usize = 1_024;
/// The header, which makes a directory a vault.
const HEADER: &str = "vault";
/// Entries of a directory that a new vault may have beside its own.
const IGNORED: [&str; 2] = [".drafts", "lost+found"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vault {
    pub(crate) row: i64,
    pub name: VaultName,
    /// The number in the vault's header.
    pub number: [u8; 16],
    pub place: VaultPlace,
    /// The file with the key, which only the operator has a copy of.
    pub key_file: Option<PathBuf>,
    /// Days for which nobody can delete a new backup.
    pub lock_days: u32,
    /// The most that all jobs together send and receive in a second.
    pub bytes_per_s: Option<u64>,
    /// Grows with every change, for `ETag` and `If-Match`.
    pub version: u64,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub changed_ms: u64,
}

/// All files are of the host of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VaultPlace {
    Directory { path: PathBuf },
    S3(Bucket),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Such as `https://s3.example.com:9000`, without the bucket.
    pub endpoint: String,
    pub bucket: String,
    /// Text before the name of each object; may be empty.
    pub prefix: String,
    pub region: String,
    /// A file in the form of the AWS tools, for its owner alone.
    pub credentials_file: PathBuf,
    /// Certificates in PEM of the issuers to trust, instead of the well-known ones.
    pub ca_file: Option<PathBuf>,
}

/// A vault to create, or to use if there is one in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVault {
    pub name: VaultName,
    pub place: VaultPlace,
    pub key_file: Option<PathBuf>,
    pub lock_days: u32,
    pub bytes_per_s: Option<u64>,
    /// Replaces another service as the one that writes the vault.
    pub takes_over: bool,
}

/// Changes of a vault; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaultChange {
    /// The present place of the same vault.
    pub place: Option<VaultPlace>,
    pub key_file: Option<Option<PathBuf>>,
    pub lock_days: Option<u32>,
    pub bytes_per_s: Option<Option<u64>>,
}

impl VaultPlace {
    /// Refuses what cannot be a place, or a file that others may read. Opens nothing else.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Directory { path } => check_path("the directory of a vault", path),
            Self::S3(bucket) => bucket.check(),
        }
    }

    /// The place with a path that no link can turn elsewhere. Refuses directories below `data`, which volumes have.
    pub(crate) fn resolved(self, data: &Path) -> Result<Self> {
        let Self::Directory { path } = self else { return Ok(self) };
        let refused = |why: String, allowed: &str| {
            Error::invalid(format!("the directory {} for a vault: {why}", path.display()), allowed)
        };
        let exists = "a directory that exists, or a new one in a directory that exists";
        let failed = |error: io::Error| refused(error.to_string(), exists);
        let resolved = match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
                let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(|| failed(error))?;
                parent.canonicalize().map_err(failed)?.join(name)
            }
            found => found.map_err(failed)?,
        };
        let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        if resolved.starts_with(&data) || data.starts_with(&resolved) {
            let why = format!("it and the data directory {} are one in the other", data.display());
            return Err(refused(why, "a directory apart from the data, best on another disk"));
        }
        if resolved.exists() && !resolved.is_dir() {
            return Err(refused("it is no directory".to_owned(), exists));
        }
        let is_new = !resolved.join(HEADER).exists();
        if is_new && let Some(other) = other_entry(&resolved).map_err(failed)? {
            let why = format!("it has other files, such as {other:?}");
            return Err(refused(why, "an empty directory, a new one, or one that is a vault"));
        }
        Ok(Self::Directory { path: resolved })
    }

    /// Opens the store of an existing vault, or with `is_new` of one to create.
    pub(crate) fn open(&self, is_new: bool) -> io::Result<Arc<dyn ObjectStore>> {
        match self {
            Self::Directory { path } => {
                // Otherwise a disk that is not mounted today would be replaced by an empty directory.
                if !is_new && !path.join(HEADER).is_file() {
                    let why = format!("{} has no vault: is its disk mounted?", path.display());
                    return Err(io::Error::new(ErrorKind::NotFound, why));
                }
                Ok(Arc::new(Directory::open(path)?))
            }
            Self::S3(bucket) => Ok(Arc::new(S3::new(bucket.options()?)?)),
        }
    }
}

/// An entry of a directory that is not a vault's. `None` also without a directory.
fn other_entry(dir: &Path) -> io::Result<Option<String>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !IGNORED.contains(&name.as_str()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

impl Bucket {
    fn check(&self) -> Result<()> {
        let host = self.endpoint.strip_prefix("https://").or_else(|| self.endpoint.strip_prefix("http://"));
        let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']);
        if !host.is_some_and(is_host) || self.endpoint.len() > PLACE_BYTES_MAX {
            let allowed = "https://HOST or https://HOST:PORT without the bucket; http:// only in networks that you trust";
            return Err(Error::invalid(format!("the endpoint {:?}", self.endpoint), allowed));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !(3..=63).contains(&self.bucket.len()) || !self.bucket.chars().all(is_plain) {
            let allowed = "3 to 63 letters, digits, dots and hyphens";
            return Err(Error::invalid(format!("the bucket {:?}", self.bucket), allowed));
        }
        let is_of_prefix = |c: char| is_plain(c) || c == '/';
        let is_empty_part = self.prefix.split('/').any(|part| matches!(part, "" | "." | ".."));
        if self.prefix.len() > PLACE_BYTES_MAX
            || !self.prefix.chars().all(is_of_prefix)
            || (!self.prefix.is_empty() && is_empty_part)
        {
            let allowed =
                "letters, digits, dots, hyphens, and single slashes between them, as in backups/site-1";
            return Err(Error::invalid(format!("the prefix {:?}", self.prefix), allowed));
        }
        if self.region.is_empty() || self.region.len() > 64 || !self.region.chars().all(is_plain) {
            let allowed = "letters, digits and hyphens, as in us-east-1";
            return Err(Error::invalid(format!("the region {:?}", self.region), allowed));
        }
        check_path("the file of credentials", &self.credentials_file)?;
        self.ca_file.as_deref().map_or(Ok(()), |path| check_path("the file of certificates", path))
    }

    /// Reads the files.
    fn options(&self) -> io::Result<S3Options> {
        let text = read(&self.credentials_file, files::read_secret)?;
        let Credentials { access_key, secret_key, session_token } =
            Credentials::parse(&text).ok_or_else(|| {
                let path = self.credentials_file.display();
                let why = format!(
                    "{path}: allowed are the lines aws_access_key_id = … and aws_secret_access_key = …"
                );
                io::Error::new(ErrorKind::InvalidInput, why)
            })?;
        Ok(S3Options {
            endpoint: self.endpoint.clone(),
            bucket: self.bucket.clone(),
            prefix: self.prefix.clone(),
            region: self.region.clone(),
            access_key,
            secret_key,
            session_token,
            issuers: self.ca_file.as_deref().map(|path| read(path, files::read_trusted)).transpose()?,
        })
    }
}

impl fmt::Display for VaultPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path } => write!(f, "{}", path.display()),
            Self::S3(Bucket { endpoint, bucket, prefix, .. }) if prefix.is_empty() => {
                write!(f, "{endpoint}/{bucket}")
            }
            Self::S3(Bucket { endpoint, bucket, prefix, .. }) => write!(f, "{endpoint}/{bucket}/{prefix}"),
        }
    }
}

#[derive(PartialEq, Eq)]
struct Credentials {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
}

impl Credentials {
    /// Reads the first section of a file of the AWS tools.
    fn parse(text: &str) -> Option<Self> {
        let (mut access_key, mut secret_key, mut session_token) = (None, None, None);
        let mut sections = 0;
        for line in text.lines().map(str::trim) {
            sections += usize::from(line.starts_with('['));
            if sections > 1 {
                break;
            }
            let Some((name, value)) = line.split_once('=') else { continue };
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match name.trim() {
                "aws_access_key_id" => access_key = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => session_token = value,
                _ => {}
            }
        }
        Some(Self { access_key: access_key?, secret_key: secret_key?, session_token })
    }
}

/// Reads a file under its rules; errors name it.
fn read<T>(path: &Path, read: fn(&Path) -> io::Result<T>) -> io::Result<T> {
    read(path).map_err(|error| {
        let text = error.to_string();
        let path = path.display().to_string();
        let text = if text.contains(&path) { text } else { format!("{path}: {text}") };
        io::Error::new(error.kind(), text)
    })
}

/// Reads the key of a vault.
pub(crate) fn read_key(path: &Path) -> Result<Key> {
    let invalid = |why: String| {
        Error::invalid(
            format!("the key file {}: {why}", path.display()),
            "a file with 64 hexadecimal digits, which only the owner of the service can read (mode 600)",
        )
    };
    let text = read(path, files::read_secret).map_err(|error| invalid(error.to_string()))?;
    Key::parse(&text).ok_or_else(|| invalid("it has no key".to_owned()))
}

pub(crate) fn check_path(what: &str, path: &Path) -> Result<()> {
    let is_plain = |text: &str| text.len() <= PLACE_BYTES_MAX && !text.contains(steers_terminal);
    let has_dots = path.components().any(|part| part == std::path::Component::ParentDir);
    if path.is_absolute() && !has_dots && path.to_str().is_some_and(is_plain) {
        return Ok(());
    }
    let allowed =
        format!("an absolute path on the host of the service, at most {PLACE_BYTES_MAX} bytes, without ..");
    Err(Error::invalid(format!("{what} {:?}", path.display().to_string()), allowed))
}

impl NewVault {
    pub(crate) fn check(&self) -> Result<()> {
        self.place.check()?;
        self.key_file.as_deref().map_or(Ok(()), |path| check_path("the key file", path))?;
        check_numbers(self.lock_days, self.bytes_per_s)
    }

    /// Properties that differ from `vault`.
    pub(crate) fn differs_from(&self, vault: &Vault) -> Vec<Difference> {
        let path = |path: &Option<PathBuf>| option(path.as_ref().map(|path| path.display()).as_ref());
        let differing = [
            Difference::of("place", &vault.place, &self.place, ToString::to_string),
            Difference::of("key file", &vault.key_file, &self.key_file, path),
            Difference::of("lock days", &vault.lock_days, &self.lock_days, ToString::to_string),
            Difference::of("bytes per second", &vault.bytes_per_s, &self.bytes_per_s, |rate| {
                option(rate.as_ref())
            }),
        ];
        differing.into_iter().flatten().collect()
    }
}

impl Vault {
    /// The vault after `change`, and the changed properties in words.
    pub(crate) fn changed(&self, change: &VaultChange) -> Result<(Self, Vec<&'static str>)> {
        let vault = Self {
            place: change.place.clone().unwrap_or_else(|| self.place.clone()),
            key_file: change.key_file.clone().unwrap_or_else(|| self.key_file.clone()),
            lock_days: change.lock_days.unwrap_or(self.lock_days),
            bytes_per_s: change.bytes_per_s.unwrap_or(self.bytes_per_s),
            ..self.clone()
        };
        vault.place.check()?;
        vault.key_file.as_deref().map_or(Ok(()), |path| check_path("the key file", path))?;
        check_numbers(vault.lock_days, vault.bytes_per_s)?;
        let all = [
            ("place", vault.place != self.place),
            ("key file", vault.key_file != self.key_file),
            ("lock days", vault.lock_days != self.lock_days),
            ("bytes per second", vault.bytes_per_s != self.bytes_per_s),
        ];
        let changes = all.into_iter().filter(|(_, is_changed)| *is_changed).map(|(property, _)| property);
        let changes = changes.collect();
        Ok((vault, changes))
    }
}

fn check_numbers(lock_days: u32, bytes_per_s: Option<u64>) -> Result<()> {
    if lock_days > LOCK_DAYS_MAX {
        return Err(Error::invalid(
            format!("a lock of {lock_days} days"),
            format!("0 to {LOCK_DAYS_MAX} days"),
        ));
    }
    if bytes_per_s == Some(0) {
        return Err(Error::invalid("a limit of 0 bytes in a second", "1 or more, or no limit"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_those_of_the_first_section() {
        let text = "# comment\n[default]\naws_access_key_id = AK\naws_secret_access_key=s=k\n\n[other]\naws_access_key_id = no\n";
        let found = Credentials::parse(text).unwrap();
        assert_eq!((found.access_key.as_str(), found.secret_key.as_str()), ("AK", "s=k"));
        assert!(found.session_token.is_none());
        assert!(Credentials::parse("aws_access_key_id = AK\naws_secret_access_key =\n").is_none());
    }

    #[test]
    fn buckets_are_checked() {
        let good = Bucket {
            endpoint: "https://s3.example.com:9000".to_owned(),
            bucket: "backups".to_owned(),
            prefix: "site-1/files".to_owned(),
            region: "us-east-1".to_owned(),
            credentials_file: "/etc/plimsoll/s3".into(),
            ca_file: None,
        };
        good.check().unwrap();
        let bad = [
            Bucket { endpoint: "s3.example.com".to_owned(), ..good.clone() },
            Bucket { endpoint: "https://s3.example.com/bucket".to_owned(), ..good.clone() },
            Bucket { endpoint: "https://user@s3.example.com".to_owned(), ..good.clone() },
            Bucket { bucket: "a/b".to_owned(), ..good.clone() },
            Bucket { prefix: "/a".to_owned(), ..good.clone() },
            Bucket { prefix: "a/../b".to_owned(), ..good.clone() },
            Bucket { region: String::new(), ..good.clone() },
            Bucket { credentials_file: "s3".into(), ..good.clone() },
            Bucket { ca_file: Some("/etc/../ca".into()), ..good.clone() },
        ];
        for bad in bad {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
