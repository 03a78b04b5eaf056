//! `plimsoll client check`: settings that a host lacks as a client. The command needs no service and changes nothing.

use crate::rig::plimsoll;
use serde_json::Value;
use std::process::Output;

fn check(more: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        plimsoll(None).args(["client", "check"]).args(more).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn the_status_says_whether_something_is_lacking() {
    let (status, said, wrong) = check(&["--json"]);
    let result: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}{wrong}"));
    let lacking = result["checks"].as_array().unwrap().iter().filter(|check| check["state"] == "lacking");
    let lacking = lacking.count();
    assert_eq!(result["lacking"], lacking);
    assert_eq!(status, if lacking > 0 { 3 } else { 0 }, "{said}");
    // The check shows the kernel's own value.
    let kernel = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
    let receive =
        result["checks"].as_array().unwrap().iter().find(|check| check["what"] == "net.ipv4.tcp_rmem");
    let receive = receive.unwrap();
    assert_eq!(receive["found"].as_str(), kernel.split_ascii_whitespace().last());
    assert_eq!(receive["source"]["name"], "ANF for EDA (Microsoft)");
    assert!(receive["how"].as_str().unwrap().starts_with("sysctl -w net.ipv4.tcp_rmem="));
}

#[test]
fn each_recommendation_is_shown_with_its_source_and_command() {
    let (_, said, _) = check(&[]);
    // Lines break where the terminal ends.
    let said = said.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("network interface") && said.contains("recommended: 16 Gbit/s"), "{said}");
    assert!(said.contains("Set-SmbClientConfiguration -ConnectionCountPerRssNetworkInterface 16"), "{said}");
    let (_, said, _) = check(&["--provider", "filestore"]);
    assert!(!said.contains("SmbClient"), "{said}");
}

#[test]
fn path_off_nfs_or_unknown_provider_is_refused() {
    for (args, status, reason) in [
        (&["/proc"][..], 1, "/proc is on proc, not on an NFS mount; allowed: a directory of one"),
        (&["/nowhere"], 1, "cannot read /nowhere"),
        (&["--provider", "aws"], 2, "possible values: anf, gcnv, filestore, plimsoll"),
    ] {
        let (ended, said, wrong) = check(args);
        assert!(ended == status && wrong.contains(reason), "{args:?}: {ended} {said}{wrong}");
    }
}
