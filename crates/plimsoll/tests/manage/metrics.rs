//! Metrics of the service, compared with the calls that clients made.

use crate::counters::{Counters, MIB, client, look};
use crate::mount::mount;
use crate::rig::{Service, eventually};
use api_client::Client;
use nfs_wire::v3::StableHow;
use std::path::Path;
use std::process::Command;

/// Returns the counters once they include these calls. The service counts a call after it sends the reply.
fn look_after(client: &Client, reads: f64, writes: f64) -> Counters {
    eventually("all calls counted", || {
        let now = look(client);
        now.reads >= reads && now.writes >= writes
    });
    look(client)
}

/// Evicts every file of the volumes from the page cache; returns `false` on tmpfs, which has no other storage.
fn evict(dir: &Path) -> bool {
    let mut is_elsewhere = true;
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            is_elsewhere &= evict(&entry.path());
        } else if entry.metadata().unwrap().len() >= 1 << 20 {
            let file = std::fs::File::open(entry.path()).unwrap();
            file.sync_all().unwrap();
            if rustix::fs::fstatfs(&file).unwrap().f_type == TMPFS {
                is_elsewhere = false;
                continue;
            }
            // Pages that the kernel has in hand for a moment stay.
            eventually("no page is in memory", || {
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                pages_in_memory(&entry.path()) == 0
            });
        }
    }
    is_elsewhere
}

fn pages_in_memory(file: &Path) -> u64 {
    let counted = Command::new("fincore").args(["--noheadings", "--output", "PAGES"]).arg(file).output();
    String::from_utf8(counted.unwrap().stdout).unwrap().trim().parse().unwrap()
}

const TMPFS: rustix::fs::FsWord = 0x0102_1994;

#[test]
fn every_call_is_counted_for_what_it_was() {
    const CALLS: u32 = 10;
    let calls = f64::from(CALLS);
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "1GiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1GiB"];
    service.says(&[&create[..], &["--allow", "127.0.0.1", "--squash", "none"]].concat());
    let client = client(&service);
    assert_eq!(look(&client), Counters::default());
    let mut clients: Vec<_> = (0..3).map(|_| mount(&service, "/v1").unwrap()).collect();
    let root = clients[0].root();
    let file = clients[0].create(&root, "a", 0o644).unwrap();
    for call in 0..CALLS {
        let data = vec![7; 1 << 20];
        clients[0].write(&file, u64::from(call) << 20, &data, StableHow::Unstable).unwrap();
    }
    let read = |clients: &mut [wire_client::Client]| {
        for call in 0..CALLS {
            let at = u64::from(call) << 20;
            assert_eq!(clients[1].read(&file, at, 4096).unwrap().data, [7; 4096]);
        }
    };
    read(&mut clients);
    let wanted = Counters {
        // The third has mounted and asked nothing.
        connections: 2.0,
        reads: calls,
        read_bytes: calls * 4096.0,
        writes: calls,
        write_bytes: calls * MIB,
        from_memory: calls,
        ..Counters::default()
    };
    assert_eq!(look_after(&client, calls, calls), wanted);
    // The kernel begins to read what it does not have, and may have it before it has to say so.
    for pass in 2.. {
        let is_elsewhere = evict(&service.data().join("volumes"));
        read(&mut clients);
        let reads = calls * f64::from(pass);
        let Counters { from_memory, from_storage, .. } = look_after(&client, reads, calls);
        let wanted = Counters { reads, read_bytes: reads * 4096.0, from_memory, from_storage, ..wanted };
        assert_eq!(look(&client), wanted);
        assert_eq!(from_memory + from_storage, reads);
        assert!(is_elsewhere || from_storage == 0.0, "{from_storage}");
        if !is_elsewhere || from_storage > 0.0 {
            break;
        }
        assert!(pass < 20, "nothing is read from storage");
    }
    drop(clients);
    eventually("nobody there", || look(&client).connections == 0.0);
}
