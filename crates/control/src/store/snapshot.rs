//! The table of snapshots.

use super::volume::row_of;
use super::word;
use crate::name::{SnapshotName, VolumeName};
use crate::snapshot::{Snapshot, SnapshotKind, SnapshotState};
use envelope::Bytes;
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};
use vfs::{ViewId, VolumeId};

const SELECT: &str = "SELECT snapshot.*, volume.name AS volume_name FROM snapshot
     JOIN volume ON volume.id = snapshot.volume WHERE";

/// Takes the number of a new snapshot and its time: the first free second from `now_ms` on.
pub(crate) fn take_number(connection: &Connection, volume: VolumeId, now_ms: u64) -> Result<(ViewId, u64)> {
    connection.query_one(
        "UPDATE volume SET view_next = view_next + 1,
             snapshot_last_ms = max(?2 / 1000 * 1000, snapshot_last_ms + 1000)
         WHERE id = ?1 RETURNING view_next - 1, snapshot_last_ms",
        params![row_of(volume), now_ms],
        |row| Ok((ViewId(row.get(0)?), row.get(1)?)),
    )
}

/// No new snapshot gets a number up to `view`.
pub(crate) fn skip_numbers(connection: &Connection, volume: VolumeId, view: ViewId) -> Result<()> {
    let least = u64::from(view.0) + 1;
    connection.execute(
        "UPDATE volume SET view_next = max(view_next, ?2) WHERE id = ?1",
        params![row_of(volume), least],
    )?;
    Ok(())
}

pub(crate) fn insert(connection: &Connection, snapshot: &Snapshot) -> Result<()> {
    connection.execute(
        "INSERT INTO snapshot (volume, view, name, kind, created_ms, volume_size, description, state, reason, version, changed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', '', '', 0, 0)",
        params![
            row_of(snapshot.volume_id),
            snapshot.view.0,
            snapshot.name.as_str(),
            snapshot.kind.as_str(),
            snapshot.created_ms,
            snapshot.volume_size.0
        ],
    )?;
    update(connection, snapshot)
}

pub(crate) fn update(connection: &Connection, snapshot: &Snapshot) -> Result<()> {
    connection.execute(
        "UPDATE snapshot SET description = :description, state = :state, reason = :reason, locked_until_ms = :locked,
             version = :version, changed_ms = :changed
         WHERE volume = :volume AND view = :view",
        named_params! {
            ":volume": row_of(snapshot.volume_id), ":view": snapshot.view.0, ":description": snapshot.description,
            ":state": snapshot.state.as_str(), ":reason": snapshot.reason, ":locked": snapshot.locked_until_ms,
            ":version": snapshot.version, ":changed": snapshot.changed_ms,
        },
    )?;
    Ok(())
}

pub(crate) fn delete(connection: &Connection, volume: VolumeId, view: ViewId) -> Result<()> {
    connection
        .execute("DELETE FROM snapshot WHERE volume = ?1 AND view = ?2", params![row_of(volume), view.0])?;
    Ok(())
}

pub(crate) fn find(
    connection: &Connection,
    volume: VolumeId,
    name: &SnapshotName,
) -> Result<Option<Snapshot>> {
    let select = format!("{SELECT} snapshot.volume = ?1 AND snapshot.name = ?2");
    connection.query_one(&select, params![row_of(volume), name.as_str()], read).optional()
}

pub(crate) fn find_view(connection: &Connection, volume: VolumeId, view: ViewId) -> Result<Option<Snapshot>> {
    let select = format!("{SELECT} snapshot.volume = ?1 AND snapshot.view = ?2");
    connection.query_one(&select, params![row_of(volume), view.0], read).optional()
}

pub(crate) fn list(
    connection: &Connection,
    volume: VolumeId,
    after: &str,
    most: usize,
) -> Result<Vec<Snapshot>> {
    let select =
        format!("{SELECT} snapshot.volume = ?1 AND snapshot.name > ?2 ORDER BY snapshot.name LIMIT ?3");
    let mut select = connection.prepare(&select)?;
    select.query_map(params![row_of(volume), after, most], read)?.collect()
}

pub(crate) fn of_volume(connection: &Connection, volume: VolumeId) -> Result<Vec<Snapshot>> {
    list(connection, volume, "", usize::MAX >> 1)
}

/// The snapshots of all volumes that the storage does not have.
pub(crate) fn lost(connection: &Connection) -> Result<Vec<Snapshot>> {
    let select = format!("{SELECT} snapshot.state = 'error' ORDER BY volume.name, snapshot.name");
    let mut select = connection.prepare(&select)?;
    select.query_map([], read)?.collect()
}

fn read(row: &Row<'_>) -> Result<Snapshot> {
    Ok(Snapshot {
        volume_id: VolumeId(row.get::<_, i64>("volume")?.cast_unsigned()),
        volume: VolumeName::stored(row.get("volume_name")?),
        view: ViewId(row.get("view")?),
        name: SnapshotName::stored(row.get("name")?),
        kind: word(row, "kind", SnapshotKind::of)?,
        description: row.get("description")?,
        state: word(row, "state", SnapshotState::of)?,
        reason: row.get("reason")?,
        locked_until_ms: row.get("locked_until_ms")?,
        volume_size: Bytes(row.get("volume_size")?),
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
