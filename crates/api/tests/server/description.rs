//! The description is the one in the tree.

use crate::rig::{Rig, ended};
use api_client::ChangeOptions;
use api_client::model::{NewBackup, NewGroup, NewPool, NewSnapshot, NewUser, NewVolume};
use envelope::Level;
use serde_json::Value;
use std::path::Path;

/// Set it to write the file anew.
const REWRITE: &str = "PLIMSOLL_REWRITE_GOLDEN";

#[test]
fn the_description_is_the_one_in_the_tree() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let made = serde_json::to_string_pretty(api::openapi()).unwrap() + "\n";
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{} is another: look at the difference that {REWRITE}=1 makes", path.display());
}

#[test]
fn served_operations_are_described() {
    let rig = Rig::start();
    let reply = crate::raw::ask(&rig, "GET /openapi.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let served: serde_json::Value = serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(&served, api::openapi());
    assert_eq!(served["openapi"], "3.1.0");
    let ids: Vec<&str> = served["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(ids.len(), unique.len());
    assert!(ids.len() >= 25, "{ids:?}");
}

/// Whether `null` is anywhere in it.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[test]
fn replies_leave_out_what_is_not_there() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p1", Level::GcnvFlex, 2 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v1", "p1", 1 << 40)).unwrap();
    let snapshot = NewSnapshot { name: Some("s1".to_owned()), ..NewSnapshot::default() };
    client.create_snapshot("v1", &snapshot).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v2", "p1", 1 << 40)).unwrap();
    let replication = serde_json::from_str(r#"{"volume":"v2","source":"v1"}"#).unwrap();
    client.create_replication(&replication).unwrap();
    let peer = serde_json::from_str(&format!(r#"{{"name":"v1","key":"{}"}}"#, "5a".repeat(32))).unwrap();
    client.create_peer(&peer).unwrap();
    let policy = serde_json::from_str(r#"{"name":"v1","daily":{"keep":1}}"#).unwrap();
    client.create_policy(&policy).unwrap();
    client.create_user(&NewUser::new("v1", 1000)).unwrap();
    client.create_group(&NewGroup { name: "v1".to_owned(), gid: 1000, members: None }).unwrap();
    let place = tempfile::tempdir().unwrap();
    let vault = format!(r#"{{"name":"v1","directory":"{}"}}"#, place.path().display());
    client.create_vault(&serde_json::from_str(&vault).unwrap()).unwrap();
    let backup = NewBackup {
        volume: "v1".to_owned(),
        name: Some("b1".to_owned()),
        snapshot: Some("s1".to_owned()),
        locked_until: None,
    };
    assert_eq!(ended(&client, &client.create_backup("v1", &backup).unwrap()).outcome, "succeeded");
    let mut asked = 0;
    for (path, operations) in api::openapi()["paths"].as_object().unwrap() {
        let is_json = operations["get"]["responses"]["200"]["content"]["application/json"].is_object();
        if !is_json || path == "/openapi.json" {
            continue;
        }
        let name = match path {
            path if path.starts_with("/v1/pools") => "p1",
            path if path.starts_with("/v1/replications") => "v2",
            _ => "v1",
        };
        let path = path
            .replace("{name}", name)
            .replace("{snapshot}", "s1")
            .replace("{backup}", "b1")
            .replace("{id}", "1")
            .replace("{provider}", "gcnv");
        let path = path.replace("{level}", "flex?size_bytes=2199023255552");
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        let reply = crate::raw::ask(&rig, format!("{head}authorization: Bearer {}\r\n\r\n", rig.token));
        let (status, body) = reply.split_once("\r\n\r\n").unwrap();
        assert!(status.starts_with("HTTP/1.1 200"), "{path}: {reply}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert!(!has_null(&body), "{path}: {body}");
        asked += 1;
    }
    assert!(asked >= 22, "{asked}");
}

/// Sends the example of an operation's request body; returns the status.
fn send_example(rig: &Rig, operation: &str) -> u16 {
    let paths = api::openapi()["paths"].as_object().unwrap();
    let found = paths.iter().find_map(|(path, item)| {
        let (method, of) = item.as_object()?.iter().find(|(_, of)| of["operationId"] == operation)?;
        Some((path.clone(), method.to_ascii_uppercase(), of.clone()))
    });
    let (path, method, of) = found.unwrap();
    let (media, content) = of["requestBody"]["content"].as_object().unwrap().iter().next().unwrap();
    let name = match of["tags"][0].as_str().unwrap() {
        "pools" => "engineering",
        "users" => "alice",
        "policies" => "nightly",
        _ => "tools",
    };
    let path =
        path.replace("{name}", name).replace("{snapshot}", "before-upgrade").replace("{target}", "user:1001");
    let (path, body) = (path, content["example"].to_string());
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    let head = format!("{head}authorization: Bearer {}\r\ncontent-type: {media}\r\n", rig.token);
    let reply = crate::raw::ask(rig, format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    reply.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn examples_of_the_description_are_accepted() {
    let rig = Rig::start();
    let operations = [
        ("createPool", 201),
        ("changePool", 200),
        ("createVolume", 201),
        ("changeVolume", 200),
        ("replaceRules", 200),
        ("createPolicy", 201),
        ("changePolicy", 200),
        ("createSnapshot", 201),
        ("changeSnapshot", 200),
        ("setQuota", 200),
        ("createUser", 201),
        ("changeUser", 200),
        ("createGroup", 201),
        ("createToken", 201),
    ];
    for (operation, expected) in operations {
        assert_eq!(send_example(&rig, operation), expected, "{operation}");
    }
}

#[test]
fn bodies_have_the_version_of_the_etag() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::GcnvFlex, 2 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", 1 << 40)).unwrap();
    let (pool, volume) = (client.pool("p").unwrap(), client.volume("v").unwrap());
    assert_eq!(pool.etag, format!("\"{}\"", pool.value.version));
    assert_eq!(volume.etag, format!("\"{}\"", volume.value.version));
    assert_eq!(client.volumes().unwrap()[0].version, volume.value.version);
    let at = ChangeOptions::none().at(format!("\"{}\"", volume.value.version));
    client.delete_volume(&at, "v").unwrap();
}
