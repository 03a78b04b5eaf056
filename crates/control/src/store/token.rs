//! The table of API tokens.

use super::word;
use crate::name::TokenName;
use crate::token::{Fingerprint, Role, Token};
use rusqlite::{Connection, Result, Row, params};

pub(crate) fn insert(connection: &Connection, token: &Token, fingerprint: &Fingerprint) -> Result<()> {
    connection.execute(
        "INSERT INTO token (name, role, sha256, created_ms) VALUES (?1, ?2, ?3, ?4)",
        params![token.name.as_str(), token.role.as_str(), fingerprint.0, token.created_ms],
    )?;
    Ok(())
}

pub(crate) fn list(connection: &Connection) -> Result<Vec<(Token, Fingerprint)>> {
    let mut select = connection.prepare("SELECT * FROM token ORDER BY name")?;
    select.query_map([], read)?.collect()
}

pub(crate) fn delete(connection: &Connection, name: &TokenName) -> Result<bool> {
    Ok(connection.execute("DELETE FROM token WHERE name = ?1", [name.as_str()])? > 0)
}

pub(crate) fn used(connection: &Connection, name: &TokenName, now_ms: u64) -> Result<()> {
    connection.execute("UPDATE token SET used_ms = ?2 WHERE name = ?1", params![name.as_str(), now_ms])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<(Token, Fingerprint)> {
    let token = Token {
        name: TokenName::stored(row.get("name")?),
        role: word(row, "role", Role::of)?,
        created_ms: row.get("created_ms")?,
        used_ms: row.get("used_ms")?,
    };
    Ok((token, Fingerprint(row.get("sha256")?)))
}
