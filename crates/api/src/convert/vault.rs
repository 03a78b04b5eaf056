//! Vaults.

use super::{FromBody, ToBody, version_text};
use api_client::model::{Bucket, NewVault, Timestamp, Vault, VaultPatch};
use control::{Error, VaultChange, VaultPlace};
use std::path::Path;

impl ToBody for control::Vault {
    type Body = Vault;

    fn to_body(&self) -> Vault {
        let (directory, s3) = match &self.place {
            VaultPlace::Directory { path } => (Some(text(path)), None),
            VaultPlace::S3(bucket) => (None, Some(bucket.to_body())),
        };
        Vault {
            name: self.name.to_string(),
            number: self.number.iter().map(|byte| format!("{byte:02x}")).collect(),
            directory,
            s3,
            key_file: self.key_file.as_deref().map(text),
            lock_days: self.lock_days,
            bytes_per_second_max: self.bytes_per_s,
            created: Timestamp::from_ms(self.created_ms),
            changed: Timestamp::from_ms(self.changed_ms),
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl ToBody for control::Bucket {
    type Body = Bucket;

    fn to_body(&self) -> Bucket {
        Bucket {
            endpoint: self.endpoint.clone(),
            bucket: self.bucket.clone(),
            prefix: self.prefix.clone(),
            region: self.region.clone(),
            credentials_file: text(&self.credentials_file),
            ca_file: self.ca_file.as_deref().map(text),
        }
    }
}

impl FromBody<NewVault> for control::NewVault {
    fn from_body(of: NewVault) -> Result<Self, Error> {
        let place = place(of.directory, of.s3)?.ok_or_else(|| Error::Invalid {
            what: "a vault without a place".to_owned(),
            allowed: "directory or s3".to_owned(),
        })?;
        Ok(Self {
            name: of.name.parse()?,
            place,
            key_file: of.key_file.map(Into::into),
            lock_days: of.lock_days,
            bytes_per_s: of.bytes_per_second_max,
            takes_over: of.take_over,
        })
    }
}

impl FromBody<VaultPatch> for VaultChange {
    fn from_body(of: VaultPatch) -> Result<Self, Error> {
        Ok(Self {
            place: place(of.directory, of.s3)?,
            key_file: of.key_file.map(|path| Some(path.into())),
            lock_days: of.lock_days,
            bytes_per_s: of.bytes_per_second_max,
        })
    }
}

fn place(directory: Option<String>, s3: Option<Bucket>) -> Result<Option<VaultPlace>, Error> {
    match (directory, s3) {
        (Some(_), Some(_)) => Err(Error::Invalid {
            what: "a vault with a directory and a bucket".to_owned(),
            allowed: "directory or s3".to_owned(),
        }),
        (Some(path), None) => Ok(Some(VaultPlace::Directory { path: path.into() })),
        (None, Some(of)) => Ok(Some(VaultPlace::S3(control::Bucket {
            endpoint: of.endpoint,
            bucket: of.bucket,
            prefix: of.prefix,
            region: of.region,
            credentials_file: of.credentials_file.into(),
            ca_file: of.ca_file.map(Into::into),
        }))),
        (None, None) => Ok(None),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
