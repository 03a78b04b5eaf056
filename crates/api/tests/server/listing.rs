//! Lists in parts.

use crate::rig::Rig;
use api_client::ChangeOptions;
use api_client::model::{NewPool, NewVolume};
use control::{Actor, NewVolume as Inner};
use envelope::{Bytes, Level};

#[test]
fn a_thousand_volumes_come_in_parts_each_once() {
    let rig = Rig::start();
    let client = rig.client();
    let pools = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"];
    for pool in pools {
        client.create_pool(&NewPool::new(pool, Level::Unlimited, 1 << 50)).unwrap();
    }
    let options = control::ChangeContext::by(Actor::new("test"));
    for number in 0..1000 {
        let name = format!("v{number:04}").parse().unwrap();
        let new = Inner::new(name, pools[number % pools.len()].parse().unwrap(), Bytes::gib(1));
        rig.service.create_volume(&options, &new).unwrap();
    }
    let names: Vec<String> = client.volumes().unwrap().into_iter().map(|volume| volume.name).collect();
    assert_eq!(names.len(), 1000);
    assert!(names.is_sorted());
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("w", "p0", 1 << 30)).unwrap();
    assert_eq!(client.volumes().unwrap().len(), 1001, "one more than a page has");
    // In small parts by hand.
    let mut seen = Vec::new();
    let mut query = "limit=77".to_owned();
    loop {
        let reply = crate::raw::ask(
            &rig,
            format!(
                "GET /v1/volumes?{query} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
                rig.token
            ),
        );
        let body = reply.split_once("\r\n\r\n").unwrap().1;
        let page: serde_json::Value = serde_json::from_str(body).unwrap();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 77);
        seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        let Some(token) = page["next_page_token"].as_str() else { break };
        query = format!("limit=77&page_token={token}");
    }
    assert_eq!(seen.len(), 1001);
    // A token, the pools, and the volumes.
    assert_eq!(client.operations(1500).unwrap().len(), 1 + 10 + 1001);
    let start = std::time::Instant::now();
    let metrics = client.metrics().unwrap();
    println!("metrics of 1001 volumes: {:?}", start.elapsed());
    assert_eq!(metrics.of("plimsoll_volume_info", &[]).count(), 1001);
}
