//! Changes that meet each other.

use crate::rig::{Rig, refused};
use api_client::model::{NewPool, NewVolume, PoolPatch, VolumePatch};
use api_client::{ChangeOptions, Client};
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

/// Draws numbers that are the same in each run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Makes one random change; returns the status of its refusal.
fn change_at_random(client: &Client, draws: &mut Draws) -> Option<u16> {
    let pool = if draws.below(2) == 0 { "p" } else { "q" };
    let volume = format!("v{}", draws.below(4));
    let volume = volume.as_str();
    let (size_bytes, options) = (TIB + draws.below(3) * TIB, ChangeOptions::none());
    let moved = VolumePatch { pool: Some(pool.to_owned()), ..VolumePatch::default() };
    let resized = VolumePatch { size_bytes: Some(size_bytes), ..VolumePatch::default() };
    let result = match draws.below(8) {
        0 => client.create_pool(&NewPool::new(pool, Level::Unlimited, size_bytes)).map(drop),
        1 => client.delete_pool(&options, pool).map(drop),
        2 => {
            let patch = PoolPatch { size_bytes: Some(size_bytes), ..PoolPatch::default() };
            client.change_pool(&options, pool, &patch).map(drop)
        }
        3 => client.delete_volume(&options, volume).map(drop),
        4 => client.change_volume(&options, volume, &moved).map(drop),
        5 => client.change_volume(&options, volume, &resized).map(drop),
        _ => client.create_volume(&options, &NewVolume::new(volume, pool, size_bytes)).map(drop),
    };
    result.is_err().then(|| refused(result).0)
}

#[test]
fn concurrent_changes_of_all_kinds_leave_every_volume_in_a_pool_with_room() {
    let rig = Rig::start();
    let refusals = std::thread::scope(|scope| {
        let start = |seed: u64| {
            let client = rig.client();
            scope.spawn(move || {
                let mut draws = Draws(seed);
                (0..60).filter_map(|_| change_at_random(&client, &mut draws)).collect::<Vec<u16>>()
            })
        };
        let threads: Vec<_> = (1..=12).map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<u16>>()
    });
    let expected = |status: &u16| matches!(status, 404 | 409 | 422);
    assert!(refusals.iter().all(expected), "{refusals:?}");
    let client = rig.client();
    let (pools, volumes) = (client.pools().unwrap(), client.volumes().unwrap());
    for pool in &pools {
        let sizes = volumes.iter().filter(|volume| volume.pool == pool.name).map(|volume| volume.size_bytes);
        assert!(sizes.sum::<u64>() <= pool.size_bytes, "{pool:?}");
    }
    assert!(volumes.iter().all(|volume| pools.iter().any(|pool| pool.name == volume.pool)));
    assert_eq!(rig.namespace.load().exports().len(), volumes.len(), "each volume is served, and no other");
    let warnings = client.warnings().unwrap();
    assert!(warnings.iter().all(|warning| warning.kind == "no-rules"), "{warnings:?}");
}
