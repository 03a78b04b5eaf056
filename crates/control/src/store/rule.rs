//! The table of export rules.

use super::{unreadable, word};
use crate::protocol::Protocols;
use crate::rule::{Access, Clients, ExportRule, protection_of, protection_word, squash_of, squash_word};
use rusqlite::{Connection, Result, Row, params};

pub(crate) fn read(connection: &Connection, volume: i64) -> Result<Vec<ExportRule>> {
    let mut select = connection.prepare("SELECT * FROM rule WHERE volume = ?1 ORDER BY place")?;
    select.query_map([volume], rule)?.collect()
}

pub(crate) fn write(connection: &Connection, volume: i64, rules: &[ExportRule]) -> Result<()> {
    connection.execute("DELETE FROM rule WHERE volume = ?1", [volume])?;
    let mut insert = connection.prepare("INSERT INTO rule VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
    for (place, rule) in (1_i64..).zip(rules) {
        insert.execute(params![
            volume,
            place,
            rule.clients.to_string(),
            rule.access.as_str(),
            squash_word(rule.squash),
            rule.anonymous_uid,
            rule.anonymous_gid,
            rule.protocols.to_string(),
            protection_word(rule.protection),
        ])?;
    }
    Ok(())
}

fn rule(row: &Row<'_>) -> Result<ExportRule> {
    let text: String = row.get("clients")?;
    Ok(ExportRule {
        clients: Clients::stored(text.clone()).map_err(|_| unreadable("clients", text))?,
        access: word(row, "access", Access::of)?,
        squash: word(row, "squash", squash_of)?,
        anonymous_uid: row.get("anonymous_uid")?,
        anonymous_gid: row.get("anonymous_gid")?,
        protocols: word(row, "protocols", |text| text.parse::<Protocols>().ok())?,
        protection: word(row, "xprtsec", protection_of)?,
    })
}
