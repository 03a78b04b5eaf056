//! Backups.

use super::snapshot::time;
use super::{FromBody, ToBody, version_text};
use api_client::model::{Backup, BackupFileRestore, NewBackup, Timestamp};
use control::Error;

impl ToBody for control::Backup {
    type Body = Backup;

    fn to_body(&self) -> Backup {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Backup {
            name: self.name.to_string(),
            vault: self.vault.to_string(),
            volume: self.volume.to_string(),
            snapshot: self.snapshot.to_string(),
            kind: self.kind.to_body(),
            state: self.state.to_body(),
            reason: some(&self.reason),
            taken: Timestamp::from_ms(self.taken_ms),
            finished: self.finished_ms.map(Timestamp::from_ms),
            files: self.totals.files,
            bytes: self.totals.bytes,
            sent_bytes: self.totals.sent_bytes,
            skipped: self.totals.skipped,
            verified: self.verified_ms.map(Timestamp::from_ms),
            damage: some(&self.damage),
            locked_until: self.locked_until_ms.map(Timestamp::from_ms),
            version: version_text(self.version, self.created_ms),
        }
    }
}

impl FromBody<NewBackup> for control::NewBackup {
    fn from_body(of: NewBackup) -> Result<Self, Error> {
        Ok(Self {
            volume: of.volume.parse()?,
            name: of.name.map(|name| name.parse()).transpose()?,
            snapshot: of.snapshot.map(|name| name.parse()).transpose()?,
            locked_until_ms: of.locked_until.as_ref().map(time).transpose()?,
        })
    }
}

impl FromBody<BackupFileRestore> for control::BackupFileRestore {
    fn from_body(of: BackupFileRestore) -> Result<Self, Error> {
        Ok(Self { volume: of.volume, paths: of.paths, directory: of.directory })
    }
}
