//! The tables of groups and of their members.

use super::user::account_name;
use crate::user::{Group, User};
use identity::AccountName;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

pub(crate) fn insert(connection: &Connection, group: &mut Group) -> Result<()> {
    connection.execute(
        "INSERT INTO user_group (name, gid, version, created_ms, changed_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![group.name.as_str(), group.gid, group.version, group.created_ms, group.changed_ms],
    )?;
    group.row = connection.last_insert_rowid();
    Ok(())
}

pub(crate) fn update(connection: &Connection, group: &Group) -> Result<()> {
    connection.execute(
        "UPDATE user_group SET version = ?2, changed_ms = ?3 WHERE id = ?1",
        params![group.row, group.version, group.changed_ms],
    )?;
    Ok(())
}

/// Does nothing if the user is already a member.
pub(crate) fn add_member(connection: &Connection, group: &Group, user: &User) -> Result<()> {
    connection.execute("INSERT INTO member VALUES (?1, ?2)", [group.row, user.row])?;
    Ok(())
}

pub(crate) fn remove_member(connection: &Connection, group: &Group, user: &User) -> Result<()> {
    connection.execute("DELETE FROM member WHERE user_group = ?1 AND user = ?2", [group.row, user.row])?;
    Ok(())
}

/// Counts memberships of users in groups.
pub(crate) fn memberships(connection: &Connection) -> Result<usize> {
    connection.query_one("SELECT COUNT(*) FROM member", [], |row| row.get(0))
}

pub(crate) fn delete(connection: &Connection, group: &Group) -> Result<()> {
    connection.execute("DELETE FROM user_group WHERE id = ?1", [group.row])?;
    Ok(())
}

pub(crate) fn find(connection: &Connection, name: &AccountName) -> Result<Option<Group>> {
    let select = "SELECT * FROM user_group WHERE name = ?1";
    let found = connection.query_one(select, [name.as_str()], read).optional()?;
    found.map(|group| whole(connection, group)).transpose()
}

pub(crate) fn list(connection: &Connection, after: &str, most: usize) -> Result<Vec<Group>> {
    let mut select = connection.prepare("SELECT * FROM user_group WHERE name > ?1 ORDER BY name LIMIT ?2")?;
    let found = select.query_map(params![after, most], read)?.collect::<Result<Vec<_>>>()?;
    found.into_iter().map(|group| whole(connection, group)).collect()
}

pub(crate) fn name_of_gid(connection: &Connection, gid: u32) -> Result<Option<String>> {
    connection.query_one("SELECT name FROM user_group WHERE gid = ?1", [gid], |row| row.get(0)).optional()
}

fn whole(connection: &Connection, group: Group) -> Result<Group> {
    let mut select = connection
        .prepare("SELECT name FROM user JOIN member ON user = id WHERE user_group = ?1 ORDER BY name")?;
    let members = select.query_map([group.row], |row| account_name(row, "name"))?.collect::<Result<_>>()?;
    Ok(Group { members, ..group })
}

fn read(row: &Row<'_>) -> Result<Group> {
    Ok(Group {
        row: row.get("id")?,
        name: account_name(row, "name")?,
        gid: row.get("gid")?,
        members: Vec::new(),
        version: row.get("version")?,
        created_ms: row.get("created_ms")?,
        changed_ms: row.get("changed_ms")?,
    })
}
