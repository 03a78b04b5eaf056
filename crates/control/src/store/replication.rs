//! The table of replications.

use super::volume::row_of;
use super::{unreadable, word};
use crate::name::{PeerName, VolumeName};
use crate::replication::{Phase, Replication, ReplicationSchedule, Transfer};
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};
use vfs::VolumeId;

const SELECT: &str =
    "SELECT replication.*, volume.name AS volume_name, coalesce(origin.name, remote) AS source_name FROM replication
     JOIN volume ON volume.id = replication.volume LEFT JOIN volume AS origin ON origin.id = replication.source WHERE";

pub(crate) fn insert(connection: &Connection, replication: &Replication) -> Result<()> {
    connection.execute(
        "INSERT INTO replication (volume, source, peer, remote, relation, phase, next_point, due_ms, healthy, last_error, version,
             created_ms, changed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, 'active', 1, 0, 1, '', 0, ?6, 0)",
        params![
            row_of(replication.volume_id),
            replication.source_id.map(row_of),
            replication.peer.as_ref().map(PeerName::as_str),
            remote(replication),
            replication.relation.cast_signed(),
            replication.created_ms
        ],
    )?;
    update(connection, replication)
}

/// Stores all properties, the two volumes among them.
pub(crate) fn update(connection: &Connection, replication: &Replication) -> Result<()> {
    let last = replication.last_transfer;
    let last_or = |of: fn(Transfer) -> u64| last.map_or(0, of);
    connection.execute(
        "UPDATE replication SET volume = :volume, source = :source, peer = :peer, remote = :remote, schedule = :schedule, phase = :phase,
             next_point = :next, due_ms = :due, healthy = :healthy, last_error = :error, last_ended_ms = :ended,
             last_duration_ms = :duration, last_bytes = :bytes, last_point_ms = :point, total_bytes = :total,
             version = :version, changed_ms = :changed
         WHERE relation = :relation",
        named_params! {
            ":relation": replication.relation.cast_signed(), ":volume": row_of(replication.volume_id),
            ":source": replication.source_id.map(row_of),
            ":peer": replication.peer.as_ref().map(PeerName::as_str), ":remote": remote(replication),
            ":schedule": replication.schedule.map(ReplicationSchedule::as_str),
            ":phase": replication.phase.as_str(), ":next": replication.next_point, ":due": replication.due_ms,
            ":healthy": replication.is_healthy, ":error": replication.last_error,
            ":ended": last.map(|last| last.ended_ms), ":duration": last_or(|last| last.duration_ms),
            ":bytes": last_or(|last| last.bytes), ":point": last_or(|last| last.point_ms),
            ":total": replication.total_bytes, ":version": replication.version, ":changed": replication.changed_ms,
        },
    )?;
    Ok(())
}

/// The volume of another service.
fn remote(replication: &Replication) -> Option<&str> {
    replication.peer.as_ref().map(|_| replication.source.as_str())
}

/// Takes the number of the next point.
pub(crate) fn take_point(connection: &Connection, relation: u64) -> Result<u64> {
    connection.query_one(
        "UPDATE replication SET next_point = next_point + 1 WHERE relation = ?1 RETURNING next_point - 1",
        [relation.cast_signed()],
        |row| row.get(0),
    )
}

pub(crate) fn delete(connection: &Connection, relation: u64) -> Result<()> {
    connection.execute("DELETE FROM replication WHERE relation = ?1", [relation.cast_signed()])?;
    Ok(())
}

/// The replication to a volume.
pub(crate) fn find(connection: &Connection, volume: VolumeId) -> Result<Option<Replication>> {
    let select = format!("{SELECT} replication.volume = ?1");
    connection.query_one(&select, [row_of(volume)], read).optional()
}

pub(crate) fn find_relation(connection: &Connection, relation: u64) -> Result<Option<Replication>> {
    let select = format!("{SELECT} replication.relation = ?1");
    connection.query_one(&select, [relation.cast_signed()], read).optional()
}

/// The replications to or from a volume.
pub(crate) fn with_volume(connection: &Connection, volume: VolumeId) -> Result<Vec<Replication>> {
    let select = format!("{SELECT} replication.volume = ?1 OR replication.source = ?1 ORDER BY volume.name");
    let mut select = connection.prepare(&select)?;
    select.query_map([row_of(volume)], read)?.collect()
}

/// By the name of the destination.
pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<Replication>> {
    let select = format!("{SELECT} volume.name > ?1 ORDER BY volume.name LIMIT ?2");
    let mut select = connection.prepare(&select)?;
    select.query_map(params![after, most], read)?.collect()
}

fn read(row: &Row<'_>) -> Result<Replication> {
    let schedule: Option<String> = row.get("schedule")?;
    let schedule = schedule
        .map(|text| ReplicationSchedule::of(&text).ok_or_else(|| unreadable("schedule", text)))
        .transpose()?;
    let ended: Option<u64> = row.get("last_ended_ms")?;
    let (duration_ms, bytes) = (row.get("last_duration_ms")?, row.get("last_bytes")?);
    let point_ms = row.get("last_point_ms")?;
    Ok(Replication {
        relation: row.get::<_, i64>("relation")?.cast_unsigned(),
        volume_id: VolumeId(row.get::<_, i64>("volume")?.cast_unsigned()),
        source_id: row.get::<_, Option<i64>>("source")?.map(|id| VolumeId(id.cast_unsigned())),
        peer: row.get::<_, Option<String>>("peer")?.map(PeerName::stored),
        volume: VolumeName::stored(row.get("volume_name")?),
        source: VolumeName::stored(row.get("source_name")?),
        schedule,
        phase: word(row, "phase", Phase::of)?,
        next_point: row.get("next_point")?,
        due_ms: row.get("due_ms")?,
        is_healthy: row.get("healthy")?,
        last_error: row.get("last_error")?,
        last_transfer: ended.map(|ended_ms| Transfer { ended_ms, duration_ms, bytes, point_ms }),
        total_bytes: row.get("total_bytes")?,
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
