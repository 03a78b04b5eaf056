//! Volumes at several addresses of this machine.

use crate::rig::{Service, eventually};
use nfs_wire::v3::Status;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use wire_client::Error;
use wire_client::{Client, Identity};

/// No test here has an endpoint at a later address of 127.0.0.0/24.
const LAST: u8 = 50;
const SIX: &str = "127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5,127.0.0.6,127.0.0.7";

fn mount_at(service: &Service, address: &str, path: &str) -> Result<Client, Error> {
    let target = format!("nfs://{address}:{}{path}", service.nfs().port()).parse().unwrap();
    Client::mount(&target, &Identity::new(0, 0))
}

fn volume(service: &Service, name: &str, more: &[&str]) -> (String, String) {
    let create = ["volume", "create", name, "--pool", "p1", "--size", "1TiB"];
    service.runs(&[&create[..], &["--allow", "127.0.0.0/8"], more].concat())
}

/// A service with a pool, at a port that is free at the other addresses, too: clients of other tests call from some of them.
fn furnished() -> Service {
    let is_free = |service: &Service| {
        let port = service.nfs().port();
        (2..=LAST).all(|host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)).is_ok())
    };
    let service = (0..20).map(|_| Service::start()).find(is_free).expect("a port");
    service.says(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
    service
}

#[test]
fn a_volume_is_mounted_at_six_addresses_and_its_clients_are_spread() {
    let mut service = furnished();
    let versions = "nfsv3,nfsv4.1";
    let (said, warned) = volume(&service, "v1", &["--endpoint", SIX, "--protocols", versions]);
    assert_eq!(warned, "");
    let port = service.nfs().port();
    for address in SIX.split(',') {
        for options in [
            format!("vers=3,proto=tcp,port={port},mountport={port},nolock"),
            format!("vers=4.1,proto=tcp,port={port}"),
        ] {
            let line = format!("mount -t nfs -o {options} {address}:/v1 /mnt\n");
            assert_eq!(said.matches(&line).count(), 1, "{address}: {said}");
        }
    }
    assert_eq!(service.json(&["volume", "show", "v1"])["endpoints"].as_array().unwrap().len(), 6);
    let clients: Vec<Client> =
        SIX.split(',').map(|address| mount_at(&service, address, "/v1").unwrap()).collect();
    let mut at_home = mount_at(&service, "127.0.0.1", "/v1").unwrap();
    let root = at_home.root();
    at_home.create(&root, "a", 0o644).unwrap();
    for mut client in clients {
        client.lookup(&root, "a").unwrap();
        client.attributes(&root).unwrap();
    }
    service.kill();
    service.start_again();
    mount_at(&service, "127.0.0.7", "/v1").unwrap().lookup(&root, "a").unwrap();
}

#[test]
fn an_endpoint_shows_no_other_volume() {
    let service = furnished();
    volume(&service, "v1", &["--endpoint", "127.0.0.12"]);
    volume(&service, "v2", &["--endpoint", "127.0.0.13"]);
    volume(&service, "v3", &[]);
    let refused = |address: &str, path: &str| mount_at(&service, address, path).unwrap_err().to_string();
    for (address, path) in
        [("127.0.0.12", "/v2"), ("127.0.0.12", "/v3"), ("127.0.0.13", "/v1"), ("127.0.0.13", "/x")]
    {
        assert!(refused(address, path).contains("MNT3ERR_NOENT"), "{address}{path}");
    }
    // A handle that was got elsewhere is no way around it.
    let of_v3 = mount_at(&service, "127.0.0.1", "/v3").unwrap().root();
    let mut client = mount_at(&service, "127.0.0.12", "/v1").unwrap();
    let root = client.root();
    client.attributes(&root).unwrap();
    assert!(client.attributes(&of_v3).unwrap_err().is(Status::ACCES));
    // Its own rules hold at its endpoint, too.
    service.says(&["volume", "access", "set", "v1", "--allow", "10.0.0.1"]);
    assert!(client.attributes(&root).unwrap_err().is(Status::ACCES));
    assert!(refused("127.0.0.12", "/v1").contains("MNT3ERR_ACCES"));
    service.says(&["volume", "access", "set", "v1", "--allow", "127.0.0.1"]);
    client.attributes(&root).unwrap();
    // Endpoints may be shared, and change under mounted clients.
    service.says(&["volume", "update", "v3", "--endpoint", "127.0.0.12"]);
    client.attributes(&of_v3).unwrap();
    service.says(&["volume", "update", "v1", "--no-endpoints"]);
    assert!(client.attributes(&root).unwrap_err().is(Status::ACCES));
    service.says(&["volume", "delete", "v3", "--yes", "--force"]);
    assert!(matches!(mount_at(&service, "127.0.0.12", "/v1"), Err(Error::Io { .. })), "nobody listens there");
    mount_at(&service, "127.0.0.1", "/v1").unwrap();
}

#[test]
fn connections_of_each_endpoint_are_shown() {
    let service = furnished();
    volume(&service, "v1", &["--endpoint", "127.0.0.22,127.0.0.23"]);
    let mut clients: Vec<Client> = ["127.0.0.22", "127.0.0.22", "127.0.0.23", "127.0.0.1"]
        .map(|address| mount_at(&service, address, "/v1").unwrap())
        .into();
    for client in &mut clients {
        let root = client.root();
        client.attributes(&root).unwrap();
    }
    let is_counted = |listed: &Value| listed["items"][0]["volumes"][0]["connections"] == 4;
    eventually("all are counted", || is_counted(&service.json(&["client", "list"])));
    let listed = service.json(&["client", "list"]);
    let reached = [("127.0.0.1", 1), ("127.0.0.22", 2), ("127.0.0.23", 1)];
    let reached = reached.map(|(address, count)| json!({"address": address, "connections": count}));
    assert_eq!(listed["items"][0]["endpoints"], json!(reached));
    let said = service.says(&["client", "list"]);
    assert!(said.contains("127.0.0.1 (1), 127.0.0.22 (2), 127.0.0.23 (1)"), "{said}");
    let shown = service.says(&["volume", "show", "v1"]);
    assert!(
        shown.contains("127.0.0.22, 2 connections") && shown.contains("127.0.0.23, 1 connection\n"),
        "{shown}"
    );
    let metrics = crate::counters::client(&service).metrics().unwrap();
    let count = |name: &str, labels: &[(&str, &str)]| metrics.count(name, labels);
    for (address, connections) in [("127.0.0.1", 1), ("127.0.0.22", 2), ("127.0.0.23", 1)] {
        assert_eq!(count("plimsoll_endpoint_connections", &[("endpoint", address)]), Some(connections));
    }
    let labels = [("volume", "v1"), ("endpoint", "127.0.0.22")];
    assert_eq!(count("plimsoll_volume_endpoint_connections", &labels), Some(2));
    assert_eq!(count("plimsoll_volume_endpoint_up", &labels), Some(1));
    assert_eq!(count("plimsoll_volume_connections", &labels[..1]), Some(4));
}

#[test]
fn endpoint_that_this_machine_lacks_is_warned_of_and_invalid_ones_are_refused() {
    let mut service = furnished();
    // Kept for documentation (RFC 5737): nobody has it.
    let (said, warned) = volume(&service, "v1", &["--endpoint", "127.0.0.32", "--endpoint", "192.0.2.77"]);
    assert!(said.contains("192.0.2.77:/v1") && said.contains(" 127.0.0.1:/v1"), "{said}");
    let why = "the volume v1 is not served at its endpoint 192.0.2.77: it is no address of this machine";
    assert!(warned.contains(why), "{warned}");
    assert!(service.says(&["warning", "list"]).contains(why));
    let shown = service.says(&["volume", "show", "v1"]);
    assert!(shown.contains("192.0.2.77, not served there: it is no address of this machine"), "{shown}");
    mount_at(&service, "127.0.0.32", "/v1").unwrap();
    let metrics = crate::counters::client(&service).metrics().unwrap();
    let labels = [("volume", "v1"), ("endpoint", "192.0.2.77")];
    assert_eq!(metrics.count("plimsoll_volume_endpoint_up", &labels), Some(0));

    // It is taken by another program first, and served when that one ends.
    let taken = std::net::TcpListener::bind(("127.0.0.33", service.nfs().port())).unwrap();
    let (_, warned) = service.runs(&["volume", "update", "v1", "--endpoint", "127.0.0.33,127.0.0.1"]);
    assert!(warned.contains("another program listens there on port"), "{warned}");
    drop(taken);
    eventually("it is served", || mount_at(&service, "127.0.0.33", "/v1").is_ok());
    assert!(!service.says(&["warning", "list"]).contains("127.0.0.33"));
    mount_at(&service, "127.0.0.1", "/v1").unwrap();
    for (endpoint, reason) in [
        ("0.0.0.0", "the endpoint 0.0.0.0; allowed: the address of one machine"),
        ("224.0.0.1", "the endpoint 224.0.0.1"),
        ("127.0.0.2,127.0.0.2", "the endpoint 127.0.0.2, given twice"),
        ("storage-7", "allowed: an IP address"),
    ] {
        let refused = service.refuses(&["volume", "update", "v1", "--endpoint", endpoint]);
        assert!(refused.contains(reason), "{endpoint}: {refused}");
    }
    // A service that cannot listen at an endpoint starts all the same.
    service.says(&["volume", "update", "v1", "--endpoint", "192.0.2.77"]);
    service.stop();
    service.start_again();
    mount_at(&service, "127.0.0.1", "/v1").unwrap();
    assert!(service.says(&["status"]).contains("192.0.2.77"));
}

#[test]
fn a_measurement_deals_its_clients_to_the_endpoints() {
    let service = furnished();
    volume(&service, "v1", &["--endpoint", "127.0.0.42,127.0.0.43", "--mode", "0777"]);
    let scenario = service.data().join("own.toml");
    let text = "name = \"own\"\ntitle = \"Own\"\n[[series]]\nname = \"reads\"\nblocks = [\"4k\"]\n\
                pattern = \"random\"\nreads = [100]\nclients = [3]\njobs = 1\ndepths = [1]\nworking_set = \"12m\"\n";
    std::fs::write(&scenario, text).unwrap();
    let port = service.nfs().port();
    let result = service.data().join("own.json");
    let target = |address: &str| format!("nfs://{address}:{port}/v1");
    let (first, second) = (target("127.0.0.42"), target("127.0.0.43"));
    let run = |targets: &[&str]| {
        // A second in which the machine stands still has no result.
        let how = ["--preset", "quick", "--time", "3", "--repetitions", "1"];
        let output = ["--output", result.to_str().unwrap()];
        [&["bench", "run", scenario.to_str().unwrap()], targets, &how, &output].concat().join("\n")
    };
    let said = run(&["--target", &first, "--target", &second]);
    let said = service.says(&said.split('\n').collect::<Vec<_>>());
    assert!(said.contains(&format!("127.0.0.42:{port} (2), 127.0.0.43:{port} (1)")), "{said}");
    let result: Value = serde_json::from_slice(&std::fs::read(&result).unwrap()).unwrap();
    let clients = result["cells"][0]["measurements"][0]["clients"].as_array().unwrap().clone();
    let endpoints: Vec<&Value> = clients.iter().map(|client| &client["endpoint"]).collect();
    let at = |last: u8| json!(format!("127.0.0.{last}:{port}"));
    assert_eq!(endpoints, [&at(42), &at(43), &at(42)]);
    let other = target("127.0.0.43").replace("/v1", "/v2");
    let refused = run(&["--target", &first, "--target", &other]);
    let refused = service.refuses(&refused.split('\n').collect::<Vec<_>>());
    assert!(refused.contains("are different exports"), "{refused}");
}
