//! Loads all users and groups for logins.

use super::unreadable;
use super::user::{account_name, windows_name};
use identity::{Group, Mapping, Sid, User};
use rusqlite::{Connection, Result, Row};
use std::collections::HashMap;

/// Returns the prefix of this machine's identifiers.
pub(crate) fn machine(connection: &Connection) -> Result<Sid> {
    let bytes: Vec<u8> = connection.query_one("SELECT sid FROM machine", [], |row| row.get(0))?;
    let (numbers, rest) = bytes.as_chunks();
    let numbers = <[[u8; 4]; 3]>::try_from(numbers).ok().filter(|_| rest.is_empty());
    let numbers = numbers.ok_or_else(|| unreadable("sid", format!("{} bytes", bytes.len())))?;
    Ok(Sid::machine(numbers.map(u32::from_le_bytes)))
}

/// The users, each with its sealed hash if it has a password.
pub(crate) fn users(connection: &Connection) -> Result<Vec<(User, Option<Vec<u8>>)>> {
    let user = |row: &Row<'_>| {
        let name = account_name(row, "name")?;
        Ok((User { name, uid: row.get("uid")?, gid: row.get("gid")?, nt_hash: None }, row.get("nt_hash")?))
    };
    connection.prepare("SELECT * FROM user ORDER BY id")?.query_map([], user)?.collect()
}

pub(crate) fn groups(connection: &Connection) -> Result<Vec<Group>> {
    let mut members: HashMap<i64, Vec<_>> = HashMap::new();
    let mut select = connection.prepare("SELECT user_group, name FROM member JOIN user ON user = id")?;
    for found in select.query_map([], |row| Ok((row.get(0)?, account_name(row, "name")?)))? {
        let (group, member) = found?;
        members.entry(group).or_default().push(member);
    }
    let group = |row: &Row<'_>| {
        let members = members.remove(&row.get("id")?).unwrap_or_default();
        Ok(Group { name: account_name(row, "name")?, gid: row.get("gid")?, members })
    };
    connection.prepare("SELECT * FROM user_group ORDER BY id")?.query_map([], group)?.collect()
}

pub(crate) fn mappings(connection: &Connection) -> Result<Vec<Mapping>> {
    let select =
        "SELECT windows_name.name AS name, user.name AS user_name FROM windows_name JOIN user ON user = id
                  ORDER BY user, place";
    let mapping =
        |row: &Row<'_>| Ok(Mapping { windows: windows_name(row)?, user: account_name(row, "user_name")? });
    connection.prepare(select)?.query_map([], mapping)?.collect()
}
