//! The table of the clock by which locks end, and times as texts.

use rusqlite::{Connection, Result};

pub(crate) fn read(connection: &Connection) -> Result<u64> {
    connection.query_one("SELECT now_ms FROM lock_clock", [], |row| row.get(0))
}

/// Stores a later time; an earlier one changes nothing.
pub(crate) fn advance(connection: &Connection, now_ms: u64) -> Result<()> {
    connection.execute("UPDATE lock_clock SET now_ms = ?1 WHERE now_ms < ?1", [now_ms])?;
    Ok(())
}

/// A time in UTC, in a form of `strftime` (sqlite.org/lang_datefunc.html).
pub(crate) fn utc(connection: &Connection, form: &str, ms: u64) -> Result<String> {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    let text: Option<String> = connection.query_one(
        "SELECT strftime(?1, ?2, 'unixepoch')",
        rusqlite::params![form, seconds],
        |row| row.get(0),
    )?;
    // SQLite knows no dates after the year 9999.
    Ok(text.unwrap_or_else(|| "after the year 9999".to_owned()))
}

/// Whether a lock of a snapshot or a backup ends later.
pub(crate) fn has_locks(connection: &Connection, now_ms: u64) -> Result<bool> {
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let select = "SELECT EXISTS (SELECT 1 FROM snapshot WHERE locked_until_ms > ?1)
        OR EXISTS (SELECT 1 FROM backup WHERE locked_until_ms > ?1)";
    connection.query_one(select, [now_ms], |row| row.get(0))
}
