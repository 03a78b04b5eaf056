//! Export rules of a volume, and their changes while the volume is served.

use crate::mount::{mount, mount_from};
use crate::rig::Service;
use nfs_wire::v3::Status;

const ELSEWHERE: &str = "127.0.0.2";

#[test]
fn mount_without_a_rule_is_refused_and_the_warning_says_how_to_add_one() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "gcnv/premium", "--size", "4TiB"]);
    let (_, warned) = service.runs(&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"]);
    assert!(warned.contains("nobody may mount the volume v1"), "{warned}");
    assert!(warned.contains("plimsoll volume access add v1 --allow "), "{warned}");
    let refused = mount(&service, "/v1").unwrap_err().to_string();
    assert!(refused.contains("MNT3ERR_ACCES"), "{refused}");
    let (said, warned) = service.runs(&["volume", "access", "add", "v1", "--allow", "127.0.0.1"]);
    assert!(said.contains("127.0.0.1  read-write  none"), "{said}");
    assert_eq!(warned, "");
    mount(&service, "/v1").unwrap();
}

#[test]
fn volume_that_all_clients_may_mount_by_default_has_a_warning() {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "anf/premium", "--size", "4TiB"]);
    let create = |name, more: &[&str]| {
        let flags = ["volume", "create", name, "--pool", "p1", "--size", "1TiB"];
        service.runs(&[&flags[..], more].concat()).1
    };
    let warned = create("v1", &[]);
    assert!(warned.contains("all clients may mount the volume v1"), "{warned}");
    assert!(warned.contains("plimsoll volume access set v1 --allow 10.1.0.0/16"), "{warned}");
    assert_eq!(create("v2", &["--allow", "0.0.0.0/0,::/0"]), "");
}

#[test]
fn rules_change_under_mounted_clients() {
    let (service, _certificate) = Service::with_secured_volume("1TiB", &["--mode", "0777"]);
    let mut client = mount_from(&service, "/v1", ELSEWHERE).unwrap();
    let root = client.root();
    client.create(&root, "a", 0o644).unwrap();

    service.says(&["volume", "access", "add", "v1", "--allow", ELSEWHERE, "--read-only", "--at", "1"]);
    let refused = client.create(&root, "b", 0o644).unwrap_err();
    assert!(refused.is(Status::ROFS), "{refused}");
    mount(&service, "/v1").unwrap().create(&root, "c", 0o644).unwrap();

    service.says(&["volume", "access", "set", "v1", "--allow", "127.0.0.1"]);
    let refused = client.attributes(&root).unwrap_err();
    assert!(refused.is(Status::ACCES), "{refused}");
    assert!(mount_from(&service, "/v1", ELSEWHERE).is_err());

    service.says(&["volume", "access", "add", "v1", "--allow", "127.0.0.0/8", "--squash", "none"]);
    client.attributes(&root).unwrap();
    service.says(&["volume", "access", "add", "v1", "--allow", ELSEWHERE, "--deny", "--at", "1"]);
    assert!(client.attributes(&root).unwrap_err().is(Status::ACCES));
    service.says(&["volume", "access", "remove", "v1", "1"]);
    client.attributes(&root).unwrap();
    service.says(&["volume", "access", "add", "v1", "--allow", ELSEWHERE, "--xprtsec", "tls", "--at", "1"]);
    assert!(client.attributes(&root).unwrap_err().is(Status::ACCES), "a later rule does not let it in");
    service.says(&["volume", "access", "set", "v1", "--allow", ELSEWHERE, "--xprtsec", "tls"]);
    let told = service.says(&["volume", "show", "v1"]);
    assert!(told.contains("nolock,xprtsec=tls"), "{told}");
}

#[test]
fn rule_that_asks_for_tls_without_a_certificate_is_refused() {
    let service = Service::with_volume("1TiB", &[]);
    for (asked, missing) in [("tls", "--tls-key"), ("mtls", "--tls-client-ca")] {
        let add = ["volume", "access", "add", "v1", "--allow", ELSEWHERE, "--xprtsec", asked];
        let said = service.refuses(&add);
        assert!(said.contains("which no connection over nfsv") && said.contains(missing), "{said}");
    }
    let dir = service.data().to_str().unwrap();
    let export = ["export", dir, "--xprtsec", "tls", "--listen", "127.0.0.1:0", "--no-portmap"];
    assert!(service.refuses(&export).contains("no client could mount"));
}

#[test]
fn rules_go_into_a_file_and_come_back() {
    let (service, _certificate) = Service::with_secured_volume("1TiB", &[]);
    service.says(&[
        "volume",
        "access",
        "add",
        "v1",
        "--allow",
        "10.1.0.0/16,localhost",
        "--anonymous",
        "7:8",
        "--protocols",
        "nfsv3",
        "--xprtsec",
        "mtls",
    ]);
    let rules = service.json(&["volume", "access", "list", "v1"]);
    assert_eq!(rules["rules"][1]["clients"], serde_json::json!(["10.1.0.0/16", "localhost"]));
    assert_eq!(
        (&rules["rules"][1]["anonymous_uid"], &rules["rules"][1]["anonymous_gid"]),
        (&7.into(), &8.into())
    );
    assert_eq!(
        [0, 1].map(|place: usize| rules["rules"][place]["xprtsec"].as_str()),
        [Some("any"), Some("mtls")]
    );
    let file = service.data().join("rules.json");
    std::fs::write(&file, rules.to_string()).unwrap();
    let file = file.to_str().unwrap();
    service.says(&["volume", "access", "set", "v1", "--nobody"]);
    assert_eq!(service.json(&["volume", "access", "list", "v1"])["rules"], serde_json::json!([]));
    service.says(&["volume", "access", "set", "v1", "--file", file]);
    assert_eq!(service.json(&["volume", "access", "list", "v1"]), rules);

    std::fs::write(file, "{\"rules\": [{\"client\": []}]}").unwrap();
    assert!(service.refuses(&["volume", "access", "set", "v1", "--file", file]).contains("for the form"));
    std::fs::write(file, rules.to_string().replace("\"anonymous_uid\":7", "\"anonymous_uid\":4294967295"))
        .unwrap();
    let said = service.refuses(&["volume", "access", "set", "v1", "--file", file]);
    assert!(said.contains("anonymous user 4294967295 of an export rule; allowed: 0 to 4294967294"), "{said}");
    for (args, reason) in [
        (&["volume", "access", "add", "v1"][..], "--allow CLIENT"),
        (&["volume", "access", "add", "v1", "--read-only"], "--allow <CLIENT>"),
        (&["volume", "access", "set", "v1"], "--nobody"),
        (&["volume", "access", "add", "v1", "--allow", "10.0.0.300"], "allowed: an address"),
        (&["volume", "access", "add", "v1", "--allow", "10.0.0.1", "--at", "9"], "allowed: 1 to 3"),
        (&["volume", "access", "remove", "v1", "3"], "has no rule 3, it has 2"),
        (&["volume", "access", "list", "v2"], "there is no volume v2"),
    ] {
        let said = service.refuses(args);
        assert!(said.contains(reason), "{args:?}: {said}");
    }
}
