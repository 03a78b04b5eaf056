//! The tables of policies and of their runs.

use super::volume::row_of;
use super::{from_text, to_text, unreadable, word};
use crate::name::{PolicyName, VaultName, VolumeName};
use crate::policy::Policy;
use crate::snapshot::SnapshotKind;
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};
use vfs::VolumeId;

const SELECT: &str =
    "SELECT policy.*, vault.name AS vault_name FROM policy LEFT JOIN vault ON vault.id = policy.vault WHERE";

pub(crate) fn insert(connection: &Connection, policy: &mut Policy) -> Result<()> {
    connection.execute(
        "INSERT INTO policy (name, created_ms, vault, enabled, zone, schedules, since_ms, version, changed_ms)
         VALUES (?1, ?2, (SELECT id FROM vault WHERE name = ?3), 0, '', '', 0, 0, 0)",
        params![policy.name.as_str(), policy.created_ms, policy.vault.as_ref().map(VaultName::as_str)],
    )?;
    policy.row = connection.last_insert_rowid();
    update(connection, policy)
}

pub(crate) fn update(connection: &Connection, policy: &Policy) -> Result<()> {
    connection.execute(
        "UPDATE policy SET enabled = :enabled, zone = :zone, schedules = :schedules, since_ms = :since,
             version = :version, changed_ms = :changed
         WHERE id = :id",
        named_params! {
            ":id": policy.row, ":enabled": policy.is_enabled, ":zone": policy.zone.name(),
            ":schedules": to_text(&policy.schedules)?, ":since": policy.since_ms, ":version": policy.version,
            ":changed": policy.changed_ms,
        },
    )?;
    Ok(())
}

pub(crate) fn delete(connection: &Connection, row: i64) -> Result<()> {
    connection.execute("DELETE FROM policy WHERE id = ?1", [row])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, name: &PolicyName) -> Result<Option<Policy>> {
    connection.query_one(&format!("{SELECT} policy.name = ?1"), [name.as_str()], read).optional()
}

pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<Policy>> {
    let mut select =
        connection.prepare(&format!("{SELECT} policy.name > ?1 ORDER BY policy.name LIMIT ?2"))?;
    select.query_map(params![after, most], read)?.collect()
}

/// The volumes of a policy, by name.
pub(crate) fn volumes(connection: &Connection, row: i64) -> Result<Vec<VolumeName>> {
    let mut select = connection
        .prepare("SELECT name FROM volume WHERE policy = ?1 OR backup_policy = ?1 ORDER BY name")?;
    select.query_map([row], |row| row.get(0).map(VolumeName::stored))?.collect()
}

/// A policy that makes its backups in a vault.
pub(crate) fn of_vault(connection: &Connection, vault: i64) -> Result<Option<PolicyName>> {
    let select = "SELECT name FROM policy WHERE vault = ?1 ORDER BY name LIMIT 1";
    connection.query_one(select, [vault], |row| row.get(0).map(PolicyName::stored)).optional()
}

/// The due time of the last run; 0 if there was none.
pub(crate) fn last_run(connection: &Connection, volume: VolumeId, kind: SnapshotKind) -> Result<u64> {
    let select = "SELECT due_ms FROM policy_run WHERE volume = ?1 AND kind = ?2";
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
        "INSERT INTO policy_run (volume, kind, due_ms) SELECT id, ?2, ?3 FROM volume WHERE id = ?1
         ON CONFLICT (volume, kind) DO UPDATE SET due_ms = ?3",
        params![row_of(volume), kind.as_str(), due_ms],
    )?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Policy> {
    let schedules: String = row.get("schedules")?;
    Ok(Policy {
        row: row.get("id")?,
        name: PolicyName::stored(row.get("name")?),
        is_enabled: row.get("enabled")?,
        vault: row.get::<_, Option<String>>("vault_name")?.map(VaultName::stored),
        zone: word(row, "zone", |text| text.parse().ok())?,
        schedules: from_text(&schedules).ok_or_else(|| unreadable("schedules", schedules))?,
        since_ms: row.get("since_ms")?,
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
