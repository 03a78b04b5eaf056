//! The tables of labels.

use crate::name::Labels;
use rusqlite::{Connection, Result, params};

#[derive(Clone, Copy)]
pub(crate) enum Of {
    Pool,
    Volume,
}

impl Of {
    fn table(self) -> &'static str {
        match self {
            Self::Pool => "pool_label",
            Self::Volume => "volume_label",
        }
    }
}

pub(crate) fn read(connection: &Connection, of: Of, owner: i64) -> Result<Labels> {
    let mut select =
        connection.prepare(&format!("SELECT key, value FROM {} WHERE owner = ?1", of.table()))?;
    select.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

pub(crate) fn write(connection: &Connection, of: Of, owner: i64, labels: &Labels) -> Result<()> {
    connection.execute(&format!("DELETE FROM {} WHERE owner = ?1", of.table()), [owner])?;
    let mut insert =
        connection.prepare(&format!("INSERT INTO {} (owner, key, value) VALUES (?1, ?2, ?3)", of.table()))?;
    for (key, value) in labels {
        insert.execute(params![owner, key, value])?;
    }
    Ok(())
}
