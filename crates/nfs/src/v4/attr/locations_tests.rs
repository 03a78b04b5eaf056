//! Locations of volumes.

use super::*;
use crate::state::nfs4::ServiceState;
use crate::testing::v4::Client;
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::attr::{FsLocation, FsLocations, Pathname};
use nfs_wire::v4::{Component, Text};
use xdr::Encode;

fn encoded_locations(env: TestEnv, minor: u32, path: &[&[u8]]) -> Vec<u8> {
    let (mask, value) = Client::new(env, minor).attrs(path, &[attr::FS_LOCATIONS]);
    assert_eq!(mask, Bitmap::of(&[attr::FS_LOCATIONS]));
    value
}

fn env(path: &str) -> TestEnv {
    let endpoints = ["10.1.0.7", "10.1.0.1", "fd00::9"].map(|address| address.parse().unwrap());
    TestEnv::new([export(path, 1, vec![rule(&[])]).at(endpoints.to_vec())], vec![])
}

fn expected(path: &[&[u8]], servers: &[&str]) -> Vec<u8> {
    let path = || Pathname(path.iter().map(|name| Component(name)).collect());
    let server = servers.iter().map(|server| Text(server.as_bytes())).collect();
    FsLocations { fs_root: path(), locations: vec![FsLocation { server, rootpath: path() }] }.to_bytes()
}

#[test]
fn a_volume_is_at_all_its_addresses_and_the_tree_where_it_was_reached() {
    for minor in 0..=2 {
        let path: &[&[u8]] = &[b"a", b"b"];
        let all = expected(path, &["10.1.0.1", "10.1.0.7", "fd00::9"]);
        assert_eq!(encoded_locations(env("/a/b"), minor, path), all);
        assert_eq!(encoded_locations(env("/a/b"), minor, &path[..1]), expected(&[], &["10.1.0.1"]));
        assert_eq!(encoded_locations(env("/a/b"), minor, &[]), expected(&[], &["10.1.0.1"]));
        assert_eq!(
            encoded_locations(env("/"), minor, &[]),
            expected(&[], &["10.1.0.1", "10.1.0.7", "fd00::9"])
        );
    }
}

#[test]
fn a_port_that_is_not_the_usual_one_is_told() {
    let mut env = env("/a");
    env.service.v4 = ServiceState::new(1, b"tests", 30).at_port(0x1f90);
    env.local = "::ffff:10.1.0.7";
    let all = expected(&[b"a"], &["10.1.0.7.31.144", "10.1.0.1.31.144", "fd00::9.31.144"]);
    assert_eq!(encoded_locations(env, 1, &[b"a"]), all);
}
