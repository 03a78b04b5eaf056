//! The table of pools.

use super::{label, unreadable, word};
use crate::name::PoolName;
use crate::pool::Pool;
use envelope::{Bytes, Level};
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolUsage {
    pub(crate) volumes: u64,
    pub(crate) bytes: Bytes,
}

pub(crate) fn insert(connection: &Connection, pool: &mut Pool) -> Result<()> {
    connection.execute(
        "INSERT INTO pool (name, level, size, settings, version, created_ms, changed_ms)
         VALUES (:name, :level, :size, :settings, :version, :created, :changed)",
        named_params! {
            ":name": pool.name.as_str(), ":level": pool.level.name(), ":size": pool.size.0,
            ":settings": super::to_text(&pool.settings)?, ":version": pool.version,
            ":created": pool.created_ms, ":changed": pool.changed_ms,
        },
    )?;
    pool.row = connection.last_insert_rowid();
    label::write(connection, label::Of::Pool, pool.row, &pool.labels)
}

pub(crate) fn update(connection: &Connection, pool: &Pool) -> Result<()> {
    connection.execute(
        "UPDATE pool SET level = :level, size = :size, settings = :settings, version = :version, changed_ms = :changed
         WHERE id = :row",
        named_params! {
            ":row": pool.row, ":level": pool.level.name(), ":size": pool.size.0,
            ":settings": super::to_text(&pool.settings)?, ":version": pool.version, ":changed": pool.changed_ms,
        },
    )?;
    label::write(connection, label::Of::Pool, pool.row, &pool.labels)
}

pub(crate) fn delete(connection: &Connection, pool: &Pool) -> Result<()> {
    connection.execute("DELETE FROM pool WHERE id = ?1", [pool.row])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, name: &PoolName) -> Result<Option<Pool>> {
    let found =
        connection.query_one("SELECT * FROM pool WHERE name = ?1", [name.as_str()], read).optional()?;
    found.map(|pool| labeled(connection, pool)).transpose()
}

pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<Pool>> {
    let mut select = connection.prepare("SELECT * FROM pool WHERE name > ?1 ORDER BY name LIMIT ?2")?;
    let found = select.query_map(params![after, most], read)?.collect::<Result<Vec<_>>>()?;
    found.into_iter().map(|pool| labeled(connection, pool)).collect()
}

pub(crate) fn all(connection: &Connection) -> Result<Vec<Pool>> {
    list(connection, "", usize::MAX >> 1)
}

pub(crate) fn usage(connection: &Connection, row: i64) -> Result<PoolUsage> {
    let mut select = connection.prepare("SELECT size FROM volume WHERE pool = ?1")?;
    let mut usage = PoolUsage::default();
    for size in select.query_map([row], |row| row.get::<_, u64>(0))? {
        usage.volumes += 1;
        usage.bytes = Bytes(usage.bytes.0.saturating_add(size?));
    }
    Ok(usage)
}

fn labeled(connection: &Connection, mut pool: Pool) -> Result<Pool> {
    pool.labels = label::read(connection, label::Of::Pool, pool.row)?;
    Ok(pool)
}

fn read(row: &Row<'_>) -> Result<Pool> {
    let settings: String = row.get("settings")?;
    Ok(Pool {
        row: row.get("id")?,
        name: PoolName::stored(row.get("name")?),
        level: word(row, "level", |text| text.parse::<Level>().ok())?,
        size: Bytes(row.get("size")?),
        settings: super::from_text(&settings).ok_or_else(|| unreadable("settings", settings))?,
        labels: Default::default(),
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
