//! The tables of backups, and of restores of files.

use super::volume::row_of;
use super::{from_text, to_text, unreadable, word};
use crate::backup::{Backup, BackupFileRestore, BackupState, BackupTotals};
use crate::name::{BackupName, SnapshotName, VaultName, VolumeName};
use crate::snapshot::SnapshotKind;
use replicate::BackupId;
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};
use vfs::{ViewId, VolumeId};

const SELECT: &str =
    "SELECT backup.*, vault.name AS vault_name FROM backup JOIN vault ON vault.id = backup.vault WHERE";

/// A backup's id as SQLite stores it: its integers are signed.
fn row_of_id(id: BackupId) -> i64 {
    i64::from_be_bytes(id.0)
}

fn id_of(row: i64) -> BackupId {
    BackupId(row.to_be_bytes())
}

pub(crate) fn insert(connection: &Connection, backup: &Backup) -> Result<()> {
    connection.execute(
        "INSERT INTO backup (vault, id, name, volume, volume_id, snapshot, kind, created_ms, taken_ms, files, bytes,
             sent_bytes, skipped, state, reason, damage, version, changed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, 0, 0, 0, '', '', '', 0, 0)",
        params![
            backup.vault_row,
            row_of_id(backup.id),
            backup.name.as_str(),
            backup.volume.as_str(),
            row_of(backup.volume_id),
            backup.snapshot.as_str(),
            backup.kind.as_str(),
            backup.created_ms
        ],
    )?;
    update(connection, backup)
}

pub(crate) fn update(connection: &Connection, backup: &Backup) -> Result<()> {
    let totals = backup.totals;
    connection.execute(
        "UPDATE backup SET view = :view, made_from = :made_from, previous = :previous, taken_ms = :taken, finished_ms = :finished, files = :files,
             bytes = :bytes, sent_bytes = :sent, skipped = :skipped, state = :state, reason = :reason,
             verified_ms = :verified, damage = :damage, locked_until_ms = :locked, version = :version, changed_ms = :changed
         WHERE vault = :vault AND id = :id",
        named_params! {
            ":vault": backup.vault_row, ":id": row_of_id(backup.id), ":view": backup.view.map(|view| view.0),
            ":made_from": backup.made_from.map(|view| view.0),
            ":previous": backup.previous.map(row_of_id), ":taken": backup.taken_ms, ":finished": backup.finished_ms,
            ":files": totals.files, ":bytes": totals.bytes, ":sent": totals.sent_bytes, ":skipped": totals.skipped,
            ":state": backup.state.as_str(), ":reason": backup.reason, ":verified": backup.verified_ms,
            ":damage": backup.damage, ":locked": backup.locked_until_ms, ":version": backup.version,
            ":changed": backup.changed_ms,
        },
    )?;
    Ok(())
}

pub(crate) fn delete(connection: &Connection, vault: i64, id: BackupId) -> Result<()> {
    connection.execute("DELETE FROM backup WHERE vault = ?1 AND id = ?2", params![vault, row_of_id(id)])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, vault: i64, name: &BackupName) -> Result<Option<Backup>> {
    let select = format!("{SELECT} backup.vault = ?1 AND backup.name = ?2");
    connection.query_one(&select, params![vault, name.as_str()], read).optional()
}

pub(crate) fn find_id(connection: &Connection, vault: i64, id: BackupId) -> Result<Option<Backup>> {
    let select = format!("{SELECT} backup.vault = ?1 AND backup.id = ?2");
    connection.query_one(&select, params![vault, row_of_id(id)], read).optional()
}

pub(crate) fn list(connection: &Connection, vault: i64, after: &str, most: usize) -> Result<Vec<Backup>> {
    let select = format!("{SELECT} backup.vault = ?1 AND backup.name > ?2 ORDER BY backup.name LIMIT ?3");
    let mut select = connection.prepare(&select)?;
    select.query_map(params![vault, after, most], read)?.collect()
}

pub(crate) fn of_vault(connection: &Connection, vault: i64) -> Result<Vec<Backup>> {
    list(connection, vault, "", usize::MAX >> 1)
}

/// The backups of a volume in all vaults, the oldest first.
pub(crate) fn of_volume(connection: &Connection, volume: VolumeId) -> Result<Vec<Backup>> {
    let select = format!("{SELECT} backup.volume_id = ?1 ORDER BY backup.taken_ms, backup.created_ms");
    let mut select = connection.prepare(&select)?;
    select.query_map([row_of(volume)], read)?.collect()
}

/// The backups of all vaults.
pub(crate) fn all(connection: &Connection) -> Result<Vec<Backup>> {
    let mut select = connection.prepare(&format!("{SELECT} 1 ORDER BY vault.name, backup.taken_ms"))?;
    select.query_map([], read)?.collect()
}

pub(crate) fn insert_restore(connection: &Connection, request: &BackupFileRestore) -> Result<i64> {
    connection.execute("INSERT INTO file_restore (request) VALUES (?1)", [to_text(request)?])?;
    Ok(connection.last_insert_rowid())
}

pub(crate) fn find_restore(connection: &Connection, id: i64) -> Result<Option<BackupFileRestore>> {
    let select = "SELECT request FROM file_restore WHERE id = ?1";
    let found: Option<String> = connection.query_one(select, [id], |row| row.get(0)).optional()?;
    found.map(|text| from_text(&text).ok_or_else(|| unreadable("request", text))).transpose()
}

pub(crate) fn delete_restore(connection: &Connection, id: i64) -> Result<()> {
    connection.execute("DELETE FROM file_restore WHERE id = ?1", [id])?;
    Ok(())
}

/// The due time of the last backup of a schedule; 0 if there was none.
pub(crate) fn last_run(connection: &Connection, volume: VolumeId, kind: SnapshotKind) -> Result<u64> {
    let select = "SELECT due_ms FROM backup_run WHERE volume = ?1 AND kind = ?2";
    let found = connection.query_one(select, params![row_of(volume), kind.as_str()], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

pub(crate) fn set_run(
    connection: &Connection,
    volume: VolumeId,
    kind: SnapshotKind,
    due_ms: u64,
) -> Result<()> {
    connection.execute(
        "INSERT INTO backup_run (volume, kind, due_ms) SELECT id, ?2, ?3 FROM volume WHERE id = ?1
         ON CONFLICT (volume, kind) DO UPDATE SET due_ms = ?3",
        params![row_of(volume), kind.as_str(), due_ms],
    )?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Backup> {
    Ok(Backup {
        vault_row: row.get("vault")?,
        id: id_of(row.get("id")?),
        vault: VaultName::stored(row.get("vault_name")?),
        name: BackupName::stored(row.get("name")?),
        volume: VolumeName::stored(row.get("volume")?),
        volume_id: VolumeId(row.get::<_, i64>("volume_id")?.cast_unsigned()),
        snapshot: SnapshotName::stored(row.get("snapshot")?),
        kind: word(row, "kind", SnapshotKind::of)?,
        view: row.get::<_, Option<u32>>("view")?.map(ViewId),
        made_from: row.get::<_, Option<u32>>("made_from")?.map(ViewId),
        previous: row.get::<_, Option<i64>>("previous")?.map(id_of),
        taken_ms: row.get("taken_ms")?,
        finished_ms: row.get("finished_ms")?,
        totals: BackupTotals {
            files: row.get("files")?,
            bytes: row.get("bytes")?,
            sent_bytes: row.get("sent_bytes")?,
            skipped: row.get("skipped")?,
        },
        state: word(row, "state", BackupState::of)?,
        reason: row.get("reason")?,
        verified_ms: row.get("verified_ms")?,
        damage: row.get("damage")?,
        locked_until_ms: row.get("locked_until_ms")?,
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
