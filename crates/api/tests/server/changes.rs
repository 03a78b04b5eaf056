//! Changes that meet each other.

use crate::rig::{Rig, refused};
use api_client::ChangeOptions;
use api_client::model::{NewPool, NewVolume, PoolPatch, VolumePatch};
use envelope::Level;
use std::collections::BTreeMap;

const TIB: u64 = 1 << 40;

#[test]
fn concurrent_changes_of_one_version_succeed_once() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, TIB)).unwrap();
    for round in 1..20 {
        let seen = client.pool("p").unwrap();
        let outcomes: Vec<u16> = std::thread::scope(|scope| {
            let change = |size_bytes| {
                let (client, etag) = (rig.client(), seen.etag.clone());
                scope.spawn(move || {
                    let patch = PoolPatch { size_bytes: Some(size_bytes), ..PoolPatch::default() };
                    match client.change_pool(&ChangeOptions::none().at(etag), "p", &patch) {
                        Ok(_) => 200,
                        refusal => refused(refusal).0,
                    }
                })
            };
            let both = [change(TIB + 2 * round), change(TIB + 2 * round + 1)];
            both.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(outcomes.contains(&200) && outcomes.contains(&412), "{outcomes:?}");
    }
}

#[test]
fn changes_without_a_condition_all_count() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, TIB)).unwrap();
    // Each adds a label to those that are there: none may be lost.
    std::thread::scope(|scope| {
        for number in 0..8 {
            let client = rig.client();
            scope.spawn(move || {
                let labels = Some(BTreeMap::from([(format!("l{number}"), Some("x".to_owned()))]));
                client
                    .change_pool(&ChangeOptions::none(), "p", &PoolPatch { labels, ..PoolPatch::default() })
                    .unwrap();
            });
        }
    });
    assert_eq!(client.pool("p").unwrap().value.labels.len(), 8);
}

#[test]
fn a_condition_is_about_this_thing_and_not_one_of_its_name() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 * TIB)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", TIB)).unwrap();
    let seen = client.volume("v").unwrap();
    client.delete_volume(&ChangeOptions::none().at("*"), "v").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", TIB)).unwrap();
    let patch = VolumePatch { size_bytes: Some(2 * TIB), ..VolumePatch::default() };
    let stale = ChangeOptions::none().at(seen.etag);
    assert_eq!(refused(client.change_volume(&stale, "v", &patch)), (412, "version".to_owned()));
    assert_eq!(refused(client.delete_volume(&stale, "v")).0, 412);
    let now = client.volume("v").unwrap().etag;
    let weak = ChangeOptions::none().at(format!("W/{now}"));
    assert_eq!(refused(client.change_volume(&weak, "v", &patch)).0, 412, "weak tags match nothing");
    assert_eq!(refused(client.change_volume(&ChangeOptions::none().at("nonsense"), "v", &patch)).0, 400);
    let one_of = ChangeOptions::none().at(format!("\"x\", {now}"));
    assert_ne!(client.change_volume(&one_of, "v", &patch).unwrap().etag, now);
}
