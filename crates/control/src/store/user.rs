//! The tables of users and of their Windows names.

use super::unreadable;
use crate::user::User;
use identity::{AccountName, WindowsName};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

pub(crate) fn insert(connection: &Connection, user: &mut User) -> Result<()> {
    connection.execute(
        "INSERT INTO user (name, uid, gid, version, created_ms, changed_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![user.name.as_str(), user.uid, user.gid, user.version, user.created_ms, user.changed_ms],
    )?;
    user.row = connection.last_insert_rowid();
    write_windows_names(connection, user)
}

pub(crate) fn update(connection: &Connection, user: &User) -> Result<()> {
    connection.execute(
        "UPDATE user SET gid = ?2, version = ?3, changed_ms = ?4 WHERE id = ?1",
        params![user.row, user.gid, user.version, user.changed_ms],
    )?;
    write_windows_names(connection, user)
}

/// `None` removes the password.
pub(crate) fn set_nt_hash(connection: &Connection, user: &User, sealed: Option<&[u8]>) -> Result<()> {
    connection.execute("UPDATE user SET nt_hash = ?2 WHERE id = ?1", params![user.row, sealed])?;
    Ok(())
}

pub(crate) fn nt_hash(connection: &Connection, user: &User) -> Result<Option<Vec<u8>>> {
    connection.query_one("SELECT nt_hash FROM user WHERE id = ?1", [user.row], |row| row.get(0))
}

/// Removes a user, also from its groups.
pub(crate) fn delete(connection: &Connection, user: &User) -> Result<()> {
    connection.execute("DELETE FROM user WHERE id = ?1", [user.row])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, name: &AccountName) -> Result<Option<User>> {
    let found =
        connection.query_one("SELECT * FROM user WHERE name = ?1", [name.as_str()], read).optional()?;
    found.map(|user| whole(connection, user)).transpose()
}

pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<User>> {
    let mut select = connection.prepare("SELECT * FROM user WHERE name > ?1 ORDER BY name LIMIT ?2")?;
    let found = select.query_map(params![after, most], read)?.collect::<Result<Vec<_>>>()?;
    found.into_iter().map(|user| whole(connection, user)).collect()
}

pub(crate) fn name_of_uid(connection: &Connection, uid: u32) -> Result<Option<String>> {
    connection.query_one("SELECT name FROM user WHERE uid = ?1", [uid], |row| row.get(0)).optional()
}

/// Takes an account name from a column; the store holds only checked names.
pub(super) fn account_name(row: &Row<'_>, column: &'static str) -> Result<AccountName> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| unreadable(column, text))
}

/// Takes a Windows name from a column; the store holds only checked names.
pub(super) fn windows_name(row: &Row<'_>) -> Result<WindowsName> {
    let text: String = row.get("name")?;
    text.parse().map_err(|_| unreadable("windows_name", text))
}

fn write_windows_names(connection: &Connection, user: &User) -> Result<()> {
    connection.execute("DELETE FROM windows_name WHERE user = ?1", [user.row])?;
    let mut insert = connection.prepare("INSERT INTO windows_name VALUES (?1, ?2, ?3)")?;
    for (place, name) in (1_i64..).zip(&user.windows_names) {
        insert.execute(params![user.row, place, name.to_string()])?;
    }
    Ok(())
}

/// Adds the properties of a user that are in other tables.
fn whole(connection: &Connection, user: User) -> Result<User> {
    let mut names = connection.prepare("SELECT name FROM windows_name WHERE user = ?1 ORDER BY place")?;
    let mut groups = connection.prepare(
        "SELECT name FROM user_group JOIN member ON user_group = id WHERE user = ?1 ORDER BY name",
    )?;
    let windows_names = names.query_map([user.row], windows_name)?.collect::<Result<_>>()?;
    let groups = groups.query_map([user.row], |row| account_name(row, "name"))?.collect::<Result<_>>()?;
    Ok(User { windows_names, groups, ..user })
}

fn read(row: &Row<'_>) -> Result<User> {
    let nt_hash: Option<Vec<u8>> = row.get("nt_hash")?;
    Ok(User {
        row: row.get("id")?,
        name: account_name(row, "name")?,
        uid: row.get("uid")?,
        gid: row.get("gid")?,
        windows_names: Vec::new(),
        groups: Vec::new(),
        has_password: nt_hash.is_some(),
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
