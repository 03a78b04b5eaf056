//! The tables of vaults and of their owner.

use super::{from_text, to_text, unreadable};
use crate::name::VaultName;
use crate::vault::Vault;
use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

pub(crate) fn insert(connection: &Connection, vault: &mut Vault) -> Result<()> {
    connection.execute(
        "INSERT INTO vault (name, number, created_ms, place, lock_days, version, changed_ms)
         VALUES (?1, ?2, ?3, '', 0, 0, 0)",
        params![vault.name.as_str(), vault.number, vault.created_ms],
    )?;
    vault.row = connection.last_insert_rowid();
    update(connection, vault)
}

pub(crate) fn update(connection: &Connection, vault: &Vault) -> Result<()> {
    let key_file = vault.key_file.as_deref().map(|path| path.to_string_lossy());
    connection.execute(
        "UPDATE vault SET place = :place, key_file = :key_file, lock_days = :lock_days, bytes_per_s = :rate,
             version = :version, changed_ms = :changed
         WHERE id = :id",
        named_params! {
            ":id": vault.row, ":place": to_text(&vault.place)?, ":key_file": key_file,
            ":lock_days": vault.lock_days, ":rate": vault.bytes_per_s, ":version": vault.version,
            ":changed": vault.changed_ms,
        },
    )?;
    Ok(())
}

pub(crate) fn delete(connection: &Connection, row: i64) -> Result<()> {
    connection.execute("DELETE FROM vault WHERE id = ?1", [row])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, name: &VaultName) -> Result<Option<Vault>> {
    connection.query_one("SELECT * FROM vault WHERE name = ?1", [name.as_str()], read).optional()
}

pub(crate) fn find_row(connection: &Connection, row: i64) -> Result<Option<Vault>> {
    connection.query_one("SELECT * FROM vault WHERE id = ?1", [row], read).optional()
}

pub(crate) fn find_number(connection: &Connection, number: [u8; 16]) -> Result<Option<Vault>> {
    connection.query_one("SELECT * FROM vault WHERE number = ?1", [number], read).optional()
}

pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<Vault>> {
    let mut select = connection.prepare("SELECT * FROM vault WHERE name > ?1 ORDER BY name LIMIT ?2")?;
    select.query_map(params![after, most], read)?.collect()
}

/// The token by which vaults know this service.
pub(crate) fn token(connection: &Connection) -> Result<Option<[u8; 16]>> {
    connection.query_one("SELECT token FROM vault_owner", [], |row| row.get(0)).optional()
}

pub(crate) fn set_token(connection: &Connection, token: [u8; 16]) -> Result<()> {
    connection.execute("INSERT INTO vault_owner (token) VALUES (?1)", [token])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Vault> {
    let place: String = row.get("place")?;
    Ok(Vault {
        row: row.get("id")?,
        name: VaultName::stored(row.get("name")?),
        number: row.get("number")?,
        place: from_text(&place).ok_or_else(|| unreadable("place", place))?,
        key_file: row.get::<_, Option<String>>("key_file")?.map(Into::into),
        lock_days: row.get("lock_days")?,
        bytes_per_s: row.get("bytes_per_s")?,
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
