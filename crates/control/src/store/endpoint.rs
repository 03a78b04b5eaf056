//! The table of volumes' endpoints.

use super::unreadable;
use rusqlite::{Connection, Result, params};
use std::net::IpAddr;

pub(crate) fn read(connection: &Connection, volume: i64) -> Result<Vec<IpAddr>> {
    let mut select = connection.prepare("SELECT address FROM endpoint WHERE volume = ?1 ORDER BY place")?;
    let address = |text: String| text.parse().map_err(|_| unreadable("address", text));
    select.query_map([volume], |row| address(row.get(0)?))?.collect()
}

pub(crate) fn write(connection: &Connection, volume: i64, endpoints: &[IpAddr]) -> Result<()> {
    connection.execute("DELETE FROM endpoint WHERE volume = ?1", [volume])?;
    let mut insert = connection.prepare("INSERT INTO endpoint VALUES (?1, ?2, ?3)")?;
    for (place, address) in (1_i64..).zip(endpoints) {
        insert.execute(params![volume, place, address.to_string()])?;
    }
    Ok(())
}

pub(crate) fn count(connection: &Connection) -> Result<usize> {
    connection.query_one("SELECT COUNT(DISTINCT address) FROM endpoint", [], |row| row.get(0))
}
