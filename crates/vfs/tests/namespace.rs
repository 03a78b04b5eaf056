//! The namespace: which exports a client reaches, by which names, and under which rules.

use std::net::IpAddr;
use std::sync::Arc;
use vfs::{
    Durability, Export, ExportId, ExportRule, Namespace, Origin, Protection, ProtocolId, Time, Volume,
    VolumeId,
};
use vfs_testing::MemFs;

fn namespace(exports: &[(&str, &[&str])]) -> Namespace {
    let fs = MemFs::new(Arc::new(Time::default));
    let volume = Arc::new(Volume::new(VolumeId(1), "v", Arc::new(fs), Durability::Sync, 1));
    let export = |(number, &(path, clients)): (u64, &(&str, &[&str]))| {
        let clients = clients.iter().map(|range| range.parse().unwrap()).collect();
        let rules = vec![ExportRule { clients, ..ExportRule::everybody() }];
        Export { id: ExportId(number), ..Export::new(path, Arc::clone(&volume), rules) }
    };
    Namespace::new((1..).zip(exports).map(export))
}

#[test]
fn names_lead_to_the_exports_that_admit_the_client() {
    let served = namespace(&[
        ("/a/b", &[]),
        ("/a/c", &["10.0.0.0/8"]),
        ("/ab", &["10.0.0.0/8"]),
        ("/x/y/z", &["192.0.2.1"]),
        ("/a/b/below", &[]),
    ]);
    let names = |client: &str, path: &[&str]| {
        let root = served.root(Origin::of(client.parse().unwrap()));
        let dir = path.iter().try_fold(root, |dir, name| dir.lookup(name))?;
        Some((dir.list().into_iter().collect::<Vec<_>>(), dir.export().map(|export| export.id.0)))
    };
    assert_eq!(names("10.1.1.1", &[]), Some((vec!["a", "ab"], None)));
    assert_eq!(names("192.0.2.1", &[]), Some((vec!["a", "x"], None)));
    assert_eq!(names("10.1.1.1", &["a"]), Some((vec!["b", "c"], None)));
    assert_eq!(names("192.0.2.1", &["a"]), Some((vec!["b"], None)));
    assert_eq!(names("192.0.2.1", &["a", "b"]), Some((vec!["below"], Some(1))), "both leads on and is one");
    assert_eq!(names("192.0.2.1", &["x", "y", "z"]), Some((vec![], Some(4))));
    for hidden in [&["ab"][..], &["a", "c"], &["a", ""], &[""], &["a", "b", "below", "more"]] {
        assert_eq!(names("192.0.2.1", hidden), None, "{hidden:?}");
    }
    let root = served.root(Origin::of("10.1.1.1".parse().unwrap()));
    assert_eq!(root.lookup("a").map(|dir| dir.path()), Some("/a"));
}

#[test]
fn exports_lead_on_to_those_below_their_paths() {
    let everybody: &[&str] = &[];
    let served = namespace(&[
        ("/a", everybody),
        ("/a-b", everybody),
        ("/a/b/c", &["192.0.2.1"]),
        ("/ab", everybody),
        ("/ab/c", everybody),
    ]);
    let leading: Vec<_> = (1..=6).filter(|&number| served.leads_on(ExportId(number))).collect();
    assert_eq!(leading, [1, 4], "whichever clients they admit");
    let below = |client: &str, name: &str| {
        let dir = served.root(Origin::of(client.parse().unwrap())).lookup(name).unwrap();
        dir.exports_below().map(|export| export.id.0).collect::<Vec<_>>()
    };
    assert_eq!((below("192.0.2.1", "a"), below("10.0.0.1", "a")), (vec![3], vec![]));
    assert_eq!(below("10.0.0.1", "ab"), [5]);
    let top = namespace(&[("/", everybody), ("/a", everybody)]);
    assert!(top.leads_on(ExportId(1)) && !top.leads_on(ExportId(2)));
}

#[test]
fn an_export_may_be_the_root() {
    let served = namespace(&[("/", &[]), ("/a", &[])]);
    let root = served.root(Origin::of("10.1.1.1".parse().unwrap()));
    assert_eq!((root.path(), root.export().map(|export| export.id.0)), ("/", Some(1)));
    assert_eq!(root.list().into_iter().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn rule_without_access_overrides_later_rules() {
    let no_access = ExportRule {
        clients: vec!["10.1.0.0/16".parse().unwrap()],
        no_access: true,
        ..ExportRule::everybody()
    };
    let fs = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
    let volume = Volume::new(VolumeId(1), "a", Arc::new(fs), Durability::Sync, 1);
    let rules = vec![no_access, ExportRule::everybody()];
    let export = Export::new("/a", Arc::new(volume), rules);
    let rule = |client: &str| export.rule(Origin::of(client.parse().unwrap()));
    assert!(rule("10.1.2.3").is_none());
    assert!(rule("10.2.2.3").is_some());
    let namespace = Namespace::new([export]);
    let admits = |client: &str| namespace.admits_from(client.parse().unwrap(), ProtocolId::default());
    assert_eq!(["10.1.2.3", "10.2.2.3"].map(admits), [false, true]);
}

#[test]
fn rule_with_protection_overrides_later_rules() {
    let fs = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
    let volume = Arc::new(Volume::new(VolumeId(1), "a", Arc::new(fs), Durability::Sync, 1));
    let of = |protection| ExportRule { protection, ..ExportRule::everybody() };
    let every = [Protection::Plain, Protection::Encrypted, Protection::Verified];
    for least in every {
        let rules = vec![of(least), ExportRule::everybody()];
        let export = Export::new("/a", Arc::clone(&volume), rules);
        for protection in every {
            let origin = Origin { protection, ..Origin::of("10.1.2.3".parse().unwrap()) };
            assert_eq!(export.rule(origin).is_some(), protection >= least, "{protection:?} at {least:?}");
        }
    }
}

#[test]
fn an_endpoint_has_the_exports_that_name_it_and_no_other_rules() {
    let fs = MemFs::new(Arc::new(|| Time { seconds: 1, nanos: 0 }));
    let volume = Arc::new(Volume::new(VolumeId(1), "a", Arc::new(fs), Durability::Sync, 1));
    let rule = ExportRule { clients: vec!["10.1.0.0/16".parse().unwrap()], ..ExportRule::everybody() };
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let export = Export::new("/a", volume, vec![rule]).at(vec![ip("192.0.2.1"), ip("192.0.2.2")]);
    let admits = |client, endpoint: Option<&str>| {
        export.rule(Origin { endpoint: endpoint.map(ip), ..Origin::of(ip(client)) }).is_some()
    };
    assert!(admits("10.1.2.3", None) && admits("10.1.2.3", Some("192.0.2.2")));
    assert!(!admits("10.1.2.3", Some("192.0.2.3")), "another volume's endpoint");
    assert!(!admits("10.2.2.3", Some("192.0.2.2")), "the rules are the same at each");
}
