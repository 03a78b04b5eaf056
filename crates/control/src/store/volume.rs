//! The table of volumes.

use super::{endpoint, label, rule, unreadable, word};
use crate::kind::State;
use crate::name::{PolicyName, PoolName, ShareName, VolumeName};
use crate::protocol::Protocols;
use crate::snapshot::{directory_of, directory_word};
use crate::volume::Volume;
use envelope::{Bytes, Level, Protocol};
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};
use vfs::{Durability, Root, SecurityStyle, VolumeId};

const SELECT: &str = "SELECT volume.*, pool.name AS pool_name, policy.name AS policy_name, backups.name AS backup_policy_name FROM volume
     JOIN pool ON pool.id = volume.pool LEFT JOIN policy ON policy.id = volume.policy
     LEFT JOIN policy AS backups ON backups.id = volume.backup_policy WHERE";

/// A volume's id as SQLite stores it: its integers are signed.
pub(crate) fn row_of(id: VolumeId) -> i64 {
    id.0.cast_signed()
}

pub(crate) fn insert(connection: &Connection, volume: &Volume) -> Result<()> {
    connection.execute(
        "INSERT INTO volume (id, name, durability, security_style, created_ms, pool, share, level, size, size_lowest, settings,
             protocols, smb, root_mode, root_uid, root_gid, root_due, clone_of, state, version, changed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', NULL, 0, 0, '', '', '', 0, 0, 0, 0, ?7, '', 0, 0)",
        params![
            row_of(volume.id),
            volume.name.as_str(),
            durability_word(volume.durability),
            style_word(volume.security_style),
            volume.created_ms,
            volume.pool_row,
            volume.clone_of
        ],
    )?;
    update(connection, volume)
}

pub(crate) fn update(connection: &Connection, volume: &Volume) -> Result<()> {
    connection.execute(
        "UPDATE volume SET pool = :pool, share = :share, level = :level, size = :size, size_lowest = :lowest,
             settings = :settings, protocols = :protocols, smb = :smb, root_mode = :mode, root_uid = :uid, root_gid = :gid, root_due = :due,
             snapshot_directory = :snapshot_directory, policy = (SELECT id FROM policy WHERE name = :policy),
             policy_since_ms = :policy_since, backup_policy = (SELECT id FROM policy WHERE name = :backup_policy),
             backup_policy_since_ms = :backup_since, snap_reserve = :snap_reserve, state = :state, version = :version, changed_ms = :changed
         WHERE id = :id",
        named_params! {
            ":id": row_of(volume.id), ":pool": volume.pool_row, ":share": volume.share.as_str(),
            ":level": volume.level.map(Level::name), ":size": volume.size.0, ":lowest": volume.size_lowest.0,
            ":settings": super::to_text(&volume.settings)?, ":protocols": volume.protocols.to_string(),
            ":smb": volume.smb.to_string(), ":snapshot_directory": directory_word(volume.snapshot_directory),
            ":policy": volume.policy.as_ref().map(PolicyName::as_str), ":policy_since": volume.policy_since_ms,
            ":backup_policy": volume.backup_policy.as_ref().map(PolicyName::as_str),
            ":backup_since": volume.backup_policy_since_ms,
            ":snap_reserve": volume.snap_reserve,
            ":mode": volume.root.mode, ":uid": volume.root.uid, ":gid": volume.root.gid,
            ":due": volume.root_due, ":state": volume.state.as_str(), ":version": volume.version,
            ":changed": volume.changed_ms,
        },
    )?;
    rule::write(connection, row_of(volume.id), &volume.rules)?;
    endpoint::write(connection, row_of(volume.id), &volume.endpoints)?;
    label::write(connection, label::Of::Volume, row_of(volume.id), &volume.labels)
}

pub(crate) fn delete(connection: &Connection, id: VolumeId) -> Result<()> {
    connection.execute("DELETE FROM volume WHERE id = ?1", [row_of(id)])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, name: &VolumeName) -> Result<Option<Volume>> {
    one(connection, "volume.name = ?1", name.as_str())
}

pub(crate) fn find_id(connection: &Connection, id: VolumeId) -> Result<Option<Volume>> {
    let select = format!("{SELECT} volume.id = ?1");
    let found = connection.query_one(&select, [row_of(id)], read).optional()?;
    found.map(|volume| complete(connection, volume)).transpose()
}

/// The volume mounted at that path.
pub(crate) fn find_share(connection: &Connection, share: &ShareName) -> Result<Option<Volume>> {
    one(connection, "volume.share = ?1", share.as_str())
}

/// Volumes that this protocol serves, and their mount paths.
pub(crate) fn shares_over(
    connection: &Connection,
    protocol: Protocol,
) -> Result<Vec<(VolumeName, ShareName)>> {
    let mut select = connection.prepare("SELECT name, share, protocols FROM volume")?;
    let found = select.query_map([], |row| {
        let protocols: Protocols = word(row, "protocols", |text| text.parse().ok())?;
        let names = (VolumeName::stored(row.get("name")?), ShareName::stored(row.get("share")?));
        Ok(protocols.contains(protocol).then_some(names))
    })?;
    found.filter_map(Result::transpose).collect()
}

pub(crate) fn exists(connection: &Connection, id: VolumeId) -> Result<bool> {
    connection.query_one("SELECT EXISTS (SELECT 1 FROM volume WHERE id = ?1)", [row_of(id)], |row| row.get(0))
}

pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<Volume>> {
    let mut select =
        connection.prepare(&format!("{SELECT} volume.name > ?1 ORDER BY volume.name LIMIT ?2"))?;
    let found = select.query_map(params![after, most], read)?.collect::<Result<Vec<_>>>()?;
    found.into_iter().map(|volume| complete(connection, volume)).collect()
}

pub(crate) fn of_pool(connection: &Connection, pool: i64) -> Result<Vec<Volume>> {
    let mut select = connection.prepare(&format!("{SELECT} volume.pool = ?1 ORDER BY volume.name"))?;
    let found = select.query_map([pool], read)?.collect::<Result<Vec<_>>>()?;
    found.into_iter().map(|volume| complete(connection, volume)).collect()
}

pub(crate) fn all(connection: &Connection) -> Result<Vec<Volume>> {
    list(connection, "", usize::MAX >> 1)
}

fn one(connection: &Connection, condition: &str, text: &str) -> Result<Option<Volume>> {
    let found = connection.query_one(&format!("{SELECT} {condition}"), [text], read).optional()?;
    found.map(|volume| complete(connection, volume)).transpose()
}

fn complete(connection: &Connection, mut volume: Volume) -> Result<Volume> {
    volume.rules = rule::read(connection, row_of(volume.id))?;
    volume.endpoints = endpoint::read(connection, row_of(volume.id))?;
    volume.labels = label::read(connection, label::Of::Volume, row_of(volume.id))?;
    Ok(volume)
}

fn durability_word(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Relaxed => "relaxed",
    }
}

fn durability_of(word: &str) -> Option<Durability> {
    [Durability::Sync, Durability::Relaxed].into_iter().find(|&one| durability_word(one) == word)
}

fn style_word(style: SecurityStyle) -> &'static str {
    match style {
        SecurityStyle::Unix => "unix",
        SecurityStyle::Ntfs => "ntfs",
    }
}

fn style_of(word: &str) -> Option<SecurityStyle> {
    [SecurityStyle::Unix, SecurityStyle::Ntfs].into_iter().find(|&one| style_word(one) == word)
}

fn read(row: &Row<'_>) -> Result<Volume> {
    let settings: String = row.get("settings")?;
    let level: Option<String> = row.get("level")?;
    let level = level.map(|text| text.parse::<Level>().map_err(|_| unreadable("level", text))).transpose()?;
    Ok(Volume {
        id: VolumeId(row.get::<_, i64>("id")?.cast_unsigned()),
        name: VolumeName::stored(row.get("name")?),
        share: ShareName::stored(row.get("share")?),
        pool: PoolName::stored(row.get("pool_name")?),
        pool_row: row.get("pool")?,
        level,
        size: Bytes(row.get("size")?),
        size_lowest: Bytes(row.get("size_lowest")?),
        settings: super::from_text(&settings).ok_or_else(|| unreadable("settings", settings))?,
        protocols: word(row, "protocols", |text| text.parse().ok())?,
        smb: word(row, "smb", |text| text.parse().ok())?,
        root: Root { mode: row.get("root_mode")?, uid: row.get("root_uid")?, gid: row.get("root_gid")? },
        root_due: row.get("root_due")?,
        durability: word(row, "durability", durability_of)?,
        security_style: word(row, "security_style", style_of)?,
        snapshot_directory: word(row, "snapshot_directory", directory_of)?,
        policy: row.get::<_, Option<String>>("policy_name")?.map(PolicyName::stored),
        policy_since_ms: row.get("policy_since_ms")?,
        snap_reserve: row.get("snap_reserve")?,
        clone_of: row.get("clone_of")?,
        backup_policy: row.get::<_, Option<String>>("backup_policy_name")?.map(PolicyName::stored),
        backup_policy_since_ms: row.get("backup_policy_since_ms")?,
        rules: Vec::new(),
        endpoints: Vec::new(),
        labels: Default::default(),
        state: word(row, "state", State::of)?,
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
