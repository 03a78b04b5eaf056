//! Reverts, clones and restores over the API.

use crate::rig::{Rig, ended, refused};
use api_client::model::{
    NewClone, NewPool, NewSnapshot, NewVolume, Restore, SnapshotPatch, State, Timestamp,
};
use api_client::{ChangeOptions, Client};
use envelope::Level;

const TIB: u64 = 1 << 40;

/// A server with a volume `v` and its snapshots `s1` and `s2`.
fn start() -> (Rig, Client) {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 * TIB)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", TIB)).unwrap();
    for name in ["s1", "s2"] {
        let new = NewSnapshot { name: Some(name.to_owned()), ..NewSnapshot::default() };
        client.create_snapshot("v", &new).unwrap();
    }
    (rig, client)
}

fn names(client: &Client) -> Vec<String> {
    client.snapshots("v").unwrap().into_iter().map(|one| one.name).collect()
}

#[test]
fn revert_deletes_newer_snapshots_unless_one_is_locked() {
    let (_rig, client) = start();
    let none = ChangeOptions::none();
    let until = Some(Some(Timestamp("2999-01-01T00:00:00Z".to_owned())));
    assert_eq!(client.snapshot("v", "s1").unwrap().value.volume_size_bytes, Some(TIB));
    assert_eq!(refused(client.revert(&none, "v", "s9")), (404, "not-found".to_owned()));
    let stale = ChangeOptions::none().at("\"0.0\"".to_owned());
    assert_eq!(refused(client.revert(&stale, "v", "s1")).0, 412);
    let begun = client.revert(&none, "v", "s1").unwrap();
    assert_eq!((begun.kind.as_str(), begun.name.as_str(), begun.verb.as_str()), ("volume", "v", "revert"));
    let end = ended(&client, &begun);
    assert_eq!((end.outcome.as_str(), end.detail.as_str()), ("succeeded", "to the snapshot s1"));
    assert_eq!(client.volume("v").unwrap().value.state, State::Ready);
    while names(&client) != ["s1"] {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let new = NewSnapshot { name: Some("audit".to_owned()), ..NewSnapshot::default() };
    client.create_snapshot("v", &new).unwrap();
    let patch = SnapshotPatch { locked_until: until, ..SnapshotPatch::default() };
    client.change_snapshot(&none, "v", "audit", &patch).unwrap();
    match client.revert(&none, "v", "s1") {
        Err(api_client::Error::Refused(problem)) => {
            assert_eq!((problem.status, problem.kind.as_str()), (409, "urn:plimsoll:problem:locked"));
            assert!(
                problem.detail.contains("snapshot v/audit, which is locked until 2999-01-01"),
                "{}",
                problem.detail
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn clone_is_a_volume_that_says_its_origin() {
    let (_rig, client) = start();
    let none = ChangeOptions::none();
    let new = NewClone { name: "c".to_owned(), ..NewClone::default() };
    let begun = client.clone_volume(&none, "v", "s1", &new).unwrap();
    assert_eq!((begun.kind.as_str(), begun.name.as_str(), begun.verb.as_str()), ("volume", "c", "create"));
    assert_eq!(ended(&client, &begun).outcome, "succeeded");
    let volume = client.volume("c").unwrap().value;
    assert_eq!(
        (volume.clone_of.as_deref(), volume.size_bytes, volume.state),
        (Some("v/s1"), TIB, State::Ready)
    );
    assert_eq!(client.volume("v").unwrap().value.clone_of, None);
    let again = client.clone_volume(&none, "v", "s1", &new).unwrap();
    assert_eq!((again.outcome.as_str(), again.detail.as_str()), ("succeeded", "nothing to change"));
    for (new, status, word) in [
        (NewClone { size_bytes: Some(2 * TIB), ..new.clone() }, 409, "conflict"),
        (NewClone { name: "d".to_owned(), size_bytes: Some(TIB / 2), ..new.clone() }, 422, "invalid"),
        (NewClone { name: "d".to_owned(), size_bytes: Some(3 * TIB), ..new.clone() }, 409, "pool-full"),
        (NewClone { name: "d".to_owned(), pool: Some("q".to_owned()), ..new.clone() }, 404, "not-found"),
        (NewClone { name: "d".to_owned(), share: Some("v".to_owned()), ..new }, 409, "taken"),
    ] {
        assert_eq!(
            refused(client.clone_volume(&none, "v", "s1", &new)),
            (status, word.to_owned()),
            "{new:?}"
        );
    }
}

#[test]
fn restore_names_what_it_cannot_find() {
    let (_rig, client) = start();
    let restore = |paths: &[&str], to: Option<&str>| {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        client.restore_files("v", "s1", &Restore { paths, to: to.map(str::to_owned) })
    };
    for (paths, to, status) in [
        (&["a"][..], None, 422),
        (&[".."], None, 422),
        (&["a"], Some("d"), 422),
        (&[], None, 422),
        (&["a"; 11], None, 422),
    ] {
        assert_eq!(refused(restore(paths, to)), (status, "invalid".to_owned()), "{paths:?} {to:?}");
    }
    assert_eq!(
        refused(client.restore_files("v", "s9", &Restore { paths: vec!["a".to_owned()], to: None })).0,
        404
    );
}
