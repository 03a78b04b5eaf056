//! The tables of peers and of what they may replicate.

use super::volume::row_of;
use crate::name::{PeerName, VolumeName};
use crate::peer::{Authorization, Peer, PublicKey};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use vfs::VolumeId;

const AUTHORIZATION: &str = "SELECT authorization.*, volume.name AS volume_name FROM authorization
     JOIN volume ON volume.id = authorization.volume WHERE";

/// Stores a peer, new or changed.
pub(crate) fn put(connection: &Connection, peer: &Peer) -> Result<()> {
    connection.execute(
        "INSERT INTO peer (name, key, address, version, created_ms, changed_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (name) DO UPDATE SET key = ?2, address = ?3, version = ?4, changed_ms = ?6",
        params![peer.name.as_str(), peer.key.0, peer.address, peer.version, peer.created_ms, peer.changed_ms],
    )?;
    Ok(())
}

pub(crate) fn delete(connection: &Connection, name: &PeerName) -> Result<()> {
    connection.execute("DELETE FROM peer WHERE name = ?1", [name.as_str()])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, name: &PeerName) -> Result<Option<Peer>> {
    connection.query_one("SELECT * FROM peer WHERE name = ?1", [name.as_str()], read).optional()
}

pub(crate) fn find_key(connection: &Connection, key: &PublicKey) -> Result<Option<Peer>> {
    connection.query_one("SELECT * FROM peer WHERE key = ?1", [key.0], read).optional()
}

pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<Peer>> {
    let mut select = connection.prepare("SELECT * FROM peer WHERE name > ?1 ORDER BY name LIMIT ?2")?;
    select.query_map(params![after, most], read)?.collect()
}

/// The destinations here whose source is a volume of the peer.
pub(crate) fn destinations(connection: &Connection, peer: &PeerName) -> Result<Vec<VolumeName>> {
    let select =
        "SELECT volume.name FROM replication JOIN volume ON volume.id = replication.volume WHERE peer = ?1
         ORDER BY volume.name";
    let mut select = connection.prepare(select)?;
    select.query_map([peer.as_str()], |row| row.get(0).map(VolumeName::stored))?.collect()
}

fn read(row: &Row<'_>) -> Result<Peer> {
    Ok(Peer {
        name: PeerName::stored(row.get("name")?),
        key: PublicKey(row.get("key")?),
        address: row.get("address")?,
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}

pub(crate) fn authorize(connection: &Connection, new: &Authorization) -> Result<()> {
    connection.execute(
        "INSERT INTO authorization (volume, peer, next_point, created_ms) VALUES (?1, ?2, 1, ?3)",
        params![row_of(new.volume_id), new.peer.as_str(), new.created_ms],
    )?;
    Ok(())
}

pub(crate) fn revoke(connection: &Connection, of: &Authorization) -> Result<()> {
    let of = params![row_of(of.volume_id), of.peer.as_str()];
    connection.execute("DELETE FROM authorization WHERE volume = ?1 AND peer = ?2", of)?;
    Ok(())
}

/// All authorizations, by volume and peer.
pub(crate) fn authorizations(connection: &Connection) -> Result<Vec<Authorization>> {
    let mut select = connection.prepare(&format!("{AUTHORIZATION} TRUE ORDER BY volume.name, peer"))?;
    select.query_map([], read_authorization)?.collect()
}

/// The authorizations of a volume.
pub(crate) fn of_volume(connection: &Connection, volume: VolumeId) -> Result<Vec<Authorization>> {
    let mut select =
        connection.prepare(&format!("{AUTHORIZATION} authorization.volume = ?1 ORDER BY peer"))?;
    select.query_map([row_of(volume)], read_authorization)?.collect()
}

/// The authorization of a replication.
pub(crate) fn of_relation(connection: &Connection, relation: u64) -> Result<Option<Authorization>> {
    let select = format!("{AUTHORIZATION} relation = ?1");
    connection.query_one(&select, [relation.cast_signed()], read_authorization).optional()
}

/// The replication of the peer from now on.
pub(crate) fn set_relation(connection: &Connection, of: &Authorization, relation: u64) -> Result<()> {
    connection.execute(
        "UPDATE authorization SET relation = ?3 WHERE volume = ?1 AND peer = ?2",
        params![row_of(of.volume_id), of.peer.as_str(), relation.cast_signed()],
    )?;
    Ok(())
}

/// The number of the next point.
pub(crate) fn set_next_point(connection: &Connection, relation: u64, next: u64) -> Result<()> {
    let to = params![relation.cast_signed(), next];
    connection.execute("UPDATE authorization SET next_point = ?2 WHERE relation = ?1", to)?;
    Ok(())
}

pub(crate) fn next_point(connection: &Connection, relation: u64) -> Result<u64> {
    let select = "SELECT next_point FROM authorization WHERE relation = ?1";
    connection.query_one(select, [relation.cast_signed()], |row| row.get(0))
}

/// The peer has a point since this time.
pub(crate) fn confirm(connection: &Connection, relation: u64, now_ms: u64) -> Result<()> {
    let to = params![relation.cast_signed(), now_ms];
    connection.execute("UPDATE authorization SET confirmed_ms = ?2 WHERE relation = ?1", to)?;
    Ok(())
}

/// Takes the number of the next point.
pub(crate) fn take_point(connection: &Connection, relation: u64) -> Result<u64> {
    connection.query_one(
        "UPDATE authorization SET next_point = next_point + 1 WHERE relation = ?1 RETURNING next_point - 1",
        [relation.cast_signed()],
        |row| row.get(0),
    )
}

fn read_authorization(row: &Row<'_>) -> Result<Authorization> {
    Ok(Authorization {
        volume_id: VolumeId(row.get::<_, i64>("volume")?.cast_unsigned()),
        volume: VolumeName::stored(row.get("volume_name")?),
        peer: PeerName::stored(row.get("peer")?),
        relation: row.get::<_, Option<i64>>("relation")?.map(i64::cast_unsigned),
        confirmed_ms: row.get("confirmed_ms")?,
        created_ms: row.get("created_ms")?,
    })
}
