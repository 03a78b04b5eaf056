//! Requests of the client and their statuses.

use crate::rig::{Rig, refused};
use api_client::ChangeOptions;
use api_client::model::{
    Access, LevelQuery, Merge, NewPool, NewUser, NewVolume, Owner, PoolPatch, Protocol, Rule, Rules,
    SecurityStyle, Squash, State, VolumePatch, VolumeSettings,
};
use envelope::Level;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfs::qos::Kind;

const TIB: u64 = 1 << 40;

#[test]
fn creating_is_idempotent_by_name() {
    let rig = Rig::start();
    let client = rig.client();
    let pool = NewPool::new("p", Level::AnfPremium, 4 * TIB);
    let made = client.create_pool(&pool).unwrap();
    assert!(made.is_new);
    assert_eq!((made.value.size_bytes, made.value.level.to_string().as_str()), (4 * TIB, "anf/premium"));
    let again = client.create_pool(&pool).unwrap();
    assert!(!again.is_new);
    assert_eq!(again.value, made.value);
    let other = NewPool { size_bytes: 8 * TIB, ..pool };
    match client.create_pool(&other) {
        Err(api_client::Error::Refused(problem)) => {
            assert_eq!((problem.status, problem.differs.as_slice()), (409, &["size_bytes".to_owned()][..]));
            assert!(problem.detail.contains("the pool p exists with other properties"), "{problem}");
        }
        _ => panic!("made twice"),
    }
    let volume = NewVolume::new("v", "p", TIB);
    assert!(client.create_volume(&ChangeOptions::none(), &volume).unwrap().is_new);
    let again = client.create_volume(&ChangeOptions::none(), &volume).unwrap();
    assert!(!again.is_new);
    assert_eq!((again.value.path.as_str(), again.value.state), ("/v", State::Ready));
}

#[test]
fn differing_properties_have_the_names_of_the_request() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 * TIB)).unwrap();
    let volume = NewVolume::new("v", "p", TIB);
    client.create_volume(&ChangeOptions::none(), &volume).unwrap();
    let user = NewUser { windows_names: Some(vec!["A".to_owned()]), ..NewUser::new("alice", 1000) };
    client.create_user(&user).unwrap();
    let other = NewVolume { size_bytes: 2 * TIB, security_style: Some(SecurityStyle::Ntfs), ..volume };
    let error = client.create_volume(&ChangeOptions::none(), &other).err();
    assert_eq!(differing(error), ["size_bytes", "security_style"]);
    let other = NewUser { uid: 1001, windows_names: Some(vec!["B".to_owned()]), ..user };
    assert_eq!(differing(client.create_user(&other).err()), ["uid", "windows_names"]);
}

fn differing(error: Option<api_client::Error>) -> Vec<String> {
    match error {
        Some(api_client::Error::Refused(problem)) => problem.differs,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn names_survive_the_way_through_urls() {
    let rig = Rig::start();
    let client = rig.client();
    for name in ["Größe", "50%", "a?b#c&d=e", "..."] {
        client.create_pool(&NewPool::new(name, Level::Unlimited, 5)).unwrap();
        assert_eq!(client.pool(name).unwrap().value.name, name);
        client.delete_pool(&ChangeOptions::none(), name).unwrap();
    }
    assert_eq!(refused(client.pool("a/b")), (404, "not-found".to_owned()));
}

#[test]
fn volumes_are_made_changed_and_removed() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 * TIB)).unwrap();
    let rule = Rule {
        access: Access::ReadOnly,
        squash: Squash::None,
        ..Rule::for_clients(vec!["10.0.0.0/8".into()])
    };
    let new = NewVolume {
        rules: Some(vec![rule.clone()]),
        labels: BTreeMap::from([("team".into(), "eda".into()), ("tier".into(), "1".into())]),
        ..NewVolume::new("v", "p", TIB)
    };
    client.create_volume(&ChangeOptions::none(), &new).unwrap();
    let patch = VolumePatch {
        size_bytes: Some(2 * TIB),
        share: Some("tools".into()),
        labels: Some(BTreeMap::from([("team".into(), None), ("site".into(), Some("x".into()))])),
        ..VolumePatch::default()
    };
    let changed = client.change_volume(&ChangeOptions::none(), "v", &patch).unwrap().value;
    assert_eq!((changed.size_bytes, changed.path.as_str()), (2 * TIB, "/tools"));
    assert_eq!(changed.labels, BTreeMap::from([("tier".into(), "1".into()), ("site".into(), "x".into())]));
    assert_eq!(changed.rules, std::slice::from_ref(&rule));
    let rules = Rules { rules: vec![Rule::for_clients(vec!["::1".into(), "build".into()]), rule] };
    let replaced = client.replace_rules(&ChangeOptions::none(), "v", &rules).unwrap();
    assert_eq!(client.rules("v").unwrap(), replaced);
    assert_eq!(replaced.value, rules);
    // A change that needs more than the pool has.
    let too_large = VolumePatch { size_bytes: Some(8 * TIB), ..VolumePatch::default() };
    assert_eq!(refused(client.change_volume(&ChangeOptions::none(), "v", &too_large)).0, 422);
    let second = NewVolume::new("w", "p", 3 * TIB);
    match client.create_volume(&ChangeOptions::none(), &second) {
        Err(api_client::Error::Refused(problem)) => assert!(problem.status == 409 && problem.forceable),
        _ => panic!("more than the pool has"),
    }
    client.create_volume(&ChangeOptions::none().forced(true), &second).unwrap();
    assert_eq!(refused(client.delete_pool(&ChangeOptions::none(), "p")), (409, "in-use".to_owned()));
    rig.plane.users.store(1, Ordering::SeqCst);
    assert_eq!(refused(client.delete_volume(&ChangeOptions::none(), "v")), (409, "busy".to_owned()));
    client.delete_volume(&ChangeOptions::none().forced(true), "v").unwrap();
    assert_eq!(refused(client.volume("v")).0, 404);
    assert_eq!(refused(client.stats("v")).0, 404);
    let warnings = client.warnings().unwrap();
    assert!(
        warnings.iter().any(|warning| warning.kind == "no-rules" && warning.volume.as_deref() == Some("w"))
    );
}

#[test]
fn settings_are_set_and_unset_one_by_one() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 * TIB)).unwrap();
    let shape = envelope::Shape::all().next().unwrap();
    let settings = serde_json::from_value::<VolumeSettings>(
        serde_json::json!({ "shape": { "name": shape.name(), "scale_thousandths": 250 } }),
    );
    let new = NewVolume { settings: settings.unwrap(), ..NewVolume::new("v", "p", TIB) };
    assert!(client.create_volume(&ChangeOptions::none(), &new).unwrap().value.settings.shape.is_some());
    let unset = Merge::set(&VolumeSettings::default()).unset("shape");
    let patch = VolumePatch { settings: Some(unset), ..VolumePatch::default() };
    assert_eq!(
        client.change_volume(&ChangeOptions::none(), "v", &patch).unwrap().value.settings,
        VolumeSettings::default()
    );
}

#[test]
fn stats_say_what_a_volume_does_and_may_do() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::AnfPremium, 4 * TIB)).unwrap();
    let rules = Some(vec![Rule::for_clients(vec!["0.0.0.0/0".into()])]);
    let new = NewVolume { rules, ..NewVolume::new("v", "p", 2 * TIB) };
    client.create_volume(&ChangeOptions::none(), &new).unwrap();
    let namespace = rig.namespace.load();
    let traffic = namespace.exports()[0].volume.traffic();
    traffic.count(Kind::Read, 3, 3 * 4096, Duration::from_micros(100));
    let stats = client.stats("v").unwrap();
    assert_eq!((stats.read.operations, stats.read.bytes, stats.read.time_ns), (3, 12_288, 300_000));
    assert_eq!(stats.read.intervals[0].up_to_us, Some(128));
    assert_eq!((stats.write.operations, stats.waiting_calls, stats.used_files), (0, 0, 1));
    assert_eq!(stats.limits.total.bytes_per_second, Some(128 << 20));
    assert_eq!(stats.limits.owner, Owner::Volume);
    assert!(
        stats.limits.origin.iter().any(|origin| origin.formula.contains("64 MiB/s per TiB")),
        "{stats:?}"
    );
}

#[test]
fn levels_tell_their_limits_and_why() {
    let rig = Rig::start();
    let client = rig.client();
    let levels = client.levels().unwrap();
    assert_eq!(levels.len(), Level::all().len());
    let plain = client.level("gcnv/premium", &LevelQuery::default()).unwrap();
    assert!(plain.pool.is_none() && plain.level.title.contains("Premium"));
    let asked =
        LevelQuery { size_bytes: Some(4 * TIB), volume_size_bytes: Some(TIB), ..LevelQuery::default() };
    let limits = client.level("gcnv/premium", &asked).unwrap();
    assert_eq!(limits.volume.unwrap().total.bytes_per_second, Some(64 << 20));
    assert_eq!(
        client.level("filestore/premium", &LevelQuery::default()).unwrap().level.name.0,
        Level::FilestoreBasicSsd
    );
    assert_eq!(refused(client.level("anf/gold", &LevelQuery::default())).0, 404);
    let small = LevelQuery { size_bytes: Some(1), ..LevelQuery::default() };
    assert_eq!(refused(client.level("anf/premium", &small)), (422, "refused".to_owned()));
}

#[test]
fn clients_show_their_connections() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, TIB)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", TIB)).unwrap();
    let id = rig.namespace.load().exports()[0].volume.id();
    *rig.plane.clients.lock() = vec![api::ConnectedClient {
        address: "10.0.0.7".parse().unwrap(),
        connections: 16,
        connected: Duration::from_secs(60),
        encrypted: 12,
        verified: 4,
        waiting: 2,
        endpoints: BTreeMap::from([("10.0.0.2".parse().unwrap(), 12), ("10.0.0.3".parse().unwrap(), 4)]),
        volumes: BTreeMap::from([(id, 16), (vfs::VolumeId(1), 1)]),
        nfs4: vec![api::Nfs4State {
            owner: "Linux NFSv4.2 host".into(),
            protocols: "nfsv4.2".parse().unwrap(),
            sessions: 1,
            slots: 64,
            opens: 7,
            ranges: 3,
            delegations: 2,
            silent: Duration::from_secs(5),
        }],
    }];
    let clients = client.clients().unwrap();
    assert_eq!(clients.len(), 1);
    assert_eq!((clients[0].address.as_str(), clients[0].connections), ("10.0.0.7", 16));
    assert_eq!((clients[0].encrypted_connections, clients[0].verified_connections), (12, 4));
    let reached = clients[0].endpoints.iter().map(|at| (at.address.as_str(), at.connections));
    assert_eq!(reached.collect::<Vec<_>>(), [("10.0.0.2", 12), ("10.0.0.3", 4)]);
    assert_eq!(clients[0].volumes.len(), 1, "of volumes that are gone nothing is told");
    assert_eq!(clients[0].volumes[0].name, "v");
    let [nfs4] = &*clients[0].nfs4_clients else { panic!("{:?}", clients[0]) };
    assert_eq!(
        (nfs4.name.as_str(), &*nfs4.protocols),
        ("Linux NFSv4.2 host", &[api_client::model::Protocol::NfsV42][..])
    );
    assert_eq!((nfs4.sessions, nfs4.slots, nfs4.open_files), (1, 64, 7));
    assert_eq!((nfs4.locked_ranges, nfs4.delegations, nfs4.silent_seconds), (3, 2, 5));
}

#[test]
fn a_pool_is_changed_and_its_operations_remembered() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::AnfPremium, 4 * TIB)).unwrap();
    let patch = PoolPatch { size_bytes: Some(8 * TIB), ..PoolPatch::default() };
    assert_eq!(client.change_pool(&ChangeOptions::none(), "p", &patch).unwrap().value.size_bytes, 8 * TIB);
    let operation = client.delete_pool(&ChangeOptions::none(), "p").unwrap();
    assert_eq!((operation.verb.as_str(), operation.outcome.as_str()), ("delete", "succeeded"));
    assert_eq!(client.operation(operation.id).unwrap(), operation);
    let verbs: Vec<String> = client.operations(3).unwrap().into_iter().map(|one| one.verb).collect();
    assert_eq!(verbs, ["delete", "update", "create"]);
    assert_eq!(refused(client.operation(1 << 40)).0, 404);
}

#[test]
fn a_volume_says_how_it_is_mounted_at_each_of_its_addresses() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p1", Level::AnfUltra, 4 << 40)).unwrap();
    let rule = Rule { protocols: vec![Protocol::NfsV41], ..Rule::for_clients(vec!["10.1.0.0/16".into()]) };
    let new = NewVolume {
        protocols: Some(vec![Protocol::NfsV3, Protocol::NfsV41]),
        endpoints: Some(vec!["10.1.0.5".into(), "10.1.0.6".into()]),
        ..NewVolume::new("v1", "p1", 1 << 40)
    };
    client.create_volume(&ChangeOptions::none(), &new).unwrap();
    let shown = || {
        let targets = client.mount_targets("v1").unwrap().mount_targets;
        let of =
            |target: api_client::model::MountTarget| (target.protocol, target.address.unwrap(), target.locks);
        targets.into_iter().map(of).collect::<Vec<_>>()
    };
    let (five, six) = ("10.1.0.5".to_owned(), "10.1.0.6".to_owned());
    let v41 = [(Protocol::NfsV41, five.clone(), true), (Protocol::NfsV41, six.clone(), true)];
    client.replace_rules(&ChangeOptions::none(), "v1", &Rules { rules: vec![rule] }).unwrap();
    assert_eq!(shown(), v41, "no rule lets anybody in over version 3");
    client.replace_rules(&ChangeOptions::none(), "v1", &Rules { rules: vec![] }).unwrap();
    let [a, b] = v41;
    let both = [(Protocol::NfsV3, five, false), a, (Protocol::NfsV3, six, false), b];
    assert_eq!(shown(), both, "rules may come");
    let smb = client.smb().unwrap();
    assert_eq!((smb.address.as_deref(), smb.connections, smb.sessions), (Some("127.0.0.1:445"), 4, 3));
    assert_eq!((smb.open_files, smb.refused_logins), (2, 1));
    let nfs = client.nfs().unwrap();
    assert!(!nfs.v3_locks.reachable && nfs.v3_locks.reason.unwrap().contains("--no-portmap"));
}
