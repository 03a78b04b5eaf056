//! Backups of volumes, and restores.

use super::paging::{after, limit, page};
use crate::convert::{FromBody, ToBody};
use crate::core::Call;
use crate::endpoint::{Docs, Endpoint, Force, Json, Needs, NoBody, NoQuery, Started, Tagged};
use crate::problem::Result;
use api_client::model::{Backup, BackupCheck, BackupFileRestore, NewBackup, NewVolume, Page, PageQuery};
use axum::http::Method;
use control::{BackupName, Error, Kind, Role, VaultName};

const TAG: &str = "backups";
const ALL: &str = "/v1/vaults/{name}/backups";
const ONE: &str = "/v1/vaults/{name}/backups/{backup}";

pub(super) fn endpoints() -> Vec<Endpoint> {
    let (look, operate) = (Needs::Role(Role::Read), Needs::Role(Role::Operate));
    vec![
        Endpoint::new(
            Method::GET,
            ALL,
            Docs::new(TAG, "listBackups", "List the backups of a vault by name."),
            look,
            list,
        ),
        Endpoint::new(
            Method::POST,
            ALL,
            Docs::new(
                TAG,
                "createBackup",
                "Start a backup of a volume. Goes on with one of that name that failed, and succeeds without a change if it is complete.",
            ),
            operate,
            create,
        )
        .refuses(&[409, 422]),
        Endpoint::new(Method::GET, ONE, Docs::new(TAG, "getBackup", "Get a backup."), look, one),
        Endpoint::new(
            Method::DELETE,
            ONE,
            Docs::new(TAG, "deleteBackup", "Delete a backup. An operation frees its space."),
            operate,
            delete,
        )
        .conditional()
        .refuses(&[409]),
        Endpoint::new(
            Method::POST,
            "/v1/vaults/{name}/backups/{backup}/verify",
            Docs::new(TAG, "verifyBackup", "Start a check of a backup. The operation fails if it finds damage."),
            operate,
            verify,
        )
        .refuses(&[409]),
        Endpoint::new(
            Method::POST,
            "/v1/vaults/{name}/backups/{backup}/restore-volume",
            Docs::new(
                TAG,
                "restoreVolume",
                "Start to restore a backup to a new volume. Clients reach it once it is complete.",
            ),
            operate,
            restore_volume,
        )
        .refuses(&[409, 422]),
        Endpoint::new(
            Method::POST,
            "/v1/vaults/{name}/backups/{backup}/restore-files",
            Docs::new(
                TAG,
                "restoreBackupFiles",
                "Start to restore files of a backup to a volume. Names that exist there are not overwritten.",
            ),
            operate,
            restore_backup_files,
        )
        .refuses(&[409, 422]),
    ]
}

fn list(call: &Call, asked: PageQuery, _: NoBody) -> Result<Json<Page<Backup>>> {
    let vault: VaultName = call.name(Kind::Vault)?;
    let backups = call.service().backups(&vault, after::<BackupName>(&asked)?, limit(&asked)?)?;
    Ok(Json(page(&backups)))
}

fn create(call: &Call, _: NoQuery, Json(new): Json<NewBackup>) -> Result<Started> {
    let vault: VaultName = call.name(Kind::Vault)?;
    let begun = call.service().create_backup(&call.context(false), &vault, &FromBody::from_body(new)?)?;
    Ok(Started(begun.operation.to_body()))
}

fn one(call: &Call, _: NoQuery, _: NoBody) -> Result<Tagged<Backup>> {
    let (vault, name) = names(call)?;
    Ok(Tagged::of(&call.service().backup(&vault, &name)?))
}

fn delete(call: &Call, asked: Force, _: NoBody) -> Result<Started> {
    let (service, (vault, name)) = (call.service(), names(call)?);
    let look = || service.backup(&vault, &name);
    let begun = call.change(asked.force, look, |_, context| service.delete_backup(context, &vault, &name))?;
    Ok(Started(begun.to_body()))
}

fn verify(call: &Call, _: NoQuery, Json(check): Json<BackupCheck>) -> Result<Started> {
    let (vault, name) = names(call)?;
    let begun = call.service().verify_backup(&call.context(false), &vault, &name, check.data)?;
    Ok(Started(begun.to_body()))
}

fn restore_volume(call: &Call, asked: Force, Json(new): Json<NewVolume>) -> Result<Started> {
    let (vault, name) = names(call)?;
    let new = FromBody::from_body(new)?;
    let begun = call.service().restore_volume(&call.context(asked.force), &vault, &name, &new)?;
    Ok(Started(begun.operation.to_body()))
}

fn restore_backup_files(call: &Call, _: NoQuery, Json(request): Json<BackupFileRestore>) -> Result<Started> {
    let (vault, name) = names(call)?;
    let request = FromBody::from_body(request)?;
    let begun = call.service().restore_backup_files(&call.context(false), &vault, &name, &request)?;
    Ok(Started(begun.to_body()))
}

/// The names in the path.
fn names(call: &Call) -> Result<(VaultName, BackupName)> {
    let vault: VaultName = call.name(Kind::Vault)?;
    let text = call.part("backup");
    let no_such = |_| Error::NotFound { kind: Kind::Backup, name: format!("{vault}/{text}") };
    let name = text.parse().map_err(no_such)?;
    Ok((vault, name))
}
