//! Vaults, backups and restores.

use super::{ChangeOptions, Client, Created, Result, Tagged, path, to_json};
use crate::client::transport::Request;
use crate::model::{
    Backup, BackupCheck, BackupFileRestore, NewBackup, NewVault, NewVolume, Operation, Vault, VaultPatch,
};
use crate::path::encoded;
use crate::{JSON, MERGE_PATCH};
use serde::Serialize;

impl Client {
    /// All vaults, by name.
    pub fn vaults(&self) -> Result<Vec<Vault>> {
        self.all(&Request::get("/v1/vaults"))
    }

    /// A vault.
    pub fn vault(&self, name: &str) -> Result<Tagged<Vault>> {
        self.tagged(Request::get(path("vaults", name)))
    }

    /// Makes a vault, or uses the one in its place.
    pub fn create_vault(&self, new: &NewVault) -> Result<Created<Vault>> {
        self.made(Request::post("/v1/vaults"), new)
    }

    /// Changes a vault.
    pub fn change_vault(
        &self,
        options: &ChangeOptions,
        name: &str,
        patch: &VaultPatch,
    ) -> Result<Tagged<Vault>> {
        let request = options.apply(Request::patch(path("vaults", name)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    /// Forgets a vault.
    pub fn delete_vault(&self, options: &ChangeOptions, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("vaults", name))))
    }

    /// All backups of a vault, by name.
    pub fn backups(&self, vault: &str) -> Result<Vec<Backup>> {
        self.all(&Request::get(all(vault)))
    }

    /// A backup.
    pub fn backup(&self, vault: &str, name: &str) -> Result<Tagged<Backup>> {
        self.tagged(Request::get(one(vault, name)))
    }

    /// Starts a backup. The name of the operation is the vault's, a slash and the backup's.
    pub fn create_backup(&self, vault: &str, new: &NewBackup) -> Result<Operation> {
        self.started(&ChangeOptions::none(), all(vault), new)
    }

    /// Starts the deletion of a backup.
    pub fn delete_backup(&self, options: &ChangeOptions, vault: &str, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(one(vault, name))))
    }

    /// Starts the check of a backup.
    pub fn verify_backup(&self, vault: &str, name: &str, check: &BackupCheck) -> Result<Operation> {
        self.started(&ChangeOptions::none(), one(vault, name) + "/verify", check)
    }

    /// Starts the restore of a backup to a new volume.
    pub fn restore_volume(
        &self,
        options: &ChangeOptions,
        vault: &str,
        name: &str,
        new: &NewVolume,
    ) -> Result<Operation> {
        self.started(options, one(vault, name) + "/restore-volume", new)
    }

    /// Starts the restore of files to an existing volume.
    pub fn restore_backup_files(
        &self,
        vault: &str,
        name: &str,
        request: &BackupFileRestore,
    ) -> Result<Operation> {
        self.started(&ChangeOptions::none(), one(vault, name) + "/restore-files", request)
    }

    fn started(&self, options: &ChangeOptions, path: String, body: &impl Serialize) -> Result<Operation> {
        self.value(&options.apply(Request::post(path)).body(JSON, &to_json(body)?))
    }
}

fn all(vault: &str) -> String {
    path("vaults", vault) + "/backups"
}

fn one(vault: &str, name: &str) -> String {
    format!("{}/{}", all(vault), encoded(name))
}
