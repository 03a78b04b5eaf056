//! The description is the one in the tree.

use crate::rig::Rig;
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
fn what_is_served_is_described() {
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
