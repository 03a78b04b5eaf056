//! The table of files that restores still have to restore.

use crate::operation::OperationId;
use rusqlite::{Connection, Result, params};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestoredFile {
    /// The number in its operation.
    pub(crate) place: u32,
    /// The path in the snapshot, from the root, without a slash at its ends.
    pub(crate) path: String,
    /// The path of the directory for the file, likewise.
    pub(crate) dir: String,
}

/// Writes the files of an operation. Those of operations that have ended are deleted.
pub(crate) fn insert(connection: &Connection, of: OperationId, files: &[RestoredFile]) -> Result<()> {
    connection.execute(
        "DELETE FROM restored_file
         WHERE operation NOT IN (SELECT id FROM operation WHERE outcome = 'running')",
        [],
    )?;
    for file in files {
        connection.execute(
            "INSERT INTO restored_file (operation, place, path, dir) VALUES (?1, ?2, ?3, ?4)",
            params![of.0, file.place, file.path, file.dir],
        )?;
    }
    Ok(())
}

pub(crate) fn of(connection: &Connection, operation: OperationId) -> Result<Vec<RestoredFile>> {
    let mut select = connection.prepare("SELECT * FROM restored_file WHERE operation = ?1 ORDER BY place")?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(RestoredFile { place: row.get("place")?, path: row.get("path")?, dir: row.get("dir")? })
    };
    select.query_map([operation.0], read)?.collect()
}

pub(crate) fn delete(connection: &Connection, operation: OperationId, place: u32) -> Result<()> {
    connection.execute(
        "DELETE FROM restored_file WHERE operation = ?1 AND place = ?2",
        params![operation.0, place],
    )?;
    Ok(())
}
