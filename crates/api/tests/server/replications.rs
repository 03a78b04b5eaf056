//! Replications between two volumes of a service.

use crate::raw::body_of;
use crate::rig::{Rig, refused};
use api_client::model::{
    NewAuthorization, NewPeer, NewPool, NewReplication, NewVolume, PeerPatch, ReplicationPatch,
    ReplicationSchedule, ReplicationState,
};
use api_client::{ChangeOptions, Client};
use envelope::Level;
use std::time::Duration;

const TIB: u64 = 1 << 40;

/// A server with the volumes `v` and `copy`.
fn start() -> (Rig, Client) {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 * TIB)).unwrap();
    for name in ["v", "copy"] {
        client.create_volume(&ChangeOptions::none(), &NewVolume::new(name, "p", TIB)).unwrap();
    }
    (rig, client)
}

fn new(schedule: Option<ReplicationSchedule>) -> NewReplication {
    NewReplication { volume: "copy".to_owned(), source: "v".to_owned(), peer: None, schedule }
}

/// Waits until no transfer runs.
fn settle(client: &Client) {
    while client.replication("copy").unwrap().value.operation.is_some() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn replications_are_made_listed_changed_and_deleted() {
    let (_rig, client) = start();
    let made = client.create_replication(&new(None)).unwrap();
    assert!(made.is_new && made.value.healthy);
    settle(&client);
    let shown = client.replication("copy").unwrap();
    assert_eq!(shown.value.state, ReplicationState::Mirrored);
    assert_eq!(shown.value.mirror_state, "Mirrored");
    assert_eq!(shown.value.relationship_status, "Idle");
    assert!(shown.value.lag_seconds.is_some() && shown.value.last_transfer_bytes.is_some());
    assert!(shown.value.last_point.as_ref().is_some_and(|point| point.starts_with("replication.")));
    let again = client.create_replication(&new(None)).unwrap();
    assert!(!again.is_new);
    let conflict = client.create_replication(&new(Some(ReplicationSchedule::Daily)));
    assert_eq!(refused(conflict), (409, "conflict".to_owned()));
    let patch = ReplicationPatch { schedule: Some(Some(ReplicationSchedule::Hourly)) };
    let stale = ChangeOptions::none().at(shown.etag);
    let changed = client.change_replication(&stale, "copy", &patch).unwrap();
    assert_eq!(changed.value.schedule, Some(ReplicationSchedule::Hourly));
    assert_eq!(refused(client.change_replication(&stale, "copy", &patch)).0, 412);
    assert_eq!(client.replications().unwrap().len(), 1);

    client.sync_replication("copy").unwrap();
    settle(&client);
    let refusal = client.delete_replication(&ChangeOptions::none(), "copy");
    assert_eq!(refused(refusal), (409, "replication-state".to_owned()));
    let broken = client.break_replication(&ChangeOptions::none(), "copy").unwrap().value;
    assert_eq!((broken.state, broken.mirror_state.as_str()), (ReplicationState::Stopped, "Broken"));
    assert_eq!(refused(client.sync_replication("copy")), (409, "replication-state".to_owned()));
    client.resume_replication(&ChangeOptions::none(), "copy").unwrap();
    settle(&client);
    client.break_replication(&ChangeOptions::none(), "copy").unwrap();
    let reversed = client.reverse_replication(&ChangeOptions::none(), "copy").unwrap().value;
    assert_eq!((reversed.volume.as_str(), reversed.source.as_str()), ("v", "copy"));
    while client.replication("v").unwrap().value.operation.is_some() {
        std::thread::sleep(Duration::from_millis(2));
    }
    client.break_replication(&ChangeOptions::none(), "v").unwrap();
    client.delete_replication(&ChangeOptions::none(), "v").unwrap();
    assert_eq!(refused(client.replication("v")), (404, "not-found".to_owned()));
}

#[test]
fn members_and_points_are_pinned() {
    let (_rig, client) = start();
    client.create_replication(&new(None)).unwrap();
    settle(&client);
    let point = client.replication("copy").unwrap().value.last_point.unwrap();
    for volume in ["v", "copy"] {
        let refusal = client.delete_snapshot(&ChangeOptions::none(), volume, &point);
        assert_eq!(refused(refusal), (409, "pinned".to_owned()));
        let refusal = client.delete_volume(&ChangeOptions::none().forced(true), volume);
        assert_eq!(refused(refusal), (409, "replicated".to_owned()));
    }
    let refusal = client.create_replication(&NewReplication { volume: "none".to_owned(), ..new(None) });
    assert_eq!(refused(refusal).0, 404);
}

#[test]
fn metrics_have_lag_and_bytes() {
    let (rig, client) = start();
    client.create_replication(&new(None)).unwrap();
    settle(&client);
    let text = body_of(&rig, "/metrics");
    for line in [
        "plimsoll_replication_info{volume=\"copy\",source=\"v\",peer=\"\",state=\"MIRRORED\"} 1",
        "plimsoll_replication_healthy{volume=\"copy\"} 1",
        "plimsoll_replication_lag_seconds{volume=\"copy\"} ",
        "plimsoll_replication_last_transfer_bytes{volume=\"copy\"} ",
        "plimsoll_replication_bytes_total{volume=\"copy\"} ",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

const KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

#[test]
fn peers_and_authorizations_are_made_listed_changed_and_deleted() {
    let (_rig, client) = start();
    let peer = |name: &str, key: &str| NewPeer { name: name.to_owned(), key: key.to_owned(), address: None };
    let made = client.create_peer(&peer("b", KEY)).unwrap();
    assert!(made.is_new && made.value.key == KEY);
    assert!(!client.create_peer(&peer("b", &KEY.to_uppercase())).unwrap().is_new);
    assert_eq!(refused(client.create_peer(&peer("c", KEY))), (409, "key-in-use".to_owned()));
    let own = client.service_key().unwrap().key;
    assert!(own.len() == 64 && own == client.service_key().unwrap().key);
    assert_eq!(refused(client.create_peer(&peer("c", &own))), (409, "key-in-use".to_owned()));
    assert_eq!(refused(client.create_peer(&peer("c", "d75a"))).0, 422);
    let from_b = NewReplication { peer: Some("b".to_owned()), ..new(None) };
    assert_eq!(refused(client.create_replication(&from_b)), (422, "invalid".to_owned()), "no address");
    let stale = ChangeOptions::none().at(client.peer("b").unwrap().etag);
    let patch = PeerPatch { address: Some(Some("127.0.0.1:1".to_owned())), ..PeerPatch::default() };
    let changed = client.change_peer(&stale, "b", &patch).unwrap().value;
    assert_eq!(changed.address.as_deref(), Some("127.0.0.1:1"));
    assert_eq!(refused(client.change_peer(&stale, "b", &patch)).0, 412);
    assert_eq!(client.peers().unwrap().len(), 1);

    let to_b = NewAuthorization { volume: "v".to_owned(), peer: "b".to_owned() };
    assert!(client.authorize(&to_b).unwrap().is_new);
    assert!(!client.authorize(&to_b).unwrap().is_new);
    let nobody = NewAuthorization { peer: "x".to_owned(), ..to_b.clone() };
    assert_eq!(refused(client.authorize(&nobody)).0, 404);
    let listed = client.authorizations().unwrap();
    assert_eq!((listed.len(), listed[0].volume.as_str(), listed[0].last_point.as_ref()), (1, "v", None));
    let refusal = client.delete_peer(&ChangeOptions::none(), "b");
    assert_eq!(refused(refusal), (409, "peer-in-use".to_owned()));
    client.revoke_authorization("v", "b").unwrap();
    assert_eq!(refused(client.revoke_authorization("v", "b")), (409, "not-authorized".to_owned()));

    // Nothing listens there.
    client.create_replication(&from_b).unwrap();
    settle(&client);
    let shown = client.replication("copy").unwrap().value;
    assert_eq!((shown.state, shown.peer.as_deref()), (ReplicationState::PendingPeering, Some("b")));
    assert!(shown.last_error.is_some_and(|error| error.contains("cannot reach b at 127.0.0.1:1")));
    client.break_replication(&ChangeOptions::none(), "copy").unwrap();
    client.delete_replication(&ChangeOptions::none(), "copy").unwrap();
    client.delete_peer(&ChangeOptions::none(), "b").unwrap();
    assert_eq!(refused(client.peer("b")).0, 404);
}
