//! Counters of a volume.
#![allow(dead_code, reason = "each test binary uses its own part")]

use crate::rig::Service;
use api_client::{Client, Samples, Target};

pub const MIB: f64 = 1_048_576.0;

/// The API's client, with the first token.
pub fn client(service: &Service) -> Client {
    let url = service.announcement()["api"].as_str().unwrap().to_owned();
    let token = std::fs::read_to_string(service.data().join("admin.token")).unwrap();
    Client::new(&Target { url, token, issuers: None, socket: None }).unwrap()
}

/// The counters of the volume `v1` that a benchmark reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    pub connections: f64,
    pub reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub write_bytes: f64,
    pub throttled: f64,
    pub throttle_s: f64,
    pub from_memory: f64,
    pub from_storage: f64,
}

impl Counters {
    fn of(samples: &Samples) -> Self {
        let all = |name: &str| samples.sum(&format!("plimsoll_volume_{name}"), &[("volume", "v1")]).unwrap();
        let one = |name: &str, direction: &str| {
            let labels = [("volume", "v1"), ("direction", direction)];
            samples.sum(&format!("plimsoll_volume_{name}"), &labels).unwrap()
        };
        Self {
            connections: all("connections"),
            reads: one("operations_total", "read"),
            read_bytes: one("bytes_total", "read"),
            writes: one("operations_total", "write"),
            write_bytes: one("bytes_total", "write"),
            throttled: all("throttled_operations_total"),
            throttle_s: all("throttle_seconds_total"),
            from_memory: all("reads_from_memory_total"),
            from_storage: all("reads_from_storage_total"),
        }
    }
}

/// The counters now.
pub fn look(client: &Client) -> Counters {
    Counters::of(&client.metrics().unwrap())
}
